/* situ_export_dynamic: at sizes that the runs have not seen, the program, the .pt2 file and the ONNX model give what the
   module gives; what no expression of the sizes gives is refused. SITU_EXPORT_DIR keeps the files, which
   tools/exchange/check_export.py runs in PyTorch at these sizes.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"
#include "situ/situ.h"
#include "support/options.h"

enum { CALLS = 3, SIZES = 3 };

static int open_no_grad(void **state) {
  static situ_scope inner; /* ends with the outer one */
  (void)open_scope(state);
  situ_scope_begin_no_grad(&inner);
  situ_manual_seed(7);
  return 0;
}

/* ---- modules ---- */

typedef situ_tensor *(*function)(situ_tensor *x);
typedef struct made {
  situ_nn_module base;
  function run;
} made;
static situ_tensor *made_forward(situ_nn_module *self, situ_tensor *x) { return ((made *)self)->run(x); }
static const situ_nn_type made_type = { .name = "Made", .size = sizeof(made), .forward = made_forward };
static situ_nn_module *make(function run) {
  made *m = situ_nn_alloc(&made_type);
  if (m) m->run = run;
  return situ_nn_done(m);
}

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 3, NULL));
}
static situ_nn_module *cnn(void) {
  const situ_nn_conv_options padded = { .padding = SITU_DIMS(1) }, strided = { .groups = 4, .stride = SITU_DIMS(2) };
  return situ_nn_sequential(situ_nn_conv2d(3, 4, SITU_DIMS(3), &padded), situ_nn_batch_norm2d(4, NULL), situ_nn_relu(),
                            situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_conv2d(4, 4, SITU_DIMS(3), &strided),
                            situ_nn_adaptive_avg_pool2d(SITU_DIMS(1)), situ_nn_flatten(1, -1),
                            situ_nn_linear(4, 2, NULL));
}
static situ_nn_module *memory(void) {
  return situ_nn_lstm(6, 4, &(situ_nn_rnn_options){ .batch_first = true, .bidirectional = true });
}
static situ_nn_module *encoder(void) {
  const situ_nn_transformer_options o =
      OPTIONS_OF(situ_nn_transformer, with.dim_feedforward = 8, with.batch_first = true);
  return situ_nn_transformer_encoder_layer(6, 2, &o);
}
/* Places, a mask and a state, all made in forward. */
static situ_tensor *tensors_made(situ_tensor *x) {
  const int64_t batch = situ_size(x, 0), length = situ_size(x, 1);
  situ_tensor *places = situ_arange(0, (double)length, 1, NULL),
              *mask = situ_tril(situ_ones(SITU_SHAPE(length, length), NULL), 0);
  x = situ_add(x, situ_unsqueeze(places, 1));
  x = situ_matmul(situ_expand(mask, SITU_SHAPE(batch, length, length)), x);
  situ_tensor *both[] = { x, situ_full(SITU_SHAPE(batch, 2, 6), 0.5, NULL) };
  return situ_reshape(situ_cat(both, 2, 1), SITU_SHAPE(batch * (length + 2), 6));
}
/* Sums of two sizes, halves and products. */
static situ_tensor *sizes_mixed(situ_tensor *x) {
  const int64_t batch = situ_size(x, 0), length = situ_size(x, 1);
  situ_tensor *half = situ_narrow(x, 1, 0, (length + 1) / 2), *flat = situ_reshape(x, SITU_SHAPE(batch * length, 6));
  situ_tensor *rows[] = { flat, situ_zeros(SITU_SHAPE(3 * batch + length - 1, 6), NULL),
                          situ_reshape(half, SITU_SHAPE(-1, 6)) };
  return situ_mul_scalar(situ_cat(rows, 3, 0), 2);
}
/* An op that is two calls, of which the last alone has its shape. */
static situ_tensor *mean_square(situ_tensor *x) { return situ_mse_loss(x, situ_mul_scalar(x, 3), SITU_REDUCTION_MEAN); }
/* Halved twice, and enlarged again: sizes are multiples of 4. */
static situ_tensor *halved(situ_tensor *x) {
  return situ_add(situ_pixel_shuffle(situ_relu(situ_pixel_unshuffle(x, 4)), 4), x);
}
static situ_nn_module *make_halved(void) { return make(halved); }
static situ_nn_module *make_mean_square(void) { return make(mean_square); }
static situ_nn_module *make_tensors_made(void) { return make(tensors_made); }
static situ_nn_module *make_sizes_mixed(void) { return make(sizes_mixed); }

/* ---- the table ---- */

