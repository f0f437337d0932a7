/* Hooks on complete gradients: when they run, what they see, and passes that fail around them. */
/* test-devices: cpu sim:0 */
#include <string.h>

#include "situ/sys/alloc.h"
#include "situ/sys/grad.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

/* What happened in a pass, in order: the name of each leaf that was told, "." for the gradient of `between`. */
typedef struct diary {
  char text[32];
  situ_tensor *leaf[26], *grad[26];
  int callbacks;
  char fails; /* the leaf whose hook fails; 0: none */
} diary;
typedef struct reader {
  diary *into;
  char name;
} reader;

static void write_down(diary *d, char what) {
  const size_t n = strlen(d->text);
  d->text[n] = what;
  d->text[n + 1] = 0;
}
static situ_status count_end(void *payload) {
  ((diary *)payload)->callbacks++;
  return SITU_OK;
}
static situ_status told(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  const reader *r = payload;
  write_down(r->into, r->name);
  r->into->grad[r->name - 'a'] = situ_retain(grad);
  assert_ptr_equal(leaf, r->into->leaf[r->name - 'a']);
  if (r->into->fails == r->name) return SITU_E_STATE;
  return situ_autograd_queue_callback(count_end, r->into);
}
static situ_tensor *between(situ_tensor *grad, void *payload) {
  (void)grad;
  write_down(payload, '.');
  return NULL;
}

static reader readers[3];
static void begin(diary *d) {
  *d = (diary){ 0 };
  for (int i = 0; i < 3; i++) {
    readers[i] = (reader){ d, (char)('a' + i) };
    d->leaf[i] = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true);
    assert_int_equal(situ_register_grad_ready_hook(d->leaf[i], told, &readers[i]), SITU_OK);
  }
}
static void forget(diary *d) {
  for (int i = 0; i < 26; i++) situ_drop(&d->grad[i]);
  d->text[0] = 0;
  d->callbacks = 0;
}
/* The loss a * b * c, with b in use before and behind the result that is watched. */
static situ_tensor *loss_of(diary *d) {
  situ_tensor *ab = situ_mul(d->leaf[0], d->leaf[1]);
  assert_int_equal(situ_register_hook(ab, between, d), SITU_OK);
  return situ_sum(situ_mul(situ_mul(ab, d->leaf[1]), d->leaf[2]), NULL);
}

static void a_leaf_is_told_when_nothing_more_adds_to_it(void **state) {
  (void)state;
  diary d;
  begin(&d);
  assert_int_equal(situ_backward(loss_of(&d), NULL), SITU_OK);
  assert_string_equal(d.text, "c.ba");
  assert_int_equal(d.callbacks, 3);
  for (int i = 0; i < 3; i++) assert_ptr_equal(d.grad[i], situ_grad(d.leaf[i]));
  expect_exact(d.grad[1], SITU_SHAPE(2), 2, 16);
  expect_exact(d.grad[2], SITU_SHAPE(2), 1, 8);
  forget(&d);
}

/* The leaf that the pass comes to first has its last use behind that of another. */
static void a_leaf_that_waits_is_told_in_its_turn(void **state) {
  (void)state;
  diary d;
  begin(&d);
  situ_tensor *c = situ_exp(d.leaf[2]), *bc = situ_mul(c, d.leaf[1]);
  assert_int_equal(situ_register_hook(c, between, &d), SITU_OK);
  situ_tensor *y = situ_mul(situ_mul(bc, d.leaf[0]), d.leaf[1]);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_string_equal(d.text, "ab.c");
  forget(&d);
}

static situ_tensor *times(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_mul(in[0], situ_mul(payload, payload));
}
/* Stretches that are recorded again; and a loss that is a leaf. */
static void recomputed_stretches_are_waited_for(void **state) {
  (void)state;
  diary d;
  begin(&d);
  situ_tensor *y = situ_mul(d.leaf[0], d.leaf[1]);
  assert_int_equal(situ_register_hook(y, between, &d), SITU_OK);
  y = situ_recompute(times, d.leaf[1], 1, &y);
  y = situ_recompute(times, d.leaf[2], 1, &y);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_string_equal(d.text, "c.ba");
  expect_exact(d.grad[1], SITU_SHAPE(2), 3, 96); /* a c^2 3 b^2 */
  expect_exact(d.grad[2], SITU_SHAPE(2), 2, 64);
  forget(&d);
  assert_int_equal(situ_backward(d.leaf[0], &(situ_backward_options){ .gradient = d.leaf[1] }), SITU_OK);
  assert_string_equal(d.text, "a");
  forget(&d);
}

static situ_status double_it(situ_tensor *leaf, void *payload) {
  (void)payload;
  return situ_set_grad(leaf, situ_mul_scalar(situ_grad(leaf), 2));
}
/* What may still change is told at the end, with its last value. */
static void gradients_that_may_change_come_last(void **state) {
  (void)state;
  diary d;
  begin(&d);
  assert_int_equal(situ_register_post_accumulate_grad_hook(d.leaf[2], double_it, NULL), SITU_OK);
  assert_int_equal(situ_backward(loss_of(&d), NULL), SITU_OK);
  assert_string_equal(d.text, ".bac");
  expect_exact(d.grad[2], SITU_SHAPE(2), 2, 16);
  forget(&d);
  assert_int_equal(situ_set_grad(d.leaf[0], NULL), SITU_OK);
  assert_int_equal(situ_backward(loss_of(&d), NULL), SITU_OK);
  assert_string_equal(d.text, ".acb"); /* b and c have got gradients from before */
  expect_exact(d.grad[1], SITU_SHAPE(2), 4, 32);
  forget(&d);
}

