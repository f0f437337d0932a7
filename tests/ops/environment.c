/* The host's floating-point environment changes no bit: every op, forward and backward, in a thread that has set subnormal
   numbers to be flushed, another rounding, or traps.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <fenv.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "situ/sys/op.h"
#include "support/parity.h"

#if defined(__SSE__)
enum { FLUSH = 0x8040 }; /* FTZ and DAZ of MXCSR */
static void flush(void) { __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | FLUSH); }
static bool flushes(void) { return (__builtin_ia32_stmxcsr() & FLUSH) == FLUSH; }
#elif defined(__aarch64__)
static void flush(void) { __builtin_aarch64_set_fpcr(__builtin_aarch64_get_fpcr() | 1u << 24); }
static bool flushes(void) { return __builtin_aarch64_get_fpcr() >> 24 & 1; }
#else
static void flush(void) {}
static bool flushes(void) { return true; }
#endif
static void round_up(void) { fesetround(FE_UPWARD); }
static bool rounds_up(void) { return fegetround() == FE_UPWARD; }
static void round_down(void) { fesetround(FE_DOWNWARD); }
static bool rounds_down(void) { return fegetround() == FE_DOWNWARD; }
static void round_to_zero(void) { fesetround(FE_TOWARDZERO); }
static bool rounds_to_zero(void) { return fegetround() == FE_TOWARDZERO; }
enum { TRAPS = FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW };
static void trap(void) { (void)feenableexcept(TRAPS); }
static bool traps(void) { return fegetexcept() == TRAPS; }

static const parity_environment environments[] = { { "subnormals flushed", flush, flushes },
                                                   { "rounded up", round_up, rounds_up },
                                                   { "rounded down", round_down, rounds_down },
                                                   { "rounded to 0", round_to_zero, rounds_to_zero },
                                                   { "traps", trap, traps } };
enum { ENVIRONMENTS = sizeof environments / sizeof *environments };

static const char *volatile running = "?";
static void report_trap(int signal) {
  (void)signal;
  static const char text[] = ": SIGFPE\n";
  if (write(2, running, strlen(running)) < 0 || write(2, text, sizeof text - 1) < 0) _exit(2);
  _exit(1);
}

/* f32 and, in turn, one other dtype. */
static void every_op_gives_the_same_bits(void **state) {
  (void)state;
  static const situ_dtype others[] = { SITU_F64, SITU_F16, SITU_BF16, SITU_I32 };
  int failed = 0;
  assert_true(signal(SIGFPE, report_trap) != SIG_ERR);
  for (size_t k = 0; k < parity_row_count; k++) {
    running = parity_rows[k].op;
    if (parity_is_missing(&parity_rows[k])) continue;
    failed += parity_in(&parity_rows[k], test_device(), SITU_F32, environments, ENVIRONMENTS) < 0;
    if (getenv("SITU_TEST_ALL") || test_takes(k, 2))
      failed += parity_in(&parity_rows[k], test_device(), others[k % 4], environments, ENVIRONMENTS) < 0;
  }
  assert_int_equal(failed, 0);
}

enum { MANY = 1 << 20 };
static void compute(const parity_environment *environment, float *product, float *power) {
  const situ_options here = { .device = test_device() };
  situ_tensor *x = situ_full(SITU_SHAPE(MANY), 1e-30, &here), *y = situ_full(SITU_SHAPE(MANY), 1e-10, &here);
  if (environment) environment->begin();
  situ_tensor *small = situ_mul(x, y), *root = situ_exp(situ_mul_scalar(situ_div(y, x), 1e-20 / 3));
  const situ_status first = situ_copy_to_host(small, product, MANY * sizeof *product),
                    second = situ_copy_to_host(root, power, MANY * sizeof *power);
  if (environment) assert_true(environment->is_set());
  fesetenv(FE_DFL_ENV);
  assert_int_equal(first, SITU_OK);
  assert_int_equal(second, SITU_OK);
}

/* Workers compute as the caller does, also those that a thread with an environment of its own has started. */
static void workers_give_the_same_bits(void **state) {
  (void)state;
  static float want[2][MANY], got[2][MANY];
  const int before = situ_get_num_threads();
  compute(NULL, want[0], want[1]);
  assert_true(want[0][0] > 0 && want[0][0] < 1e-38f);
  for (int e = 0; e < ENVIRONMENTS; e++) {
    assert_int_equal(situ_set_num_threads(1), SITU_OK); /* ends the workers */
    environments[e].begin();
    const situ_status status = situ_set_num_threads(4);
    fesetenv(FE_DFL_ENV);
    assert_int_equal(status, SITU_OK);
    compute(&environments[e], got[0], got[1]);
    assert_memory_equal(got, want, sizeof want);
    compute(NULL, got[0], got[1]);
    assert_memory_equal(got, want, sizeof want);
  }
  assert_int_equal(situ_set_num_threads(before), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op_gives_the_same_bits), TEST(workers_give_the_same_bits) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
