/* Mistakes of all kinds, drawn from a number, in models of drawn layers, are mended by what situ_place_mend prints: the
   program makes these statements, and runs. None is invented for a model without mistakes. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "situ/sys/alloc.h"
#include "support/statements.h"

enum { BATCH = 2, STEPS = 4, WIDTH = 8, BLOCKS = 6, STATEMENTS = 32 };
static const char *const names[] = { "x", "ids", "target" };

typedef enum kind {
  LINEAR,
  NORM,
  BATCH_NORM,
  CONV,
  ATTENTION,
  GRU,
  PRELU,
  EMBEDDING, /* of ids */
  ENCODER,
  KINDS
} kind;

typedef struct net {
  situ_nn_module base;
  situ_nn_module *block[BLOCKS];
  situ_tensor *weight, *offset, *mask;
  kind kind[BLOCKS];
  int blocks;
  bool noisy, joins, averages;
} net;

static struct {
  uint64_t random;
  situ_tensor *input[3];
  situ_place_fixes fixes;
  int locals;
  bool making;     /* what the fixes say */
  int64_t without; /* but this one of them */
} p;

static int draw(int below) {
  p.random = p.random * 6364136223846793005u + 1442695040888963407u;
  return (int)((p.random >> 33) % (uint64_t)below);
}
static situ_device any(void) { return draw(3) ? test_device_at(draw(2)) : situ_dev("cpu"); }

/* What the program's line about a variable has become. */
static situ_tensor *line(situ_tensor *t, const char *name) {
  situ_set_name(t, name);
  for (int64_t i = 0; p.making && i < p.fixes.count && t; i++) {
    const situ_place_statement *s = &p.fixes.statements[i];
    if (i == p.without || strcmp(s->target, name) != 0) continue;
    if (s->action == SITU_FIX_TO) t = situ_set_name(situ_to(t, s->device), name);
    if (s->action == SITU_FIX_TO_DTYPE) t = situ_set_name(situ_to_dtype(t, s->dtype), name);
  }
  return t;
}

/* A variable of forward; each line has its own. */
static situ_tensor *local(situ_tensor *t) {
  char name[16];
  (void)snprintf(name, sizeof name, "h%d", p.locals++);
  return !t || *situ_name(t) ? t : line(t, name);
}

/* ---- the model ---- */

static situ_nn_module *make_block(kind k) {
  switch (k) {
  case NORM: return situ_nn_layer_norm(SITU_SHAPE(WIDTH), NULL);
  case BATCH_NORM: return situ_nn_batch_norm1d(STEPS, NULL);
  case CONV: return situ_nn_conv1d(STEPS, STEPS, 3, &(situ_nn_conv_options){ .padding = SITU_DIMS(1) });
  case ATTENTION:
    return situ_nn_multihead_attention(WIDTH, 2, &(situ_nn_multihead_attention_options){ .batch_first = true });
  case GRU: return situ_nn_gru(WIDTH, WIDTH, &(situ_nn_rnn_options){ .batch_first = true });
  case PRELU: return situ_nn_prelu(1, 0.1, NULL);
  case EMBEDDING: return situ_nn_embedding(9, WIDTH, NULL);
  case ENCODER:
    return situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL), situ_nn_gelu(), situ_nn_linear(WIDTH, WIDTH, NULL));
  default: return situ_nn_linear(WIDTH, WIDTH, NULL);
  }
}

static situ_tensor *run_block(net *m, int k, situ_tensor *h, situ_tensor *ids) {
  situ_nn_module *block = m->block[k];
  if (m->kind[k] == EMBEDDING) return situ_add(h, local(situ_nn_forward(block, ids)));
  if (m->kind[k] == ATTENTION) return situ_nn_attend(block, h, h, h, NULL);
  if (m->kind[k] == GRU) return situ_nn_recur(block, h, NULL);
  return situ_nn_forward(block, h);
}

