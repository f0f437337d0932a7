/* Backward passes: what a pass touches, passes that fail and are tried again, that nest, that run at once. */
/* test-devices: cpu sim:0 opencl:0 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "situ/sys/alloc.h"
#include "support/test.h"

static situ_tensor *leaf(double value) { return situ_requires_grad_(T64(SITU_SHAPE(2), value, 2 * value), true); }
static const situ_backward_options retain = { .retain_graph = true };

/* ---- what a pass touches ---- */

typedef struct noted {
  int calls;
  double factor; /* 0: unchanged */
} noted;

static situ_tensor *note(situ_tensor *grad, void *payload) {
  noted *n = payload;
  n->calls++;
  return n->factor != 0 ? situ_mul_scalar(grad, n->factor) : NULL;
}

/* As torch: hooks of what is asked for and of what lies between run; those of other leaves do not. */
static void only_what_is_asked_for_is_touched(void **state) {
  (void)state;
  noted of_x = { .factor = 5 }, of_w = { 0 }, of_h = { .factor = 2 };
  situ_tensor *x = leaf(1), *w = leaf(3), *h = situ_mul(x, w), *y = situ_sum(h, NULL), *g[2] = { NULL };
  assert_int_equal(situ_register_hook(x, note, &of_x), SITU_OK);
  assert_int_equal(situ_register_hook(w, note, &of_w), SITU_OK);
  assert_int_equal(situ_register_hook(h, note, &of_h), SITU_OK);
  assert_int_equal(situ_autograd_grad(y, 1, &x, g, &retain), SITU_OK);
  expect_exact(g[0], SITU_SHAPE(2), 30, 60);
  assert_int_equal(of_x.calls, 1);
  assert_int_equal(of_h.calls, 1);
  assert_int_equal(of_w.calls, 0);
  assert_int_equal(situ_autograd_grad(y, 2, (situ_tensor *[]){ h, h }, g, &retain), SITU_OK);
  expect_exact(g[0], SITU_SHAPE(2), 2, 2);
  expect_exact(g[1], SITU_SHAPE(2), 2, 2);
  assert_int_equal(of_h.calls, 2);
  assert_int_equal(of_x.calls, 1);
  assert_null(situ_grad(x));
  assert_null(situ_grad(w));
  assert_int_equal(situ_autograd_grad(y, 1, &y, g, &retain), SITU_OK); /* of itself */
  expect_exact(g[0], SITU_SCALAR, 1);
  assert_int_equal(situ_autograd_grad(y, 1, (situ_tensor *[]){ leaf(1) }, g, &retain),
                   SITU_OK); /* of what it does not depend on */
  assert_null(g[0]);
  assert_int_equal(of_h.calls, 2);
}

