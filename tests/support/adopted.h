/* A program's own device and memory: what all backends have in common of situ/interop.h. A test defines before it
   KIND       the prefix of the devices' names, of which situ has opened two
   STRANGE    a part of the refusal of ordinary memory of the host
   FLOATS     size of the program's memory, to which `memory` points and which the host can read here
   adopt()    sets all to 0, 1, 2, ...; makes `device` of the program's queue
   adopt_with(account)   the same with own_alloc and own_free, which keep the account
   and runs ADOPTED_CASES.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_ADOPTED_H
#define SITU_TEST_ADOPTED_H

#include <stdio.h>
#include <string.h>

#include "situ/interop.h"
#include "situ/ledger.h"
#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/scope.h"
#include "situ/sys/alloc.h"
#include "support/test.h"

/* What the program's allocator gave out; none: it has no more. */
typedef struct account {
  long live;
  void *newest;
  bool none;
} account;
static void *own_alloc(void *payload, size_t bytes, void *queue);
static void own_free(void *payload, void *handle, void *queue);
static void adopt_with(account *a);

static void abandon(void) { assert_int_equal(situ_device_abandon(device), SITU_OK); }

static situ_tensor *lend(const situ_memory *m, situ_shape shape) {
  return situ_from_memory(m, shape, &(situ_options){ .device = device });
}

static void count_release(void *count) { ++*(int *)count; }

static void memory_is_used_in_place(void **state) {
  (void)state;
  static const int64_t across[] = { 1, 8 };
  situ_ledger ledger;
  situ_scope scope;
  adopt();
  int released = 0;
  situ_ledger_begin_none(&ledger);
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory, .offset = 4, .strides = across }, SITU_SHAPE(2, 3));
  situ_tensor *y = lend(&(situ_memory){ memory + 32, 0, NULL, count_release, &released, false }, SITU_SHAPE(2, 3));
  assert_non_null(situ_copy_(y, situ_mul_scalar(x, 2)));
  assert_true(memory[32] == 32); /* queued, and nothing has waited */
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  assert_int_equal(released, 1);
  abandon();
  const float want[] = { 2, 18, 34, 4, 20, 36, 38 };
  assert_memory_equal(memory + 32, want, 6 * sizeof *want);
  assert_true(memory[38] == 38);
}

static void a_model_trains_there_as_elsewhere(void **state) {
  (void)state;
  float bits[2][6];
  for (int own = 0; own < 2; own++) {
    if (!own) adopt();
    situ_options o = { .device = own ? situ_dev(KIND ":0") : device };
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_manual_seed(3);
    situ_nn_module *net = situ_nn_linear(3, 2, &(situ_nn_linear_options){ .device = o.device });
    situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 1e-2, NULL);
    situ_tensor *x = own ? situ_from_host(memory, 12 * sizeof *memory, SITU_SHAPE(4, 3), &o)
                         : lend(&(situ_memory){ .handle = memory, .read_only = true }, SITU_SHAPE(4, 3));
    for (int step = 0; step < 200; step++) {
      situ_scope inner;
      situ_scope_begin(&inner);
      situ_tensor *loss = situ_mean(situ_square(situ_nn_forward(net, x)), NULL);
      assert_int_equal(situ_optim_zero_grad(optim, true), SITU_OK);
      assert_int_equal(situ_backward(loss, NULL), SITU_OK);
      assert_int_equal(situ_optim_step(optim), SITU_OK);
      assert_int_equal(situ_scope_end(&inner), SITU_OK);
    }
    assert_int_equal(situ_copy_to_host(situ_nn_get_tensor(net, "weight"), bits[own], sizeof bits[own]), SITU_OK);
    situ_optim_free(optim);
    situ_nn_free(net);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
    if (!own) abandon();
  }
  assert_memory_equal(bits[0], bits[1], sizeof bits[0]);
}

static void what_lives_there_is_named(void **state) {
  (void)state;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory }, SITU_SHAPE(4)), *y = situ_neg(x);
  assert_non_null(situ_set_name(x, "tile"));
  const char *part = "2 tensors live on " KIND ":2: a tensor ([4] f32) at ";
  assert_int_equal(situ_device_abandon(device), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "`tile` ([4] f32) at "));
  expect_error(SITU_E_STATE, "device_abandon", part);
  expect_exact(y, SITU_SHAPE(4), 0, -1, -2, -3);
  expect_refused(situ_add(x, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_DEVICE, "add", ", " KIND ":2 adopted at ");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
  assert_int_equal(situ_device_count(KIND), 2);
  assert_false(situ_device_is_available(device));
  assert_string_equal(situ_device_status(KIND ":1"), "it is there");
  expect_refused(situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = device }), SITU_E_ARG, "zeros",
                 KIND ":2 is not there: it was given back at ");
  assert_int_equal(situ_device_abandon(situ_dev(KIND ":1")), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_abandon", KIND ":1 is not a device of the program");
}

