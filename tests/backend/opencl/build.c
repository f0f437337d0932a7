/* test-devices: opencl:0 only */
/* test-links: situ_test_shim */
/* test-sanitized: opencl */
/* Kernels that do not compile, and a device without doubles: an error says so, with the driver's words, before anything has
   moved or changed, and the device goes on.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/nn.h"
#include "situ/place.h"
#include "situ/scope.h"
#include "support/opencl/shim.h"
#include "support/test.h"

/* OpenCL's codes. */
enum { COMPILER_NOT_AVAILABLE = -3, OUT_OF_HOST_MEMORY = -6, BUILD_PROGRAM_FAILURE = -11 };

static void compile_always(void) { setenv("XDG_CACHE_HOME", "/proc/nowhere", 1); }

/* ---- kernels that do not compile ------------------------------------------------------------ */

static void a_source_that_does_not_compile(void **state) {
  (void)state;
  compile_always();
  situ_tensor *x = T32(SITU_SHAPE(3), 1, -2, 3), *leaf = situ_requires_grad_(T32(SITU_SHAPE(2), 4, 9), true);
  situ_tensor *root = situ_sum(situ_sqrt(leaf), NULL);
  const long programs = shim_alive(SHIM_PROGRAM), kernels = shim_alive(SHIM_KERNEL);

  shim_damage("\nthis is no C\n");
  expect_refused(situ_neg(x), SITU_E_UNSUPPORTED, "neg",
                 "opencl:0 does not compile the kernel elementwise for unary_neg");
  assert_null(situ_cumsum(x, 0));
  const char *log = strstr(situ_error_message(), "does not compile the kernel scan:\n");
  assert_true(log && strstr(log, "error:") && strstr(log, "'this'")); /* the driver's own words */
  situ_error_clear();
  /* In place, and backward: nothing is half done. */
  expect_refused(situ_neg_(x), SITU_E_UNSUPPORTED, "neg_", "does not compile");
  assert_int_equal(situ_backward(root, NULL), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "", "does not compile");
  assert_null(situ_grad(leaf));
  assert_int_equal(shim_alive(SHIM_PROGRAM), programs);
  assert_int_equal(shim_alive(SHIM_KERNEL), kernels);

  shim_damage(NULL);
  expect_exact(x, SITU_SHAPE(3), 1, -2, 3);
  expect_exact(situ_neg(x), SITU_SHAPE(3), -1, 2, -3);
  expect_exact(situ_cumsum(x, 0), SITU_SHAPE(3), 1, -1, 2);
  assert_int_equal(situ_backward(situ_sum(situ_sqrt(leaf), NULL), NULL), SITU_OK);
  expect_values(situ_grad(leaf), SITU_SHAPE(2), 0.25, 1.0 / 6);
}

/* What else a driver says, of every call on the way to a kernel. */
static void calls_that_fail(void **state) {
  static const struct {
    const char *name;
    int code;
    situ_status status;
    const char *text;
  } cases[] = {
    { "clBuildProgram", BUILD_PROGRAM_FAILURE, SITU_E_UNSUPPORTED,
      "does not compile the kernel elementwise for unary_abs" },
    { "clBuildProgram", COMPILER_NOT_AVAILABLE, SITU_E_UNSUPPORTED, "its driver has no compiler" },
    { "clBuildProgram", OUT_OF_HOST_MEMORY, SITU_E_NOMEM, "clBuildProgram: no host memory" },
    { "clCreateProgramWithSource", OUT_OF_HOST_MEMORY, SITU_E_NOMEM, "clCreateProgramWithSource: no host memory" },
    { "clCreateKernel", OUT_OF_HOST_MEMORY, SITU_E_NOMEM, "clCreateKernel: no host memory" },
  };
  (void)state;
  compile_always();
  situ_tensor *x = T32(SITU_SHAPE(3), 1, -2, 3);
  const long programs = shim_alive(SHIM_PROGRAM);
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    shim_fail(cases[k].name, 1, cases[k].code, true);
    assert_null(situ_abs_(x));
    shim_fail(NULL, 0, 0, false);
    expect_error(cases[k].status, "abs_", cases[k].text);
    assert_int_equal(shim_alive(SHIM_PROGRAM), programs);
  }
  expect_exact(x, SITU_SHAPE(3), 1, -2, 3);
  expect_exact(situ_abs(x), SITU_SHAPE(3), 1, 2, 3);
}

/* Where the declarations that PoCL is given do not suffice, it reads its own; and they do suffice for PoCL. */
static void the_drivers_own_declarations(void **state) {
  (void)state;
  compile_always();
  situ_tensor *x = T32(SITU_SHAPE(3), 1, 2, 3);
  long builds = shim_calls("clBuildProgram");
  expect_exact(situ_ceil(x), SITU_SHAPE(3), 1, 2, 3);
  assert_int_equal(shim_calls("clBuildProgram"), builds + 1);
  builds++;
  shim_damage("\nint declared_by_opencl_c(int2 x) { return any(x); }\n");
  expect_exact(situ_floor(x), SITU_SHAPE(3), 1, 2, 3);
  assert_int_equal(shim_calls("clBuildProgram"), builds + 2);
  shim_damage(NULL);
}

/* ---- no doubles ----------------------------------------------------------------------------- */

