/* situ_onnx_export: programs that PyTorch exported, with sizes that the inputs set, give PyTorch's results as the ONNX
   models that they are written to; what it refuses. With SITU_TEST_EXCHANGE=DIR the programs of that directory, such as
   those of tools/exchange/generate.py --all; SITU_EXPORT_DIR keeps the models.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/scope.h"
#include "situ/situ.h"
#include "situ/sys/alloc.h"
#include "situ/sys/shape.h"

static int open_seeded(void **state) {
  (void)open_scope(state);
  situ_manual_seed(3);
  return 0;
}

/* ---- programs of PyTorch ---- */

static const char *directory_of(const char *name, char buffer[512]) {
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(buffer, 512, "%s/program/%s", root ? root : ".", name);
  return buffer;
}
static const char *data_directory(char buffer[512]) {
  const char *given = getenv("SITU_TEST_EXCHANGE");
  return given ? given : directory_of("data", buffer);
}

static double largest(situ_tensor *t) {
  double value = NAN;
  if (situ_numel(t) == 0) return 0;
  return situ_item(situ_max(situ_abs(situ_to_dtype(t, SITU_F64))), &value) == SITU_OK ? value : NAN;
}

/* The largest difference, relative to the largest element. Whole numbers, and what is not finite, are the same. */
static double distance(situ_tensor *got, situ_tensor *want) {
  const situ_shape a = situ_shape_of(got), b = situ_shape_of(want);
  bool same = false;
  if (!situ_shape_equal(&a, &b) || situ_dtype_of(got) != situ_dtype_of(want)) return INFINITY;
  if (!situ_dtype_is_floating(situ_dtype_of(want)))
    return situ_equal(got, want, &same) == SITU_OK && same ? 0 : INFINITY;
  situ_tensor *finite = situ_isfinite(want), *zero = situ_zeros_like(want, NULL);
  if (situ_allclose(situ_where(finite, zero, got), situ_where(finite, zero, want), 0, 0, true, &same) != SITU_OK ||
      !same)
    return INFINITY;
  got = situ_where(finite, got, zero);
  want = situ_where(finite, want, zero);
  const double scale = largest(want);
  return largest(situ_sub(situ_to_dtype(got, SITU_F64), situ_to_dtype(want, SITU_F64))) / (scale > 0 ? scale : 1);
}

typedef struct comparison {
  const situ_tree *all;
  int shape, result;
  double worst;
} comparison;

static situ_status compare_leaf(const char *path, situ_tensor *t, void *payload) {
  comparison *c = payload;
  char name[32];
  (void)path;
  (void)snprintf(name, sizeof name, "out.%d.%d", c->shape, c->result++);
  const double d = distance(t, situ_tree_get(c->all, name));
  if (!(d <= c->worst)) c->worst = d;
  return SITU_OK;
}

/* The largest distance from PyTorch's results on the file's two batch sizes. */
static double compare(situ_nn_module *m, const situ_tree *all) {
  comparison c = { .all = all };
  for (; c.shape < 2; c.shape++) {
    char name[16];
    (void)snprintf(name, sizeof name, "in.%d", c.shape);
    situ_tree *in = situ_tree_section(all, name), *out = situ_nn_call(m, in);
    c.result = 0;
    if (!out || situ_tree_each(out, compare_leaf, &c) != SITU_OK || c.result == 0) c.worst = INFINITY;
    situ_tree_free(out);
    situ_tree_free(in);
  }
  return c.worst;
}

static bool agrees(const char *dir, const char *file) {
  const char *kept = getenv("SITU_EXPORT_DIR");
  const int stem = (int)(strrchr(file, '.') - file);
  char path[1024];
  (void)snprintf(path, sizeof path, "%.700s/%.200s", dir, file);
  situ_nn_module *m = situ_export_load(path, NULL), *loaded = NULL;
  (void)snprintf(path, sizeof path, "%.700s/%.*s.safetensors", dir, stem, file);
  situ_tree *all = m ? situ_load(path, NULL) : NULL;
  (void)snprintf(path, sizeof path, "%.700s/%.*s.onnx", kept ? kept : ".", stem, file);
  double worst = INFINITY;
  if (all && situ_nn_eval(m) && situ_onnx_export(m, path, NULL) == SITU_OK) loaded = situ_export_load(path, NULL);
  if (loaded) worst = compare(loaded, all);
  print_message("%-28s %8.1e  %s\n", file, worst, worst <= 1e-5 ? "" : "DIFFERS");
  if (situ_error() != SITU_OK) print_message("    %s\n", situ_error_message());
  situ_error_clear();
  situ_tree_free(all);
  situ_nn_free(loaded);
  situ_nn_free(m);
  return worst <= 1e-5;
}

