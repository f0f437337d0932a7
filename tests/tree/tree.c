/* Trees: built, refused, looked up, walked, flattened; nothing leaks and nothing is freed twice.
   SPDX-License-Identifier: MIT */
#include "situ/tree.h"

#include <stdio.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/test.h"

static situ_tensor *ready; /* where no tensor can be made */
static situ_tensor *number(double value) { return ready ? ready : T32(SITU_SHAPE(1), value); }

/* { x: 1, more: [2, None, { y: 3 }] } */
static situ_tree *sample(void) {
  situ_tree *inner = situ_tree_put(situ_tree_dict(), "y", situ_tree_tensor(number(3)));
  situ_tree *list = situ_tree_append(situ_tree_list(), situ_tree_tensor(number(2)));
  list = situ_tree_append(situ_tree_append(list, situ_tree_none()), inner);
  return situ_tree_put(situ_tree_put(situ_tree_dict(), "x", situ_tree_tensor(number(1))), "more", list);
}

static void builds_and_finds(void **state) {
  (void)state;
  situ_tree *t = sample();
  assert_int_equal(situ_tree_kind_of(t), SITU_TREE_DICT);
  assert_int_equal(situ_tree_count(t), 2);
  assert_string_equal(situ_tree_key(t, 1), "more");
  const situ_tree *more = situ_tree_find(t, "more");
  assert_int_equal(situ_tree_kind_of(more), SITU_TREE_LIST);
  assert_int_equal(situ_tree_kind_of(situ_tree_at(more, 1)), SITU_TREE_NONE);
  expect_exact(situ_tree_get(situ_tree_at(more, 2), "y"), SITU_SHAPE(1), 3);
  expect_exact(situ_tree_tensor_at(more, 0), SITU_SHAPE(1), 2);
  assert_null(situ_tree_find(t, "z"));
  assert_null(situ_tree_find(more, "x"));
  for (int64_t outside = -1; outside <= 2; outside += 3) {
    assert_null(situ_tree_at(t, outside));
    expect_error(SITU_E_INDEX, "tree_at", "of a dict of 2");
  }
  assert_int_equal(situ_error(), SITU_OK);
  situ_tree_free(t);
}

static void keys_are_made_as_by_printf(void **state) {
  (void)state;
  situ_tree *dict = situ_tree_dict();
  for (int i = 0; i < 3; i++) {
    char key[32];
    (void)snprintf(key, sizeof key, "layers.%d.weight", i);
    dict = situ_tree_put(dict, key, situ_tree_tensor(situ_full(SITU_SHAPE(1), i, NULL)));
  }
  expect_exact(situ_tree_getf(dict, "layers.%d.%s", 2, "weight"), SITU_SHAPE(1), 2);
  assert_null(situ_tree_getf(dict, "layers.%d.weight", 3));
  expect_error(SITU_E_ARG, "tree_getf", "layers.3.weight");
  assert_null(situ_tree_getf(dict, "%2000d", 1));
  expect_error(SITU_E_ARG, "tree_getf", "2000 bytes");
  situ_tree_free(dict);
}

static void a_list_of_one_is_its_tensor(void **state) {
  (void)state;
  situ_tensor *x = number(5), *y = number(6);
  situ_tree *one = SITU_TREE(x), *two = SITU_TREE(x, y);
  assert_ptr_equal(situ_tree_value(one), x);
  expect_refused(situ_tree_value(two), SITU_E_ARG, "tree_value", "a list of 2");
  situ_tree_free(one);
  situ_tree_free(two);
}

static void what_is_passed_in_is_taken_over(void **state) {
  (void)state;
  situ_tree *list = situ_tree_append(situ_tree_list(), situ_tree_tensor(number(1)));
  /* A NULL item, a second key, a wrong kind: both sides are freed each time. */
  expect_refused(situ_tree_append(list, situ_tree_tensor(NULL)), SITU_E_ARG, "tree_tensor", "tensor");
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "k", situ_tree_tensor(number(1)));
  expect_refused(situ_tree_put(dict, "k", situ_tree_none()), SITU_E_ARG, "tree_put", "\"k\"");
  expect_refused(situ_tree_put(situ_tree_list(), "k", situ_tree_none()), SITU_E_ARG, "tree_put", "a dict is needed");
  expect_refused(situ_tree_put(situ_tree_dict(), NULL, situ_tree_none()), SITU_E_ARG, "tree_put", "key");
  expect_refused(situ_tree_append(NULL, situ_tree_none()), SITU_E_ARG, "tree_append", "list");
  expect_refused(situ_tree_of(-1, NULL), SITU_E_ARG, "tree_of", "-1 tensors");
}

static void parts_belong_to_one_tree(void **state) {
  (void)state;
  situ_tree *inner = situ_tree_list(), *outer = situ_tree_append(situ_tree_list(), inner);
  expect_refused(situ_tree_append(inner, situ_tree_none()), SITU_E_STATE, "tree_append", "part of a tree");
  expect_refused(situ_tree_append(situ_tree_list(), inner), SITU_E_STATE, "tree_append", "part of a tree");
  situ_tree_free(inner);
  expect_error(SITU_E_STATE, "tree_free", "inside another tree");
  assert_int_equal(situ_tree_count(outer), 1);
  situ_tree_free(outer);
  situ_tree *self = situ_tree_list();
  expect_refused(situ_tree_append(self, self), SITU_E_STATE, "tree_append", "part of a tree");
}

static void depth_is_bounded(void **state) {
  (void)state;
  situ_tree *t = situ_tree_none();
  for (int i = 0; i < 64; i++) t = situ_tree_append(situ_tree_list(), t);
  assert_non_null(t);
  expect_refused(situ_tree_append(situ_tree_list(), t), SITU_E_LIMIT, "tree_append", "64");
}

