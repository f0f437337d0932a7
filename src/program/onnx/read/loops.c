/* Reads If, Loop and Scan: as nodes of the outer graph (graph/flow.h).
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "onnx.h"
#include "program/graph/flow.h"

/* ---- If ---- */

/* The branch of a constant condition stands in the outer graph; of any other condition both branches do, and their
   nodes are skipped while the program runs unless the condition is theirs (situ__program_node.guard). */

/* Conditions that are computed of sizes have values in a run without values, too; others, as an input, do not. */
static bool is_then(situ__op_call *c, situ__value *out) { return situ__flow_choose(c, true, out); }
static bool is_else(situ__op_call *c, situ__value *out) { return situ__flow_choose(c, false, out); }
static const situ__op_row condition[] = { { "If.then", "h cond", .size = is_then, .inputs = 1 },
                                          { "If.else", "h cond", .size = is_else, .inputs = 1 } };

situ__program_node *situ__onnx_add_part(situ__onnx *f, const situ__onnx_node *node, const situ__op_row *row, int args,
                                        situ__arg **arg) {
  situ__program_node *n = situ__program_add_node(f->program);
  *arg = situ__arena_take(&f->program->arena, (size_t)args, sizeof **arg);
  if (!n || !*arg) return situ__onnx_no_memory(), NULL;
  n->row = row;
  n->arg = *arg;
  n->guard = f->guard;
  n->module = node->module;
  n->name = node->name;
  n->place = node->place;
  n->outs = 1;
  return n;
}

/* Reads a branch. side: 0 for then, 1 for else. Sets guard to what its nodes need. */
static bool read_branch(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count,
                        int side, int depth, int32_t guard, int32_t *results) {
  static const char *const names[] = { "then_branch", "else_branch" };
  const int32_t outer = f->guard;
  situ__onnx_inner inner = { .place = node->place, .name = names[side], .result = results, .results = node->outputs };
  const situ__onnx_attribute *branch = situ__onnx_find_attribute(list, count, names[side]);
  if (!branch || !branch->graph.at)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has an If '%s' without branches", node->name);
  f->guard = guard;
  if (!situ__onnx_read_graph(f, branch->graph, depth + 1, &inner)) return false;
  f->guard = outer;
  return f->lacks.count || inner.given >= node->outputs ||
         situ__onnx_bad(f, SITU_E_FORMAT, "has an If '%s' of too few results", node->name);
}

/* The value whose truth decides that a branch runs: its number, from 1 on; 0 after recording an error. */
static int32_t add_condition(situ__onnx *f, const situ__onnx_node *node, int side) {
  int32_t *out = situ__arena_take(&f->program->arena, 1, sizeof *out);
  situ__arg *arg;
  int32_t value = node->input[0];
  if (!out) return situ__onnx_no_memory(), 0;
  if (!situ__onnx_on_host(f, value, &value) || !situ__onnx_add_value(f, "", out)) return 0;
  const bool host = situ__onnx_place_of(f, value) != SITU__ONNX_DEVICE;
  const situ__op_row *row = host ? &condition[side] : side ? &situ__flow_else : &situ__flow_then;
  situ__program_node *n = situ__onnx_add_part(f, node, row, 1, &arg);
  if (!n) return 0;
  f->program->kind[*out] = SITU__VALUE_BOOL;
  arg[0] = situ__onnx_value_arg(value);
  n->out = out;
  return *out + 1;
}

