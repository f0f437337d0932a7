/* ONNX's LSTM, GRU and RNN. What situ's recurrent ops are made for runs by them; other activations, peepholes, clipped
   gates and sequences of different lengths run step by step.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "onnx.h"
#include "situ/sys/op.h"

typedef enum cell { RNN, GRU, LSTM } cell;

typedef situ_tensor *activation(situ_tensor *);

typedef struct layer {
  cell kind;
  int gates; /* of a cell */
  int64_t hidden, directions, steps;
  situ_tensor *weight, *recurrent, *bias, *h, *c, *peepholes; /* of all directions; bias, h, c, peepholes may be NULL */
  situ_tensor *lengths;                                       /* [N], or NULL */
  activation *act[2][3];                                      /* of each direction; NULL: ONNX's defaults */
  bool plain;                                                 /* situ's own ops compute it */
  situ_tensor **out;                                          /* where they do not: of each step of a direction */
  bool linear_before_reset;
  double clip;           /* 0: none */
  situ_tensor *scale[4]; /* scale and zero point of the weight, and those of the recurrent one; NULL: f32 */
} layer;

/* Places of the arguments in all three. */
enum { X, W, R, B, LENGTHS, H0, C0, PEEPHOLES, ACTIVATIONS, CLIP, DIRECTION, LAYOUT, HIDDEN, LINEAR, FORGET = LINEAR };

static activation *find_activation(const char *name) {
  static const struct {
    const char *name;
    activation *fn;
  } known[] = {
    { "Sigmoid", situ_sigmoid }, { "Tanh", situ_tanh }, { "Relu", situ_relu }, { "Softsign", situ_softsign }
  };
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, name) == 0) return known[i].fn;
  return NULL;
}

static const char *lacks(const situ__op_call *c) {
  const situ__arg *list = &c->arg[ACTIVATIONS];
  for (int i = 0; situ__arg_given(c, ACTIVATIONS) && i < list->count; i++)
    if (!find_activation(list->list[i].text)) return "has an activation other than Sigmoid, Tanh, Relu and Softsign";
  return NULL;
}

static const char *lstm_lacks(const situ__op_call *c) {
  return situ__arg_flag(c, FORGET) ? "couples its input and forget gates" : lacks(c);
}

/* ONNX's order of gates to situ's: pieces of `each` rows of a tensor [gates * each, ..]. */
static situ_tensor *reorder(const layer *l, situ_tensor *t) {
  static const int lstm[] = { 0, 2, 3, 1 }, gru[] = { 1, 0, 2 }; /* i, o, f, c and z, r, h */
  situ_tensor *piece[4];
  if (l->kind == RNN || !t) return t;
  for (int g = 0; g < l->gates; g++)
    piece[g] = situ_narrow(t, 0, (l->kind == LSTM ? lstm : gru)[g] * l->hidden, l->hidden);
  return situ_cat(piece, l->gates, 0);
}

static situ_tensor *clip(const layer *l, situ_tensor *x) { return l->clip > 0 ? situ_clamp(x, -l->clip, l->clip) : x; }
static situ_tensor *gate(const layer *l, situ_tensor *x, int g) { return situ_narrow(x, 1, g * l->hidden, l->hidden); }
static situ_tensor *peep(const layer *l, situ_tensor *x, situ_tensor *p, int g, situ_tensor *c) {
  return p ? situ_add(x, situ_mul(situ_narrow(p, 0, g * l->hidden, l->hidden), c)) : x;
}

/* A scale or zero point of a direction: a number, or one for each row. */
static situ_tensor *of_direction(const layer *l, situ_tensor *t, int64_t d) {
  t = situ_select(t, 0, d);
  return situ_dim(t) > 0 ? reorder(l, t) : t;
}

/* Whole numbers without their zero point, in f64, which holds sums of their products exactly. */
static situ_tensor *subtract_zero(const layer *l, situ_tensor *weight, situ_tensor *zero, int64_t d) {
  zero = situ_unsqueeze(situ_to_dtype(of_direction(l, zero, d), SITU_F64), -1);
  return situ_sub(situ_to_dtype(weight, SITU_F64), zero);
}

/* x weight' + bias. scale: of a weight of whole numbers, by which x is as 8 bits, by its own range; else NULL. */
static situ_tensor *multiply(const layer *l, int64_t d, situ_tensor *scale, situ_tensor *x, situ_tensor *weight,
                             situ_tensor *bias) {
  situ_tensor *step, *zero;
  if (!scale) return situ_linear(x, weight, bias);
  situ_tensor *integer = situ__onnx_quantize(x, &step, &zero);
  integer = situ_sub(integer, zero);
  situ_tensor *y = situ_to_dtype(situ_linear(situ_to_dtype(integer, SITU_F64), weight, NULL), SITU_F32);
  y = situ_mul(y, situ_mul(step, of_direction(l, scale, d)));
  return bias ? situ_add(y, bias) : y;
}

