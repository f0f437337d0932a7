/* Modules on meta: built there, they become what building them at once would have given; loaded, they become real where
   they are wanted.
   SPDX-License-Identifier: MIT */
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"
#include "support/modules.h"

static const situ_device meta = { .kind = SITU_META };

/* ---- every layer, every initialiser ---- */

typedef situ_nn_module *(*maker)(situ_device d);
#define MAKER(name, call) \
  static situ_nn_module *name(situ_device d) { return call; }
#define LINEAR(in, out) situ_nn_linear(in, out, &(situ_nn_linear_options){ .device = d })
#define CONV \
  &(situ_nn_conv_options) { .device = d }
#define NORM OPTIONS_AT(situ_nn_norm, with.device = d)
MAKER(linear, LINEAR(5, 3))
MAKER(linear16, situ_nn_linear(5, 3, &(situ_nn_linear_options){ .dtype = SITU_BF16, .no_bias = true, .device = d }))
MAKER(embedding_bag,
      situ_nn_embedding_bag(7, 4, OPTIONS_AT(situ_nn_embedding_bag, with.has_padding_idx = true, with.device = d)))
MAKER(embedding, situ_nn_embedding(7, 4,
                                   OPTIONS_AT(situ_nn_embedding, with.has_padding_idx = true, with.padding_idx = 2,
                                              with.device = d)))
MAKER(conv1d, situ_nn_conv1d(2, 3, 5, CONV))
MAKER(conv2d, situ_nn_conv2d(2, 4, SITU_SHAPE(3, 3), &(situ_nn_conv_options){ .groups = 2, .device = d }))
MAKER(conv_transpose2d, situ_nn_conv_transpose2d(2, 3, SITU_SHAPE(3, 2), CONV))
MAKER(batch_norm, situ_nn_batch_norm2d(3, OPTIONS_AT(situ_nn_batch_norm, with.device = d)))
MAKER(layer_norm, situ_nn_layer_norm(SITU_SHAPE(2, 3), NORM))
MAKER(rms_norm, situ_nn_rms_norm(SITU_SHAPE(4), NORM))
MAKER(group_norm, situ_nn_group_norm(2, 4, NORM))
MAKER(attention, situ_nn_multihead_attention(8, 2, &(situ_nn_multihead_attention_options){ .device = d }))
MAKER(cross_attention,
      situ_nn_multihead_attention(8, 2, &(situ_nn_multihead_attention_options){ .kdim = 3, .vdim = 5, .device = d }))
MAKER(lstm, situ_nn_lstm(3, 4, &(situ_nn_rnn_options){ .num_layers = 2, .proj_size = 2, .device = d }))
MAKER(gru_cell, situ_nn_gru_cell(3, 4, &(situ_nn_rnn_options){ .no_bias = true, .device = d }))
MAKER(transformer,
      situ_nn_sequential(situ_nn_transformer_encoder_layer(
                             8, 2, OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 16, with.device = d)),
                         situ_nn_transformer_encoder_layer(
                             8, 4, OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 8, with.device = d)),
                         LINEAR(8, 2)))

/* A module of the test's own: every initialiser, and buffers that are computed. */
typedef struct initialised {
  situ_nn_module base;
  situ_tensor *p[12], *angles;
} initialised;
static const situ_nn_type initialised_type = { .name = "Initialised", .size = sizeof(initialised) };

static situ_tensor *rotary(situ_device d) {
  situ_options f = { .dtype = SITU_F32, .device = d };
  situ_tensor *step = situ_exp(situ_mul_scalar(situ_arange(0, 4, 1, &f), -0.5));
  situ_tensor *angle = situ_mul(situ_unsqueeze(situ_arange(0, 6, 1, &f), 1), step);
  return situ_cat((situ_tensor *[]){ situ_sin(angle), situ_cos(angle) }, 2, 1);
}

