/* The pool verb: planes of any dtype, several at a time.
   SPDX-License-Identifier: MIT */
#include "pool.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/slots.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"

enum { GRAIN = 1 << 14 }; /* minimum elements for each thread */

SITU__ISA_DECLARE(situ__pool_kernels, situ__pool_kernels_f32);
SITU__ISA_DECLARE(situ__pool_kernels, situ__pool_kernels_f64);
SITU__ISA_DECLARE(situ__pool_kernels, situ__pool_kernels_i64);

static const situ__pool_kernels *kernels_for(situ__compute compute) {
  const situ__isa isa = situ__cpu_isa();
  switch (compute) {
  case SITU__F32: return SITU__ISA_PICK(isa, situ__pool_kernels_f32);
  case SITU__F64: return SITU__ISA_PICK(isa, situ__pool_kernels_f64);
  default: return SITU__ISA_PICK(isa, situ__pool_kernels_i64);
  }
}

typedef struct pooling {
  const situ_work *work;
  const situ__pool_kernels *kernels;
  const situ_view_desc *from, *to;
  int64_t *index; /* indices of the maxima; NULL: not wanted */
  situ__plane plane;
  situ__compute compute;
  bool native; /* values are used in place */
  int64_t from_size, to_size;
  int64_t scratch; /* bytes of plane.scratch */
  situ__slots slots;
  bool outside; /* an index was out of range */
} pooling;

static void one_plane(pooling *p, const situ__plane *plane, const void *from, void *to, int64_t at) {
  int64_t *index = p->index;
  switch ((situ_pool_pass)p->work->op) {
  case SITU_POOL_MAX: p->kernels->max(plane, from, to, index ? index + at * p->to_size : NULL); break;
  case SITU_POOL_MAX_GRAD:
    if (!p->kernels->max_grad(plane, from, index + at * p->from_size, to))
      __atomic_store_n(&p->outside, true, __ATOMIC_RELAXED);
    break;
  case SITU_POOL_AVG: p->kernels->avg(plane, from, to); break;
  case SITU_POOL_AVG_GRAD: p->kernels->avg_grad(plane, from, to); break;
  case SITU_POOL_ADAPTIVE_AVG: p->kernels->adaptive(plane, from, to); break;
  case SITU_POOL_ADAPTIVE_AVG_GRAD: p->kernels->adaptive_grad(plane, from, to); break;
  }
}

static void planes(int64_t begin, int64_t end, void *payload) {
  pooling *p = payload;
  const int64_t elem = situ__cpu_size(p->from->dtype);
  char *slot = situ__slots_take(&p->slots);
  situ__plane plane = p->plane;
  plane.scratch = slot;
  char *in = slot ? slot + p->scratch : NULL, *out = slot ? in + 8 * p->from_size : NULL;
  for (int64_t at = begin; at < end; at++) {
    const char *from = p->from_size ? situ__cpu_data(p->from) + at * p->from_size * elem : NULL;
    char *to = p->to_size ? situ__cpu_data(p->to) + at * p->to_size * elem : NULL;
    if (p->native) {
      one_plane(p, &plane, from, to, at);
    } else {
      situ__cpu_widen(from, (situ_dtype)p->from->dtype, p->from_size, p->compute, in);
      one_plane(p, &plane, in, out, at);
      situ__cpu_narrow(out, p->compute, p->to_size, (situ_dtype)p->to->dtype, to);
    }
  }
  situ__slots_give(&p->slots, slot);
}

/* See situ__plane.line. Vectors may read one element beyond a window. */
static int64_t line_of(const situ__plane *p) {
  const situ_window *w = p->window;
  const int64_t before = w->padding[1],
                reach = (p->out_width - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1;
  if (before == 0 && reach <= p->width) return p->width;
  const int64_t line = situ__max_i64(reach + 1, before + p->width);
  return line <= 4 * p->width ? line : 0;
}

/* The average of each whole plane. */
static situ_status run_mean(const situ_work *work) {
  const situ_view_desc *x = work->in[0];
  return situ__cpu_reduce(0, &(situ_work){ SITU_VERB_REDUCE, .op = SITU_REDUCE_MEAN, .compute = (situ_dtype)x->dtype,
                                           .ins = 1, .outs = 1, .in = { x }, .out = { work->out[0] } });
}

situ_status situ__cpu_pool(int index, const situ_work *work) {
  (void)index;
  const bool back =
      work->op == SITU_POOL_MAX_GRAD || work->op == SITU_POOL_AVG_GRAD || work->op == SITU_POOL_ADAPTIVE_AVG_GRAD;
  const situ_view_desc *x = back ? work->out[0] : work->in[0], *y = back ? work->in[0] : work->out[0];
  const situ_view_desc *where = work->op == SITU_POOL_MAX        ? (work->outs > 1 ? work->out[1] : NULL)
                                : work->op == SITU_POOL_MAX_GRAD ? work->in[1]
                                                                 : NULL;
  pooling p = { .work = work,
                .from = work->in[0],
                .to = work->out[0],
                .index = where ? (int64_t *)(void *)situ__cpu_data(where) : NULL,
                .compute = situ__cpu_compute((situ_dtype)x->dtype) };
  p.kernels = kernels_for(p.compute);
  if (!p.kernels->adaptive && work->op >= SITU_POOL_ADAPTIVE_AVG) return SITU_E_UNSUPPORTED;
  if (work->op == SITU_POOL_ADAPTIVE_AVG && y->size[2] * y->size[3] == 1 && x->numel > 0) return run_mean(work);
  p.native = x->dtype == SITU_F32 || x->dtype == SITU_F64 || x->dtype == SITU_I64;
  p.plane = (situ__plane){
    .window = work->window, .height = x->size[2], .width = x->size[3], .out_height = y->size[2], .out_width = y->size[3]
  };
  p.from_size = p.from->size[2] * p.from->size[3];
  p.to_size = p.to->size[2] * p.to->size[3];
  const int64_t count = p.to->size[0] * p.to->size[1];
  const int64_t grain = situ__max_i64(1, GRAIN / situ__max_i64(1, x->size[2] * x->size[3]));
  if (work->op == SITU_POOL_MAX) p.plane.line = line_of(&p.plane);
  p.scratch = 8 * (p.plane.line > p.plane.width ? p.plane.height * p.plane.line : p.plane.out_width);
  const size_t bytes = (size_t)(p.scratch + (p.native ? 0 : 8 * (p.from_size + p.to_size)));
  const situ_status status = situ__slots_open(&p.slots, "pool", bytes, situ__ceil_div(count, grain));
  if (status != SITU_OK) return status;
  situ__parallel(count, grain, planes, &p);
  situ__slots_close(&p.slots);
  return p.outside ? situ__fail(SITU_E_INDEX, "max_pool2d", "an index of a maximum lies outside of the plane")
                   : SITU_OK;
}
