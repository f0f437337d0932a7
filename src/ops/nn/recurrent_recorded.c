/* The gradients of recurrent layers by recorded calls (create_graph), step by step backwards in time. They are formulas
   of what the layer's results hold (gates after their functions, cells, y), through which they are differentiated
   again: so these results have gradients too.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "recurrent.h"

typedef struct walk {
  situ_grad_call *g;
  int64_t count;
  situ_tensor *dh, *dc;    /* of the state after the current step */
  situ_tensor *past;       /* h before the current step */
  situ_tensor *dw, *dw_hr; /* sums over the steps so far */
  situ_tensor **before;    /* of the gates before their functions, by time */
  situ_tensor *hidden;     /* sum over the steps of the product's gradient: of the GRU's bias */
} walk;

static int64_t time_of(const walk *w, int64_t k) {
  return ((const recurrent_params *)w->g->params)->reverse ? w->count - 1 - k : k;
}
static situ_tensor *at(situ_tensor *t, int64_t time) { return t ? situ_select(t, 0, time) : NULL; }
static situ_tensor *part(situ_tensor *t, int parts, int k) {
  if (!t) return NULL;
  const int64_t width = situ_size(t, -1) / parts;
  return situ_narrow(t, -1, k * width, width);
}
static situ_tensor *sum_of(situ_tensor *a, situ_tensor *b) { return a && b ? situ_add(a, b) : a ? a : b; }
/* a y (1 - y), a (1 - y^2): through the logistic function, and tanh. */
static situ_tensor *through_logistic(situ_tensor *a, situ_tensor *y) {
  return situ_mul(a, situ_mul(y, situ_rsub_scalar(y, 1)));
}
static situ_tensor *through_tanh(situ_tensor *a, situ_tensor *y) {
  return situ_mul(a, situ_rsub_scalar(situ_square(y), 1));
}

/* d: of the product h weight_hh^T of this step. Adds what it gives to the weights and to h of the step before. */
static bool through_product(walk *w, situ_tensor *d, situ_tensor *carried) {
  if (!d) return false;
  w->dw = sum_of(w->dw, situ_mm(situ_transpose(d, 0, 1), w->past));
  w->dh = sum_of(carried, situ_mm(d, w->g->in[WEIGHT_HH]));
  return w->dw && w->dh;
}

static bool rnn_step(walk *w, int64_t t, int64_t before) {
  (void)before;
  situ_grad_call *g = w->g;
  situ_tensor *y = at(g->out[Y], t);
  situ_tensor *d = ((const recurrent_params *)g->params)->relu ? situ_masked_fill(w->dh, situ_le_scalar(y, 0), 0)
                                                               : through_tanh(w->dh, y);
  return (w->before[t] = d) && through_product(w, d, NULL);
}

static bool lstm_step(walk *w, int64_t t, int64_t before) {
  situ_grad_call *g = w->g;
  situ_tensor *gated = at(g->out[GATED], t), *more = at(g->grad[GATED], t), *cell = at(g->out[CELLS], t);
  situ_tensor *i = part(gated, 4, 0), *f = part(gated, 4, 1), *n = part(gated, 4, 2), *o = part(gated, 4, 3);
  situ_tensor *last = before < 0 ? g->in[CX] : at(g->out[CELLS], before), *y = situ_tanh(cell), *dm = w->dh;
  if (!y || !last) return false;
  if (g->in[WEIGHT_HR]) {
    w->dw_hr = sum_of(w->dw_hr, situ_mm(situ_transpose(dm, 0, 1), situ_mul(o, y)));
    dm = situ_mm(dm, g->in[WEIGHT_HR]);
  }
  situ_tensor *dc = sum_of(sum_of(w->dc, at(g->grad[CELLS], t)), through_tanh(situ_mul(dm, o), y));
  situ_tensor *d[4] = { through_logistic(sum_of(situ_mul(dc, n), part(more, 4, 0)), i),
                        through_logistic(sum_of(situ_mul(dc, last), part(more, 4, 1)), f),
                        through_tanh(sum_of(situ_mul(dc, i), part(more, 4, 2)), n),
                        through_logistic(sum_of(situ_mul(dm, y), part(more, 4, 3)), o) };
  w->dc = situ_mul(dc, f);
  return w->dc && (w->before[t] = situ_cat(d, 4, -1)) && through_product(w, w->before[t], NULL);
}

