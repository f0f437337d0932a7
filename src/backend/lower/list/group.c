/* Works whose kernels fold lines, rows or tiles, which a work-group or a warp may share. Sizes decide which: a few
   elements, a warp's row, a work-group's, and longer ones.
   SPDX-License-Identifier: MIT */
#include <math.h>

#include "backend/lower/list/list.h"

enum { ALL = SITU__LIST_ALL, FLOATS = SITU__LIST_FLOATS };
static const int64_t widths[] = { 100, 5000, 50000 }; /* rows of a warp, of a work-group, and longer ones */
enum { WIDTHS = sizeof widths / sizeof *widths };

/* ---- reductions ------------------------------------------------------------------------------ */

/* Lines of adjacent elements, columns, and all elements; few and many terms. The shortest pieces of a long line have a
   work-item each if its elements are not adjacent. */
static void ask_reduce(int op, double p, int compute, int x, int y) {
  static const int64_t shape[][2] = { { 4, 8 }, { 4, 100 }, { 100, 4 }, { 100000, 4 } };
#define REDUCE(...)                                                                                             \
  ASK(.verb = SITU_VERB_REDUCE, .op = op, .compute = (situ_dtype)compute, .scalar = { p }, .ins = 1, .outs = 1, \
      __VA_ARGS__)
  for (int k = 0; k < 4; k++) {
    const int64_t rows = shape[k][0], width = shape[k][1];
    REDUCE(.in = { VIEW(x, rows, width) }, .out = { VIEW(y, rows, 1) });
    REDUCE(.in = { VIEW(x, rows, width) }, .out = { VIEW(y, 1, width) });
  }
  REDUCE(.in = { VIEW(x, 1 << 20) }, .out = { VIEW(y, 1) });
  situ_view_desc apart = *VIEW(x, 1 << 16);
  apart.stride[0] = 2, apart.contiguous = false;
  REDUCE(.in = { &apart }, .out = { VIEW(y, 1) });
#undef REDUCE
}

/* Tests give bool, counts i64, norms a floating dtype, as do means, deviations and logsumexp. Means of squares keep
   their operand's. */
void situ__list_reduce(void) {
  static const double p[] = { 0, 1, 2, 3, INFINITY, -INFINITY };
  for (int op = 0; op < SITU_REDUCES; op++) {
    const bool floating = op == SITU_REDUCE_MEAN || op == SITU_REDUCE_VAR || op == SITU_REDUCE_STD ||
                          op == SITU_REDUCE_LOGSUMEXP || op == SITU_REDUCE_NORM || op == SITU_REDUCE_MEAN_SQUARE;
    for (int x = ALL; x < SITU_DTYPES; x++)
      for (int y = floating ? FLOATS : ALL; y < SITU_DTYPES; y++) {
        const bool test = op == SITU_REDUCE_ALL || op == SITU_REDUCE_ANY, counts = op == SITU_REDUCE_COUNT;
        if ((test && y != SITU_BOOL) || (counts && y != SITU_I64) || (op == SITU_REDUCE_MEAN_SQUARE && y != x))
          continue;
        const int compute = test || counts ? x : y;
        for (int k = 0; k < (op == SITU_REDUCE_NORM ? 6 : 1); k++) ask_reduce(op, p[k], compute, x, y);
      }
  }
}

/* ---- rows ------------------------------------------------------------------------------------ */

void situ__list_softmax(void) {
  static const int64_t shape[][3] = { { 4, 4, 1 }, { 1, 100, 4 } }; /* a line for each work-item, for each work-group */
  for (int op = SITU_SOFTMAX; op <= SITU_LOG_SOFTMAX_GRAD; op++)
    for (int t = FLOATS; t < SITU_DTYPES; t++) {
#define SOFTMAX(...)                                                              \
  ASK(.verb = SITU_VERB_SOFTMAX, .op = op, .integer = { 1 }, .ins = 2, .outs = 1, \
      .in = { VIEW(t, __VA_ARGS__), VIEW(t, __VA_ARGS__) }, .out = { VIEW(t, __VA_ARGS__) })
      for (int k = 0; k < 2; k++) SOFTMAX(shape[k][0], shape[k][1], shape[k][2]);
      for (int k = 0; k < WIDTHS; k++) SOFTMAX(4, widths[k], 1);
#undef SOFTMAX
    }
}

/* Parameters are of x's dtype or, beside halves, of f32; statistics are of the compute type. */
static void ask_norm(int op, int t, int p, int64_t rows, int64_t width) {
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)t);
  const bool centred = op < SITU_RMS_NORM;
  const situ_view_desc *x = VIEW(t, rows, width), *rstd = VIEW(compute, rows), *mean = VIEW(compute, rows),
                       *weight = VIEW(p, width);
  situ_work work = { SITU_VERB_NORM, .op = op, .ins = 5, .outs = 3 };
  if (op == SITU_LAYER_NORM_GRAD || op == SITU_RMS_NORM_GRAD) {
    const situ_view_desc *in[] = { x, x, centred ? mean : rstd, centred ? rstd : weight, centred ? weight : NULL };
    for (int k = 0; k < 5; k++) work.in[k] = in[k];
    work.out[0] = x, work.out[1] = weight, work.out[2] = centred ? weight : NULL;
  } else {
    work.in[0] = x, work.in[1] = weight, work.in[2] = centred ? weight : NULL;
    work.out[0] = x, work.out[1] = centred ? mean : rstd, work.out[2] = centred ? rstd : NULL;
  }
  situ__list_ask(&work);
}

