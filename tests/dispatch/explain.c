/* What a refused call says: names, roles, the odd one out, the line that mends it; for modules, shapes, dtypes, and ops
   that are made of others. */
#include <stdio.h>
#include <string.h>

#include "io/format/json.h"
#include "situ/nn.h"
#include "situ/place.h"
#include "situ/policy.h"
#include "situ/sys/dry.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "report.h"

/* ---- a model of two levels ---- */

typedef struct encoder {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2;
} encoder;
typedef struct model {
  situ_nn_module base;
  situ_nn_module *encoder, *head;
  situ_tensor *offset;
} model;

static situ_tensor *encoder_forward(situ_nn_module *self, situ_tensor *x) {
  encoder *m = (encoder *)self;
  return situ_nn_forward(m->fc2, situ_relu(situ_nn_forward(m->fc1, x)));
}
static situ_tensor *model_forward(situ_nn_module *self, situ_tensor *x) {
  model *m = (model *)self;
  return situ_nn_forward(m->head, situ_add(situ_nn_forward(m->encoder, x), m->offset));
}
static const situ_nn_type encoder_type = { .name = "Encoder", .size = sizeof(encoder), .forward = encoder_forward };
static const situ_nn_type model_type = { .name = "MyModel", .size = sizeof(model), .forward = model_forward };

/* offset: registered as a buffer, or only held by the struct. */
static model *model_new(bool registered) {
  encoder *e = situ_nn_alloc(&encoder_type);
  situ_nn_child(e, fc1, situ_nn_linear(7, 6, NULL));
  situ_nn_child(e, fc2, situ_nn_linear(6, 5, NULL));
  situ_nn_module *inner = situ_nn_done(e);
  model *m = situ_nn_alloc(&model_type);
  situ_nn_child(m, encoder, inner);
  situ_nn_child(m, head, situ_nn_linear(5, 4, NULL));
  situ_tensor *offset = situ_set_name(situ_ones(SITU_SHAPE(5), NULL), "offset");
  if (registered) situ_nn_buffer(m, offset, offset);
  else m->offset = offset;
  return (model *)situ_nn_done(m);
}

/* placement: D2, D3, D5, D6, D7, D8 */
static void an_input_is_odd(void **state) {
  (void)state;
  model *m = model_new(true);
  situ_nn_set_name(&m->base, "model");
  assert_int_equal(situ_nn_to(&m->base, situ_dev("sim:0")), SITU_OK);
  situ_tensor *input = situ_ones(SITU_SHAPE(3, 7), NULL);
  char here[32];
  snprintf(here, sizeof here, ":%d", __LINE__ + 1);
  assert_null(situ_nn_forward(&m->base, input));
  EXPECT_PARTS("device mismatch in linear   at ", "\n  module model.encoder.fc1 (Linear 7 -> 6)\n",
               "model.encoder.fc1.weight", "parameter", "moved by situ_nn_to at ", "\n   >input ",
               "\n  odd one out: input\n", "\n  fix: x = situ_to(x, situ_dev(\"sim:0\"));");
  situ_error_report r = report();
  assert_int_equal(r.status, SITU_E_DEVICE);
  assert_string_equal(r.op, "linear");
  assert_string_equal(r.module, "model.encoder.fc1 (Linear 7 -> 6)");
  assert_string_equal(r.odd, "input");
  assert_string_equal(r.next, "");
  assert_int_equal(r.count, 3);
  assert_string_equal(r.operands[0].role, "input");
  assert_string_equal(r.operands[0].tensor, "");
  assert_true(r.operands[0].odd && !r.operands[1].odd && !r.operands[2].odd);
  if (test_has_lines()) { /* before the outermost call that was given it, here and not in encoder_forward */
    assert_non_null(strstr(r.site, "encoder_forward"));
    assert_non_null(strstr(r.fix, "   before "));
    assert_non_null(strstr(r.fix, here));
  }
  situ_error_clear();
  /* Without a name the model goes by its type; a named input by its own. */
  situ_nn_set_name(&m->base, NULL);
  assert_null(situ_nn_forward(&m->base, situ_set_name(situ_ones(SITU_SHAPE(3, 7), NULL), "batch.x")));
  EXPECT_PARTS("MyModel.encoder.fc1 (Linear 7 -> 6)", "MyModel.encoder.fc1.bias",
               "fix: batch.x = situ_to(batch.x, situ_dev(\"sim:0\"));");
  situ_error_clear();
  situ_nn_free(&m->base);
}

