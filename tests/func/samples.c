/* situ_func_vmap: how it nests, what it does to gradients from inside and outside, writes in place, and what it
   refuses. */
#include <math.h>

#include "situ/func.h"
#include "situ/nn.h"
#include "support/test.h"

#define assert_status(call) assert_int_equal(call, SITU_OK)

static situ_tensor *three_rows(void) { return T64(SITU_SHAPE(3, 2), 1, 2, 3, 4, 5, 6); }

static situ_tensor *weighted(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_sum(situ_mul(in[0], in[1]), NULL);
}

static void dimensions_are_chosen(void **state) {
  (void)state;
  situ_tensor *x = three_rows(), *w = T64(SITU_SHAPE(2), 1, 10), *in[2] = { x, w };
  expect_values(situ_func_vmap(weighted, NULL, 2, in, (int[]){ 0, SITU_FUNC_WHOLE }, 0), SITU_SHAPE(3), 21, 43, 65);
  in[0] = situ_transpose(x, 0, 1);
  expect_values(situ_func_vmap(weighted, NULL, 2, in, (int[]){ -1, SITU_FUNC_WHOLE }, 0), SITU_SHAPE(3), 21, 43, 65);
  in[1] = x;
  expect_values(situ_func_vmap(weighted, NULL, 2, in, (int[]){ 1, 0 }, 0), SITU_SHAPE(3), 5, 25, 61);
}

static situ_tensor *doubled(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_mul_scalar(in[0], 2);
}
static situ_tensor *constant(situ_tensor *const *in, int count, void *payload) {
  (void)in, (void)count;
  return situ_mul_scalar(payload, 2);
}

static void results_go_to_out_dim(void **state) {
  (void)state;
  situ_tensor *x = three_rows();
  expect_values(situ_func_vmap(doubled, NULL, 1, &x, NULL, 1), SITU_SHAPE(2, 3), 2, 6, 10, 4, 8, 12);
  expect_values(situ_func_vmap(constant, T64(SITU_SHAPE(1), 4), 1, &x, NULL, 0), SITU_SHAPE(3, 1), 8, 8, 8);
}

/* all pairs of in[0] and the outer sample */
static situ_tensor *inner(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_add(situ_mul(in[0], payload), payload);
}
static situ_tensor *outer(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  situ_tensor *y = payload;
  return situ_func_vmap(inner, in[0], 1, &y, NULL, 0);
}

static void maps_nest(void **state) {
  (void)state;
  situ_tensor *x = T64(SITU_SHAPE(2), 1, 10), *y = T64(SITU_SHAPE(3), 1, 2, 3);
  expect_values(situ_func_vmap(outer, y, 1, &x, NULL, 0), SITU_SHAPE(2, 3), 2, 3, 4, 20, 30, 40);
}

/* ---- gradients ---- */

static situ_tensor *cubes(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_sum(situ_mul(situ_square(in[0]), in[0]), NULL);
}
static situ_tensor *gradient_of_cubes(situ_tensor *const *in, int count, void *payload) {
  (void)payload;
  situ_tensor *grad;
  return situ_func_vjp(cubes, NULL, count, in, NULL, false, &grad) ? grad : NULL;
}
static situ_tensor *hessian_of_cubes(situ_tensor *const *in, int count, void *payload) {
  (void)payload;
  return situ_func_hessian(cubes, NULL, count, in, 0);
}

static void each_sample_has_its_gradient(void **state) {
  (void)state;
  situ_tensor *x = three_rows();
  expect_values(situ_func_vmap(gradient_of_cubes, NULL, 1, &x, NULL, 0), SITU_SHAPE(3, 2), 3, 12, 27, 48, 75, 108);
  expect_values(situ_func_vmap(hessian_of_cubes, NULL, 1, &x, NULL, 0), SITU_SHAPE(3, 2, 2), 6, 0, 0, 12, 18, 0, 0, 24,
                30, 0, 0, 36);
  assert_null(situ_grad(x));
}

static void a_map_can_be_differentiated(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(three_rows(), true), *w = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 10), true);
  situ_tensor *in[2] = { x, w }, *y = situ_func_vmap(weighted, NULL, 2, in, (int[]){ 0, SITU_FUNC_WHOLE }, 0);
  assert_status(situ_backward(situ_sum(situ_mul(y, T64(SITU_SHAPE(3), 1, 2, 3)), NULL), NULL));
  expect_values(situ_grad(x), SITU_SHAPE(3, 2), 1, 10, 2, 20, 3, 30);
  expect_values(situ_grad(w), SITU_SHAPE(2), 1 + 6 + 15, 2 + 8 + 18);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_false(situ_requires_grad(situ_func_vmap(weighted, NULL, 2, in, (int[]){ 0, SITU_FUNC_WHOLE }, 0)));
  assert_status(situ_scope_end(&s));
}

