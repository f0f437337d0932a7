/* What a program keeps of its parameters is never stale: after each way in which a parameter changes, a run that keeps
   gives what a run that records gives, which computes everything anew.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"

enum { NUMBERS = 4096 };

static situ_nn_module *program;
static situ_tree *inputs;

static void path_of(char path[1024], const char *file) {
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, 1024, "%.900s/program/data/%s", root ? root : ".", file);
}

/* Values of the first result, and how many; at most NUMBERS. */
static int64_t run(bool records, float *out) {
  situ_scope scope;
  if (records) situ_scope_begin(&scope);
  else situ_scope_begin_no_grad(&scope);
  situ_tree *results = situ_nn_call(program, inputs);
  assert_non_null(results);
  const bool one = situ_tree_kind_of(results) == SITU_TREE_TENSOR;
  situ_tensor *y = one ? situ_tree_value(results) : situ_tree_tensor_at(results, 0);
  const int64_t count = situ_numel(y);
  assert_in_range(count, 1, NUMBERS);
  assert_int_equal(situ_copy_to_host(y, out, (size_t)count * sizeof *out), SITU_OK);
  situ_tree_free(results);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  return count;
}

static double furthest(const float *a, const float *b, int64_t count) {
  double most = 0;
  for (int64_t i = 0; i < count; i++) most = fmax(most, fabs((double)a[i] - (double)b[i]));
  return most;
}

/* Runs keep, and again use, what a run that records computes anew; it differs from `before`, if that is given. */
static void check_runs(float *before) {
  static float wanted[NUMBERS], got[NUMBERS];
  const int64_t count = run(true, wanted);
  for (int k = 0; k < 3; k++) {
    assert_int_equal(run(false, got), count);
    assert_true(furthest(wanted, got, count) < 1e-5);
  }
  if (before) assert_true(furthest(wanted, before, count) > 1e-3);
  if (before) memcpy(before, wanted, (size_t)count * sizeof *before);
}

static int load_program(void **state) {
  char path[1024];
  (void)state;
  path_of(path, "lstm.onnx");
  program = situ_export_load(path, NULL);
  path_of(path, "lstm.safetensors");
  situ_tree *all = situ_load(path, NULL);
  inputs = situ_tree_section(all, "in.0");
  situ_tree_free(all);
  return program && inputs ? 0 : 1;
}

/* Weights that a device lays out (situ_conv2d_lay_out). */
static int make_convolutions(void **state) {
  situ_scope scope;
  (void)state;
  situ_scope_begin_no_grad(&scope);
  situ_nn_conv_options padded = { .padding = SITU_DIMS(2) };
  situ_nn_module *m = situ_nn_sequential(situ_nn_conv2d(32, 32, SITU_DIMS(5), &padded), situ_nn_relu(),
                                         situ_nn_conv2d(32, 32, SITU_DIMS(5), &padded));
  inputs = situ_tree_append(situ_tree_list(), situ_tree_tensor(situ_randn(SITU_SHAPE(1, 32, 11, 11), NULL)));
  program = situ_export(m, inputs);
  situ_nn_free(m);
  return situ_scope_end(&scope) == SITU_OK && program && inputs ? 0 : 1;
}

/* And of layers that are products (situ_linear_lay_out). */
static int make_products(void **state) {
  situ_scope scope;
  (void)state;
  situ_scope_begin_no_grad(&scope);
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(256, 96, NULL), situ_nn_relu(), situ_nn_linear(96, 40, NULL));
  inputs = situ_tree_append(situ_tree_list(), situ_tree_tensor(situ_randn(SITU_SHAPE(3, 32, 256), NULL)));
  program = situ_export(m, inputs);
  situ_nn_free(m);
  return situ_scope_end(&scope) == SITU_OK && program && inputs ? 0 : 1;
}

static int free_program(void **state) {
  (void)state;
  situ_tree_free(inputs);
  situ_nn_free(program);
  return 0;
}

/* Each parameter times `factor`, as a state dict of copies. */
static situ_tree *scaled_state(double factor) {
  situ_tree *own = situ_nn_state_dict(program), *scaled = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(own); i++) {
    situ_tensor *t = situ_tree_tensor_at(own, i);
    situ_tensor *copy = situ_dtype_is_floating(situ_dtype_of(t)) ? situ_mul_scalar(t, factor) : situ_clone(t);
    scaled = situ_tree_put(scaled, situ_tree_key(own, i), situ_tree_tensor(copy));
  }
  situ_tree_free(own);
  return scaled;
}

