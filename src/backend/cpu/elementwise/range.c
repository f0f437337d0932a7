/* Ranges: arange and linspace.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/loop.h"

#include "base/pool.h"
#include "base/size.h"

/* Integers are counted exactly: a double would lose steps beyond 2^53. They wrap as additions do. */
static void count_up(const situ_work *work, int64_t first, int64_t n, int64_t *block) {
  int64_t bounds[2];
  situ__cpu_narrow(work->scalar, SITU__F64, 2, SITU_I64, bounds);
  for (int64_t i = 0; i < n; i++)
    block[i] = (int64_t)((uint64_t)bounds[0] + (uint64_t)(first + i) * (uint64_t)bounds[1]);
}

/* linspace counts from the nearer end, so that both ends are exact. */
static void step(const situ_work *work, int64_t first, int64_t n, double *block) {
  const double start = work->scalar[0], by = work->scalar[1], end = work->scalar[2];
  const int64_t last = work->out[0]->numel - 1;
  const int64_t middle = work->op == 1 ? (last + 1) / 2 : last + 1;
  for (int64_t i = 0; i < n; i++) {
    int64_t at = first + i;
    block[i] = at < middle || last == 0 ? start + (double)at * by : end - (double)(last - at) * by;
  }
}

static void range(int64_t begin, int64_t end, void *payload) {
  const situ_work *work = payload;
  const situ_view_desc *y = work->out[0];
  bool integer = work->op == 0 && situ__cpu_compute((situ_dtype)y->dtype) == SITU__I64;
  union {
    double f64[SITU__BLOCK];
    int64_t i64[SITU__BLOCK];
  } block;
  for (int64_t at = begin; at < end; at += SITU__BLOCK) {
    int64_t n = situ__min_i64(SITU__BLOCK, end - at);
    if (integer) count_up(work, at, n, block.i64);
    else step(work, at, n, block.f64);
    situ__cpu_store(y, at, n, integer ? SITU__I64 : SITU__F64, &block);
  }
}

situ_status situ__cpu_range(int index, const situ_work *work) {
  (void)index;
  situ__parallel(work->out[0]->numel, SITU__GRAIN, range, (void *)(uintptr_t)work);
  return SITU_OK;
}
