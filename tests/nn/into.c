/* Results in tensors that the caller has: values, strides, what overlaps, what is refused. */
#include <string.h>

#include "situ/export.h"
#include "situ/graph.h"
#include "situ/ledger.h"
#include "situ/nn/layers.h"
#include "support/test.h"

static situ_nn_module *net(void) {
  const situ_device d = test_device();
  return situ_nn_sequential(situ_nn_linear(3, 4, &(situ_nn_linear_options){ .device = d }), situ_nn_relu());
}
static situ_tensor *zeros(situ_shape shape) { return situ_zeros(shape, &(situ_options){ .device = test_device() }); }

static void a_tile_of_a_larger_tensor(void **state) {
  (void)state;
  situ_nn_module *m = net();
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 3)), *want = situ_detach(situ_nn_forward(m, x));
  situ_tensor *image = zeros(SITU_SHAPE(6, 5)),
              *tile = situ_transpose(situ_narrow(situ_narrow(image, 0, 1, 4), 1, 2, 2), 0, 1);
  situ_ledger l;
  situ_ledger_begin_none(&l);
  assert_int_equal(situ_nn_forward_into(m, x, tile), SITU_OK);
  assert_int_equal(situ_ledger_end(&l), SITU_OK);
  assert_true(test_same_bits(situ_contiguous(tile), want));
  double sum, all;
  assert_int_equal(situ_item(situ_sum(want, NULL), &sum), SITU_OK);
  assert_int_equal(situ_item(situ_sum(image, NULL), &all), SITU_OK);
  assert_true(sum > 0 && all - sum < 1e-5 && sum - all < 1e-5); /* the rest is as it was */
  assert_false(situ_requires_grad(tile));
  situ_nn_free(m);
}

static void memory_of_the_programs(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  situ_nn_module *m = net();
  float own[8] = { 0 };
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 3)), *want = situ_nn_forward(m, x);
  assert_int_equal(situ_nn_forward_into(m, x, situ_view_host(own, sizeof own, SITU_SHAPE(2, 4), NULL)), SITU_OK);
  assert_memory_equal(own, situ_data_ptr(want), sizeof own);
  situ_nn_free(m);
}

static void a_program_does_the_same(void **state) {
  (void)state;
  situ_nn_module *m = net();
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 3)), *y = zeros(SITU_SHAPE(2, 4));
  situ_tree *in = SITU_TREE(x);
  situ_nn_module *program = situ_export(m, in);
  assert_int_equal(situ_nn_forward_into(program, x, y), SITU_OK);
  assert_true(test_same_bits(y, situ_nn_forward(m, x)));
  assert_int_equal(situ_nn_forward_into(program, x, zeros(SITU_SHAPE(4))), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, "nn_forward_into", "the result is [2, 4]");
  situ_tree_free(in);
  situ_nn_free(program);
  situ_nn_free(m);
}

static void an_input_may_share_the_memory(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_relu(), *same = situ_nn_identity();
  situ_tensor *x = T32(SITU_SHAPE(4), -1, 2, -3, 4);
  assert_int_equal(situ_nn_forward_into(m, x, x), SITU_OK);
  expect_exact(x, SITU_SHAPE(4), 0, 2, 0, 4);
  assert_int_equal(situ_nn_forward_into(same, situ_narrow(x, 0, 0, 3), situ_narrow(x, 0, 1, 3)), SITU_OK);
  expect_exact(x, SITU_SHAPE(4), 0, 0, 2, 0);
  situ_nn_free(same);
  situ_nn_free(m);
}

static void what_does_not_fit(void **state) {
  (void)state;
  const situ_device d = test_device();
  situ_nn_module *m = situ_nn_linear(3, 3, &(situ_nn_linear_options){ .device = d });
  situ_tensor *x = test_random_f32(SITU_SHAPE(3, 3)), *w = situ_nn_get_tensor(m, "weight");
  const char *op = "nn_forward_into";
  assert_int_equal(situ_nn_forward_into(m, x, zeros(SITU_SHAPE(3))), SITU_E_SHAPE);
  expect_error(SITU_E_SHAPE, op, "output is [3], but the result is [3, 3]: pass a tensor of this shape");
  situ_options wide = { .dtype = SITU_F64, .device = d };
  assert_int_equal(situ_nn_forward_into(m, x, situ_zeros(SITU_SHAPE(3, 3), &wide)), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, op, "output is f64, but the result is f32");
  situ_options meta = { .device = situ_dev("meta") };
  assert_int_equal(situ_nn_forward_into(m, x, situ_zeros(SITU_SHAPE(3, 3), &meta)), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, op, "output is on meta, but the result is on");
  assert_int_equal(situ_nn_forward_into(m, x, situ_detach(w)), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, op, "on the memory of a parameter or buffer");
  situ_tensor *shared = situ_expand(zeros(SITU_SHAPE(1, 3)), SITU_SHAPE(3, 3));
  assert_int_equal(situ_nn_forward_into(m, x, shared), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "copy_", "memory");
  assert_int_equal(situ_nn_forward_into(m, x, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, op, "output");
  situ_nn_free(m);
}

static situ_tensor *empty_like(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_empty_like(t, NULL);
}
/* Of a tree of results all fit, or nothing is written. */
static void several_results(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ .device = test_device() });
  situ_tree *in = SITU_TREE(test_random_f32(SITU_SHAPE(5, 2, 3))), *want = situ_nn_call(m, in);
  situ_tree *out = situ_tree_map(want, empty_like, NULL);
  assert_int_equal(situ_nn_call_into(m, in, out), SITU_OK);
  situ_tree *a = situ_tree_flatten(want), *b = situ_tree_flatten(out);
  for (int64_t i = 0; i < situ_tree_count(a); i++)
    assert_true(test_same_bits(situ_tree_tensor_at(a, i), situ_tree_tensor_at(b, i)));
  situ_tree *less = SITU_TREE(situ_tree_tensor_at(b, 0));
  assert_int_equal(situ_nn_call_into(m, in, less), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_call_into", "outputs has 1 tensors, or others than the 3 results");
  situ_tree *const trees[] = { in, want, out, a, b, less };
  for (int i = 0; i < 6; i++) situ_tree_free(trees[i]);
  situ_nn_free(m);
}