/* Whether a program has no form, and no file is begun. */
static bool is_refused(const char *dir, const char *file) {
  char path[1024];
  (void)snprintf(path, sizeof path, "%.700s/%.200s", dir, file);
  situ_nn_module *m = situ_export_load(path, NULL);
  bool good = m && situ_nn_eval(m) && situ_onnx_export(m, "never.onnx", NULL) == SITU_E_UNSUPPORTED;
  print_message("%-28s %s\n", file, good ? "refused" : "WRITTEN");
  situ_error_clear();
  situ_nn_free(m);
  FILE *f = fopen("never.onnx", "rb");
  if (f) assert_int_equal(fclose(f), 0);
  return good && !f;
}

static void agree_all(const char *dir) {
  int count = 0, good = 0;
  DIR *list = opendir(dir);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list));) {
    const char *end = strrchr(e->d_name, '.');
    if (!end || strcmp(end, ".pt2") != 0) continue;
    situ_scope step;
    situ_scope_begin(&step);
    const bool lacks = strncmp(e->d_name, "refused", 7) == 0 || strcmp(e->d_name, "calls.pt2") == 0; /* gradients */
    good += lacks ? is_refused(dir, e->d_name) : agrees(dir, e->d_name);
    assert_int_equal(situ_scope_end(&step), SITU_OK);
    count++;
  }
  closedir(list);
  assert_true(count > 0);
  assert_int_equal(good, count);
}

static void programs_of_torch_agree(void **state) {
  char buffer[512];
  (void)state;
  agree_all(data_directory(buffer));
}
/* Programs that once were written as something else (tools/exchange/written_kept.py). */
static void what_was_wrong_agrees(void **state) {
  char buffer[512];
  (void)state;
  agree_all(directory_of("onnx/written", buffer));
}

/* ---- what was read from ONNX ---- */

/* The names of inputs and of what a model computes stay, and weights have their new values. */
static void what_was_read_from_onnx_is_written_with_its_new_values(void **state) {
  char buffer[512], path[600];
  (void)state;
  (void)snprintf(path, sizeof path, "%s/cnn.onnx", directory_of("data", buffer));
  situ_nn_module *m = situ_export_load(path, NULL), *later = NULL;
  situ_tensor *x = situ_randn(SITU_SHAPE(2, 1, 12, 12), NULL), *before = situ_nn_forward(m, x);
  situ_tree *list = situ_nn_parameters(m);
  situ_scope inner;
  situ_scope_begin_no_grad(&inner);
  for (int64_t i = 0; i < situ_tree_count(list); i++) situ_mul_scalar_(situ_tree_tensor_at(list, i), 1.5);
  assert_int_equal(situ_scope_end(&inner), SITU_OK);
  situ_tree_free(list);
  situ_tensor *after = situ_nn_forward(m, x);
  assert_true(before && after && distance(after, before) > 1e-3);
  for (int apart = 0; apart < 2; apart++) {
    const situ_onnx_export_options o = { .external_data = apart };
    (void)remove("again.onnx.data");
    if (situ_onnx_export(m, "again.onnx", &o) != SITU_OK) fail_msg("%s", situ_error_message());
    later = situ_export_load("again.onnx", NULL);
    if (!later) fail_msg("%s", situ_error_message());
    assert_true(distance(situ_nn_forward(later, x), after) == 0);
    situ_export_input mine, theirs;
    assert_true(situ_export_input_at(m, 0, &mine) && situ_export_input_at(later, 0, &theirs));
    assert_string_equal(mine.name, theirs.name);
    situ_nn_free(later);
  }
  situ_nn_free(m);
}

/* Shapes that the model computes are known without its inputs' values: traced for one size, it goes to a .pt2 archive,
   and from there to ONNX. */
