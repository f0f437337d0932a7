/* Scopes: who owns what, for how long. */
#include "support/test.h"

static situ_tensor *one(double value) { return situ_full(SITU_SHAPE(1), value, NULL); }

static void a_scope_frees_what_it_owns(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope s;
  situ_scope_begin(&s);
  for (int i = 0; i < 100; i++) one(i);
  assert_int_equal(situ_live_tensors(), before + 100);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_live_tensors(), before);
}

static void a_forgotten_inner_scope_is_cleaned(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope outer, inner;
  situ_scope_begin(&outer);
  situ_scope_begin_no_grad(&inner);
  one(1);
  assert_false(situ_is_grad_enabled());
  assert_int_equal(situ_scope_end(&outer), SITU_OK);
  assert_true(situ_is_grad_enabled());
  assert_int_equal(situ_live_tensors(), before);
  assert_int_equal(situ_scope_end(&inner), SITU_E_STATE);
  expect_error(SITU_E_STATE, "scope_end", "not open");
}

/* Only what was begun inside ends with a scope. */
static void a_setting_outlives_the_scope(void **state) {
  (void)state;
  situ_device meta = situ_dev("meta"), before = situ_get_default_device();
  situ_scope s;
  situ_scope_begin(&s);
  assert_int_equal(situ_set_default_device(meta), SITU_OK);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_true(situ_device_equal(situ_get_default_device(), meta));
  assert_int_equal(situ_set_default_device(before), SITU_OK);
}

static situ_tensor *three(situ_tensor *x, bool fail) {
  situ_scope s, forgotten;
  situ_scope_begin(&s);
  situ_scope_begin_no_grad(&forgotten);
  situ_tensor *y = situ_add(situ_add(x, one(1)), one(1));
  if (fail) (void)situ_matmul(y, situ_zeros(SITU_SHAPE(2, 2), NULL));
  return situ_scope_return(&s, y);
}

/* What is returned belongs to the scope around it, the rest is gone; after an error nothing is left. */
static void a_scope_returns_a_tensor(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *x = one(1), *y = three(x, false);
  assert_true(situ_is_grad_enabled());
  expect_exact(y, SITU_SHAPE(1), 3);
  assert_int_equal(situ_live_tensors(), before + 2);
  assert_null(three(x, true));
  expect_error(SITU_E_SHAPE, "matmul", "");
  assert_int_equal(situ_live_tensors(), before + 2);
  situ_scope inner;
  situ_scope_begin(&inner);
  assert_null(situ_scope_return(&inner, NULL));
  assert_null(situ_scope_return(&inner, x)); /* ended already */
  expect_error(SITU_E_STATE, "scope_return", "not open");
  SITU_IGNORE(situ_scope_end(&s));
  assert_int_equal(situ_live_tensors(), before);
}

static void escape_and_set(void **state) {
  (void)state;
  situ_tensor *slot = NULL;
  int64_t before = situ_live_tensors();
  for (int i = 0; i < 10; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *next = slot ? situ_add(slot, one(1)) : one(1);
    assert_true(situ_set(&slot, next));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    assert_int_equal(situ_live_tensors(), before + 1);
  }
  expect_exact(slot, SITU_SHAPE(1), 10);
  assert_false(situ_set(&slot, NULL));
  expect_exact(slot, SITU_SHAPE(1), 10);
  situ_drop(&slot);
  assert_null(slot);
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *kept = situ_escape(&s, one(7));
  one(8);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  expect_exact(kept, SITU_SHAPE(1), 7);
}

/* Outside all scopes, a tensor belongs to the program. */
static void escapes_from_the_outermost_scope(void **state) {
  (void)state;
  int64_t before = situ_live_tensors();
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *older = one(1), *newest = one(2);
  assert_ptr_equal(situ_escape(&s, newest), newest);
  assert_ptr_equal(situ_escape(&s, older), older);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_live_tensors(), before + 2);
  situ_release(older);
  situ_release(newest);
  assert_int_equal(situ_live_tensors(), before);
}

static void the_scope_tells_of_errors_inside(void **state) {
  (void)state;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *y = situ_relu(situ_add(one(1), situ_zeros(SITU_SHAPE(-3), NULL)));
  assert_null(y);
  assert_int_equal(situ_scope_end(&s), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "zeros", "negative");
}

static void a_released_handle_is_refused(void **state) {
  (void)state;
  situ_tensor *t = NULL;
  situ_scope s;
  situ_scope_begin(&s);
  situ_set(&t, one(1));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_tensor *stale = t;
  situ_drop(&t);
  expect_refused(situ_relu(stale), SITU_E_ARG, "relu", "input is a tensor that was freed (f32 [");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_scope_frees_what_it_owns),
                                      TEST(a_forgotten_inner_scope_is_cleaned),
                                      TEST(a_setting_outlives_the_scope),
                                      TEST(a_scope_returns_a_tensor),
                                      TEST(escape_and_set),
                                      cmocka_unit_test(escapes_from_the_outermost_scope),
                                      TEST(the_scope_tells_of_errors_inside),
                                      TEST(a_released_handle_is_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
