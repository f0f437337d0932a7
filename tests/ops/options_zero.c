/* 0 is 0 in options that begin with `size`: the values are PyTorch 2.15's, with each field 0 whose default is not; and
   what is refused: a size of another library, a field without its has_ field.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "situ/func.h"
#include "situ/nn.h"
#include "situ/nn/parametrize.h"
#include "situ/sys/op.h"
#include "support/api/api.h"
#include "support/test.h"

#define R(...) situ_to_dtype(test_random(SITU_SHAPE(__VA_ARGS__), -2, 2, false), SITU_F32)

static const char *zeros[64];
static int zero_count;
static int name_zero(const char *field) {
  assert_true(zero_count < 64);
  zeros[zero_count++] = field;
  return 0;
}
/* Defaults but for one field, which a variable sets to 0, and what else is set. */
#define ZERO(name, field, ...) OPTIONS_AT(name, with.field = name_zero(#name "_defaults." #field), __VA_ARGS__)
#define PLAIN (void)0

static situ_tensor *rows(void) { return T32(SITU_SHAPE(3, 2), 1, 2, 3, 5, 8, 4); }

static void zeros_of_norms(void **state) {
  (void)state;
  situ_tensor *x = rows(), *planes = situ_reshape(x, SITU_SHAPE(1, 2, 3)), *m = T32(SITU_SHAPE(2), 1, 2),
              *v = T32(SITU_SHAPE(2), 4, 0.25);
  expect_values(situ_batch_norm(x, m, v, NULL, NULL, ZERO(situ_batch_norm, eps, PLAIN)), SITU_SHAPE(3, 2), 0, 0, 1, 6,
                3.5, 4);
  expect_values(
      situ_batch_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.training = true, with.eps = 0)),
      SITU_SHAPE(3, 2), -1.0190493, -1.3363062, -0.3396831, 1.069045, 1.3587324, 0.2672612);
  assert_non_null(situ_batch_norm(x, m, v, NULL, NULL, ZERO(situ_batch_norm, momentum, with.training = true)));
  expect_values(
      situ_instance_norm(situ_mul_scalar(planes, 1e-4), NULL, NULL, NULL, NULL, ZERO(situ_instance_norm, eps, PLAIN)),
      SITU_SHAPE(1, 2, 3), -1.2247448, 0, 1.2247448, -0.3922322, 1.372813, -0.9805806);
  assert_non_null(situ_instance_norm(planes, m, v, NULL, NULL, ZERO(situ_instance_norm, momentum, PLAIN)));
  expect_exact(m, SITU_SHAPE(2), 1, 2); /* neither call has moved them */
  expect_exact(v, SITU_SHAPE(2), 4, 0.25);
  situ_tensor *tiny = situ_mul_scalar(x, 1e-4);
  expect_values(situ_layer_norm(tiny, SITU_SHAPE(2), NULL, NULL, 0), SITU_SHAPE(3, 2), -1, 1, -1, 1, 1, -1);
  expect_values(situ_group_norm(tiny, 1, NULL, NULL, 0), SITU_SHAPE(3, 2), -1, 1, -1, 1, 1, -1);
  expect_values(situ_rms_norm(tiny, SITU_SHAPE(2), NULL, 0), SITU_SHAPE(3, 2), 0.6324555, 1.2649111, 0.7276069,
                1.2126782, 1.2649111, 0.6324555);
  expect_values(situ_rms_norm(tiny, SITU_SHAPE(2), NULL, SITU_NONE), SITU_SHAPE(3, 2), 0.2633319, 0.5266637, 0.557847,
                0.9297451, 1.1102448, 0.5551224);
}

static bool has_factorizations(void) { return test_has_lapack() && situ_device_has(test_device(), SITU_VERB_LINALG); }

