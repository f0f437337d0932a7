/* Reads nodes that hold graphs: torch.no_grad and its kind, torch.cond, while_loop, scan and map. The nodes of the
   graphs stand in the outer one (graph/flow.h).
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "pt2.h"
#include "program/graph/flow.h"

enum { DEPTH = 16 };

/* Arguments or results of a graph: values of the program. */
typedef struct values {
  situ__arg *arg;
  int64_t capacity;
  int count;
} values;

typedef struct block {
  situ__pt2 *f;
  const situ__json_item *item;
  const char *target;
  situ__names *names; /* of the graph that the node is in */
  bool no_grad;
  int depth;
  const situ__json_item *graph[2];
  const char *name[2]; /* of each graph */
  int graphs;
  situ__arg first;   /* the argument that is a value or a bool: a condition, a flag */
  situ__arg list[4]; /* lists of values, in their order; the last one, of other arguments after a graph */
  int lists;
  const char **result; /* names of the node's results, in its graph; "": it has none */
  int results;
  values in, out, next; /* of the graph that is read; next: of an iteration, beside its condition */
} block;

static bool bad(const block *b, const char *what) {
  return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a %s %s", b->target, what);
}

/* ---- arguments and results ---- */

static bool is_flag(const situ__arg *arg) { return arg->kind == SITU__ARG_VALUE || arg->kind == SITU__ARG_BOOL; }

static bool read_arguments(block *b) {
  const situ__json_item *inputs = situ__json_get(b->item, "inputs"), *outputs = situ__json_get(b->item, "outputs");
  situ__arg *loose = situ__arena_take(&b->f->program->arena, inputs ? inputs->count : 1, sizeof *loose), arg;
  b->result = situ__arena_take(&b->f->program->arena, outputs ? outputs->count : 1, sizeof *b->result);
  int32_t count = 0;
  if (!loose || !b->result) return situ__pt2_no_memory();
  for (EACH_MEMBER(m, outputs))
    b->result[b->results++] = situ__pt2_string(situ__json_get(situ__json_get(m, "as_tensor"), "name"));
  for (EACH_MEMBER(m, inputs)) {
    const situ__json_item *given = situ__json_get(m, "arg"), *graph = situ__json_get(given, "as_graph");
    if (graph && b->graphs < 2) {
      b->name[b->graphs] = situ__pt2_string(situ__json_get(graph, "name"));
      b->graph[b->graphs++] = situ__json_get(graph, "graph");
      continue;
    }
    if (!situ__pt2_arg(b->f, b->names, given, &arg)) return false;
    if (arg.kind == SITU__ARG_LIST && b->lists < 3) b->list[b->lists++] = arg;
    else if (!b->graphs && b->first.kind == SITU__ARG_NONE && is_flag(&arg)) b->first = arg;
    else if (b->graphs) loose[count++] = arg;
  }
  b->list[3] = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = loose };
  return true;
}

/* Gives result i of the node: the value v. */
static bool give_result(const block *b, int i, int32_t v) {
  const char *name = i < b->results ? b->result[i] : "";
  if (!*name) return true;
  if (situ__names_get(b->names, name) >= 0) return bad(b, "whose result is not a new value");
  return situ__names_put(b->names, name, v) || situ__pt2_no_memory();
}

static situ__arg value_arg(const block *b, int32_t v) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = b->f->program->kind[v], .integer = v };
}

/* ---- graphs ---- */

static bool append(values *v, const situ__arg *list, int count) {
  if (!situ__grow(NULL, &v->arg, &v->capacity, sizeof *v->arg, v->count + count)) return situ__pt2_no_memory();
  for (int i = 0; i < count; i++) v->arg[v->count++] = list[i];
  return true;
}

