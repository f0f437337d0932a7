/* See run.h.
   SPDX-License-Identifier: MIT */
#include "ops/run.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "situ/autograd.h"
#include "situ/random.h"
#include "situ/sys/alloc.h"

static double value(const operand *o, int64_t limit, int64_t i, uint32_t *state) {
  static const double special[] = { NAN, INFINITY, -INFINITY, -0.0, 0,     1e30, -1e30, 1e-40,
                                    1,   -1,       300,       -300, 65504, 2,    0.5,   -2 };
  *state = *state * 1664525u + 1013904223u;
  const uint32_t r = *state >> 16;
  if (parity_is_index(o->letter))
    return o->seed % 8 == 7 ? (double)(r % 5) - 2 : (double)(r % (uint32_t)(limit > 0 ? limit : 1));
  if (o->special) return special[(r + (uint32_t)i) % 16];
  if (o->letter == 'q') return (r % 257) / 256.0;
  return o->letter == 'p' ? 0.25 + (r % 512) / 256.0 : (double)(r % 1024) / 256 - 2;
}

/* The sizes of the memory that a layout is a view of. */
static situ_shape shape_in_memory(const operand *o) {
  situ_shape s = o->shape;
  const int last = s.ndim - 1;
  if (!s.ndim) return s;
  if (o->layout == COLUMNS)
    for (int d = 0; d < s.ndim; d++) s.dim[d] = o->shape.dim[last - d];
  if (o->layout == STEPS) s.dim[last] *= 2;
  if (o->layout == OFFSET) s.dim[0] += 3;
  if (o->layout == EXPANDED) s.dim[0] = s.dim[0] > 0;
  return s;
}

static situ_tensor *view_of(situ_tensor *x, const operand *o) {
  const int last = o->shape.ndim - 1;
  if (last < 0) return x;
  situ_shape turn = { .ndim = o->shape.ndim };
  for (int d = 0; d <= last; d++) turn.dim[d] = last - d;
  switch (o->layout) {
  case COLUMNS: return situ_permute(x, turn);
  case STEPS: return situ_slice(x, last, 1, INT64_MAX, 2);
  case OFFSET: return situ_narrow(x, 0, 2, o->shape.dim[0]);
  case EXPANDED: return situ_expand(x, o->shape);
  default: return x;
  }
}

static situ_tensor *filled(const operand *o, situ_shape s, int64_t limit, situ_dtype dtype, situ_device device) {
  const int64_t count = numel_of(&s);
  double *values = malloc((size_t)(count + 1) * sizeof *values);
  if (!values) return NULL;
  uint32_t state = o->seed * 2654435761u + 1;
  for (int64_t i = 0; i < count; i++) values[i] = value(o, limit, i, &state);
  situ_dtype given = SITU_F64;
  if (dtype == SITU_F32) {
    float *narrow = (float *)values; /* in place: element i is read before it is written over */
    for (int64_t i = 0; i < count; i++) {
      const float v = (float)values[i];
      memcpy(narrow + i, &v, sizeof v);
    }
    given = SITU_F32;
  }
  situ_tensor *x = situ_from_host(values, (size_t)count * situ_dtype_size(given), s, &(situ_options){ .dtype = given });
  free(values);
  return situ_to(given == dtype ? x : situ_to_dtype(x, dtype), device);
}

/* *leaf, and the view of it that the call is given. */
static situ_tensor *make(const operand *o, int64_t limit, const place *p, situ_tensor **leaf) {
  const situ_dtype dtype = p->wide && situ_dtype_is_floating(o->dtype) ? SITU_F64 : o->dtype;
  situ_tensor *x = filled(o, shape_in_memory(o), limit, dtype, p->device);
  *leaf = x = o->grad ? situ_requires_grad_(x, true) : x;
  return view_of(x, o);
}

/* Indices are below this. */
static int64_t index_limit(const call *c, int k) {
  const situ_shape *first = &c->operand[0].shape;
  if (k == 0 && c->count > 1 && c->operand[1].shape.ndim) return c->operand[1].shape.dim[0]; /* embedding */
  if (!first->ndim) return 1;
  const bool columns = c->operand[k].letter == 't' || first->ndim < 2;
  return first->dim[columns ? first->ndim - 1 : first->ndim - 2];
}

operands make_operands(const call *c, const place *p) {
  operands o = { 0 };
  for (int k = 0; k < c->count; k++) {
    const operand *said = &c->operand[k];
    if (said->layout == SAME_AS_FIRST) {
      o.t[k] = o.t[0];
      o.leaf[k] = o.leaf[0];
    } else if (said->from != MADE) {
      o.t[k] = p->result[said->from];
      o.leaf[k] = p->leaf[said->from];
    } else {
      o.t[k] = make(said, index_limit(c, k), p, &o.leaf[k]);
    }
    if (!o.t[k]) wrong("an operand cannot be made");
  }
  return o;
}

static situ_tensor *make_call(const call *c, const operands *with, situ_device device, situ_tensor **also) {
  situ_tensor *t[PARITY_OPERANDS];
  memcpy(t, with->t, sizeof t);
  op_numbers numbers = c->numbers;
  numbers.on = device;
  *also = NULL;
  return c->fuzzed ? c->fuzzed->call(t, also, &numbers) : c->fixed->call(t, also);
}

