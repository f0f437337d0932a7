/* RNN, LSTM, GRU and their cells: parameters, layers, directions and states. All steps of one direction of one layer
   are an op (situ/ops/nn.h).
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "recurrent.h"
#include "situ/sys/op.h"
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

bool situ__recurrent_run(const situ__direction *d, situ_tensor *gates, situ__recurrent_steps *s) {
  const recurrent *m = (const recurrent *)d->layer;
  situ_tensor *weight_hh = parameter(m, d->index, WEIGHT_HH), *bias_hh = parameter(m, d->index, BIAS_HH);
  const situ_recurrent_options options = { .reverse = d->reverse, .relu = m->options.relu, .c_n = &s->c };
  switch (m->kind) {
  case LSTM: s->y = situ_lstm_layer(gates, weight_hh, parameter(m, d->index, WEIGHT_HR), s->h, s->c, &options); break;
  case GRU: s->y = situ_gru_layer(gates, weight_hh, bias_hh, s->h, &options); break;
  case RNN: s->y = situ_rnn_layer(gates, weight_hh, s->h, &options); break;
  }
  s->h = s->y ? situ_select(s->y, 0, d->reverse ? 0 : -1) : NULL;
  return s->h && (m->kind != LSTM || s->c);
}

/* x: [L, N, in], or [elements, in] with a packing; h, c: [N, ..]. */
static bool run_direction(const recurrent *m, int64_t i, situ_tensor *x, const situ__packing *packing,
                          situ__recurrent_steps *s) {
  const situ__direction direction = { &m->base, i, i % directions(m) };
  situ_tensor *weight_ih = parameter(m, i, WEIGHT_IH), *bias_ih = parameter(m, i, BIAS_IH);
  if (m->kind != GRU && bias_ih && !(bias_ih = situ_add(bias_ih, parameter(m, i, BIAS_HH)))) return false;
  situ_tensor *gates = situ_linear(x, weight_ih, bias_ih);
  if (!gates) return false;
  return packing ? situ__recurrent_run_packed(&direction, gates, packing, s)
                 : situ__recurrent_run(&direction, gates, s);
}

/* ---- all layers ---- */

/* One layer: x becomes its output. last: where its states after go, h of all layers before c of all layers. */
static situ_tensor *run_layer(const recurrent *m, int64_t layer, situ_tensor *x, const situ__packing *packing,
                              const situ_nn_hx *hx, situ_tensor **last) {
  situ_tensor *y[2] = { NULL, NULL };
  const int64_t count = directions(m), all = m->options.num_layers * count;
  for (int64_t d = 0; d < count; d++) {
    const int64_t i = layer * count + d;
    situ__recurrent_steps s = { .h = situ_select(hx->h, 0, i), .c = hx->c ? situ_select(hx->c, 0, i) : NULL };
    if (!s.h || (hx->c && !s.c) || !run_direction(m, i, x, packing, &s)) return NULL;
    y[d] = s.y;
    last[i] = s.h;
    last[all + i] = s.c;
  }
  x = count == 2 ? situ_cat(y, 2, -1) : y[0];
  const bool inner = layer + 1 < m->options.num_layers;
  return inner && m->options.dropout > 0 ? situ_dropout(x, m->options.dropout, m->base.training, NULL) : x;
}

static const char *op_of(const recurrent *m) {
  static const char *const op[2][3] = { { "nn_rnn", "nn_lstm", "nn_gru" },
                                        { "nn_rnn_cell", "nn_lstm_cell", "nn_gru_cell" } };
  return op[m->cell][m->kind];
}

/* torch has one call for all layers: input, states, and every parameter in order of registration. */
static bool layers_traced(const situ_call *c, situ_export_trace *t) {
  const recurrent *m = c->params;
  const situ_nn_rnn_options *o = &m->options;
  static const char *const target[] = { "rnn_tanh.input", "lstm.input", "gru.input" };
  const int count = (int)(o->num_layers * directions(m)) * parts(m);
  situ_tensor **parameters = situ__alloc((size_t)count * sizeof *parameters);
  if (!parameters) return situ__no_memory(op_of(m), (size_t)count * sizeof *parameters), false;
  for (int i = 0; i < count; i++) parameters[i] = m->base.slots[i].held;
  const char *name = m->kind == RNN && o->relu ? "rnn_relu.input" : target[m->kind];
  bool good;
  if (m->kind == LSTM)
    good = situ_export_call(t, name, "tTTbinbbb", c->in[0], c->in + 1, 2, parameters, count, !o->no_bias, o->num_layers,
                            o->dropout, m->base.training, o->bidirectional, false);
  else
    good = situ_export_call(t, name, "ttTbinbbb", c->in[0], c->in[1], parameters, count, !o->no_bias, o->num_layers,
                            o->dropout, m->base.training, o->bidirectional, false);
  situ__free(parameters);
  return good;
}

