/* One direction of one recurrent layer: rnn_layer, lstm_layer, gru_layer. A step is one product with weight_hh and one
   element-wise kernel, which adds it to the gates that the input gave; backward likewise, and the gradients of the
   weights are one product over all steps.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "recurrent.h"

/* ---- steps ---- */

/* The steps of a call, in the order of computation. kept: what backward needs is kept of all steps, not of the last. */
typedef struct steps {
  const char *op;
  situ_device device;
  int64_t count;
  bool reverse, kept;
} steps;

static int64_t time_of(const steps *s, int64_t k) { return s->reverse ? s->count - 1 - k : k; }
static int64_t slot_of(const steps *s, int64_t k) { return s->kept ? time_of(s, k) : 0; }

/* [N, width] at index t of v, [.., N, width]. */
static situ_view_desc at(const situ_view_desc *v, int64_t t) {
  situ_view_desc d = *v;
  d.ndim = 2;
  d.offset += t * v->stride[0];
  for (int k = 0; k < 2; k++) {
    d.size[k] = v->size[k + 1];
    d.stride[k] = v->stride[k + 1];
  }
  situ_desc_refresh(&d);
  return d;
}

/* `count` steps of v, which is contiguous, from index t on, as one matrix. */
static situ_view_desc rows(const situ_view_desc *v, int64_t t, int64_t count) {
  situ_view_desc d = at(v, t);
  d.size[0] *= count;
  situ_desc_refresh(&d);
  return d;
}

static bool multiply(const steps *s, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *bias,
                     const situ_view_desc *y) {
  return situ__product(s->op, s->device, a, b, bias, y, 1, bias != NULL);
}

static bool run_cell(const steps *s, situ_cell_pass pass, int ins, const situ_view_desc *const *in, int outs,
                     const situ_view_desc *const *out) {
  situ_work work = { SITU_VERB_CELL, .op = pass, .compute = (situ_dtype)in[0]->dtype, .ins = ins, .outs = outs };
  for (int k = 0; k < ins; k++) work.in[k] = in[k];
  for (int k = 0; k < outs; k++) work.out[k] = out[k];
  return situ_launch(s->op, s->device, &work);
}
#define VIEWS(...) \
  (int)(sizeof((const situ_view_desc *[]){ __VA_ARGS__ }) / sizeof(void *)), (const situ_view_desc *[]) { __VA_ARGS__ }

/* ---- a weight that each step multiplies with ---- */

enum {
  FEW_STEPS = 4, /* in which a copy of a weight does not pay */
  PANEL = 64,    /* columns */
  PANEL_ROWS = 12,
  PANEL_COLUMNS = 256 /* from so many on the rows lie so far apart that they evict each other from a CPU's cache */
};

static bool wants_panels(const steps *s, const situ_view_desc *w, int64_t rows) {
  return (s->device.kind == SITU_CPU || s->device.kind == SITU_SIM) && (w->dtype == SITU_F32 || w->dtype == SITU_F64) &&
         rows >= PANEL_ROWS && w->size[1] >= PANEL_COLUMNS && w->size[1] % PANEL == 0;
}

/* A weight, [k, n]: as the device laid it out (packed), or its columns in panels, [n / PANEL, k, PANEL], or its rows
   contiguous, which a CPU's product reads fastest; a transposed view, as programs keep it, has such rows. */
typedef struct laid_out {
  situ_tensor *weight, *packed;
} laid_out;

/* For products of `rows` rows with it. Returns false after recording an error. */
static bool lay_out(const steps *s, situ_tensor *weight, int64_t rows, laid_out *w) {
  *w = (laid_out){ .weight = weight };
  if (!weight || s->count <= FEW_STEPS || s->device.kind == SITU_META) return weight != NULL;
  if (!situ__prepack_b(s->op, s->device, situ_desc(weight), rows, false, &w->packed)) return false;
  if (w->packed) return true;
  if (wants_panels(s, situ_desc(weight), rows))
    w->weight = situ_contiguous(situ_permute(situ_unflatten(weight, 1, SITU_SHAPE(-1, PANEL)), SITU_DIMS(1, 0, 2)));
  else if (situ_desc(weight)->stride[1] != 1) w->weight = situ_contiguous(weight);
  return w->weight != NULL;
}

