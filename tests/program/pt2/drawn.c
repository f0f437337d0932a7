/* Drawn modules that PyTorch exported with free sizes: values, dtypes, buffers, inputs after the call and gradients are
   PyTorch's at three sizes, and each value of each call has the dtype and sizes that the file declares
   (tools/exchange/drawn_programs.py; tests/program/pt2/drawn has the chosen ones, and those that once failed).
   With SITU_TEST_DRAWN=DIR the files of that directory, of which some may be refused: a line for each says what was seen.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
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

#include "situ/situ.h"

enum { NAMES = 1000, LEAVES = 64, SIZES = 3 };

static situ_device device(void) {
  const char *name = getenv("SITU_TEST_DEVICE");
  return situ_dev(name ? name : "cpu");
}

static const char *directory(char buffer[512]) {
  const char *given = getenv("SITU_TEST_DRAWN"), *root = getenv("SITU_TEST_ROOT");
  if (given) return given;
  (void)snprintf(buffer, 512, "%.400s/program/pt2/drawn", root ? root : ".");
  return buffer;
}

typedef struct run {
  const situ_tree *all; /* what the file of values has */
  situ_nn_module *module;
  situ_tensor *input[LEAVES], *result[LEAVES];
  int inputs, results, size;
  char where[160]; /* the first difference; "": none */
} run;

/* The wanted tensor "out.0.1": NULL if the file does not have it. */
static situ_tensor *wanted(const run *r, const char *kind, const char *name) {
  char path[256];
  (void)snprintf(path, sizeof path, "%s.%d.%s", kind, r->size, name);
  const situ_tree *leaf = situ_tree_find(r->all, path);
  return leaf ? situ_tree_value(leaf) : NULL;
}
static situ_tensor *wanted_at(const run *r, const char *kind, int k) {
  char name[16];
  (void)snprintf(name, sizeof name, "%d", k);
  return wanted(r, kind, name);
}

/* ---- comparison ---- */

static double tolerance(const run *r, situ_dtype dtype) {
  double least = 0;
  const situ_tree *given = situ_tree_find(r->all, "tolerance");
  if (given && situ_item(situ_tree_value(given), &least) != SITU_OK) return 0;
  const double own = dtype == SITU_F64 ? 1e-9 : dtype == SITU_F32 ? 3e-5 : dtype == SITU_F16 ? 4e-3 : 3e-2;
  return fmax(own, least);
}

static bool same_reals(const run *r, situ_tensor *got, situ_tensor *want, double more) {
  const int64_t count = situ_numel(want);
  const size_t bytes = (size_t)count * sizeof(double);
  double *a = malloc(bytes + 1), *b = malloc(bytes + 1), scale = 1;
  bool same = a && b && situ_copy_to_host(situ_to_dtype(got, SITU_F64), a, bytes) == SITU_OK &&
              situ_copy_to_host(situ_to_dtype(want, SITU_F64), b, bytes) == SITU_OK;
  for (int64_t i = 0; i < count && same; i++)
    if (isfinite(b[i])) scale = fmax(scale, fabs(b[i]));
  const double most = more * tolerance(r, situ_dtype_of(want)) * scale;
  for (int64_t i = 0; i < count && same; i++)
    same = isnan(b[i]) ? isnan(a[i]) : isinf(b[i]) ? a[i] == b[i] : fabs(a[i] - b[i]) <= most;
  free(a);
  free(b);
  return same;
}

static bool same_integers(situ_tensor *got, situ_tensor *want) {
  const size_t bytes = (size_t)situ_numel(want) * sizeof(int64_t);
  int64_t *a = malloc(bytes + 1), *b = malloc(bytes + 1);
  const bool same = a && b && situ_copy_to_host(situ_to_dtype(got, SITU_I64), a, bytes) == SITU_OK &&
                    situ_copy_to_host(situ_to_dtype(want, SITU_I64), b, bytes) == SITU_OK && !memcmp(a, b, bytes);
  free(a);
  free(b);
  return same;
}

static void compare(run *r, const char *kind, const char *name, situ_tensor *got, situ_tensor *want, double more) {
  if (*r->where || !want) return;
  const char *what = NULL;
  if (!got) what = "is not there";
  else if (situ_dtype_of(got) != situ_dtype_of(want)) what = "has another dtype";
  else if (situ_dim(got) != situ_dim(want)) what = "has another number of dimensions";
  for (int d = 0; !what && d < situ_dim(want); d++)
    if (situ_size(got, d) != situ_size(want, d)) what = "has other sizes";
  if (!what &&
      !(situ_dtype_is_floating(situ_dtype_of(want)) ? same_reals(r, got, want, more) : same_integers(got, want)))
    what = "has other values";
  if (what) (void)snprintf(r->where, sizeof r->where, "%s %s %s at size %d", kind, name, what, r->size);
}

static void compare_at(run *r, const char *kind, int k, situ_tensor *got, double more) {
  char name[16];
  (void)snprintf(name, sizeof name, "%d", k);
  compare(r, kind, name, got, wanted(r, kind, name), more);
}

/* No gradient is one of zeros. */
static void compare_gradients(run *r, const char *kind, const char *name, situ_tensor *of, situ_tensor *want) {
  situ_tensor *got = of ? situ_grad(of) : NULL;
  if (!of || (!got && !want)) return;
  situ_tensor *none = situ_zeros_like(got ? got : want, NULL);
  compare(r, kind, name, got ? got : none, want ? want : none, 10);
}

/* ---- a call ---- */

static situ_status keep_result(const char *path, situ_tensor *t, void *payload) {
  run *r = payload;
  (void)path;
  if (r->results < LEAVES) r->result[r->results++] = t;
  return SITU_OK;
}

