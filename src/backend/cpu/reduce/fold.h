/* Reductions of blocks of one compute type: the base of all reductions of the cpu backend.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_FOLD_H
#define SITU_BACKEND_CPU_FOLD_H

#include "backend/cpu/common/isa.h"

/* Of a function with arrays of kilobytes on its stack, each page of which is touched at each call (the compiler guards
   against a stack that runs into other memory): its callers, which often do without it, would do so too. */
#define SITU__OWN_FRAME __attribute__((noinline))

/* The state that is kept for the elements seen so far: one value (a), or two (a and b).
   TOP: the maximum, where the caller detects NaN otherwise: it may or may not be the result.
   MOMENTS: a is the mean, b the sum of squared deviations from it.
   LOGSUM: a is the maximum, b the sum of exp(x - a); 0 stands for an infinite a. */
typedef enum situ__fold {
  SITU__FOLD_SUM,
  SITU__FOLD_PROD,
  SITU__FOLD_MIN,
  SITU__FOLD_MAX,
  SITU__FOLD_TOP,
  SITU__FOLD_MOMENTS,
  SITU__FOLD_LOGSUM
} situ__fold;

/* Applied to each element first. NONZERO: 1 or 0. POWER: |x|^p. */
typedef enum situ__fold_map {
  SITU__MAP_NONE,
  SITU__MAP_ABS,
  SITU__MAP_SQUARE,
  SITU__MAP_NONZERO,
  SITU__MAP_POWER
} situ__fold_map;

enum {
  SITU__FOLD_BLOCK = 2048, /* maximum elements of a call with a map, of MOMENTS or of LOGSUM, which need a copy */
  SITU__FOLD_RUN = 128     /* minimum numbers of a run for sum_16 */
};

/* `groups` consecutive blocks, each of `rows` rows, `ld` elements apart, of `width` elements. Each column of each block
   is reduced separately. More than one group requires ld == width. */
typedef struct situ__fold_block {
  const void *x;
  int64_t groups, rows, width, ld;
} situ__fold_block;

typedef struct situ__fold_kernels {
  /* Overwrites a[groups * width] (and b, if the fold has it). */
  void (*fold)(situ__fold fold, situ__fold_map map, double p, const situ__fold_block *block, void *a, void *b);
  /* fold's sum, of one run of numbers of 16 bits (bf16, or f16), without a copy in f32; NULL: there is none. */
  float (*sum_16)(bool bf16, const uint16_t *x, int64_t count);
  /* Merges (c, d), `count` states of m elements each, into (a, b) of n elements each. */
  void (*merge)(situ__fold fold, int64_t count, void *a, void *b, int64_t n, const void *c, const void *d, int64_t m);
  /* Index of the first v in x[count] (v NaN: the first NaN); count if there is none. */
  int64_t (*find)(const void *x, int64_t count, const void *v);
  /* Merges `rows` more rows, the first of which has index `first`, into best[width] and its row indices. */
  void (*arg_columns)(bool greatest, const void *x, int64_t ld, int64_t rows, int64_t width, int64_t first, void *best,
                      int64_t *at);
} situ__fold_kernels;

typedef struct situ__folds {
  situ__fold_kernels by_compute[3];
} situ__folds;
SITU__ISA_DECLARE(situ__folds, situ__folds);

static inline const situ__fold_kernels *situ__fold_kernels_for(situ__compute compute) {
  return &SITU__ISA_PICK(situ__cpu_isa(), situ__folds)->by_compute[compute];
}

/* True if elements are read in place, without a conversion. */
static inline bool situ__cpu_native(situ_dtype dtype, situ__compute compute) {
  return situ__cpu_compute(dtype) == compute && situ__dtype_size(dtype) == situ__compute_size(compute);
}

/* Sizes of a contiguous view around one dimension: [outer, size, inner]. */
typedef struct situ__lines {
  int64_t outer, size, inner;
} situ__lines;
static inline situ__lines situ__lines_of(const situ_view_desc *v, int64_t dim) {
  situ__lines l = { 1, v->ndim ? v->size[dim] : 1, 1 };
  for (int64_t d = 0; d < dim; d++) l.outer *= v->size[d];
  for (int64_t d = dim + 1; d < v->ndim; d++) l.inner *= v->size[d];
  return l;
}

/* SITU_SCAN_PROD_GRAD (scan_grad.c). */
situ_status situ__cpu_scan_grad(const situ_work *work);

/* A complete reduction of x to y, whose sizes are x's or 1 (reduce.c). MOMENTS fills y (mean) and y2 (squares). */
typedef struct situ__reduction {
  const char *op;
  situ__compute compute;
  situ__fold fold;
  situ__fold_map map;
  double p;
  const situ_view_desc *x, *y, *y2;
  /* Computes results from `count` states of n elements each, in place, in the compute type; NULL: the states are the
     results. */
  void (*finish)(const struct situ__reduction *how, int64_t n, int64_t count, void *a, void *b);
} situ__reduction;
situ_status situ__reduce(const situ__reduction *how);

#endif