/* f16 and bf16 are stored and computed in f32: they need nothing of a device. Then what a device without f64 can do, in a
   process of its own. */
static int without_f64(void) {
  const situ_device device = test_device();
  situ_device_properties p;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  if (situ_device_info(device, &p) != SITU_OK || p.dtypes >> SITU_F64 & 1 || !(p.dtypes >> SITU_F16 & 1)) return 1;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *second = situ_nn_linear(4, 2, NULL), *net = situ_nn_sequential(situ_nn_linear(3, 4, NULL), second);
  if (!net || situ_nn_to_dtype(second, SITU_F64) != SITU_OK) return 2;
  int64_t live = situ_live_bytes();
  const long queued = shim_calls("clEnqueueWriteBuffer");
  if (situ_nn_to(net, device) != SITU_E_UNSUPPORTED) return 3;
  if (!strstr(situ_error_message(), "weight") || !strstr(situ_error_message(), "f64")) return 4;
  situ_placement place;
  if (situ_place_of(net, &place) != SITU_OK || place.mixed || place.device.kind != SITU_CPU) return 5;
  if (situ_live_bytes() != live || shim_calls("clEnqueueWriteBuffer") != queued) return 6; /* not even the f32 half */
  situ_error_clear();
  situ_tensor *wide = situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64 });
  if (situ_neg(situ_to(wide, device)) || situ_error() != SITU_E_UNSUPPORTED ||
      !strstr(situ_error_message(), "opencl:0 cannot compute with f64"))
    return 7;
  situ_error_clear();
  /* All else works: sums, whose f32 has no double inside, half precision, whole numbers. */
  float sum = 0;
  situ_tensor *x = situ_to(situ_to_dtype(wide, SITU_F32), device);
  for (int k = 0; k < 3; k++) {
    static const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_I32 };
    situ_tensor *y = situ_to_dtype(situ_cumsum(situ_to_dtype(situ_exp(situ_sub(x, x)), dtypes[k]), 0), SITU_F32);
    if (situ_copy_to_host(situ_sum(y, NULL), &sum, sizeof sum) != SITU_OK || sum != 3) return 8;
  }
  situ_nn_free(net);
  return situ_scope_end(&scope) == SITU_OK ? 0 : 9;
}

/* What a driver says of its chip. */
static int with_ids(void) {
  situ_device_properties p;
  if (situ_device_info(test_device(), &p) != SITU_OK || strcmp(p.pci, "0001:65:00.0") != 0) return 1;
  if (strcmp(p.uuid, "d0010203-0405-0607-0809-0a0b0c0d0e00") != 0) return 2;
  if (!situ_device_equal(situ_dev("opencl:uuid=GPU-d0010203-0405-0607-0809-0a0b0c0d0e00"), test_device())) return 3;
  return situ_device_equal(situ_dev("opencl:pci=0001:65:00.0"), test_device()) ? 0 : 4;
}

static void run_again(const char *environment, const char *as) {
  char command[128];
  snprintf(command, sizeof command, "%s exec /proc/%ld/exe %s", environment, (long)getpid(), as);
  int status = system(command);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

/* placement: A3 */
static void a_device_is_known_by_its_chip(void **state) {
  (void)state;
  run_again("SITU_SHIM=ids", "ids");
}

static void a_device_without_f64(void **state) {
  (void)state;
  run_again("SITU_SHIM=nofp64", "without");
}

/* ---- $SITU_OPENCL_OPTIONS ------------------------------------------------------------------- */

static int with_wrong_options(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  (void)situ_error_mode(SITU_ERROR_QUIET);
  compile_always();
  situ_tensor *x = situ_to(situ_ones(SITU_SHAPE(1), NULL), test_device());
  if (!x || situ_neg(x) || situ_error() != SITU_E_UNSUPPORTED) return 1;
  if (!strstr(situ_error_message(), "SITU_OPENCL_OPTIONS")) return 2;
  situ_error_clear();
  return situ_scope_end(&scope) == SITU_OK ? 0 : 3;
}

static int with_a_definition(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  compile_always();
  shim_damage("\n#ifndef FOR_A_TEST\n#error not given\n#endif\n");
  situ_tensor *x = situ_neg(situ_to(situ_ones(SITU_SHAPE(1), NULL), test_device()));
  shim_damage(NULL);
  return x && situ_scope_end(&scope) == SITU_OK ? 0 : 1;
}

static void options_of_the_user(void **state) {
  (void)state;
  run_again("SITU_OPENCL_OPTIONS=-cl-no-such-option", "wrong");
  run_again("SITU_OPENCL_OPTIONS=-DFOR_A_TEST", "defined");
}

int main(int argc, char **argv) {
  if (argc == 2)
    return !strcmp(argv[1], "without") ? without_f64()
           : !strcmp(argv[1], "ids")   ? with_ids()
           : !strcmp(argv[1], "wrong") ? with_wrong_options()
                                       : with_a_definition();
  const struct CMUnitTest tests[] = {
    TEST(a_source_that_does_not_compile), TEST(calls_that_fail),      TEST(the_drivers_own_declarations),
    TEST(a_device_is_known_by_its_chip),  TEST(a_device_without_f64), TEST(options_of_the_user),
  };
  return cmocka_run_group_tests_name("backend/opencl/build", tests, NULL, NULL);
}
