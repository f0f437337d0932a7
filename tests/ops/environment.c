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
#include "support/ops/parity.h"

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
/* One for what the others are. */
static void flush_and_round_up(void) { fesetround(FE_UPWARD), flush(); }
static bool flushes_and_rounds_up(void) { return flushes() && rounds_up(); }
static void trap(void) { (void)feenableexcept(TRAPS); }
static bool traps(void) { return fegetexcept() == TRAPS; }

static void nothing(void) {}
static bool is_default(void) { return fegetround() == FE_TONEAREST && !fegetexcept() && !flushes(); }
static const parity_environment environments[] = { { "default", nothing, is_default },
                                                   { "subnormals flushed", flush, flushes },
                                                   { "rounded up", round_up, rounds_up },
                                                   { "rounded down", round_down, rounds_down },
                                                   { "rounded to 0", round_to_zero, rounds_to_zero },
                                                   { "flushed, rounded up", flush_and_round_up, flushes_and_rounds_up },
                                                   { "traps", trap, traps } };
enum {
  ENVIRONMENTS = sizeof environments / sizeof *environments,
  LAST = 2 /* of these, which show what the others do */
};

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
  const int count = getenv("SITU_TEST_ALL") ? ENVIRONMENTS : LAST;
  const parity_environment *first = &environments[ENVIRONMENTS - count];
  assert_true(signal(SIGFPE, report_trap) != SIG_ERR);
  for (size_t k = 0; k < parity_row_count; k++) {
    running = parity_rows[k].op;
    if (parity_is_missing(&parity_rows[k])) continue;
    failed += parity_in(&parity_rows[k], test_device(), SITU_F32, first, count) < 0;
    if (getenv("SITU_TEST_ALL") || test_takes(k, 2))
      failed += parity_in(&parity_rows[k], test_device(), others[(k + k / 4) % 4], first, count) < 0;
  }
  assert_int_equal(failed, 0);
}

/* Calls that compute numbers on the host first. x: f32 [4, 8, 8]. */
/* clang-format off */
#define HOST_CALLS(_) \
  _(situ_linspace(0, 1, 7, &here)) _(situ_linspace(-1, 2.3, 100, &here)) _(situ_arange(0, 1, 0.1, &here)) \
  _(situ_arange(0, 3.3, 1.1, &here)) _(situ_logspace(0, 1.3, 9, 10, &here)) _(situ_full(SITU_SHAPE(3), 0.1, &here)) \
  _(situ_full(SITU_SHAPE(3), 1e-40, &here)) _(situ_rand(SITU_SHAPE(99), &here)) _(situ_randn(SITU_SHAPE(99), &here)) \
  _(situ_uniform_(situ_empty(SITU_SHAPE(99), &here), 0.1, 0.7, NULL)) \
  _(situ_normal_(situ_empty(SITU_SHAPE(99), &here), 0.1, 0.7, NULL)) \
  _(situ_exponential_(situ_empty(SITU_SHAPE(99), &here), 0.3, NULL)) _(situ_randperm(3000, &here)) \
  _(situ_hann_window(9, true, &here)) _(situ_kaiser_window(9, true, 3, &here)) _(situ_kaiser_window(9, true, 300, &here)) \
  _(situ_signal_windows_gaussian(9, 0.7, true, &here)) _(situ_fft_fftfreq(9, 0.1, &here)) _(situ_celu(x, 0.3)) \
  _(situ_elu(x, 0.3)) _(situ_dropout(x, 0.3, true, NULL)) _(situ_lp_pool2d(x, 3, SITU_DIMS(3), SITU_DIMS(1), false)) \
  _(situ_fft_rfft(x, &(situ_fft_options){ .norm = SITU_FFT_NORM_ORTHO })) _(situ_std(x, 1, NULL)) _(situ_mean(x, NULL)) \
  _(situ_gelu(x, SITU_GELU_TANH)) _(situ_softplus(x, 0.3, 20)) _(situ_pow_scalar(x, 1.3)) _(situ_clamp(x, -0.1, 0.3)) \
  _(situ_layer_norm(x, SITU_SHAPE(8), NULL, NULL, 1e-5)) _(situ_interpolate(situ_unsqueeze(x, 0), \
      &(situ_interpolate_options){ .mode = SITU_INTERPOLATE_BICUBIC, .size = SITU_DIMS(5, 11) })) \
  _(situ_scaled_dot_product_attention(x, x, x, NULL)) _(situ_mul_scalar(x, 0.1)) _(situ_to_dtype(x, SITU_BF16)) \
  _(situ_to_dtype(situ_to_dtype(x, SITU_F64), SITU_F32)) _(situ_to_dtype(x, SITU_F16)) _(situ_to_dtype(x, SITU_I32)) \
  _(situ_multinomial(situ_abs(situ_select(x, 0, 0)), 5, true, NULL)) _(situ_adaptive_avg_pool2d(x, SITU_DIMS(3)))
/* clang-format on */
static situ_tensor *call_on_host(int which, situ_tensor *x) {
  const situ_options here = { .device = test_device() };
  int at = 0;
#define CALL(expression) \
  if (at++ == which) return expression;
  HOST_CALLS(CALL)
  return NULL;
}
static const char *const host_calls[] = {
#define TEXT(expression) #expression,
  HOST_CALLS(TEXT)
};

static void calls_that_begin_on_the_host_give_the_same_bits(void **state) {
  (void)state;
  int failed = 0;
  situ_tensor *x = test_random_f32(SITU_SHAPE(4, 8, 8));
  for (int k = 0; k < (int)(sizeof host_calls / sizeof *host_calls); k++) {
    running = host_calls[k];
    situ_manual_seed(5);
    situ_tensor *want = call_on_host(k, x);
    if (!want) fail_msg("%s: %s", host_calls[k], situ_error_message());
    for (int e = 0; e < ENVIRONMENTS; e++) {
      situ_manual_seed(5);
      environments[e].begin();
      situ_tensor *got = call_on_host(k, x);
      const bool kept = environments[e].is_set();
      fesetenv(FE_DFL_ENV);
      if (got && kept && test_same_bits(want, got)) continue;
      failed++, print_error("%s, %s: %s\n", host_calls[k], environments[e].name, kept ? "other bits" : "not restored");
    }
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

/* The program lets traps through while a flag is pending that it has raised before, as of x87's fmod. */
static void a_flag_of_before_does_not_trap(void **state) {
  (void)state;
  situ_tensor *x = test_random_f32(SITU_SHAPE(4));
  volatile long double none = 0;
  none = none / none;
  trap();
  situ_tensor *y = situ_add(x, x);
  const bool kept = traps();
  fesetenv(FE_DFL_ENV);
  assert_true(y && kept);
}

int main(void) {
  if (test_device().kind == SITU_CUDA) { /* nor do the threads of its double belong to situ */
    puts("SKIPPED: a GPU does not compute in the host's environment");
    return 77;
  }
  const struct CMUnitTest workers[] = { TEST(workers_give_the_same_bits) };
  /* its driver compiles each kernel; its threads are what may differ */
  if (test_device().kind == SITU_OPENCL) return cmocka_run_group_tests(workers, NULL, NULL);
  const struct CMUnitTest tests[] = { TEST(every_op_gives_the_same_bits),
                                      TEST(calls_that_begin_on_the_host_give_the_same_bits),
                                      TEST(a_flag_of_before_does_not_trap), TEST(workers_give_the_same_bits) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
