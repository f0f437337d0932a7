/* Attention over blocks of keys beside attention that keeps all weights, which a mask with a gradient asks for: every kind of
   mask, dropout, groups, dtype, and lengths around the blocks. Memory, which is linear in the length.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 */
#include "backend/cpu/attention/attention.h"
#include "situ/sys/op.h"
#include "support/test.h"

#include <limits.h>
#include <math.h>

/* Queries, keys, their features, those of a value, heads of queries and of keys. */
typedef struct problem {
  int64_t l, s, e, v, heads, groups;
} problem;
typedef enum kind { NONE, CAUSAL, CHOICE, ADDED, PADDING, EACH_HEAD, KINDS } kind;
static const char *const names[] = { "none", "causal", "bool", "added", "padding", "each head" };

enum { BATCH = 2 };

/* The mask that is given, and as numbers to add; -1 in about a third of the places means -infinity. */
static situ_tensor *mask_of(const problem *p, kind k, situ_dtype dtype, situ_tensor **added) {
  const situ_options f64 = { .dtype = SITU_F64, .device = test_device() };
  situ_tensor *zero = situ_zeros(SITU_SHAPE(p->l, p->s), &f64), *low = situ_full(SITU_SCALAR, -INFINITY, &f64);
  situ_tensor *x = test_random(k == PADDING     ? SITU_SHAPE(BATCH, 1, 1, p->s)
                               : k == EACH_HEAD ? SITU_SHAPE(BATCH, p->heads, p->l, p->s)
                                                : SITU_SHAPE(p->l, p->s),
                               -1, 2, false);
  *added = zero;
  if (k == NONE) return NULL;
  if (k == CAUSAL) return *added = situ_triu(situ_full(SITU_SHAPE(p->l, p->s), -INFINITY, &f64), 1), NULL;
  if (k == CHOICE || k == EACH_HEAD) {
    situ_tensor *see = situ_gt_scalar(x, 0);
    *added = situ_where(see, situ_zeros_like(x, NULL), low);
    return see;
  }
  situ_tensor *given = situ_to_dtype(situ_where(situ_gt_scalar(x, -0.5), x, low), k == PADDING ? SITU_F32 : dtype);
  *added = situ_to_dtype(given, SITU_F64);
  return given;
}

/* Values that dtype holds exactly. */
static situ_tensor *operand(situ_shape shape, situ_dtype dtype) {
  return situ_to_dtype(situ_to_dtype(test_random(shape, -1, 1, false), dtype), SITU_F64);
}

/* Result and gradients; out: y, dq, dk, dv. Returns false if an algorithm is forced that does not suit. */
static bool try_to_differentiate(situ_tensor *const *x, situ_dtype dtype, situ_attention_options o, situ_tensor *up,
                                 situ_tensor **out) {
  situ_tensor *in[3];
  for (int i = 0; i < 3; i++) in[i] = situ_requires_grad_(situ_to_dtype(situ_clone(x[i]), dtype), true);
  situ_manual_seed(11);
  out[0] = situ_scaled_dot_product_attention(in[0], in[1], in[2], &o);
  if (!out[0]) return assert_int_equal(situ_error(), SITU_E_UNSUPPORTED), false;
  const situ_status status = situ_backward(out[0], &(situ_backward_options){ .gradient = situ_to_dtype(up, dtype) });
  for (int i = 0; i < 3; i++) out[i + 1] = situ_grad(in[i]);
  return status == SITU_OK || (assert_int_equal(status, SITU_E_UNSUPPORTED), false);
}
static void differentiate(situ_tensor *const *x, situ_dtype dtype, situ_attention_options o, situ_tensor *up,
                          situ_tensor **out) {
  assert_true(try_to_differentiate(x, dtype, o, up, out));
}

/* Rows of the cpu's table that ran: a bit for each. Ops keep the weights of few keys. */
enum { FEW_KEYS = 64 };
static uint32_t rows_seen;

