/* Runs golden cases and compares.
   SPDX-License-Identifier: MIT */
#include "support/golden/run.h"

#include <stdarg.h>
#include <setjmp.h>
#include <stddef.h>
#include <cmocka.h>
#include <fnmatch.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support/test.h"

enum { MOST_OPS = 128, MOST_SHOWN = 8 };

/* What the tests of this program share. */
static struct {
  gold_file *file;
  const gold_op *ops;
  const gold_exception *exceptions;
  situ_device device;
  int cases, excepted;
  bool full; /* the full set */
} run;

situ_device gold_device(void) {
  const char *name = getenv("SITU_TEST_DEVICE");
  situ_device device = situ_dev(name && *name ? name : "cpu");
  test_compile_quickly();
  if (device.kind == SITU_OPENCL && !situ_device_is_available(device)) {
    printf("skipped: %s\n", situ_device_status("opencl"));
    exit(77);
  }
  return device;
}

const char *gold_data(const char *name, char *buffer, size_t size) {
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(buffer, size, "%s/golden/data/%s", root ? root : "tests", name);
  return buffer;
}

situ_tensor *gold_tensor_to(const gold_tensor *t, situ_device device) {
  bool strided = t->stride.ndim > 0;
  situ_options options = { .dtype = t->dtype, .device = situ_dev("cpu") };
  situ_shape shape = strided ? SITU_SHAPE(t->stored) : t->size;
  size_t bytes = (size_t)t->stored * situ_dtype_size(t->dtype);
  situ_tensor *x = situ_to(situ_from_host(t->data, bytes, shape, &options), device);
  return strided ? situ_as_strided(x, t->size, t->stride, 0) : x;
}

static const gold_op *row_of(const char *name) {
  static const gold_op plain = { 0 };
  for (const gold_op *op = run.ops; op && op->name; op++) {
    if (fnmatch(op->name, name, 0) == 0) { return op; }
  }
  return &plain;
}

static bool in_place(const char *name) {
  size_t length = strlen(name);
  return length && name[length - 1] == '_';
}

static bool has_grad(const gold_case *c, const char *name) {
  for (int i = 0; i < c->grads; i++) {
    if (strcmp(c->grad[i].name, name) == 0) { return true; }
  }
  return false;
}

static bool make_inputs(gold_call *call) {
  const gold_case *c = call->c;
  for (int i = 0; i < c->inputs; i++) {
    call->leaf[i] = gold_tensor_to(&c->input[i], call->device);
    if (has_grad(c, c->input[i].name)) { call->leaf[i] = situ_requires_grad_(call->leaf[i], true); }
    call->in[i] = call->leaf[i];
    if (i == 0 && in_place(c->op) && c->grads) {
      call->in[i] = situ_clone(call->leaf[i]); /* a leaf cannot be written in */
    }
    if (!call->in[i]) { return false; }
  }
  return true;
}

/* The function of the op's name, or what situ calls it where another argument is a number or is given at all:
   "Tensor.add_" is situ_add_, situ_add_scalar_, ... */
static void find_and_call(gold_call *call) {
  static const char *const endings[] = { "", "_scalar", "_alpha", "_dim", "_value", "_mode", "_indices" };
  const char *dot = strrchr(call->c->op, '.'), *name = dot ? dot + 1 : call->c->op;
  const int length = (int)strlen(name) - in_place(name);
  char functions[400];
  int at = 0;
  for (size_t k = 0; k < sizeof endings / sizeof *endings; k++) {
    at += snprintf(functions + at, sizeof functions - (size_t)at, "%.*s%s%s ", length, name, endings[k],
                   in_place(name) ? "_" : "");
  }
  (void)gold_invoke(call, functions, call->op->with);
}

static void call_op(gold_call *call) {
  const gold_op *op = call->op;
  if (op->run) {
    op->run(call);
  } else if (op->call) {
    (void)gold_invoke(call, op->call, op->with);
  } else {
    find_and_call(call);
  }
}

/* A view looks where torch's view looks. */
static bool check_view(const gold_call *call, int i, char *message, size_t size) {
  char name[24];
  snprintf(name, sizeof name, "view.%d", i);
  const gold_attr *view = gold_find(call->c, name);
  if (!view) { return true; }
  situ_tensor *x = call->in[0], *y = call->out[i];
  bool good = situ_shares_storage(x, y) && situ_storage_offset(y) - situ_storage_offset(x) == view->list[0];
  for (int d = 0; good && d < situ_dim(y); d++) {
    good = situ_size(y, d) == 1 || situ_stride(y, d) == view->list[d + 1];
  }
  if (!good) { snprintf(message, size, "%s is no view with torch's offset and strides", call->c->output[i].name); }
  return good;
}

