/* What other libraries get wrong without a word, rows S13 to S24 of the catalogue: each is an error
   here, or done right. Rows S1 to S12 are in silent_wrong.c.

   Not here: S15 (a dropped result) is the compiler's, see tests/seeds/warnings. S17 between two
   real GPUs needs two real GPUs; the order of copies and work is tried on simulated devices, which
   queue theirs.

   SPDX-License-Identifier: MIT */
/* test-devices: meta sim:0 sim:1 opencl:0 opencl:1 */
#include <math.h>

#include "situ/amp.h"
#include "situ/policy.h"
#include "support/pairs.h"

/* S13: a plain list of layers is not moved, not trained, and nothing says so. The lint finds it, as
   an array of fields and as a list that the struct points to. */
typedef struct stack {
  situ_nn_module base;
  situ_nn_module *layer[3], **list;
} stack;
static const situ_nn_type stack_type = { .name = "Stack", .size = sizeof(stack) };

static void S13_a_plain_list_of_layers_is_found(void **state) {
  (void)state;
  for (int form = 0; form < 2; form++) {
    situ_nn_module *layers[3];
    for (int i = 0; i < 3; i++) layers[i] = situ_nn_linear(2, 2, NULL);
    stack *m = situ_nn_alloc(&stack_type);
    assert_non_null(m);
    for (int i = 0; i < 3 && form == 0; i++) m->layer[i] = layers[i];
    if (form == 1) m->list = layers;
    situ_nn_module *model = situ_nn_done(m);
    assert_int_equal(situ_place_lint(model, NULL), SITU_E_STATE);
    expect_error(SITU_E_STATE, "place_lint", "not registered");
    situ_nn_free(model);
    /* The library's own list is registered, moves and trains. */
    situ_nn_module *list = situ_nn_module_list_of(3, layers);
    expect_ok(situ_place_lint(list, NULL));
    expect_ok(situ_nn_to(list, there()));
    expect_on(situ_nn_get_tensor(list, "2.weight"), there());
    situ_nn_free(list);
  }
}

/* S14: cuda:300 becomes cuda:44, cpu:7 becomes cpu. */
static void S14_an_index_that_is_not_there_is_refused(void **state) {
  (void)state;
  static const char *const names[] = { "cuda:300", "cpu:7",          "sim:300",   "sim:65536", "meta:1",
                                       "cuda:-1",  "cuda:01",        "cuda:",     "CUDA",      "",
                                       "gpu",      "sim:4294967296", "opencl:999" };
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    situ_device device = here();
    if (situ_device_parse(names[i], &device) == SITU_OK) fail_msg("\"%s\" was read as %s", names[i], name_of(device));
    assert_true(situ_device_equal(device, here()));
    expect_error(SITU_E_ARG, "device_parse", "did you mean");
    assert_null(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = situ_dev(names[i]) }));
    situ_error_clear();
    assert_null(situ_to(situ_ones(SITU_SHAPE(1), NULL), situ_dev(names[i])));
    situ_error_clear();
  }
  assert_true(situ_device_equal(situ_dev("cuda"), situ_dev("cuda:0")));
  assert_true(situ_device_equal(situ_dev("cpu"), situ_dev("cpu:0")));
  situ_error_clear();
}

/* S16: .to(device) in forward hides that a parameter is in the wrong place: a copy at every step.
   Where it is in the right place there is none; where it is not, the ledger says which tensor, how
   often, and how many bytes. */
/* placement: F8 */
static void S16_a_tensor_that_is_copied_again_and_again_is_named(void **state) {
  (void)state;
  situ_tensor *weight = situ_set_name(situ_ones(SITU_SHAPE(4), NULL), "fc.weight");
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  for (int step = 0; step < 10; step++) assert_ptr_equal(situ_to(weight, here()), weight);
  expect_ok(situ_ledger_end(&ledger));
  situ_ledger_begin_none(&ledger);
  for (int step = 0; step < 10; step++) expect_on(situ_to(weight, there()), there());
  situ_ledger_repeat repeat = { 0 };
  int64_t repeats = situ_ledger_repeats(&ledger, 0, &repeat, 1);
  situ_status status = situ_ledger_end(&ledger);
  if (!has_values(there())) { /* nothing is copied to meta */
    assert_int_equal(repeats, 0);
    assert_int_equal(status, SITU_OK);
    return;
  }
  assert_int_equal(repeats, 1);
  assert_int_equal(repeat.sum.count, 10);
  assert_int_equal(repeat.sum.bytes, 160);
  assert_string_equal(repeat.last.tensor, "fc.weight");
  assert_true(situ_device_equal(repeat.last.from, here()) && situ_device_equal(repeat.last.to, there()));
  assert_int_equal(status, SITU_E_STATE);
  expect_error(SITU_E_STATE, "", "fc.weight");
}

