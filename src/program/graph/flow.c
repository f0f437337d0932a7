/* Branches and loops. They stand in the list of nodes: a branch's nodes are skipped unless the condition is theirs
   (situ__program_node.guard); a loop's body stands between a node that begins and one that goes back while the loop's
   guard is true (situ__program_node.loop). Carried values keep their numbers: the last node of an iteration writes them
   for the next one.
   SPDX-License-Identifier: MIT */
#include "flow.h"

#include <string.h>

#include "base/fail.h"
#include "situ/sys/dry.h"
#include "situ/sys/op.h"
#include "situ/sys/shape.h"

SITU__THREAD_LOCAL situ__flow_trace *situ__flow_tracing;

/* ---- branches ---- */

/* A run without values takes both branches. */
bool situ__flow_choose(situ__op_call *c, bool wanted, situ__value *out) {
  int64_t condition = 0;
  out->real = situ__flow_tracing ? situ__flow_tracing->guard : 0;
  if (situ_is_dry() && situ__arg_is_tensor(c, 0) && !situ__arg_has_values(c, 0)) {
    situ__flow_trace *t = situ__flow_tracing;
    const int32_t guard = t ? t->branch(t, situ__arg_tensor(c, 0), wanted) : 1;
    out->integer = 1;
    out->real = guard;
    return guard != 0;
  }
  const int count = situ__arg_host_ints(c, 0, &condition, 1);
  if (count == 0) situ__call_refuse(c, "has a condition without a value");
  out->integer = (condition != 0) == wanted;
  return count == 1;
}
static bool is_then(situ__op_call *c, situ__value *out) { return situ__flow_choose(c, true, out); }
static bool is_else(situ__op_call *c, situ__value *out) { return situ__flow_choose(c, false, out); }

/* A result of its own, since a branch may give what others use too. */
static situ_tensor *join_traced(situ_tensor *const side[2], int32_t guard) {
  situ_export_trace *trace = situ_export_pause();
  situ_tensor *y = situ_clone(side[0]);
  if (trace) situ_export_resume(trace, NULL);
  return y && situ__flow_tracing->join(situ__flow_tracing, guard, side, y) ? y : NULL;
}

static situ_tensor *run_either(situ__op_call *c) {
  situ_tensor *side[2] = { situ__arg_tensor(c, 1), situ__arg_tensor(c, 2) };
  if (!situ_is_dry() || !side[0] || !side[1] || !situ__arg_flag(c, 0)) return side[situ__arg_flag(c, 0) ? 0 : 1];
  const situ_shape a = situ_shape_of(side[0]), b = situ_shape_of(side[1]);
  const bool same = situ_shape_equal(&a, &b) && situ_dtype_of(side[0]) == situ_dtype_of(side[1]);
  const int32_t guard = (int32_t)c->value[c->arg[0].integer].real;
  if (same && situ__flow_tracing && guard != situ__flow_tracing->guard) return join_traced(side, guard);
  if (same) return side[0];
  return situ__call_refuse(c, "has branches whose results differ in shape or dtype, and a run without values has both");
}

situ__flow_region situ__flow_find(const situ__program *p, int32_t at) {
  const int32_t outer = p->node[at].guard;
  situ__flow_region r = { .otherwise = at + 1 };
  while (r.otherwise < p->nodes && p->node[r.otherwise].guard != outer) r.otherwise++;
  r.joins = r.otherwise + (r.otherwise < p->nodes);
  while (r.joins < p->nodes && p->node[r.joins].guard != outer) r.joins++;
  for (r.end = r.joins; r.end < p->nodes && p->node[r.end].row == &situ__flow_either; r.end++)
    if (p->node[r.end].arg[0].integer != p->node[at].out[0]) break;
  return r;
}

const situ__op_row situ__flow_then = { "If.then", "h cond", .size = is_then };
const situ__op_row situ__flow_else = { "If.else", "h cond", .size = is_else };
const situ__op_row situ__flow_either = { "If", "b cond, t? then_branch, t? else_branch", .run = run_either };

/* ---- loops ---- */

enum { MOST_TRACED = 4096 }; /* iterations whose calls are traced */

static situ__value *value_of(const situ__op_call *c, const situ__arg *a) { return &c->value[a->integer]; }