static bool backward(gold_call *call, char *message, size_t size) {
  int last = -1;
  for (int i = 0; i < call->c->outputs; i++) { last = call->c->has_seed[i] ? i : last; }
  for (int i = 0; i <= last; i++) {
    if (!call->c->has_seed[i]) { continue; }
    situ_backward_options options = { .gradient = gold_tensor_to(&call->c->seed[i], call->device),
                                      .retain_graph = i < last };
    if (!options.gradient || situ_backward(call->out[i], &options) != SITU_OK) {
      snprintf(message, size, "backward: %s", situ_error_message());
      return false;
    }
  }
  return true;
}

static situ_dtype coarsest(const gold_case *c) {
  situ_dtype found = SITU_DTYPE_DEFAULT;
  for (int i = 0; i < c->inputs; i++) {
    situ_dtype dtype = c->input[i].dtype;
    if (dtype == SITU_BF16 || (dtype == SITU_F16 && found != SITU_BF16)) { found = dtype; }
  }
  return found;
}

static bool is_of_edges(const gold_case *c) { return strncmp(c->variant, "edge", 4) == 0; }
/* A huge element says nothing of the terms of the others. */
static bool has_own_scales(const gold_case *c) { return is_of_edges(c) && strncmp(c->variant, "edge/mild", 9) != 0; }

/* Powers of huge elements are rounded coarsely, and second derivatives have several terms. */
static gold_tolerance tolerance_of(const gold_call *call, int steps) {
  gold_tolerance t = { call->op->bound, coarsest(call->c), steps, 0, 0 };
  if (is_of_edges(call->c)) {
    t.bound = fmax(t.bound, 4);
    t.steps = t.steps > 8 ? t.steps : 8;
  }
  return t;
}

/* How large the terms are that a tensor of this case is made of: as its inputs and results. */
static double scale(const gold_case *c, bool of_inputs) {
  double most = 0;
  if (has_own_scales(c)) { return 1; }
  for (int i = 0; of_inputs && i < c->inputs; i++) { most = fmax(most, gold_largest(&c->input[i])); }
  for (int i = 0; i < c->outputs; i++) { most = fmax(most, gold_largest(&c->output[i])); }
  return most;
}

static bool compare_grad(const gold_call *call, const gold_tensor *want, double *worst, char *message, size_t size) {
  gold_tolerance tolerance = tolerance_of(call, call->op->grad_steps);
  if (tolerance.steps) {
    tolerance.scale = has_own_scales(call->c) ? 1 : fmax(gold_largest(want), scale(call->c, false));
  }
  char text[200] = "is missing";
  int k = 0;
  while (strcmp(call->c->input[k].name, want->name) != 0) { k++; }
  situ_tensor *got = situ_grad(call->leaf[k]);
  if (got && gold_compare(want, got, &tolerance, worst, text, sizeof text)) { return true; }
  snprintf(message, size, "gradient of %s: %s", want->name, text);
  return false;
}

static bool compare_all(gold_call *call, double *worst, char *message, size_t size) {
  const gold_case *c = call->c;
  gold_tolerance tolerance = tolerance_of(call, call->op->steps);
  tolerance.flags = c->flags;
  if (tolerance.steps) { tolerance.scale = scale(c, true); }
  for (int i = 0; i < c->outputs; i++) {
    if (!gold_compare(&c->output[i], call->out[i], &tolerance, worst, message, size) ||
        !check_view(call, i, message, size)) {
      return false;
    }
  }
  if (!backward(call, message, size)) { return false; }
  for (int i = 0; i < c->grads; i++) {
    if (!compare_grad(call, &c->grad[i], worst, message, size)) { return false; }
  }
  return true;
}

static bool run_case(const gold_case *c, const gold_op *op, double *worst, char *message, size_t size) {
  gold_call call = { .c = c, .op = op, .device = run.device };
  uint32_t version[GOLD_MAX_INPUTS];
  int64_t alive = situ_live_tensors();
  situ_error_clear();
  situ_scope scope;
  situ_scope_begin(&scope);
  bool good = make_inputs(&call);
  for (int i = 0; good && i < c->inputs; i++) { version[i] = situ_version_of(call.in[i]); }
  if (good) {
    call_op(&call);
    good = !*call.message && situ_error() == SITU_OK && gold_second(&call);
  }
  if (!good) { snprintf(message, size, "%s", *call.message ? call.message : situ_error_message()); }
  good = good && compare_all(&call, worst, message, size);
  if (good && in_place(c->op) && call.out[0] != call.in[0]) {
    snprintf(message, size, "does not return its first operand");
    good = false;
  }
  for (int i = in_place(c->op); good && i < c->inputs && !op->writes; i++) {
    if (situ_version_of(call.in[i]) != version[i]) {
      snprintf(message, size, "writes into %s", c->input[i].name);
      good = false;
    }
  }
  if (op->done) { op->done(&call); }
  SITU_IGNORE(situ_scope_end(&scope));
  if (good && situ_live_tensors() != alive) {
    snprintf(message, size, "leaves %lld tensors alive", (long long)(situ_live_tensors() - alive));
    good = false;
  }
  return good;
}

