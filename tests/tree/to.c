/* Trees of tensors move: form, aliases, destinations by path, and how many transfers it takes. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include "situ/policy.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

/* placement: C1, C2, C3 */
static void a_tree_keeps_its_form_its_aliases_and_its_sharing(void **state) {
  (void)state;
  situ_tensor *x = situ_arange(0, 12, 1, NULL), *y = situ_ones(SITU_SHAPE(2), NULL),
              *m = situ_reshape(x, SITU_SHAPE(3, 4));
  situ_tree *tree = situ_tree_put(situ_tree_put(situ_tree_put(situ_tree_dict(), "list", SITU_TREE(x, y, x)), "view",
                                                situ_tree_tensor(situ_transpose(m, 0, 1))),
                                  "none", situ_tree_none());
  situ_tree *moved = situ_tree_to(tree, there());
  assert_non_null(moved);
  const situ_tree *list = situ_tree_find(moved, "list");
  situ_tensor *a = situ_tree_tensor_at(list, 0), *v = situ_tree_get(moved, "view");
  assert_ptr_equal(a, situ_tree_tensor_at(list, 2));
  assert_true(situ_shares_storage(a, v));
  expect_on(a, there());
  expect_on(situ_tree_tensor_at(list, 1), there());
  expect_on(x, here());
  assert_int_equal(situ_tree_kind_of(situ_tree_find(moved, "none")), SITU_TREE_NONE);
  expect_exact(situ_to(v, here()), SITU_SHAPE(4, 3), 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
  situ_tree *again = situ_tree_to(moved, there());
  assert_ptr_equal(situ_tree_get(again, "view"), v);
  situ_fail_allocation(0, false);
  situ_tree_free(situ_tree_to(tree, there()));
  for (uint64_t nth = situ_allocation_count(); nth > 0; nth--) {
    situ_fail_allocation(nth, false);
    situ_tree *none = situ_tree_to(tree, there());
    situ_fail_allocation(0, false);
    assert_int_equal(situ_error(), none ? SITU_OK : SITU_E_NOMEM);
    situ_error_clear();
    situ_tree_free(none);
  }
  situ_tree_free(again);
  situ_tree_free(moved);
  situ_tree_free(tree);
}

static bool is_equal(situ_tensor *a, situ_tensor *b) {
  bool equal = false;
  expect_ok(situ_equal(a, b, &equal));
  return equal;
}

enum { LEAVES = 200, LEAF = 24 };

/* Tensors of three dtypes, some not row-major, one of them twice, and one that is too large to travel with others. */
static situ_tree *many_small(void) {
  static const situ_dtype dtypes[] = { SITU_F32, SITU_I64, SITU_BF16 };
  situ_tree *tree = situ_tree_list();
  situ_tensor *t = NULL;
  for (int i = 0; i < LEAVES; i++) {
    t = situ_to_dtype(situ_arange(i, i + LEAF, 1, NULL), dtypes[i % 3]);
    if (i % 5 == 0) t = situ_clone(situ_transpose(situ_reshape(t, SITU_SHAPE(4, 6)), 0, 1));
    tree = situ_tree_append(tree, situ_tree_tensor(t));
  }
  tree = situ_tree_append(tree, situ_tree_tensor(t));
  return situ_tree_append(tree, situ_tree_tensor(situ_ones(SITU_SHAPE(1 << 16), NULL)));
}

/* placement: C6 */
static void small_tensors_of_a_tree_travel_together(void **state) {
  (void)state;
  situ_tree *tree = many_small();
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  situ_tree *moved = situ_tree_to(tree, there()), *home = situ_tree_to(moved, here());
  const situ_transfers total = situ_ledger_total(&ledger);
  situ_transfer first;
  assert_in_range(situ_ledger_transfers(&ledger, &first, 1), 4, 6); /* two and the large one, there and back */
  assert_string_equal(first.reason, "asked for");
  assert_in_range(total.bytes, 2 << 18, (2 << 18) + 2 * LEAVES * 256);
  expect_ok(situ_ledger_end(&ledger));
  for (int i = 0; i < LEAVES + 2; i++) {
    situ_tensor *a = situ_tree_tensor_at(tree, i), *b = situ_tree_tensor_at(home, i);
    expect_on(situ_tree_tensor_at(moved, i), there());
    assert_true(situ_dtype_of(b) == situ_dtype_of(a) && is_equal(a, b));
    for (int d = 0; d < situ_dim(a); d++) assert_int_equal(situ_stride(b, d), situ_stride(a, d));
    if (i && i < LEAVES) assert_false(situ_shares_storage(b, situ_tree_tensor_at(home, i - 1)));
  }
  assert_ptr_equal(situ_tree_tensor_at(moved, LEAVES - 1), situ_tree_tensor_at(moved, LEAVES));
  situ_tree_free(moved);
  situ_tree_free(home);
  for (uint64_t budget = 0; there().kind == SITU_SIM && budget <= 1 << 16; budget += 1 << 16) {
    const int64_t alive = situ_live_tensors();
    expect_ok(situ_empty_cache(there()));
    expect_ok(situ_sim_budget(there().index, budget)); /* enough for none, or for all but the large one */
    assert_null(situ_tree_to(tree, there()));
    expect_error(SITU_E_NOMEM, budget ? "to" : "tree_to", "no memory for");
    assert_int_equal(situ_live_tensors(), alive);
  }
  if (there().kind == SITU_SIM) expect_ok(situ_sim_reset(there().index));
  situ_tree_free(tree);
}

/* What a copy alone does: a gradient is recorded, and each copy is verified by its tensor. */
static void some_tensors_of_a_tree_travel_alone(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(2), NULL), true), *x = situ_ones(SITU_SHAPE(4), NULL);
  situ_tree *tree = SITU_TREE(w, x, situ_narrow(situ_arange(0, 9, 1, NULL), 0, 3, 2)), *moved;
  moved = situ_tree_to(tree, there());
  expect_exact(situ_to(situ_tree_tensor_at(moved, 2), here()), SITU_SHAPE(2), 3, 4);
  expect_ok(situ_backward(situ_sum(situ_tree_tensor_at(moved, 0), NULL), NULL));
  expect_exact(situ_grad(w), SITU_SHAPE(2), 1, 1);
  situ_tree_free(moved);
  situ_setting before;
  situ_ledger ledger;
  situ_policy_begin(&before, (situ_policy){ .verify = true });
  situ_ledger_begin(&ledger);
  situ_tree *pair = SITU_TREE(x, situ_ones(SITU_SHAPE(4), NULL));
  moved = situ_tree_to(pair, there());
  situ_transfer last;
  assert_true(situ_ledger_transfers(&ledger, &last, 1) > 1);
  assert_int_equal(last.bytes, 16);
  situ_tree_free(moved);
  situ_tree_free(pair);
  expect_ok(situ_ledger_end(&ledger));
  situ_policy_end(&before);
  situ_tree_free(tree);
}

