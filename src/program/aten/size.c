/* Sizes and numbers that are computed while the program runs (torch.SymInt, torch.SymFloat), and the assertions on
   them.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "base/fail.h"
#include "base/size.h"
#include "program/graph/program.h"
#include "situ/sys/dry.h"

static bool read_size(situ__op_call *c, situ__value *out) {
  out->integer = situ_size(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
  return out->integer >= 0;
}
static bool read_numel(situ__op_call *c, situ__value *out) {
  out->integer = situ_numel(situ__arg_tensor(c, 0));
  return out->integer >= 0;
}
static bool read_item(situ__op_call *c, situ__value *out) {
  situ_tensor *t = situ__arg_tensor(c, 0);
  if (situ_dtype_is_floating(situ_dtype_of(t))) return situ_item(t, &out->real) == SITU_OK;
  return situ_item_i64(t, &out->integer) == SITU_OK;
}

static bool overflow(situ__op_call *c) {
  return situ__call_refuse(c, "gives a number beyond 64 bits, or divides by 0");
}

/* Two arguments: as floats if one of them is. */
typedef struct pair {
  bool real;
  int64_t i[2];
  double r[2];
} pair;

/* Returns false after recording an error. */
static bool read_pair(situ__op_call *c, bool real, pair *p) {
  *p = (pair){ .real = real || !situ__arg_is_integer(c, 0) || !situ__arg_is_integer(c, 1) };
  for (int k = 0; k < 2; k++) {
    if (p->real && situ__arg_is_wide(c, k))
      return situ__call_refuse(c, "has a whole number beyond 2^53 beside a float");
    if (p->real) p->r[k] = situ__arg_number(c, k);
    else p->i[k] = situ__arg_int(c, k);
  }
  return true;
}

static bool add(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->real = p.r[0] + p.r[1];
  return p.real || situ__add_i64(p.i[0], p.i[1], &out->integer) || overflow(c);
}
static bool sub(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->real = p.r[0] - p.r[1];
  return p.real || situ__sub_i64(p.i[0], p.i[1], &out->integer) || overflow(c);
}
static bool mul(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->real = p.r[0] * p.r[1];
  return p.real || situ__mul_i64(p.i[0], p.i[1], &out->integer) || overflow(c);
}
static bool true_divide(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, true, &p)) return false;
  out->real = p.r[0] / p.r[1];
  return p.r[1] != 0 || overflow(c);
}
/* Python's // and %: towards minus infinity, with the divisor's sign. */
static bool divide(situ__op_call *c, int64_t a, int64_t b, int64_t *quotient, int64_t *rest) {
  if (b == 0 || (a == INT64_MIN && b == -1)) return overflow(c);
  const bool down = a % b != 0 && (a < 0) != (b < 0);
  *quotient = a / b - down;
  *rest = a % b + (down ? b : 0);
  return true;
}
static bool floor_divide(situ__op_call *c, situ__value *out) {
  int64_t rest;
  return divide(c, situ__arg_int(c, 0), situ__arg_int(c, 1), &out->integer, &rest);
}
static bool remainder_of(situ__op_call *c, situ__value *out) {
  pair p;
  int64_t quotient;
  if (!read_pair(c, false, &p)) return false;
  if (!p.real) return divide(c, p.i[0], p.i[1], &quotient, &out->integer);
  const double rest = fmod(p.r[0], p.r[1]);
  out->real = rest != 0 && (rest < 0) != (p.r[1] < 0) ? rest + p.r[1] : rest;
  return p.r[1] != 0 || overflow(c);
}
/* Python refuses a power of floats that is infinite or complex. */
static bool power(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->real = pow(p.r[0], p.r[1]);
  if (p.real) return isfinite(out->real) || !isfinite(p.r[0]) || !isfinite(p.r[1]) || overflow(c);
  const int64_t base = p.i[0];
  if (p.i[1] < 0) return situ__call_refuse(c, "has a negative power of a whole number");
  out->integer = base == -1 && p.i[1] % 2 ? -1 : 1;
  if (p.i[1] == 0 || base == 1 || base == -1) return true;
  if (base == 0) return out->integer = 0, true;
  for (int64_t k = 0; k < p.i[1]; k++) /* ends after 63 steps, as it overflows then */
    if (!situ__mul_i64(out->integer, base, &out->integer)) return overflow(c);
  return true;
}
static bool negate(situ__op_call *c, situ__value *out) {
  const bool real = !situ__arg_is_integer(c, 0);
  out->real = real ? -situ__arg_number(c, 0) : 0;
  return real || situ__sub_i64(0, situ__arg_int(c, 0), &out->integer) || overflow(c);
}
/* Gives argument k, as a float too. */
static bool give(situ__op_call *c, int k, situ__value *out) {
  const bool integer = situ__arg_is_integer(c, k);
  if (integer) out->integer = situ__arg_int(c, k);
  out->real = integer ? (double)out->integer : situ__arg_number(c, k);
  return true;
}
static bool give_same(situ__op_call *c, situ__value *out) { return give(c, 0, out); }
static bool give_either(situ__op_call *c, situ__value *out) { return give(c, situ__arg_flag(c, 0) ? 1 : 2, out); }
static bool square_root(situ__op_call *c, situ__value *out) {
  give_same(c, out);
  if (out->real < 0) return situ__call_refuse(c, "has a root of a negative number");
  out->real = sqrt(out->real);
  return true;
}
static bool to_int(situ__op_call *c, situ__value *out) {
  if (situ__arg_is_integer(c, 0)) return give(c, 0, out);
  const double real = trunc(situ__arg_number(c, 0));
  if (!(real >= -0x1p63 && real < 0x1p63)) return overflow(c);
  out->integer = (int64_t)real;
  return true;
}

