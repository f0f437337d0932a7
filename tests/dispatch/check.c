/* The check: every op of the table, every operand on a foreign device, and the explanation that comes of it. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "situ/io.h"
#include "situ/nn.h"
#include "situ/sys/op.h"
#include "situ/sys/optimizer.h"
#include "situ/sys/tensor.h"
#include "support/test.h"

/* How a message names a place in this file: without libdw it can only say how far into the program. */
#define HERE (test_has_lines() ? "check.c:" : "dispatch_check+0x")

/* ---- every op, every operand ---- */

typedef struct corner {
  const char *one, *other;
} corner;
static const corner corners[] = { { "cpu", "sim:0" },        { "sim:0", "cpu" },    { "sim:0", "sim:1" },
                                  { "cpu", "meta" },         { "cpu", "opencl:0" }, { "opencl:0", "cpu" },
                                  { "opencl:0", "opencl:1" } };
static int corner_count(void) { return situ_device_is_available(situ_dev("opencl:1")) ? 7 : 4; }

/* Neither what a tensor looks like nor whether it has elements may matter: the device comes first. */
static const char *const layouts[] = { "[2, 2]", "transposed", "0-dim", "empty" };
enum { LAYOUTS = 4 };

static situ_tensor *operand_on(situ_device device, unsigned accept, int layout) {
  situ_dtype dtype = accept & SITU_INDEX      ? SITU_I64
                     : accept & SITU_FLOATING ? SITU_F32
                     : accept & SITU_BOOLEAN  ? SITU_BOOL
                                              : SITU_F32;
  situ_shape shape = layout == 2 ? SITU_SCALAR : layout == 3 ? SITU_SHAPE(0, 2) : SITU_SHAPE(2, 2);
  situ_tensor *t = situ_zeros(shape, &(situ_options){ .dtype = dtype, .device = device });
  if (layout == 1) t = situ_transpose(t, 0, 1);
  assert_non_null(t);
  return t;
}

typedef struct tally {
  long pure, in_place;
} tally;

/* On one of the two devices the op cannot run, so operands are to go to the other. */
static bool has_one_home(const situ_op *op, const corner *c) {
  const bool linalg = !strncmp(op->name, "linalg_", 7);
  const situ_verb verb = linalg ? SITU_VERB_LINALG : SITU_VERB_GROUP_NORM;
  return (linalg || !strcmp(op->name, "group_norm")) &&
         !(situ_device_has(situ_dev(c->one), verb) && situ_device_has(situ_dev(c->other), verb));
}

/* One call with operand `foreign` on the other device. Optional operands are there, or all but the foreign one are not. */
static void refuse_one(const situ_op *op, int ins, int foreign, const corner *c, int layout, bool sparse, bool in_place,
                       tally *count) {
  static const char room[1024]; /* any op's parameters: they are not looked at before the device */
  assert_true(op->params_size <= sizeof room);
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *in[SITU_OPERANDS], *outs[SITU_RESULTS] = { NULL };
  int present = 0, at = 0, missing = 0;
  for (int i = 0; i < ins; i++) {
    unsigned accept = op->operand[op->flags & SITU_OP_VARIADIC ? 0 : i].accept;
    bool left_out = sparse && i != foreign && i > 0 && accept & SITU_OPTIONAL;
    in[i] = left_out ? NULL : operand_on(situ_dev(i == foreign ? c->other : c->one), accept, layout);
    if (i == foreign) at = present;
    present += in[i] != NULL;
    missing += left_out;
  }
  if (present > 1 && (missing || !sparse)) {
    int64_t live = situ_live_tensors();
    uint32_t version = situ_version_of(in[0]);
    situ_tensor *y = in_place ? situ_op_run_(op, in, ins, room) : situ_op_run(op, in, ins, room, outs);
    const char *name = op->operand[op->flags & SITU_OP_VARIADIC ? 0 : foreign].name;
    const situ_error_operand *list;
    bool good = !y && !outs[0] && situ_error() == SITU_E_DEVICE && situ_error_operands(&list) == present &&
                strncmp(list[at].operand, name, strlen(name)) == 0 /* tensors[0] */ &&
                strcmp(list[at].device, c->other) == 0 &&
                /* what is written in place stays: the others are odd */
                (list[at].odd == !(in_place && foreign == 0) || has_one_home(op, c)) &&
                strstr(situ_error_message(), name) && situ_live_tensors() == live && situ_version_of(in[0]) == version;
    if (!good)
      fail_msg("%s%s, operand %d (%s) of %d on %s, the others on %s, %s: %s", op->name, in_place ? " in place" : "",
               foreign, name, present, c->other, c->one, layouts[layout], situ_error_message());
    *(in_place ? &count->in_place : &count->pure) += 1;
  }
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
}

