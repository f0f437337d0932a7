/* Host memory in and out, and printing. */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include <math.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

static void round_trip(void **state) {
  (void)state;
  const float in[6] = { 1, 2, 3, 4, 5, 6 };
  float out[6];
  situ_tensor *t = situ_from_host(in, sizeof in, SITU_SHAPE(2, 3), &(situ_options){ .device = test_device() });
  assert_int_equal(situ_copy_to_host(t, out, sizeof out), SITU_OK);
  assert_memory_equal(in, out, sizeof in);
  const float across[6] = { 1, 4, 2, 5, 3, 6 };
  assert_int_equal(situ_copy_to_host(situ_transpose(t, 0, 1), out, sizeof out), SITU_OK);
  assert_memory_equal(across, out, sizeof out);
  assert_int_equal(situ_copy_from_host(situ_transpose(t, 0, 1), in, sizeof in), SITU_OK);
  expect_exact(t, SITU_SHAPE(2, 3), 1, 3, 5, 2, 4, 6);
}

static void sizes_must_agree(void **state) {
  (void)state;
  float room[4];
  situ_options o = { .device = test_device() };
  expect_refused(situ_from_host(room, sizeof room, SITU_SHAPE(3), &o), SITU_E_SHAPE, "from_host", "16 bytes given");
  situ_tensor *t = situ_zeros(SITU_SHAPE(3), &o);
  assert_int_equal(situ_copy_to_host(t, room, sizeof room), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_to_host", "takes 12");
  assert_int_equal(situ_copy_from_host(t, room, sizeof room), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "copy_from_host", "takes 12");
  double x = 5;
  assert_int_equal(situ_item(t, &x), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "item", "3 elements");
  assert_true(x == 5);
  assert_int_equal(situ_item(situ_zeros(SITU_SHAPE(0), &o), &x), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "item", "0 elements");
}

/* placement: F9 */
static void a_view_of_host_memory(void **state) {
  (void)state;
  float own[6] = { 1, 2, 3, 4, 5, 6 };
  situ_tensor *t = situ_view_host(own, sizeof own, SITU_SHAPE(2, 3), NULL);
  assert_ptr_equal(situ_data_ptr(t), own);
  own[5] = 9;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_mul_scalar_(situ_select(t, 0, 1), 2);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_true(own[0] == 1 && own[3] == 8 && own[5] == 18);
  int64_t labels[2] = { 3, 4 };
  t = situ_view_host(labels, sizeof labels, SITU_SHAPE(2), &(situ_options){ .dtype = SITU_I64 });
  assert_true(situ_dtype_of(t) == SITU_I64 && situ_data_ptr(t) == (void *)labels);
  expect_refused(situ_view_host(own, sizeof own, SITU_SHAPE(5), NULL), SITU_E_SHAPE, "view_host",
                 "24 bytes given, [5] of f32 takes 20");
  expect_refused(situ_view_host(NULL, 8, SITU_SHAPE(2), NULL), SITU_E_ARG, "view_host", "data is NULL");
  expect_refused(situ_view_host(own, sizeof own, SITU_SHAPE(6), &(situ_options){ .device = situ_dev("meta") }),
                 SITU_E_DEVICE, "view_host", "situ_from_host");
}

/* placement: D17 */
static void unwritten_values_are_not_read(void **state) {
  (void)state;
  situ_options o = { .device = test_device() };
  situ_tensor *t = situ_set_name(situ_empty(SITU_SHAPE(2), &o), "scratch");
  float room[2];
  assert_int_equal(situ_copy_to_host(t, room, sizeof room), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_to_host",
               "`scratch` ([2] f32) holds no value yet: nothing was written since it was made");
  assert_false(situ_has_values(t));
  assert_true(situ_has_values(situ_empty(SITU_SHAPE(0), &o)));
  situ_fill_(t, 3);
  assert_true(situ_has_values(t));
  expect_exact(t, SITU_SHAPE(2), 3, 3);
}

static void leaves_are_not_written(void **state) {
  (void)state;
  const double values[2] = { 1, 2 };
  situ_tensor *leaf = situ_requires_grad_(T64(SITU_SHAPE(4), 1, 1, 1, 1), true);
  situ_tensor *part = situ_detach(situ_narrow(leaf, 0, 0, 2)), *view = situ_narrow(leaf, 0, 0, 2);
  assert_int_equal(situ_copy_from_host(leaf, (double[4]){ 0 }, 4 * sizeof *values), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", "a leaf that requires a gradient");
  assert_int_equal(situ_copy_from_host(view, values, sizeof values), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", "recorded call");
  assert_int_equal(situ_copy_from_host(part, values, sizeof values), SITU_OK);
  expect_exact(leaf, SITU_SHAPE(4), 1, 2, 1, 1);
}

static void integers_are_exact(void **state) {
  (void)state;
  const int64_t big = INT64_MAX - 1;
  int64_t back = 0;
  situ_tensor *t =
      situ_from_host(&big, sizeof big, SITU_SCALAR, &(situ_options){ .dtype = SITU_I64, .device = test_device() });
  assert_int_equal(situ_item_i64(t, &back), SITU_OK);
  assert_true(back == big);
}

/* placement: D19 */
static void host_memory_is_only_on_cpu(void **state) {
  (void)state;
  situ_tensor *t = situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = test_device() });
  if (test_device().kind == SITU_CPU) {
    assert_non_null(situ_data_ptr(t));
  } else {
    expect_refused(situ_data_ptr(t), SITU_E_DEVICE, "data_ptr", "cannot read");
  }
}

static int released;
static void count_release(void *payload) { released += *(int *)payload; }

/* placement: A19, F9 */
static void foreign_memory(void **state) {
  (void)state;
  float own[6] = { 1, 2, 3, 4, 5, 6 };
  int by = 1;
  situ_scope s;
  released = 0;
  situ_scope_begin(&s);
  situ_tensor *t = situ_from_blob(own, SITU_SHAPE(3, 2), (const int64_t[]){ 1, 3 }, count_release, &by, NULL);
  expect_exact(t, SITU_SHAPE(3, 2), 1, 4, 2, 5, 3, 6);
  situ_add_scalar_(t, 10);
  assert_true(own[5] == 16);
  expect_exact(situ_to(t, situ_dev("sim:0")), SITU_SHAPE(3, 2), 11, 14, 12, 15, 13, 16); /* all of its memory goes */
  assert_non_null(situ_from_blob(own, SITU_SHAPE(0, 0), (const int64_t[]){ INT64_MAX, INT64_MAX }, NULL, NULL, NULL));
  const int64_t strides[SITU_MAX_DIMS] = { [SITU_MAX_DIMS - 2] = 1, [SITU_MAX_DIMS - 1] = 3 };
  situ_shape most = { .ndim = SITU_MAX_DIMS, .dim = { [SITU_MAX_DIMS - 2] = 3, [SITU_MAX_DIMS - 1] = 2 } };
  for (int d = 0; d < SITU_MAX_DIMS - 2; d++) most.dim[d] = 1;
  t = situ_from_blob(own, most, strides, NULL, NULL, NULL); /* nothing is read behind the last dimension */
  expect_exact(t, most, 11, 14, 12, 15, 13, 16);
  assert_int_equal(released, 0);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(released, 1);
  expect_refused(situ_from_blob(own, SITU_SHAPE(-2), NULL, count_release, &by, NULL), SITU_E_SHAPE, "from_blob",
                 "negative");
  assert_int_equal(released, 2);
  expect_refused(situ_from_blob(NULL, SITU_SHAPE(2), NULL, NULL, NULL, NULL), SITU_E_ARG, "from_blob", "NULL");
  expect_refused(situ_from_blob(own, SITU_SHAPE(2), NULL, NULL, NULL, &(situ_options){ .device = situ_dev("meta") }),
                 SITU_E_DEVICE, "from_blob", "on cpu");
}

static void prints(situ_tensor *t, const char *want) {
  char text[4096];
  int64_t length = situ_to_string(t, text, sizeof text);
  assert_string_equal(text, want);
  assert_int_equal(length, (int64_t)strlen(want));
}

/* Texts taken from torch 1.13. */
/* placement: J1 */
static void printing(void **state) {
  (void)state;
  situ_scope s;
  situ_scope_begin(&s);
  situ_status status = situ_set_default_device(situ_dev("cpu"));
  assert_int_equal(status, SITU_OK);
  situ_options o = { .dtype = SITU_F32 };
  const float a[4] = { 1, 2, 3, 4 }, b[3] = { 1.5f, -0.25f, 100 }, c[3] = { 1e-5f, 1, 1e5f };
  const float d[3] = { (float)NAN, (float)INFINITY, 1 };
  prints(situ_from_host(a, sizeof a, SITU_SHAPE(2, 2), &o), "tensor([[1., 2.],\n        [3., 4.]])");
  prints(situ_from_host(b, sizeof b, SITU_SHAPE(3), &o), "tensor([  1.5000,  -0.2500, 100.0000])");
  prints(situ_from_host(c, sizeof c, SITU_SHAPE(3), &o), "tensor([1.0000e-05, 1.0000e+00, 1.0000e+05])");
  prints(situ_from_host(d, sizeof d, SITU_SHAPE(3), &o), "tensor([nan, inf, 1.])");
  prints(situ_arange(0, 3, 1, NULL), "tensor([0, 1, 2])");
  prints(situ_gt_scalar(situ_arange(0, 3, 1, NULL), 1), "tensor([False, False,  True])");
  prints(situ_full(SITU_SCALAR, 2.5, NULL), "tensor(2.5000)");
  prints(situ_zeros(SITU_SHAPE(0), NULL), "tensor([])");
  prints(situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64 }), "tensor([1., 1.], dtype=f64)");
  prints(situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .device = situ_dev("meta") }),
         "tensor(..., size=(2, 3), device='meta')");
  prints(situ_ones(SITU_SHAPE(2), &(situ_options){ .device = situ_dev("sim:0") }), "tensor([1., 1.], device='sim:0')");
  prints(situ_arange(0, 2000, 1, NULL), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])");
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

