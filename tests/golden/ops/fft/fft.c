/* Golden values from PyTorch 2.15: Fourier transforms, short-time transforms, windows. Complex numbers are torch's
   view_as_real.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 meta */
#include "support/golden/run.h"

#define SUMS "a sum of terms that cancel"

static const gold_op ops[] = {
  { .name = "fft_*shift" },
  { .name = "fft_*freq" },
  /* a sum of n terms that cancel is as wrong as the terms are */
  { "fft_*", .steps = 8, .grad_steps = 8, .why = SUMS },
  { "stft", .steps = 8, .grad_steps = 8, .why = SUMS },
  { "*", GOLD_STEPS(16, 16) },
  { 0 },
};

int main(void) { return gold_main("fft", ops, NULL); }
