/* Winograd's transforms, compiled for each instruction set. Lanes are tiles, or channels of weights.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/winograd.h"
#include "backend/cpu/common/isa/halves.h"

#include <string.h>

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define LANE_NUMBERS NUMBERS_F32
#define real float
#define vec vec_f32
#define picks picks_f32
#include "backend/cpu/common/isa/transpose.h"

/* One dimension: of 4 elements. */
ALWAYS_INLINE void map_input(vec_f32 *x, int step) {
  const vec_f32 a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
  x[0] = a - c, x[step] = b + c, x[2 * step] = c - b, x[3 * step] = b - d;
}

static void input(const situ__winograd_input *p) {
  float *phase = p->phase, *to = p->to;
  const int64_t size = p->size, line = p->line, next = p->next, places = p->rows * line;
  /* The place after the last tile reads one element more. */
  for (int k = 0; k < 4; k++) F32(store)(phase + k * size + places + line, (vec_f32){ 0 });
  for (int64_t at = 0; at < places; at += LANES) {
    vec_f32 tile[SITU__WINOGRAD];
    UNROLL for (int k = 0; k < SITU__WINOGRAD; k++) {
      const int row = k / 4, column = k % 4;
      tile[k] = F32(load)(phase + (row % 2 * 2 + column % 2) * size + at + row / 2 * line + column / 2);
    }
    UNROLL for (int k = 0; k < 4; k++) map_input(tile + k, 4);
    UNROLL for (int k = 0; k < 4; k++) map_input(tile + 4 * k, 1);
    UNROLL for (int k = 0; k < SITU__WINOGRAD; k++) F32(store)(to + k * next + at, tile[k]);
  }
}

/* 2 results of 4 elements: x and x + step. */
ALWAYS_INLINE void map_output(vec_f32 *x, int step) {
  const vec_f32 middle = x[step] + x[2 * step], other = x[step] - x[2 * step];
  x[0] = x[0] + middle, x[step] = other - x[3 * step];
}

/* The results of one row of a tile, in turn. */
ALWAYS_INLINE void put_row(float *to, vec_f32 left, vec_f32 right) {
  F32(store)(to, TURNS_LOW(left, right));
  F32(store)(to + LANES, TURNS_HIGH(left, right));
}

/* The last vector ends where the row does; a short one is read as a whole, and written so where `behind` elements
   follow that are written later. */
ALWAYS_INLINE void copy_row(float *to, const float *from, int64_t count, int64_t behind, bool relu) {
  for (int64_t i = 0; i < count; i += LANES) {
    if (i + LANES > count && count >= LANES) i = count - LANES;
    const vec_f32 v = F32(load)(from + i), kept = relu ? F32(relu)(v) : v;
    if (count + behind >= LANES) F32(store)(to + i, kept);
    else F32(store_some)(to + i, kept, (int)count);
  }
}

/* The first `count` lanes; the others are 0. */
ALWAYS_INLINE vec_f32 first_lanes(vec_f32 v, int64_t count) {
  float lane[LANES];
  F32(store)(lane, v);
  return F32(load_some)(lane, (int)count);
}

ALWAYS_INLINE bool finish_output(const situ__winograd_output *p, bool relu) {
  const float *from = p->from;
  float *scratch = p->scratch;
  const int64_t next = p->next, size = p->size, places = p->rows * p->line;
  const vec_f32 bias = F32(splat)(p->bias);
  vec_f32 odd = { 0 }; /* NaN after a result that is not finite */
  for (int64_t at = 0; at < places; at += LANES) {
    vec_f32 tile[SITU__WINOGRAD], zero = { 0 };
    UNROLL for (int k = 0; k < SITU__WINOGRAD; k++) tile[k] = F32(load)(from + k * next + at);
    UNROLL for (int k = 0; k < 4; k++) map_output(tile + k, 4);
    UNROLL for (int row = 0; row < 2; row++) {
      vec_f32 *x = tile + 4 * row;
      map_output(x, 1);
      x[0] += bias, x[1] += bias;
      zero += x[0] * 0 + x[1] * 0;
      put_row(scratch + row * size + 2 * at, x[0], x[1]);
    }
    odd += places - at < LANES ? first_lanes(zero, places - at) : zero;
  }
  for (int64_t row = 0; row < p->height; row++)
    copy_row(p->y + row * p->width, scratch + row % 2 * size + row / 2 * 2 * p->line, p->width,
             (p->height - 1 - row) * p->width, relu);
  bool finite = true;
  UNROLL for (int l = 0; l < LANES; l++) finite = finite && odd[l] == 0;
  return finite;
}
static bool output(const situ__winograd_output *p) {
  return p->relu ? finish_output(p, true) : finish_output(p, false);
}

/* 4 elements of 3: x[0], x[step], x[2 * step] to y[0] ... y[3 * step]. */
ALWAYS_INLINE void map_weight(const vec_f32 *x, int from, vec_f32 *y, int to) {
  const vec_f32 half = F32(splat)(0.5f), ends = (x[0] + x[2 * from]) * half, middle = x[from] * half;
  y[0] = x[0], y[to] = ends + middle, y[2 * to] = ends - middle, y[3 * to] = x[2 * from];
}

/* The 9 elements of `count` channels; the other lanes repeat the first one. */
ALWAYS_INLINE void load_weights(const float *w, int64_t step, int count, vec_f32 *x) {
  enum { TAPS = 9 };
  UNROLL for (int k = 0; k < TAPS; k += LANES) {
    const int taps = TAPS - k < LANES ? TAPS - k : LANES;
    vec_f32 row[LANES];
    UNROLL for (int l = 0; l < LANES; l++) row[l] = F32(load_some)(w + (l < count ? l : 0) * step + k, taps);
    F32(transpose)(row);
    UNROLL for (int i = 0; i < taps; i++) x[k + i] = row[i];
  }
}

static void weight(const situ__winograd_weight *p) {
  const int64_t next = p->next;
  for (int64_t c = 0; c < p->channels; c += LANES) {
    const int count = p->channels - c < LANES ? (int)(p->channels - c) : LANES;
    vec_f32 x[9], rows[12], tile[SITU__WINOGRAD];
    load_weights(p->w + c * p->step, p->step, count, x);
    if (p->flipped) {
      UNROLL for (int k = 0; k < 4; k++) {
        const vec_f32 first = x[k];
        x[k] = x[8 - k], x[8 - k] = first;
      }
    }
    UNROLL for (int k = 0; k < 3; k++) map_weight(x + k, 3, rows + k, 3);
    UNROLL for (int k = 0; k < 4; k++) map_weight(rows + 3 * k, 1, tile + 4 * k, 1);
    UNROLL for (int k = 0; k < SITU__WINOGRAD; k++) F32(store_some)(p->to + k * next + c, tile[k], count);
  }
}

const situ__winograd_kernels SITU__ISA_NAME(situ__winograd_kernels) = { LANES, input, output, weight };
