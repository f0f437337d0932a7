/* NCCL on one rank, with the real library where there is a GPU (-DSITU_TEST_CUDA=device), else on its double: joining,
   every collective, what it does not carry, order with kernels, graphs, abort.
   SPDX-License-Identifier: MIT */
/* test-devices: cuda:0 */
#include "situ/nccl.h"

#include <stdlib.h>

#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/test.h"

static situ_comm *comm;

static int begin(void **state) {
  const situ_device device = test_device();
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  const int begun = test_begin(state);
  comm = situ_comm_sim_rank(world, 0, &(situ_comm_options){ .deadline = 60 });
  situ_comm_sim_free(world);
  assert_non_null(comm);
  const situ_status status = situ_comm_use_nccl(comm, device);
  if (status == SITU_E_UNSUPPORTED) {
    print_message("skipped: %s\n", situ_error_message());
    exit(77);
  }
  if (status != SITU_OK) fail_msg("%s", situ_error_message());
  return begun;
}
static int end(void **state) {
  situ_comm_free(comm);
  return test_end(state);
}
#define NCCL_TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)

static situ_tensor *numbers(situ_dtype dtype, int64_t count) {
  return situ_to_dtype(situ_arange(0, (double)count, 1, &(situ_options){ .device = test_device() }), dtype);
}

/* With one rank every collective gives what it is given, and nothing passes through the host. */
static void every_collective_has_its_values(void **state) {
  (void)state;
  static const situ_dtype all[] = { SITU_I8,  SITU_U8,   SITU_I16, SITU_I32, SITU_I64,
                                    SITU_F16, SITU_BF16, SITU_F32, SITU_F64, SITU_BOOL };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    situ_tensor *want = numbers(all[k], 6), *row = situ_reshape(want, SITU_SHAPE(1, 6)), *t = situ_clone(want);
    situ_ledger ledger;
    situ_ledger_begin_none(&ledger);
    assert_int_equal(situ_comm_broadcast(comm, t, 0, "broadcast"), SITU_OK);
    situ_tensor *gathered = situ_comm_all_gather(comm, want, "gather");
    situ_tensor *exchanged = situ_comm_all_to_all(comm, row, "exchange");
    assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
    expect_same(t, want, 0, 0);
    expect_same(gathered, row, 0, 0);
    expect_same(exchanged, row, 0, 0);
  }
  static const situ_dtype added[] = { SITU_I8, SITU_U8, SITU_I32, SITU_I64, SITU_F32, SITU_F64 };
  for (size_t k = 0; k < sizeof added / sizeof *added; k++)
    for (int reduction = SITU_COMM_SUM; reduction <= SITU_COMM_MAX; reduction++) {
      situ_tensor *want = numbers(added[k], 6), *t = situ_clone(want);
      situ_ledger ledger;
      situ_ledger_begin_none(&ledger);
      assert_int_equal(situ_comm_all_reduce(comm, t, (situ_comm_reduction)reduction, "reduce"), SITU_OK);
      situ_tensor *part = situ_comm_reduce_scatter(comm, situ_reshape(want, SITU_SHAPE(1, 6)),
                                                   (situ_comm_reduction)reduction, "scatter");
      assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
      expect_same(t, want, 0, 0);
      expect_same(part, want, 0, 0);
    }
  assert_int_equal(situ_comm_barrier(comm, "all"), SITU_OK);
}

/* NCCL has no sums of i16: they go through the host, which the ledger counts. */
static void what_it_does_not_carry_is_staged(void **state) {
  (void)state;
  situ_tensor *t = numbers(SITU_I16, 6), *cpu = situ_arange(0, 5, 1, &(situ_options){ .device = situ_dev("cpu") });
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  assert_int_equal(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "staged"), SITU_OK);
  assert_int_equal(situ_ledger_sum(&ledger, SITU_DEVICE_TO_HOST).bytes, 12);
  assert_int_equal(situ_ledger_sum(&ledger, SITU_HOST_TO_DEVICE).bytes, 12);
  assert_int_equal(situ_ledger_end(&ledger), SITU_OK);
  expect_exact(t, SITU_SHAPE(6), 0, 1, 2, 3, 4, 5);
  assert_int_equal(situ_comm_all_reduce(comm, cpu, SITU_COMM_SUM, "host"), SITU_OK);
  assert_int_equal(situ_comm_all_reduce(comm, numbers(SITU_BF16, 2), SITU_COMM_SUM, NULL), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "comm_all_reduce", "all_reduce of bf16: convert it to f32 first");
  situ_tensor *empty = situ_zeros(SITU_SHAPE(0), &(situ_options){ .device = test_device() });
  assert_int_equal(situ_comm_all_reduce(comm, empty, SITU_COMM_SUM, "empty"), SITU_OK);
  situ_tensor *unwritten = situ_empty(SITU_SHAPE(3), &(situ_options){ .device = test_device() });
  assert_int_equal(situ_comm_all_reduce(comm, unwritten, SITU_COMM_SUM, "unwritten"), SITU_E_STATE);
  situ_error_clear();
}

