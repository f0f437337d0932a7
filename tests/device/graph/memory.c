/* What a graph needs: less than the calls, since what is not needed at the same time shares memory.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include <pthread.h>

#include "situ/sys/alloc.h"
#include "situ/sys/graph.h"
#include "support/pairs.h"

static int64_t used(void) {
  situ_device_properties p;
  expect_ok(situ_device_info(there(), &p));
  return (int64_t)p.memory_used;
}

enum { MANY = 1 << 16, BYTES = 4 * MANY };

static situ_tensor *chain(situ_tensor *x) {
  for (int k = 0; k < 10; k++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    x = situ_scope_return(&s, situ_mul_scalar(situ_sin(x), 1.5));
  }
  return x;
}

/* Ten pairs of calls write one after the other over the result's memory. */
static void a_chain_needs_its_result_alone(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip(); /* whose memory has no addresses */
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &(situ_options){ .device = there() }));
  const int64_t before = used();
  situ_scope s;
  situ_scope_begin(&s);
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *y = situ_retain(chain(x));
  expect_ok(situ_scope_end(&s));
  assert_true(used() - before > 3 * BYTES);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  assert_int_equal(used() - before, BYTES);
  for (int k = 0; k < 2; k++) {
    assert_non_null(situ_add_scalar_(x, 1));
    expect_ok(situ_graph_replay(graph));
    situ_scope_begin(&s);
    expect_same(y, chain(x), 0, 0);
    expect_ok(situ_scope_end(&s));
  }
  situ_graph_free(graph);
  assert_int_equal(used() - before, BYTES);
  situ_release(y);
  situ_release(x);
}

/* The softmax is not needed any more when the result is written, and lies in its memory until then. */
static void results_lend_their_memory_until_they_are_written(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &(situ_options){ .device = there() })), *y[2];
  const int64_t before = used();
  situ_graph *graph = NULL;
  for (int k = 0; k < 2; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    if (k == 0) expect_ok(situ_graph_capture_begin(there()));
    y[k] = situ_retain(situ_mul(x, situ_sum(situ_softmax(x, 0), NULL)));
    expect_ok(situ_scope_end(&s));
    if (k == 0) assert_non_null(graph = situ_graph_capture_end());
    if (k == 0) assert_in_range(used() - before, BYTES, BYTES + 256);
    if (k == 0) assert_non_null(situ_add_scalar_(x, 1));
  }
  expect_ok(situ_graph_replay(graph));
  expect_same(y[0], y[1], 0, 0);
  situ_graph_free(graph);
  for (int k = 0; k < 2; k++) situ_release(y[k]);
  situ_release(x);
}

/* The numbers in f64 lie where the places will be, which are the second result of one piece of work. */
static void second_results_lend_their_memory_as_well(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(2, MANY), &(situ_options){ .device = there() })), *y[2], *places[2];
  const int64_t before = used();
  situ_graph *graph = NULL;
  for (int k = 0; k < 2; k++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    if (k == 0) expect_ok(situ_graph_capture_begin(there()));
    y[k] = situ_retain(situ_sum(situ_to_dtype(situ_select(x, 0, 0), SITU_F64), NULL));
    assert_non_null(situ_max_dim(x, 0, false, &places[k]));
    situ_retain(places[k]);
    expect_ok(situ_scope_end(&s));
    if (k == 0) assert_non_null(graph = situ_graph_capture_end());
    if (k == 0) assert_in_range(used() - before, 2 * BYTES, 3 * BYTES + 512);
    if (k == 0) assert_non_null(situ_neg_(x));
  }
  expect_ok(situ_graph_replay(graph));
  expect_same(y[0], y[1], 0, 0);
  expect_same(places[0], places[1], 0, 0);
  situ_graph_free(graph);
  for (int k = 0; k < 2; k++) situ_release(y[k]), situ_release(places[k]);
  situ_release(x);
}

static void *make_threes(void *payload) {
  situ_tensor **t = payload;
  *t = situ_full(SITU_SHAPE(64), 3, &(situ_options){ .device = there() });
  return NULL;
}