/* ---- gradients of a loss by parameters, for each sample ---- */

typedef struct network {
  situ_nn_module *module;
  situ_tensor *parameter[16];
  int count;
} network;

static situ_status loss_gradients(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload) {
  const network *n = payload;
  (void)count;
  situ_tensor *y = situ_nn_forward(n->module, situ_unsqueeze(in[0], 0));
  situ_tensor *loss = situ_mean(situ_square(situ_sub(situ_reshape(y, SITU_SHAPE(-1)), in[1])), NULL);
  return loss ? situ_autograd_grad(loss, outs, n->parameter, out, NULL) : situ_error();
}

static void check_network(situ_nn_module *module, situ_tensor *inputs) {
  enum { SAMPLES = 4, WIDTH = 3 };
  network n = { .module = module };
  situ_tree *parameters = situ_nn_parameters(module);
  n.count = (int)situ_tree_count(parameters);
  for (int i = 0; i < n.count; i++) n.parameter[i] = situ_tree_tensor_at(parameters, i);
  situ_tensor *in[2] = { inputs, situ_to_dtype(test_random(SITU_SHAPE(SAMPLES, WIDTH), -1, 1, false), SITU_F32) },
              *all[16], *one[16];
  assert_status(situ_func_vmap_many(loss_gradients, &n, 2, in, NULL, 0, n.count, all));
  assert_false(situ_requires_grad(all[0]));
  assert_null(situ_mul(all[0], n.parameter[0]));
  expect_error(SITU_E_UNSUPPORTED, "mul", "create_graph");
  for (int k = 0; k < SAMPLES; k++) {
    situ_tensor *x[2] = { situ_select(in[0], 0, k), situ_select(in[1], 0, k) };
    assert_status(loss_gradients(x, 2, one, n.count, &n));
    for (int i = 0; i < n.count; i++) {
      double difference;
      one[i] = situ_detach(one[i]);
      assert_status(
          situ_item(situ_amax(situ_abs(situ_sub(situ_select(situ_detach(all[i]), 0, k), one[i])), NULL), &difference));
      assert_true(difference < 1e-5);
      assert_status(situ_item(situ_amax(situ_abs(one[i]), NULL), &difference));
      assert_true(difference > 0);
    }
  }
  situ_tree_free(parameters);
  situ_nn_free(module);
}

static void gradients_of_modules_for_each_sample(void **state) {
  (void)state;
  const situ_nn_conv_options conv = { .device = test_device() };
  const situ_nn_norm_options norm = OPTIONS_OF(situ_nn_norm, with.device = test_device());
  const situ_nn_linear_options linear = { .device = test_device() };
  const situ_nn_embedding_options table = OPTIONS_OF(situ_nn_embedding, with.device = test_device());
  situ_tensor *image = situ_to_dtype(test_random(SITU_SHAPE(4, 2, 5, 5), -1, 1, false), SITU_F32);
  check_network(situ_nn_sequential(situ_nn_conv2d(2, 4, SITU_SHAPE(3), &conv), situ_nn_group_norm(2, 4, &norm),
                                   situ_nn_relu(), situ_nn_flatten(1, -1), situ_nn_linear(36, 3, &linear)),
                image);
  situ_tensor *words = situ_to_dtype(test_random(SITU_SHAPE(4, 6), 0, 9, false), SITU_I64);
  check_network(situ_nn_sequential(situ_nn_embedding(9, 5, &table), situ_nn_layer_norm(SITU_SHAPE(5), &norm),
                                   situ_nn_gelu(), situ_nn_flatten(1, -1), situ_nn_linear(30, 3, &linear)),
                words);
}

/* ---- writes in place ---- */

static situ_tensor *accumulates(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *sum = situ_zeros(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64, .device = test_device() }),
              *early = situ_narrow(sum, 0, 0, 1);
  if (!situ_add_(sum, in[0]) || !situ_mul_(situ_narrow(sum, 0, 1, 1), in[1])) return NULL;
  return situ_cat((situ_tensor *[]){ sum, early }, 2, 0);
}
static situ_tensor *writes_outside(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_add_(payload, in[0]);
}