static situ_tensor *of_one(situ_tensor *t, void *payload) {
  return situ_reshape(situ_narrow(payload, 0, 0, situ_numel(t)), situ_shape_of(t));
}
/* The second and third one lie between each other. */
static situ_tensor *between(situ_tensor *t, void *payload) {
  situ_tensor *two = payload;
  if (situ_numel(t) != situ_size(two, 0)) return situ_empty_like(t, NULL);
  const bool again = situ_version_of(two) > 1;
  situ_fill_(two, 0);
  return situ_view(situ_select(two, 1, again), situ_shape_of(t));
}

/* Two outputs on one memory: refused where they share a byte, and not where they lie between each other. */
static void outputs_that_overlap(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ .device = test_device() });
  situ_tree *in = SITU_TREE(test_random_f32(SITU_SHAPE(5, 2, 3))), *want = situ_nn_call(m, in);
  situ_tensor *one = zeros(SITU_SHAPE(64));
  situ_tree *out = situ_tree_map(want, of_one, one);
  assert_int_equal(situ_nn_call_into(m, in, out), SITU_E_ALIAS);
  expect_error(SITU_E_ALIAS, "nn_call_into", "share memory, where one would overwrite the other");
  double sum;
  assert_int_equal(situ_item(situ_sum(one, NULL), &sum), SITU_OK);
  assert_true(sum == 0); /* nothing was written */
  situ_tree_free(out);
  out = situ_tree_map(want, between, zeros(SITU_SHAPE(8, 2)));
  assert_int_equal(situ_nn_call_into(m, in, out), SITU_OK);
  situ_tree *a = situ_tree_flatten(want), *b = situ_tree_flatten(out);
  for (int64_t i = 0; i < situ_tree_count(a); i++)
    assert_true(test_same_bits(situ_tree_tensor_at(a, i), situ_contiguous(situ_tree_tensor_at(b, i))));
  situ_tree *const trees[] = { in, want, out, a, b };
  for (int i = 0; i < 5; i++) situ_tree_free(trees[i]);
  situ_nn_free(m);
}

/* On devices whose memory has addresses a captured call has no copy into a tile behind element-wise work. */
static void a_captured_call_writes_the_tile(void **state) {
  (void)state;
  if (test_device().kind == SITU_OPENCL || test_device().kind == SITU_CUDA) skip();
  situ_nn_module *m = situ_nn_sequential(net(), situ_nn_tanh());
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 3)), *image = zeros(SITU_SHAPE(6, 9)), *want = situ_nn_forward(m, x);
  situ_tensor *output[] = { zeros(SITU_SHAPE(2, 4)),
                            situ_transpose(situ_narrow(situ_narrow(image, 0, 1, 4), 1, 2, 2), 0, 1) };
  size_t length[2];
  for (int i = 0; i < 2; i++) {
    assert_int_equal(situ_nn_forward_into(m, x, output[i]), SITU_OK);
    assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
    assert_int_equal(situ_nn_forward_into(m, x, output[i]), SITU_OK);
    situ_graph *g = situ_graph_capture_end();
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    assert_non_null(situ_fill_(output[i], -1));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    assert_int_equal(situ_graph_replay(g), SITU_OK);
    assert_true(test_same_bits(situ_contiguous(output[i]), want));
    length[i] = situ_graph_length(g);
    situ_graph_free(g);
  }
  assert_int_equal(length[1], length[0]);
  situ_nn_free(m);
}

static void a_captured_call_writes_again(void **state) {
  (void)state;
  situ_nn_module *m = net();
  situ_tensor *x = test_random_f32(SITU_SHAPE(2, 3)), *y = zeros(SITU_SHAPE(2, 4));
  assert_int_equal(situ_nn_forward_into(m, x, y), SITU_OK);
  assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  assert_int_equal(situ_nn_forward_into(m, x, y), SITU_OK);
  situ_graph *g = situ_graph_capture_end();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_copy_(x, situ_neg(x));
  assert_int_equal(situ_graph_replay(g), SITU_OK);
  assert_true(test_same_bits(y, situ_nn_forward(m, x)));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_graph_free(g);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(a_tile_of_a_larger_tensor),     TEST(memory_of_the_programs), TEST(a_program_does_the_same),
    TEST(an_input_may_share_the_memory), TEST(what_does_not_fit),      TEST(several_results),
    TEST(a_captured_call_writes_again),  TEST(outputs_that_overlap),   TEST(a_captured_call_writes_the_tile),
  };
  return cmocka_run_group_tests_name("nn/into", tests, NULL, NULL);
}