static situ_tree *net_call(situ_nn_module *self, const situ_tree *inputs) {
  net *m = (net *)self;
  p.locals = 0;
  situ_tensor *h = situ_tree_get(inputs, "x"), *ids = situ_tree_get(inputs, "ids");
  for (int k = 0; k < m->blocks; k++) h = run_block(m, k, local(h), ids);
  if (m->weight) h = situ_matmul(local(h), m->weight);
  if (m->offset) h = situ_add(local(h), line(m->offset, "offset"));
  if (m->mask) h = local(h), h = situ_where(m->mask, h, local(situ_neg(h)));
  const situ_options like = { .dtype = h ? situ_dtype_of(h) : SITU_F32 };
  if (m->noisy) h = situ_add(local(h), line(situ_ones(SITU_SHAPE(BATCH, STEPS, WIDTH), &like), "noise"));
  if (m->joins) {
    situ_tensor *const list[] = { local(h), line(situ_ones(SITU_SHAPE(BATCH, STEPS, 1), &like), "pad") };
    h = situ_narrow(situ_cat(list, 2, 2), 2, 1, WIDTH);
  }
  if (m->averages) h = situ_mse_loss(local(h), situ_tree_get(inputs, "target"), SITU_REDUCTION_MEAN);
  return situ_tree_tensor(h);
}
static const situ_nn_type net_type = { .name = "Net", .size = sizeof(net), .call = net_call };

static void fill(net *m, situ_tensor **field, const char *name, situ_tensor *t, situ_nn_kind as, bool registered) {
  if (!draw(2)) return;
  if (registered) assert_non_null(situ_nn_add_tensor(&m->base, name, field, t, as));
  else *field = situ_set_name(t, name);
}

/* A field that a statement says to register. */
static bool is_registered(size_t field) {
  for (int64_t i = 0; p.making && i < p.fixes.count; i++)
    if (i != p.without && p.fixes.statements[i].action == SITU_FIX_BUFFER && p.fixes.statements[i].field == field)
      return true;
  return false;
}

static net *make(void) {
  net *m = situ_nn_alloc(&net_type);
  m->blocks = 1 + draw(BLOCKS - 1);
  for (int k = 0; k < m->blocks; k++) {
    char name[16];
    (void)snprintf(name, sizeof name, "b%d", k);
    m->kind[k] = (kind)draw(KINDS);
    assert_non_null(situ_nn_add_child(&m->base, name, &m->block[k], make_block(m->kind[k])));
  }
  fill(m, &m->weight, "weight", situ_ones(SITU_SHAPE(WIDTH, WIDTH), NULL), SITU_NN_PARAMETER, true);
  const bool stays = draw(3) == 0 && !is_registered(offsetof(net, offset));
  fill(m, &m->offset, "offset", situ_ones(SITU_SHAPE(WIDTH), NULL), SITU_NN_BUFFER, !stays);
  fill(m, &m->mask, "mask", situ_ones(SITU_SHAPE(WIDTH), &(situ_options){ .dtype = SITU_BOOL }), SITU_NN_BUFFER, true);
  m->averages = draw(2);
  return situ_nn_set_name(situ_nn_done(m), "model") ? m : NULL;
}

/* ---- its mistakes ---- */

/* One tensor of a block goes alone. */
static void tear(situ_nn_module *block) {
  situ_tree *list = situ_nn_parameters(block);
  const int64_t count = situ_tree_count(list);
  if (count) expect_ok(situ_to_(situ_tree_tensor_at(list, draw((int)count)), any()));
  situ_tree_free(list);
}

static void add_late(net *m) {
  situ_nn_linear_options options = { .device = any() };
  char name[16];
  (void)snprintf(name, sizeof name, "b%d", m->blocks);
  m->kind[m->blocks] = LINEAR;
  assert_non_null(situ_nn_add_child(&m->base, name, &m->block[m->blocks], situ_nn_linear(WIDTH, WIDTH, &options)));
  m->blocks++;
}

