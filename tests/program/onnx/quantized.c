/* Models of onnxruntime's quantiser give its bits (tools/exchange/onnx_quantized.py), and on the cpu their products are
   those of bytes.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"
#include "support/test.h"

enum { MODELS = 64, EVENTS = 4096 };

static bool multiplies_bytes(const situ_profile *p) {
  static situ_profile_event list[EVENTS];
  const int64_t count = situ_profile_events(p, list, EVENTS);
  for (int64_t i = 0; i < count && i < EVENTS; i++)
    if (list[i].algorithm && strcmp(list[i].algorithm, "bytes") == 0) return true;
  return false;
}

static void expect_bits(const char *directory, const char *name) {
  char path[1024];
  snprintf(path, sizeof path, "%s/%s.onnx", directory, name);
  situ_nn_module *m = situ_export_load(path, &(situ_load_options){ .device = test_device() });
  assert_non_null(m);
  snprintf(path, sizeof path, "%s/%s.safetensors", directory, name);
  situ_tree *values = situ_load(path, NULL);
  situ_tensor *x = situ_to(situ_tree_get(values, "x"), test_device());
  situ_tensor *y = situ_contiguous(situ_tree_get(values, "y"));
  for (int run = 0; run < 2; run++) { /* the second with weights that the first laid out */
    assert_int_equal(situ_profile_begin(NULL), SITU_OK);
    situ_tensor *got = situ_to(situ_contiguous(situ_nn_forward(m, x)), situ_dev("cpu"));
    situ_profile *p = situ_profile_end();
    assert_non_null(got);
    const size_t bytes = (size_t)situ_numel(y) * 4;
    float *a = malloc(bytes), *b = malloc(bytes);
    assert_int_equal(situ_numel(got), situ_numel(y));
    assert_int_equal(situ_copy_to_host(got, a, bytes), SITU_OK);
    assert_int_equal(situ_copy_to_host(y, b, bytes), SITU_OK);
    if (memcmp(a, b, bytes) != 0) fail_msg("%s differs from onnxruntime", name);
    if (test_device().kind == SITU_CPU && !multiplies_bytes(p)) fail_msg("%s multiplies no bytes", name);
    situ_profile_free(p);
    free(a);
    free(b);
  }
  situ_tree_free(values);
  situ_nn_free(m);
}

static void quantised_models(void **state) {
  char directory[512];
  const char *root = getenv("SITU_TEST_ROOT");
  int count = 0;
  (void)state;
  snprintf(directory, sizeof directory, "%s/program/onnx/quantized", root ? root : ".");
  DIR *all = opendir(directory);
  assert_non_null(all);
  for (const struct dirent *e; (e = readdir(all));) {
    const char *end = strstr(e->d_name, ".onnx");
    char name[128];
    if (!end) continue;
    snprintf(name, sizeof name, "%.*s", (int)(end - e->d_name), e->d_name);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    expect_bits(directory, name);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    count++;
  }
  closedir(all);
  assert_true(count >= 20);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(quantised_models) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