static situ_tree *dict_of(int keys) {
  situ_tree *t = situ_tree_dict();
  char key[48];
  for (int i = 0; i < keys; i++) {
    snprintf(key, sizeof key, "layers.%d.weight", i);
    t = situ_tree_put(t, key, situ_tree_none());
  }
  return t;
}

static void large_dicts_find_every_key(void **state) {
  (void)state;
  enum { KEYS = 5000 };
  situ_tree *t = dict_of(KEYS);
  char key[48];
  for (int i = 0; i < KEYS; i++) {
    snprintf(key, sizeof key, "layers.%d.weight", i);
    assert_ptr_equal(situ_tree_find(t, key), situ_tree_at(t, i));
  }
  assert_null(situ_tree_find(t, "layers.5000.weight"));
  situ_tree_free(t);
}

static situ_status collect(const char *path, situ_tensor *tensor, void *payload) {
  double value;
  test_read(tensor, &value);
  char *text = payload;
  snprintf(text + strlen(text), 100 - strlen(text), "%s=%g ", path, value);
  return value == 2 && text[0] == '!' ? SITU_E_STATE : SITU_OK;
}

static void walks_in_order_and_stops(void **state) {
  (void)state;
  situ_tree *t = sample();
  char text[100] = "";
  assert_int_equal(situ_tree_each(t, collect, text), SITU_OK);
  assert_string_equal(text, "x=1 more.0=2 more.2.y=3 ");
  char stop[100] = "!";
  assert_int_equal(situ_tree_each(t, collect, stop), SITU_E_STATE);
  assert_string_equal(stop, "!x=1 more.0=2 ");
  situ_tree_free(t);
}

static situ_tensor *twice(situ_tensor *x, void *payload) {
  (void)payload;
  return situ_add(x, x);
}
static situ_tensor *never(situ_tensor *x, void *payload) {
  (void)x, (void)payload;
  return NULL;
}

/* placement: C5 */
static void maps_and_copies(void **state) {
  (void)state;
  situ_tree *t = sample(), *doubled = situ_tree_map(t, twice, NULL), *copy = situ_tree_copy(t);
  const situ_tree *more = situ_tree_find(doubled, "more");
  assert_int_equal(situ_tree_kind_of(situ_tree_at(more, 1)), SITU_TREE_NONE);
  expect_exact(situ_tree_get(situ_tree_at(more, 2), "y"), SITU_SHAPE(1), 6);
  assert_ptr_equal(situ_tree_get(copy, "x"), situ_tree_get(t, "x"));
  expect_refused(situ_tree_map(t, never, NULL), SITU_E_ARG, "tree_tensor", "tensor");
  situ_tree_free(t);
  situ_tree_free(doubled);
  situ_tree_free(copy);
}

static void flattens_and_takes_sections(void **state) {
  (void)state;
  situ_tree *t = sample(), *flat = situ_tree_flatten(t), *again = situ_tree_flatten(flat);
  assert_int_equal(situ_tree_count(flat), 3);
  assert_string_equal(situ_tree_key(flat, 2), "more.2.y");
  assert_int_equal(situ_tree_count(again), 3);
  assert_ptr_equal(situ_tree_get(again, "more.0"), situ_tree_get(flat, "more.0"));
  situ_tree *more = situ_tree_section(flat, "more");
  assert_int_equal(situ_tree_count(more), 2);
  expect_exact(situ_tree_get(more, "2.y"), SITU_SHAPE(1), 3);
  situ_tree *nothing = situ_tree_section(flat, "mor");
  assert_int_equal(situ_tree_count(nothing), 0);
  situ_tree_free(t);
  situ_tree_free(flat);
  situ_tree_free(again);
  situ_tree_free(more);
  situ_tree_free(nothing);
}

static void outlives_the_scope_of_its_tensors(void **state) {
  (void)state;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *t = situ_tree_tensor(number(7));
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  expect_exact(situ_tree_value(t), SITU_SHAPE(1), 7);
  situ_tree *other = situ_tree_list();
  assert_true(situ_tree_set(&t, other));
  assert_false(situ_tree_set(&t, NULL));
  assert_ptr_equal(t, other);
  situ_tree_free(t);
}

/* Every allocation of building, copying and flattening fails once, that of a large dict's index among them: an error
   each time, and nothing leaks. */
static void survives_a_lack_of_memory(void **state) {
  (void)state;
  uint64_t nth = 0;
  bool whole = false;
  ready = number(1);
  while (!whole) {
    assert_true(++nth < 500);
    situ_fail_allocation(nth, false);
    situ_tree *t = sample(), *flat = situ_tree_flatten(t), *copy = situ_tree_copy(flat), *large = dict_of(20);
    situ_fail_allocation(0, false);
    whole = copy && large;
    if (!whole) expect_error(SITU_E_NOMEM, "", "");
    situ_tree_free(large);
    situ_tree_free(copy);
    situ_tree_free(flat);
    situ_tree_free(t);
  }
  ready = NULL;
  assert_true(nth > 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(builds_and_finds),
    TEST(keys_are_made_as_by_printf),
    TEST(a_list_of_one_is_its_tensor),
    TEST(what_is_passed_in_is_taken_over),
    TEST(parts_belong_to_one_tree),
    TEST(depth_is_bounded),
    TEST(large_dicts_find_every_key),
    TEST(walks_in_order_and_stops),
    TEST(maps_and_copies),
    TEST(flattens_and_takes_sections),
    TEST(outlives_the_scope_of_its_tensors),
    TEST(survives_a_lack_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
