/* ATen's lstm, gru and rnn, and their cells: layers and directions of situ's recurrent ops.
   SPDX-License-Identifier: MIT */
#include "program/graph/program.h"

typedef enum cell_kind { TANH, RELU, GRU, LSTM } cell_kind;

typedef struct recurrence {
  cell_kind kind;
  situ_tensor *hx, *cx; /* [layers * directions, N, ..] */
  situ_tensor *const *params;
  int each; /* number of parameters of a direction */
  bool biases;
  int64_t layers, directions;
  double dropout;       /* 0: none */
  situ_tensor **h, **c; /* of each direction of each layer, at the end */
} recurrence;

/* Direction i of all: x [L, N, in] becomes the output. */
static situ_tensor *run_direction(recurrence *r, int64_t i, situ_tensor *x) {
  situ_tensor *const *p = r->params + i * r->each;
  situ_tensor *h = situ_select(r->hx, 0, i), *bias = r->biases ? p[2] : NULL;
  situ_tensor *bias_hh = r->biases ? p[3] : NULL, *weight_hr = r->each == (r->biases ? 5 : 3) ? p[r->each - 1] : NULL;
  if (bias && r->kind != GRU) bias = situ_add(bias, bias_hh);
  situ_tensor *gates = situ_linear(x, p[0], bias), *y;
  const bool reverse = i % r->directions != 0;
  const situ_recurrent_options o = { .reverse = reverse, .relu = r->kind == RELU, .c_n = &r->c[i] };
  if (!gates || (r->biases && !bias)) return NULL;
  if (r->kind == LSTM) y = situ_lstm_layer(gates, p[1], weight_hr, h, situ_select(r->cx, 0, i), &o);
  else if (r->kind == GRU) y = situ_gru_layer(gates, p[1], bias_hh, h, &o);
  else y = situ_rnn_layer(gates, p[1], h, &o);
  r->h[i] = y ? situ_select(y, 0, reverse ? 0 : -1) : NULL;
  return r->h[i] ? y : NULL;
}

static situ_tensor *run_layers(recurrence *r, situ_tensor *x) {
  for (int64_t layer = 0; x && layer < r->layers; layer++) {
    situ_tensor *y[2] = { NULL, NULL };
    for (int64_t d = 0; d < r->directions; d++)
      if (!(y[d] = run_direction(r, layer * r->directions + d, x))) return NULL;
    x = r->directions == 2 ? situ_cat(y, 2, -1) : y[0];
    if (layer + 1 < r->layers && r->dropout > 0) x = situ_dropout(x, r->dropout, true, NULL);
  }
  return x;
}

/* A state after the last step, without the batch if the input has none. */
static situ_tensor *give_state(const recurrence *r, situ_tensor *const *list, bool batched) {
  situ_tensor *all = situ_stack(list, (int)(r->layers * r->directions), 0);
  return batched ? all : situ_select(all, 1, 0);
}

/* Arguments: input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first. */
static situ_tensor *run_recurrent(situ__op_call *c, recurrence *r) {
  int count;
  situ_tensor **params = situ__arg_tensors(c, 2, &count), *x = situ__arg_tensor(c, 0);
  r->params = params;
  r->h = situ__call_take(c, count, sizeof *r->h); /* there are fewer than parameters */
  r->c = situ__call_take(c, count, sizeof *r->c);
  if (!params || !r->h || !r->c) return NULL;
  r->biases = situ__arg_flag(c, 3);
  r->layers = situ__arg_int(c, 4);
  r->directions = situ__arg_flag(c, 7) ? 2 : 1;
  if (situ__arg_flag(c, 6) && situ__call_trains(c)) r->dropout = situ__arg_number(c, 5);
  const int fewest = r->biases ? 4 : 2, most = fewest + (r->kind == LSTM);
  if (r->layers > 0 && r->layers <= count) r->each = (int)(count / (r->layers * r->directions));
  if (r->each < fewest || r->each > most || r->each * r->layers * r->directions != count || !r->hx ||
      (r->kind == LSTM && !r->cx))
    return situ__call_refuse(c, "has another number of parameters or states than its layers need");
  for (int i = 0; i < count; i++)
    if (!params[i]) return situ__call_refuse(c, "lacks a parameter");
  const bool batched = situ_dim(x) == 3, batch_first = batched && situ__arg_flag(c, 8);
  if (!batched) {
    x = situ_unsqueeze(x, 1);
    r->hx = situ_unsqueeze(r->hx, 1);
    if (r->cx) r->cx = situ_unsqueeze(r->cx, 1);
  }
  situ_tensor *y = run_layers(r, batch_first ? situ_transpose(x, 0, 1) : x);
  if (!y) return NULL;
  if (c->node->outs > 1 && !(c->result[1] = give_state(r, r->h, batched))) return NULL;
  if (c->node->outs > 2 && !(c->result[2] = give_state(r, r->c, batched))) return NULL;
  return batch_first ? situ_transpose(y, 0, 1) : batched ? y : situ_select(y, 1, 0);
}