void situ__list_norm(void) {
  for (int op = SITU_LAYER_NORM; op <= SITU_RMS_NORM_GRAD; op++)
    for (int t = FLOATS; t < SITU_DTYPES; t++)
      for (int same = 0; same < 2; same++) {
        const int p = same ? t : (int)situ__lower_compute_dtype((situ_dtype)t);
        for (int k = 0; k < WIDTHS; k++) ask_norm(op, t, p, 4, widths[k]);
        ask_norm(op, t, p, 100000, 4); /* many rows: their sums are added in slices */
      }
}

/* Parameters and running statistics of any dtype. */
void situ__list_batch_norm(void) {
  for (int t = FLOATS; t < SITU_DTYPES; t++)
    for (int p = FLOATS; p < SITU_DTYPES; p++) {
      const situ_view_desc *x = VIEW(t, 4, 3, 8), *v = VIEW(p, 3),
                           *s = VIEW(situ__lower_compute_dtype((situ_dtype)t), 3);
      ASK(.verb = SITU_VERB_BATCH_NORM, .op = SITU_BATCH_NORM, .integer = { 1 }, .ins = 5, .outs = 5,
          .in = { x, v, v, v, v }, .out = { x, s, s, v, v });
      ASK(.verb = SITU_VERB_BATCH_NORM, .op = SITU_BATCH_NORM_GRAD, .integer = { 1 }, .ins = 5, .outs = 3,
          .in = { x, x, s, s, v }, .out = { x, v, v });
    }
}

static void ask_nll(int t, int reduction, bool logits, bool weighted, int64_t rows, int64_t classes, int64_t inner) {
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)t);
  const situ_view_desc *x = VIEW(t, rows, classes, inner), *target = VIEW(SITU_I64, rows, inner),
                       *weight = weighted ? VIEW(t, classes) : NULL, *loss = VIEW(t, rows, inner),
                       *sum = VIEW(compute, 1), *lse = logits ? VIEW(compute, rows, inner) : NULL;
  ASK(.verb = SITU_VERB_NLL, .op = SITU_NLL, .integer = { -100, reduction, logits }, .ins = 3, .outs = 3,
      .in = { x, target, weight }, .out = { reduction == SITU_REDUCTION_NONE ? loss : VIEW(t, 1), sum, lse });
  ASK(.verb = SITU_VERB_NLL, .op = SITU_NLL_GRAD, .integer = { -100, reduction, logits }, .ins = 6, .outs = 1,
      .in = { loss, x, target, weight, sum, lse }, .out = { x });
}

void situ__list_nll(void) {
  static const int64_t rows[] = { 4, 100, 100000 }; /* sums by a work-item, by a work-group, in pieces */
  static const situ_reduction reductions[] = { SITU_REDUCTION_NONE, SITU_REDUCTION_MEAN, SITU_REDUCTION_SUM };
  for (int t = FLOATS; t < SITU_DTYPES; t++)
    for (int choice = 0; choice < 12; choice++) {
      const situ_reduction reduction = reductions[choice % 3];
      const bool logits = choice / 3 % 2, weighted = choice / 6;
      for (int k = 0; k < 3; k++) ask_nll(t, reduction, logits, weighted, rows[k], 4, 2);
      for (int k = 0; k < WIDTHS; k++) ask_nll(t, reduction, logits, weighted, 4, widths[k], 1);
    }
}

/* ---- products: convolution asks for those with its columns ------------------------------------- */

void situ__list_matmul(void) {
  for (int t = ALL; t < SITU_DTYPES; t++)
    for (int bias = 0; bias < 2; bias++)
      ASK(.verb = SITU_VERB_MATMUL, .compute = (situ_dtype)t, .scalar = { 1, bias }, .ins = 3, .outs = 1,
          .in = { VIEW(t, 9, 9), VIEW(t, 9, 9), bias ? VIEW(t, 9, 9) : NULL }, .out = { VIEW(t, 9, 9) });
}

/* Without a mask, and with one that is bool or of the compute type. */
void situ__list_attention(void) {
  for (int t = FLOATS; t < SITU_DTYPES; t++)
    for (int masked = 0; masked < 3; masked++) {
      const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)t);
      const situ_view_desc *x = VIEW(t, 2, 9, 8), *stats = VIEW(compute, 2, 9, 1),
                           *mask = masked == 0 ? NULL : VIEW(masked == 1 ? SITU_BOOL : compute, 2, 9, 9);
      ASK(.verb = SITU_VERB_ATTENTION, .op = SITU_ATTENTION, .ins = 4, .outs = 2, .in = { x, x, x, mask },
          .out = { x, stats });
      ASK(.verb = SITU_VERB_ATTENTION, .op = SITU_ATTENTION_GRAD, .ins = 7, .outs = 3,
          .in = { x, x, x, x, stats, x, mask }, .out = { x, x, x });
    }
}
