/* Kernels of convolution by tile registers (AMX): f32 in three parts of bf16 (isa_amx/parts.h), or in one those that
   were bf16. A product of tiles takes 16 pairs of numbers; a pair is what two channels that are 16 apart have in one
   place.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_PARTS_H
#define SITU_BACKEND_CPU_CONV_PARTS_H

#include "backend/cpu/common/cpu.h"

enum {
  SITU__PARTS_LANES = 16,      /* floats of a vector, pairs of a step, rows or columns of a tile */
  SITU__PARTS_OUTPUTS = 32,    /* of a panel of weights */
  SITU__PARTS_TAPS = 64,       /* the most elements of a kernel */
  SITU__PARTS_BYTES = 2 * 1024 /* of a step in a panel, for each part */
};

/* Pairs of two planes: element i of both is a pair in each part, of which the second and third are `next` bytes after
   the one before. Whole vectors of pairs are written. */
typedef struct situ__parts_plane {
  const float *low, *high;
  int64_t count, next;
  char *to;
} situ__parts_plane;

/* A panel: the weights of up to 32 outputs for some channels, in groups of 32. */
typedef struct situ__parts_weights {
  const float *w;                                       /* of the first channel and output */
  int64_t outputs, next_output, channels, next_channel; /* the last group of channels may have fewer than 32 */
  int taps;                                             /* elements of the kernel, each of which is a step of a group */
  bool turned;                                          /* element k of the kernel is the last but k */
  char *to;
} situ__parts_weights;

/* sums [outputs, columns] = (add: +) weights times shifted planes of pairs. */
typedef struct situ__parts_product {
  const char *weights, *pairs;
  const int64_t *at;        /* of each step: bytes from `pairs` to its first pair */
  int64_t steps, row, part; /* row, part: bytes between planes of pairs, between parts */
  float *sums;
  int64_t sums_row, columns; /* a multiple of 16 */
  bool tall, add;            /* tall: more than 16 outputs */
} situ__parts_product;

/* y = sums + bias, or relu of it: rows of one output. */
typedef struct situ__parts_rows {
  const float *sums;
  float *y, bias;
  int64_t rows, width, line; /* line: from row to row of sums */
  bool relu;
} situ__parts_rows;

/* For the weight's gradient (weights.c). 16 lanes of low and of high in `count` places, turned: in each place a
   row of pairs in each part, of which the second and third are 2 KiB after the one before. */
typedef struct situ__parts_turned {
  const float *low, *high; /* lane 0 in the first place; places follow each other */
  int64_t lane;            /* from lane to lane */
  int64_t lows, highs;     /* lanes that there are; the others are 0 */
  int64_t count, step;     /* step: bytes from place to place */
  char *to;
} situ__parts_turned;

/* Places that follow each other, in a panel of outputs and in one of channels. */
typedef struct situ__parts_run {
  const char *a, *b;
  int64_t count;
} situ__parts_run;

/* sums [32 outputs, 32 channels] = (add: +) the products of the places of all runs. */
typedef struct situ__parts_sum {
  const situ__parts_run *run;
  int64_t runs, a_step, b_step; /* steps: bytes from place to place */
  float *sums;
  bool add;
} situ__parts_sum;

/* to [outputs, lanes, places] = sums [places, 32, 32], plus bias of the output, or relu of that; rows of places are
   next_output and next_lane floats apart. */
typedef struct situ__parts_unpack {
  const float *sums, *bias; /* bias: or NULL */
  int64_t places, outputs, lanes, next_output, next_lane;
  float *to;
  bool relu;
} situ__parts_unpack;

typedef struct situ__parts_kernels {
  int parts;
  /* The first two return false if a number does not have three parts. */
  bool (*pair)(const situ__parts_plane *call);
  bool (*pack)(const situ__parts_weights *call);
  void (*multiply)(const situ__parts_product *call);
  void (*finish)(const situ__parts_rows *call);
  /* Of three parts only; turn returns as the first two do. */
  bool (*turn)(const situ__parts_turned *call);
  void (*sum)(const situ__parts_sum *call);
  void (*unpack)(const situ__parts_unpack *call);
} situ__parts_kernels;

#endif