/* Reads a graph as if its nodes stood in the outer one. */
static bool read_graph(const block *b, const situ__json_item *graph, const values *in, values *out) {
  situ__pt2 *f = b->f;
  situ__names inner = { 0 };
  situ__arg given;
  int k = 0;
  out->count = 0;
  bool fine = b->depth < DEPTH || situ__pt2_bad(f, SITU_E_LIMIT, "has blocks inside blocks, more than %d deep", DEPTH);
  for (EACH_MEMBER(m, situ__json_get(graph, "inputs"))) {
    const situ__json_item *held = m->count == 1 ? m + 1 : m;
    const char *name = situ__pt2_string(situ__json_get(held, "name"));
    if (!*name) name = situ__pt2_string(situ__json_get(held, "as_name"));
    if (fine && (k == in->count || situ__names_get(&inner, name) >= 0))
      fine = situ__pt2_bad(f, SITU_E_FORMAT, "has a block whose inputs are not its arguments");
    if (fine && in->arg[k].kind != SITU__ARG_VALUE) fine = situ__pt2_bad(f, SITU_E_FORMAT, "gives a block a constant");
    fine = fine && (situ__names_put(&inner, name, (int32_t)in->arg[k++].integer) || situ__pt2_no_memory());
  }
  const char *const within = f->within, *const place = f->place;
  char inside[192];
  (void)snprintf(inside, sizeof inside, "%s.%s", place, b->name[graph == b->graph[1]]);
  f->within = inside;
  fine = fine && situ__pt2_read_nodes(f, graph, &inner, b->no_grad, b->depth + 1);
  f->within = within;
  f->place = place;
  for (EACH_MEMBER(m, situ__json_get(graph, "outputs")))
    fine = fine && situ__pt2_arg(f, &inner, m, &given) && append(out, &given, 1);
  situ__names_free(&inner);
  return fine;
}

static bool are_tensors(const block *b, const values *v, int least) {
  if (v->count < least) return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a block of too few results");
  for (int i = 0; i < v->count; i++)
    if (v->arg[i].kind != SITU__ARG_VALUE || v->arg[i].of != SITU__VALUE_TENSOR)
      return situ__pt2_bad(b->f, SITU_E_UNSUPPORTED, "has a %s that carries or gives something other than tensors",
                           b->target);
  return true;
}

static bool add_value(const block *b, situ__value_kind kind, int32_t *out) {
  return situ__program_add_value(b->f->program, kind, out) || situ__pt2_no_memory();
}

/* A node with results of its own; *arg gets space for its arguments. */
static situ__program_node *add_node(const block *b, const situ__op_row *row, int args, situ__arg **arg,
                                    const int32_t *out, int32_t outs) {
  situ__program_node *n = situ__program_add_node(b->f->program);
  int32_t *kept = situ__arena_take(&b->f->program->arena, (size_t)outs, sizeof *kept);
  *arg = situ__arena_take(&b->f->program->arena, (size_t)args, sizeof **arg);
  if (!n || !kept || !*arg) return situ__pt2_no_memory(), NULL;
  memcpy(kept, out, (size_t)outs * sizeof *kept);
  n->row = row;
  n->arg = *arg;
  n->guard = b->f->guard;
  n->no_grad = b->no_grad;
  n->out = kept;
  n->outs = outs;
  return n;
}

/* ---- torch.no_grad and its kind ---- */

static bool read_wrapped(block *b) {
  const bool on = b->first.integer, is_grad = strstr(b->target, "set_grad") != NULL;
  if (!b->graph[0] || b->first.kind != SITU__ARG_BOOL) return bad(b, "without its flag or graph");
  if (!is_grad && on)
    situ__lacks_note(&b->f->lacks, b->target, situ__pt2_string(situ__json_get(b->item, "name")), "with enabled=True",
                     &(situ__program_node){ .module = "", .site = "", .place = b->f->place });
  if (is_grad) b->no_grad = !on;
  if (!append(&b->in, b->list[3].list, b->list[3].count) || !read_graph(b, b->graph[0], &b->in, &b->out)) return false;
  if (b->out.count < b->results) return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a block of too few results");
  for (int i = 0; i < b->results; i++) {
    if (*b->result[i] && b->out.arg[i].kind != SITU__ARG_VALUE)
      return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a block whose result '%s' is not a new value", b->result[i]);
    if (!give_result(b, i, (int32_t)b->out.arg[i].integer)) return false;
  }
  return true;
}

/* ---- torch.cond ---- */