/* The part of the graph that leads elsewhere keeps what it has saved. */
static void only_what_is_run_is_freed(void **state) {
  (void)state;
  situ_tensor *a = leaf(1), *b = leaf(2), *y = situ_sum(situ_add(situ_exp(a), situ_exp(b)), NULL), *g = NULL;
  assert_int_equal(situ_autograd_grad(y, 1, &a, &g, NULL), SITU_OK);
  expect_values(g, SITU_SHAPE(2), 2.718281828, 7.389056099);
  assert_int_equal(situ_autograd_grad(y, 1, &b, &g, NULL), SITU_OK);
  expect_values(g, SITU_SHAPE(2), 7.389056099, 54.59815003);
  assert_int_equal(situ_autograd_grad(y, 1, &a, &g, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "autograd_grad", "already used by a backward");
  assert_null(g);
}

/* As torch: a gradient that a non-leaf retains adds up too. */
static void retained_gradients_add_up(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *h = situ_mul_scalar(x, 3), *y = situ_sum(h, NULL), *g;
  assert_int_equal(situ_retain_grad(h), SITU_OK);
  assert_int_equal(situ_backward(y, &retain), SITU_OK);
  assert_int_equal(situ_backward(y, &retain), SITU_OK);
  expect_exact(situ_grad(h), SITU_SHAPE(2), 2, 2);
  assert_int_equal(situ_autograd_grad(y, 1, &x, &g, &retain), SITU_OK);
  expect_exact(situ_grad(h), SITU_SHAPE(2), 2, 2); /* no .grad is touched */
  expect_exact(situ_grad(x), SITU_SHAPE(2), 6, 6);
}

/* Whole numbers are constants, whatever they were computed from. */
static void indices_out_of_a_gradient_may_be_used(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *table = leaf(3), *g, *index;
  assert_int_equal(situ_autograd_grad(situ_sum(situ_mul(x, x), NULL), 1, &x, &g, NULL), SITU_OK);
  assert_non_null(index = situ_to_dtype(situ_mul_scalar(g, 0.25), SITU_I64)); /* 2 / 4 and 4 / 4 */
  assert_int_equal(situ_backward(situ_sum(situ_index_select(table, 0, index), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(table), SITU_SHAPE(2), 1, 1);
}

/* ---- many operands ---- */

static void any_number_of_operands(void **state) {
  (void)state;
  enum { MOST = 300 };
  situ_tensor *part[MOST];
  for (int count = 8; count <= MOST; count = count < 66 ? count + 1 : 2 * count + 36) {
    for (int i = 0; i < count; i++) part[i] = i == 3 ? part[1] : leaf(i + 1);
    situ_tensor *both =
        situ_cat((situ_tensor *[]){ situ_flatten(situ_stack(part, count, 1), 0, -1), situ_cat(part, count, 0) }, 2, 0);
    assert_int_equal(situ_backward(situ_sum(situ_mul(both, both), NULL), NULL), SITU_OK);
    for (int i = 0; i < count; i++) {
      const double times = i == 1 || i == 3 ? 2 : 1, value = i == 3 ? 2 : i + 1;
      expect_exact(situ_grad(part[i]), SITU_SHAPE(2), 4 * times * value, 8 * times * value);
    }
  }
}

/* ---- passes that fail, and are tried again ---- */

/* More leaves and calls than a pass has slots for without an allocation, which fails: no leaf gets a gradient. */
static void many_operands_without_memory(void **state) {
  (void)state;
  enum { COUNT = 40 };
  situ_tensor *x[COUNT], *part[COUNT];
  for (int i = 0; i < COUNT; i++) {
    x[i] = leaf(i);
    part[i] = 2 * i < COUNT ? x[i] : situ_mul_scalar(x[i], 1);
  }
  situ_tensor *loss = situ_sum(situ_cat(part, COUNT, 0), NULL);
  int points = 0;
  for (uint64_t nth = 1;; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, false);
    const situ_status status = situ_backward(loss, &retain);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    expect_error(SITU_E_NOMEM, "", "");
    for (int i = 0; i < COUNT; i++) assert_null(situ_grad(x[i]));
  }
  assert_true(points > COUNT);
  for (int i = 0; i < COUNT; i++) expect_exact(situ_grad(x[i]), SITU_SHAPE(2), 1, 1);
}

/* Whichever gradient there is no memory for, the caller gets none of them, and none of them stays alive. */
static void expect_all_or_none(situ_tensor *const *x) {
  situ_tensor *g[3], *seed = T64(SITU_SHAPE(2), 1, 1);
  situ_tensor *y = situ_add(situ_add(x[0], situ_mul_scalar(x[1], 2)), x[2]);
  const situ_backward_options from = { .retain_graph = true, .gradient = seed }; /* two of them are copies of it */
  for (uint64_t nth = 1;; nth++) {
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    const int64_t live = situ_live_tensors();
    situ_scope s;
    situ_scope_begin(&s);
    situ_fail_allocation(nth, false);
    const situ_status status = situ_autograd_grad(y, 3, x, g, &from);
    situ_fail_allocation(0, false);
    if (status != SITU_OK) expect_error(SITU_E_NOMEM, "", "");
    for (int i = 0; i < 3; i++) {
      if (status == SITU_OK) expect_exact(g[i], SITU_SHAPE(2), 1 + i % 2, 1 + i % 2);
      else assert_null(g[i]);
    }
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    assert_int_equal(situ_live_tensors(), live);
    if (status == SITU_OK) break;
  }
}

static void gradients_without_memory(void **state) {
  (void)state;
  situ_tensor *x[3] = { leaf(1), leaf(2), leaf(3) };
  expect_all_or_none(x);
  for (int i = 0; i < 3; i++) x[i] = situ_mul_scalar(x[i], 1);
  expect_all_or_none(x);
}

/* Wherever memory ends, the same call afterwards gives the bits that it would have given. */
static void a_pass_that_failed_leaves_no_trace(void **state) {
  (void)state;
  double want[4], got[4];
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(4), .1, .2, .3, .4), true), *shared = situ_exp(x);
  situ_tensor *loss =
      situ_sum(situ_add(situ_mul(shared, situ_tanh(shared)),
                        situ_cat((situ_tensor *[]){ situ_narrow(shared, 0, 0, 2), situ_narrow(x, 0, 1, 2) }, 2, 0)),
               NULL);
  assert_int_equal(situ_backward(loss, &retain), SITU_OK);
  test_read(situ_grad(x), want);
  int points = 0;
  for (int sticky = 0; sticky < 2; sticky++)
    for (uint64_t nth = 1;; nth++) {
      assert_int_equal(situ_set_grad(x, NULL), SITU_OK);
      assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
      situ_fail_allocation(nth, sticky != 0);
      const situ_status status = situ_backward(loss, &retain);
      const bool met = situ_allocation_count() >= nth;
      situ_fail_allocation(0, false);
      if (status == SITU_OK && !met) break;
      if (status != SITU_OK) {
        points++;
        expect_error(SITU_E_NOMEM, "", "");
        assert_null(situ_grad(x));
        assert_int_equal(situ_backward(loss, &retain), SITU_OK);
      }
      test_read(situ_grad(x), got);
      assert_memory_equal(got, want, sizeof want);
    }
  assert_true(points > 10);
}