/* One step: gates [N, gates * hidden] of the input in situ's order. */
static situ_tensor *step(const layer *l, int64_t d, situ_tensor *gates, situ_tensor *weight, situ_tensor *bias,
                         situ_tensor *p, situ_tensor *h, situ_tensor **c) {
  activation *const *act = l->act[d];
  situ_tensor *back = multiply(l, d, l->scale[2], h, weight, bias);
  if (l->kind == RNN) return act[0](clip(l, situ_add(gates, back)));
  if (l->kind == GRU) {
    situ_tensor *r = act[0](clip(l, situ_add(gate(l, gates, 0), gate(l, back, 0))));
    situ_tensor *z = act[0](clip(l, situ_add(gate(l, gates, 1), gate(l, back, 1)))), *n = gate(l, back, 2);
    if (l->linear_before_reset) n = situ_mul(r, n);
    else
      n = situ_linear(situ_mul(r, h), situ_narrow(weight, 0, 2 * l->hidden, l->hidden),
                      bias ? situ_narrow(bias, 0, 2 * l->hidden, l->hidden) : NULL);
    n = act[1](clip(l, situ_add(gate(l, gates, 2), n)));
    return situ_add(situ_mul(situ_rsub_scalar(z, 1), n), situ_mul(z, h));
  }
  gates = situ_add(gates, back);
  situ_tensor *i = act[0](clip(l, peep(l, gate(l, gates, 0), p, 0, *c)));
  situ_tensor *f = act[0](clip(l, peep(l, gate(l, gates, 1), p, 2, *c)));
  *c = situ_add(situ_mul(f, *c), situ_mul(i, act[1](clip(l, gate(l, gates, 2)))));
  situ_tensor *o = act[0](clip(l, peep(l, gate(l, gates, 3), p, 1, *c)));
  return situ_mul(o, act[2](*c));
}

/* Steps of one direction. A sequence that has ended keeps its state, and gives 0. */
static situ_tensor *run_steps(const layer *l, int64_t d, bool reverse, situ_tensor *gates, situ_tensor *weight,
                              situ_tensor *bias, situ_tensor **h, situ_tensor **c) {
  situ_tensor **out = l->out, *p = l->peepholes ? situ_select(l->peepholes, 0, d) : NULL;
  for (int64_t k = 0; k < l->steps; k++) {
    const int64_t t = reverse ? l->steps - 1 - k : k;
    situ_tensor *cell_state = *c, *next = step(l, d, situ_select(gates, 0, t), weight, bias, p, *h, &cell_state);
    if (!next) return NULL;
    out[t] = next;
    if (l->lengths) {
      situ_tensor *on = situ_unsqueeze(situ_gt_scalar(l->lengths, (double)t), 1);
      out[t] = situ_where(on, next, situ_zeros_like(next, NULL));
      next = situ_where(on, next, *h);
      if (*c) cell_state = situ_where(on, cell_state, *c);
    }
    *h = next;
    *c = cell_state;
  }
  return situ_stack(out, (int)l->steps, 0);
}

/* The weights of one direction in situ's order. */
enum { WEIGHT, BACK, BIAS, BIAS_BACK, WEIGHTS };
static bool arrange_weights(const layer *l, int64_t d, situ_tensor *out[WEIGHTS]) {
  const int64_t rows = l->gates * l->hidden;
  out[WEIGHT] = reorder(l, situ_select(l->weight, 0, d));
  out[BACK] = reorder(l, situ_select(l->recurrent, 0, d));
  if (l->bias) {
    out[BIAS] = reorder(l, situ_narrow(situ_select(l->bias, 0, d), 0, 0, rows));
    out[BIAS_BACK] = reorder(l, situ_narrow(situ_select(l->bias, 0, d), 0, rows, rows));
  }
  return out[WEIGHT] && out[BACK] && (!l->bias || (out[BIAS] && out[BIAS_BACK]));
}