/* placement: D6 */
static void a_half_moved_module(void **state) {
  (void)state;
  model *m = model_new(true);
  situ_nn_set_name(&m->base, "net");
  encoder *e = (encoder *)m->encoder;
  situ_tensor *weight = situ_nn_get_tensor(e->fc1, "weight");
  assert_int_equal(situ_nn_to(&m->base, situ_dev("sim:0")), SITU_OK);
  assert_int_equal(situ_to_(weight, situ_dev("cpu")), SITU_OK);
  assert_int_equal(situ_nn_to(m->head, situ_dev("sim:1")), SITU_OK);
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(3, 7), &(situ_options){ FAR })));
  situ_error_report r = report();
  assert_string_equal(r.odd, "weight");
  assert_non_null(strstr(r.fix, "situ_nn_to(situ_nn_get_submodule(net, \"encoder.fc1\"), situ_dev(\"sim:0\"));"));
  assert_string_equal(r.next, "net.head.weight (parameter, on sim:1), net.head.bias (parameter, on sim:1)");
  assert_non_null(strstr(r.operands[1].placed, "moved by situ_to_ at "));
  EXPECT_PARTS("\n  next: net.head.weight");
  situ_error_clear();
  situ_nn_free(&m->base);
}

/* Moving it by hand would do only once. */
static void a_tensor_that_was_never_registered(void **state) {
  (void)state;
  model *m = model_new(false);
  situ_nn_set_name(&m->base, "model");
  assert_int_equal(situ_nn_to(&m->base, situ_dev("sim:0")), SITU_OK);
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(3, 7), &(situ_options){ FAR })));
  situ_error_report r = report();
  assert_string_equal(r.op, "add");
  assert_string_equal(r.module, "model (MyModel)");
  assert_string_equal(r.odd, "other"); /* one against one: the module's home decides */
  assert_string_equal(r.operands[1].tensor, "model.offset");
  assert_string_equal(r.operands[1].role, "plain tensor (not registered)");
  assert_ptr_equal(strstr(r.fix, "situ_nn_buffer(m, offset, ...);"), r.fix);
  situ_error_clear();
  /* What fails first is the input; that offset would fail too is said with it. */
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(3, 7), NULL)));
  assert_string_equal(report().next, "model.offset (not registered, on cpu)");
  situ_error_clear();
  situ_nn_free(&m->base);
}

/* A view of a parameter is told as one, and moves with it. */
typedef struct viewer {
  situ_nn_module base;
  situ_tensor *weight;
} viewer;
static situ_tensor *viewer_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_mm(x, situ_transpose(((viewer *)self)->weight, 0, 1));
}
static const situ_nn_type viewer_type = { .name = "Viewer", .size = sizeof(viewer), .forward = viewer_forward };

/* Registered once, then another tensor was put into its field: it goes by the name of the field. */
static void a_field_that_was_overwritten(void **state) {
  (void)state;
  model *m = model_new(true);
  m->offset = situ_ones(SITU_SHAPE(5), &(situ_options){ FAR });
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(2, 7), NULL)));
  EXPECT_PARTS("MyModel.offset", "not registered");
  situ_error_clear();
  situ_nn_free(&m->base);
}

/* A module that only a field shows, the last one of the struct. */
typedef struct lone {
  situ_nn_module base;
  situ_nn_module *part;
} lone;
static situ_tensor *lone_forward(situ_nn_module *self, situ_tensor *x) {
  return situ_nn_forward(((lone *)self)->part, x);
}
static const situ_nn_type lone_type = { .name = "Lone", .size = sizeof(lone), .forward = lone_forward };

static void the_last_field_is_looked_at(void **state) {
  (void)state;
  lone *m = situ_nn_alloc(&lone_type);
  m->part = situ_nn_linear(3, 2, NULL);
  assert_int_equal(situ_nn_to(situ_nn_done(m), situ_dev("sim:0")), SITU_OK);
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(1, 3), &(situ_options){ FAR })));
  assert_int_equal(report().fixes[0].action, SITU_FIX_CHILD);
  assert_int_equal(report().fixes[0].field, offsetof(lone, part));
  situ_error_clear();
  situ_nn_free(m->part);
  situ_nn_free(&m->base);
}

