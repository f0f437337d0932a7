/* Moves that cast, moves by map, plans, late parts, and how many transfers it takes. */
/* test-devices: sim:0 sim:1 opencl:0 opencl:1 */
#include <math.h>

#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "situ/sys/op.h"
#include "support/pairs.h"

static situ_nn_module *small_net(void) {
  return situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_batch_norm1d(8, NULL), situ_nn_linear(8, 2, NULL));
}

/* ---- dtypes ---- */

/* placement: B5, M1, M2 */
static void floating_tensors_are_cast_and_counters_are_not(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"), *n = situ_nn_get_tensor(net, "1.num_batches_tracked");
  situ_tensor *view = situ_narrow(situ_detach(w), 0, 2, 3), *before = situ_to_dtype(situ_detach(w), SITU_BF16);
  uint32_t version = situ_version_of(w);
  expect_ok(situ_nn_to_dtype(net, SITU_BF16));
  assert_int_equal(situ_dtype_of(w), SITU_BF16);
  assert_int_equal(situ_dtype_of(view), SITU_BF16);
  assert_int_equal(situ_dtype_of(n), SITU_I64);
  assert_int_equal(situ_dtype_of(situ_nn_get_tensor(net, "1.running_var")), SITU_BF16);
  expect_same(w, before, 0, 0);
  expect_same(view, situ_narrow(before, 0, 2, 3), 0, 0);
  assert_true(situ_version_of(w) != version);
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }));
  expect_on(view, there());
  assert_int_equal(situ_dtype_of(view), SITU_F64);
  expect_same(situ_to(w, here()), situ_to_dtype(before, SITU_F64), 0, 0);
  expect_on(situ_nn_forward(net, situ_ones(SITU_SHAPE(3, 4), &(situ_options){ .device = there(), .dtype = SITU_F64 })),
            there());
  situ_nn_free(net);
}

static void whole_dtypes_and_none_are_refused(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  assert_int_equal(situ_nn_to_dtype(net, SITU_I32), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "nn_to_dtype", "whole numbers stay what they are");
  assert_int_equal(situ_nn_to_dtype(net, SITU_DTYPE_DEFAULT), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "nn_to_dtype", "no dtype");
  situ_nn_free(net);
}

/* An op of a program's own: the bits of f32 as whole numbers, in the same memory. */
static bool infer_bits(situ_call *c) {
  c->view = *situ_desc(c->in[0]);
  c->view.dtype = SITU_I32;
  return true;
}
static const situ_op bits_op = {
  .name = "bits", .operand = { { "input", 0 } }, .flags = SITU_OP_VIEW | SITU_OP_NO_GRAD, .infer = infer_bits
};

static void what_is_seen_in_two_dtypes_is_not_cast(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *w = situ_nn_get_tensor(net, "2.weight"), *bits = situ_op_run1(&bits_op, situ_detach(w), NULL);
  assert_int_equal(situ_dtype_of(bits), SITU_I32);
  assert_int_equal(situ_nn_to_dtype(net, SITU_F64), SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "nn_to_dtype", "2.weight is seen as f32 and as i32: it cannot be cast");
  assert_int_equal(situ_dtype_of(w), SITU_F32);
  expect_ok(situ_nn_to(net, there()));
  expect_on(bits, there());
  situ_nn_free(net);
}

/* S21: 1e6 is finite, and f16 has no such number. */
/* placement: M3 */
static void values_that_would_become_infinite_are_named(void **state) {
  (void)state;
  for (int far = 0; far < 2; far++) {
    situ_nn_module *net = small_net();
    situ_tensor *b = situ_nn_get_tensor(net, "2.bias"),
                *values = situ_from_host((const float[]){ 1e6f, -INFINITY }, 8, SITU_SHAPE(2), NULL);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    assert_non_null(situ_copy_(b, values));
    expect_ok(situ_scope_end(&s));
    const situ_nn_to_options half = { .device = far ? there() : here(), .dtype = SITU_F16 };
    assert_int_equal(situ_nn_to_with(net, &half), SITU_E_OVERFLOW);
    expect_error(SITU_E_OVERFLOW, "nn_to_with", "1 of 2.bias");
    expect_on(b, here());
    expect_same(b, values, 0, 0);
    expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = half.device, .dtype = SITU_F16, .lossy = true }));
    double got[2];
    test_read(b, got);
    assert_true(isinf(got[0]) && got[0] > 0 && isinf(got[1]) && got[1] < 0);
    situ_nn_free(net);
  }
}