typedef void change(situ_tree *own);

/* Twice: memory may be taken over. */
static void load_other(situ_tree *own) {
  (void)own;
  for (int k = 0; k < 2; k++) {
    situ_tree *other = scaled_state(0.8);
    assert_int_equal(situ_nn_load_state_dict(program, other, NULL), SITU_OK);
    situ_tree_free(other);
  }
}

static void write_in_place(situ_tree *own) {
  for (int64_t i = 0; i < situ_tree_count(own); i++)
    if (situ_dtype_is_floating(situ_dtype_of(situ_tree_tensor_at(own, i))))
      assert_non_null(situ_mul_scalar_(situ_tree_tensor_at(own, i), 1.6));
}

/* Which nothing counts. */
static void write_through_addresses(situ_tree *own) {
  for (int64_t i = 0; i < situ_tree_count(own); i++) {
    situ_tensor *t = situ_tree_tensor_at(own, i);
    float *values = situ_dtype_of(t) == SITU_F32 ? situ_data_ptr(t) : NULL;
    for (int64_t n = 0; values && n < situ_numel(t); n++) values[n] *= -0.8F;
  }
}

static void never_stale(void **state) {
  static change *const changes[] = { load_other,     write_in_place,          load_other,
                                     write_in_place, write_through_addresses, write_through_addresses };
  static float before[NUMBERS];
  situ_scope scope, still;
  (void)state;
  if (!program) skip();
  situ_scope_begin(&scope);
  check_runs(NULL);
  run(true, before);
  for (size_t k = 0; k < sizeof changes / sizeof *changes; k++) {
    situ_scope_begin_no_grad(&still);
    situ_tree *own = situ_nn_state_dict(program);
    changes[k](own);
    situ_tree_free(own);
    assert_int_equal(situ_scope_end(&still), SITU_OK);
    check_runs(before);
  }
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* While a lease is held its writes are not counted one by one. */
static void leased_values_are_read_anew(void **state) {
  static float before[NUMBERS], *values[64];
  situ_scope scope;
  (void)state;
  if (!program) skip();
  situ_scope_begin(&scope);
  situ_tree *own = situ_nn_state_dict(program);
  load_other(own); /* into memory of its own */
  check_runs(NULL);
  run(true, before);
  for (int k = 0; k < 3; k++) {
    for (int64_t i = 0; i < situ_tree_count(own); i++) {
      situ_tensor *t = situ_tree_tensor_at(own, i);
      if (k == 0 && situ_dtype_of(t) == SITU_F32)
        values[i] = situ_data_lease(situ_detach(t), SITU_F32, SITU_LEASE_READ_WRITE);
      for (int64_t n = 0; values[i] && n < situ_numel(t); n++) values[i][n] *= -0.8F;
    }
    check_runs(before);
  }
  situ_tree_free(own);
  memset(values, 0, sizeof values);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* Gradients still reach the weights that runs without recording keep. */
static void gradients_flow(void **state) {
  situ_scope scope;
  (void)state;
  if (!program) skip();
  check_runs(NULL);
  situ_scope_begin(&scope);
  situ_tree *results = situ_nn_call(program, inputs);
  assert_int_equal(situ_backward(situ_sum(situ_tree_tensor_at(results, 0), NULL), NULL), SITU_OK);
  situ_tree *own = situ_nn_state_dict(program);
  int with = 0;
  for (int64_t i = 0; i < situ_tree_count(own); i++) with += situ_grad(situ_tree_tensor_at(own, i)) != NULL;
  assert_true(with >= 6);
  situ_tree_free(own);
  situ_tree_free(results);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(leased_values_are_read_anew), cmocka_unit_test(never_stale),
                                      cmocka_unit_test(gradients_flow) };
  const struct CMUnitTest weights[] = { cmocka_unit_test(leased_values_are_read_anew), cmocka_unit_test(never_stale) };
  const int failed = cmocka_run_group_tests(tests, load_program, free_program);
  return failed + cmocka_run_group_tests(weights, make_convolutions, free_program) +
         cmocka_run_group_tests(weights, make_products, free_program);
}
