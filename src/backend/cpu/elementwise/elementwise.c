/* Driver of element-wise verbs: rows use operands in place where their dtype and strides permit, else through blocks in
   L1.
   SPDX-License-Identifier: MIT */
#include "elementwise.h"

#include "base/size.h"
#include "base/stream.h"
#include "backend/cpu/common/convert.h"
#include "device/device.h"
#include "backend/cpu/common/loop.h"

#include <stdlib.h>

enum {
  OPERANDS = 4,
  /* Results larger than any cache use non-temporal stores: lines are not read first, and useful data stays in the
     caches. */
  STREAM_BYTES = 32 << 20,
  ACROSS_BYTES = 512 << 10, /* smaller operands stay in the cache while they are read repeatedly */
  CACHE_LINE = 64,
  /* Elements of a block: so few that the processor loads the next one from memory while it still computes. */
  PIECE = 384,
  /* Bytes between blocks: stores to one and loads of another differ in the low 12 bits of their addresses. */
  APART = 320
};

/* Parameters in the compute type. */
typedef union params {
  float f32[4];
  double f64[4];
  int64_t i64[4];
} params;

/* How a row accesses an operand. */
typedef enum way { PLAIN, SPLAT, BLOCK, STREAM } way;

typedef struct state {
  const situ__row_call *call;
  const situ__convert *convert;
  uint32_t splat;
  way way[OPERANDS];
  params p;
} state;

static void convert_params(const situ__row_call *call, params *p) {
  const double *from = call->p;
  for (int k = 0; k < 4; k++) {
    if (call->type == SITU__F32) p->f32[k] = from ? (float)from[k] : 0;
    else if (call->type == SITU__F64) p->f64[k] = from ? from[k] : 0;
    else if (from) situ__cpu_narrow(&from[k], SITU__F64, 1, SITU_I64, &p->i64[k]);
    else p->i64[k] = 0;
  }
}

/* ---- all operands in place ---- */

static void run_plain(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  (void)stride;
  const state *s = payload;
  s->call->row(data[0], (const void *const *)(data + 1), s->splat, count, &s->p);
}

/* ---- through blocks ---- */

/* Copies bytes (bools), for which there is no compute type. */
static void copy_bytes(char *dst, int64_t dst_stride, const char *src, int64_t src_stride, int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i * dst_stride] = src[i * src_stride];
}

/* Loads n elements of operand k as a block of its native dtype. */
static void fetch(const state *s, int k, const char *src, int64_t stride, int64_t n, char *block) {
  const situ__row_call *call = s->call;
  uint8_t dtype = call->view[k]->dtype, compute = call->compute;
  if (call->native[k] == SITU_BOOL) {
    copy_bytes(block, 1, src, stride, n);
    return;
  }
  s->convert->load[dtype][call->type](src, stride, n, block);
  /* A wider operand (a 0-dim f32 with f16 tensors, an i64 with i32) is first rounded to the compute dtype. */
  if (dtype != compute && !situ__cpu_native((situ_dtype)compute)) {
    char rounded[PIECE * 4];
    situ__cpu_narrow(block, call->type, n, (situ_dtype)compute, rounded);
    situ__cpu_widen(rounded, (situ_dtype)compute, n, call->type, block);
  }
}

static void store_block(const state *s, char *dst, int64_t stride, int64_t n, const char *block) {
  const situ__row_call *call = s->call;
  if (s->way[0] == STREAM) s->convert->stream(dst, block, n * stride);
  else if (call->native[0] == SITU_BOOL) copy_bytes(dst, stride, block, 1, n);
  else s->convert->store[call->type][call->view[0]->dtype](block, n, dst, stride);
}

static void run_blocks(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const state *s = payload;
  const situ__row_call *call = s->call;
  _Alignas(64) char block[OPERANDS][PIECE * 8 + APART];
  const void *x[OPERANDS - 1];
  for (int64_t at = 0; at < count; at += PIECE) {
    int64_t n = situ__min_i64(PIECE, count - at);
    for (int k = 1; k <= call->ins; k++) {
      const char *src = data[k] + at * stride[k];
      x[k - 1] = s->way[k] == PLAIN
      ? src : block[k];
      /* Operands of stride 0 are loaded once. */
      if (s->way[k] != PLAIN && (at == 0 || stride[k]))
        fetch(s, k, src, stride[k], s->way[k] == SPLAT ? 1 : n, block[k]);
    }
    char *y = data[0] + at * stride[0];
    call->row(s->way[0] == PLAIN ? y : block[0], x, s->splat, n, &s->p);
    if (s->way[0] != PLAIN) store_block(s, y, stride[0], n, block[0]);
  }
  if (s->way[0] == STREAM) situ__stream_end();
}

/* ---- access modes ---- */

static bool is_written_over(const situ__row_call *call) {
  for (int k = 1; k <= call->ins; k++)
    if (call->view[k]->storage == call->view[0]->storage) return true;
  return false;
}

static way way_of(const situ__row_call *call, int k, int64_t stride) {
  const situ_view_desc *v = call->view[k];
  if (v->dtype != call->native[k] || stride != situ__cpu_size(v->dtype)) return BLOCK;
  bool large = k == 0 && v->numel * stride >= STREAM_BYTES && v->contiguous;
  return large && !is_written_over(call) ? STREAM : PLAIN;
}

