/* Writes branches as torch.cond: two graphs, whose arguments are all that they use of the outer one.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/graph/build.h"
#include "program/graph/flow.h"
#include "write.h"

/* The values of a graph: its arguments first. */
typedef struct listing {
  situ__pt2_writer *w;
  int32_t *value, count, mark;
  const char **name; /* of each */
} listing;

static void list_value(listing *l, int32_t v, const char *name) {
  l->name[l->count] = name;
  l->value[l->count++] = v;
}

static void add_arg(listing *l, const situ__arg *a) {
  const int32_t v = a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_TENSOR ? (int32_t)a->integer : -1;
  if (v >= 0 && l->w->seen[v] != l->mark) list_value(l, v, l->w->name[v]);
  if (v >= 0) l->w->seen[v] = l->mark;
  for (int32_t i = 0; a->kind == SITU__ARG_LIST && i < a->count; i++) add_arg(l, &a->list[i]);
}

/* What nodes compute is not listed by add_uses. */
static void mark_results(listing *l, int32_t first, int32_t end) {
  const situ__program *p = l->w->program;
  for (int32_t i = first; i < end; i++)
    for (int32_t k = 0; k < p->node[i].outs; k++)
      if (p->node[i].out[k] >= 0) l->w->seen[p->node[i].out[k]] = l->mark;
}

static void add_uses(listing *l, int32_t first, int32_t end) {
  const situ__program *p = l->w->program;
  for (int32_t i = first; i < end; i++)
    for (int k = 0; k < situ__op_row_args(p->node[i].row); k++) add_arg(l, &p->node[i].arg[k]);
}

static void add_results(listing *l, int32_t first, int32_t end, int32_t guard) {
  const situ__program *p = l->w->program;
  for (int32_t i = first; i < end; i++)
    for (int32_t k = 0; k < p->node[i].outs && p->node[i].guard == guard; k++)
      if (p->node[i].out[k] >= 0 && p->kind[p->node[i].out[k]] == SITU__VALUE_TENSOR)
        list_value(l, p->node[i].out[k], l->w->name[p->node[i].out[k]]);
}

static void write_names(situ__pt2_writer *w, const char *const *name, int32_t names) {
  for (int32_t i = 0; i < names; i++)
    situ__text_add(&w->json, "%s{\"as_tensor\": {\"name\": \"%s\"}}", i ? ", " : "", name[i] ? name[i] : "");
}

/* A graph gives copies of what it does not compute: torch.cond lets no branch give an argument. */
static const char *write_copy(situ__pt2_writer *w, int32_t v, bool first) {
  const char *name = situ__pt2_new_name(w, "clone", strlen("clone"));
  situ__text_add(&w->json,
                 "%s{\"target\": \"torch.ops.aten.clone.default\", \"inputs\": [{\"name\": \"self\", \"arg\": "
                 "{\"as_tensor\": {\"name\": \"%s\"}}, \"kind\": 1}], \"outputs\": [{\"as_tensor\": {\"name\": "
                 "\"%s\"}}], \"metadata\": {}, \"is_hop_single_tensor_return\": null, \"name\": \"%s\"}",
                 first ? "" : ",\n", w->name[v], name ? name : "", name ? name : "");
  w->json.failed |= !name;
  return name;
}

/* The graph of one branch, after its `inputs`, which l lists. */
static void write_branch(listing *l, int32_t at, const situ__flow_region *r, int side) {
  situ__pt2_writer *w = l->w;
  const situ__program *p = w->program;
  const int32_t inputs = l->count, first = side ? r->otherwise + 1 : at + 1, end = side ? r->joins : r->otherwise;
  const int32_t guard = p->node[side ? r->otherwise : at].out[0] + 1, joins = r->end - r->joins;
  const char **result = situ__arena_take(&w->arena, (size_t)joins + 1, sizeof *result);
  if (!result) {
    w->json.failed = true;
    return;
  }
  situ__text_add(&w->json,
                 "{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"%s_graph_%d\", \"graph\": {\"inputs\": [",
                 side ? "false" : "true", (int)at);
  write_names(w, l->name, inputs);
  situ__text_add(&w->json, "], \"nodes\": [");
  situ__pt2_write_nodes(w, first, end);
  add_results(l, first, end, guard);
  const int32_t own = l->count;
  for (int32_t i = 0; i < joins; i++) {
    const int32_t v = (int32_t)p->node[r->joins + i].arg[1 + side].integer;
    for (int32_t k = inputs; k < own; k++)
      if (l->value[k] == v) result[i] = l->name[k];
    if (result[i]) continue;
    result[i] = write_copy(w, v, first == end && l->count == own);
    list_value(l, v, result[i]);
  }
  situ__text_add(&w->json, "], \"outputs\": [");
  write_names(w, result, joins);
  situ__pt2_write_values(w, l->value, l->name, l->count);
  situ__text_add(&w->json, "}}, \"kind\": 1}, ");
  l->count = inputs;
}

int32_t situ__pt2_write_cond(situ__pt2_writer *w, int32_t at) {
  const situ__program *p = w->program;
  const situ__flow_region r = situ__flow_find(p, at);
  const size_t most = (size_t)p->values + 2 * (size_t)(r.end - r.joins) + 1;
  listing l = { .w = w, .mark = at + 1 };
  l.value = situ__arena_take(&w->arena, most, sizeof *l.value);
  l.name = situ__arena_take(&w->arena, most, sizeof *l.name);
  const char *name = situ__pt2_new_name(w, "cond", strlen("cond"));
  if (!l.value || !l.name || !name) return w->json.failed = true, r.end;
  mark_results(&l, at, r.joins);
  add_uses(&l, at + 1, r.otherwise);
  add_uses(&l, r.otherwise + 1, r.joins);
  for (int32_t i = r.joins; i < r.end; i++)
    for (int k = 1; k < 3; k++) add_arg(&l, &p->node[i].arg[k]);
  situ__text_add(&w->json,
                 "{\"target\": \"torch.ops.higher_order.cond\", \"inputs\": [{\"name\": \"\", \"arg\": "
                 "{\"as_tensor\": {\"name\": \"%s\"}}, \"kind\": 1}, ",
                 w->name[p->node[at].arg[0].integer]);
  write_branch(&l, at, &r, 0);
  write_branch(&l, at, &r, 1);
  situ__text_add(&w->json, "{\"name\": \"\", \"arg\": {\"as_tensors\": [");
  for (int32_t i = 0; i < l.count; i++)
    situ__text_add(&w->json, "%s{\"name\": \"%s\"}", i ? ", " : "", w->name[l.value[i]]);
  situ__text_add(&w->json, "]}, \"kind\": 1}], \"outputs\": [");
  for (int32_t i = r.joins; i < r.end; i++) {
    situ__text_add(&w->json, i > r.joins ? ", " : "");
    write_names(w, &w->name[p->node[i].out[0]], 1);
  }
  situ__text_add(&w->json, "], \"metadata\": {}, \"is_hop_single_tensor_return\": false, \"name\": \"%s\"}", name);
  return r.end;
}