/* Not all of it is written again by a replay, which knows nothing of what the other thread did. */
static void what_another_thread_made_keeps_its_values(void **state) {
  (void)state;
  situ_tensor *t = NULL;
  pthread_t other;
  situ_scope s;
  expect_ok(situ_graph_capture_begin(there()));
  situ_scope_begin_no_grad(&s);
  assert_int_equal(pthread_create(&other, NULL, make_threes, &t), 0);
  assert_int_equal(pthread_join(other, NULL), 0);
  assert_non_null(situ_fill_(situ_narrow(t, 0, 0, 32), 1));
  situ_tensor *total = situ_scope_return(&s, situ_sum(t, NULL));
  situ_release(t);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  expect_exact(total, SITU_SCALAR, 32 * 1 + 32 * 3);
  situ_graph_free(graph);
}

static situ_status skip_if_set(void *payload, bool *skip) {
  *skip = *(bool *)payload;
  return SITU_OK;
}

/* What a replay may leave out keeps its old value then, so nothing else lies in its memory before. */
static void skipped_results_keep_their_values(void **state) {
  (void)state;
  bool skips = false;
  situ_tensor *x = situ_ones(SITU_SHAPE(64), &(situ_options){ .device = there() });
  situ_tensor *ones = situ_clone(x);
  expect_ok(situ_graph_capture_begin(there()));
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *total = situ_retain(situ_sum(situ_softmax(situ_mul(x, x), 0), NULL));
  expect_ok(situ_graph_values_begin(&(situ_graph_values){ .payload = &skips, .decide = skip_if_set }));
  situ_tensor *y = situ_scope_return(&s, situ_mul(x, total));
  situ_graph_values_end();
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  expect_ok(situ_graph_replay(graph));
  expect_same(y, ones, 1e-6, 0);
  skips = true;
  assert_non_null(situ_mul_scalar_(x, 2));
  expect_ok(situ_graph_replay(graph));
  expect_same(y, ones, 1e-6, 0);
  situ_graph_free(graph);
  situ_release(total);
}

typedef enum change { NEVER, BEFORE, AFTERWARDS } change;

/* t is needed before and after the softmax of eight times as much, and could be computed again then, as from is there;
   but not if that has changed since. */
static situ_tensor *needed_later(situ_tensor *x, change when) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *from = situ_softmax(x, 0), *t = situ_sin(from), *early = situ_sum(t, NULL);
  if (when == BEFORE) assert_non_null(situ_mul_scalar_(from, 2));
  situ_tensor *large = situ_contiguous(situ_expand(x, SITU_SHAPE(8, MANY)));
  situ_tensor *total = situ_sum(situ_softmax(large, 1), NULL);
  if (when == AFTERWARDS) assert_non_null(situ_mul_scalar_(from, 2));
  t = situ_mul(t, early);
  from = situ_mul(from, total);
  return situ_scope_return(&s, situ_sum(situ_add(t, from), NULL));
}

static void what_is_needed_later_is_computed_again(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  int64_t needs[AFTERWARDS + 1];
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &(situ_options){ .device = there() }));
  for (change when = NEVER; when <= AFTERWARDS; when++) {
    const int64_t before = used();
    expect_ok(situ_graph_capture_begin(there()));
    situ_tensor *y = situ_retain(needed_later(x, when));
    situ_graph *graph = situ_graph_capture_end();
    assert_non_null(graph);
    needs[when] = used() - before;
    assert_non_null(situ_add_scalar_(x, 1));
    expect_ok(situ_graph_replay(graph));
    expect_same(y, needed_later(x, when), 0, 0);
    situ_graph_free(graph);
    situ_release(y);
  }
  assert_in_range(needs[BEFORE] - needs[NEVER], BYTES - 256, BYTES);
  assert_in_range(needs[AFTERWARDS] - needs[NEVER], BYTES - 256, BYTES);
  situ_release(x);
}

/* Nothing reads it before the softmax, so it is computed after that. weight: may be NULL; a linear layer has no bias.
   What came before takes ten times as much, but not sixteen as the softmax and its operand do. */
