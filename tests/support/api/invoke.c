/* See invoke.h.
   SPDX-License-Identifier: MIT */
#include "support/api/invoke.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "support/api/api.h"
#include "support/checked.h"
#include "support/test.h"

enum { PARAMETERS = 12, NUMBERS = 16, BYTES = 512 };

/* A call being made up. */
typedef struct frame {
  invocation *v;
  const api_function *function;
  uint64_t given_tensors, given_values; /* taken so far */
  int results;                          /* places of results given out so far */
  int64_t count;                        /* of the list before */
  bool in_options;
  situ_tensor *list[INVOKE_TENSORS];
  double number[NUMBERS];
  int numbers;
  _Alignas(16) unsigned char argument[PARAMETERS][sizeof(situ_shape)];
  _Alignas(16) unsigned char options[BYTES];
} frame;

/* ---- settings ---- */

/* The call's own, or what its function has. */
static const char *setting_of(const frame *f, const char *name, char mark) {
  const char *own = invoke_setting(f->v->settings, name, mark);
  return own ? own : invoke_setting_of(f->function->name + strlen("situ_"), name, mark);
}

/* A word of settings as a value: "-1", "0.5", "mean", "inf", "0,1". */
static invoke_value value_of(const char *text) {
  static char word[64];
  snprintf(word, sizeof word, "%.*s", (int)strcspn(text, " "), text);
  char *end;
  invoke_value value = { .kind = 'f', .f = strtod(word, &end), .s = word };
  value.i = (int64_t)strtoll(word, NULL, 0);
  for (char *at = word; *end == ',' && value.i < INVOKE_LIST; at += strcspn(at, ","), at += *at == ',') {
    if (value.kind != 'l') value = (invoke_value){ .kind = 'l' };
    if (!*at) break;
    value.list[value.i++] = strtoll(at, NULL, 0);
  }
  if (value.kind == 'l') return value;
  if (*end) value.kind = 's';
  else if (!strpbrk(word, ".einf")) value.kind = 'i';
  return value;
}

/* ---- values ---- */

static const invoke_value *find_given(frame *f, const char *name, size_t length) {
  for (int k = 0; k < f->v->values; k++) {
    const invoke_value *value = &f->v->value[k];
    if (strlen(value->name) != length || strncasecmp(value->name, name, length) != 0) continue;
    f->given_values |= (uint64_t)1 << k;
    return value;
  }
  return NULL;
}

/* As another name that the settings have for it. */
static bool find_renamed(frame *f, const char *name, invoke_value *value) {
  const char *other = setting_of(f, name, ':');
  if (!other) return false;
  const bool opposite = *other == '!';
  other += opposite;
  const size_t length = strcspn(other, " =");
  const invoke_value *given = find_given(f, other, length);
  if (!given) return false;
  *value = *given;
  if (opposite) value->i = !value->i;
  if (other[length] == '=') {
    const char *word = other + length + 1;
    if (!given->s) return false;
    *value = (invoke_value){ .kind = 'b', .i = strlen(given->s) == strcspn(word, " ") };
    value->i = value->i && strncmp(given->s, word, strlen(given->s)) == 0;
  }
  return true;
}

static bool find_value(frame *f, const char *name, invoke_value *value) {
  const bool elsewhere = invoke_setting(f->v->settings, name, ':') != NULL;
  const invoke_value *given = elsewhere ? NULL : find_given(f, name, strlen(name));
  if (given) *value = *given;
  if (given || find_renamed(f, name, value)) return true;
  if (strncmp(name, "no_", 3) == 0 && find_value(f, name + 3, value)) {
    value->i = !value->i;
    return true;
  }
  if (strncmp(name, "has_", 4) == 0 && find_given(f, name + 4, strlen(name + 4))) {
    *value = (invoke_value){ .kind = 'b', .i = 1 };
    return true;
  }
  char field[64]; /* of a struct, which has its own defaults */
  snprintf(field, sizeof field, ".%s", name);
  const char *otherwise = f->in_options ? invoke_setting(f->v->settings, field, '=') : setting_of(f, name, '=');
  if (otherwise) *value = value_of(otherwise);
  return otherwise != NULL;
}

