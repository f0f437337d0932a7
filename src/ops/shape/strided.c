/* as_strided: given sizes and strides within the storage; and the effect of an in-place write through a view on its
   base.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "autograd/view.h"
#include "base/fail.h"
#include "base/size.h"
#include "dispatch/dispatch.h"
#include "ops/ops.h"
#include "situ/sys/tensor.h"

/* The layout of a tensor's elements in a storage. */
typedef struct place {
  situ_shape shape, strides;
  int64_t start;
} place;

typedef struct strided_params {
  place own, to; /* of the operand, and of the view */
  int64_t held;  /* elements in the storage */
} strided_params;

static place place_of(const situ_view_desc *v) {
  place p = { .shape = situ__shape(v), .strides.ndim = v->ndim, .start = v->offset };
  memcpy(p.strides.dim, v->stride, sizeof(int64_t) * (size_t)v->ndim);
  return p;
}

static bool as_strided_infer(situ_call *c) {
  const place *p = &((const strided_params *)c->params)->to;
  situ_view_desc *v = &c->view;
  int64_t numel, low = p->start, high = p->start, span;
  *v = *situ__desc(c->in[0]);
  if (p->shape.ndim != p->strides.ndim)
    return situ_refuse(c, SITU_E_ARG, "%d sizes but %d strides", p->shape.ndim, p->strides.ndim);
  if (!situ_shape_numel(c->op->name, &p->shape, &numel)) return false;
  if (p->start < 0) return situ_refuse(c, SITU_E_INDEX, "storage offset %lld is negative", (long long)p->start);
  for (int d = 0; d < p->shape.ndim; d++) {
    if (p->strides.dim[d] < 0)
      return situ_refuse(c, SITU_E_ARG, "stride %lld at dimension %d is negative", (long long)p->strides.dim[d], d);
    if (numel == 0) continue;
    if (!situ__mul_i64(p->shape.dim[d] - 1, p->strides.dim[d], &span) || !situ__add_i64(high, span, &high))
      return situ_refuse(c, SITU_E_OVERFLOW, "the strides reach beyond 2^63 elements");
  }
  int64_t held = (int64_t)(v->storage->bytes / situ_dtype_size((situ_dtype)v->dtype));
  if (c->device.kind != SITU_META && (numel ? high >= held : low > held))
    return situ_refuse(c, SITU_E_INDEX, "elements %lld..%lld are asked of a storage that holds %lld", (long long)low,
                       (long long)high, (long long)held);
  v->ndim = (uint8_t)p->shape.ndim;
  v->offset = p->start;
  memcpy(v->size, p->shape.dim, sizeof v->size);
  memcpy(v->stride, p->strides.dim, sizeof v->stride);
  situ_desc_refresh(v);
  return true;
}

/* ---- gradients, in the operand's storage layout ---- */

static void stretch(const place *p, int64_t *low, int64_t *end) {
  int64_t last = p->start;
  for (int d = 0; d < p->shape.ndim; d++) {
    if (!p->shape.dim[d]) return;
    last += (p->shape.dim[d] - 1) * p->strides.dim[d];
  }
  *low = situ__min_i64(*low, p->start);
  *end = situ__max_i64(*end, last + 1);
}

static bool has_rows(const place *p) {
  int64_t step = 1;
  for (int d = p->shape.ndim - 1; d >= 0; d--) {
    if (p->shape.dim[d] > 1 && p->strides.dim[d] != step) return false;
    step *= p->shape.dim[d];
  }
  return true;
}

/* The part of an image that `p` shows; the image's element 0 is element `low` of the storage. A part without elements
   may begin beyond an empty storage. */
static situ_tensor *seen_in(situ_tensor *image, const place *p, int64_t low) {
  bool empty = false;
  for (int d = 0; d < p->shape.ndim; d++) empty |= !p->shape.dim[d];
  return situ_as_strided(image, p->shape, p->strides, (empty ? 0 : p->start - low) + situ_storage_offset(image));
}

static situ_options like(const situ_grad_call *g) {
  return (situ_options){ .dtype = situ_dtype_of(g->grad[0]), .device = g->device };
}

/* image[part] += grad, where elements of the part may share memory. */
static bool add_shared(situ_tensor *image, const place *part, int64_t low, situ_tensor *grad) {
  const int64_t numel = situ_numel(image);
  situ_tensor *at =
      situ_arange(0, (double)numel, 1, &(situ_options){ .dtype = SITU_I64, .device = situ_device_of(image) });
  at = situ_reshape(seen_in(at, part, low), SITU_SHAPE(-1));
  return situ_index_add_(situ_view(image, SITU_SHAPE(numel)), 0, at, situ_reshape(grad, SITU_SHAPE(-1)), 1) != NULL;
}

/* Accumulates into the gradient so far if that has the operand's layout; else into zeros. Elements outside the operand
   are dropped. */
