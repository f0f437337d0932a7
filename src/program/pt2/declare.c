/* Reads what a .pt2 file declares of its values, and makes what depends on torch's default dtype explicit.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "program/graph/bind.h"
#include "pt2.h"

/* ---- declarations ---- */

static bool read_size(situ__pt2 *f, const situ__json_item *item, situ__declared_size *out) {
  const situ__json_item *expression = situ__json_get(item, "as_expr");
  *out = (situ__declared_size){ .hinted = true };
  if (situ__pt2_int(item, &out->value)) return true;
  const char *text = situ__pt2_string(situ__json_get(expression, "expr_str"));
  out->text = situ__arena_text(&f->program->arena, text, strlen(text));
  out->hinted = situ__pt2_int(situ__json_get(expression, "hint"), &out->value);
  return out->text != NULL;
}

/* The declaration of a value by its name; NULL: the graph does not have it. */
static situ__declared *find_declared(const situ__pt2 *f, const situ__names *names, const char *name) {
  const int32_t v = situ__names_get(names, name);
  return v >= 0 && v < f->program->declareds ? &f->program->declared[v] : NULL;
}

static bool declare(situ__pt2 *f, const situ__names *names, const situ__json_item *item, const situ__json_item *sizes,
                    int32_t dims) {
  situ__declared *d = find_declared(f, names, item->key);
  if (!d || d->name) return true;
  const uint32_t count = dims < 0 ? 1 : sizes ? sizes->count : 0;
  situ__declared_size *size = situ__arena_take(&f->program->arena, count + 1, sizeof *size);
  *d = (situ__declared){ .dtype = situ__pt2_dtype(situ__json_get(item, "dtype")), .dims = dims, .size = size };
  if (!size) return situ__pt2_no_memory();
  int k = 0;
  if (dims < 0) {
    if (!read_size(f, item, size)) return situ__pt2_no_memory();
  } else {
    for (EACH_MEMBER(m, sizes))
      if (!read_size(f, m, &size[k++])) return situ__pt2_no_memory();
  }
  d->name = situ__arena_text(&f->program->arena, item->key, strlen(item->key));
  return d->name || situ__pt2_no_memory();
}

bool situ__pt2_read_declared(situ__pt2 *f, const situ__json_item *graph, const situ__names *names) {
  situ__program *p = f->program;
  situ__declared *larger = situ__realloc(p->declared, ((size_t)p->values + 1) * sizeof *larger);
  if (!larger) return situ__pt2_no_memory();
  p->declared = larger;
  memset(p->declared + p->declareds, 0, (size_t)(p->values - p->declareds) * sizeof *larger);
  p->declareds = p->values;
  for (EACH_MEMBER(m, situ__json_get(graph, "tensor_values"))) {
    const situ__json_item *sizes = situ__json_get(m, "sizes");
    if (sizes && m->key && !declare(f, names, m, sizes, (int32_t)sizes->count)) return false;
  }
  for (EACH_MEMBER(m, situ__json_get(graph, "sym_int_values")))
    if (m->key && !declare(f, names, m, NULL, -1)) return false;
  return true;
}

/* Whether the program may be called with any sizes: each guard fixes one size, as the inputs' declarations do. */
bool situ__pt2_takes_any_size(const situ__json_item *model) {
  const situ__json_item *guards = situ__json_get(model, "guards_code");
  if (!guards) return false;
  for (EACH_MEMBER(m, guards)) {
    const char *text = situ__pt2_string(m), *size = strstr(text, ".size()[");
    const char *rest = size ? strchr(size, ']') : NULL;
    if (strncmp(text, "L['", 3) != 0 || !rest || strncmp(rest, "] == ", 5) != 0 || !rest[5] ||
        rest[5 + strspn(rest + 5, "0123456789")])
      return false;
  }
  return true;
}

/* ---- torch's default dtype ---- */

static bool is_tensor(const situ__arg *a) { return a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_TENSOR; }

typedef struct uses {
  int tensors, floating; /* among the arguments */
  bool fixed, chooses;   /* a dtype is an argument; the first tensor is a condition */
} uses;

static void note_arg(const situ__program *p, const situ__arg *a, uses *u) {
  if (a->kind == SITU__ARG_DTYPE) u->fixed = true;
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++) note_arg(p, &a->list[i], u);
  if (!is_tensor(a)) return;
  u->tensors++;
  u->floating += situ_dtype_is_floating(p->declared[a->integer].dtype);
}