static int operands_of(const situ_op *op) {
  int ins = 0;
  while (ins < SITU_OPERANDS && op->operand[ins].name) ins++;
  return op->flags & SITU_OP_VARIADIC ? 3 : ins;
}

/* placement: D1, K2 */
static void every_op_refuses_every_foreign_operand(void **state) {
  (void)state;
  const situ_op *const *ops;
  size_t count = situ_op_table(&ops), several = 0;
  long operands = 0;
  tally refused = { 0 };
  assert_true(count > 50);
  for (size_t k = 0; k < count; k++) {
    const situ_op *op = ops[k];
    const int ins = operands_of(op);
    if (ins < 2) continue;
    several++;
    operands += ins;
    for (int c = 0; c < corner_count(); c++)
      for (int foreign = 0; foreign < ins; foreign++)
        for (int form = 0; form < 4 * LAYOUTS; form++)
          refuse_one(op, ins, foreign, &corners[c], form / 4, form & 1, form & 2, &refused);
  }
  printf(
      "%zu ops, %zu of several tensors with %ld operands, %d pairs of devices: %ld mixed calls and %ld in place, all refused, no result\n",
      count, several, operands, corner_count(), refused.pure, refused.in_place);
}

/* ---- a thread of little stack ---- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { LITTLE = 1 << 20 }; /* frames are larger */
#else
enum { LITTLE = 48 << 10 };
#endif

static void *refuse_with_little(void *payload) {
  const situ_op *const *ops;
  const size_t count = situ_op_table(&ops);
  for (size_t k = 0; k < count; k++)
    if (operands_of(ops[k]) > 1) refuse_one(ops[k], operands_of(ops[k]), 1, &corners[0], 0, false, false, payload);
  situ_scope s;
  situ_scope_begin(&s);
  double item;
  SITU_IGNORE(situ_item(situ_ones(SITU_SHAPE(2), NULL), &item));
  assert_null(situ_reshape(situ_ones(SITU_SHAPE(2, 3), NULL), SITU_SHAPE(5)));
  situ_nn_module *layer = situ_nn_linear(3, 4, NULL);
  assert_null(situ_nn_forward(layer, situ_ones(SITU_SHAPE(2, 5), NULL)));
  situ_nn_free(layer);
  assert_null(situ_npy_load("none.npy", NULL));
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  return NULL;
}

