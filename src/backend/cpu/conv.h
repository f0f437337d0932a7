/* A convolution of any dtype and algorithm: its three passes are one geometry, read in three directions.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_H
#define SITU_BACKEND_CPU_CONV_H

#include "cpu.h"

/* x [images, groups * channels, height, width], w [groups * outputs, channels, kernel], y [images, groups * outputs,
   out_height, out_width], all without gaps and of one dtype. The pass says which of them is the result. last: x and y
   are channels_last; only situ__conv_blocked takes these. */
typedef struct situ__conv {
  situ_conv_pass pass;
  const situ_window *window;
  situ_dtype dtype;
  bool last;
  char *x, *w, *y, *bias; /* bias: NULL, or added to the result of the first two passes */
  int64_t images, groups, channels, outputs, height, width, out_height, out_width;
} situ__conv;

/* im2col and a matrix product: F32 and F64. */
situ_status situ__conv_unfold(const situ__conv *geometry);
/* Forward at stride 1, as a product with shifted images: F32 and F64. Returns false, having done nothing, if it does
   not suit. */
bool situ__conv_shifted(const situ__conv *geometry, situ_status *status);
/* By oneDNN, several images at a time: F32. Returns false, having done nothing, if oneDNN has no implementation or no
   faster one. */
bool situ__conv_blocked(const situ__conv *geometry, situ_status *status);
/* Whether it would return true. */
bool situ__conv_suits_blocked(const situ__conv *geometry);
/* Direct loops, exact: I64. */
void situ__conv_whole(const situ__conv *geometry);

#endif
