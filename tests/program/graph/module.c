/* A program as a module: names, printing, copies, modes, casts; and what it refuses, when it is loaded and when it is
   called.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "program/pt2/pt2.h"
#include "support/scope.h"
#include "situ/situ.h"
#include "situ/sys/alloc.h"

static char bytes[256 << 10];
static size_t size;

static void read_program(const char *name) {
  const char *root = getenv("SITU_TEST_ROOT");
  char path[512];
  (void)snprintf(path, sizeof path, "%s/program/data/%s.pt2", root ? root : ".", name);
  FILE *f = fopen(path, "rb");
  if (!f) fail_msg("%s: cannot be opened", path);
  size = fread(bytes, 1, sizeof bytes, f);
  assert_int_equal(fclose(f), 0);
}

/* Loads what is in `bytes`. */
static situ_nn_module *load(const situ_load_options *options) {
  FILE *f = fopen("changed.pt2", "wb");
  assert_non_null(f);
  assert_true(fwrite(bytes, 1, size, f) == size);
  assert_int_equal(fclose(f), 0);
  return situ_export_load("changed.pt2", options);
}

/* Replaces every occurrence of a text by another of the same length. Checksums are not compared unless asked for. */
static void replace(const char *from, const char *to) {
  const size_t length = strlen(from);
  int count = 0;
  assert_int_equal(length, strlen(to));
  for (size_t at = 0; at + length <= size; at++)
    if (memcmp(bytes + at, from, length) == 0) {
      memcpy(bytes + at, to, length);
      count++;
    }
  if (!count) fail_msg("the file has no \"%s\"", from);
}

static void expect_error(situ_status status, const char *word) {
  if (situ_error() != status || !strstr(situ_error_message(), word))
    fail_msg("%s: \"%s\" does not say \"%s\"", situ_status_name(situ_error()), situ_error_message(), word);
  situ_error_clear();
}

static void refuses(const char *program, const char *from, const char *to, situ_status status, const char *word) {
  read_program(program);
  replace(from, to);
  situ_nn_module *m = load(NULL);
  if (m) fail_msg("\"%s\" was accepted", to);
  expect_error(status, word);
}

/* ---- as a module ---- */

static void has_torchs_names_and_classes(void **state) {
  (void)state;
  char text[1024];
  read_program("tiny-bert");
  situ_nn_module *m = load(&(situ_load_options){ .map = true });
  assert_non_null(m);
  assert_true(situ_nn_to_string(m, text, sizeof text) > 0);
  assert_non_null(strstr(text, "BertModel(\n  (embeddings): BertEmbeddings(\n    (word_embeddings): Embedding()"));
  situ_tree *parameters = situ_nn_parameters(m), *dict = situ_nn_state_dict(m);
  assert_non_null(situ_tree_get(parameters, "encoder.layer.0.attention.self.query.weight"));
  assert_null(situ_tree_find(dict, "embeddings.position_ids")); /* not persistent */
  assert_non_null(situ_nn_get_tensor(m, "embeddings.position_ids"));
  assert_int_equal(situ_export_result_at(m, 0, text, sizeof text), strlen("last_hidden_state"));
  assert_string_equal(text, "last_hidden_state");
  assert_int_equal(situ_export_result_at(m, 99, text, sizeof text), -1);
  situ_tree_free(parameters);
  situ_tree_free(dict);
  situ_nn_free(m);
}

static void ties_what_was_tied(void **state) {
  (void)state;
  read_program("tiny-gpt2");
  situ_nn_module *m = load(NULL);
  assert_non_null(m);
  assert_ptr_equal(situ_nn_get_tensor(m, "lm_head.weight"), situ_nn_get_tensor(m, "transformer.wte.weight"));
  situ_nn_free(m);
}

static situ_tensor *input(int64_t batch) {
  situ_manual_seed(3);
  return situ_randn(SITU_SHAPE(batch, 6), NULL);
}

static void expect_equal(situ_tensor *a, situ_tensor *b, bool wanted) {
  bool equal = false;
  assert_int_equal(situ_equal(a, b, &equal), SITU_OK);
  assert_int_equal(equal, wanted);
}

