/* Lower and upper triangles.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/loop.h"
#include "move.h"

#include "base/pool.h"
#include "base/size.h"

/* Rows of all matrices, numbered through. */
static void triangle(int64_t begin, int64_t end, void *payload) {
  const situ_work *work = payload;
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const int last = y->ndim - 1;
  const int64_t size = situ__cpu_size(y->dtype), columns = y->size[last], zero = 0;
  const int64_t diagonal = situ__max_i64(-y->size[last - 1], situ__min_i64(work->integer[0], columns));
  const int64_t x_step = x->stride[last] * size, y_step = y->stride[last] * size;
  for (int64_t row = begin; row < end; row++) {
    const char *from = situ__cpu_data(x);
    char *to = situ__cpu_data(y);
    int64_t rest = row;
    for (int d = last - 1; d >= 0; d--) {
      from += rest % y->size[d] * x->stride[d] * size;
      to += rest % y->size[d] * y->stride[d] * size;
      rest /= y->size[d];
    }
    /* The first column right of the diagonal (lower), or on it (upper). */
    int64_t cut = row % y->size[last - 1] + diagonal + (work->op == 0);
    cut = situ__max_i64(0, situ__min_i64(cut, columns));
    int64_t keep = work->op == 0 ? 0 : cut, clear = work->op == 0 ? cut : 0;
    int64_t kept = work->op == 0 ? cut : columns - cut;
    situ__cpu_move(size, to + keep * y_step, y_step, from + keep * x_step, x_step, kept);
    situ__cpu_move(size, to + clear * y_step, y_step, (const char *)&zero, 0, columns - kept);
  }
}

situ_status situ__cpu_triangle(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *y = work->out[0];
  int64_t columns = y->size[y->ndim - 1];
  situ__parallel(y->numel / columns, situ__max_i64(1, SITU__GRAIN / columns), triangle, (void *)(uintptr_t)work);
  return SITU_OK;
}