static const struct row {
  const char *name;
  situ_nn_module *(*make)(void);
  situ_shape shape; /* of the example */
  int count;
  situ_export_dim dim[SIZES];
} table[] = {
  { "dynamic_mlp", mlp, { 2, { 3, 6 } }, 1, { { .name = "batch", .most = 64 } } },
  { "dynamic_cnn", cnn, { 4, { 1, 3, 12, 12 } }, 1, { { .name = "batch" } } },
  { "dynamic_images",
    cnn,
    { 4, { 2, 3, 12, 16 } },
    3,
    { { .name = "batch" }, { .dim = -2, .name = "height", .least = 8 }, { .dim = -1, .name = "width", .least = 8 } } },
  { "dynamic_halved",
    make_halved,
    { 4, { 2, 3, 8, 12 } },
    3,
    { { .name = "batch" },
      { .dim = 2, .name = "height", .multiple = 4 },
      { .dim = 3, .name = "width", .multiple = 4 } } },
  { "dynamic_lstm", memory, { 3, { 2, 5, 6 } }, 2, { { .name = "batch" }, { .dim = 1, .name = "unit length" } } },
  { "dynamic_encoder", encoder, { 3, { 2, 5, 6 } }, 2, { { .name = "batch" }, { .dim = 1, .name = "length" } } },
  { "dynamic_made", make_tensors_made, { 3, { 2, 5, 6 } }, 2, { { .name = "batch" }, { .dim = 1, .name = "length" } } },
  { "dynamic_loss", make_mean_square, { 2, { 5, 6 } }, 1, { { .name = "batch" } } },
  { "dynamic_mixed", make_sizes_mixed, { 3, { 2, 5, 6 } }, 2, { { .name = "batch" }, { .dim = 1, .name = "length" } } },
};

/* Sizes that no run has. */
static situ_tensor *input_of(const struct row *r, int call) {
  static const int64_t size[CALLS][SIZES] = { { 1, 9, 8 }, { 41, 30, 33 }, { 19, 64, 27 } };
  situ_shape shape = r->shape;
  for (int i = 0; i < r->count; i++) {
    const int dim = r->dim[i].dim < 0 ? r->dim[i].dim + shape.ndim : r->dim[i].dim;
    shape.dim[dim] = size[call][i] * (r->dim[i].multiple ? r->dim[i].multiple : 1);
  }
  return situ_randn(shape, NULL);
}

/* The first result of a call; it outlives the call's tree. */
static situ_tensor *result_of(situ_nn_module *m, situ_tensor *x) {
  situ_tree *in = SITU_TREE(x), *out = situ_nn_call(m, in);
  const situ_tree *leaf = out;
  while (leaf && situ_tree_kind_of(leaf) != SITU_TREE_TENSOR) leaf = situ_tree_at(leaf, 0);
  situ_tensor *y = leaf ? situ_detach(situ_tree_value(leaf)) : NULL;
  situ_tree_free(out);
  situ_tree_free(in);
  return y;
}

static void expect_close(const struct row *r, const char *what, situ_tensor *a, situ_tensor *b, double tolerance) {
  bool close = false;
  if (!a || !b || situ_allclose(a, b, tolerance, tolerance, false, &close) != SITU_OK)
    fail_msg("%s, %s: %s", r->name, what, situ_error_message());
  if (!close) fail_msg("%s, %s: other values", r->name, what);
}

static void keep_values(const struct row *r, const char *directory, int call, situ_tensor *x, situ_tensor *y) {
  char path[512];
  (void)snprintf(path, sizeof path, "%s/%s.%d.safetensors", directory, r->name, call);
  situ_tree *all = situ_tree_put(situ_tree_dict(), "in0", situ_tree_tensor(x));
  all = situ_tree_put(all, "out", situ_tree_tensor(situ_contiguous(y)));
  assert_int_equal(situ_save(path, all, NULL), SITU_OK);
  situ_tree_free(all);
}