/* The large ones go by another way than the small ones. */
/* placement: M1 */
static void large_storages_are_cast_a_part_at_a_time(void **state) {
  (void)state;
  situ_tensor *big = situ_randn(SITU_SHAPE(3, 1000001), NULL);
  situ_nn_module *net = situ_nn_embedding(3, 1000001, NULL);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_copy_(situ_nn_get_tensor(net, "weight"), big));
  const situ_dtype dtype[] = { SITU_F16, SITU_F64, SITU_BF16, SITU_F32 };
  situ_tensor *want = big;
  for (int i = 0; i < 4; i++) {
    want = situ_to_dtype(want, dtype[i]);
    expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = i % 2 ? here() : there(), .dtype = dtype[i] }));
    situ_tensor *equal = situ_all(situ_eq(situ_to(situ_nn_get_tensor(net, "weight"), here()), want), NULL);
    double same = 0;
    expect_ok(situ_item(equal, &same));
    assert_true(same == 1);
  }
  expect_ok(situ_scope_end(&s));
  situ_nn_free(net);
}

/* placement: M4 */
static void a_device_without_a_dtype_is_refused_before_anything_moves(void **state) {
  (void)state;
  needs_sim();
  situ_nn_module *net = small_net();
  expect_ok(situ_sim_without(there().index, 1u << SITU_F64));
  assert_int_equal(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }),
                   SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "nn_to_with", "0.weight is f64, which sim");
  expect_on(situ_nn_get_tensor(net, "0.weight"), here());
  expect_ok(situ_nn_to_dtype(net, SITU_F64));
  /* cast where it can be: f64 leaves, f32 arrives */
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F32 }));
  expect_ok(situ_sim_reset(there().index));
  expect_ok(situ_nn_to_dtype(net, SITU_F64));
  expect_ok(situ_sim_without(there().index, 1u << SITU_F64));
  expect_ok(
      situ_nn_to_with(net, &(situ_nn_to_options){ .device = here(), .dtype = SITU_F32 })); /* the other way round */
  expect_ok(situ_sim_reset(there().index));
  situ_nn_free(net);
}

/* A dtype counts on the device that gets it: not on another one of the map, and not for what stays where it is. */
static void a_dtype_is_asked_of_its_own_device(void **state) {
  (void)state;
  needs_sim();
  situ_nn_module *net = small_net();
  const situ_device other = test_device_at(1 - there().index);
  char map[64];
  expect_ok(situ_nn_to_dtype(situ_nn_get_submodule(net, "0"), SITU_F64));
  expect_ok(situ_sim_without(there().index, 1u << SITU_F64));
  snprintf(map, sizeof map, "0=%s, *=%s", name_of(other), name_of(there()));
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .map = map }));
  expect_on(situ_nn_get_tensor(net, "0.weight"), other);
  expect_on(situ_nn_get_tensor(net, "2.weight"), there());
  expect_ok(situ_sim_reset(there().index));
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight");
  expect_ok(situ_nn_to(situ_nn_get_submodule(net, "0"), there()));
  expect_ok(situ_nn_to(situ_nn_get_submodule(net, "2"), here()));
  expect_ok(situ_sim_without(there().index, 1u << SITU_F64)); /* as if it had been lost while w was there */
  expect_ok(situ_nn_to(net, there()));
  assert_int_equal(situ_dtype_of(w), SITU_F64);
  expect_ok(situ_nn_to(net, here())); /* what is there can leave, small tensors together */
  expect_ok(situ_sim_reset(there().index));
  situ_nn_free(net);
}