/* Gives an If's result i: from[0], or from[1] if the guard of the then branch is false. guard 0: from[0] alone. */
static bool give_result(situ__onnx *f, const situ__onnx_node *node, int i, int32_t guard, const int32_t from[2]) {
  const int32_t *out = &node->output[i];
  situ__arg *arg;
  const int sides = guard ? 2 : 1;
  int32_t there[2] = { from[0], from[1] };
  bool host = true, constant = true;
  const situ__onnx_format *format = f->about[from[0]].format;
  if (sides == 2 && f->about[from[1]].format != format)
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has an If '%s' whose branches give different dtypes", node->name);
  if (format == &situ__onnx_sequence)
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has an If '%s' that gives a sequence", node->name);
  f->about[*out].ready = true;
  f->about[*out].format = format;
  for (int k = 0; k < sides; k++) {
    host = host && situ__onnx_place_of(f, there[k]) != SITU__ONNX_DEVICE;
    constant = constant && situ__onnx_place_of(f, there[k]) == SITU__ONNX_CONSTANT;
  }
  if (sides == 1 && constant) {
    situ_tensor *known = situ__onnx_known(f, there[0]);
    return known && situ__onnx_set_constant(f, *out, known);
  }
  for (int k = 0; k < sides; k++)
    if (!(host ? situ__onnx_on_host : situ__onnx_on_device)(f, there[k], &there[k])) return false;
  f->about[*out].place = host ? SITU__ONNX_HOST : SITU__ONNX_DEVICE;
  situ__program_node *n = situ__onnx_add_part(
      f, node, guard ? &situ__flow_either : situ__onnx_row_of("Identity", f->opset), guard ? 3 : 1, &arg);
  if (!n) return false;
  for (int k = 0; k < sides; k++) arg[guard ? k + 1 : 0] = situ__onnx_value_arg(there[k]);
  if (guard) arg[0] = (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_BOOL, .integer = guard - 1 };
  n->out = out;
  n->host = host;
  return true;
}

bool situ__onnx_add_if(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count,
                       int depth) {
  int32_t *results[2], guard[2] = { 0 };
  const int32_t given = node->inputs == 1 ? node->input[0] : -1;
  if (given < 0 || !f->about[given].ready)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has an If '%s' without a condition", node->name);
  for (int side = 0; side < 2; side++)
    if (!(results[side] = situ__arena_take(&f->program->arena, (size_t)node->outputs, sizeof **results)))
      return situ__onnx_no_memory();
  const bool constant = situ__onnx_place_of(f, given) == SITU__ONNX_CONSTANT;
  int64_t value = 0;
  situ_tensor *t = constant ? situ__onnx_known(f, given) : NULL;
  if (constant && !t) return false;
  if (t && (situ_numel(t) != 1 || situ_item_i64(situ_to_dtype(t, SITU_I64), &value) != SITU_OK))
    return situ__onnx_bad(f, SITU_E_FORMAT, "has an If '%s' whose condition is not a bool", node->name);
  if (constant && !read_branch(f, node, list, count, !value, depth, f->guard, results[0])) return false;
  for (int side = 0; side < 2 && !constant; side++)
    if (!(guard[side] = add_condition(f, node, side)) ||
        !read_branch(f, node, list, count, side, depth, guard[side], results[side]))
      return false;
  for (int32_t i = 0; i < node->outputs; i++) {
    const int32_t from[2] = { results[0][i], results[1][i] };
    if (node->output[i] < 0) continue;
    f->about[node->output[i]].ready = true;
    if (!f->lacks.count && !give_result(f, node, i, guard[0], from)) return false;
  }
  return true;
}

/* ---- Loop and Scan ---- */

typedef struct loop {
  situ__onnx *f;
  const situ__onnx_node *node;
  const situ__onnx_attribute *list; /* the node's attributes */
  int attributes;
  bool scan;
  int32_t first, carried, elements; /* inputs: where those that are carried begin, their number, scanned ones */
  int32_t count, counter, guard;    /* numbers of the program */
  int32_t *own;                     /* of an iteration: its number, the condition, what is carried */
  situ__onnx_inner body;
  situ__arg *lists; /* of the values that collect */
  int32_t collects;
} loop;

static bool bad_loop(const loop *l, const char *what) {
  return situ__onnx_bad(l->f, SITU_E_FORMAT, "has a %s '%s' %s", l->node->op, l->node->name, what);
}

static bool add_number(loop *l, situ__value_kind kind, int32_t *out) {
  if (!situ__onnx_add_value(l->f, "", out)) return false;
  l->f->program->kind[*out] = kind;
  return true;
}

static situ__arg number_arg(const loop *l, int32_t v) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = l->f->program->kind[v], .integer = v };
}

/* Attribute i of a list of whole numbers; 0 if the list is absent. Of an axis, which may be negative: of `rank`. */
static int64_t item_of(const loop *l, const char *name, int32_t i) {
  const situ__onnx_attribute *a = situ__onnx_find_attribute(l->list, l->attributes, name);
  const bool there = a && a->arg.kind == SITU__ARG_LIST && i < a->arg.count && a->arg.list[i].kind == SITU__ARG_INT;
  return there ? a->arg.list[i].integer : 0;
}

