/* Reads the nodes of a .pt2 graph, and lists the calls that situ lacks.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "program/graph/bind.h"
#include "pt2.h"

/* ---- values ---- */

bool situ__pt2_add_value(situ__pt2 *f, situ__names *names, const char *name, situ__value_kind kind, int32_t *out) {
  situ__program *p = f->program;
  if (situ__names_get(names, name) >= 0) return situ__pt2_bad(f, SITU_E_FORMAT, "has two values '%s'", name);
  if (!situ__program_add_value(p, kind, out)) return situ__pt2_no_memory();
  return situ__names_put(names, name, *out) || situ__pt2_no_memory();
}

/* ---- arguments ---- */

static bool read_value(situ__pt2 *f, const situ__names *names, const char *name, situ__arg *out) {
  const int32_t value = situ__names_get(names, name);
  if (value < 0) return situ__pt2_bad(f, SITU_E_FORMAT, "uses a value '%s' before it is computed", name);
  *out = (situ__arg){ .kind = SITU__ARG_VALUE, .of = f->program->kind[value], .integer = value };
  return true;
}

static bool read_real(const situ__json_item *item, situ__arg *out) {
  *out = (situ__arg){ .kind = SITU__ARG_FLOAT };
  if (item->kind == SITU__JSON_NUMBER) out->real = item->real;
  else if (item->kind == SITU__JSON_INTEGER) out->real = (double)item->integer;
  else if (item->kind == SITU__JSON_STRING && strcmp(item->text, "Infinity") == 0) out->real = INFINITY;
  else if (item->kind == SITU__JSON_STRING && strcmp(item->text, "-Infinity") == 0) out->real = -INFINITY;
  else if (item->kind == SITU__JSON_STRING && strcmp(item->text, "NaN") == 0) out->real = NAN;
  else return false;
  return true;
}

/* The form of an element, by the name of its argument: "as_tensor" for "as_tensors". */
static bool read_element(situ__pt2 *f, const situ__names *names, const char *form, const situ__json_item *item,
                         situ__arg *out) {
  const char *name = situ__pt2_string(situ__json_get(item, "name"));
  const char *symbol = situ__pt2_string(situ__json_get(item, "as_name"));
  char dtype[32];
  if (strcmp(form, "as_none") == 0) return *out = (situ__arg){ 0 }, true;
  if (strcmp(form, "as_tensor") == 0 && *name) return read_value(f, names, name, out);
  if (strncmp(form, "as_sym_", 7) == 0 && *symbol) return read_value(f, names, symbol, out);
  /* A constant among symbols, or an optional tensor: a form inside. */
  const bool inner = strncmp(form, "as_sym_", 7) == 0 || strcmp(form, "as_optional_tensor") == 0;
  if (inner && item->kind == SITU__JSON_OBJECT && item->count == 1 && strncmp(item[1].key, "as_sym_", 7) != 0 &&
      strcmp(item[1].key, "as_optional_tensor") != 0)
    return read_element(f, names, item[1].key, item + 1, out);
  if (strcmp(form, "as_int") == 0 && item->kind == SITU__JSON_INTEGER)
    return *out = (situ__arg){ .kind = SITU__ARG_INT, .integer = item->integer }, true;
  if (strcmp(form, "as_bool") == 0 && (item->kind == SITU__JSON_TRUE || item->kind == SITU__JSON_FALSE))
    return *out = (situ__arg){ .kind = SITU__ARG_BOOL, .integer = item->kind == SITU__JSON_TRUE }, true;
  if (strcmp(form, "as_float") == 0 && read_real(item, out)) return true;
  if (strcmp(form, "as_string") == 0 && item->kind == SITU__JSON_STRING) {
    *out = (situ__arg){ .kind = SITU__ARG_TEXT,
                        .text = situ__arena_text(&f->program->arena, item->text, strlen(item->text)) };
    return out->text || situ__pt2_no_memory();
  }
  if (strcmp(form, "as_scalar_type") == 0) {
    *out = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = situ__pt2_dtype(item) };
    return out->integer != SITU_DTYPE_DEFAULT ||
           situ__pt2_bad(f, SITU_E_UNSUPPORTED, "uses the dtype %s, which this library lacks",
                         situ__pt2_dtype_name(item, dtype));
  }
  *out = (situ__arg){ .kind = SITU__ARG_OTHER };
  return true;
}

