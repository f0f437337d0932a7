/* The driver of element-wise verbs: rows straight on the operands where they are what the row wants, through blocks in
   L1 where they are not.
   SPDX-License-Identifier: MIT */
#include "elementwise.h"

#include "base/size.h"
#include "convert.h"
#include "loop.h"

enum { OPERANDS = 4 };

/* Parameters in the lane's type. */
typedef union params {
  float f32[4];
  double f64[4];
  int64_t i64[4];
} params;

typedef struct state {
  const situ__row_call *call;
  const situ__convert *convert;
  params p;
} state;

static void convert_params(const situ__row_call *call, params *p) {
  static const double none[4] = { 0 };
  static const situ_dtype dtype[] = { SITU_F32, SITU_F64, SITU_I64 };
  situ__cpu_narrow(call->p ? call->p : none, SITU__F64, 4, dtype[call->lane], p);
}

/* Bytes (bools): the lanes have no such type. */
static void copy_bytes(char *dst, int64_t dst_stride, const char *src, int64_t src_stride,
                       int64_t n) {
  for (int64_t i = 0; i < n; i++) dst[i * dst_stride] = src[i * src_stride];
}

/* n elements of operand k as a block of its native dtype. */
static void fetch(const state *s, int k, const char *src, int64_t stride, int64_t n, char *block) {
  const situ__row_call *call = s->call;
  uint8_t dtype = call->view[k]->dtype, compute = call->compute;
  if (call->native[k] == SITU_BOOL) {
    copy_bytes(block, 1, src, stride, n);
    return;
  }
  s->convert->load[dtype][call->lane](src, stride, n, block);
  /* A wider operand (a 0-dim f32 with f16 tensors, an i64 with i32) is first rounded to what is computed in. */
  if (dtype != compute && !situ__cpu_native((situ_dtype)compute)) {
    char rounded[SITU__BLOCK * 4];
    situ__cpu_narrow(block, call->lane, n, (situ_dtype)compute, rounded);
    situ__cpu_widen(rounded, (situ_dtype)compute, n, call->lane, block);
  }
}

static void put(const state *s, char *dst, int64_t stride, int64_t n, const char *block) {
  const situ__row_call *call = s->call;
  if (call->native[0] == SITU_BOOL)
    copy_bytes(dst, stride, block, 1, n);
  else
    s->convert->store[call->lane][call->view[0]->dtype](block, n, dst, stride);
}

static bool is_direct(const situ__row_call *call, int k, int64_t stride) {
  return call->view[k]->dtype == call->native[k] && stride == situ__cpu_size(call->native[k]);
}

static void run_row(char *const *data, const int64_t *stride, int64_t count, void *payload) {
  const state *s = payload;
  const situ__row_call *call = s->call;
  _Alignas(64) char block[OPERANDS][SITU__BLOCK * 8];
  bool direct[OPERANDS];
  const void *x[OPERANDS - 1];
  uint32_t splat = 0;
  int64_t piece = count;
  for (int k = 0; k <= call->ins; k++) {
    direct[k] = is_direct(call, k, stride[k]);
    if (k && stride[k] == 0 && call->takes_splat && !splat) {
      /* One value for the row: fetched once, here. */
      splat = 1u << (k - 1);
      direct[k] = true;
      fetch(s, k, data[k], 0, 1, block[k]);
    }
    if (!direct[k]) piece = situ__min_i64(piece, SITU__BLOCK);
  }
  for (int64_t at = 0; at < count; at += piece) {
    int64_t n = situ__min_i64(piece, count - at);
    for (int k = 1; k <= call->ins; k++) {
      const char *src = data[k] + at * stride[k];
      if (direct[k]) {
        x[k - 1] = splat == 1u << (k - 1) ? block[k] : src;
        continue;
      }
      if (at == 0 || stride[k]) fetch(s, k, src, stride[k], n, block[k]);
      x[k - 1] = block[k];
    }
    char *y = data[0] + at * stride[0];
    call->row(direct[0] ? y : block[0], x, splat, n, &s->p);
    if (!direct[0]) put(s, y, stride[0], n, block[0]);
  }
}

/* Anything but a small call on plain operands. */
static __attribute__((noinline)) void walk(const situ__row_call *call) {
  state s = { .call = call, .convert = situ__cpu_convert() };
  convert_params(call, &s.p);
  situ__loop loop;
  situ__loop_init(&loop, 1 + call->ins, call->view);
  situ__loop_run(&loop, run_row, &s);
}

void situ__cpu_elementwise(const situ__row_call *call) {
  int64_t n = call->view[0]->numel;
  bool plain = n <= SITU__GRAIN;
  const void *x[OPERANDS - 1];
  for (int k = 0; k <= call->ins; k++) {
    const situ_view_desc *v = call->view[k];
    plain = plain && v->contiguous && v->dtype == call->native[k] && v->numel == n;
    if (k) x[k - 1] = situ__cpu_data(v);
  }
  if (!plain) {
    walk(call);
    return;
  }
  params p;
  if (call->p) convert_params(call, &p);
  call->row(situ__cpu_data(call->view[0]), x, 0, n, &p);
}