/* One part is the same for all samples, and the other is the sample's. */
static situ_tensor *written_in_parts(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_tensor *t = situ_empty(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  if (!situ_fill_(situ_narrow(t, 0, 0, 2), 7) || !situ_copy_(situ_narrow(t, 0, 2, 2), in[0])) return NULL;
  return situ_add_scalar(t, 1);
}

static void parts_of_samples_are_written(void **state) {
  (void)state;
  situ_tensor *x = three_rows();
  expect_values(situ_func_vmap(written_in_parts, NULL, 1, &x, NULL, 0), SITU_SHAPE(3, 4), 8, 8, 2, 3, 8, 8, 4, 5, 8, 8,
                6, 7);
}

static void writes_in_place(void **state) {
  (void)state;
  situ_tensor *x = three_rows(), *in[2] = { x, T64(SITU_SCALAR, 10) };
  expect_values(situ_func_vmap(accumulates, NULL, 2, in, (int[]){ 0, SITU_FUNC_WHOLE }, 0), SITU_SHAPE(3, 3), 1, 20, 1,
                3, 40, 3, 5, 60, 5);
  situ_tensor *shared = T64(SITU_SHAPE(2), 7, 8);
  assert_null(situ_func_vmap(writes_outside, shared, 1, &x, NULL, 0));
  expect_error(SITU_E_UNSUPPORTED, "add_", "is the same for all samples");
  expect_values(shared, SITU_SHAPE(2), 7, 8);
}

/* ---- what is refused ---- */

static situ_tensor *reads(situ_tensor *const *in, int count, void *payload) {
  double value;
  (void)count, (void)payload;
  return situ_item(situ_sum(in[0], NULL), &value) == SITU_OK ? in[0] : NULL;
}
static situ_tensor *goes_backward(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_backward(situ_sum(situ_mul(in[0], payload), NULL), NULL) == SITU_OK ? in[0] : NULL;
}
static situ_tensor *moves(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_data_ptr(in[0]) ? in[0] : NULL;
}
static situ_tensor *left;
static situ_tensor *keeps(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  situ_set(&left, situ_mul_scalar(in[0], 2));
  return in[0];
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = three_rows(), *w = situ_requires_grad_(T64(SITU_SHAPE(2), 1, 2), true);
  assert_null(situ_func_vmap(reads, NULL, 1, &x, NULL, 0));
  expect_error(SITU_E_UNSUPPORTED, "item", "stands for one sample of a situ_func_vmap");
  assert_null(situ_func_vmap(moves, NULL, 1, &x, NULL, 0));
  situ_error_clear();
  assert_null(situ_func_vmap(goes_backward, w, 1, &x, NULL, 0));
  expect_error(SITU_E_UNSUPPORTED, "backward", "its gradient is not");
  assert_null(situ_grad(w));
  situ_tensor *in[2] = { x, T64(SITU_SHAPE(2), 1, 2) };
  assert_null(situ_func_vmap(weighted, NULL, 2, in, NULL, 0));
  expect_error(SITU_E_SHAPE, "func_vmap", "in[0] has 3 samples, and in[1] has 2");
  in[0] = situ_zeros(SITU_SHAPE(0, 2), &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  assert_null(situ_func_vmap(weighted, NULL, 2, in, NULL, 0));
  expect_error(SITU_E_SHAPE, "func_vmap", "in[0] has 0 samples, and in[1] has 2");
  assert_null(situ_func_vmap(weighted, NULL, 0, in, NULL, 0));
  expect_error(SITU_E_ARG, "func_vmap", "0 operands and 1 results");
  assert_null(situ_func_vmap(weighted, NULL, 2, in, (int[]){ SITU_FUNC_WHOLE, SITU_FUNC_WHOLE }, 0));
  expect_error(SITU_E_ARG, "func_vmap", "no operand has samples");
}

static situ_tensor *normalizes(situ_tensor *const *in, int count, void *payload) {
  (void)count;
  return situ_nn_forward(payload, in[0]);
}

static void running_statistics_are_not_written(void **state) {
  (void)state;
  const situ_nn_batch_norm_options here = OPTIONS_OF(situ_nn_batch_norm, with.device = test_device());
  situ_nn_module *norm = situ_nn_batch_norm1d(2, &here);
  situ_tensor *x = situ_to_dtype(test_random(SITU_SHAPE(3, 4, 2), -1, 1, false), SITU_F32);
  situ_tree *buffers = situ_nn_buffers(norm);
  assert_null(situ_func_vmap(normalizes, norm, 1, &x, NULL, 0));
  expect_error(SITU_E_UNSUPPORTED, "batch_norm", "running statistics to one buffer");
  expect_exact(situ_tree_get(buffers, "running_mean"), SITU_SHAPE(2), 0, 0);
  situ_tree_free(buffers);
  situ_nn_eval(norm);
  situ_tensor *y = situ_func_vmap(normalizes, norm, 1, &x, NULL, 0);
  expect_same(situ_detach(situ_select(y, 0, 1)), situ_detach(situ_nn_forward(norm, situ_select(x, 0, 1))), 0, 0);
  situ_nn_free(norm);
}

/* A sample that outlives the call has no values: it is on meta. */
static void a_sample_ends_with_its_map(void **state) {
  (void)state;
  double value;
  situ_tensor *x = three_rows();
  assert_non_null(situ_func_vmap(keeps, NULL, 1, &x, NULL, 0));
  assert_int_equal(situ_device_of(left).kind, SITU_META);
  assert_int_equal(situ_item(situ_sum(left, NULL), &value), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "item", "on meta");
  situ_drop(&left);
}

static situ_tensor *noise(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_dropout(in[0], 0.5, true, NULL);
}

static void samples_draw_numbers_of_their_own(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 64), &(situ_options){ .device = test_device() }),
              *y = situ_func_vmap(noise, NULL, 1, &x, NULL, 0);
  double same;
  assert_status(situ_item(situ_all(situ_eq(situ_select(y, 0, 0), situ_select(y, 0, 1)), NULL), &same));
  assert_true(same == 0);
}