/* The input's device cannot hold all of the model: no line proposes to move it there. */
static void a_model_that_cannot_move(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_set_name(situ_nn_linear(3, 2, NULL), "model");
  situ_tensor *x = situ_ones(SITU_SHAPE(1, 3), &(situ_options){ FAR });
  assert_null(situ_nn_forward(m, x));
  EXPECT_PARTS("situ_nn_to(model, situ_dev(\"sim:0\"))");
  situ_error_clear();
  assert_non_null(situ_nn_add_tensor(m, "extra", NULL, situ_ones(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_F64 }),
                                     SITU_NN_BUFFER));
  assert_int_equal(situ_sim_without(0, 1u << SITU_F64), SITU_OK);
  assert_null(situ_nn_forward(m, x));
  assert_null(strstr(situ_error_message(), "situ_nn_to(model"));
  EXPECT_PARTS("fix: x = situ_to(x, situ_dev(\"cpu\"));");
  situ_error_clear();
  assert_int_equal(situ_sim_reset(0), SITU_OK);
  situ_nn_free(m);
}

/* Modules in a list of the program's, which may have a few empty entries. */
typedef struct listed {
  situ_nn_module base;
  situ_nn_module **list;
  int used;
} listed;
static situ_tensor *listed_forward(situ_nn_module *self, situ_tensor *x) {
  listed *m = (listed *)self;
  return situ_nn_forward(m->list[m->used], x);
}
static const situ_nn_type listed_type = { .name = "Listed", .size = sizeof(listed), .forward = listed_forward };

static void a_list_with_gaps_is_searched(void **state) {
  (void)state;
  enum { LONG = 40 };
  situ_nn_module *list[LONG] = { NULL };
  listed *m = situ_nn_alloc(&listed_type);
  m->list = list;
  assert_int_equal(situ_nn_to(situ_nn_done(m), situ_dev("sim:0")), SITU_OK);
  for (m->used = 3; m->used < LONG; m->used += 20) {
    list[m->used] = situ_nn_linear(3, 2, NULL);
    assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(1, 3), &(situ_options){ FAR })));
    assert_int_equal(report().fixes[0].action == SITU_FIX_CHILD, m->used == 3);
    situ_error_clear();
    situ_nn_free(list[m->used]);
    list[m->used] = NULL;
  }
  situ_nn_free(&m->base);
}

static void views_and_models_left_behind(void **state) {
  (void)state;
  viewer *m = situ_nn_alloc(&viewer_type);
  situ_nn_param(m, weight, situ_ones(SITU_SHAPE(4, 7), NULL));
  assert_non_null(situ_nn_done(m));
  assert_null(situ_nn_forward(&m->base, situ_ones(SITU_SHAPE(3, 7), &(situ_options){ FAR })));
  situ_error_report r = report();
  assert_string_equal(r.operands[1].tensor, "Viewer.weight (view)");
  assert_string_equal(r.odd, "input"); /* one against one: what the module has registered decides */
  EXPECT_PARTS("fix: x = situ_to(x, situ_dev(\"cpu\"));", "or situ_nn_to(model, situ_dev(\"sim:0\"));");
  situ_error_clear();
  situ_nn_free(&m->base);
}

/* Parts on other devices are looked for as deep as a module can be walked, and no deeper. */
static void parts_are_looked_for_as_deep_as_walks_go(void **state) {
  (void)state;
  enum { DEPTH = 256 };
  for (int depth = DEPTH; depth <= DEPTH + 1; depth++) {
    situ_nn_module *m = situ_nn_linear(7, 4, NULL), *last = m;
    assert_non_null(situ_nn_add_child(m, "more", NULL, situ_nn_linear(2, 2, NULL))); /* most of it is on cpu */
    for (int i = 0; i < depth; i++) last = situ_nn_add_child(last, "next", NULL, situ_nn_module_dict());
    assert_non_null(situ_nn_add_tensor(last, "odd", NULL, situ_ones(SITU_SHAPE(2), NULL), SITU_NN_BUFFER));
    assert_int_equal(situ_nn_to(last, situ_dev("sim:0")), SITU_OK);
    assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(3, 7), &(situ_options){ FAR })));
    assert_int_equal(*report().next != 0, depth == DEPTH);
    situ_error_clear();
    situ_nn_free(m);
  }
}