static bool read_list(situ__pt2 *f, const situ__names *names, const char *form, const situ__json_item *items,
                      situ__arg *out) {
  situ__arg *list = situ__arena_take(&f->program->arena, items->count, sizeof *list);
  if (!list) return situ__pt2_no_memory();
  int32_t count = 0;
  for (EACH_MEMBER(m, items))
    if (!read_element(f, names, form, m, &list[count++])) return false;
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = list };
  return true;
}

bool situ__pt2_arg(situ__pt2 *f, const situ__names *names, const situ__json_item *item, situ__arg *out) {
  char form[32];
  if (!item || item->kind != SITU__JSON_OBJECT || item->count != 1)
    return situ__pt2_bad(f, SITU_E_FORMAT, "has an argument that is not one of the format's forms");
  const situ__json_item *held = item + 1;
  const size_t length = strlen(held->key);
  if (held->kind != SITU__JSON_ARRAY || length >= sizeof form) return read_element(f, names, held->key, held, out);
  /* The form of a list is that of an element and "s". */
  (void)snprintf(form, sizeof form, "%.*s", length ? (int)length - 1 : 0, held->key);
  return read_list(f, names, form, held, out);
}

/* ---- where a node comes from ---- */

/* "bert.py:12 in forward" of the innermost frame outside of torch, else of the innermost one. */
static const char *site_of(situ__pt2 *f, const char *trace) {
  const char *best = NULL, *at = trace;
  while ((at = strstr(at, "File \""))) {
    const char *end = strchr(at += 6, '"');
    if (!end) break;
    const char *torch = strstr(at, "/torch/");
    if (!best || !torch || torch > end) best = at;
  }
  char site[160];
  int line;
  if (!best) return "";
  const char *end = strchr(best, '"'), *name = best;
  for (const char *c = best; c < end; c++)
    if (*c == '/') name = c + 1;
  if (sscanf(end, "\", line %d", &line) != 1) return "";
  const char *in = strstr(end, ", in ");
  (void)snprintf(site, sizeof site, "%.*s:%d%.*s", (int)(end - name), name, line, in ? (int)strcspn(in + 1, "\n") : 0,
                 in ? in + 1 : "");
  const char *kept = situ__arena_text(&f->program->arena, site, strlen(site));
  return kept ? kept : "";
}

static bool is_path(const char *path, size_t length) {
  char before = '.';
  for (size_t i = 0; i < length; before = path[i++])
    if ((path[i] == '.' && before == '.') ||
        (path[i] != '.' && path[i] != '_' && path[i] != '-' && !(path[i] >= '0' && path[i] <= '9') &&
         !(path[i] >= 'a' && path[i] <= 'z') && !(path[i] >= 'A' && path[i] <= 'Z')))
      return false;
  return before != '.';
}

/* Keeps the class of a module for its name when it is printed. */
static bool note_class(situ__pt2 *f, const char *path, const char *class, size_t length) {
  if (situ__names_get(&f->classes, path) >= 0) return true;
  const char *last = class;
  for (size_t i = 0; i < length; i++)
    if (class[i] == '.') last = class + i + 1;
  if (!situ__grow(NULL, &f->class_names, &f->class_capacity, sizeof *f->class_names, f->class_count + 1))
    return situ__pt2_no_memory();
  const char *name = situ__arena_text(&f->program->arena, last, (size_t)(class + length - last));
  if (!name || !situ__names_put(&f->classes, path, f->class_count)) return situ__pt2_no_memory();
  f->class_names[f->class_count++] = name;
  return true;
}

