/* Packed and padded sequences, beside what the golden tests compare with PyTorch: values, gradients by differences, a
   packed batch beside its sequences one by one, trees, refusals.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/random.h"
#include "support/modules.h"

#define COUNT(list) ((int)(sizeof(list) / sizeof *(list)))

static situ_tensor *lengths_of(int count, const int64_t *values) {
  return situ_from_host(values, (size_t)count * sizeof *values, SITU_SHAPE(count),
                        &(situ_options){ .dtype = SITU_I64, .device = situ_dev("cpu") });
}
#define LENGTHS(...) lengths_of((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

static situ_nn_packed_sequence pack(situ_tensor *padded, situ_tensor *lengths, bool batch_first, bool enforce_sorted) {
  situ_nn_packed_sequence p = { 0 };
  if (situ_nn_utils_rnn_pack_padded_sequence(padded, lengths, batch_first, enforce_sorted, &p) != SITU_OK)
    fail_msg("%s", situ_error_message());
  return p;
}
static situ_tensor *unpack(const situ_nn_packed_sequence *p) {
  return situ_nn_utils_rnn_pad_packed_sequence(p, NULL, NULL);
}
static situ_tensor *normal(situ_shape shape) { return situ_randn(shape, &(situ_options){ .device = test_device() }); }

/* ---- values ---- */

static void packing(void **state) {
  (void)state;
  situ_tensor *x = T32(SITU_SHAPE(3, 3), 1, 0, 4, 2, 0, 5, 0, 0, 6), *lengths = NULL; /* sequences are columns */
  situ_nn_packed_sequence p = pack(x, LENGTHS(2, 1, 3), false, false);
  expect_exact(p.data, SITU_SHAPE(6), 4, 1, 0, 5, 2, 6);
  expect_exact(p.batch_sizes, SITU_SHAPE(3), 3, 2, 1);
  expect_exact(p.sorted_indices, SITU_SHAPE(3), 2, 0, 1);
  expect_exact(p.unsorted_indices, SITU_SHAPE(3), 1, 2, 0);
  expect_exact(unpack(&p), SITU_SHAPE(3, 3), 1, 0, 4, 2, 0, 5, 0, 0, 6);
  const situ_nn_pad_options o = { .batch_first = true, .padding_value = -1, .total_length = 4 };
  expect_exact(situ_nn_utils_rnn_pad_packed_sequence(&p, &o, &lengths), SITU_SHAPE(3, 4), 1, 2, -1, -1, 0, -1, -1, -1,
               4, 5, 6, -1);
  expect_exact(lengths, SITU_SHAPE(3), 2, 1, 3);
  p = pack(situ_transpose(x, 0, 1), LENGTHS(3, 2, 1), true, true);
  expect_exact(p.data, SITU_SHAPE(6), 1, 0, 4, 2, 0, 0);
  assert_null(p.sorted_indices);
  assert_null(p.unsorted_indices);
}

static void lists_of_sequences(void **state) {
  (void)state;
  situ_tensor *list[] = { T32(SITU_SHAPE(1), 1), T32(SITU_SHAPE(3), 2, 3, 4), T32(SITU_SHAPE(2), 5, 6) }, *out[3];
  situ_nn_packed_sequence p;
  assert_int_equal(situ_nn_utils_rnn_pack_sequence(list, 3, false, &p), SITU_OK);
  expect_exact(p.data, SITU_SHAPE(6), 2, 5, 1, 3, 6, 4);
  expect_exact(p.sorted_indices, SITU_SHAPE(3), 1, 2, 0);
  situ_tensor *padded = situ_nn_utils_rnn_pad_sequence(list, 3, NULL);
  expect_exact(padded, SITU_SHAPE(3, 3), 1, 2, 5, 0, 3, 6, 0, 4, 0);
  expect_same(unpack(&p), padded, 0, 0);
  const situ_nn_pad_options left = { .batch_first = true, .padding_value = 9, .left = true };
  expect_exact(situ_nn_utils_rnn_pad_sequence(list, 3, &left), SITU_SHAPE(3, 3), 9, 9, 1, 2, 3, 4, 9, 5, 6);
  situ_tensor *lengths = LENGTHS(1, 3, 2);
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(padded, lengths, false, NULL, 0), 3);
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(padded, lengths, false, out, 3), 3);
  for (int i = 0; i < 3; i++) expect_same(out[i], list[i], 0, 0);
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(situ_transpose(padded, 0, 1), LENGTHS(0, 3, 3), true, out, 3), 3);
  expect_exact(out[0], SITU_SHAPE(0), 0);
  expect_exact(out[2], SITU_SHAPE(3), 5, 6, 0);
  /* as many dimensions as a result can have */
  situ_tensor *deep[] = { normal(SITU_SHAPE(2, 1, 2, 1, 2, 1, 2)), normal(SITU_SHAPE(1, 1, 2, 1, 2, 1, 2)) };
  padded = situ_nn_utils_rnn_pad_sequence(deep, 2, NULL);
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(padded, LENGTHS(2, 1), false, out, 3), 2);
  for (int i = 0; i < 2; i++) expect_same(out[i], deep[i], 0, 0);
}

