/* Each message of one call has a line that mends it: calls and layers of all kinds are drawn with operands on several
   devices, in several dtypes, in blocks, in a dtype that their device lacks. What the message says is made, each choice
   of it, and the call runs. A policy is not a line that mends. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "situ/blocks.h"
#include "situ/ops.h"
#include "support/pairs.h"

enum { WIDTH = 32, ROWS = 4, OPERANDS = 3, FIXES = 16 };

static uint64_t state_of_draws;
static int draw(int below) {
  state_of_draws = state_of_draws * 6364136223846793005u + 1442695040888963407u;
  return (int)((state_of_draws >> 33) % (uint64_t)below);
}
static situ_device any(void) { return draw(3) ? test_device_at(draw(2)) : situ_dev("cpu"); }

/* ---- what is called ---- */

static struct {
  situ_nn_module *model;
  situ_tensor *variable[OPERANDS];
  int kind; /* of the layer */
} p;
static const char *const names[OPERANDS] = { "x", "w", "v" };

typedef situ_tensor *calling(situ_tensor *x, situ_tensor *w, situ_tensor *v); /* [4, 32], [32, 32], [32] */
static situ_tensor *add(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return (void)w, situ_add(x, v); }
static situ_tensor *maximum(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return (void)x, situ_maximum(w, v); }
static situ_tensor *matmul(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return (void)v, situ_matmul(x, w); }
static situ_tensor *mv(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return (void)x, situ_matmul(w, v); }
static situ_tensor *linear(situ_tensor *x, situ_tensor *w, situ_tensor *v) { return situ_linear(x, w, v); }
static situ_tensor *joined(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  situ_tensor *const list[] = { x, w };
  return (void)v, situ_cat(list, 2, 0);
}
static situ_tensor *addcmul(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)x, situ_addcmul(w, v, w, 2);
}
static situ_tensor *normed(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, situ_layer_norm(x, SITU_SHAPE(WIDTH), v, v, 1e-5);
}
static situ_tensor *activated(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, (void)v, situ_gelu(x, SITU_GELU_NONE);
}
static situ_tensor *summed(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, (void)v, situ_sum(x, NULL);
}
static situ_tensor *attended(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)v, situ_scaled_dot_product_attention(x, w, w, NULL);
}
static situ_tensor *forward(situ_tensor *x, situ_tensor *w, situ_tensor *v) {
  return (void)w, (void)v, situ_nn_forward(p.model, x);
}
static calling *const calls[] = { add,     maximum, matmul,    mv,     linear,   joined,
                                  addcmul, normed,  activated, summed, attended, forward };
enum { CALLS = sizeof calls / sizeof *calls };

/* ---- a call with mistakes ---- */

static situ_nn_module *make_layer(int kind) {
  switch (kind) {
  case 0: return situ_nn_linear(WIDTH, WIDTH, NULL);
  case 1: return situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL);
  case 2: return situ_nn_batch_norm1d(WIDTH, NULL);
  case 3: return situ_nn_linear(WIDTH, 3, NULL);
  case 4: return situ_nn_group_norm(4, WIDTH, NULL);
  case 5: return situ_nn_rms_norm(SITU_SHAPE(WIDTH), NULL);
  case 6: return situ_nn_conv1d(ROWS, ROWS, 3, NULL);
  default:
    return situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL), situ_nn_gelu(), situ_nn_linear(WIDTH, WIDTH, NULL));
  }
}

static situ_tensor *blocks(int64_t rows) {
  static const char bytes[34 * WIDTH];
  const situ_options at = { .device = any() };
  return situ_blocks_from_host(bytes, (size_t)(34 * rows), &SITU_SHAPE(rows, WIDTH), SITU_BLOCK_Q8_0, &at);
}

static situ_tensor *make_variable(int i, situ_dtype dtype) {
  const situ_shape shapes[OPERANDS] = { SITU_SHAPE(ROWS, WIDTH), SITU_SHAPE(WIDTH, WIDTH), SITU_SHAPE(WIDTH) };
  situ_tensor *t = i < 2 && draw(6) == 0 ? blocks(shapes[i].dim[0])
                                         : situ_to(situ_ones(shapes[i], &(situ_options){ .dtype = dtype }), any());
  return situ_set_name(t, names[i]);
}