/* S17: a copy to the host that is read before it is there. */
/* placement: F2 */
static void S17_values_are_there_when_the_call_returns(void **state) {
  (void)state;
  if (!has_values(there())) return;
  enum { N = 1000 };
  float out[N];
  situ_tensor *x = situ_zeros(SITU_SHAPE(N), &(situ_options){ .device = there() });
  for (int step = 1; step <= 20; step++) {
    assert_non_null(situ_add_scalar_(x, 1));
    expect_ok(situ_copy_to_host(x, out, sizeof out));
    for (int i = 0; i < N; i++) assert_true(out[i] == (float)step);
  }
}

/* S17: host memory that is given back while a copy still reads it. */
/* placement: F3 */
static void S17_host_memory_may_go_when_the_call_returns(void **state) {
  (void)state;
  if (!has_values(there())) return;
  double values[64];
  for (int i = 0; i < 64; i++) values[i] = i;
  situ_options f64 = { .dtype = SITU_F64, .device = there() };
  situ_tensor *x = situ_from_host(values, sizeof values, SITU_SHAPE(64), &f64), *y = situ_zeros(SITU_SHAPE(64), &f64);
  expect_ok(situ_copy_from_host(y, values, sizeof values));
  memset(values, 0xff, sizeof values);
  double sum = 0;
  expect_ok(situ_item(situ_sum(situ_add(x, y), NULL), &sum));
  assert_true(sum == 2 * 63 * 64 / 2);
}

/* S17: a copy between two devices that gives zeros, or what was there before. */
/* placement: F2, F4 */
static void S17_copies_between_devices_see_the_work_before_them(void **state) {
  (void)state;
  if (!has_values(there())) return;
  situ_tensor *x = situ_arange(0, 100, 1, NULL);
  for (int step = 0; step < 5; step++) {
    x = situ_add_scalar(x, 1);
    situ_tensor *y = situ_to(x, there());
    assert_non_null(situ_mul_scalar_(x, -1)); /* behind the copy: must not show in it */
    x = situ_to(situ_add_scalar(y, 1), here());
  }
  int64_t last = 0;
  expect_ok(situ_item_i64(situ_select(x, 0, 99), &last));
  assert_int_equal(last, 99 + 10);
}

/* S18: x[...] = y from another device writes the wrong cells. It is refused; with situ_to it writes
   the right ones. */