/* ---- gradients ---- */

static situ_tensor *do_pack(situ_tensor *const *in, void *lengths) {
  situ_nn_packed_sequence p = pack(in[0], lengths, true, false);
  return situ_mul(situ_tanh(p.data), p.data);
}
static situ_tensor *do_both(situ_tensor *const *in, void *lengths) {
  situ_nn_packed_sequence p = pack(in[0], lengths, false, false);
  p.data = situ_square(p.data);
  return unpack(&p);
}
static situ_tensor *do_list(situ_tensor *const *in, void *left) {
  situ_nn_packed_sequence p = { 0 };
  if (situ_nn_utils_rnn_pack_sequence(in, 2, false, &p) != SITU_OK) return NULL;
  const situ_nn_pad_options o = { .left = left, .padding_value = 1 };
  return situ_mul(situ_nn_utils_rnn_pad_sequence(in, 2, &o), unpack(&p));
}
static void gradients(void **state) {
  (void)state;
  situ_tensor *lengths = LENGTHS(2, 1, 3);
  gradcheck(do_pack, lengths, test_random(SITU_SHAPE(3, 4, 2), -1, 1, true));
  gradcheck(do_both, lengths, test_random(SITU_SHAPE(3, 3, 2), -1, 1, true));
  gradcheck(do_list, NULL, test_random(SITU_SHAPE(2, 2), -1, 1, true), test_random(SITU_SHAPE(3, 2), -1, 1, true));
  gradcheck(do_list, lengths, test_random(SITU_SHAPE(2, 2), -1, 1, true), test_random(SITU_SHAPE(3, 2), -1, 1, true));
}

/* ---- layers ---- */

typedef situ_nn_module *(*maker)(int64_t, int64_t, const situ_nn_rnn_options *);
static const maker layers[] = { situ_nn_rnn, situ_nn_lstm, situ_nn_gru };

/* The i-th sequence alone gives its part of the batch's output, its states and the gradient of its elements. */
static void check_alone(situ_nn_module *m, situ_tensor *sequence, const situ_nn_hx *before, int64_t i,
                        situ_tensor *output, const situ_nn_hx *after) {
  situ_tensor *x = situ_requires_grad_(situ_clone(situ_detach(sequence)), true);
  situ_nn_hx hx = { .h = situ_narrow(before->h, 1, i, 1) };
  if (before->c) hx.c = situ_narrow(before->c, 1, i, 1);
  situ_tensor *y = situ_nn_recur(m, situ_unsqueeze(x, 1), &hx);
  const int64_t length = situ_size(x, 0);
  expect_same(situ_select(y, 1, 0), situ_narrow(situ_select(output, 1, i), 0, 0, length), 1e-5, 1e-6);
  expect_same(hx.h, situ_narrow(after->h, 1, i, 1), 1e-5, 1e-6);
  if (hx.c) expect_same(hx.c, situ_narrow(after->c, 1, i, 1), 1e-5, 1e-6);
  assert_int_equal(situ_backward(situ_sum(situ_square(y), NULL), NULL), SITU_OK);
  expect_same(situ_grad(x), situ_grad(sequence), 1e-5, 1e-5);
}