static void is_copied_cast_and_checked_dry(void **state) {
  (void)state;
  read_program("mlp");
  situ_nn_module *m = load(NULL), *copy = situ_nn_clone(m);
  assert_non_null(copy);
  situ_tensor *y = situ_nn_forward(m, input(4));
  situ_nn_free(m); /* the copy lives on */
  expect_equal(situ_nn_forward(copy, input(4)), y, true);
  assert_int_equal(situ_nn_to_dtype(copy, SITU_F64), SITU_OK);
  situ_tensor *wide = situ_nn_forward(copy, situ_to_dtype(input(4), SITU_F64));
  assert_int_equal(situ_dtype_of(wide), SITU_F64);
  bool close = false;
  assert_int_equal(situ_allclose(situ_to_dtype(wide, SITU_F32), y, 1e-5, 1e-6, false, &close), SITU_OK);
  assert_true(close);
  situ_nn_free(copy);
}

/* Exported in eval mode: its dropout never acts. With `train` true in the file it follows the module. */
static void dropout_follows_the_file_and_the_module(void **state) {
  (void)state;
  read_program("mlp");
  situ_nn_module *m = load(NULL);
  assert_non_null(m);
  situ_tensor *y = situ_nn_forward(m, input(4));
  expect_equal(situ_nn_forward(m, input(4)), y, true);
  situ_nn_free(m);
  replace("\"name\": \"train\", \"arg\": {\"as_bool\": false}", "\"name\": \"train\", \"arg\": {\"as_bool\": true }");
  m = load(NULL);
  assert_non_null(m);
  expect_equal(situ_nn_forward(situ_nn_train(m, true), input(4)), y, false);
  expect_equal(situ_nn_forward(situ_nn_eval(m), input(4)), y, true);
  situ_nn_free(m);
}

/* No probability, but a number as JSON has none; in eval mode it is not looked at. */
static void numbers_may_be_nan(void **state) {
  (void)state;
  read_program("mlp");
  replace("\"arg\": {\"as_float\": 0.1}", "\"arg\":{\"as_float\":\"NaN\"}");
  situ_nn_module *m = load(NULL);
  if (!m) fail_msg("%s", situ_error_message());
  situ_nn_free(m);
  refuses("mlp", "\"arg\": {\"as_float\": 0.1}", "\"arg\":{\"as_float\":\"nan\"}", SITU_E_UNSUPPORTED,
          "needs a number as p");
}

/* ---- what is refused ---- */

static void refuses_wrong_inputs(void **state) {
  (void)state;
  read_program("mlp");
  situ_nn_module *m = load(NULL);
  assert_non_null(m);
  assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(4, 7), NULL)));
  expect_error(SITU_E_SHAPE, "input input is f32 [4, 7], but the program takes f32 [");
  assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(6), NULL)));
  expect_error(SITU_E_SHAPE, "input input is f32 [6]");
  assert_null(situ_nn_forward(m, situ_zeros(SITU_SHAPE(4, 6), &(situ_options){ .dtype = SITU_I64 })));
  expect_error(SITU_E_DTYPE, "is i64");
  assert_null(situ_nn_forward2(m, input(2), input(2)));
  expect_error(SITU_E_ARG, "takes 1 inputs (input), not 2");
  situ_nn_free(m);
}

static void lists_what_it_lacks(void **state) {
  (void)state;
  read_program("mlp");
  replace("torch.ops.aten.silu.default", "torch.ops.aten.sulu.default");
  replace("torch.ops.aten.tanh.default", "torch.ops.aten.tunh.default");
  assert_null(load(NULL));
  const char *said = situ_error_message();
  assert_non_null(strstr(said, "has 2 calls that this library lacks: torch.ops.aten.sulu.default, "
                               "torch.ops.aten.tunh.default"));
  assert_non_null(strstr(said, "\n  graph.nodes[1] silu: torch.ops.aten.sulu.default, in 1, from activation.py:"));
  assert_non_null(strstr(said, "in 1, from activation.py:"));
  expect_error(SITU_E_UNSUPPORTED, "tunh");
}

static void refuses_other_files(void **state) {
  (void)state;
  refuses("mlp", "\"major\": 8", "\"major\": 9", SITU_E_UNSUPPORTED, "is of schema 9, and only 8 is read");
  refuses("mlp", "\"use_pickle\": false", "\"use_pickle\": true ", SITU_E_UNSUPPORTED, "pickled");
  refuses("mlp", "\"train\"", "\"trein\"", SITU_E_UNSUPPORTED, "dropout.default");
  refuses("mlp", "{\"as_float\": 0.1}", "{\"as_bools\": [ ]}", SITU_E_UNSUPPORTED, "needs a number as p");
  refuses("mlp", "{\"name\": \"silu\"}", "{\"name\": \"silu\"]", SITU_E_FORMAT, "model.json");
  refuses("mlp", "\"graph\":", "\"grape\":", SITU_E_FORMAT, "has no graph");
}

