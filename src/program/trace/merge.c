/* Compares the programs of several runs at other sizes, and makes one of them all.
   SPDX-License-Identifier: MIT */
#include "sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"

static situ__trace *first_of(situ__trace_merge *m) { return m->run[0]; }

/* ---- quantities in the program ---- */

situ__program_node *situ__trace_merge_node(situ__trace_merge *m, const char *target, situ__value_kind kind,
                                           int32_t out) {
  situ__trace *t = first_of(m);
  const situ__op_row *row = situ__op_row_of(target);
  int32_t *kept = situ__arena_take(&t->program->arena, 1, sizeof *kept);
  situ__arg *arg = situ__arena_take(&t->program->arena, (size_t)situ__op_row_args(row), sizeof *arg);
  if (!kept || !arg || (out < 0 && (!situ__program_add_value(t->program, kind, &out) || !situ__trace_add_meta(t, out))))
    return t->failed = true, NULL;
  situ__program_node *n = situ__program_add_node(t->program);
  if (!n) return t->failed = true, NULL;
  *kept = out;
  n->row = row, n->arg = arg, n->out = kept, n->outs = 1;
  return n;
}

static situ__arg int_arg(int64_t integer) { return (situ__arg){ .kind = SITU__ARG_INT, .integer = integer }; }
static situ__arg value_arg(int32_t value) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_INT, .integer = value };
}

/* The result of an operator of two ints, of quantity i if it is its last. */
static int32_t add_operator(situ__trace_merge *m, const char *target, situ__arg a, situ__arg b) {
  situ__program_node *n = situ__trace_merge_node(m, target, SITU__VALUE_INT, -1);
  if (!n) return -1;
  ((situ__arg *)(uintptr_t)n->arg)[0] = a;
  ((situ__arg *)(uintptr_t)n->arg)[1] = b;
  return n->out[0];
}

/* What the file says of an int. */
static bool describe_int(situ__trace_merge *m, int32_t v, const int64_t value[SITU__RUNS]) {
  situ__trace *t = first_of(m);
  const char **text = situ__arena_take(&t->program->arena, 1, sizeof *text);
  const int32_t i = situ__quantity_find(&m->quantities, value);
  if (!text || i < 0) return !(t->failed = true);
  *text = m->quantities.list[i].text;
  t->program->meta[v] = (situ__value_meta){ .size = SITU_SHAPE(value[0]), .text = text };
  return true;
}

/* The number that a symbol stands for, of the size that an input has. */
static int32_t add_size(situ__trace_merge *m, int32_t symbol) {
  const situ__program *p = first_of(m)->program;
  const situ__trace_symbol *s = &m->sizes->symbol[symbol];
  const situ__trace_dim *d = m->sizes->dim;
  while (d->symbol != symbol) d++;
  const situ__arg input = { .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = p->input[d->input].value };
  const int32_t size = add_operator(m, "sym_size.int", input, int_arg(d->dim));
  int64_t value[SITU__RUNS];
  if (size < 0 || s->multiple == 1) return size;
  for (int k = 0; k < SITU__RUNS; k++) value[k] = s->value[k] * s->multiple;
  if (!describe_int(m, size, value)) return -1;
  return add_operator(m, "_operator.floordiv", value_arg(size), int_arg(s->multiple));
}

static int32_t add_quantity(situ__trace_merge *m, int32_t i);

/* factor quantity; a factor of 1 adds nothing. */
static int32_t add_multiple(situ__trace_merge *m, int32_t i, int64_t factor) {
  const int32_t v = add_quantity(m, i);
  int64_t value[SITU__RUNS];
  if (v < 0 || factor == 1) return v;
  for (int k = 0; k < SITU__RUNS; k++) value[k] = m->quantities.list[i].value[k] * factor;
  const int32_t out = add_operator(m, "_operator.mul", value_arg(v), int_arg(factor));
  return out >= 0 && describe_int(m, out, value) ? out : -1;
}