static void check_batch(maker make, const situ_nn_rnn_options *options, const int64_t *length, int count) {
  situ_nn_module *m = make(3, 4, options);
  situ_tensor *list[8];
  for (int i = 0; i < count; i++) list[i] = situ_requires_grad_(normal(SITU_SHAPE(length[i], 3)), true);
  situ_nn_packed_sequence p = { 0 };
  assert_int_equal(situ_nn_utils_rnn_pack_sequence(list, count, false, &p), SITU_OK);
  const int64_t states = options->num_layers * (options->bidirectional ? 2 : 1);
  const situ_nn_hx before = { normal(SITU_SHAPE(states, count, 4)),
                              make == situ_nn_lstm ? normal(SITU_SHAPE(states, count, 4)) : NULL };
  situ_nn_hx after = before;
  assert_int_equal(situ_nn_recur_packed(m, &p, &after, &p), SITU_OK);
  assert_int_equal(situ_backward(situ_sum(situ_square(p.data), NULL), NULL), SITU_OK);
  situ_tensor *output = unpack(&p);
  for (int i = 0; i < count; i++) check_alone(m, list[i], &before, i, output, &after);
  situ_nn_free(m);
}

static void a_packed_batch_gives_what_its_sequences_give(void **state) {
  (void)state;
  static const int64_t some[] = { 2, 5, 1, 5, 3 }, equal[] = { 3, 3 }, one[] = { 1 };
  for (int k = 0; k < COUNT(layers); k++)
    for (int two = 0; two < 2; two++) {
      const situ_nn_rnn_options o = { .num_layers = 2, .bidirectional = two, HERE };
      check_batch(layers[k], &o, some, COUNT(some));
      check_batch(layers[k], &o, equal, COUNT(equal));
      check_batch(layers[k], &o, one, COUNT(one));
    }
}

static void trees(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ HERE });
  situ_nn_packed_sequence p = pack(normal(SITU_SHAPE(5, 2, 3)), LENGTHS(5, 2), false, true);
  situ_tree *dict = situ_tree_put(situ_tree_put(situ_tree_dict(), "data", situ_tree_tensor(p.data)), "batch_sizes",
                                  situ_tree_tensor(p.batch_sizes)),
            *out = situ_nn_call(m, dict);
  assert_int_equal(situ_nn_recur_packed(m, &p, NULL, &p), SITU_OK);
  expect_same(situ_tree_get(out, "data"), p.data, 0, 0);
  assert_int_equal(situ_tree_count(out), 2);
  situ_tree_free(dict);
  situ_tree_free(out);
  situ_nn_free(m);
}

/* ---- refusals ---- */

static void bad_packs(void **state) {
  (void)state;
  const char *op = "nn_utils_rnn_pack_padded_sequence";
  situ_nn_packed_sequence p = { 0 };
  situ_tensor *x = normal(SITU_SHAPE(3, 2)), *out[2];
#define REFUSED(call, ...)             \
  assert_int_not_equal(call, SITU_OK); \
  expect_error(__VA_ARGS__)
#define PACK(lengths, sorted) situ_nn_utils_rnn_pack_padded_sequence(x, lengths, false, sorted, &p)
  REFUSED(PACK(LENGTHS(3, 0), true), SITU_E_ARG, op, "length 1 is 0, must be 1 to 3");
  REFUSED(PACK(LENGTHS(4, 1), true), SITU_E_ARG, op, "length 0 is 4, must be 1 to 3");
  REFUSED(PACK(LENGTHS(1, 3), true), SITU_E_ARG, op, "enforce_sorted");
  REFUSED(PACK(LENGTHS(1, 1, 1), true), SITU_E_SHAPE, op, "2 sequences and lengths 3");
  REFUSED(PACK(T32(SITU_SHAPE(2), 1, 1), true), SITU_E_ARG, op, "a list of at least one integer");
  situ_tensor *list[] = { x, normal(SITU_SHAPE(3, 3)) };
  REFUSED(situ_nn_utils_rnn_pack_sequence(list, 2, true, &p), SITU_E_SHAPE, "nn_utils_rnn_pack_sequence", "");
  REFUSED(situ_nn_utils_rnn_pack_sequence(list, 0, true, &p), SITU_E_ARG, "nn_utils_rnn_pack_sequence", "count is 0");
  assert_null(p.data);
  expect_refused(situ_nn_utils_rnn_pad_sequence(list, 2, &(situ_nn_pad_options){ .total_length = 4 }), SITU_E_ARG,
                 "nn_utils_rnn_pad_sequence", "no total_length");
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(x, LENGTHS(4, 1), false, out, 2), -1);
  expect_error(SITU_E_ARG, "nn_utils_rnn_unpad_sequence", "length 0 is 4");
  assert_int_equal(situ_nn_utils_rnn_unpad_sequence(x, LENGTHS(3, 1), false, out, 1), -1);
  expect_error(SITU_E_ARG, "nn_utils_rnn_unpad_sequence", "capacity is 1 for 2");
}