static bool has_value(const gold_case *c, const char *name, double value) {
  const gold_attr *a = gold_find(c, name);
  return a && a->kind == 'f' && a->f == value;
}

static bool covers(const gold_exception *e, const gold_case *c, const char *device) {
  return strcmp(e->op, c->op) == 0 && (!e->variant || strncmp(e->variant, c->variant, strlen(e->variant)) == 0) &&
         (!e->device || strcmp(e->device, device) == 0) && !(e->unless && gold_find(c, e->unless)) &&
         (!e->where || has_value(c, e->where, e->is)) && !(e->values && strcmp(device, "meta") == 0) &&
         (!e->dtype || (c->inputs && c->input[0].dtype == e->dtype));
}

static const gold_exception *excepted(const gold_case *c) {
  char device[SITU_DEVICE_NAME_MAX];
  situ_device_name(run.device, device);
  const gold_exception *e = run.exceptions;
  while (e && e->op && !covers(e, c, device)) { e++; }
  return e && e->op ? e : NULL;
}

/* The shape and attributes of a case, to find it by. */
static void describe(const gold_case *c) {
  print_message("    %s %s:", c->op, c->variant);
  for (int i = 0; i < c->inputs; i++) {
    print_message(" %s %s[", c->input[i].name, situ_dtype_name(c->input[i].dtype));
    for (int d = 0; d < c->input[i].size.ndim; d++) {
      print_message(d ? ",%lld" : "%lld", (long long)c->input[i].size.dim[d]);
    }
    print_message(c->input[i].stride.ndim ? "]s" : "]");
  }
  for (int i = 0; i < c->attrs; i++) {
    const gold_attr *a = &c->attr[i];
    switch (a->kind) {
    case 'f': print_message(" %s=%g", a->name, a->f); break;
    case 's': print_message(" %s=%s", a->name, a->s); break;
    case 'l':
      print_message(" %s=(", a->name);
      for (int64_t k = 0; k < a->i; k++) { print_message(k ? ",%lld" : "%lld", (long long)a->list[k]); }
      print_message(")");
      break;
    default: print_message(" %s=%lld", a->name, (long long)a->i);
    }
  }
}

/* Where cases take long, a third of those with an input that is not f32; on OpenCL, which compiles kernels for each
   combination, a twelfth of them, and a half of the others: ops/parity compares all ops with the cpu, of which all are
   taken. */
static bool is_taken(const gold_case *c, int number) {
  bool f32 = true;
  for (int i = 0; i < c->inputs; i++) f32 = f32 && c->input[i].dtype == SITU_F32;
  if (run.device.kind == SITU_OPENCL) return test_takes((size_t)number, f32 ? 2 : 12);
  return f32 || test_takes((size_t)number, 3);
}

/* How many of an op's cases in the full set may differ, and why: golden/full.txt has an op in each line. */
static int may_differ(const char *op, char *why, int size) {
  char path[1000], line[400], name[64];
  const char *root = getenv("SITU_TEST_ROOT");
  snprintf(path, sizeof path, "%s/golden/full.txt", root ? root : "tests");
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  int most = 0, at = 0;
  while (fgets(line, sizeof line, f)) {
    if (sscanf(line, "%63s %d %n", name, &most, &at) == 2 && strcmp(name, op) == 0) {
      snprintf(why, (size_t)size, "%.*s", (int)strcspn(line + at, "\n"), line + at);
      break;
    }
    most = 0;
  }
  (void)fclose(f);
  return most;
}

