/* Panels of bf16, multiplied by the instruction that adds two products of bf16 to an f32 (AVX512_BF16). A panel holds
   pairs of elements along k: those of 6 rows of a, or of 64 columns of b.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/isa/pairs.h"
#include "backend/cpu/packed.h"

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

static void multiply(const situ__tile *t, int64_t rows) {
  const int64_t count = (t->k + 1) / 2;
  const float *a = t->a;
  float *c = t->c;
  for (int64_t i = 0; i < rows; i += ROWS, c += ROWS * t->c_row) {
    const float *b = t->b;
    __m512 sum[ROWS][VECTORS];
    UNROLL for (int r = 0; r < ROWS; r++) {
      UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] =
          t->add ? _mm512_loadu_ps(c + r * t->c_row + v * TILE) : _mm512_setzero_ps();
    }
    for (int64_t p = 0; p < count; p++, a += ROWS, b += COLUMNS) {
      __m512bh row[VECTORS];
      UNROLL for (int v = 0; v < VECTORS; v++) row[v] = (__m512bh)_mm512_loadu_ps(b + v * TILE);
      UNROLL for (int r = 0; r < ROWS; r++) {
        const __m512bh x = (__m512bh)_mm512_set1_ps(a[r]);
        UNROLL for (int v = 0; v < VECTORS; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], x, row[v]);
      }
    }
    UNROLL for (int r = 0; r < ROWS; r++) {
      UNROLL for (int v = 0; v < VECTORS; v++) _mm512_storeu_ps(c + r * t->c_row + v * TILE, sum[r][v]);
    }
  }
}

const situ__panels situ__panels_bf16_dots = { .dtype = SITU_BF16,
                                              .rows = ROWS,
                                              .columns = COLUMNS,
                                              .unit = 2,
                                              .depth = 512,
                                              .bytes = 2,
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