/* A part of a tensor, and a transposed one: only what was given changes. */
static void views_are_carried(void **state) {
  (void)state;
  situ_tensor *whole = numbers(SITU_F32, 12), *part = situ_narrow(whole, 0, 3, 4);
  assert_int_equal(situ_comm_all_reduce(comm, part, SITU_COMM_SUM, "part"), SITU_OK);
  expect_same(whole, numbers(SITU_F32, 12), 0, 0);
  situ_tensor *turned = situ_transpose(situ_reshape(whole, SITU_SHAPE(3, 4)), 0, 1);
  expect_same(situ_comm_all_gather(comm, turned, "turned"), situ_reshape(situ_contiguous(turned), SITU_SHAPE(1, 4, 3)),
              0, 0);
  assert_int_equal(situ_comm_broadcast(comm, turned, 0, "turned"), SITU_OK);
  expect_same(whole, numbers(SITU_F32, 12), 0, 0);
  situ_tensor *leaf = situ_requires_grad_(numbers(SITU_F32, 3), true);
  assert_int_equal(situ_comm_broadcast(comm, leaf, 0, "leaf"), SITU_OK);
  expect_exact(situ_detach(leaf), SITU_SHAPE(3), 0, 1, 2);
}

/* A transfer reads what the kernels before it have written, and those behind it read what has arrived. */
static void transfers_are_in_order_with_kernels(void **state) {
  (void)state;
  enum { COUNT = 1 << 16, STEPS = 20 };
  situ_tensor *t = situ_zeros(SITU_SHAPE(COUNT), &(situ_options){ .device = test_device() });
  for (int k = 0; k < STEPS; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_add_scalar_(t, 1);
    assert_int_equal(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "step"), SITU_OK);
    situ_tensor *all = situ_comm_all_gather(comm, situ_mul_scalar(t, 2), "twice");
    situ_sub_(t, situ_mul_scalar(situ_select(all, 0, 0), 0.25));
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  double want = 0, got[2];
  for (int k = 0; k < STEPS; k++) want = (want + 1) / 2;
  test_read(situ_cat((situ_tensor *[]){ situ_narrow(t, 0, 0, 1), situ_narrow(t, 0, COUNT - 1, 1) }, 2, 0), got);
  assert_float_equal(got[0], want, 1e-6);
  assert_float_equal(got[1], want, 1e-6);
}

static void a_graph_does_not_capture_it(void **state) {
  (void)state;
  situ_tensor *t = numbers(SITU_F32, 3);
  assert_int_equal(situ_graph_capture_begin(test_device()), SITU_OK);
  assert_int_equal(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "captured"), SITU_E_STATE);
  situ_error_clear();
  situ_add_scalar_(t, 1);
  assert_null(situ_graph_capture_end());
  situ_error_clear();
}

static void bad_calls_are_refused(void **state) {
  (void)state;
  assert_int_equal(situ_comm_use_nccl(comm, test_device()), SITU_E_STATE);
  expect_error(SITU_E_STATE, "comm_use_nccl", "has NCCL already");
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *other = situ_comm_sim_rank(world, 0, NULL);
  situ_comm_sim_free(world);
  assert_int_equal(situ_comm_use_nccl(other, situ_dev("sim:0")), SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "", "no engine carries memory of sim:0 between ranks");
  assert_int_equal(situ_comm_use_nccl(other, (situ_device){ SITU_CUDA, 63 }), SITU_E_ARG);
  expect_error(SITU_E_ARG, "", "cuda:63 is not there");
  assert_int_equal(situ_comm_barrier(other, "it still works"), SITU_OK);
  assert_null(situ_add(NULL, NULL)); /* an error from before is not this call's */
  assert_int_equal(situ_comm_use_nccl(other, test_device()), SITU_OK);
  situ_error_clear();
  situ_comm_free(other);
}

static void an_abort_ends_it(void **state) {
  (void)state;
  situ_tensor *t = numbers(SITU_F32, 3);
  assert_int_equal(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "before"), SITU_OK);
  situ_comm_abort(comm, "enough");
  assert_int_equal(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "after"), SITU_E_COMM);
  expect_error(SITU_E_COMM, "comm_all_reduce", "rank 0 gave up: enough");
  expect_exact(situ_add_scalar(t, 1), SITU_SHAPE(3), 1, 2, 3); /* the device is well */
}

int main(void) {
  const struct CMUnitTest tests[] = {
    NCCL_TEST(every_collective_has_its_values),
    NCCL_TEST(what_it_does_not_carry_is_staged),
    NCCL_TEST(views_are_carried),
    NCCL_TEST(transfers_are_in_order_with_kernels),
    NCCL_TEST(a_graph_does_not_capture_it),
    NCCL_TEST(bad_calls_are_refused),
    NCCL_TEST(an_abort_ends_it),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