/* All cases of one op: state is its name. */
static void test_op(void **state) {
  const char *name = *state;
  const gold_op *op = row_of(name);
  int cases = 0, failed = 0, known = 0, stale = 0;
  double worst = 0;
  const char *why = NULL;
  static gold_case c; /* 20 KB */
  gold_rewind(run.file);
  while (gold_next(run.file, &c)) {
    if (strcmp(c.op, name) != 0) { continue; }
    if (!is_taken(&c, cases++) || !test_is_mine((size_t)(op - run.ops))) { continue; }
    char message[400] = "";
    double unused = 0;
    const gold_exception *exception = excepted(&c);
    bool good = run_case(&c, op, exception ? &unused : &worst, message, sizeof message);
    if (exception) {
      why = exception->why;
      known += !good;
      stale += good;
    } else if (!good && failed++ < MOST_SHOWN) {
      describe(&c);
      print_message(": %s\n", message);
    }
  }
  run.cases += cases;
  run.excepted += known;
  print_message("  %-32s %5d cases, worst error %.2g of what is allowed%s%s\n", name, cases, worst, op->why ? "; " : "",
                op->why ? op->why : "");
  if (known) { print_message("    %d of them differ: %s\n", known, why); }
  if (run.full) {
    char reason[400];
    if (failed && failed <= may_differ(name, reason, sizeof reason)) {
      print_message("    %d of them differ: %s\n", failed, reason);
      failed = 0;
    }
    stale = 0; /* those of the committed set are numbered otherwise */
  }
  if (failed || stale) {
    fail_msg("%s: %d of %d cases differ from PyTorch; %d excepted ones differ no more", name, failed, cases, stale);
  }
}

static void test_all_were_run(void **state) {
  (void)state;
  assert_false(run.file->broken);
  assert_int_equal(run.cases, run.file->cases);
  print_message("  %d cases, %d of them known to differ\n", run.cases, run.excepted);
}

static int run_file(const char *family, const char *path) {
  gold_file file;
  if (!gold_open(&file, path)) {
    print_error("%s: cannot be read\n", path);
    return 1;
  }
  static char names[MOST_OPS][48];
  static struct CMUnitTest tests[MOST_OPS + 1];
  static gold_case c;
  int count = 0, failed = 0;
  while (gold_next(&file, &c)) {
    bool seen = false;
    for (int i = 0; i < count && !seen; i++) { seen = strcmp(names[i], c.op) == 0; }
    if (!seen && count < MOST_OPS) {
      snprintf(names[count], sizeof names[count], "%s", c.op);
      tests[count] = (struct CMUnitTest){ .name = names[count], .test_func = test_op, .initial_state = names[count] };
      count++;
    }
  }
  run.file = &file;
  run.cases = run.excepted = 0;
  tests[count] = (struct CMUnitTest){ .name = "all were run", .test_func = test_all_were_run };
  failed = _cmocka_run_group_tests(family, tests, (size_t)count + 1, NULL, NULL);
  gold_close(&file);
  return failed;
}

/* A Python with PyTorch 2.15, whose values the committed set has, and what its database of ops imports; NULL: none. */
static const char *python_of_peers(const char *root, char *path, size_t size) {
  snprintf(path, size, "%s/../build/peers/bin/python", root);
  const char *all[] = { getenv("SITU_PEERS"), path, "/usr/bin/python3" };
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    char command[1200];
    snprintf(command, sizeof command,
             "'%s' -c 'import expecttest, torch; assert torch.__version__ >= (2, 15)' >/dev/null 2>&1",
             all[k] ? all[k] : "");
    if (all[k] && system(command) == 0) return all[k];
  }
  return NULL;
}

/* The full set, which is too large to be kept: made here, where PyTorch is. */
static int run_full(const char *family) {
  char command[2400], path[64], found[1000];
  const char *root = getenv("SITU_TEST_ROOT") ? getenv("SITU_TEST_ROOT") : "tests",
             *python = python_of_peers(root, found, sizeof found);
  if (!python) {
    print_message("the full set needs PyTorch 2.15 (./run bench --peers gets it): the committed set only\n");
    return 0;
  }
  snprintf(command, sizeof command, "'%s' '%s/../tools/golden/generate.py' --full . --only %s", python, root, family);
  snprintf(path, sizeof path, "%s.gold", family);
  run.full = true;
  int failed = system(command) == 0 ? run_file(family, path) : 1;
  remove(path);
  return failed;
}

int gold_main(const char *family, const gold_op *ops, const gold_exception *exceptions) {
  char name[64], path[1000];
  run.ops = ops;
  run.exceptions = exceptions;
  run.device = gold_device();
  situ_error_mode(SITU_ERROR_QUIET);
  snprintf(name, sizeof name, "%s.gold", family);
  int failed = run_file(family, gold_data(name, path, sizeof path));
  snprintf(name, sizeof name, "%s_edges.gold", family); /* which some families have */
  if (access(gold_data(name, path, sizeof path), R_OK) == 0) failed += run_file(family, path);
  return getenv("SITU_TEST_ALL") ? failed + run_full(family) : failed;
}
