/* Files of torch.save: values equal to torch's, and nothing that a pickle may ask for is done.
   SPDX-License-Identifier: MIT */
#include "files.h"

#include <stdarg.h>

#include "../support/zip_memory.h"
#include "situ/nn.h"

/* Made by tools/exchange/files/torch_files.py; in the directory that the tests' own files are in. */
static const char *data_path(const char *name) {
  static char full[1024];
  (void)snprintf(full, sizeof full, "%s/io/data/%s", getenv("SITU_TEST_ROOT"), name);
  return full;
}

static const char *const names[] = { "dtypes",    "views",     "state",  "checkpoint", "protocol3",
                                     "protocol4", "protocol5", "legacy", "legacy4",    "script" };
enum { NAMES = sizeof names / sizeof *names };

static situ_tree *load_named(const char *name, const char *end, const situ_load_options *options) {
  char file[64];
  (void)snprintf(file, sizeof file, "%s%s", name, end);
  situ_tree *tree = situ_load(data_path(file), options);
  if (!tree) fail_msg("%s: %s", file, situ_error_message());
  return tree;
}

static void assert_holds(const situ_tree *tree, const situ_tree *expected) {
  situ_tree *flat = situ_tree_flatten(tree);
  assert_int_equal(situ_tree_count(flat), situ_tree_count(expected));
  for (int64_t k = 0; k < situ_tree_count(expected); k++)
    assert_same(situ_tree_get(flat, situ_tree_key(expected, k)), situ_tree_tensor_at(expected, k));
  situ_tree_free(flat);
}

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

static situ_tree *load_weights(const char *name) {
  situ_tree *tree = situ_load_weights(data_path(name), &(situ_load_options){ .map = true });
  if (!tree) fail_msg("%s: %s", name, situ_error_message());
  return tree;
}