static void S18_writing_a_part_from_elsewhere(void **state) {
  (void)state;
  situ_tensor *x = situ_zeros(SITU_SHAPE(3, 4), &(situ_options){ .device = there() });
  situ_tensor *column = situ_slice(situ_narrow(x, 0, 1, 2), 1, 1, INT64_MAX, 2),
              *y = situ_from_host((float[]){ 1, 2, 3, 4 }, 16, SITU_SHAPE(2, 2), NULL);
  expect_refused(situ_copy_(column, y), SITU_E_DEVICE, "copy_", "src");
  if (has_values(there())) expect_exact(x, SITU_SHAPE(3, 4), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
  assert_non_null(situ_copy_(column, situ_to(situ_transpose(y, 0, 1), there())));
  if (has_values(there())) expect_exact(x, SITU_SHAPE(3, 4), 0, 0, 0, 0, 0, 1, 0, 3, 0, 2, 0, 4);
}

/* S18: what is moved is what was seen, whatever its strides: columns, steps, repeated rows, nothing
   at all. */
/* placement: A5, M6 */
static void S18_views_keep_their_values_on_the_way(void **state) {
  (void)state;
  situ_tensor *x = situ_reshape(situ_arange(0, 12, 1, &(situ_options){ .dtype = SITU_F32 }), SITU_SHAPE(3, 4));
  situ_tensor *views[] = { situ_transpose(x, 0, 1), situ_slice(x, 1, 0, INT64_MAX, 2),
                           situ_expand(situ_select(x, 0, 1), SITU_SHAPE(5, 4)), situ_narrow(x, 0, 1, 0),
                           situ_select(situ_select(x, 0, 2), 0, 3) };
  for (size_t i = 0; i < sizeof views / sizeof *views; i++) {
    situ_tensor *moved = situ_to(views[i], there());
    expect_on(moved, there());
    situ_shape shape = situ_shape_of(moved), wanted = situ_shape_of(views[i]);
    assert_int_equal(shape.ndim, wanted.ndim);
    for (int d = 0; d < shape.ndim; d++) assert_int_equal(shape.dim[d], wanted.dim[d]);
    if (has_values(there())) expect_same(situ_to(moved, here()), views[i], 0, 0);
  }
}

/* S19: libtorch's to(kFloat64) leaves gradients behind, and casts the counters that are whole
   numbers. */
static void S19_gradients_and_counters_go_with_their_module(void **state) {
  (void)state;
  situ_nn_module *norm = situ_nn_batch_norm1d(3, NULL);
  expect_ok(situ_backward(situ_sum(situ_nn_forward(norm, situ_randn(SITU_SHAPE(4, 3), NULL)), NULL), NULL));
  situ_tensor *weight = situ_nn_get_tensor(norm, "weight"), *batches = situ_nn_get_tensor(norm, "num_batches_tracked"),
              *grad = situ_grad(weight);
  expect_ok(situ_nn_to_with(norm, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F64 }));
  assert_ptr_equal(situ_grad(weight), grad);
  expect_on(grad, there());
  assert_int_equal(situ_dtype_of(grad), SITU_F64);
  expect_on(batches, there());
  assert_int_equal(situ_dtype_of(batches), SITU_I64);
  if (has_values(there())) {
    int64_t count = 0;
    expect_ok(situ_item_i64(batches, &count));
    assert_int_equal(count, 1);
  }
  situ_nn_free(norm);
}

/* S20: a lazy layer that is moved to meta is lazy no more, or makes a weight on the CPU for an
   input on meta. */
/* placement: B18 */
static void S20_a_lazy_layer_stays_lazy_and_goes_home(void **state) {
  (void)state;
  situ_nn_module *moved = situ_nn_lazy_linear(2, NULL), *made = situ_nn_lazy_linear(2, NULL);
  expect_ok(situ_nn_to(moved, there()));
  assert_true(moved->pending);
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 7), &(situ_options){ .device = there() });
  expect_on(situ_nn_forward(moved, x), there());
  assert_int_equal(situ_size(situ_nn_get_tensor(moved, "weight"), 1), 7);
  expect_on(situ_nn_get_tensor(moved, "weight"), there());
  /* Not moved, it lives on the default device: an input elsewhere is refused. */
  situ_tensor *y = situ_nn_forward(made, x);
  if (y || situ_error() != SITU_E_DEVICE) fail_msg("a layer at home took an input from elsewhere");
  situ_error_clear();
  situ_nn_free(moved);
  situ_nn_free(made);
}

/* S21: 1e6 becomes inf in half precision, and nothing says so. A tensor's own cast is IEEE's, as in
   PyTorch; the cast of a module is refused with the names of what would be lost, unless the loss is
   asked for. */
/* placement: M3 */
static void S21_a_cast_that_loses_values_is_reported(void **state) {
  (void)state;
  situ_tensor *x = situ_from_host((float[]){ 1e6f, -1e6f, 65504, 1 }, 16, SITU_SHAPE(4), NULL);
  expect_exact(situ_to_dtype(x, SITU_F16), SITU_SHAPE(4), HUGE_VAL, -HUGE_VAL, 65504, 1);
  if (!has_values(there())) return;
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 2, NULL), situ_nn_linear(2, 2, NULL));
  situ_tensor *bias = situ_nn_get_tensor(net, "1.bias");
  float large[2] = { 1e6f, 1 };
  expect_ok(situ_copy_from_host(situ_detach(bias), large, sizeof large));
  expect_ok(situ_nn_to(net, there()));
  assert_int_equal(situ_nn_to_dtype(net, SITU_F16), SITU_E_OVERFLOW);
  expect_error(SITU_E_OVERFLOW, "", "1.bias");
  assert_int_equal(situ_dtype_of(bias), SITU_F32);
  expect_exact(situ_detach(bias), SITU_SHAPE(2), 1e6, 1);
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .dtype = SITU_F16, .lossy = true }));
  expect_exact(situ_detach(bias), SITU_SHAPE(2), HUGE_VAL, 1);
  situ_nn_free(net);
}