/* ---- operands whose layout crosses the result's ---- */

/* True for a large operand whose elements along the row are a cache line or more apart, while it is contiguous along
   another dimension: reading it row by row would load each of its lines once for each element. */
static bool lies_across(const situ_view_desc *v, const situ__loop *loop, int k) {
  const int row = loop->ndim - 1;
  if (v->numel * situ__cpu_size(v->dtype) < ACROSS_BYTES || llabs(loop->stride[k][row]) < CACHE_LINE) return false;
  bool side_by_side = false;
  for (int d = 0; d < row; d++) {
    if (!loop->stride[k][d]) return false; /* broadcast: a copy would be larger than the operand */
    side_by_side = side_by_side || llabs(loop->stride[k][d]) < CACHE_LINE;
  }
  return side_by_side;
}

static const situ_device cpu = { .kind = SITU_CPU };

typedef struct straight {
  situ_view_desc view;
  situ_storage storage;
} straight;

/* Makes a copy of v in y's order, by blocks. */
static situ_status straighten(straight *s, const situ_view_desc *v, const situ_view_desc *y) {
  s->storage = (situ_storage){ .bytes = (size_t)(v->numel * situ__cpu_size(v->dtype)) };
  situ_status status = situ__memory_alloc("elementwise", cpu, s->storage.bytes, &s->storage.data);
  if (status != SITU_OK) return status;
  s->view = *y;
  s->view.storage = &s->storage;
  s->view.offset = 0;
  s->view.dtype = v->dtype;
  return situ__cpu_copy(0, &(situ_work){ .ins = 1, .outs = 1, .in = { v }, .out = { &s->view } });
}

/* ---- dispatch ---- */

/* The call by its row of f16 or bf16, if all operands are; else the call itself. */
static const situ__row_call *in_halves(const situ__row_call *call, situ__row_call *half) {
  if (!call->half || (call->compute != SITU_F16 && call->compute != SITU_BF16)) return call;
  *half = *call;
  half->row = call->half;
  for (int k = 0; k <= call->ins; k++) {
    if (call->view[k]->dtype != call->compute) return call;
    half->native[k] = call->compute;
  }
  return half;
}

/* Whether all rows can be used in place, or as one value. */
static bool suits(const situ__row_call *call, const situ__loop *loop) {
  bool splat = false;
  for (int k = 0; k <= call->ins; k++) {
    const int64_t stride = loop->stride[k][loop->ndim - 1];
    const bool one = k && stride == 0 && call->takes_splat && !splat;
    splat = splat || one;
    if (!one && way_of(call, k, stride) != PLAIN) return false;
  }
  return true;
}

static void run_loop(const situ__row_call *given, const situ__loop *loop) {
  situ__row_call half;
  const situ__row_call *halves = in_halves(given, &half), *call = suits(halves, loop) ? halves : given;
  state s = { .call = call, .convert = situ__cpu_convert() };
  convert_params(call, &s.p);
  bool plain = true;
  for (int k = 0; k <= call->ins; k++) {
    const int64_t stride = loop->stride[k][loop->ndim - 1];
    s.way[k] = way_of(call, k, stride);
    if (k && stride == 0 && call->takes_splat && !s.splat) {
      s.way[k] = SPLAT;
      s.splat = 1u << (k - 1);
      plain = plain && call->view[k]->dtype == call->native[k];
    } else {
      plain = plain && s.way[k] == PLAIN;
    }
  }
  situ__loop_run(loop, plain ? run_plain : run_blocks, &s);
}

/* All calls except small ones on contiguous operands. */
static __attribute__((noinline)) situ_status walk(const situ__row_call *given) {
  situ__row_call call = *given;
  situ_status status = SITU_OK;
  straight copy[OPERANDS];
  int copies = 0;
  situ__loop loop;
  situ__loop_init(&loop, 1 + call.ins, call.view);
  for (int k = 1; k <= call.ins && status == SITU_OK && call.view[0]->contiguous; k++) {
    if (!lies_across(call.view[k], &loop, k)) continue;
    status = straighten(&copy[copies], call.view[k], call.view[0]);
    call.view[k] = &copy[copies++].view;
  }
  if (status == SITU_OK) {
    if (copies) situ__loop_init(&loop, 1 + call.ins, call.view);
    run_loop(&call, &loop);
  }
  while (copies--)
    if (copy[copies].storage.data) situ__memory_free(cpu, copy[copies].storage.data, copy[copies].storage.bytes);
  return status;
}

situ_status situ__cpu_elementwise(const situ__row_call *given) {
  situ__row_call half;
  const situ__row_call *call = in_halves(given, &half);
  int64_t n = call->view[0]->numel;
  bool plain = true;
  const void *x[OPERANDS - 1];
  for (int k = 0; k <= call->ins; k++) {
    const situ_view_desc *v = call->view[k];
    plain = plain && situ__in_place(v, call->native[k], n);
    if (k) x[k - 1] = situ__cpu_data(v);
  }
  if (!plain) return walk(given);
  params p;
  if (call->p) convert_params(call, &p);
  call->row(situ__cpu_data(call->view[0]), x, 0, n, &p);
  return SITU_OK;
}