static void what_was_read_from_onnx_is_traced(void **state) {
  static const char *const names[] = { "tiny-bert", "unet-ish", "cnn", "tiny-resnet", "lstm", "gru" };
  char buffer[512], path[600];
  (void)state;
  for (int i = 0; i < 6; i++) {
    (void)snprintf(path, sizeof path, "%s/%s.onnx", directory_of("data", buffer), names[i]);
    situ_nn_module *m = situ_nn_eval(situ_export_load(path, NULL));
    (void)snprintf(path, sizeof path, "%s/%s.safetensors", directory_of("data", buffer), names[i]);
    situ_tree *all = situ_load(path, NULL), *in = situ_tree_section(all, "in.0");
    situ_nn_module *traced = situ_export(m, in), *read = NULL, *again = NULL;
    if (traced && situ_export_save(traced, "traced.pt2") == SITU_OK) read = situ_export_load("traced.pt2", NULL);
    if (read && situ_onnx_export(read, "traced.onnx", NULL) == SITU_OK) again = situ_export_load("traced.onnx", NULL);
    if (!again) fail_msg("%s: %s", names[i], situ_error_message());
    situ_tree *out = situ_nn_call(again, in);
    comparison c = { .all = all };
    assert_true(out && situ_tree_each(out, compare_leaf, &c) == SITU_OK && c.result > 0 && c.worst <= 1e-5);
    situ_tree_free(out);
    situ_tree_free(in);
    situ_tree_free(all);
    situ_nn_free(m);
    situ_nn_free(traced);
    situ_nn_free(read);
    situ_nn_free(again);
  }
}

static void what_was_read_from_onnx_keeps_its_opset_and_dtypes(void **state) {
  char buffer[512], path[600];
  (void)state;
  (void)snprintf(path, sizeof path, "%s/mlp.onnx", directory_of("data", buffer));
  situ_nn_module *m = situ_export_load(path, NULL);
  (void)remove("never.onnx");
  assert_int_equal(situ_onnx_export(m, "never.onnx", &(situ_onnx_export_options){ .opset = 23 }), SITU_E_ARG);
  assert_non_null(strstr(situ_error_message(), "which it stays"));
  situ_error_clear();
  assert_int_equal(situ_nn_to_dtype(m, SITU_F16), SITU_OK);
  assert_int_equal(situ_onnx_export(m, "never.onnx", NULL), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "need the dtype and shape that it had there"));
  situ_error_clear();
  assert_null(fopen("never.onnx", "rb"));
  situ_nn_free(m);
}

/* ---- options ---- */

static situ_nn_module *program_of(situ_nn_module *m, situ_tensor *x) {
  situ_tree *inputs = SITU_TREE(x);
  situ_nn_module *program = situ_export(m, inputs);
  situ_tree_free(inputs);
  if (!program) fail_msg("%s", situ_error_message());
  return program;
}

static void expect_file(situ_nn_module *program, const char *path, const situ_onnx_export_options *o, situ_tensor *x) {
  if (situ_onnx_export(program, path, o) != SITU_OK) fail_msg("%s", situ_error_message());
  situ_nn_module *loaded = situ_export_load(path, NULL);
  if (!loaded) fail_msg("%s", situ_error_message());
  assert_true(distance(situ_nn_forward(loaded, x), situ_nn_forward(program, x)) <= 1e-6);
  situ_nn_free(loaded);
}

static void weights_go_to_a_file_of_their_own(void **state) {
  (void)state;
  situ_nn_module *m =
      situ_nn_sequential(situ_nn_linear(6, 40, NULL), situ_nn_gelu(SITU_GELU_NONE), situ_nn_linear(40, 3, NULL));
  situ_tensor *x = situ_randn(SITU_SHAPE(4, 6), NULL);
  situ_nn_module *program = program_of(m, x);
  (void)remove("apart.onnx.data"); /* of a run before: its name would not be taken */
  expect_file(program, "apart.onnx", &(situ_onnx_export_options){ .external_data = true }, x);
  FILE *f = fopen("apart.onnx.data", "rb");
  assert_non_null(f);
  assert_int_equal(fseek(f, 0, SEEK_END), 0);
  assert_true(ftell(f) >= (6 * 40 + 40 + 40 * 3 + 3) * 4);
  assert_int_equal(fclose(f), 0);
  expect_file(program, "newer.onnx", &(situ_onnx_export_options){ .opset = 20 }, x); /* which has Gelu */
  assert_int_equal(situ_onnx_export(program, "never.onnx", &(situ_onnx_export_options){ .opset = 17 }), SITU_E_ARG);
  situ_nn_free(program);
  situ_nn_free(m);
}