static bool take_inputs(run *r) {
  const bool asks = wanted_at(r, "asks", 0) != NULL;
  for (situ_tensor *t; r->inputs < LEAVES && (t = wanted_at(r, "in", r->inputs)); r->inputs++) {
    situ_tensor *in = situ_to(situ_clone(t), device());
    if (asks && r->inputs == 0) in = situ_requires_grad_(in, true);
    if (!(r->input[r->inputs] = in)) return false;
  }
  return r->inputs > 0;
}

/* The sum of the mean squares of the results, and its gradients. */
static bool go_back(run *r) {
  situ_tensor *loss = NULL;
  for (int k = 0; k < r->results; k++) {
    if (!situ_requires_grad(r->result[k]) || !situ_numel(r->result[k])) continue;
    situ_tensor *mean = situ_mean(situ_square(r->result[k]), NULL);
    loss = loss ? situ_add(loss, mean) : mean;
  }
  return !loss || situ_backward(loss, NULL) == SITU_OK;
}

/* Compares what the file of values has of one kind, "buffer" or "weight", by the names of the module. */
static void compare_parts(run *r, const char *kind, bool gradients) {
  char prefix[32];
  const size_t length = (size_t)snprintf(prefix, sizeof prefix, "%s.%d.", kind, r->size);
  for (int64_t i = 0; i < situ_tree_count(r->all); i++) {
    const char *key = situ_tree_key(r->all, i);
    if (strncmp(key, prefix, length) != 0) continue;
    situ_tensor *part = situ_nn_get_tensor(r->module, key + length);
    situ_tensor *want = situ_tree_value(situ_tree_at(r->all, i));
    if (gradients) compare_gradients(r, kind, key + length, part, want);
    else compare(r, kind, key + length, part, want, 1);
  }
}

static bool call(run *r) {
  situ_tree *in = situ_tree_list();
  if (!take_inputs(r)) return situ_tree_free(in), false;
  for (int k = 0; k < r->inputs; k++) in = situ_tree_append(in, situ_tree_tensor(r->input[k]));
  situ_tree *out = situ_nn_call(r->module, in);
  bool good = out && situ_tree_each(out, keep_result, r) == SITU_OK;
  for (int k = 0; k < r->results && good; k++) compare_at(r, "out", k, r->result[k], 1);
  for (int k = 0; k < r->inputs && good; k++) compare_at(r, "after", k, r->input[k], 1);
  if (good) compare_parts(r, "buffer", false);
  if (good && wanted_at(r, "asks", 0)) {
    good = go_back(r);
    if (good) compare_gradients(r, "grad", "0", r->input[0], wanted_at(r, "grad", 0));
    if (good) compare_parts(r, "weight", true);
  }
  situ_tree_free(out);
  situ_tree_free(in);
  return good && situ_error() == SITU_OK;
}

/* ---- a program ---- */

static bool check_size(const char *path, const situ_tree *all, int size, run *r) {
  situ_scope scope;
  situ_scope_begin(&scope);
  *r = (run){ .all = all, .size = size };
  bool good = true;
  if (wanted_at(r, "in", 0)) {
    r->module = situ_export_load(path, &(situ_load_options){ .device = device() });
    good = r->module && situ_nn_eval(r->module) && call(r);
  }
  situ_nn_free(r->module);
  return situ_scope_end(&scope) == SITU_OK && good;
}

/* Returns whether a program agrees with PyTorch; prints what was seen. */
static bool check_program(const char *dir, const char *name, bool quiet) {
  char path[8192];
  run r = { 0 };
  situ_scope scope;
  situ_scope_begin(&scope);
  (void)snprintf(path, sizeof path, "%.7000s/%.100s.safetensors", dir, name);
  situ_tree *all = situ_load(path, NULL);
  (void)snprintf(path, sizeof path, "%.7000s/%.100s.pt2", dir, name);
  bool good = all != NULL;
  for (int k = 0; k < SIZES && good && !*r.where; k++) good = check_size(path, all, k, &r);
  if (*r.where) print_message("%s: DIFFERS: %s\n", name, r.where);
  else if (!good) print_message("%s: refused: %.400s\n", name, situ_error_message());
  else if (!quiet) print_message("%s: agrees\n", name);
  situ_error_clear();
  situ_tree_free(all);
  SITU_IGNORE(situ_scope_end(&scope));
  return good && !*r.where;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void agree_with_torch(void **state) {
  (void)state;
  static char names[NAMES][64];
  char buffer[512];
  const char *dir = directory(buffer);
  const bool drawn = getenv("SITU_TEST_DRAWN") != NULL;
  int count = 0, agreed = 0;
  DIR *list = opendir(dir);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list)) && count < NAMES;) {
    const char *end = strrchr(e->d_name, '.');
    if (end && strcmp(end, ".pt2") == 0 && strlen(e->d_name) < sizeof *names)
      (void)snprintf(names[count++], sizeof *names, "%.*s", (int)(end - e->d_name), e->d_name);
  }
  closedir(list);
  qsort(names, (size_t)count, sizeof *names, by_text);
  situ_error_mode(SITU_ERROR_QUIET);
  for (int i = 0; i < count; i++) agreed += check_program(dir, names[i], !drawn);
  situ_error_mode(SITU_ERROR_LOG);
  assert_true(count > 0);
  if (!drawn) assert_int_equal(agreed, count);
}

int main(void) {
  (void)setenv("SITU_CHECK_PROGRAMS", "1", 1);
  const struct CMUnitTest tests[] = { cmocka_unit_test(agree_with_torch) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
