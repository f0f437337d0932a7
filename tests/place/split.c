/* A model whose layers are on two devices and the host trains as it would on the host alone, and
   copies what it was planned to copy: each activation once there, each gradient once back.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 opencl:0 */
/* test-sanitized: opencl */
#include <math.h>

#include "situ/optim.h"
#include "support/pairs.h"

enum { STEPS = 40, ROWS = 32, IN = 12, WIDE = 24, NARROW = 8, CLASSES = 4 };

typedef struct split {
  situ_nn_module base;
  situ_nn_module *first, *second, *head;
} split;

static situ_tensor *split_forward(situ_nn_module *self, situ_tensor *x) {
  split *m = (split *)self;
  x = situ_dropout(situ_relu(situ_nn_forward(m->first, x)), 0.1, true, NULL);
  x = situ_to(x, situ_nn_home(m->second));
  x = situ_to(situ_gelu(situ_nn_forward(m->second, x), SITU_GELU_NONE), situ_nn_home(m->head));
  return situ_nn_forward(m->head, x);
}
static const situ_nn_type split_type = { .name = "Split", .size = sizeof(split), .forward = split_forward };

/* Always with the same weights. */
static situ_nn_module *split_new(void) {
  situ_manual_seed(11);
  split *m = situ_nn_alloc(&split_type);
  situ_nn_child(m, first, situ_nn_linear(IN, WIDE, NULL));
  situ_nn_child(m, second, situ_nn_linear(WIDE, NARROW, NULL));
  situ_nn_child(m, head, situ_nn_linear(NARROW, CLASSES, NULL));
  return situ_nn_done(m);
}

/* The copies of one step. */
typedef struct crossing {
  situ_device from, to;
  uint64_t bytes;
} crossing;

static void expect_crossings(const situ_ledger *l, const crossing *want, int count) {
  situ_transfer got[8];
  const int64_t many = situ_ledger_transfers(l, got, 8);
  if (many != count) {
    situ_ledger_print(l);
    fail_msg("%lld transfers, planned are %d", (long long)many, count);
  }
  for (int i = 0; i < count; i++) {
    assert_true(situ_device_equal(got[i].from, want[i].from));
    assert_true(situ_device_equal(got[i].to, want[i].to));
    assert_int_equal(got[i].bytes, want[i].bytes);
  }
}

/* Losses of each step into out. The batch lies where the model begins, the classes where it ends. */
static void train(situ_nn_module *net, situ_tensor *x, situ_tensor *classes, const crossing *want, int count,
                  double *out) {
  situ_optim *o = situ_optim_adamw(situ_nn_parameters(net), 0.02, NULL);
  assert_non_null(o);
  for (int step = 0; step < STEPS; step++) {
    situ_scope s;
    situ_ledger l;
    situ_scope_begin(&s);
    situ_ledger_begin(&l);
    situ_tensor *loss = situ_cross_entropy(situ_nn_forward(net, x), classes, NULL);
    expect_ok(situ_optim_zero_grad(o, true));
    expect_ok(situ_backward(loss, NULL));
    expect_ok(situ_optim_step(o));
    expect_crossings(&l, want, count);
    expect_ok(situ_ledger_end(&l));
    expect_ok(situ_item(loss, &out[step]));
    expect_ok(situ_scope_end(&s));
  }
  situ_optim_free(o);
}

/* Small storages travel packed, each at a multiple of 256, where memory has addresses. */
static uint64_t moved(situ_device to, uint64_t floats) {
  return to.kind != SITU_OPENCL ? (floats * 4 + 255) / 256 * 256 : floats * 4;
}

/* placement: G1, I1, I6 */
static void it_trains_and_copies_what_was_planned(void **state) {
  (void)state;
  const situ_device host = situ_dev("cpu"), a = test_device_at(0), b = test_device_at(1);
  const uint64_t wide = ROWS * WIDE * 4, narrow = ROWS * NARROW * 4;
  const crossing planned[] = { { a, b, wide }, { b, host, narrow }, { host, b, narrow }, { b, a, wide } };
  situ_tensor *x = situ_randn(SITU_SHAPE(ROWS, IN), NULL);
  situ_tensor *classes = situ_randint(0, CLASSES, SITU_SHAPE(ROWS), NULL);
  double alone[STEPS], spread[STEPS];
  situ_nn_module *net = split_new(), *there_and_here = split_new();

  situ_manual_seed(12);
  train(net, x, classes, NULL, 0, alone);

  char map[64];
  (void)snprintf(map, sizeof map, "first=%s,second=%s", name_of(a), name_of(b));
  situ_ledger l;
  situ_ledger_begin(&l);
  expect_ok(situ_nn_to_map(there_and_here, map));
  situ_tensor *far = situ_to(x, a);
  assert_int_equal(situ_ledger_total(&l).bytes,
                   moved(a, IN * WIDE) + moved(a, WIDE) + moved(b, WIDE * NARROW) + moved(b, NARROW) + ROWS * IN * 4);
  expect_ok(situ_ledger_end(&l));
  situ_manual_seed(12);
  train(there_and_here, far, classes, planned, 4, spread);

  double worst = 0;
  for (int i = 0; i < STEPS; i++) worst = fmax(worst, fabs(spread[i] / alone[i] - 1));
  print_message("loss %.4f -> %.4f, on the host alone %.4f; they differ by %.2g at most\n", spread[0],
                spread[STEPS - 1], alone[STEPS - 1], worst);
  assert_true(spread[STEPS - 1] < 0.5 * spread[0]);
  /* The bound of training runs, docs/numerics.md; a simulated device runs the host's kernels. */
  assert_true(a.kind == SITU_SIM ? worst == 0 : worst < 1e-4);
  expect_on(situ_nn_get_tensor(there_and_here, "first.weight"), a);
  expect_on(situ_grad(situ_nn_get_tensor(there_and_here, "second.bias")), b);
  expect_on(situ_nn_get_tensor(there_and_here, "head.weight"), host);
  situ_nn_free(net);
  situ_nn_free(there_and_here);
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(it_trains_and_copies_what_was_planned) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
