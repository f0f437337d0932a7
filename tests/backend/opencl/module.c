/* test-devices: opencl:0 opencl:1 only */
/* test-sanitized: opencl */
/* The opencl module from below: what it says of itself, memory, copies between all kinds of device, failures.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "device/launch/launch.h"
#include "kernels/half.h"
#include "support/test.h"

static void describes_itself(void **state) {
  (void)state;
  situ_device_properties p;
  assert_int_equal(situ_device_info(test_device(), &p), SITU_OK);
  assert_true(strlen(p.name) > 0 && strlen(p.driver) > 0);
  assert_true(p.memory_total > 1 << 20);
  assert_true(p.dtypes >> SITU_F32 & 1 && p.dtypes >> SITU_BF16 & 1);
  assert_non_null(strstr(situ_device_status("opencl"), "device"));
}

/* Odd places and sizes, through every pair of memories. */
static void copies(void **state) {
  (void)state;
  enum { BYTES = 100000 };
  const situ_device device[] = { situ_dev("cpu"), situ_dev("opencl:0"), situ_dev("opencl:1"), situ_dev("sim:0") };
  unsigned char *out = malloc(BYTES), *in = malloc(BYTES);
  for (int i = 0; i < BYTES; i++) out[i] = (unsigned char)(i * 7 + i / 251);
  for (int a = 0; a < 4; a++) {
    for (int b = 0; b < 4; b++) {
      if (!situ_device_is_available(device[a]) || !situ_device_is_available(device[b])) continue;
      situ_storage *from = situ__storage_new("test", device[a], BYTES),
                   *to = situ__storage_new("test", device[b], BYTES);
      memset(in, 0, BYTES);
      assert_int_equal(situ__copy_from_host("test", from, 0, out, BYTES, SITU__COPY_USER), SITU_OK);
      assert_int_equal(situ__copy_from_host("test", to, 0, in, BYTES, SITU__COPY_USER), SITU_OK);
      assert_int_equal(situ__copy_storage("test", to, 17, from, 5, BYTES - 40, SITU__COPY_USER), SITU_OK);
      assert_int_equal(situ__copy_to_host("test", to, 0, in, BYTES, SITU__COPY_USER), SITU_OK);
      assert_memory_equal(in + 17, out + 5, BYTES - 40);
      assert_int_equal(in[16], 0);
      assert_int_equal(in[BYTES - 23], 0);
      situ__storage_release(from);
      situ__storage_release(to);
    }
  }
  free(out);
  free(in);
}

/* Results that go past the caches, from and to odd places: of the operand's bytes, and of another size. */
static void larger_than_caches(void **state) {
  (void)state;
  enum { FROM = 5, TO = 3, N = (16 << 20) + 41 };
  const size_t bytes = (N + 8) * sizeof(float);
  float *value = malloc(bytes);
  uint16_t *short_value = malloc(bytes);
  assert_true(value && short_value);
  for (int i = 0; i < N + 8; i++) value[i] = (float)(i % 1021 - 500);
  situ_storage *x = situ__storage_new("test", test_device(), bytes),
               *y = situ__storage_new("test", test_device(), bytes);
  assert_int_equal(situ__copy_from_host("test", x, 0, value, bytes, SITU__COPY_USER), SITU_OK);
  assert_int_equal(situ__copy_from_host("test", y, 0, value, bytes, SITU__COPY_USER), SITU_OK);
  situ_view_desc from = { .storage = x,
                          .dtype = SITU_F32,
                          .ndim = 1,
                          .contiguous = true,
                          .numel = N,
                          .offset = FROM,
                          .size = { N },
                          .stride = { 1 } },
                 to = from;
  to.storage = y, to.offset = TO;
  const situ_work work = { .verb = SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &from }, .out = { &to } };
  assert_int_equal(situ__run("test", test_device(), &work), SITU_OK);
  assert_int_equal(situ__copy_to_host("test", y, 0, value, bytes, SITU__COPY_USER), SITU_OK);
  for (int i = 0; i < N + 8; i++) {
    const int source = i >= TO && i < TO + N ? i - TO + FROM : i;
    if (value[i] != (float)(source % 1021 - 500)) fail_msg("element %d is %g", i, (double)value[i]);
  }
  to.dtype = SITU_F16; /* whole numbers up to 2048 are what they were */
  assert_int_equal(situ__run("test", test_device(), &work), SITU_OK);
  assert_int_equal(situ__copy_to_host("test", y, 0, short_value, bytes, SITU__COPY_USER), SITU_OK);
  for (int i = 0; i < N; i++)
    if (situ__f16_to_f32(short_value[TO + i]) != (float)((i + FROM) % 1021 - 500))
      fail_msg("element %d is %04x", i, short_value[TO + i]);
  situ__storage_release(x);
  situ__storage_release(y);
  free(value);
  free(short_value);
}

/* More than there is: an error with sizes, and the device goes on. */
static void too_much(void **state) {
  (void)state;
  situ_device_properties p;
  assert_int_equal(situ_device_info(test_device(), &p), SITU_OK);
  assert_null(
      situ_empty(SITU_SHAPE((int64_t)p.memory_total), &(situ_options){ .dtype = SITU_F32, .device = test_device() }));
  expect_error(SITU_E_NOMEM, "empty", " on opencl:");
  expect_exact(situ_ones(SITU_SHAPE(2), &(situ_options){ .device = test_device() }), SITU_SHAPE(2), 1, 1);
}

/* The library's and the module's own frames are nobody's call. */
static void blames_the_caller(void **state) {
  (void)state;
  situ_tensor *y = situ_fmod(TI64(SITU_SHAPE(2), 1, 2), TI64(SITU_SHAPE(2), 1, 0));
  assert_non_null(y);
  assert_int_equal(situ_synchronize(test_device()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "binary", "module.c:");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(describes_itself), TEST(copies), TEST(too_much), TEST(blames_the_caller), TEST(larger_than_caches),
  };
  return cmocka_run_group_tests_name("backend/opencl/module", tests, NULL, NULL);
}