static int32_t add_sum(situ__trace_merge *m, const situ__quantity *n) {
  int32_t out = add_multiple(m, n->x, n->factor[0]);
  int64_t value[SITU__RUNS];
  for (int k = 0; k < SITU__RUNS; k++) value[k] = n->value[k] - n->term;
  if (n->y >= 0 && out >= 0) {
    const int32_t other = add_multiple(m, n->y, n->factor[1]);
    out = other < 0 ? -1 : add_operator(m, "_operator.add", value_arg(out), value_arg(other));
    if (out < 0 || !describe_int(m, out, value)) return -1;
  }
  return out < 0 || !n->term ? out : add_operator(m, "_operator.add", value_arg(out), int_arg(n->term));
}

static int32_t add_quotient(situ__trace_merge *m, const situ__quantity *n) {
  int32_t of = add_quantity(m, n->x);
  int64_t value[SITU__RUNS];
  for (int k = 0; k < SITU__RUNS; k++) value[k] = m->quantities.list[n->x].value[k] + n->term;
  if (of >= 0 && n->term) {
    of = add_operator(m, "_operator.add", value_arg(of), int_arg(n->term));
    if (of < 0 || !describe_int(m, of, value)) return -1;
  }
  return of < 0 ? -1 : add_operator(m, "_operator.floordiv", value_arg(of), int_arg(n->factor[0]));
}

static int32_t add_product(situ__trace_merge *m, const situ__quantity *n) {
  const int32_t x = add_quantity(m, n->x), y = x < 0 ? -1 : add_quantity(m, n->y);
  return y < 0 ? -1 : add_operator(m, "_operator.mul", value_arg(x), value_arg(y));
}

/* The value that is the quantity; its calls are added once. */
static int32_t add_quantity(situ__trace_merge *m, int32_t i) {
  const situ__quantity n = m->quantities.list[i]; /* the list may move */
  if (n.number) return n.number - 1;
  const int32_t v = n.kind == SITU__QUANTITY_SYMBOL    ? add_size(m, i)
                    : n.kind == SITU__QUANTITY_SUM     ? add_sum(m, &n)
                    : n.kind == SITU__QUANTITY_PRODUCT ? add_product(m, &n)
                                                       : add_quotient(m, &n);
  if (v < 0 || !describe_int(m, v, n.value)) return first_of(m)->failed = true, -1;
  m->quantities.list[i].number = v + 1;
  return v;
}

static bool is_same(const int64_t value[SITU__RUNS]) {
  for (int k = 1; k < SITU__RUNS; k++)
    if (value[k] != value[0]) return false;
  return true;
}

static bool note_values(situ__trace_merge *m, const char *what, const int64_t value[SITU__RUNS]) {
  situ__text_free(&m->detail);
  situ__text_add(&m->detail, "%s is %" PRId64 ", %" PRId64 " and %" PRId64 ", which no sum, product or quotient gives",
                 what, value[0], value[1], value[2]);
  return false;
}

bool situ__trace_merge_int(situ__trace_merge *m, const int64_t value[SITU__RUNS], situ__arg *out) {
  *out = int_arg(value[0]);
  if (is_same(value)) return true;
  const int32_t i = situ__quantity_find(&m->quantities, value);
  if (i < 0) return note_values(m, "an argument", value);
  if (m->node >= 0 && m->run[0]->program->node[m->node].guard) {
    situ__text_free(&m->detail);
    situ__text_add(&m->detail, "has a size that depends on the inputs', in a branch");
    return false;
  }
  const int32_t v = add_quantity(m, i);
  *out = value_arg(v);
  return v >= 0;
}

bool situ__trace_merge_size(situ__trace_merge *m, const int64_t value[SITU__RUNS], const char **out) {
  *out = NULL;
  if (is_same(value)) return true;
  const int32_t i = situ__quantity_find(&m->quantities, value);
  if (i < 0) return note_values(m, "a size of its result", value);
  *out = m->quantities.list[i].text;
  return true;
}

/* ---- arguments ---- */

static bool note_difference(situ__trace_merge *m, const char *what) {
  situ__text_free(&m->detail);
  situ__text_add(&m->detail, "%s", what);
  return false;
}