/* Two layers have one weight: it moves with each of them. */
static void tie(net *m) {
  int first = -1;
  for (int k = 0; k < m->blocks; k++) {
    if (m->kind[k] != LINEAR) continue;
    if (first >= 0) {
      situ_tensor *weight = situ_nn_get_tensor(m->block[first], "weight");
      assert_non_null(situ_nn_add_tensor(m->block[k], "weight", NULL, weight, SITU_NN_PARAMETER));
    }
    first = k;
  }
}

static void make_mistake(net *m) {
  situ_nn_module *block = m->block[draw(m->blocks)];
  const int i = draw(3);
  switch (draw(7)) {
  case 0: p.input[i] = situ_set_name(situ_to(p.input[i], any()), names[i]); break;
  case 1: expect_ok(situ_nn_to(block, any())); break;
  case 2: tear(block); break;
  case 3: expect_ok(situ_nn_to_dtype(block, SITU_F64)); break;
  case 4: p.input[0] = situ_set_name(situ_to_dtype(p.input[0], SITU_F64), "x"); break;
  case 5:
    if (m->blocks < BLOCKS) add_late(m);
    break;
  default: m->noisy = true, m->joins = draw(2); break;
  }
}

/* Program `seed` up to its call. The caller frees the module; the scope has the inputs. */
static net *begin(uint64_t seed, bool making) {
  static const situ_dtype dtypes[] = { SITU_F32, SITU_F32, SITU_F64, SITU_BF16 };
  p.random = seed * 2654435761u + 12345;
  p.making = making;
  net *m = make();
  const situ_device home = any();
  const situ_dtype dtype = dtypes[draw(4)];
  const bool lacks = draw(8) == 0;
  if (!draw(2)) tie(m);
  expect_ok(situ_nn_to_dtype(&m->base, dtype));
  expect_ok(situ_nn_to(&m->base, home));
  const situ_options like = { .dtype = dtype, .device = home }, index = { .dtype = SITU_I64, .device = home };
  for (int i = 0; i < 3; i++)
    p.input[i] = situ_set_name(i == 1 ? situ_ones(SITU_SHAPE(BATCH, STEPS), &index)
                                      : situ_ones(SITU_SHAPE(BATCH, STEPS, WIDTH), &like),
                               names[i]);
  for (int mistakes = draw(4); mistakes; mistakes--) make_mistake(m);
  if (lacks && home.kind == SITU_SIM) expect_ok(situ_sim_without((int)home.index, 1u << dtype));
  return m;
}

static situ_tree *inputs(void) {
  situ_tree *in = situ_tree_dict();
  for (int i = 0; i < 3; i++) situ_tree_put(in, names[i], situ_tree_tensor(p.input[i]));
  return in;
}

static void end(net *m, situ_tree *in) {
  situ_tree_free(in);
  situ_nn_free(&m->base);
  for (int i = 0; i < 2; i++) SITU_IGNORE(situ_sim_without(i, 0));
}

/* ---- what is printed ---- */

/* Returns false if one of them fails. */
static bool make_statements(net *m) {
  bool good = true;
  for (int i = 0; i < 3; i++) good = (p.input[i] = line(p.input[i], names[i])) && good;
  for (int64_t i = 0; i < p.fixes.count && good; i++) {
    const situ_place_statement *s = &p.fixes.statements[i];
    expect_code(s);
    if (i == p.without || (s->action != SITU_FIX_NN_TO && s->action != SITU_FIX_NN_TO_DTYPE)) continue;
    situ_nn_module *part = situ_nn_get_submodule(&m->base, s->target[5] ? s->target + 6 : "");
    good = (s->action == SITU_FIX_NN_TO ? situ_nn_to(part, s->device) : situ_nn_to_dtype(part, s->dtype)) == SITU_OK;
  }
  return good;
}

static bool runs(uint64_t seed, bool mended, int64_t without) {
  p.without = without;
  net *m = begin(seed, mended);
  const bool made = !mended || make_statements(m);
  situ_tree *in = inputs(), *out = made ? situ_nn_call(&m->base, in) : NULL;
  situ_tensor *y = out ? situ_tree_value(out) : NULL;
  const bool good = y && (!situ_requires_grad(y) || situ_backward(situ_sum(y, NULL), NULL) == SITU_OK);
  situ_tree_free(out);
  end(m, in);
  return good;
}