/* A hole between adopted devices is not a device, and is filled first. */
static void indices_are_used_again(void **state) {
  (void)state;
  adopt();
  const situ_device first = device;
  adopt();
  const situ_device second = device;
  assert_int_equal(situ_device_abandon(first), SITU_OK);
  assert_int_equal(situ_device_count(KIND), 4);
  assert_false(situ_device_is_available(first));
  assert_string_equal(situ_device_status(KIND ":2"), "the program has it back");
  assert_true(situ_device_is_available(second));
  adopt();
  assert_true(situ_device_equal(device, first));
  assert_int_equal(situ_device_abandon(second), SITU_OK);
  abandon();
}

/* Moves carry the list of what lives there along. */
static void moves_are_followed(void **state) {
  (void)state;
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(3, 2, NULL), situ_nn_linear(2, 2, NULL));
  for (int turn = 0; turn < 3; turn++) {
    assert_int_equal(situ_nn_to(net, device), SITU_OK);
    assert_int_equal(situ_device_abandon(device), SITU_E_STATE);
    assert_non_null(strstr(situ_error_message(), "([2, 3] f32) at "));
    expect_error(SITU_E_STATE, "device_abandon", "4 tensors live on " KIND ":2: ");
    assert_int_equal(situ_nn_to(net, situ_dev(turn == 1 ? "cpu" : KIND ":0")), SITU_OK);
  }
  abandon();
  situ_nn_free(net);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static void refuse(situ_memory m, situ_status status, const char *part) {
  int released = 0;
  m.release = count_release;
  m.payload = &released;
  expect_refused(lend(&m, SITU_SHAPE(2, 3)), status, "from_memory", part);
  assert_int_equal(released, 1);
}

static void wrong_memory_is_refused(void **state) {
  (void)state;
  static float elsewhere[8];
  static const int64_t back[] = { -3, 1 };
  adopt();
  refuse((situ_memory){ .handle = elsewhere }, SITU_E_DEVICE, STRANGE);
  refuse((situ_memory){ .handle = memory + FLOATS - 5 }, SITU_E_SHAPE,
         "the memory has 20 bytes, and offset, shape and strides reach to byte 24");
  refuse((situ_memory){ .handle = memory, .offset = FLOATS * sizeof *memory - 20 }, SITU_E_SHAPE, "reach to byte 260");
  refuse((situ_memory){ .handle = memory, .offset = 6 }, SITU_E_ARG,
         "offset 6 is not a multiple of the 4 bytes of f32");
  refuse((situ_memory){ .handle = (char *)memory + 2 }, SITU_E_ARG, "is not a multiple of the 4 bytes of f32");
  refuse((situ_memory){ .handle = memory, .offset = SIZE_MAX - 3 }, SITU_E_OVERFLOW, "reaches beyond 2^63 bytes");
  refuse((situ_memory){ .handle = memory, .strides = back }, SITU_E_ARG, "stride -3 at dimension 0 is negative");
  refuse((situ_memory){ 0 }, SITU_E_ARG, "`memory->handle` is NULL");
  situ_memory m = { .handle = memory };
  expect_refused(situ_from_memory(&m, SITU_SHAPE(1), NULL), SITU_E_DEVICE, "from_memory", "use situ_from_blob");
  expect_refused(situ_from_memory(&m, SITU_SHAPE(1), &(situ_options){ .device = situ_dev("meta") }), SITU_E_DEVICE,
                 "from_memory", "state an adopted device");
  expect_refused(situ_from_memory(NULL, SITU_SHAPE(1), NULL), SITU_E_ARG, "from_memory", "`memory` is NULL");
  abandon();
}