static bool merge_arg(situ__trace_merge *m, const situ__arg *const arg[SITU__RUNS], situ__arg *out);

static bool merge_list(situ__trace_merge *m, const situ__arg *const arg[SITU__RUNS], situ__arg *out) {
  const situ__arg *item[SITU__RUNS];
  situ__arg *list = situ__arena_take(&first_of(m)->program->arena, (size_t)arg[0]->count + 1, sizeof *list);
  if (!list) return !(first_of(m)->failed = true);
  for (int32_t i = 0; i < arg[0]->count; i++) {
    for (int k = 0; k < SITU__RUNS; k++) item[k] = &arg[k]->list[i];
    if (!merge_arg(m, item, &list[i])) return false;
  }
  *out = *arg[0];
  out->list = list;
  return true;
}

static bool is_same_arg(const situ__arg *a, const situ__arg *b) {
  switch (a->kind) {
  case SITU__ARG_FLOAT: return memcmp(&a->real, &b->real, sizeof a->real) == 0;
  case SITU__ARG_TEXT: return strcmp(a->text, b->text) == 0;
  case SITU__ARG_VALUE:
  case SITU__ARG_BOOL:
  case SITU__ARG_DTYPE: return a->integer == b->integer;
  default: return true; /* a list, or an int: compared below */
  }
}

static bool note_kind(situ__trace_merge *m, const situ__arg *const arg[SITU__RUNS]) {
  situ__text_free(&m->detail);
  if (arg[0]->kind == SITU__ARG_FLOAT)
    situ__text_add(&m->detail, "has a number that is %g, %g and %g: compute it of tensors", arg[0]->real, arg[1]->real,
                   arg[2]->real);
  else
    situ__text_add(&m->detail, "has other operands, or another %s, at other sizes",
                   arg[0]->kind == SITU__ARG_TEXT   ? "mode"
                   : arg[0]->kind == SITU__ARG_BOOL ? "flag"
                                                    : "dtype");
  return false;
}

/* Merges the arguments of the runs to one. Returns false after noting why that cannot be. */
static bool merge_arg(situ__trace_merge *m, const situ__arg *const arg[SITU__RUNS], situ__arg *out) {
  int64_t value[SITU__RUNS];
  for (int k = 0; k < SITU__RUNS; k++) {
    const situ__arg *a = arg[k], *b = arg[0];
    if (a->kind != b->kind || a->of != b->of || a->count != b->count || !is_same_arg(a, b)) return note_kind(m, arg);
    value[k] = a->integer;
  }
  *out = *arg[0];
  if (out->kind == SITU__ARG_LIST) return merge_list(m, arg, out);
  return out->kind != SITU__ARG_INT || situ__trace_merge_int(m, value, out);
}

static bool merge_node(situ__trace_merge *m, int32_t i) {
  const int args = situ__op_row_args(first_of(m)->program->node[i].row);
  situ__arg *merged = situ__arena_take(&first_of(m)->program->arena, (size_t)args + 1, sizeof *merged);
  if (!merged) return !(first_of(m)->failed = true);
  m->node = i;
  for (int a = 0; a < args; a++) {
    const situ__arg *arg[SITU__RUNS];
    for (int k = 0; k < SITU__RUNS; k++) arg[k] = &m->run[k]->program->node[i].arg[a];
    if (!merge_arg(m, arg, &merged[a])) return false;
  }
  first_of(m)->program->node[i].arg = merged;
  return true;
}

/* ---- what is said of values ---- */