/* One layer would leave the others behind: the fix is the whole model, whose first layer was met. */
static void a_model_in_one_place_moves_whole(void **state) {
  (void)state;
  situ_nn_module *net =
      situ_nn_set_name(situ_nn_sequential(situ_nn_linear(7, 4, NULL), situ_nn_linear(4, 2, NULL)), "net");
  assert_null(situ_nn_forward(net, situ_ones(SITU_SHAPE(3, 7), &(situ_options){ FAR })));
  EXPECT_PARTS("or situ_nn_to(net, situ_dev(\"sim:0\"));");
  situ_error_clear();
  situ_nn_free(net);
}

/* ---- without modules ---- */

static void all_are_different(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(3, 7), NULL), *w = situ_ones(SITU_SHAPE(4, 7), &(situ_options){ FAR });
  situ_tensor *b = situ_set_name(situ_ones(SITU_SHAPE(4), &(situ_options){ .device = situ_dev("sim:1") }), "b");
  assert_null(situ_linear(x, w, b));
  situ_error_report r = report();
  assert_string_equal(r.odd, ""); /* nobody's fault more than another's: all are marked, and brought to the first */
  assert_true(r.operands[0].odd && r.operands[1].odd && r.operands[2].odd);
  assert_string_equal(r.module, "");
  EXPECT_PARTS("fix: weight = situ_to(weight, situ_dev(\"cpu\"));", "\n       b = situ_to(b, situ_dev(\"cpu\"));");
  assert_null(strstr(r.message, "odd one out"));
  situ_error_clear();
  /* A missing operand is nobody's vote. */
  assert_null(situ_linear(x, w, NULL));
  assert_true(report().count == 2 && report().operands[0].odd && report().operands[1].odd);
  situ_error_clear();
}

static void many_operands(void **state) {
  (void)state;
  situ_tensor *near = situ_ones(SITU_SHAPE(2), NULL), *far = situ_ones(SITU_SHAPE(2), &(situ_options){ FAR }),
              *list[40];
  for (int i = 0; i < 40; i++) list[i] = i == 20 || i == 37 ? far : near;
  assert_null(situ_cat(list, 40, 0));
  situ_error_report r = report();
  assert_string_equal(r.odd, "tensors[20], tensors[37]");
  assert_int_equal(r.count, 6);
  EXPECT_PARTS("and 34 more", "odd ones out: tensors[20], tensors[37]",
               "tensors[37] = situ_to(tensors[37], situ_dev(\"cpu\"));");
  situ_error_clear();
  /* Dtypes, too: one that is not that of most, and one that is refused whatever the others have. */
  situ_tensor *square = situ_ones(SITU_SHAPE(2, 2), NULL);
  for (int i = 0; i < 40; i++) list[i] = i == 17 ? situ_to_dtype(square, SITU_F64) : square;
  assert_null(situ_linalg_multi_dot(list, 40));
  assert_string_equal(report().odd, "tensors[17]");
  assert_int_equal(report().count, 5);
  EXPECT_PARTS("tensors[17] = situ_to_dtype(tensors[17], SITU_F32);");
  situ_error_clear();
  for (int i = 0; i < 40; i++)
    list[i] = i == 33 ? situ_to_dtype(square, SITU_BOOL) : i < 6 ? situ_to_dtype(square, SITU_F64) : square;
  assert_null(situ_linalg_multi_dot(list, 40));
  assert_string_equal(report().odd, "tensors[33]");
  assert_int_equal(report().count, 6); /* four, that of most, and the odd one */
  assert_string_equal(report().operands[4].operand, "tensors[6]");
  situ_error_clear();
}

