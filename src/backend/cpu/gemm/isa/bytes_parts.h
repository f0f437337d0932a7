/* What the kernels of products of bytes share: results of sums, and sums of single channels.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_BYTES_PARTS_H
#define SITU_BACKEND_CPU_ISA_BYTES_PARTS_H

#include "backend/cpu/common/isa/simd.h"
#include "backend/cpu/gemm/bytes.h"

#include <string.h>

static void finish(const situ__bytes_finish *f, const int32_t *c, int32_t row_sum, int columns, void *y) {
  enum { N = SITU__BYTES_COLUMNS, ROUNDED = 0x4b400000 }; /* the bits of 1.5 2^23, whose fraction has no place left */
  int32_t sum[N], rounded[N];
  float real[N];
  for (int j = 0; j < N; j++)
    sum[j] = (int32_t)((uint32_t)c[j] + (uint32_t)f->offset[j] - (uint32_t)f->zero[j] * (uint32_t)row_sum);
  if (f->dtype == SITU_I32) {
    memcpy(y, sum, (size_t)columns * sizeof *sum);
    return;
  }
  for (int j = 0; j < N; j++) real[j] = (float)sum[j] * f->scale[j];
  if (f->dtype == SITU_F32) {
    memcpy(y, real, (size_t)columns * sizeof *real);
    return;
  }
  for (int j = 0; j < N; j++) {
    const float least = real[j] > f->low ? real[j] : f->low;
    real[j] = (least < f->high ? least : f->high) + 12582912.0f;
  }
  memcpy(rounded, real, sizeof rounded);
  uint8_t byte[N];
  for (int j = 0; j < N; j++) byte[j] = (uint8_t)(rounded[j] - ROUNDED + f->zero_y);
  memcpy(y, byte, (size_t)columns);
}

static void depthwise(const uint8_t *const *x, int32_t zero_x, const int8_t *w, int64_t w_row, const int32_t *zero,
                      int taps, int channels, int32_t *c) {
  enum { N = SITU__BYTES_COLUMNS };
  uint32_t sum[N] = { 0 }; /* which wrap */
  for (int tap = 0; tap < taps; tap++, w += w_row) {
    const uint8_t *from = x[tap];
    if (!from) continue;
    if (channels == N)
      for (int j = 0; j < N; j++) sum[j] += (uint32_t)((from[j] - zero_x) * (w[j] - zero[j]));
    else
      for (int j = 0; j < channels; j++) sum[j] += (uint32_t)((from[j] - zero_x) * (w[j] - zero[j]));
  }
  memcpy(c, sum, sizeof sum);
}

#endif
