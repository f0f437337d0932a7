/* RNN, LSTM, GRU and their cells: parameters, layers, directions and states. All steps of one direction of one layer
   are an op (situ/ops/nn.h).
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "nn/nn.h"
#include "situ/sys/shape.h"

/* So that a wrong number of layers does not make parameters without end. */
enum { MOST_LAYERS = 1024 };
/* A direction's parameters, in order of registration; torch's order. */
enum { WEIGHT_IH, WEIGHT_HH, BIAS_IH, BIAS_HH, WEIGHT_HR };

typedef enum layer_kind { RNN, LSTM, GRU } layer_kind;

typedef struct recurrent {
  situ_nn_module base;
  layer_kind kind;
  bool cell;
  int64_t input_size, hidden_size;
  situ_nn_rnn_options options;
} recurrent;

static int64_t directions(const recurrent *m) { return m->options.bidirectional ? 2 : 1; }
/* Width of h. */
static int64_t width(const recurrent *m) { return m->options.proj_size ? m->options.proj_size : m->hidden_size; }
static int parts(const recurrent *m) { return 2 + (m->options.no_bias ? 0 : 2) + (m->options.proj_size ? 1 : 0); }

/* A parameter of the i-th direction of all layers; NULL if the module does not have it. */
static situ_tensor *parameter(const recurrent *m, int64_t i, int which) {
  if (which == WEIGHT_HR && !m->options.proj_size) return NULL;
  if ((which == BIAS_IH || which == BIAS_HH) && m->options.no_bias) return NULL;
  return m->base.slots[i * parts(m) + (which == WEIGHT_HR ? parts(m) - 1 : which)].held;
}

/* ---- a direction of a layer ---- */

typedef struct steps {
  situ_tensor *y, *h, *c; /* h, c: the states before, then those after */
} steps;

/* x: [L, N, in]; h, c: [N, ..]. */
static bool run_direction(const recurrent *m, int64_t i, situ_tensor *x, steps *s) {
  const bool reverse = i % directions(m);
  situ_tensor *weight_ih = parameter(m, i, WEIGHT_IH), *weight_hh = parameter(m, i, WEIGHT_HH),
              *bias_ih = parameter(m, i, BIAS_IH), *bias_hh = parameter(m, i, BIAS_HH);
  if (m->kind != GRU && bias_ih && !(bias_ih = situ_add(bias_ih, bias_hh))) return false;
  situ_tensor *gates = situ_linear(x, weight_ih, bias_ih);
  if (!gates) return false;
  const situ_recurrent_options options = { .reverse = reverse, .relu = m->options.relu, .c_n = &s->c };
  switch (m->kind) {
  case LSTM: s->y = situ_lstm_layer(gates, weight_hh, parameter(m, i, WEIGHT_HR), s->h, s->c, &options); break;
  case GRU: s->y = situ_gru_layer(gates, weight_hh, bias_hh, s->h, &options); break;
  case RNN: s->y = situ_rnn_layer(gates, weight_hh, s->h, &options); break;
  }
  s->h = s->y ? situ_select(s->y, 0, reverse ? 0 : -1) : NULL;
  return s->h && (m->kind != LSTM || s->c);
}

/* ---- all layers ---- */

/* One layer: x becomes its output. last: where its states after go, h of all layers before c of all layers. */
static situ_tensor *run_layer(const recurrent *m, int64_t layer, situ_tensor *x, const situ_nn_hx *hx,
                              situ_tensor **last) {
  situ_tensor *y[2] = { NULL, NULL };
  const int64_t count = directions(m), all = m->options.num_layers * count;
  for (int64_t d = 0; d < count; d++) {
    const int64_t i = layer * count + d;
    steps s = { .h = situ_select(hx->h, 0, i), .c = hx->c ? situ_select(hx->c, 0, i) : NULL };
    if (!s.h || (hx->c && !s.c) || !run_direction(m, i, x, &s)) return NULL;
    y[d] = s.y;
    last[i] = s.h;
    last[all + i] = s.c;
  }
  x = count == 2 ? situ_cat(y, 2, -1) : y[0];
  const bool inner = layer + 1 < m->options.num_layers;
  return inner && m->options.dropout > 0 ? situ_dropout(x, m->options.dropout, m->base.training, NULL) : x;
}

