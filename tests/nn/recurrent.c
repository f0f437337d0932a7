/* Recurrent layers, beside what the golden tests compare with PyTorch: gradients by differences, states, shapes,
   inference, refusals, printing.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/random.h"
#include "support/modules.h"

typedef situ_nn_module *(*maker)(int64_t, int64_t, const situ_nn_rnn_options *);
static const maker layers[] = { situ_nn_rnn, situ_nn_lstm, situ_nn_gru };
static const maker cells[] = { situ_nn_rnn_cell, situ_nn_lstm_cell, situ_nn_gru_cell };

static situ_tensor *normal(situ_dtype dtype, situ_shape shape) {
  return situ_randn(shape, &(situ_options){ .dtype = dtype, .device = test_device() });
}

/* ---- gradients ---- */

typedef struct direction {
  bool reverse, relu, state;
} direction;

static situ_tensor *do_rnn(situ_tensor *const *in, void *p) {
  const direction *d = p;
  return situ_rnn_layer(in[0], in[1], in[2], &(situ_recurrent_options){ .reverse = d->reverse, .relu = d->relu });
}
/* y and c_n together, or c_n alone. */
static situ_tensor *do_lstm(situ_tensor *const *in, void *p) {
  const direction *d = p;
  situ_tensor *c_n = NULL;
  situ_tensor *y = situ_lstm_layer(in[0], in[1], in[4], in[2], in[3],
                                   &(situ_recurrent_options){ .reverse = d->reverse, .c_n = &c_n });
  return !y || d->state ? c_n : situ_add(situ_sum(c_n, NULL), y);
}
static situ_tensor *do_plain_lstm(situ_tensor *const *in, void *p) {
  return do_lstm((situ_tensor *[]){ in[0], in[1], in[2], in[3], NULL }, p);
}
static situ_tensor *do_gru(situ_tensor *const *in, void *p) {
  return situ_gru_layer(in[0], in[1], in[3], in[2],
                        &(situ_recurrent_options){ .reverse = ((const direction *)p)->reverse });
}

static situ_tensor *leaf(situ_shape shape) { return situ_requires_grad_(normal(SITU_F64, shape), true); }

static void gradients(void **state) {
  (void)state;
  const int64_t l = 3, n = 2, h = 3, w = 2;
  situ_tensor *hx = leaf(SITU_SHAPE(n, h)), *cx = leaf(SITU_SHAPE(n, h)), *projected = leaf(SITU_SHAPE(n, w));
  for (int way = 0; way < 4; way++) {
    direction d = { .reverse = way & 1, .relu = false, .state = way & 2 };
    for (int64_t steps = 1; steps <= l; steps += l - 1) {
      gradcheck(do_rnn, &d, leaf(SITU_SHAPE(steps, n, h)), leaf(SITU_SHAPE(h, h)), hx);
      gradcheck(do_plain_lstm, &d, leaf(SITU_SHAPE(steps, n, 4 * h)), leaf(SITU_SHAPE(4 * h, h)), hx, cx);
      gradcheck(do_lstm, &d, leaf(SITU_SHAPE(steps, n, 4 * h)), leaf(SITU_SHAPE(4 * h, w)), projected, cx,
                leaf(SITU_SHAPE(w, h)));
      gradcheck(do_gru, &d, leaf(SITU_SHAPE(steps, n, 3 * h)), leaf(SITU_SHAPE(3 * h, h)), hx, leaf(SITU_SHAPE(3 * h)));
    }
  }
}

/* ---- states ---- */

/* The final state of the first half is the initial one of the second. */
static void a_sequence_in_two_parts(void **state) {
  (void)state;
  for (size_t k = 0; k < 3; k++) {
    situ_nn_module *m = layers[k](3, 4, &(situ_nn_rnn_options){ .num_layers = 2, HERE });
    situ_tensor *x = normal(SITU_F32, SITU_SHAPE(6, 2, 3)), *whole = situ_nn_forward(m, x);
    situ_nn_hx hx = { NULL, NULL };
    situ_tensor *first = situ_nn_recur(m, situ_narrow(x, 0, 0, 2), &hx);
    assert_true((hx.c != NULL) == (k == 1));
    situ_tensor *second = situ_nn_recur(m, situ_narrow(x, 0, 2, 4), &hx);
    expect_same(situ_cat((situ_tensor *[]){ first, second }, 2, 0), whole, 1e-6, 1e-6);
    situ_nn_free(m);
  }
}