static void read_only_memory_is_not_written(void **state) {
  (void)state;
  static const float values[] = { 7, 7 };
  situ_scope scope;
  adopt();
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory, .read_only = true }, SITU_SHAPE(2));
  const char *part = "a tensor ([2] f32) is read-only memory of the program";
  expect_refused(situ_add_scalar_(x, 1), SITU_E_STATE, "add_scalar_", part);
  expect_refused(situ_copy_(situ_select(x, 0, 1), situ_select(x, 0, 0)), SITU_E_STATE, "copy_", "is read-only memory");
  assert_int_equal(situ_copy_from_host(x, values, sizeof values), SITU_E_STATE);
  expect_error(SITU_E_STATE, "copy_from_host", part);
  situ_tensor *w =
      situ_requires_grad_(lend(&(situ_memory){ .handle = memory, .read_only = true }, SITU_SHAPE(2)), true);
  situ_optim *optim = situ_optim_sgd(SITU_TREE(w), 0.1, NULL);
  assert_int_equal(situ_backward(situ_sum(w, NULL), NULL), SITU_OK);
  assert_int_equal(situ_optim_step(optim), SITU_E_STATE);
  expect_error(SITU_E_STATE, "sgd", "is read-only memory");
  situ_optim_free(optim);
  expect_exact(x, SITU_SHAPE(2), 0, 1);
  expect_exact(situ_add_scalar_(situ_clone(x), 1), SITU_SHAPE(2), 1, 2);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

static void memory_is_of_the_programs_allocator(void **state) {
  (void)state;
  account a = { 0 };
  situ_scope scope;
  void *handle = NULL;
  size_t offset = 0;
  situ_device_properties info;
  adopt_with(&a);
  situ_scope_begin(&scope);
  situ_tensor *x = situ_full(SITU_SHAPE(100), 2, &(situ_options){ .device = device });
  assert_int_equal(situ_memory_of(x, &handle, &offset), SITU_OK);
  assert_true(a.live > 0 && (char *)handle >= (char *)a.newest);
  assert_int_equal(situ_device_info(device, &info), SITU_OK);
  assert_true(info.memory_used >= 400);
  expect_exact(situ_sum(x, NULL), SITU_SCALAR, 200);
  a.none = true;
  expect_refused(situ_zeros(SITU_SHAPE(1 << 16), &(situ_options){ .device = device }), SITU_E_NOMEM, "zeros",
                 "no memory for 256.0 KiB on " KIND ":2");
  a.none = false;
  expect_exact(situ_select(situ_neg(x), 0, 99), SITU_SCALAR, -2);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
  assert_int_equal(a.live, 0);
  const situ_foreign half = { .kind = situ_dev(KIND ":0").kind, .alloc = own_alloc };
  assert_int_equal(situ_device_adopt(&half, &device), SITU_E_ARG);
  expect_error(SITU_E_ARG, "device_adopt", "foreign->free is NULL; give both functions of the allocator, or none");
}

static void memory_of_a_tensor(void **state) {
  (void)state;
  situ_scope scope;
  void *handle = NULL;
  size_t offset = 0;
  adopt();
  situ_scope_begin(&scope);
  situ_tensor *x = lend(&(situ_memory){ .handle = memory + 3, .offset = 8 }, SITU_SHAPE(2, 2));
  assert_int_equal(situ_memory_of(situ_select(x, 0, 1), &handle, &offset), SITU_OK);
  assert_ptr_equal(handle, memory + 3);
  assert_int_equal(offset, 16);
  situ_tensor *y = situ_empty(SITU_SHAPE(2), &(situ_options){ .device = device });
  expect_refused(situ_neg(y), SITU_E_STATE, "neg", "holds no value yet");
  assert_int_equal(situ_memory_of(y, &handle, &offset), SITU_OK); /* the program may have written to it */
  assert_non_null(situ_neg(y));
  assert_int_equal(situ_memory_of(situ_ones(SITU_SHAPE(1), NULL), &handle, &offset), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "memory_of", "use situ_data_ptr");
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
  abandon();
}

/* Each allocation fails once: the memory is released, and nothing is left behind. */
static void failed_allocations_release_the_memory(void **state) {
  (void)state;
  adopt();
  bool failed = true;
  for (int64_t nth = 1; failed; nth++) {
    int released = 0;
    situ_scope scope;
    situ_scope_begin(&scope);
    const situ_memory m = { .handle = memory, .release = count_release, .payload = &released };
    situ_fail_allocation(nth, false);
    situ_tensor *x = lend(&m, SITU_SHAPE(2));
    situ_fail_allocation(0, false);
    failed = !x;
    if (failed) {
      assert_int_equal(released, 1);
      expect_error(SITU_E_NOMEM, "from_memory", "");
    }
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
    assert_int_equal(released, 1);
  }
  abandon();
}

#define ADOPTED_CASES                                                                                             \
  TEST(memory_is_used_in_place), TEST(a_model_trains_there_as_elsewhere), TEST(what_lives_there_is_named),        \
      TEST(indices_are_used_again), TEST(moves_are_followed), TEST(wrong_memory_is_refused),                      \
      TEST(read_only_memory_is_not_written), TEST(memory_of_a_tensor), TEST(memory_is_of_the_programs_allocator), \
      TEST(failed_allocations_release_the_memory)

#endif
