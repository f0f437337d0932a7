/* Hooks for saved tensors, detection of anomalies, hooks after accumulation. */
#include <math.h>
#include <stdlib.h>

#include "situ/nn.h"
#include "support/test.h"

/* ---- hooks for saved tensors ---- */

/* Static in each test: the fixture frees the graph, which releases what is saved, after the test has returned. */
typedef struct store {
  int packed, unpacked, released;
  situ_tensor *wrong; /* unpacked instead */
  bool keeps, fails;
} store;

static void *pack(situ_tensor *t, void *payload) {
  store *s = payload;
  if (s->keeps || s->fails) return s->fails ? (void)situ_fail(SITU_E_IO, "pack", "the disk is full"), NULL : NULL;
  s->packed++;
  return situ_retain(situ_mul_scalar(t, 1));
}
static situ_tensor *unpack(void *packed, void *payload) {
  store *s = payload;
  s->unpacked++;
  return s->wrong ? s->wrong : situ_clone(packed);
}
static void release(void *packed, void *payload) {
  ((store *)payload)->released++;
  situ_release(packed);
}

/* sum(tanh(x w)^3) */
static situ_tensor *loss_of(situ_tensor *x, situ_tensor *w) {
  situ_tensor *y = situ_tanh(situ_mul(x, w));
  return situ_sum(situ_mul(situ_mul(y, y), y), NULL);
}

static void values_are_packed(void **state) {
  (void)state;
  static store s;
  s = (store){ 0 };
  const situ_saved_tensors_hooks hooks = { pack, unpack, release, &s };
  situ_tensor *x = test_random(SITU_SHAPE(7), -1, 1, false), *w = test_random(SITU_SHAPE(7), -1, 1, true), *plain,
              *other;
  assert_int_equal(situ_autograd_grad(loss_of(x, w), 1, &w, &plain, NULL), SITU_OK);
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_begin(&hooks), SITU_OK);
  situ_tensor *loss = loss_of(x, w);
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_OK);
  assert_true(s.packed >= 4 && !s.unpacked);
  assert_int_equal(situ_autograd_grad(loss, 1, &w, &other, &(situ_backward_options){ .retain_graph = true }), SITU_OK);
  expect_same(other, plain, 0, 0);
  assert_int_equal(s.unpacked, s.packed);
  assert_int_equal(situ_autograd_grad(loss, 1, &w, &other, NULL), SITU_OK);
  expect_same(other, plain, 0, 0);
  assert_int_equal(s.released, s.packed);
}

static void second_derivatives_reach_through(void **state) {
  (void)state;
  static store s;
  s = (store){ 0 };
  const situ_saved_tensors_hooks hooks = { pack, unpack, release, &s };
  situ_tensor *x = test_random(SITU_SHAPE(5), -1, 1, false), *w = test_random(SITU_SHAPE(5), -1, 1, true), *g[2],
              *second[2];
  for (int k = 0; k < 2; k++) {
    if (k) assert_int_equal(situ_autograd_graph_saved_tensors_hooks_begin(&hooks), SITU_OK);
    situ_tensor *loss = loss_of(x, w);
    if (k) assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_OK);
    assert_int_equal(situ_autograd_grad(loss, 1, &w, &g[k], &(situ_backward_options){ .create_graph = true }), SITU_OK);
    assert_int_equal(situ_autograd_grad(situ_sum(g[k], NULL), 1, &w, &second[k], NULL), SITU_OK);
  }
  assert_true(s.unpacked > 0);
  expect_same(second[1], second[0], 0, 0);
}

static void a_write_in_place_does_not_reach_a_packed_copy(void **state) {
  (void)state;
  static store s;
  s = (store){ 0 };
  const situ_saved_tensors_hooks hooks = { pack, unpack, release, &s };
  situ_tensor *x = T64(SITU_SHAPE(2), 1, 2), *w = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 4), true), *grad;
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_begin(&hooks), SITU_OK);
  situ_tensor *loss = situ_sum(situ_mul(x, w), NULL);
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_OK);
  assert_non_null(situ_zero_(x));
  assert_int_equal(situ_autograd_grad(loss, 1, &w, &grad, NULL), SITU_OK);
  expect_values(grad, SITU_SHAPE(2), 1, 2);
}

static void what_hooks_do_wrong_is_named(void **state) {
  (void)state;
  static store s;
  s = (store){ .wrong = T64(SITU_SHAPE(1), 1) };
  const situ_saved_tensors_hooks hooks = { pack, unpack, release, &s };
  situ_tensor *x = T64(SITU_SHAPE(2), 1, 2), *w = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 4), true), *grad;
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_begin(&hooks), SITU_OK);
  situ_tensor *loss = situ_sum(situ_mul(x, w), NULL);
  s.keeps = true;
  situ_tensor *kept = situ_sum(situ_mul(x, w), NULL);
  s.keeps = false;
  s.fails = true;
  expect_refused(situ_mul(x, w), SITU_E_IO, "", "the disk is full");
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_OK);
  assert_int_equal(situ_autograd_grad(loss, 1, &w, &grad, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "mul", "a saved tensor was f64 [2]");
  assert_int_equal(situ_autograd_grad(kept, 1, &w, &grad, NULL), SITU_OK);
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "no hooks for saved tensors have begun");
  assert_int_equal(situ_autograd_graph_saved_tensors_hooks_begin(&(situ_saved_tensors_hooks){ pack, NULL, NULL, NULL }),
                   SITU_E_ARG);
  expect_error(SITU_E_ARG, "", "both pack and unpack");
}