/* x: [L, N, in]; hx: [layers * directions, N, ..], replaced by the states after. */
static situ_tensor *run_layers(const recurrent *m, situ_tensor *x, situ_nn_hx *hx) {
  const int64_t all = m->options.num_layers * directions(m);
  situ_tensor **last = situ__alloc((size_t)(2 * all) * sizeof *last);
  if (!last) return situ__no_memory("nn_recur", (size_t)(2 * all) * sizeof *last), NULL;
  for (int64_t layer = 0; x && layer < m->options.num_layers; layer++) x = run_layer(m, layer, x, hx, last);
  if (x) hx->h = situ_stack(last, (int)all, 0);
  if (x && hx->c) hx->c = situ_stack(last + all, (int)all, 0);
  situ__free(last);
  return x && hx->h && (m->kind != LSTM || hx->c) ? x : NULL;
}

/* ---- shapes of a call ---- */

/* Number of dimensions of an input, and of a state, with a batch. */
static int rank(const recurrent *m) { return m->cell ? 2 : 3; }

static const char *op_of(const recurrent *m) {
  static const char *const op[2][3] = { { "nn_rnn", "nn_lstm", "nn_gru" },
                                        { "nn_rnn_cell", "nn_lstm_cell", "nn_gru_cell" } };
  return op[m->cell][m->kind];
}

static bool check_input(const recurrent *m, situ_tensor *x) {
  const int ndim = situ_dim(x);
  if (ndim != rank(m) && ndim != rank(m) - 1)
    situ__fail(SITU_E_SHAPE, op_of(m), "input needs %d dimensions, or %d without a batch, not %d", rank(m), rank(m) - 1,
               ndim);
  else if (situ_size(x, -1) != m->input_size)
    situ__fail(SITU_E_SHAPE, op_of(m), "input is %" PRId64 " wide, must be input_size, %" PRId64, situ_size(x, -1),
               m->input_size);
  else if (!m->cell && situ_size(x, ndim == 3 && m->options.batch_first ? 1 : 0) == 0)
    situ__fail(SITU_E_SHAPE, op_of(m), "input has no time steps: its length must be at least 1");
  else return true;
  return false;
}

/* A state in the form [layers * directions, N, wide], zeros if it is not given. */
static situ_tensor *state_of(const recurrent *m, const char *name, situ_tensor *given, situ_tensor *x, int64_t wide) {
  const int64_t batch = situ_size(x, 1);
  const situ_shape whole = SITU_SHAPE(m->options.num_layers * directions(m), batch, wide);
  if (!given) return situ_zeros(whole, &(situ_options){ .dtype = situ_dtype_of(x), .device = situ_device_of(x) });
  situ_tensor *t = given;
  const int ndim = situ_dim(t);
  if (ndim == rank(m) - 1) t = situ_unsqueeze(t, m->cell ? 0 : 1);
  if (t && m->cell) t = situ_unsqueeze(t, 0);
  if (!t) return NULL;
  const situ_shape shape = situ_shape_of(t);
  if (situ_shape_equal(&shape, &whole)) return t;
  const situ_shape got = situ_shape_of(given);
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  situ_shape expected = m->cell ? SITU_SHAPE(batch, wide) : whole;
  situ__fail(SITU_E_SHAPE, op_of(m), "%s is %s, must be %s%s", name, situ_shape_text(&got, a),
             situ_shape_text(&expected, b), batch == 1 ? ", or without the batch as the input" : "");
  return NULL;
}

