/* Loops whose body runs once, and stands for all iterations: for the shapes of a program that is written (infer.c), and
   where a run without values is traced. A traced Loop of ONNX carries the number of its iteration, and its condition
   has the trip count in it, as while_loop knows neither; one that gives lists scans the numbers of its iterations.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/fail.h"
#include "flow.h"
#include "situ/sys/dry.h"
#include "situ/sys/op.h"
#include "situ/sys/shape.h"

enum { MOST_NUMBERS = 1000000 };                       /* that are a tensor of the program */
static const int64_t least_endless = INT64_C(1) << 53; /* a trip count that no loop reaches */
static const situ_options of_numbers = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };

bool situ__flow_is_once(const situ__op_call *c) { return c->once || (situ__flow_tracing && situ__flow_tracing->loop); }

static situ__value *value_of(const situ__op_call *c, int k) { return &c->value[c->arg[k].integer]; }
static situ__value *list_of(const situ__op_call *c, int i) {
  return &c->value[c->arg[SITU__LOOP_LISTS].list[i].integer];
}

/* ---- Scan ---- */

bool situ__scan_count_once(situ__op_call *c, situ_tensor *const *input, int count, situ__value *out) {
  situ_tensor **scanned = situ__call_take(c, count, sizeof *scanned);
  situ__flow_trace *t = situ__flow_tracing;
  out->real = 1; /* it is a Scan's */
  for (int i = 0; i < count && t && scanned; i++) {
    const int64_t axis = c->arg[1].list[i].integer;
    const bool backwards = c->arg[3].kind == SITU__ARG_LIST && c->arg[3].list[i].integer;
    scanned[i] = axis ? situ_movedim(input[i], SITU_SHAPE(axis), SITU_SHAPE(0)) : input[i];
    if (backwards) scanned[i] = situ_flip(scanned[i], SITU_SHAPE(0));
    if (!scanned[i]) return false;
  }
  return scanned && (!t || t->scan(t, scanned, count, situ__arg_int(c, 2)));
}