bool situ__trace_merge_meta(situ__trace_merge *m, int32_t v) {
  situ__program *p = first_of(m)->program;
  const int ndim = p->meta[v].size.ndim;
  const char **text = situ__arena_take(&p->arena, 2 * (size_t)ndim + 1, sizeof *text);
  int64_t value[SITU__RUNS];
  if (!text) return !(first_of(m)->failed = true);
  for (int k = 0; k < SITU__RUNS; k++)
    if (m->run[k]->program->meta[v].size.ndim != ndim || m->run[k]->program->meta[v].dtype != p->meta[v].dtype)
      return note_difference(m, "gives another dtype, or another number of dimensions, at other sizes");
  for (int d = ndim - 1; d >= 0; d--) {
    for (int k = 0; k < SITU__RUNS; k++) value[k] = m->run[k]->program->meta[v].stride.dim[d];
    (void)situ__trace_merge_size(m, value, &text[ndim + d]); /* torch computes them anew */
    for (int k = 0; k < SITU__RUNS; k++) value[k] = m->run[k]->program->meta[v].size.dim[d];
    if (!situ__trace_merge_size(m, value, &text[d])) return false;
  }
  p->meta[v].text = text;
  return true;
}

/* What a list of tensors adds up to (cat) is a sum of two: of the tensors before, and the next one. */
static void find_partial_sums(situ__trace_merge *m, const situ__program_node *n) {
  const situ__arg *a = n->arg;
  if (!situ__op_row_args(n->row) || a->kind != SITU__ARG_LIST || !a->count || a->list->of != SITU__VALUE_TENSOR) return;
  for (int d = 0; d < first_of(m)->program->meta[a->list->integer].size.ndim; d++) {
    int64_t sum[SITU__RUNS] = { 0 };
    for (int32_t i = 0; i < a->count; i++) {
      for (int k = 0; k < SITU__RUNS; k++) sum[k] += m->run[k]->program->meta[a->list[i].integer].size.dim[d];
      if (!is_same(sum)) (void)situ__quantity_find(&m->quantities, sum);
    }
  }
}

/* ---- programs ---- */

static const char *target_at(const situ__program *p, int32_t i) {
  return i < p->nodes ? p->node[i].row->target : "none";
}

static bool is_like(const situ__program_node *a, const situ__program_node *b) {
  bool same = a->row == b->row && a->outs == b->outs && a->guard == b->guard && strcmp(a->module, b->module) == 0;
  for (int32_t i = 0; i < a->outs && same; i++) same = a->out[i] == b->out[i];
  return same;
}

/* Whether both give the same values as results. */
static bool has_same_results(const situ__program *p, const situ__program *other) {
  bool same = p->values == other->values && p->outs == other->outs;
  for (int32_t i = 0; i < p->outs && same; i++)
    same = p->out[i].kind == other->out[i].kind && p->out[i].leaf.integer == other->out[i].leaf.integer;
  return same;
}

/* Whether run k made the calls of the first. Returns false after recording an error. */
static bool has_same_calls(situ__trace_merge *m, int k) {
  const situ__program *p = m->run[0]->program, *other = m->run[k]->program;
  int32_t i = 0;
  while (i < p->nodes && i < other->nodes && is_like(&p->node[i], &other->node[i])) i++;
  if (i == p->nodes && i == other->nodes && has_same_results(p, other)) return true;
  char where[256], there[256];
  situ__trace_sizes at = *m->sizes;
  at.run = 0;
  situ__trace_sizes_text(&at, where, sizeof where);
  at.run = k;
  situ__trace_sizes_text(&at, there, sizeof there);
  if (i == p->nodes && i == other->nodes)
    return situ__fail(SITU_E_UNSUPPORTED, m->sizes->op, "forward gives other tensors as results%s than%s", where,
                      there),
           false;
  const char *module = i < p->nodes ? p->node[i].module : i < other->nodes ? other->node[i].module : "";
  return situ__fail(SITU_E_UNSUPPORTED, m->sizes->op,
                    "forward makes other calls at other sizes: call %d is %s%s, and %s%s%s%s; export each of them, or "
                    "narrow the range",
                    (int)i, target_at(p, i), where, target_at(other, i), there, *module ? ", in " : "", module),
         false;
}

static void note_lack(situ__trace_merge *m, int32_t i) {
  situ__trace *t = first_of(m);
  char name[32];
  (void)snprintf(name, sizeof name, "call %d", (int)i);
  situ__lacks_note(&t->lacks, t->program->node[i].row->target, name, m->detail.data ? m->detail.data : "",
                   &t->program->node[i]);
}

