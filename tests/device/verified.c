/* Verified copies: on simulated devices one bit of each copy in turn arrives flipped. With the policy each is an error
   that names what was copied, and nothing has changed; without it each is wrong without a word.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 sim:1 */
#include <time.h>

#include "situ/io.h"
#include "situ/policy.h"
#include "support/pairs.h"

static situ_setting before;
static void verify(bool on) { situ_policy_begin(&before, (situ_policy){ .verify = on }); }

enum { SIZE = 6 };
static const situ_shape shape = { 2, { 2, 3 } };

static uint32_t checksum_of(situ_tensor *t) {
  uint32_t crc = 0;
  expect_ok(situ_checksum(t, &crc));
  return crc;
}

static void flip_next(uint64_t nth) { expect_ok(situ_sim_fail(there().index, SITU_SIM_FLIP, nth, false)); }
static void reset(void) {
  for (int i = 0; i < 2; i++) expect_ok(situ_sim_reset(i));
}

/* ---- one copy ---- */

typedef struct copying {
  situ_tensor *x, *y; /* on both devices */
  float read[SIZE];
} copying;

static situ_status to_there(copying *c) { return situ_to(c->x, there()) ? SITU_OK : situ_error(); }
static situ_status to_here(copying *c) { return situ_to(c->y, here()) ? SITU_OK : situ_error(); }
static situ_status move(copying *c) { return situ_to_(c->x, there()); }
static situ_status read(copying *c) { return situ_copy_to_host(c->y, c->read, sizeof c->read); }
static situ_status read_view(copying *c) {
  return situ_copy_to_host(situ_transpose(c->y, 0, 1), c->read, sizeof c->read);
}
static situ_status item(copying *c) {
  double value;
  return situ_item(situ_select(situ_select(c->y, 0, 1), 0, 1), &value);
}
static situ_status write(copying *c) {
  const float values[SIZE] = { 9, 8, 7, 6, 5, 4 };
  return situ_copy_from_host(c->y, values, sizeof values);
}
static situ_status make(copying *c) {
  (void)c;
  const float values[SIZE] = { 9, 8, 7, 6, 5, 4 };
  return situ_from_host(values, sizeof values, shape, &(situ_options){ .device = there() }) ? SITU_OK : situ_error();
}

/* placement: F6, I8 */
static void a_flipped_bit_is_an_error(void **state) {
  (void)state;
  static const struct {
    const char *op;
    situ_status (*copy)(copying *c);
    const char *says;
  } way[] = {
    { "to", to_there, "`x` ([2, 3] f32): 24 B from " },   { "to", to_here, "`y` ([2, 3] f32): 24 B from " },
    { "to_", move, "`x` ([2, 3] f32): 24 B from " },      { "copy_to_host", read, "`y` ([2, 3] f32): 24 B from " },
    { "copy_to_host", read_view, "24 B from " },          { "item", item, "4 B from " },
    { "copy_from_host", write, "24 B from cpu arrived" }, { "from_host", make, "24 B from cpu arrived" },
  };
  for (size_t i = 0; i < sizeof way / sizeof *way; i++)
    for (int on = 1; on >= 0; on--) {
      situ_scope scope;
      situ_scope_begin(&scope);
      copying c = { .x = situ_set_name(situ_randn(shape, NULL), "x"), .read = { 1 } };
      c.y = situ_set_name(situ_to(situ_add_scalar(c.x, 1), there()), "y");
      const uint32_t x = checksum_of(c.x), y = checksum_of(c.y);
      expect_ok(situ_synchronize(there()));
      verify(on);
      flip_next(1);
      const situ_status status = way[i].copy(&c);
      reset();
      situ_policy_end(&before);
      assert_int_equal(status, on ? SITU_E_IO : SITU_OK);
      if (on) {
        assert_non_null(strstr(situ_error_message(), "arrived on"));
        expect_error(SITU_E_IO, way[i].op, way[i].says);
        situ_error_clear();
        assert_int_equal(checksum_of(c.x), x);
        assert_int_equal(checksum_of(c.y), y);
        assert_true(c.read[0] == 1 && c.read[1] == 0);
        expect_on(c.x, here());
        verify(true); /* it can be repeated */
        expect_ok(way[i].copy(&c));
        situ_policy_end(&before);
      }
      SITU_IGNORE(situ_scope_end(&scope));
    }
}

/* ---- a module, and a file ---- */

static situ_nn_module *make_net(void) {
  return situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_batch_norm1d(8, NULL), situ_nn_linear(8, 300, NULL));
}

static situ_status add_checksum(const char *path, situ_tensor *t, void *payload) {
  uint32_t *all = payload;
  (void)path;
  *all = *all * 31 + checksum_of(t);
  return SITU_OK;
}
static uint32_t checksum_of_all(situ_nn_module *m) {
  uint32_t all = 0;
  situ_tree *dict = situ_nn_state_dict(m);
  expect_ok(situ_tree_each(dict, add_checksum, &all));
  situ_tree_free(dict);
  return all;
}

