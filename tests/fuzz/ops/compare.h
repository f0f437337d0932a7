/* What the op fuzzer holds against each other. Each aborts, by wrong(), where they disagree.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_OPS_COMPARE_H
#define SITU_TESTS_FUZZ_OPS_COMPARE_H

#include "ops/run.h"

/* To the bit; a NaN may have any sign and payload. */
void compare_bits(const outcome *a, const outcome *b, const char *of);
/* f32 is near to f64. */
void compare_wide(const outcome *f32, const outcome *f64);
/* A call that failed for lack of memory changed no operand and no gradient. */
void compare_unchanged(const outcome *before, const outcome *failed);

#endif
