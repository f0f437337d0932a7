/* Golden values from PyTorch 2.15: norms, products and factorizations of matrices.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 meta */
#include <stdio.h>

#include "situ/policy.h"
#include "support/golden/run.h"
#include "support/test.h"

/* Of a vector, or of matrices. */
static void norm(gold_call *c) {
  if (gold_has(c, "matrix")) (void)gold_invoke(c, "linalg_matrix_norm", "ord:matrix");
  else (void)gold_invoke(c, "linalg_vector_norm", "ord=2");
}

#define ROUNDS GOLD_STEPS(64, 64)

static const gold_op ops[] = {
  { "linalg_norm", .run = norm, ROUNDS },
  { "linalg_lu_factor*", .call = "linalg_lu_factor", ROUNDS },
  { "lu", .call = "linalg_lu_factor", ROUNDS },
  { "*lu_solve", .call = "linalg_lu_solve", ROUNDS },
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
  return gold_main("matrices", ops, NULL);
}
