/* Recipes: what is done on meta is done again on another device, with the same bits.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 opencl:0 opencl:1 */
#include "device/launch/launch.h"
#include "situ/sys/alloc.h"
#include "situ/sys/shape.h"
#include "support/test.h"

static const situ_device meta = { .kind = SITU_META };
static situ_options on(situ_device device) { return (situ_options){ .device = device }; }

/* Something that makes a tensor, with the default generator. */
typedef situ_tensor *(*maker)(situ_device device);

static situ_tensor *drawn(situ_device d) { return situ_randn(SITU_SHAPE(3, 4), &(situ_options){ .device = d }); }
static situ_tensor *counted(situ_device d) {
  return situ_arange(0, 7, 1, &(situ_options){ .dtype = SITU_F64, .device = d });
}
static situ_tensor *unit(situ_device d) {
  situ_options o = on(d);
  return situ_eye(3, 5, &o);
}
static situ_tensor *shuffled(situ_device d) {
  situ_options o = on(d);
  return situ_randperm(100, &o);
}
static situ_tensor *of_halves(situ_device d) {
  return situ_to_dtype(situ_rand(SITU_SHAPE(9), &(situ_options){ .dtype = SITU_F32, .device = d }), SITU_F16);
}
/* In place, through views, over and over: the recipe is the storage's. */
static situ_tensor *patched(situ_device d) {
  situ_options o = on(d);
  situ_tensor *t = situ_empty(SITU_SHAPE(4, 6), &o);
  situ_uniform_(situ_narrow(t, 0, 0, 2), -1, 1, NULL);
  situ_normal_(situ_narrow(t, 0, 2, 2), 0, 1, NULL);
  situ_mul_scalar_(situ_transpose(t, 0, 1), 3);
  situ_fill_(situ_select(t, 1, 5), 7);
  return t;
}
/* A value is read, changed, and read again: each reader sees what was there then. */
static situ_tensor *over_time(situ_device d) {
  situ_options o = on(d);
  situ_tensor *x = situ_randn(SITU_SHAPE(5), &o), *first = situ_mul_scalar(x, 2);
  situ_add_(x, first);
  situ_tensor *second = situ_exp(x);
  situ_sub_(x, second);
  situ_copy_(second, first);
  return situ_add(situ_add(x, second), first);
}
/* Whatever is written over entirely has no past. */
static situ_tensor *written_over(situ_device d) {
  situ_options o = on(d);
  situ_tensor *t = situ_empty(SITU_SHAPE(8), &o);
  for (int i = 0; i < 1000; i++) situ_uniform_(t, 0, 1, NULL);
  return t;
}
/* Rotary angles: what a module's buffer may well be made of. */
static situ_tensor *angles(situ_device d) {
  situ_options f = { .dtype = SITU_F32, .device = d };
  situ_tensor *place = situ_arange(0, 16, 1, &f), *step = situ_arange(0, 8, 2, &f);
  step = situ_exp(situ_mul_scalar(step, -9.210340371976184 / 8));
  situ_tensor *angle = situ_mul(situ_unsqueeze(place, 1), situ_unsqueeze(step, 0));
  return situ_cat((situ_tensor *[]){ situ_sin(angle), situ_cos(angle) }, 2, 1);
}
/* Two results of one step. */
static situ_tensor *sorted(situ_device d) {
  situ_options o = on(d);
  situ_tensor *places, *values = situ_sort(situ_randn(SITU_SHAPE(6, 5), &o), 1, true, &places);
  return situ_add(values, situ_to_dtype(places, SITU_F32));
}
/* A whole network, without recording. */
static situ_tensor *computed(situ_device d) {
  situ_options o = on(d);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x = situ_randn(SITU_SHAPE(4, 8), &o), *w = situ_randn(SITU_SHAPE(3, 8), &o);
  situ_tensor *y = situ_softmax(situ_relu(situ_linear(x, w, NULL)), 1);
  y = situ_escape(&s, situ_layer_norm(y, SITU_SHAPE(3), situ_ones(SITU_SHAPE(3), &o), NULL, 1e-5));
  return situ_scope_end(&s) == SITU_OK ? y : NULL;
}

/* placement: E4 */
static void the_bits_are_the_same(void **state) {
  (void)state;
  const maker make[] = { drawn,     counted,      unit,   shuffled, of_halves, patched,
                         over_time, written_over, angles, sorted,   computed };
  for (size_t i = 0; i < sizeof make / sizeof *make; i++) {
    situ_manual_seed(7);
    situ_tensor *eager = make[i](test_device());
    situ_generator after = situ_get_rng_state();
    situ_manual_seed(7);
    situ_tensor *noted = make[i](meta);
    situ_generator same = situ_get_rng_state();
    assert_non_null(eager);
    assert_non_null(noted);
    assert_int_equal(situ_device_of(noted).kind, SITU_META);
    assert_int_equal(after.offset, same.offset);
    assert_true(situ__recipe_has(situ_desc(noted)->storage));
    situ_manual_seed(99); /* nothing is drawn when a recipe is followed */
    expect_same(situ_to(noted, test_device()), eager, 0, 0);
    expect_same(situ_to(noted, test_device()), eager, 0, 0);
    situ_generator unused = situ_get_rng_state();
    assert_int_equal(unused.offset, 0);
  }
}