static bool as_strided_backward(situ_grad_call *g) {
  const strided_params *p = g->params;
  const situ_options o = like(g);
  int64_t low = p->own.start, end = low, own_low = low, own_end = low;
  stretch(&p->own, &low, &end);
  stretch(&p->own, &own_low, &own_end);
  stretch(&p->to, &low, &end);
  situ_tensor *sum = has_rows(&p->own) && low == own_low && end == own_end ? situ_grad_collected(g, 0) : NULL;
  situ_tensor *image = sum ? sum : situ_zeros(SITU_SHAPE(end - low), &o),
              *part = image ? seen_in(image, &p->to, low) : NULL;
  if (!part) return false;
  const bool added = situ__desc_overlaps(situ_desc(part)) ? add_shared(image, &p->to, low, g->grad[0])
                     : sum                                ? situ_add_(part, g->grad[0]) != NULL
                                                          : situ_copy_(part, g->grad[0]) != NULL;
  return added && (sum || (g->dx[0] = seen_in(image, &p->own, low)) != NULL);
}

static bool as_strided_traced(const situ_call *c, situ_export_trace *t) {
  const place *p = &((const strided_params *)c->params)->to;
  return situ_export_call(t, "as_strided.default", "tIIi", c->in[0], &p->shape, &p->strides, p->start);
}

SITU_OP(as_strided_op) = { .name = "as_strided",
                           .traced = as_strided_traced,
                           .operand = { { "input", 0 } },
                           .flags = SITU_OP_VIEW,
                           .params_size = sizeof(strided_params),
                           .infer = as_strided_infer,
                           .backward = as_strided_backward,
                           .backward_recorded = as_strided_backward };

/* True if all elements of v are among base's. Only as_strided makes views for which they are not. */
static bool is_inside(const situ_view_desc *v, const situ_view_desc *base) {
  int64_t first, last;
  return !situ__desc_range(v, &first, &last) ||
         (base->contiguous && first >= base->offset && last < base->offset + base->numel);
}

situ_tensor *situ_as_strided(situ_tensor *input, situ_shape size, situ_shape stride, int64_t storage_offset) {
  if (!situ__need("as_strided", "input", input)) return NULL;
  const strided_params p = { .own = place_of(&input->view),
                             .to = { .shape = size, .strides = stride, .start = storage_offset },
                             .held = (int64_t)(input->view.storage->bytes /
                                               situ_dtype_size((situ_dtype)input->view.dtype)) };
  if (input->requires_grad && situ__recording() && situ__desc_overlaps(&input->view))
    return situ__fail(SITU_E_ALIAS, "as_strided",
                      "elements of the operand share memory: its gradient would be counted twice"),
           NULL;
  situ_tensor *y = situ_op_run1(&as_strided_op, input, &p);
  if (y && y->base && !is_inside(&y->view, &y->base->view)) situ__view_fix(y, SITU__VIEW_OUTSIDE);
  return y;
}

situ_tensor *situ_view_base(situ_tensor *t) {
  if (!situ__need("view_base", "t", t)) return NULL;
  return t->base ? t->base : t;
}

/* ---- gradient nodes of views and bases ---- */

/* A base that is written in place does not overlap itself. */
static bool part_backward(situ_grad_call *g) {
  const strided_params *p = g->params;
  const int64_t low = p->own.start;
  situ_tensor *image = g->grad[0];
  if (!has_rows(&p->own)) {
    const situ_options o = like(g);
    int64_t from = low, end = low;
    stretch(&p->own, &from, &end);
    situ_tensor *memory = situ_zeros(SITU_SHAPE(end - low), &o);
    image = memory ? situ_copy_(seen_in(memory, &p->own, low), g->grad[0]) : NULL;
  } else if (!(g->wants[0] && situ__exclusive(image))) {
    image = g->wants[0] ? situ_clone_memory_format(image, SITU_CONTIGUOUS_FORMAT) : situ_contiguous(image);
  }
  situ_tensor *part = image ? seen_in(image, &p->to, low) : NULL;
  if (!part || (g->wants[1] && !(g->dx[1] = situ_clone(part)))) return false;
  return !g->wants[0] || (situ_zero_(part) && (g->dx[0] = image));
}

/* The base's value, with the view's part replaced by the view's value: recorded on the tape, never run. */
static const situ_op part_op = { .name = "in-place write",
                                 .operand = { { "input", 0 }, { "src", 0 } },
                                 .params_size = sizeof(strided_params),
                                 .backward = part_backward,
                                 .backward_recorded = part_backward };

static strided_params params_of(const situ_tensor *view) {
  return (strided_params){ .own = place_of(&view->base->view), .to = place_of(&view->view) };
}

situ__node *situ__strided_node_of_view(situ_tensor *view) {
  const strided_params p = params_of(view);
  return situ__op_node(&as_strided_op, &view->base, 1, &p, &view);
}

situ__node *situ__strided_node_of_part(situ_tensor *view) {
  const strided_params p = params_of(view);
  return situ__op_node(&part_op, (situ_tensor *[]){ view->base, view }, 2, &p, &view->base);
}