static bool read_cond(block *b) {
  values *in = &b->in, *out = &b->out;
  static const situ__op_row *const condition[] = { &situ__flow_then, &situ__flow_else };
  const int32_t outer = b->f->guard;
  int32_t guard[2], y;
  int given[2];
  situ__arg *arg, *results[2];
  if (b->graphs < 2 || b->lists != 1 || b->first.kind != SITU__ARG_VALUE)
    return bad(b, "without a condition, two branches and their arguments");
  if (!append(in, b->list[0].list, b->list[0].count)) return false;
  for (int side = 0; side < 2; side++) {
    if (!add_value(b, SITU__VALUE_BOOL, &guard[side]) || !add_node(b, condition[side], 1, &arg, &guard[side], 1))
      return false;
    arg[0] = b->first;
    b->f->guard = guard[side] + 1;
    if (!read_graph(b, b->graph[side], in, out)) return false;
    b->f->guard = outer;
    given[side] = out->count;
    results[side] = situ__arena_take(&b->f->program->arena, (size_t)out->count, sizeof **results);
    if (!results[side]) return situ__pt2_no_memory();
    for (int i = 0; i < out->count; i++) results[side][i] = out->arg[i];
  }
  if (given[0] != given[1])
    return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a %s whose branches give %d and %d results", b->target, given[0],
                         given[1]);
  for (int i = 0; i < b->results; i++) {
    if (i >= given[0]) return situ__pt2_bad(b->f, SITU_E_FORMAT, "has a block of too few results");
    const situ__arg *side[2] = { &results[0][i], &results[1][i] };
    if (side[0]->of != SITU__VALUE_TENSOR || side[1]->of != SITU__VALUE_TENSOR)
      return situ__pt2_bad(b->f, SITU_E_UNSUPPORTED, "has a %s that gives a number", b->target);
    if (!add_value(b, SITU__VALUE_TENSOR, &y) || !add_node(b, &situ__flow_either, 3, &arg, &y, 1)) return false;
    arg[0] = value_arg(b, guard[0]);
    arg[1] = *side[0];
    arg[2] = *side[1];
    if (!give_result(b, i, y)) return false;
  }
  return true;
}

/* ---- while_loop, scan and map ---- */

typedef struct loop {
  const block *b;
  situ__arg count, counter, guard, lists;
  int32_t *own; /* of an iteration: its number, the condition, what is carried */
  int carried;
} loop;

static bool begin_loop(loop *l, const block *b, const situ__arg *carried) {
  int32_t counter, guard;
  *l = (loop){ .b = b, .carried = carried->count, .lists = { .kind = SITU__ARG_LIST } };
  l->own = situ__arena_take(&b->f->program->arena, (size_t)l->carried + 2, sizeof *l->own);
  if (!l->own) return situ__pt2_no_memory();
  if (!add_value(b, SITU__VALUE_INT, &counter) || !add_value(b, SITU__VALUE_BOOL, &guard)) return false;
  for (int i = 0; i < l->carried + 2; i++)
    if (!add_value(b, SITU__VALUE_TENSOR, &l->own[i])) return false;
  l->counter = value_arg(b, counter);
  l->guard = value_arg(b, guard);
  l->count = (situ__arg){ .kind = SITU__ARG_INT, .integer = INT64_MAX };
  return true;
}

/* The node that begins the loop, or that ends an iteration. cond: NONE or a value. */
static bool add_turn(loop *l, bool begins, situ__arg cond, const situ__arg *carried, const situ__arg *scanned) {
  static const situ__arg ranks[2] = { { .kind = SITU__ARG_INT }, { .kind = SITU__ARG_INT } };
  situ__arg *arg, *list = situ__arena_take(&l->b->f->program->arena, (size_t)l->carried, sizeof *list);
  if (!list) return situ__pt2_no_memory();
  situ__program_node *n =
      add_node(l->b, begins ? &situ__loop_begin : &situ__loop_next, SITU__LOOP_ARGS, &arg, l->own, l->carried + 2);
  if (!n) return false;
  if (l->carried) memcpy(list, carried, (size_t)l->carried * sizeof *list);
  n->loop = begins ? 1 : -1;
  arg[SITU__LOOP_COUNT] = l->count;
  arg[SITU__LOOP_COND] = cond;
  arg[SITU__LOOP_CARRIED] = (situ__arg){ .kind = SITU__ARG_LIST, .count = l->carried, .list = list };
  arg[SITU__LOOP_SCANNED] = *scanned;
  arg[SITU__LOOP_LISTS] = l->lists;
  arg[SITU__LOOP_COUNTER] = l->counter;
  arg[SITU__LOOP_GUARD] = l->guard;
  arg[SITU__LOOP_RANKS] = (situ__arg){ .kind = SITU__ARG_LIST, .count = 2, .list = ranks };
  return true;
}