/* As it is chosen, and on the cpu by each algorithm that suits. */
static void compare(const problem *p, kind k, double dropout, situ_dtype dtype, double tolerance) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tensor *x[3] = { operand(SITU_SHAPE(BATCH, p->heads, p->l, p->e), dtype),
                        operand(SITU_SHAPE(BATCH, p->groups, p->s, p->e), dtype),
                        operand(SITU_SHAPE(BATCH, p->groups, p->s, p->v), dtype) };
  situ_tensor *up = operand(SITU_SHAPE(BATCH, p->heads, p->l, p->v), dtype), *added, *got[4], *want[4];
  situ_tensor *mask = mask_of(p, k, dtype, &added);
  const situ_attention_options o =
      OPTIONS_OF(situ_attention, with.attn_mask = mask, with.is_causal = k == CAUSAL, with.dropout_p = dropout,
                 with.scale = 0.6, with.enable_gqa = p->heads != p->groups);
  situ_attention_options whole = o;
  whole.is_causal = false;
  whole.attn_mask = situ_requires_grad_(added, true); /* keeps the weights */
  differentiate(x, SITU_F64, whole, up, want);
  const int rows = test_device().kind == SITU_CPU && p->s > FEW_KEYS ? INT_MAX : 0;
  for (int row = SITU__CHOICE_FREE; row < rows && (row < 0 || situ__attention_choice.name_of(row)); row++) {
    situ__choice_force(&situ__attention_choice, row);
    const bool good = try_to_differentiate(x, dtype, o, up, got);
    situ__choice_force(&situ__attention_choice, SITU__CHOICE_FREE);
    if (!good) {
      assert_true(row >= 0);
      situ_error_clear();
      continue;
    }
    if (row >= 0) rows_seen |= UINT32_C(1) << row;
    for (int i = 0; i < 4; i++) {
      double error;
      assert_int_equal(situ_item(situ_max(situ_abs(situ_sub(situ_to_dtype(got[i], SITU_F64), want[i]))), &error),
                       SITU_OK);
      if (!(error <= tolerance * (i ? 8 : 2)))
        fail_msg("%s, dropout %g, %s, %d x %d, %d and %d features, %d heads on %d: %s is off by %g", names[k], dropout,
                 situ_dtype_name(dtype), (int)p->l, (int)p->s, (int)p->e, (int)p->v, (int)p->heads, (int)p->groups,
                 (const char *[]){ "y", "dq", "dk", "dv" }[i], error);
    }
  }
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

/* Each mask alone, and some beside dropout; where that takes long half of them, the problem saying which. */
static void each_mask(const problem *p, situ_dtype dtype, double tolerance) {
  static const double dropout[KINDS] = { [NONE] = 0.3, [CAUSAL] = 0.3, [EACH_HEAD] = 0.5 };
  for (int k = 0; k < KINDS; k++)
    if (test_takes((size_t)(p->s + k), 2)) compare(p, (kind)k, 0, dtype, tolerance);
  for (int k = 0; k < KINDS; k++)
    if (dropout[k] > 0 && test_takes((size_t)(p->s + k + 1), 2)) compare(p, (kind)k, dropout[k], dtype, tolerance);
}

static void as_with_all_weights(void **state) {
  (void)state;
  /* Those of 260, 400 and 520 keys are multiplied by tile registers where there are any, the last one's gradients too,
     but for its last queries. */
  static const problem problems[] = {
    { 5, 67, 4, 3, 2, 2 },    { 1, 300, 16, 16, 4, 2 },   { 3, 65, 1, 1, 1, 1 },
    { 40, 70, 80, 24, 2, 1 }, { 130, 20, 3, 64, 2, 2 },   { 70, 400, 44, 24, 4, 1 },
    { 130, 90, 3, 64, 2, 2 }, { 544, 260, 33, 48, 1, 1 }, { 164, 520, 32, 48, 4, 2 }
  };
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) {
    if ((problems[i].l > 160 && test_device().kind != SITU_CPU) || !test_is_mine(i)) continue;
    if (test_takes(i, 2)) each_mask(&problems[i], SITU_F64, 1e-12);
    if (test_takes(i + 1, 2)) each_mask(&problems[i], SITU_F32, 3e-6);
  }
}