/* How the first argument compares with the second: -1, 0 or 1; 2 for a NaN. Returns false after recording an error. */
static bool compare(situ__op_call *c, int *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  if (p.real) *out = p.r[0] < p.r[1] ? -1 : p.r[0] == p.r[1] ? 0 : p.r[0] > p.r[1] ? 1 : 2;
  else *out = p.i[0] < p.i[1] ? -1 : p.i[0] > p.i[1];
  return true;
}
static bool equal(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order == 0, true);
}
static bool not_equal(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order != 0, true);
}
static bool less(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order == -1, true);
}
static bool less_equal(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order <= 0, true);
}
static bool greater(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order == 1, true);
}
static bool greater_equal(situ__op_call *c, situ__value *out) {
  int order;
  return compare(c, &order) && (out->integer = order == 0 || order == 1, true);
}
static bool choose(situ__op_call *c, int wanted, situ__value *out) {
  int order;
  return compare(c, &order) && give(c, order == wanted, out);
}
static bool larger(situ__op_call *c, situ__value *out) { return choose(c, -1, out); }
static bool smaller(situ__op_call *c, situ__value *out) { return choose(c, 1, out); }

static bool both(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->integer = p.i[0] & p.i[1];
  return !p.real || situ__call_refuse(c, "takes bits of a float");
}
static bool any(situ__op_call *c, situ__value *out) {
  pair p;
  if (!read_pair(c, false, &p)) return false;
  out->integer = p.i[0] | p.i[1];
  return !p.real || situ__call_refuse(c, "takes bits of a float");
}
static bool not(situ__op_call * c, situ__value *out) {
  out->integer = !situ__arg_flag(c, 0);
  return true;
}
static bool shift_left(situ__op_call *c, situ__value *out) {
  const int64_t by = situ__arg_int(c, 1);
  if (by < 0 || by > 62) return situ__call_refuse(c, "shifts a size by a negative number of bits, or beyond 64 bits");
  return situ__mul_i64(situ__arg_int(c, 0), INT64_C(1) << by, &out->integer) || overflow(c);
}
static bool shift_right(situ__op_call *c, situ__value *out) {
  const int64_t by = situ__arg_int(c, 1), value = situ__arg_int(c, 0);
  if (by < 0) return situ__call_refuse(c, "shifts a size by a negative number of bits");
  out->integer = by > 62 ? -(value < 0) : value >> by;
  return true;
}