/* [L, N, in] of an input in any form. */
static situ_tensor *by_time(const recurrent *m, situ_tensor *x) {
  const bool batched = situ_dim(x) == rank(m);
  if (m->cell) return situ_unsqueeze(batched ? x : situ_unsqueeze(x, 0), 0);
  if (!batched) return situ_unsqueeze(x, 1);
  return m->options.batch_first ? situ_transpose(x, 0, 1) : x;
}

/* A state, or the output of a cell or of an input without a batch, in the form that the call's input has. */
static situ_tensor *reduced(const recurrent *m, situ_tensor *t, bool batched) {
  if (t && m->cell) t = situ_select(t, 0, 0);
  return t && !batched ? situ_select(t, m->cell ? 0 : 1, 0) : t;
}

/* hx: the states before, or {0}; then those after. */
static situ_tensor *recur(const recurrent *m, situ_tensor *input, situ_nn_hx *hx) {
  if (!check_input(m, input)) return NULL;
  const bool batched = situ_dim(input) == rank(m);
  if (hx->h && situ_dim(hx->h) != situ_dim(input)) {
    situ__fail(SITU_E_SHAPE, op_of(m), "h has %d dimensions, must have %d, as the input has", situ_dim(hx->h),
               situ_dim(input));
    return NULL;
  }
  if ((hx->c != NULL) != (hx->h && m->kind == LSTM)) {
    situ__fail(SITU_E_ARG, op_of(m),
               m->kind == LSTM ? "needs both states, h and c, or none" : "has one state, h, and no c");
    return NULL;
  }
  situ_tensor *x = by_time(m, input);
  if (!x) return NULL;
  situ_nn_hx state = { .h = state_of(m, "h", hx->h, x, width(m)) };
  if (m->kind == LSTM) state.c = state_of(m, "c", hx->c, x, m->hidden_size);
  if (!state.h || (m->kind == LSTM && !state.c)) return NULL;
  situ_tensor *y = run_layers(m, x, &state);
  if (!y) return NULL;
  y = m->cell || !batched ? reduced(m, y, batched) : m->options.batch_first ? situ_transpose(y, 0, 1) : y;
  hx->h = reduced(m, state.h, batched);
  hx->c = reduced(m, state.c, batched);
  return y && hx->h && (m->kind != LSTM || hx->c) ? y : NULL;
}

/* ---- the call ---- */

static bool read_states(const recurrent *m, const situ_tree *in, situ_nn_hx *hx) {
  const situ_tree *states = situ_tree_count(in) > 1 ? situ_tree_at(in, 1) : NULL;
  if (situ_tree_kind_of(states) == SITU_TREE_NONE) return true;
  if (situ_tree_kind_of(states) == SITU_TREE_TENSOR) {
    hx->h = situ_tree_value(states);
    return true;
  }
  if (situ_tree_count(states) != 2)
    return situ__fail(SITU_E_ARG, op_of(m), "the second input must be h, or a list [h, c]"), false;
  hx->h = situ_tree_tensor_at(states, 0);
  hx->c = situ_tree_tensor_at(states, 1);
  return hx->h && hx->c;
}

static situ_tree *recurrent_call(situ_nn_module *self, const situ_tree *inputs) {
  const recurrent *m = (const recurrent *)self;
  const bool alone = situ_tree_kind_of(inputs) == SITU_TREE_TENSOR;
  situ_tensor *x = alone ? situ_tree_value(inputs) : situ_tree_tensor_at(inputs, 0);
  situ_nn_hx hx = { 0 };
  if (!x || (!alone && !read_states(m, inputs, &hx))) return NULL;
  situ_tensor *y = recur(m, x, &hx);
  if (!y || alone) return situ_tree_tensor(y);
  situ_tree *states = hx.c ? SITU_TREE(hx.h, hx.c) : situ_tree_tensor(hx.h);
  return situ_tree_append(SITU_TREE(y), states);
}