static void in_16_bits(void **state) {
  (void)state;
  static const problem p = { 33, 70, 20, 16, 4, 2 };
  each_mask(&p, SITU_BF16, 0.02);
  each_mask(&p, SITU_F16, 0.003);
}

/* Result and gradients of one head in f32 are those in f64. */
static void as_in_f64(situ_tensor *const *x, const situ_attention_options *o, situ_tensor *up, double tolerance) {
  situ_tensor *got[4], *want[4];
  differentiate(x, SITU_F32, *o, up, got);
  differentiate(x, SITU_F64, *o, up, want);
  for (int i = 0; i < 4; i++) expect_same(situ_to_dtype(got[i], SITU_F64), want[i], tolerance, tolerance);
}

/* Tile registers refuse numbers that have no three parts: a block of keys, or the queries, that have some are multiplied by
   vectors, beside blocks that are not. */
static void of_any_magnitude(void **state) {
  (void)state;
  enum { L = 80, S = 600, E = 48 };
  situ_tensor *x[4] = { operand(SITU_SHAPE(2, 1, L, E), SITU_F32), operand(SITU_SHAPE(2, 1, S, E), SITU_F32),
                        operand(SITU_SHAPE(2, 1, S, E), SITU_F32), operand(SITU_SHAPE(2, 1, L, E), SITU_F32) };
  const situ_attention_options o = OPTIONS_OF(situ_attention, with.scale = 0);
  for (int which = 0; which < 4; which++) {
    situ_tensor *in[4];
    for (int i = 0; i < 4; i++) in[i] = situ_clone(x[i]);
    situ_tensor *few = situ_narrow(situ_select(situ_select(in[which], 0, 0), 1, 20), 1, 3, 1);
    assert_non_null(situ_fill_(few, 1e-36));
    as_in_f64(in, &o, in[3], 1e-5);
    assert_non_null(situ_fill_(few, NAN));
    /* Of one query; of all features of the item; of one. A gradient's reaches its query and the item's keys. */
    static const int results[] = { E, L * E, L, 0 };
    static const int gradients[][3] = {
      { E, S * E, S * E }, { L * E, S * E, S * E }, { L * E, S * E, 0 }, { E, S * E, S }
    };
    situ_tensor *got[4];
    differentiate(in, SITU_F32, o, in[3], got);
    for (int i = 0; i < 4; i++) {
      double count;
      assert_int_equal(situ_item(situ_sum(situ_isnan(got[i]), NULL), &count), SITU_OK);
      assert_int_equal((int)count, i ? gradients[which][i - 1] : results[which]);
    }
  }
}

/* Scores so far apart that weights come near the smallest f32. */
static void far_apart(void **state) {
  (void)state;
  for (double scale = 1; scale < 100; scale *= 3) {
    situ_tensor *x[4];
    for (int i = 0; i < 4; i++) x[i] = operand(SITU_SHAPE(1, 1, 300, 48), SITU_F32);
    as_in_f64(x, OPTIONS_AT(situ_attention, with.scale = scale), x[3], 3e-6 * (1 + scale) * 8);
  }
}

/* Later keys have larger scores, so that sums until then are scaled: seldom, or in every block. */
static void rising(void **state) {
  (void)state;
  enum { L = 70, S = 800, E = 32 };
  for (double rise = 1; rise < 200; rise *= 5) {
    situ_tensor *x[4] = { situ_abs(operand(SITU_SHAPE(2, L, E), SITU_F32)),
                          situ_abs(operand(SITU_SHAPE(2, S, E), SITU_F32)), operand(SITU_SHAPE(2, S, E), SITU_F32),
                          operand(SITU_SHAPE(2, L, E), SITU_F32) };
    situ_tensor *place = situ_arange(0, S, 1, &(situ_options){ .dtype = SITU_F64, .device = test_device() });
    x[1] = situ_mul(x[1], situ_unsqueeze(situ_mul_scalar(place, rise / S), 1));
    as_in_f64(x, OPTIONS_AT(situ_attention, with.scale = 0.2), x[3], 1e-5 * (1 + rise));
  }
}

