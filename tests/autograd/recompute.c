/* situ_recompute: the same bits with less memory, and nothing dropped. */
#include <string.h>

#include "situ/amp.h"
#include "situ/func.h"
#include "situ/nn.h"
#include "support/test.h"

enum { LAYERS = 4, WIDTH = 16, ROWS = 8 };

typedef struct model {
  situ_nn_module *layer[LAYERS];
  bool recompute;
  int runs;
} model;

typedef struct one_layer {
  model *m;
  int at;
} one_layer;

static situ_tensor *run_layer(situ_tensor *const *in, int count, void *payload) {
  const one_layer *l = payload;
  (void)count;
  l->m->runs++;
  return situ_dropout(situ_tanh(situ_nn_forward(l->m->layer[l->at], in[0])), 0.3, true, NULL);
}

static model model_new(void) {
  model m = { .recompute = false };
  for (int k = 0; k < LAYERS; k++)
    m.layer[k] = situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .device = test_device() });
  return m;
}
static void model_free(model *m) {
  for (int k = 0; k < LAYERS; k++) situ_nn_free(m->layer[k]);
}
static situ_tensor *weight(const model *m, int k) { return situ_nn_get_tensor(m->layer[k], "weight"); }

static situ_tensor *run_model(model *m, one_layer *l, situ_tensor *x) {
  for (int k = 0; k < LAYERS; k++) {
    l[k] = (one_layer){ m, k };
    x = m->recompute ? situ_recompute(run_layer, &l[k], 1, &x) : run_layer(&x, 1, &l[k]);
  }
  return situ_mean(situ_square(x), NULL);
}

/* Loss, gradients of all weights and of x, as bits. */
typedef struct bits {
  float loss, weight[LAYERS][WIDTH * WIDTH], x[ROWS * WIDTH];
} bits;

static void read_bits(situ_tensor *t, float *out) {
  assert_non_null(t = situ_to_dtype(situ_detach(t), SITU_F32));
  assert_int_equal(situ_copy_to_host(t, out, (size_t)situ_numel(t) * sizeof *out), SITU_OK);
}

static bits train(model *m, bool recompute, bool autocast) {
  static bits b;
  one_layer l[LAYERS];
  situ_setting cast;
  situ_scope s;
  situ_scope_begin(&s);
  m->recompute = recompute;
  situ_manual_seed(5);
  situ_tensor *x =
      situ_rand(SITU_SHAPE(ROWS, WIDTH), &(situ_options){ .device = test_device(), .requires_grad = true });
  if (autocast) assert_int_equal(situ_autocast_begin(&cast, test_device(), NULL), SITU_OK);
  situ_tensor *loss = run_model(m, l, x);
  if (autocast) situ_autocast_end(&cast);
  read_bits(loss, &b.loss);
  if (situ_backward(loss, NULL) != SITU_OK) fail_msg("%s", situ_error_message());
  read_bits(situ_grad(x), b.x);
  for (int k = 0; k < LAYERS; k++) {
    read_bits(situ_grad(weight(m, k)), b.weight[k]);
    situ_nn_zero_grad(m->layer[k]);
  }
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return b;
}

static void gradients_have_the_same_bits(void **state) {
  (void)state;
  model m = model_new();
  for (int autocast = 0; autocast < 2; autocast++) {
    m.runs = 0;
    const bits plain = train(&m, false, autocast);
    assert_int_equal(m.runs, LAYERS);
    const bits again = train(&m, true, autocast);
    assert_int_equal(m.runs, 3 * LAYERS);
    assert_memory_equal(&plain, &again, sizeof plain);
  }
  model_free(&m);
}

/* ---- every order of a stretch, its scope of autocast, other uses of its module, and backward ---- */

enum {
  FIRST = 1,  /* a forward of the module before, in the scope */
  TWICE = 2,  /* two stretches of the module */
  INSIDE = 4, /* backward in the scope */
  NO_CACHE = 8,
  INPUT = 16, /* requires a gradient */
  OWN = 32,   /* the stretch has a scope of its own inside */
  NESTED = 64,
  AGAIN = 128, /* the graph is retained, and backward run twice */
  ORDERS = 256
};
typedef struct order {
  one_layer layer;
  int how;
  bool recompute;
  situ_autocast_options options;
} order;

