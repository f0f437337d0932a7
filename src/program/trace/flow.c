/* Writes down the branches of a traced program, both of which run, and its loops, whose bodies run once (graph/flow.h).
   SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "trace.h"

static situ__trace *trace_of(situ__flow_trace *flow) {
  return (situ__trace *)((char *)flow - offsetof(situ__trace, flow));
}

static situ__program_node *add_node(situ__trace *t, const situ__op_row *row, int args, situ__arg **arg,
                                    const int32_t *out, int outs) {
  situ__program_node *n = situ__program_add_node(t->program);
  int32_t *kept = situ__arena_take(&t->program->arena, (size_t)outs, sizeof *kept);
  *arg = situ__arena_take(&t->program->arena, (size_t)args, sizeof **arg);
  t->failed |= !n || !kept || !*arg;
  if (t->failed) return NULL;
  memcpy(kept, out, (size_t)outs * sizeof *kept);
  n->row = row;
  n->arg = *arg;
  n->guard = t->flow.guard;
  n->out = kept;
  n->outs = outs;
  t->failed = !(n->module = situ__trace_module(t));
  return t->failed ? NULL : n;
}

static situ__arg value_arg(situ__value_kind kind, int32_t v) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = kind, .integer = v };
}

static bool add_value(situ__trace *t, situ__value_kind kind, int32_t *out) {
  return (situ__program_add_value(t->program, kind, out) && situ__trace_add_meta(t, *out)) || !(t->failed = true);
}

/* ---- branches ---- */

static int32_t add_branch(situ__flow_trace *flow, situ_tensor *condition, bool wanted) {
  situ__trace *t = trace_of(flow);
  const int32_t on = situ__trace_value(t, condition);
  int32_t out;
  situ__arg *arg;
  if (on < 0) return 0;
  if (!add_value(t, SITU__VALUE_BOOL, &out) ||
      !add_node(t, wanted ? &situ__flow_then : &situ__flow_else, 1, &arg, &out, 1))
    return 0;
  arg[0] = value_arg(SITU__VALUE_TENSOR, on);
  return out + 1;
}

static bool add_join(situ__flow_trace *flow, int32_t guard, situ_tensor *const value[2], situ_tensor *result) {
  situ__trace *t = trace_of(flow);
  t->joins = true;
  const int32_t a = situ__trace_value(t, value[0]), b = situ__trace_value(t, value[1]);
  t->joins = false;
  situ__arg *arg;
  const int32_t y = a >= 0 && b >= 0 ? situ__trace_result(t, result, situ_desc(result)) : -1;
  if (y < 0 || !add_node(t, &situ__flow_either, 3, &arg, &y, 1)) return false;
  arg[0] = value_arg(SITU__VALUE_BOOL, guard - 1);
  arg[1] = value_arg(SITU__VALUE_TENSOR, a);
  arg[2] = value_arg(SITU__VALUE_TENSOR, b);
  return true;
}

bool situ__trace_is_visible(const situ__trace *t, int32_t guard) {
  int32_t g = t->flow.guard;
  while (g && g != guard) g = t->program->meta[g - 1].guard;
  return g == guard || t->joins;
}

/* ---- loops ---- */

/* Tensors as an argument T. */
static bool list_tensors(situ__trace *t, situ_tensor *const *tensor, int count, situ__arg *out) {
  situ__arg *list = situ__arena_take(&t->program->arena, (size_t)count + 1, sizeof *list);
  if (!list) return !(t->failed = true);
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = list };
  for (int i = 0; i < count; i++) {
    list[i] = value_arg(SITU__VALUE_TENSOR, situ__trace_value(t, tensor[i]));
    if (list[i].integer < 0) return false;
  }
  return true;
}

static situ__traced_loop *push_loop(situ__trace *t) {
  situ__traced_loop *l = situ__arena_take(&t->program->arena, 1, sizeof *l);
  if (!l) return t->failed = true, NULL;
  l->outer = t->loop;
  l->count = (situ__arg){ .kind = SITU__ARG_INT, .integer = INT64_MAX };
  t->looped = true;
  return t->loop = l;
}

static bool add_count(situ__flow_trace *flow, situ_tensor *const *scanned, int count, int64_t most) {
  situ__trace *t = trace_of(flow);
  situ__traced_loop *l = push_loop(t);
  situ__arg *axis = situ__arena_take(&t->program->arena, (size_t)count, sizeof *axis), *arg, inputs;
  int32_t *value = situ__arena_take(&t->program->arena, (size_t)count, sizeof *value), out;
  if (!l || !axis || !value) return !(t->failed = true);
  if (!list_tensors(t, scanned, count, &inputs) || !add_value(t, SITU__VALUE_INT, &out) ||
      !add_node(t, &situ__scan_count, 4, &arg, &out, 1))
    return false;
  for (int i = 0; i < count; i++) value[i] = (int32_t)inputs.list[i].integer, axis[i].kind = SITU__ARG_INT;
  arg[0] = inputs;
  arg[1] = (situ__arg){ .kind = SITU__ARG_LIST, .count = count, .list = axis };
  arg[2] = (situ__arg){ .kind = SITU__ARG_INT, .integer = most };
  l->count = value_arg(SITU__VALUE_INT, out);
  l->scanned = value;
  return true;
}

static bool add_element(situ__flow_trace *flow, situ_tensor *element) {
  situ__trace *t = trace_of(flow);
  situ__traced_loop *l = t->loop;
  const int32_t y = situ__trace_result(t, element, situ_desc(element));
  situ__arg *arg;
  if (y < 0 || !add_node(t, &situ__scan_element, 4, &arg, &y, 1)) return false;
  arg[0] = value_arg(SITU__VALUE_TENSOR, l->scanned[l->element++]);
  arg[1] = value_arg(SITU__VALUE_INT, l->counter);
  arg[2].kind = SITU__ARG_INT;
  arg[3].kind = SITU__ARG_BOOL;
  return true;
}

