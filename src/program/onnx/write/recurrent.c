/* ATen's recurrent layers as ONNX operators: one for each layer, with both directions.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "write.h"

#define IN SITU__ONNX_IN

typedef struct layers {
  const char *type; /* LSTM, GRU, RNN */
  int parts;        /* gates of a hidden unit */
  int order[4];     /* torch's place of each gate of ONNX */
  int64_t hidden, count, directions;
  int each; /* number of parameters of a direction */
  bool biases;
  const char *activations;
} layers;

/* The rows of a parameter, [parts * hidden, ..], in ONNX's order of gates, after a dimension for the direction. */
static const char *ordered(situ__onnx_writer *w, const layers *l, int parameter) {
  const char *x = situ__onnx_item(w, 2, parameter), *piece[5] = { NULL };
  for (int g = 0; l->parts > 1 && g < l->parts; g++) {
    const char *start = situ__onnx_int(w, l->order[g] * l->hidden),
               *end = situ__onnx_int(w, (l->order[g] + 1) * l->hidden);
    piece[g] = situ__onnx_put(w, "Slice", IN(x, start, end, situ__onnx_int(w, 0)), "");
  }
  if (l->parts > 1) x = situ__onnx_put(w, "Concat", piece, "axis:i", (int64_t)0);
  return situ__onnx_put2(w, "Unsqueeze", x, situ__onnx_int(w, 0));
}

/* Parameter `which` of both directions of a layer; which 2: both biases, side by side. */
static const char *of_directions(situ__onnx_writer *w, const layers *l, int64_t layer, int which) {
  const char *side[3] = { NULL };
  for (int64_t d = 0; d < l->directions; d++) {
    const int first = (int)(layer * l->directions + d) * l->each;
    side[d] = ordered(w, l, first + which);
    if (which == 2) side[d] = situ__onnx_put(w, "Concat", IN(side[d], ordered(w, l, first + 3)), "axis:i", (int64_t)1);
  }
  return l->directions == 1 ? side[0] : situ__onnx_put(w, "Concat", side, "axis:i", (int64_t)0);
}

/* The states of a layer, [directions, N, ..]. */
static const char *state_of(situ__onnx_writer *w, const layers *l, const char *all, int64_t layer) {
  if (l->count == 1) return all;
  const char *start = situ__onnx_int(w, layer * l->directions), *end = situ__onnx_int(w, (layer + 1) * l->directions);
  return situ__onnx_put(w, "Slice", IN(all, start, end, situ__onnx_int(w, 0)), "");
}

static bool put_layer(situ__onnx_writer *w, const layers *l, const char *const *in, const char **out) {
  const char *direction = l->directions == 2 ? "bidirectional" : "forward";
  const int outs = *l->type == 'L' ? 3 : 2;
  if (*l->type == 'G')
    return situ__onnx_put_all(w, l->type, in, out, outs, "hidden_size:i direction:s linear_before_reset:i", l->hidden,
                              direction, (int64_t)1);
  if (*l->type == 'L')
    return situ__onnx_put_all(w, l->type, in, out, outs, "hidden_size:i direction:s", l->hidden, direction);
  return situ__onnx_put_all(w, l->type, in, out, outs, "hidden_size:i direction:s activations:S", l->hidden, direction,
                            l->activations, (int)l->directions);
}

/* [L, directions, N, hidden] as [L, N, directions * hidden]. */
static const char *side_by_side(situ__onnx_writer *w, const char *y, const layers *l) {
  if (l->directions == 1) return situ__onnx_put2(w, "Squeeze", y, situ__onnx_int(w, 1));
  y = situ__onnx_put(w, "Transpose", IN(y), "perm:I", &SITU_SHAPE(0, 2, 1, 3));
  const situ_shape sizes = SITU_SHAPE(0, 0, 2 * l->hidden); /* 0: that of y */
  return situ__onnx_put2(w, "Reshape", y, situ__onnx_ints(w, &sizes));
}

