/* The lint as a caller meets it: what it says, what it may be told not to say, and when it cannot.
   SPDX-License-Identifier: MIT */
#include "situ/sys/alloc.h"
#include "support/mistakes/mistakes.h"

typedef struct holder {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tensor *loose, *cache;
} holder;
static const situ_nn_type holder_type = { .name = "Holder", .size = sizeof(holder) };

/* A warning (loose) and a note (cache). */
static situ_nn_module *faulty(void) {
  holder *m = situ_nn_alloc(&holder_type);
  situ_nn_child(m, fc, situ_nn_linear(2, 2, NULL));
  situ_nn_transient_buffer(m, cache, situ_ones(SITU_SHAPE(3), NULL));
  if (m) m->loose = situ_set_name(situ_ones(SITU_SHAPE(5), NULL), "mask");
  return situ_nn_done(m);
}

static void a_line_asserts_it(void **state) {
  (void)state;
  situ_nn_module *good = situ_nn_linear(2, 2, NULL), *bad = faulty();
  assert_int_equal(situ_place_lint(good, NULL), SITU_OK);
  assert_int_equal(situ_place_lint(bad, NULL), SITU_E_STATE);
  const char *text = situ_error_message();
  assert_non_null(strstr(text, "Holder: 1 finding\n"));
  assert_non_null(strstr(text, "warning: Holder: the tensor at byte "));
  assert_non_null(strstr(text, "(mask, f32 [5] made at "));
  assert_non_null(strstr(text, test_has_lines() ? "lint.c:" : "test_place_lint+0x"));
  assert_non_null(strstr(text, "fix: situ_nn_buffer(m, "));
  assert_null(strstr(text, "transient"));
  expect_error(SITU_E_STATE, "place_lint", "not registered");
  situ_nn_free(good);
  situ_nn_free(bad);
}

/* A pointer back to what owns the module, however far up: a part of a model is looked at. */
static void a_pointer_to_an_owner_is_no_part(void **state) {
  (void)state;
  holder *m = situ_nn_alloc(&holder_type);
  situ_nn_module *root = situ_nn_sequential(situ_nn_sequential(situ_nn_done(m)));
  assert_non_null(root);
  m->fc = root;
  expect_ok(situ_place_lint(&m->base, NULL));
  m->fc = situ_nn_relu();
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "Holder");
  situ_nn_free(m->fc);
  situ_nn_free(root);
}

/* An address from before a move is of freed memory; one from after it is not, and a lease refuses the move. */
/* placement: D19 */
static void an_address_from_before_a_move(void **state) {
  (void)state;
  expect_ok(situ_sim_create(1));
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_tensor *w = situ_nn_get_tensor(m, "weight");
  expect_ok(situ_nn_to(m, situ_dev("sim:0")));
  expect_ok(situ_nn_to(m, situ_dev("cpu")));
  assert_non_null(situ_data_ptr(w));
  expect_ok(situ_place_lint(m, NULL));
  expect_ok(situ_nn_to(m, situ_dev("sim:0")));
  assert_int_equal(situ_place_lint(m, NULL), SITU_E_STATE);
  const char *text = situ_error_message();
  assert_non_null(strstr(text, "situ_data_ptr gave its address, and then situ_nn_to moved it"));
  assert_non_null(strstr(text, test_has_lines() ? "lint.c:" : "test_place_lint+0x"));
  assert_non_null(strstr(text, "fix: situ_data_lease(m->weight, ...);"));
  expect_error(SITU_E_STATE, "place_lint", "1 finding\n");
  situ_nn_free(m);
}

/* What is there twice is told once, with what helps. */
static void a_part_without_values_is_told_once(void **state) {
  (void)state;
  situ_nn_module *bare = situ_nn_linear(2, 2, &(situ_nn_linear_options){ .device = situ_dev("meta") });
  situ_nn_module *m = situ_nn_sequential(bare, situ_nn_linear(2, 2, NULL), situ_nn_retain(bare));
  assert_int_equal(situ_place_lint(m, NULL), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "2 findings\n"));
  expect_error(SITU_E_STATE, "place_lint", "fix: if (situ_nn_to(m, situ_dev(\"cpu\")) != SITU_OK)");
  situ_nn_free(m);
}

