/* Reading and writing by a list of index tensors, as x[i, :, mask] in Python: index, index_put. The indexed dimensions
   are merged into one, the list into one flat index; index_select, index_add and index_copy do the rest.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "ops/ops.h"
#include "ops/samples.h"

typedef struct plan {
  const char *op;
  bool puts;
  situ_tensor *values;            /* that are put */
  situ_tensor *at[SITU_MAX_DIMS]; /* i64, for each dimension of input; NULL: all of it */
  int place[SITU_MAX_DIMS];       /* of that tensor in the caller's list */
  bool sure[SITU_MAX_DIMS];       /* made of a mask: in range */
  bool counted[SITU_MAX_DIMS];    /* of a mask, whose last dimension's tensor counts this one too */
  situ_shape order;               /* of input's dimensions, so that the indexed ones are adjacent */
  int first, dims;                /* those, in that order */
  situ_shape both;                /* of the index tensors, broadcast */
} plan;

/* ---- the list ---- */

static bool too_many(const plan *p, const situ_tensor *x, int wanted) {
  return situ__fail(SITU_E_ARG, p->op, "indices are for %d dimensions, input has %d", wanted, x->view.ndim), false;
}

/* A mask stands for one index tensor for each of its dimensions; as these are merged, one tensor will do. */
static bool add_mask(plan *p, const situ_tensor *x, situ_tensor *mask, int i, int d) {
  const int dims = mask->view.ndim;
  if (!dims)
    return situ__fail(SITU_E_SHAPE, p->op, "indices[%d] is a 0-dim mask: situ_unsqueeze both it and input", i), false;
  if (d + dims > x->view.ndim) return too_many(p, x, d + dims);
  for (int k = 0; k < dims; k++)
    if (mask->view.size[k] != x->view.size[d + k])
      return situ__fail(SITU_E_SHAPE, p->op,
                        "the mask indices[%d] has size %lld where dimension %d of input has size %lld", i,
                        (long long)mask->view.size[k], d + k, (long long)x->view.size[d + k]),
             false;
  situ_tensor *where = situ_select(situ_nonzero(situ_reshape(mask, SITU_SHAPE(mask->view.numel))), 1, 0);
  for (int k = 0; k < dims; k++) {
    p->at[d + k] = where;
    p->place[d + k] = i;
    p->sure[d + k] = true;
    p->counted[d + k] = k + 1 < dims;
  }
  return where != NULL;
}

static bool add_index(plan *p, const situ_tensor *x, situ_tensor *index, int i, int d) {
  if (d >= x->view.ndim) return too_many(p, x, d + 1);
  p->place[d] = i;
  return (p->at[d] = situ_to_dtype(index, SITU_I64)) != NULL;
}

/* Without the indices. */
static situ_op put_schema(const char *op) {
  return (situ_op){ .name = op,
                    .operand = { { "input", SITU_SAME }, { "values", SITU_SAME } },
                    .autocast = { SITU_CAST_NOT, SITU_CAST_WIDEST } };
}

/* Input and the index tensors must be alive and on one device. A call has at most SITU_OPERANDS. */
static bool check_operands(const plan *p, situ_tensor *x, situ_tensor *const *indices, int count) {
  static const char *const names[SITU_MAX_DIMS] = { "indices[0]", "indices[1]", "indices[2]", "indices[3]",
                                                    "indices[4]", "indices[5]", "indices[6]", "indices[7]" };
  for (int i = 0; i < count;) {
    situ_op schema = put_schema(p->op);
    situ_tensor *in[SITU_OPERANDS] = { x, p->values };
    int ins = p->puts ? 2 : 1;
    for (; i < count && ins < SITU_OPERANDS; i++) {
      schema.operand[ins] = (situ_operand){ names[i], SITU_OPTIONAL | SITU_INDEX | SITU_BOOLEAN };
      in[ins++] = indices[i];
    }
    if (!situ__together(&schema, in, ins)) return false;
  }
  return true;
}