static void keep_line(const char *message, void *payload) { snprintf(payload, 512, "%s", message); }

/* S21: a tensor's own cast is counted where a policy asks for it, on the tensor's device; it is refused with the
   tensor's name, or done and logged, and so is a module's that is meant. */
/* placement: M3 */
static void S21_a_tensors_own_cast_is_counted_by_policy(void **state) {
  (void)state;
  if (!has_values(there())) return;
  char line[512] = "";
  situ_setting before;
  situ_tensor *x = situ_set_name(
      situ_to(situ_from_host((float[]){ 1e6f, -300, HUGE_VALF, 1.5f }, 16, SITU_SHAPE(4), NULL), there()), "scores");
  situ_tensor *n = situ_to(
      situ_from_host((int64_t[]){ INT64_C(1) << 40, -1, 200 }, 24, SITU_SHAPE(3), &(situ_options){ .dtype = SITU_I64 }),
      there());
  situ_policy_begin(&before, (situ_policy){ .casts = SITU_CASTS_FORBID });
  expect_refused(situ_to_dtype(x, SITU_F16), SITU_E_OVERFLOW, "to_dtype", "1 of 4 values of `scores` ([4] f32)");
  expect_refused(situ_to_dtype(x, SITU_I8), SITU_E_OVERFLOW, "to_dtype", "3 of 4 values of `scores`");
  expect_refused(situ_to_dtype(n, SITU_I32), SITU_E_OVERFLOW, "to_dtype", "1 of 3 values of a tensor ([3] i64)");
  expect_refused(situ_to_dtype(n, SITU_U8), SITU_E_OVERFLOW, "to_dtype", "2 of 3 values");
  situ_tensor *half = situ_zeros(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F16, .device = there() });
  expect_refused(situ_copy_(half, x), SITU_E_OVERFLOW, "copy_", "are lost in f16");
  expect_same(half, situ_zeros_like(half, NULL), 0, 0);
  assert_non_null(situ_to_dtype(x, SITU_BF16)); /* rounded */
  assert_non_null(situ_to_dtype(n, SITU_F32));
  assert_non_null(situ_to_dtype(situ_narrow(n, 0, 2, 1), SITU_U8));
  situ_policy_end(&before);
  situ_error_log(keep_line, line);
  situ_policy_begin(&before, (situ_policy){ .casts = SITU_CASTS_WARN });
  expect_exact(situ_to_dtype(x, SITU_F16), SITU_SHAPE(4), HUGE_VAL, -300, HUGE_VAL, 1.5);
  assert_non_null(strstr(line, "1 of 4 values of `scores`"));
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 2, NULL));
  expect_ok(situ_copy_from_host(situ_detach(situ_nn_get_tensor(net, "0.bias")), (float[]){ 1e6f, 1 }, 8));
  expect_ok(situ_nn_to_with(net, &(situ_nn_to_options){ .device = there(), .dtype = SITU_F16, .lossy = true }));
  assert_non_null(strstr(line, "nn_to_with: finite values became infinite: 1 of 0.bias"));
  situ_policy_end(&before);
  situ_error_log(NULL, NULL);
  situ_nn_free(net);
}

/* S22: random numbers differ between devices. Here element i of draw n has the same bits anywhere. */
/* placement: E1, E2, E5 */
static void S22_random_numbers_are_the_same_everywhere(void **state) {
  (void)state;
  if (!has_values(there())) return;
  static const situ_dtype dtypes[] = { SITU_F16, SITU_BF16, SITU_F32, SITU_F64 };
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    situ_tensor *drawn[2][4];
    for (int k = 0; k < 2; k++) {
      situ_options where = { .dtype = dtypes[d], .device = k ? there() : here() }, whole = { .device = where.device };
      situ_manual_seed(42);
      drawn[k][0] = situ_randn(SITU_SHAPE(33, 31), &where);
      drawn[k][1] = situ_rand(SITU_SHAPE(1023), &where);
      drawn[k][2] = situ_randperm(257, &whole);
      drawn[k][3] = situ_dropout(situ_ones(SITU_SHAPE(100), &where), 0.5, true, NULL);
    }
    for (int i = 0; i < 4; i++) expect_same(drawn[0][i], situ_to(drawn[1][i], here()), 0, 0);
  }
}

