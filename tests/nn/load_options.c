/* situ_nn_load_options: names that are changed before they are compared, and memory that is taken over.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "situ/autograd.h"
#include "situ/io.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/modules.h"

static situ_tree *with(situ_tree *dict, const char *key, situ_tensor *t) {
  return situ_tree_put(dict, key, situ_tree_tensor(t));
}
static situ_nn_module *fc(situ_device device) {
  return situ_nn_linear(2, 1, &(situ_nn_linear_options){ .device = device });
}
static situ_device meta(void) { return (situ_device){ .kind = SITU_META }; }

/* ---- rename ---- */

/* The names that a state has after the rows, as the report of a load into an empty module lists them. */
static void note(situ_nn_load_problem problem, const char *path, void *payload) {
  assert_int_equal(problem, SITU_NN_LOAD_UNEXPECTED);
  strcat(strcat(payload, path), " ");
}
static void expect_renamed(const situ_nn_rename *rows, int64_t count, const char *names) {
  char text[256] = "";
  situ_tensor *t = T32(SITU_SHAPE(1), 1);
  situ_tree *state = with(with(situ_tree_dict(), "model.h.0.attn.q", t), "model.h.10.ln.gamma", t);
  state = with(with(state, "model.head", t), "hat.model.h", t);
  situ_nn_module *m = situ_nn_module_dict();
  assert_int_equal(
      situ_nn_load_state_dict(
          m, state,
          &(situ_nn_load_options){
              .not_strict = true, .report = note, .payload = text, .rename = rows, .rename_count = count }),
      SITU_OK);
  assert_string_equal(text, names);
  situ_tree_free(state);
  situ_nn_free(m);
}
#define RENAMED(names, ...)                               \
  expect_renamed((const situ_nn_rename[]){ __VA_ARGS__ }, \
                 sizeof((situ_nn_rename[]){ __VA_ARGS__ }) / sizeof(situ_nn_rename), names)

static void whole_parts_are_replaced(void **state) {
  (void)state;
  RENAMED("blocks.0.attn.q blocks.10.ln.gamma model.head hat.blocks ", { "model.h", "blocks" });
  RENAMED("h.0.attn.q h.10.ln.gamma head hat.h ", { "model", "" });
  RENAMED("model.h.0.attn.q model.h.10.ln.weight model.head hat.model.h ", { "gamma", "weight" });
  RENAMED("model.h.0.attn.q model.h.10.ln model.head hat.model.h ", { "gamma", "" });
  RENAMED("gpt.model.h.0.attn.q gpt.model.h.10.ln.gamma gpt.model.head gpt.hat.model.h ", { "", "gpt" });
  RENAMED("model.h.10.ln.gamma model.head hat.model.h ", { "attn", NULL });
  RENAMED("x.y.0.attn.q x.y.10.ln.gamma model.head hat.x.y ", { "model.h", "x" }, { "x", "x.y" });
  RENAMED("model.h.0.attn.q model.h.10.ln.gamma model.head hat.model.h ", { "mode", "x" }, { "h.1", "x" },
          { "h.0.attn.q.x", "" });
  RENAMED("model.head ", { "h", NULL });
}

static void loads_under_other_names(void **state) {
  (void)state;
  const situ_nn_rename rows[] = { { "bert.head", "" }, { "kernel", "weight" }, { "steps", NULL } };
  const situ_nn_load_options o = { .rename = rows, .rename_count = 3 };
  situ_nn_module *m = fc(test_device());
  situ_tree *dict = with(situ_tree_dict(), "bert.head.kernel", T32(SITU_SHAPE(1, 2), 5, 6));
  dict = with(with(dict, "bert.head.bias", T32(SITU_SHAPE(1), 7)), "steps", T32(SITU_SHAPE(1), 7));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &o), SITU_OK);
  expect_exact(situ_nn_get_tensor(m, "weight"), SITU_SHAPE(1, 2), 5, 6);
  dict = with(dict, "bert.head.weight", T32(SITU_SHAPE(1, 2), 8, 9));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &o), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "named weight by .rename, one of them from bert.head.weight");
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .rename_count = 1 }), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "row 0 of .rename has no .from");
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .rename_count = -1 }), SITU_E_ARG);
  expect_error(SITU_E_ARG, "nn_load_state_dict", "a rename_count of -1");
  expect_exact(situ_nn_get_tensor(m, "weight"), SITU_SHAPE(1, 2), 5, 6);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* ---- assign ---- */

