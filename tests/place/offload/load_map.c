/* Loads into modules on meta with a device for each path: values come to their devices at once, and what is refused leaves
   all on meta. */
/* test-devices: sim:0 */
#include "situ/sys/shape.h"
#include "support/pairs.h"

static situ_nn_module *on_meta(void) {
  situ_setting before;
  expect_ok(situ_default_device_begin(&before, situ_dev("meta")));
  situ_nn_module *m = situ_nn_set_name(
      situ_nn_sequential(situ_nn_linear(8, 4, NULL), situ_nn_batch_norm1d(4, NULL), situ_nn_linear(4, 2, NULL)), "net");
  situ_default_device_end(&before);
  return m;
}

static situ_nn_module *real;
static situ_tree *values(void) {
  real = situ_nn_sequential(situ_nn_linear(8, 4, NULL), situ_nn_batch_norm1d(4, NULL), situ_nn_linear(4, 2, NULL));
  return situ_nn_state_dict(real);
}

static void note(situ_nn_load_problem problem, const char *path, void *payload) {
  if (problem == SITU_NN_LOAD_MISSING) strcat(payload, path);
}

/* placement: H2 */
static void each_tensor_goes_to_its_device(void **state) {
  (void)state;
  situ_tree *from = values();
  situ_nn_module *m = on_meta();
  situ_ledger l;
  situ_ledger_begin(&l);
  expect_ok(situ_nn_load_map(m, from, "0=sim:0, 1.running*=sim:0, 2=cpu", NULL));
  assert_int_equal(situ_ledger_total(&l).bytes,
                   4 * (8 * 4 + 4 + 2 * 4)); /* nothing is made first, or moved behind it */
  expect_ok(situ_ledger_end(&l));
  expect_on(situ_nn_get_tensor(m, "0.weight"), there());
  expect_on(situ_nn_get_tensor(m, "1.running_mean"), there());
  expect_on(situ_nn_get_tensor(m, "1.weight"), situ_dev("cpu")); /* no rule: the default device */
  expect_on(situ_nn_get_tensor(m, "2.bias"), situ_dev("cpu"));
  assert_true(situ_device_equal(situ_nn_get_submodule(m, "0")->home, there()));
  situ_tree *got = situ_nn_state_dict(m);
  for (int64_t i = 0; i < situ_tree_count(got); i++)
    assert_true(
        test_same_bits(situ_tree_tensor_at(got, i), situ_tree_value(situ_tree_find(from, situ_tree_key(got, i)))));
  situ_tree_free(got);
  situ_tree_free(from);
  situ_nn_free(m);
  situ_nn_free(real);
}

static void what_is_refused_leaves_all_on_meta(void **state) {
  (void)state;
  char missing[256] = "";
  situ_tree *from = values(),
            *less = situ_tree_put(situ_tree_dict(), "0.weight", situ_tree_tensor(situ_ones(SITU_SHAPE(4, 8), NULL)));
  situ_nn_module *m = on_meta();
  assert_int_equal(situ_nn_load_map(m, from, "0=sim:0, 3=cpu", NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_map", "\"3\" matches no parameter or buffer");
  assert_int_equal(situ_nn_load_map(m, from, "0=meta", NULL), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "nn_load_state_dict", "0.weight is placed on meta");
  assert_int_equal(situ_nn_load_map(m, less, "*=sim:0", NULL), SITU_E_ARG);
  situ_error_clear();
  expect_ok(situ_sim_fail(there().index, SITU_SIM_ALLOC, 1, true));
  expect_ok(situ_empty_cache(there()));
  assert_int_equal(situ_nn_load_map(m, from, "*=sim:0", NULL), SITU_E_NOMEM);
  situ_error_clear();
  expect_ok(situ_sim_reset(there().index));
  situ_tree *now = situ_nn_state_dict(m);
  for (int64_t i = 0; i < situ_tree_count(now); i++) expect_on(situ_tree_tensor_at(now, i), situ_dev("meta"));
  situ_tree_free(now);
  const situ_nn_load_options lax = { .not_strict = true, .report = note, .payload = missing };
  expect_ok(situ_nn_load_map(m, less, "0.weight=sim:0", &lax));
  assert_non_null(strstr(missing, "2.weight"));
  expect_on(situ_nn_get_tensor(m, "0.weight"), there());
  expect_on(situ_nn_get_tensor(m, "2.weight"), situ_dev("meta"));
  situ_tree_free(from);
  situ_tree_free(less);
  situ_nn_free(m);
  situ_nn_free(real);
}

/* Memory is taken over only where it is on the device already. */
static void memory_that_is_taken_over(void **state) {
  (void)state;
  situ_nn_module *m = on_meta();
  situ_tensor *w = situ_ones(SITU_SHAPE(4, 8), NULL), *last = situ_ones(SITU_SHAPE(2, 4), NULL);
  const void *memory = situ_desc(last)->storage->data;
  situ_tree *from = situ_tree_put(situ_tree_dict(), "0.weight", situ_tree_tensor(w));
  from = situ_tree_put(from, "2.weight", situ_tree_tensor(last));
  expect_ok(situ_nn_load_map(m, from, "0=sim:0, *=cpu", &(situ_nn_load_options){ .assign = true, .not_strict = true }));
  expect_on(situ_nn_get_tensor(m, "0.weight"), there());
  assert_ptr_equal(situ_desc(situ_nn_get_tensor(m, "2.weight"))->storage->data, memory);
  situ_tree_free(from);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(each_tensor_goes_to_its_device),
    PAIR_TEST(what_is_refused_leaves_all_on_meta),
    PAIR_TEST(memory_that_is_taken_over),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