static void zeros_of_ops(void **state) {
  (void)state;
  situ_tensor *a = T32(SITU_SHAPE(2, 2), 1, 2, 3, 5), *b = T32(SITU_SHAPE(2, 2), 1, 0, 3, 4),
              *c = T32(SITU_SHAPE(2, 2), 0, 2, 4, 5), *classes = TI64(SITU_SHAPE(3), 1, 0, 1),
              *q = T32(SITU_SHAPE(1, 3, 2), 0, 1, 2, 3, 4, 5), *at = TI64(SITU_SHAPE(2), 1, 0);
  expect_values(situ_scaled_dot_product_attention(q, q, q, ZERO(situ_attention, scale, PLAIN)), SITU_SHAPE(1, 3, 2), 2,
                3, 2, 3, 2, 3);
  expect_exact(situ_addmm(situ_full_like(a, NAN, NULL), a, b, ZERO(situ_addmm, beta, PLAIN)), SITU_SHAPE(2, 2), 7, 8,
               18, 20);
  expect_exact(situ_addmm(c, a, b, ZERO(situ_addmm, alpha, PLAIN)), SITU_SHAPE(2, 2), 0, 2, 4, 5);
  expect_values(situ_triplet_margin_loss(a, b, c, ZERO(situ_triplet_margin, p, PLAIN)), SITU_SCALAR, 1);
  situ_tensor *wide = situ_to_dtype(a, SITU_F64);
  expect_close(situ_triplet_margin_loss(wide, wide, situ_to_dtype(c, SITU_F64),
                                        ZERO(situ_triplet_margin, eps, with.margin = 10)),
               SITU_SCALAR, 1e-12, 0, 9);
  expect_refused(situ_triplet_margin_loss(a, b, c, ZERO(situ_triplet_margin, margin, PLAIN)), SITU_E_ARG,
                 "triplet_margin_loss", "margin is 0, must be above 0"); /* as torch */
  expect_values(situ_multi_margin_loss(rows(), classes, ZERO(situ_multi_margin, margin, PLAIN)), SITU_SCALAR, 1);
  expect_refused(situ_multi_margin_loss(rows(), classes, ZERO(situ_multi_margin, p, PLAIN)), SITU_E_ARG,
                 "multi_margin_loss", "p is 0: must be 1 or 2"); /* as torch */
#define W T32(SITU_SHAPE(2, 2), 3, 4, 1, 1)
  situ_tensor *bag = situ_unsqueeze(at, 0);
  expect_exact(situ_embedding(at, W, ZERO(situ_embedding, max_norm, PLAIN)), SITU_SHAPE(2, 2), 0, 0, 0, 0);
  expect_values(situ_embedding(at, W, ZERO(situ_embedding, norm_type, with.max_norm = 1)), SITU_SHAPE(2, 2), 0.5, 0.5,
                1.5, 2);
  expect_exact(situ_embedding_bag(bag, W, ZERO(situ_embedding_bag, max_norm, PLAIN)), SITU_SHAPE(1, 2), 0, 0);
  expect_values(situ_embedding_bag(bag, W, ZERO(situ_embedding_bag, norm_type, with.max_norm = 1)), SITU_SHAPE(1, 2), 1,
                1.25);
  if (!has_factorizations()) return;
  situ_tensor *narrow = T32(SITU_SHAPE(2, 2), 1, 0, 0, 1e-9);
  expect_exact(situ_linalg_matrix_rank(narrow, NULL), SITU_SCALAR, 1);
  expect_exact(situ_linalg_matrix_rank(narrow, ZERO(situ_linalg_tolerance, rtol, PLAIN)), SITU_SCALAR, 2);
  expect_values(situ_linalg_lstsq(narrow, T32(SITU_SHAPE(2, 1), 1, 1), 0, NULL), SITU_SHAPE(2, 1), 1, 1e9);
}

static situ_tensor *cube(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_pow_scalar(in[0], 3);
}
/* The difference at 0 is eps^2, where the gradient is 0; at 1000 it is rounded. */
static void zeros_of_gradcheck(void **state) {
  (void)state;
  situ_tensor *none = situ_requires_grad_(T64(SITU_SHAPE(1), 0), true),
              *large = situ_requires_grad_(T64(SITU_SHAPE(1), 1000), true);
#define CHECKED(x, options, status, text)                                                              \
  do {                                                                                                 \
    assert_int_equal(situ_autograd_gradcheck(cube, NULL, 1, (situ_tensor *[]){ x }, options), status); \
    if (status != SITU_OK) expect_error(status, "autograd_gradcheck", text);                           \
  } while (0)
  CHECKED(none, NULL, SITU_OK, "");
  CHECKED(large, NULL, SITU_OK, "");
  CHECKED(none, ZERO(situ_gradcheck, atol, PLAIN), SITU_E_STATE, "");
  CHECKED(large, ZERO(situ_gradcheck, rtol, PLAIN), SITU_E_STATE, "");
  CHECKED(none, ZERO(situ_gradcheck, eps, PLAIN), SITU_E_ARG, "eps 0"); /* torch: differences of NaN */
}