static void refuse_file(const char *file, situ_status status, const char *word) {
  situ_tree *tree = situ_load(file, NULL);
  if (tree) fail_msg("%s: loaded, instead of: %s", file, word);
  if (!strstr(situ_error_message(), word)) fail_msg("\"%s\" does not say \"%s\"", situ_error_message(), word);
  refused(status);
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

static const uint8_t storage[24];

/* An archive of a pickle and a storage of six floats. order: what it says of the order of bytes. */
static void write_archive_of(const char *name, const char *order, const void *pickle, size_t bytes) {
  uint8_t *block = malloc(bytes + 1024);
  assert_non_null(block);
  zip_memory w = { .data = block };
  zip_memory_add(&w, "a/data.pkl", pickle, bytes);
  zip_memory_add(&w, "a/byteorder", order, strlen(order));
  zip_memory_add(&w, "a/data/0", storage, sizeof storage);
  zip_memory_end(&w);
  write_bytes(name, block, w.length);
  free(block);
}
static void write_archive(const char *name, const void *pickle, size_t bytes) {
  write_archive_of(name, "little", pickle, bytes);
}

#define STORAGE(key, count) \
  "(X\007\000\000\000storagectorch\nFloatStorage\nX\001\000\000\000" key "X\003\000\000\000cpu" count "tQ"
#define TENSOR(storage, layout) \
  "ctorch._utils\n_rebuild_tensor_v2\n(" storage layout "\211ccollections\nOrderedDict\n)RtR"
#define SIX STORAGE("0", "K\006")
#define LAYOUT "K\000K\002K\003\206K\003K\001\206"
#define LONG_8(bytes) "\212\010" bytes

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

/* ---- hostile files ---- */

typedef struct hostile {
  const char *word;
  const char *pickle; /* without the protocol */
  size_t bytes;
  situ_status status;
} hostile;
#define HOSTILE(word, pickle) \
  { word, pickle, sizeof pickle - 1, SITU_E_FORMAT }
#define CALLING(word, pickle) \
  { word, pickle, sizeof pickle - 1, SITU_E_UNSUPPORTED }

static const hostile hostiles[] = {
  CALLING("calls posix.system; only tensors", "cposix\nsystem\nX\004\000\000\000true\205R."),
  CALLING("calls os.system", "cos\nsystem\n)R."),
  CALLING("calls builtins.eval", "cbuiltins\neval\nX\001\000\000\0001\205R."),
  CALLING("calls __builtin__.eval", "c__builtin__\neval\n)R."),
  CALLING("calls builtins.getattr", "}X\001\000\000\000acbuiltins\ngetattr\n)Rs."),
  CALLING("calls posix.system", "X\005\000\000\000posixX\006\000\000\000system\223)R."),
  CALLING("calls posix.system", "(X\004\000\000\000trueiposix\nsystem\n."),
  CALLING("calls torch._utils._rebuild_qtensor", "ctorch._utils\n_rebuild_qtensor\n)R."),
  CALLING("calls torch._tensor._rebuild_from_type_v2", "ctorch._tensor\n_rebuild_from_type_v2\n)R."),
  CALLING("calls torch.nn.modules.linear.Linear", "ctorch.nn.modules.linear\nLinear\n)\201."),
  CALLING("calls torch.Size", "ctorch\nSize\n)R."),
  CALLING("calls os.system", "cos\nsystem\n)R)R."), /* a call of what a call makes */
  CALLING("calls builtins.dict", "cbuiltins\ndict\n)R(X\001\000\000\000aNu]a."),
  CALLING("calls __torchless.A", "c__torchless\nA\n)\201}b."),
  HOSTILE("more values", "(o."),
  CALLING("calls torch.FloatStorage", "ctorch\nFloatStorage\n)R."),
  CALLING("torch.float32; only tensors", "}X\001\000\000\000dctorch\nfloat32\ns."),
  CALLING("a storage without a tensor", SIX "."),
  HOSTILE("(NEWOBJ)", "ccollections\nOrderedDict\n)\201."),
  HOSTILE("(NEWOBJ_EX)", "ccollections\nOrderedDict\n)}\222."),
  HOSTILE("(OBJ)", "(ccollections\nOrderedDict\no."),
  HOSTILE("(INST)", "(icollections\nOrderedDict\n."),
  HOSTILE("(EXT)", "\202\001."),
  HOSTILE("(EXT)", "\204\001\000\000\000."),
  HOSTILE("(BUILD)", "}}X\010\000\000\000__dict__}sb."),
  HOSTILE("(BUILD)", "ccollections\nOrderedDict\n)R}X\011\000\000\000__class__Nsb."),
  HOSTILE("a list of pairs", "ccollections\nOrderedDict\n}\205R."),
  HOSTILE("a list of pairs", "ccollections\nOrderedDict\n](]Ne\205R."),
  HOSTILE("something other than a function", "}}R."),
  HOSTILE("something other than a function", "ccollections\nOrderedDict\n}R."),
  HOSTILE("with a set", "\217."),
  HOSTILE("with bytes", "C\001a."),
  HOSTILE("opcode 0x32", "N2."),
  HOSTILE("opcode 0x49", "I1\n."),
  HOSTILE("opcode 0x50", "P0\n."),
  HOSTILE("never saw", "h\000."),
  HOSTILE("never saw", "j\377\377\377\377."),
  HOSTILE("never saw", "}q\002h\001."),
  HOSTILE("beyond its length", "}r\377\377\377\377."),
  HOSTILE("takes more values", "q\000."),
  HOSTILE("takes more values", "R."),
  HOSTILE("takes more values", "N\206."),
  HOSTILE("takes more values", "N(\205."), /* a mark is not a value */
  HOSTILE("a mark", "t."),
  HOSTILE("one value", "NN."),
  HOSTILE("one value", "."),
  HOSTILE("one value", "(N."),
  HOSTILE("ends too early", ""),
  HOSTILE("ends too early", "N"),
  HOSTILE("ends too early", "X\377\377\377\377a."),
  HOSTILE("ends too early", "\215\377\377\377\377\377\377\377\377a."),
  HOSTILE("ends too early", "cposix"),
  HOSTILE("after its end", "N.N"),
  HOSTILE("a frame", "\225\377\377\377\377\377\377\377\377N."),
  CALLING("more than 64 bits", "\212\011\000\000\000\000\000\000\000\000\001."),
  CALLING("more than 64 bits", "\213\377\377\377\177."),
  HOSTILE("not UTF-8", "X\001\000\000\000\377."),
  HOSTILE("neither a string", "}NNs."),
  HOSTILE("neither a string", "}\210Ns."),
  HOSTILE("neither a string", "}X\001\000\000\000\000Ns."), /* a key that ends before its end */
  HOSTILE("no value", "}(Nu."),
  HOSTILE("other than a dict", "](X\001\000\000\000aNu."),
  HOSTILE("other than a list", "}Na."),
  /* Two items with one key, and a key that is another's path. */
  HOSTILE("has 'a' twice", "}(X\001\000\000\000aK\001X\001\000\000\000aK\002u."),
  HOSTILE("has 'a.b' twice", "}(X\003\000\000\000a.bK\001X\001\000\000\000a}X\001\000\000\000bK\002su."),
  HOSTILE("persistent id", "NQ."),
  HOSTILE("persistent id", "X\001\000\000\0000Q."),
  HOSTILE("persistent id",
          "(X\007\000\000\000storageccollections\nOrderedDict\nX\001\000\000\0000X\001\000\000\000cK\006tQ."),
  HOSTILE("missing or of another size", TENSOR(STORAGE("0", "K\007"), LAYOUT) "."),
  HOSTILE("missing or of another size", TENSOR(STORAGE("1", "K\006"), LAYOUT) "."),
  HOSTILE("missing or of another size", TENSOR(STORAGE("0", "M\000\100"), LAYOUT) "."),
  HOSTILE("no file has", STORAGE("0", LONG_8("\000\000\000\000\000\000\000\100")) "."), /* 2^62 floats */
  HOSTILE("no file has", STORAGE("0", LONG_8("\377\377\377\377\377\377\377\177")) "."),
  HOSTILE("no file has", STORAGE("0", "J\377\377\377\377") "."),
  HOSTILE("outside of its storage", TENSOR(SIX, "K\001K\002K\003\206K\003K\001\206") "."),
  HOSTILE("outside of its storage", TENSOR(SIX, "K\007K\000\205K\001\205") "."),
  HOSTILE("outside of its storage", TENSOR(SIX, "K\000K\002K\003\206K\004K\001\206") "."),
  HOSTILE("outside of its storage",
          TENSOR(SIX, "K\000K\002" LONG_8("\000\000\000\000\000\000\000\100") "\206K\000K\000\206") "."),
  HOSTILE("outside of its storage",
          TENSOR(SIX, "K\000K\000" LONG_8("\377\377\377\377\377\377\377\177") "\206K\000K\000\206") "."),
  HOSTILE("outside of its storage", TENSOR(SIX, LONG_8("\377\377\377\377\377\377\377\177") "K\002\205K\001\205") "."),
  HOSTILE("outside of its storage",
          TENSOR(SIX, "K\001K\002\205" LONG_8("\377\377\377\377\377\377\377\177") "\205") "."),
  HOSTILE("sizes and strides", TENSOR(SIX, "K\000J\377\377\377\377\205K\001\205") "."),
  HOSTILE("sizes and strides", TENSOR(SIX, "K\005K\002\205J\377\377\377\377\205") "."), /* a view that is turned */
  HOSTILE("sizes and strides", TENSOR(SIX, "K\000K\002\205K\001K\001\206") "."),
  HOSTILE("sizes and strides", TENSOR(SIX, "K\000(K\001K\001K\001K\001K\001K\001K\001K\001K\001t)") "."),
  HOSTILE("other parts", TENSOR(SIX, "J\377\377\377\377K\002\205K\001\205") "."),
  HOSTILE("other parts", TENSOR("N", LAYOUT) "."),
  HOSTILE("other parts", "ctorch._utils\n_rebuild_tensor_v2\n)R."),
  HOSTILE("other parts", "ctorch._utils\n_rebuild_tensor_v2\n(" SIX LAYOUT "\211}X\001\000\000\000aNstR."), /* a hook */
  HOSTILE("other parts", "ctorch._utils\n_rebuild_parameter\n(N\210}tR."),
  HOSTILE("a dtype", "ctorch._utils\n_rebuild_tensor_v3\n(" SIX LAYOUT "\211}ctorch\nfloat64\ntR."),
  HOSTILE("a dtype", "ctorch._utils\n_rebuild_tensor_v3\n(" SIX LAYOUT "\211}NtR."),
};

static void refuses_what_is_hostile(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof hostiles / sizeof *hostiles; i++) {
    const hostile *h = &hostiles[i];
    char *pickle = malloc(h->bytes + 2);
    pickle[0] = '\200', pickle[1] = 2;
    memcpy(pickle + 2, h->pickle, h->bytes);
    write_archive("hostile.pt", pickle, h->bytes + 2);
    free(pickle);
    refuse_file("hostile.pt", h->status, h->word);
  }
  static const char *const others[] = { "", "N.", "\200\001N.", "\200\006N." };
  for (size_t i = 0; i < 4; i++) {
    write_archive("hostile.pt", others[i], strlen(others[i]));
    refuse_file("hostile.pt", SITU_E_FORMAT, "protocol 2 to 5");
  }
  /* The same tensor, in order. */
  static const char good[] = "\200\002" TENSOR(SIX, LAYOUT) ".";
  write_archive("good.pt", good, sizeof good - 1);
  situ_tree *tree = situ_load("good.pt", NULL);
  assert_int_equal(situ_numel(situ_tree_value(tree)), 6);
  situ_tree_free(tree);
}

