/* The walk over views that element-wise verbs and copies share.
   SPDX-License-Identifier: MIT */
#include "loop.h"

#include "base/pool.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

/* True if dimension a is further out than b in the written memory. */
static bool outside(const situ_view_desc *y, int a, int b) { return llabs(y->stride[a]) > llabs(y->stride[b]); }

/* Dimensions of y from the outermost in its memory to the innermost, without those of size 1. */
static int sorted(const situ_view_desc *y, int *order) {
  int n = 0;
  for (int d = 0; d < y->ndim; d++) {
    if (y->size[d] == 1) continue;
    int at = n++;
    for (; at > 0 && outside(y, d, order[at - 1]); at--) order[at] = order[at - 1];
    order[at] = d;
  }
  return n;
}

/* True if dimensions d and d + 1 of the loop are one contiguous run for all operands. */
static bool one_run(const situ__loop *loop, int d) {
  for (int k = 0; k < loop->operands; k++)
    if (loop->stride[k][d] != loop->stride[k][d + 1] * loop->size[d + 1]) return false;
  return true;
}

void situ__loop_init(situ__loop *loop, int operands, const situ_view_desc *const *view) {
  int order[SITU_MAX_DIMS], n = sorted(view[0], order), last = -1;
  loop->operands = operands;
  loop->numel = view[0]->numel;
  for (int k = 0; k < operands; k++) loop->data[k] = situ__cpu_data(view[k]);
  for (int i = n - 1, at = SITU_MAX_DIMS; i >= 0; i--) {
    /* Filled from the back; a dimension that continues the next one is merged with it. */
    at--;
    loop->size[at] = view[0]->size[order[i]];
    for (int k = 0; k < operands; k++) loop->stride[k][at] = view[k]->stride[order[i]] * situ__cpu_size(view[k]->dtype);
    if (at + 1 < SITU_MAX_DIMS && one_run(loop, at)) {
      loop->size[at + 1] *= loop->size[at];
      at++;
    }
    last = at;
  }
  loop->ndim = last < 0 ? 1 : SITU_MAX_DIMS - last;
  if (last < 0) {
    loop->size[0] = 1;
    for (int k = 0; k < operands; k++) loop->stride[k][0] = situ__cpu_size(view[k]->dtype);
    return;
  }
  size_t bytes = (size_t)loop->ndim * sizeof(int64_t);
  memmove(loop->size, loop->size + last, bytes);
  for (int k = 0; k < operands; k++) memmove(loop->stride[k], loop->stride[k] + last, bytes);
}

typedef struct walk {
  const situ__loop *loop;
  situ__loop_fn fn;
  void *payload;
} walk;

static void run_rows(int64_t begin, int64_t end, void *payload) {
  const walk *w = payload;
  const situ__loop *loop = w->loop;
  const int row = loop->ndim - 1;
  int64_t at[SITU_MAX_DIMS], step[SITU__LOOP_OPERANDS], rest = begin;
  char *data[SITU__LOOP_OPERANDS];
  for (int k = 0; k < loop->operands; k++) {
    data[k] = loop->data[k];
    step[k] = loop->stride[k][row];
  }
  for (int d = row; d >= 0; d--) {
    at[d] = rest % loop->size[d];
    rest /= loop->size[d];
    for (int k = 0; k < loop->operands; k++) data[k] += at[d] * loop->stride[k][d];
  }
  while (begin < end) {
    int64_t n = situ__min_i64(loop->size[row] - at[row], end - begin);
    w->fn(data, step, n, w->payload);
    begin += n;
    at[row] += n;
    for (int k = 0; k < loop->operands; k++) data[k] += n * step[k];
    for (int d = row; d > 0 && at[d] == loop->size[d]; d--) {
      at[d] = 0;
      at[d - 1]++;
      for (int k = 0; k < loop->operands; k++) data[k] += loop->stride[k][d - 1] - loop->size[d] * loop->stride[k][d];
    }
  }
}

void situ__loop_run(const situ__loop *loop, situ__loop_fn fn, void *payload) {
  walk w = { loop, fn, payload };
  if (loop->numel <= SITU__GRAIN) run_rows(0, loop->numel, &w);
  else situ__parallel(loop->numel, SITU__GRAIN, run_rows, &w);
}
