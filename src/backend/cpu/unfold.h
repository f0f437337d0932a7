/* Windows of a plane laid out as a matrix, and back: what makes a convolution a matrix product.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_UNFOLD_H
#define SITU_BACKEND_CPU_UNFOLD_H

#include "cpu.h"

/* Channels of height x width that are seen through windows, and the part of it that is asked for: of rows
   [row, row + rows) of windows each one is a column of the matrix, each element of the kernel in each channel a row of it. */
typedef struct situ__unfold {
  const situ_window *window;
  int64_t channels, height, width;
  int64_t out_width, row, rows;
  int64_t ld; /* from one row of the matrix to the next; a multiple of 16 */
} situ__unfold;

typedef struct situ__unfold_kernels {
  /* columns = x; the padding is 0; up to ld the rows of the matrix have values that mean nothing. */
  void (*unfold)(const situ__unfold *u, const void *x, void *columns);
  /* x += columns. */
  void (*fold)(const situ__unfold *u, const void *columns, void *x);
} situ__unfold_kernels;
/* dtype F32 or F64; for this processor. */
const situ__unfold_kernels *situ__unfold_kernels_for(situ_dtype dtype);

#endif
