/* Loading a state while the device fails at each of its steps: nothing has changed afterwards.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include "situ/sys/tensor.h"
#include "situ/sys/sim.h"
#include "support/modules.h"

static situ_tensor *on_host(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_to(situ_detach(t), (situ_device){ .kind = SITU_CPU });
}

static situ_tree *values_of(situ_nn_module *m) {
  situ_tree *own = situ_nn_state_dict(m), *values = situ_tree_map(own, on_host, NULL);
  situ_tree_free(own);
  return values;
}

static void expect_values_of(situ_nn_module *m, const situ_tree *want) {
  situ_tree *now = values_of(m);
  for (int64_t i = 0; i < situ_tree_count(want); i++)
    expect_same(situ_tree_tensor_at(now, i), situ_tree_tensor_at(want, i), 0, 0);
  situ_tree_free(now);
}

static situ_nn_module *net(void) {
  return situ_nn_sequential(situ_nn_linear(3, 4, &(situ_nn_linear_options){ HERE }),
                            situ_nn_batch_norm1d(4, OPTIONS_AT(situ_nn_batch_norm, with HERE)));
}

static void every_step_fails_once(void **state) {
  (void)state;
  situ_nn_module *m = net(), *other = net();
  situ_tree *before = values_of(m), *wanted = values_of(other);
  int points = 0;
  for (int fault = SITU_SIM_ALLOC; fault <= SITU_SIM_LATE; fault++) {
    bool whole = false;
    for (uint64_t nth = 1; !whole; nth++) {
      assert_true(nth < 200);
      assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
      assert_int_equal(situ_synchronize(test_device()), SITU_OK);
      assert_int_equal(situ_sim_fail(0, (situ_sim_fault)fault, nth, true), SITU_OK);
      whole = situ_nn_load_state_dict(m, wanted, NULL) == SITU_OK;
      if (!whole) situ_error_clear();
      assert_int_equal(situ_sim_reset(0), SITU_OK);
      points += !whole;
      expect_values_of(m, whole ? wanted : before);
    }
    assert_int_equal(situ_nn_load_state_dict(m, before, NULL), SITU_OK);
  }
  assert_true(points >= 20);
  situ_tree_free(before);
  situ_tree_free(wanted);
  situ_nn_free(m);
  situ_nn_free(other);
}

/* A part of it is on meta, and is written first: what fails afterwards puts it back there, with its recipe. */
static void what_was_on_meta_is_there_again(void **state) {
  (void)state;
  const situ_device meta = { .kind = SITU_META };
  situ_nn_module *other = situ_nn_sequential(situ_nn_linear(3, 4, &(situ_nn_linear_options){ HERE }), net());
  situ_tree *wanted = values_of(other);
  int points = 0;
  for (int fault = SITU_SIM_ALLOC; fault <= SITU_SIM_LATE; fault++) {
    bool whole = false;
    for (uint64_t nth = 1; !whole; nth++) {
      assert_true(nth < 200);
      situ_nn_module *noted = situ_nn_linear(3, 4, &(situ_nn_linear_options){ .device = meta }), *rest = net(),
                     *m = situ_nn_sequential(noted, rest);
      situ_tree *before = values_of(rest);
      assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
      assert_int_equal(situ_synchronize(test_device()), SITU_OK);
      assert_int_equal(situ_sim_fail(0, (situ_sim_fault)fault, nth, true), SITU_OK);
      whole = situ_nn_load_state_dict(m, wanted, &(situ_nn_load_options){ HERE }) == SITU_OK;
      if (!whole) situ_error_clear();
      assert_int_equal(situ_sim_reset(0), SITU_OK);
      points += !whole;
      if (whole) {
        expect_values_of(m, wanted);
      } else {
        expect_values_of(rest, before);
        situ_tensor *weight = situ_nn_get_tensor(noted, "weight");
        assert_int_equal(situ_device_of(weight).kind, SITU_META);
        assert_true(situ_has_values(weight));
      }
      situ_tree_free(before);
      situ_nn_free(m);
    }
  }
  assert_true(points >= 20);
  situ_tree_free(wanted);
  situ_nn_free(other);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(every_step_fails_once),
                                      MODULE_TEST(what_was_on_meta_is_there_again) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
