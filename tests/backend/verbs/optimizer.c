/* Fused optimiser steps against PyTorch's formulas written out one element at a time.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu opencl:0 */
/* test-listed: yes */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backend/cpu/common/cpu.h"
#include "base/pool.h"
#include "support/test.h"
#include "support/verbs/views.h"

/* One step of torch.optim for one element, in f64. s: SGD's buffer; Adam's mean, square, largest; RMSprop's square,
   buffer, mean. */
static double reference(situ_optimizer_rule rule, const situ_optimizer_params *o, int64_t step, double p, double g,
                        double *s) {
  g *= o->grad_scale;
  if (o->maximize) g = -g;
  if (rule == SITU_RULE_ADAMW) p *= 1 - o->lr * o->weight_decay;
  else g += o->weight_decay * p;
  switch (rule) {
  case SITU_RULE_SGD:
    if (o->momentum != 0) {
      s[0] = step == 1 ? g : o->momentum * s[0] + (1 - o->dampening) * g;
      g = o->nesterov ? g + o->momentum * s[0] : s[0];
    }
    return p - o->lr * g;
  case SITU_RULE_ADAM:
  case SITU_RULE_ADAMW: {
    s[0] = o->beta1 * s[0] + (1 - o->beta1) * g;
    s[1] = o->beta2 * s[1] + (1 - o->beta2) * g * g;
    double v = s[1];
    if (o->amsgrad) v = s[2] = fmax(s[2], v);
    double denominator = sqrt(v) / sqrt(1 - pow(o->beta2, (double)step)) + o->eps;
    return p - o->lr / (1 - pow(o->beta1, (double)step)) * s[0] / denominator;
  }
  default: {
    s[0] = o->alpha * s[0] + (1 - o->alpha) * g * g;
    double v = s[0];
    if (o->centered) {
      s[2] = o->alpha * s[2] + (1 - o->alpha) * g;
      v -= s[2] * s[2];
    }
    double root = sqrt(v) + o->eps;
    if (o->momentum > 0) {
      s[1] = o->momentum * s[1] + g / root;
      return p - o->lr * s[1];
    }
    return p - o->lr * g / root;
  }
  }
}

enum { TENSORS = 5, STEPS = 6 };

typedef struct set {
  test_view *param[TENSORS], *grad[TENSORS], *state[TENSORS][3];
  situ_optimizer_item item[TENSORS];
} set;

static void set_open(set *s, situ_dtype dtype, const int64_t *sizes) {
  for (int t = 0; t < TENSORS; t++) {
    situ_shape shape = SITU_SHAPE(sizes[t]);
    s->param[t] = view_new(dtype, shape, VIEW_ROWS);
    s->grad[t] = view_new(dtype, shape, VIEW_ROWS);
    view_random(s->param[t], (uint64_t)t + 1, -1, 1);
    s->item[t] = (situ_optimizer_item){ .param = &s->param[t]->d, .grad = &s->grad[t]->d };
    for (int k = 0; k < 3; k++) {
      s->state[t][k] = view_new(dtype, shape, VIEW_ROWS);
      s->item[t].state[k] = &s->state[t][k]->d;
    }
  }
}
static void set_close(set *s) {
  for (int t = 0; t < TENSORS; t++) {
    view_free(s->param[t]);
    view_free(s->grad[t]);
    for (int k = 0; k < 3; k++) view_free(s->state[t][k]);
  }
}

static void take_step(set *s, situ_optimizer_rule rule, const situ_optimizer_params *o, int64_t step) {
  for (int t = 0; t < TENSORS; t++) {
    view_random(s->grad[t], (uint64_t)(step * TENSORS + t) + 100, -2, 2);
    s->item[t].step = step;
  }
  situ_work work = { .op = (int)rule, .list = s->item, .list_count = TENSORS, .params = o };
  assert_int_equal(view_run(SITU_VERB_OPTIMIZER, &work), SITU_OK);
}

static const int64_t few[TENSORS] = { 1, 16, 0, 37, 1500 };