static bool check_list(const plan *p, situ_tensor *x, situ_tensor *const *indices, int count) {
  if (!situ__need(p->op, "input", x)) return false;
  if (count < 1 || count > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, p->op, "%d index tensors: a list has 1 to %d", count, SITU_MAX_DIMS), false;
  if (!situ__given(p->op, "indices", indices)) return false;
  for (int i = 0; i < count; i++)
    if (indices[i]) return check_operands(p, x, indices, count);
  return situ__fail(SITU_E_ARG, p->op, "every one of the %d indices is NULL, which is all of a dimension: give one",
                    count),
         false;
}

/* Where the indexed dimensions are apart, they come first, as in torch. */
static void arrange(plan *p, int ndim) {
  int last = -1;
  p->first = -1;
  for (int d = 0; d < ndim; d++)
    if (p->at[d]) {
      if (p->first < 0) p->first = d;
      last = d;
      p->dims++;
    }
  const bool apart = last - p->first + 1 != p->dims;
  if (apart) p->first = 0;
  for (int d = 0; apart && d < ndim; d++)
    if (p->at[d]) p->order.dim[p->order.ndim++] = d;
  for (int d = 0; d < ndim; d++)
    if (!apart || !p->at[d]) p->order.dim[p->order.ndim++] = d;
}

static bool make_plan(plan *p, situ_tensor *x, situ_tensor *const *indices, int count) {
  if (!check_list(p, x, indices, count)) return false;
  int d = 0;
  for (int i = 0; i < count; i++) {
    situ_tensor *t = indices[i];
    if (!t && d >= x->view.ndim) return too_many(p, x, d + 1);
    const bool mask = t && t->view.dtype == SITU_BOOL;
    if (t && !(mask ? add_mask(p, x, t, i, d) : add_index(p, x, t, i, d))) return false;
    d += mask ? t->view.ndim : 1;
  }
  arrange(p, x->view.ndim);
  for (d = 0; d < x->view.ndim; d++) {
    situ_shape own = p->at[d] ? situ__shape(&p->at[d]->view) : (situ_shape){ .ndim = 0 };
    if (!situ_shape_broadcast(p->op, &p->both, &own)) return false;
  }
  return true;
}

/* ---- the flat index ---- */

/* Whether the host checks the values at once. A device checks the flat index in its kernel, which does not run for an
   empty input. */
static bool here(const situ_tensor *x) {
  return x->view.storage->device.kind == SITU_CPU && x->view.numel && !situ__is_dry();
}

static bool outside(const plan *p, int d, int64_t value, int64_t size) {
  return situ__fail(SITU_E_INDEX, p->op,
                    "indices[%d] has index %lld, which is outside %lld..%lld of dimension %d of input", p->place[d],
                    (long long)value, -(long long)size, (long long)size - 1, d),
         false;
}

static bool check_values(const plan *p, int d, int64_t size, bool *negative) {
  int64_t least, most;
  if (!p->at[d]->view.numel) return true;
  situ_tensor *all = situ__all_samples(p->op, p->at[d]);
  if (!all || situ_item_i64(situ_amin(all, NULL), &least) != SITU_OK ||
      situ_item_i64(situ_amax(all, NULL), &most) != SITU_OK)
    return false;
  *negative = least < 0;
  if (least < -size) return outside(p, d, least, size);
  return most < size || outside(p, d, most, size);
}

/* The index along dimension d from 0 on. With others beside it (*bad given) an index that is out of range is noted,
   since it could give a flat index that is not. */
static situ_tensor *counted(const plan *p, const situ_tensor *x, int d, situ_tensor **bad) {
  const int64_t size = x->view.size[d];
  situ_tensor *at = p->at[d];
  bool negative = true;
  if (p->sure[d]) return at;
  if (here(x) && !check_values(p, d, size, &negative)) return NULL;
  if (negative) at = situ_add(at, situ_mul_scalar(situ_to_dtype(situ_lt_scalar(at, 0), SITU_I64), (double)size));
  if (here(x) || !bad) return at;
  situ_tensor *wrong = situ_logical_or(situ_lt_scalar(at, 0), situ_ge_scalar(at, (double)size));
  *bad = *bad ? situ_logical_or(*bad, wrong) : wrong;
  return *bad ? at : NULL;
}