situ_tensor *situ__scan_element_once(situ__op_call *c) {
  situ__flow_trace *t = situ__flow_tracing;
  situ_tensor *x = situ__arg_tensor(c, 0);
  situ_shape shape = situ_shape_of(x);
  const int axis = situ__arg_dim(c, 2), at = axis < 0 ? axis + shape.ndim : axis;
  if (at < 0 || at >= shape.ndim) return situ__call_refuse(c, "scans along an axis that its input has not");
  memmove(&shape.dim[at], &shape.dim[at + 1], (size_t)(--shape.ndim - at) * sizeof *shape.dim);
  situ_tensor *y = situ_empty(shape, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  return y && (!t || t->element(t, y)) ? y : NULL;
}

/* ---- the two turns of a loop ---- */

static bool is_true(const situ__op_call *c) {
  int64_t cond = 1;
  if (!situ__arg_given(c, SITU__LOOP_COND)) return true;
  return situ__arg_has_values(c, SITU__LOOP_COND) && situ__arg_host_ints(c, SITU__LOOP_COND, &cond, 1) == 1 && cond;
}

static bool is_scan(const situ__op_call *c) {
  return c->arg[SITU__LOOP_COUNT].kind == SITU__ARG_VALUE && value_of(c, SITU__LOOP_COUNT)->real != 0;
}
/* Whether it becomes a while_loop. */
static bool has_condition(const situ__op_call *c) { return !c->arg[SITU__LOOP_LISTS].count && !is_scan(c); }

static situ_tensor *trip_of(const situ__op_call *c) {
  return c->arg[SITU__LOOP_COUNT].kind == SITU__ARG_VALUE ? value_of(c, SITU__LOOP_COUNT)->tensor : NULL;
}

/* Whether iteration i (NULL: they are not counted) is one; NULL: it is always. */
static situ_tensor *condition_of(const situ__op_call *c, situ_tensor *i) {
  situ_tensor *trip = trip_of(c), *cond = is_true(c) ? NULL : situ__arg_tensor(c, SITU__LOOP_COND), *below = NULL;
  const int64_t most = situ__arg_int(c, SITU__LOOP_COUNT);
  if (i && trip) below = situ_lt(i, situ_dim(trip) ? situ_reshape(trip, SITU_SCALAR) : trip);
  else if (i && most < least_endless) below = situ_lt_scalar(i, (double)most);
  if (cond && situ_dim(cond) != 0) cond = situ_reshape(cond, SITU_SCALAR);
  return below && cond ? situ_logical_and(cond, below) : below ? below : cond;
}

/* A loop that gives lists, of a known length, scans the numbers of its iterations. */
static bool scan_numbers(situ__op_call *c, int64_t *length) {
  if (trip_of(c) || *length >= least_endless || !is_true(c))
    return situ__call_refuse(c, "gives lists whose length values decide, for which torch.export has no form"), false;
  if (*length > MOST_NUMBERS)
    return situ__fail(SITU_E_LIMIT, c->node->row->target, "gives lists of %lld elements, more than %d",
                      (long long)*length, MOST_NUMBERS),
           false;
  if (*length < 0) *length = 0;
  situ_tensor *numbers = situ_arange(0, (double)*length, 1, &of_numbers);
  return numbers && situ__flow_tracing->scan(situ__flow_tracing, &numbers, 1, MOST_NUMBERS);
}

/* Memory of their own, so that the body's values are not what is carried at first. */
static bool copy_carried(situ_tensor *const *in, int count, situ_tensor **own) {
  situ_export_trace *trace = situ_export_pause();
  bool good = true;
  for (int i = 0; i < count && good; i++) good = (own[i] = situ_clone(in[i])) != NULL;
  if (trace) situ_export_resume(trace, NULL);
  return good;
}

/* The number of the iteration, as the body sees it: i, or an element of what is scanned. */
static situ_tensor *see_number(situ__op_call *c, situ_tensor *i, bool scans, int32_t guard) {
  situ__flow_trace *t = situ__flow_tracing;
  const int32_t outer = t->guard;
  t->guard = guard;
  if (scans && (!(i = situ_empty(SITU_SCALAR, &of_numbers)) || !t->element(t, i))) i = NULL;
  if (i && c->arg[SITU__LOOP_RANKS].list[0].integer) i = situ_reshape(i, SITU_SHAPE(1));
  t->guard = outer;
  return i;
}

/* `first`, unless it is NULL, and what is carried. */
static situ_tensor **carry(const situ__op_call *c, situ_tensor *first, int *count) {
  const int own_at = first != NULL;
  int carried;
  situ_tensor **list = situ__arg_tensors(c, SITU__LOOP_CARRIED, &carried);
  situ_tensor **all = list ? situ__call_take(c, (int64_t)carried + 1, sizeof *all) : NULL;
  *count = carried + own_at;
  if (all) all[0] = first;
  if (all && carried) memcpy(all + own_at, list, (size_t)carried * sizeof *list);
  return all;
}

situ_tensor *situ__loop_begin_once(situ__op_call *c) {
  static const unsigned char yes = 1;
  static const int64_t zero = 0;
  situ__flow_trace *t = situ__flow_tracing;
  situ_tensor *first = NULL, *number = NULL;
  const int lists = c->arg[SITU__LOOP_LISTS].count;
  int64_t length = situ__arg_int(c, SITU__LOOP_COUNT);
  const bool whiles = t && has_condition(c), counts = c->arg[SITU__LOOP_COUNT].kind == SITU__ARG_VALUE;
  const bool numbers = t && lists && !is_scan(c);
  if (numbers && !scan_numbers(c, &length)) return NULL;
  int count;
  if (whiles && counts && !(first = situ_zeros(SITU_SCALAR, &of_numbers))) return NULL;
  const int own_at = first != NULL;
  situ_tensor **in = carry(c, first, &count), **own = situ__call_take(c, (int64_t)count + 1, sizeof *own);
  if (!in || !own || !copy_carried(in, count, own)) return NULL;
  situ__flow_turn turn = { .carried = in, .own = own, .count = count, .scans = lists };
  if (whiles && !(turn.cond = condition_of(c, first)))
    turn.cond = situ_ones(SITU_SCALAR, &(situ_options){ .dtype = SITU_BOOL, .device = { .kind = SITU_CPU } });
  const int32_t guard = t ? t->loop(t, &turn) : 1;
  if (!guard) return NULL;
  for (int i = 0; i < lists; i++) {
    list_of(c, i)->integer = length < least_endless ? length + 1 : -1;
    list_of(c, i)->real = turn.lists + i;
  }
  if (own_at && !situ_set(&value_of(c, SITU__LOOP_COUNTER)->tensor, own[0])) return NULL;
  value_of(c, SITU__LOOP_GUARD)->real = guard;
  value_of(c, SITU__LOOP_GUARD)->integer = 1;
  if ((own_at || numbers) && !(number = see_number(c, own[0], numbers, guard))) return NULL;
  for (int i = own_at; i < count; i++) c->result[i - own_at + 2] = own[i];
  c->result[1] = situ__loop_number(c, 1, SITU_BOOL, &yes);
  return number ? number : situ__loop_number(c, 0, SITU_I64, &zero);
}

static bool is_like(const situ_tensor *a, const situ_tensor *b) {
  const situ_shape x = situ_shape_of(a), y = situ_shape_of(b);
  return situ_shape_equal(&x, &y) && situ_dtype_of(a) == situ_dtype_of(b);
}

situ_tensor *situ__loop_next_once(situ__op_call *c) {
  static const unsigned char yes = 1;
  static const int64_t zero = 0;
  situ__flow_trace *t = situ__flow_tracing;
  situ_tensor *i = value_of(c, SITU__LOOP_COUNTER)->tensor, *first = NULL;
  int count;
  if (i && !(first = situ_add_scalar(i, 1))) return NULL;
  const int own_at = first != NULL;
  situ_tensor **next = carry(c, first, &count);
  for (int k = own_at; next && k < count; k++) {
    c->result[k - own_at + 2] = c->value[c->node->out[k - own_at + 2]].tensor;
    if (!is_like(next[k], c->result[k - own_at + 2]))
      return situ__call_refuse(c, "carries a tensor whose shape or dtype an iteration changes");
  }
  situ__flow_turn turn = { .carried = next, .count = count };
  turn.scanned = situ__arg_tensors(c, SITU__LOOP_SCANNED, &turn.scans);
  if (!next || !turn.scanned) return NULL;
  if (t && !has_condition(c) && !is_true(c))
    return situ__call_refuse(c, "gives lists whose length a condition decides, for which torch.export has no form");
  if (t && has_condition(c) && !(turn.cond = condition_of(c, first)))
    return situ__call_refuse(c, "has neither a condition nor a trip count: it never ends");
  if (t && !t->next(t, &turn)) return NULL;
  value_of(c, SITU__LOOP_GUARD)->integer = 0;
  c->result[1] = situ__loop_number(c, 1, SITU_BOOL, &yes);
  return situ__loop_number(c, 0, SITU_I64, &zero);
}

situ_tensor *situ__loop_collected_once(situ__op_call *c) {
  situ__flow_trace *t = situ__flow_tracing;
  const situ__value *v = value_of(c, 0);
  if (v->integer < 0)
    return situ__call_refuse(c, "gives as many elements as a condition on values says, and this run has no values");
  situ_tensor *x = v->collected->tensor[0], *y;
  situ_shape shape = situ_shape_of(x);
  const int axis = situ__arg_dim(c, 3);
  if (shape.ndim == SITU_MAX_DIMS) return situ__call_refuse(c, "gives a list of tensors of 8 dimensions");
  memmove(&shape.dim[1], &shape.dim[0], (size_t)shape.ndim++ * sizeof *shape.dim);
  shape.dim[0] = v->integer - 1;
  y = situ_empty(shape, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  if (y && t && !t->collected(t, (int32_t)v->real, y)) return NULL;
  if (situ__arg_flag(c, 4)) y = situ_flip(y, SITU_SHAPE(0));
  return axis ? situ_movedim(y, SITU_SHAPE(0), SITU_SHAPE(axis)) : y;
}