static void follows(const struct row *r) {
  const char *directory = getenv("SITU_EXPORT_DIR");
  char pt2[512], onnx[512];
  (void)snprintf(pt2, sizeof pt2, "%s/%s.pt2", directory ? directory : ".", r->name);
  (void)snprintf(onnx, sizeof onnx, "%s/%s.onnx", directory ? directory : ".", r->name);
  situ_nn_module *m = situ_nn_eval(r->make());
  situ_tree *inputs = SITU_TREE(situ_zeros(r->shape, NULL));
  situ_nn_module *program = situ_export_dynamic(m, inputs, r->dim, r->count);
  situ_tree_free(inputs);
  if (!program || situ_export_save(program, pt2) != SITU_OK || situ_onnx_export(program, onnx, NULL) != SITU_OK)
    fail_msg("%s: %s", r->name, situ_error_message());
  situ_nn_module *file = situ_export_load(pt2, NULL), *model = situ_export_load(onnx, NULL);
  if (!file || !model) fail_msg("%s: %s", r->name, situ_error_message());
  for (int call = 0; call < CALLS; call++) {
    situ_tensor *x = input_of(r, call), *y = result_of(m, x);
    expect_close(r, "the program", result_of(program, x), y, 0);
    expect_close(r, "the file", result_of(file, x), y, 0);
    expect_close(r, "ONNX", result_of(model, x), y, 1e-5);
    if (directory) keep_values(r, directory, call, x, y);
  }
  situ_nn_free(model);
  situ_nn_free(file);
  situ_nn_free(program);
  situ_nn_free(m);
}

static void programs_take_other_sizes(void **state) {
  (void)state;
  situ_scope step;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    situ_scope_begin_no_grad(&step);
    follows(&table[i]);
    assert_int_equal(situ_scope_end(&step), SITU_OK);
  }
}

/* The names and ranges are in the file, and sizes out of them are refused. */
static void files_have_the_ranges(void **state) {
  (void)state;
  situ_export_input in;
  const situ_export_dim dim = { .name = "batch", .least = 3, .most = 8 };
  situ_nn_module *m = mlp();
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(4, 6), NULL));
  situ_nn_module *program = situ_export_dynamic(m, inputs, &dim, 1);
  assert_non_null(program);
  assert_int_equal(situ_export_save(program, "range.pt2"), SITU_OK);
  situ_nn_module *file = situ_export_load("range.pt2", NULL);
  assert_true(file && situ_export_input_at(file, 0, &in));
  assert_int_equal(in.size[0].size, -1);
  assert_string_equal(in.size[0].symbol, "batch");
  assert_int_equal(in.size[0].least, 3);
  assert_int_equal(in.size[0].most, 8);
  assert_int_equal(in.size[1].size, 6);
  assert_non_null(result_of(file, situ_zeros(SITU_SHAPE(8, 6), NULL)));
  assert_null(result_of(file, situ_zeros(SITU_SHAPE(9, 6), NULL)));
  assert_non_null(strstr(situ_error_message(), "batch"));
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(file);
  situ_nn_free(program);
  situ_nn_free(m);
}

/* So are multiples. */
static void files_have_the_multiples(void **state) {
  (void)state;
  situ_export_input in;
  const situ_export_dim dim = { .dim = 2, .name = "height", .least = 6, .most = 90, .multiple = 4 };
  situ_nn_module *m = make(halved);
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(1, 1, 12, 8), NULL));
  situ_nn_module *program = situ_export_dynamic(m, inputs, &dim, 1);
  assert_true(program && situ_export_save(program, "multiple.pt2") == SITU_OK);
  situ_nn_module *file = situ_export_load("multiple.pt2", NULL);
  assert_true(file && situ_export_input_at(file, 0, &in));
  assert_string_equal(in.size[2].symbol, "height");
  assert_int_equal(in.size[2].multiple, 4);
  assert_int_equal(in.size[2].most, 88);
  assert_non_null(result_of(file, situ_zeros(SITU_SHAPE(1, 1, 88, 8), NULL)));
  assert_null(result_of(file, situ_zeros(SITU_SHAPE(1, 1, 86, 8), NULL)));
  assert_non_null(strstr(situ_error_message(), "a multiple of 4"));
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(file);
  situ_nn_free(program);
  situ_nn_free(m);
}

/* ---- refusals ---- */

static situ_tensor *chooses(situ_tensor *x) { return situ_size(x, 0) > 40 ? situ_relu(x) : situ_tanh(x); }
static situ_tensor *divides(situ_tensor *x) { return situ_mul_scalar(x, 1. / (double)situ_size(x, 0)); }
static situ_tensor *squares(situ_tensor *x) {
  const int64_t n = situ_size(x, 0);
  return situ_mul(x, situ_full(SITU_SCALAR, (double)(n % 3), NULL));
}
static situ_tensor *rests(situ_tensor *x) { return situ_narrow(x, 0, 0, situ_size(x, 0) % 5); }
static situ_tensor *given(situ_tensor *x) { return x; }
static situ_tensor *fixed(situ_tensor *x) { return situ_reshape(x, SITU_SHAPE(6, 5)); }

static void is_refused(function run, const situ_export_dim *dims, int count, situ_status status, const char *first,
                       const char *second) {
  situ_nn_module *m = make(run);
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(5, 6), NULL));
  assert_null(situ_export_dynamic(m, inputs, dims, count));
  if (situ_error() != status || !strstr(situ_error_message(), first) || !strstr(situ_error_message(), second))
    fail_msg("not '%s' and '%s': %s", first, second, situ_error_message());
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(m);
}