/* Case `seed` up to its call; returns what is called. */
static calling *begin(uint64_t seed) {
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F64, SITU_BF16 };
  state_of_draws = seed * 2654435761u + 12345;
  calling *call = calls[draw(CALLS)];
  const situ_dtype dtype = dtypes[draw(3)], lacking = dtypes[1 + draw(2)];
  for (int i = 0; i < OPERANDS; i++) p.variable[i] = make_variable(i, draw(4) ? dtype : dtypes[draw(3)]);
  p.model = NULL;
  if (call == forward) {
    p.model = situ_nn_set_name(make_layer(p.kind = draw(8)), "model");
    expect_ok(situ_nn_to_dtype(p.model, dtype));
    expect_ok(situ_nn_to(p.model, any()));
    if (p.kind == 0 && draw(3) == 0)
      assert_non_null(situ_nn_add_tensor(p.model, "weight", NULL, blocks(WIDTH), SITU_NN_BUFFER));
  }
  for (int i = 0; i < 2 && draw(2); i++) expect_ok(situ_sim_without((int)test_device_at(i).index, 1u << lacking));
  return call;
}

static void end(void) {
  situ_nn_free(p.model);
  for (int i = 0; i < 2; i++) expect_ok(situ_sim_without((int)test_device_at(i).index, 0));
}

static situ_tensor *run(calling *call) { return call(p.variable[0], p.variable[1], p.variable[2]); }

/* ---- what a message says ---- */

typedef struct statement {
  situ_fix_action action;
  int choice;
  char target[64], device[16], dtype[8], code[300];
} statement;
static statement fixes[FIXES];

static situ_dtype dtype_named(const char *name) {
  for (int d = SITU_BOOL; d < SITU_DTYPES; d++)
    if (strcmp(name, situ_dtype_name((situ_dtype)d)) == 0) return (situ_dtype)d;
  return SITU_F32;
}

static situ_tensor *numbers_of(situ_tensor *t, const statement *s) {
  return situ_to_dtype(situ_dequantize(t), dtype_named(s->dtype));
}

static void make_statement(const statement *s) {
  const situ_dtype dtype = dtype_named(s->dtype);
  if (strncmp(s->target, "model", 5) == 0) {
    const char *below = s->target[5] ? s->target + 6 : "";
    situ_nn_module *part = s->action == SITU_FIX_DEQUANTIZE ? NULL : situ_nn_get_submodule(p.model, below);
    if (s->action == SITU_FIX_NN_TO) expect_ok(situ_nn_to(part, situ_dev(s->device)));
    else if (s->action == SITU_FIX_NN_TO_DTYPE) expect_ok(situ_nn_to_dtype(part, dtype));
    else
      assert_non_null(
          situ_nn_add_tensor(p.model, below, NULL, numbers_of(situ_nn_get_tensor(p.model, below), s), SITU_NN_BUFFER));
    return;
  }
  for (int i = 0; i < OPERANDS; i++) {
    situ_tensor *t = p.variable[i];
    if (strcmp(s->target, names[i]) != 0) continue;
    t = s->action == SITU_FIX_TO         ? situ_to(t, situ_dev(s->device))
        : s->action == SITU_FIX_TO_DTYPE ? situ_to_dtype(t, dtype)
                                         : numbers_of(t, s);
    p.variable[i] = situ_set_name(t, names[i]);
    return;
  }
  fail_msg("no variable %s: %s", s->target, s->code);
}

/* Keeps the fixes of the message; returns the number of choices. */
static int keep(int of[SITU_FIX_DEQUANTIZE + 1], int *count) {
  situ_error_report r;
  int choices = 0;
  assert_true(situ_error_read(&r));
  *count = 0;
  for (int i = 0; i < r.fix_count; i++) {
    const situ_error_fix *f = &r.fixes[i];
    statement *s = &fixes[(*count)++];
    assert_in_range(*count, 1, FIXES);
    *s = (statement){ .action = f->action, .choice = f->choice };
    (void)snprintf(s->target, sizeof s->target, "%s", f->target);
    (void)snprintf(s->device, sizeof s->device, "%s", f->device);
    (void)snprintf(s->dtype, sizeof s->dtype, "%s", f->dtype);
    (void)snprintf(s->code, sizeof s->code, "%s", f->code);
    assert_non_null(strstr(r.message, f->code));
    if (f->action == SITU_FIX_DEQUANTIZE) assert_non_null(strstr(f->code, "situ_dequantize("));
    if (f->action == SITU_FIX_POLICY) fail_msg("a policy is not a fix: %s", r.message);
    of[f->action]++;
    choices = f->choice + 1;
  }
  return choices;
}