static situ_tensor *run_inside(situ_tensor *const *in, int count, void *payload) {
  order *o = payload;
  situ_setting before;
  if (!(o->how & OWN)) return run_layer(in, count, &o->layer);
  assert_int_equal(situ_autocast_begin(&before, test_device(), &o->options), SITU_OK);
  situ_tensor *y = run_layer(in, count, &o->layer);
  situ_autocast_end(&before);
  return y;
}
static situ_tensor *run_nested(situ_tensor *const *in, int count, void *payload) {
  return situ_recompute(run_inside, payload, count, in);
}
static situ_tensor *run_stretch(order *o, situ_tensor *x) {
  return o->recompute ? situ_recompute(o->how & NESTED ? run_nested : run_inside, o, 1, &x) : run_inside(&x, 1, o);
}

static bits run_order(model *m, int how, bool recompute) {
  static bits b;
  order o = { { m, 0 }, how, recompute, { .no_cache = how & NO_CACHE || !recompute } };
  situ_setting cast;
  situ_scope s;
  situ_scope_begin(&s);
  memset(&b, 0, sizeof b);
  situ_manual_seed(5);
  situ_tensor *x =
      situ_rand(SITU_SHAPE(ROWS, WIDTH), &(situ_options){ .device = test_device(), .requires_grad = how & INPUT });
  assert_int_equal(situ_autocast_begin(&cast, test_device(), &o.options), SITU_OK);
  if (how & FIRST) assert_non_null(situ_nn_forward(m->layer[0], x));
  situ_tensor *y = run_stretch(&o, x);
  if (how & TWICE) y = run_stretch(&o, y);
  situ_tensor *loss = situ_mean(situ_square(y), NULL);
  if (!(how & INSIDE)) situ_autocast_end(&cast);
  for (int pass = 0; pass < (how & AGAIN ? 2 : 1); pass++)
    if (situ_backward(loss, &(situ_backward_options){ .retain_graph = how & AGAIN && !pass }) != SITU_OK)
      fail_msg("order %d: %s", how, situ_error_message());
  if (how & INSIDE) situ_autocast_end(&cast);
  read_bits(loss, &b.loss);
  if (how & INPUT) read_bits(situ_grad(x), b.x);
  read_bits(situ_grad(weight(m, 0)), b.weight[0]);
  situ_nn_zero_grad(m->layer[0]);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  return b;
}

/* Beside calls that share no cast: a shared one sums its gradients in 16 bits. */
static void every_order_of_autocast(void **state) {
  (void)state;
  model m = model_new();
  for (int how = 0; how < ORDERS; how++) {
    const bits plain = run_order(&m, how, false), again = run_order(&m, how, true);
    if (memcmp(&plain, &again, sizeof plain) != 0) fail_msg("order %d has other bits with recompute", how);
  }
  model_free(&m);
}

static void random_numbers_go_on_as_always(void **state) {
  (void)state;
  model m = model_new();
  (void)train(&m, false, false);
  const situ_generator want = situ_get_rng_state();
  (void)train(&m, true, false);
  const situ_generator got = situ_get_rng_state();
  assert_memory_equal(&want, &got, sizeof want);
  model_free(&m);
}

/* What is asked of the inside is found there, also for a second derivative and a second pass. */
static situ_tensor *cube_times(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_mul(situ_pow_scalar(in[0], 3), payload);
}
static void everything_is_found(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true),
              *w = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 4), true);
  situ_tensor *u = situ_mul_scalar(x, 2), *y = situ_sum(situ_recompute(cube_times, w, 1, &u), NULL), *g[3];
  situ_tensor *asked[3] = { x, w, u };
  const situ_backward_options create = { .create_graph = true };
  assert_int_equal(situ_autograd_grad(y, 3, asked, g, &create), SITU_OK);
  expect_exact(g[0], SITU_SHAPE(2), 6 * 4 * 3, 6 * 16 * 4);
  expect_exact(g[1], SITU_SHAPE(2), 8, 64);
  expect_exact(g[2], SITU_SHAPE(2), 3 * 4 * 3, 3 * 16 * 4);
  situ_tensor *second;
  assert_int_equal(situ_autograd_grad(situ_sum(g[0], NULL), 1, &x, &second, &create), SITU_OK);
  expect_exact(second, SITU_SHAPE(2), 24 * 2 * 3, 24 * 4 * 4);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  expect_exact(situ_grad(w), SITU_SHAPE(2), 8, 64);
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "already used");
}