static void hear(const situ_lint_finding *f, void *payload) {
  int *heard = payload;
  heard[f->kind]++;
  assert_non_null(f->path);
  assert_non_null(f->type);
  assert_non_null(f->tensor);
  assert_non_null(f->text);
  assert_non_null(f->fix);
  assert_string_not_equal(situ_lint_kind_name(f->kind), "?");
  assert_string_not_equal(situ_lint_severity_name(f->severity), "?");
}

static void what_counts_is_up_to_the_caller(void **state) {
  (void)state;
  situ_nn_module *m = faulty();
  int heard[SITU_LINT_KINDS] = { 0 };
  situ_lint_options options = { .report = hear, .payload = heard, .strict = true };
  assert_int_equal(situ_place_lint(m, &options), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "2 findings");
  assert_int_equal(heard[SITU_LINT_TENSOR], 1);
  assert_int_equal(heard[SITU_LINT_UNSAVED], 1);
  options.ignore = 1u << SITU_LINT_TENSOR;
  assert_int_equal(situ_place_lint(m, &options), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "1 finding\nnote: cache (Holder): ");
  assert_int_equal(heard[SITU_LINT_TENSOR], 1);
  options.strict = false;
  expect_ok(situ_place_lint(m, &options));
  assert_int_equal(heard[SITU_LINT_UNSAVED], 3);
  situ_nn_free(m);
}

static void it_can_be_read(void **state) {
  (void)state;
  situ_nn_module *m = faulty();
  char text[2048], little[10];
  int64_t length = situ_place_lint_to_string(m, NULL, text, sizeof text);
  assert_int_equal(length, strlen(text));
  assert_true(strncmp(text, "warning: Holder: ", 17) == 0); /* the worst first */
  assert_non_null(strstr(text, "\nnote: cache (Holder): it is a transient buffer"));
  assert_int_equal(situ_place_lint_to_string(m, NULL, little, sizeof little), length);
  assert_string_equal(little, "warning: ");
  assert_int_equal(situ_place_lint_to_string(m, NULL, NULL, 0), length);
  assert_int_equal(situ_place_lint_print(m, NULL), 2);
  assert_int_equal(situ_place_lint_print(((holder *)m)->fc, NULL), 0);
  assert_string_equal(situ_lint_kind_name((situ_lint_kind)99), "?");
  assert_string_equal(situ_lint_severity_name((situ_lint_severity)99), "?");
  situ_nn_free(m);
}

static void bad_arguments_are_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  situ_lint_options options = { .optim_count = 1 };
  assert_int_equal(situ_place_lint(NULL, NULL), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_lint", "module");
  assert_int_equal(situ_place_lint(m, &options), SITU_E_ARG);
  expect_error(SITU_E_ARG, "place_lint", "optims");
  assert_int_equal(situ_place_lint_to_string(NULL, NULL, NULL, 0), -1);
  expect_error(SITU_E_ARG, "place_lint", "module");
  assert_int_equal(situ_place_lint_print(NULL, NULL), -1);
  expect_error(SITU_E_ARG, "place_lint", "module");
  situ_nn_free(m);
}

/* An optimiser's name for a foreign tensor is that of a module here: nothing of the module was replaced. */
static void a_module_is_not_taken_for_a_parameter(void **state) {
  (void)state;
  situ_nn_module *m = faulty();
  situ_tensor *other = situ_requires_grad_(situ_ones(SITU_SHAPE(2), NULL), true);
  situ_optim *optim = situ_optim_sgd(situ_tree_put(situ_tree_dict(), "fc", situ_tree_tensor(other)), 1e-3, NULL);
  char text[4096];
  situ_place_lint_to_string(m, &(situ_lint_options){ .optims = &optim, .optim_count = 1 }, text, sizeof text);
  assert_non_null(strstr(text, "the optimiser has it, and this module has not"));
  assert_null(strstr(text, "under this name"));
  situ_optim_free(optim);
  situ_nn_free(m);
}

/* A lint that runs out of memory says so, and never that all is well. */
static void without_memory_it_says_so(void **state) {
  (void)state;
  situ_nn_module *m = faulty();
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 1e-3, NULL);
  situ_lint_options options = { .optims = &optim, .optim_count = 1, .strict = true };
  int64_t tensors = situ_live_tensors(), bytes = situ_live_bytes();
  int points = 0;
  for (uint64_t nth = 1; nth < 1000; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_place_lint(m, &options);
    bool met = situ_allocation_count() >= nth;
    situ_fail_allocation(0, false);
    situ_error_clear();
    assert_int_equal(situ_live_tensors(), tensors);
    assert_int_equal(situ_live_bytes(), bytes);
    if (!met) {
      assert_int_equal(status, SITU_E_STATE);
      break;
    }
    assert_int_equal(status, SITU_E_NOMEM);
    points++;
  }
  print_message("%d allocations failed, one at a time\n", points);
  assert_true(points > 10);
  situ_optim_free(optim);
  situ_nn_free(m);
}