/* v, [rows, n] or [n], as [n / PANEL, rows, PANEL]. */
static const situ_view_desc *in_panels(const situ_view_desc *v, int64_t panels, int64_t rows, situ_view_desc *d) {
  const int64_t row = v->ndim > 1 ? v->stride[0] : 0, column = v->stride[v->ndim - 1];
  *d = *v;
  d->ndim = 3;
  d->size[0] = panels, d->stride[0] = PANEL * column;
  d->size[1] = rows, d->stride[1] = row;
  d->size[2] = PANEL, d->stride[2] = column;
  situ_desc_refresh(d);
  return d;
}

static bool multiply_by(const steps *s, const situ_view_desc *a, const laid_out *w, const situ_view_desc *bias,
                        const situ_view_desc *y) {
  const situ_view_desc *b = situ_desc(w->weight);
  if (b->ndim == 2) return situ__product_by(s->op, s->device, a, b, w->packed, bias, y, 1, bias != NULL);
  situ_view_desc extra, result;
  const int64_t panels = b->size[0], rows = y->size[0];
  return multiply(s, a, b, bias ? in_panels(bias, panels, rows, &extra) : NULL, in_panels(y, panels, rows, &result));
}

/* ---- shapes ---- */

static bool has_shape(const situ_call *c, int k, situ_shape expected) {
  if (!c->in[k]) return true;
  const situ_shape got = situ__shape(situ__desc(c->in[k]));
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  return situ_shape_equal(&got, &expected) ||
         situ_refuse(c, SITU_E_SHAPE, "%s is %s, must be %s", c->op->operand[k].name, situ_shape_text(&got, a),
                     situ_shape_text(&expected, b));
}

static bool records(const situ_call *c) {
  bool wanted = false;
  for (int k = 0; k < c->ins; k++) wanted = wanted || situ__keeps(c->in[k]);
  return wanted;
}

/* Checks operands; `parts`: gates of a hidden unit. Sets the shape of y. */
static bool check(situ_call *c, int64_t parts, int64_t *hidden, int64_t *width) {
  const situ_view_desc *gates = situ__desc(c->in[GATES]), *hx = situ__desc(c->in[HX]);
  if (gates->ndim != 3 || gates->size[0] < 1 || gates->size[2] < 1 || gates->size[2] % parts != 0 || hx->ndim != 2) {
    const situ_shape a = situ__shape(gates), b = situ__shape(hx);
    char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
    return situ_refuse(c, SITU_E_SHAPE,
                       "gates are %s and hx %s, must be [L, N, %lld hidden] and [N, width], with at least one step",
                       situ_shape_text(&a, s), situ_shape_text(&b, t), (long long)parts);
  }
  *hidden = gates->size[2] / parts;
  *width = hx->size[1];
  c->shape[Y] = SITU_SHAPE(gates->size[0], gates->size[1], *width);
  c->dtype[Y] = (situ_dtype)gates->dtype;
  return has_shape(c, HX, SITU_SHAPE(gates->size[1], *width)) &&
         has_shape(c, WEIGHT_HH, SITU_SHAPE(gates->size[2], *width)) &&
         ((c->ins > WEIGHT_HR && c->in[WEIGHT_HR]) || *width == *hidden ||
          situ_refuse(c, SITU_E_SHAPE, "hx is %lld wide, must be %lld, the gates' width / %lld", (long long)*width,
                      (long long)*hidden, (long long)parts));
}

static bool rnn_infer(situ_call *c) {
  int64_t hidden, width;
  return check(c, 1, &hidden, &width);
}

