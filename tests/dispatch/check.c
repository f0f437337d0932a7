/* The check: every op of the table, every operand on a foreign device, and the explanation that comes of it. */
#include <stdio.h>
#include <string.h>

#include "situ/sys/op.h"
#include "situ_config.h"
#include "support/test.h"

/* How a message names a place in this file: without libdw it can only say how far into the program. */
#ifdef SITU_HAVE_LIBDW
#define HERE "check.c:"
#else
#define HERE "dispatch_check+0x"
#endif

typedef struct corner { const char *one, *other; } corner;

/* Operands on `here`, but for number `foreign`, which is on `there`. Dtypes that suit the schema, since the device
   must be complained about first whatever the shapes are. */
static void fill(const situ_op *op, int ins, int foreign, situ_device here, situ_device there, situ_tensor **in) {
  for (int i = 0; i < ins; i++) {
    unsigned accept = op->operand[op->flags & SITU_OP_VARIADIC ? 0 : i].accept;
    situ_dtype dtype = accept & SITU_INDEX ? SITU_I64 : accept & SITU_FLOATING ? SITU_F32 : accept & SITU_BOOLEAN ? SITU_BOOL : SITU_F32;
    in[i] = situ_zeros(SITU_SHAPE(2, 2), &(situ_options){ .dtype = dtype, .device = i == foreign ? there : here });
    assert_non_null(in[i]);
  }
}

static void every_op_refuses_every_foreign_operand(void **state) {
  (void)state;
  static const corner corners[] = { { "cpu", "sim:0" }, { "sim:0", "cpu" }, { "sim:0", "sim:1" }, { "cpu", "meta" } };
  static const char room[1024];  /* any op's parameters: they are not looked at before the device */
  const situ_op *const *ops;
  size_t count = situ_op_table(&ops), refused = 0;
  assert_true(count > 50);
  for (size_t k = 0; k < count; k++) {
    const situ_op *op = ops[k];
    assert_true(op->params_size <= sizeof room);
    int ins = 0;
    while (ins < SITU_OPERANDS && op->operand[ins].name) ins++;
    if (op->flags & SITU_OP_VARIADIC) ins = 3;
    if (ins < 2) continue;
    for (size_t c = 0; c < sizeof corners / sizeof *corners; c++)
      for (int foreign = 0; foreign < ins; foreign++) {
        situ_scope s;
        situ_scope_begin(&s);
        situ_tensor *in[SITU_OPERANDS];
        fill(op, ins, foreign, situ_dev(corners[c].one), situ_dev(corners[c].other), in);
        situ_tensor *y = situ_op_run(op, in, ins, room, NULL);
        if (y || situ_error() != SITU_E_DEVICE) fail_msg("%s, operand %d on %s: %s", op->name, foreign, corners[c].other, situ_error_message());
        const situ_error_operand *list;
        assert_int_equal(situ_error_operands(&list), ins);
        if (ins > 2) assert_true(list[foreign].odd);
        assert_non_null(strstr(situ_error_message(), op->operand[op->flags & SITU_OP_VARIADIC ? 0 : foreign].name));
        refused++;
        situ_error_clear();
        SITU_IGNORE(situ_scope_end(&s));
      }
  }
  printf("%zu ops, %zu mixed calls, all refused\n", count, refused);
}

static void the_explanation(void **state) {
  (void)state;
  situ_tensor *x = situ_set_name(situ_zeros(SITU_SHAPE(32, 784), NULL), "batch.x");
  situ_options sim = { .device = situ_dev("sim:0") };
  situ_tensor *w = situ_set_name(situ_zeros(SITU_SHAPE(64, 784), &sim), "fc1.weight"), *b = situ_set_name(situ_zeros(SITU_SHAPE(64), &sim), "fc1.bias");
  situ_set_role(w, SITU_ROLE_PARAMETER);
  assert_null(situ_linear(x, w, b));
  const char *text = situ_error_message();
  static const char *const parts[] = { "device mismatch", "batch.x", "fc1.weight", "fc1.bias", "parameter", "[32, 784]", "sim:0", "f32",
                                       "odd one out: input", "batch.x = situ_to(batch.x, situ_dev(\"sim:0\"));", "created at", HERE };
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
    if (!strstr(text, parts[i])) fail_msg("no \"%s\" in:\n%s", parts[i], text);
  const situ_error_operand *list;
  assert_int_equal(situ_error_operands(&list), 3);
  assert_true(list[0].odd && !list[1].odd && !list[2].odd);
  expect_error(SITU_E_DEVICE, "linear", "");
}

/* Device comes before dtype, dtype before shape: one error at a time, the most important first. */
static void the_order_of_the_check(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(3), NULL);
  situ_tensor *far = situ_ones(SITU_SHAPE(4), &(situ_options){ .device = situ_dev("sim:0"), .dtype = SITU_F64 });
  expect_refused(situ_mm(a, far), SITU_E_DEVICE, "mm", "device mismatch");
  expect_refused(situ_mm(a, situ_ones(SITU_SHAPE(4), &(situ_options){ .dtype = SITU_F64 })), SITU_E_DTYPE, "mm", "must be equal");
  expect_refused(situ_mm(a, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_SHAPE, "mm", "");
  expect_refused(situ_add(a, situ_ones(SITU_SHAPE(4), NULL)), SITU_E_SHAPE, "add", "do not broadcast");
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_op_refuses_every_foreign_operand), TEST(the_explanation), TEST(the_order_of_the_check) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