/* The same, kept for the next runs if they may be: then transposed in memory too, as the steps multiply with them. */
static bool find_weights(const situ__op_call *c, const layer *l, int64_t d, situ_tensor *out[WEIGHTS]) {
  situ_tensor **prepacked = c->prepacked ? c->prepacked + d * WEIGHTS : NULL;
  if (prepacked && c->is_prepacked) return memcpy(out, prepacked, WEIGHTS * sizeof *out), true;
  if (!arrange_weights(l, d, out)) return false;
  if (l->bias && l->kind != GRU && l->plain && !(out[BIAS] = situ_add(out[BIAS], out[BIAS_BACK]))) return false;
  if (!prepacked) return true;
  for (int k = WEIGHT; k <= BACK; k++) out[k] = situ_transpose(situ_contiguous(situ_transpose(out[k], 0, 1)), 0, 1);
  for (int k = 0; k < WEIGHTS; k++)
    if ((k <= BACK || out[k]) && !situ_set(&prepacked[k], out[k])) return false;
  return true;
}

/* One direction: x [L, N, in]. Sets *h and *c to the last states. */
static situ_tensor *run_direction(const situ__op_call *call, const layer *l, int64_t d, situ_tensor *x, situ_tensor **h,
                                  situ_tensor **c) {
  situ_tensor *all[WEIGHTS] = { NULL };
  if (!find_weights(call, l, d, all)) return NULL;
  situ_tensor *weight = all[WEIGHT], *back = all[BACK], *bias = all[BIAS], *bias_back = all[BIAS_BACK];
  if (l->scale[0]) weight = subtract_zero(l, weight, l->scale[1], d), back = subtract_zero(l, back, l->scale[3], d);
  const bool reverse = d == 1 || *situ__arg_text(call, DIRECTION) == 'r';
  const situ_options o = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  const situ_shape state = SITU_SHAPE(situ_size(x, 1), l->hidden);
  *h = l->h ? situ_select(l->h, 0, d) : situ_zeros(state, &o);
  *c = l->kind != LSTM ? NULL : l->c ? situ_select(l->c, 0, d) : situ_zeros(state, &o);
  situ_tensor *gates = multiply(l, d, l->scale[0], x, weight, bias), *y;
  if (!gates || !*h) return NULL;
  if (!l->plain) return run_steps(l, d, reverse, gates, back, bias_back, h, c);
  const situ_recurrent_options options = { .reverse = reverse, .relu = l->act[d][0] == situ_relu, .c_n = c };
  if (l->kind == LSTM) y = situ_lstm_layer(gates, back, NULL, *h, *c, &options);
  else if (l->kind == GRU) y = situ_gru_layer(gates, back, bias_back, *h, &options);
  else y = situ_rnn_layer(gates, back, *h, &options);
  *h = y ? situ_select(y, 0, reverse ? 0 : -1) : NULL;
  return y;
}

/* ---- situ_export ---- */

/* torch has one call for both directions of a layer: input, states, and all parameters. */
static bool layer_traced(const situ_call *c, situ_export_trace *t) {
  const layer *l = c->params;
  const int states = l->kind == LSTM ? 2 : 1, count = c->ins - 1 - states;
  const bool biases = l->bias != NULL, both = l->directions == 2;
  if (l->kind == LSTM)
    return situ_export_call(t, "lstm.input", "tTTbinbbb", c->in[0], c->in + 1, 2, c->in + 3, count, biases, INT64_C(1),
                            0.0, false, both, false);
  const char *target = l->kind == GRU ? "gru.input" : l->act[0][0] == situ_relu ? "rnn_relu.input" : "rnn_tanh.input";
  return situ_export_call(t, target, "ttTbinbbb", c->in[0], c->in[1], c->in + 2, count, biases, INT64_C(1), 0.0, false,
                          both, false);
}

static bool is_traced(void) {
  situ_export_trace *t = situ_export_pause();
  if (t) situ_export_resume(t, NULL);
  return t != NULL;
}

/* The states that the call gives, or zeros. */
static situ_tensor *states_of(const layer *l, situ_tensor *given, situ_tensor *x) {
  const situ_options o = { .dtype = situ_dtype_of(x), .device = situ_device_of(x) };
  return given ? given : situ_zeros(SITU_SHAPE(l->directions, situ_size(x, 1), l->hidden), &o);
}

