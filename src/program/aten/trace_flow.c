/* Writes down the branches of a traced program: both run (graph/flow.h).
   SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "trace.h"

static situ__trace *trace_of(situ__flow_trace *flow) {
  return (situ__trace *)((char *)flow - offsetof(situ__trace, flow));
}

static situ__program_node *add_node(situ__trace *t, const situ__op_row *row, int args, situ__arg **arg, int32_t out) {
  situ__program_node *n = situ__program_add_node(t->program);
  int32_t *kept = situ__arena_take(&t->program->arena, 1, sizeof *kept);
  *arg = situ__arena_take(&t->program->arena, (size_t)args, sizeof **arg);
  t->failed |= !n || !kept || !*arg;
  if (t->failed) return NULL;
  *kept = out;
  n->row = row;
  n->arg = *arg;
  n->guard = t->flow.guard;
  n->out = kept;
  n->outs = 1;
  t->failed = !(n->module = situ__trace_module(t));
  return t->failed ? NULL : n;
}

static situ__arg value_arg(situ__value_kind kind, int32_t v) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = kind, .integer = v };
}

int32_t situ__trace_branch(situ__flow_trace *flow, situ_tensor *condition, bool wanted) {
  situ__trace *t = trace_of(flow);
  const int32_t on = situ__trace_value(t, condition);
  int32_t out;
  situ__arg *arg;
  if (on < 0) return 0;
  if (!situ__program_add_value(t->program, SITU__VALUE_BOOL, &out)) return t->failed = true, 0;
  if (!situ__trace_add_meta(t, out) || !add_node(t, wanted ? &situ__flow_then : &situ__flow_else, 1, &arg, out))
    return 0;
  arg[0] = value_arg(SITU__VALUE_TENSOR, on);
  return out + 1;
}

bool situ__trace_join(situ__flow_trace *flow, int32_t guard, situ_tensor *const value[2], situ_tensor *result) {
  situ__trace *t = trace_of(flow);
  const int32_t a = situ__trace_value(t, value[0]), b = situ__trace_value(t, value[1]);
  situ__arg *arg;
  const int32_t y = a >= 0 && b >= 0 ? situ__trace_result(t, result, situ_desc(result)) : -1;
  if (y < 0 || !add_node(t, &situ__flow_either, 3, &arg, y)) return false;
  arg[0] = value_arg(SITU__VALUE_BOOL, guard - 1);
  arg[1] = value_arg(SITU__VALUE_TENSOR, a);
  arg[2] = value_arg(SITU__VALUE_TENSOR, b);
  return true;
}
