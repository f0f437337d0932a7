/* Reads If. The branch of a constant condition stands in the outer graph; of any other condition both branches do, and
   their nodes are skipped while the program runs unless the condition is theirs (situ__program_node.guard).
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "onnx.h"
#include "program/graph/flow.h"

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
