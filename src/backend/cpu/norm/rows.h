/* Softmax, norms and their gradients on rows and columns of one compute type, compiled for every instruction set
   (isa/rows.c). Rows are contiguous; columns are `width` wide, `ld` apart. Results never overlap operands.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ROWS_H
#define SITU_BACKEND_CPU_ROWS_H

#include "backend/cpu/reduce/fold.h"

enum { SITU__COLUMNS = 256 }; /* the widest strip of columns of one call */

/* Operands of one norm, row after row. centred: layer_norm; else rms_norm (no mean, no bias). weight, bias and dx may
   be NULL; the gradient adds to dweight and dbias. */
typedef struct situ__norm_rows {
  bool centred;
  int64_t rows, width;
  double eps;
  const void *x, *weight, *bias;
  void *y, *mean, *rstd;
  const void *g;
  void *dx, *dweight, *dbias;
  void *scratch[2]; /* width elements each, for the gradient */
} situ__norm_rows;

typedef struct situ__row_kernels {
  /* masked: a line that is all -Inf gives 0. */
  void (*softmax)(bool log, bool masked, const void *x, void *y, int64_t rows, int64_t width);
  void (*softmax_columns)(bool log, bool masked, const void *x, void *y, int64_t rows, int64_t width, int64_t ld);
  /* From y and g. */
  void (*softmax_grad)(bool log, const void *y, const void *g, void *dx, int64_t rows, int64_t width);
  void (*softmax_grad_columns)(bool log, const void *y, const void *g, void *dx, int64_t rows, int64_t width,
                               int64_t ld);

  void (*norm)(const situ__norm_rows *n);
  void (*norm_grad)(const situ__norm_rows *n);

  /* `each`: mean, factor, ... have a value for each element; else they point to one value for all. */
  /* y = (x - mean) * factor + shift */
  void (*affine)(bool each, const void *x, int64_t count, const void *mean, const void *factor, const void *shift,
                 void *y);
  /* dx = g * a - (x - mean) * b - c */
  void (*affine_grad)(bool each, const void *g, const void *x, int64_t count, const void *mean, const void *a,
                      const void *b, const void *c, void *dx);
  /* sum += g, dot += g * (x - mean): element by element, or over the run (then at most SITU__FOLD_BLOCK elements). */
  void (*sums)(bool each, const void *g, const void *x, int64_t count, const void *mean, void *sum, void *dot);
  /* y = exp(x - shift) * a + b * weight. weight may be NULL; it has a value for each element if `each` is false. */
  void (*exp_affine)(bool each, const void *x, int64_t count, const void *shift, const void *a, const void *b,
                     const void *weight, void *y);
} situ__row_kernels;

typedef struct situ__rows {
  situ__row_kernels by_compute[2];
} situ__rows;
SITU__ISA_DECLARE(situ__rows, situ__rows);

/* compute: F32 or F64. */
static inline const situ__row_kernels *situ__row_kernels_for(situ__compute compute) {
  return &SITU__ISA_PICK(situ__cpu_isa(), situ__rows)->by_compute[compute];
}

#endif