/* Values as an argument T, on the device. */
static bool list_values(loop *l, const int32_t *v, int32_t count, situ__arg *out) {
  situ__arg *list = situ__arena_take(&l->f->program->arena, (size_t)count, sizeof *list);
  if (!list) return situ__onnx_no_memory();
  for (int32_t i = 0; i < count; i++) {
    int32_t there;
    if (v[i] < 0 || !l->f->about[v[i]].ready) return bad_loop(l, "whose inputs are not computed before it");
    if (l->f->about[v[i]].format)
      return situ__onnx_bad(l->f, SITU_E_UNSUPPORTED, "has a %s '%s' that carries %s", l->node->op, l->node->name,
                            l->f->about[v[i]].format->name);
    if (!situ__onnx_on_device(l->f, v[i], &there)) return false;
    list[i] = situ__onnx_value_arg(there);
  }
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = list };
  return true;
}

static bool read_sizes(loop *l) {
  const situ__onnx_attribute *inputs = situ__onnx_find_attribute(l->list, l->attributes, "num_scan_inputs");
  const int32_t given = l->node->inputs;
  l->first = l->scan ? 0 : 2;
  if (l->scan && l->f->opset < 9)
    return situ__onnx_bad(l->f, SITU_E_UNSUPPORTED, "has a Scan '%s' of opset 8: convert it to opset 9 or later",
                          l->node->name);
  if (l->scan &&
      (!inputs || inputs->arg.kind != SITU__ARG_INT || inputs->arg.integer < 1 || inputs->arg.integer > given))
    return bad_loop(l, "without inputs that it scans");
  l->elements = l->scan ? (int32_t)inputs->arg.integer : 0;
  l->carried = given - l->first - l->elements;
  return l->carried >= 0 || bad_loop(l, "without its first two inputs");
}

/* The node that says how often the body runs. */
static bool add_count(loop *l) {
  situ__arg *arg;
  int32_t *out = situ__arena_take(&l->f->program->arena, 1, sizeof *out), trip = l->scan ? -1 : l->node->input[0];
  if (!out) return situ__onnx_no_memory();
  if (trip >= 0 && !l->f->about[trip].ready) return bad_loop(l, "whose trip count is not computed before it");
  if (trip >= 0 && !situ__onnx_on_host(l->f, trip, &trip)) return false;
  situ__arg inputs, *axis = situ__arena_take(&l->f->program->arena, 2 * (size_t)l->elements + 1, sizeof *axis),
                    *backwards = axis + l->elements;
  if (!axis) return situ__onnx_no_memory();
  if (l->scan && !list_values(l, l->node->input + l->carried, l->elements, &inputs)) return false;
  if (!add_number(l, SITU__VALUE_INT, out)) return false;
  l->count = *out;
  situ__program_node *n = situ__onnx_add_part(l->f, l->node, l->scan ? &situ__scan_count : &situ__loop_count, 4, &arg);
  if (!n) return false;
  n->out = out;
  n->host = trip >= 0 && situ__onnx_place_of(l->f, trip) != SITU__ONNX_DEVICE;
  if (!l->scan) return arg[0] = situ__onnx_value_arg(trip), true;
  for (int32_t i = 0; i < l->elements; i++) {
    axis[i] = (situ__arg){ .kind = SITU__ARG_INT, .integer = item_of(l, "scan_input_axes", i) };
    backwards[i] = (situ__arg){ .kind = SITU__ARG_INT, .integer = item_of(l, "scan_input_directions", i) };
  }
  arg[0] = inputs;
  arg[1] = (situ__arg){ .kind = SITU__ARG_LIST, .count = l->elements, .list = axis };
  arg[2] = (situ__arg){ .kind = SITU__ARG_INT, .integer = l->f->program->max_iterations };
  arg[3] = (situ__arg){ .kind = SITU__ARG_LIST, .count = l->elements, .list = backwards };
  return true;
}