/* Files of before version 1.6: what torch writes before and behind the pickle. */
#define MAGIC "\200\002\212\012l\374\234\106\371 j\250P\031."
#define HEAD MAGIC "\200\002M\351\003.\200\002}X\015\000\000\000little_endian\210s."
#define OBJECT "\200\002" TENSOR(SIX, LAYOUT) "."
#define KEYS "\200\002]X\001\000\000\0000a."
#define TWICE "\200\002](X\001\000\000\0000X\001\000\000\0000e."
#define SIX_OF(count) count "\000\000\000\000\000\000\000" TWELVE TWELVE
#define TWELVE "\000\000\000\000\000\000\000\000\000\000\000\000"

static const hostile legacies[] = {
  CALLING("other than 1001", MAGIC "\200\002M\352\003."),
  HOSTILE("does not say", MAGIC "\200\002M\351\003.\200\002]."),
  CALLING("big-endian", MAGIC "\200\002M\351\003.\200\002}X\015\000\000\000little_endian\211s."),
  HOSTILE("ends too early", MAGIC),
  HOSTILE("ends too early", HEAD),
  HOSTILE("ends too early", HEAD OBJECT),
  HOSTILE("more values", HEAD "\200\002R."),
  CALLING("calls posix.system", HEAD "\200\002cposix\nsystem\n)R.\200\002]."),
  CALLING("part of another", HEAD "\200\002(X\007\000\000\000storagectorch\nFloatStorage\nX\001\000\000\0000X\003\000"
                                  "\000\000cpuK\006)tQ."),
  HOSTILE("64 levels", HEAD "\200\002]q\000h\000a.\200\002]."),
  HOSTILE("not a list of strings", HEAD OBJECT "\200\002}."),
  HOSTILE("not a list of strings", HEAD OBJECT "\200\002]K\001a."),
  HOSTILE("missing or of another size", HEAD OBJECT "\200\002]."),
  HOSTILE("that no tensor has", HEAD OBJECT "\200\002]X\001\000\000\0001a." SIX_OF("\006")),
  HOSTILE("more keys", HEAD OBJECT TWICE),
  HOSTILE("twice", HEAD "\200\002" TENSOR(SIX, LAYOUT) TENSOR(SIX, LAYOUT) "\206." TWICE SIX_OF("\006") SIX_OF("\006")),
  HOSTILE("not all in the file", HEAD OBJECT KEYS),
  HOSTILE("not all in the file", HEAD OBJECT KEYS SIX_OF("\007")),
  HOSTILE("not all in the file", HEAD OBJECT KEYS "\377\377\377\377\377\377\377\377" TWELVE TWELVE),
  HOSTILE("not all in the file", HEAD OBJECT KEYS "\000\000\000\000\000\000\000\100" TWELVE TWELVE),
  HOSTILE("missing or of another size", HEAD OBJECT KEYS "\003\000\000\000\000\000\000\000" TWELVE),
  HOSTILE("after its last storage", HEAD OBJECT KEYS SIX_OF("\006") "x"),
};

