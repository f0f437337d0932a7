/* Convolution by tile registers: a tile of b is 16 planes of pairs, 16 places wide, and read where they lie.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/amx.h"
#include "backend/cpu/gemm/isa_amx/parts.h"

enum { TAPS = SITU__AMX_TAPS };

/* parts is 3, or 1 for numbers that are bf16 already, of which any will do. */
ALWAYS_INLINE void store_pairs(int parts, magnitudes *seen, vec_f32 low, vec_f32 high, char *to, int64_t next) {
  if (parts == 1) _mm512_store_si512(to, paired((__m512)low, (__m512)high));
  else store_parts(seen, low, high, to, next);
}

ALWAYS_INLINE bool pair_parts(const situ__amx_plane *p, int parts) {
  magnitudes seen = no_magnitudes();
  const int64_t full = p->count / TILE * TILE;
  for (int64_t i = 0; i < full; i += TILE)
    store_pairs(parts, &seen, F32(load)(p->low + i), F32(load)(p->high + i), p->to + i * 4, p->next);
  const int rest = (int)(p->count - full);
  if (rest)
    store_pairs(parts, &seen, F32(load_some)(p->low + full, rest), F32(load_some)(p->high + full, rest),
                p->to + full * 4, p->next);
  return has_parts(&seen);
}

/* tap[k]: element k of the 16 channels from `channel` on, of which there may be fewer. */
ALWAYS_INLINE void load_taps(const situ__amx_weights *p, const float *w, int64_t channel, vec_f32 tap[TAPS]) {
  const int64_t left = p->channels - channel;
  const int channels = left > TILE ? TILE : left > 0 ? (int)left : 0;
  w += channel * p->next_channel;
  if (p->next_channel == 1) {
    tap[0] = F32(load_some)(w, channels);
    return;
  }
  for (int k = 0; k < p->taps; k += TILE) {
    const int count = p->taps - k < TILE ? p->taps - k : TILE;
    vec_f32 square[TILE];
    UNROLL for (int i = 0; i < TILE; i++) square[i] =
        F32(load_some)(w + (i < channels ? i * p->next_channel + k : 0), i < channels ? count : 0);
    FN(transpose)(square);
    for (int i = 0; i < count; i++) tap[p->flipped ? p->taps - 1 - k - i : k + i] = square[i];
  }
}

ALWAYS_INLINE bool pack_parts(const situ__amx_weights *p, int parts) {
  const int64_t step = parts * 2 * TILE_BYTES, groups = (p->channels + DEPTH - 1) / DEPTH;
  vec_f32 low[TAPS], high[TAPS];
  magnitudes seen = no_magnitudes();
  if (p->outputs < WIDTH) memset(p->to, 0, (size_t)(groups * p->taps * step));
  for (int64_t o = 0; o < p->outputs; o++)
    for (int64_t g = 0; g < groups; g++) {
      const float *w = p->w + o * p->next_output;
      char *to = p->to + g * p->taps * step + o / TILE * TILE_BYTES + o % TILE * 64;
      load_taps(p, w, g * DEPTH, low);
      load_taps(p, w, g * DEPTH + TILE, high);
      for (int k = 0; k < p->taps; k++) store_pairs(parts, &seen, low[k], high[k], to + k * step, 2 * TILE_BYTES);
    }
  return has_parts(&seen);
}

ALWAYS_INLINE void multiply_shifted(const situ__amx_product *p, int64_t column, int parts, bool tall, bool wide) {
  part_tiles a = { p->weights, 64, TILE_BYTES, 2 * TILE_BYTES }, b = { .row = p->row, .second = 64, .part = p->part };
  const int64_t row = p->sums_row * (int64_t)sizeof(float);
  const char *pairs = p->pairs + column * 4;
  float *c = p->sums + column, *below = c + TILE * p->sums_row;
  if (p->add) load_sums(c, below, row, tall, wide);
  else zero_sums();
  for (int64_t s = 0; s < p->steps; s++, a.first += parts * 2 * TILE_BYTES) {
    b.first = pairs + p->at[s];
    if (parts == 1) multiply_one_part(&a, &b, tall, wide);
    else multiply_three_parts(&a, &b, tall, wide, NULL, NULL);
  }
  store_sums(c, below, row, tall, wide);
}

ALWAYS_INLINE void multiply_planes(const situ__amx_product *p, int parts) {
  begin_tiles();
  for (int64_t column = 0; column < p->columns; column += WIDTH) {
    const bool wide = p->columns - column > TILE;
    if (p->tall && wide) multiply_shifted(p, column, parts, true, true);
    else if (p->tall) multiply_shifted(p, column, parts, true, false);
    else if (wide) multiply_shifted(p, column, parts, false, true);
    else multiply_shifted(p, column, parts, false, false);
  }
  end_tiles();
}