/* What was made with a module and put into a field later is reported as the field's, and once. */
static void a_tensor_is_reported_once(void **state) {
  (void)state;
  holder *m = situ_nn_alloc(&holder_type);
  situ_nn_child(m, fc, situ_nn_linear(2, 2, NULL));
  situ_tensor *late = situ_retain(situ_ones(SITU_SHAPE(5), NULL));
  assert_non_null(situ_nn_done(m));
  m->loose = late;
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  assert_non_null(strstr(situ_error_message(), "Holder: 1 finding\n"));
  situ_error_clear();
  situ_release(late);
  situ_nn_free(&m->base);
}

/* A layer without a stated device is where it should be if others were put there. */
static void a_layer_among_those_that_were_put_there(void **state) {
  (void)state;
  const situ_nn_linear_options put = { .device = situ_dev("cpu") };
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(2, 2, &put), situ_nn_linear(2, 2, &put), situ_nn_linear(2, 2, NULL));
  expect_ok(situ_place_lint(m, &(situ_lint_options){ .strict = true }));
  situ_nn_free(m);
}

/* However many storages a move would take along: parameters, and their gradients. */
static void any_number_of_gradients(void **state) {
  (void)state;
  for (int count = 1; count <= 20; count++) {
    situ_nn_module *m = situ_nn_module_list_of(0, NULL);
    for (int i = 0; i < count; i++) {
      situ_tensor *w = situ_requires_grad_(situ_ones(SITU_SHAPE(3), NULL), true);
      char name[16];
      snprintf(name, sizeof name, "w%d", i);
      assert_non_null(situ_nn_add_tensor(m, name, NULL, w, SITU_NN_PARAMETER));
      expect_ok(situ_backward(situ_sum(w, NULL), NULL));
    }
    expect_ok(situ_place_lint(m, &(situ_lint_options){ .strict = true }));
    situ_nn_free(m);
  }
}

/* More findings than a list has room for at first. */
static void many_findings_without_memory(void **state) {
  (void)state;
  enum { LAYERS = 12 };
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(1, 1, NULL));
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 1e-3, NULL);
  for (int i = 0; i < LAYERS; i++) assert_non_null(situ_nn_append(m, situ_nn_linear(1, 1, NULL)));
  situ_lint_options options = { .optims = &optim, .optim_count = 1, .strict = true }; /* it trains one layer */
  for (uint64_t nth = 1;; nth++) {
    situ_fail_allocation(nth, false);
    situ_status status = situ_place_lint(m, &options);
    bool met = situ_allocation_count() >= nth;
    situ_fail_allocation(0, false);
    situ_error_clear();
    assert_int_equal(status, met ? SITU_E_NOMEM : SITU_E_STATE);
    if (!met) break;
  }
  situ_optim_free(optim);
  situ_nn_free(m);
}

/* A module that cannot note what was left unregistered is refused, not forgetful. */
static void a_module_without_memory_is_refused(void **state) {
  (void)state;
  int points = 0;
  for (uint64_t nth = 1; nth < 1000; nth++) {
    situ_fail_allocation(nth, false);
    holder *m = (holder *)faulty();
    bool met = situ_allocation_count() >= nth;
    situ_fail_allocation(0, false);
    situ_error_clear();
    if (m && m->loose) {
      assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
      expect_error(SITU_E_STATE, "place_lint", "not registered");
    }
    if (m) situ_nn_free(&m->base);
    if (!met) break;
    points++;
  }
  assert_true(points > 10);
}

/* Changes nothing: values, versions and places are as they were. */
static void it_changes_nothing(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(4, 4, NULL), situ_nn_batch_norm1d(4, NULL));
  situ_tensor *w = situ_nn_get_tensor(m, "0.weight"), *before = situ_clone(situ_detach(w));
  uint32_t version = situ_version_of(w);
  int64_t owners = situ_live_tensors();
  for (int i = 0; i < 3; i++) expect_ok(situ_place_lint(m, NULL));
  assert_int_equal(situ_version_of(w), version);
  assert_int_equal(situ_live_tensors(), owners);
  expect_same(w, before, 0, 0);
  situ_nn_free(m);
}