static void write_layers(situ_export_trace *t, const recurrent *m, situ_tensor *const *in, situ_tensor *const *out) {
  static const situ_op op = { .name = "nn_recur", .traced = layers_traced };
  situ_call call = {
    .op = &op, .ins = m->kind == LSTM ? 3 : 2, .outs = m->kind == LSTM ? 3 : 2, .in = in, .params = m
  };
  for (int k = 0; k < call.outs; k++) call.out[k] = out[k];
  situ_export_resume(t, out[0] ? &call : NULL);
}

/* x: as in run_direction; hx: [layers * directions, N, ..], replaced by the states after. */
static situ_tensor *run_layers(const recurrent *m, situ_tensor *x, const situ__packing *packing, situ_nn_hx *hx) {
  const int64_t all = m->options.num_layers * directions(m);
  situ_tensor **last = situ__alloc((size_t)(2 * all) * sizeof *last);
  if (!last) return situ__no_memory("nn_recur", (size_t)(2 * all) * sizeof *last), NULL;
  situ_tensor *in[] = { x, hx->h, hx->c };
  situ_export_trace *trace = packing ? NULL : situ_export_pause();
  x = situ_contiguous(x); /* else the first layer's products copy it again in each direction and in backward */
  for (int64_t layer = 0; x && layer < m->options.num_layers; layer++) x = run_layer(m, layer, x, packing, hx, last);
  if (x) hx->h = situ_stack(last, (int)all, 0);
  if (x && hx->c) hx->c = situ_stack(last + all, (int)all, 0);
  if (trace) write_layers(trace, m, in, (situ_tensor *[]){ x, hx->h, hx->c });
  situ__free(last);
  return x && hx->h && (m->kind != LSTM || hx->c) ? x : NULL;
}

/* ---- shapes of a call ---- */

/* Number of dimensions of an input, and of a state, with a batch. */
static int rank(const recurrent *m) { return m->cell ? 2 : 3; }

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

/* A state in the form [layers * directions, N, wide], zeros like x if it is not given. */
static situ_tensor *state_of(const recurrent *m, const char *name, situ_tensor *given, situ_tensor *x, int64_t batch,
                             int64_t wide) {
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
  return situ__fail(SITU_E_SHAPE, op_of(m), "%s is %s, must be %s%s", name, situ_shape_text(&got, a),
                    situ_shape_text(&expected, b), batch == 1 ? ", or without the batch as the input" : ""),
         NULL;
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

/* Checks which states are given, and their number of dimensions. */
static bool check_states(const recurrent *m, const situ_nn_hx *hx, int ndim) {
  if (hx->h && situ_dim(hx->h) != ndim)
    situ__fail(SITU_E_SHAPE, op_of(m), "h has %d dimensions, must have %d, as the input has", situ_dim(hx->h), ndim);
  else if ((hx->c != NULL) != (hx->h && m->kind == LSTM))
    situ__fail(SITU_E_ARG, op_of(m),
               m->kind == LSTM ? "needs both states, h and c, or none" : "has one state, h, and no c");
  else return true;
  return false;
}

/* The states before, of `batch` sequences. */
static bool states_of(const recurrent *m, const situ_nn_hx *hx, situ_tensor *x, int64_t batch, situ_nn_hx *out) {
  out->h = state_of(m, "h", hx->h, x, batch, width(m));
  if (m->kind == LSTM) out->c = state_of(m, "c", hx->c, x, batch, m->hidden_size);
  return out->h && (m->kind != LSTM || out->c);
}

/* hx: the states before, or {0}; then those after. */
static situ_tensor *recur(const recurrent *m, situ_tensor *input, situ_nn_hx *hx) {
  if (!check_input(m, input) || !check_states(m, hx, situ_dim(input))) return NULL;
  const bool batched = situ_dim(input) == rank(m);
  situ_tensor *x = by_time(m, input);
  situ_nn_hx state = { 0 };
  if (!x || !states_of(m, hx, x, situ_size(x, 1), &state)) return NULL;
  situ_tensor *y = run_layers(m, x, NULL, &state);
  if (!y) return NULL;
  y = m->cell || !batched ? reduced(m, y, batched) : m->options.batch_first ? situ_transpose(y, 0, 1) : y;
  hx->h = reduced(m, state.h, batched);
  hx->c = reduced(m, state.c, batched);
  return y && hx->h && (m->kind != LSTM || hx->c) ? y : NULL;
}

/* The states with their sequences in another order. */
static bool reorder(situ_nn_hx *hx, situ_tensor *indices) {
  if (!indices) return true;
  if (hx->h && !(hx->h = situ_index_select(hx->h, 1, indices))) return false;
  return !hx->c || (hx->c = situ_index_select(hx->c, 1, indices));
}

static bool check_packed(const recurrent *m, situ_tensor *data) {
  if (m->cell) return situ__fail(SITU_E_ARG, op_of(m), "it is one step, and takes no packed sequence"), false;
  if (situ_dim(data) == 2 && situ_size(data, 1) == m->input_size) return true;
  const situ_shape got = situ_shape_of(data);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op_of(m), "packed data are %s, must be [elements, %" PRId64 "]",
                    situ_shape_text(&got, text), m->input_size),
         false;
}

