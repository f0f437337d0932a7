/* Folding blocks of one lane: what every reduction of the cpu is made of.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_FOLD_H
#define SITU_BACKEND_CPU_FOLD_H

#include "isa.h"

/* What is kept of the elements seen so far: one value (a), or two (a and b).
   TOP: the maximum, where a NaN is found in another way: it may or may not be the result.
   MOMENTS: a is the mean, b the sum of squared distances from it.
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

/* What an element becomes first. NONZERO: 1 or 0. POWER: |x|^p. */
typedef enum situ__fold_map {
  SITU__MAP_NONE,
  SITU__MAP_ABS,
  SITU__MAP_SQUARE,
  SITU__MAP_NONZERO,
  SITU__MAP_POWER
} situ__fold_map;

enum { SITU__FOLD_BLOCK = 2048 }; /* most elements of a call with a map, of MOMENTS or of LOGSUM: they need a copy */

/* `groups` blocks that follow each other, each of `rows` rows, `ld` elements apart, of `width` elements. Every column of
   every block is folded by itself. More than one group: ld == width. */
typedef struct situ__fold_block {
  const void *x;
  int64_t groups, rows, width, ld;
} situ__fold_block;

typedef struct situ__fold_kernels {
  /* Overwrites a[groups * width] (and b, if the fold has it). */
  void (*fold)(situ__fold fold, situ__fold_map map, double p, const situ__fold_block *block, void *a, void *b);
  /* (a, b) of n elements each, `count` of them, take in (c, d) of m elements each. */
  void (*merge)(situ__fold fold, int64_t count, void *a, void *b, int64_t n, const void *c, const void *d, int64_t m);
  /* The first place in x[count] that holds v (v NaN: the first NaN); count if none does. */
  int64_t (*find)(const void *x, int64_t count, const void *v);
  /* best[width] and the rows where it was met take in `rows` more rows, the first of which has number `first`. */
  void (*arg_columns)(bool greatest, const void *x, int64_t ld, int64_t rows, int64_t width, int64_t first, void *best,
                      int64_t *at);
} situ__fold_kernels;

typedef struct situ__folds {
  situ__fold_kernels lane[3];
} situ__folds;
SITU__ISA_DECLARE(situ__folds, situ__folds);

static inline const situ__fold_kernels *situ__fold_kernels_for(situ__lane lane) {
  return &SITU__ISA_PICK(situ__cpu_isa(), situ__folds)->lane[lane];
}

/* Is an element read as it lies, without a conversion? */
static inline bool situ__cpu_native(situ_dtype dtype, situ__lane lane) {
  return situ__cpu_lane(dtype) == lane && situ__dtype_size(dtype) == situ__lane_size(lane);
}

/* Sizes of a gapless view around one dimension: [outer, size, inner]. */
typedef struct situ__lines {
  int64_t outer, size, inner;
} situ__lines;
static inline situ__lines situ__lines_of(const situ_view_desc *v, int64_t dim) {
  situ__lines l = { 1, v->ndim ? v->size[dim] : 1, 1 };
  for (int64_t d = 0; d < dim; d++) l.outer *= v->size[d];
  for (int64_t d = dim + 1; d < v->ndim; d++) l.inner *= v->size[d];
  return l;
}

/* The whole of a reduction: x to y, whose sizes are x's or 1 (reduce.c). MOMENTS fills y (mean) and y2 (squares). */
typedef struct situ__reduction {
  const char *op;
  situ__lane lane;
  situ__fold fold;
  situ__fold_map map;
  double p;
  const situ_view_desc *x, *y, *y2;
  /* What becomes of count folded states of n elements each, in place, in the lane; NULL: they are the result. */
  void (*finish)(const struct situ__reduction *how, int64_t n, int64_t count, void *a, void *b);
} situ__reduction;
situ_status situ__reduce(const situ__reduction *how);

#endif