static void refuses_hostile_legacies(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof legacies / sizeof *legacies; i++) {
    const hostile *h = &legacies[i];
    write_bytes("hostile.pt", h->pickle, h->bytes);
    refuse_file("hostile.pt", strcmp(h->word, "64 levels") ? h->status : SITU_E_LIMIT, h->word);
  }
  /* The last is well, but for what follows. Python 2 writes short strings, remembers from 1 on, and makes an OrderedDict
     of pairs. */
  static const char old[] = HEAD "\200\002ccollections\nOrderedDict\nq\001](]q\002(U\001wctorch._utils\n_rebuild_tensor"
                                 "\n(" SIX LAYOUT "tRee\205R." KEYS SIX_OF("\006");
  write_bytes("old.pt", old, sizeof old - 1);
  situ_tree *trees[] = { situ_load("hostile.pt", &(situ_load_options){ .lenient = true }), situ_load("old.pt", NULL) };
  assert_int_equal(situ_numel(situ_tree_value(trees[0])), 6);
  assert_int_equal(situ_numel(situ_tree_get(trees[1], "w")), 6);
  situ_tree_free(trees[0]);
  situ_tree_free(trees[1]);
}

/* The pickles of such a file are longer than what is read at first. */
static void reads_long_legacies(void **state) {
  (void)state;
  enum { COUNT = 100000 };
  const size_t head = sizeof HEAD - 1;
  char *file = malloc(head + 2 * COUNT + 16), *to = file + head;
  memcpy(file, HEAD "\200\002](", head + 4);
  for (to += 4; to < file + head + 4 + 2 * COUNT;) *to++ = 'K', *to++ = 7;
  memcpy(to, "e.\200\002].", 6);
  write_bytes("long.pt", file, (size_t)(to + 6 - file));
  free(file);
  situ_tree *tree = situ_load("long.pt", NULL);
  if (!tree) fail_msg("%s", situ_error_message());
  assert_int_equal(situ_tree_count(tree), COUNT);
  situ_tree_free(tree);
}