/* The node that begins the loop, or that ends an iteration. */
static bool add_turn(situ__trace *t, const situ__flow_turn *turn, bool begins) {
  static const situ__arg ranks[2] = { { .kind = SITU__ARG_INT }, { .kind = SITU__ARG_INT } };
  situ__traced_loop *l = t->loop;
  situ__arg *arg, carried, scanned;
  const int32_t cond = turn->cond ? situ__trace_value(t, turn->cond) : 0;
  if (cond < 0 || !list_tensors(t, turn->carried, turn->count, &carried) ||
      !list_tensors(t, turn->scanned, begins ? 0 : turn->scans, &scanned))
    return false;
  situ__program_node *n =
      add_node(t, begins ? &situ__loop_begin : &situ__loop_next, SITU__LOOP_ARGS, &arg, l->own, l->carried + 2);
  if (!n) return false;
  n->loop = begins ? 1 : -1;
  arg[SITU__LOOP_COUNT] = l->count;
  if (turn->cond) arg[SITU__LOOP_COND] = value_arg(SITU__VALUE_TENSOR, cond);
  arg[SITU__LOOP_CARRIED] = carried;
  arg[SITU__LOOP_SCANNED] = scanned;
  arg[SITU__LOOP_LISTS] = l->lists;
  arg[SITU__LOOP_COUNTER] = value_arg(SITU__VALUE_INT, l->counter);
  arg[SITU__LOOP_GUARD] = value_arg(SITU__VALUE_BOOL, l->guard - 1);
  arg[SITU__LOOP_RANKS] = (situ__arg){ .kind = SITU__ARG_LIST, .count = 2, .list = ranks };
  return true;
}

/* What the body sees: the first two, which a while_loop alone has, are its iteration's number and the condition. */
static bool add_own(situ__trace *t, situ__traced_loop *l, const situ__flow_turn *turn) {
  static const situ_dtype dtype[2] = { SITU_I64, SITU_BOOL };
  for (int i = 0; i < 2; i++) {
    l->own[i] = -1;
    if (!turn->cond) continue;
    if (!add_value(t, SITU__VALUE_TENSOR, &l->own[i])) return false;
    t->program->meta[l->own[i]].dtype = dtype[i];
  }
  for (int i = 0; i < turn->count; i++)
    if ((l->own[i + 2] = situ__trace_result(t, turn->own[i], situ_desc(turn->own[i]))) < 0) return false;
  return true;
}

static int32_t begin_loop(situ__flow_trace *flow, situ__flow_turn *turn) {
  situ__trace *t = trace_of(flow);
  situ__traced_loop *l = t->loop && !t->loop->guard ? t->loop : push_loop(t);
  situ__arg *list = situ__arena_take(&t->program->arena, (size_t)turn->scans + 1, sizeof *list);
  int32_t guard, v;
  if (!l || !list || !(l->own = situ__arena_take(&t->program->arena, (size_t)turn->count + 2, sizeof *l->own)))
    return t->failed = true, 0;
  l->carried = turn->count;
  l->lists = (situ__arg){ .kind = SITU__ARG_LIST, .count = turn->scans, .list = list };
  if (!add_value(t, SITU__VALUE_INT, &l->counter) || !add_value(t, SITU__VALUE_BOOL, &guard)) return 0;
  for (int i = 0; i < turn->scans; i++) {
    if (!add_value(t, SITU__VALUE_INT, &v)) return 0;
    if (!i) turn->lists = v;
    list[i] = value_arg(SITU__VALUE_INT, v);
  }
  l->guard = guard + 1;
  return add_own(t, l, turn) && add_turn(t, turn, true) ? l->guard : 0;
}

static bool end_loop(situ__flow_trace *flow, const situ__flow_turn *turn) {
  situ__trace *t = trace_of(flow);
  const bool good = add_turn(t, turn, false);
  t->loop = t->loop->outer;
  return good;
}

static bool add_collected(situ__flow_trace *flow, int32_t list, situ_tensor *result) {
  situ__trace *t = trace_of(flow);
  const int32_t y = situ__trace_result(t, result, situ_desc(result));
  const situ_shape shape = situ_shape_of(result);
  situ__arg *arg, *size = situ__arena_take(&t->program->arena, (size_t)shape.ndim, sizeof *size);
  if (!size) return !(t->failed = true);
  if (y < 0 || !add_node(t, &situ__loop_collected, 5, &arg, &y, 1)) return false;
  for (int d = 1; d < shape.ndim; d++) size[d - 1] = (situ__arg){ .kind = SITU__ARG_INT, .integer = shape.dim[d] };
  arg[0] = value_arg(SITU__VALUE_INT, list);
  arg[1] = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = situ_dtype_of(result) };
  arg[2] = (situ__arg){ .kind = SITU__ARG_LIST, .count = shape.ndim - 1, .list = size };
  arg[3].kind = SITU__ARG_INT;
  arg[4].kind = SITU__ARG_BOOL;
  return true;
}

void situ__trace_flow_begin(situ__trace *t, bool loops) {
  t->flow = (situ__flow_trace){ .branch = add_branch,
                                .join = add_join,
                                .scan = add_count,
                                .loop = loops ? begin_loop : NULL,
                                .element = add_element,
                                .next = end_loop,
                                .collected = add_collected };
  situ__flow_tracing = &t->flow;
}