static bool lstm_infer(situ_call *c) {
  int64_t hidden, width;
  if (!check(c, 4, &hidden, &width)) return false;
  const int64_t batch = c->shape[Y].dim[1], kept = records(c) ? c->shape[Y].dim[0] : 1;
  int64_t cells = kept;
  if (c->in[WEIGHT_HR] && (width < 1 || !situ__mul_i64(kept, 2, &cells)))
    return situ_refuse(c, SITU_E_SHAPE, "weight_hr projects to a width of %lld, must be at least 1", (long long)width);
  c->shape[C_N] = SITU_SHAPE(batch, hidden);
  c->shape[GATED] = SITU_SHAPE(kept, batch, 4 * hidden);
  c->shape[CELLS] = SITU_SHAPE(cells, batch, hidden);
  c->dtype[C_N] = c->dtype[GATED] = c->dtype[CELLS] = c->dtype[Y];
  return has_shape(c, CX, c->shape[C_N]) && has_shape(c, WEIGHT_HR, SITU_SHAPE(width, hidden));
}

static bool gru_infer(situ_call *c) {
  int64_t hidden, width, gated;
  if (!check(c, 3, &hidden, &width) || !has_shape(c, BIAS_HH, SITU_SHAPE(3 * hidden))) return false;
  if (!situ__mul_i64(hidden, 4, &gated)) return situ_refuse(c, SITU_E_SHAPE, "gates are too wide");
  c->shape[GRU_GATED] = SITU_SHAPE(records(c) ? c->shape[Y].dim[0] : 1, c->shape[Y].dim[1], gated);
  c->dtype[GRU_GATED] = c->dtype[Y];
  return true;
}

/* ---- forward ---- */

static steps steps_of(const situ_call *c, int gated) {
  const recurrent_params *p = c->params;
  const int64_t count = c->shape[Y].dim[0];
  return (steps){ c->op->name, c->device, count, p->reverse, c->shape[gated].dim[0] == count };
}

static bool lay_out_hh(const situ_call *c, const steps *s, laid_out *w) {
  return lay_out(s, situ_transpose(c->in[WEIGHT_HH], 0, 1), c->shape[Y].dim[1], w);
}

static bool rnn_forward(situ_call *c) {
  const steps s = steps_of(c, Y);
  const recurrent_params *p = c->params;
  laid_out weight;
  if (!lay_out_hh(c, &s, &weight)) return false;
  situ_view_desc h = *situ__desc(c->in[HX]);
  for (int64_t k = 0; k < s.count; k++) {
    const situ_view_desc gates = at(situ__desc(c->in[GATES]), time_of(&s, k)),
                         y = at(situ__desc(c->out[Y]), time_of(&s, k));
    if (!multiply_by(&s, &h, &weight, &gates, &y) ||
        !situ_launch(s.op, s.device,
                     &(situ_work){ SITU_VERB_UNARY, .op = p->relu ? SITU_UNARY_relu : SITU_UNARY_tanh,
                                   .compute = (situ_dtype)y.dtype, .ins = 1, .outs = 1, .in = { &y }, .out = { &y } }))
      return false;
    h = y;
  }
  return true;
}

/* For the product of one step with weight_hh. */
static situ_tensor *product_scratch(const situ_call *c) {
  const situ_view_desc *gates = situ__desc(c->in[GATES]);
  return situ_empty(SITU_SHAPE(gates->size[1], gates->size[2]),
                    &(situ_options){ .dtype = c->dtype[Y], .device = c->device });
}

