/* Kernels of a convolution for this processor, and columns of register tiles; sums of parts.
   SPDX-License-Identifier: MIT */
#include "conv.h"
#include "im2col.h"
#include "backend/cpu/common/isa.h"

#include "base/pool.h"

enum { TALL = SITU__CONV_HEIGHTS - 1 };
static const int height[SITU__CONV_HEIGHTS] = { 1, 2, 4, 6, 8 };

SITU__ISA_DECLARE(situ__conv_kernels, situ__conv_kernels_f32);
SITU__ISA_DECLARE(situ__conv_kernels, situ__conv_kernels_f64);
extern const situ__conv_kernels situ__conv_kernels_bf16_pairs;
SITU__ISA_DECLARE(situ__im2col_kernels, situ__im2col_kernels_f32);
SITU__ISA_DECLARE(situ__im2col_kernels, situ__im2col_kernels_f64);
const situ__conv_kernels *situ__conv_kernels_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__conv_kernels_f64) : SITU__ISA_PICK(isa, situ__conv_kernels_f32);
}

const situ__im2col_kernels *situ__im2col_kernels_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__im2col_kernels_f64)
                           : SITU__ISA_PICK(isa, situ__im2col_kernels_f32);
}

const situ__conv_kernels *situ__conv_kernels_for_bf16_pairs(void) {
#ifdef SITU_HAVE_ISA_BF16
  if (situ__cpu_isa() == SITU__ISA_BF16) return &situ__conv_kernels_bf16_pairs;
#endif
  return NULL;
}

int situ__conv_tallest(const situ__conv_kernels *kernels, int64_t outputs) {
  return outputs % height[TALL] == 0 && kernels->tile[2][TALL] ? TALL : TALL - 1;
}

int situ__conv_widest(const situ__conv_kernels *kernels, int tallest) {
  int widest = 0;
  while (widest < SITU__CONV_WIDTHS && kernels->tile[widest][tallest]) widest++;
  return widest;
}

int situ__conv_next(const situ__conv_kernels *kernels, int vectors, int64_t outputs, int tallest, int *rows) {
  const situ__conv_tile_fn *tile = kernels->tile[vectors - 1];
  int h = tallest;
  while (!tile[h] || height[h] > outputs) h--;
  /* 4 and 4 rows are as many sums as hide the latency of one, 2 are not. */
  if (height[h] == 6 && outputs == 8) h--;
  *rows = height[h];
  return h;
}

void situ__conv_panel(const situ__conv_kernels *kernels, situ__conv_tile *t, int vectors, int64_t outputs, int tallest,
                      int64_t elem) {
  for (int rows; outputs > 0; outputs -= rows) {
    const int h = situ__conv_next(kernels, vectors, outputs, tallest, &rows);
    kernels->tile[vectors - 1][h](t);
    t->w = (const char *)t->w + rows * t->w_row * elem;
    t->sums = (char *)t->sums + (size_t)(rows * t->sums_row * elem);
    if (t->bias) t->bias = (const char *)t->bias + rows * elem;
    if (t->y) t->y = (char *)t->y + (size_t)(rows * t->y_row * kernels->y_size);
  }
}

/* ---- parts of a sum ---- */

typedef struct adding {
  const char *part;
  char *to;
  int64_t parts, count;
} adding;

static void add_f32(int64_t begin, int64_t end, void *payload) {
  const adding *a = payload;
  const float *from = (const float *)(const void *)a->part;
  float *to = (float *)(void *)a->to;
  for (int64_t i = begin; i < end; i++) to[i] = from[i];
  for (int64_t part = 1; part < a->parts; part++)
    for (int64_t i = begin; i < end; i++) to[i] += from[part * a->count + i];
}
static void add_f64(int64_t begin, int64_t end, void *payload) {
  const adding *a = payload;
  const double *from = (const double *)(const void *)a->part;
  double *to = (double *)(void *)a->to;
  for (int64_t i = begin; i < end; i++) to[i] = from[i];
  for (int64_t part = 1; part < a->parts; part++)
    for (int64_t i = begin; i < end; i++) to[i] += from[part * a->count + i];
}

void situ__conv_add_parts(situ_dtype dtype, const char *part, int64_t parts, int64_t count, char *to) {
  adding a = { part, to, parts, count };
  situ__parallel(count, 1 << 14, dtype == SITU_F64 ? add_f64 : add_f32, &a);
}