situ_tensor *situ_nn_recur(situ_nn_module *layer, situ_tensor *input, situ_nn_hx *hx) {
  if (!situ__nn_given("nn_recur", "layer", layer) || !situ__valid("nn_recur", "input", input, SITU__A_TENSOR))
    return NULL;
  if (situ__nn_type(layer)->call != recurrent_call)
    return situ__fail(SITU_E_ARG, "nn_recur", "%s is not a recurrent layer or cell", situ__nn_type(layer)->name), NULL;
  if (!hx) return situ_nn_forward(layer, input);
  situ_tree *in = SITU_TREE(input);
  if (hx->h || hx->c) in = situ_tree_append(in, hx->c ? SITU_TREE(hx->h, hx->c) : situ_tree_tensor(hx->h));
  situ_tree *out = in ? situ_nn_call(layer, in) : NULL;
  situ_tensor *y = out ? situ_tree_tensor_at(out, 0) : NULL;
  situ_nn_hx after = { 0 };
  const situ_tree *states = y ? situ_tree_at(out, 1) : NULL;
  if (situ_tree_kind_of(states) == SITU_TREE_LIST) {
    after.h = situ_tree_tensor_at(states, 0);
    after.c = situ_tree_tensor_at(states, 1);
  } else if (y) {
    after.h = situ_tree_value(states);
  }
  if (after.h) *hx = after;
  situ_tree_free(out);
  situ_tree_free(in);
  return after.h ? y : NULL;
}

/* ---- creation ---- */

static int recurrent_repr(const situ_nn_module *self, char *buffer, size_t size) {
  const recurrent *m = (const recurrent *)self;
  const situ_nn_rnn_options *o = &m->options;
  char p[SITU__NUMBER], projection[48] = "", layers[48] = "", dropout[SITU__NUMBER + 16] = "";
  if (o->proj_size) snprintf(projection, sizeof projection, ", proj_size=%" PRId64, o->proj_size);
  if (o->num_layers != 1) snprintf(layers, sizeof layers, ", num_layers=%" PRId64, o->num_layers);
  if (o->dropout > 0) snprintf(dropout, sizeof dropout, ", dropout=%s", situ__nn_number(o->dropout, p));
  return snprintf(buffer, size, "%" PRId64 ", %" PRId64 "%s%s%s%s%s%s%s", m->input_size, m->hidden_size, projection,
                  layers, o->no_bias ? ", bias=False" : "", o->batch_first ? ", batch_first=True" : "", dropout,
                  o->bidirectional ? ", bidirectional=True" : "", m->cell && o->relu ? ", nonlinearity=relu" : "");
}

static const situ_nn_type types[2][3] = {
#define TYPE(text) \
  { .name = text, .size = sizeof(recurrent), .call = recurrent_call, .extra_repr = recurrent_repr }
  { TYPE("RNN"), TYPE("LSTM"), TYPE("GRU") }, { TYPE("RNNCell"), TYPE("LSTMCell"), TYPE("GRUCell") }
#undef TYPE
};

/* Adds a parameter, uniform within 1 / sqrt(hidden_size), as torch does. */
static bool add(recurrent *m, int64_t i, const char *part, situ_shape shape) {
  const double bound = 1 / sqrt((double)m->hidden_size);
  const situ_options where = { .dtype = m->options.dtype, .device = m->options.device };
  char name[64];
  if (m->cell) snprintf(name, sizeof name, "%s", part);
  else snprintf(name, sizeof name, "%s_l%" PRId64 "%s", part, i / directions(m), i % directions(m) ? "_reverse" : "");
  situ_tensor *t = situ_nn_init_uniform_(situ_empty(shape, &where), -bound, bound, NULL);
  return situ_nn_add_tensor(&m->base, name, NULL, t, SITU_NN_PARAMETER) != NULL;
}

