/* Golden values from PyTorch 2.15: norms, products and factorizations of matrices.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 meta */
#include <stdio.h>
#include <string.h>

#include "situ/policy.h"
#include "support/gold_run.h"
#include "support/test.h"

/* ---- norms ---- */

static situ_matrix_norm order_of(const char *word) {
  static const char *const words[] = { "fro", "nuc", "2", "-2", "1", "-1", "inf", "-inf" };
  int order = 0;
  while (order < 7 && strcmp(word, words[order])) order++;
  return (situ_matrix_norm)order;
}
static void matrix_norm(gold_call *c, const char *word) {
  const situ_reduce_options o = { gold_list(c, "dim"), gold_bool(c, "keepdim", false), gold_dtype(c, "dtype") };
  c->out[0] = situ_linalg_matrix_norm(c->in[0], order_of(word), &o);
}
static void linalg_matrix_norm(gold_call *c) { matrix_norm(c, gold_word(c, "ord", "fro")); }
static void linalg_norm(gold_call *c) {
  const situ_reduce_options o = { gold_list(c, "dim"), gold_bool(c, "keepdim", false), gold_dtype(c, "dtype") };
  if (gold_has(c, "matrix")) matrix_norm(c, gold_word(c, "matrix", ""));
  else c->out[0] = situ_linalg_vector_norm(c->in[0], gold_real(c, "ord", 2), &o);
}

/* ---- LU ---- */

static void lu_factor(gold_call *c) { c->out[0] = situ_linalg_lu_factor(c->in[0], &c->out[1]); }
static void lu(gold_call *c) { c->out[0] = situ_linalg_lu(c->in[0], &c->out[1], &c->out[2]); }
static void lu_solve(gold_call *c) {
  c->out[0] = situ_linalg_lu_solve(gold_in(c, "LU"), gold_in(c, "pivots"), gold_in(c, "B"), gold_bool(c, "left", true),
                                   gold_bool(c, "adjoint", false));
}

/* ---- systems of tensors ---- */

static void tensorsolve(gold_call *c) {
  c->out[0] = situ_linalg_tensorsolve(c->in[0], gold_in(c, "B"), gold_list(c, "dims"));
}
static void tensorinv(gold_call *c) { c->out[0] = situ_linalg_tensorinv(c->in[0], (int)gold_int(c, "ind", 2)); }

#define ROUNDS .steps = 64, .grad_steps = 64, .why = GOLD_ROUNDS
static const gold_op ops[] = {
  { "linalg_matrix_norm", .run = linalg_matrix_norm, ROUNDS },
  { "linalg_norm", .run = linalg_norm, ROUNDS },
  { "linalg_lu_factor", .run = lu_factor, ROUNDS },
  { "linalg_lu_factor_ex", .run = lu_factor, ROUNDS },
  { "lu", .run = lu_factor, ROUNDS },
  { "linalg_lu", .run = lu, ROUNDS },
  { "linalg_lu_solve", .run = lu_solve, ROUNDS },
  { "lu_solve", .run = lu_solve, ROUNDS },
  { "linalg_tensorsolve", .run = tensorsolve, ROUNDS },
  { "linalg_tensorinv", .run = tensorinv, ROUNDS },
  { 0 },
};

int main(void) {
  if (!test_has_lapack()) {
    puts("SKIPPED: this machine has no LAPACK");
    return 77;
  }
  situ_setting before; /* a device without LAPACK lets the CPU compute */
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY, .device_to_host = SITU_POLICY_COPY });
  return gold_main("matrices", ops, NULL);
}
