/* Golden values from PyTorch 2.15: factorizations, systems of equations, inverses, determinants.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 meta */
#include <stdio.h>

#include "situ/policy.h"
#include "support/gold_run.h"
#include "support/test.h"

static void cholesky(gold_call *c) { c->out[0] = situ_linalg_cholesky(c->in[0], gold_bool(c, "upper", false)); }
static void solve(gold_call *c) {
  c->out[0] = situ_linalg_solve(c->in[0], gold_in(c, "B"), gold_bool(c, "left", true));
}
static void solve_triangular(gold_call *c) {
  c->out[0] = situ_linalg_solve_triangular(c->in[0], gold_in(c, "B"), gold_bool(c, "upper", false),
                                           gold_bool(c, "left", true), gold_bool(c, "unitriangular", false));
}
static situ_linalg_qr_mode mode_of(const char *word) {
  return *word == 'c' ? SITU_LINALG_QR_COMPLETE : word[1] ? SITU_LINALG_QR_REDUCED : SITU_LINALG_QR_R;
}
static void qr(gold_call *c) {
  c->out[0] = situ_linalg_qr(c->in[0], mode_of(gold_word(c, "mode", "reduced")), &c->out[1]);
}
static void svd(gold_call *c) {
  situ_tensor *vh, *u = situ_linalg_svd(c->in[0], gold_bool(c, "full_matrices", true), &c->out[1], &vh);
  if (!u) return;
  const int64_t k = situ_size(c->out[1], -1);
  c->out[0] = situ_abs(situ_narrow(u, -1, 0, k));
  c->out[2] = situ_abs(situ_narrow(vh, -2, 0, k));
}
static bool is_upper(const gold_call *c) { return *gold_word(c, "UPLO", "L") == 'U'; }
static void eigh(gold_call *c) {
  situ_tensor *v;
  c->out[0] = situ_linalg_eigh(c->in[0], is_upper(c), &v);
  c->out[1] = situ_abs(v);
}
static void eigvalsh(gold_call *c) { c->out[0] = situ_linalg_eigvalsh(c->in[0], is_upper(c)); }
static situ_linalg_tolerance tolerance(const gold_call *c) {
  return OPTIONS_OF(situ_linalg_tolerance, with.atol = gold_real(c, "atol", 0),
                    with.rtol = gold_real(c, "rtol", gold_real(c, "rcond", SITU_NONE)),
                    with.hermitian = gold_bool(c, "hermitian", false));
}
static void pinv(gold_call *c) {
  const situ_linalg_tolerance t = tolerance(c);
  c->out[0] = situ_linalg_pinv(c->in[0], &t);
}
static void matrix_rank(gold_call *c) {
  const situ_linalg_tolerance t = tolerance(c);
  c->out[0] = situ_linalg_matrix_rank(c->in[0], &t);
}
static void lstsq(gold_call *c) {
  c->out[0] = situ_linalg_lstsq(c->in[0], gold_in(c, "B"), gold_real(c, "rcond", SITU_NONE), &c->out[1]);
}
static void matrix_power(gold_call *c) { c->out[0] = situ_linalg_matrix_power(c->in[0], gold_int(c, "n", 0)); }
static void cholesky_solve(gold_call *c) {
  c->out[0] = situ_cholesky_solve(c->in[0], gold_in(c, "L"), gold_bool(c, "upper", false));
}
static void cholesky_inverse(gold_call *c) {
  c->out[0] = situ_cholesky_inverse(c->in[0], gold_bool(c, "upper", false));
}
static void ldl_factor(gold_call *c) { c->out[0] = situ_linalg_ldl_factor(c->in[0], &c->out[1]); }
static void ldl_factor_ex(gold_call *c) {
  c->out[0] = situ_linalg_ldl_factor_ex(c->in[0], false, &c->out[1], &c->out[2]);
}
static void ldl_solve(gold_call *c) {
  c->out[0] = situ_linalg_ldl_solve(gold_in(c, "LD"), gold_in(c, "pivots"), gold_in(c, "B"));
}
static void slogdet(gold_call *c) { c->out[0] = situ_linalg_slogdet(c->in[0], &c->out[1]); }

#define ROUNDS .steps = 64, .grad_steps = 64, .why = GOLD_ROUNDS
static const gold_op ops[] = {
  { "linalg_cholesky", .run = cholesky, ROUNDS },
  { "linalg_cholesky_ex", .run = cholesky, ROUNDS },
  { "linalg_solve", .run = solve, ROUNDS },
  { "linalg_solve_ex", .run = solve, ROUNDS },
  { "linalg_solve_triangular", .run = solve_triangular, ROUNDS },
  { "linalg_inv", .one = situ_linalg_inv, ROUNDS },
  { "linalg_inv_ex", .one = situ_linalg_inv, ROUNDS },
  { "linalg_det", .one = situ_linalg_det, ROUNDS },
  { "linalg_slogdet", .run = slogdet, ROUNDS },
  { "linalg_qr", .run = qr, ROUNDS },
  { "linalg_svd", .run = svd, ROUNDS },
  { "linalg_svdvals", .one = situ_linalg_svdvals, ROUNDS },
  { "linalg_eigh", .run = eigh, .steps = 64, .grad_steps = 256, .why = "divided by gaps of eigenvalues" },
  { "linalg_eigvalsh", .run = eigvalsh, ROUNDS },
  { "linalg_pinv", .run = pinv, ROUNDS },
  { "pinverse", .run = pinv, ROUNDS },
  { "linalg_matrix_rank", .run = matrix_rank },
  { "linalg_lstsq", .run = lstsq, ROUNDS },
  { "linalg_ldl_factor", .run = ldl_factor, ROUNDS },
  { "linalg_ldl_factor_ex", .run = ldl_factor_ex, ROUNDS },
  { "linalg_ldl_solve", .run = ldl_solve, ROUNDS },
  { "linalg_matrix_exp", .one = situ_linalg_matrix_exp, ROUNDS },
  { "linalg_matrix_power", .run = matrix_power, ROUNDS },
  { "cholesky_solve", .run = cholesky_solve, ROUNDS },
  { "cholesky_inverse", .run = cholesky_inverse, ROUNDS },
  { "logdet", .one = situ_logdet, ROUNDS },
  { 0 },
};

int main(void) {
  if (!test_has_lapack()) {
    puts("SKIPPED: this machine has no LAPACK");
    return 77;
  }
  situ_setting before; /* a device without LAPACK lets the CPU compute */
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY, .device_to_host = SITU_POLICY_COPY });
  return gold_main("lapack", ops, NULL);
}
