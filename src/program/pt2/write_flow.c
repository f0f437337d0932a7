/* Writes branches as torch.cond, and loops as while_loop, scan or map: graphs, whose arguments are all that they use of
   the outer one.
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

/* The names of tensors as one argument. */
static void write_list(situ__pt2_writer *w, const int32_t *v, int32_t count) {
  situ__text_add(&w->json, "{\"name\": \"\", \"arg\": {\"as_tensors\": [");
  for (int32_t i = 0; i < count; i++) situ__text_add(&w->json, "%s{\"name\": \"%s\"}", i ? ", " : "", w->name[v[i]]);
  situ__text_add(&w->json, "]}, \"kind\": 1}");
}

/* A graph gives copies of what it does not compute, or gives twice, and of views: torch lets no graph give what shares
   memory with an argument, or with another result. */
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

/* A graph of nodes, after its `inputs`, which l lists. guard: of its nodes; gives: its results. */
static void write_graph(listing *l, const char *kind, int32_t first, int32_t end, int32_t guard, const int32_t *gives,
                        int32_t count) {
  situ__pt2_writer *w = l->w;
  const int32_t inputs = l->count;
  const char **result = situ__arena_take(&w->arena, (size_t)count + 1, sizeof *result);
  /* Of each value that the graph computes, until it has given it. */
  const char **fresh = situ__arena_take(&w->arena, (size_t)w->program->values + 1, sizeof *fresh);
  if (!result || !fresh) {
    w->json.failed = true;
    return;
  }
  situ__text_add(&w->json,
                 "{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"%s_graph_%d\", \"graph\": {\"inputs\": [", kind,
                 (int)first);
  write_names(w, l->name, inputs);
  situ__text_add(&w->json, "], \"nodes\": [");
  bool none = !situ__pt2_write_nodes(w, first, end);
  add_results(l, first, end, guard);
  for (int32_t k = inputs; k < l->count; k++) fresh[l->value[k]] = l->name[k];
  for (int32_t i = 0; i < count; i++) {
    result[i] = w->program->meta[gives[i]].shares ? NULL : fresh[gives[i]];
    fresh[gives[i]] = NULL;
    if (result[i]) continue;
    result[i] = write_copy(w, gives[i], none);
    none = false;
    list_value(l, gives[i], result[i]);
  }
  situ__text_add(&w->json, "], \"outputs\": [");
  write_names(w, result, count);
  situ__pt2_write_values(w, l->value, l->name, l->count, false);
  situ__text_add(&w->json, "}}, \"kind\": 1}, ");
  l->count = inputs;
}

static bool begin_listing(situ__pt2_writer *w, int32_t at, int32_t copies, listing *l) {
  const size_t most = (size_t)w->program->values + (size_t)copies + 1;
  *l = (listing){ .w = w, .mark = at + 1 };
  l->value = situ__arena_take(&w->arena, most, sizeof *l->value);
  l->name = situ__arena_take(&w->arena, most, sizeof *l->name);
  return (l->value && l->name) || !(w->json.failed = true);
}

/* The end of a node that gives these. */
static void end_node(situ__pt2_writer *w, const char *const *result, int32_t count, const char *stem) {
  const char *name = situ__pt2_new_name(w, stem, strlen(stem));
  situ__text_add(&w->json, "], \"outputs\": [");
  write_names(w, result, count);
  situ__text_add(&w->json, "], \"metadata\": {}, \"is_hop_single_tensor_return\": false, \"name\": \"%s\"}",
                 name ? name : "");
  w->json.failed |= !name;
}

int32_t situ__pt2_write_cond(situ__pt2_writer *w, int32_t at) {
  const situ__program *p = w->program;
  const situ__flow_region r = situ__flow_find(p, at);
  const int32_t joins = r.end - r.joins;
  int32_t *gives = situ__arena_take(&w->arena, (size_t)joins + 1, sizeof *gives);
  const char **result = situ__arena_take(&w->arena, (size_t)joins + 1, sizeof *result);
  listing l;
  if (!gives || !result || !begin_listing(w, at, joins, &l)) return w->json.failed = true, r.end;
  mark_results(&l, at, r.joins);
  add_uses(&l, at + 1, r.otherwise);
  add_uses(&l, r.otherwise + 1, r.joins);
  for (int32_t i = r.joins; i < r.end; i++)
    for (int k = 1; k < 3; k++) add_arg(&l, &p->node[i].arg[k]);
  situ__text_add(&w->json,
                 "{\"target\": \"torch.ops.higher_order.cond\", \"inputs\": [{\"name\": \"\", \"arg\": "
                 "{\"as_tensor\": {\"name\": \"%s\"}}, \"kind\": 1}, ",
                 w->name[p->node[at].arg[0].integer]);
  for (int side = 0; side < 2; side++) {
    const int32_t first = side ? r.otherwise + 1 : at + 1, end = side ? r.joins : r.otherwise;
    for (int32_t i = 0; i < joins; i++) gives[i] = (int32_t)p->node[r.joins + i].arg[1 + side].integer;
    write_graph(&l, side ? "false" : "true", first, end, p->node[first - 1].out[0] + 1, gives, joins);
  }
  write_list(w, l.value, l.count);
  for (int32_t i = 0; i < joins; i++) result[i] = w->name[p->node[r.joins + i].out[0]];
  end_node(w, result, joins, "cond");
  return r.end;
}