/* ---- single calls ---- */

/* A program of PyTorch's, a multilayer perceptron of f32 [n, 6], with other calls for its last three: they make `linear_2`
   of `linear_1`, which is [n, 16], and of `p_2_weight`, which is [16, 16]. */
static situ_nn_module *program_with(const char *calls) {
  static char bytes[64 << 10];
  const char *root = getenv("SITU_TEST_ROOT");
  char path[512];
  (void)snprintf(path, sizeof path, "%s/program/data/mlp.pt2", root ? root : ".");
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  const size_t size = fread(bytes, 1, sizeof bytes, f);
  assert_int_equal(fclose(f), 0);
  static const char first[] = "{\"target\": \"torch.ops.aten.tanh.default\"";
  char *from = memmem(bytes, size, first, sizeof first - 1);
  char *to = from ? memmem(from, size - (size_t)(from - bytes), "], \"tensor_values\"", 18) : NULL;
  assert_true(to && strlen(calls) <= (size_t)(to - from));
  memset(from, ' ', (size_t)(to - from));
  memcpy(from, calls, strlen(calls));
  static const char declared[] = "\"linear_2\": {\"dtype\"";
  char *other = memmem(to, size - (size_t)(to - bytes), declared, sizeof declared - 1);
  assert_non_null(other);
  other[1] = 'L'; /* the file then declares nothing of it */
  f = fopen("changed.pt2", "wb");
  assert_non_null(f);
  assert_true(fwrite(bytes, 1, size, f) == size);
  assert_int_equal(fclose(f), 0);
  situ_nn_module *program = situ_export_load("changed.pt2", NULL);
  if (!program) fail_msg("%s", situ_error_message());
  return program;
}
#define TENSOR(as, name) "{\"name\": \"" as "\", \"arg\": {\"as_tensor\": {\"name\": \"" name "\"}}, \"kind\": 1}"
#define VALUE(as, kind, value) "{\"name\": \"" as "\", \"arg\": {\"as_" kind "\": " value "}, \"kind\": 1}"
#define CALL(target, inputs, output)                                                                     \
  "{\"target\": \"torch.ops.aten." target "\", \"inputs\": [" inputs "], \"outputs\": [{\"as_tensor\": " \
  "{\"name\": \"" output "\"}}], \"metadata\": {}, \"name\": \"" output "\"}"
#define VIEW(of, sizes, output) CALL("view.default", TENSOR("self", of) ", " VALUE("size", "ints", sizes), output)

static void expect_call(const char *calls) {
  situ_nn_module *program = situ_nn_eval(program_with(calls));
  expect_file(program, "call.onnx", NULL, situ_randn(SITU_SHAPE(5, 6), NULL));
  situ_nn_free(program);
}
static void expect_lack(const char *calls, const char *says) {
  situ_nn_module *program = situ_nn_eval(program_with(calls));
  assert_int_equal(situ_onnx_export(program, "never.onnx", NULL), SITU_E_UNSUPPORTED);
  if (!strstr(situ_error_message(), says)) fail_msg("%s", situ_error_message());
  situ_error_clear();
  situ_nn_free(program);
}

#define DIFF(times)                                                                                            \
  CALL("diff.default", TENSOR("self", "linear_1") ", " VALUE("n", "int", times) ", " VALUE("dim", "int", "1"), \
       "linear_2")

static void a_difference_is_written_as_so_many(void **state) {
  (void)state;
  expect_call(DIFF("2"));
  expect_call(DIFF("64")); /* of nothing */
  expect_lack(DIFF("65"), "diff.default");
}

#define ATTENTION                                                                                                      \
  CALL(                                                                                                                \
      "scaled_dot_product_attention.default",                                                                          \
      TENSOR("query", "q") ", " TENSOR("key", "k") ", " TENSOR("value", "k") ", " VALUE("enable_gqa", "bool", "true"), \
      "a")
/* Of weights, which are those of the last layer then. */
#define LAYER(q, k)                                                                         \
  VIEW("p_2_weight", q, "q")                                                                \
  ", " VIEW("p_2_weight", k, "k") ", " ATTENTION ", " VIEW("a", "[16, 16]", "w") ", " CALL( \
      "linear.default", TENSOR("input", "linear_1") ", " TENSOR("weight", "w"), "linear_2")