/* Reads "key,path,class;key,path,class": sets *path to that of the innermost module. */
static bool read_stack(situ__pt2 *f, const char *stack, const char **path) {
  *path = "";
  while (*stack) {
    const size_t whole = strcspn(stack, ";");
    const char *first = memchr(stack, ',', whole), *second = first ? strchr(first + 1, ',') : NULL;
    if (!second || second > stack + whole) return true;
    const size_t length = strcspn(first + 1, ",@"); /* fc@1: the second call of fc */
    if (length == 0 || is_path(first + 1, length)) {
      const char *kept = situ__arena_text(&f->program->arena, first + 1, length);
      if (!kept) return situ__pt2_no_memory();
      const bool known = strncmp(stack, "_empty", 6) != 0;
      if (known && !note_class(f, kept, second + 1, (size_t)(stack + whole - second - 1))) return false;
      if (known) *path = kept;
    }
    stack += whole + (stack[whole] != 0);
  }
  return true;
}

/* ---- nodes ---- */

/* Adds the values of one output, which may be a list. */
static bool read_output(situ__pt2 *f, situ__names *names, const situ__json_item *item, int32_t *out, int32_t *count) {
  static const struct {
    const char *form;
    situ__value_kind kind;
  } forms[] = { { "as_tensor", SITU__VALUE_TENSOR },
                { "as_sym_int", SITU__VALUE_INT },
                { "as_sym_bool", SITU__VALUE_BOOL },
                { "as_sym_float", SITU__VALUE_FLOAT } };
  if (item->kind != SITU__JSON_OBJECT || item->count != 1) return situ__pt2_bad(f, SITU_E_FORMAT, "has a bad output");
  const situ__json_item *held = item + 1;
  if (strcmp(held->key, "as_optional_tensor") == 0) return read_output(f, names, held, out, count);
  if (strcmp(held->key, "as_tensors") == 0) {
    for (EACH_MEMBER(m, held)) {
      const char *name = situ__pt2_string(situ__json_get(m, "name"));
      if (!situ__pt2_add_value(f, names, name, SITU__VALUE_TENSOR, &out[(*count)++])) return false;
    }
    return true;
  }
  out[*count] = -1;
  for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
    if (strcmp(held->key, forms[k].form) == 0) {
      const char *name = situ__pt2_string(situ__json_get(held, k ? "as_name" : "name"));
      if (*name && !situ__pt2_add_value(f, names, name, forms[k].kind, &out[*count])) return false;
    }
  (*count)++;
  return true;
}

static bool read_outputs(situ__pt2 *f, situ__names *names, const situ__json_item *list, situ__program_node *n) {
  /* The list has more items than outputs. */
  int32_t *out = situ__arena_take(&f->program->arena, list ? list->size : 0, sizeof *out);
  if (!out) return situ__pt2_no_memory();
  n->out = out;
  for (EACH_MEMBER(m, list))
    if (!read_output(f, names, m, out, &n->outs)) return false;
  return true;
}

/* Whether the value v can be the number that a node gives. */
static bool is_number_of(const situ__program_node *n, const situ__program *p, int32_t v) {
  const situ__real real = n->row->real;
  bool given = real == SITU__REAL_ALWAYS;
  for (int k = situ__op_row_args(n->row); k-- > 0 && real == SITU__REAL_AS_ARGS;)
    given |=
        n->arg[k].kind == SITU__ARG_FLOAT || (n->arg[k].kind == SITU__ARG_VALUE && n->arg[k].of == SITU__VALUE_FLOAT);
  if (p->kind[v] == SITU__VALUE_TENSOR) return false;
  return real == SITU__REAL_MAYBE || (p->kind[v] == SITU__VALUE_FLOAT) == given;
}

static bool check_results(const situ__program_node *n, situ__text *why, const situ__program *p) {
  const int results = n->row->results ? n->row->results : 1;
  const bool fits = results == SITU__RESULTS_LIST ? n->outs > 0 : n->outs <= (results < 0 ? 0 : results);
  bool kinds = true;
  for (int32_t i = 0; i < n->outs; i++)
    if (n->out[i] >= 0)
      kinds = kinds && (n->row->size ? is_number_of(n, p, n->out[i]) : p->kind[n->out[i]] == SITU__VALUE_TENSOR);
  if (!fits || !kinds) situ__text_add(why, "has other results than situ's");
  return fits && kinds;
}