static void what_no_expression_gives_is_refused(void **state) {
  (void)state;
  const situ_export_dim batch = { .name = "batch" };
  is_refused(chooses, &batch, 1, SITU_E_UNSUPPORTED, "call 0 is tanh.default at batch = 5", "relu.default at batch = ");
  is_refused(divides, &batch, 1, SITU_E_UNSUPPORTED, "call 0: mul.Scalar", "a number that is 0.2");
  is_refused(squares, &batch, 1, SITU_E_UNSUPPORTED, "makes a tensor (f32, of 0 dimensions)",
             "is 2, 0 and 1, which no sum");
  is_refused(rests, &batch, 1, SITU_E_UNSUPPORTED, "slice.Tensor", "no sum, product or quotient");
  is_refused(fixed, &batch, 1, SITU_E_SHAPE, "forward fails at batch = 6", "reshape");
}

static void wrong_dims_are_refused(void **state) {
  (void)state;
  const situ_export_dim none = { .input = "ids", .name = "batch" }, third = { .dim = 2, .name = "batch" },
                        unnamed = { .dim = 0 }, narrow = { .name = "batch", .most = 4 },
                        odd = { .name = "batch", .multiple = 2 },
                        twice[] = { { .name = "n" }, { .dim = 1, .name = "n" } },
                        again[] = { { .name = "n" }, { .dim = -2, .name = "m" } },
                        one = { .name = "n", .least = 5, .most = 5 };
  is_refused(chooses, &none, 1, SITU_E_ARG, "no dimension 0 of 'ids'", "inputs");
  is_refused(chooses, &third, 1, SITU_E_ARG, "no dimension 2", "inputs");
  is_refused(chooses, &unnamed, 1, SITU_E_UNSUPPORTED, "at size_0_0 = 5", "other calls");
  is_refused(chooses, &narrow, 1, SITU_E_ARG, "'batch' is 5 in inputs", "1 to 4");
  is_refused(chooses, &odd, 1, SITU_E_ARG, "'batch' is 5 in inputs", "a multiple of 2");
  is_refused(chooses, twice, 2, SITU_E_ARG, "two dimensions named 'n'", "sizes");
  is_refused(chooses, again, 2, SITU_E_ARG, "dimension -2 of 'the first'", "given twice");
  is_refused(given, &one, 1, SITU_E_ARG, "'n' has one size from 2 on, 5", "leave it out");
  const situ_export_dim far = { .name = "n", .multiple = INT64_C(1) << 61 };
  situ_nn_module *m = make(given);
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(0, 0), NULL));
  assert_null(situ_export_dynamic(m, inputs, &far, 1));
  assert_int_equal(situ_error(), SITU_E_ARG);
  situ_error_clear();
  situ_tree_free(inputs);
  situ_nn_free(m);
}

/* Names that are the same as identifiers get numbers that no other name has; a program without calls is one, too. */
static void names_are_kept_apart(void **state) {
  (void)state;
  situ_export_input in;
  const situ_export_dim dims[] = { { .name = "a_b_2" }, { .dim = 1, .name = "a.b" }, { .dim = 2, .name = "a_b" } };
  situ_nn_module *m = make(given);
  situ_tree *inputs = SITU_TREE(situ_zeros(SITU_SHAPE(3, 4, 5), NULL));
  situ_nn_module *program = situ_export_dynamic(m, inputs, dims, 3);
  assert_true(program && situ_export_input_at(program, 0, &in));
  assert_string_equal(in.size[0].symbol, "a_b_2");
  assert_string_equal(in.size[1].symbol, "a_b");
  assert_string_equal(in.size[2].symbol, "a_b_3");
  situ_tree_free(inputs);
  situ_nn_free(program);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(programs_take_other_sizes, open_no_grad, close_scope),
    cmocka_unit_test_setup_teardown(files_have_the_ranges, open_no_grad, close_scope),
    cmocka_unit_test_setup_teardown(files_have_the_multiples, open_no_grad, close_scope),
    cmocka_unit_test_setup_teardown(what_no_expression_gives_is_refused, open_no_grad, close_scope),
    cmocka_unit_test_setup_teardown(wrong_dims_are_refused, open_no_grad, close_scope),
    cmocka_unit_test_setup_teardown(names_are_kept_apart, open_no_grad, close_scope),
  };
  return cmocka_run_group_tests_name("program/export_dynamic", tests, NULL, NULL);
}