static situ_tensor *computed_early(situ_tensor *x, situ_tensor *weight) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *before = situ_sum(situ_contiguous(situ_expand(x, SITU_SHAPE(10, MANY))), NULL);
  situ_tensor *t = weight ? situ_linear(situ_reshape(x, SITU_SHAPE(MANY / 8, 8)), weight, NULL) : situ_cumsum(x, 0);
  situ_tensor *large = situ_contiguous(situ_expand(x, SITU_SHAPE(8, MANY)));
  situ_tensor *total = situ_sum(situ_softmax(large, 1), NULL);
  return situ_scope_return(&s, situ_mul(situ_sum(t, NULL), situ_mul(total, before)));
}

static void what_is_needed_later_is_computed_later(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  const situ_options at = { .device = there() };
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &at)),
              *weight = situ_retain(situ_rand(SITU_SHAPE(8, 8), &at));
  for (int k = 0; k < 2; k++) {
    const int64_t before = used();
    expect_ok(situ_graph_capture_begin(there()));
    situ_tensor *y = situ_retain(computed_early(x, k ? weight : NULL));
    situ_graph *graph = situ_graph_capture_end();
    assert_non_null(graph);
    assert_in_range(used() - before, 16 * BYTES, 16 * BYTES + 512);
    assert_non_null(situ_add_scalar_(x, 1));
    expect_ok(situ_graph_replay(graph));
    expect_same(y, computed_early(x, k ? weight : NULL), 0, 0);
    situ_graph_free(graph);
    situ_release(y);
  }
  situ_release(weight);
  situ_release(x);
}

/* The places of the sorted numbers are read before the softmax, so the numbers stay there, too. */
static situ_tensor *read_in_part(situ_tensor *x) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *places, *sorted = situ_sort(x, 0, false, &places);
  situ_tensor *read = situ_sum(situ_mul(situ_to_dtype(places, SITU_F32), x), NULL);
  situ_tensor *large = situ_contiguous(situ_expand(x, SITU_SHAPE(8, MANY)));
  situ_tensor *total = situ_sum(situ_softmax(large, 1), NULL);
  return situ_scope_return(&s, situ_add(situ_mul(situ_norm(sorted, 3, NULL), total), read));
}

static void what_is_read_in_part_stays(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &(situ_options){ .device = there() }));
  expect_ok(situ_graph_capture_begin(there()));
  situ_tensor *y = situ_retain(read_in_part(x));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  assert_non_null(situ_neg_(x));
  expect_ok(situ_graph_replay(graph));
  expect_same(y, read_in_part(x), 0, 0);
  situ_graph_free(graph);
  situ_release(y);
  situ_release(x);
}

/* One call needs what is computed behind the softmax, each before the one that was moved before it; but not what reads
   `sign` if that changes. `where` takes over the memory of an operand of its result's size, which is not moved. */
static situ_tensor *computed_for_one_call(situ_tensor *x, situ_tensor *sign, bool changes) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *positive = situ_gt_scalar(sign, 0), *a = situ_softmax(x, 0), *b = situ_cumsum(x, 0);
  situ_tensor *large = situ_contiguous(situ_expand(x, SITU_SHAPE(8, MANY)));
  situ_tensor *total = situ_sum(situ_softmax(large, 1), NULL);
  if (changes) assert_non_null(situ_neg_(sign));
  situ_tensor *chosen = situ_where(positive, a, b);
  if (changes) assert_non_null(situ_neg_(sign));
  return situ_scope_return(&s, situ_mul(chosen, total));
}

static void several_results_are_computed_later_for_one_call(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  const situ_options at = { .device = there() };
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), &at));
  for (int rows = 1; rows <= 2; rows++) {
    situ_tensor *sign = situ_retain(situ_randn(SITU_SHAPE(rows, MANY), &at));
    expect_ok(situ_graph_capture_begin(there()));
    situ_tensor *y = situ_retain(computed_for_one_call(x, sign, rows > 1));
    situ_graph *graph = situ_graph_capture_end();
    assert_non_null(graph);
    assert_non_null(situ_add_scalar_(x, 1));
    expect_ok(situ_graph_replay(graph));
    expect_same(y, computed_for_one_call(x, sign, rows > 1), 0, 0);
    situ_graph_free(graph);
    situ_release(y);
    situ_release(sign);
  }
  situ_release(x);
}

