/* Windows of a plane as a matrix (im2col), and back (col2im): turns a convolution into a matrix product.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_IM2COL_H
#define SITU_BACKEND_CPU_IM2COL_H

#include "backend/cpu/common/cpu.h"

/* Channels of height x width, read through windows, and the part of the matrix to compute: each window of the rows
   [row, row + rows) is a column of the matrix, each element of the kernel in each channel a row. */
typedef struct situ__im2col {
  const situ_window *window;
  int64_t channels, height, width;
  int64_t out_width, row, rows;
  int64_t ld; /* stride between the matrix's rows; a multiple of 16 */
} situ__im2col;

/* Rows [row, row + rows) of planes height x width, each ld long: `left` zeros, the plane's row, zeros. Rows outside of
   the plane are 0. */
typedef struct situ__pad {
  int64_t channels, height, width, row, rows, left, ld;
} situ__pad;

/* Every second row and column of a plane, from `row` and from `left` columns before the plane on: the elements of even
   and of odd rows and columns are 4 planes, `size` elements apart, of rows that are `line` long. Number 2 a + b has the
   rows whose number is a, and the columns whose number is b, after a multiple of 2; what is outside of x is 0. */
typedef struct situ__split {
  int64_t height, width, row, left, rows, line, size;
  bool first; /* only the first of the planes */
} situ__split;

typedef struct situ__im2col_kernels {
  /* columns = x; the padding is 0. Elements of a row past the windows, up to ld, are undefined. */
  void (*im2col)(const situ__im2col *u, const void *x, void *columns);
  /* x += columns. */
  void (*col2im)(const situ__im2col *u, const void *columns, void *x);
  /* padded = x, plane after plane. May write a vector past the last row. */
  void (*pad)(const situ__pad *p, const void *x, void *padded);
  /* May write a vector past the last row of each plane. */
  void (*split)(const situ__split *s, const void *x, void *planes);
} situ__im2col_kernels;
/* dtype F32 or F64; the kernels for this processor. */
const situ__im2col_kernels *situ__im2col_kernels_for(situ_dtype dtype);

#endif
