/* Kernels of convolution by tile registers (AMX): f32 in three parts of bf16 (isa_amx/parts.h), or in one those that
   were bf16. A product of tiles takes 16 pairs of numbers; a pair is what two channels that are 16 apart have in one
   place.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_AMX_H
#define SITU_BACKEND_CPU_CONV_AMX_H

#include "conv.h"
#include "backend/cpu/common/isa.h"

enum {
  SITU__AMX_LANES = 16,      /* floats of a vector, pairs of a step, rows or columns of a tile */
  SITU__AMX_OUTPUTS = 32,    /* of a panel of weights */
  SITU__AMX_TAPS = 64,       /* the most elements of a kernel */
  SITU__AMX_BYTES = 2 * 1024 /* of a step in a panel, for each part */
};

/* Pairs of two planes: element i of both is a pair in each part, of which the second and third are `next` bytes after
   the one before. Whole vectors of pairs are written. */
typedef struct situ__amx_plane {
  const float *low, *high;
  int64_t count, next;
  char *to;
} situ__amx_plane;

/* A panel: the weights of up to 32 outputs for some channels, in groups of 32. */
typedef struct situ__amx_weights {
  const float *w;                                       /* of the first channel and output */
  int64_t outputs, next_output, channels, next_channel; /* the last group of channels may have fewer than 32 */
  int taps;                                             /* elements of the kernel, each of which is a step of a group */
  bool flipped;                                         /* element k of the kernel is the last but k */
  char *to;
} situ__amx_weights;

/* sums [outputs, columns] = (add: +) weights times shifted planes of pairs. */
typedef struct situ__amx_product {
  const char *weights, *pairs;
  const int64_t *at;        /* of each step: bytes from `pairs` to its first pair */
  int64_t steps, row, part; /* row, part: bytes between planes of pairs, between parts */
  float *sums;
  int64_t sums_row, columns; /* a multiple of 16 */
  bool tall, add;            /* tall: more than 16 outputs */
} situ__amx_product;

/* y = sums + bias, or relu of it: rows of one output. */
typedef struct situ__amx_rows {
  const float *sums;
  float *y, bias;
  int64_t rows, width, line; /* line: from row to row of sums */
  bool relu;
} situ__amx_rows;

/* For the weight's gradient (backward_weight_amx.c). 16 lanes of low and of high in `count` places, transposed: in each
   place a row of pairs in each part, of which the second and third are 2 KiB after the one before. */
typedef struct situ__amx_transpose {
  const float *low, *high; /* lane 0 in the first place; places follow each other */
  int64_t lane;            /* from lane to lane */
  int64_t lows, highs;     /* lanes that there are; the others are 0 */
  int64_t count, step;     /* step: bytes from place to place */
  char *to;
} situ__amx_transpose;

/* Places that follow each other, in a panel of outputs and in one of channels. */
typedef struct situ__amx_run {
  const char *a, *b;
  int64_t count;
} situ__amx_run;

/* sums [32 outputs, 32 channels] = (add: +) the products of the places of all runs. */
typedef struct situ__amx_sum {
  const situ__amx_run *run;
  int64_t runs, a_step, b_step; /* steps: bytes from place to place */
  float *sums;
  bool add;
} situ__amx_sum;

/* to [outputs, lanes, places] = sums [places, 32, 32], plus bias of the output, or relu of that; rows of places are
   next_output and next_lane floats apart. */
typedef struct situ__amx_unpack {
  const float *sums, *bias; /* bias: or NULL */
  int64_t places, outputs, lanes, next_output, next_lane;
  float *to;
  bool relu;
} situ__amx_unpack;

typedef struct situ__amx_kernels {
  int parts;
  /* The first two return false if a number does not have three parts. */
  bool (*pair)(const situ__amx_plane *call);
  bool (*pack)(const situ__amx_weights *call);
  void (*multiply)(const situ__amx_product *call);
  void (*finish)(const situ__amx_rows *call);
  /* Of three parts only; transpose returns as the first two do. */
  bool (*transpose)(const situ__amx_transpose *call);
  void (*sum)(const situ__amx_sum *call);
  void (*unpack)(const situ__amx_unpack *call);
} situ__amx_kernels;

/* ---- amx_panels.c ---- */

/* Whether tile registers suit forward, at strides 1 and 2, or the data's gradient at stride 1. */
bool situ__conv_suits_amx(const situ__conv *geometry);
const situ__amx_kernels *situ__conv_amx_kernels_for(const situ__conv *geometry);
/* The panel of weights for some groups of channels, as it was laid out before, or packed into `to`; NULL: they do not
   have three parts. */
const char *situ__conv_amx_panel(const situ__conv *geometry, int64_t panel, int64_t group, int64_t groups, char *to);
/* Lays out the weights of forward passes with this window, into situ_conv_prepack_bytes, if that is `offered`: x and y
   are not looked at. */
bool situ__conv_amx_offers_prepack(const situ__conv *geometry);
void situ__conv_amx_prepack(const situ__conv *geometry, char *to);

#endif