static bool assert_scalar(situ__op_call *c, situ__value *out) {
  (void)out;
  if (situ__arg_int(c, 0)) return true;
  return situ__fail(SITU_E_SHAPE, c->node->row->target, "%s", situ__arg_text(c, 1)), false;
}

/* A run without values has none to look at. */
static bool assert_tensor(situ__op_call *c, situ__value *out) {
  (void)out;
  double value = 1;
  if (!situ_is_dry() && situ_item(situ__arg_tensor(c, 0), &value) != SITU_OK) return false;
  if (value == 0) return situ__fail(SITU_E_ARG, c->node->row->target, "%s", situ__arg_text(c, 1)), false;
  return true;
}

#define NUMBER(name, function, gives) \
  { name, "n a, n b", .size = function, .real = gives }

static const situ__op_row rows[] = {
  { "sym_size.int", "t self, i dim", .size = read_size },
  { "sym_numel.default", "t self", .size = read_numel },
  { "item.default", "t self", .size = read_item, .real = SITU__REAL_MAYBE },
  { "_local_scalar_dense.default", "t self", .size = read_item, .real = SITU__REAL_MAYBE },
  NUMBER("_operator.add", add, SITU__REAL_AS_ARGS),
  NUMBER("_operator.sub", sub, SITU__REAL_AS_ARGS),
  NUMBER("_operator.mul", mul, SITU__REAL_AS_ARGS),
  NUMBER("_operator.truediv", true_divide, SITU__REAL_ALWAYS),
  NUMBER("_operator.mod", remainder_of, SITU__REAL_AS_ARGS),
  NUMBER("_operator.pow", power, SITU__REAL_AS_ARGS),
  NUMBER("_operator.eq", equal, SITU__REAL_NEVER),
  NUMBER("_operator.ne", not_equal, SITU__REAL_NEVER),
  NUMBER("_operator.lt", less, SITU__REAL_NEVER),
  NUMBER("_operator.le", less_equal, SITU__REAL_NEVER),
  NUMBER("_operator.gt", greater, SITU__REAL_NEVER),
  NUMBER("_operator.ge", greater_equal, SITU__REAL_NEVER),
  NUMBER("_operator.and_", both, SITU__REAL_NEVER),
  NUMBER("_operator.or_", any, SITU__REAL_NEVER),
  NUMBER("torch.sym_max", larger, SITU__REAL_AS_ARGS),
  NUMBER("torch.sym_min", smaller, SITU__REAL_AS_ARGS),
  { "_operator.floordiv", "i a, i b", .size = floor_divide },
  { "_operator.lshift", "i a, i b", .size = shift_left },
  { "_operator.rshift", "i a, i b", .size = shift_right },
  { "_operator.neg", "n a", .size = negate, .real = SITU__REAL_AS_ARGS },
  { "_operator.pos", "n a", .size = give_same, .real = SITU__REAL_AS_ARGS },
  { "torch.sym_float", "n a", .size = give_same, .real = SITU__REAL_ALWAYS },
  { "torch._sym_sqrt", "n a", .size = square_root, .real = SITU__REAL_ALWAYS },
  { "torch.sym_int", "n a", .size = to_int },
  { "math.trunc", "n x", .size = to_int },
  { "torch.sym_ite", "b b, n t, n f", .size = give_either, .real = SITU__REAL_AS_ARGS },
  { "torch.sym_not", "b a", .size = not },
  { "_assert_scalar.default", "b self, s? assert_msg", .size = assert_scalar },
  { "_assert_async.default", "t self, s? assert_msg", .size = assert_tensor },
  { "_assert_async.msg", "t self, s? assert_msg", .size = assert_tensor },
  { "sym_constrain_range_for_size.default", "_ size, _ min, _ max", .results = SITU__RESULTS_NONE },
  { "sym_constrain_range.default", "_ size, _ min, _ max", .results = SITU__RESULTS_NONE },
  { "_assert_tensor_metadata.default", "_ a, _ size, _ stride, _ dtype, _ device, _ layout",
    .results = SITU__RESULTS_NONE },
};
const situ__op_family situ__size_family = { rows, sizeof rows / sizeof *rows };
