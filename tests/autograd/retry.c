/* A training step that runs out of memory, at each of its allocations in turn, and is then done again: the bits of an undisturbed one. */
/* test-devices: cpu sim:0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

enum { TOKENS = 6, WIDTH = 4, CLASSES = 3, PIECES = 70, FLOATS = 1024 };

typedef struct setting {
  situ_nn_module *embedding, *norm, *head;
  situ_tensor *mix;
  situ_optim *optim;
} setting;

static setting start(void) {
  setting s = { 0 };
  situ_manual_seed(3);
  s.embedding = situ_nn_embedding(10, WIDTH, NULL);
  s.norm = situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL);
  s.head = situ_nn_linear(WIDTH, CLASSES, NULL);
  assert_int_equal(situ_nn_to(s.embedding, test_device()), SITU_OK);
  assert_int_equal(situ_nn_to(s.norm, test_device()), SITU_OK);
  assert_int_equal(situ_nn_to(s.head, test_device()), SITU_OK);
  situ_set(&s.mix,
           situ_requires_grad_(situ_randn(SITU_SHAPE(WIDTH, WIDTH), &(situ_options){ .device = test_device() }), true));
  s.optim = situ_optim_adamw(SITU_TREE(situ_nn_get_tensor(s.embedding, "weight"), situ_nn_get_tensor(s.norm, "weight"),
                                       situ_nn_get_tensor(s.norm, "bias"), situ_nn_get_tensor(s.head, "weight"),
                                       situ_nn_get_tensor(s.head, "bias"), s.mix),
                             1e-3, NULL);
  assert_non_null(s.optim);
  return s;
}

static void stop(setting *s) {
  situ_optim_free(s->optim);
  situ_nn_free(s->embedding);
  situ_nn_free(s->norm);
  situ_nn_free(s->head);
  situ_drop(&s->mix);
}

/* Attention, a buffer that is filled through views, a sum of many pieces, dropout, writes in place. */
static situ_tensor *forward(setting *s, situ_tensor *tokens, situ_tensor *classes) {
  const situ_options here = { .device = test_device() };
  situ_tensor *x = situ_nn_forward(s->embedding, tokens), *out = situ_zeros(SITU_SHAPE(TOKENS, WIDTH), &here),
              *piece[PIECES];
  situ_tensor *q = situ_matmul(x, s->mix), *h = situ_add_scalar(situ_scaled_dot_product_attention(q, x, x, NULL), .1);
  if (!situ_add_(h, x)) return NULL;
  for (int t = 0; t < TOKENS; t++)
    if (!situ_copy_(situ_select(out, 0, t), situ_tanh(situ_select(h, 0, TOKENS - 1 - t)))) return NULL;
  for (int i = 0; i < PIECES; i++) piece[i] = situ_narrow(out, 0, i % TOKENS, 1);
  situ_tensor *all = situ_view(situ_cat(piece, PIECES, 0), SITU_SHAPE(PIECES, WIDTH)),
              *pooled = situ_mean(all, &(situ_reduce_options){ .dim = SITU_DIMS(0) });
  situ_tensor *y = situ_nn_forward(s->norm, situ_dropout(situ_add(out, pooled), .2, true, NULL));
  return situ_cross_entropy(situ_nn_forward(s->head, y), classes, NULL);
}

static situ_status step(setting *s) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_manual_seed(5);
  const situ_options ids = { .dtype = SITU_I64, .device = test_device() };
  situ_tensor *tokens =
      situ_from_host((int64_t[TOKENS]){ 3, 1, 4, 1, 5, 9 }, TOKENS * sizeof(int64_t), SITU_SHAPE(TOKENS), &ids);
  situ_tensor *classes =
      situ_from_host((int64_t[TOKENS]){ 0, 1, 2, 0, 1, 2 }, TOKENS * sizeof(int64_t), SITU_SHAPE(TOKENS), &ids);
  situ_status status = situ_optim_zero_grad(s->optim, true);
  if (status == SITU_OK) status = situ_backward(forward(s, tokens, classes), NULL);
  if (status == SITU_OK) status = situ_optim_step(s->optim);
  const situ_status end = situ_scope_end(&scope);
  return status == SITU_OK ? end : status;
}

