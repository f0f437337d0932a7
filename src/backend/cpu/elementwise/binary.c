/* Functions of two tensors.
   SPDX-License-Identifier: MIT */
#include "elementwise.h"

#include "base/fail.h"
#include "base/size.h"

static bool is_test(int op) {
  switch (op) {
#define FLOAT(name, y)
#define WIDE FLOAT
#define BOTH(name, y, integer)
#define MATH(name, y, integer)
#define INTEGER(name, integer)
#define TEST(name, y) case SITU_BINARY_##name:
#include "kernels/binary.h"
    return true;
  default: return false;
  }
}

/* Name of a division op, for its error; NULL if op is not a division. */
static const char *division(int op) {
  switch (op) {
  case SITU_BINARY_div_trunc:
  case SITU_BINARY_div_floor: return "div";
  case SITU_BINARY_fmod: return "fmod";
  case SITU_BINARY_remainder: return "remainder";
  default: return NULL;
  }
}

/* Integer division by 0 is undefined, so it is refused before anything is written. */
static bool has_zero(const situ_view_desc *v) {
  int64_t block[SITU__BLOCK];
  for (int64_t at = 0; at < v->numel; at += SITU__BLOCK) {
    int64_t n = situ__min_i64(SITU__BLOCK, v->numel - at);
    situ__cpu_load(v, at, n, SITU__I64, block);
    for (int64_t i = 0; i < n; i++)
      if (block[i] == 0) return true;
  }
  return false;
}

/* Whether all elements of v are one that a row can read. */
static bool is_one_value(const situ_view_desc *v, uint8_t native) {
  for (int d = 0; d < v->ndim; d++)
    if (v->size[d] != 1 && v->stride[d] != 0) return false;
  return v->dtype == native;
}

/* One operand is read as one value, or not all are used as they are. */
static __attribute__((noinline)) situ_status run_other(const situ__row_call *call) {
  const situ_view_desc *y = call->view[0], *a = call->view[1], *b = call->view[2];
  const uint8_t native = call->native[1];
  const bool full_a = situ__in_place(a, native, y->numel), full_b = situ__in_place(b, native, y->numel);
  if (!situ__in_place(y, call->native[0], y->numel) || full_a == full_b || !is_one_value(full_a ? b : a, native))
    return situ__cpu_elementwise(call);
  call->row(situ__cpu_data(y), (const void *[]){ situ__cpu_data(a), situ__cpu_data(b) }, full_a ? 2 : 1, y->numel,
            NULL);
  return SITU_OK;
}

situ_status situ__cpu_binary(int index, const situ_work *work) {
  (void)index;
  const situ__compute compute = situ__cpu_compute(work->compute);
  const situ__isa isa = situ__cpu_isa();
  const situ__row row = SITU__ISA_PICK(isa, situ__binary_rows)->row[compute][work->op];
  if (!row) return SITU_E_UNSUPPORTED;
  const char *division_name = compute == SITU__I64 ? division(work->op) : NULL;
  if (division_name && has_zero(work->in[1])) return situ__fail(SITU_E_ARG, division_name, "division by zero");
  const situ_view_desc *y = work->out[0], *a = work->in[0], *b = work->in[1];
  const uint8_t native = situ__cpu_native(work->compute), result = is_test(work->op) ? SITU_BOOL : native;
  const int64_t n = y->numel;
  if (!situ__in_place(y, result, n) || !situ__in_place(a, native, n) || !situ__in_place(b, native, n))
    return run_other(&(situ__row_call){
        row, .half = SITU__ISA_PICK(isa, situ__half_rows)->binary[work->op][work->compute == SITU_BF16],
        .type = compute, .compute = (uint8_t)work->compute, .ins = 2, .takes_splat = true,
        .native = { result, native, native }, .view = { y, a, b } });
  row(situ__cpu_data(y), (const void *[]){ situ__cpu_data(a), situ__cpu_data(b) }, 0, n, NULL);
  return SITU_OK;
}