static situ_nn_module *every_initialiser(situ_device d) {
  initialised *m = situ_nn_alloc(&initialised_type);
  situ_tensor *t[12];
  for (int i = 0; i < 12; i++)
    t[i] = situ_empty(SITU_SHAPE(6, 4), &(situ_options){ .dtype = i & 1 ? SITU_F64 : SITU_F32, .device = d });
  situ_nn_init_uniform_(t[0], -2, 3, NULL);
  situ_nn_init_normal_(t[1], 1, 2, NULL);
  situ_nn_init_constant_(t[2], 0.25);
  situ_nn_init_zeros_(t[3]);
  situ_nn_init_ones_(t[4]);
  situ_nn_init_eye_(t[5]);
  situ_nn_init_xavier_uniform_(t[6], 1, NULL);
  situ_nn_init_xavier_normal_(t[7], 2, NULL);
  situ_nn_init_kaiming_uniform_(t[8], NULL, NULL);
  situ_nn_init_kaiming_normal_(t[9], NULL, NULL);
  situ_nn_init_normal_(situ_narrow(t[10], 0, 0, 3), 0, 1, NULL); /* by parts */
  situ_nn_init_ones_(situ_narrow(t[10], 0, 3, 3));
  situ_nn_init_kaiming_uniform_(t[11], NULL, NULL); /* and once more, over it */
  situ_nn_init_xavier_normal_(t[11], 1, NULL);
  static const char *const name[] = { "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l" };
  for (int i = 0; i < 12; i++) situ_nn_add_tensor(&m->base, name[i], &m->p[i], t[i], SITU_NN_PARAMETER);
  situ_nn_transient_buffer(m, angles, rotary(d));
  return situ_nn_done(m);
}

static const maker all[] = { linear,           linear16,   embedding,  embedding_bag, conv1d,           conv2d,
                             conv_transpose2d, batch_norm, layer_norm, rms_norm,      group_norm,       attention,
                             cross_attention,  lstm,       gru_cell,   transformer,   every_initialiser };

static situ_status same(const situ_nn_visit *at, void *payload) {
  situ_tensor *other = situ_nn_get_tensor(payload, at->path);
  assert_non_null(other);
  assert_true(situ_device_equal(situ_device_of(at->tensor), test_device()));
  expect_same(at->tensor, other, 0, 0);
  return SITU_OK;
}

static void expect_equal(situ_nn_module *a, situ_nn_module *b) {
  assert_int_equal(situ_nn_walk(a, SITU_NN_VISIT_TENSORS, same, b), SITU_OK);
}

/* placement: E4, K3 */
static void materialised_is_as_built_at_once(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    situ_manual_seed(11);
    situ_nn_module *eager = all[i](test_device());
    situ_generator after = situ_get_rng_state();
    situ_manual_seed(11);
    situ_nn_module *noted = all[i](meta);
    situ_generator there = situ_get_rng_state();
    assert_int_equal(after.offset, there.offset);
    situ_manual_seed(5);
    assert_int_equal(situ_nn_to(noted, test_device()), SITU_OK);
    assert_int_equal(situ_get_rng_state().offset, 0); /* it draws nothing */
    expect_equal(noted, eager);
    situ_nn_free(eager);
    situ_nn_free(noted);
  }
}

/* A clone and a cast on meta have recipes of their own. */
static void clones_and_casts_of_it_too(void **state) {
  (void)state;
  situ_manual_seed(11);
  situ_nn_module *eager = transformer(test_device());
  situ_manual_seed(11);
  situ_nn_module *noted = transformer(meta), *copy = situ_nn_clone(noted);
  situ_nn_free(noted);
  assert_int_equal(situ_nn_to_dtype(copy, SITU_F16), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(eager, SITU_F16), SITU_OK);
  assert_int_equal(situ_nn_to(copy, test_device()), SITU_OK);
  expect_equal(copy, eager);
  situ_nn_free(copy);
  situ_nn_free(eager);
}

/* S9: tied weights stay tied, views stay views, handles stay valid. */
static void ties_are_kept(void **state) {
  (void)state;
  situ_nn_module *a = linear(meta), *net = situ_nn_module_list(a, situ_nn_retain(a));
  situ_tensor *w = situ_nn_get_tensor(net, "0.weight"), *turned = situ_transpose(situ_detach(w), 0, 1);
  assert_int_equal(situ_nn_to(net, test_device()), SITU_OK);
  assert_ptr_equal(situ_nn_get_tensor(net, "1.weight"), w);
  assert_true(situ_requires_grad(w) && situ_is_leaf(w) && !situ_grad(w));
  expect_same(turned, situ_transpose(situ_detach(w), 0, 1), 0, 0);
  situ_nn_free(net);
}

