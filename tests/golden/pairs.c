/* Golden values from PyTorch 2.15: elementary functions of two tensors.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/gold_run.h"

#define EXACT(id) \
  { #id, .two = situ_##id }
#define ROUNDED(id) \
  { #id, .two = situ_##id, .grad_steps = 3, .why = GOLD_ROUNDS }

static const gold_op ops[] = {
  EXACT(bitwise_left_shift),
  EXACT(bitwise_left_shift_),
  EXACT(bitwise_right_shift),
  EXACT(bitwise_right_shift_),
  EXACT(gcd),
  EXACT(gcd_),
  EXACT(lcm),
  EXACT(lcm_),
  EXACT(nextafter),
  EXACT(nextafter_),
  ROUNDED(atan2),
  ROUNDED(atan2_),
  ROUNDED(hypot),
  ROUNDED(hypot_),
  ROUNDED(copysign),
  ROUNDED(copysign_),
  ROUNDED(xlogy),
  ROUNDED(xlogy_),
  ROUNDED(special_xlog1py),
  ROUNDED(logaddexp),
  ROUNDED(logaddexp2),
  { "signbit", .one = situ_signbit },
  { 0 },
};

int main(void) { return gold_main("pairs", ops, NULL); }