/* ---- passes inside of hooks ---- */

typedef struct nesting {
  situ_tensor *loss;
  int depth;
  bool retain;
  situ_status inner;
} nesting;

static situ_tensor *again(situ_tensor *grad, void *payload) {
  (void)grad;
  nesting *n = payload;
  if (n->depth-- > 0) n->inner = situ_backward(n->loss, &(situ_backward_options){ .retain_graph = n->retain });
  return NULL;
}

static void a_hook_may_call_backward(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *h = situ_mul(x, x);
  nesting n = { .loss = situ_sum(h, NULL), .depth = 2, .retain = true };
  assert_int_equal(situ_register_hook(h, again, &n), SITU_OK);
  assert_int_equal(situ_backward(n.loss, &retain), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 6, 12); /* torch 2.15: the same */
  n.depth = 1;
  n.retain = false; /* the inner pass frees what the outer one needs */
  assert_int_equal(situ_backward(n.loss, &retain), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "already used by a backward");
  assert_int_equal(n.inner, SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2), 8, 16);
}

/* A hook that releases the loss lets go of the graph that is being walked. */
static situ_tensor *let_go(situ_tensor *grad, void *loss) {
  (void)grad;
  situ_drop(loss);
  return NULL;
}

static void a_hook_may_release_the_loss(void **state) {
  (void)state;
  situ_tensor *x = leaf(1), *held = NULL;
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *h = situ_exp(x);
  situ_set(&held, situ_sum(situ_mul(h, h), NULL));
  assert_int_equal(situ_register_hook(h, let_go, &held), SITU_OK);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_backward(held, NULL), SITU_OK);
  assert_null(held);
  expect_values(situ_grad(x), SITU_SHAPE(2), 14.7781122, 109.1963001);
}

/* ---- passes on several threads ---- */

enum { THREADS = 4, ROUNDS = 200 };

typedef struct crew {
  situ_tensor *w, *trunk; /* shared: a leaf, and what was computed from it once */
  bool retain;
  int wrong, refused;
  situ_status other; /* an error that should not be */
  pthread_mutex_t lock;
} crew;

static void *train(void *payload) {
  crew *c = payload;
  int wrong = 0, refused = 0;
  situ_status other = SITU_OK;
  for (int i = 0; i < ROUNDS; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 1), true), *g = NULL;
    situ_tensor *base = c->trunk ? c->trunk : situ_mul(c->w, c->w);
    situ_tensor *loss = situ_sum(situ_mul(x, base), NULL);
    situ_status status = situ_autograd_grad(loss, 1, &x, &g, &retain);
    double value[2] = { 0 };
    if (status == SITU_OK) status = situ_copy_to_host(g, value, sizeof value);
    if (status == SITU_OK) wrong += value[0] != 9 || value[1] != 36;
    if (status == SITU_OK) status = situ_backward(loss, &(situ_backward_options){ .retain_graph = c->retain });
    if (status == SITU_E_STATE && c->trunk) refused++;
    else if (status != SITU_OK) other = status;
    if (situ_scope_end(&s) != SITU_OK) situ_error_clear();
  }
  pthread_mutex_lock(&c->lock);
  c->wrong += wrong;
  c->refused += refused;
  if (other != SITU_OK) c->other = other;
  pthread_mutex_unlock(&c->lock);
  return NULL;
}

