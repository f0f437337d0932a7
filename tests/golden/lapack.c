/* Golden values from PyTorch 2.15: factorizations, systems of equations, inverses, determinants.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 meta */
#include <stdio.h>

#include "situ/policy.h"
#include "situ_config.h"
#include "support/gold_run.h"

static void cholesky(gold_call *c) { c->out[0] = situ_linalg_cholesky(c->in[0], gold_bool(c, "upper", false)); }
static void solve(gold_call *c) {
  c->out[0] = situ_linalg_solve(c->in[0], gold_in(c, "B"), gold_bool(c, "left", true));
}
static void solve_triangular(gold_call *c) {
  c->out[0] = situ_linalg_solve_triangular(c->in[0], gold_in(c, "B"), gold_bool(c, "upper", false),
                                           gold_bool(c, "left", true), gold_bool(c, "unitriangular", false));
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
  { 0 },
};

int main(void) {
#ifdef SITU_HAVE_LAPACK
  situ_setting before; /* a device without LAPACK lets the CPU compute */
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY, .device_to_host = SITU_POLICY_COPY });
  return gold_main("lapack", ops, NULL);
#else
  (void)ops;
  puts("SKIPPED: this build has no LAPACK");
  return 77;
#endif
}