static void asked_gradients_are_not_told(void **state) {
  (void)state;
  diary d;
  begin(&d);
  situ_tensor *g = NULL;
  assert_int_equal(situ_autograd_grad(loss_of(&d), 1, &d.leaf[2], &g, NULL), SITU_OK);
  assert_string_equal(d.text, "");
  situ_remove_hooks(d.leaf[1], &readers[1]);
  assert_int_equal(situ_backward(loss_of(&d), NULL), SITU_OK);
  assert_string_equal(d.text, "c.a");
  forget(&d);
}

/* No leaf gets a gradient. */
static void a_hook_that_fails_ends_the_pass(void **state) {
  (void)state;
  diary d;
  begin(&d);
  d.fails = 'a';
  assert_int_equal(situ_backward(loss_of(&d), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "a hook on a complete gradient failed");
  assert_string_equal(d.text, "c.ba");
  assert_int_equal(d.callbacks, 2); /* what the others have queued */
  for (int i = 0; i < 3; i++) assert_null(situ_grad(d.leaf[i]));
  forget(&d);
  assert_int_equal(situ_register_grad_ready_hook(situ_exp(d.leaf[0]), told, &readers[0]), SITU_E_STATE);
  expect_error(SITU_E_STATE, "register_grad_ready_hook", "not a leaf");
}

/* Wherever memory ends, the same call afterwards gives the bits that it would have given. */
static void passes_without_memory(void **state) {
  (void)state;
  diary d;
  begin(&d);
  situ_tensor *loss = loss_of(&d);
  const situ_backward_options retain = { .retain_graph = true };
  int points = 0;
  for (uint64_t nth = 1;; nth++) {
    forget(&d);
    for (int i = 0; i < 3; i++) assert_int_equal(situ_set_grad(d.leaf[i], NULL), SITU_OK);
    assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
    situ_fail_allocation(nth, false);
    const situ_status status = situ_backward(loss, &retain);
    situ_fail_allocation(0, false);
    if (status == SITU_OK) break;
    points++;
    situ_error_clear();
    for (int i = 0; i < 3; i++) assert_null(situ_grad(d.leaf[i]));
  }
  assert_true(points > 5);
  assert_string_equal(d.text, "c.ba");
  expect_exact(d.grad[1], SITU_SHAPE(2), 2, 16);
  forget(&d);
}

/* Takes the gradient if it can, and remembers whether. */
typedef struct taker {
  situ_tensor *grad;
  bool taken;
  const struct taker *before; /* its hook has run: it is the only owner of its gradient already in this pass */
} taker;
static situ_status take(situ_tensor *leaf, situ_tensor *grad, void *payload) {
  taker *t = payload;
  (void)leaf;
  if (t->before) assert_int_equal(situ_owners(t->before->grad), 1);
  t->taken = situ_take_ready_grad();
  return situ_set(&t->grad, grad) ? SITU_OK : situ_error();
}

/* A gradient that is taken never becomes .grad, and the hook is its only owner; one that is .grad already is not taken,
   nor is one outside of a hook. */
static void a_gradient_that_is_taken(void **state) {
  (void)state;
  taker t[2] = { 0 };
  t[1].before = &t[0];
  situ_tensor *w[2], *c = T64(SITU_SHAPE(2), 3, 4);
  for (int i = 0; i < 2; i++) {
    w[i] = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true);
    assert_int_equal(situ_register_grad_ready_hook(w[i], take, &t[i]), SITU_OK);
  }
  assert_int_equal(situ_set_grad(w[1], T64(SITU_SHAPE(2), 1, 1)), SITU_OK);
  situ_tensor *loss = situ_sum(situ_mul(situ_mul(w[0], w[1]), c), NULL);
  assert_int_equal(situ_backward(loss, NULL), SITU_OK);
  assert_true(t[0].taken && !t[1].taken);
  assert_null(situ_grad(w[0]));
  expect_exact(t[0].grad, SITU_SHAPE(2), 3, 8);
  assert_int_equal(situ_owners(t[0].grad), 1);
  expect_exact(situ_grad(w[1]), SITU_SHAPE(2), 4, 9);
  for (int i = 0; i < 2; i++) situ_drop(&t[i].grad);
  assert_false(situ_take_ready_grad());
  expect_error(SITU_E_STATE, "take_ready_grad", "no grad ready hook is running");
}

/* Marked as kept elsewhere, a leaf has no gradient until it gets one. */
static void a_gradient_that_is_kept_in_parts(void **state) {
  (void)state;
  situ_tensor *w = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true), *g = T64(SITU_SHAPE(2), 3, 4);
  assert_false(situ_grad_is_in_parts(w));
  for (int i = 0; i < 3; i++) {
    assert_int_equal(situ_set_grad(w, g), SITU_OK);
    assert_int_equal(situ_set_grad_in_parts(w), SITU_OK);
    assert_true(situ_grad_is_in_parts(w) && !situ_grad(w));
    if (i == 0) assert_int_equal(situ_set_grad(w, g), SITU_OK);
    if (i == 1) assert_int_equal(situ_set_grad(w, NULL), SITU_OK);
    if (i == 2) assert_int_equal(situ_backward(situ_sum(situ_mul(w, g), NULL), NULL), SITU_OK);
    assert_true(!situ_grad_is_in_parts(w) && (situ_grad(w) != NULL) == (i != 1));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_leaf_is_told_when_nothing_more_adds_to_it),
    TEST(a_leaf_that_waits_is_told_in_its_turn),
    TEST(recomputed_stretches_are_waited_for),
    TEST(gradients_that_may_change_come_last),
    TEST(asked_gradients_are_not_told),
    TEST(a_hook_that_fails_ends_the_pass),
    TEST(a_gradient_that_is_taken),
    TEST(a_gradient_that_is_kept_in_parts),
    TEST(passes_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