/* placement: D2, D4 */
static void shapes_and_dtypes(void **state) {
  (void)state;
  situ_tensor *a = situ_set_name(situ_ones(SITU_SHAPE(32, 784), NULL), "a"), *b = situ_ones(SITU_SHAPE(768, 10), NULL);
  assert_null(situ_matmul(a, b));
  EXPECT_PARTS("matmul: [32, 784] x [768, 10]: 784 and 768 differ   at ",
               "\n    input    a       tensor  cpu     [32, 784]  f32    created at ", "[768, 10]");
  assert_int_equal(report().count, 2);
  assert_string_equal(report().fix, "");
  situ_error_clear();
  assert_null(situ_mm(a, situ_ones(SITU_SHAPE(784, 10), &(situ_options){ .dtype = SITU_F64 })));
  EXPECT_PARTS("mm: mat2 is f64, input is f32: they must be equal", "fix: mat2 = situ_to_dtype(mat2, SITU_F32);");
  situ_error_clear();
  assert_null(situ_embedding(a, b, NULL));
  EXPECT_PARTS("embedding: input is f32, must be i64 or i32", "odd one out: input", "a = situ_to_dtype(a, SITU_I64);");
  situ_error_clear();
  /* In a module: its parameters are the measure, so the input is cast. */
  situ_nn_module *m = situ_nn_linear(784, 3, NULL);
  assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 784), &(situ_options){ .dtype = SITU_F64 })));
  EXPECT_PARTS("\n  module Linear 784 -> 3\n", "odd one out: input", "x = situ_to_dtype(x, SITU_F32);");
  situ_error_clear();
  assert_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 700), NULL)));
  EXPECT_PARTS("linear: [2, 700] x [3, 784]: 700 and 784 differ", "\n  module Linear 784 -> 3\n", "Linear.weight");
  situ_error_clear();
  situ_nn_free(m);
  /* Values that are wrong have no table, but their module. */
  m = situ_nn_embedding(5, 2, NULL);
  assert_null(situ_nn_forward(m, situ_full(SITU_SHAPE(1), 9, &(situ_options){ .dtype = SITU_I64 })));
  EXPECT_PARTS("embedding: ", "\n  module Embedding 5, 2");
  assert_int_equal(report().status, SITU_E_INDEX);
  assert_int_equal(report().count, 0);
  situ_error_clear();
  situ_nn_free(m);
}

/* ---- ops that are made of others, and forms in place ---- */

static situ_tensor *x, *y, *row, *index_, *mask, *table, *out[4];
static situ_tensor *piece(int64_t count) { return count > 0 ? out[0] : NULL; }

/* clang-format off */
#define OPS(ROW)                                                                                                       \
  ROW(mse_loss, situ_mse_loss(x, y, SITU_REDUCTION_MEAN)) ROW(l1_loss, situ_l1_loss(x, y, SITU_REDUCTION_SUM))           \
  ROW(smooth_l1_loss, situ_smooth_l1_loss(x, y, 1, SITU_REDUCTION_MEAN))                                               \
  ROW(binary_cross_entropy_with_logits, situ_binary_cross_entropy_with_logits(x, y, NULL, NULL, SITU_REDUCTION_MEAN))  \
  ROW(kl_div, situ_kl_div(x, y, SITU_KL_BATCHMEAN, false)) ROW(one_hot, situ_one_hot(index_, 4))                       \
  ROW(embedding, situ_embedding(index_, table, NULL)) ROW(argmax, situ_argmax(x, NULL))              \
  ROW(argmin, situ_argmin(x, NULL)) ROW(argsort, situ_argsort(x, 0, false)) ROW(matmul, situ_matmul(row, row))         \
  ROW(outer, situ_outer(row, row)) ROW(stack, situ_stack((situ_tensor *[]){ x, y }, 2, 0)) ROW(roll, situ_roll(x, SITU_SHAPE(1), SITU_DIMS(0))) \
  ROW(repeat, situ_repeat(x, SITU_SHAPE(2, 2))) ROW(masked_select, situ_masked_select(x, mask)) ROW(nonzero, situ_nonzero(mask)) \
  ROW(scatter_value, situ_scatter_value(row, 0, index_, 1)) ROW(take_along_dim, situ_take_along_dim(row, index_, 0))   \
  ROW(lerp_scalar, situ_lerp_scalar(x, y, 0.5)) ROW(add_alpha, situ_add_alpha(x, y, 2)) ROW(floor_divide, situ_floor_divide(x, y)) ROW(isclose, situ_isclose(x, y, 0, 1, true)) \
  ROW(sub_scalar, situ_sub_scalar(x, 1)) ROW(flatten, situ_flatten(x, 0, 1)) ROW(unsqueeze, situ_unsqueeze(x, 0))      \
  ROW(full_like, situ_full_like(x, 2, NULL)) ROW(rand_like, situ_rand_like(x, NULL)) ROW(min, situ_min(x))             \
  ROW(chunk, piece(situ_chunk(x, 2, 0, out, 4))) ROW(logsumexp, situ_logsumexp(index_, NULL))      \
  ROW(group_norm, situ_group_norm(x, 1, NULL, NULL, 1e-5)) ROW(softmax, situ_softmax(x, 0)) ROW(gelu, situ_gelu(x, SITU_GELU_TANH)) \
  ROW(add_, situ_add_(x, row)) ROW(mul_scalar_, situ_mul_scalar_(x, 2)) ROW(zero_, situ_zero_(x)) ROW(clamp_, situ_clamp_(x, 0, 1)) \
  ROW(index_add_, situ_index_add_(row, 0, index_, row, 1))
