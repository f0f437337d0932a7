/* Tensors of which a part holds values. */
/* test-devices: cpu sim:0 opencl:0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/place.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

static const situ_options *there(void) {
  static situ_options o;
  o.device = test_device();
  return &o;
}

/* placement: D17 */
static void the_first_element_without_a_value_is_named(void **state) {
  (void)state;
  char text[512], printed[64];
  float room[4];
  situ_tensor *t = situ_set_name(situ_empty(SITU_SHAPE(2, 3), there()), "table");
  assert_non_null(situ_fill_(situ_select(t, 0, 0), 2));
  assert_non_null(situ_fill_(situ_narrow(situ_select(t, 0, 1), 0, 0, 1), 3));
  expect_exact(situ_select(t, 0, 0), SITU_SHAPE(3), 2, 2, 2);
  expect_exact(situ_add_scalar(situ_select(t, 1, 0), 1), SITU_SHAPE(2), 3, 4);
  const char *says = "`table` ([2, 3] f32) holds values in part: nothing was written to element [1, 1] of the [2, 3] "
                     "that is read";
  snprintf(text, sizeof text, "%s%s", says, test_has_lines() ? " at written.c:" : "");
  expect_refused(situ_add_scalar(t, 1), SITU_E_STATE, "add_scalar", text);
  expect_refused(situ_mul(t, t), SITU_E_STATE, "mul", says);
  expect_refused(situ_to(t, situ_dev("sim:1")), SITU_E_STATE, "to", says);
  assert_int_equal(situ_copy_to_host(situ_select(t, 1, 1), room, 8), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_to_host", "element [1] of the [2] that is read");
  expect_refused(situ_add_scalar_(situ_select(t, 0, 1), 1), SITU_E_STATE, "add_scalar_", "element [1] of the [3]");
  assert_true(!situ_has_values(t) && situ_has_values(situ_select(t, 0, 0)));
  assert_true(situ_to_string(t, printed, sizeof printed) > 0);
  assert_non_null(strstr(printed, "not written in all parts yet"));
  assert_true(situ_explain_to_string(t, text, sizeof text) > 0);
  assert_non_null(strstr(text, "written in part"));
  assert_int_equal(situ_copy_from_host(situ_narrow(situ_select(t, 0, 1), 0, 1, 2), (float[]){ 4, 5 }, 8), SITU_OK);
  assert_true(situ_has_values(t));
  expect_exact(t, SITU_SHAPE(2, 3), 2, 2, 2, 3, 4, 5);
}

/* Any views, in any order, beside an array of what is written. */
static void parts_of_any_strides_are_known(void **state) {
  (void)state;
  enum { ROWS = 12, COLUMNS = 20 };
  uint64_t seed = 11;
  int refused = 0, read = 0;
  for (int round = 0; round < (test_is_slow() ? 20 : 60); round++) {
    bool written[ROWS][COLUMNS] = { { false } };
    situ_tensor *t = situ_empty(SITU_SHAPE(ROWS, COLUMNS), there());
    for (int turn = 0; turn < 12; turn++) {
      int64_t at[4]; /* row, column, step of rows, step of columns */
      for (int k = 0; k < 4; k++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        at[k] = (int64_t)(seed >> 33) % (k == 0 ? ROWS : k == 1 ? COLUMNS : 3) + (k > 1);
      }
      situ_tensor *v = situ_slice(situ_slice(t, 0, at[0], INT64_MAX, at[2]), 1, at[1], INT64_MAX, at[3]);
      if (turn % 3 == 1) v = situ_transpose(v, 0, 1);
      bool whole = true;
      for (int64_t i = at[0]; i < ROWS; i += at[2])
        for (int64_t j = at[1]; j < COLUMNS; j += at[3]) {
          whole = whole && written[i][j];
          if (turn % 2 == 0) written[i][j] = true;
        }
      if (turn % 2 == 0) {
        assert_non_null(situ_fill_(v, 1));
        continue;
      }
      situ_tensor *sum = situ_sum(v, NULL);
      if (whole != (sum != NULL)) fail_msg("round %d, turn %d: %s", round, turn, whole ? "refused" : "read");
      if (sum) read++;
      else refused++, expect_error(SITU_E_STATE, "sum", "nothing was written to");
    }
  }
  assert_true(refused > 3 && read > 3);
}

/* Bits are for units of at least an element, at most 65,536 of them. */
static void gaps_of_large_tensors_are_found(void **state) {
  (void)state;
  enum { N = 1 << 20 };
  situ_tensor *t = situ_empty(SITU_SHAPE(N), there());
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, N / 2), 1));
  assert_non_null(situ_fill_(situ_narrow(t, 0, N / 2 + 32, N / 2 - 32), 1));
  assert_true(situ_has_values(situ_narrow(t, 0, 0, N / 2)));
  assert_true(situ_has_values(situ_narrow(t, 0, N / 2 + 32, 100)));
  expect_refused(situ_sum(t, NULL), SITU_E_STATE, "sum", "element [524288] of the [1048576]");
  assert_non_null(situ_fill_(situ_narrow(t, 0, N / 2, 32), 1));
  expect_exact(situ_sum(t, NULL), SITU_SCALAR, N);
}

static void parts_go_along(void **state) {
  (void)state;
  situ_tensor *t = situ_empty(SITU_SHAPE(4), there()), *half = situ_narrow(t, 0, 0, 2);
  assert_non_null(situ_fill_(half, 7));
  assert_int_equal(situ_to_(t, situ_dev("sim:1")), SITU_OK);
  expect_exact(half, SITU_SHAPE(2), 7, 7);
  expect_refused(situ_add_scalar(t, 1), SITU_E_STATE, "add_scalar", "element [2] of the [4]");
  assert_int_equal(situ_to_(t, test_device()), SITU_OK);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 2, 2), 8));
  expect_exact(t, SITU_SHAPE(4), 7, 7, 8, 8);
}

enum { THREADS = 4, LINES = 64 };
static situ_tensor *shared;

static void *fill_lines(void *first) {
  situ_scope s;
  situ_scope_begin(&s);
  for (int64_t i = (int64_t)(intptr_t)first; i < LINES; i += THREADS)
    if (!situ_fill_(situ_select(shared, 0, i), (double)i)) abort();
  SITU_IGNORE(situ_scope_end(&s));
  return NULL;
}

/* None of the parts is forgotten. */
static void threads_write_parts_at_once(void **state) {
  (void)state;
  for (int round = 0; round < (test_is_slow() ? 10 : 300); round++) {
    shared = situ_empty(SITU_SHAPE(LINES, 8), there());
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&thread[i], NULL, fill_lines, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    if (!situ_has_values(shared)) fail_msg("round %d", round);
  }
  expect_exact(situ_select(shared, 1, 7), SITU_SHAPE(LINES), 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
               17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42,
               43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_first_element_without_a_value_is_named),
    TEST(parts_of_any_strides_are_known),
    TEST(gaps_of_large_tensors_are_found),
    TEST(parts_go_along),
    TEST(threads_write_parts_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