static situ_tree *values(situ_dtype dtype) {
  const situ_options o = { .dtype = dtype, .device = test_device() };
  situ_tree *dict = with(situ_tree_dict(), "weight", situ_full(SITU_SHAPE(1, 2), 5, &o));
  return with(dict, "bias", situ_full(SITU_SHAPE(1), 7, &o));
}

static void memory_is_taken_over(void **state) {
  (void)state;
  situ_nn_module *m = fc(meta());
  situ_tensor *weight = situ_nn_get_tensor(m, "weight"), *alias = situ_detach(weight);
  situ_tree *dict = values(SITU_F16);
  int64_t bytes = situ_live_bytes();
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .assign = true }), SITU_OK);
  assert_int_equal(situ_live_bytes(), bytes); /* nothing was copied */
  assert_ptr_equal(situ_nn_get_tensor(m, "weight"), weight);
  expect_exact(weight, SITU_SHAPE(1, 2), 5, 5);
  expect_exact(alias, SITU_SHAPE(1, 2), 5, 5);
  assert_int_equal(situ_dtype_of(alias), SITU_F16);
  assert_true(situ_requires_grad(weight) && situ_is_leaf(weight));
  assert_true(situ_device_equal(situ_nn_home(m), test_device()));
  assert_int_equal(situ_device_of(situ_tree_get(dict, "weight")).kind, SITU_META); /* what the module's was */
  situ_tree_free(dict);
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(1), 7);
  situ_nn_free(m);
}

/* A module with values: the same handles, the state's dtype, no stale gradient; an optimiser goes on. */
static void values_are_swapped(void **state) {
  (void)state;
  situ_nn_module *m = fc(test_device());
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(m), 1, NULL);
  situ_tensor *weight = situ_nn_get_tensor(m, "weight"), *old = situ_clone(situ_detach(weight));
  situ_tensor *x = T32(SITU_SHAPE(1, 2), 1, 2), *y = situ_sum(situ_nn_forward(m, situ_requires_grad_(x, true)), NULL);
  assert_int_equal(situ_backward(y, &(situ_backward_options){ .retain_graph = true }), SITU_OK);
  situ_tree *dict = values(SITU_F32);
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .assign = true }), SITU_OK);
  expect_exact(weight, SITU_SHAPE(1, 2), 5, 5);
  expect_same(situ_tree_get(dict, "weight"), old, 0, 0);
  assert_null(situ_grad(weight));
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE); /* it saved the old weight */
  situ_error_clear();
  assert_int_equal(situ_backward(situ_sum(situ_nn_forward(m, situ_detach(x)), NULL), NULL), SITU_OK);
  assert_int_equal(situ_optim_step(optim), SITU_OK);
  expect_exact(weight, SITU_SHAPE(1, 2), 4, 3);
  situ_tree_free(dict);
  situ_optim_free(optim);
  situ_nn_free(m);
}

/* A view, a module's own tensor, one that is there twice, another kind of dtype, another device: copied as always. */
static void what_cannot_be_swapped_is_copied(void **state) {
  (void)state;
  const situ_nn_load_options assign = { .assign = true };
  situ_nn_module *m = fc(test_device()), *other = fc(test_device()), *two;
  situ_tensor *both = T32(SITU_SHAPE(2, 2), 1, 2, 3, 4), *kept;
  situ_tree *dict = with(situ_tree_dict(), "weight", situ_narrow(both, 0, 1, 1));
  dict = with(dict, "bias", TI64(SITU_SHAPE(1), 9));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &assign), SITU_OK);
  expect_exact(situ_nn_get_tensor(m, "weight"), SITU_SHAPE(1, 2), 3, 4);
  expect_exact(situ_nn_get_tensor(m, "bias"), SITU_SHAPE(1), 9);
  assert_int_equal(situ_dtype_of(situ_nn_get_tensor(m, "bias")), SITU_F32);
  expect_exact(both, SITU_SHAPE(2, 2), 1, 2, 3, 4);
  situ_tree_free(dict);

  dict = situ_nn_state_dict(other);
  kept = situ_clone(situ_detach(situ_nn_get_tensor(other, "weight")));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &assign), SITU_OK);
  expect_same(situ_nn_get_tensor(m, "weight"), kept, 0, 0);
  expect_same(situ_nn_get_tensor(other, "weight"), kept, 0, 0);
  assert_false(situ_shares_storage(situ_nn_get_tensor(m, "weight"), situ_nn_get_tensor(other, "weight")));
  situ_tree_free(dict);

  two = situ_nn_sequential(situ_nn_linear(1, 1, &(situ_nn_linear_options){ .no_bias = true, HERE }),
                           situ_nn_linear(1, 1, &(situ_nn_linear_options){ .no_bias = true, HERE }));
  situ_tensor *once = T32(SITU_SHAPE(1, 1), 6);
  dict = with(with(situ_tree_dict(), "0.weight", once), "1.weight", once);
  assert_int_equal(situ_nn_load_state_dict(two, dict, &assign), SITU_OK);
  expect_exact(situ_nn_get_tensor(two, "0.weight"), SITU_SHAPE(1, 1), 6);
  expect_exact(situ_nn_get_tensor(two, "1.weight"), SITU_SHAPE(1, 1), 6);
  situ_tree_free(dict);

  situ_device cpu = { .kind = SITU_CPU };
  dict = values(SITU_F32);
  situ_nn_free(m);
  m = fc(meta());
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .assign = true, .device = cpu }), SITU_OK);
  assert_true(situ_device_equal(situ_nn_home(m), cpu));
  situ_tree_free(dict);
  situ_nn_free(m);
  situ_nn_free(other);
  situ_nn_free(two);
}