/* Each allocation of the end fails once: there is an error and no graph then, and nothing is left. */
static void an_end_without_memory_leaves_nothing(void **state) {
  (void)state;
  if (there().kind != SITU_CPU) skip();
  situ_tensor *x = situ_retain(situ_rand(SITU_SHAPE(MANY), NULL));
  const int64_t before = used();
  int failures = 0;
  for (long nth = 1;; nth++) {
    situ_scope s;
    situ_scope_begin(&s);
    expect_ok(situ_graph_capture_begin(there()));
    assert_non_null(needed_later(x, NEVER));
    situ_fail_allocation(nth, false);
    situ_graph *graph = situ_graph_capture_end();
    situ_fail_allocation(0, false);
    assert_int_equal(situ_scope_end(&s), graph ? SITU_OK : SITU_E_NOMEM);
    situ_graph_free(graph);
    assert_int_equal(used(), before);
    if (graph) break;
    expect_error(SITU_E_NOMEM, "graph_capture_end", "");
    failures++;
  }
  assert_true(failures > 6);
  situ_release(x);
}

typedef struct peak {
  situ_nn_module *model;
  situ_tensor *x;
  int64_t most;
} peak;

static situ_tensor *look(situ_tensor *grad, void *payload) {
  int64_t *most = payload;
  if (grad && used() > *most) *most = used();
  return NULL;
}

/* Eight layers wide enough that activations are most of the memory. */
static void deep_step(peak *p) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_nn_zero_grad(p->model);
  situ_tensor *h = p->x;
  for (int k = 0; k < 8; k++) {
    h = situ_gelu(situ_nn_forward(situ_nn_at(p->model, k), h), SITU_GELU_NONE);
    if (p->most) expect_ok(situ_register_hook(h, look, &p->most));
  }
  expect_ok(situ_backward(situ_sum(h, NULL), NULL));
  expect_ok(situ_scope_end(&s));
}

static void a_graph_needs_less_than_the_calls(void **state) {
  (void)state;
  if (there().kind == SITU_OPENCL) skip();
  const situ_nn_linear_options at = { .device = there() };
  peak p = { .most = 1 };
  p.model = situ_nn_sequential(situ_nn_linear(32, 32, &at), situ_nn_linear(32, 32, &at), situ_nn_linear(32, 32, &at),
                               situ_nn_linear(32, 32, &at), situ_nn_linear(32, 32, &at), situ_nn_linear(32, 32, &at),
                               situ_nn_linear(32, 32, &at), situ_nn_linear(32, 32, &at));
  p.x = situ_retain(situ_rand(SITU_SHAPE(512, 32), &(situ_options){ .device = there() }));
  const int64_t before = used();
  deep_step(&p);
  const int64_t eager = p.most - before;
  p.most = 0;
  situ_nn_zero_grad(p.model);
  expect_ok(situ_graph_capture_begin(there()));
  deep_step(&p);
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  const int64_t graphed = used() - before;
  print_message("calls: %lld KiB at their peak, the graph: %lld KiB\n", (long long)eager >> 10,
                (long long)graphed >> 10);
  assert_true(10 * graphed <= 7 * eager);
  situ_graph_free(graph);
  situ_release(p.x);
  situ_nn_free(p.model);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(a_chain_needs_its_result_alone),
    PAIR_TEST(results_lend_their_memory_until_they_are_written),
    PAIR_TEST(second_results_lend_their_memory_as_well),
    PAIR_TEST(what_another_thread_made_keeps_its_values),
    PAIR_TEST(skipped_results_keep_their_values),
    PAIR_TEST(what_is_needed_later_is_computed_again),
    PAIR_TEST(what_is_needed_later_is_computed_later),
    PAIR_TEST(what_is_read_in_part_stays),
    PAIR_TEST(several_results_are_computed_later_for_one_call),
    PAIR_TEST(an_end_without_memory_leaves_nothing),
    PAIR_TEST(a_graph_needs_less_than_the_calls),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
