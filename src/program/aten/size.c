/* Sizes that are computed while the program runs (torch.SymInt), and the assertions on them.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/program.h"

static bool read_size(situ__op_call *c, int64_t *out) {
  *out = situ_size(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
  return *out >= 0;
}
static bool read_numel(situ__op_call *c, int64_t *out) {
  *out = situ_numel(situ__arg_tensor(c, 0));
  return *out >= 0;
}
static bool read_item(situ__op_call *c, int64_t *out) { return situ_item_i64(situ__arg_tensor(c, 0), out) == SITU_OK; }

static bool overflow(situ__op_call *c) { return situ__call_refuse(c, "gives a size beyond 64 bits, or divides by 0"); }

static bool add(situ__op_call *c, int64_t *out) {
  return situ__add_i64(situ__arg_int(c, 0), situ__arg_int(c, 1), out) || overflow(c);
}
static bool sub(situ__op_call *c, int64_t *out) {
  return situ__sub_i64(situ__arg_int(c, 0), situ__arg_int(c, 1), out) || overflow(c);
}
static bool mul(situ__op_call *c, int64_t *out) {
  return situ__mul_i64(situ__arg_int(c, 0), situ__arg_int(c, 1), out) || overflow(c);
}
/* Python's // and %: towards minus infinity, with the divisor's sign. */
static bool divide(situ__op_call *c, int64_t *quotient, int64_t *rest) {
  const int64_t a = situ__arg_int(c, 0), b = situ__arg_int(c, 1);
  if (b == 0 || (a == INT64_MIN && b == -1)) return overflow(c);
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  *quotient = a / b - down;
  *rest = a % b + (down ? b : 0);
  return true;
}
static bool floor_divide(situ__op_call *c, int64_t *out) {
  int64_t rest;
  return divide(c, out, &rest);
}
static bool remainder_of(situ__op_call *c, int64_t *out) {
  int64_t quotient;
  return divide(c, &quotient, out);
}
static bool negate(situ__op_call *c, int64_t *out) { return situ__sub_i64(0, situ__arg_int(c, 0), out) || overflow(c); }
static bool larger(situ__op_call *c, int64_t *out) {
  *out = situ__max_i64(situ__arg_int(c, 0), situ__arg_int(c, 1));
  return true;
}
static bool smaller(situ__op_call *c, int64_t *out) {
  *out = situ__min_i64(situ__arg_int(c, 0), situ__arg_int(c, 1));
  return true;
}
static bool equal(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) == situ__arg_int(c, 1);
  return true;
}
static bool not_equal(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) != situ__arg_int(c, 1);
  return true;
}
static bool less(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) < situ__arg_int(c, 1);
  return true;
}
static bool less_equal(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) <= situ__arg_int(c, 1);
  return true;
}
static bool greater(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) > situ__arg_int(c, 1);
  return true;
}
static bool greater_equal(situ__op_call *c, int64_t *out) {
  *out = situ__arg_int(c, 0) >= situ__arg_int(c, 1);
  return true;
}
static bool both(situ__op_call *c, int64_t *out) {
  *out = situ__arg_flag(c, 0) && situ__arg_flag(c, 1);
  return true;
}
static bool not(situ__op_call * c, int64_t *out) {
  *out = !situ__arg_flag(c, 0);
  return true;
}

static bool assert_scalar(situ__op_call *c, int64_t *out) {
  (void)out;
  if (situ__arg_int(c, 0)) return true;
  return situ__fail(SITU_E_SHAPE, c->node->row->target, "%s", situ__arg_text(c, 1)), false;
}

#define SIZE(name, function) \
  { name, "i a, i b", .size = function }

static const situ__op_row rows[] = {
  { "sym_size.int", "t self, i dim", .size = read_size },
  { "sym_numel.default", "t self", .size = read_numel },
  { "item.default", "t self", .size = read_item },
  { "_local_scalar_dense.default", "t self", .size = read_item },
  SIZE("_operator.add", add),
  SIZE("_operator.sub", sub),
  SIZE("_operator.mul", mul),
  SIZE("_operator.floordiv", floor_divide),
  SIZE("_operator.mod", remainder_of),
  SIZE("_operator.eq", equal),
  SIZE("_operator.ne", not_equal),
  SIZE("_operator.lt", less),
  SIZE("_operator.le", less_equal),
  SIZE("_operator.gt", greater),
  SIZE("_operator.ge", greater_equal),
  SIZE("torch.sym_max", larger),
  SIZE("torch.sym_min", smaller),
  { "_operator.neg", "i a", .size = negate },
  { "_operator.and_", "b a, b b", .size = both },
  { "torch.sym_not", "b a", .size = not },
  { "_assert_scalar.default", "b self, s? assert_msg", .size = assert_scalar },
  { "sym_constrain_range_for_size.default", "_ size, _ min, _ max", .results = SITU__RESULTS_NONE },
  { "sym_constrain_range.default", "_ size, _ min, _ max", .results = SITU__RESULTS_NONE },
  { "_assert_tensor_metadata.default", "_ a, _ size, _ stride, _ dtype, _ device, _ layout",
    .results = SITU__RESULTS_NONE },
};
const situ__op_family situ__size_family = { rows, sizeof rows / sizeof *rows };
