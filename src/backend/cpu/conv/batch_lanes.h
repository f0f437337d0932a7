/* Kernels of convolution with an image in each lane of a vector: a place of a plane is a vector, so no lane is padding
   and no load is unaligned, whatever the size of the images.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_BATCH_LANES_H
#define SITU_BACKEND_CPU_CONV_BATCH_LANES_H

#include "conv.h"

/* Elements of a plane that follow each other, in each of up to as many images as a vector has lanes. */
typedef struct situ__batch_lanes_run {
  void *image;  /* the first one's */
  int64_t next; /* elements from image to image */
  int images;
  int64_t count;
  void *lanes;  /* a vector for each element, */
  int64_t step; /* so many vectors apart; scatter takes 1 */
} situ__batch_lanes_run;

/* sums = (add: +) y times x, for as many outputs and rows of the matrix as the tile has: vectors, added up over
   windows. */
typedef struct situ__batch_lanes_sum {
  const void *y;         /* a vector for each output of the tile in the first window, then those of the next window */
  const void *x;         /* in the first window */
  const int64_t *at;     /* where each row of the matrix begins, in elements after x */
  int64_t rows, width;   /* windows, */
  int64_t x_row, x_step; /* and elements of x from a row of them to the next, from one to the next */
  void *sums;
  int64_t sums_row; /* elements from output to output */
  bool add;
} situ__batch_lanes_sum;
typedef void (*situ__batch_lanes_sum_fn)(const situ__batch_lanes_sum *sum);

typedef struct situ__batch_lanes_kernels {
  int lanes;
  /* Lanes without an image are 0. */
  void (*gather)(const situ__batch_lanes_run *run);
  void (*scatter)(const situ__batch_lanes_run *run);
  situ__batch_lanes_sum_fn sum[SITU__CONV_WIDTHS][SITU__CONV_HEIGHTS]; /* as situ__conv_kernels' tiles */
  /* to = the sum of each vector's lanes. */
  void (*add_lanes)(const void *vectors, int64_t count, void *to);
} situ__batch_lanes_kernels;
/* dtype F32 or F64; the kernels for this processor. */
const situ__batch_lanes_kernels *situ__batch_lanes_kernels_for(situ_dtype dtype);

#endif