static bool lstm_forward(situ_call *c) {
  const steps s = steps_of(c, GATED);
  laid_out weight;
  situ_tensor *cx = situ_contiguous(c->in[CX]), *gates = situ_contiguous(c->in[GATES]), *hidden = product_scratch(c),
              *projection = c->in[WEIGHT_HR] ? situ_transpose(c->in[WEIGHT_HR], 0, 1) : NULL;
  if (!lay_out_hh(c, &s, &weight) || !cx || !gates || !hidden || (c->in[WEIGHT_HR] && !projection)) return false;
  situ_view_desc h = *situ__desc(c->in[HX]), cell = *situ_desc(cx);
  for (int64_t k = 0; k < s.count; k++) {
    const situ_view_desc now = at(situ_desc(gates), time_of(&s, k)),
                         gated = at(situ__desc(c->out[GATED]), slot_of(&s, k)),
                         next = at(situ__desc(c->out[CELLS]), slot_of(&s, k)),
                         y = at(situ__desc(c->out[Y]), time_of(&s, k));
    const situ_view_desc shown =
        projection ? at(situ__desc(c->out[CELLS]), (s.kept ? s.count : 1) + slot_of(&s, k)) : y;
    if (!multiply_by(&s, &h, &weight, NULL, situ_desc(hidden)) ||
        !run_cell(&s, SITU_CELL_LSTM, VIEWS(&now, situ_desc(hidden), &cell), VIEWS(&gated, &next, &shown)) ||
        (projection && !multiply(&s, &shown, situ_desc(projection), NULL, &y)))
      return false;
    h = y;
    cell = next;
  }
  return situ_launch(
      s.op, s.device,
      &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &cell }, .out = { situ__desc(c->out[C_N]) } });
}

static bool gru_forward(situ_call *c) {
  const steps s = steps_of(c, GRU_GATED);
  const situ_view_desc *bias = situ__desc(c->in[BIAS_HH]);
  laid_out weight;
  situ_tensor *gates = situ_contiguous(c->in[GATES]), *hx = situ_contiguous(c->in[HX]), *hidden = product_scratch(c);
  if (!lay_out_hh(c, &s, &weight) || !gates || !hx || !hidden) return false;
  situ_view_desc h = *situ_desc(hx);
  for (int64_t k = 0; k < s.count; k++) {
    const situ_view_desc now = at(situ_desc(gates), time_of(&s, k)),
                         gated = at(situ__desc(c->out[GRU_GATED]), slot_of(&s, k)),
                         y = at(situ__desc(c->out[Y]), time_of(&s, k));
    if (!multiply_by(&s, &h, &weight, bias, situ_desc(hidden)) ||
        !run_cell(&s, SITU_CELL_GRU, VIEWS(&now, situ_desc(hidden), &h), VIEWS(&gated, &y)))
      return false;
    h = y;
  }
  return true;
}

/* ---- backward ---- */

/* Gradients of one call: those of the products of all steps, and of a step's h and c. */
typedef struct back {
  steps s;
  situ_tensor *up;     /* of y */
  situ_tensor *before; /* of gates, for each step */
  situ_tensor *hidden; /* GRU: of the product with h, for each step; else `before` */
  laid_out weight;     /* weight_hh */
  situ_tensor *dh, *dc;
  bool wants_first; /* dh of the state before the first step */
} back;

static bool begin_backward(situ_grad_call *g, back *b) {
  const recurrent_params *p = g->params;
  situ_tensor *y = g->out[Y];
  const situ_options like = { .dtype = situ_dtype_of(y), .device = g->device };
  *b = (back){ .s = { g->op->name, g->device, g->shape[GATES].dim[0], p->reverse, true },
               .up = g->grad[Y] ? g->grad[Y] : situ_zeros_like(y, NULL),
               .before = situ_empty(g->shape[GATES], &like),
               .dh = situ_zeros(g->shape[HX], &like),
               .wants_first = g->wants[HX] };
  b->hidden = b->before;
  return b->up && b->before && b->dh && lay_out(&b->s, g->in[WEIGHT_HH], g->shape[HX].dim[0], &b->weight);
}

/* Without elements there is nothing to run, but the weights have gradients, of 0; meta has only shapes. */
static bool runs(const situ_grad_call *g) { return situ_numel(g->out[Y]) > 0 && g->device.kind != SITU_META; }
static bool give_zeros(situ_grad_call *g) {
  for (int k = 0; k < g->ins; k++) {
    const situ_options like = { .dtype = g->dtype[k], .device = g->device };
    if (!GRAD(g, k, situ_zeros(g->shape[k], &like))) return false;
  }
  return true;
}

/* a' b over all steps: a is of the products, b of what they multiplied: `first` for the first step, y of the step
   before for each other one. */
