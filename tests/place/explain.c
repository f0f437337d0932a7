/* Why a tensor is where it is, in words. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include <stdio.h>
#include <string.h>

#include "situ/optim.h"
#include "situ/place.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"

static char text[4096];

/* "is on        sim:0<rest>", of the device under test. */
static const char *on_it(const char *rest) {
  static char line[128];
  char name[SITU_DEVICE_NAME_MAX];
  (void)snprintf(line, sizeof line, "is on        %s%s", situ_device_name(test_device(), name), rest);
  return line;
}

static void say(situ_tensor *t) {
  int64_t length = situ_explain_to_string(t, text, sizeof text);
  assert_true(length > 0 && length < (int64_t)sizeof text);
  assert_int_equal(length, strlen(text));
  assert_int_equal(situ_explain_to_string(t, NULL, 0), length);
}

static void expect_lines(const char *const *parts, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (!strstr(text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], text);
}
#define EXPECT(...) \
  expect_lines((const char *const[]){ __VA_ARGS__ }, sizeof((const char *const[]){ __VA_ARGS__ }) / sizeof(char *))

/* placement: D7, D20 */
static void a_parameter_that_was_moved(void **state) {
  (void)state;
  situ_nn_module *fc = situ_nn_linear(3, 2, NULL),
                 *net = situ_nn_set_name(situ_nn_sequential(fc, situ_nn_relu()), "net");
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight");
  say(w);
  EXPECT("net.0.weight\n", "\n  is a         parameter, f32 [2, 3], 24 B\n",
         "\n  is on        cpu, because it was made there and never moved\n", "\n  created at   ",
         "\n  values       written (version ");
  assert_null(strstr(text, "shared with"));
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  situ_tensor *t = situ_set_name(situ_transpose(situ_detach(w), 0, 1), "mine");
  say(w);
  EXPECT(on_it(", because situ_nn_to moved it there at "), "\n  shared with  mine, a view of net.0.weight\n");
  say(t);
  EXPECT("mine\n", "a view of net.0.weight\n", on_it(", because situ_nn_to moved it there"),
         "shared with  a view of net.0.weight, net.0.weight\n");
  situ_nn_free(net);
}

/* placement: B13, D6, D20 */
static void an_optimisers_state_follows(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_linear(3, 2, NULL);
  situ_optim *o = situ_optim_adam(situ_nn_parameters(net), 1e-3, NULL);
  assert_non_null(o);
  situ_tensor *y = situ_sum(situ_nn_forward(net, situ_ones(SITU_SHAPE(1, 3), NULL)), NULL);
  assert_int_equal(situ_backward(y, NULL), SITU_OK);
  assert_int_equal(situ_optim_step(o), SITU_OK);
  situ_tensor *w = situ_nn_get_tensor(net, "weight");
  say(w);
  EXPECT("Linear.weight\n", "\n  followed by  weight.exp_avg");
  situ_tensor *copy = situ_set_name(situ_clone(situ_detach(w)), "ema");
  assert_int_equal(situ_follow(copy, w), SITU_OK);
  say(copy);
  EXPECT("ema\n", "is a         tensor, f32", "\n  follows      Linear.weight\n");
  situ_optim_free(o);
  situ_nn_free(net);
}

typedef struct holder {
  situ_nn_module base;
  situ_tensor *offset;
} holder;
static situ_tensor *nothing(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return x;
}
static const situ_nn_type type = { .name = "Holder", .size = sizeof(holder), .forward = nothing };

/* placement: D6, D20 */
static void a_tensor_that_was_never_registered(void **state) {
  (void)state;
  holder *m = situ_nn_alloc(&type);
  m->offset = situ_zeros(SITU_SHAPE(2), NULL);
  assert_non_null(situ_nn_done(m));
  say(m->offset);
  EXPECT("Holder.(field at byte ", "is a         plain tensor (not registered), f32 [2]",
         "\n  moves with   nothing: register it");
  situ_nn_free(&m->base);
}

static void no_values_and_no_tensor(void **state) {
  (void)state;
  say(situ_empty(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F64, .device = test_device() }));
  EXPECT("a tensor without a name\n", "f64 [4], 32 B", on_it(""), "values       none yet");
  char cut[8];
  assert_true(situ_explain_to_string(situ_ones(SITU_SHAPE(1), NULL), cut, sizeof cut) > 8);
  assert_string_equal(cut, "a tenso");
  assert_int_equal(situ_explain_to_string(NULL, text, sizeof text), -1);
  expect_error(SITU_E_ARG, "explain", "NULL");
  /* Many on one storage: the first are named, the others counted. */
  situ_tensor *t = situ_ones(SITU_SHAPE(9), NULL);
  for (int i = 0; i < 9; i++) assert_non_null(situ_select(t, 0, i));
  say(t);
  EXPECT("and 5 more");
}

/* placement: G2 */
static void a_copy_of_a_leaf_is_not_a_leaf(void **state) {
  (void)state;
  situ_tensor *leaf = situ_ones(SITU_SHAPE(2), &(situ_options){ .requires_grad = true });
  situ_tensor *copy = situ_mul_scalar(leaf, 1);
  say(copy);
  EXPECT("\n  gradient     goes to the leaves that it was made of", "situ_retain_grad keeps it here");
  say(leaf);
  assert_null(strstr(text, "gradient"));
  assert_int_equal(situ_retain_grad(copy), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(copy, NULL), NULL), SITU_OK);
  say(copy);
  assert_null(strstr(text, "goes to the leaves"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(a_parameter_that_was_moved),
    MODULE_TEST(an_optimisers_state_follows),
    MODULE_TEST(a_tensor_that_was_never_registered),
    MODULE_TEST(a_copy_of_a_leaf_is_not_a_leaf),
    MODULE_TEST(no_values_and_no_tensor),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