/* ---- loops ---- */

/* What a loop carries, gives and scans: values of the program. */
typedef struct loop {
  int32_t at, end, first, own, elements, lists; /* own: what is carried, from the node's result `first` on */
  int32_t *init, *next, *scanned;               /* next: then what the lists get */
  const char **result;
} loop;

/* The node that gives the list; -1: none. */
static int32_t find_collected(const situ__program *p, int32_t after, int64_t list) {
  for (int32_t i = after; i < p->nodes; i++)
    if (p->node[i].row == &situ__loop_collected && p->node[i].arg[0].integer == list) return i;
  return -1;
}

static bool read_loop(situ__pt2_writer *w, int32_t at, loop *l) {
  const situ__program *p = w->program;
  const int32_t end = situ__flow_end(p, at);
  const situ__arg *begin = p->node[at].arg, *next = p->node[end].arg;
  const situ__arg *carried = &begin[SITU__LOOP_CARRIED], *lists = &begin[SITU__LOOP_LISTS];
  const size_t most = (size_t)carried->count + (size_t)lists->count + 1;
  *l = (loop){ .at = at, .end = end, .first = begin[SITU__LOOP_COND].kind ? 1 : 2 };
  l->init = situ__arena_take(&w->arena, most, sizeof *l->init);
  l->next = situ__arena_take(&w->arena, most, sizeof *l->next);
  l->scanned = situ__arena_take(&w->arena, (size_t)(end - at), sizeof *l->scanned);
  l->result = situ__arena_take(&w->arena, most, sizeof *l->result);
  if (!l->init || !l->next || !l->scanned || !l->result) return !(w->json.failed = true);
  if (l->first == 1) {
    l->init[l->own] = (int32_t)begin[SITU__LOOP_COND].integer;
    l->next[l->own++] = (int32_t)next[SITU__LOOP_COND].integer;
  }
  for (int32_t i = 0; i < carried->count; i++, l->own++) {
    l->init[l->own] = (int32_t)carried->list[i].integer;
    l->next[l->own] = (int32_t)next[SITU__LOOP_CARRIED].list[i].integer;
  }
  for (int32_t i = 0; i < l->own; i++) l->result[i] = w->name[p->node[at].out[l->first + i]];
  for (int32_t i = 0; i < lists->count; i++) {
    const int32_t from = find_collected(p, end, lists->list[i].integer), k = l->own + l->lists;
    if (from < 0) continue;
    l->result[k] = w->name[p->node[from].out[0]];
    l->next[k] = (int32_t)next[SITU__LOOP_SCANNED].list[i].integer;
    l->lists++;
  }
  for (int32_t i = at + 1; p->node[i].row == &situ__scan_element; i++)
    l->scanned[l->elements++] = (int32_t)p->node[i].arg[0].integer;
  return true;
}

/* The condition is carried: its graph gives a copy. */
static void write_condition(listing *l) {
  situ__pt2_writer *w = l->w;
  const int32_t inputs = l->count;
  situ__text_add(&w->json,
                 "{\"name\": \"\", \"arg\": {\"as_graph\": {\"name\": \"cond_graph_%d\", \"graph\": {\"inputs\": [",
                 (int)l->mark);
  write_names(w, l->name, inputs);
  situ__text_add(&w->json, "], \"nodes\": [");
  const char *copy = write_copy(w, l->value[0], true);
  list_value(l, l->value[0], copy);
  situ__text_add(&w->json, "], \"outputs\": [");
  write_names(w, &copy, 1);
  situ__pt2_write_values(w, l->value, l->name, l->count, true);
  situ__text_add(&w->json, "}}, \"kind\": 1}, ");
  l->count = inputs;
}

int32_t situ__pt2_write_loop(situ__pt2_writer *w, int32_t at) {
  const situ__program *p = w->program;
  listing l;
  loop k;
  if (!read_loop(w, at, &k) || !begin_listing(w, at, k.own + k.lists + 1, &l)) return k.end + 1;
  const char *kind = k.first == 1 ? "while_loop" : k.own ? "scan" : "map_impl";
  mark_results(&l, at, k.end + 1);
  for (int32_t i = 0; i < k.own; i++) list_value(&l, p->node[at].out[k.first + i], k.result[i]);
  for (int32_t i = 0; i < k.elements; i++) {
    const int32_t v = p->node[at + 1 + i].out[0];
    list_value(&l, v, w->name[v]);
  }
  const int32_t before = l.count;
  add_uses(&l, at + 1 + k.elements, k.end + 1);
  situ__text_add(&w->json, "{\"target\": \"torch.ops.higher_order.%s\", \"inputs\": [", kind);
  if (k.first == 1) write_condition(&l);
  write_graph(&l, "body", at + 1 + k.elements, k.end, (int32_t)p->node[at].arg[SITU__LOOP_GUARD].integer + 1, k.next,
              k.own + k.lists);
  const char *comma = "";
  for (int i = 0; i < 2; i++) { /* while_loop scans nothing, map carries nothing */
    if (i ? k.first == 1 : k.own == 0) continue;
    situ__text_add(&w->json, "%s", comma);
    write_list(w, i ? k.scanned : k.init, i ? k.elements : k.own);
    comma = ", ";
  }
  situ__text_add(&w->json, ", ");
  write_list(w, l.value + before, l.count - before);
  end_node(w, k.result, k.own + k.lists, kind);
  return k.end + 1;
}