static void without_memory_nothing_changes(void **state) {
  (void)state;
  situ_nn_module *m = fc(test_device());
  situ_tensor *weight = situ_nn_get_tensor(m, "weight"), *old = situ_clone(situ_detach(weight));
  const situ_nn_rename row = { "gone", "weight" };
  const situ_nn_load_options o = { .assign = true, .rename = &row, .rename_count = 1 };
  situ_tree *dict = values(SITU_F32);
  uint64_t nth = 0;
  for (bool whole = false; !whole;) {
    assert_true(++nth < 500);
    situ_fail_allocation(nth, false);
    whole = situ_nn_load_state_dict(m, dict, &o) == SITU_OK;
    situ_fail_allocation(0, false);
    if (whole) break;
    expect_error(SITU_E_NOMEM, "", "");
    expect_same(weight, old, 0, 0);
    expect_exact(situ_tree_get(dict, "weight"), SITU_SHAPE(1, 2), 5, 5);
  }
  assert_true(nth > 10);
  expect_exact(weight, SITU_SHAPE(1, 2), 5, 5);
  situ_tree_free(dict);
  situ_nn_free(m);
}

/* A mapped file becomes the parameters: writing to them does not change the file. */
static void a_mapped_file_is_adopted(void **state) {
  (void)state;
  const char *path = "adopted.safetensors";
  const situ_device cpu = { .kind = SITU_CPU };
  situ_nn_module *saved = fc(cpu), *m = fc(meta());
  situ_tree *dict = situ_nn_state_dict(saved);
  assert_int_equal(situ_save(path, dict, &(situ_save_options){ .no_sync = true }), SITU_OK);
  situ_tree_free(dict);
  dict = situ_load(path, &(situ_load_options){ .map = true });
  void *memory = situ_data_ptr(situ_tree_get(dict, "weight"));
  assert_int_equal(situ_nn_load_state_dict(m, dict, &(situ_nn_load_options){ .assign = true }), SITU_OK);
  situ_tree_free(dict);
  situ_tensor *weight = situ_detach(situ_nn_get_tensor(m, "weight"));
  assert_ptr_equal(situ_data_ptr(weight), memory);
  expect_same(weight, situ_detach(situ_nn_get_tensor(saved, "weight")), 0, 0);
  situ_fill_(weight, 3);
  dict = situ_load(path, NULL);
  expect_same(situ_tree_get(dict, "weight"), situ_detach(situ_nn_get_tensor(saved, "weight")), 0, 0);
  situ_tree_free(dict);
  situ_nn_free(saved);
  situ_nn_free(m);
  assert_int_equal(remove(path), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    MODULE_TEST(whole_parts_are_replaced),
    MODULE_TEST(loads_under_other_names),
    MODULE_TEST(memory_is_taken_over),
    MODULE_TEST(values_are_swapped),
    MODULE_TEST(what_cannot_be_swapped_is_copied),
    MODULE_TEST(without_memory_nothing_changes),
    MODULE_TEST(a_mapped_file_is_adopted),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