/* ---- in forward mode; tests/func/vmap.c has every op ---- */

static situ_tensor *pair(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_add(situ_mul(in[0], in[1]), situ_square(in[0]));
}
static situ_tensor *pairs_of_one(situ_tensor *const *in, int count, void *payload) {
  (void)payload;
  return situ_func_vmap(pair, NULL, count, (situ_tensor *[]){ in[1], in[0] }, (int[]){ 0, SITU_FUNC_WHOLE }, 0);
}
static situ_tensor *all_pairs(situ_tensor *const *in, int count, void *payload) {
  (void)payload;
  return situ_func_vmap(pairs_of_one, NULL, count, in, (int[]){ 0, SITU_FUNC_WHOLE }, 1);
}
static situ_tensor *all_pairs_by_shape(situ_tensor *const *in, int count, void *payload) {
  situ_tensor *y = situ_unsqueeze(in[1], 1);
  return pair((situ_tensor *[]){ y, in[0] }, count, payload);
}
static situ_tensor *mapped_writes(situ_tensor *const *in, int count, void *payload) {
  return situ_func_vmap(accumulates, payload, count, in, (int[]){ 1, SITU_FUNC_WHOLE }, -1);
}
static situ_tensor *writes_by_row(situ_tensor *const *in, int count, void *payload) {
  situ_tensor *row[3];
  for (int k = 0; k < 3; k++)
    row[k] = accumulates((situ_tensor *[]){ situ_select(in[0], 1, k), in[1] }, count, payload);
  return situ_stack(row, 3, -1);
}

/* The tangent of a map is that of the same function without one; so is what is differentiated of it. */
static void a_map_has_tangents(void **state) {
  (void)state;
  static const struct {
    situ_func map, plain;
    situ_shape shape[2];
  } row[] = { { all_pairs, all_pairs_by_shape, { { 1, { 2 } }, { 1, { 3 } } } },
              { mapped_writes, writes_by_row, { { 2, { 2, 3 } }, { 1, { 1 } } } } };
  for (size_t r = 0; r < sizeof row / sizeof *row; r++)
    for (unsigned along = 1; along < 4; along++) {
      situ_tensor *in[2], *t[2], *y[2], *tangent[2], *grad[2];
      for (int i = 0; i < 2; i++) {
        in[i] = test_random(row[r].shape[i], 0.5, 1.5, r == 0);
        t[i] = along >> i & 1 ? test_random(row[r].shape[i], 0.5, 1.5, false) : NULL;
      }
      for (int k = 0; k < 2; k++) {
        tangent[k] = NULL;
        y[k] = situ_func_jvp(k ? row[r].plain : row[r].map, NULL, 2, in, t, &tangent[k]);
        if (!y[k]) fail_msg("%s", situ_error_message());
        if (r == 0) assert_status(situ_autograd_grad(situ_sum(situ_square(tangent[k]), NULL), 1, in, &grad[k], NULL));
      }
      expect_same(y[0], y[1], 1e-12, 0);
      expect_same(tangent[0], tangent[1], 1e-12, 0);
      if (r == 0 && grad[1]) expect_same(grad[0], grad[1], 1e-12, 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(dimensions_are_chosen),
                                      TEST(results_go_to_out_dim),
                                      TEST(maps_nest),
                                      TEST(each_sample_has_its_gradient),
                                      TEST(a_map_can_be_differentiated),
                                      TEST(gradients_of_modules_for_each_sample),
                                      TEST(writes_in_place),
                                      TEST(parts_of_samples_are_written),
                                      TEST(refusals),
                                      TEST(running_statistics_are_not_written),
                                      TEST(a_sample_ends_with_its_map),
                                      TEST(samples_draw_numbers_of_their_own),
                                      TEST(a_map_has_tangents) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