static void heads_are_repeated(void **state) {
  (void)state;
  expect_call(LAYER("[4, 4, 16]", "[2, 8, 16]"));
  expect_call(LAYER("[4, 4, 16]", "[4, 4, 16]"));
  expect_call(LAYER("[2, 4, 2, 16]", "[2, 2, 4, 16]"));
  expect_call(LAYER("[1, 1, 1, 1, 1, 4, 4, 16]", "[1, 1, 1, 1, 1, 4, 4, 16]"));
  expect_call(LAYER("[1, 1, 1, 1, 4, 4, 16]", "[1, 1, 1, 1, 2, 8, 16]"));
  static const char free_heads[] = VIEW("linear_1", "[-1, 1, 16]", "q") ", " VIEW(
      "p_2_weight", "[1, 16, 16]", "k") ", " ATTENTION ", " VIEW("a", "[-1, 16]", "linear_2");
  expect_lack(free_heads, "needs sizes that do not depend on the inputs'");
}

/* ---- refusals ---- */

static situ_tensor *logarithms(situ_nn_module *self, situ_tensor *x) {
  (void)self;
  return situ_lgamma(situ_relu(situ_lgamma(x)));
}
static void calls_without_a_form_are_listed(void **state) {
  static const situ_nn_type type = { .name = "Logarithms", .size = sizeof(situ_nn_module), .forward = logarithms };
  (void)state;
  situ_nn_module *m = situ_nn_done(situ_nn_alloc(&type));
  situ_nn_module *program = program_of(m, situ_ones(SITU_SHAPE(2, 3), NULL));
  assert_int_equal(situ_onnx_export(program, "never.onnx", NULL), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "2 calls have no form in ONNX: lgamma.default"));
  situ_error_clear();
  assert_null(fopen("never.onnx", "rb"));
  situ_nn_free(program);
  situ_nn_free(m);
}

static void training_is_refused(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(3, 3, NULL), situ_nn_dropout(0.5));
  situ_nn_module *program = program_of(m, situ_ones(SITU_SHAPE(2, 3), NULL));
  assert_int_equal(situ_onnx_export(program, "never.onnx", NULL), SITU_E_UNSUPPORTED);
  assert_non_null(strstr(situ_error_message(), "situ_nn_eval"));
  situ_error_clear();
  situ_nn_free(program);
  assert_int_equal(situ_onnx_export(m, "never.onnx", NULL), SITU_E_STATE);
  situ_error_clear();
  situ_nn_free(m);
}

/* Every allocation fails in turn, alone or with all after it: there is a file, or an error. */
static void memory_ends(void **state) {
  (void)state;
  situ_nn_module *m = situ_nn_linear(6, 3, NULL), *program = program_of(m, situ_ones(SITU_SHAPE(2, 6), NULL));
  for (int way = 0; way < 4; way++) {
    const situ_onnx_export_options o = { .external_data = way & 1 };
    situ_status status = SITU_E_NOMEM;
    for (uint64_t nth = 1; status != SITU_OK; nth++) {
      situ_fail_allocation(nth, way & 2);
      status = situ_onnx_export(program, "scarce.onnx", &o);
      situ_fail_allocation(0, false);
      FILE *f = fopen("scarce.onnx", "rb");
      if (status != situ_error() || (status != SITU_OK && (f || status != SITU_E_NOMEM)) || nth > 10000)
        fail_msg("allocation %d: %s", (int)nth, situ_error_message());
      if (f) assert_int_equal(fclose(f), 0);
      situ_error_clear();
    }
    assert_int_equal(remove("scarce.onnx"), 0);
  }
  situ_nn_free(program);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(programs_of_torch_agree, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(what_was_wrong_agrees, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(what_was_read_from_onnx_is_written_with_its_new_values, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(what_was_read_from_onnx_is_traced, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(what_was_read_from_onnx_keeps_its_opset_and_dtypes, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(weights_go_to_a_file_of_their_own, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(a_difference_is_written_as_so_many, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(heads_are_repeated, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(calls_without_a_form_are_listed, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(training_is_refused, open_seeded, close_scope),
    cmocka_unit_test_setup_teardown(memory_ends, open_seeded, close_scope),
  };
  return cmocka_run_group_tests_name("program/onnx/written", tests, NULL, NULL);
}