/* placement: D8 */
static void each_message_has_a_line_that_mends(void **state) {
  (void)state;
  const int programs = getenv("SITU_TEST_ALL") ? 20000 : 1500;
  int refused = 0, incapable = 0, tried = 0, of[SITU_FIX_DEQUANTIZE + 1] = { 0 };
  for (int seed = 0; seed < programs; seed++) {
    char message[4096];
    int count = 0, choices = 1;
    for (int choice = -1; choice < choices; choice++) {
      situ_scope s;
      situ_scope_begin(&s);
      calling *call = begin((uint64_t)seed);
      for (int i = 0; i < count; i++)
        if (fixes[i].choice == choice) make_statement(&fixes[i]);
      situ_tensor *y = run(call);
      if (choice >= 0 && !y)
        fail_msg("case %d, choice %d of:\n%s\n-- then:\n%s", seed, choice, message, situ_error_message());
      if (choice < 0 && y) choices = 0;
      if (choice < 0 && !y) {
        (void)snprintf(message, sizeof message, "%s", situ_error_message());
        choices = keep(of, &count);
        if (!choices) fail_msg("case %d has no fix: %s", seed, message);
        refused++;
        incapable += situ_error() == SITU_E_UNSUPPORTED;
      }
      tried += choice >= 0;
      situ_error_clear();
      end();
      SITU_IGNORE(situ_scope_end(&s));
    }
  }
  printf("%d cases, %d refused, %d of them for a dtype that a device lacks; %d choices tried: to %d, to_dtype %d, "
         "nn_to %d, nn_to_dtype %d, dequantize %d\n",
         programs, refused, incapable, tried, of[SITU_FIX_TO], of[SITU_FIX_TO_DTYPE], of[SITU_FIX_NN_TO],
         of[SITU_FIX_NN_TO_DTYPE], of[SITU_FIX_DEQUANTIZE]);
  assert_true(refused > programs / 3 && incapable > programs / 50);
  for (int i = 0; i < SITU_FIX_NN_TO_DTYPE; i++) assert_true(of[i] > 0);
  assert_true(of[SITU_FIX_DEQUANTIZE] > 0);
}

/* A layer whose forward is a function of several ops: what its first call says mends the next ones, too. */
/* placement: D8 */
static void a_layer_of_several_calls_moves_as_a_whole(void **state) {
  (void)state;
  const situ_device far = test_device();
  situ_error_report r;
  p.model = situ_nn_set_name(situ_nn_prelu(1, 0.1, NULL), "model");
  expect_ok(situ_nn_to_dtype(p.model, SITU_F64));
  expect_ok(situ_nn_to(p.model, far));
  situ_tensor *x = situ_set_name(situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64, .device = far }), "x");
  expect_ok(situ_sim_without((int)far.index, 1u << SITU_F64));
  assert_null(situ_nn_forward(p.model, x));
  assert_true(situ_error_read(&r) && r.status == SITU_E_UNSUPPORTED && r.fix_count == 2);
  assert_string_equal(r.fixes[0].code, "x = situ_to(x, situ_dev(\"cpu\"));");
  assert_string_equal(r.fixes[1].code, "situ_nn_to(model, situ_dev(\"cpu\"));");
  situ_error_clear();
  expect_ok(situ_nn_to(p.model, situ_dev("cpu")));
  assert_non_null(situ_nn_forward(p.model, situ_to(x, situ_dev("cpu"))));
  end();
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(each_message_has_a_line_that_mends),
                                      MODULE_TEST(a_layer_of_several_calls_moves_as_a_whole) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
