/* Files of torch.save that are damaged or made to harm: nothing that a pickle may ask for is done.
   SPDX-License-Identifier: MIT */
#include "torch_files.h"

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