/* clang-format on */

#define CALL(name, call) \
  static situ_tensor *call_##name(void) { return call; }
OPS(CALL)
#define ENTRY(name, call) { #name, call_##name },
static const struct {
  const char *name;
  situ_tensor *(*call)(void);
} ops[] = { OPS(ENTRY) };

/* Every allocation of each fails once; the blame is never on an op that the caller did not name. */
static void errors_go_by_the_name_of_the_op_that_was_called(void **state) {
  (void)state;
  int points = 0;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    int failed = 0;
    for (uint64_t nth = 1; nth < 200; nth++) {
      situ_scope s;
      situ_scope_begin(&s);
      x = situ_rand(SITU_SHAPE(2, 3), NULL);
      y = situ_rand(SITU_SHAPE(2, 3), NULL);
      row = situ_rand(SITU_SHAPE(3), NULL);
      index_ = situ_arange(0, 3, 1, &(situ_options){ .dtype = SITU_I64 });
      mask = situ_gt(x, y);
      table = situ_rand(SITU_SHAPE(4, 2), NULL);
      situ_fail_allocation(nth, false);
      situ_tensor *z = ops[i].call();
      situ_fail_allocation(0, false);
      if (z) assert_int_equal(situ_error(), SITU_OK);
      else if (strcmp(situ_error_op(), ops[i].name) != 0)
        fail_msg("%s, allocation %d: blamed on %s: %s", ops[i].name, (int)nth, situ_error_op(), situ_error_message());
      situ_error_clear();
      SITU_IGNORE(situ_scope_end(&s));
      if (z) break;
      failed++;
    }
    points += failed;
  }
  printf("%zu ops, %d failed allocations\n", sizeof ops / sizeof *ops, points);
  assert_true(points > 100);
}

static void mismatches_too(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL), *b = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ FAR });
  expect_refused(situ_mse_loss(a, b, SITU_REDUCTION_MEAN), SITU_E_DEVICE, "mse_loss", "device mismatch in mse_loss");
  expect_refused(situ_add_(a, b), SITU_E_DEVICE, "add_", "device mismatch in add_");
  expect_refused(situ_mse_loss(a, situ_ones(SITU_SHAPE(3), NULL), SITU_REDUCTION_MEAN), SITU_E_SHAPE, "mse_loss",
                 "do not broadcast");
  situ_options whole = { .dtype = SITU_I64 };
  expect_refused(situ_one_hot(situ_full(SITU_SHAPE(1), 9, &whole), 3), SITU_E_INDEX, "one_hot", "9");
  expect_refused(situ_index_select(a, 0, situ_full(SITU_SHAPE(1), 9, &whole)), SITU_E_INDEX, "index_select", "9");
}

