/* Functions of one tensor, and their gradients.
   SPDX-License-Identifier: MIT */
#include "elementwise.h"

#include "base/fail.h"
#include "kernels/dialect.h"

/* Properties of each function besides its formulas. */
typedef struct trait {
  bool test;    /* the result is bool */
  uint8_t uses; /* what its gradient reads */
} trait;
static const trait traits[SITU_UNARIES] = {
#define FLOAT(name, y, dx, gradient_uses) [SITU_UNARY_##name] = { .uses = gradient_uses },
#define WIDE FLOAT
#define BOTH(name, y, integer, dx, gradient_uses) [SITU_UNARY_##name] = { .uses = gradient_uses },
#define MATH BOTH
#define INTEGER(name, integer)
#define TEST(name, y, integer) [SITU_UNARY_##name] = { .test = true },
#include "kernels/unary.h"
};

situ_status situ__cpu_unary(int index, const situ_work *work) {
  (void)index;
  situ__compute compute = situ__cpu_compute(work->compute);
  const situ__isa isa = situ__cpu_isa();
  const situ__unary_rows *rows = SITU__ISA_PICK(isa, situ__unary_rows);
  situ__row row = rows->row[compute][work->op];
  if (!row) return SITU_E_UNSUPPORTED;
  bool divides = work->op == SITU_UNARY_fmod_scalar || work->op == SITU_UNARY_remainder_scalar;
  if (compute == SITU__I64 && divides && work->scalar[0] == 0)
    return situ__fail(SITU_E_ARG, work->op == SITU_UNARY_fmod_scalar ? "fmod" : "remainder", "division by zero");
  uint8_t native = situ__cpu_native(work->compute);
  if (compute == SITU__F32 && situ__cpu_size(work->out[0]->dtype) == 2 && rows->row_16[work->op])
    row = rows->row_16[work->op];
  return situ__cpu_elementwise(&(situ__row_call){
      row, .half = SITU__ISA_PICK(isa, situ__half_rows)->unary[work->op][work->compute == SITU_BF16], .type = compute,
      .compute = (uint8_t)work->compute, .ins = 1, .native = { traits[work->op].test ? SITU_BOOL : native, native },
      .view = { work->out[0], work->in[0] }, .p = work->scalar });
}

situ_status situ__cpu_unary_grad(int index, const situ_work *work) {
  (void)index;
  situ__compute compute = situ__cpu_compute(work->compute);
  const situ__row *rows = SITU__ISA_PICK(situ__cpu_isa(), situ__unary_rows)->grad[compute];
  situ__row row = rows ? rows[work->op] : NULL;
  if (!row) return SITU_E_UNSUPPORTED;
  const situ_view_desc *x = work->in[0], *y = work->in[1], *g = work->in[2];
  const bool uses_x = traits[work->op].uses & USES_X, uses_y = traits[work->op].uses & USES_Y;
  if ((uses_x && !x) || (uses_y && !y))
    return situ__fail(SITU_E_ARG, "backward", "a gradient needs the %s of its function", x ? "result" : "operand");
  uint8_t native = situ__cpu_native(work->compute);
  /* A formula does not read operands that it does not use: g stands in for them. */
  return situ__cpu_elementwise(&(situ__row_call){
      row, .type = compute, .compute = (uint8_t)work->compute, .ins = 3, .native = { native, native, native, native },
      .view = { work->out[0], uses_x ? x : g, uses_y ? y : g, g }, .p = work->scalar });
}
