/* What every test stands on.
   SPDX-License-Identifier: MIT */
#include "support/test.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "backend/cpu/linalg/lapack_library.h"
#include "device/device.h"
#include "support/checked.h"
#include "support/last_words.h"

static situ_scope scope;
static _Thread_local int own_index = -1;
static int64_t live_tensors, live_bytes;

situ_device test_device(void) {
  const char *name = getenv("SITU_TEST_DEVICE");
  situ_device device = { 0 };
  if (situ_device_parse(name && *name ? name : "cpu", &device) != SITU_OK) fail_msg("%s", situ_error_message());
  test_compile_quickly();
  if (device.kind == SITU_OPENCL && !situ_device_is_available(device)) {
    print_message("skipped: %s\n", situ_device_status("opencl"));
    exit(77);
  }
  if (own_index >= 0) device.index = (uint16_t)own_index;
  return device;
}

void test_use_device(int index) { own_index = index; }

situ_device test_device_at(int index) {
  situ_device device = { test_device().kind, (uint16_t)index };
  if (!situ_device_is_available(device)) {
    print_message("skipped: there is no second device: %s\n", situ_device_status("opencl"));
    exit(77);
  }
  return device;
}

bool test_has_lapack(void) { return situ__library_open(&situ__lapack_library); }
bool test_has_lines(void) {
  char text[16];
  return situ__line_text((const char *)(uintptr_t)test_has_lines + 1, text, sizeof text);
}

void test_compile_quickly(void) {
  const bool as_users = getenv("SITU_TEST_ALL") || getenv("SITU_TEST_AS_USED") || getenv("SITU_OPENCL_OPTIONS");
  if (as_users) return;
  if (gettid() != getpid()) fail_msg("%s", "setenv beside another thread's getenv crashes: call this before");
  setenv("SITU_OPENCL_OPTIONS", "-cl-opt-disable", 0);
}

#ifdef __SANITIZE_ADDRESS__
static const bool sanitized = true;
#else
static const bool sanitized = false;
#endif

bool test_is_slow(void) {
  const bool slow =
      sanitized || test_device().kind == SITU_OPENCL || getenv("SITU_CUDA_PATH") || getenv("SITU_TEST_FEWER");
  return slow && !getenv("SITU_TEST_ALL");
}

bool test_takes(size_t turn, unsigned every) { return turn % every == 0 || !test_is_slow(); }

bool test_is_mine(size_t turn) {
  if (!getenv("SITU_TEST_SHARED") || getenv("SITU_TEST_ALL") || getenv("SITU_TEST_AS_USED")) return true;
  return turn % 2 == (test_device().kind == SITU_OPENCL);
}

bool test_takes_threads(size_t turn) { return test_takes(turn, test_device().kind == SITU_CPU ? 6 : 24); }

long test_next_fault(long nth) {
  return nth + (test_is_slow() ? 1 + (long)((unsigned)nth * 2654435761u >> 16) % 5 : 1);
}

int test_most_threads(void) { return test_device().kind == SITU_CPU ? 8 : 2; }

int test_begin(void **state) {
  (void)state;
  last_words_begin();
  test_compile_quickly();
  situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  situ_manual_seed(1);
  live_tensors = situ_live_tensors();
  live_bytes = situ_live_bytes();
  situ_scope_begin(&scope);
  return 0;
}

int test_end(void **state) {
  (void)state;
  situ_status status = situ_scope_end(&scope);
  int bad = 0;
  if (situ_error() != SITU_OK) bad = 1, print_error("left an error: %s\n", situ_error_message());
  situ_error_clear();
  if (situ_synchronize(test_device()) != SITU_OK) bad = 1, print_error("the device failed: %s\n", situ_error_message());
  situ_error_clear();
  if (checked_complaints()) bad = 1, print_error("a call and its error disagree\n");
  if (situ_live_tensors() != live_tensors || situ_live_bytes() != live_bytes) {
    bad = 1;
    print_error("leaked %lld tensors, %lld bytes\n", (long long)(situ_live_tensors() - live_tensors),
                (long long)(situ_live_bytes() - live_bytes));
  }
  (void)status;
  return bad;
}