/* What has no values is named; what was never written stays so, and is named when it is read (S6). */
static void what_is_not_known_is_not_made_up(void **state) {
  (void)state;
  situ_nn_module *m = linear(meta);
  situ_tensor *w = situ_nn_get_tensor(m, "weight");
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_copy_(w, situ_to(situ_ones(SITU_SHAPE(3, 5), NULL), meta));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_to", "weight is on meta");
  assert_int_equal(situ_device_of(situ_nn_get_tensor(m, "bias")).kind, SITU_META);
  situ_nn_init_kaiming_uniform_(w, NULL, NULL); /* reset, as the message says */
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  situ_nn_free(m);
  situ_options o = { .device = meta };
  situ_nn_module *blank = linear(meta);
  assert_non_null(situ_nn_add_tensor(blank, "scale", NULL, situ_empty(SITU_SHAPE(3), &o), SITU_NN_BUFFER));
  assert_int_equal(situ_nn_to(blank, test_device()), SITU_OK);
  expect_refused(situ_neg(situ_nn_get_tensor(blank, "scale")), SITU_E_STATE, "neg",
                 "`scale` ([3] f32) holds no value yet");
  situ_nn_free(blank);
}

/* ---- loading ---- */

static situ_tensor *cloned(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(situ_detach(t));
}
static situ_tree *saved(situ_nn_module *m) {
  situ_tree *own = situ_nn_state_dict(m), *copy = situ_tree_map(own, cloned, NULL);
  situ_tree_free(own);
  return copy;
}
static situ_nn_load_options here(void) { return (situ_nn_load_options){ .device = test_device() }; }

/* S5: loading into meta is no silent no-op. From cpu, and from the device itself. */
/* placement: H4, H8 */
static void loading_makes_it_real(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    for (int from = 0; from < 2; from++) {
      situ_nn_module *real = all[i](from ? test_device() : situ_dev("cpu")), *m = all[i](meta);
      situ_tree *dict = saved(real);
      assert_int_equal(situ_nn_load_state_dict(m, dict, &o), SITU_OK);
      assert_int_equal(situ_nn_to(real, test_device()), SITU_OK);
      /* A buffer that is not saved is computed where it is wanted, and sines differ in their last bit. */
      unsigned which = from ? SITU_NN_VISIT_TENSORS : SITU_NN_PARAMETER | SITU_NN_BUFFER;
      assert_int_equal(situ_nn_walk(m, which, same, real), SITU_OK);
      /* The values are its own. */
      situ_tensor *first = situ_tree_tensor_at(dict, 0), *kept = situ_clone(first);
      situ_fill_(first, 77);
      expect_same(situ_to(situ_nn_get_tensor(m, situ_tree_key(dict, 0)), situ_dev("cpu")),
                  situ_to(kept, situ_dev("cpu")), 0, 0);
      situ_tree_free(dict);
      situ_nn_free(real);
      situ_nn_free(m);
    }
}

static void its_dtype_is_kept(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  situ_nn_module *real = linear(test_device()), *m = linear16(meta);
  situ_tree *dict =
      situ_tree_put(situ_tree_dict(), "weight", situ_tree_tensor(situ_detach(situ_nn_get_tensor(real, "weight"))));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &o), SITU_OK);
  expect_same(situ_nn_get_tensor(m, "weight"),
              situ_to_dtype(situ_detach(situ_nn_get_tensor(real, "weight")), SITU_BF16), 0, 0);
  situ_tree_free(dict);
  situ_nn_free(real);
  situ_nn_free(m);
}

/* Where: as said, else where the module says it lives, else the default. */
/* placement: H4 */
static void where_it_goes(void **state) {
  (void)state;
  situ_nn_module *real = linear(situ_dev("cpu")), *m = linear(meta), *other = linear(meta);
  situ_tree *dict = saved(real);
  assert_int_equal(situ_nn_load_state_dict(m, dict, NULL), SITU_OK);
  assert_true(situ_device_equal(situ_nn_home(m), situ_get_default_device()));
  assert_int_equal(m->home.kind, SITU_CPU);
  other->home = situ_dev("sim:1");
  assert_int_equal(situ_nn_load_state_dict(other, dict, NULL), SITU_OK);
  assert_true(situ_device_equal(situ_nn_home(other), situ_dev("sim:1")));
  situ_nn_module *lost = linear(meta);
  assert_int_equal(situ_nn_load_state_dict(lost, dict, &(situ_nn_load_options){ .device = meta }), SITU_E_DEVICE);
  expect_error(SITU_E_DEVICE, "nn_load_state_dict", "no other device is said");
  situ_tree_free(dict);
  situ_nn_free(real);
  situ_nn_free(m);
  situ_nn_free(other);
  situ_nn_free(lost);
}

typedef struct tied {
  situ_nn_module base;
  situ_tensor *whole, *part, *again;
} tied;
static const situ_nn_type tied_type = { .name = "Tied", .size = sizeof(tied) };

