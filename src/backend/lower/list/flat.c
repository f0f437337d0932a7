/* Works whose kernels have one work-item for each element or pack, and those of sorting and indices.
   SPDX-License-Identifier: MIT */
#include "backend/lower/list/list.h"

enum { ALL = SITU__LIST_ALL, FLOATS = SITU__LIST_FLOATS };

/* ---- element by element: lowering casts to one dtype, in which it computes --------------------- */

void situ__list_copy(void) {
  for (int to = ALL; to < SITU_DTYPES; to++)
    for (int from = ALL; from < SITU_DTYPES; from++)
      for (int outs = 1; outs <= 2; outs++) /* out[1] counts values that become infinite */
        ASK(.verb = SITU_VERB_COPY, .ins = 1, .outs = outs, .in = { VIEW(from, 9) },
            .out = { VIEW(to, 9), VIEW(SITU_I64, 1) });
}

void situ__list_unary(void) {
  for (int op = 0; op < SITU_UNARIES; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      ASK(.verb = SITU_VERB_UNARY, .op = op, .compute = (situ_dtype)t, .ins = 1, .outs = 1, .in = { VIEW(t, 9) },
          .out = { VIEW(t, 9) }, .scalar = { 1 });
}

void situ__list_unary_grad(void) {
  for (int op = 0; op < SITU_UNARIES; op++)
    for (int t = FLOATS; t < SITU_DTYPES; t++)
      ASK(.verb = SITU_VERB_UNARY_GRAD, .op = op, .compute = (situ_dtype)t, .ins = 3, .outs = 1,
          .in = { VIEW(t, 9), VIEW(t, 9), VIEW(t, 9) }, .out = { VIEW(t, 9) });
}

void situ__list_binary(void) {
  for (int op = 0; op < SITU_BINARIES; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      ASK(.verb = SITU_VERB_BINARY, .op = op, .compute = (situ_dtype)t, .ins = 2, .outs = 1,
          .in = { VIEW(t, 9), VIEW(t, 9) }, .out = { VIEW(t, 9) });
}

void situ__list_ternary(void) {
  for (int op = 0; op < SITU_TERNARIES; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      ASK(.verb = SITU_VERB_TERNARY, .op = op, .compute = (situ_dtype)t, .ins = 3, .outs = 1,
          .in = { VIEW(op == SITU_TERNARY_WHERE ? SITU_BOOL : t, 9), VIEW(t, 9), VIEW(t, 9) }, .out = { VIEW(t, 9) });
}

/* ---- new values ------------------------------------------------------------------------------ */

void situ__list_fill(void) {
  for (int t = ALL; t < SITU_DTYPES; t++) ASK(.verb = SITU_VERB_FILL, .outs = 1, .out = { VIEW(t, 9) });
}

void situ__list_range(void) {
  for (int op = 0; op < 2; op++)
    for (int t = ALL; t < SITU_DTYPES; t++) ASK(.verb = SITU_VERB_RANGE, .op = op, .outs = 1, .out = { VIEW(t, 9) });
}

void situ__list_random(void) {
  for (int op = 0; op < SITU_RANDOMS; op++) {
    const bool i64 = op >= SITU_RANDOM_RAW;
    const int first = op <= SITU_RANDOM_NORMAL ? FLOATS : i64 ? SITU_I64 : ALL;
    for (int t = first; t < (i64 ? SITU_I64 + 1 : SITU_DTYPES); t++) {
      ASK(.verb = SITU_VERB_RANDOM, .op = op, .outs = 1, .out = { VIEW(t, 9) });
      for (int chance = FLOATS; op == SITU_RANDOM_BERNOULLI && chance < SITU_DTYPES; chance++)
        ASK(.verb = SITU_VERB_RANDOM, .op = op, .ins = 1, .outs = 1, .in = { VIEW(chance, 9) }, .out = { VIEW(t, 9) });
    }
  }
}

void situ__list_blocks(void) {
  for (int type = SITU_BLOCK_Q8_0; type < SITU_BLOCK_TYPES; type++)
    ASK(.verb = SITU_VERB_BLOCKS, .op = SITU_BLOCKS_VALUES, .compute = SITU_F32, .ins = 1, .outs = 1,
        .in = { VIEW(SITU_U8, 1, 1) }, .out = { VIEW(SITU_F32, 1, 1) }, .integer = { type });
}

void situ__list_triangle(void) {
  for (int op = 0; op < 2; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      ASK(.verb = SITU_VERB_TRIANGLE, .op = op, .ins = 1, .outs = 1, .in = { VIEW(t, 3, 3) }, .out = { VIEW(t, 3, 3) });
}

/* ---- indices, sorting ------------------------------------------------------------------------ */

void situ__list_gather(void) {
  for (int t = ALL; t < SITU_DTYPES; t++)
    for (int index = SITU_I32; index <= SITU_I64; index++)
      ASK(.verb = SITU_VERB_GATHER, .op = SITU_INDEX_ELEMENTS, .ins = 2, .outs = 1,
          .in = { VIEW(t, 9), VIEW(index, 9) }, .out = { VIEW(t, 9) });
}

void situ__list_scatter(void) {
  for (int t = ALL; t < SITU_DTYPES; t++)
    for (int index = SITU_I32; index <= SITU_I64; index++)
      for (int add = 0; add <= SITU_INDEX_ADD; add += SITU_INDEX_ADD)
        ASK(.verb = SITU_VERB_SCATTER, .op = SITU_INDEX_ELEMENTS | add, .ins = 2, .outs = 1,
            .in = { VIEW(index, 9), VIEW(t, 9) }, .out = { VIEW(t, 9) });
}

void situ__list_arg_reduce(void) {
  for (int op = 0; op < 2; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      for (int values = 0; values < 2; values++)
        ASK(.verb = SITU_VERB_ARG_REDUCE, .op = op, .ins = 1, .outs = 2, .in = { VIEW(t, 9) },
            .out = { values ? VIEW(t, 1) : NULL, VIEW(SITU_I64, 1) });
}

/* Sums and products of integers are of their dtype or i64. */
void situ__list_scan(void) {
  for (int t = ALL; t < SITU_DTYPES; t++) {
    for (int pass = SITU_SCAN_SUM; pass <= SITU_SCAN_PROD; pass++) {
      ASK(.verb = SITU_VERB_SCAN, .op = pass, .ins = 1, .outs = 1, .in = { VIEW(t, 9) }, .out = { VIEW(t, 9) });
      if (t < FLOATS)
        ASK(.verb = SITU_VERB_SCAN, .op = pass, .ins = 1, .outs = 1, .in = { VIEW(t, 9) },
            .out = { VIEW(SITU_I64, 9) });
    }
    if (t >= FLOATS)
      ASK(.verb = SITU_VERB_SCAN, .op = SITU_SCAN_PROD_GRAD, .ins = 3, .outs = 1,
          .in = { VIEW(t, 9), VIEW(t, 9), VIEW(t, 9) }, .out = { VIEW(t, 9) });
  }
}

void situ__list_sort(void) {
  for (int t = ALL; t < SITU_DTYPES; t++)
    for (int descending = 0; descending < 2; descending++)
      for (int wanted = 1; wanted <= 3; wanted++)
        ASK(.verb = SITU_VERB_SORT, .op = descending, .ins = 1, .outs = 2, .in = { VIEW(t, 9) },
            .out = { wanted & 1 ? VIEW(t, 9) : NULL, wanted & 2 ? VIEW(SITU_I64, 9) : NULL });
}

void situ__list_nonzero(void) {
  for (int t = ALL; t < SITU_DTYPES; t++)
    ASK(.verb = SITU_VERB_NONZERO, .ins = 1, .outs = 1, .in = { VIEW(t, 9) }, .out = { VIEW(SITU_I64, 9, 1) });
}

/* ---- windows --------------------------------------------------------------------------------- */

/* Results have the operand's dtype; convolution adds in the compute type. */
void situ__list_pool(void) {
  const situ_window w = { .kernel = { 2, 2 }, .stride = { 2, 2 }, .groups = 1 };
  for (int op = SITU_POOL_MAX; op <= SITU_POOL_ADAPTIVE_AVG_GRAD; op++)
    for (int t = ALL; t < SITU_DTYPES; t++)
      for (int outs = 1; outs <= 2; outs++) {
        const bool back = op == SITU_POOL_MAX_GRAD || op == SITU_POOL_AVG_GRAD || op == SITU_POOL_ADAPTIVE_AVG_GRAD;
        const situ_view_desc *large = VIEW(t, 1, 1, 4, 4), *small = VIEW(t, 1, 1, 2, 2),
                             *where = VIEW(SITU_I64, 1, 1, 2, 2);
        ASK(.verb = SITU_VERB_POOL, .op = op, .ins = 2, .outs = outs, .window = &w,
            .in = { back ? small : large, where }, .out = { back ? large : small, where });
      }
}

void situ__list_resample(void) {
  for (int transposed = 0; transposed < 2; transposed++)
    for (int t = SITU_F32; t <= SITU_F64; t++)
      ASK(.verb = SITU_VERB_RESAMPLE, .op = transposed, .ins = 1, .outs = 1, .in = { VIEW(t, 1, 4, 3) },
          .out = { VIEW(t, 1, 6, 3) }, .integer = { 1 });
}

void situ__list_fft(void) {
  for (int t = SITU_F32; t <= SITU_F64; t++)
    ASK(.verb = SITU_VERB_FFT, .op = SITU_FFT_COMPLEX, .ins = 1, .outs = 1, .in = { VIEW(t, 1, 4, 2) },
        .out = { VIEW(t, 1, 4, 2) }, .integer = { 1 });
}

void situ__list_conv(void) {
  const situ_window w = { .kernel = { 3, 3 }, .stride = { 1, 1 }, .groups = 1 };
  for (int t = ALL; t < SITU_DTYPES; t++)
    for (int bias = 0; bias < 2; bias++) {
      const situ_view_desc *x = VIEW(t, 2, 3, 8, 8), *weight = VIEW(t, 5, 3, 3, 3), *y = VIEW(t, 2, 5, 6, 6);
      ASK(.verb = SITU_VERB_CONV, .op = SITU_CONV_FORWARD, .ins = 3, .outs = 1, .window = &w,
          .in = { x, weight, bias ? VIEW(t, 5) : NULL }, .out = { y });
      ASK(.verb = SITU_VERB_CONV, .op = SITU_CONV_GRAD_DATA, .ins = 3, .outs = 1, .window = &w,
          .in = { y, weight, bias ? VIEW(t, 3) : NULL }, .out = { x });
      ASK(.verb = SITU_VERB_CONV, .op = SITU_CONV_GRAD_WEIGHT, .ins = 2, .outs = 1, .window = &w, .in = { x, y },
          .out = { weight });
    }
}

/* ---- optimisers ------------------------------------------------------------------------------ */

void situ__list_optimizer(void) {
  for (int t = FLOATS; t < SITU_DTYPES; t++)
    for (int rule = SITU_RULE_SGD; rule < SITU_RULES; rule++)
      for (int choice = 0; choice < 16; choice++) {
        const situ_optimizer_params params = { .momentum = choice & 1 ? 0.9 : 0,
                                               .nesterov = choice & 1 && choice & 2,
                                               .amsgrad = choice & 4,
                                               .centered = choice & 4 };
        const situ_view_desc *v = VIEW(t, 9);
        const situ_optimizer_item item = { v, v, { v, v, v }, .step = choice & 8 ? 2 : 1 };
        ASK(.verb = SITU_VERB_OPTIMIZER, .op = rule, .list = &item, .list_count = 1, .params = &params);
      }
}

/* ---- recurrent cells --------------------------------------------------------------------------- */

void situ__list_cell(void) {
  for (int t = FLOATS; t < SITU_DTYPES; t++) {
    const situ_view_desc *one = VIEW(t, 2, 3), *three = VIEW(t, 2, 9), *four = VIEW(t, 2, 12);
    ASK(.verb = SITU_VERB_CELL, .op = SITU_CELL_LSTM, .ins = 3, .outs = 3, .in = { four, four, one },
        .out = { four, one, one });
    ASK(.verb = SITU_VERB_CELL, .op = SITU_CELL_LSTM_GRAD, .ins = 5, .outs = 2, .in = { four, one, one, one, one },
        .out = { four, one });
    ASK(.verb = SITU_VERB_CELL, .op = SITU_CELL_GRU, .ins = 3, .outs = 2, .in = { three, three, one },
        .out = { four, one });
    ASK(.verb = SITU_VERB_CELL, .op = SITU_CELL_GRU_GRAD, .ins = 4, .outs = 3, .in = { four, one, one, one },
        .out = { three, three, one });
  }
}