/* The enumerator that ends with the word: mean is SITU_REDUCTION_MEAN; -inf is MINUS_INF. */
static bool enumerator(const api_enum *e, const char *word, int *out) {
  char end[64] = "_";
  const size_t minus = *word == '-';
  snprintf(end, sizeof end, "_%s%s", minus ? "MINUS_" : "", word + minus);
  for (char *c = end; *c; c++)
    if (*c == '-') *c = '_';
  for (int k = 0; k < e->count; k++) {
    const char *name = e->enumerator[k].name, *at = name + strlen(name) - strlen(end);
    if (at < name || strcasecmp(at, end) != 0) continue;
    *out = e->enumerator[k].value;
    return true;
  }
  return false;
}

static situ_shape shape_of(const char *name, const invoke_value *value) {
  situ_shape shape = { 0 };
  if (value->kind == 's') return shape;
  if (value->kind != 'l') shape = SITU_SHAPE(value->i);
  else
    for (; shape.ndim < value->i && shape.ndim < SITU_MAX_DIMS; shape.ndim++)
      shape.dim[shape.ndim] = value->list[shape.ndim];
  for (int d = 0; d < shape.ndim && value->kind == 'l' && strcmp(name, "output_size") == 0; d++)
    if (shape.dim[d] == -1) shape.dim[d] = SITU_KEEP_SIZE; /* torch's None, in golden files */
  return shape;
}

/* Writes a value as the type; false: the type is not one of values. */
static bool put_value(const api_parameter *p, const invoke_value *value, void *at) {
  const bool word = value->kind == 's';
  const double real = word ? SITU_NONE : value->kind == 'f' ? value->f : (double)value->i;
  const situ_shape shape = shape_of(p->name, value);
  const bool fits = value->kind != 'f' || (value->f >= -0x1p63 && value->f < 0x1p63);
  const int64_t whole = value->kind == 'f' && fits ? (int64_t)value->f : shape.ndim ? shape.dim[0] : 0;
  const bool flag = value->i != 0;
  const api_enum *e = api_find_enum(p->type);
  int constant = (int)whole;
  if (word && strcmp(value->s, "none") != 0 && !e && strcmp(p->type, "const char *") != 0) return false;
  if (value->kind == 'l' && value->i != 1 && strcmp(p->type, "situ_shape") != 0) return false;
  if (strcmp(p->type, "double") == 0) memcpy(at, &real, sizeof real);
  else if (strcmp(p->type, "_Bool") == 0) memcpy(at, &flag, sizeof flag);
  else if (strcmp(p->type, "situ_shape") == 0) memcpy(at, &shape, sizeof shape);
  else if (api_is(p->type, "int64_t int") && fits)
    memcpy(at, &whole, p->size); /* little-endian, as all that situ runs on */
  else if (strcmp(p->type, "const char *") == 0) memcpy(at, &value->s, sizeof value->s);
  else if (e && ((value->s && enumerator(e, value->s, &constant)) || !word)) memcpy(at, &constant, sizeof constant);
  else return false;
  return true;
}

/* ---- arguments ---- */

static situ_tensor *find_tensor(frame *f, const char *name) {
  const char *other = setting_of(f, name, ':');
  for (int k = 0; k < f->v->tensors; k++) {
    const char *given = f->v->tensor[k].name;
    const bool renamed =
        given && other && strlen(given) == strcspn(other, " ") && strncmp(given, other, strlen(given)) == 0;
    if (!given || (strcmp(given, name) != 0 && !renamed)) continue;
    f->given_tensors |= (uint64_t)1 << k;
    return f->v->tensor[k].tensor;
  }
  return NULL;
}

/* The first that is not taken yet; it may be NULL, as the result of a failed call is. */
static bool next_tensor(frame *f, situ_tensor **out) {
  for (int k = 0; k < f->v->tensors; k++) {
    if (f->given_tensors >> k & 1) continue;
    f->given_tensors |= (uint64_t)1 << k;
    *out = f->v->tensor[k].tensor;
    return true;
  }
  return false;
}

/* name.0, name.1, ... */
static situ_tensor *const *tensor_list(frame *f, const char *name) {
  char item[32];
  f->count = 0;
  while (snprintf(item, sizeof item, "%s.%d", name, (int)f->count), (f->list[f->count] = find_tensor(f, item)))
    f->count++;
  return f->list;
}

/* A number, or name0, name1, ...; NULL if none is given. */
static const double *number_list(frame *f, const char *name) {
  invoke_value value;
  char item[32];
  double *list = f->number + f->numbers;
  f->count = 0;
  if (find_value(f, name, &value)) list[f->count++] = value.kind == 'f' ? value.f : (double)value.i;
  const char *other = setting_of(f, name, ':');
  const int length = other ? (int)strcspn(other, " ") : (int)strlen(name);
  while (snprintf(item, sizeof item, "%.*s%d", length, other ? other : name, (int)f->count),
         f->numbers + f->count < NUMBERS && find_value(f, item, &value))
    list[f->count++] = value.kind == 'f' ? value.f : (double)value.i;
  f->numbers += (int)f->count;
  return f->count ? list : NULL;
}

