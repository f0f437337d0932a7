/* Gather (OP 0) and scatter (1) by index. An index out of range is reported, and nothing is read for it. A scatter
   first checks all indices (2) and writes nothing if one is out of range (*bad).
   SPDX-License-Identifier: MIT

   D0 is y, D1 x or src, D2 the index. The walk's operands are y, x (or src) and the index. */
#include "kernels/element.h"

DEVICE bool outside(GLOBAL fault *found, const picks p, I64 value, I64 at) {
  if (value >= 0 && value < p.bound) return false;
  if (FIRST_TO_RAISE(&found->raised)) {
    found->verb = p.verb;
    found->value = value;
    found->bound = p.bound;
    found->dim = p.dim;
    found->at = at;
  }
  return true;
}

#if OP == 0
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D0) *x, GLOBAL const MEMORY(D2) *index, CONST_PARAM walk w,
                  const picks p, GLOBAL fault *found) {
  const I64 i = ITEM;
  if (i >= w.numel) return;
  const I64 where = walk_at(&w, 2, i), value = (I64)index[where];
  if (!outside(found, p, value, where - w.offset[2])) y[walk_at(&w, 0, i)] = x[walk_at(&w, 1, i) + value * p.along];
}
#elif OP == 2
GROUPS KERNEL run(GLOBAL const MEMORY(D2) *index, GLOBAL I64 *bad, CONST_PARAM walk w, const picks p,
                  GLOBAL fault *found) {
  const I64 i = ITEM;
  if (i >= w.numel) return;
  if (outside(found, p, (I64)index[walk_at(&w, 0, i)], i)) *bad = 1;
}
#else
typedef struct parameters {
  T p[4];
} parameters;

/* One work-item writes a whole line along the dimension, so elements that are named several times are added in the
   index's order. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D1) *src, GLOBAL const MEMORY(D2) *index,
                  GLOBAL const I64 *bad, CONST_PARAM walk w, const picks p, const parameters q) {
  const I64 i = ITEM;
  if (i >= w.numel || *bad) return;
  const I64 at_y = walk_at(&w, 0, i), at_src = walk_at(&w, 1, i), at_index = walk_at(&w, 2, i);
  for (I64 j = 0; j < p.count; j++) {
    const I64 value = (I64)index[at_index + j * p.index_step];
    const T v = LOAD(D1, src[at_src + j * p.src_step]);
    GLOBAL MEMORY(D0) *to = y + at_y + value * p.along;
#if FLAGS & FLAG_ADD
    const T sum = LOAD(D0, *to) + q.p[0] * v;
    *to = STORE(D0, sum);
#else
    *to = STORE(D0, v);
#endif
  }
}
#endif
