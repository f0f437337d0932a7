/* Cross entropy and nll with class indices on the cpu against plain loops in f64.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <situ/ops/loss.h>

#include "backend/cpu/common/cpu.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

typedef struct nll_case {
  int dtype, reduction;
  int64_t n, c, s;
  bool logits, weight;
  double smoothing;
} nll_case;

typedef struct nll_views {
  test_view *x, *target, *weight, *loss, *total, *lse, *g, *dx;
} nll_views;

enum { IGNORED = 2 };

static nll_views make(nll_case k) {
  bool each = k.reduction == SITU_REDUCTION_NONE;
  situ_shape places = SITU_SHAPE(k.n, k.s), out = each ? places : SITU_SCALAR;
  situ_dtype exact = k.dtype == SITU_F64 ? SITU_F64 : SITU_F32;
  nll_views v = { .x = view_new((situ_dtype)k.dtype, SITU_SHAPE(k.n, k.c, k.s), VIEW_ROWS),
                  .target = view_new(SITU_I64, places, VIEW_ROWS),
                  .loss = view_new((situ_dtype)k.dtype, out, VIEW_ROWS),
                  .total = view_new(exact, SITU_SCALAR, VIEW_ROWS),
                  .g = view_new((situ_dtype)k.dtype, out, VIEW_ROWS),
                  .dx = view_new((situ_dtype)k.dtype, SITU_SHAPE(k.n, k.c, k.s), VIEW_ROWS) };
  if (k.logits) v.lse = view_new(exact, places, VIEW_ROWS);
  if (k.weight) v.weight = view_new((situ_dtype)k.dtype, SITU_SHAPE(k.c), VIEW_ROWS), view_random(v.weight, 3, 0.5, 2);
  view_random(v.x, 1, k.logits ? -6 : -3, k.logits ? 6 : 0);
  view_random(v.target, 2, 0, (double)k.c);
  view_random(v.g, 4, -1, 1);
  return v;
}
static void drop(nll_views *v) {
  view_free(v->x), view_free(v->target), view_free(v->weight), view_free(v->loss), view_free(v->total),
      view_free(v->lse), view_free(v->g), view_free(v->dx);
}

static situ_status there(nll_case k, nll_views *v) {
  situ_work work = { .verb = SITU_VERB_NLL,
                     .op = SITU_NLL,
                     .ins = 3,
                     .outs = 3,
                     .in = { &v->x->d, &v->target->d, v->weight ? &v->weight->d : NULL },
                     .out = { &v->loss->d, &v->total->d, v->lse ? &v->lse->d : NULL },
                     .scalar = { k.smoothing },
                     .integer = { IGNORED, k.reduction, k.logits } };
  return view_run(SITU_VERB_NLL, &work);
}
static situ_status back(nll_case k, nll_views *v) {
  situ_work work = { .verb = SITU_VERB_NLL,
                     .op = SITU_NLL_GRAD,
                     .ins = 6,
                     .outs = 1,
                     .in = { &v->g->d, &v->x->d, &v->target->d, v->weight ? &v->weight->d : NULL, &v->total->d,
                             v->lse ? &v->lse->d : NULL },
                     .out = { &v->dx->d },
                     .scalar = { k.smoothing },
                     .integer = { IGNORED, k.reduction, k.logits } };
  return view_run(SITU_VERB_NLL, &work);
}

static void near(const test_view *v, int64_t i, double want, double size, const char *what) {
  double got = view_get(v, i), unit_of_compute = v->d.dtype == SITU_F64 ? 0x1p-53 : 0x1p-24;
  double unit = v->d.dtype == SITU_F16 ? 0x1p-11 : v->d.dtype == SITU_BF16 ? 0x1p-8 : unit_of_compute;
  double allowed = 40 * unit_of_compute * size + unit * fabs(want) * 1.01 + (v->d.dtype == SITU_F16) * 0x1p-25;
  if (isnan(want) ? !isnan(got) : !(fabs(got - want) <= allowed))
    fail_msg("%s of %s: element %lld is %.17g, want %.17g, allowed error %g", what,
             situ_dtype_name((situ_dtype)v->d.dtype), (long long)i, got, want, allowed);
}

static void check(nll_case k) {
  nll_views v = make(k);
  assert_int_equal(there(k, &v), SITU_OK);
  assert_int_equal(back(k, &v), SITU_OK);
  long double loss_sum = 0, used_sum = 0;
  double loss = 0, used = 0, size = 0, *each = malloc(sizeof(double) * (size_t)(k.n * k.s));
  for (int pass = 0; pass < 2; pass++) /* the second knows the total weight */
    for (int64_t i = 0; i < k.n * k.s; i++) {
      int64_t t = (int64_t)view_get(v.target, i), first = i / k.s * k.c * k.s + i % k.s;
      double sum = 0, weights = 0, all = 0,
             wt = t == IGNORED ? 0
                  : v.weight   ? view_get(v.weight, t)
                               : 1,
             lse = 0, size_i = 0;
      for (int64_t c = 0; c < k.c; c++) sum += exp(view_get(v.x, first + c * k.s));
      if (k.logits) lse = log(sum);
      for (int64_t c = 0; c < k.c; c++) {
        double w = v.weight ? view_get(v.weight, c) : 1, off = w * (lse - view_get(v.x, first + c * k.s));
        weights += w, all += off, size_i += fabs(off);
      }
      each[i] = t == IGNORED
                    ? 0
                    : (1 - k.smoothing) * wt * (lse - view_get(v.x, first + t * k.s)) + k.smoothing / (double)k.c * all;
      if (!pass) {
        loss_sum += each[i], used_sum += wt, loss = (double)loss_sum, used = (double)used_sum,
                                             size += fabs(each[i]) + wt * (1 + fabs(lse));
        if (k.reduction == SITU_REDUCTION_NONE)
          near(v.loss, i, each[i], fabs(each[i]) + wt * (1 + fabs(lse)) + k.smoothing * size_i, "loss");
        continue;
      }
      double g =
          view_get(v.g, k.reduction == SITU_REDUCTION_NONE ? i : 0) / (k.reduction == SITU_REDUCTION_MEAN ? used : 1);
      for (int64_t c = 0; c < k.c; c++) {
        double p = k.logits ? exp(view_get(v.x, first + c * k.s)) / sum : 0, w = v.weight ? view_get(v.weight, c) : 1,
               spread = k.logits ? k.smoothing / (double)k.c : 0;
        double want = t == IGNORED ? 0 : g * ((1 - k.smoothing) * wt * (p - (c == t)) + spread * (weights * p - w));
        near(v.dx, first + c * k.s, want,
             t == IGNORED ? 0 : fabs(g) * (wt * ((1 + fabs(lse)) * p + (c == t)) + spread * (weights * p + w)),
             "gradient");
      }
    }
  near(v.total, 0, used, used, "total weight");
  if (k.reduction == SITU_REDUCTION_SUM) near(v.loss, 0, loss, size, "loss");
  if (k.reduction == SITU_REDUCTION_MEAN) near(v.loss, 0, loss / used, size / used, "loss");
  free(each);
  drop(&v);
}

