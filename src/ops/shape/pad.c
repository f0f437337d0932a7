/* Padding modes: constant, reflect, replicate, circular.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* ---- constant: the operand is copied into a filled result; negative padding crops ---- */

typedef struct pad_params {
  situ_shape before, after; /* of every dimension */
  double value;
} pad_params;

/* Negative padding may not crop more than the dimension has. */
static bool can_crop(int64_t size, int64_t before, int64_t after) {
  return situ__add_i64(size, situ__min_i64(before, 0), &size) && size >= 0 &&
         situ__add_i64(size, situ__min_i64(after, 0), &size) && size >= 0;
}

static bool pad_infer(situ_call *c) {
  const pad_params *p = c->params;
  situ_infer_like(c);
  if (!situ__fits(c->op->name, p->value, c->dtype[0])) return false;
  for (int d = 0; d < c->shape[0].ndim; d++) {
    int64_t *size = &c->shape[0].dim[d];
    if (!situ__add_i64(*size, p->before.dim[d], size) || !situ__add_i64(*size, p->after.dim[d], size))
      return situ_refuse(c, SITU_E_OVERFLOW, "dimension %d would have more than 2^63 elements", d);
    if (*size < 0) return situ_refuse(c, SITU_E_SHAPE, "dimension %d would have size %lld", d, (long long)*size);
    if (!can_crop(situ__desc(c->in[0])->size[d], p->before.dim[d], p->after.dim[d]))
      return situ_refuse(c, SITU_E_SHAPE, "borders %lld and %lld crop more than the %lld elements of dimension %d",
                         (long long)p->before.dim[d], (long long)p->after.dim[d],
                         (long long)situ__desc(c->in[0])->size[d], d);
  }
  return true;
}

/* The part that both share: the operand without its cropped part, and its position in the result. */
static void common(const situ_view_desc *x, const situ_view_desc *y, const pad_params *p, situ_view_desc *from,
                   situ_view_desc *to) {
  *from = *x;
  *to = *y;
  for (int d = 0; d < x->ndim; d++) {
    int64_t crop = situ__max_i64(-p->before.dim[d], 0), shift = situ__max_i64(p->before.dim[d], 0);
    int64_t size = situ__max_i64(situ__min_i64(x->size[d] - crop, y->size[d] - shift), 0);
    from->offset += size ? crop * x->stride[d] : 0;
    to->offset += size ? shift * y->stride[d] : 0;
    from->size[d] = to->size[d] = size;
  }
  situ_desc_refresh(from);
  situ_desc_refresh(to);
}

static bool pad_forward(situ_call *c) {
  const pad_params *p = c->params;
  situ_view_desc from, to;
  common(situ__desc(c->in[0]), situ__desc(c->out[0]), p, &from, &to);
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_FILL, .outs = 1, .out = { situ__desc(c->out[0]) }, .scalar = { p->value },
                                   .integer = { situ__to_integer(p->value) } }) &&
         (from.numel == 0 ||
          situ_launch(c->op->name, c->device,
                      &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &from }, .out = { &to } }));
}

static situ_tensor *pad_constant(situ_tensor *x, const pad_params *p);

/* Backward crops where forward padded, and pads with 0 where it cropped. */
static bool pad_backward(situ_grad_call *g) {
  pad_params back = *(const pad_params *)g->params;
  for (int d = 0; d < g->shape[0].ndim; d++) {
    back.before.dim[d] = -back.before.dim[d];
    back.after.dim[d] = -back.after.dim[d];
  }
  back.value = 0;
  return (g->dx[0] = pad_constant(g->grad[0], &back)) != NULL;
}

/* ATen lists the last dimension first, and leaves out those before the first that is padded, but for the last. */
static bool traced(const situ_call *c, situ_export_trace *t) {
  const pad_params *p = c->params;
  situ_shape list = { 0 };
  int ndim = p->before.ndim, first = 0;
  while (first < ndim - 1 && !p->before.dim[first] && !p->after.dim[first]) first++;
  if (2 * (ndim - first) > SITU_MAX_DIMS) return situ_export_call(t, NULL, "");
  for (int d = ndim - 1; d >= first; d--) {
    list.dim[list.ndim++] = p->before.dim[d];
    list.dim[list.ndim++] = p->after.dim[d];
  }
  return situ_export_call(t, "constant_pad_nd.default", "tIn", c->in[0], &list, p->value);
}

SITU_OP(pad_op) = { .name = "pad",
                    .traced = traced,
                    .operand = { { "input", 0 } },
                    .flags = SITU_OP_FORMAT,
                    .params_size = sizeof(pad_params),
                    .infer = pad_infer,
                    .forward = pad_forward,
                    .backward = pad_backward,
                    .backward_recorded = pad_backward };

static situ_tensor *pad_constant(situ_tensor *x, const pad_params *p) { return situ_op_run1(&pad_op, x, p); }