/* Registered again by name alone, a part shows in the field that it had. */
static void the_field_follows_its_name(void **state) {
  (void)state;
  holder *m = (holder *)faulty();
  situ_nn_module *next = situ_nn_linear(2, 2, NULL);
  assert_ptr_equal(situ_nn_add_child(&m->base, "fc", NULL, next), next);
  assert_ptr_equal(m->fc, next);
  m->loose = NULL;
  expect_ok(situ_place_lint(&m->base, NULL));
  situ_nn_free(&m->base);
}

/* ---- what a fix says, done: it compiles, and the lint has nothing more to say ---- */

typedef struct node {
  situ_nn_module *layer;
  struct node *next;
} node;
typedef struct vector {
  int64_t n;
  situ_nn_module **items;
} vector;
typedef struct lists {
  situ_nn_module base;
  situ_nn_module *fc, *average, **array;
  situ_tensor *shadow;
  node *list;
  vector *field;
} lists;
static const situ_nn_type lists_type = { .name = "Lists", .size = sizeof(lists) };

static situ_nn_module *layer(void) { return situ_nn_linear(2, 2, NULL); }

static lists *lists_new(void) {
  lists *m = situ_nn_alloc(&lists_type);
  situ_nn_child(m, fc, layer());
  assert_non_null(situ_nn_done(m));
  return m;
}

/* Ends a case: said before (a part of the fix), nothing now; so many tensors move. */
static void expect_mended(lists *m, const char *fix, int tensors, void (*mend)(lists *m)) {
  situ_placement place;
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", fix);
  mend(m);
  expect_ok(situ_place_lint(&m->base, NULL));
  expect_ok(situ_place_of(&m->base, &place));
  assert_int_equal(place.parameters + place.buffers, tensors);
  situ_nn_free(&m->base);
}

static void mend_array(lists *m) {
  assert_non_null(situ_nn_add_child(&m->base, "layers", NULL, situ_nn_module_list_of(2, m->array)));
}
static void mend_struct(lists *m) {
  assert_non_null(situ_nn_add_child(&m->base, "layers", NULL, situ_nn_module_list_of(m->field->n, m->field->items)));
}
static void mend_list(lists *m) {
  char name[] = "layers.0";
  for (const node *k = m->list; k; k = k->next, name[7]++)
    assert_non_null(situ_nn_add_child(&m->base, name, NULL, k->layer));
}
static void mend_average(lists *m) {
  situ_nn_module *average = situ_optim_averaged_model(&m->base, NULL);
  situ_nn_free(m->average);
  m->average = NULL;
  expect_ok(situ_optim_update_parameters(average, &m->base));
  situ_nn_free(average);
}
static void mend_shadow(lists *m) { assert_non_null(situ_nn_buffer(m, shadow, m->shadow)); }
static situ_nn_module *variable;
static void mend_variable(lists *m) {
  assert_non_null(situ_nn_add_child(&m->base, "name", NULL, situ_nn_retain(variable)));
}

/* placement: B8, B9 */
static void each_fix_mends(void **state) {
  (void)state;
  static situ_nn_module *items[16], *others[16];
  static vector v[2];
  static node nodes[4];
  lists *m = lists_new();
  items[0] = layer();
  items[1] = layer();
  m->array = items;
  expect_mended(m, "\"layers\", NULL, situ_nn_module_list_of(n, m->field)", 6, mend_array);

  m = lists_new();
  for (int i = 0; i < 3; i++) others[i] = layer();
  v[0] = (vector){ 3, others };
  m->field = v;
  expect_mended(m, "situ_nn_module_list_of(m->field->n, m->field->items)", 8, mend_struct);

  m = lists_new();
  for (int i = 0; i < 3; i++) nodes[i] = (node){ layer(), &nodes[(i + 1) % 3] }; /* a circle */
  m->list = nodes;
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "a linked list with 3 modules");
  nodes[2].next = NULL;
  expect_mended(m, "\"layers.0\", NULL, m->field->layer", 8, mend_list);

  m = lists_new();
  m->average = situ_nn_clone(m->fc);
  expect_mended(m, "situ_optim_averaged_model(model, NULL)", 2, mend_average);

  m = lists_new();
  m->shadow = situ_detach(situ_nn_get_tensor(m->fc, "weight"));
  m->shadow = situ_clone(m->shadow);
  expect_mended(m, "situ_nn_buffer(m, field, m->field)", 3, mend_shadow);

  m = situ_nn_alloc(&lists_type);
  situ_nn_child(m, fc, layer());
  variable = layer();
  assert_non_null(situ_nn_done(m));
  expect_mended(m, "situ_nn_retain(module)", 4, mend_variable);
  situ_nn_free(variable);
}