/* Reads mlp, with another call in place of its dropout, which does nothing. */
static void read_with_call(const char *call) {
  static const char before[] =
      "dropout.default\", \"inputs\": [{\"name\": \"input\", \"arg\": {\"as_tensor\": {\"name\": "
      "\"tanh\"}}, \"kind\": 1}, {\"name\": \"p\", \"arg\": {\"as_float\": 0.1}, \"kind\": 1}, "
      "{\"name\": \"train\", \"arg\": {\"as_bool\": false}, \"kind\": 1}], \"outputs\": [{\"as_tensor\": {\"name\": "
      "\"dropout\"}}], \"metadata\": {\"stack_trace\": \"File \\\"dropout.py\\\", line 73, in forward\\n    return "
      "F.dropout(input, self.p, self.training, self.inplace)\", ";
  char after[sizeof before];
  assert_true(snprintf(after, sizeof after, "%s, \"metadata\": {%-*s", call,
                       (int)(sizeof before - sizeof ", \"metadata\": {" - strlen(call)), "") < (int)sizeof after);
  read_program("mlp");
  replace(before, after);
}
static situ_nn_module *with_call(const char *call) {
  read_with_call(call);
  replace("\"dropout\": {\"dtype\"", "\"another\": {\"dtype\""); /* what the file declares of dropout */
  situ_nn_module *m = load(NULL);
  if (!m) fail_msg("%s", situ_error_message());
  return m;
}
#define TANH "{\"as_tensor\": {\"name\": \"tanh\"}}"
#define GIVES_DROPOUT "\"outputs\": [{\"as_tensor\": {\"name\": \"dropout\"}}]"

static void lists_give_lists(void **state) {
  (void)state;
  read_program("mlp");
  situ_nn_module *m = load(NULL);
  situ_tensor *y = situ_nn_forward(m, input(4));
  situ_nn_free(m);
  m = with_call("atleast_1d.Sequence\", \"inputs\": [{\"name\": \"tensors\", \"arg\": {\"as_tensors\": [{\"name\": "
                "\"tanh\"}]}}], \"outputs\": [{\"as_tensors\": [{\"name\": \"dropout\"}]}]");
  expect_equal(situ_nn_forward(m, input(4)), y, true);
  situ_nn_free(m);
}

/* Only what has the shape [0] fits everything. */
static void joins_leave_out_nothing_else(void **state) {
  (void)state;
  static const char *const with[] = { "p_2_bias", "input" };
  for (int i = 0; i < 2; i++) {
    char call[256];
    (void)snprintf(call, sizeof call,
                   "cat.default\", \"inputs\": [{\"name\": \"tensors\", \"arg\": {\"as_tensors\": [{\"name\": "
                   "\"p_2_weight\"}, {\"name\": \"%s\"}]}}], " GIVES_DROPOUT,
                   with[i]);
    situ_nn_module *m = with_call(call);
    assert_null(situ_nn_forward(m, input(0)));
    expect_error(SITU_E_SHAPE, "cat.default");
    situ_nn_free(m);
  }
}

/* With so large a tolerance every matrix is taken for 0. */
static void ranks_have_tolerances(void **state) {
  (void)state;
  situ_nn_module *m = with_call("linalg_pinv.atol_rtol_float\", \"inputs\": [{\"name\": \"self\", \"arg\": " TANH
                                "}, {\"name\": \"atol\", \"arg\": {\"as_float\": 1e9}}], " GIVES_DROPOUT);
  situ_tensor *bias = situ_nn_get_tensor(m, "5.bias");
  expect_equal(situ_nn_forward(m, input(16)), situ_expand(bias, SITU_SHAPE(16, 3)), true);
  situ_nn_free(m);
}