static void fill_options(frame *f, const api_struct *s, unsigned char *at) {
  assert_in_range(s->size, 1, BYTES);
  memset(at, 0, BYTES);
  (void)api_defaults(s->name, at);
  f->in_options = true;
  for (int k = 0; k < s->count; k++) {
    const api_parameter field = { s->field[k].name, s->field[k].type, s->field[k].size };
    invoke_value value;
    void *place = at + s->field[k].offset;
    if (strcmp(field.name, "size") == 0 && strcmp(field.type, "size_t") == 0) continue; /* of the struct */
    if (strcmp(field.type, "situ_device") == 0) {
      if (!f->v->tensors && strcmp(field.name, "pinned") != 0) /* that of which device memory is pinned */
        memcpy(place, &f->v->device, sizeof f->v->device);
    } else if (strcmp(field.type, "situ_tensor *") == 0) {
      situ_tensor *tensor = find_tensor(f, field.name);
      memcpy(place, &tensor, sizeof tensor);
    } else if (strncmp(field.type, "double[", 7) == 0) {
      const double *list = number_list(f, field.name);
      if (list) memcpy(place, list, (size_t)f->count * sizeof *list);
    } else if (strcmp(field.type, "const double *") == 0) {
      const double *list = number_list(f, field.name);
      memcpy(place, &list, sizeof list);
    } else if (find_value(f, field.name, &value)) {
      (void)put_value(&field, &value, place);
    }
  }
  f->in_options = false;
}

static bool is_pointer(const char *type) { return type[strlen(type) - 1] == '*'; }

/* Where results go: one each to a function that returns the first, else all. */
static situ_tensor **result_place(frame *f) {
  if (strcmp(f->function->returns, "situ_tensor *") != 0) return f->v->out;
  f->results++;
  return f->results < f->v->outs ? &f->v->out[f->results] : NULL;
}

static const int64_t *whole_list(frame *f, const char *name) {
  const invoke_value *given = find_given(f, name, strlen(name));
  f->count = given ? given->i : 0;
  return given ? given->list : NULL;
}

/* Everything but tensors that are told by their place. Returns false, with a message, if it is missing. */
static bool fill(frame *f, const api_parameter *p, void *at) {
  const char *type = p->type;
  const api_struct *s = strncmp(type, "const ", 6) == 0 ? api_find_struct(type) : NULL;
  const void *pointer = NULL;
  invoke_value value = { .kind = 'i' };
  if (strcmp(type, "situ_tensor *") == 0) pointer = find_tensor(f, p->name);
  else if (strcmp(type, "situ_tensor *const *") == 0) pointer = tensor_list(f, p->name);
  else if (strcmp(type, "situ_tensor **") == 0) pointer = result_place(f);
  else if (strcmp(type, "const double *") == 0) pointer = number_list(f, p->name);
  else if (strcmp(type, "const int64_t *") == 0) pointer = whole_list(f, p->name);
  else if (s) fill_options(f, s, f->options), pointer = f->options;
  else if (strcmp(p->name, "count") == 0) value.i = f->count, put_value(p, &value, at);
  else if (strcmp(p->name, "capacity") == 0) value.i = INVOKE_RESULTS, put_value(p, &value, at);
  else if (is_pointer(type) && strcmp(type, "const char *") != 0)
    pointer = p == f->function->parameter ? f->v->object : NULL;
  else {
    const bool found = find_value(f, p->name, &value);
    if (!found && strcmp(type, "situ_shape") == 0) value = (invoke_value){ .kind = 'l' };
    else if (!found) snprintf(f->v->message, sizeof f->v->message, "%s: no %s", f->function->name, p->name);
    if ((found || value.kind == 'l') && put_value(p, &value, at)) return true;
    if (found) snprintf(f->v->message, sizeof f->v->message, "%s: %s is not a %s", f->function->name, p->name, type);
    return false;
  }
  if (is_pointer(type)) memcpy(at, &pointer, sizeof pointer);
  return true;
}