static uses uses_of(const situ__program *p, const situ__program_node *n) {
  uses u = { 0 };
  for (int k = situ__op_row_args(n->row); k-- > 0;) {
    const char *name;
    int length;
    (void)situ__op_parameter(n->row, k, &name, &length);
    u.chooses |= length == 9 && strncmp(name, "condition", 9) == 0;
    note_arg(p, &n->arg[k], &u);
  }
  return u;
}

static situ_dtype result_dtype(const situ__program *p, const situ__program_node *n) {
  return n->outs && n->out[0] >= 0 ? p->declared[n->out[0]].dtype : SITU_DTYPE_DEFAULT;
}

/* A node that casts the value `a`, which becomes the new one. */
static bool add_cast(situ__pt2 *f, const situ__program_node *by, situ__arg *a, situ_dtype dtype) {
  static const char target[] = "to.dtype";
  situ__program *p = f->program;
  situ__named_arg given[] = { { "self", *a }, { "dtype", { .kind = SITU__ARG_DTYPE, .integer = dtype } } };
  situ__program_node *n = situ__program_add_node(p);
  int32_t *out = situ__arena_take(&p->arena, 1, sizeof *out);
  situ__text problem = { 0 };
  if (!n || !out || !situ__program_add_value(p, SITU__VALUE_TENSOR, out)) return situ__pt2_no_memory();
  *n = (situ__program_node){ .row = situ__op_row_of(target),
                             .out = out,
                             .outs = 1,
                             .no_grad = by->no_grad,
                             .guard = by->guard,
                             .module = by->module,
                             .site = by->site,
                             .name = by->name,
                             .place = by->place };
  const bool bound = situ__bind_args(&p->arena, n->row, given, 2, &n->arg, &problem);
  situ__text_free(&problem);
  a->integer = *out;
  return bound || situ__pt2_no_memory();
}

static bool cast_args(situ__pt2 *f, const situ__program_node *by, situ__arg *a, situ_dtype dtype) {
  if (is_tensor(a)) return add_cast(f, by, a, dtype);
  if (a->kind != SITU__ARG_LIST) return true;
  situ__arg *list = situ__arena_take(&f->program->arena, (size_t)a->count + 1, sizeof *list);
  if (!list) return situ__pt2_no_memory();
  for (int32_t i = 0; i < a->count; i++) {
    list[i] = a->list[i];
    if (!cast_args(f, by, &list[i], dtype)) return false;
  }
  a->list = list;
  return true;
}

/* Appends a node whose whole-number operands are cast to the default dtype, as torch does before it computes. */
static bool append_cast(situ__pt2 *f, situ__program_node n, situ_dtype dtype) {
  const int count = situ__op_row_args(n.row);
  situ__arg *arg = situ__arena_take(&f->program->arena, (size_t)count + 1, sizeof *arg);
  if (!arg) return situ__pt2_no_memory();
  for (int k = 0; k < count; k++) {
    arg[k] = n.arg[k];
    if (!cast_args(f, &n, &arg[k], dtype)) return false;
  }
  n.arg = arg;
  situ__program_node *last = situ__program_add_node(f->program);
  if (!last) return situ__pt2_no_memory();
  *last = n;
  return true;
}

/* situ computes in f32 where torch does in its default dtype: where the file declares another one, tells the nodes. */
bool situ__pt2_apply_default_dtype(situ__pt2 *f) {
  situ__program *p = f->program;
  const situ__program_node *old = p->node;
  const int32_t count = p->nodes;
  situ_dtype real = SITU_DTYPE_DEFAULT;
  for (int32_t i = 0; i < count && !real; i++) {
    const situ_dtype dtype = result_dtype(p, &old[i]);
    if (!situ_dtype_is_floating(dtype) || dtype == SITU_F32) continue;
    const uses u = uses_of(p, &old[i]);
    if (!u.fixed && !u.floating) real = dtype;
  }
  if (!real) return true;
  p->node = NULL;
  p->node_capacity = p->nodes = 0;
  bool fine = true;
  for (int32_t i = 0; i < count && fine; i++) {
    situ__program_node n = old[i];
    const uses u = uses_of(p, &n);
    const situ_dtype dtype = result_dtype(p, &n);
    n.real = situ_dtype_is_floating(dtype) ? dtype : real;
    const bool casts =
        !u.fixed && !u.chooses && u.tensors && !u.floating && situ_dtype_is_floating(dtype) && dtype != SITU_F32;
    situ__program_node *same = casts ? NULL : situ__program_add_node(p);
    if (same) *same = n;
    fine = same || (casts ? append_cast(f, n, dtype) : situ__pt2_no_memory());
  }
  situ__free((void *)old);
  return fine;
}
