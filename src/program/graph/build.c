/* A program while it is read.
   SPDX-License-Identifier: MIT */
#include "build.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/problem.h"
#include "base/size.h"
#include "derive.h"

static const char op[] = "export_load";

enum { ITERATIONS = 1000000 };

situ__program *situ__program_new(const char *path, int64_t max_iterations) {
  situ__program *p = situ__calloc(1, sizeof *p);
  if (p) p->path = situ__arena_text(&p->arena, path, strlen(path));
  if (p && p->path) {
    p->owners = 1;
    p->max_iterations = max_iterations > 0 ? situ__min_i64(max_iterations, INT32_MAX) : ITERATIONS;
    return p;
  }
  situ__free(p);
  return situ__fail(SITU_E_NOMEM, op, "no memory for the program"), NULL;
}

bool situ__program_add_value(situ__program *p, situ__value_kind kind, int32_t *out) {
  if (p->values == SITU__PROGRAM_MOST ||
      !situ__grow(NULL, &p->kind, &p->value_capacity, sizeof *p->kind, p->values + 1))
    return false;
  p->kind[p->values] = kind;
  *out = p->values++;
  return true;
}

situ__program_node *situ__program_add_node(situ__program *p) {
  if (p->nodes == SITU__PROGRAM_MOST || !situ__grow(NULL, &p->node, &p->node_capacity, sizeof *p->node, p->nodes + 1))
    return NULL;
  situ__program_node *n = &p->node[p->nodes++];
  *n = (situ__program_node){ .module = "", .site = "" };
  return n;
}

/* ---- after the last use ---- */

/* Of each value the first node that computes it, or -1, and the node after which it is not used; of each node that
   begins a loop the one that ends its iterations; and the loops around the node that is looked at. */
typedef struct lifetimes {
  int32_t *first, *last, *end, *open;
  int32_t depth;
} lifetimes;

/* A value that is computed before a loop, and used in it, is used in each iteration. */
static void use_number(lifetimes *t, int32_t v, int32_t node) {
  for (int32_t d = t->depth - 1; d >= 0 && t->first[v] <= t->open[d]; d--) node = t->end[t->open[d]];
  t->last[v] = node;
}

static void use_value(lifetimes *t, const situ__arg *a, int32_t node) {
  if (a->kind == SITU__ARG_VALUE) use_number(t, (int32_t)a->integer, node);
  if (a->kind == SITU__ARG_LIST)
    for (int32_t i = 0; i < a->count; i++) use_value(t, &a->list[i], node);
}

static void find_loops(situ__program *p, lifetimes *t) {
  for (int32_t n = 0; n < p->nodes; n++) {
    if (p->node[n].loop > 0) t->open[t->depth++] = n;
    if (p->node[n].loop >= 0 || !t->depth) continue;
    const int32_t start = t->open[--t->depth];
    t->end[start] = n;
    p->node[n].back = start + 1;
  }
}

static void find_uses(const situ__program *p, lifetimes *t) {
  for (int32_t n = 0; n < p->nodes; n++) {
    const situ__program_node *node = &p->node[n];
    for (int k = situ__op_row_args(node->row); k-- > 0;) use_value(t, &node->arg[k], n);
    if (node->loop > 0) t->open[t->depth++] = n;
    for (int32_t i = 0; i < node->outs; i++) {
      const int32_t v = node->out[i];
      if (v < 0) continue;
      if (t->first[v] < 0) t->first[v] = n;
      use_number(t, v, n);
    }
    if (node->loop < 0) t->depth--;
  }
}

int situ__op_row_args(const situ__op_row *row) {
  int count = *row->parameters != 0;
  for (const char *c = row->parameters; *c; c++) count += *c == ',';
  return count;
}

/* The results that other nodes use, or that are results of the program. */
static uint32_t wanted_results(const situ__program_node *n, int32_t number, const int32_t *last) {
  enum { LAST = 8 * sizeof n->wanted - 1 };
  uint32_t wanted = 0;
  for (int32_t i = 0; i < n->outs; i++)
    wanted |= (uint32_t)(n->out[i] >= 0 && last[n->out[i]] != number) << situ__min_i64(i, LAST);
  return wanted;
}