/* The first refusal looks for a line of this file, for which libdw takes more stack than there is. */
static void a_refusal_needs_little_stack(void **state) {
  (void)state;
  tally refused = { 0 };
  pthread_attr_t how;
  pthread_t thread;
  assert_int_equal(pthread_attr_init(&how), 0);
  assert_int_equal(pthread_attr_setstacksize(&how, LITTLE), 0);
  assert_int_equal(pthread_create(&thread, &how, refuse_with_little, &refused), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  (void)pthread_attr_destroy(&how);
  assert_true(refused.pure > 50);
}

/* ---- calls that are in no table ---- */

static bool never(int list, int64_t item, void *payload) {
  (void)list, (void)item;
  ++*(int *)payload;
  return true;
}

/* What is wrong with one of an item's tensors is found in each of them, and its caller is asked for it first; nothing
   is asked for a good item. */
static void an_item_is_ready_or_not(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(2, 3), NULL),
              *wide = situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .dtype = SITU_F64 }),
              *far = situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .device = situ_dev("sim:0") }),
              *turned = situ_transpose(situ_ones(SITU_SHAPE(3, 2), NULL), 0, 1), *flat = situ_ones(SITU_SHAPE(6), NULL),
              *other = situ_ones(SITU_SHAPE(3, 2), NULL),
              *whole = situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .dtype = SITU_I64 });
  situ_tensor *const bad[] = { wide, far, turned, flat, other, whole, NULL };
  int asked = 0;
  const situ_optimizer_caller caller = { .complete = never, .payload = &asked };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    for (int at = 0; at < 4; at++) {
      situ_tensor *of[4] = { x, situ_ones_like(x, NULL), situ_ones_like(x, NULL), situ_ones_like(x, NULL) };
      of[at] = bad[i];
      const situ_optimizer_tensors good = { .param = situ_ones_like(x, NULL),
                                            .grad = situ_ones_like(x, NULL),
                                            .state = { situ_ones_like(x, NULL), situ_ones_like(x, NULL) } },
                                   item = { .param = of[0], .grad = of[1], .state = { of[2], of[3] } };
      const situ_optimizer_list lists[] = { { { .lr = 1 }, &good, 1 }, { { .lr = 1 }, &item, 1 } };
      asked = 0;
      assert_int_not_equal(situ_optimizer_step_lists(SITU_RULE_ADAM, lists, 2, &caller), SITU_OK);
      assert_int_equal(asked, 1);
      situ_error_clear();
      expect_exact(good.param, SITU_SHAPE(2, 3), 1, 1, 1, 1, 1, 1);
    }
  const situ_optimizer_tensors integers = { .param = whole, .grad = whole, .state = { whole, whole } };
  assert_int_equal(situ_optimizer_step(SITU_RULE_ADAM, &(situ_optimizer_params){ .lr = 1 }, &integers, 1),
                   SITU_E_DTYPE);
  expect_error(SITU_E_DTYPE, "adam", "only floating");
}

/* What takes tensors and is no op: a gradient that is set, one that is given to backward, a step's gradient and state. */
static void calls_beside_the_table_refuse_too(void **state) {
  (void)state;
  for (int c = 0; c < corner_count(); c++) {
    situ_options one = { .device = situ_dev(corners[c].one) }, other = { .device = situ_dev(corners[c].other) };
    situ_tensor *x = situ_requires_grad_(situ_ones(SITU_SHAPE(2), &one), true), *far = situ_ones(SITU_SHAPE(2), &other);
    assert_int_equal(situ_set_grad(x, far), SITU_E_DEVICE);
    expect_error(SITU_E_DEVICE, "set_grad", corners[c].other);
    assert_null(situ_grad(x));
    situ_tensor *y = situ_mul_scalar(x, 2), *grad = NULL;
    assert_int_equal(situ_backward(y, &(situ_backward_options){ .gradient = far }), SITU_E_DEVICE);
    expect_error(SITU_E_DEVICE, "backward", corners[c].other);
    assert_null(situ_grad(x));
    assert_int_equal(situ_autograd_grad(y, 1, &x, &grad, &(situ_backward_options){ .gradient = far }), SITU_E_DEVICE);
    expect_error(SITU_E_DEVICE, "", corners[c].other);
    assert_null(grad);
    situ_tensor *param = situ_detach(x), *same = situ_ones(SITU_SHAPE(2), &one);
    uint32_t version = situ_version_of(param);
    for (int which = 0; which < 4; which++) {
      situ_optimizer_tensors item = { .param = param, .grad = which == 0 ? far : same, .step = 1 };
      for (int k = 0; k < 3; k++) item.state[k] = which == k + 1 ? far : same;
      assert_int_equal(situ_optimizer_step(SITU_RULE_ADAM, &(situ_optimizer_params){ .lr = 1 }, &item, 1),
                       SITU_E_DEVICE);
      expect_error(SITU_E_DEVICE, "", which ? "state" : "gradient");
    }
    assert_int_equal(situ_version_of(param), version);
    assert_int_equal(situ_swap_memory("swap", param, situ_ones(SITU_SHAPE(3), &other)), SITU_E_ARG);
    expect_error(SITU_E_ARG, "swap", "2 and 3 elements");
  }
}

