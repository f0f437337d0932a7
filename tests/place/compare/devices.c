/* Two devices are compared: the call that is wrong on one of them is named, in forward and in backward, and nothing is
   named where nothing is wrong.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include "situ/amp.h"
#include "situ/random.h"
#include "support/pairs.h"

/* ---- a module that is wrong on simulated devices ---- */

typedef enum fault { NONE, VALUE, GRADIENT, LITTLE, CENTRED, NAN_VALUE } fault;
typedef struct wrong {
  situ_nn_module base;
  situ_nn_module *inner;
  fault fault;
} wrong;

static bool is_wrong_on(const situ_tensor *t) { return situ_device_of(t).kind == SITU_SIM; }

static situ_status same_forward(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload) {
  (void)count_in, (void)count_out, (void)payload;
  return (out[0] = situ_mul_scalar(in[0], 1)) ? SITU_OK : situ_error();
}
static situ_status wrong_backward(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                                  situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)in, (void)count_in, (void)out, (void)count_out, (void)payload;
  return (grad_in[0] = situ_mul_scalar(grad_out[0], is_wrong_on(grad_out[0]) ? 1.01 : 1)) ? SITU_OK : situ_error();
}

static situ_tensor *do_wrong(fault how, situ_tensor *x) {
  static const situ_function bent = { .name = "bent", .forward = same_forward, .backward = wrong_backward };
  situ_tensor *y = NULL;
  if (how == GRADIENT) return situ_function_apply(&bent, &x, 1, &y, 1, NULL) == SITU_OK ? y : NULL;
  if (how == CENTRED) return situ_add_scalar(x, -0.6419); /* of tanh(tanh(1)) little is left */
  if (how == NONE || !is_wrong_on(x)) return situ_mul_scalar(x, 1);
  if (how == NAN_VALUE) return situ_div(x, situ_zeros_like(x, NULL));
  return situ_mul_scalar(x, how == LITTLE ? 1 + 2e-5 : 1.01);
}

static situ_tensor *wrong_forward(situ_nn_module *self, situ_tensor *x) {
  const wrong *m = (wrong *)self;
  return situ_nn_forward(m->inner, do_wrong(m->fault, situ_tanh(x)));
}
static const situ_nn_type wrong_type = { .name = "Wrong", .size = sizeof(wrong), .forward = wrong_forward };

/* The fault is in its own code, before its part `inner`; so a part of its own has the others. */
static situ_nn_module *make_wrong(fault how, int64_t width) {
  wrong *m = situ_nn_alloc(&wrong_type);
  m->fault = how;
  situ_nn_child(m, inner, width ? situ_nn_linear(width, width, NULL) : situ_nn_identity());
  return situ_nn_done(m);
}

/* Two parts share an input, whose gradient is the sum of both. */
typedef struct forked {
  situ_nn_module base;
  situ_nn_module *first, *second;
} forked;
static situ_tensor *forked_forward(situ_nn_module *self, situ_tensor *x) {
  const forked *m = (forked *)self;
  return situ_add(situ_nn_forward(m->first, x), situ_nn_forward(m->second, x));
}
static const situ_nn_type forked_type = { .name = "Forked", .size = sizeof(forked), .forward = forked_forward };

static situ_nn_module *make_forked(situ_nn_module *first) {
  forked *m = situ_nn_alloc(&forked_type);
  situ_nn_child(m, first, first);
  situ_nn_child(m, second, situ_nn_linear(8, 8, NULL));
  return situ_nn_done(m);
}

/* ---- drawn nets ---- */

static uint32_t seed;
static uint32_t draw(uint32_t below) { return (seed = seed * 1664525 + 1013904223) / 65536 % below; }

static situ_nn_module *drawn_layer(void) {
  switch (draw(7)) {
  case 0: return situ_nn_linear(8, 8, NULL);
  case 1: return situ_nn_layer_norm(SITU_SHAPE(8), NULL);
  case 2: return situ_nn_batch_norm1d(8, NULL);
  case 3: return situ_nn_dropout(0.5);
  case 4: return situ_nn_gelu(SITU_GELU_NONE);
  case 5: return make_wrong(NONE, 8);
  default: return situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_relu());
  }
}

/* A chain with chains inside; the module that is wrong is somewhere, and *path tells where. */
static situ_nn_module *drawn_net(fault how, int depth, bool has, char *path) {
  situ_nn_module *net = situ_nn_sequential_of(0, NULL);
  const uint32_t count = 2 + draw(4), at = draw(count);
  for (uint32_t i = 0; i < count; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%u", i);
    const bool here = has && i == at, deeper = depth && (here || draw(3) == 0);
    if (here) (void)sprintf(path + strlen(path), "%s%s", *path ? "." : "", name);
    situ_nn_module *part = deeper ? drawn_net(how, depth - 1, here, path) : here ? make_wrong(how, 8) : drawn_layer();
    if (!deeper && draw(3) == 0) {
      part = make_forked(part);
      if (here) (void)strcat(path, ".first");
    }
    assert_non_null(situ_nn_add_child(net, name, NULL, part));
  }
  return net;
}