typedef struct keeper {
  situ_nn_module base;
  situ_nn_module *fc;
  situ_tree *cache;
} keeper;
static void release_keeper(situ_nn_module *m) { situ_tree_free(((keeper *)m)->cache); }
static const situ_nn_type keeper_type = { .name = "Keeper", .size = sizeof(keeper), .release = release_keeper };

/* placement: B8 */
static void a_tree_that_a_field_got_later(void **state) {
  (void)state;
  keeper *m = situ_nn_alloc(&keeper_type);
  situ_nn_child(m, fc, layer());
  assert_non_null(situ_nn_done(m));
  situ_tensor *weight = situ_nn_get_tensor(m->fc, "weight"), *key = situ_ones(SITU_SHAPE(2), NULL),
              *value = situ_ones(SITU_SHAPE(3), NULL);
  m->cache = situ_tree_put(situ_tree_put(situ_tree_dict(), "own", SITU_TREE(weight, situ_detach(weight))), "none",
                           situ_tree_none());
  expect_ok(situ_place_lint(&m->base, NULL));
  m->cache = situ_tree_put(m->cache, "layers", situ_tree_append(situ_tree_list(), SITU_TREE(key, value, key)));
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "points to a tree with 2 tensors that are not registered");
  situ_nn_add_tensor(&m->base, "key", NULL, key, SITU_NN_BUFFER);
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "a tree with 1 tensor that");
  situ_nn_add_tensor(&m->base, "value", NULL, value, SITU_NN_BUFFER); /* as the fix says */
  expect_ok(situ_place_lint(&m->base, NULL));
  situ_tree_free(m->cache);
  expect_ok(situ_place_lint(&m->base, NULL)); /* the field shows a tree that was freed */
  m->cache = NULL;
  situ_nn_free(&m->base);
}

/* What was made beside a module, or after it, is not a part of it. */
/* placement: B9 */
static void modules_made_at_other_times(void **state) {
  (void)state;
  lists *m = situ_nn_alloc(&lists_type), *other = situ_nn_alloc(&lists_type);
  situ_nn_child(m, fc, layer());
  situ_nn_child(other, fc, layer());
  assert_non_null(situ_nn_done(m));
  assert_non_null(situ_nn_done(other));
  situ_nn_module *after = layer();
  m->average = &other->base; /* it was made within m's construction */
  assert_int_equal(situ_place_lint(&m->base, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "place_lint", "Lists: 1 finding\n");
  m->average = NULL;
  expect_ok(situ_place_lint(&other->base, NULL));
  assert_non_null(situ_nn_add_child(&m->base, "other", NULL, &other->base));
  expect_ok(situ_place_lint(&m->base, NULL));
  situ_nn_free(after);
  situ_nn_free(&m->base);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(a_line_asserts_it),
    MODULE_TEST(a_pointer_to_an_owner_is_no_part),
    MODULE_TEST(an_address_from_before_a_move),
    MODULE_TEST(a_part_without_values_is_told_once),
    MODULE_TEST(what_counts_is_up_to_the_caller),
    MODULE_TEST(it_can_be_read),
    MODULE_TEST(bad_arguments_are_refused),
    MODULE_TEST(a_module_is_not_taken_for_a_parameter),
    MODULE_TEST(without_memory_it_says_so),
    MODULE_TEST(a_tensor_is_reported_once),
    MODULE_TEST(a_layer_among_those_that_were_put_there),
    MODULE_TEST(any_number_of_gradients),
    MODULE_TEST(many_findings_without_memory),
    MODULE_TEST(a_module_without_memory_is_refused),
    MODULE_TEST(it_changes_nothing),
    MODULE_TEST(the_field_follows_its_name),
    MODULE_TEST(each_fix_mends),
    MODULE_TEST(a_tree_that_a_field_got_later),
    MODULE_TEST(modules_made_at_other_times),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