/* What the body gets first: the carried values. */
static bool append_own(const loop *l, values *in) {
  in->count = 0;
  for (int i = 0; i < l->carried; i++) {
    const situ__arg own = value_arg(l->b, l->own[i + 2]);
    if (!append(in, &own, 1)) return false;
  }
  return true;
}

static const situ__arg nothing = { .kind = SITU__ARG_LIST };

static bool read_while(block *b) {
  loop l;
  values *in = &b->in, *out = &b->out, *next = &b->next;
  if (b->lists != 2 || b->graphs != 2) return bad(b, "without two graphs and two lists");
  const situ__arg *carried = &b->list[0], *more = &b->list[1];
  const int32_t outer = b->f->guard;
  if (!begin_loop(&l, b, carried) || !append(in, carried->list, carried->count) || !are_tensors(b, in, 0) ||
      !append(in, more->list, more->count) || !read_graph(b, b->graph[0], in, out))
    return false;
  if (out->count != 1 || !add_turn(&l, true, out->arg[0], carried->list, &nothing))
    return out->count != 1 ? bad(b, "whose condition is not one value") : false;
  b->f->guard = (int32_t)l.guard.integer + 1;
  if (!append_own(&l, in) || !append(in, more->list, more->count) || !read_graph(b, b->graph[1], in, next) ||
      !are_tensors(b, next, l.carried))
    return false;
  in->count = 0;
  if (!append(in, next->arg, l.carried) || !append(in, more->list, more->count) || !read_graph(b, b->graph[0], in, out))
    return false;
  if (out->count != 1 || !add_turn(&l, false, out->arg[0], next->arg, &nothing))
    return out->count != 1 ? bad(b, "whose condition is not one value") : false;
  b->f->guard = outer;
  for (int i = 0; i < l.carried; i++)
    if (!give_result(b, i, l.own[i + 2])) return false;
  return true;
}

/* Appends an element of each list that is scanned. */
static bool append_elements(const loop *l, const situ__arg *scanned, values *in) {
  situ__arg *arg;
  int32_t y;
  for (int32_t i = 0; i < scanned->count; i++) {
    if (!add_value(l->b, SITU__VALUE_TENSOR, &y) || !add_node(l->b, &situ__scan_element, 4, &arg, &y, 1)) return false;
    arg[0] = scanned->list[i];
    arg[1] = l->counter;
    arg[2] = (situ__arg){ .kind = SITU__ARG_INT };
    arg[3] = (situ__arg){ .kind = SITU__ARG_BOOL };
    const situ__arg element = value_arg(l->b, y);
    if (!append(in, &element, 1)) return false;
  }
  return true;
}

/* The lists of what the iterations give, `count` of them, and the nodes that stack each. */
static bool add_lists(loop *l, int count) {
  situ__arg *list = situ__arena_take(&l->b->f->program->arena, (size_t)count, sizeof *list);
  int32_t v;
  if (!list) return situ__pt2_no_memory();
  for (int i = 0; i < count; i++) {
    if (!add_value(l->b, SITU__VALUE_TENSOR, &v)) return false;
    list[i] = value_arg(l->b, v);
  }
  l->lists = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = list };
  return true;
}

static bool give_collected(const loop *l, int i) {
  situ__arg *arg;
  int32_t y;
  if (!add_value(l->b, SITU__VALUE_TENSOR, &y) || !add_node(l->b, &situ__loop_collected, 5, &arg, &y, 1)) return false;
  arg[0] = l->lists.list[i];
  arg[3] = (situ__arg){ .kind = SITU__ARG_INT };
  arg[4] = (situ__arg){ .kind = SITU__ARG_BOOL };
  return give_result(l->b, l->carried + i, y);
}