/* A cell, step by step, gives what its layer gives. */
static void cells_are_steps_of_layers(void **state) {
  (void)state;
  for (size_t k = 0; k < 3; k++) {
    situ_nn_module *m = layers[k](3, 4, &(situ_nn_rnn_options){ HERE }),
                   *cell = cells[k](3, 4, &(situ_nn_rnn_options){ HERE });
    static const char *const name[] = { "weight_ih", "weight_hh", "bias_ih", "bias_hh" };
    situ_tree *weights = situ_tree_dict();
    for (int i = 0; i < 4; i++) {
      char path[32];
      (void)snprintf(path, sizeof path, "%s_l0", name[i]);
      weights = situ_tree_put(weights, name[i], situ_tree_tensor(situ_nn_get_tensor(m, path)));
    }
    assert_int_equal(situ_nn_load_state_dict(cell, weights, NULL), SITU_OK);
    situ_tree_free(weights);
    situ_tensor *x = normal(SITU_F32, SITU_SHAPE(3, 2, 3)), *whole = situ_nn_forward(m, x);
    situ_nn_hx hx = { NULL, NULL };
    for (int t = 0; t < 3; t++)
      expect_same(situ_nn_recur(cell, situ_select(x, 0, t), &hx), situ_select(whole, 0, t), 1e-6, 1e-6);
    situ_nn_free(m);
    situ_nn_free(cell);
  }
}

/* Without recording, the gates of one step are kept, not those of all. */
static void inference_gives_the_same_in_less_memory(void **state) {
  (void)state;
  for (size_t k = 0; k < 3; k++) {
    situ_nn_module *m = layers[k](3, 20, &(situ_nn_rnn_options){ .bidirectional = true, HERE });
    situ_tensor *x = normal(SITU_F32, SITU_SHAPE(5, 2, 3)), *recorded = situ_nn_forward(m, x);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    expect_same(situ_nn_forward(m, x), recorded, 1e-6, 1e-6);
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    situ_nn_free(m);
  }
}

static void trees(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ HERE });
  situ_tree *in = SITU_TREE(normal(SITU_F32, SITU_SHAPE(5, 2, 3))), *out = situ_nn_call(m, in);
  assert_int_equal(situ_tree_count(out), 2);
  assert_int_equal(situ_tree_count(situ_tree_at(out, 1)), 2);
  situ_tree_free(in);
  situ_tree_free(out);
  situ_nn_free(m);
}

static void dropout_is_between_layers(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_gru(3, 4, &(situ_nn_rnn_options){ .num_layers = 2, .dropout = 1, HERE });
  situ_tensor *x = normal(SITU_F32, SITU_SHAPE(5, 2, 3)), *y = situ_nn_forward(m, x);
  expect_same(situ_nn_forward(m, situ_zeros_like(x, NULL)), y, 0, 0); /* the second layer sees nothing of the first */
  situ_nn_eval(m);
  bool same = true;
  assert_int_equal(situ_allclose(situ_nn_forward(m, x), y, 1e-3, 1e-3, false, &same), SITU_OK);
  assert_false(same);
  situ_nn_free(m);
}

/* ---- refusals ---- */

#define OPTIONS(...) \
  &(situ_nn_rnn_options) { __VA_ARGS__ }