/* One storage under three names, one of them a part of it. */
static situ_nn_module *tied_new(situ_device d, bool parts_only) {
  tied *m = situ_nn_alloc(&tied_type);
  situ_tensor *whole = situ_randn(SITU_SHAPE(4, 2), &(situ_options){ .device = d });
  if (!parts_only) situ_nn_buffer(m, whole, whole);
  situ_nn_buffer(m, part, situ_narrow(whole, 0, 1, 2));
  situ_nn_buffer(m, again, situ_narrow(whole, 0, 3, 1));
  return situ_nn_done(m);
}

static void loading_keeps_ties(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  for (int parts_only = 0; parts_only < 2; parts_only++) {
    situ_nn_module *real = tied_new(test_device(), parts_only), *m = tied_new(meta, parts_only);
    tied *t = (tied *)m;
    situ_tree *dict = saved(real);
    assert_int_equal(situ_nn_load_state_dict(m, dict, &o), SITU_OK);
    expect_equal(m, real);
    assert_ptr_equal(situ_desc(t->part)->storage, situ_desc(t->again)->storage);
    if (t->whole) assert_ptr_equal(situ_desc(t->whole)->storage, situ_desc(t->part)->storage);
    situ_tree_free(dict);
    situ_nn_free(real);
    situ_nn_free(m);
  }
}

static void note(situ_nn_load_problem problem, const char *path, void *payload) {
  (void)path;
  ((int *)payload)[problem]++;
}

/* What the state has not stays on meta, is told, and can be materialised later. */
static void what_is_missing_stays(void **state) {
  (void)state;
  int problems[3] = { 0 };
  situ_nn_load_options o = here(),
                       loose = { .device = test_device(), .not_strict = true, .report = note, .payload = problems };
  situ_manual_seed(2);
  situ_nn_module *real = linear(test_device());
  situ_manual_seed(2);
  situ_nn_module *m = linear(meta);
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "bias",
                                  situ_tree_tensor(situ_zeros_like(situ_nn_get_tensor(real, "bias"), NULL)));
  assert_int_not_equal(situ_nn_load_state_dict(m, dict, &o), SITU_OK);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "missing: weight");
  assert_int_equal(situ_device_of(situ_nn_get_tensor(m, "bias")).kind, SITU_META);
  assert_int_equal(situ_nn_load_state_dict(m, dict, &loose), SITU_OK);
  assert_int_equal(problems[SITU_NN_LOAD_MISSING], 1);
  assert_int_equal(situ_device_of(situ_nn_get_tensor(m, "weight")).kind, SITU_META);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  expect_same(situ_nn_get_tensor(m, "weight"), situ_nn_get_tensor(real, "weight"), 0, 0);
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(3), 0, 0, 0);
  situ_tree_free(dict);
  situ_nn_free(real);
  situ_nn_free(m);
}

/* Each allocation fails once: an error, and all of it is still on meta, with its recipe. */
static void a_load_that_fails_leaves_it_on_meta(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  situ_manual_seed(3);
  situ_nn_module *eager = every_initialiser(test_device()), *real = every_initialiser(test_device());
  situ_manual_seed(3);
  situ_nn_module *m = every_initialiser(meta);
  situ_tree *dict = saved(real);
  bool whole = false;
  int points = 0;
  for (uint64_t nth = 1; !whole; nth++) {
    assert_true(nth < 2000);
    situ_fail_allocation(nth, false);
    whole = situ_nn_load_state_dict(m, dict, &o) == SITU_OK;
    situ_fail_allocation(0, false);
    if (whole) break;
    points++;
    expect_error(SITU_E_NOMEM, "", "");
    situ_tree *now = situ_nn_state_dict(m);
    for (int64_t i = 0; i < situ_tree_count(now); i++) {
      assert_int_equal(situ_device_of(situ_tree_tensor_at(now, i)).kind, SITU_META);
      assert_true(situ_has_values(situ_tree_tensor_at(now, i)));
    }
    situ_tree_free(now);
  }
  assert_true(points > 20);
  expect_same(situ_nn_get_tensor(m, "a"), situ_nn_get_tensor(real, "a"), 0, 0);
  expect_same(situ_nn_get_tensor(m, "angles"), situ_nn_get_tensor(eager, "angles"), 0, 0);
  situ_tree_free(dict);
  situ_nn_free(eager);
  situ_nn_free(real);
  situ_nn_free(m);
}

/* ---- lazy layers ---- */

static situ_nn_module *lazy(situ_device d) { return situ_nn_lazy_linear(3, &(situ_nn_linear_options){ .device = d }); }

