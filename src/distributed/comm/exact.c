/* Exact sums of powers.
   SPDX-License-Identifier: MIT */
#include "exact.h"

#include <math.h>
#include <string.h>

#include "base/size.h"
#include "situ/ops.h"

enum { NOT_FINITE = SITU__EXPONENTS - 1, PIECE = 18, PIECE_MASK = (1 << PIECE) - 1 };

static void add_term(situ__exact *x, double term) {
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

static double sum_of(const situ__exact *x) {
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
bool situ__exact_add(situ__exact *x, situ_tensor *grad, double p) {
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

bool situ__exact_reduce(const char *op, situ_comm *comm, situ__exact *x, double p) {
  const bool largest = isinf(p);
  const situ_comm_call call = { SITU_COMM_ALL_REDUCE,
                                .reduction = largest ? SITU_COMM_MAX : SITU_COMM_SUM,
                                .dtype = largest ? SITU_F64 : SITU_I64,
                                .count = largest ? 2 : 3 * SITU__EXPONENTS,
                                .send = largest ? (void *)x->largest : (void *)x->sum,
                                .receive = largest ? (void *)x->largest : (void *)x->sum,
                                .name = "norm of the gradients" };
  return situ__comm_call(op, comm, &call) == SITU_OK;
}

double situ__exact_norm(const situ__exact *x, double p) {
  if (isinf(p)) return x->largest[1] != 0 ? NAN : x->largest[0];
  const double sum = sum_of(x);
  return p == 2 ? sqrt(sum) : p == 1 ? sum : pow(sum, 1 / p);
}
