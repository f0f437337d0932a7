/* Fourier transforms of lines along one dimension: groups of lines side by side.
   SPDX-License-Identifier: MIT */
#include "fft.h"
#include "backend/cpu/common/slots.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

enum { GRAIN = 1 << 14 }; /* minimum elements for each thread */

typedef struct transforms {
  const situ__fft_kernels *kernels;
  situ__fft f; /* a copy, with this call's direction and factor */
  situ__slots slots;
  int64_t count, inner, size; /* lines; lines side by side; bytes of an element */
  int64_t x_line, y_line;     /* bytes between outer lines */
  int64_t x_beside, y_beside; /* bytes between inner lines */
  const char *x;
  char *y;
  situ__fft_side from, to;
} transforms;

/* Complex numbers along a dimension of `inner` lines; or real ones, taken in pairs, or alone with gap 0. */
static situ__fft_side side_of(bool complex, bool pairs, int64_t inner) {
  return (situ__fft_side){ .step = complex || pairs ? 2 * inner : inner, .gap = complex ? 1 : pairs ? inner : 0 };
}

static void run(int64_t begin, int64_t end, void *payload) {
  transforms *t = payload;
  const int64_t lanes = t->f.plan->lanes;
  void *memory = situ__slots_take(&t->slots);
  situ__fft_side x = t->from, y = t->to;
  for (int64_t group = begin; group < end; group++) {
    const int lines = (int)situ__min_i64(lanes, t->count - group * lanes);
    for (int l = 0; l < lines; l++) {
      const int64_t line = group * lanes + l, outer = line / t->inner, inner = line % t->inner;
      x.at[l] = t->x + outer * t->x_line + inner * t->x_beside;
      y.at[l] = t->y + outer * t->y_line + inner * t->y_beside;
    }
    t->kernels->group(&t->f, &x, &y, lines, memory);
  }
  situ__slots_give(&t->slots, memory);
}

situ_status situ__cpu_fft(int index, const situ_work *work) {
  (void)index;
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  const situ_dtype dtype = (situ_dtype)x->dtype;
  const int64_t dim = work->integer[0], from = x->size[dim], to = y->size[dim];
  const bool real = work->op == SITU_FFT_REAL, back = work->op == SITU_FFT_REAL_BACK;
  const int64_t length = back ? to : from;
  transforms t = { .kernels = situ__fft_kernels_for(dtype), .inner = 1, .size = situ__cpu_size(dtype) };
  for (int d = (int)dim + 1; d < x->ndim - !real; d++) t.inner *= x->size[d];
  t.x_beside = (real ? 1 : 2) * t.size, t.y_beside = (back ? 1 : 2) * t.size;
  t.x_line = from * t.inner * t.x_beside, t.y_line = to * t.inner * t.y_beside;
  t.count = y->numel / (to * (back ? 1 : 2));
  t.x = situ__cpu_data(x), t.y = situ__cpu_data(y);
  situ__fft *f = length >> 31 ? NULL : situ__fft_open((int)work->op, length, dtype, t.count < SITU__FFT_LANES);
  if (!f) return situ__fail(SITU_E_NOMEM, "fft", "no memory for the tables of %lld elements", (long long)length);
  t.f = *f;
  t.f.inverse = work->integer[1] != 0, t.f.factor = work->scalar[0];
  t.from = side_of(!real, f->half != NULL, t.inner), t.to = side_of(!back, f->half != NULL, t.inner);
  const int64_t lanes = f->plan->lanes, groups = situ__ceil_div(t.count, lanes),
                grain = situ__max_i64(1, GRAIN / (length * lanes));
  const size_t memory = ((size_t)(2 * f->plan->n * lanes) + f->plan->scratch) * (size_t)t.size;
  const situ_status status = situ__slots_open(&t.slots, "fft", memory, situ__ceil_div(groups, grain));
  if (status == SITU_OK) situ__parallel(groups, grain, run, &t);
  situ__slots_close(&t.slots);
  situ__fft_close(f);
  return status;
}