static situ_tensor *run_lstm(situ__op_call *c) {
  int count;
  situ_tensor **states = situ__arg_tensors(c, 1, &count);
  if (count != 2) return situ__call_refuse(c, "has other states than h and c");
  return run_recurrent(c, &(recurrence){ .kind = LSTM, .hx = states[0], .cx = states[1] });
}
static situ_tensor *run_plain(situ__op_call *c, cell_kind kind) {
  return run_recurrent(c, &(recurrence){ .kind = kind, .hx = situ__arg_tensor(c, 1) });
}
static situ_tensor *run_gru(situ__op_call *c) { return run_plain(c, GRU); }
static situ_tensor *run_tanh(situ__op_call *c) { return run_plain(c, TANH); }
static situ_tensor *run_relu(situ__op_call *c) { return run_plain(c, RELU); }

/* One step of one layer. Arguments: input, hx, w_ih, w_hh, b_ih, b_hh. */
static situ_tensor *run_step(situ__op_call *c, recurrence *r) {
  situ_tensor *params[4], *h, *cell = NULL, *x = situ_unsqueeze(situ__arg_tensor(c, 0), 0);
  for (int i = 0; i < 4; i++) params[i] = situ__arg_tensor(c, i + 2);
  r->params = params;
  r->h = &h;
  r->c = &cell;
  r->biases = params[2] != NULL;
  if (r->biases != (params[3] != NULL)) return situ__call_refuse(c, "has one bias of two");
  r->each = r->biases ? 4 : 2;
  r->layers = r->directions = 1;
  r->hx = situ_unsqueeze(r->hx, 0);
  if (r->kind == LSTM) r->cx = situ_unsqueeze(r->cx, 0);
  if (!x || !run_direction(r, 0, x)) return NULL;
  if (c->node->outs > 1) c->result[1] = r->c[0];
  return r->h[0];
}

static situ_tensor *run_lstm_cell(situ__op_call *c) {
  int count;
  situ_tensor **states = situ__arg_tensors(c, 1, &count);
  if (count != 2) return situ__call_refuse(c, "has other states than h and c");
  return run_step(c, &(recurrence){ .kind = LSTM, .hx = states[0], .cx = states[1] });
}
static situ_tensor *run_cell(situ__op_call *c, cell_kind kind) {
  return run_step(c, &(recurrence){ .kind = kind, .hx = situ__arg_tensor(c, 1) });
}
static situ_tensor *run_gru_cell(situ__op_call *c) { return run_cell(c, GRU); }
static situ_tensor *run_tanh_cell(situ__op_call *c) { return run_cell(c, TANH); }
static situ_tensor *run_relu_cell(situ__op_call *c) { return run_cell(c, RELU); }

#define LAYERS "T params, b has_biases, i num_layers, n dropout, b train, b bidirectional, b batch_first"
#define CELL "t w_ih, t w_hh, t? b_ih, t? b_hh"

static const situ__op_row rows[] = {
  { "lstm.input", "t input, T hx, " LAYERS, .results = 3, .run = run_lstm },
  { "gru.input", "t input, t hx, " LAYERS, .results = 2, .run = run_gru },
  { "rnn_tanh.input", "t input, t hx, " LAYERS, .results = 2, .run = run_tanh },
  { "rnn_relu.input", "t input, t hx, " LAYERS, .results = 2, .run = run_relu },
  { "lstm_cell.default", "t input, T hx, " CELL, .results = 2, .run = run_lstm_cell },
  { "gru_cell.default", "t input, t hx, " CELL, .run = run_gru_cell },
  { "rnn_tanh_cell.default", "t input, t hx, " CELL, .run = run_tanh_cell },
  { "rnn_relu_cell.default", "t input, t hx, " CELL, .run = run_relu_cell },
};
const situ__op_family situ__recurrent_family = { rows, sizeof rows / sizeof *rows };
