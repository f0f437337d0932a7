/* Bad values for every type of argument, and those that are left out.
   SPDX-License-Identifier: MIT */
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/api/api.h"
#include "support/test.h"
#include "situ/sys/explain.h"
#include "situ/sys/op.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* What a caller alone can know. "*": every function; "struct": what the pointer leads to is trusted, NULL is tried.
   "larger": a count beyond the end of the caller's own array. */
static const struct {
  const char *functions, *parameters, *what, *reason;
} undefined[] = {
  { "*", "size", "larger", "no function can know that the caller's buffer is smaller" },
  { "*", "fmt", "text", "printf's formats ask for arguments" },
  { "*", "count ins count_in count_out capacity", "larger", "no function can know that the caller's array is shorter" },
};

/* One walk over the bad values of an argument: the k-th is put in place, those before it are only counted. */
typedef struct walk {
  api_world *w;
  const api_parameter *parameter;
  int left;  /* values still to be passed by */
  int depth; /* of pointers to structs */
  bool done;
} walk;

static bool is_it(walk *b) {
  if (b->done || b->left-- > 0) return false;
  return b->done = true;
}

static void say(walk *b, const char *path, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
static void say(walk *b, const char *path, const char *fmt, ...) {
  char value[160];
  va_list args;
  va_start(args, fmt);
  (void)vsnprintf(value, sizeof value, fmt, args);
  va_end(args);
  (void)snprintf(b->w->text, sizeof b->w->text, "%s = %s", path, value);
}

static bool trusted_to_fit(const walk *b) {
  for (size_t i = 0; i < COUNT(undefined); i++)
    if (api_is(b->parameter->name, undefined[i].parameters)) return true;
  return false;
}

static void bad_integer(walk *b, const char *path, void *at, size_t size, bool is_unsigned) {
  static const int64_t value[] = {
    0,         -1,        -5,           1, INT8_MAX, 1000, INT32_MAX, INT32_MIN, (int64_t)1 << 32, (int64_t)1 << 40,
    INT64_MAX, INT64_MIN, INT64_MIN + 1
  };
  int64_t valid = 0;
  memcpy(&valid, at, size);
  for (size_t i = 0; i < COUNT(value); i++) {
    int64_t v = value[i];
    if (size < 8 && (v > ((int64_t)1 << (8 * size - 1)) - 1 || v < -((int64_t)1 << (8 * size - 1)))) continue;
    if ((is_unsigned ? (uint64_t)v > (uint64_t)valid : v > valid) && trusted_to_fit(b)) continue;
    if (!is_it(b)) continue;
    memcpy(at, &v, size);
    b->w->nonsense = !is_unsigned && v < 0;
    say(b, path, "%lld", (long long)v);
  }
}

static void bad_number(walk *b, const char *path, double *at) {
  static const double value[] = {
    0, -1, 1, 2, 1e-300, 1e300, -1e300, NAN, INFINITY, -INFINITY, DBL_MAX, 9.3e18, 5e-324
  };
  for (size_t i = 0; i < COUNT(value); i++) {
    if (!is_it(b)) continue;
    *at = value[i];
    b->w->nonsense = isnan(value[i]);
    say(b, path, "%g", value[i]);
  }
}

static void bad_enum(walk *b, const char *path, int *at, const api_enum *e) {
  const int value[] = { -1, 0, e->last, e->last + 1, 1000, INT_MAX, INT_MIN };
  for (size_t i = 0; i < COUNT(value); i++) {
    if (!is_it(b)) continue;
    *at = value[i];
    b->w->nonsense = value[i] < 0 || value[i] > e->last;
    say(b, path, "%d", value[i]);
  }
}

static void bad_device(walk *b, const char *path, situ_device *at) {
  static const situ_device value[] = { { SITU_DEVICE_DEFAULT, 0 },
                                       { SITU_DEVICE_DEFAULT, 3 },
                                       { SITU_META, 0 },
                                       { SITU_CPU, 0 },
                                       { SITU_CPU, 1 },
                                       { SITU_SIM, 1 },
                                       { SITU_SIM, 15 },
                                       { SITU_SIM, 65535 },
                                       { SITU_OPENCL, 63 },
                                       { SITU_CUDA, 63 },
                                       { SITU_DEVICE_KINDS, 0 },
                                       { 1000, 1000 },
                                       { 65535, 65535 } };
  for (size_t i = 0; i < COUNT(value); i++) {
    if (!is_it(b)) continue;
    *at = value[i];
    b->w->nonsense = !situ_device_is_available(value[i]);
    say(b, path, "{%d, %d}", value[i].kind, value[i].index);
  }
}

static void bad_shape(walk *b, const char *path, situ_shape *at) {
  static const situ_shape value[] = { { 0 },
                                      { -1, { 2 } },
                                      { 9, { 1 } },
                                      { INT_MAX, { 1 } },
                                      { INT_MIN, { 1 } },
                                      { 1, { -1 } },
                                      { 1, { 0 } },
                                      { 1, { -2 } },
                                      { 1, { INT64_MAX } },
                                      { 1, { INT64_MIN } },
                                      { 2, { (int64_t)1 << 40, (int64_t)1 << 40 } },
                                      { 2, { INT64_MAX, INT64_MAX } },
                                      { 3, { 0, INT64_MAX, INT64_MAX } },
                                      { 2, { -1, -1 } },
                                      { 2, { 0, 0 } },
                                      { 2, { INT64_MIN, -1 } },
                                      { 8, { 1, 1, 1, 1, 1, 1, 1, 1 } },
                                      { 8, { 1, 2, 3, 4, 5, 6, 7, 8 } },
                                      { 3, { 1, 1, 1 } },
                                      { 1, { (int64_t)1 << 45 } } };
  for (size_t i = 0; i < COUNT(value); i++) {
    if (!is_it(b)) continue;
    *at = value[i];
    b->w->nonsense = value[i].ndim < 0 || value[i].ndim > SITU_MAX_DIMS || (value[i].ndim > 0 && value[i].dim[0] < -1);
    say(b, path, "{%d, {%lld, %lld, ...}}", value[i].ndim, (long long)value[i].dim[0], (long long)value[i].dim[1]);
  }
}

static void bad_text(walk *b, const char *path, const char **at) {
  static char endless[5000];
  memset(endless, 'n', sizeof endless - 1);
  const char *const value[] = {
    NULL, "",         endless,  "no such thing",         "%s%s%n", "\033[2J\n", "..", "/", "a..b",
    "*",  "\xff\xfe", "sim:99", "no/such/directory/file"
  };
  for (size_t i = 0; i < COUNT(value) && (i < 1 || strcmp(path, "fmt") != 0); i++) {
    if (!is_it(b)) continue;
    *at = value[i];
    say(b, path, "%s",
        !value[i]             ? "NULL"
        : value[i] == endless ? "4999 letters"
        : i == 5              ? "an escape sequence"
                              : value[i]);
  }
}

static void keep_all(walk *b, const char *type) {
  if (strstr(type, "situ_nn_module") || strstr(type, "situ_lr_scheduler *const"))
    for (int i = 0; i < b->w->owned_count; i++) b->w->owned[i].owner = API_KEPT;
}

/* Live tensors that few functions can do with. */
static situ_tensor *odd_tensor(walk *b, int which, const char **what) {
  api_world *w = b->w;
  const situ_options here = { .device = w->device };
  situ_tensor *t = NULL;
  switch (which) {
  case 0:
    *what = "0-dim";
    t = api_tensor(w, SITU_F32, SITU_SCALAR);
    break;
  case 1:
    *what = "empty";
    t = api_tensor(w, SITU_F32, SITU_SHAPE(0));
    break;
  case 2:
    *what = "empty [2, 0]";
    t = api_tensor(w, SITU_F32, SITU_SHAPE(2, 0));
    break;
  case 3:
    *what = "of 8 dimensions";
    t = api_tensor(w, SITU_F32, SITU_SHAPE(1, 2, 1, 2, 1, 2, 1, 2));
    break;
  case 4:
    *what = "[3, 5]";
    t = api_tensor(w, SITU_F32, SITU_SHAPE(3, 5));
    break;
  case 5:
    *what = "bool";
    t = api_tensor(w, SITU_BOOL, SITU_SHAPE(2, 2));
    break;
  case 6:
    *what = "i64";
    t = api_tensor(w, SITU_I64, SITU_SHAPE(2, 2));
    break;
  case 7:
    *what = "u8";
    t = api_tensor(w, SITU_U8, SITU_SHAPE(2, 2));
    break;
  case 8:
    *what = "f16";
    t = api_tensor(w, SITU_F16, SITU_SHAPE(2, 2));
    break;
  case 9:
    *what = "f64";
    t = api_tensor(w, SITU_F64, SITU_SHAPE(2, 2));
    break;
  case 10:
    *what = "unwritten";
    t = situ_empty(SITU_SHAPE(2, 2), &here);
    break;
  case 11:
    *what = "on meta";
    t = situ_zeros(SITU_SHAPE(2, 2), &(situ_options){ .device = { SITU_META, 0 } });
    break;
  case 12:
    *what = "on sim:1";
    t = situ_zeros(SITU_SHAPE(2, 2), &(situ_options){ .device = { SITU_SIM, 1 } });
    break;
  case 13:
    *what = "expanded from one element";
    t = situ_expand(api_tensor(w, SITU_F32, SITU_SHAPE(1)), SITU_SHAPE(2, 2));
    break;
  case 14:
    *what = "expanded to 2^60 elements";
    t = situ_expand(api_tensor(w, SITU_F32, SITU_SHAPE(1)), SITU_SHAPE((int64_t)1 << 30, (int64_t)1 << 30));
    break;
  case 15:
    *what = "transposed";
    t = situ_transpose(api_tensor(w, SITU_F32, SITU_SHAPE(2, 2)), 0, 1);
    break;
  case 16:
    *what = "a leaf that requires a gradient";
    t = situ_requires_grad_(api_tensor(w, SITU_F32, SITU_SHAPE(2, 2)), true);
    break;
  case 17:
    *what = "NaN";
    t = situ_full(SITU_SHAPE(2, 2), NAN, &here);
    break;
  case 18:
    *what = "i64 of -1";
    t = situ_full(SITU_SHAPE(2), -1, &(situ_options){ .device = w->device, .dtype = SITU_I64 });
    break;
  case 19:
    *what = "i64 of 2^62";
    t = situ_full(SITU_SHAPE(2, 2), 4611686018427387904.0, &(situ_options){ .device = w->device, .dtype = SITU_I64 });
    break;
  case 20:
    *what = "i64, empty";
    t = api_tensor(w, SITU_I64, SITU_SHAPE(0));
    break;
  case 21:
    *what = "i64, 0-dim";
    t = api_tensor(w, SITU_I64, SITU_SCALAR);
    break;
  default: return NULL;
  }
  return which >= 10 && which <= 19 && which != 16 ? api_note(w, t) : t;
}

static void bad_tensor(walk *b, const char *path, situ_tensor **at) {
  const char *what = "";
  if (is_it(b)) {
    *at = NULL;
    say(b, path, "NULL");
  }
  if (b->done) return;
  if (b->left >= 22) b->left -= 22;
  else {
    *at = odd_tensor(b, b->left, &what);
    b->done = true;
    say(b, path, "%s", what);
  }
}

static void free_dataset(void *d) { situ_dataset_free(d); }
static int64_t less_than_none(situ_dataset *self) { return self ? -5 : 0; }
static int64_t endless(situ_dataset *self) { return self ? INT64_MAX : 0; }
static int64_t two(situ_dataset *self) { return self ? 2 : 0; }
static situ_tree *get_nothing(situ_dataset *self, int64_t index) { return self && index < 0 ? situ_tree_none() : NULL; }

static void bad_dataset(walk *b, const char *path, situ_dataset **at) {
  static const situ_dataset_type type[] = {
    { .name = "short", .size = sizeof(situ_dataset), .length = less_than_none, .get = get_nothing },
    { .name = "endless", .size = sizeof(situ_dataset), .length = endless, .get = get_nothing },
    { .name = "empty-handed", .size = sizeof(situ_dataset), .length = two, .get = get_nothing },
  };
  for (size_t i = 0; i < COUNT(type); i++) {
    if (!is_it(b)) continue;
    const api_owner owner = api_keep(b->w, *at);
    *at = api_own(b->w, situ_dataset_alloc(&type[i]), free_dataset, owner);
    say(b, path, "a data set, %s", type[i].name);
  }
}

static void free_tree(void *t) { situ_tree_free(t); }

static void bad_tree(walk *b, const char *path, situ_tree **at) {
  for (int i = 0; i < 4; i++) {
    if (!is_it(b)) continue;
    const api_owner owner = api_keep(b->w, *at);
    situ_tree *t = i == 0 ? situ_tree_none() : i == 1 ? situ_tree_list() : i == 2 ? situ_tree_dict() : NULL;
    if (i == 3) { /* as deep as a tree can be */
      t = situ_tree_tensor(api_tensor(b->w, SITU_F32, SITU_SHAPE(2, 2)));
      for (int k = 0; k < 62; k++) t = situ_tree_append(situ_tree_list(), t);
    }
    *at = api_own(b->w, t, free_tree, owner);
    static const char *const what[] = { "nothing", "an empty list", "an empty dict", "63 levels deep" };
    say(b, path, "%s", what[i]);
  }
}

static void bad_value(walk *b, const char *path, const char *type, void *at, size_t size);

/* A pointer: NULL, then what is the matter with what it leads to. */
static void bad_pointer(walk *b, const char *path, const char *type, void **at) {
  const size_t length = strlen(type);
  const bool handle = !api_find_struct(type) || api_is(type, "situ_nn_module situ_dataset");
  if (strcmp(type, "situ_tensor *") == 0 || strcmp(type, "const situ_tensor *") == 0) {
    bad_tensor(b, path, (situ_tensor **)at);
    return;
  }
  void *was = *at;
  if (was && is_it(b)) {
    (void)api_keep(b->w, was);
    keep_all(b, type);
    *at = NULL;
    say(b, path, "NULL");
  }
  if (b->done || !was) return;
  if (strcmp(type, "situ_dataset *") == 0) bad_dataset(b, path, (situ_dataset **)at);
  if (strstr(type, "situ_tree *") && !strstr(type, "*const *") && type[length - 2] != '*')
    bad_tree(b, path, (situ_tree **)at);
  if (strcmp(type, "situ_tensor *const *") == 0) bad_value(b, path, "situ_tensor *", was, sizeof(void *));
  if (strcmp(type, "situ_tree *const *") == 0) bad_value(b, path, "situ_tree *", was, sizeof(void *));
  if (strcmp(type, "situ_nn_module *const *") == 0 && is_it(b)) {
    (void)api_keep(b->w, *(void **)was);
    *(void **)was = NULL;
    say(b, path, "{ NULL }");
  }
  if (strcmp(type, "const int64_t *") == 0) bad_integer(b, path, was, sizeof(int64_t), false);
  const api_struct *s = handle || b->depth > 1 ? NULL : api_find_struct(type);
  /* What the caller fills in; a struct that a function fills in, or keeps its own state in, has no bad fields. */
  if (!s || (strncmp(type, "const ", 6) != 0 && !strstr(type, "_checkpoint *") && strcmp(type, "situ_shape *") != 0))
    return;
  if (api_is(
          s->name,
          "situ_op situ_call situ_grad_call situ_batch_call situ_work situ_view_desc situ_storage situ_host situ_module_lore "
          "situ_scope situ_ledger situ_place_report situ_place_fixes situ_place_layout situ_nn_module situ_dataset situ_data_loader"))
    return;
  if (strcmp(s->name, "situ_shape") == 0) {
    bad_shape(b, path, was);
    return;
  }
  for (int i = 0; i < s->count; i++) {
    char inner[160];
    (void)snprintf(inner, sizeof inner, "%s->%s", path, s->field[i].name);
    b->depth++;
    const bool before = b->done;
    bad_value(b, inner, s->field[i].type, (char *)was + s->field[i].offset, s->field[i].size);
    if (!before && b->done && i == 0 && api_defaults(s->name, NULL)) b->w->must_fail = true; /* a wrong `size` */
    b->depth--;
  }
}

static void bad_value(walk *b, const char *path, const char *type, void *at, size_t size) {
  const api_enum *e = api_find_enum(type);
  const size_t length = strlen(type);
  if (strcmp(type, "const char *") == 0) bad_text(b, path, at);
  else if (strcmp(path, "payload") == 0 || type[length - 1] == ']') return;
  else if (
      strchr(type, '(') ||
      api_is(
          type,
          "situ_grad_hook situ_tree_visitor situ_nn_visitor situ_nn_hook situ_nn_move_hook situ_log_fn situ_func situ_func_many situ_post_accumulate_grad_hook situ_grad_ready_hook situ_optim_closure situ_dist_make_optim situ_backward_callback situ_composition situ_nn_normaliser")) {
    if (*(void **)at && is_it(b)) {
      *(void **)at = NULL;
      say(b, path, "NULL");
    }
  } else if (type[length - 1] == '*') bad_pointer(b, path, type, at);
  else if (strcmp(type, "double") == 0) bad_number(b, path, at);
  else if (strcmp(type, "_Bool") == 0) {
    if (is_it(b)) {
      *(bool *)at = !*(bool *)at;
      say(b, path, "%s", *(bool *)at ? "true" : "false");
    }
  } else if (e) bad_enum(b, path, at, e);
  else if (strcmp(type, "situ_device") == 0) bad_device(b, path, at);
  else if (strcmp(type, "situ_shape") == 0) bad_shape(b, path, at);
  else if (api_is(type, "char int int64_t int32_t size_t uint64_t uint32_t uint16_t uint8_t unsigned")) {
    if (api_is(b->parameter->name, "count")) keep_all(b, b->done ? "" : "situ_nn_module");
    bad_integer(b, path, at, size, type[0] == 'u' || type[0] == 's');
  } else {
    const api_struct *s = api_find_struct(type);
    for (int i = 0; s && i < s->count; i++) {
      char inner[160];
      (void)snprintf(inner, sizeof inner, "%s.%s", path, s->field[i].name);
      bad_value(b, inner, s->field[i].type, (char *)at + s->field[i].offset, s->field[i].size);
    }
  }
}

bool api_bad(api_world *w, int i, int k) {
  const api_parameter *p = &w->function->parameter[i];
  walk b = { .w = w, .parameter = p, .left = k };
  bad_value(&b, p->name, p->type, w->argument[i], p->size);
  return b.done;
}