static void bad_packed_sequences(void **state) {
  (void)state;
  const char *op = "nn_utils_rnn_pad_packed_sequence";
  const situ_nn_packed_sequence good = pack(normal(SITU_SHAPE(3, 2)), LENGTHS(1, 3), false, false);
  expect_refused(situ_nn_utils_rnn_pad_packed_sequence(&good, &(situ_nn_pad_options){ .total_length = 2 }, NULL),
                 SITU_E_ARG, op, "at least the longest length, 3");
  expect_refused(situ_nn_utils_rnn_pad_packed_sequence(&good, &(situ_nn_pad_options){ .left = true }, NULL), SITU_E_ARG,
                 op, "no left");
  static const int64_t wrong[][3] = { { 1, 2, 1 }, { 2, 2, 0 }, { 2, 1, 2 }, { 2, 1, INT64_MAX }, { -1, -1, -2 } };
  for (int i = 0; i < COUNT(wrong); i++) {
    situ_nn_packed_sequence p = good;
    p.batch_sizes = lengths_of(3, wrong[i]);
    expect_refused(unpack(&p), SITU_E_ARG, op, "batch_sizes must be at least 1, not increase");
  }
  situ_nn_packed_sequence half = good;
  half.unsorted_indices = NULL;
  expect_refused(unpack(&half), SITU_E_ARG, op, "one of sorted_indices and unsorted_indices is NULL");
  half.sorted_indices = half.batch_sizes = NULL;
  expect_refused(unpack(&half), SITU_E_ARG, op, "batch_sizes");
}

static void bad_calls(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ HERE }),
                 *cell = situ_nn_gru_cell(3, 4, &(situ_nn_rnn_options){ HERE }), *plain = situ_nn_linear(3, 4, NULL);
  situ_nn_packed_sequence p = pack(normal(SITU_SHAPE(3, 2, 3)), LENGTHS(1, 3), false, false), out = p, narrow = p;
  narrow.data = situ_narrow(p.data, 1, 0, 2);
  REFUSED(situ_nn_recur_packed(cell, &p, NULL, &out), SITU_E_ARG, "nn_gru_cell", "takes no packed sequence");
  REFUSED(situ_nn_recur_packed(plain, &p, NULL, &out), SITU_E_ARG, "nn_recur_packed", "Linear is not a recurrent");
  REFUSED(situ_nn_recur_packed(m, &narrow, NULL, &out), SITU_E_SHAPE, "nn_lstm", "must be [elements, 3]");
  situ_nn_hx hx = { .h = normal(SITU_SHAPE(1, 2, 4)) }, given = hx;
  REFUSED(situ_nn_recur_packed(m, &p, &hx, &out), SITU_E_ARG, "nn_lstm", "both states");
  hx.c = given.c = normal(SITU_SHAPE(1, 3, 4));
  REFUSED(situ_nn_recur_packed(m, &p, &hx, &out), SITU_E_SHAPE, "nn_lstm", "c is [1, 3, 4], must be [1, 2, 4]");
  assert_memory_equal(&hx, &given, sizeof hx);
  assert_memory_equal(&out, &p, sizeof p);
  situ_nn_free(m);
  situ_nn_free(cell);
  situ_nn_free(plain);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(packing),
                                      TEST(lists_of_sequences),
                                      TEST(gradients),
                                      MODULE_TEST(a_packed_batch_gives_what_its_sequences_give),
                                      MODULE_TEST(trees),
                                      TEST(bad_packs),
                                      TEST(bad_packed_sequences),
                                      MODULE_TEST(bad_calls) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