/* A line's end, and blanks, may follow the word; nothing else may. */
static void reads_the_order_of_bytes(void **state) {
  (void)state;
  static const char good[] = "\200\002" TENSOR(SIX, LAYOUT) ".";
  static const char *const orders[] = { "little\n", "little\r\n", "little ", "littles", "little\nx", "litt", "big" };
  for (int i = 0; i < 7; i++) {
    write_archive_of("order.pt", orders[i], good, sizeof good - 1);
    if (i >= 3) {
      refuse_file("order.pt", SITU_E_UNSUPPORTED, "little-endian");
      continue;
    }
    situ_tree *tree = situ_load("order.pt", NULL);
    if (!tree) fail_msg("\"%s\": %s", orders[i], situ_error_message());
    situ_tree_free(tree);
  }
}

/* Lists in lists, so many levels deep. */
static void write_levels(size_t levels) {
  char *pickle = malloc(2 * levels + 2);
  memcpy(pickle, "\200\002", 2);
  memset(pickle + 2, ']', levels);
  memset(pickle + 2 + levels, 'a', levels - 1);
  pickle[2 * levels + 1] = '.';
  write_archive("deep.pt", pickle, 2 * levels + 2);
  free(pickle);
}

/* 64 levels below the first are read, more are not, and neither are lists that contain themselves, or so many of each other that a few
   bytes would be 2^60 nodes. */