static situ_tensor *nested(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  situ_tensor *y = situ_recompute(cube_times, payload, 1, in);
  return situ_recompute(cube_times, payload, 1, &y);
}
static void stretches_nest(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(1), 2), true),
              *w = situ_requires_grad_(T64(SITU_SHAPE(1), 0.5), true);
  assert_int_equal(situ_backward(situ_recompute(nested, w, 1, &x), NULL), SITU_OK); /* w^4 x^9 */
  expect_exact(situ_grad(x), SITU_SHAPE(1), 9 * 256 * 0.0625);
  expect_exact(situ_grad(w), SITU_SHAPE(1), 4 * 0.125 * 512);
}

/* A view of an operand, and an operand itself. */
static situ_tensor *first_row(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_select(in[0], 0, 0);
}
static situ_tensor *nothing_done(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return in[0];
}
static void views_and_operands(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2, 2), 1, 2, 3, 4), true);
  situ_tensor *row = situ_recompute(first_row, NULL, 1, &x), *same = situ_recompute(nothing_done, NULL, 1, &x);
  assert_ptr_equal(same, x);
  assert_int_equal(situ_backward(situ_sum(situ_square(row), NULL), NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2, 2), 2, 4, 0, 0);
}

/* ---- refusals, which lose nothing ---- */

static situ_tensor *reads_another(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_mul(in[0], payload);
}
static situ_tensor *shrinks(situ_tensor *const *in, int count, void *payload) {
  int *runs = payload;
  (void)count;
  return situ_square(situ_narrow(in[0], 0, 0, 2 - (*runs)++));
}
static void refusals(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true),
              *w = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 4), true);
  situ_tensor *u = situ_mul_scalar(w, 2), *y;
  int runs = 0;
  expect_refused(situ_recompute(reads_another, u, 1, &x), SITU_E_ARG, "recompute",
                 "mul_scalar that requires a gradient");
  assert_non_null(y = situ_sum(situ_recompute(shrinks, &runs, 1, &x), NULL));
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "recompute", "f64 [2] at first, and f64 [1] when backward");
  assert_non_null(y = situ_sum(situ_recompute(cube_times, w, 1, &x), NULL));
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_fill_(w, 1));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "backward", "changed in place since");
  assert_null(situ_grad(x));
  assert_null(situ_grad(w));
}

static situ_tensor *times_current(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_mul(in[0], *(situ_tensor **)payload);
}

/* The gradient of what was read at first would go to what has taken its place. */
static void a_parameter_that_was_replaced_is_refused(void **state) {
  (void)state;
  situ_tensor *x = T64(SITU_SHAPE(2), 1, 2), *a = situ_requires_grad_(T64(SITU_SHAPE(2), 3, 4), true),
              *b = situ_requires_grad_(T64(SITU_SHAPE(2), 5, 6), true), *now = a;
  situ_tensor *y = situ_recompute(times_current, &now, 1, &x);
  now = b;
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "recompute", "read other parameters than at first");
  assert_true(!situ_grad(a) && !situ_grad(b));
  now = a;
  y = situ_recompute(times_current, &now, 1, &x);
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  expect_values(situ_detach(situ_grad(a)), SITU_SHAPE(2), 1, 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(gradients_have_the_same_bits),
    TEST(every_order_of_autocast),
    TEST(random_numbers_go_on_as_always),
    TEST(everything_is_found),
    TEST(stretches_nest),
    TEST(views_and_operands),
    TEST(refusals),
    TEST(a_parameter_that_was_replaced_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