situ_tensor *test_tensor(situ_dtype dtype, situ_shape shape, const double *values) {
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  situ_tensor *wide = situ_from_host(values, (size_t)count * sizeof *values, shape,
                                     &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  situ_tensor *t = situ_to_dtype(wide, dtype);
  if (!t) fail_msg("test_tensor: %s", situ_error_message());
  return t;
}

situ_tensor *test_tensor_of(situ_dtype dtype, situ_shape shape, const double *values, size_t count) {
  size_t want = 1;
  for (int d = 0; d < shape.ndim; d++) want *= (size_t)shape.dim[d];
  if (count != want && (want || count != 1)) fail_msg("a test gives %zu values for %zu elements", count, want);
  return test_tensor(dtype, shape, values);
}

situ_tensor *test_random(situ_shape shape, double low, double high, bool grad) {
  static uint32_t state = 12345;
  int64_t count = 1;
  for (int d = 0; d < shape.ndim; d++) count *= shape.dim[d];
  double *values = malloc((size_t)(count ? count : 1) * sizeof *values);
  for (int64_t i = 0; i < count; i++) {
    state = state * 1664525u + 1013904223u;
    values[i] = low + (high - low) * (state >> 8) / 16777216.0;
  }
  situ_tensor *t = test_tensor(SITU_F64, shape, values);
  free(values);
  return grad ? situ_requires_grad_(t, true) : t;
}

situ_tensor *test_activated(situ_tensor *y, situ_activation activation) {
  switch (activation) {
  case SITU_ACTIVATION_RELU: return situ_relu(y);
  case SITU_ACTIVATION_GELU_TANH: return situ_gelu(y, SITU_GELU_TANH);
  case SITU_ACTIVATION_GELU: return situ_gelu(y, SITU_GELU_NONE);
  case SITU_ACTIVATION_SILU: return situ_silu(y);
  case SITU_ACTIVATION_NONE: break;
  }
  return y;
}

bool test_same_bits(situ_tensor *a, situ_tensor *b) {
  const size_t size = (size_t)situ_numel(a) * situ_dtype_size(situ_dtype_of(a));
  unsigned char *x = malloc(size), *y = malloc(size);
  assert_true(x && y && situ_numel(a) == situ_numel(b));
  assert_int_equal(situ_copy_to_host(a, x, size), SITU_OK);
  assert_int_equal(situ_copy_to_host(b, y, size), SITU_OK);
  const bool same = memcmp(x, y, size) == 0;
  free(x), free(y);
  return same;
}

situ_tensor *test_random_f32(situ_shape shape) { return situ_to_dtype(test_random(shape, -1, 1, false), SITU_F32); }

void test_read(situ_tensor *t, double *out) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *wide = situ_to_dtype(t, SITU_F64);
  situ_status status = wide ? situ_copy_to_host(wide, out, (size_t)situ_numel(wide) * sizeof *out) : situ_error();
  if (situ_scope_end(&s) != SITU_OK || status != SITU_OK) fail_msg("test_read: %s", situ_error_message());
}

static void at_fault(const char *file, int line, const char *what) {
  print_error("%s\n", what);
  _fail(file, line);
}

static void compare(const double *got, const double *want, int64_t count, double rtol, double atol, const char *file,
                    int line) {
  for (int64_t i = 0; i < count; i++) {
    bool same = got[i] == want[i] || (isnan(got[i]) && isnan(want[i]));
    if (same || (isfinite(want[i]) && fabs(got[i] - want[i]) <= atol + rtol * fabs(want[i]))) continue;
    char text[160];
    snprintf(text, sizeof text, "element %lld is %.17g, wanted %.17g", (long long)i, got[i], want[i]);
    at_fault(file, line, text);
  }
}

void test_close_(situ_tensor *t, situ_shape shape, const double *want, double rtol, double atol, const char *file,
                 int line) {
  if (!t) at_fault(file, line, situ_error_message());
  situ_shape own = situ_shape_of(t);
  bool same = own.ndim == shape.ndim;
  for (int d = 0; same && d < own.ndim; d++) same = own.dim[d] == shape.dim[d];
  if (!same) at_fault(file, line, "the shape differs");
  int64_t count = situ_numel(t);
  double *got = malloc((size_t)(count ? count : 1) * sizeof *got);
  test_read(t, got);
  compare(got, want, count, rtol, atol, file, line);
  free(got);
}

void test_same_(situ_tensor *a, situ_tensor *b, double rtol, double atol, const char *file, int line) {
  if (!a || !b) at_fault(file, line, situ_error_message());
  if (situ_dtype_of(a) != situ_dtype_of(b)) at_fault(file, line, "the dtypes differ");
  double *want = malloc((size_t)(situ_numel(b) + 1) * sizeof *want);
  test_read(b, want);
  test_close_(a, situ_shape_of(b), want, rtol, atol, file, line);
  free(want);
}

void test_error_(situ_status status, const char *op, const char *part, const char *file, int line) {
  char text[8192];
  bool good =
      situ_error() == status && (!*op || strcmp(situ_error_op(), op) == 0) && strstr(situ_error_message(), part);
  snprintf(text, sizeof text, "wanted %s from %s with \"%s\", got %s from %s: %s", situ_status_name(status), op, part,
           situ_status_name(situ_error()), situ_error_op(), situ_error_message());
  situ_error_clear();
  if (!good) at_fault(file, line, text);
}

/* ---- gradients ---- */

/* sum(weight * f(in)), without recording unless a graph is wanted. */
static situ_tensor *weighted(test_function f, situ_tensor *const *in, void *payload, situ_tensor *weight) {
  return situ_sum(situ_mul(f(in, payload), weight), NULL);
}

static double value_at(test_function f, situ_tensor *const *in, void *payload, situ_tensor *weight) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  double value = NAN;
  situ_status status = situ_item(weighted(f, in, payload, weight), &value);
  if (situ_scope_end(&s) != SITU_OK || status != SITU_OK) fail_msg("gradcheck: %s", situ_error_message());
  return value;
}