/* The node that begins, or the one that goes on; cond, v: values. */
static situ__arg *add_turn(loop *l, const situ__op_row *row, int32_t cond, const int32_t *v) {
  situ__arg *arg, carried;
  situ__onnx *f = l->f;
  if (cond >= 0 && !f->about[cond].ready) return bad_loop(l, "whose condition is not computed before it"), NULL;
  if ((cond >= 0 && !situ__onnx_on_host(f, cond, &cond)) || !list_values(l, v, l->carried, &carried)) return NULL;
  situ__program_node *n = situ__onnx_add_part(f, l->node, row, SITU__LOOP_ARGS, &arg);
  if (!n) return NULL;
  n->loop = row == &situ__loop_begin ? 1 : -1;
  n->host = cond >= 0 && situ__onnx_place_of(f, cond) != SITU__ONNX_DEVICE; /* it has values in a run without them */
  n->out = l->own;
  n->outs = l->carried + 2;
  arg[SITU__LOOP_COUNT] = number_arg(l, l->count);
  arg[SITU__LOOP_COND] = situ__onnx_value_arg(cond);
  arg[SITU__LOOP_CARRIED] = carried;
  arg[SITU__LOOP_SCANNED] = arg[SITU__LOOP_LISTS] = (situ__arg){ .kind = SITU__ARG_LIST };
  arg[SITU__LOOP_COUNTER] = number_arg(l, l->counter);
  arg[SITU__LOOP_GUARD] = number_arg(l, l->guard);
  return arg;
}

/* An element of a scanned input, as the body sees it. */
static bool add_element(loop *l, int32_t i, int32_t *value) {
  situ__arg *arg;
  int32_t input, *out = situ__arena_take(&l->f->program->arena, 1, sizeof *out);
  if (!out) return situ__onnx_no_memory();
  if (!situ__onnx_on_device(l->f, l->node->input[l->carried + i], &input) || !situ__onnx_add_value(l->f, "", out))
    return false;
  situ__program_node *n = situ__onnx_add_part(l->f, l->node, &situ__scan_element, 4, &arg);
  if (!n) return false;
  n->out = out;
  l->f->about[*out].ready = true;
  *value = *out;
  arg[0] = situ__onnx_value_arg(input);
  arg[1] = number_arg(l, l->counter);
  arg[2] = (situ__arg){ .kind = SITU__ARG_INT, .integer = item_of(l, "scan_input_axes", i) };
  arg[3] = (situ__arg){ .kind = SITU__ARG_BOOL, .integer = item_of(l, "scan_input_directions", i) };
  return true;
}

/* Reads the body between its two nodes, *start the arguments of the first one. */
static bool read_body(loop *l, int depth, situ__arg *start) {
  situ__onnx *f = l->f;
  situ__arena *arena = &f->program->arena;
  const situ__onnx_attribute *body = situ__onnx_find_attribute(l->list, l->attributes, "body");
  const int32_t outer = f->guard, skipped = l->scan ? 2 : 0, results = l->scan ? 0 : 1;
  if (!body || !body->graph.at) return bad_loop(l, "without a body");
  l->body.input = situ__arena_take(arena, (size_t)l->carried + 2 + (size_t)l->elements, sizeof *l->body.input);
  l->body.rank = situ__arena_take(arena, (size_t)l->carried + 2 + (size_t)l->elements, sizeof *l->body.rank);
  situ__arg *rank = situ__arena_take(arena, 2, sizeof *rank);
  if (!l->body.input || !l->body.rank || !rank) return situ__onnx_no_memory();
  l->body.results = INT32_MAX;
  l->body.place = l->node->place;
  l->body.name = "body";
  for (int32_t i = skipped; i < l->carried + 2; i++) l->body.input[l->body.inputs++] = l->own[i];
  f->guard = l->guard + 1;
  for (int32_t i = 0; i < l->elements; i++)
    if (!add_element(l, i, &l->body.input[l->body.inputs++])) return false;
  if (!situ__onnx_read_graph(f, body->graph, depth + 1, &l->body)) return false;
  if (f->lacks.count) return f->guard = outer, true;
  l->collects = l->body.given - results - l->carried;
  if (l->collects < 0 || l->node->outputs > l->carried + l->collects) return bad_loop(l, "of too few results");
  /* ONNX Runtime gives a body numbers with one dimension where it declares them so. */
  for (int k = 0; k < 2; k++)
    rank[k] = (situ__arg){ .kind = SITU__ARG_INT, .integer = !l->scan && l->body.rank[k] == 1 };
  start[SITU__LOOP_RANKS] = (situ__arg){ .kind = SITU__ARG_LIST, .count = 2, .list = rank };
  situ__arg scanned, *lists = l->lists = situ__arena_take(arena, (size_t)l->collects, sizeof *lists);
  if (!lists) return situ__onnx_no_memory();
  for (int32_t i = 0; i < l->collects; i++) {
    int32_t v;
    if (!situ__onnx_add_value(f, "", &v)) return false;
    lists[i] = situ__onnx_value_arg(v);
  }
  if (!list_values(l, l->body.result + results + l->carried, l->collects, &scanned)) return false;
  situ__arg *end = add_turn(l, &situ__loop_next, l->scan ? -1 : l->body.result[0], l->body.result + results);
  if (!end) return false;
  start[SITU__LOOP_LISTS] = end[SITU__LOOP_LISTS] =
      (situ__arg){ .kind = SITU__ARG_LIST, .count = l->collects, .list = lists };
  end[SITU__LOOP_SCANNED] = scanned;
  end[SITU__LOOP_RANKS] = start[SITU__LOOP_RANKS];
  f->guard = outer;
  return true;
}

