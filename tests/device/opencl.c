/* test-devices: opencl:0 opencl:1 */
/* The opencl module from below: what it says of itself, memory, copies between all kinds of device, failures.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "device/device.h"
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
  const situ_device device[] = { situ_dev("cpu"), situ_dev("opencl:0"), situ_dev("opencl:1"),
                                 situ_dev("sim:0") };
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
      assert_int_equal(situ__copy_storage("test", to, 17, from, 5, BYTES - 40, SITU__COPY_USER),
                       SITU_OK);
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

/* More than there is: an error with sizes, and the device goes on. */
static void too_much(void **state) {
  (void)state;
  situ_device_properties p;
  assert_int_equal(situ_device_info(test_device(), &p), SITU_OK);
  assert_null(situ_empty(SITU_SHAPE((int64_t)p.memory_total),
                         &(situ_options){ .dtype = SITU_F32, .device = test_device() }));
  expect_error(SITU_E_NOMEM, "empty", "bytes on opencl:");
  expect_exact(situ_ones(SITU_SHAPE(2), &(situ_options){ .device = test_device() }), SITU_SHAPE(2),
               1, 1);
}

/* The library's and the module's own frames are nobody's call. */
static void blames_the_caller(void **state) {
  (void)state;
  situ_tensor *y = situ_fmod(TI64(SITU_SHAPE(2), 1, 2), TI64(SITU_SHAPE(2), 1, 0));
  assert_non_null(y);
  assert_int_equal(situ_synchronize(test_device()), SITU_E_ARG);
  expect_error(SITU_E_ARG, "binary", "at opencl.c");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(describes_itself),
    TEST(copies),
    TEST(too_much),
    TEST(blames_the_caller),
  };
  return cmocka_run_group_tests_name("device/opencl", tests, NULL, NULL);
}