/* What is saved is not on the device between forward and backward. */
static void activations_wait_on_another_device(void **state) {
  (void)state;
  enum { WIDTH = 256, LAYERS = 6 };
  const situ_device away = test_device().kind == SITU_CPU ? (situ_device){ SITU_SIM, 0 } : (situ_device){ SITU_CPU, 0 };
  const situ_options here = { .device = test_device() };
  situ_tensor *x = situ_ones(SITU_SHAPE(64, WIDTH), &here), *w[LAYERS], *grad[2][LAYERS];
  for (int i = 0; i < LAYERS; i++)
    w[i] = situ_requires_grad_(
        situ_mul_scalar(situ_to_dtype(test_random(SITU_SHAPE(WIDTH, WIDTH), -0.1, 0.1, false), SITU_F32), 1), true);
  for (int k = 0; k < 2; k++) {
    situ_device_properties before, after;
    situ_scope s;
    if (k) assert_int_equal(situ_autograd_graph_save_on(away), SITU_OK);
    assert_int_equal(situ_device_info(test_device(), &before), SITU_OK);
    situ_scope_begin(&s);
    situ_tensor *y = x;
    for (int i = 0; i < LAYERS; i++) y = situ_tanh(situ_matmul(y, w[i]));
    situ_tensor *loss = situ_escape(&s, situ_sum(y, NULL));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    assert_int_equal(situ_device_info(test_device(), &after), SITU_OK);
    const uint64_t each = 64 * WIDTH * sizeof(float), held = after.memory_used - before.memory_used;
    if (k) assert_true(held < each);
    else assert_true(held >= LAYERS * each);
    if (k) assert_int_equal(situ_autograd_graph_saved_tensors_hooks_end(), SITU_OK);
    assert_int_equal(situ_autograd_grad(loss, LAYERS, w, grad[k], NULL), SITU_OK);
  }
  for (int i = 0; i < LAYERS; i++) expect_same(grad[1][i], grad[0][i], 0, 0);
}

/* ---- anomalies ---- */

static situ_tensor *root_of_root(situ_tensor *x) { return situ_sum(situ_sqrt(situ_mul(x, x)), NULL); }

static void the_call_whose_gradient_is_nan_is_named(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 0, 1), true);
  assert_int_equal(situ_backward(root_of_root(x), NULL), SITU_OK);
  double value;
  assert_int_equal(situ_item(situ_select(situ_detach(situ_grad(x)), 0, 0), &value), SITU_OK);
  assert_true(isnan(value));
  assert_int_equal(situ_set_grad(x, NULL), SITU_OK);
  assert_false(situ_is_anomaly_enabled());
  situ_autograd_set_detect_anomaly(true, true);
  assert_true(situ_is_anomaly_enabled());
  assert_int_equal(situ_backward(root_of_root(x), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "of mul is NaN, which was called at ");
  assert_null(situ_grad(x));
  situ_nn_module *net = situ_nn_sequential(situ_nn_flatten(1, -1), situ_nn_softmax(1));
  situ_tensor *y = situ_nn_forward(net, situ_reshape(situ_div(x, situ_mul_scalar(x, 0)), SITU_SHAPE(1, 2)));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "in module");
  situ_nn_free(net);
  situ_autograd_set_detect_anomaly(true, false);
  assert_int_equal(situ_backward(root_of_root(x), NULL), SITU_OK);
  situ_autograd_set_detect_anomaly(false, true);
  assert_int_equal(situ_backward(root_of_root(x), NULL), SITU_OK);
}

/* ---- after accumulation ---- */

static int order;
static situ_status step(situ_tensor *leaf, void *payload) {
  *(int *)payload = ++order;
  return situ_sub_(leaf, situ_mul_scalar(situ_grad(leaf), 0.1)) ? situ_set_grad(leaf, NULL) : situ_error();
}
static situ_status refuse(situ_tensor *leaf, void *payload) {
  (void)leaf, (void)payload;
  return SITU_E_STATE;
}

static void hooks_run_after_accumulation(void **state) {
  (void)state;
  int first = 0, second = 0;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true);
  assert_int_equal(situ_register_post_accumulate_grad_hook(situ_mul(x, x), step, &first), SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "not a leaf");
  assert_int_equal(situ_register_post_accumulate_grad_hook(x, step, &first), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(situ_mul(x, x), NULL), NULL), SITU_OK);
  assert_true(first == 1 && !situ_grad(x));
  expect_values(situ_detach(x), SITU_SHAPE(2), 0.8, 1.6);
  situ_tensor *w = situ_requires_grad_(T64(SITU_SHAPE(1), 1), true);
  assert_int_equal(situ_register_post_accumulate_grad_hook(w, refuse, &second), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(w, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "a hook after accumulation failed");
  expect_values(situ_detach(situ_grad(w)), SITU_SHAPE(1), 1);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(values_are_packed),
                                      TEST(second_derivatives_reach_through),
                                      TEST(a_write_in_place_does_not_reach_a_packed_copy),
                                      TEST(what_hooks_do_wrong_is_named),
                                      TEST(activations_wait_on_another_device),
                                      TEST(the_call_whose_gradient_is_nan_is_named),
                                      TEST(hooks_run_after_accumulation) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