static void bad_options(void **state) {
  (void)state;
  expect_refused(situ_nn_rnn(3, 0, NULL), SITU_E_ARG, "nn_rnn", "hidden_size 0");
  expect_refused(situ_nn_lstm(-1, 2, NULL), SITU_E_ARG, "nn_lstm", "input_size is -1");
  expect_refused(situ_nn_lstm(1, INT64_MAX, NULL), SITU_E_ARG, "nn_lstm", "hidden_size");
  expect_refused(situ_nn_gru(3, 4, OPTIONS(.num_layers = 2000)), SITU_E_ARG, "nn_gru", "num_layers is 2000");
  expect_refused(situ_nn_gru(3, 4, OPTIONS(.dropout = 1.5)), SITU_E_ARG, "nn_gru", "dropout");
  expect_refused(situ_nn_gru(3, 4, OPTIONS(.proj_size = 2)), SITU_E_ARG, "nn_gru", "it has no proj_size");
  expect_refused(situ_nn_lstm(3, 4, OPTIONS(.proj_size = 4)), SITU_E_ARG, "nn_lstm", "below hidden_size, 4");
  expect_refused(situ_nn_lstm(3, 4, OPTIONS(.relu = true)), SITU_E_ARG, "nn_lstm", "it has no relu");
  expect_refused(situ_nn_gru_cell(3, 4, OPTIONS(.bidirectional = true)), SITU_E_ARG, "nn_gru_cell", "bidirectional");
  expect_refused(situ_nn_rnn_cell(3, 4, OPTIONS(.num_layers = 2)), SITU_E_ARG, "nn_rnn_cell", "num_layers");
}

static void bad_inputs(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, OPTIONS(HERE)), *plain = situ_nn_linear(3, 4, NULL);
  situ_tensor *x = normal(SITU_F32, SITU_SHAPE(5, 2, 3)), *state_of_two = normal(SITU_F32, SITU_SHAPE(1, 2, 4));
  expect_refused(situ_nn_forward(m, normal(SITU_F32, SITU_SHAPE(3))), SITU_E_SHAPE, "nn_lstm", "3 dimensions");
  expect_refused(situ_nn_forward(m, normal(SITU_F32, SITU_SHAPE(5, 2, 4))), SITU_E_SHAPE, "nn_lstm", "input_size, 3");
  expect_refused(situ_nn_forward(m, normal(SITU_F32, SITU_SHAPE(0, 2, 3))), SITU_E_SHAPE, "nn_lstm", "no time steps");
  situ_nn_hx half = { .h = state_of_two };
  expect_refused(situ_nn_recur(m, x, &half), SITU_E_ARG, "nn_lstm", "both states");
  assert_ptr_equal(half.h, state_of_two);
  situ_nn_hx wrong = { .h = state_of_two, .c = normal(SITU_F32, SITU_SHAPE(1, 3, 4)) };
  expect_refused(situ_nn_recur(m, x, &wrong), SITU_E_SHAPE, "nn_lstm", "c is [1, 3, 4], must be [1, 2, 4]");
  expect_refused(situ_nn_recur(plain, x, &wrong), SITU_E_ARG, "nn_recur", "Linear is not a recurrent layer");
  situ_tensor *gates = normal(SITU_F32, SITU_SHAPE(5, 2, 8)), *h = normal(SITU_F32, SITU_SHAPE(2, 2));
  expect_refused(situ_lstm_layer(gates, normal(SITU_F32, SITU_SHAPE(8, 3)), NULL, h, h, NULL), SITU_E_SHAPE,
                 "lstm_layer", "weight_hh is [8, 3], must be [8, 2]");
  situ_nn_free(m);
  situ_nn_free(plain);
}

static void printing(void **state) {
  (void)state;
  char text[200];
  situ_nn_module *m = situ_nn_lstm(3, 8,
                                   OPTIONS(.proj_size = 2, .num_layers = 2, .no_bias = true, .batch_first = true,
                                           .dropout = 0.1, .bidirectional = true));
  situ_nn_to_string(m, text, sizeof text);
  assert_string_equal(text, "LSTM(3, 8, proj_size=2, num_layers=2, bias=False, batch_first=True, dropout=0.1, "
                            "bidirectional=True)");
  situ_nn_free(m);
  m = situ_nn_rnn_cell(3, 8, OPTIONS(.relu = true));
  situ_nn_to_string(m, text, sizeof text);
  assert_string_equal(text, "RNNCell(3, 8, nonlinearity=relu)");
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(gradients),
                                      TEST(a_sequence_in_two_parts),
                                      TEST(cells_are_steps_of_layers),
                                      TEST(inference_gives_the_same_in_less_memory),
                                      TEST(trees),
                                      TEST(dropout_is_between_layers),
                                      TEST(bad_options),
                                      TEST(bad_inputs),
                                      TEST(printing) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