static bool takes_all(frame *f) {
  invocation *v = f->v;
  const char *left = NULL;
  for (int k = 0; k < v->tensors; k++)
    if (!(f->given_tensors >> k & 1)) left = v->tensor[k].name ? v->tensor[k].name : "so many tensors";
  for (int k = 0; k < v->values; k++)
    if (!(f->given_values >> k & 1) && !strchr(v->value[k].name, '.') && !setting_of(f, v->value[k].name, '-'))
      left = v->value[k].name;
  if (left) snprintf(v->message, sizeof v->message, "%s does not take %s", f->function->name, left);
  return !left;
}

/* Tensors that were not given by name, in order; a list takes all that are left. */
static void fill_by_place(frame *f) {
  for (int k = 0; k < f->function->count; k++) {
    const char *type = f->function->parameter[k].type;
    situ_tensor *tensor;
    memcpy(&tensor, f->argument[k], sizeof tensor);
    if (strcmp(type, "situ_tensor *") == 0 && !tensor && next_tensor(f, &tensor))
      memcpy(f->argument[k], &tensor, sizeof tensor);
    if (strcmp(type, "situ_tensor *const *") != 0 || f->list[0]) continue;
    f->count = 0;
    while (next_tensor(f, &f->list[f->count])) f->count++;
    memcpy(f->argument[k + 1], &f->count, f->function->parameter[k + 1].size); /* the parameter `count` */
  }
}

static bool fill_all(frame *f) {
  for (int k = 0; k < f->function->count; k++)
    if (!fill(f, &f->function->parameter[k], f->argument[k])) return false;
  fill_by_place(f);
  return takes_all(f);
}

static void call(frame *f) {
  const api_function *function = f->function;
  invocation *v = f->v;
  void *argument[PARAMETERS], *result[sizeof(situ_shape) / sizeof(void *) + 1] = { NULL };
  v->called = function->name + strlen("situ_");
  checked_call look;
  checked_begin(&look, function->name);
  for (int k = 0; k < function->count; k++) {
    argument[k] = f->argument[k];
    if (strcmp(function->parameter[k].type, "situ_tensor *") == 0)
      checked_keep(&look, function->parameter[k].name, *(situ_tensor **)argument[k]);
  }
  function->call(argument, result);
  checked_end(&look, function->result, result);
  int64_t number;
  memcpy(&number, result, sizeof number);
  if (strcmp(function->returns, "situ_tensor *") == 0) v->out[0] = result[0];
  else if (function->result == API_POINTER) v->object = result[0];
  else if (function->result == API_COUNT && number != v->outs) v->out[0] = NULL;
}

/* Is it the word, but for underscores and case? maxpool2d is max_pool2d. */
static bool is_named(const char *name, const char *word) {
  for (;; name++, word++) {
    while (*name == '_') name++;
    while (*word == '_') word++;
    const bool ended = !*word || *word == ' ';
    if (!*name || ended) return !*name && ended;
    if (strncasecmp(name, word, 1) != 0) return false;
  }
}

static const api_function *find_function(const char *word) {
  const api_function *list, *like = NULL;
  const size_t count = api_functions_list(&list), length = strcspn(word, " ");
  for (size_t k = 0; k < count; k++) {
    const char *name = list[k].name + strlen("situ_");
    if (strncmp(name, word, length) == 0 && !name[length]) return &list[k];
    if (!like && is_named(name, word)) like = &list[k];
  }
  return like;
}

bool invoke_knows(const char *function) {
  const api_function *found = find_function(function);
  return found && strcmp(found->name + strlen("situ_"), function) == 0;
}

bool invoke(invocation *v) {
  snprintf(v->message, sizeof v->message, "there is no situ_%s", v->functions);
  for (const char *word = v->functions; *word; word += strcspn(word, " "), word += strspn(word, " ")) {
    frame f = { .v = v, .function = find_function(word) };
    if (!f.function || f.function->count > PARAMETERS || !fill_all(&f)) continue;
    call(&f);
    return true;
  }
  return false;
}

situ_tensor *invoke_op(const char *functions, const char *settings, situ_tensor *const *t, int count,
                       situ_tensor **also) {
  static const char *const ordinal[] = { "0", "1", "2", "3", "4", "5", "6", "7" };
  invocation v = { .functions = functions, .settings = settings, .tensors = count, .outs = also ? 2 : 1 };
  for (int k = 0; k < count; k++) v.tensor[k] = (invoke_tensor){ ordinal[k], t[k] };
  if (!invoke(&v)) fail_msg("%s", v.message);
  if (also) *also = v.out[1];
  return v.out[0];
}