/* placement: C4 */
static void each_leaf_has_a_destination(void **state) {
  (void)state;
  situ_tensor *x = situ_arange(0, 4, 1, NULL), *y = situ_ones(SITU_SHAPE(2), NULL);
  situ_tree *tree = situ_tree_put(situ_tree_put(situ_tree_dict(), "in", SITU_TREE(x, situ_view(x, SITU_SHAPE(2, 2)))),
                                  "label", situ_tree_tensor(y));
  char map[96], name[SITU_DEVICE_NAME_MAX];
  (void)snprintf(map, sizeof map, "in.*=%s", situ_device_name(there(), name));
  situ_tree *moved = situ_tree_to_map(tree, map);
  assert_ptr_equal(situ_tree_get(moved, "label"), y);
  const situ_tree *in = situ_tree_find(moved, "in");
  situ_tensor *a = situ_tree_tensor_at(in, 0), *view = situ_tree_tensor_at(in, 1);
  expect_on(a, there());
  assert_true(situ_shares_storage(a, view));
  expect_exact(situ_to(view, here()), SITU_SHAPE(2, 2), 0, 1, 2, 3);
  situ_tree_free(moved);
  (void)snprintf(map, sizeof map, "in.0=%s,label=%s", name, name);
  assert_null(situ_tree_to_map(tree, map));
  expect_error(SITU_E_ARG, "tree_to_map", "in.1 shares its memory with a tensor before it: they cannot be on ");
  (void)snprintf(map, sizeof map, "in=%s,labels=%s", name, name);
  assert_null(situ_tree_to_map(tree, map));
  expect_error(SITU_E_ARG, "tree_to_map", "\"labels\" matches no tensor");
  assert_null(situ_tree_to_map(tree, "label"));
  expect_error(SITU_E_ARG, "tree_to_map", "must be pattern=device");
  assert_null(situ_tree_to_map(NULL, map));
  expect_error(SITU_E_ARG, "tree_to_map", "tree");
  situ_tree_free(tree);
}

/* Gradients flow through each of the copies, whatever memory they shared. */
static void gradients_flow_through_each(void **state) {
  (void)state;
  for (int k = 0; k < 3; k++) {
    situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(2, 3), NULL), true);
    situ_tensor *first = k == 2 ? situ_detach(w)
                         : k    ? situ_select(w, 0, 0)
                                : w,
                *second = k == 2 ? w : situ_select(w, 0, 1);
    situ_tree *pair = SITU_TREE(first, second), *moved = situ_tree_to(pair, there());
    situ_tensor *a = situ_tree_tensor_at(moved, 0), *b = situ_tree_tensor_at(moved, 1);
    assert_true(situ_requires_grad(a) == (k < 2) && situ_requires_grad(b));
    expect_ok(situ_backward(situ_add(situ_sum(a, NULL), situ_mul_scalar(situ_sum(b, NULL), 2)), NULL));
    if (k == 0) expect_exact(situ_grad(w), SITU_SHAPE(2, 3), 1, 1, 1, 3, 3, 3);
    if (k == 1) expect_exact(situ_grad(w), SITU_SHAPE(2, 3), 1, 1, 1, 2, 2, 2);
    if (k == 2) expect_exact(situ_grad(w), SITU_SHAPE(2, 3), 2, 2, 2, 2, 2, 2);
    situ_tree_free(moved);
    situ_tree_free(pair);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(a_tree_keeps_its_form_its_aliases_and_its_sharing),
                                      PAIR_TEST(small_tensors_of_a_tree_travel_together),
                                      PAIR_TEST(some_tensors_of_a_tree_travel_alone),
                                      PAIR_TEST(each_leaf_has_a_destination), PAIR_TEST(gradients_flow_through_each) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
