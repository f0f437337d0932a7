/* Products of few rows with a factor of 16 bits. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/gemv.h"
#include "backend/cpu/common/isa/simd.h"
#include "kernels/dialect.h"
#include "kernels/half.h"

#define LANES ((int)(VECTOR / sizeof(float)))
/* Rows of b that are added to all columns before the next ones are read, so that memory is read in long runs. */
enum { DEPTH = 32 };

/* Widens the first `count` of LANES elements; the others are 0. */
ALWAYS_INLINE vec_f32 widen_bf16(const uint16_t *p, int count) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  const __m256i x = _mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), p);
  return (vec_f32)_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16);
#else
  uint16_t part[LANES] = { 0 };
  uint32_t bits[LANES];
  vec_f32 v;
  if (count == LANES) memcpy(part, p, sizeof part);
  else
    for (int l = 0; l < count; l++) part[l] = p[l];
  for (int l = 0; l < LANES; l++) bits[l] = (uint32_t)part[l] << 16;
  memcpy(&v, bits, sizeof v);
  return v;
#endif
}

ALWAYS_INLINE vec_f32 widen_f16(const uint16_t *p, int count) {
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  return (vec_f32)_mm512_cvtph_ps(_mm256_maskz_loadu_epi16((__mmask16)((1u << count) - 1), p));
#else
  uint16_t part[LANES] = { 0 };
  vec_f32 v;
  if (count == LANES) memcpy(part, p, sizeof part);
  else
    for (int l = 0; l < count; l++) part[l] = p[l];
#if defined(__F16C__)
  __m128i bits;
  memcpy(&bits, part, sizeof bits);
  v = (vec_f32)_mm256_cvtph_ps(bits);
#else
  float wide[LANES];
  for (int l = 0; l < LANES; l++) wide[l] = situ__f16_to_f32(part[l]);
  memcpy(&v, wide, sizeof v);
#endif
  return v;
#endif
}

ALWAYS_INLINE vec_f32 widen_lanes(const uint16_t *p, int64_t count, bool bf16) {
  const int lanes = count < LANES ? (int)count : LANES;
  return bf16 ? widen_bf16(p, lanes) : widen_f16(p, lanes);
}

ALWAYS_INLINE float add_lanes(vec_f32 v) {
  float lane[LANES];
  memcpy(lane, &v, sizeof v);
  for (int half = LANES / 2; half > 0; half /= 2)
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  return lane[0];
}

/* Columns of b are contiguous along k: dot products of a column with all rows, two columns side by side. */
ALWAYS_INLINE void multiply_columns(const situ__gemv *t, int rows, bool bf16) {
  const float *from = t->a;
  for (int64_t j = 0; j < t->n; j += 2) {
    const uint16_t *one = t->b + j * t->lane, *two = j + 1 < t->n ? one + t->lane : one;
    vec_f32 sum[SITU__GEMV_ROWS][2] = { { { 0 } } };
    for (int64_t p = 0; p < t->k; p += LANES) {
      const int64_t left = t->k - p;
      const vec_f32 x = widen_lanes(one + p, left, bf16), y = widen_lanes(two + p, left, bf16);
      UNROLL for (int i = 0; i < rows; i++) {
        const vec_f32 a = F32(load_some)(from + i * t->k + p, left < LANES ? (int)left : LANES);
        sum[i][0] = F32(fma_vec)(a, x, sum[i][0]);
        sum[i][1] = F32(fma_vec)(a, y, sum[i][1]);
      }
    }
    UNROLL for (int i = 0; i < rows; i++) {
      t->c[i * t->c_row + j] = add_lanes(sum[i][0]);
      if (j + 1 < t->n) t->c[i * t->c_row + j + 1] = add_lanes(sum[i][1]);
    }
  }
}

/* Rows of b are contiguous: each is added to the rows of c, 4 vectors of them at a time. */
ALWAYS_INLINE void multiply_rows(const situ__gemv *t, int rows, bool bf16) {
  const float *a = t->a;
  for (int64_t k0 = 0; k0 < t->k; k0 += DEPTH) {
    const int64_t depth = t->k - k0 < DEPTH ? t->k - k0 : DEPTH;
    for (int64_t j = 0; j < t->n; j += 4 * LANES) {
      vec_f32 sum[SITU__GEMV_ROWS][4];
      UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < 4; v++) {
          const int64_t left = t->n - j - v * LANES;
          const int count = left < 0 || k0 == 0 ? 0 : left < LANES ? (int)left : LANES;
          sum[i][v] = F32(load_some)(t->c + i * t->c_row + j + v * LANES, count);
        }
      }
      for (int64_t p = k0; p < k0 + depth; p++) {
        UNROLL for (int v = 0; v < 4; v++) {
          const int64_t left = t->n - j - v * LANES;
          const vec_f32 x = widen_lanes(t->b + p * t->step + j + v * LANES, left < 0 ? 0 : left, bf16);
          UNROLL for (int i = 0; i < rows; i++) sum[i][v] = F32(fma_vec)(F32(splat)(a[i * t->k + p]), x, sum[i][v]);
        }
      }
      UNROLL for (int i = 0; i < rows; i++) {
        UNROLL for (int v = 0; v < 4; v++) {
          const int64_t left = t->n - j - v * LANES;
          F32(store_some)
          (t->c + i * t->c_row + j + v * LANES, sum[i][v], left < 0 ? 0 : left < LANES ? (int)left : LANES);
        }
      }
    }
  }
}

ALWAYS_INLINE void multiply_rows_of_a(const situ__gemv *t, int rows, bool bf16) {
  if (t->step == 1) multiply_columns(t, rows, bf16);
  else multiply_rows(t, rows, bf16);
}

ALWAYS_INLINE void choose_rows(const situ__gemv *t, bool bf16) {
  switch (t->m) {
  case 1: multiply_rows_of_a(t, 1, bf16); break;
  case 2: multiply_rows_of_a(t, 2, bf16); break;
  case 3: multiply_rows_of_a(t, 3, bf16); break;
  default: multiply_rows_of_a(t, 4, bf16);
  }
}
static void gemv_bf16(const situ__gemv *t) { choose_rows(t, true); }
static void gemv_f16(const situ__gemv *t) { choose_rows(t, false); }

const situ__gemv_kernels SITU__ISA_NAME(situ__gemv_kernels) = { gemv_bf16, gemv_f16 };
