/* Programs that PyTorch exported, as .pt2 and as ONNX, give PyTorch's results, and train as PyTorch trains them
   (tools/exchange/generate.py).
   With SITU_TEST_EXCHANGE=DIR the files of that directory, such as those of generate.py --all.
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

enum { STEPS = 20, NAMES = 200 };

static const char *directory(char buffer[512]) {
  const char *given = getenv("SITU_TEST_EXCHANGE"), *root = getenv("SITU_TEST_ROOT");
  if (given) return given;
  (void)snprintf(buffer, 512, "%s/program/data", root ? root : ".");
  return buffer;
}

static situ_device device(void) {
  const char *name = getenv("SITU_TEST_DEVICE");
  return situ_dev(name ? name : "cpu");
}

/* The tensors of one kind: "in.0" of "in.0.x", under the rest of their names, on the device. */
static situ_tree *section(const situ_tree *all, const char *name) {
  situ_tree *part = situ_tree_section(all, name), *there = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(part); i++)
    there =
        situ_tree_put(there, situ_tree_key(part, i), situ_tree_tensor(situ_to(situ_tree_tensor_at(part, i), device())));
  situ_tree_free(part);
  return there;
}

typedef struct leaves {
  situ_tensor *list[NAMES];
  int count;
} leaves;

static situ_status keep_leaf(const char *path, situ_tensor *t, void *payload) {
  leaves *l = payload;
  (void)path;
  if (l->count < NAMES) l->list[l->count++] = t;
  return SITU_OK;
}

static double largest(situ_tensor *t) {
  double value = NAN;
  if (situ_numel(t) == 0) return 0;
  situ_tensor *x = situ_max(situ_abs(situ_to_dtype(t, SITU_F64)));
  return situ_item(x, &value) == SITU_OK ? value : NAN;
}

/* The largest difference, relative to the largest element. */
static double distance(situ_tensor *got, situ_tensor *want) {
  const situ_shape a = situ_shape_of(got), b = situ_shape_of(want);
  if (a.ndim != b.ndim || memcmp(a.dim, b.dim, (size_t)a.ndim * sizeof *a.dim) != 0) return INFINITY;
  got = situ_to_dtype(situ_to(got, situ_dev("cpu")), SITU_F64);
  want = situ_to_dtype(want, SITU_F64);
  const double scale = largest(want);
  return largest(situ_sub(got, want)) / (scale > 0 ? scale : 1);
}

/* The larger one; once NaN it stays so. */
static double worse(double worst, double d) { return d > worst || isnan(d) ? d : worst; }

/* Runs shape k. Returns the largest distance of a result; -1: the file has no such shape. */
static double compare(situ_nn_module *m, const situ_tree *all, int k) {
  char name[32];
  (void)snprintf(name, sizeof name, "in.%d", k);
  situ_tree *in = section(all, name);
  situ_tree *out = situ_tree_count(in) ? situ_nn_call(m, in) : NULL;
  leaves l = { .count = 0 };
  double worst = situ_tree_count(in) ? 0 : -1;
  if (worst == 0 && (!out || situ_tree_each(out, keep_leaf, &l) != SITU_OK)) worst = INFINITY;
  for (int n = 0; n < l.count; n++) {
    (void)snprintf(name, sizeof name, "out.%d.%d", k, n);
    worst = worse(worst, distance(l.list[n], situ_tree_get(all, name)));
  }
  situ_tree_free(out);
  situ_tree_free(in);
  return worst;
}

/* The sum of the mean squares of all floating results that have a gradient. */
static situ_tensor *loss_of(const situ_tree *out) {
  leaves l = { .count = 0 };
  situ_tensor *loss = NULL;
  if (situ_tree_each(out, keep_leaf, &l) != SITU_OK) return NULL;
  for (int n = 0; n < l.count; n++) {
    if (!situ_requires_grad(l.list[n])) continue;
    situ_tensor *mean = situ_mean(situ_square(l.list[n]), NULL);
    loss = loss ? situ_add(loss, mean) : mean;
  }
  return loss;
}

/* The inputs of the training, those of f32 in a dtype. */
static situ_tree *training_inputs(const situ_tree *all, situ_dtype real) {
  situ_tree *in = section(all, "train"), *cast = situ_tree_dict();
  for (int64_t i = 0; i < situ_tree_count(in); i++) {
    situ_tensor *t = situ_tree_tensor_at(in, i);
    if (situ_dtype_of(t) == SITU_F32) t = situ_to_dtype(t, real);
    cast = situ_tree_put(cast, situ_tree_key(in, i), situ_tree_tensor(t));
  }
  situ_tree_free(in);
  return cast;
}