/* placement: A16 */
static void a_device_that_is_too_small_is_refused_with_sizes(void **state) {
  (void)state;
  needs_sim();
  situ_nn_module *net = situ_nn_linear(1024, 1024, NULL);
  expect_ok(situ_sim_budget(there().index, 1 << 20));
  assert_int_equal(situ_nn_to(net, there()), SITU_E_NOMEM);
  expect_error(SITU_E_NOMEM, "nn_to", "needs 4.0 MiB on sim");
  situ_place_plan plan;
  char text[2048];
  assert_true(situ_place_plan_to_string(net, &(situ_nn_to_options){ .device = there() }, &plan, text, sizeof text) > 0);
  assert_int_equal(plan.status, SITU_E_NOMEM);
  assert_non_null(strstr(text, "it would be refused: "));
  assert_int_equal(situ_error(), SITU_OK);
  expect_ok(situ_sim_reset(there().index));
  situ_nn_free(net);
}

/* Between forward and backward the values are others: what backward kept is not valid any more, and it says so. */
static void a_cast_between_forward_and_backward_is_refused(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_linear(8, 2, NULL));
  situ_tensor *loss = situ_sum(situ_nn_forward(net, situ_ones(SITU_SHAPE(3, 4), NULL)), NULL);
  expect_ok(situ_nn_to_dtype(net, SITU_F64));
  situ_status status = situ_backward(loss, NULL);
  assert_int_not_equal(status, SITU_OK);
  expect_error(status, "", "");
  assert_null(situ_grad(situ_nn_get_tensor(net, "0.weight")));
  situ_nn_free(net);
}

/* ---- maps ---- */

/* placement: I1 */
static void a_map_sends_each_part_where_its_first_pattern_says(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  char map[128], name[2][SITU_DEVICE_NAME_MAX];
  snprintf(map, sizeof map, " 0.bias = %s , 0=%s,*.running_*=%s", situ_device_name(here(), name[0]),
           situ_device_name(there(), name[1]), name[1]);
  expect_ok(situ_nn_to_map(net, map));
  expect_on(situ_nn_get_tensor(net, "0.bias"), here());
  expect_on(situ_nn_get_tensor(net, "0.weight"), there());
  expect_on(situ_nn_get_tensor(net, "1.running_mean"), there());
  expect_on(situ_nn_get_tensor(net, "1.weight"), here());
  expect_on(situ_nn_get_tensor(net, "2.weight"), here());
  situ_nn_free(net);
}

static void a_map_that_is_none_is_refused(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  const struct {
    const char *map, *text;
  } wrong[] = { { "", "must be pattern=device" },
                { "0", "must be pattern=device" },
                { "=cpu", "must be pattern=device" },
                { "0=", "must be pattern=device" },
                { "0=cpu,", "must be pattern=device" },
                { "0=gpu", "gpu" },
                { "0=sim:77", "sim:77" },
                { "encoder.*=cpu", "matches no module" },
                { "1.run=cpu", "matches no module" }, /* which is not the whole of 1.running_mean */
                { "*=cpu,0=cpu", "an earlier pattern" } };
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    assert_int_equal(situ_nn_to_map(net, wrong[i].map), SITU_E_ARG);
    expect_error(SITU_E_ARG, "", wrong[i].text);
  }
  assert_int_equal(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .map = "*=cpu" }), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_with", "one of them");
  expect_on(situ_nn_get_tensor(net, "0.weight"), here());
  situ_nn_free(net);
}

