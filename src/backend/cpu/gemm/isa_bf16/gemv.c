/* Products of few rows of bf16 with contiguous columns: dot products of four columns with all rows, side by side, by
   the instruction that adds two products of bf16 to an f32 (AVX512_BF16).
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/gemv.h"
#include "backend/cpu/common/isa/pairs.h"

enum { COLUMNS = 4 };

ALWAYS_INLINE __m512bh pairs_at(const uint16_t *p, __mmask32 some) {
  return (__m512bh)_mm512_maskz_loadu_epi16(some, p);
}

ALWAYS_INLINE void multiply_rows(const situ__gemv *t, int rows) {
  const uint16_t *a = t->a;
  for (int64_t j = 0; j < t->n; j += COLUMNS) {
    const uint16_t *column[COLUMNS];
    UNROLL for (int v = 0; v < COLUMNS; v++) column[v] = t->b + (j + v < t->n ? j + v : j) * t->lane;
    __m512 sum[SITU__GEMV_ROWS][COLUMNS];
    UNROLL for (int i = 0; i < rows; i++) { UNROLL for (int v = 0; v < COLUMNS; v++) sum[i][v] = _mm512_setzero_ps(); }
    for (int64_t p = 0; p < t->k; p += DEPTH) {
      const __mmask32 some = first(t->k - p);
      __m512bh x[COLUMNS];
      UNROLL for (int v = 0; v < COLUMNS; v++) x[v] = pairs_at(column[v] + p, some);
      UNROLL for (int i = 0; i < rows; i++) {
        const __m512bh y = pairs_at(a + i * t->k + p, some);
        UNROLL for (int v = 0; v < COLUMNS; v++) sum[i][v] = _mm512_dpbf16_ps(sum[i][v], y, x[v]);
      }
    }
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < COLUMNS; v++) {
        if (j + v < t->n) t->c[i * t->c_row + j + v] = _mm512_reduce_add_ps(sum[i][v]);
      }
    }
  }
}

void situ__gemv_dots(const situ__gemv *t) {
  switch (t->m) {
  case 1: multiply_rows(t, 1); break;
  case 2: multiply_rows(t, 2); break;
  case 3: multiply_rows(t, 3); break;
  default: multiply_rows(t, 4);
  }
}