/* Evaluates, and frees, a module with a weight, unless that is NULL. */
static situ_tensor *value_of(situ_nn_module *m, situ_tensor *weight, situ_tensor *x) {
  assert_non_null(m);
  situ_nn_eval(m);
  if (weight) assert_non_null(situ_copy_(situ_detach(situ_nn_get_tensor(m, "weight")), weight));
  situ_tensor *y = situ_detach(situ_nn_forward(m, x));
  situ_nn_free(m);
  return y;
}
/* Frees a module after a step of training; the statistic of that name. */
static situ_tensor *trained_statistic(situ_nn_module *m, const char *name, situ_tensor *x) {
  assert_non_null(situ_nn_forward(m, x));
  situ_tensor *t = situ_clone(situ_nn_get_tensor(m, name));
  situ_nn_free(m);
  return t;
}

static void zeros_of_layers(void **state) {
  (void)state;
  const situ_device here = test_device();
#define MODULE(name, field, ...) ZERO(name, field, with.device = here, __VA_ARGS__)
  situ_tensor *x = rows(), *planes = situ_reshape(x, SITU_SHAPE(1, 2, 3)), *tiny = situ_mul_scalar(x, 1e-4),
              *at = TI64(SITU_SHAPE(2), 1, 0), *bag = situ_unsqueeze(at, 0);
  expect_close(value_of(situ_nn_batch_norm1d(2, MODULE(situ_nn_batch_norm, eps, PLAIN)), NULL, x), SITU_SHAPE(3, 2), 0,
               0, 1, 2, 3, 5, 8, 4);
  expect_exact(
      trained_statistic(situ_nn_batch_norm1d(2, MODULE(situ_nn_batch_norm, momentum, PLAIN)), "running_mean", x),
      SITU_SHAPE(2), 0, 0);
  expect_values(value_of(situ_nn_instance_norm1d(2, MODULE(situ_nn_instance_norm, eps, PLAIN)), NULL,
                         situ_mul_scalar(planes, 1e-4)),
                SITU_SHAPE(1, 2, 3), -1.2247448, 0, 1.2247448, -0.3922322, 1.372813, -0.9805806);
  expect_exact(trained_statistic(
                   situ_nn_instance_norm1d(2, MODULE(situ_nn_instance_norm, momentum, with.track_running_stats = true)),
                   "running_var", planes),
               SITU_SHAPE(2), 1, 1);
  const situ_nn_norm_options *norm = MODULE(situ_nn_norm, eps, PLAIN);
  expect_values(value_of(situ_nn_layer_norm(SITU_SHAPE(2), norm), NULL, tiny), SITU_SHAPE(3, 2), -1, 1, -1, 1, 1, -1);
  expect_values(value_of(situ_nn_group_norm(1, 2, norm), NULL, tiny), SITU_SHAPE(3, 2), -1, 1, -1, 1, 1, -1);
  expect_values(value_of(situ_nn_rms_norm(SITU_SHAPE(2), norm), NULL, tiny), SITU_SHAPE(3, 2), 0.6324555, 1.2649111,
                0.7276069, 1.2126782, 1.2649111, 0.6324555);
  expect_exact(value_of(situ_nn_embedding(2, 2, MODULE(situ_nn_embedding, max_norm, PLAIN)), W, at), SITU_SHAPE(2, 2),
               0, 0, 0, 0);
  expect_values(value_of(situ_nn_embedding(2, 2, MODULE(situ_nn_embedding, norm_type, with.max_norm = 1)), W, at),
                SITU_SHAPE(2, 2), 0.5, 0.5, 1.5, 2);
  expect_exact(value_of(situ_nn_embedding_bag(2, 2, MODULE(situ_nn_embedding_bag, max_norm, PLAIN)), W, bag),
               SITU_SHAPE(1, 2), 0, 0);
  expect_values(
      value_of(situ_nn_embedding_bag(2, 2, MODULE(situ_nn_embedding_bag, norm_type, with.max_norm = 1)), W, bag),
      SITU_SHAPE(1, 2), 1, 1.25);
}