/* Every rule with every combination of its options. */
static void every_rule_follows_its_formula(void **state) {
  (void)state;
  static const struct {
    situ_dtype dtype;
    double unit;
  } types[] = { { SITU_F64, DBL_EPSILON }, { SITU_F32, FLT_EPSILON }, { SITU_F16, 0x1p-10 }, { SITU_BF16, 0x1p-7 } };
  int64_t sizes[TENSORS];
  memcpy(sizes, few, sizeof few);
  sizes[2] = 5;
  for (int rule = 0; rule <= SITU_RULE_RMSPROP; rule++)
    for (int options = 0; options < 64; options++)
      for (int t = 0; t < 4; t++) {
        if (!test_takes((size_t)(rule + options + t), 3)) continue;
        situ_optimizer_params o = {
          .lr = 0.02, .beta1 = 0.9, .beta2 = 0.95, .alpha = 0.9, .eps = 1e-3, .grad_scale = options & 32 ? 0.5 : 1
        };
        o.weight_decay = options & 1 ? 0.1 : 0;
        o.maximize = options & 2;
        o.momentum = options & 4 ? 0.8 : 0;
        o.nesterov = o.amsgrad = o.centered = options & 8;
        o.dampening = options & 16 && !(options & 8) ? 0.3 : 0;
        set s;
        set_open(&s, types[t].dtype, sizes);
        for (int64_t step = 1; step <= STEPS; step++) {
          double want[TENSORS], before[TENSORS][3];
          int64_t at[TENSORS];
          for (int k = 0; k < TENSORS; k++) {
            at[k] = (step * 7919) % sizes[k];
            want[k] = view_get(s.param[k], at[k]);
            for (int j = 0; j < 3; j++) before[k][j] = view_get(s.state[k][j], at[k]);
          }
          take_step(&s, (situ_optimizer_rule)rule, &o, step);
          for (int k = 0; k < TENSORS; k++) {
            double got = view_get(s.param[k], at[k]);
            want[k] = reference((situ_optimizer_rule)rule, &o, step, want[k], view_get(s.grad[k], at[k]), before[k]);
            /* A step moves a parameter by up to 1; centered RMSprop's variance cancels. */
            double allowed = types[t].unit * (rule == SITU_RULE_RMSPROP && o.centered ? 200 : 8);
            if (types[t].dtype == SITU_F16 || types[t].dtype == SITU_BF16)
              allowed = types[t].unit * fmax(1, fabs(want[k]));
            if (!(fabs(got - want[k]) <= allowed))
              fail_msg("rule %d, options %d, %s, step %d, tensor %d: %.17g, want %.17g (%g units)", rule, options,
                       situ_dtype_name(types[t].dtype), (int)step, k, got, want[k],
                       fabs(got - want[k]) / types[t].unit);
            for (int j = 0; j < 3; j++) {
              double kept = view_get(s.state[k][j], at[k]);
              if (!(fabs(kept - before[k][j]) <= 4 * types[t].unit * fmax(1, fabs(before[k][j]))))
                fail_msg("rule %d, options %d, %s, step %d: state %d is %.17g, want %.17g", rule, options,
                         situ_dtype_name(types[t].dtype), (int)step, j, kept, before[k][j]);
            }
          }
        }
        set_close(&s);
      }
}

/* Parameters that share a chunk, or have several; the same bits on any number of threads. */
static void bits_do_not_depend_on_threads(void **state) {
  (void)state;
  const int64_t sizes[TENSORS] = { 100003, 16, 40000, 1, 70001 };
  const situ_optimizer_params o = {
    .lr = 0.01, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.01, .grad_scale = 1, .amsgrad = true
  };
  int before = situ__pool_threads();
  set s[3];
  for (int k = 0; k < 3; k++) {
    assert_true(situ__pool_set_threads(k == 0 ? 1 : k == 1 ? 2 : 7));
    set_open(&s[k], SITU_F32, sizes);
    for (int64_t step = 1; step <= 3; step++) take_step(&s[k], SITU_RULE_ADAMW, &o, step);
    for (int t = 0; t < TENSORS; t++) {
      assert_true(view_same(s[0].param[t], s[k].param[t]));
      for (int j = 0; j < 3; j++) assert_true(view_same(s[0].state[t][j], s[k].state[t][j]));
    }
  }
  /* Every element was reached once a step: the same steps one element at a time end at the same place. */
  set again;
  set_open(&again, SITU_F32, sizes);
  for (int t = 0; t < TENSORS; t++)
    for (int64_t step = 1; step <= 3; step++) {
      view_random(again.grad[t], (uint64_t)(step * TENSORS + t) + 100, -2, 2);
      for (int64_t i = 0; i < sizes[t]; i += 61) {
        double kept[3] = { view_get(again.state[t][0], i), view_get(again.state[t][1], i),
                           view_get(again.state[t][2], i) };
        view_set(again.param[t], i,
                 reference(SITU_RULE_ADAMW, &o, step, view_get(again.param[t], i), view_get(again.grad[t], i), kept));
        for (int k = 0; k < 3; k++) view_set(again.state[t][k], i, kept[k]);
        if (step == 3) assert_true(fabs(view_get(again.param[t], i) - view_get(s[0].param[t], i)) < 4 * FLT_EPSILON);
      }
    }
  set_close(&again);
  for (int k = 0; k < 3; k++) set_close(&s[k]);
  assert_true(situ__pool_set_threads(before));
}