/* All directions as that call: the states [L, directions, N, hidden]. */
static situ_tensor *run_traced(const situ__op_call *call, const layer *l, situ_tensor *x, situ_tensor **h,
                               situ_tensor **c) {
  static const situ_op op = { .name = "onnx_recur", .traced = layer_traced };
  const int states = l->kind == LSTM ? 2 : 1, each = l->bias ? WEIGHTS : BIAS;
  const bool reverse = *situ__arg_text(call, DIRECTION) == 'r';
  situ_tensor *in[3 + 2 * WEIGHTS] = { NULL }, *all[WEIGHTS] = { NULL }, *y[2], *last[2][2];
  in[0] = reverse ? situ_flip(x, SITU_DIMS(0)) : x;
  in[1] = states_of(l, l->h, x);
  if (l->kind == LSTM) in[2] = states_of(l, l->c, x);
  for (int64_t d = 0; d < l->directions; d++) {
    if (!arrange_weights(l, d, all)) return NULL;
    for (int k = 0; k < each; k++) in[1 + states + d * each + k] = all[k];
  }
  situ_export_trace *trace = situ_export_pause();
  bool fine = true;
  for (int64_t d = 0; d < l->directions && fine; d++)
    fine = (y[d] = run_direction(call, l, d, x, &last[0][d], &last[1][d])) != NULL;
  situ_call written = {
    .op = &op, .ins = 1 + states + (int)l->directions * each, .outs = 1 + states, .in = in, .params = l
  };
  if (fine) {
    written.out[0] = situ_cat(y, (int)l->directions, -1);
    for (int k = 0; k < states; k++) written.out[k + 1] = situ_stack(last[k], (int)l->directions, 0);
  }
  situ_export_resume(trace, fine && written.out[states] ? &written : NULL);
  if (!fine || !written.out[0]) return NULL;
  *h = written.out[1];
  *c = written.out[2];
  situ_tensor *out = reverse ? situ_flip(written.out[0], SITU_DIMS(0)) : written.out[0];
  const situ_shape apart = SITU_SHAPE(l->steps, situ_size(x, 1), l->directions, l->hidden);
  return situ_transpose(situ_reshape(out, apart), 1, 2);
}

static bool choose_activations(situ__op_call *c, layer *l) {
  const int each = l->kind == RNN ? 1 : l->kind == GRU ? 2 : 3;
  const bool given = situ__arg_given(c, ACTIVATIONS);
  activation *const usual[3] = { l->kind == RNN ? situ_tanh : situ_sigmoid, situ_tanh, situ_tanh };
  if (given && c->arg[ACTIVATIONS].count < each * l->directions) return situ__call_refuse(c, "has too few activations");
  for (int64_t d = 0; d < l->directions; d++)
    for (int i = 0; i < each; i++) {
      l->act[d][i] = given ? find_activation(c->arg[ACTIVATIONS].list[d * each + i].text) : usual[i];
      const bool relu = l->kind == RNN && l->act[d][i] == situ_relu;
      l->plain = l->plain && (l->act[d][i] == usual[i] || relu);
    }
  return true;
}

static bool wants(const situ__op_call *c, int i) { return i < c->node->outs && c->node->out[i] >= 0; }

/* Results: all states [L, directions, N, hidden], and the last ones [directions, N, hidden]; with layout 1 the batch
   comes first. */