/* A layer of weight `w` of a 1 x 1 or 2 x 2 matrix, and what is made around it. */
static situ_nn_module *linear_of(situ_tensor *w) {
  situ_nn_module *m = situ_nn_linear(situ_size(w, 1), situ_size(w, 0),
                                     &(situ_nn_linear_options){ .no_bias = true, .device = test_device() });
  assert_non_null(situ_copy_(situ_detach(situ_nn_get_tensor(m, "weight")), w));
  return m;
}

static void zeros_of_wrappers(void **state) {
  (void)state;
  const situ_device here = test_device();
  situ_tensor *eye = T32(SITU_SHAPE(2, 2), 1, 0, 0, 1), *small = T32(SITU_SHAPE(2, 2), 3e-15, 0, 0, 1e-15);
  situ_nn_module *m = linear_of(small);
  assert_ptr_equal(situ_nn_utils_spectral_norm(m, NULL, ZERO(situ_nn_spectral_norm, eps, PLAIN)), m);
  expect_close(value_of(m, NULL, eye), SITU_SHAPE(2, 2), 1e-4, 1e-4, 1, 0, 0, 1.0 / 3);
  m = linear_of(small);
  expect_refused(situ_nn_utils_spectral_norm(m, NULL, ZERO(situ_nn_spectral_norm, n_power_iterations, PLAIN)),
                 SITU_E_ARG, "nn_utils_spectral_norm", "n_power_iterations 0"); /* as torch */
  situ_nn_free(m);
  m = situ_nn_lora(linear_of(eye), ZERO(situ_nn_lora, lora_alpha, PLAIN));
  assert_non_null(situ_fill_(situ_detach(situ_nn_get_tensor(situ_nn_get(m, "lora_B"), "weight")), 1));
  expect_exact(value_of(m, NULL, eye), SITU_SHAPE(2, 2), 1, 0, 0, 1);
  expect_refused(situ_nn_lora(linear_of(eye), ZERO(situ_nn_lora, r, PLAIN)), SITU_E_ARG, "nn_lora",
                 "r 0"); /* as peft */
  m = situ_nn_transformer_encoder_layer(2, 1, MODULE(situ_nn_transformer, dropout, with.dim_feedforward = 3));
  situ_tensor *x = situ_unsqueeze(rows(), 0);
  expect_same(situ_nn_forward(m, x), situ_nn_forward(m, x), 0, 0); /* in training mode */
  situ_nn_free(m);
  m = situ_nn_transformer_encoder_layer(2, 1, MODULE(situ_nn_transformer, dim_feedforward, with.dropout = 0));
  situ_shape first = situ_shape_of(situ_nn_get_tensor(situ_nn_get(m, "linear1"), "weight"));
  assert_true(first.ndim == 2 && first.dim[0] == 0 && first.dim[1] == 2);
  situ_nn_free(m);
  m = situ_nn_transformer_encoder_layer(2, 1, MODULE(situ_nn_transformer, layer_norm_eps, with.dim_feedforward = 3));
  expect_values(situ_nn_forward(situ_nn_get(m, "norm2"), situ_mul_scalar(rows(), 1e-4)), SITU_SHAPE(3, 2), -1, 1, -1, 1,
                1, -1);
  situ_nn_free(m);
}

/* Every field with a default that is not 0, of every struct with a function of defaults, is in a test above; those of
   optimisers, schedules, averages and the scaler are in tests/optim. */