/* S20: moved anywhere it stays lazy, and is at home there. */
/* placement: B18 */
static void a_lazy_layer_is_moved(void **state) {
  (void)state;
  situ_nn_module *m = lazy(situ_dev("cpu"));
  assert_int_equal(situ_nn_to(m, meta), SITU_OK);
  assert_true(m->pending);
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  assert_true(m->pending);
  situ_options o = { .device = meta }, h = { .device = test_device() };
  expect_refused(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 5), &o)), SITU_E_DEVICE, "linear", "it is lazy still");
  assert_true(m->pending);
  situ_manual_seed(4);
  assert_non_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 5), &h)));
  assert_true(situ_device_equal(situ_nn_home(m), test_device()));
  /* An input on meta tells one that lives there its shapes; its values come later, and are the same. */
  situ_nn_module *there = lazy(meta);
  situ_manual_seed(4);
  assert_non_null(situ_nn_forward(there, situ_empty(SITU_SHAPE(2, 5), &o)));
  assert_int_equal(situ_nn_to(there, test_device()), SITU_OK);
  expect_equal(there, m);
  situ_nn_free(m);
  situ_nn_free(there);
}

/* The homes of modules inside are set before anything that can fail has an end. */
static void a_load_that_fails_leaves_what_is_inside_on_meta(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  situ_nn_module *real = situ_nn_sequential(linear(test_device()), linear(test_device())),
                 *m = situ_nn_sequential(linear(meta), linear(meta));
  situ_tree *dict = saved(real);
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    const bool whole = situ_nn_load_state_dict(m, dict, &o) == SITU_OK;
    situ_fail_allocation(0, false);
    if (whole) break;
    expect_error(SITU_E_NOMEM, "", "");
    for (int i = 0; i < 2; i++) {
      assert_int_equal(situ_nn_at(m, i)->home.kind, SITU_META);
      assert_int_equal(situ_device_of(situ_nn_get_tensor(situ_nn_at(m, i), "weight")).kind, SITU_META);
    }
  }
  expect_equal(m, real);
  situ_tree_free(dict);
  situ_nn_free(real);
  situ_nn_free(m);
}

static void a_lazy_layer_takes_its_shapes_from_a_state(void **state) {
  (void)state;
  situ_nn_load_options o = here();
  situ_nn_module *real = situ_nn_sequential(linear(test_device()), situ_nn_relu()), *bad = situ_nn_linear(5, 4, NULL);
  situ_tree *dict = saved(real), *wrong = situ_tree_put(situ_tree_dict(), "0", saved(bad)), *none = situ_tree_dict();
  const situ_device homes[] = { { 0 }, test_device(), meta };
  for (int k = 0; k < 3; k++) {
    situ_nn_module *m = situ_nn_sequential(lazy(homes[k]), situ_nn_relu());
    assert_int_equal(situ_nn_load_state_dict(m, wrong, &o), SITU_E_SHAPE);
    expect_error(SITU_E_SHAPE, "nn_load_state_dict", "0.weight");
    assert_int_equal(situ_nn_load_state_dict(m, none, &o), SITU_E_STATE);
    expect_error(SITU_E_STATE, "", "LazyLinear has no parameters yet");
    bool whole = false;
    for (uint64_t nth = 1; !whole; nth++) {
      assert_true(situ_nn_at(m, 0)->pending && situ_nn_at(m, 0)->count == 0);
      situ_fail_allocation(nth, false);
      whole = situ_nn_load_state_dict(m, dict, &o) == SITU_OK;
      situ_fail_allocation(0, false);
      if (!whole) expect_error(SITU_E_NOMEM, "", "");
    }
    assert_false(situ_nn_at(m, 0)->pending);
    expect_equal(m, real);
    situ_options h = { .device = test_device() };
    assert_non_null(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 5), &h)));
    situ_nn_free(m);
  }
  situ_tree_free(dict);
  situ_tree_free(wrong);
  situ_tree_free(none);
  situ_nn_free(real);
  situ_nn_free(bad);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(materialised_is_as_built_at_once),
    MODULE_TEST(clones_and_casts_of_it_too),
    MODULE_TEST(ties_are_kept),
    MODULE_TEST(what_is_not_known_is_not_made_up),
    MODULE_TEST(loading_makes_it_real),
    MODULE_TEST(its_dtype_is_kept),
    MODULE_TEST(where_it_goes),
    MODULE_TEST(loading_keeps_ties),
    MODULE_TEST(what_is_missing_stays),
    MODULE_TEST(a_load_that_fails_leaves_it_on_meta),
    MODULE_TEST(a_load_that_fails_leaves_what_is_inside_on_meta),
    MODULE_TEST(a_lazy_layer_is_moved),
    MODULE_TEST(a_lazy_layer_takes_its_shapes_from_a_state),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
