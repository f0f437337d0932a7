/* Register tiles of a convolution: which ones, and a column of them.
   SPDX-License-Identifier: MIT */
#include "conv.h"
#include "isa.h"

enum { TALL = SITU__CONV_HEIGHTS - 1 };
static const int height[SITU__CONV_HEIGHTS] = { 1, 2, 4, 6, 8 };

SITU__ISA_DECLARE(situ__conv_kernels, situ__conv_kernels_f32);
SITU__ISA_DECLARE(situ__conv_kernels, situ__conv_kernels_f64);
const situ__conv_kernels *situ__conv_kernels_for(situ_dtype dtype) {
  const situ__isa isa = situ__cpu_isa();
  return dtype == SITU_F64 ? SITU__ISA_PICK(isa, situ__conv_kernels_f64) : SITU__ISA_PICK(isa, situ__conv_kernels_f32);
}

int situ__conv_tallest(const situ__conv_kernels *kernels, int64_t outputs) {
  return outputs % height[TALL] == 0 && kernels->tile[2][TALL] ? TALL : TALL - 1;
}

int situ__conv_widest(const situ__conv_kernels *kernels, int tallest) {
  int widest = 0;
  while (widest < SITU__CONV_WIDTHS && kernels->tile[widest][tallest]) widest++;
  return widest;
}

void situ__conv_panel(const situ__conv_kernels *kernels, situ__conv_tile *t, int vectors, int64_t outputs, int tallest,
                      int64_t elem) {
  const situ__conv_tile_fn *tile = kernels->tile[vectors - 1];
  int h = tallest;
  for (int64_t i = 0; i < outputs; i += height[h]) {
    while (!tile[h] || height[h] > outputs - i) h--;
    /* 4 and 4 rows are as many sums as hide the latency of one, 2 are not. */
    if (height[h] == 6 && outputs - i == 8) h--;
    tile[h](t);
    t->w = (const char *)t->w + height[h] * t->w_row * elem;
    t->sums = (char *)t->sums + (size_t)(height[h] * t->sums_row * elem);
    if (t->bias) t->bias = (const char *)t->bias + height[h] * elem;
    if (t->y) t->y = (char *)t->y + (size_t)(height[h] * t->y_row * elem);
  }
}