/* States that a rule does not use may be missing. */
static void unused_states_may_be_missing(void **state) {
  (void)state;
  for (int rule = 0; rule <= SITU_RULE_RMSPROP; rule++)
    for (int dtype = SITU_F16; dtype <= SITU_F64; dtype++) {
      const situ_optimizer_params o = {
        .lr = 0.5, .beta1 = 0.9, .beta2 = 0.999, .alpha = 0.9, .eps = 1e-3, .grad_scale = 1
      };
      const int needed = rule == SITU_RULE_SGD ? 0 : rule == SITU_RULE_RMSPROP ? 1 : 2;
      set s;
      set_open(&s, (situ_dtype)dtype, few);
      for (int t = 0; t < TENSORS; t++)
        for (int k = needed; k < 3; k++) s.item[t].state[k] = NULL;
      double before = view_get(s.param[3], 5);
      take_step(&s, (situ_optimizer_rule)rule, &o, 1);
      assert_true(view_get(s.param[3], 5) != before);
      set_close(&s);
    }
  set s;
  set_open(&s, SITU_I32, few);
  situ_work work = {
    .op = SITU_RULE_SGD, .list = s.item, .list_count = TENSORS, .params = &(situ_optimizer_params){ .lr = 1 }
  };
  assert_int_equal(view_run(SITU_VERB_OPTIMIZER, &work), SITU_E_UNSUPPORTED);
  set_close(&s);
}

/* A list goes to a device in parts of alike items: NaN, which differs from itself, must not end a part at its first. */
static void a_product_that_is_nan(void **state) {
  (void)state;
  const situ_optimizer_params o = { .lr = 0.5, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-3, .grad_scale = 1 };
  set s;
  set_open(&s, SITU_F32, few);
  for (int t = 0; t < TENSORS; t++) s.item[t].mu_product = NAN;
  take_step(&s, SITU_RULE_NADAM, &o, 2);
  assert_true(isnan(view_get(s.param[3], 5)));
  set_close(&s);
}

/* More parameters than go to a device at once, of sizes and in places that fit no access of 16 bytes, and not all at the same
   step. What lies between them is left alone. */
static void long_lists_of_odd_parameters(void **state) {
  (void)state;
  enum { COUNT = 150, ROLES = 5, ROOM = COUNT * (COUNT + 6) };
  const situ_optimizer_params o = {
    .lr = 0.02, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-3, .grad_scale = 1, .amsgrad = true
  };
  static situ_view_desc view[ROLES][COUNT];
  static situ_optimizer_item item[COUNT];
  for (int dtype = SITU_F32; dtype <= SITU_F64; dtype++) {
    test_view *all[ROLES], *before[ROLES];
    for (int k = 0; k < ROLES; k++) {
      all[k] = view_new((situ_dtype)dtype, SITU_SHAPE(ROOM), VIEW_ROWS);
      before[k] = view_new((situ_dtype)dtype, SITU_SHAPE(ROOM), VIEW_ROWS);
      view_random(all[k], (uint64_t)k + 1, k < 2 ? -1 : 0.1, 1);
      memcpy(before[k]->storage.data, all[k]->storage.data, all[k]->storage.bytes);
      int64_t at = 0;
      for (int t = 0; t < COUNT; t++, at += t + 4 + k % 2) {
        view[k][t] = all[k]->d;
        view[k][t].offset = at += t % 4 == 0 && at % 4 ? 4 - at % 4 : 0;
        view[k][t].numel = view[k][t].size[0] = t;
      }
    }
    for (int t = 0; t < COUNT; t++)
      item[t] = (situ_optimizer_item){
        &view[0][t], &view[1][t], { &view[2][t], &view[3][t], &view[4][t] }, .step = t < 100 ? 3 : 4
      };
    situ_work work = { .op = SITU_RULE_ADAM, .list = item, .list_count = COUNT, .params = &o };
    assert_int_equal(view_run(SITU_VERB_OPTIMIZER, &work), SITU_OK);
    const double near = dtype == SITU_F32 ? 4e-6 : 1e-14;
    for (int t = 0; t < COUNT; t++)
      for (int64_t i = 0; i < t; i++) {
        double was[ROLES];
        for (int k = 0; k < ROLES; k++) {
          was[k] = view_get(before[k], view[k][t].offset + i);
          view_set(before[k], view[k][t].offset + i, 77);
        }
        const double want = reference(SITU_RULE_ADAM, &o, item[t].step, was[0], was[1], was + 2);
        was[0] = want;
        for (int k = 0; k < ROLES; k++) {
          const int64_t at = view[k][t].offset + i;
          if (!(fabs(view_get(all[k], at) - was[k]) <= near))
            fail_msg("parameter %d, element %d, operand %d", t, (int)i, k);
          view_set(all[k], at, 77);
        }
      }
    for (int k = 0; k < ROLES; k++) {
      assert_true(view_same(all[k], before[k]));
      view_free(all[k]), view_free(before[k]);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_rule_follows_its_formula), cmocka_unit_test(bits_do_not_depend_on_threads),
    cmocka_unit_test(unused_states_may_be_missing),   cmocka_unit_test(a_product_that_is_nan),
    cmocka_unit_test(long_lists_of_odd_parameters),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