static bool count_elements(loop *l, const situ__arg *scanned) {
  situ__arg *arg, *axes = situ__arena_take(&l->b->f->program->arena, (size_t)scanned->count, sizeof *axes);
  int32_t count;
  if (!axes) return situ__pt2_no_memory();
  if (!add_value(l->b, SITU__VALUE_INT, &count) || !add_node(l->b, &situ__scan_count, 4, &arg, &count, 1)) return false;
  for (int32_t i = 0; i < scanned->count; i++) axes[i] = (situ__arg){ .kind = SITU__ARG_INT };
  arg[0] = *scanned;
  arg[1] = (situ__arg){ .kind = SITU__ARG_LIST, .count = scanned->count, .list = axes };
  arg[2] = (situ__arg){ .kind = SITU__ARG_INT, .integer = l->b->f->program->max_iterations };
  l->count = value_arg(l->b, count);
  return true;
}

/* scan has lists of what is carried and of what is scanned; map has the latter alone. */
static bool read_scan(block *b) {
  loop l;
  values *in = &b->in, *out = &b->out;
  const bool maps = strstr(b->target, "map_impl") != NULL;
  const int lists = maps ? 2 : 3;
  if (b->lists != lists || b->graphs != 1) return bad(b, "without a graph and its lists");
  const situ__arg *carried = maps ? &nothing : &b->list[0], *scanned = &b->list[lists - 2], *more = &b->list[lists - 1];
  const int32_t outer = b->f->guard;
  const situ__arg none = { .kind = SITU__ARG_NONE };
  if (!append(in, carried->list, carried->count) || !append(in, scanned->list, scanned->count) ||
      !are_tensors(b, in, carried->count + 1) || !begin_loop(&l, b, carried) || !count_elements(&l, scanned))
    return false;
  const int32_t start = b->f->program->nodes;
  if (!add_turn(&l, true, none, carried->list, &nothing)) return false;
  b->f->guard = (int32_t)l.guard.integer + 1;
  if (!append_own(&l, in) || !append_elements(&l, scanned, in) || !append(in, more->list, more->count) ||
      !read_graph(b, b->graph[0], in, out) || !are_tensors(b, out, l.carried))
    return false;
  if (!add_lists(&l, out->count - l.carried)) return false;
  const situ__arg given = { .kind = SITU__ARG_LIST, .count = l.lists.count };
  situ__arg *ys = situ__arena_take(&b->f->program->arena, (size_t)given.count, sizeof *ys), collects = given;
  if (!ys) return situ__pt2_no_memory();
  for (int i = 0; i < given.count; i++) ys[i] = out->arg[l.carried + i];
  collects.list = ys;
  ((situ__arg *)b->f->program->node[start].arg)[SITU__LOOP_LISTS] = l.lists;
  if (!add_turn(&l, false, none, out->arg, &collects)) return false;
  b->f->guard = outer;
  for (int i = 0; i < l.carried; i++)
    if (!give_result(b, i, l.own[i + 2])) return false;
  for (int32_t i = 0; i < l.lists.count; i++)
    if (!give_collected(&l, i)) return false;
  return true;
}

/* ---- the node ---- */

bool situ__pt2_read_block(situ__pt2 *f, const situ__json_item *item, situ__names *names, bool no_grad, int depth,
                          bool *taken) {
  static const char prefix[] = "torch.ops.higher_order.";
  static const struct {
    const char *name;
    bool (*read)(block *b);
  } kinds[] = {
    { "wrap_with_set_grad_enabled", read_wrapped },
    { "wrap_with_autocast", read_wrapped },
    { "cond", read_cond },
    { "while_loop", read_while },
    { "scan", read_scan },
    { "map_impl", read_scan },
  };
  block b = { .f = f, .item = item, .names = names, .no_grad = no_grad, .depth = depth };
  b.target = situ__pt2_string(situ__json_get(item, "target"));
  *taken = false;
  if (strncmp(b.target, prefix, sizeof prefix - 1) != 0) return true;
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds && !*taken; k++) {
    if (strcmp(b.target + sizeof prefix - 1, kinds[k].name) != 0) continue;
    *taken = true;
    const bool fine = read_arguments(&b) && kinds[k].read(&b);
    situ__free(b.in.arg);
    situ__free(b.out.arg);
    situ__free(b.next.arg);
    if (!fine) return false;
  }
  return true;
}
