/* Files of torch.save: values equal to torch's, and what of them are weights.
   SPDX-License-Identifier: MIT */
#include "torch_files.h"

static const char *const names[] = { "dtypes",    "views",     "state",  "checkpoint", "protocol3",
                                     "protocol4", "protocol5", "legacy", "legacy4",    "script" };
enum { NAMES = sizeof names / sizeof *names };

static void finds_the_values_of_torch(void **state) {
  (void)state;
  static const situ_load_options ways[] = { { .map = false },
                                            { .map = true },
                                            { .map = true, .verify = SITU_VERIFY_ALWAYS } };
  for (size_t way = 0; way < 3; way++)
    for (int i = 0; i < NAMES; i++) {
      situ_tree *expected = load_named(names[i], ".safetensors", NULL);
      situ_tree *tree = load_named(names[i], ".pt", &ways[way]);
      assert_holds(tree, expected);
      situ_tree_free(tree);
      situ_tree_free(expected);
    }
}

/* Each tensor by itself, from an open file, as the entry describes it. */
static void loads_one_by_one(void **state) {
  (void)state;
  for (int i = 0; i < NAMES; i++) {
    char file[64];
    situ_tree *expected = load_named(names[i], ".safetensors", NULL);
    (void)snprintf(file, sizeof file, "%s.pt", names[i]);
    situ_safetensors *f = situ_safetensors_open(data_path(file), NULL);
    assert_string_equal(situ_safetensors_format(f), "torch");
    assert_true(situ_safetensors_count(f) > 0);
    for (int64_t k = 0; k < situ_safetensors_count(f); k++) {
      const situ_file_entry *e = situ_safetensors_entry(f, k);
      situ_tensor *t = situ_safetensors_load(f, e->name);
      assert_same(t, situ_tree_get(expected, e->name));
      assert_int_equal(e->bytes, situ_numel(t) * (int64_t)situ_dtype_size(e->dtype));
      assert_string_equal(situ_name(t), e->name);
    }
    situ_safetensors_close(f);
    situ_tree_free(expected);
  }
}

static void keeps_the_structure(void **state) {
  (void)state;
  situ_tree *tree = load_named("checkpoint", ".pt", NULL);
  assert_string_equal(situ_tree_key(tree, 0), "model"); /* the order of the file */
  assert_string_equal(situ_tree_key(situ_tree_find(tree, "model"), 0), "weight");
  assert_int_equal(situ_tree_kind_of(situ_tree_find(tree, "none")), SITU_TREE_NONE);
  assert_int_equal(situ_tree_kind_of(situ_tree_find(situ_tree_find(tree, "nested"), "empty")), SITU_TREE_DICT);
  const situ_tree *tuple = situ_tree_find(situ_tree_find(tree, "nested"), "tuple");
  assert_int_equal(situ_tree_count(tuple), 3);
  assert_int_equal(situ_tree_kind_of(situ_tree_at(situ_tree_at(tuple, 1), 2)), SITU_TREE_LIST);
  assert_false(situ_requires_grad(situ_tree_get(tree, "parameter")));
  situ_nn_module *linear = situ_nn_linear(3, 2, NULL);
  assert_int_equal(situ_nn_load_state_dict(linear, situ_tree_find(tree, "model"), NULL), SITU_OK);
  situ_nn_free(linear);
  situ_tree_free(tree);
  situ_safetensors *f = situ_safetensors_open(data_path("checkpoint.pt"), NULL);
  assert_string_equal(situ_safetensors_metadata(f, "epoch"), "3");
  assert_string_equal(situ_safetensors_metadata(f, "optimizer.param_groups.0.lr"), "0.01");
  assert_string_equal(situ_safetensors_metadata(f, "nested.tuple.2.1"), "true");
  assert_null(situ_safetensors_metadata(f, "none"));
  situ_safetensors_close(f);
  situ_tree *one = load_named("tensor", ".pt", NULL);
  assert_int_equal(situ_numel(situ_tree_value(one)), 6);
  situ_tree_free(one);
}

/* Views of one storage are views of one tensor, as in torch; a storage of one tensor is read as far as it is needed. */
static void shares_storages(void **state) {
  (void)state;
  for (int map = 0; map < 2; map++) {
    situ_tree *tree = load_named("views", ".pt", &(situ_load_options){ .map = map });
    float row[6];
    assert_non_null(situ_fill_(situ_tree_get(tree, "transposed"), 7));
    assert_int_equal(situ_copy_to_host(situ_tree_get(tree, "row"), row, sizeof row), SITU_OK);
    for (int i = 0; i < 6; i++) assert_true(row[i] == 7);
    situ_tree_free(tree);
  }
}

static void refuses_other_formats(void **state) {
  (void)state;
  refuse_file(data_path("big.pt"), SITU_E_UNSUPPORTED, "little-endian");
  refuse_file(data_path("big_legacy.pt"), SITU_E_UNSUPPORTED, "big-endian");
  char tar[512] = "sys_info";
  memcpy(tar + 257, "ustar", 5);
  write_bytes("old.pt", tar, sizeof tar);
  refuse_file("old.pt", SITU_E_UNSUPPORTED, "before version 0.1.10");
  refuse_file(data_path("../../program/data/mlp.pt2"), SITU_E_UNSUPPORTED, "situ_export_load");
  refuse_file(data_path("others.pt"), SITU_E_UNSUPPORTED, "which this library does not have");
  situ_safetensors *f = situ_safetensors_open(data_path("others.pt"), NULL);
  assert_int_equal(situ_safetensors_count(f), 14);
  for (int64_t i = 0; i < 14; i++) {
    const situ_file_entry *e = situ_safetensors_entry(f, i);
    const bool known = strcmp(e->name, "float32") == 0;
    assert_int_equal(e->dtype != SITU_DTYPE_DEFAULT, known);
    situ_tensor *t = situ_safetensors_load(f, e->name);
    assert_int_equal(t != NULL, known);
    if (!known) {
      assert_non_null(strstr(situ_error_message(), e->name));
      refused(SITU_E_UNSUPPORTED);
    }
  }
  situ_safetensors_close(f);
}