static void count_line(const char *message, void *payload) {
  if (strstr(message, "autocast")) ++*(int *)payload;
}

/* S23: autocast for one kind of device does nothing to tensors of another, and nothing says so. Here the
   log does, once; of one kind, both are cast. */
static void S23_autocast_for_another_kind_of_device_is_told(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL);
  const bool same = here().kind == there().kind;
  int lines = 0;
  situ_error_log(count_line, &lines);
  for (int step = 0; step < 3; step++) {
    situ_setting before;
    expect_ok(situ_autocast_begin(&before, there(), NULL));
    assert_int_equal(situ_dtype_of(situ_mm(a, a)), same ? SITU_F16 : SITU_F32);
    situ_autocast_end(&before);
  }
  situ_error_log(NULL, NULL);
  assert_int_equal(lines, same ? 0 : 1);
}

/* S24: an op that meets operands from two devices brings one to the other behind your back. */
static void S24_no_operand_ever_moves_by_itself(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL),
              *b = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ .device = there() });
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  expect_refused(situ_add(a, b), SITU_E_DEVICE, "add", "");
  expect_refused(situ_add_(b, a), SITU_E_DEVICE, "", "");
  expect_refused(situ_mm(b, a), SITU_E_DEVICE, "mm", "");
  expect_ok(situ_ledger_end(&ledger));
  expect_on(a, here());
  expect_on(b, there());
}

/* S24: only a policy that says so copies, for one call; the ledger has it, and the operands stay. That
   holds for functions that are made of other ops too. */
/* placement: I6 */
static void S24_what_a_policy_copies_is_in_the_ledger(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL);
  situ_tensor *b = situ_full(SITU_SHAPE(2, 2), 3, &(situ_options){ .device = there() });
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY,
                                            .device_to_host = SITU_POLICY_COPY,
                                            .device_to_device = SITU_POLICY_COPY });
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  situ_tensor *sum = situ_add(a, b), *loss = situ_mse_loss(b, a, SITU_REDUCTION_SUM);
  situ_tensor *both = situ_stack((situ_tensor *[]){ a, b }, 2, 0);
  situ_transfer transfer = { 0 };
  int64_t copies = situ_ledger_transfers(&ledger, &transfer, 1);
  expect_ok(situ_ledger_end(&ledger));
  situ_policy_end(&before);
  if (has_values(there())) {
    expect_exact(sum, SITU_SHAPE(2, 2), 4, 4, 4, 4);
    expect_exact(loss, SITU_SCALAR, 16);
    expect_exact(both, SITU_SHAPE(2, 2, 2), 1, 1, 1, 1, 3, 3, 3, 3);
    assert_int_equal(copies, 3);
    assert_string_equal(transfer.reason, "policy");
  } else { /* meta is never copied to or from */
    assert_true(!sum && !loss && !both && copies == 0);
    expect_error(SITU_E_DEVICE, "add", "");
  }
  expect_on(a, here());
  expect_on(b, there());
  expect_refused(situ_add(a, b), SITU_E_DEVICE, "add", "");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(S13_a_plain_list_of_layers_is_found),
    PAIR_TEST(S14_an_index_that_is_not_there_is_refused),
    PAIR_TEST(S16_a_tensor_that_is_copied_again_and_again_is_named),
    PAIR_TEST(S17_values_are_there_when_the_call_returns),
    PAIR_TEST(S17_host_memory_may_go_when_the_call_returns),
    PAIR_TEST(S17_copies_between_devices_see_the_work_before_them),
    PAIR_TEST(S18_writing_a_part_from_elsewhere),
    PAIR_TEST(S18_views_keep_their_values_on_the_way),
    PAIR_TEST(S19_gradients_and_counters_go_with_their_module),
    PAIR_TEST(S20_a_lazy_layer_stays_lazy_and_goes_home),
    PAIR_TEST(S21_a_cast_that_loses_values_is_reported),
    PAIR_TEST(S21_a_tensors_own_cast_is_counted_by_policy),
    PAIR_TEST(S22_random_numbers_are_the_same_everywhere),
    PAIR_TEST(S23_autocast_for_another_kind_of_device_is_told),
    PAIR_TEST(S24_what_a_policy_copies_is_in_the_ledger),
    PAIR_TEST(S24_no_operand_ever_moves_by_itself),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