static void run_crew(crew *c) {
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, train, c), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_int_equal(c->wrong, 0);
  assert_int_equal(c->other, SITU_OK);
}

/* Whole numbers, so the sum is exact in any order. */
static void threads_share_a_leaf(void **state) {
  (void)state;
  crew c = { .w = leaf(3), .lock = PTHREAD_MUTEX_INITIALIZER };
  run_crew(&c);
  expect_exact(situ_grad(c.w), SITU_SHAPE(2), 6.0 * THREADS * ROUNDS, 12.0 * THREADS * ROUNDS);
}

static void threads_share_a_graph_that_all_retain(void **state) {
  (void)state;
  crew c = { .w = leaf(3), .retain = true, .lock = PTHREAD_MUTEX_INITIALIZER };
  c.trunk = situ_mul(c.w, c.w);
  run_crew(&c);
  assert_int_equal(c.refused, 0);
  expect_exact(situ_grad(c.w), SITU_SHAPE(2), 6.0 * THREADS * ROUNDS, 12.0 * THREADS * ROUNDS);
}

/* Who frees the graph while others use it, or comes after it was freed, is refused: one pass in all succeeds. */
static void threads_share_a_graph_that_one_frees(void **state) {
  (void)state;
  crew c = { .w = leaf(3), .lock = PTHREAD_MUTEX_INITIALIZER };
  c.trunk = situ_mul(c.w, c.w);
  run_crew(&c);
  assert_int_equal(c.refused, THREADS * ROUNDS - 1);
  expect_exact(situ_grad(c.w), SITU_SHAPE(2), 6, 12);
}

/* ---- calls behind a pass ---- */

typedef struct behind {
  int leaves, ends, seen; /* seen: leaves when the first end came */
  bool fails;
} behind;
static situ_status count_end(void *payload) {
  behind *b = payload;
  if (!b->ends++) b->seen = b->leaves;
  return b->fails ? SITU_E_STATE : SITU_OK;
}
static situ_status queue_end(situ_tensor *leaf, void *payload) {
  behind *b = payload;
  assert_non_null(leaf);
  b->leaves++;
  return situ_autograd_queue_callback(count_end, b);
}

/* Callbacks run once each, behind all hooks of all leaves; removed hooks do not run. */
static void callbacks_run_behind_all_hooks(void **state) {
  (void)state;
  behind b = { 0 };
  situ_tensor *x = leaf(3), *y = leaf(4);
  assert_int_equal(situ_register_post_accumulate_grad_hook(x, queue_end, &b), SITU_OK);
  assert_int_equal(situ_register_post_accumulate_grad_hook(y, queue_end, &b), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(situ_mul(x, y), NULL), NULL), SITU_OK);
  assert_int_equal(b.leaves, 2);
  assert_int_equal(b.ends, 2);
  assert_int_equal(b.seen, 2);
  assert_int_equal(situ_autograd_queue_callback(count_end, &b), SITU_E_STATE);
  expect_error(SITU_E_STATE, "autograd_queue_callback", "no post-accumulate or grad ready hook");
  b.fails = true;
  assert_int_equal(situ_backward(situ_sum(situ_mul(x, y), NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "a callback behind backward failed");
  assert_int_equal(b.ends, 4);
  situ_remove_hooks(x, &b);
  situ_remove_hooks(y, &x);
  assert_int_equal(situ_backward(situ_sum(x, NULL), NULL), SITU_OK);
  assert_int_equal(b.leaves, 4);
  situ_remove_hooks(y, &b);
  assert_int_equal(situ_backward(situ_sum(situ_mul(x, y), NULL), NULL), SITU_OK);
  assert_int_equal(b.leaves, 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(only_what_is_asked_for_is_touched),
    TEST(only_what_is_run_is_freed),
    TEST(retained_gradients_add_up),
    TEST(indices_out_of_a_gradient_may_be_used),
    TEST(any_number_of_operands),
    TEST(many_operands_without_memory),
    TEST(gradients_without_memory),
    TEST(a_pass_that_failed_leaves_no_trace),
    TEST(a_hook_may_call_backward),
    TEST(a_hook_may_release_the_loss),
    TEST(callbacks_run_behind_all_hooks),
    TEST(threads_share_a_leaf),
    TEST(threads_share_a_graph_that_all_retain),
    TEST(threads_share_a_graph_that_one_frees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