static situ_tree *batch(void) {
  return situ_tree_tensor(situ_requires_grad_(situ_randn(SITU_SHAPE(16, 8), NULL), true));
}

static situ_place_comparison compared(situ_nn_module *m, const situ_tree *in, bool exact) {
  situ_place_comparison found;
  const situ_place_compare_options options = { .exact = exact };
  const situ_generator before = situ_get_rng_state();
  expect_ok(situ_place_compare(m, in, here(), there(), &options, &found));
  const situ_generator after = situ_get_rng_state();
  assert_memory_equal(&before, &after, sizeof before);
  return found;
}

/* placement: E6 */
static void the_wrong_layer_is_named(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 40; i++) {
    char path[64] = "";
    seed = i;
    const fault how = i % 4 == 3 ? NAN_VALUE : i % 2 ? GRADIENT : VALUE;
    situ_nn_module *net = drawn_net(how, (int)draw(3), true, path);
    situ_tree *in = batch();
    const situ_place_comparison found = compared(net, in, false);
    assert_true(found.differs && found.caused && found.before == 0);
    assert_string_equal(found.module, path);
    assert_string_equal(found.tensor, "input"); /* of its part: the fault is in its own code */
    assert_int_equal(found.backward, how == GRADIENT);
    if (how == NAN_VALUE) assert_true(found.absolute > 1e300);
    else assert_true(found.relative > 0.009 && found.relative < 0.011 && found.absolute > 0);
    assert_non_null(strstr(found.text, path));
    assert_non_null(strstr(found.text, "it is the cause"));
    situ_tree_free(in);
    situ_nn_free(net);
  }
}

static void equal_devices_have_no_difference(void **state) {
  (void)state;
  for (uint32_t i = 0; i < 20; i++) {
    char path[64] = "";
    seed = i;
    situ_nn_module *net = drawn_net(NONE, (int)draw(3), true, path);
    situ_tree *in = batch();
    const situ_place_comparison found = compared(net, in, true);
    assert_false(found.differs);
    assert_true(found.calls > 2);
    assert_string_equal(found.text, "");
    expect_ok(situ_place_compare(net, in, here(), there(), NULL, NULL));
    situ_tree_free(in);
    situ_nn_free(net);
  }
}

static void a_difference_that_grows_is_not_the_cause(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(make_wrong(LITTLE, 0), make_wrong(CENTRED, 0));
  situ_tree *in = situ_tree_tensor(situ_ones(SITU_SHAPE(16, 8), NULL));
  situ_place_comparison found = compared(net, in, false);
  assert_true(found.differs && !found.backward && !found.caused);
  assert_string_equal(found.module, "1");
  assert_true(found.relative > 0.05 && found.before > 1e-5 && found.before < 1e-4);
  assert_non_null(strstr(found.text, "made a difference larger that came from before it"));
  found = compared(net, in, true);
  assert_true(found.differs && found.caused);
  assert_string_equal(found.module, "0");
  assert_int_equal(situ_place_compare(net, in, here(), there(), NULL, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_compare", "1 differs: its part's input, in its own code, on sim:0");
  expect_ok(situ_place_compare(net, in, here(), there(), &(situ_place_compare_options){ .tolerance = 0.2 }, NULL));
  situ_tree_free(in);
  situ_nn_free(net);
}

/* ---- gradients of parameters, other ways, other dtypes ---- */

typedef struct scaled {
  situ_nn_module base;
  situ_nn_module *part;
  situ_tensor *scale;
  bool strays;
} scaled;

static situ_status product(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload) {
  (void)count_in, (void)count_out, (void)payload;
  return (out[0] = situ_mul(in[0], in[1])) ? SITU_OK : situ_error();
}
static situ_status product_backward(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                                    situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)count_in, (void)out, (void)count_out, (void)payload;
  grad_in[0] = situ_mul(grad_out[0], in[1]);
  grad_in[1] = situ_mul_scalar(situ_mul(grad_out[0], in[0]), is_wrong_on(in[0]) ? 1.01 : 1);
  return grad_in[0] && grad_in[1] ? SITU_OK : situ_error();
}
static situ_tensor *scaled_forward(situ_nn_module *self, situ_tensor *x) {
  static const situ_function times = { .name = "times", .forward = product, .backward = product_backward };
  const scaled *m = (scaled *)self;
  if (m->strays && is_wrong_on(x)) return situ_tanh(x);
  x = situ_nn_forward(m->part, x);
  situ_tensor *in[] = { x, m->scale }, *y = NULL;
  return situ_function_apply(&times, in, 2, &y, 1, NULL) == SITU_OK ? y : NULL;
}
static const situ_nn_type scaled_type = { .name = "Scaled", .size = sizeof(scaled), .forward = scaled_forward };

static situ_nn_module *make_scaled(bool strays) {
  scaled *m = situ_nn_alloc(&scaled_type);
  m->strays = strays;
  situ_nn_child(m, part, situ_nn_tanh());
  situ_nn_param(m, scale, situ_randn(SITU_SHAPE(16, 8), NULL));
  return situ_nn_done(m);
}

static void a_gradient_of_a_parameter_and_another_way(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(8, 8, NULL), make_scaled(false), situ_nn_linear(8, 8, NULL));
  situ_tree *in = batch();
  situ_place_comparison found = compared(net, in, false);
  assert_true(found.differs && found.backward && found.caused && found.before == 0);
  assert_string_equal(found.module, "1");
  assert_string_equal(found.tensor, "1.scale");
  expect_ok(situ_place_compare(net, in, here(), there(), &(situ_place_compare_options){ .forward_only = true }, NULL));
  situ_nn_free(net);
  net = situ_nn_sequential(make_scaled(true));
  found = compared(net, in, false);
  assert_true(found.differs && found.caused && !found.backward);
  assert_string_equal(found.module, "0");
  assert_non_null(strstr(found.text, "0 calls other modules on sim:0 than on cpu"));
  situ_tree_free(in);
  situ_nn_free(net);
}