/* placement: I4 */
static void tied_weights_cannot_be_torn_apart_by_a_map(void **state) {
  (void)state;
  situ_nn_module *a = situ_nn_linear(4, 4, NULL), *net = situ_nn_module_list(a, situ_nn_retain(a));
  char map[64], name[2][SITU_DEVICE_NAME_MAX];
  snprintf(map, sizeof map, "0=%s,1=%s", situ_device_name(here(), name[0]), situ_device_name(there(), name[1]));
  assert_int_equal(situ_nn_to_map(net, map), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_to_map", "1.weight is shared, and cannot be on");
  expect_on(situ_nn_get_tensor(net, "0.weight"), here());
  situ_nn_free(net);
}

/* ---- plans ---- */

/* placement: B11 */
static void a_plan_says_what_would_move_and_moves_nothing(void **state) {
  (void)state;
  situ_nn_module *net = small_net();
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"), *view = situ_detach(w);
  situ_place_plan plan;
  char text[4096];
  const situ_nn_to_options options = { .device = there(), .dtype = SITU_F16 };
  int64_t length = situ_place_plan_to_string(net, &options, &plan, text, sizeof text);
  assert_int_equal(length, (int64_t)strlen(text));
  assert_int_equal(plan.storages, 9);
  assert_int_equal(plan.handles, 10);
  assert_int_equal(plan.bytes, 4 * (32 + 8 + 4 * 8 + 16 + 2) + 8);
  assert_int_equal(plan.after, 2 * (32 + 8 + 4 * 8 + 16 + 2) + 8);
  assert_int_equal(plan.status, SITU_OK);
  assert_non_null(strstr(text, "0.weight"));
  assert_non_null(strstr(text, "f32 -> f16"));
  assert_non_null(strstr(text, "2 tensors share it"));
  expect_on(view, here());
  assert_int_equal(situ_place_plan_to_string(net, &options, NULL, NULL, 0), length);
  expect_ok(situ_nn_to_with(net, &options));
  assert_true(situ_place_plan_to_string(net, &options, &plan, text, sizeof text) > 0);
  assert_int_equal(plan.storages, 0);
  assert_int_equal(plan.stay, 9);
  assert_non_null(strstr(text, "stays: there already"));
  situ_nn_free(net);
}

/* ---- how much travels, and how often ---- */

/* The weights and biases of all layers, of 72 values each. */
static void read_small(situ_nn_module *net, int layers, float *to) {
  situ_tree *all = situ_nn_parameters(net);
  for (int i = 0; i < 2 * layers; i++) {
    situ_tensor *t = situ_tree_tensor_at(all, i);
    expect_ok(situ_copy_to_host(t, to, (size_t)situ_numel(t) * sizeof *to));
    to += situ_numel(t);
  }
  situ_tree_free(all);
}

/* placement: C6 */
static void a_thousand_small_tensors_travel_together(void **state) {
  (void)state;
  enum { LAYERS = 500, VALUES = 72 * LAYERS, BYTES = VALUES * sizeof(float) };
  static float before[VALUES], after[VALUES];
  situ_nn_module *net = situ_nn_module_list_of(0, NULL);
  for (int i = 0; i < LAYERS; i++) assert_non_null(situ_nn_append(net, situ_nn_linear(8, 8, NULL)));
  read_small(net, LAYERS, before);
  situ_device way[] = { there(), here() };
  for (int k = 0; k < 2; k++) {
    situ_ledger ledger;
    situ_ledger_begin(&ledger);
    expect_ok(situ_nn_to(net, way[k]));
    assert_in_range(situ_ledger_total(&ledger).count, 1, 2);
    /* Up to 256 bytes for each, where they share memory; where they do not, nothing but they. */
    const bool alone = way[k].kind == SITU_OPENCL;
    assert_in_range(situ_ledger_total(&ledger).bytes, BYTES, alone ? BYTES : 2 * LAYERS * 256);
    expect_ok(situ_ledger_end(&ledger));
    read_small(net, LAYERS, after);
    assert_memory_equal(before, after, sizeof before);
  }
  situ_nn_free(net);
}

/* The most memory that a move takes beyond what is there: the target, and for a cast one buffer of 4 MiB, which is elsewhere
   when the device has no room for it. */
static void the_peak_is_source_target_and_one_buffer(void **state) {
  (void)state;
  const uint64_t MiB = 1 << 20;
  const struct {
    situ_dtype dtype;
    uint64_t target, buffer;
  } way[] = { { SITU_DTYPE_DEFAULT, 16, 0 }, { SITU_F64, 32, 4 } };
  for (int k = 0; k < 2; k++) {
    situ_nn_module *net = situ_nn_embedding(1024, 4096, NULL);
    const situ_nn_to_options options = { .device = there(), .dtype = way[k].dtype };
    situ_place_plan plan;
    assert_true(situ_place_plan_to_string(net, &options, &plan, NULL, 0) > 0);
    assert_int_equal(plan.peak, (way[k].target + way[k].buffer) * MiB);
    for (int less = 1; less >= 0 && there().kind == SITU_SIM; less--) {
      expect_ok(situ_empty_cache(there()));
      expect_ok(situ_sim_budget(there().index, way[k].target * MiB - (uint64_t)less));
      situ_status status = situ_nn_to_with(net, &options);
      assert_int_equal(status, less ? SITU_E_NOMEM : SITU_OK);
      if (less) expect_error(SITU_E_NOMEM, "nn_to_with", "");
    }
    if (there().kind == SITU_SIM) expect_ok(situ_sim_reset(there().index));
    situ_nn_free(net);
  }
}

/* ---- late parts ---- */

/* placement: B17 */
static void a_late_child_is_adopted(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_relu());
  expect_ok(situ_nn_to(net, there()));
  situ_nn_module *late = situ_nn_linear(8, 2, NULL), *empty = situ_nn_relu();
  situ_tensor *held = situ_nn_get_tensor(late, "weight");
  expect_on(held, here());
  assert_non_null(situ_nn_append(net, late));
  assert_non_null(situ_nn_append(net, empty));
  expect_on(held, there());
  assert_true(situ_device_equal(situ_nn_home(empty), there()));
  situ_tensor *mask = situ_ones(SITU_SHAPE(2), NULL);
  assert_non_null(situ_nn_add_tensor(late, "mask", NULL, mask, SITU_NN_BUFFER));
  expect_on(mask, there());
  situ_nn_free(net);
}