/* placement: D2, D3, D5 */
static void the_explanation(void **state) {
  (void)state;
  situ_tensor *x = situ_set_name(situ_zeros(SITU_SHAPE(32, 784), NULL), "batch.x");
  situ_options sim = { .device = situ_dev("sim:0") };
  situ_tensor *w = situ_set_name(situ_zeros(SITU_SHAPE(64, 784), &sim), "fc1.weight"),
              *b = situ_set_name(situ_zeros(SITU_SHAPE(64), &sim), "fc1.bias");
  situ_set_role(w, SITU_ROLE_PARAMETER);
  assert_null(situ_linear(x, w, b));
  const char *text = situ_error_message();
  static const char *const parts[] = { "device mismatch",
                                       "batch.x",
                                       "fc1.weight",
                                       "fc1.bias",
                                       "parameter",
                                       "[32, 784]",
                                       "sim:0",
                                       "f32",
                                       "odd one out: input",
                                       "batch.x = situ_to(batch.x, situ_dev(\"sim:0\"));",
                                       "created at" };
  if (!strstr(text, HERE)) fail_msg("no \"%s\" in:\n%s", HERE, text);
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], text);
  const situ_error_operand *list;
  assert_int_equal(situ_error_operands(&list), 3);
  assert_true(list[0].odd && !list[1].odd && !list[2].odd);
  expect_error(SITU_E_DEVICE, "linear", "");
}

/* The odd one out is the one that is not where most are. An operand that is not given has no vote, and where there is no
   majority nobody is singled out. */
static void the_odd_one_out(void **state) {
  (void)state;
  situ_options sim = { .device = situ_dev("sim:0") }, other = { .device = situ_dev("sim:1") };
  situ_tensor *near = situ_ones(SITU_SHAPE(2, 2), NULL), *far = situ_ones(SITU_SHAPE(2, 2), &sim),
              *third = situ_ones(SITU_SHAPE(2, 2), &other);
  const struct {
    situ_tensor *in[3];
    int present, odd;
  } cases[] = {
    { { near, far, far }, 3, 1 << 0 }, { { far, near, far }, 3, 1 << 1 }, { { far, far, near }, 3, 1 << 2 },
    { { near, far, NULL }, 2, 3 },     { { far, near, NULL }, 2, 3 },     { { near, far, third }, 3, 7 },
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    assert_null(situ_linear(cases[i].in[0], cases[i].in[1], cases[i].in[2]));
    const situ_error_operand *list;
    assert_int_equal(situ_error_operands(&list), cases[i].present);
    for (int k = 0; k < cases[i].present; k++) assert_int_equal(list[k].odd, cases[i].odd >> k & 1);
    assert_int_equal(strstr(situ_error_message(), "odd one out") != NULL, cases[i].present == 3 && cases[i].odd != 7);
    expect_error(SITU_E_DEVICE, "linear", "");
  }
}

/* Device comes before dtype, dtype before shape: one error at a time, the most important first. */
/* placement: D11 */
static void the_order_of_the_check(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(3), NULL);
  situ_tensor *far = situ_ones(SITU_SHAPE(4), &(situ_options){ .device = situ_dev("sim:0"), .dtype = SITU_F64 });
  expect_refused(situ_mm(a, far), SITU_E_DEVICE, "mm", "device mismatch");
  expect_refused(situ_mm(a, situ_ones(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F64 })), SITU_E_DTYPE, "mm",
                 "must be equal");
  expect_refused(situ_mm(a, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_SHAPE, "mm", "");
  expect_refused(situ_add(a, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_SHAPE, "add", "do not broadcast");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_refusal_needs_little_stack),
                                      TEST(every_op_refuses_every_foreign_operand),
                                      TEST(an_item_is_ready_or_not),
                                      TEST(calls_beside_the_table_refuse_too),
                                      TEST(the_odd_one_out),
                                      TEST(the_explanation),
                                      TEST(the_order_of_the_check) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