/* A value so large that the smallest weight counts, which has no three parts. */
static void a_small_weight(void **state) {
  (void)state;
  enum { L = 64, S = 300, E = 32, AT = 7 };
  for (double score = -40; score > -87; score -= 5) {
    const situ_options of = { .dtype = SITU_F32, .device = test_device() },
                       f64 = { .dtype = SITU_F64, .device = test_device() };
    situ_tensor *q = situ_ones(SITU_SHAPE(L, E), &of), *k = situ_zeros(SITU_SHAPE(S, E), &of),
                *v = situ_zeros(SITU_SHAPE(S, E), &of);
    situ_fill_(situ_narrow(situ_select(k, 0, AT), 0, 0, 1), score);
    situ_fill_(situ_select(v, 0, AT), 1e30);
    situ_tensor *y = situ_scaled_dot_product_attention(q, k, v, OPTIONS_AT(situ_attention, with.scale = 1));
    const double want = exp(score) / (S - 1 + exp(score)) * 1e30;
    expect_same(situ_to_dtype(situ_div_scalar(y, want), SITU_F64), situ_ones(SITU_SHAPE(L, E), &f64), 0, 3e-6);
  }
}

/* Operands of any strides: heads between the tokens, features apart. */
static void strided(void **state) {
  (void)state;
  situ_tensor *x = test_random(SITU_SHAPE(2, 70, 3, 2, 8), -1, 1, false), *part[3], *dense[3];
  for (int i = 0; i < 3; i++) {
    part[i] = situ_transpose(situ_select(x, 2, i), 1, 2);
    if (i == 1) part[i] = situ_transpose(situ_contiguous(situ_transpose(part[i], -1, -2)), -1, -2);
    dense[i] = situ_contiguous(part[i]);
  }
  for (int dtype = 0; dtype < 2; dtype++) {
    const situ_dtype as = dtype ? SITU_F32 : SITU_F64;
    expect_same(situ_scaled_dot_product_attention(situ_to_dtype(part[0], as), situ_to_dtype(part[1], as),
                                                  situ_to_dtype(part[2], as), NULL),
                situ_scaled_dot_product_attention(situ_to_dtype(dense[0], as), situ_to_dtype(dense[1], as),
                                                  situ_to_dtype(dense[2], as), NULL),
                1e-6, 1e-6);
  }
}

static void groups_are_heads(void **state) {
  (void)state;
  situ_tensor *q = test_random(SITU_SHAPE(4, 3, 2), -1, 1, false), *k = test_random(SITU_SHAPE(2, 75, 2), -1, 1, false);
  situ_tensor *repeated = situ_index_select(k, 0, test_tensor(SITU_I64, SITU_SHAPE(4), (double[]){ 0, 0, 1, 1 }));
  expect_same(situ_scaled_dot_product_attention(q, k, k, OPTIONS_AT(situ_attention, with.enable_gqa = true)),
              situ_scaled_dot_product_attention(q, repeated, repeated, NULL), 1e-12, 1e-12);
  const char *op = "scaled_dot_product_attention";
  const situ_attention_options gqa = OPTIONS_OF(situ_attention, with.enable_gqa = true);
  expect_refused(situ_scaled_dot_product_attention(situ_select(q, 0, 0), k, k, &gqa), SITU_E_SHAPE, op, "3 dimensions");
  expect_refused(situ_scaled_dot_product_attention(situ_narrow(q, 0, 0, 3), k, k, &gqa), SITU_E_SHAPE, op,
                 "query has 3");
  situ_tensor *mask = test_random(SITU_SHAPE(2, 3, 75), -1, 1, false);
  expect_refused(situ_scaled_dot_product_attention(
                     q, k, k, OPTIONS_AT(situ_attention, with.enable_gqa = true, with.attn_mask = mask)),
                 SITU_E_SHAPE, op, "attn_mask has 2");
  expect_refused(situ_scaled_dot_product_attention(q, k, situ_narrow(k, 0, 0, 1), &gqa), SITU_E_SHAPE, op, "value 1");
  expect_refused(situ_scaled_dot_product_attention(q, NULL, k, &gqa), SITU_E_ARG, op, "NULL");
}

