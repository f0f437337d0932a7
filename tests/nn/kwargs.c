/* A forward with arguments beside its input: scope, home and hooks as in every call; modules that only hold parts.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/modules.h"

typedef struct block_kwargs {
  situ_tensor *mask;
  int64_t repeat;
  situ_tensor **cache; /* gets the last result */
} block_kwargs;
typedef struct block {
  situ_nn_module base;
  situ_tensor *bias;
  situ_device seen; /* the default device inside */
} block;

static situ_tensor *block_forward(situ_nn_module *self, situ_tensor *x, const void *kwargs) {
  static const block_kwargs none;
  block *m = (block *)self;
  const block_kwargs *k = kwargs ? kwargs : &none;
  m->seen = situ_get_default_device();
  x = situ_add(x, m->bias);
  for (int64_t i = 0; i < k->repeat; i++) x = situ_mul_scalar(x, 2);
  if (k->mask) x = situ_mul(x, k->mask);
  if (k->cache && !situ_set(k->cache, x)) return NULL;
  return x;
}
static const situ_nn_type block_type = { .name = "Block", .size = sizeof(block), .forward_kwargs = block_forward };

static situ_nn_module *block_new(void) {
  block *m = situ_nn_alloc(&block_type);
  situ_nn_param(m, bias, T32(SITU_SHAPE(1), 1));
  return situ_nn_done(m);
}

static void every_way_to_call_it(void **state) {
  (void)state;
  situ_nn_module *m = block_new();
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2), *mask = T32(SITU_SHAPE(2), 1, 0), *cache = NULL;
  int64_t before = situ_live_tensors();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  expect_exact(situ_nn_forward_kwargs(m, x, &(block_kwargs){ .mask = mask, .repeat = 3, .cache = &cache }),
               SITU_SHAPE(2), 16, 0);
  assert_int_equal(situ_live_tensors() - before, 1); /* the result, which the cache holds too */
  expect_exact(situ_nn_forward(m, x), SITU_SHAPE(2), 2, 3);
  expect_exact(situ_nn_forward_kwargs(m, x, NULL), SITU_SHAPE(2), 2, 3);
  situ_tree *in = SITU_TREE(x), *out = situ_nn_call(m, in);
  expect_exact(situ_tree_value(out), SITU_SHAPE(2), 2, 3);
  situ_tree_free(in);
  situ_tree_free(out);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_true(situ_device_equal(((block *)m)->seen, test_device()));
  expect_exact(cache, SITU_SHAPE(2), 16, 0);
  situ_drop(&cache);
  assert_int_equal(situ_live_tensors(), before);
  situ_nn_free(m);
}

/* Replaces the input by twice the input, and the result by its negative. */
static situ_status change(situ_nn_module *m, situ_tree **in, situ_tree **out, void *payload) {
  (void)m;
  ++*(int *)payload;
  if (!out) return situ_tree_set(in, SITU_TREE(situ_mul_scalar(situ_tree_value(*in), 2))) ? SITU_OK : situ_error();
  return situ_tree_set(out, situ_tree_tensor(situ_neg(situ_tree_value(*out)))) ? SITU_OK : situ_error();
}

static void hooks_see_it(void **state) {
  (void)state;
  int calls = 0;
  situ_nn_module *m = block_new();
  assert_int_equal(situ_nn_register_forward_pre_hook(m, change, &calls, NULL), SITU_OK);
  assert_int_equal(situ_nn_register_forward_hook(m, change, &calls, NULL), SITU_OK);
  expect_exact(situ_nn_forward_kwargs(m, T32(SITU_SHAPE(2), 1, 2), &(block_kwargs){ .repeat = 1 }), SITU_SHAPE(2), -6,
               -10);
  assert_int_equal(calls, 2);
  situ_nn_free(m);
}

static void messages_and_refusals(void **state) {
  (void)state;
  situ_nn_module *m = block_new(), *linear = situ_nn_linear(2, 2, &(situ_nn_linear_options){ HERE });
  situ_tensor *x = T32(SITU_SHAPE(2), 1, 2), *mask = T32(SITU_SHAPE(3), 1, 0, 1);
  expect_refused(situ_nn_forward_kwargs(m, x, &(block_kwargs){ .mask = mask }), SITU_E_SHAPE, "mul", "Block");
  expect_refused(situ_nn_forward_kwargs(linear, x, &(block_kwargs){ .mask = mask }), SITU_E_UNSUPPORTED, "nn_forward",
                 "Linear takes no kwargs");
  assert_non_null(situ_nn_forward_kwargs(linear, x, NULL));
  expect_refused(situ_nn_forward_kwargs(m, NULL, NULL), SITU_E_ARG, "nn_forward", "NULL");
  situ_nn_free(m);
  situ_nn_free(linear);
}

/* The root of a model, a struct without a forward: its parts are registered, moved and saved; calling it is refused. */
typedef struct seq2seq {
  situ_nn_module base;
  situ_nn_module *encoder, *decoder;
} seq2seq;
static const situ_nn_type seq2seq_type = { .name = "Seq2Seq", .size = sizeof(seq2seq) };

static void a_holder_needs_no_forward(void **state) {
  (void)state;
  seq2seq *m = situ_nn_alloc(&seq2seq_type);
  situ_nn_child(m, encoder, block_new());
  situ_nn_child(m, decoder, block_new());
  situ_nn_module *root = situ_nn_done(m);
  situ_tree *names = situ_nn_state_dict(root);
  assert_int_equal(situ_tree_count(names), 2);
  assert_string_equal(situ_tree_key(names, 1), "decoder.bias");
  situ_tree_free(names);
  assert_non_null(situ_nn_forward(m->encoder, T32(SITU_SHAPE(1), 1)));
  expect_refused(situ_nn_forward(root, T32(SITU_SHAPE(1), 1)), SITU_E_UNSUPPORTED, "nn_forward",
                 "Seq2Seq has no forward: call its parts");
  situ_nn_free(root);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(every_way_to_call_it), MODULE_TEST(hooks_see_it),
                                      MODULE_TEST(messages_and_refusals), MODULE_TEST(a_holder_needs_no_forward) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