/* Result i of the node: what is carried at the end, or what the iterations gave. */
static bool add_result(loop *l, int32_t i) {
  situ__onnx *f = l->f;
  const int32_t k = i - l->carried;
  situ__arg *arg;
  situ__program_node *n =
      situ__onnx_add_part(f, l->node, k < 0 ? situ__onnx_row_of("Identity", f->opset) : &situ__loop_collected, 5, &arg);
  if (!n) return false;
  n->out = &l->node->output[i];
  arg[0] = k < 0 ? situ__onnx_value_arg(l->own[i + 2]) : l->lists[k];
  if (k < 0) return true;
  const int32_t given = l->body.result[l->body.given - l->collects + k];
  const situ__onnx_declared *said = NULL;
  for (int32_t d = 0; d < f->declareds; d++)
    if (f->declared[d].value == given) said = &f->declared[d];
  const int dims = said && said->dims > 0 ? said->dims : 0;
  situ__arg *size = situ__arena_take(&f->program->arena, (size_t)dims + 1, sizeof *size);
  if (!size) return situ__onnx_no_memory();
  for (int d = 0; d < dims; d++)
    size[d] = (situ__arg){ .kind = SITU__ARG_INT, .integer = said->size[d] < 0 ? 0 : said->size[d] };
  if (said && said->dtype) arg[1] = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = said->dtype };
  arg[2] = (situ__arg){ .kind = SITU__ARG_LIST, .count = dims, .list = size };
  arg[3] = (situ__arg){ .kind = SITU__ARG_INT, .integer = item_of(l, "scan_output_axes", k) };
  arg[4] = (situ__arg){ .kind = SITU__ARG_BOOL, .integer = item_of(l, "scan_output_directions", k) };
  return true;
}

static bool take_own(loop *l) {
  l->own = situ__arena_take(&l->f->program->arena, (size_t)l->carried + 2, sizeof *l->own);
  if (!l->own) return situ__onnx_no_memory();
  for (int32_t i = 0; i < l->carried + 2; i++) {
    if (!situ__onnx_add_value(l->f, "", &l->own[i])) return false;
    l->f->about[l->own[i]].ready = true;
    l->f->about[l->own[i]].place = i < 2 ? SITU__ONNX_HOST : SITU__ONNX_DEVICE;
  }
  return add_number(l, SITU__VALUE_INT, &l->counter) && add_number(l, SITU__VALUE_BOOL, &l->guard);
}

bool situ__onnx_add_loop(situ__onnx *f, const situ__onnx_node *node, const situ__onnx_attribute *list, int count,
                         int depth) {
  loop l = { .f = f, .node = node, .list = list, .attributes = count, .scan = strcmp(node->op, "Scan") == 0 };
  if (!read_sizes(&l) || !add_count(&l) || !take_own(&l)) return false;
  situ__arg *start = add_turn(&l, &situ__loop_begin, l.scan ? -1 : node->input[1], node->input + l.first);
  if (!start || !read_body(&l, depth, start)) return false;
  for (int32_t i = 0; i < node->outputs; i++) {
    if (node->output[i] < 0) continue;
    f->about[node->output[i]].ready = true;
    if (!f->lacks.count && !add_result(&l, i)) return false;
  }
  return true;
}