static void refuses_recursion(void **state) {
  (void)state;
  write_levels(65);
  situ_tree *tree = situ_load("deep.pt", NULL);
  assert_non_null(tree);
  situ_tree_free(tree);
  write_levels(66);
  assert_null(situ_load("deep.pt", NULL));
  refused(SITU_E_LIMIT);
  write_levels(100000);
  refuse_file("deep.pt", SITU_E_LIMIT, "64 levels");
  static const char self[] = "\200\002]q\000h\000a.", twice[] = "\200\002]q\000(h\000h\000e.";
  write_archive("deep.pt", self, sizeof self - 1);
  refuse_file("deep.pt", SITU_E_LIMIT, "64 levels");
  write_archive("deep.pt", twice, sizeof twice - 1);
  refuse_file("deep.pt", SITU_E_LIMIT, "64 levels");
  char pickle[512] = "\200\002(Nq";
  size_t n = 6; /* with the number of the first thing that is remembered */
  for (char k = 0; k < 60; k++, n += 7)
    memcpy(pickle + n, (const char[]){ 'h', k, 'h', k, '\206', 'q', (char)(k + 1) }, 7);
  memcpy(pickle + n, "t.", 2);
  write_archive("deep.pt", pickle, n + 2);
  refuse_file("deep.pt", SITU_E_LIMIT, "more often than the file is long");
}

/* ---- damaged files ---- */

static void refuses_every_prefix(void **state) {
  (void)state;
  static const char *const files[] = { "state.pt", "training.pth.tar", "script.pt" };
  for (size_t i = 0; i < 3; i++) {
    size_t bytes;
    char *file = read_bytes(data_path(files[i]), &bytes);
    for (size_t n = 0; n < bytes; n += i == 2 ? 7 : 1) {
      char *exact = malloc(n + 1);
      memcpy(exact, file, n);
      write_bytes("cut.pt", exact, n);
      free(exact);
      assert_null(situ_load_weights("cut.pt", NULL));
      assert_int_not_equal(situ_error(), SITU_OK);
      situ_error_clear();
    }
    free(file);
  }
}

/* A changed byte is an error, or changes a value or a name; with checksums it is an error, or outside of both. */
static void any_byte_may_be_wrong(void **state) {
  (void)state;
  size_t bytes, loaded = 0;
  char *file = read_bytes(data_path("checkpoint.pt"), &bytes);
  situ_tree *expected = load_named("checkpoint", ".safetensors", NULL);
  for (size_t at = 0; at < bytes; at++) {
    file[at] ^= (char)(1 << at % 8);
    write_bytes("wrong.pt", file, bytes);
    situ_tree *tree = situ_load("wrong.pt", NULL);
    loaded += tree != NULL;
    assert_int_equal(tree == NULL, situ_error() != SITU_OK);
    situ_tree_free(tree);
    situ_error_clear();
    tree = situ_load("wrong.pt", &(situ_load_options){ .verify = SITU_VERIFY_ALWAYS });
    situ_error_clear();
    if (tree) assert_holds(tree, expected);
    situ_tree_free(tree);
    file[at] ^= (char)(1 << at % 8);
  }
  assert_true(loaded > 0 && loaded < bytes);
  situ_tree_free(expected);
  free(file);
}

/* Without checksums: an error, or other values. */
static void any_byte_of_a_legacy_may_be_wrong(void **state) {
  (void)state;
  size_t bytes, loaded = 0;
  char *file = read_bytes(data_path("training.pth.tar"), &bytes);
  for (size_t at = 0; at < bytes; at++) {
    file[at] ^= (char)(1 << at % 8);
    write_bytes("wrong.pt", file, bytes);
    situ_tree *tree = situ_load_weights("wrong.pt", NULL);
    loaded += tree != NULL;
    assert_int_equal(tree == NULL, situ_error() != SITU_OK);
    situ_tree_free(tree);
    situ_error_clear();
    file[at] ^= (char)(1 << at % 8);
  }
  assert_true(loaded > 0 && loaded < bytes);
  free(file);
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
    cmocka_unit_test_setup_teardown(refuses_what_is_hostile, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_hostile_legacies, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(reads_long_legacies, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(reads_the_order_of_bytes, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_recursion, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(refuses_every_prefix, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(any_byte_may_be_wrong, open_scope, close_scope),
    cmocka_unit_test_setup_teardown(any_byte_of_a_legacy_may_be_wrong, open_scope, close_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
