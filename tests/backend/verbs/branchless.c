/* The f32 functions that cells, OpenCL on CPUs, and rows without a vector library compute with: how far they are from the
   exact result. Of each 41st f32 with --all, which are 10^8 of them; else of each 4,099th.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "backend/verbs/ulp.h"

static double exact_exp(double x) { return exp(x); }
static double exact_expm1(double x) { return expm1(x); }
static double exact_log(double x) { return log(x); }
static double exact_log1p(double x) { return log1p(x); }
static double exact_tanh(double x) { return tanh(x); }
static double exact_erf(double x) { return erf(x); }
static double exact_sin(double x) { return sin(x); }
static double exact_cos(double x) { return cos(x); }

#include "kernels/dialect.h"

#include "backend/cpu/common/isa/branchless.h"
#include "backend/cpu/common/isa/sine.h"

static const struct function {
  const char *name;
  float (*call)(float);
  double (*exact)(double);
  bool near; /* has no value of far arguments */
} functions[] = {
  { "exp", exp_of, exact_exp, false },    { "expm1", expm1_of, exact_expm1, false },
  { "log", log_of, exact_log, false },    { "log1p", log1p_of, exact_log1p, false },
  { "tanh", tanh_of, exact_tanh, false }, { "erf", erf_of, exact_erf, false },
  { "sin", sin_near, exact_sin, true },   { "cos", cos_near, exact_cos, true },
};

static void functions_are_accurate(void **state) {
  (void)state;
  const uint64_t step = getenv("SITU_TEST_ALL") ? 41 : 4099;
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (uint64_t at = 0; at <= UINT32_MAX; at += step) {
      const float x = F32_BITS((U32)at);
      if (functions[k].near && IS_FAR(x)) continue;
      const double y = functions[k].call(x), want = functions[k].exact(x);
      if (!is_near_f32(y, want, 0, 2.5))
        fail_msg("%s of %.9g: %.2f ULP", functions[k].name, x, ulps(y, want, 0, 24, -125));
    }
}

static void special_values_are_those_of_c(void **state) {
  (void)state;
  static const float special[] = { 0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN, 0x1p-149f, -0x1p-149f, 0x1.fffffep+127f };
  for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
    for (size_t i = 0; i < sizeof special / sizeof *special; i++) {
      if (functions[k].near && IS_FAR(special[i])) continue;
      const float y = functions[k].call(special[i]), want = (float)functions[k].exact(special[i]);
      if (isnan(want) ? !isnan(y) : y == 0 ? want != 0 || signbit(y) != signbit(want) : isinf(want) && y != want)
        fail_msg("%s of %g is %g, not %g", functions[k].name, special[i], y, want);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(functions_are_accurate),
                                      cmocka_unit_test(special_values_are_those_of_c) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