static const char *join_states(situ__onnx_writer *w, const layers *l, const char *const *list) {
  return l->count == 1 ? list[0] : situ__onnx_put(w, "Concat", list, "axis:i", (int64_t)0);
}

/* Arguments: input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first. */
static const char *write_layers(situ__onnx_writer *w, layers *l, const char *h, const char *c) {
  enum { MOST = 64 };
  const char *hs[MOST + 1] = { NULL }, *cs[MOST + 1] = { NULL }, *x = situ__onnx_arg(w, 0);
  const bool batch_first = situ__arg_flag(&w->call, 8);
  l->biases = situ__arg_flag(&w->call, 3);
  l->count = situ__arg_int(&w->call, 4);
  l->directions = situ__arg_flag(&w->call, 7) ? 2 : 1;
  l->each = l->biases ? 4 : 2;
  l->hidden = situ__onnx_item_about(w, 2, 1)->size.dim[0] / l->parts;
  const bool drops = l->count > 1 && situ__arg_number(&w->call, 5) > 0 && situ__arg_flag(&w->call, 6);
  if (drops && situ__call_trains(&w->call))
    return situ__onnx_lacks(w, "drops out: call situ_nn_eval before the export");
  if (l->count < 1 || l->count > MOST || situ__onnx_items(w, 2) != l->count * l->directions * l->each)
    return situ__onnx_lacks(w, "has a projection, or more than 64 layers");
  if (situ__onnx_about(w, 0)->size.ndim != 3) return situ__onnx_lacks(w, "has an input without a batch");
  if (batch_first) x = situ__onnx_put(w, "Transpose", IN(x), "perm:I", &SITU_SHAPE(1, 0, 2));
  for (int64_t i = 0; i < l->count; i++) {
    const char *weight = of_directions(w, l, i, 0), *recurrence = of_directions(w, l, i, 1), *out[3] = { NULL };
    const char *bias = l->biases ? of_directions(w, l, i, 2) : "", *start = state_of(w, l, h, i);
    const char *cell = c ? state_of(w, l, c, i) : NULL; /* NULL ends the list: only LSTM has it */
    if (!put_layer(w, l, IN(x, weight, recurrence, bias, "", start, cell), out)) return NULL;
    x = side_by_side(w, out[0], l);
    hs[i] = out[1];
    cs[i] = out[2];
  }
  if (w->node->outs > 1) w->result[0] = join_states(w, l, hs);
  if (w->node->outs > 2) w->result[1] = join_states(w, l, cs);
  return batch_first ? situ__onnx_put(w, "Transpose", IN(x), "perm:I", &SITU_SHAPE(1, 0, 2)) : x;
}

static const char *write_lstm(situ__onnx_writer *w) {
  layers l = { .type = "LSTM", .parts = 4, .order = { 0, 3, 1, 2 } };
  return write_layers(w, &l, situ__onnx_item(w, 1, 0), situ__onnx_item(w, 1, 1));
}
static const char *write_gru(situ__onnx_writer *w) {
  layers l = { .type = "GRU", .parts = 3, .order = { 1, 0, 2 } };
  return write_layers(w, &l, situ__onnx_arg(w, 1), NULL);
}
static const char *write_rnn(situ__onnx_writer *w) {
  layers l = { .type = "RNN", .parts = 1 };
  l.activations = strstr(w->node->row->target, "relu") ? "Relu" : "Tanh";
  return write_layers(w, &l, situ__onnx_arg(w, 1), NULL);
}

static const situ__onnx_form forms[] = {
  { "lstm.input", .write = write_lstm },
  { "gru.input", .write = write_gru },
  { "rnn_tanh.input", .write = write_rnn },
  { "rnn_relu.input", .write = write_rnn },
};
const situ__onnx_forms situ__onnx_form_recurrent = { forms, sizeof forms / sizeof *forms };
