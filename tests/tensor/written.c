/* Tensors of which a part holds values. */
/* test-devices: cpu sim:0 opencl:0 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/graph.h"
#include "situ/nn.h"
#include "situ/place.h"
#include "situ/sys/move.h"
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

static situ_nn_module *with_buffers(situ_tensor *first, situ_tensor *second) {
  situ_nn_module *m = situ_nn_linear(2, 2, &(situ_nn_linear_options){ .device = test_device() });
  assert_non_null(situ_nn_add_tensor(m, "first", NULL, first, SITU_NN_BUFFER));
  if (second) assert_non_null(situ_nn_add_tensor(m, "second", NULL, second, SITU_NN_BUFFER));
  return m;
}
static situ_tensor *half_written(situ_shape shape, situ_dtype dtype) {
  situ_tensor *t = situ_empty(shape, &(situ_options){ .device = test_device(), .dtype = dtype });
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, shape.dim[0] / 2), 1));
  return t;
}
static void expect_half(situ_tensor *t) {
  const int64_t half = situ_size(t, 0) / 2;
  assert_true(situ_has_values(situ_narrow(t, 0, 0, half)));
  assert_true(!situ_has_values(t) && !situ_has_values(situ_narrow(t, 0, half, half)));
}

/* Bits are those of elements of one size. */
static void a_cast_writes_all(void **state) {
  (void)state;
  situ_tensor *t = half_written(SITU_SHAPE(4096), SITU_F16);
  situ_nn_module *m = with_buffers(t, NULL);
  assert_int_equal(situ_nn_to_dtype(m, SITU_F32), SITU_OK);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 4000, 50), 3));
  expect_exact(situ_narrow(t, 0, 4048, 2), SITU_SHAPE(2), 3, 3);
  assert_true(situ_has_values(t));
  situ_nn_free(m);
}

/* Nor do bytes without a value count as lost. */
static void a_refused_cast_leaves_parts(void **state) {
  (void)state;
  const situ_options wide = { .device = test_device(), .dtype = SITU_F32 };
  situ_scope s;
  situ_scope_begin(&s);
  for (int i = 0; i < 4; i++) assert_non_null(situ_full(SITU_SHAPE(64), 1e30, &wide));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_tensor *t = half_written(SITU_SHAPE(64), SITU_F32);
  situ_nn_module *m = with_buffers(t, situ_full(SITU_SHAPE(2), 1e30, &wide));
  assert_int_equal(situ_nn_to_dtype(m, SITU_F16), SITU_E_OVERFLOW);
  assert_null(strstr(situ_error_message(), "first"));
  situ_error_clear();
  expect_half(t);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 3, 1), 1e30));
  assert_int_equal(situ_nn_to_dtype(m, SITU_F16), SITU_E_OVERFLOW);
  expect_error(SITU_E_OVERFLOW, "nn_to_dtype", "1 of first, 2 of second");
  expect_exact(situ_narrow(t, 0, 2, 2), SITU_SHAPE(2), 1, 1e30F);
  situ_nn_free(m);
}

static void a_refused_format_leaves_parts(void **state) {
  (void)state;
  situ_tensor *t = situ_empty(SITU_SHAPE(2, 3, 4, 5), there()), *seen = situ_zeros(SITU_SHAPE(2, 3, 4, 5), there());
  situ_tensor *list[] = { t, seen }, *view = situ_narrow(seen, 0, 0, 1);
  assert_non_null(view);
  situ_scope s;
  situ_scope_begin(&s);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, 1), 1)); /* a tensor with views keeps its format */
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_relayout("relayout", list, 2, SITU_CHANNELS_LAST), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "relayout", "has views");
  situ_scope_begin(&s);
  expect_half(t);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_relayout("relayout", list, 1, SITU_CHANNELS_LAST), SITU_OK);
  assert_true(situ_has_values(t));
}

static void parts_go_with_swapped_memory(void **state) {
  (void)state;
  situ_tensor *a = half_written(SITU_SHAPE(4), SITU_F32), *b = situ_ones(SITU_SHAPE(4), there());
  assert_int_equal(situ_swap_memory("swap", a, b), SITU_OK);
  assert_true(situ_has_values(a));
  expect_half(b);
  situ_tensor *empty = situ_empty(SITU_SHAPE(4), there());
  assert_int_equal(situ_swap_memory("swap", b, empty), SITU_OK);
  expect_half(empty);
  assert_false(situ_has_values(situ_narrow(b, 0, 0, 2)));
}

static void a_replay_writes_what_its_capture_wrote(void **state) {
  (void)state;
  situ_tensor *t = situ_empty(SITU_SHAPE(4), there()), *other = situ_empty(SITU_SHAPE(4), there()),
              *copy = situ_zeros(SITU_SHAPE(2), there());
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, 2), 2));
  situ_graph *g = situ_graph_capture_end();
  assert_non_null(g);
  assert_int_equal(situ_graph_replay(g), SITU_OK);
  expect_half(t);
  assert_int_equal(situ_graph_rebind(g, &t, &other, 1), SITU_OK);
  assert_int_equal(situ_graph_replay(g), SITU_OK);
  expect_half(other);
  situ_graph_free(g);
  assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  assert_non_null(situ_copy_(copy, situ_narrow(t, 0, 0, 2)));
  assert_non_null(g = situ_graph_capture_end());
  other = situ_empty(SITU_SHAPE(4), there());
  assert_non_null(situ_fill_(situ_narrow(other, 0, 2, 2), 5));
  assert_int_equal(situ_graph_rebind(g, &t, &other, 1), SITU_OK);
  assert_int_equal(situ_graph_replay(g), SITU_E_STATE);
  expect_error(SITU_E_STATE, "graph_replay", "has no values yet in all parts, and the graph reads it");
  assert_non_null(situ_fill_(situ_narrow(other, 0, 0, 2), 6));
  assert_int_equal(situ_graph_replay(g), SITU_OK);
  expect_exact(copy, SITU_SHAPE(2), 6, 6);
  situ_graph_free(g);
  SITU_IGNORE(situ_scope_end(&s));
}

enum { THREADS = 4, LINES = 64 };
static situ_tensor *shared;
static int64_t lines = LINES; /* that are written */

static void *fill_lines(void *first) {
  situ_scope s;
  situ_scope_begin(&s);
  for (int64_t i = (int64_t)(intptr_t)first; i < lines; i += THREADS)
    if (!situ_fill_(situ_select(shared, 0, i), (double)i)) abort();
  SITU_IGNORE(situ_scope_end(&s));
  return NULL;
}

/* None of the parts is forgotten, and none that is not written is taken for one. */
static void threads_write_parts_at_once(void **state) {
  (void)state;
  for (int round = 0; round < (test_is_slow() ? 10 : 300); round++) {
    shared = situ_empty(SITU_SHAPE(LINES, 8), there());
    lines = LINES - !(round % 2);
    pthread_t thread[THREADS];
    for (int i = 0; i < THREADS; i++)
      assert_int_equal(pthread_create(&thread[i], NULL, fill_lines, (void *)(intptr_t)i), 0);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    if (situ_has_values(shared) != (lines == LINES)) fail_msg("round %d", round);
    assert_true(situ_has_values(situ_narrow(shared, 0, 0, lines)));
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
    TEST(a_cast_writes_all),
    TEST(a_refused_cast_leaves_parts),
    TEST(a_refused_format_leaves_parts),
    TEST(parts_go_with_swapped_memory),
    TEST(a_replay_writes_what_its_capture_wrote),
    TEST(threads_write_parts_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