/* The mean of groups of one element is the elements; there are statistics of an empty batch, too. */
static void group_norms_have_statistics(void **state) {
  (void)state;
  static const char *const results[] = { "dropout", "mean" };
  read_program("mlp");
  situ_nn_module *m = load(NULL);
  situ_tensor *y = situ_nn_forward(m, input(4));
  situ_nn_free(m);
  for (int i = 0; i < 2; i++) {
    char call[640];
    (void)snprintf(call, sizeof call,
                   "native_group_norm.default\",\"inputs\":[{\"name\":\"input\",\"arg\":" TANH
                   "},{\"name\":\"N\",\"arg\":{\"as_int\":4}},{\"name\":\"C\",\"arg\":{\"as_int\":16}},"
                   "{\"name\":\"HxW\",\"arg\":{\"as_int\":1}},{\"name\":\"group\",\"arg\":{\"as_int\":16}},"
                   "{\"name\":\"eps\",\"arg\":{\"as_float\":1}}],\"outputs\":[{\"as_tensor\":{\"name\":\"%s\"}},"
                   "{\"as_tensor\":{\"name\":\"%s\"}},{\"as_tensor\":{\"name\":\"rstd\"}}]",
                   results[i], results[!i]);
    m = with_call(call);
    expect_equal(situ_nn_forward(m, input(4)), y, i == 1);
    situ_tensor *none = situ_nn_forward(m, input(0));
    if (!none) fail_msg("%s", situ_error_message());
    assert_int_equal(situ_size(none, 0), 0);
    situ_nn_free(m);
  }
}

/* A padding that is a tensor has values only in a run, and may have too many. */
static void paddings_may_be_tensors(void **state) {
  (void)state;
  situ_nn_module *m = with_call("constant_pad_nd.default\", \"inputs\": [{\"name\": \"self\", \"arg\": " TANH
                                "}, {\"name\": \"pad\", \"arg\": " TANH "}], " GIVES_DROPOUT);
  assert_null(situ_nn_forward(m, input(100)));
  expect_error(SITU_E_LIMIT, "has 1600 values where at most 16 are read");
  situ_nn_free(m);
}

/* What a double holds is a number of any argument. */
static void large_whole_numbers(void **state) {
  (void)state;
  static const struct {
    const char *value;
    bool fits;
  } rows[] = { { "-9223372036854775808", true },
               { "4611686018427387904", true },
               { "9007199254740993", false },
               { "-9223372036854775807", false },
               { "9223372036854775807", false } };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char call[320];
    (void)snprintf(
        call, sizeof call,
        "constant_pad_nd.default\", \"inputs\": [{\"name\": \"self\", \"arg\": " TANH
        "}, {\"name\": \"pad\", \"arg\": {\"as_ints\": [1, -1]}}, {\"name\": \"value\", \"arg\": {\"as_int\": "
        "%s}}], " GIVES_DROPOUT,
        rows[i].value);
    situ_nn_module *m = with_call(call);
    situ_tensor *y = situ_nn_forward(m, input(4));
    if (!y != !rows[i].fits) fail_msg("%s: %s", rows[i].value, y ? "runs" : situ_error_message());
    if (!y) expect_error(SITU_E_UNSUPPORTED, "beyond 2^53 that a double does not hold");
    situ_nn_free(m);
  }
  situ_nn_module *m = with_call("arange.start_step\", \"inputs\": [{\"name\": \"start\", \"arg\": {\"as_int\": 0}}, "
                                "{\"name\": \"end\", \"arg\": {\"as_int\": -9223372036854775808}}, "
                                "{\"name\": \"step\", \"arg\": {\"as_int\": -1}}], " GIVES_DROPOUT);
  assert_null(situ_nn_forward(m, input(4)));
  expect_error(SITU_E_UNSUPPORTED, "2^63 steps or more");
  situ_nn_free(m);
}

/* ---- sizes that are declared by expressions ---- */

#define HINT "\", \"hint\": {\"as_int\": "
/* Puts another expression and hint in place of each size that the file leaves free, of a mlp that squeezes. */
static void read_with_sizes(const char *text) {
  static const char before[] = "\"Symbol('s31', positive=True, integer=True)" HINT "2}";
  char after[sizeof before];
  assert_true(snprintf(after, sizeof after, "%-*s", (int)sizeof before - 1, text) < (int)sizeof after);
  read_with_call("squeeze.default\", \"inputs\": [{\"name\": \"self\", \"arg\": " TANH "}], " GIVES_DROPOUT);
  replace(before, after);
}