static bool fill(recurrent *m) {
  static const int64_t gates[] = { [RNN] = 1, [LSTM] = 4, [GRU] = 3 };
  const situ_nn_rnn_options *o = &m->options;
  const int64_t rows = gates[m->kind] * m->hidden_size;
  for (int64_t i = 0; i < o->num_layers * directions(m); i++) {
    const int64_t in = i < directions(m) ? m->input_size : directions(m) * width(m);
    if (!add(m, i, "weight_ih", SITU_SHAPE(rows, in)) || !add(m, i, "weight_hh", SITU_SHAPE(rows, width(m))))
      return false;
    if (!o->no_bias && (!add(m, i, "bias_ih", SITU_SHAPE(rows)) || !add(m, i, "bias_hh", SITU_SHAPE(rows))))
      return false;
    if (o->proj_size && !add(m, i, "weight_hr", SITU_SHAPE(o->proj_size, m->hidden_size))) return false;
  }
  return true;
}

static bool check_sizes(const recurrent *m) {
  const situ_nn_rnn_options *o = &m->options;
  const char *op = op_of(m);
  if (m->input_size < 0 || m->hidden_size < 1 || m->hidden_size > INT64_MAX / 4)
    situ__fail(SITU_E_ARG, op, "input_size is %" PRId64 " and hidden_size %" PRId64 ": must be at least 0 and 1",
               m->input_size, m->hidden_size);
  else if (o->num_layers < 1 || o->num_layers > MOST_LAYERS)
    situ__fail(SITU_E_ARG, op, "num_layers is %" PRId64 ", must be 1 to %d", o->num_layers, MOST_LAYERS);
  else if (!(o->dropout >= 0 && o->dropout <= 1))
    situ__fail(SITU_E_ARG, op, "dropout is a probability, from 0 to 1, not %g", o->dropout);
  else if (o->proj_size < 0 || o->proj_size >= m->hidden_size)
    situ__fail(SITU_E_ARG, op, "proj_size is %" PRId64 ", must be at least 0 and below hidden_size, %" PRId64,
               o->proj_size, m->hidden_size);
  else return true;
  return false;
}

/* Refuses options that another kind of layer has. */
static bool check_options(const recurrent *m) {
  const situ_nn_rnn_options *o = &m->options;
  const char *excess = NULL;
  if (o->relu && m->kind != RNN) excess = "relu";
  if (o->proj_size && (m->kind != LSTM || m->cell)) excess = "proj_size";
  if (m->cell && o->num_layers > 1) excess = "num_layers";
  if (m->cell && o->dropout != 0) excess = "dropout";
  if (m->cell && (o->batch_first || o->bidirectional)) excess = o->batch_first ? "batch_first" : "bidirectional";
  if (excess) situ__fail(SITU_E_ARG, op_of(m), "it has no %s", excess);
  return !excess;
}

static situ_nn_module *make(layer_kind kind, bool cell, int64_t input_size, int64_t hidden_size,
                            const situ_nn_rnn_options *options) {
  recurrent *m = situ_nn_alloc(&types[cell][kind]);
  if (!m) return NULL;
  m->kind = kind;
  m->cell = cell;
  m->input_size = input_size;
  m->hidden_size = hidden_size;
  if (options) m->options = *options;
  if (!m->options.num_layers) m->options.num_layers = 1;
  m->base.home = m->options.device;
  if (!check_options(m) || !check_sizes(m) || !fill(m)) m->base.broken = true;
  return situ_nn_done(m);
}

situ_nn_module *situ_nn_rnn(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(RNN, false, input_size, hidden_size, options);
}
situ_nn_module *situ_nn_lstm(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(LSTM, false, input_size, hidden_size, options);
}
situ_nn_module *situ_nn_gru(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(GRU, false, input_size, hidden_size, options);
}
situ_nn_module *situ_nn_rnn_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(RNN, true, input_size, hidden_size, options);
}
situ_nn_module *situ_nn_lstm_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(LSTM, true, input_size, hidden_size, options);
}
situ_nn_module *situ_nn_gru_cell(int64_t input_size, int64_t hidden_size, const situ_nn_rnn_options *options) {
  return make(GRU, true, input_size, hidden_size, options);
}
