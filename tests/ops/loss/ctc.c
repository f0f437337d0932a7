/* Connectionist temporal classification: beside a sum over all ways, gradients, refusals. tests/golden/ops/compound.c compares
   it with PyTorch.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "support/late.h"

enum { STEPS = 4, CLASSES = 3 };

static situ_tensor *integers(situ_shape shape, const int64_t *values) {
  int64_t numel = 1;
  for (int d = 0; d < shape.ndim; d++) numel *= shape.dim[d];
  return situ_from_host(values, (size_t)numel * sizeof *values, shape,
                        &(situ_options){ .dtype = SITU_I64, .device = test_device() });
}
#define INTEGERS(shape, ...) integers(shape, (const int64_t[]){ __VA_ARGS__ })

/* Does a way, classes of `steps`, spell the target when repeats and then blanks (0) are left out? */
static bool spells(int way, int steps, const int64_t *target, int64_t length) {
  int before = 0;
  int64_t at = 0;
  for (int t = 0; t < steps; t++, way /= CLASSES) {
    const int now = way % CLASSES;
    if (now && now != before) {
      if (at == length || target[at] != now) return false;
      at++;
    }
    before = now;
  }
  return at == length;
}

static double loss_of(const double *log_probs, int steps, const int64_t *target, int64_t length) {
  double sum = 0;
  int ways = 1;
  for (int t = 0; t < steps; t++) ways *= CLASSES;
  for (int way = 0; way < ways; way++) {
    double log_p = 0;
    for (int t = 0, rest = way; t < steps; t++, rest /= CLASSES) log_p += log_probs[t * CLASSES + rest % CLASSES];
    if (spells(way, steps, target, length)) sum += exp(log_p);
  }
  return -log(sum);
}

static void all_ways(void **state) {
  (void)state;
  static const int64_t targets[][2] = { { 1, 2 }, { 2, 2 }, { 1, 1 }, { 2, 1 } };
  situ_tensor *log_probs = situ_log_softmax(test_random(SITU_SHAPE(STEPS, CLASSES), -2, 2, false), 1);
  double values[STEPS * CLASSES];
  assert_int_equal(situ_copy_to_host(log_probs, values, sizeof values), SITU_OK);
  for (size_t k = 0; k < sizeof targets / sizeof *targets; k++)
    for (int64_t length = 0; length <= 2; length++)
      for (int64_t steps = 0; steps <= STEPS; steps++) {
        const situ_ctc_loss_options o = { .reduction = SITU_REDUCTION_SUM };
        situ_tensor *loss =
            situ_ctc_loss(log_probs, situ_narrow(INTEGERS(SITU_SHAPE(2), targets[k][0], targets[k][1]), 0, 0, length),
                          INTEGERS(SITU_SCALAR, steps), INTEGERS(SITU_SCALAR, length), &o);
        expect_close(loss, SITU_SCALAR, 1e-9, 1e-9, loss_of(values, (int)steps, targets[k], length));
      }
}

/* What lies beyond a length counts neither in the loss nor in the gradient. */
static situ_tensor *f_ctc(situ_tensor *const *in, void *o) {
  const situ_ctc_loss_options options = { .blank = 1, .reduction = *(situ_reduction *)o };
  return situ_ctc_loss(situ_log_softmax(in[0], 2), INTEGERS(SITU_SHAPE(2, 3), 0, 0, 2, 2, -7, 99),
                       INTEGERS(SITU_SHAPE(2), 6, 4), INTEGERS(SITU_SHAPE(2), 3, 1), &options);
}
static void gradients(void **state) {
  (void)state;
  for (situ_reduction how = SITU_REDUCTION_MEAN; how <= SITU_REDUCTION_NONE; how++)
    gradcheck(f_ctc, &how, test_random(SITU_SHAPE(6, 2, 4), -2, 2, true));
}

static void infinite(void **state) {
  (void)state;
  situ_tensor *x = situ_requires_grad_(T32(SITU_SHAPE(2, 1, 2), -1, -2, -3, -0.5), true);
  situ_ctc_loss_options o = { 0 };
#define TWICE \
  situ_ctc_loss(x, INTEGERS(SITU_SHAPE(1, 2), 1, 1), INTEGERS(SITU_SHAPE(1), 2), INTEGERS(SITU_SHAPE(1), 2), &o)
  expect_exact(TWICE, SITU_SCALAR, INFINITY);
  o.zero_infinity = true;
  situ_tensor *loss = TWICE;
  expect_exact(loss, SITU_SCALAR, 0);
  assert_int_equal(situ_backward(loss, NULL), SITU_OK);
  expect_exact(situ_grad(x), SITU_SHAPE(2, 1, 2), 0, 0, 0, 0);
}

static void refusals(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(4, 2, 3), &(situ_options){ .device = test_device() });
  situ_tensor *targets = INTEGERS(SITU_SHAPE(2, 2), 1, 2, 1, 1), *two = INTEGERS(SITU_SHAPE(2), 2, 2);
#define REFUSED(targets, steps, lengths, options, code, word) \
  expect_refused(situ_ctc_loss(x, targets, steps, lengths, options), code, "ctc_loss", word)
  REFUSED(targets, INTEGERS(SITU_SHAPE(2), 5, 1), two, NULL, SITU_E_ARG, "input_lengths has 5");
  REFUSED(targets, two, INTEGERS(SITU_SHAPE(2), 3, -1), NULL, SITU_E_ARG, "target_lengths has -1");
  REFUSED(INTEGERS(SITU_SHAPE(3), 1, 2, 1), two, two, NULL, SITU_E_ARG, "add up to 4");
  REFUSED(targets, two, INTEGERS(SITU_SHAPE(1), 2), NULL, SITU_E_SHAPE, "lengths");
  REFUSED(targets, two, two, &(situ_ctc_loss_options){ .blank = 3 }, SITU_E_ARG, "blank is 3");
  REFUSED(targets, two, two, &(situ_ctc_loss_options){ .reduction = (situ_reduction)3 }, SITU_E_ARG, "reduction");
  /* a queue names the op that failed there */
  expect_refused_late(situ_ctc_loss(x, INTEGERS(SITU_SHAPE(2, 2), 1, 3, 1, 1), two, two, NULL), SITU_E_INDEX, "", "3");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(all_ways), TEST(gradients), TEST(infinite), TEST(refusals) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