static void autocast_is_compared(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 8, NULL));
  situ_tree *in = batch();
  situ_place_compare_options options = { .autocast = SITU_BF16 };
  expect_ok(situ_place_compare(net, in, here(), here(), &options, NULL));
  options.exact = true;
  situ_place_comparison found;
  expect_ok(situ_place_compare(net, in, here(), there(), &options, &found));
  assert_true(found.differs && found.caused);
  assert_string_equal(found.module, "0");
  assert_false(situ_is_autocast_enabled(there()));
  situ_tree_free(in);
  situ_nn_free(net);
}

/* ---- nothing changes ---- */

static situ_status count_call(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output;
  ++*(int *)payload;
  return SITU_OK;
}

static void the_model_stays_as_it_was(void **state) {
  (void)state;
  needs_sim();
  int calls = 0;
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_linear(8, 8, NULL), situ_nn_batch_norm1d(8, NULL), situ_nn_dropout(0.5));
  expect_ok(situ_nn_register_forward_hook(situ_nn_at(net, 0), count_call, &calls, NULL));
  situ_tree *in = batch();
  expect_ok(situ_backward(situ_sum(situ_nn_forward(net, situ_tree_value(in)), NULL), NULL));
  situ_tensor *weight = situ_nn_get_tensor(net, "0.weight"), *grad = situ_grad(weight);
  situ_tensor *mean = situ_nn_get_tensor(net, "1.running_mean"), *const all[] = { weight, grad, mean };
  situ_tensor *kept[3];
  for (int i = 0; i < 3; i++) kept[i] = situ_clone(situ_detach(all[i]));
  situ_tensor *input_grad = situ_clone(situ_grad(situ_tree_value(in)));
  const int64_t tensors = situ_live_tensors();
  int failed = 0;
  for (uint64_t nth = 0; nth < 40; nth++) {
    const situ_generator before = situ_get_rng_state();
    situ_place_comparison found = { .calls = -1 };
    expect_ok(situ_sim_fail(0, SITU_SIM_COPY, nth, false));
    const situ_status status = situ_place_compare(net, in, here(), there(), NULL, &found);
    expect_ok(situ_sim_reset(0));
    if (status != SITU_OK) {
      failed++;
      assert_int_equal(found.calls, -1);
      expect_error(SITU_E_IO, "", "");
      situ_error_clear();
    } else {
      assert_false(found.differs);
    }
    const situ_generator after = situ_get_rng_state();
    assert_memory_equal(&before, &after, sizeof before);
    for (int i = 0; i < 3; i++) expect_same(all[i], kept[i], 0, 0);
    assert_ptr_equal(situ_grad(weight), grad);
    expect_same(situ_grad(situ_tree_value(in)), input_grad, 0, 0);
    expect_on(weight, here());
    situ_scope scope;
    situ_scope_begin(&scope);
    const int once = calls;
    assert_non_null(situ_nn_forward(net, situ_tree_value(in)));
    assert_int_equal(calls, once + 1);
    expect_ok(situ_copy_(mean, kept[2]) ? SITU_OK : situ_error());
    expect_ok(situ_scope_end(&scope));
    situ_set_rng_state(before);
  }
  assert_true(failed > 10 && failed < 40);
  assert_int_equal(situ_live_tensors(), tensors);
  situ_place_comparison found;
  assert_int_equal(
      situ_place_compare(net, in, here(), there(), &(situ_place_compare_options){ .tolerance = -1 }, &found),
      SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_compare", "cannot be negative");
  situ_tree_free(in);
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(the_wrong_layer_is_named),
    PAIR_TEST(equal_devices_have_no_difference),
    PAIR_TEST(a_difference_that_grows_is_not_the_cause),
    PAIR_TEST(a_gradient_of_a_parameter_and_another_way),
    PAIR_TEST(autocast_is_compared),
    PAIR_TEST(the_model_stays_as_it_was),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