static void every_zero_is_tested(void **state) {
  (void)state;
  const api_function *list;
  const size_t count = api_functions_list(&list);
  int structs = 0;
  for (size_t i = 0; i < count; i++) {
    const api_struct *s = strstr(list[i].name, "_defaults") ? api_find_struct(list[i].returns) : NULL;
    const char *const others[] = { "situ__optim",  "situ_optim",    "situ_one_cycle",  "situ_cyclic",
                                   "situ_plateau", "situ_averaged", "situ_grad_scaler" };
    bool tested = s != NULL;
    for (size_t k = 0; k < sizeof others / sizeof *others; k++)
      if (strncmp(list[i].name, others[k], strlen(others[k])) == 0) tested = false;
    if (!tested) continue;
    char own[256] = { 0 }, name[128];
    static const char zero[64];
    if (s->size > sizeof own || !api_defaults(s->name, own))
      fail_msg("%s: %s of %zu bytes", list[i].name, s->name, s->size);
    structs++;
    for (int f = 1; f < s->count; f++) {
      assert_true(s->field[f].size <= sizeof zero);
      if (memcmp(own + s->field[f].offset, zero, s->field[f].size) == 0) continue;
      (void)snprintf(name, sizeof name, "%s.%s", list[i].name, s->field[f].name);
      bool found = false;
      for (int k = 0; k < zero_count; k++) found |= strcmp(zeros[k], name) == 0;
      if (!found && !(strstr(name, "tolerance") && !has_factorizations())) fail_msg("no test gives 0 for %s", name);
    }
  }
  assert_true(structs >= 18);
}

/* Of another version of the header: fields that it does not have are defaults. */
static void other_sizes(void **state) {
  (void)state;
  situ_tensor *x = R(4, 3);
  situ_batch_norm_options o = OPTIONS_OF(situ_batch_norm, with.training = true, with.eps = 0.5);
  situ_tensor *y = situ_batch_norm(x, NULL, NULL, NULL, NULL, OPTIONS_AT(situ_batch_norm, with.training = true));
  o.size = offsetof(situ_batch_norm_options, eps);
  expect_same(situ_batch_norm(x, NULL, NULL, NULL, NULL, &o), y, 0, 0);
  o.size = 0;
  expect_refused(situ_batch_norm(x, NULL, NULL, NULL, NULL, &o), SITU_E_ARG, "batch_norm",
                 "options.size is 0: begin with situ_batch_norm_defaults()");
  o.size = sizeof o + 8;
  expect_refused(situ_batch_norm(x, NULL, NULL, NULL, NULL, &o), SITU_E_ARG, "batch_norm", "this library knows");
}

/* A field that is read only beside its has_ field is refused without it. */
static void fields_without_their_has(void **state) {
  (void)state;
  situ_tensor *x = R(2, 3), *t = TI64(SITU_SHAPE(2), 2, 2), *w = R(3, 2), *at = TI64(SITU_SHAPE(1, 2), 0, 1);
  const situ_cross_entropy_options two = { .ignore_index = 2 };
  expect_refused(situ_cross_entropy(x, t, &two), SITU_E_ARG, "cross_entropy", "has_ignore_index is false");
  expect_refused(situ_nll_loss(x, t, &two), SITU_E_ARG, "nll_loss", "has_ignore_index is false");
  expect_refused(situ_embedding(at, w, OPTIONS_AT(situ_embedding, with.padding_idx = 1)), SITU_E_ARG, "embedding",
                 "has_padding_idx is false");
  expect_refused(situ_embedding_bag(at, w, OPTIONS_AT(situ_embedding_bag, with.padding_idx = 1)), SITU_E_ARG,
                 "embedding_bag", "has_padding_idx is false");
  expect_refused(situ_nn_embedding(3, 2, OPTIONS_AT(situ_nn_embedding, with.padding_idx = 1)), SITU_E_ARG,
                 "nn_embedding", "has_padding_idx is false");
  expect_refused(situ_nn_embedding_bag(3, 2, OPTIONS_AT(situ_nn_embedding_bag, with.padding_idx = 1)), SITU_E_ARG,
                 "nn_embedding_bag", "has_padding_idx is false");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(zeros_of_norms),    TEST(zeros_of_ops),         TEST(zeros_of_gradcheck), TEST(zeros_of_layers),
    TEST(zeros_of_wrappers), TEST(every_zero_is_tested), TEST(other_sizes),        TEST(fields_without_their_has),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