static situ_tensor *weight_gradient(const back *b, situ_tensor *a, situ_tensor *first, situ_tensor *y) {
  const steps *s = &b->s;
  const situ_options like = { .dtype = situ_dtype_of(a), .device = s->device };
  const situ_view_desc *all = situ_desc(a);
  situ_tensor *one = situ_empty(SITU_SHAPE(all->size[2], situ_size(first, 1)), &like),
              *sum = s->count > 1 ? situ_empty_like(one, NULL) : one;
  situ_view_desc left = at(all, time_of(s, 0)), across;
  if (!one || !sum || !multiply(s, situ__transposed(&left, &across), situ_desc(first), NULL, situ_desc(one)))
    return NULL;
  if (s->count == 1) return one;
  left = rows(all, s->reverse ? 0 : 1, s->count - 1);
  const situ_view_desc right = rows(situ_desc(y), s->reverse ? 1 : 0, s->count - 1);
  return multiply(s, situ__transposed(&left, &across), &right, situ_desc(one), situ_desc(sum)) ? sum : NULL;
}

/* Gradients of what all three layers have. dhx is set already. */
static bool end_backward(situ_grad_call *g, back *b) {
  return GRAD(g, GATES, b->before) && GRAD(g, HX, b->dh) &&
         GRAD(g, WEIGHT_HH, weight_gradient(b, b->hidden, g->in[HX], g->out[Y]));
}

/* dh of the step before k: the gradient of its y, if it has one, and what step k's product gives. The state before the
   first step mostly needs none. */
static bool step_back(const back *b, int64_t k) {
  if (k == 0 && !b->wants_first) return true;
  const situ_view_desc before = at(situ_desc(b->before), time_of(&b->s, k));
  if (k == 0) return multiply_by(&b->s, &before, &b->weight, NULL, situ_desc(b->dh));
  const situ_view_desc up = at(situ_desc(b->up), time_of(&b->s, k - 1));
  return multiply_by(&b->s, &before, &b->weight, &up, situ_desc(b->dh));
}

static bool rnn_backward(situ_grad_call *g) {
  const recurrent_params *p = g->params;
  back b;
  if (!runs(g)) return give_zeros(g);
  if (!begin_backward(g, &b)) return false;
  for (int64_t k = b.s.count - 1; k >= 0; k--) {
    const int64_t t = time_of(&b.s, k);
    const situ_view_desc y = at(situ_desc(g->out[Y]), t), before = at(situ_desc(b.before), t),
                         last = at(situ_desc(b.up), t);
    if (!situ_launch(b.s.op, b.s.device,
                     &(situ_work){ SITU_VERB_UNARY_GRAD, .op = p->relu ? SITU_UNARY_relu : SITU_UNARY_tanh,
                                   .compute = (situ_dtype)y.dtype, .ins = 3, .outs = 1,
                                   .in = { NULL, &y, k == b.s.count - 1 ? &last : situ_desc(b.dh) },
                                   .out = { &before } }) ||
        !step_back(&b, k))
      return false;
  }
  return end_backward(g, &b);
}

/* With a projection: the gradient of h before it, from that of y; else dh itself. */
static bool before_projection(const situ_grad_call *g, const back *b, const situ_view_desc *dh, situ_tensor *shown,
                              situ_view_desc *out) {
  *out = shown ? *situ_desc(shown) : *dh;
  return !shown || multiply(&b->s, dh, situ_desc(g->in[WEIGHT_HR]), NULL, out);
}

/* dh of each step, [L, N, width], times h before the projection. */
static bool projection_gradient(situ_grad_call *g, const back *b, situ_tensor *all) {
  if (!g->in[WEIGHT_HR] || !g->wants[WEIGHT_HR]) return true;
  situ_view_desc across, left = rows(situ_desc(all), 0, b->s.count),
                         right = rows(situ_desc(g->out[CELLS]), b->s.count, b->s.count);
  g->dx[WEIGHT_HR] = situ_empty_like(g->in[WEIGHT_HR], &(situ_options){ .memory_format = SITU_CONTIGUOUS_FORMAT });
  return g->dx[WEIGHT_HR] &&
         multiply(&b->s, situ__transposed(&left, &across), &right, NULL, situ_desc(g->dx[WEIGHT_HR]));
}