/* Parameters, gradients and the optimiser's state. */
static size_t gather(setting *s, float *to) {
  situ_tensor *param[] = { situ_nn_get_tensor(s->embedding, "weight"), situ_nn_get_tensor(s->norm, "weight"),
                           situ_nn_get_tensor(s->norm, "bias"),        situ_nn_get_tensor(s->head, "weight"),
                           situ_nn_get_tensor(s->head, "bias"),        s->mix };
  size_t n = 0;
  for (int i = 0; i < 6; i++) {
    const char *name;
    situ_tensor *part[] = { param[i], situ_grad(param[i]), situ_optim_state(s->optim, i, 0, &name),
                            situ_optim_state(s->optim, i, 1, &name) };
    for (int k = 0; k < 4; k++) {
      assert_non_null(part[k]);
      assert_int_equal(situ_copy_to_host(part[k], to + n, (size_t)situ_numel(part[k]) * sizeof *to), SITU_OK);
      n += (size_t)situ_numel(part[k]);
    }
  }
  assert_true(n < FLOATS);
  return n;
}

static void a_step_that_failed_is_done_again(void **state) {
  (void)state;
  static float want[FLOATS], got[FLOATS];
  setting s = start();
  assert_int_equal(step(&s), SITU_OK);
  assert_int_equal(step(&s), SITU_OK);
  const size_t n = gather(&s, want);
  stop(&s);
  int points = 0;
  for (int sticky = 0; sticky < 2; sticky++)
    for (uint64_t nth = 1;; nth++) {
      s = start();
      assert_int_equal(step(&s), SITU_OK);
      assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
      situ_fail_allocation(nth, sticky != 0);
      situ_status status = step(&s);
      const bool met = situ_allocation_count() >= nth;
      situ_fail_allocation(0, false);
      assert_int_equal(status, situ_error());
      if (status != SITU_OK) {
        points++;
        expect_error(SITU_E_NOMEM, "", "");
        status = step(&s);
      }
      assert_int_equal(status, SITU_OK);
      assert_int_equal(gather(&s, got), n);
      if (memcmp(got, want, n * sizeof *want))
        fail_msg("allocation %llu%s: the step afterwards gave other bits", (unsigned long long)nth,
                 sticky ? " and all later ones" : "");
      stop(&s);
      if (!met) break;
    }
  print_message("%d places where memory ended\n", points);
  assert_true(points > 100);
}

/* A sum over what was broadcast, and a loss that keeps the classes' weights beside its work. */
static void without_memory_there_is_an_error(void **state) {
  (void)state;
  const situ_options here = { .device = test_device() };
  situ_tensor *x = situ_rand(SITU_SHAPE(TOKENS, CLASSES), &here), *weight = situ_ones(SITU_SHAPE(CLASSES), &here);
  situ_tensor *bias = situ_requires_grad_(situ_rand(SITU_SHAPE(CLASSES), &here), true);
  situ_tensor *target = situ_to(situ_zeros(SITU_SHAPE(TOKENS), &(situ_options){ .dtype = SITU_I64 }), test_device());
  uint64_t most = 0; /* allocations if none fails */
  int refused = 0;
  for (uint64_t nth = 0; nth <= most; nth++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_fail_allocation(nth, false);
    situ_tensor *y = situ_cross_entropy(situ_add(x, bias), target, &(situ_cross_entropy_options){ .weight = weight });
    const situ_status status = y ? situ_backward(y, NULL) : situ_error();
    if (nth == 0) most = situ_allocation_count();
    situ_fail_allocation(0, false);
    assert_true(status == SITU_OK || (nth && status == SITU_E_NOMEM));
    refused += status != SITU_OK;
    situ_error_clear();
    SITU_IGNORE(situ_set_grad(bias, NULL));
    SITU_IGNORE(situ_scope_end(&s));
  }
  assert_true(refused > 3);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_step_that_failed_is_done_again), TEST(without_memory_there_is_an_error) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