static void check_input(test_function f, situ_tensor *const *in, int which, void *payload, situ_tensor *weight,
                        const char *file, int line) {
  const double step = 1e-6;
  situ_tensor *x = in[which], *grad = situ_grad(x);
  int64_t count = situ_numel(x);
  double *values = malloc((size_t)(count + 1) * sizeof *values), *back = malloc((size_t)(count + 1) * sizeof *back);
  memset(back, 0, (size_t)(count + 1) * sizeof *back);
  test_read(x, values);
  if (grad) test_read(grad, back);
  for (int64_t i = 0; i < count; i++) {
    double keep = values[i], side[2];
    for (int k = 0; k < 2; k++) {
      values[i] = keep + (k ? -step : step);
      situ_scope s;
      situ_scope_begin_no_grad(&s);
      if (situ_copy_from_host(x, values, (size_t)count * sizeof *values) != SITU_OK)
        fail_msg("gradcheck: %s", situ_error_message());
      SITU_IGNORE(situ_scope_end(&s));
      side[k] = value_at(f, in, payload, weight);
    }
    values[i] = keep;
    double numeric = (side[0] - side[1]) / (2 * step);
    if (fabs(back[i] - numeric) <= 1e-5 + 1e-3 * fabs(numeric)) continue;
    char text[200];
    snprintf(text, sizeof text, "gradient of input %d at %lld: backward says %.10g, differences say %.10g", which,
             (long long)i, back[i], numeric);
    at_fault(file, line, text);
  }
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (situ_copy_from_host(x, values, (size_t)count * sizeof *values) != SITU_OK)
    fail_msg("gradcheck: %s", situ_error_message());
  SITU_IGNORE(situ_scope_end(&s));
  free(values);
  free(back);
}

/* The gradients of f64, which are right by now, against those of f32. */
static void check_f32(test_function f, situ_tensor *const *in, int count, void *payload, situ_tensor *weight,
                      const char *file, int line) {
  enum { INPUTS = 16 };
  situ_tensor *narrow[INPUTS];
  situ_scope s;
  situ_scope_begin(&s);
  assert_true(count <= INPUTS);
  for (int i = 0; i < count; i++) {
    narrow[i] = situ_dtype_of(in[i]) == SITU_F64 ? situ_to_dtype(situ_detach(in[i]), SITU_F32) : in[i];
    if (situ_requires_grad(in[i])) narrow[i] = situ_requires_grad_(narrow[i], true);
  }
  situ_tensor *y = situ_mul(f(narrow, payload), situ_to_dtype(weight, SITU_F32));
  const bool its_own_f64 = situ_error() == SITU_E_DTYPE || (y && situ_dtype_of(y) != SITU_F32);
  if (!y && !its_own_f64) at_fault(file, line, situ_error_message());
  situ_error_clear();
  if (!its_own_f64 && situ_backward(situ_sum(y, NULL), NULL) != SITU_OK) at_fault(file, line, situ_error_message());
  for (int i = 0; i < count && !its_own_f64; i++) {
    situ_tensor *want = situ_grad(in[i]), *got = situ_grad(narrow[i]);
    if (!situ_requires_grad(in[i]) || (!want && !got)) continue;
    if (!want || !got) at_fault(file, line, "a gradient in one of f32 and f64 only");
    const int64_t numel = situ_numel(want);
    double *wide = malloc((size_t)(2 * numel + 1) * sizeof *wide), largest = 0;
    test_read(want, wide);
    test_read(got, wide + numel);
    for (int64_t k = 0; k < numel; k++) largest = fmax(largest, fabs(wide[k]));
    compare(wide + numel, wide, numel, 0, 1e-6 + 1e-4 * largest, file, line);
    free(wide);
  }
  if (situ_scope_end(&s) != SITU_OK) at_fault(file, line, situ_error_message());
}

void test_gradcheck_(test_function f, situ_tensor *const *in, int count, void *payload, const char *file, int line) {
  situ_tensor *weight = NULL;
  situ_scope s;
  situ_scope_begin(&s);
  for (int i = 0; i < count; i++)
    if (situ_requires_grad(in[i])) SITU_IGNORE(situ_set_grad(in[i], NULL));
  situ_tensor *y = f(in, payload);
  if (!y) at_fault(file, line, situ_error_message());
  situ_set(&weight, test_random(situ_shape_of(y), 0.5, 1.5, false));
  if (situ_backward(situ_sum(situ_mul(y, weight), NULL), NULL) != SITU_OK) at_fault(file, line, situ_error_message());
  if (situ_scope_end(&s) != SITU_OK) at_fault(file, line, situ_error_message());
  for (int i = 0; i < count; i++)
    if (situ_requires_grad(in[i])) check_input(f, in, i, payload, weight, file, line);
  check_f32(f, in, count, payload, weight, file, line);
  situ_drop(&weight);
}