static bool copy_step(const back *b, const situ_view_desc *from, const situ_view_desc *to) {
  return situ_launch(b->s.op, b->s.device,
                     &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { from }, .out = { to } });
}

static bool lstm_backward(situ_grad_call *g) {
  back b;
  if (!runs(g)) return give_zeros(g);
  if (g->grad[GATED] || g->grad[CELLS]) return situ__lstm_recorded(g);
  const bool projects = g->in[WEIGHT_HR];
  const situ_options like = { .dtype = situ_dtype_of(g->out[Y]), .device = g->device };
  situ_tensor *cx = situ_contiguous(g->in[CX]), *shown = projects ? situ_empty(g->shape[CX], &like) : NULL,
              *all = projects ? situ_empty_like(g->out[Y], NULL) : NULL;
  if (!begin_backward(g, &b) || !cx || (projects && (!shown || !all))) return false;
  b.dc =
      g->grad[C_N] ? situ_clone_memory_format(g->grad[C_N], SITU_CONTIGUOUS_FORMAT) : situ_zeros(g->shape[CX], &like);
  const situ_view_desc last = at(situ_desc(b.up), time_of(&b.s, b.s.count - 1)), dh = *situ_desc(b.dh);
  if (!b.dc || !copy_step(&b, &last, &dh)) return false;
  for (int64_t k = b.s.count - 1; k >= 0; k--) {
    const int64_t t = time_of(&b.s, k);
    const situ_view_desc gated = at(situ_desc(g->out[GATED]), t), now = at(situ_desc(g->out[CELLS]), t),
                         before = at(situ_desc(b.before), t),
                         past = k ? at(situ_desc(g->out[CELLS]), time_of(&b.s, k - 1)) : *situ_desc(cx);
    situ_view_desc dm, kept;
    if (projects && (kept = at(situ_desc(all), t), !copy_step(&b, &dh, &kept))) return false;
    if (!before_projection(g, &b, &dh, shown, &dm) ||
        !run_cell(&b.s, SITU_CELL_LSTM_GRAD, VIEWS(&gated, &past, &now, &dm, situ_desc(b.dc)),
                  VIEWS(&before, situ_desc(b.dc))) ||
        !step_back(&b, k))
      return false;
  }
  return GRAD(g, CX, b.dc) && projection_gradient(g, &b, all) && end_backward(g, &b);
}

static bool gru_backward(situ_grad_call *g) {
  back b;
  if (!runs(g)) return give_zeros(g);
  if (g->grad[GRU_GATED]) return situ__gru_recorded(g);
  situ_tensor *hx = situ_contiguous(g->in[HX]);
  if (!begin_backward(g, &b) || !hx || !(b.hidden = situ_empty_like(b.before, NULL))) return false;
  if (!(b.up = situ_contiguous(b.up))) return false;
  situ_tensor *carried = situ_empty_like(b.dh, NULL);
  if (!carried) return false;
  for (int64_t k = b.s.count - 1; k >= 0; k--) {
    const int64_t t = time_of(&b.s, k);
    const situ_view_desc gated = at(situ_desc(g->out[GRU_GATED]), t), up = at(situ_desc(b.up), t),
                         before = at(situ_desc(b.before), t), hidden = at(situ_desc(b.hidden), t),
                         past = k ? at(situ_desc(g->out[Y]), time_of(&b.s, k - 1)) : *situ_desc(hx);
    if (!run_cell(&b.s, SITU_CELL_GRU_GRAD, VIEWS(&gated, &past, situ_desc(b.dh), &up),
                  VIEWS(&before, &hidden, situ_desc(carried))) ||
        ((k > 0 || b.wants_first) && !multiply_by(&b.s, &hidden, &b.weight, situ_desc(carried), situ_desc(b.dh))))
      return false;
  }
  return end_backward(g, &b) && GRAD(g, BIAS_HH, situ_sum(b.hidden, &(situ_reduce_options){ .dim = SITU_DIMS(0, 1) }));
}