/* The calls that were added come first: they depend on the inputs alone. */
static bool put_first(situ__trace *t, int32_t old) {
  situ__program *p = t->program;
  const int32_t added = p->nodes - old;
  if (!added) return true;
  situ__program_node *head = situ__alloc(((size_t)added + 1) * sizeof *head);
  if (!head) return !(t->failed = true);
  memcpy(head, p->node + old, (size_t)added * sizeof *head);
  memmove(p->node + added, p->node, (size_t)old * sizeof *head);
  memcpy(p->node, head, (size_t)added * sizeof *head);
  situ__free(head);
  return true;
}

static bool set_symbols(situ__trace_merge *m) {
  situ__program *p = first_of(m)->program;
  const situ__trace_sizes *s = m->sizes;
  p->symbol = situ__arena_take(&p->arena, (size_t)s->symbols + 1, sizeof *p->symbol);
  if (!p->symbol) return false;
  for (int32_t i = 0; i < s->symbols; i++) {
    const situ__trace_symbol *from = &s->symbol[i];
    p->symbol[i] = (situ__program_symbol){ .name = situ__arena_text(&p->arena, from->name, strlen(from->name)),
                                           .least = from->least * from->multiple,
                                           .most = from->most < INT64_MAX / 4 ? from->most * from->multiple : INT64_MAX,
                                           .multiple = from->multiple };
    if (!p->symbol[i].name || !situ__quantity_add_symbol(&m->quantities, from->name, from->value)) return false;
  }
  p->symbols = s->symbols;
  for (int64_t i = 0; i < s->dims; i++)
    p->input[s->dim[i].input].size[s->dim[i].dim] = (struct situ__program_size){ -1, s->dim[i].symbol };
  return true;
}

/* Each call after what it is computed of, so that its sizes are made of theirs. */
static bool merge(situ__trace_merge *m) {
  situ__trace *t = first_of(m);
  situ__program *p = t->program;
  const int32_t nodes = p->nodes;
  for (int k = 1; k < SITU__RUNS; k++)
    if (!has_same_calls(m, k)) return false;
  if (!set_symbols(m)) return !(t->failed = true);
  for (int32_t i = 0; i < p->inputs; i++)
    if (!situ__trace_merge_meta(m, p->input[i].value)) return !(t->failed = true);
  if (!situ__trace_merge_constants(m)) return false;
  for (int32_t i = 0; i < nodes && !t->failed; i++) {
    bool good = merge_node(m, i);
    find_partial_sums(m, &p->node[i]);
    for (int32_t k = 0; k < p->node[i].outs && good; k++)
      good = p->node[i].out[k] < 0 || situ__trace_merge_meta(m, p->node[i].out[k]);
    if (!good && !t->failed) note_lack(m, i);
  }
  return !t->failed && !t->lacks.count && put_first(t, nodes);
}

bool situ__trace_all_sizes(situ__trace *t) {
  situ__trace other[SITU__RUNS - 1] = { 0 };
  situ__trace_merge m = { .run = { t }, .sizes = t->sizes, .node = -1, .quantities = { .arena = &t->program->arena } };
  int runs = 1;
  for (; runs < SITU__RUNS; runs++) {
    t->sizes->run = runs;
    m.run[runs] = &other[runs - 1];
    other[runs - 1] = (situ__trace){
      .op = t->op, .module = t->module, .inputs = t->inputs, .sizes = t->sizes, .copies = t->copies, .loops = t->loops
    };
    if (!situ__trace_run(&other[runs - 1])) break;
  }
  t->sizes->run = 0;
  const bool good = runs == SITU__RUNS && merge(&m);
  if (!good && runs == SITU__RUNS) (void)situ__trace_explain(t);
  for (int k = 0; k < SITU__RUNS - 1; k++) situ__trace_free(&other[k]);
  situ__free(m.quantities.list);
  situ__text_free(&m.detail);
  return good;
}