/* torch's threshold: a thousand elements are shown whole. */
static void long_ones_are_summarised(void **state) {
  (void)state;
  static char text[16384];
  const situ_options o = { .device = test_device() };
  assert_true(situ_to_string(situ_zeros(SITU_SHAPE(1000), &o), text, sizeof text) > 3000);
  assert_null(strstr(text, "..."));
  assert_true(situ_to_string(situ_zeros(SITU_SHAPE(1001), &o), text, sizeof text) < 100);
  assert_non_null(strstr(text, "..."));
}

static void printing_without_memory(void **state) {
  (void)state;
  char text[256];
  situ_tensor *t = T32(SITU_SHAPE(2), 1, 2);
  for (uint64_t nth = 1;; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, false);
    const int64_t length = situ_to_string(t, text, sizeof text);
    situ_fail_allocation(0, false);
    if (length >= 0) break;
    expect_error(SITU_E_NOMEM, "", "");
  }
  assert_int_equal(strncmp(text, "tensor([1., 2.]", 15), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(round_trip),
                                      TEST(sizes_must_agree),
                                      TEST(a_view_of_host_memory),
                                      TEST(unwritten_values_are_not_read),
                                      TEST(leaves_are_not_written),
                                      TEST(integers_are_exact),
                                      TEST(host_memory_is_only_on_cpu),
                                      TEST(foreign_memory),
                                      TEST(printing),
                                      TEST(long_ones_are_summarised),
                                      TEST(printing_without_memory) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
