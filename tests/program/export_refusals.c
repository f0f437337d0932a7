/* What situ_export and situ_export_save refuse, and what they leave as it was.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "support/scope.h"
#include "situ/situ.h"

static situ_nn_module *make(const situ_nn_type *type) { return situ_nn_done(situ_nn_alloc(type)); }

/* The module is refused with a status, and a message that has both texts. */
static void is_refused(situ_nn_module *m, situ_tensor *x, situ_status status, const char *first, const char *second) {
  assert_non_null(m);
  situ_tree *inputs = SITU_TREE(x);
  situ_nn_module *program = situ_export(m, inputs);
  assert_null(program);
  assert_int_equal(situ_error(), status);
  if (!strstr(situ_error_message(), first) || !strstr(situ_error_message(), second))
    fail_msg("the message lacks \"%s\" or \"%s\": %s", first, second, situ_error_message());
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(m);
}

static situ_tensor *unwritable_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_add(situ_logcumsumexp(x, 1), situ_abs(situ_logcumsumexp(situ_cumprod(x, 0), 1)));
}
static void calls_without_a_form_are_listed(void **state) {
  static const situ_nn_type type = { .name = "Unwritable",
                                     .size = sizeof(situ_nn_module),
                                     .forward = unwritable_forward };
  (void)state;
  is_refused(make(&type), situ_ones(SITU_SHAPE(2, 3), NULL), SITU_E_UNSUPPORTED, "2 calls cannot be written",
             "logcumsumexp");
}

static situ_tensor *reading_forward(situ_nn_module *self, situ_tensor *x) {
  double sum = 0;
  (void)self;
  return situ_item(situ_sum(x, NULL), &sum) == SITU_OK && sum > 0 ? situ_neg(x) : x;
}
static void a_forward_that_reads_values_is_refused(void **state) {
  static const situ_nn_type type = { .name = "Reading", .size = sizeof(situ_nn_module), .forward = reading_forward };
  (void)state;
  is_refused(make(&type), situ_ones(SITU_SHAPE(2, 3), NULL), SITU_E_UNSUPPORTED, "forward", "item");
}

static situ_tensor *writing_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_neg(situ_mul_scalar_(x, 2));
}
static void a_forward_that_writes_its_input_is_refused(void **state) {
  static const situ_nn_type type = { .name = "Writing", .size = sizeof(situ_nn_module), .forward = writing_forward };
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL);
  is_refused(make(&type), x, SITU_E_UNSUPPORTED, "writes an input in place", "mul_scalar");
  float first = 0;
  assert_int_equal(situ_copy_to_host(situ_select(situ_select(x, 0, 0), 0, 0), &first, sizeof first), SITU_OK);
  assert_true(first == 1); /* the trace computed nothing */
}

static situ_tensor *drawing_forward(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_add(x, situ_randn(situ_shape_of(x), NULL));
}
static void numbers_that_are_drawn_in_forward_are_refused(void **state) {
  static const situ_nn_type type = { .name = "Drawing", .size = sizeof(situ_nn_module), .forward = drawing_forward };
  (void)state;
  is_refused(make(&type), situ_ones(SITU_SHAPE(2, 3), NULL), SITU_E_UNSUPPORTED, "drawn at random", "add");
}

/* Its parameters would be the run's. */
static void a_lazy_module_is_refused_and_stays_lazy(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_lazy_linear(2, NULL), situ_nn_relu());
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL);
  is_refused(situ_nn_retain(m), x, SITU_E_STATE, "LazyLinear", "first input");
  situ_tensor *y = situ_nn_forward(m, x);
  assert_true(y && situ_size(y, 1) == 2);
  situ_nn_free(m);
}

static void errors_of_forward_are_reported(void **state) {
  (void)state;
  is_refused(situ_nn_linear(4, 2, NULL), situ_ones(SITU_SHAPE(2, 3), NULL), SITU_E_SHAPE, "forward fails", "linear");
}

static void only_programs_are_saved(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(4, 2, NULL);
  assert_int_equal(situ_export_save(m, "never.pt2"), SITU_E_STATE);
  situ_error_clear();
  assert_null(fopen("never.pt2", "rb"));
  situ_nn_free(m);
}

static void a_failed_save_leaves_the_file(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(4, 2, NULL);
  situ_tree *inputs = SITU_TREE(situ_ones(SITU_SHAPE(2, 4), NULL));
  situ_nn_module *program = situ_export(m, inputs);
  assert_non_null(program);
  assert_int_equal(situ_export_save(program, "absent/directory/model.pt2"), SITU_E_IO);
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(program);
  situ_nn_free(m);
}

/* Each value of the file is declared as it was in the trace, so situ_export_load would refuse the file. */
static void a_program_that_was_cast_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 2, NULL));
  situ_tree *inputs = SITU_TREE(situ_ones(SITU_SHAPE(2, 4), NULL));
  situ_nn_module *program = situ_export(m, inputs), *copy = situ_nn_clone(program);
  assert_int_equal(situ_export_save(program, "cast.pt2"), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(copy, SITU_BF16), SITU_OK);
  assert_int_equal(situ_export_save(copy, "cast.pt2"), SITU_E_DTYPE);
  const char *message = situ_error_message();
  if (!strstr(message, "0.weight is bf16, and was f32")) fail_msg("%s", message);
  situ_error_clear();
  situ_nn_module *kept = situ_export_load("cast.pt2", NULL);
  assert_non_null(kept);
  assert_int_equal(situ_export_save(program, "cast.pt2"), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(copy, SITU_F32), SITU_OK);
  assert_int_equal(situ_export_save(copy, "cast.pt2"), SITU_OK);
  situ_tree_free(inputs);
  situ_nn_module *all[] = { kept, copy, program, m };
  for (int i = 0; i < 4; i++) situ_nn_free(all[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(calls_without_a_form_are_listed, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_forward_that_reads_values_is_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_forward_that_writes_its_input_is_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(numbers_that_are_drawn_in_forward_are_refused, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_lazy_module_is_refused_and_stays_lazy, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(errors_of_forward_are_reported, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(only_programs_are_saved, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_failed_save_leaves_the_file, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(a_program_that_was_cast_is_refused, open_scope, close_scope),
  };
  return cmocka_run_group_tests_name("program/export_refusals", tests, NULL, NULL);
}