static void every_dtype_shape_and_option(void **state) {
  (void)state;
  const int64_t sizes[][3] = { { 8, 5, 1 },    { 300, 4, 1 },  { 3, 7, 40 },  { 2, 30, 700 }, { 5, 3000, 1 },
                               { 9000, 3, 1 }, { 9, 8, 1 },    { 9, 33, 1 },  { 3, 256, 1 },  { 3, 1024, 1 },
                               { 2, 1025, 1 }, { 2, 4097, 1 }, { 2, 8193, 1 } };
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int dtype = SITU_F16; dtype < SITU_DTYPES; dtype++)
      for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_NONE; reduction++)
        for (int given = 0; given < 8; given++) {
          nll_case k = { dtype,       reduction, sizes[s][0], sizes[s][1],
                         sizes[s][2], given & 1, given & 2,   given & 4 ? 0.1 : 0 };
          if (dtype == SITU_F16 && reduction == SITU_REDUCTION_SUM && k.n * k.s > 2000)
            continue; /* the sum is no f16 */
          if (!test_takes(s + (size_t)(dtype + reduction + given), 2)) continue;
          if (k.logits || k.smoothing == 0) check(k);
        }
}

/* Devices add so many losses in pieces, the last of them shorter. */
static void sums_of_many_positions(void **state) {
  (void)state;
  for (int reduction = SITU_REDUCTION_MEAN; reduction <= SITU_REDUCTION_SUM; reduction++)
    check((nll_case){ SITU_F32, reduction, 66113, 3, 1, true, true, 0 });
}

