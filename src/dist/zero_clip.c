/* Clipping by the norm of gradients of which each rank has a part, with the same bits for any division: the sum is
   exact until its last rounding.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "dist/zero.h"
#include "situ/sys/grad.h"
#include "situ/sys/grad_scaler.h"

static const char op[] = "dist_zero_clip_grad_norm_";

/* ---- exact sums ---- */

/* A sum of doubles that are not negative: for each exponent the sum of the 53 bits of mantissas, in three whole numbers
   that cannot overflow below 2^45 terms. The numbers do not depend on the order, nor on which rank adds a term. */
enum { EXPONENTS = 2048, NOT_FINITE = EXPONENTS - 1, PIECE = 18, PIECE_MASK = (1 << PIECE) - 1 };
typedef struct exact {
  int64_t sum[3][EXPONENTS];
  double largest[2]; /* of the terms, NaN left out; and whether one is NaN */
} exact;

static void add_term(exact *x, double term) {
  uint64_t bits;
  memcpy(&bits, &term, sizeof bits);
  const unsigned exponent = bits >> 52 & NOT_FINITE;
  const uint64_t mantissa = (bits & 0xFFFFFFFFFFFFFu) | (uint64_t)(exponent != 0) << 52;
  if (term > x->largest[0]) x->largest[0] = term;
  if (exponent == NOT_FINITE) {
    x->sum[isnan(term) != 0][exponent]++;
    if (isnan(term)) x->largest[1] = 1;
    return;
  }
  x->sum[0][exponent] += mantissa & PIECE_MASK;
  x->sum[1][exponent] += mantissa >> PIECE & PIECE_MASK;
  x->sum[2][exponent] += mantissa >> 2 * PIECE;
}

static double sum_of(const exact *x) {
  double total = 0;
  if (x->sum[1][NOT_FINITE]) return NAN;
  if (x->sum[0][NOT_FINITE]) return INFINITY;
  for (int e = 0; e < NOT_FINITE; e++) {
    double mantissas = 0;
    for (int k = 0; k < 3; k++) mantissas += ldexp((double)x->sum[k][e], k * PIECE);
    total += ldexp(mantissas, (e ? e : 1) - 1075);
  }
  return total;
}

/* ---- the norm ---- */

static double term_of(double value, double p) {
  return p == 2 ? value * value : p == 1 || isinf(p) ? fabs(value) : pow(fabs(value), p);
}

/* Adds the elements of one gradient, a few at a time. */
static bool add_gradient(exact *x, situ_tensor *grad, double p) {
  enum { SOME = 1 << 12 };
  double values[SOME];
  for (int64_t at = 0; at < situ_numel(grad); at += SOME) {
    const int64_t count = situ__min_i64(SOME, situ_numel(grad) - at);
    situ_tensor *some = situ_to_dtype(situ_narrow(grad, 0, at, count), SITU_F64);
    if (situ_copy_to_host(some, values, (size_t)count * sizeof *values) != SITU_OK) return false;
    for (int64_t i = 0; i < count; i++) add_term(x, term_of(values[i], p));
  }
  return true;
}

/* Of this rank's elements. */
static bool add_own(const situ_dist_zero *z, exact *x, double p) {
  bool good = situ__zero_set_gradients(z, true);
  for (int64_t k = 0; good && k < z->part_count; k++) {
    const situ__zero_part *part = &z->parts[k];
    situ_tensor *grad =
        part->rank == z->comm->rank && situ__zero_has_gradient(z, part->parameter) ? situ_grad(part->values) : NULL;
    good = !grad || add_gradient(x, grad, p);
  }
  return situ__zero_set_gradients(z, false) && good;
}

static bool reduce(const situ_dist_zero *z, exact *x, double p) {
  const bool largest = isinf(p);
  const situ_comm_call call = { .op = SITU_COMM_ALL_REDUCE,
                                .reduction = largest ? SITU_COMM_MAX : SITU_COMM_SUM,
                                .dtype = largest ? SITU_F64 : SITU_I64,
                                .count = largest ? 2 : 3 * EXPONENTS,
                                .send = largest ? (void *)x->largest : (void *)x->sum,
                                .receive = largest ? (void *)x->largest : (void *)x->sum,
                                .name = "norm of the gradients" };
  return situ__comm_call(op, z->comm, &call) == SITU_OK;
}

static double norm_of(const exact *x, double p) {
  if (isinf(p)) return x->largest[1] != 0 ? NAN : x->largest[0];
  const double sum = sum_of(x);
  return p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p);
}

/* ---- clipping ---- */

/* The norm of torch has the gradients' dtype. */
static situ_tensor *norm_tensor(const situ_dist_zero *z, double norm) {
  bool wide = false;
  for (int64_t i = 0; i < situ_tree_count(z->parameters); i++)
    wide = wide || situ_dtype_of(situ_tree_tensor_at(z->parameters, i)) == SITU_F64;
  return situ_full(SITU_SCALAR, norm,
                   &(situ_options){ .dtype = wide ? SITU_F64 : SITU_F32, .device = { SITU_CPU, 0 } });
}

situ_tensor *situ__zero_gradient_at(const void *zero, int64_t i) {
  const situ_dist_zero *z = zero;
  const int64_t part = i - situ_tree_count(z->parameters);
  if (part < 0) return situ_grad(situ_tree_tensor_at(z->parameters, i));
  const situ__zero_part *p = &z->parts[part];
  return situ_grad_is_in_parts(situ_tree_tensor_at(z->parameters, p->parameter)) ? situ_grad(p->values) : NULL;
}

static bool scale_gradients(const situ_dist_zero *z, double norm, double max_norm) {
  const int64_t most = situ__zero_gradients(z);
  situ_tensor **grad = situ__alloc((size_t)(most + 1) * sizeof *grad), *total = norm_tensor(z, norm);
  if (!grad) return situ__no_memory(op, (size_t)(most + 1) * sizeof *grad), false;
  int64_t count = 0;
  for (int64_t i = 0; i < most; i++)
    if ((grad[count] = situ__zero_gradient_at(z, i))) count++;
  const bool good = total && situ_clip_by_norm_(grad, count, total, max_norm) == SITU_OK;
  situ__free(grad);
  return good;
}

static bool clip(const situ_dist_zero *z, exact *x, double max_norm, double p, double *total) {
  if (!add_own(z, x, p) || !reduce(z, x, p)) return false;
  const double norm = norm_of(x, p);
  if (total) *total = norm;
  return scale_gradients(z, norm, max_norm);
}

situ_status situ_dist_zero_clip_grad_norm_(situ_dist_zero *zero, double max_norm, double p, double *total) {
  SITU__MADE_OF_OPS(op);
  if (total) *total = 0;
  if (!situ__zero_given(op, zero)) return situ_error();
  if (!(max_norm >= 0) || !(p > 0))
    return situ__fail(SITU_E_ARG, op, "max_norm %g, p %g: at least 0, and above 0", max_norm, p);
  exact *x = situ__calloc(1, sizeof *x);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = x ? clip(zero, x, max_norm, p, total) : situ__no_memory(op, sizeof *x) == SITU_OK;
  if (!good) situ_comm_abort(zero->comm, situ_error_message());
  const situ_status ended = situ_scope_end(&s);
  situ__free(x);
  return good ? ended : situ_error();
}