static void a_move_is_rolled_back(void **state) {
  (void)state;
  situ_nn_module *m = make_net();
  const uint32_t was = checksum_of_all(m);
  int named = 0;
  for (uint64_t nth = 1; nth < 100; nth++) {
    verify(true);
    flip_next(nth);
    const situ_status status = situ_nn_to(m, there());
    reset();
    situ_policy_end(&before);
    assert_int_equal(checksum_of_all(m), was);
    if (status == SITU_OK) break;
    assert_non_null(strstr(situ_error_message(), "` ("));
    named += strstr(situ_error_message(), "`2.weight` ([300, 8] f32): 9.4 KiB from") != NULL;
    expect_error(SITU_E_IO, "nn_to", "nothing has changed");
    situ_error_clear();
    expect_ok(situ_place_expect_on(m, here()));
  }
  assert_true(named > 0);
  expect_ok(situ_place_expect_on(m, there()));
  situ_nn_free(m);
}

/* placement: H6 */
static void what_a_file_holds_arrives(void **state) {
  (void)state;
  situ_nn_module *m = make_net(), *other = make_net();
  situ_tree *dict = situ_nn_state_dict(m);
  expect_ok(situ_save("verified.safetensors", dict, NULL));
  const uint32_t want = checksum_of_all(m);
  expect_ok(situ_nn_to(other, there()));
  const uint32_t was = checksum_of_all(other);
  int wrong = 0, refused = 0;
  for (int on = 0; on < 2; on++)
    for (uint64_t nth = 1; nth < 100; nth++) {
      verify(on);
      flip_next(nth);
      situ_tree *loaded = situ_load("verified.safetensors", &(situ_load_options){ .device = there() });
      reset();
      situ_policy_end(&before);
      if (!loaded) {
        refused++;
        assert_true(on);
        assert_non_null(strstr(situ_error_message(), "` ("));
        expect_error(SITU_E_IO, "load", "from cpu arrived on sim:");
        situ_error_clear();
        continue;
      }
      expect_ok(situ_nn_load_state_dict(other, loaded, NULL));
      const bool right = checksum_of_all(other) == want;
      assert_true(right || !on);
      wrong += !right;
      situ_tree_free(loaded);
      if (right) break;
    }
  assert_true(wrong > 3 && refused > 3);
  assert_int_not_equal(was, want);
  situ_tree_free(dict);
  situ_nn_free(other);
  situ_nn_free(m);
}

static void a_checksum_is_of_the_values(void **state) {
  (void)state;
  const float values[SIZE] = { 1, 2, 3, 4, 5, 6 }, turned[SIZE] = { 1, 4, 2, 5, 3, 6 };
  situ_tensor *x = situ_from_host(values, sizeof values, shape, NULL);
  situ_tensor *t = situ_from_host(turned, sizeof turned, SITU_SHAPE(3, 2), NULL);
  const uint32_t want = checksum_of(x);
  assert_int_not_equal(want, checksum_of(t));
  assert_int_equal(checksum_of(situ_transpose(t, 0, 1)), want);
  assert_int_equal(checksum_of(situ_transpose(situ_to(t, there()), 0, 1)), want);
  assert_int_equal(checksum_of(situ_to(x, there())), want);
  assert_int_equal(checksum_of(situ_narrow(situ_cat((situ_tensor *[]){ x, x }, 2, 0), 0, 2, 2)), want);
  assert_int_equal(checksum_of(situ_zeros(SITU_SHAPE(0, 3), NULL)), 0);
  situ_tensor *large = situ_rand(SITU_SHAPE(700, 1024), NULL);
  assert_int_equal(checksum_of(situ_to(large, there())), checksum_of(large));
  uint32_t crc = 7;
  assert_int_equal(situ_checksum(situ_empty(shape, NULL), &crc), SITU_E_STATE);
  expect_error(SITU_E_STATE, "checksum", "nothing was written");
  situ_error_clear();
  assert_int_equal(situ_checksum(x, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "checksum", "out");
  assert_int_equal(crc, 7);
}

/* ---- what it costs ---- */

static uint64_t copies(void) {
  situ_sim_statistics s;
  expect_ok(situ_sim_stats(there().index, &s));
  return s.copies_in + s.copies_out;
}

static double seconds(void) {
  struct timespec now;
  (void)clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void only_a_verified_copy_is_read_back(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(shape, NULL);
  expect_ok(situ_synchronize(here()));
  uint64_t start = copies();
  assert_non_null(situ_to(x, there()));
  assert_int_equal(copies() - start, 1);
  verify(true);
  assert_true(situ_get_policy().verify);
  start = copies();
  assert_non_null(situ_to(x, there()));
  assert_int_equal(copies() - start, 2);
  situ_policy_end(&before);
  assert_false(situ_get_policy().verify);
}

/* placement: I8 */
static void a_device_takes_its_time(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(shape, NULL);
  expect_ok(situ_sim_delay(there().index, 30000000));
  double start = seconds();
  assert_non_null(situ_to(x, there()));
  assert_true(seconds() - start >= 0.03);
  reset();
  assert_int_equal(situ_sim_delay(there().index, 1000000000), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sim_delay", "less than a second");
  situ_error_clear();
  assert_int_equal(situ_sim_delay(99, 1), SITU_E_ARG);
  expect_error(SITU_E_ARG, "sim_delay", "there is no sim:99");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_flipped_bit_is_an_error),         PAIR_TEST(a_move_is_rolled_back),
    PAIR_TEST(what_a_file_holds_arrives),         PAIR_TEST(a_checksum_is_of_the_values),
    PAIR_TEST(only_a_verified_copy_is_read_back), PAIR_TEST(a_device_takes_its_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
