/* Products of bytes by the instruction that adds four of them to an i32 (AVX512_VNNI).
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/isa/bytes_parts.h"

ALWAYS_INLINE void multiply_some(const uint8_t *a, int64_t a_row, const int rows, const int8_t *panel, int64_t groups,
                                 int32_t *c) {
  __m512i sum[SITU__BYTES_ROWS][2];
  UNROLL for (int r = 0; r < rows; r++) sum[r][0] = sum[r][1] = _mm512_setzero_si512();
  for (int64_t g = 0; g < groups; g++, panel += 4 * SITU__BYTES_COLUMNS) {
    const __m512i first = _mm512_loadu_si512(panel), second = _mm512_loadu_si512(panel + 64);
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t four;
      memcpy(&four, a + r * a_row + 4 * g, sizeof four);
      const __m512i x = _mm512_set1_epi32(four);
      sum[r][0] = _mm512_dpbusd_epi32(sum[r][0], x, first);
      sum[r][1] = _mm512_dpbusd_epi32(sum[r][1], x, second);
    }
  }
  UNROLL for (int r = 0; r < rows; r++) for (int v = 0; v < 2; v++)
      _mm512_storeu_si512(c + r * SITU__BYTES_COLUMNS + 16 * v, sum[r][v]);
}

static void multiply(const uint8_t *a, int64_t a_row, int rows, const int8_t *panel, int64_t groups, int32_t *c) {
  switch (rows) {
  case 8: multiply_some(a, a_row, 8, panel, groups, c); return;
  case 7: multiply_some(a, a_row, 7, panel, groups, c); return;
  case 6: multiply_some(a, a_row, 6, panel, groups, c); return;
  case 5: multiply_some(a, a_row, 5, panel, groups, c); return;
  case 4: multiply_some(a, a_row, 4, panel, groups, c); return;
  case 3: multiply_some(a, a_row, 3, panel, groups, c); return;
  case 2: multiply_some(a, a_row, 2, panel, groups, c); return;
  default: multiply_some(a, a_row, 1, panel, groups, c);
  }
}

const situ__bytes_kernels situ__bytes_kernels_vnni = { multiply, finish, depthwise };
