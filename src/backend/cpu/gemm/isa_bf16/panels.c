/* Panels of bf16, multiplied by the instruction that adds two products of bf16 to an f32 (AVX512_BF16). A panel holds
   pairs of elements along k: those of 6 rows of a, or of 64 columns of b.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/isa/pairs.h"
#include "backend/cpu/common/isa/round_bf16.h"
#include "backend/cpu/gemm/packed.h"

enum { ROWS = 6, VECTORS = 4, COLUMNS = VECTORS * TILE, PAIR = 4 };

/* Packs squares: 16 lanes, or those of a panel if it has fewer. */
ALWAYS_INLINE bool pack_squares(char *to, const uint16_t *src, int64_t lane, int64_t step, int64_t lanes, int64_t k,
                                int width) {
  const int square = width < TILE ? width : TILE;
  const int64_t count = (k + 1) / 2; /* pairs */
  const bool in_rows = lane == 1 && step != 1;
  for (int64_t i = 0; i < lanes; i += square)
    for (int64_t p = 0; p < k; p += DEPTH) {
      vec_f32 tile[TILE];
      const int64_t left = lanes - i < square ? lanes - i : square;
      load_tile(tile, src + i * lane + p * step, lane, step, left, k - p, in_rows);
      if (!in_rows) FN(transpose)(tile);
      char *panel = to + (i / width * width * count + p / 2 * width + i % width) * PAIR;
      for (int64_t q = 0; q < TILE && p / 2 + q < count; q++)
        F32(store_some)((float *)(void *)(panel + q * width * PAIR), tile[q], square);
    }
  return true;
}

static bool pack_rows(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_squares(dst, src, lane, step, lanes, k, ROWS);
}
static bool pack_columns(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return pack_squares(dst, src, lane, step, lanes, k, COLUMNS);
}

typedef __m512 sums[ROWS][VECTORS];

/* Complete sums of up to ROWS rows, rounded to where t says. */
ALWAYS_INLINE void round_sums(sums sum, const situ__tile *t, uint16_t *to, int64_t rows) {
  UNROLL for (int v = 0; v < VECTORS; v += 2) {
    const int64_t left = t->columns - v * TILE;
    const __mmask32 some = first(left);
    __m512 low = _mm512_setzero_ps(), high = low;
    if (t->bias) low = _mm512_maskz_loadu_ps((__mmask16)some, t->bias + v * TILE);
    if (t->bias) high = _mm512_maskz_loadu_ps((__mmask16)(some >> TILE), t->bias + (v + 1) * TILE);
    UNROLL for (int r = 0; r < ROWS; r++) {
      if (r >= rows) break;
      const __m512i both = t->bias ? rounded_32(_mm512_add_ps(sum[r][v], low), _mm512_add_ps(sum[r][v + 1], high))
                                   : rounded_32(sum[r][v], sum[r][v + 1]);
      uint16_t *at = to + r * t->rounded_row + v * TILE;
      if (t->past_cache && left >= 2 * TILE) _mm512_stream_si512((void *)at, both);
      else _mm512_mask_storeu_epi16(at, some, both);
    }
  }
}

/* Adds the products of up to ROWS rows, whose pairs are `step` bytes apart, with a panel of b. */
ALWAYS_INLINE void add_pairs(sums sum, const char *const row[ROWS], int64_t step, const float *b, int64_t count) {
  for (int64_t p = 0; p < count; p++, b += COLUMNS) {
    __m512bh column[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; v++) column[v] = (__m512bh)_mm512_loadu_ps(b + v * TILE);
    UNROLL for (int r = 0; r < ROWS; r++) {
      int32_t pair;
      memcpy(&pair, row[r] + p * step, sizeof pair);
      const __m512bh x = (__m512bh)_mm512_set1_epi32(pair);
      UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, column[v]);
    }
  }
}

/* Where the pairs of up to ROWS rows begin: side by side in a panel, or in rows in place, `a_row` bytes apart, of which
   the last stands for those that are missing. */
ALWAYS_INLINE void find_rows(const char *a, int64_t a_row, int64_t rows, const char *row[ROWS]) {
  UNROLL for (int r = 0; r < ROWS; r++) row[r] = a + (r < rows ? r : rows - 1) * a_row;
}

ALWAYS_INLINE void multiply_rows(const situ__tile *t, int64_t rows, bool in_place) {
  const int64_t count = (t->k + 1) / 2, a_row = in_place ? 2 * t->a_row : PAIR, step = in_place ? PAIR : ROWS * PAIR;
  const char *a = t->a;
  float *c = t->c;
  for (int64_t i = 0; i < rows; i += ROWS, c += ROWS * t->c_row) {
    const char *row[ROWS];
    sums sum;
    UNROLL for (int r = 0; r < ROWS; r++) {
      UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] =
          t->add ? _mm512_loadu_ps(c + r * t->c_row + v * TILE) : _mm512_setzero_ps();
    }
    find_rows(a, a_row, in_place ? rows - i : ROWS, row);
    add_pairs(sum, row, step, t->b, count);
    a += ROWS * (in_place ? a_row : count * PAIR);
    if (t->rounded) {
      round_sums(sum, t, t->rounded + i * t->rounded_row, rows - i);
      continue;
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
      UNROLL for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(c + r * t->c_row + v * TILE, sum[r][v]);
    }
  }
}

static void multiply(const situ__tile *t, int64_t rows) {
  if (t->a_col == 1) multiply_rows(t, rows, true);
  else multiply_rows(t, rows, false);
}

const situ__panels situ__panels_bf16_dots = { .dtype = SITU_BF16,
                                              .rows = ROWS,
                                              .columns = COLUMNS,
                                              .unit = 2,
                                              .depth = 512,
                                              .bytes = 2,
                                              .in_place = 2,
                                              .rounds = true,
                                              .tiling = { .tile_m = 252,
                                                          .tile_n = 512,
                                                          .least_m = 48,
                                                          .least_n = 64,
                                                          .unit_m = ROWS,
                                                          .unit_n = COLUMNS,
                                                          .tasks = 16,
                                                          .pace = 2 },
                                              .pack_a = pack_rows,
                                              .pack_b = pack_columns,
                                              .multiply = multiply };