/* A part of a storage, seen through a view, on another device. */
static void views_are_cut_out(void **state) {
  (void)state;
  situ_manual_seed(3);
  situ_tensor *eager = patched(test_device());
  situ_manual_seed(3);
  situ_tensor *noted = patched(meta);
  expect_same(situ_to(situ_transpose(noted, 0, 1), test_device()), situ_transpose(eager, 0, 1), 0, 0);
  expect_same(situ_to(situ_narrow(noted, 0, 1, 2), test_device()), situ_narrow(eager, 0, 1, 2), 0, 0);
}

/* What nobody knows is refused, and so is what comes of it. */
static void values_that_never_were_are_refused(void **state) {
  (void)state;
  situ_options o = on(meta);
  const float host[2] = { 1, 2 };
  situ_device here = test_device();
  situ_tensor *empty = situ_empty(SITU_SHAPE(2), &o), *given = situ_from_host(host, sizeof host, SITU_SHAPE(2), &o);
  situ_tensor *moved = situ_to(situ_ones(SITU_SHAPE(2), &(situ_options){ .device = here }), meta);
  expect_refused(situ_to(empty, here), SITU_E_STATE, "to", "holds no value yet");
  expect_refused(situ_to(given, here), SITU_E_STATE, "to", "has no values");
  expect_refused(situ_to(moved, here), SITU_E_STATE, "to", "has no values");
  situ_tensor *known = situ_ones(SITU_SHAPE(2), &o), *of_both = situ_add(known, moved);
  expect_refused(situ_to(of_both, here), SITU_E_STATE, "to", "has no values");
  expect_refused(situ_to(situ_neg(empty), here), SITU_E_STATE, "to", "has no values");
  situ_add_(known, given);
  expect_refused(situ_to(known, here), SITU_E_STATE, "to", "has no values");
  situ_fill_(known, 2); /* and known again */
  expect_exact(situ_to(known, here), SITU_SHAPE(2), 2, 2);
  /* The rest of a tensor that was written in part is as unknown as on any device, but no error. */
  situ_fill_(situ_narrow(empty, 0, 0, 1), 5);
  expect_exact(situ_narrow(situ_to(empty, here), 0, 0, 1), SITU_SHAPE(1), 5);
}

/* What is computed in training holds nothing. */
static void a_recorded_call_keeps_no_recipe(void **state) {
  (void)state;
  situ_options o = on(meta), g = { .device = meta, .requires_grad = true };
  situ_tensor *w = situ_ones(SITU_SHAPE(2), &g), *y = situ_mul(w, situ_ones(SITU_SHAPE(2), &o));
  assert_true(situ__recipe_has(situ_desc(w)->storage));
  assert_false(situ__recipe_has(situ_desc(y)->storage));
  assert_true(situ_requires_grad(situ_to(w, test_device())));
}

/* However long a computation is, what it holds on to is bounded. */
static void a_long_chain_is_let_go(void **state) {
  (void)state;
  situ_options o = on(meta);
  situ_tensor *x = situ_ones(SITU_SHAPE(2), &o);
  int steps = 0;
  while (situ__recipe_has(situ_desc(x)->storage)) {
    situ_add_scalar_(x, 1);
    assert_true(++steps < 1000);
  }
  assert_true(steps > 100);
  expect_refused(situ_to(x, test_device()), SITU_E_STATE, "to", "has no values");
}

/* Each allocation of noting and of following fails once. */
static void without_memory(void **state) {
  (void)state;
  situ_manual_seed(5);
  situ_tensor *eager = patched(test_device());
  bool whole = false;
  for (uint64_t nth = 1; !whole; nth++) {
    assert_true(nth < 200);
    situ_scope s;
    situ_scope_begin(&s);
    situ_fail_allocation(nth, false);
    situ_manual_seed(5);
    situ_tensor *t = situ_to(patched(meta), test_device());
    situ_fail_allocation(0, false);
    whole = situ_error() == SITU_OK;
    if (whole) expect_same(t, eager, 0, 0);
    else expect_error(SITU_E_NOMEM, "", "");
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(the_bits_are_the_same),           TEST(views_are_cut_out),      TEST(values_that_never_were_are_refused),
    TEST(a_recorded_call_keeps_no_recipe), TEST(a_long_chain_is_let_go), TEST(without_memory)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