/* The state dict of a training program's file, and for each other value why it is left. */
static void takes_the_weights(void **state) {
  (void)state;
  static const situ_metadata left[] = { { "arch", "a string, not a tensor" },
                                        { "args", "an object of argparse.Namespace" },
                                        { "best_acc1", "a tensor outside of the state dict" },
                                        { "dtype", "torch.float32" },
                                        { "ema", "a tensor outside of the state dict" },
                                        { "epoch", "a number, not a tensor" },
                                        { "lr_scheduler", "a schedule's state" },
                                        { "optimizer", "an optimiser's state" },
                                        { "scheduler", "None" } };
  situ_metadata one;
  situ_tree *expected = load_named("weights", ".safetensors", NULL), *tree = load_weights("training.pth.tar");
  assert_holds(tree, expected);
  situ_nn_module *linear = situ_nn_linear(3, 2, NULL);
  assert_int_equal(situ_nn_load_state_dict(linear, tree, NULL), SITU_OK);
  situ_nn_free(linear);
  situ_tree_free(tree);
  tree = load_weights("checkpoint.pt");
  assert_holds(tree, expected);
  situ_tree_free(tree);
  situ_tree_free(expected);
  situ_safetensors *f = situ_safetensors_open(data_path("training.pth.tar"), NULL);
  for (int i = 0; i < 9; i++) {
    assert_true(situ_safetensors_left_at(f, i, &one));
    assert_string_equal(one.key, left[i].key);
    assert_string_equal(one.value, left[i].value);
  }
  assert_false(situ_safetensors_left_at(f, 9, &one) || situ_safetensors_left_at(f, -1, &one));
  assert_non_null(situ_safetensors_find(f, "ema.weight"));
  situ_safetensors_close(f);
  refuse_file(data_path("training.pth.tar"), SITU_E_UNSUPPORTED, "calls argparse.Namespace");
  assert_null(situ_load_weights(data_path("tensor.pt"), NULL));
  refused(SITU_E_FORMAT);
  /* Without one of the names: all but the optimiser's. */
  static const char other[] = "\200\002}(X\003\000\000\000net" TENSOR(
      SIX, LAYOUT) "X\005\000\000\000optim}X\001\000\000\000w" TENSOR(SIX, LAYOUT) "su.";
  write_archive("other.pt", other, sizeof other - 1);
  tree = situ_load_weights("other.pt", NULL);
  assert_int_equal(situ_tree_count(tree), 1);
  assert_string_equal(situ_tree_key(tree, 0), "net");
  situ_tree_free(tree);
}

/* TorchScript's attributes that are not tensors, and what its code has, are left. */
static void takes_weights_of_scripts(void **state) {
  (void)state;
  situ_tree *expected = load_named("script", ".safetensors", NULL), *tree = load_weights("script.pt");
  int64_t tensors = 0;
  for (int64_t k = 0; k < situ_tree_count(expected); k++) {
    const char *key = situ_tree_key(expected, k);
    if (strstr(key, "training") || strstr(key, "sizes") || strstr(key, "parts") || strcmp(key, "scale") == 0) continue;
    assert_same(situ_tree_get(tree, key), situ_tree_tensor_at(expected, k));
    tensors++;
  }
  assert_int_equal(situ_tree_count(tree), tensors);
  situ_tree_free(tree);
  situ_tree_free(expected);
}

/* Shards as transformers writes them: the dict of the index. */
static void reads_shards(void **state) {
  (void)state;
  situ_tree *expected = load_named("state", ".safetensors", NULL);
  situ_tree *trees[] = { load_named("shards.bin.index", ".json", NULL), load_weights("shards.bin.index.json") };
  for (int i = 0; i < 2; i++) {
    assert_holds(trees[i], expected);
    situ_tree_free(trees[i]);
  }
  situ_tree_free(expected);
  situ_safetensors *f = situ_safetensors_open(data_path("shards.bin.index.json"), NULL);
  assert_string_equal(situ_safetensors_format(f), "torch");
  assert_string_equal(situ_safetensors_find(f, "fc1.weight")->file, "shards-1.bin");
  assert_string_equal(situ_safetensors_find(f, "fc2.weight")->file, "shards-2.bin");
  situ_safetensors_close(f);
  size_t bytes;
  char *index = read_bytes(data_path("shards.bin.index.json"), &bytes);
  write_bytes("lone.bin.index.json", index, bytes); /* without its shards */
  free(index);
  refuse_file("lone.bin.index.json", SITU_E_IO, "shards-1.bin");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(finds_the_values_of_torch, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(loads_one_by_one, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(keeps_the_structure, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(takes_the_weights, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(takes_weights_of_scripts, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(reads_shards, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(shares_storages, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_other_formats, open_scope, close_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