static situ_tensor *run_layer(situ__op_call *c, layer *l) {
  situ_tensor *x = situ__arg_tensor(c, X), *y[2], *h[2], *cell_state[2];
  const bool batch_first = situ__arg_flag(c, LAYOUT);
  const char *direction = situ__arg_text(c, DIRECTION);
  l->weight = situ__arg_tensor(c, W);
  l->recurrent = situ__arg_tensor(c, R);
  if (l->scale[0]) {
    l->weight = situ_transpose(l->weight, 1, 2);
    l->recurrent = situ_transpose(l->recurrent, 1, 2);
  }
  l->bias = situ__arg_tensor(c, B);
  l->h = situ__arg_tensor(c, H0);
  l->c = l->kind == LSTM ? situ__arg_tensor(c, C0) : NULL;
  l->peepholes = l->kind == LSTM ? situ__arg_tensor(c, PEEPHOLES) : NULL;
  l->lengths = situ__arg_tensor(c, LENGTHS);
  l->directions = situ_size(l->weight, 0);
  l->hidden = situ_size(l->recurrent, -1);
  if (situ__arg_given(c, HIDDEN) && situ__arg_int(c, HIDDEN) != l->hidden)
    return situ__call_refuse(c, "has a hidden_size other than that of its weights");
  l->clip = situ__arg_given(c, CLIP) ? situ__arg_number(c, CLIP) : 0;
  if (batch_first) {
    x = situ_transpose(x, 0, 1);
    if (l->h) l->h = situ_transpose(l->h, 0, 1);
    if (l->c) l->c = situ_transpose(l->c, 0, 1);
  }
  l->steps = situ_size(x, 0);
  if (situ_dim(x) != 3 || l->directions != (*direction == 'b' ? 2 : 1) || l->steps < 1)
    return situ__call_refuse(c, "needs an input of 3 dimensions and a weight of each direction");
  l->plain = l->plain && !l->scale[0] && !l->peepholes && !l->lengths && l->clip == 0;
  if (!choose_activations(c, l)) return NULL;
  if (!l->plain && l->steps > SITU__CALL_MOST) return situ__call_refuse(c, "has more than 131072 steps");
  if (!l->plain && !(l->out = situ__call_take(c, l->steps, sizeof *l->out))) return NULL;
  if (l->plain && is_traced()) {
    situ_tensor *all = run_traced(c, l, x, &h[0], &cell_state[0]);
    if (all && wants(c, 1)) c->result[1] = batch_first ? situ_transpose(h[0], 0, 1) : h[0];
    if (all && wants(c, 2)) c->result[2] = batch_first ? situ_transpose(cell_state[0], 0, 1) : cell_state[0];
    return all && batch_first ? situ_permute(all, SITU_DIMS(2, 0, 1, 3)) : all;
  }
  for (int64_t d = 0; d < l->directions; d++)
    if (!(y[d] = run_direction(c, l, d, x, &h[d], &cell_state[d]))) return NULL;
  situ_tensor *all = situ_stack(y, (int)l->directions, batch_first ? 2 : 1);
  if (batch_first) all = situ_transpose(all, 0, 1);
  if (wants(c, 1)) c->result[1] = situ_stack(h, (int)l->directions, batch_first ? 1 : 0);
  if (wants(c, 2)) c->result[2] = situ_stack(cell_state, (int)l->directions, batch_first ? 1 : 0);
  return all;
}
static situ_tensor *run_rnn(situ__op_call *c) {
  return run_layer(c, &(layer){ .kind = RNN, .gates = 1, .plain = true });
}
static situ_tensor *run_gru(situ__op_call *c) {
  const bool linear = situ__arg_flag(c, LINEAR);
  return run_layer(c, &(layer){ .kind = GRU, .gates = 3, .plain = linear, .linear_before_reset = linear });
}
static situ_tensor *run_lstm(situ__op_call *c) {
  return run_layer(c, &(layer){ .kind = LSTM, .gates = 4, .plain = true });
}

/* onnxruntime's LSTM of weights of 8 bits, transposed. Its inputs have four more at the end. */
static void drop_scales(const situ__op_call *c, situ__op_call *as, situ__arg arg[FORGET + 1]) {
  memcpy(arg, c->arg, ACTIVATIONS * sizeof *arg);
  memcpy(arg + ACTIVATIONS, c->arg + ACTIVATIONS + 4, (FORGET + 1 - ACTIVATIONS) * sizeof *arg);
  *as = *c;
  as->arg = arg;
}
static const char *dynamic_lstm_lacks(const situ__op_call *c) {
  situ__arg arg[FORGET + 1];
  situ__op_call as;
  drop_scales(c, &as, arg);
  return lstm_lacks(&as);
}
static situ_tensor *run_dynamic_lstm(situ__op_call *c) {
  situ__arg arg[FORGET + 1];
  situ__op_call as;
  layer l = { .kind = LSTM, .gates = 4 };
  for (int k = 0; k < 4; k++) l.scale[k] = situ__arg_tensor(c, ACTIVATIONS + k);
  drop_scales(c, &as, arg);
  return run_layer(&as, &l);
}

/* One list for all three, so that arguments have the same places. */
#define INPUTS "t X, t W, t R, t? B, t? sequence_lens, t? initial_h, t? initial_c, t? P"
#define ATTRIBUTES ", S? activations, n? clip, s? direction(forward|reverse|bidirectional), i layout=0, i? hidden_size"
#define LAYER INPUTS ATTRIBUTES

static const situ__op_row rows[] = {
  { "RNN", LAYER, .inputs = 6, .prepacked = B, .results = 2, .lacks = lacks, .run = run_rnn },
  { "GRU", LAYER ", i linear_before_reset=0", .inputs = 6, .prepacked = B, .results = 2, .lacks = lacks,
    .run = run_gru },
  { "LSTM", LAYER ", i input_forget=0", .inputs = 8, .prepacked = B, .results = 3, .lacks = lstm_lacks,
    .run = run_lstm },
  { "com.microsoft.DynamicQuantizeLSTM",
    INPUTS ", t W_scale, t W_zero_point, t R_scale, t R_zero_point" ATTRIBUTES ", i input_forget=0", .inputs = 12,
    .results = 3, .lacks = dynamic_lstm_lacks, .run = run_dynamic_lstm },
};
const situ__op_family situ__onnx_recurrent_family = { rows, sizeof rows / sizeof *rows };