/* Trains as the generator did. */
static bool train(situ_nn_module *m, const situ_tree *all, situ_dtype real, double got[STEPS]) {
  situ_tree *in = training_inputs(all, real);
  double rate = 0;
  bool fine = situ_item(situ_tree_get(all, "rate"), &rate) == SITU_OK;
  situ_optim *optim = fine ? situ_optim_sgd(situ_nn_parameters(m), rate, NULL) : NULL;
  fine = optim != NULL;
  for (int i = 0; fine && i < STEPS; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tree *out = situ_nn_call(m, in);
    situ_tensor *loss = out ? loss_of(out) : NULL;
    fine = loss && situ_optim_zero_grad(optim, true) == SITU_OK && situ_backward(loss, NULL) == SITU_OK &&
           situ_optim_step(optim) == SITU_OK && situ_item(loss, &got[i]) == SITU_OK;
    situ_tree_free(out);
    fine = situ_scope_end(&scope) == SITU_OK && fine;
  }
  situ_optim_free(optim);
  situ_tree_free(in);
  return fine;
}

/* The largest relative difference of a loss. */
static double loss_distance(const double got[STEPS], const double want[STEPS]) {
  double worst = 0;
  for (int i = 0; i < STEPS; i++) worst = worse(worst, fabs(got[i] - want[i]) / (want[i] != 0 ? fabs(want[i]) : 1));
  return worst;
}

/* Trains, and compares the losses with PyTorch's. *nearer: they differ, since rounding grows with the steps, and those
   of a training in f64 are nearer to situ's. */
static double compare_losses(situ_nn_module *m, const char *path, const situ_tree *all, bool *nearer) {
  double got[STEPS], want[STEPS], exact[STEPS];
  situ_tensor *losses = situ_to_dtype(situ_tree_get(all, "losses"), SITU_F64);
  if (situ_copy_to_host(losses, want, sizeof want) != SITU_OK || !train(m, all, SITU_F32, got)) return INFINITY;
  const double distance = loss_distance(got, want);
  if (distance <= 1e-4) return distance;
  situ_nn_module *wide = situ_export_load(path, &(situ_load_options){ .device = device() });
  *nearer = wide && situ_nn_to_dtype(wide, SITU_F64) == SITU_OK && train(wide, all, SITU_F64, exact) &&
            loss_distance(got, exact) < loss_distance(want, exact);
  situ_nn_free(wide);
  return distance;
}

/* torch's ONNX exporter merges equal initialisers, such as the ones and zeros of norms, and folds batch norms into
   convolutions: there is less to train. These it leaves as they are. */
static bool is_whole(const char *file) {
  static const char *const whole[] = { "mlp.onnx", "cnn.onnx", "gru.onnx", "lstm.onnx" };
  for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
    if (strcmp(whole[i], file) == 0) return true;
  return strcmp(strrchr(file, '.'), ".onnx") != 0;
}

/* Returns whether one program agrees with PyTorch; prints what was seen. */
static bool check_program(const char *dir, const char *file) {
  char path[8192], values[8192];
  const char *end = strrchr(file, '.');
  situ_scope scope;
  situ_scope_begin(&scope);
  (void)snprintf(path, sizeof path, "%.7000s/%.100s", dir, file);
  const bool host = device().kind == SITU_CPU;
  situ_nn_module *m = situ_export_load(path, &(situ_load_options){ .device = device(), .map = host });
  (void)snprintf(values, sizeof values, "%.7000s/%.*s.safetensors", dir, (int)(end - file), file);
  situ_tree *all = m ? situ_load(values, NULL) : NULL;
  bool nearer = false;
  double first = INFINITY, second = INFINITY, losses = INFINITY;
  if (all) first = compare(m, all, 0);
  if (all && first <= 1) second = compare(m, all, 1);
  if (all && second <= 1) losses = is_whole(file) ? compare_losses(m, path, all, &nearer) : -1;
  const bool agrees = first <= 1e-5 && second <= 1e-5 && (losses <= 1e-4 || nearer);
  print_message("%-28s %8.1e %8.1e  losses %8.1e  %s\n", file, first, second, losses,
                !agrees      ? "DIFFERS"
                : losses < 0 ? "(not compared)"
                : nearer     ? "(nearer to f64 than PyTorch's)"
                             : "");
  if (situ_error() != SITU_OK) print_message("    %s\n", situ_error_message());
  situ_error_clear();
  situ_tree_free(all);
  situ_nn_free(m);
  SITU_IGNORE(situ_scope_end(&scope));
  return agrees;
}

static int by_text(const void *a, const void *b) { return strcmp(a, b); }

static void agree_with_torch(void **state) {
  (void)state;
  char buffer[512], names[NAMES][64];
  const char *dir = directory(buffer);
  int count = 0, agreed = 0;
  DIR *list = opendir(dir);
  assert_non_null(list);
  for (struct dirent *e; (e = readdir(list)) && count < NAMES;) {
    const size_t length = strlen(e->d_name);
    const char *end = strrchr(e->d_name, '.');
    if (!end || length > 60 || (strcmp(end, ".pt2") != 0 && strcmp(end, ".onnx") != 0)) continue;
    memcpy(names[count++], e->d_name, length + 1);
  }
  closedir(list);
  qsort(names, (size_t)count, sizeof *names, by_text);
  situ_error_mode(SITU_ERROR_QUIET);
  for (int i = 0; i < count; i++) agreed += check_program(dir, names[i]);
  situ_error_mode(SITU_ERROR_LOG);
  assert_true(count > 0);
  assert_int_equal(agreed, count);
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(agree_with_torch) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