/* The same for a packed sequence; returns its data. */
static situ_tensor *recur_packed(const recurrent *m, const situ_nn_packed_sequence *input, situ_nn_hx *hx) {
  situ__packing packing = { 0 };
  if (!check_packed(m, input->data) || !check_states(m, hx, 3) || !situ__packing_read(op_of(m), input, &packing))
    return NULL;
  situ_nn_hx state = { 0 };
  situ_tensor *y = NULL;
  if (states_of(m, hx, input->data, situ__packing_batch(&packing), &state) && reorder(&state, input->sorted_indices))
    y = run_layers(m, input->data, &packing, &state);
  situ__free(packing.batch_sizes);
  if (!y || !reorder(&state, input->unsorted_indices)) return NULL;
  *hx = state;
  return y;
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

/* The output as a tree: of the packed input, or a tensor. */
static situ_tree *recur_tree(const recurrent *m, const situ_tree *input, situ_nn_hx *hx) {
  if (situ_tree_kind_of(input) != SITU_TREE_DICT) {
    situ_tensor *x = situ_tree_value(input), *y = x ? recur(m, x, hx) : NULL;
    return situ_tree_tensor(y);
  }
  situ_nn_packed_sequence packed = { 0 };
  if (!situ__packed_from_tree(input, &packed) || !(packed.data = recur_packed(m, &packed, hx))) return NULL;
  return situ__packed_to_tree(&packed);
}

static situ_tree *recurrent_call(situ_nn_module *self, const situ_tree *inputs) {
  const recurrent *m = (const recurrent *)self;
  const bool alone = situ_tree_kind_of(inputs) != SITU_TREE_LIST;
  const situ_tree *x = alone ? inputs : situ_tree_at(inputs, 0);
  situ_nn_hx hx = { 0 };
  if (!x || (!alone && !read_states(m, inputs, &hx))) return NULL;
  situ_tree *y = recur_tree(m, x, &hx);
  if (!y || alone) return y;
  situ_tree *states = hx.c ? SITU_TREE(hx.h, hx.c) : situ_tree_tensor(hx.h);
  return situ_tree_append(situ_tree_append(situ_tree_list(), y), states);
}

static bool check_layer(const char *op, situ_nn_module *layer) {
  if (!situ__nn_given(op, "layer", layer)) return false;
  if (situ__nn_type(layer)->call == recurrent_call) return true;
  return situ__fail(SITU_E_ARG, op, "%s is not a recurrent layer or cell", situ__nn_type(layer)->name), false;
}

/* [input, states]; takes input over. */
static situ_tree *with_states(situ_tree *input, const situ_nn_hx *hx) {
  situ_tree *in = situ_tree_append(situ_tree_list(), input);
  if (!hx->h && !hx->c) return in;
  return situ_tree_append(in, hx->c ? SITU_TREE(hx->h, hx->c) : situ_tree_tensor(hx->h));
}

/* The states of [output, states]. */
static situ_nn_hx states_after(const situ_tree *out) {
  const situ_tree *states = situ_tree_at(out, 1);
  if (situ_tree_kind_of(states) != SITU_TREE_LIST) return (situ_nn_hx){ .h = situ_tree_value(states) };
  return (situ_nn_hx){ situ_tree_tensor_at(states, 0), situ_tree_tensor_at(states, 1) };
}

situ_tensor *situ_nn_recur(situ_nn_module *layer, situ_tensor *input, situ_nn_hx *hx) {
  if (!check_layer("nn_recur", layer) || !situ__valid("nn_recur", "input", input, SITU__A_TENSOR)) return NULL;
  if (!hx) return situ_nn_forward(layer, input);
  situ_tree *in = with_states(situ_tree_tensor(input), hx);
  situ_tree *out = in ? situ_nn_call(layer, in) : NULL;
  situ_tensor *y = out ? situ_tree_tensor_at(out, 0) : NULL;
  const situ_nn_hx after = y ? states_after(out) : (situ_nn_hx){ 0 };
  if (after.h) *hx = after;
  situ_tree_free(out);
  situ_tree_free(in);
  return after.h ? y : NULL;
}

situ_status situ_nn_recur_packed(situ_nn_module *layer, const situ_nn_packed_sequence *input, situ_nn_hx *hx,
                                 situ_nn_packed_sequence *output) {
  const char *op = "nn_recur_packed";
  if (!check_layer(op, layer) || !situ__packed_given(op, input) || !situ__given(op, "output", output))
    return situ_error();
  const situ_nn_hx none = { 0 };
  situ_tree *in = with_states(situ__packed_to_tree(input), hx ? hx : &none);
  situ_tree *out = in ? situ_nn_call(layer, in) : NULL;
  situ_nn_packed_sequence packed = { 0 };
  situ_nn_hx after = { 0 };
  const bool good = out && situ__packed_from_tree(situ_tree_at(out, 0), &packed) && (after = states_after(out)).h;
  if (good) *output = packed;
  if (good && hx) *hx = after;
  situ_tree_free(out);
  situ_tree_free(in);
  return good ? SITU_OK : situ_error();
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
