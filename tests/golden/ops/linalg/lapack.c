/* Golden values from PyTorch 2.15: factorizations, systems of equations, inverses, determinants.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 meta */
#include <stdio.h>

#include "situ/policy.h"
#include "support/golden/run.h"
#include "support/test.h"

/* Signs of columns are free. */
static void svd(gold_call *c) {
  situ_tensor *vh, *u = situ_linalg_svd(c->in[0], gold_bool(c, "full_matrices", true), &c->out[1], &vh);
  if (!u) return;
  const int64_t k = situ_size(c->out[1], -1);
  c->out[0] = situ_abs(situ_narrow(u, -1, 0, k));
  c->out[2] = situ_abs(situ_narrow(vh, -2, 0, k));
}
static void eigh(gold_call *c) {
  situ_tensor *v;
  c->out[0] = situ_linalg_eigh(c->in[0], *gold_word(c, "UPLO", "L") == 'U', &v);
  c->out[1] = situ_abs(v);
}
#define ROUNDS GOLD_STEPS(64, 64)

static const gold_op ops[] = {
  { "linalg_cholesky_ex", .call = "linalg_cholesky", ROUNDS },
  { "linalg_solve_triangular", ROUNDS },
  { "linalg_solve*", .call = "linalg_solve", ROUNDS },
  { "linalg_svd", .run = svd, ROUNDS },
  { "linalg_eigh", .run = eigh, .steps = 64, .grad_steps = 256, .why = "divided by gaps of eigenvalues" },
  { "pinverse", .with = "rtol:rcond", .call = "linalg_pinv", ROUNDS },
  { .name = "linalg_matrix_rank" },
  { "linalg_inv_ex", .call = "linalg_inv", ROUNDS },
  { "*", ROUNDS },
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