static bool read_call(situ__pt2 *f, const situ__json_item *item, situ__names *names, situ__program_node *n) {
  enum { MOST = SITU__PT2_ARGS };
  situ__named_arg given[MOST];
  const char *target = situ__pt2_string(situ__json_get(item, "target"));
  const char *name = situ__pt2_string(situ__json_get(item, "name"));
  const situ__json_item *inputs = situ__json_get(item, "inputs");
  int count = 0;
  for (EACH_MEMBER(m, inputs)) {
    if (count == MOST) return situ__pt2_bad(f, SITU_E_LIMIT, "has a node of more than %d arguments", MOST);
    given[count].name = situ__pt2_string(situ__json_get(m, "name"));
    if (!situ__pt2_arg(f, names, situ__json_get(m, "arg"), &given[count++].arg)) return false;
  }
  if (!read_outputs(f, names, situ__json_get(item, "outputs"), n)) return false;
  if (situ__pt2_is_each(target)) return situ__pt2_read_each(f, target, name, given, count, n);
  situ__text why = { 0 };
  n->row = situ__op_row_for(&f->program->arena, target);
  if (!n->row) situ__lacks_note(&f->lacks, target, name, "", n);
  else if (!situ__bind_args(&f->program->arena, n->row, given, count, &n->arg, &why) ||
           !check_results(n, &why, f->program))
    situ__lacks_note(&f->lacks, target, name, why.data ? why.data : "", n);
  situ__text_free(&why);
  return true;
}

/* Where the node stands. */
static bool read_place(situ__pt2 *f, const situ__json_item *item, int number, situ__program_node *at) {
  char place[192];
  const situ__json_item *metadata = situ__json_get(item, "metadata");
  const char *name = situ__pt2_string(situ__json_get(item, "name"));
  (void)snprintf(place, sizeof place, "%s.nodes[%d]", f->within, number);
  at->name = situ__arena_text(&f->program->arena, name, strlen(name));
  at->place = f->place = situ__arena_text(&f->program->arena, place, strlen(place));
  if (!at->name || !at->place) return situ__pt2_no_memory();
  at->site = site_of(f, situ__pt2_string(situ__json_get(metadata, "stack_trace")));
  return true;
}

static bool read_node(situ__pt2 *f, const situ__json_item *item, situ__names *names, int depth,
                      situ__program_node *at) {
  const situ__json_item *metadata = situ__json_get(item, "metadata");
  bool taken;
  if (!situ__pt2_read_block(f, item, names, at->no_grad, depth, &taken)) return false;
  if (taken) return true;
  if (!read_stack(f, situ__pt2_string(situ__json_get(metadata, "nn_module_stack")), &at->module)) return false;
  situ__program_node *n = situ__program_add_node(f->program);
  if (!n) return situ__pt2_no_memory();
  *n = *at;
  return read_call(f, item, names, n);
}

/* Says of the load's first error which node it is about. Always returns false. */
static bool blame_node(situ__pt2 *f, const situ__json_item *item, situ__program_node *at) {
  if (f->told || situ_error() == SITU_OK) return false;
  f->told = true;
  at->row = &(situ__op_row){ .target = situ__pt2_string(situ__json_get(item, "target")) };
  situ__node_blame(f->program, at);
  return false;
}

bool situ__pt2_read_nodes(situ__pt2 *f, const situ__json_item *graph, situ__names *names, bool no_grad, int depth) {
  int number = 0;
  for (EACH_MEMBER(item, situ__json_get(graph, "nodes"))) {
    situ__program_node at = { .module = "", .site = "", .no_grad = no_grad, .guard = f->guard };
    if (!read_place(f, item, number++, &at) || !read_node(f, item, names, depth, &at)) return blame_node(f, item, &at);
  }
  return situ__pt2_read_declared(f, graph, names);
}