/* No input has the symbol alone: a size for which it would be 1 or below 0 tells nothing of the ranks. */
static void sizes_may_be_expressions(void **state) {
  (void)state;
  static const char *const sizes[] = { "\"Add(Symbol('s31'), Integer(1))" HINT "2}",
                                       "\"Add(Symbol('s31'), Integer(-1))" HINT "2}",
                                       "\"Symbol('s31')" HINT "9223372036854775807}",
                                       "\"Mod(Integer(-9223372036854775808), Integer(5))\"" };
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    read_with_sizes(sizes[i]);
    situ_nn_module *m = load(NULL);
    if (!m) fail_msg("%s: %s", sizes[i], situ_error_message());
    if (i < 2) assert_non_null(situ_nn_forward(m, input(4)));
    situ_nn_free(m);
    replace("\"silu\": {\"dtype\": 7", "\"silu\": {\"dtype\": 8");
    m = i < 2 ? load(NULL) : NULL;
    if (m) fail_msg("%s: a wrong dtype is accepted", sizes[i]);
    if (i < 2) expect_error(SITU_E_FORMAT, "silu is computed as f32");
  }
}

/* Every allocation of loading and running fails in turn: there is a result, or an error. */
static void memory_ends(void **state) {
  (void)state;
  read_program("lstm");
  bool whole = false;
  uint64_t most = 0; /* as many as there are if none fails */
  for (uint64_t nth = 0; nth <= most; nth++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_tree *in = situ_tree_append(situ_tree_list(), situ_tree_tensor(situ_zeros(SITU_SHAPE(2, 7, 6), NULL)));
    assert_non_null(in);
    situ_fail_allocation(nth, false);
    situ_nn_module *m = load(NULL);
    situ_tree *y = m ? situ_nn_call(m, in) : NULL;
    if (nth == 0) most = situ_allocation_count();
    situ_fail_allocation(0, false);
    whole = y && situ_error() == SITU_OK;
    if (!whole && (y || situ_error() != SITU_E_NOMEM)) fail_msg("allocation %d: %s", (int)nth, situ_error_message());
    situ_error_clear();
    situ_tree_free(y);
    situ_tree_free(in);
    situ_nn_free(m);
    SITU_IGNORE(situ_scope_end(&inner));
  }
}

/* Every allocation of reading the results fails in turn: they have the structure of the module's own, or there is an
   error. The structure is a text that takes more than a block of the program's memory. */
static void memory_ends_in_results(void **state) {
  (void)state;
  static const char begin[] = "{\"graph_module\": {\"signature\": {\"output_specs\": [{\"user_output\": {\"arg\": "
                              "{\"as_int\": 7}}}]}, \"module_call_graph\": [{\"signature\": {\"out_spec\": \"",
                    end[] =
                        "[1, {\\\"type\\\": \\\"builtins.dict\\\", \\\"context\\\": \\\"[\\\\\\\"a key\\\\\\\"]\\\", "
                        "\\\"children_spec\\\": [{\\\"type\\\": null, \\\"children_spec\\\": []}]}]\"}}]}}";
  static char text[40 << 10];
  bool whole = false;
  for (uint64_t nth = 1; !whole; nth++) {
    const int length = snprintf(text, sizeof text, "%s%20000s%s", begin, "", end);
    situ__problem problem;
    situ__json_item *model = situ__json_tree(text, (size_t)length, &problem);
    situ__pt2 f = { .path = "results", .program = situ__program_new("results", 0) };
    assert_true(model && f.program);
    situ_fail_allocation(nth, false);
    whole = situ__pt2_read_results(&f, model);
    situ_fail_allocation(0, false);
    if (whole) {
      assert_int_equal(f.program->outs, 2);
      assert_int_equal(f.program->out[0].kind, SITU_TREE_DICT);
      assert_string_equal(f.program->out[1].key, "a key");
      assert_true(f.program->out[1].leaf.integer == 7);
    } else {
      expect_error(SITU_E_NOMEM, "");
      assert_true(nth < 100);
    }
    situ__program_free(f.program);
    situ__free(model);
  }
}