/* ---- the other modes: borders are slices of x, concatenated one dimension at a time ---- */

/* `count` elements that extend x beyond its start (or end) along d. */
static situ_tensor *border(situ_tensor *x, int d, int64_t count, bool start, situ_pad_mode mode) {
  int64_t size = situ_size(x, d);
  if (mode == SITU_PAD_REFLECT) return situ_flip(situ_narrow(x, d, start ? 1 : size - 1 - count, count), SITU_DIMS(d));
  if (mode == SITU_PAD_CIRCULAR) return situ_narrow(x, d, start ? size - count : 0, count);
  situ_shape shape = situ_shape_of(x);
  shape.dim[d] = count;
  return situ_expand(situ_narrow(x, d, start ? 0 : size - 1, 1), shape);
}

/* The largest padding of this mode at an edge of a dimension of that size. */
static int64_t farthest(situ_pad_mode mode, int64_t size) {
  return mode == SITU_PAD_REFLECT    ? situ__max_i64(size - 1, 0)
         : mode == SITU_PAD_CIRCULAR ? size
         : size                      ? INT64_MAX
                                     : 0;
}

/* As in torch, a circle is closed after cropping; the other modes' borders are computed from the uncropped x. */
static situ_tensor *pad_dim(situ_tensor *x, int d, int64_t before, int64_t after, situ_pad_mode mode) {
  const int64_t whole = situ_size(x, d);
  if (mode == SITU_PAD_CIRCULAR && (before < 0 || after < 0) && can_crop(whole, before, after)) {
    const int64_t first = situ__max_i64(-before, 0), kept = whole - first + situ__min_i64(after, 0);
    x = situ_narrow(x, d, first, kept);
    before = situ__max_i64(before, 0), after = situ__max_i64(after, 0);
  }
  const int64_t size = situ_size(x, d), most = farthest(mode, size);
  if (before > most || after > most)
    return situ__fail(SITU_E_ARG, "pad",
                      "borders %lld and %lld at dimension %d, of size %lld: this mode takes up to %lld",
                      (long long)before, (long long)after, d, (long long)size, (long long)most),
           NULL;
  int64_t left;
  if (!situ__add_i64(size, before, &left) || !situ__add_i64(left, after, &left))
    return situ__fail(SITU_E_OVERFLOW, "pad", "dimension %d would have more than 2^63 elements", d), NULL;
  if (!can_crop(size, before, after) || left < (mode == SITU_PAD_CIRCULAR ? 0 : 1))
    return situ__fail(SITU_E_SHAPE, "pad",
                      "borders %lld and %lld at dimension %d, of size %lld: the result would have no elements",
                      (long long)before, (long long)after, d, (long long)size),
           NULL;
  situ_tensor *part[3];
  int parts = 0;
  if (before > 0) part[parts++] = border(x, d, before, true, mode);
  part[parts++] = x;
  if (after > 0) part[parts++] = border(x, d, after, false, mode);
  situ_tensor *y = parts > 1 ? situ_cat(part, parts, d) : x;
  return y && (before < 0 || after < 0) ? situ_narrow(y, d, situ__max_i64(-before, 0), left) : y;
}

static situ_tensor *pad_borders(situ_tensor *x, const pad_params *p, situ_pad_mode mode) {
  situ_tensor *y = x;
  for (int d = 0; y && d < x->view.ndim; d++)
    if (p->before.dim[d] || p->after.dim[d]) y = pad_dim(y, d, p->before.dim[d], p->after.dim[d], mode);
  return y && (y == x || !y->view.contiguous) ? situ_clone(y) : y;
}

situ_tensor *situ_pad(situ_tensor *input, situ_shape pad, situ_pad_mode mode, double value) {
  SITU__MADE_OF_OPS("pad");
  if (!situ__need("pad", "input", input)) return NULL;
  int ndim = input->view.ndim;
  if (pad.ndim <= 0 || pad.ndim % 2 || pad.ndim / 2 > ndim)
    return situ__fail(SITU_E_ARG, "pad", "%d borders for a tensor of %d dimensions: two for each padded dimension",
                      pad.ndim, ndim),
           NULL;
  if ((unsigned)mode > SITU_PAD_CIRCULAR)
    return situ__fail(SITU_E_ARG, "pad", "%d is not a padding mode", (int)mode), NULL;
  pad_params p = { .before = { .ndim = ndim }, .after = { .ndim = ndim }, .value = value };
  for (int k = 0; k < pad.ndim / 2; k++) {
    p.before.dim[ndim - 1 - k] = pad.dim[2 * k];
    p.after.dim[ndim - 1 - k] = pad.dim[2 * k + 1];
  }
  return mode == SITU_PAD_CONSTANT ? pad_constant(input, &p) : pad_borders(input, &p, mode);
}