static void only_ignored(void **state) {
  (void)state;
  nll_case k = { SITU_F32, SITU_REDUCTION_MEAN, 4, 5, 1, true, false, 0 };
  nll_views v = make(k);
  for (int i = 0; i < 4; i++) view_set(v.target, i, IGNORED);
  assert_int_equal(there(k, &v), SITU_OK);
  assert_int_equal(back(k, &v), SITU_OK);
  assert_true(isnan(view_get(v.loss, 0)) && view_get(v.total, 0) == 0);
  for (int64_t i = 0; i < v.dx->d.numel; i++) assert_true(view_get(v.dx, i) == 0);
  drop(&v);
}

/* nll's input need not be small: what is no target has no part in the loss, whatever its value. */
static void large_inputs_of_nll(void **state) {
  (void)state;
  nll_case k = { SITU_F32, SITU_REDUCTION_SUM, 3, 5, 1, false, false, 0 };
  nll_views v = make(k);
  for (int64_t i = 0; i < v.x->d.numel; i++) view_set(v.x, i, i % 2 ? 1e30 : INFINITY);
  for (int i = 0; i < 3; i++) view_set(v.target, i, i % 2 ? 0 : 1), view_set(v.x, i * 5 + (i % 2 ? 0 : 1), -2);
  view_set(v.g, 0, 1);
  assert_int_equal(there(k, &v), SITU_OK);
  assert_int_equal(back(k, &v), SITU_OK);
  assert_true(view_get(v.loss, 0) == 6);
  for (int64_t i = 0; i < 15; i++) assert_true(view_get(v.dx, i) == (i % 5 == (i / 5 % 2 ? 0 : 1) ? -1 : 0));
  drop(&v);
}

static void bad_targets_are_refused(void **state) {
  (void)state;
  const int64_t bad[] = { -1, 5, -100, INT64_MAX, INT64_MIN };
  /* The cpu looks first. Other devices see it while they compute, and say which index but not where. */
  const bool cpu = test_device().kind == SITU_CPU;
  nll_case k = { SITU_F32, SITU_REDUCTION_MEAN, 4, 5, 3, true, false, 0 };
  for (int b = 0; b < 5; b++) {
    nll_views v = make(k);
    ((int64_t *)v.target->storage.data)[7] = bad[b];
    view_set(v.loss, 0, 42);
    char text[40];
    (void)snprintf(text, sizeof text, cpu ? "index %lld at [2, 1]" : "index %lld", (long long)bad[b]);
    assert_int_equal(there(k, &v), SITU_E_INDEX);
    assert_non_null(strstr(situ_error_message(), text));
    situ_error_clear();
    assert_int_equal(back(k, &v), SITU_E_INDEX);
    situ_error_clear();
    if (cpu) assert_true(view_get(v.loss, 0) == 42);
    drop(&v);
  }
}

static void same_bits_for_any_number_of_threads(void **state) {
  (void)state;
  int before = situ__pool_threads();
  nll_case k = { SITU_F32, SITU_REDUCTION_MEAN, 20000, 10, 1, true, true, 0.1 };
  situ__pool_set_threads(1);
  nll_views one = make(k);
  assert_int_equal(there(k, &one), SITU_OK);
  assert_int_equal(back(k, &one), SITU_OK);
  for (int threads = 2; threads <= test_most_threads(); threads++) {
    situ__pool_set_threads(threads);
    nll_views many = make(k);
    assert_int_equal(there(k, &many), SITU_OK);
    assert_int_equal(back(k, &many), SITU_OK);
    assert_true(view_same(one.loss, many.loss) && view_same(one.dx, many.dx));
    drop(&many);
  }
  situ__pool_set_threads(before);
  drop(&one);
}

int main(void) {
  situ_error_mode(SITU_ERROR_QUIET);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_dtype_shape_and_option),
    cmocka_unit_test(sums_of_many_positions),
    cmocka_unit_test(only_ignored),
    cmocka_unit_test(large_inputs_of_nll),
    cmocka_unit_test(bad_targets_are_refused),
    cmocka_unit_test(same_bits_for_any_number_of_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