static void refuses_damaged_weights(void **state) {
  (void)state;
  refuses("mlp", "\"path_name\": \"weight_0\"", "\"path_name\": \"weight_9\"", SITU_E_FORMAT, "0.weight");
  refuses("mlp", "\"path_name\": \"weight_0\"", "\"path_name\": \"../x/t_0\"", SITU_E_FORMAT, "0.weight");
  refuses("mlp", "\"sizes\": [{\"as_int\": 16}]", "\"sizes\": [{\"as_int\": 99}]", SITU_E_FORMAT, "bias");
  /* A flipped bit is found when it is looked for. */
  read_program("mlp");
  bytes[100] ^= 1;
  situ_nn_module *m = load(NULL);
  assert_non_null(m);
  situ_nn_free(m);
  assert_null(load(&(situ_load_options){ .verify = SITU_VERIFY_ALWAYS }));
  expect_error(SITU_E_FORMAT, "does not match its checksum");
}

/* An error inside says where in the model and in Python it was. */
static void says_where_a_call_failed(void **state) {
  (void)state;
  read_program("mlp");
  situ_nn_module *m = load(NULL);
  assert_non_null(m);
  situ_tensor *narrow = situ_zeros(SITU_SHAPE(16, 5), NULL);
  assert_non_null(situ_nn_add_tensor(m, "2.weight", NULL, narrow, SITU_NN_PARAMETER));
  assert_null(situ_nn_forward(m, input(4)));
  assert_non_null(strstr(situ_error_message(), "in 2, linear.default of changed.pt2"));
  expect_error(SITU_E_SHAPE, "linear.py:");
  situ_nn_free(m);
}

/* What is parsed is read: a mapped file may be cut short by another program, and then ends this one. */
static int64_t reads, reads_left;

static ssize_t read_some(int fd, void *data, size_t count, off_t at) {
  reads++;
  return reads_left-- > 0 ? pread(fd, data, count, at) : 0;
}

static void *refuse_map(void *address, size_t length, int protection, int flags, int fd, off_t at) {
  (void)address, (void)length, (void)protection, (void)flags, (void)fd, (void)at;
  return MAP_FAILED;
}

static void maps_only_on_demand(void **state) {
  (void)state;
  const situ__calls calls = situ__sys;
  static const char *const names[] = { "mlp", "torch2.6-mlp" };
  situ__sys.mmap = refuse_map;
  situ__sys.pread = read_some;
  for (int i = 0; i < 2; i++) {
    read_program(names[i]);
    reads = 0, reads_left = INT64_MAX;
    situ_nn_module *m = load(NULL);
    assert_non_null(m);
    situ_nn_free(m);
    const int64_t all = reads;
    for (int64_t k = 0; k < all; k++) {
      reads_left = k;
      assert_null(load(NULL));
      expect_error(SITU_E_IO, "while being read");
    }
    reads_left = INT64_MAX;
    assert_null(load(&(situ_load_options){ .map = true }));
    expect_error(SITU_E_IO, "mapped");
  }
  situ__sys = calls;
}

/* Files of early versions, whose weights are pickled, and of torch.save. */
static void reads_pickled_weights_safely(void **state) {
  (void)state;
  read_program("torch2.6-mlp");
  replace("_rebuild_tensor_v2", "_rebuild_tensor_xx");
  assert_null(load(NULL));
  expect_error(SITU_E_UNSUPPORTED, "calls torch._utils._rebuild_tensor_xx");
  read_program("torch2.6-mlp");
  replace("serialized_constants.pt", "serialized_constantsxpt");
  assert_null(load(NULL));
  expect_error(SITU_E_FORMAT, "has no serialized_constants.pt");
  char path[512];
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(path, sizeof path, "%s/io/data/state.pt", root ? root : ".");
  assert_null(situ_export_load(path, NULL));
  expect_error(SITU_E_UNSUPPORTED, "load its tensors by situ_load");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(has_torchs_names_and_classes),
    TEST(ties_what_was_tied),
    TEST(is_copied_cast_and_checked_dry),
    TEST(dropout_follows_the_file_and_the_module),
    TEST(refuses_wrong_inputs),
    TEST(numbers_may_be_nan),
    TEST(lists_what_it_lacks),
    TEST(refuses_other_files),
    TEST(lists_give_lists),
    TEST(joins_leave_out_nothing_else),
    TEST(ranks_have_tolerances),
    TEST(group_norms_have_statistics),
    TEST(paddings_may_be_tensors),
    TEST(large_whole_numbers),
    TEST(sizes_may_be_expressions),
    TEST(memory_ends),
    TEST(memory_ends_in_results),
    TEST(refuses_damaged_weights),
    TEST(says_where_a_call_failed),
    TEST(maps_only_on_demand),
    TEST(reads_pickled_weights_safely),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