bool situ__program_find_last_uses(situ__program *p) {
  const size_t values = (size_t)p->values + 1, nodes = (size_t)p->nodes + 1;
  int32_t *last = situ__alloc(2 * (values + nodes) * sizeof *last);
  int32_t *list = situ__arena_take(&p->arena, (size_t)p->values, sizeof *list);
  int32_t *next = situ__calloc((size_t)p->nodes + 1, sizeof *next);
  const bool fine = last && list && next;
  lifetimes t = { 0 };
  if (fine) {
    t = (lifetimes){
      .last = last, .first = last + values, .end = last + 2 * values, .open = last + 2 * values + nodes
    };
    for (size_t v = 0; v < 2 * values; v++) last[v] = -1;
    find_loops(p, &t);
    find_uses(p, &t);
  }
  for (int32_t i = 0; fine && i < p->outs; i++) use_value(&t, &p->out[i].leaf, -1);
  for (int32_t i = 0; fine && i < p->writes; i++) last[p->write[i].from] = last[p->write[i].to] = -1;
  for (int32_t v = 0; fine && v < p->values; v++)
    if (last[v] >= 0) p->node[last[v]].lasts++;
  int32_t *at = list;
  for (int32_t n = 0; fine && n < p->nodes; n++) {
    p->node[n].wanted = wanted_results(&p->node[n], n, last);
    p->node[n].last = at;
    at += p->node[n].lasts;
    next[n] = 0;
  }
  for (int32_t v = 0; fine && v < p->values; v++)
    if (last[v] >= 0) ((int32_t *)p->node[last[v]].last)[next[last[v]]++] = v;
  situ__free(last);
  situ__free(next);
  return fine && situ__program_find_lasting(p);
}

/* ---- where a node stands ---- */

const char *situ__node_place(const situ__program_node *n, char out[SITU__PLACE_MAX]) {
  char name[SITU__SHOWN_MAX];
  const bool named = n->name && *n->name;
  (void)snprintf(out, SITU__PLACE_MAX, "%s%s%s%s%s%s", n->place ? n->place : "", named ? " \"" : "",
                 named ? situ__shown(n->name, name) : "", named ? "\"" : "", n->place && *n->site ? ", from " : "",
                 n->site);
  return out;
}

const char *situ__node_text(const situ__program *p, const situ__program_node *n, char out[SITU__NODE_TEXT_MAX]) {
  char place[SITU__PLACE_MAX];
  situ__node_place(n, place);
  (void)snprintf(out, SITU__NODE_TEXT_MAX, "in %s%s, %s%s%s%s%s", *n->module ? n->module : "the outermost module",
                 n->no_grad ? " (no_grad)" : "", n->row->target, *p->path ? " of " : "", p->path, *place ? ", " : "",
                 place);
  return out;
}

void situ__node_blame(const situ__program *p, const situ__program_node *n) {
  char text[SITU__NODE_TEXT_MAX];
  situ__error_add("  %s", situ__node_text(p, n, text));
}

/* ---- what situ lacks ---- */

void situ__lacks_note(situ__lacks *lacks, const char *target, const char *name, const char *why,
                      const situ__program_node *node) {
  char shown[SITU__SHOWN_MAX], shown_name[SITU__SHOWN_MAX];
  lacks->count++;
  if (situ__names_get(&lacks->seen, target) < 0) {
    (void)situ__names_put(&lacks->seen, target, 0);
    situ__text_add(&lacks->targets, "%s%s", lacks->targets.length ? ", " : "", situ__shown(target, shown));
  }
  situ__text_add(&lacks->list, "\n  %s%s%s: %s%s%s%s%s%s%s", node->place ? node->place : "",
                 node->place && *name ? " " : "", situ__shown(name, shown_name), situ__shown(target, shown),
                 *why ? " " : "", why, *node->module ? ", in " : "", node->module, *node->site ? ", from " : "",
                 node->site);
}

bool situ__lacks_check(const situ__lacks *lacks, const char *path, const char *fix) {
  if (!lacks->count) return true;
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s: has %d call%s that this library lacks: %s; %s%s", path, lacks->count,
                    lacks->count == 1 ? "" : "s", lacks->targets.data ? lacks->targets.data : "", fix,
                    lacks->list.data ? lacks->list.data : ""),
         false;
}

void situ__lacks_free(situ__lacks *lacks) {
  situ__text_free(&lacks->list);
  situ__text_free(&lacks->targets);
  situ__names_free(&lacks->seen);
}