/* Nobody can say where a part of a model that is spread over devices belongs. */
static void a_late_child_of_a_spread_module_stays(void **state) {
  (void)state;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(4, 8, NULL), situ_nn_linear(8, 8, NULL));
  char map[32], name[SITU_DEVICE_NAME_MAX];
  snprintf(map, sizeof map, "0=%s", situ_device_name(there(), name));
  expect_ok(situ_nn_to_map(net, map));
  situ_nn_module *late = situ_nn_linear(8, 2, NULL);
  assert_non_null(situ_nn_append(net, late));
  expect_on(situ_nn_get_tensor(late, "weight"), here());
  situ_nn_free(net);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(floating_tensors_are_cast_and_counters_are_not),
                                      PAIR_TEST(whole_dtypes_and_none_are_refused),
                                      PAIR_TEST(what_is_seen_in_two_dtypes_is_not_cast),
                                      PAIR_TEST(values_that_would_become_infinite_are_named),
                                      PAIR_TEST(large_storages_are_cast_a_part_at_a_time),
                                      PAIR_TEST(a_device_without_a_dtype_is_refused_before_anything_moves),
                                      PAIR_TEST(a_dtype_is_asked_of_its_own_device),
                                      PAIR_TEST(a_device_that_is_too_small_is_refused_with_sizes),
                                      PAIR_TEST(a_cast_between_forward_and_backward_is_refused),
                                      PAIR_TEST(a_map_sends_each_part_where_its_first_pattern_says),
                                      PAIR_TEST(a_map_that_is_none_is_refused),
                                      PAIR_TEST(tied_weights_cannot_be_torn_apart_by_a_map),
                                      PAIR_TEST(a_plan_says_what_would_move_and_moves_nothing),
                                      PAIR_TEST(a_thousand_small_tensors_travel_together),
                                      PAIR_TEST(the_peak_is_source_target_and_one_buffer),
                                      PAIR_TEST(a_late_child_is_adopted),
                                      PAIR_TEST(a_late_child_of_a_spread_module_stays) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