/* ---- the ops ---- */

enum { FLOATS = SITU_FLOATING | SITU_SAME };
static const recurrent_params forwards;

static recurrent_params params_of(const situ_recurrent_options *options) {
  return options ? (recurrent_params){ options->reverse, options->relu } : forwards;
}

SITU_OP(rnn_layer_op) = { .name = "rnn_layer",
                          .operand = { { "gates", FLOATS }, { "weight_hh", FLOATS }, { "hx", FLOATS } },
                          .flags = SITU_OP_COMPOSED,
                          .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
                          .params_size = sizeof(recurrent_params),
                          .save = SITU_SAVE(WEIGHT_HH) | SITU_SAVE(HX) | SITU_SAVE_OUT(Y),
                          .infer = rnn_infer,
                          .forward = rnn_forward,
                          .backward = rnn_backward,
                          .backward_recorded = situ__rnn_recorded };

situ_tensor *situ_rnn_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *hx,
                            const situ_recurrent_options *options) {
  const recurrent_params p = params_of(options);
  return situ_op_run3(&rnn_layer_op, gates, weight_hh, hx, &p);
}

SITU_OP(lstm_layer_op) = { .name = "lstm_layer",
                           .operand = { { "gates", FLOATS },
                                        { "weight_hh", FLOATS },
                                        { "hx", FLOATS },
                                        { "cx", FLOATS },
                                        { "weight_hr", FLOATS | SITU_OPTIONAL } },
                           .outs = 4,
                           .shown = 2,
                           .flags = SITU_OP_COMPOSED,
                           .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
                           .params_size = sizeof(recurrent_params),
                           .save = SITU_SAVE(WEIGHT_HH) | SITU_SAVE(HX) | SITU_SAVE(CX) | SITU_SAVE(WEIGHT_HR) |
                                   SITU_SAVE_OUT(Y) | SITU_SAVE_OUT(GATED) | SITU_SAVE_OUT(CELLS),
                           .infer = lstm_infer,
                           .forward = lstm_forward,
                           .backward = lstm_backward,
                           .backward_recorded = situ__lstm_recorded };

situ_tensor *situ_lstm_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *weight_hr, situ_tensor *hx,
                             situ_tensor *cx, const situ_recurrent_options *options) {
  const recurrent_params p = params_of(options);
  situ_tensor *outs[SITU_RESULTS];
  situ_tensor *y = situ_op_run(&lstm_layer_op, (situ_tensor *[]){ gates, weight_hh, hx, cx, weight_hr }, 5, &p, outs);
  if (y && options && options->c_n) *options->c_n = outs[C_N];
  return y;
}

SITU_OP(gru_layer_op) = {
  .name = "gru_layer",
  .operand = { { "gates", FLOATS }, { "weight_hh", FLOATS }, { "hx", FLOATS }, { "bias_hh", FLOATS | SITU_OPTIONAL } },
  .outs = 2,
  .shown = 1,
  .flags = SITU_OP_COMPOSED,
  .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },
  .params_size = sizeof(recurrent_params),
  .save = SITU_SAVE(WEIGHT_HH) | SITU_SAVE(HX) | SITU_SAVE_OUT(Y) | SITU_SAVE_OUT(GRU_GATED),
  .infer = gru_infer,
  .forward = gru_forward,
  .backward = gru_backward,
  .backward_recorded = situ__gru_recorded
};

situ_tensor *situ_gru_layer(situ_tensor *gates, situ_tensor *weight_hh, situ_tensor *bias_hh, situ_tensor *hx,
                            const situ_recurrent_options *options) {
  const recurrent_params p = params_of(options);
  return situ_op_run(&gru_layer_op, (situ_tensor *[]){ gates, weight_hh, hx, bias_hh }, 4, &p, NULL);
}