int32_t situ__flow_end(const situ__program *p, int32_t at) {
  const int64_t guard = p->node[at].arg[SITU__LOOP_GUARD].integer;
  while (p->node[at].loop >= 0 || p->node[at].arg[SITU__LOOP_GUARD].integer != guard) at++;
  return at;
}

/* How often a Loop runs at most. */
static bool count_loop(situ__op_call *c, situ__value *out) {
  out->integer = INT64_MAX;
  if (!situ__arg_given(c, 0)) return true;
  if (situ_is_dry() && !situ__arg_has_values(c, 0) && situ__flow_is_once(c))
    return situ_set(&out->tensor, situ__arg_tensor(c, 0));
  const int count = situ__arg_host_ints(c, 0, &out->integer, 1);
  if (count == 0) situ__call_refuse(c, "has a trip count without a value");
  return count == 1;
}

static bool count_scan(situ__op_call *c, situ__value *out) {
  int count;
  situ_tensor **input = situ__arg_tensors(c, 0, &count);
  for (int i = 0; i < count; i++) {
    const int64_t size = situ_size(input[i], situ__as_dim(c->arg[1].list[i].integer));
    if (size < 0) return false;
    if (i && size != out->integer) return situ__call_refuse(c, "has inputs of several lengths");
    out->integer = size;
  }
  if (out->integer > situ__arg_int(c, 2))
    return situ__fail(SITU_E_LIMIT, c->node->row->target,
                      "has %lld iterations, and a call makes at most %lld (situ_load_options.max_iterations)",
                      (long long)out->integer, (long long)situ__arg_int(c, 2)),
           false;
  return input && (!situ__flow_is_once(c) || situ__scan_count_once(c, input, count, out));
}

static situ_tensor *run_element(situ__op_call *c) {
  if (situ__flow_is_once(c)) return situ__scan_element_once(c);
  situ_tensor *x = situ__arg_tensor(c, 0);
  const int64_t at = situ__arg_int(c, 1);
  const int axis = situ__arg_dim(c, 2);
  return situ_select(x, axis, situ__arg_flag(c, 3) ? situ_size(x, axis) - 1 - at : at);
}

#define PARAMETERS "i count, h? cond, T carried, T scanned, T lists, i counter, b guard, I ranks"

/* It has values in a run without values, too. */
situ_tensor *situ__loop_number(const situ__op_call *c, int k, situ_dtype dtype, const void *value) {
  const situ_shape shape = c->arg[SITU__LOOP_RANKS].list[k].integer ? SITU_SHAPE(1) : SITU_SCALAR;
  const bool paused = situ_dry_pause();
  situ_tensor *t = situ_from_host(value, situ_dtype_size(dtype), shape,
                                  &(situ_options){ .dtype = dtype, .device = { .kind = SITU_CPU } });
  if (paused) situ_dry_resume();
  return t;
}

/* Whether there is an iteration. A run without values has one for a condition on them. */
static bool read_condition(situ__op_call *c, int64_t iteration, int64_t *cond) {
  *cond = 1;
  if (!situ__arg_given(c, SITU__LOOP_COND)) return true;
  if (!situ_is_dry() || situ__arg_has_values(c, SITU__LOOP_COND)) {
    const int count = situ__arg_host_ints(c, SITU__LOOP_COND, cond, 1);
    return count == 1 || (situ_error() == SITU_OK && situ__call_refuse(c, "has a condition without a value"));
  }
  if (situ__flow_tracing)
    return situ__call_refuse(c, "has a condition on values, which a run without values does not have"), false;
  for (int32_t i = 0; i < c->arg[SITU__LOOP_LISTS].count; i++)
    value_of(c, &c->arg[SITU__LOOP_LISTS].list[i])->integer = -1;
  *cond = iteration == 0;
  return true;
}