/* Views of more elements than there is memory take none. */
static bool is_view(const char *name) { return strcmp(name, "expand") == 0 || strcmp(name, "as_strided") == 0; }

/* What is looked at by calls whose results meta does not know: each tuple of elements. */
static int64_t count_tuples(const call *c, int64_t elements) {
  if (strcmp(c->name, "combinations") != 0) return 0;
  int64_t tuples = 1;
  for (int k = 0; k < c->numbers.i[0] && k < SITU_MAX_DIMS && tuples <= MOST_MEMORY; k++) tuples *= elements;
  return tuples;
}

int64_t estimated_work(const call *c) {
  const situ_device meta = situ_dev("meta");
  operands with = { 0 };
  int64_t elements = 0;
  for (int k = 0; k < c->count; k++) {
    const operand *o = &c->operand[k];
    const situ_shape s = o->from == MADE ? shape_in_memory(o) : o->shape;
    elements += numel_of(&s);
    situ_tensor *x = situ_empty(s, &(situ_options){ .dtype = o->dtype, .device = meta });
    with.t[k] = o->from == MADE ? view_of(x, o) : x;
  }
  situ_tensor *also, *y = make_call(c, &with, meta, &also);
  situ_error_clear();
  const int64_t result = y && !is_view(c->name) ? situ_numel(y) : 0;
  return result > MOST_MEMORY ? 0 : (elements + result) * sum_length(c) + count_tuples(c, elements);
}

/* ---- what came of it ---- */

static void keep(outcome *o, int k, situ_tensor *t) {
  if (!t) return;
  kept *to = &o->kept[k];
  to->dtype = situ_dtype_of(t);
  to->shape = situ_shape_of(t);
  to->count = situ_numel(t);
  const size_t bytes = (size_t)to->count * situ_dtype_size(to->dtype);
  if (to->count > MOST_KEPT || !(to->data = malloc(bytes + 1))) return;
  if (situ_copy_to_host(t, to->data, bytes) != SITU_OK) wrong("a tensor cannot be read");
}

void keep_operands(const call *c, const operands *with, outcome *o) {
  for (int k = 0; k < c->count; k++) {
    keep(o, OPERAND + k, with->t[k]);
    keep(o, GRADIENT + k, with->leaf[k] ? situ_grad(with->leaf[k]) : NULL);
  }
}

void forget(outcome *o) {
  for (int k = 0; k < TENSORS; k++) free(o->kept[k].data);
}

/* An empty tensor may have any size in a dimension, of which operands of the next call cannot be made. */
static bool is_small(const situ_tensor *y) {
  bool small = situ_numel(y) <= MOST_CHAINED;
  for (int d = 0; d < situ_dim(y); d++) small &= situ_size(y, d) <= MOST_CHAINED;
  return small;
}

static void store(const call *c, place *p, const operands *with, int number, int which, situ_tensor *y) {
  if (!y || !is_small(y) || strcmp(c->name, "to") == 0) return; /* `to` leaves the place */
  p->result[2 * number + which] = y;
  p->leaf[2 * number + which] = with->leaf[0];
}

/* The gradient is made while no allocation fails. */
static situ_status backward(const place *p, situ_tensor *y, unsigned failing) {
  const uint64_t before = situ_allocation_count();
  if (failing) situ_fail_allocation(0, false);
  situ_tensor *ones = situ_ones_like(y, NULL);
  if (!ones) return situ_error();
  if (failing > before) situ_fail_allocation(failing - before, false);
  const situ_status status = situ_backward(y, &(situ_backward_options){ .gradient = ones, .retain_graph = p->retain });
  if (status != situ_error()) wrong("backward's status is not the error");
  return status;
}

static bool differentiated(situ_tensor *y) { return y && situ_numel(y) <= MOST_KEPT && situ_requires_grad(y); }

outcome run_call(const call *c, place *p, const operands *with, int number, unsigned failing) {
  outcome o = { .status = SITU_OK };
  situ_tensor *also;
  situ_manual_seed(3);
  if (failing) situ_fail_allocation(failing, false);
  situ_tensor *y = make_call(c, with, p->device, &also);
  o.status = situ_error();
  if (!y != (o.status != SITU_OK)) wrong(y ? "a result, and an error" : "no result, and no error");
  /* A device with a queue finds a wrong index or a singular matrix later, also in the work of a call that was refused
     after it; its result is not used then. */
  o.late = situ_synchronize(p->device) != SITU_OK;
  if (y && o.late) {
    o.status = situ_error();
    y = NULL;
  }
  if (differentiated(y)) o.status = backward(p, y, failing);
  if (failing) situ_fail_allocation(0, false);
  situ_error_clear();
  o.result = y;
  keep(&o, 0, y);
  keep(&o, 1, y ? also : NULL);
  keep_operands(c, with, &o);
  store(c, p, with, number, 0, y);
  store(c, p, with, number, 1, y ? also : NULL);
  return o;
}

void run_backward_again(const call *c, const place *p, const operands *with, outcome *o) {
  o->status = backward(p, o->result, 0);
  situ_error_clear();
  for (int k = OPERAND; k < TENSORS; k++) {
    free(o->kept[k].data);
    o->kept[k] = (kept){ 0 };
  }
  keep_operands(c, with, o);
}