static situ_tensor *flat_of(const plan *p, const situ_tensor *x) {
  situ_tensor *flat = NULL, *bad = NULL;
  int64_t step = 1;
  for (int k = p->first + p->dims - 1; k >= p->first; k--) {
    const int d = (int)p->order.dim[k];
    if (p->counted[d]) {
      step *= x->view.size[d];
      continue;
    }
    situ_tensor *at = counted(p, x, d, p->dims > 1 ? &bad : NULL);
    if (!at) return NULL;
    if (step != 1) at = situ_mul_scalar(at, (double)step);
    flat = flat ? situ_add(at, flat) : at;
    step *= x->view.size[d];
  }
  if (bad) flat = situ_masked_fill(flat, bad, -1);
  int64_t numel;
  if (!flat || !situ_shape_numel(p->op, &p->both, &numel)) return NULL;
  if (numel && !step)
    return situ__fail(SITU_E_INDEX, p->op, "indices have %lld elements, but an indexed dimension of input has size 0",
                      (long long)numel),
           NULL;
  return situ_reshape(flat, SITU_SHAPE(numel));
}

static situ_tensor *flat_index(const plan *p, const situ_tensor *x) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return situ_scope_return(&s, flat_of(p, x));
}

/* ---- shapes: input in order, with the indexed dimensions replaced by `middle` ---- */

static bool with(const plan *p, const situ_tensor *x, const situ_shape *middle, situ_shape *out) {
  const int ndim = x->view.ndim, end = p->first + p->dims;
  if (ndim - p->dims + middle->ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_ARG, p->op, "the result would have %d dimensions: a tensor has at most %d",
                      ndim - p->dims + middle->ndim, SITU_MAX_DIMS),
           false;
  *out = (situ_shape){ .ndim = 0 };
  for (int k = 0; k < p->first; k++) out->dim[out->ndim++] = x->view.size[p->order.dim[k]];
  for (int k = 0; k < middle->ndim; k++) out->dim[out->ndim++] = middle->dim[k];
  for (int k = end; k < ndim; k++) out->dim[out->ndim++] = x->view.size[p->order.dim[k]];
  return true;
}

static int64_t merged(const plan *p, const situ_tensor *x) {
  int64_t size = 1;
  for (int k = p->first; k < p->first + p->dims; k++) size *= x->view.size[p->order.dim[k]];
  return size;
}

static bool moves(const plan *p) {
  for (int k = 0; k < p->order.ndim; k++)
    if (p->order.dim[k] != k) return true;
  return false;
}

/* Input with the indexed dimensions merged at p->first: a view where strides allow. */
static situ_tensor *lines_of(const plan *p, situ_tensor *x) {
  situ_shape shape, one = SITU_SHAPE(merged(p, x));
  if (!with(p, x, &one, &shape)) return NULL;
  if (moves(p)) x = situ_permute(x, p->order);
  return p->dims == 1 ? x : situ_reshape(x, shape);
}

/* Whether lines_of gives a view. */
static bool mergeable(const plan *p, const situ_tensor *x) {
  for (int k = p->first; k + 1 < p->first + p->dims; k++) {
    const int64_t d = p->order.dim[k], next = p->order.dim[k + 1];
    if (x->view.stride[d] != x->view.stride[next] * x->view.size[next]) return false;
  }
  return true;
}

/* ---- index ---- */

situ_tensor *situ_index(situ_tensor *input, situ_tensor *const *indices, int count) {
  SITU__MADE_OF_OPS("index");
  plan p = { .op = "index" };
  situ_shape shape;
  if (!make_plan(&p, input, indices, count) || !with(&p, input, &p.both, &shape)) return NULL;
  situ_tensor *flat = flat_index(&p, input);
  if (!flat) return NULL;
  situ_tensor *y = situ_index_select(lines_of(&p, input), p.first, flat);
  return p.both.ndim == 1 ? y : situ_reshape(y, shape);
}