static bool gru_step(walk *w, int64_t t, int64_t before) {
  (void)before;
  situ_grad_call *g = w->g;
  situ_tensor *gated = at(g->out[GRU_GATED], t), *more = at(g->grad[GRU_GATED], t);
  situ_tensor *r = part(gated, 4, 0), *z = part(gated, 4, 1), *n = part(gated, 4, 2), *hn = part(gated, 4, 3);
  if (!hn) return false;
  situ_tensor *dn = through_tanh(sum_of(situ_mul(w->dh, situ_rsub_scalar(z, 1)), part(more, 4, 2)), n);
  situ_tensor *dz = through_logistic(sum_of(situ_mul(w->dh, situ_sub(w->past, n)), part(more, 4, 1)), z);
  situ_tensor *dr = through_logistic(sum_of(situ_mul(dn, hn), part(more, 4, 0)), r);
  situ_tensor *hidden = situ_cat((situ_tensor *[]){ dr, dz, sum_of(situ_mul(dn, r), part(more, 4, 3)) }, 3, -1);
  if (!hidden || !(w->before[t] = situ_cat((situ_tensor *[]){ dr, dz, dn }, 3, -1))) return false;
  w->hidden = sum_of(w->hidden, situ_sum(hidden, &(situ_reduce_options){ .dim = SITU_DIMS(0) }));
  return through_product(w, hidden, situ_mul(w->dh, z));
}

/* Walks back over all steps, and sets the gradients that all layers have. */
static bool walk_back(walk *w, bool (*step)(walk *w, int64_t t, int64_t before)) {
  situ_grad_call *g = w->g;
  const situ_options like = { .dtype = situ_dtype_of(g->out[Y]), .device = g->device };
  bool good = true;
  for (int64_t k = w->count - 1; good && k >= 0; k--) {
    const int64_t t = time_of(w, k), before = k ? time_of(w, k - 1) : -1;
    w->past = k ? at(g->out[Y], before) : g->in[HX];
    w->dh = sum_of(w->dh, at(g->grad[Y], t));
    if (!w->dh) w->dh = situ_zeros(g->shape[HX], &like);
    good = w->past && w->dh && step(w, t, before);
  }
  return good && GRAD(g, GATES, situ_stack(w->before, (int)w->count, 0)) && GRAD(g, HX, w->dh) &&
         GRAD(g, WEIGHT_HH, w->dw);
}

static bool begin(walk *w, situ_grad_call *g) {
  *w = (walk){ .g = g, .count = g->shape[GATES].dim[0] };
  if (w->count > INT32_MAX) return situ__fail(SITU_E_OVERFLOW, g->op->name, "more than 2^31 steps"), false;
  const size_t bytes = (size_t)w->count * sizeof *w->before;
  if (!(w->before = situ__alloc(bytes))) return situ__no_memory(g->op->name, bytes), false;
  return true;
}

bool situ__rnn_recorded(situ_grad_call *g) {
  walk w;
  if (!begin(&w, g)) return false;
  const bool good = walk_back(&w, rnn_step);
  situ__free(w.before);
  return good;
}

bool situ__lstm_recorded(situ_grad_call *g) {
  walk w;
  if (!begin(&w, g)) return false;
  w.dc = g->grad[C_N];
  const bool good = walk_back(&w, lstm_step) && GRAD(g, CX, w.dc) && GRAD(g, WEIGHT_HR, w.dw_hr);
  situ__free(w.before);
  return good;
}

bool situ__gru_recorded(situ_grad_call *g) {
  walk w;
  if (!begin(&w, g)) return false;
  const bool good = walk_back(&w, gru_step) && GRAD(g, BIAS_HH, w.hidden);
  situ__free(w.before);
  return good;
}