/* Sets what an iteration begins with: its number, the condition and what is carried; and whether there is one. */
static situ_tensor *begin_iteration(situ__op_call *c, int64_t iteration) {
  int64_t cond;
  int count;
  if (situ__flow_tracing && iteration > MOST_TRACED)
    return situ__call_refuse(c, "cannot be traced as a loop, and has more than 4096 iterations");
  if (!read_condition(c, iteration, &cond)) return NULL;
  situ_tensor **carried = situ__arg_tensors(c, SITU__LOOP_CARRIED, &count);
  situ_tensor **held = situ__call_take(c, count, sizeof *held);
  if (!carried || !held) return NULL;
  value_of(c, &c->arg[SITU__LOOP_COUNTER])->integer = iteration;
  value_of(c, &c->arg[SITU__LOOP_GUARD])->real = situ__flow_tracing ? situ__flow_tracing->guard : 0;
  value_of(c, &c->arg[SITU__LOOP_GUARD])->integer = cond && iteration < situ__arg_int(c, SITU__LOOP_COUNT);
  /* Each is held before the first is replaced: two may change places. */
  bool fine = true;
  for (int i = 0; i < count && fine; i++) fine = situ_set(&held[i], carried[i]);
  for (int i = 0; i < count; i++) {
    situ_tensor **slot = &c->value[c->node->out[i + 2]].tensor;
    situ_drop(slot);
    c->result[i + 2] = *slot = held[i];
  }
  if (!fine) return NULL;
  const unsigned char byte = cond != 0;
  c->result[1] = situ__loop_number(c, 1, SITU_BOOL, &byte);
  return situ__loop_number(c, 0, SITU_I64, &iteration);
}

static situ_tensor *run_begin(situ__op_call *c) {
  for (int32_t i = 0; i < c->arg[SITU__LOOP_LISTS].count; i++)
    situ__value_free(value_of(c, &c->arg[SITU__LOOP_LISTS].list[i]));
  return situ__flow_is_once(c) ? situ__loop_begin_once(c) : begin_iteration(c, 0);
}

static situ_tensor *run_next(situ__op_call *c) {
  int count;
  situ_tensor **scanned = situ__arg_tensors(c, SITU__LOOP_SCANNED, &count);
  if (!scanned) return NULL;
  for (int i = 0; i < count; i++)
    if (!situ__value_add(value_of(c, &c->arg[SITU__LOOP_LISTS].list[i]), scanned[i])) return NULL;
  return situ__flow_is_once(c) ? situ__loop_next_once(c) : begin_iteration(c, situ__arg_int(c, SITU__LOOP_COUNTER) + 1);
}

/* What the iterations gave, along a new dimension. */
static situ_tensor *run_collected(situ__op_call *c) {
  const situ__value_list *v = value_of(c, &c->arg[0])->collected;
  const int axis = situ__arg_dim(c, 3), count = v ? (int)v->count : 0;
  situ_shape shape = situ__arg_dims(c, 2);
  if (value_of(c, &c->arg[0])->integer) return situ__loop_collected_once(c);
  if (count == 0) {
    if (!situ__arg_given(c, 1)) return situ__call_refuse(c, "runs no iteration, and the file does not say its result");
    const int at = axis < 0 ? axis + shape.ndim + 1 : axis;
    if (at < 0 || at > shape.ndim || shape.ndim == SITU_MAX_DIMS)
      return situ__call_refuse(c, "stacks along a dimension that its result does not have");
    memmove(&shape.dim[at + 1], &shape.dim[at], (size_t)(shape.ndim++ - at) * sizeof *shape.dim);
    shape.dim[at] = 0;
    return situ_empty(shape, &(situ_options){ .dtype = situ__arg_dtype(c, 1),
                                              .device = situ__call_options(c, situ__arg_dtype(c, 1)).device });
  }
  for (int i = 0; situ__arg_flag(c, 4) && i < count / 2; i++) {
    situ_tensor *swapped = v->tensor[i];
    v->tensor[i] = v->tensor[count - 1 - i];
    v->tensor[count - 1 - i] = swapped;
  }
  return situ_stack(v->tensor, count, axis);
}

const situ__op_row situ__loop_count = { "Loop.count", "h? trip", .size = count_loop };
const situ__op_row situ__scan_count = { "Scan.count", "T inputs, I axes, i most, I? backwards", .size = count_scan };
const situ__op_row situ__scan_element = { "Scan.element", "t input, i counter, i axis, b backwards",
                                          .run = run_element };
const situ__op_row situ__loop_begin = { "Loop.begin", PARAMETERS, .results = SITU__RESULTS_LIST, .run = run_begin };
const situ__op_row situ__loop_next = { "Loop.next", PARAMETERS, .results = SITU__RESULTS_LIST, .run = run_next };
const situ__op_row situ__loop_collected = { "Loop.collected", "t list, d? dtype, I? sizes, i axis, b backwards",
                                            .run = run_collected };