/* On the way back the op is named with its side. */
static void the_way_back(void **state) {
  (void)state;
  situ_tensor *a = situ_requires_grad_(situ_ones(SITU_SHAPE(2), NULL), true), *sum = situ_sum(situ_mul(a, a), NULL);
  bool seen = false;
  for (uint64_t nth = 1; nth < 50; nth++) {
    situ_tensor *grad = NULL;
    situ_fail_allocation(nth, false);
    situ_status status = situ_autograd_grad(sum, 1, &a, &grad, &(situ_backward_options){ .retain_graph = true });
    situ_fail_allocation(0, false);
    seen = seen || strcmp(situ_error_op(), "mul backward") == 0;
    situ_error_clear();
    if (status == SITU_OK) break;
  }
  assert_true(seen);
}

/* ---- as JSON, and in quiet mode ---- */

/* placement: D12 */
static void json_is_strict(void **state) {
  (void)state;
  situ_tensor *a = situ_set_name(situ_ones(SITU_SHAPE(2, 2), NULL), "a \"b\"\\\n");
  assert_null(situ_add(a, situ_ones(SITU_SHAPE(2, 2), &(situ_options){ FAR })));
  char text[4096];
  int64_t length = situ_error_json(text, sizeof text);
  assert_true(length > 0 && length < (int64_t)sizeof text);
  situ__json json;
  situ__json_kind kind;
  int keys = 0, objects = 0;
  bool name = false;
  situ__json_begin(&json, text, (size_t)length);
  while ((kind = situ__json_next(&json)) != SITU__JSON_END) {
    if (kind == SITU__JSON_ERROR) fail_msg("%s at %zu", json.problem, situ__json_offset(&json));
    keys += kind == SITU__JSON_KEY;
    objects += kind == SITU__JSON_OBJECT;
    name = name || (kind == SITU__JSON_STRING && strcmp(json.text, "a \"b\"\\\n") == 0);
  }
  assert_int_equal(objects, 4);
  assert_int_equal(keys, 10 + 2 * 8 + 6);
  assert_true(name);
  situ_error_clear();
}

static int lines;
static void count_line(const char *message, void *payload) {
  (void)payload;
  lines++;
  assert_non_null(strstr(message, "odd one out: input"));
}

static void quiet_is_quiet(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL), *w = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ FAR }),
              *b = situ_ones(SITU_SHAPE(2), &(situ_options){ FAR });
  situ_error_log(count_line, NULL);
  lines = 0;
  assert_null(situ_linear(a, w, b));
  assert_int_equal(lines, 0); /* every test is in quiet mode */
  assert_string_equal(report().odd, "input");
  situ_error_clear();
  situ_error_policy before = situ_error_mode(SITU_ERROR_LOG);
  assert_null(situ_linear(a, w, b));
  assert_null(situ_linear(a, w, b)); /* the first is kept and told once */
  (void)situ_error_mode(before);
  situ_error_log(NULL, NULL);
  assert_int_equal(lines, 1);
  situ_error_clear();
}

/* The place of an error that nobody read is not said with the next one. */
static void an_unread_error_leaves_nothing_behind(void **state) {
  (void)state;
  situ_tensor *a = situ_ones(SITU_SHAPE(2, 2), NULL), *w = situ_ones(SITU_SHAPE(2, 2), &(situ_options){ FAR });
  assert_null(situ_relu(NULL));
  situ_error_clear();
  assert_null(situ_add(a, w));
  assert_null(strstr(situ_error_message(), "\n  at "));
  assert_non_null(strstr(situ_error_message(), "device mismatch in add"));
  situ_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(an_unread_error_leaves_nothing_behind),
    MODULE_TEST(an_input_is_odd),
    MODULE_TEST(a_half_moved_module),
    MODULE_TEST(a_tensor_that_was_never_registered),
    MODULE_TEST(a_field_that_was_overwritten),
    MODULE_TEST(the_last_field_is_looked_at),
    MODULE_TEST(a_model_that_cannot_move),
    MODULE_TEST(a_list_with_gaps_is_searched),
    MODULE_TEST(views_and_models_left_behind),
    MODULE_TEST(parts_are_looked_for_as_deep_as_walks_go),
    TEST(a_model_in_one_place_moves_whole),
    TEST(all_are_different),
    TEST(many_operands),
    MODULE_TEST(shapes_and_dtypes),
    TEST(errors_go_by_the_name_of_the_op_that_was_called),
    TEST(mismatches_too),
    TEST(the_way_back),
    TEST(json_is_strict),
    TEST(quiet_is_quiet),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
