/* Products of bytes without an instruction for them: in pairs of 16 bits, which holds them exactly.
   SPDX-License-Identifier: MIT */
#include "bytes_parts.h"

#if defined(__AVX2__)
/* Sixteen columns of a panel and ROWS rows of a: each sum is in two parts, side by side. */
ALWAYS_INLINE void multiply_some(const uint8_t *a, int64_t a_row, const int rows, const int8_t *panel, int64_t groups,
                                 int32_t *c) {
  __m256i sum[2][4];
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < 4; v++) sum[r][v] = _mm256_setzero_si256();
  for (int64_t g = 0; g < groups; g++) {
    __m256i b[4];
    UNROLL for (int v = 0; v < 4; v++) b[v] = _mm256_cvtepi8_epi16(
        _mm_loadu_si128((const __m128i *)(const void *)(panel + g * 4 * SITU__BYTES_COLUMNS + 16 * v)));
    UNROLL for (int r = 0; r < rows; r++) {
      int32_t four;
      memcpy(&four, a + r * a_row + 4 * g, sizeof four);
      const __m256i x = _mm256_cvtepu8_epi16(_mm_set1_epi32(four));
      UNROLL for (int v = 0; v < 4; v++) sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(b[v], x));
    }
  }
  for (int r = 0; r < rows; r++)
    for (int v = 0; v < 4; v += 2) {
      const __m256i both = _mm256_hadd_epi32(sum[r][v], sum[r][v + 1]); /* columns 0 1 4 5 2 3 6 7 */
      _mm256_storeu_si256((__m256i *)(void *)(c + r * SITU__BYTES_COLUMNS + 4 * v),
                          _mm256_permute4x64_epi64(both, 0xd8));
    }
}

static void multiply(const uint8_t *a, int64_t a_row, int rows, const int8_t *panel, int64_t groups, int32_t *c) {
  for (int half = 0; half < 2; half++) {
    const int8_t *b = panel + 2 * SITU__BYTES_COLUMNS * half;
    int32_t *to = c + SITU__BYTES_COLUMNS / 2 * half;
    int r = 0;
    for (; r + 2 <= rows; r += 2) multiply_some(a + r * a_row, a_row, 2, b, groups, to + r * SITU__BYTES_COLUMNS);
    if (r < rows) multiply_some(a + r * a_row, a_row, 1, b, groups, to + r * SITU__BYTES_COLUMNS);
  }
}
#else
static void multiply(const uint8_t *a, int64_t a_row, int rows, const int8_t *panel, int64_t groups, int32_t *c) {
  for (int r = 0; r < rows; r++) {
    int32_t *sum = c + r * SITU__BYTES_COLUMNS;
    for (int j = 0; j < SITU__BYTES_COLUMNS; j++) sum[j] = 0;
    for (int64_t g = 0; g < groups; g++) {
      const uint8_t *x = a + r * a_row + 4 * g;
      const int8_t *b = panel + g * 4 * SITU__BYTES_COLUMNS;
      for (int j = 0; j < SITU__BYTES_COLUMNS; j++)
        sum[j] = (int32_t)((uint32_t)sum[j] + (uint32_t)(x[0] * b[4 * j] + x[1] * b[4 * j + 1] + x[2] * b[4 * j + 2] +
                                                         x[3] * b[4 * j + 3]));
    }
  }
}
#endif

const situ__bytes_kernels SITU__ISA_NAME(situ__bytes_kernels) = { multiply, finish, depthwise };