/* ---- index_put ---- */

/* values broadcast to index's result, and with the shape of the lines that are written. */
static situ_tensor *values_for(const plan *p, const situ_tensor *x, situ_tensor *values) {
  situ_shape shape, lines, one = SITU_SHAPE(1), own = situ__shape(&values->view);
  if (!situ_shape_numel(p->op, &p->both, &one.dim[0]) || !with(p, x, &p->both, &shape) || !with(p, x, &one, &lines))
    return NULL;
  situ_shape both = shape;
  if (!situ_shape_broadcast(p->op, &both, &own)) return NULL;
  if (!situ_shape_equal(&both, &shape)) {
    char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, p->op, "values %s do not fit the indexed part of input, %s",
                      situ_shape_text(&own, a), situ_shape_text(&shape, b)),
           NULL;
  }
  values = situ_expand(values, shape);
  return p->both.ndim == 1 ? values : situ_reshape(values, lines);
}

static situ_tensor *back(const plan *p, const situ_tensor *x, situ_tensor *lines) {
  situ_shape ordered = { .ndim = x->view.ndim }, inverse = ordered;
  for (int k = 0; k < ordered.ndim; k++) {
    ordered.dim[k] = x->view.size[p->order.dim[k]];
    inverse.dim[p->order.dim[k]] = k;
  }
  if (p->dims > 1) lines = situ_reshape(lines, ordered);
  return moves(p) ? situ_contiguous(situ_permute(lines, inverse)) : lines;
}

typedef struct put {
  plan p;
  situ_tensor *flat, *values;
} put;

static bool prepare(put *to, situ_tensor *x, situ_tensor *const *indices, int count, situ_tensor *values) {
  to->p.puts = true;
  to->p.values = values;
  return make_plan(&to->p, x, indices, count) && (to->values = values_for(&to->p, x, values)) != NULL &&
         (to->flat = flat_index(&to->p, x)) != NULL;
}

static situ_tensor *put_copy(const put *to, situ_tensor *x, bool accumulate) {
  situ_tensor *lines = lines_of(&to->p, x);
  lines = accumulate ? situ_index_add(lines, to->p.first, to->flat, to->values, 1)
                     : situ_index_copy(lines, to->p.first, to->flat, to->values);
  return back(&to->p, x, lines);
}

situ_tensor *situ_index_put(situ_tensor *input, situ_tensor *const *indices, int count, situ_tensor *values,
                            bool accumulate) {
  SITU__MADE_OF_OPS("index_put");
  put to = { .p = { .op = "index_put" } };
  situ_tensor *in[2] = { input, values };
  const situ_op schema = put_schema("index_put");
  return situ__autocast(&schema, in, 2) && prepare(&to, in[0], indices, count, in[1]) ? put_copy(&to, in[0], accumulate)
                                                                                      : NULL;
}

situ_tensor *situ_index_put_(situ_tensor *input, situ_tensor *const *indices, int count, situ_tensor *values,
                             bool accumulate) {
  SITU__MADE_OF_OPS("index_put_");
  put to = { .p = { .op = "index_put_" } };
  if (!prepare(&to, input, indices, count, values)) return NULL;
  /* An index that input is itself, or a part of it, is read before it is written over, whatever its values are. */
  if (to.flat->view.storage == input->view.storage && !(to.flat = situ_clone(to.flat))) return NULL;
  if (!mergeable(&to.p, input)) return situ_copy_(input, put_copy(&to, input, accumulate));
  situ_tensor *lines = lines_of(&to.p, input);
  lines = accumulate ? situ_index_add_(lines, to.p.first, to.flat, to.values, 1)
                     : situ_index_copy_(lines, to.p.first, to.flat, to.values);
  return lines ? input : NULL;
}