static void print_report(net *m, const situ_tree *in) {
  situ_place_report r;
  expect_ok(situ_place_check(&m->base, in, NULL, &r));
  situ_place_report_print(&r);
  situ_place_report_free(&r);
}

/* placement: D8 */
static void each_is_mended(void **state) {
  (void)state;
  const int programs = getenv("SITU_TEST_ALL") ? 5000 : 300;
  int wrong = 0, of[SITU_FIX_POLICY + 1] = { 0 };
  for (int seed = 0; seed < programs; seed++) {
    char text[4000];
    situ_scope s;
    situ_scope_begin(&s);
    const bool right = runs((uint64_t)seed, false, -1);
    situ_error_clear();
    net *m = begin((uint64_t)seed, false);
    situ_tree *in = inputs();
    expect_ok(situ_place_mend(&m->base, in, NULL, &p.fixes));
    if (p.fixes.left) print_report(m, in);
    end(m, in);
    assert_true(situ_place_fixes_to_string(&p.fixes, text, sizeof text) < (int64_t)sizeof text);
    if (right != !p.fixes.mistakes || p.fixes.left || !p.fixes.mistakes != !p.fixes.count)
      fail_msg("program %d, %s: %s", seed, right ? "right" : "wrong", text);
    for (int64_t without = p.fixes.count - 1; without >= -1; without--) {
      if (runs((uint64_t)seed, true, without) != (without < 0))
        fail_msg("program %d without %d: %s%s", seed, (int)without, text, situ_error_message());
      situ_error_clear();
    }
    for (int64_t i = 0; i < p.fixes.count; i++) of[p.fixes.statements[i].action]++;
    wrong += !right;
    situ_place_fixes_free(&p.fixes);
    SITU_IGNORE(situ_scope_end(&s));
  }
  printf("%d programs, %d wrong, all mended: to %d, to_dtype %d, nn_to %d, nn_to_dtype %d, buffer %d\n", programs,
         wrong, of[SITU_FIX_TO], of[SITU_FIX_TO_DTYPE], of[SITU_FIX_NN_TO], of[SITU_FIX_NN_TO_DTYPE],
         of[SITU_FIX_BUFFER]);
  assert_in_range(wrong, programs / 2, programs - programs / 10);
  for (int i = 0; i <= SITU_FIX_BUFFER; i++) assert_true(of[i] > 0);
}

/* Whichever allocation fails: an answer that was tried, or an error. */
static void nothing_is_lost_without_memory(void **state) {
  (void)state;
  situ_scope s;
  situ_scope_begin(&s);
  net *m = begin(33, false);
  situ_tree *in = inputs();
  int answers = 0;
  situ_fail_allocation(0, false);
  expect_ok(situ_place_mend(&m->base, in, NULL, &p.fixes));
  const uint64_t most = situ_allocation_count();
  const int64_t best = p.fixes.count;
  situ_place_fixes_free(&p.fixes);
  for (uint64_t nth = 1; nth <= most; nth += 1 + nth / 40) {
    situ_fail_allocation(nth, false);
    const situ_status status = situ_place_mend(&m->base, in, NULL, &p.fixes);
    situ_fail_allocation(0, false);
    assert_true(status == SITU_OK || status == SITU_E_NOMEM);
    if (status == SITU_OK) assert_true(!p.fixes.left && p.fixes.count == best);
    else assert_null(p.fixes.statements);
    answers += status == SITU_OK;
    situ_place_fixes_free(&p.fixes);
    situ_error_clear();
  }
  assert_in_range(answers, 1, most - 1);
  end(m, in);
  SITU_IGNORE(situ_scope_end(&s));
}

int main(void) {
  const struct CMUnitTest tests[] = { MODULE_TEST(each_is_mended), MODULE_TEST(nothing_is_lost_without_memory) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