/* Units do not depend on the number of threads, so bits do not. */
static void one_thread_or_three(void **state) {
  (void)state;
  enum { S = 300, E = 40 };
  situ_tensor *x[3] = { test_random(SITU_SHAPE(2, 4, S, E), -1, 1, false),
                        test_random(SITU_SHAPE(2, 2, S, E), -1, 1, false),
                        test_random(SITU_SHAPE(2, 2, S, E), -1, 1, false) };
  situ_tensor *up = test_random(SITU_SHAPE(2, 4, S, E), -1, 1, false), *one[4], *three[4];
  const situ_attention_options o =
      OPTIONS_OF(situ_attention, with.is_causal = true, with.dropout_p = 0.2, with.enable_gqa = true);
  const int before = situ_get_num_threads();
  assert_int_equal(situ_set_num_threads(1), SITU_OK);
  differentiate(x, SITU_F32, o, up, one);
  assert_int_equal(situ_set_num_threads(3), SITU_OK);
  differentiate(x, SITU_F32, o, up, three);
  assert_int_equal(situ_set_num_threads(before), SITU_OK);
  for (int i = 0; i < 4; i++) expect_same(one[i], three[i], 0, 0);
}

/* Bytes that forward and backward with so many tokens take from the device, which keeps what is freed. */
static uint64_t held_for(int64_t tokens) {
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_options o = { .dtype = SITU_F32, .device = test_device(), .requires_grad = true };
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 1, tokens, 8), &o);
  situ_device_properties before, after;
  assert_int_equal(situ_empty_cache(test_device()), SITU_OK);
  assert_int_equal(situ_device_info(test_device(), &before), SITU_OK);
  situ_tensor *y = situ_scaled_dot_product_attention(x, x, x, OPTIONS_AT(situ_attention, with.dropout_p = 0.1));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_OK);
  assert_int_equal(situ_device_info(test_device(), &after), SITU_OK);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  return after.memory_reserved - before.memory_reserved;
}

static void memory_is_linear(void **state) {
  (void)state;
  if (!situ_device_has(test_device(), SITU_VERB_ATTENTION)) return;
  const uint64_t of_1024 = held_for(1024), of_2048 = held_for(2048);
  if (of_2048 > 2 * of_1024 + 65536)
    fail_msg("%llu bytes for 1024 tokens, %llu for 2048", (unsigned long long)of_1024, (unsigned long long)of_2048);
}

/* After all other cases: a row that no problem of them suits was not tested. */
static void every_algorithm_ran(void **state) {
  (void)state;
  if (test_device().kind != SITU_CPU) skip();
  for (int row = 0; situ__attention_choice.name_of(row); row++)
    if (situ__attention_algorithms[row].least <= situ__cpu_isa() && !(rows_seen >> row & 1))
      fail_msg("no problem suits %s", situ__attention_algorithms[row].name);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(as_with_all_weights),
                                      TEST(in_16_bits),
                                      TEST(strided),
                                      TEST(of_any_magnitude),
                                      TEST(far_apart),
                                      TEST(groups_are_heads),
                                      TEST(rising),
                                      TEST(a_small_weight),
                                      TEST(one_thread_or_three),
                                      TEST(memory_is_linear),
                                      TEST(every_algorithm_ran) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