ALWAYS_INLINE void finish_rows(const situ__amx_rows *p, bool relu) {
  const vec_f32 bias = F32(splat)(p->bias);
  const float *from = p->sums;
  float *to = p->y;
  for (int64_t row = 0; row < p->rows; row++, from += p->line, to += p->width)
    for (int64_t i = 0; i < p->width; i += TILE) {
      const vec_f32 y = F32(load)(from + i) + bias;
      const int64_t left = p->width - i;
      F32(store_some)(to + i, relu ? F32(relu)(y) : y, left < TILE ? (int)left : TILE);
    }
}
static void finish(const situ__amx_rows *p) {
  if (p->relu) finish_rows(p, true);
  else finish_rows(p, false);
}

/* ---- the weight's gradient ---- */

static bool transpose_lanes(const situ__amx_transpose *p) {
  magnitudes seen = no_magnitudes();
  for (int64_t at = 0; at < p->count; at += TILE) {
    const int count = p->count - at < TILE ? (int)(p->count - at) : TILE;
    vec_f32 low[TILE], high[TILE];
    UNROLL for (int i = 0; i < TILE; i++) {
      low[i] = i < p->lows ? F32(load_some)(p->low + i * p->lane + at, count) : (vec_f32){ 0 };
      high[i] = i < p->highs ? F32(load_some)(p->high + i * p->lane + at, count) : (vec_f32){ 0 };
    }
    FN(transpose)(low);
    FN(transpose)(high);
    for (int i = 0; i < count; i++) store_parts(&seen, low[i], high[i], p->to + (at + i) * p->step, 2 * TILE_BYTES);
  }
  return has_parts(&seen);
}

static void sum_places(const situ__amx_sum *p) {
  const int64_t row = WIDTH * (int64_t)sizeof(float);
  float *below = p->sums + TILE * WIDTH;
  begin_tiles();
  if (p->add) load_sums(p->sums, below, row, true, true);
  else zero_sums();
  for (int64_t r = 0; r < p->runs; r++) {
    part_tiles a = { p->run[r].a, 64, TILE_BYTES, 2 * TILE_BYTES }, b = { p->run[r].b, 64, TILE_BYTES, 2 * TILE_BYTES };
    for (int64_t i = 0; i < p->run[r].count; i++, a.first += p->a_step, b.first += p->b_step)
      multiply_three_parts(&a, &b, true, true, NULL, NULL);
  }
  store_sums(p->sums, below, row, true, true);
  end_tiles();
}

static void unpack(const situ__amx_unpack *p) {
  for (int64_t o = 0; o < p->outputs; o++) {
    const vec_f32 bias = F32(splat)(p->bias ? p->bias[o] : 0);
    for (int64_t l = 0; l < p->lanes; l += TILE)
      for (int64_t k = 0; k < p->places; k += TILE) {
        const int count = p->places - k < TILE ? (int)(p->places - k) : TILE;
        const float *from = p->sums + (k * WIDTH + o) * WIDTH + l;
        vec_f32 square[TILE];
        UNROLL for (int i = 0; i < TILE; i++) {
          const vec_f32 sum = i < count ? F32(load)(from + i * WIDTH * WIDTH) + bias : (vec_f32){ 0 };
          square[i] = p->relu ? F32(relu)(sum) : sum;
        }
        FN(transpose)(square);
        for (int64_t i = 0; i < TILE && l + i < p->lanes; i++)
          F32(store_some)(p->to + o * p->next_output + (l + i) * p->next_lane + k, square[i], count);
      }
  }
}

static bool pair_f32(const situ__amx_plane *p) { return pair_parts(p, PARTS); }
static bool pack_f32(const situ__amx_weights *p) { return pack_parts(p, PARTS); }
static void multiply_f32(const situ__amx_product *p) { multiply_planes(p, PARTS); }
const situ__amx_kernels situ__amx_kernels_f32 = { .parts = PARTS,
                                                  .pair = pair_f32,
                                                  .pack = pack_f32,
                                                  .multiply = multiply_f32,
                                                  .finish = finish,
                                                  .transpose = transpose_lanes,
                                                  .sum = sum_places,
                                                  .unpack = unpack };

static bool pair_bf16(const situ__amx_plane *p) { return pair_parts(p, 1); }
static bool pack_bf16(const situ__amx_weights *p) { return pack_parts(p, 1); }
static void multiply_bf16(const situ__amx_product *p) { multiply_planes(p, 1); }
const situ__amx_kernels situ__amx_kernels_bf16 = {
  .parts = 1, .pair = pair_bf16, .pack = pack_bf16, .multiply = multiply_bf16, .finish = finish
};
