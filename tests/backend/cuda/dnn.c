/* Convolutions on the double's cuDNN: geometries and dtypes, forward and back, against the cpu; what is not of its kind; the
   library absent; what is remembered. And the same with the real library beside the double (support/cuda/dnn_beside.c), which
   chooses its own engines then, for a described H100: SKIPPED where there is none.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cudnn */
#include <string.h>
#include <sys/stat.h>

#include "support/cuda/convolution.h"
#include "support/test.h"

#define IN_CHILD(name)                                \
  static void name(void **state) {                    \
    (void)state;                                      \
    assert_int_equal(in_child(name##_body, NULL), 0); \
  }

static const situ_dtype floating[] = { SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };

/* clang-format off */
#define ONCE { 1, 1 }, { 0, 0 }, { 1, 1 }, 1
static const convolution kinds[] = {
  { "plain", { 2, 3, 5, 4 }, { 4, 3, 3, 2 }, ONCE, false, false, false },
  { "bias", { 2, 3, 5, 4 }, { 4, 3, 3, 2 }, ONCE, true, false, false },
  { "1 x 1", { 2, 3, 4, 4 }, { 5, 3, 1, 1 }, ONCE, true, false, false },
  { "padded", { 1, 2, 4, 5 }, { 3, 2, 3, 3 }, { 1, 1 }, { 1, 2 }, { 1, 1 }, 1, true, false, false },
  { "strided", { 2, 2, 6, 7 }, { 3, 2, 3, 2 }, { 2, 3 }, { 1, 0 }, { 1, 1 }, 1, true, false, false },
  { "dilated", { 1, 2, 7, 6 }, { 2, 2, 2, 3 }, { 1, 1 }, { 1, 1 }, { 2, 1 }, 1, false, false, false },
  { "grouped", { 2, 4, 4, 4 }, { 6, 2, 2, 2 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 2, true, false, false },
  { "depthwise", { 1, 4, 5, 5 }, { 4, 1, 3, 3 }, { 1, 1 }, { 1, 1 }, { 1, 1 }, 4, true, false, false },
  { "transposed", { 1, 3, 4, 4 }, { 3, 2, 3, 3 }, { 2, 2 }, { 1, 1 }, { 1, 1 }, 1, true, true, false },
  { "transposed, grouped", { 2, 4, 3, 3 }, { 4, 2, 2, 2 }, { 1, 1 }, { 0, 0 }, { 1, 1 }, 2, false, true, false },
};
/* clang-format on */
enum { KINDS = sizeof kinds / sizeof *kinds };

static convolved got;

/* Forward, back to the data, and back to the weight: by cuDNN each. The real library may lack an engine that keeps the
   sums of 16-bit gradients of the data f32 until a bias is added. */
static void by_cudnn(const convolution *c, situ_dtype dtype) {
  cuda_double *d = cuda_double_state();
  const long fewest = d->beside && c->transposed && c->bias && dtype < SITU_F32 ? 2 : 3;
  d->solved = 0;
  CHECK(convolve_on(c, "cuda:0", dtype, &got) == SITU_OK);
  same_as_cpu(c, dtype, &got);
  if (d->solved != 3) (void)fprintf(stderr, "%s, dtype %d: %ld\n", c->name, dtype, d->solved);
  CHECK(d->solved >= fewest && d->solved <= 3);
}

static void by_own_kernels(const convolution *c, situ_dtype dtype) {
  cuda_double_state()->solved = 0;
  CHECK(convolve_on(c, "cuda:0", dtype, &got) == SITU_OK);
  same_as_cpu(c, dtype, &got);
  CHECK(cuda_double_state()->solved == 0);
}

static void geometries_body(void *payload) {
  (void)payload;
  for (int k = 0; k < KINDS; k++)
    for (int f = 0; f < 4; f++) by_cudnn(&kinds[k], floating[f]);
}
IN_CHILD(geometries)

/* ---- the real library ------------------------------------------------------------------------ */

static void real_body(void *payload) {
  cuda_double_state()->beside = payload;
  geometries_body(NULL);
  static const convolution large = { "64 channels", { 1, 64, 8, 8 }, { 64, 64, 1, 1 }, ONCE, true, false, false };
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGH) == SITU_OK);
  by_cudnn(&large, SITU_F32);
}
static void the_real_library_agrees(void **state) {
  (void)state;
  const char *path = SITU_TEST_CUDNN;
  if (access(path, F_OK) != 0) skip();
  assert_int_equal(in_child(real_body, (void *)(uintptr_t)path), 0);
}

/* ---- what is not its kind, and where it is not ----------------------------------------------- */

static void opened_late_body(void *payload) {
  (void)payload;
  situ_tensor *x = situ_ones(SITU_SHAPE(3), &(situ_options){ .device = situ_dev("cuda:0") });
  CHECK(x != NULL);
  situ_release(x);
  CHECK(cuda_double_state()->handles == 0);
  by_cudnn(&kinds[0], SITU_F32);
  CHECK(cuda_double_state()->handles == 1);
  CHECK(strstr(situ_device_status("cuda"), "cuDNN") == NULL);
}
IN_CHILD(opened_late)

static void absent_body(void *payload) {
  (void)payload;
  runtime_alone();
  for (int k = 0; k < KINDS; k++)
    for (int f = 0; f < 4; f++) by_own_kernels(&kinds[k], floating[f]);
  const char *after = situ_device_status("cuda");
  CHECK(strstr(after, "; no cuDNN: convolutions take kernels of situ's own (") != NULL);
  CHECK(strstr(after, "libcudnn.so.9: cannot open shared object file") != NULL);
}
IN_CHILD(absent)

static void does_not_start_body(void *payload) {
  (void)payload;
  cuda_double_state()->no_handle = true;
  by_own_kernels(&kinds[1], SITU_F32);
  by_own_kernels(&kinds[1], SITU_F64);
  CHECK(strstr(situ_device_status("cuda"), "; cuDNN does not start on cuda:0") != NULL);
}
IN_CHILD(does_not_start)

/* It is asked once for each pass, in both of its ways, and then known. */
static void no_engines_body(void *payload) {
  (void)payload;
  cuda_double_state()->no_engines = true;
  for (int k = 0; k < 3; k++) by_own_kernels(&kinds[0], SITU_F32);
  CHECK(cuda_double_state()->lists == 6);
}
IN_CHILD(no_engines)

/* Its room is not to be had: kernels of situ's own need less. It is asked for again the next time. */
static void no_room_body(void *payload) {
  (void)payload;
  static const convolution small = { "small", { 1, 1, 3, 3 }, { 2, 1, 2, 2 }, ONCE, true, false, true };
  cuda_double *d = cuda_double_state();
  const size_t budget = d->budget;
  for (int k = 0; k < 3; k++) {
    d->solved = 0;
    d->budget = k == 1 ? d->bytes[0] + 1024 : budget;
    CHECK(convolve_on(&small, "cuda:0", SITU_F32, &got) == SITU_OK && situ_error() == SITU_OK);
    same_as_cpu(&small, SITU_F32, &got);
    CHECK(d->solved == (k != 1));
  }
}
IN_CHILD(no_room)

/* ---- what is remembered ---------------------------------------------------------------------- */

static void asked_once_body(void *payload) {
  (void)payload;
  const cuda_double *d = cuda_double_state();
  by_cudnn(&kinds[1], SITU_F32);
  const long lists = d->lists, described = d->described;
  CHECK(lists == 4); /* no engine of the best takes the weight's gradient without workspace */
  for (int k = 0; k < 5; k++) {
    by_cudnn(&kinds[1], SITU_F32);
    CHECK(d->lists == lists && d->described == described);
  }
}
IN_CHILD(asked_once)

static void bounded_body(void *payload) {
  (void)payload;
  const cuda_double *d = cuda_double_state();
  convolution c = kinds[0];
  long most = 0;
  for (int64_t k = 0; k < 200; k++) { /* three plans each */
    c.x[2] = 3 + k % 20, c.x[3] = 2 + k / 20;
    CHECK(convolve_on(&c, "cuda:0", SITU_F32, &got) == SITU_OK);
    if (k % 50 == 49) same_as_cpu(&c, SITU_F32, &got);
    if (d->described > most) most = d->described;
  }
  CHECK(d->lists == 800);
  CHECK(most < 256 * 12);
}
IN_CHILD(bounded)

/* ---- precision ------------------------------------------------------------------------------- */

/* 1 + 2^-12 has no place in TF32: its square tells which was taken. */
static double square_of(double value) {
  const situ_options there = { .device = situ_dev("cuda:0") };
  situ_scope scope;
  situ_scope_begin(&scope);
  double y = 0;
  situ_tensor *x = situ_full(SITU_SHAPE(1, 1, 1, 1), value, &there);
  CHECK(situ_item(situ_conv2d(x, x, NULL, NULL), &y) == SITU_OK);
  CHECK(situ_scope_end(&scope) == SITU_OK);
  return y;
}

static void precision_body(void *payload) {
  (void)payload;
  const double fine = 1 + 0x1p-12;
  CHECK(square_of(fine) == (double)(float)(fine * fine));
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGH) == SITU_OK);
  CHECK(square_of(fine) == 1);
  CHECK(situ_set_float32_matmul_precision(SITU_PRECISION_HIGHEST) == SITU_OK);
  CHECK(square_of(fine) == (double)(float)(fine * fine));
  CHECK(cuda_double_state()->solved == 3);
}
IN_CHILD(precision)

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(geometries),     cmocka_unit_test(the_real_library_agrees),
    cmocka_unit_test(opened_late),    cmocka_unit_test(absent),
    cmocka_unit_test(does_not_start), cmocka_unit_test(no_engines),
    cmocka_unit_test(no_room),        cmocka_unit_test(asked_once),
    cmocka_unit_test(bounded),        cmocka_unit_test(precision),
  };
  return cmocka_run_group_tests_name("backend/cuda/dnn", tests, NULL, NULL);
}
