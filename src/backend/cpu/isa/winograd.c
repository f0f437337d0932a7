/* Winograd's transforms, compiled for each instruction set. Lanes are tiles, or channels of weights.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/winograd.h"
#include "backend/cpu/isa/halves.h"
#include "base/size.h"

#include <string.h>

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define LANE_NUMBERS NUMBERS_F32
#define real float
#define vec vec_f32
#define picks picks_f32
#include "backend/cpu/isa/transpose.h"

/* Which lanes of a vector that begins at column `first` are inside of the row. */
typedef struct part {
  int64_t first;
  int low, high;
} part;

static part part_of(int64_t first, int64_t width) {
  const int64_t low = situ__min_i64(situ__max_i64(0, -first), LANES), high = situ__min_i64(width - first, LANES);
  return (part){ first, (int)low, (int)situ__max_i64(low, high) };
}
ALWAYS_INLINE vec_f32 load_columns(const float *row, part at) {
  return at.high - at.low == LANES ? F32(load)(row + at.first) : F32(load_between)(row + at.first, at.low, at.high);
}

/* The elements of even and of odd columns, of even and of odd rows, each as a plane; elements outside of x are 0. Rows
   that are shorter than a vector are written from the first to the last, so that what is written past one is
   overwritten. The place after the last tile reads one element more. */
static void split(const situ__winograd_input *p) {
  const int64_t line = p->line, width = p->width, size = p->size;
  const int64_t above = situ__max_i64(0, -p->row), below = situ__min_i64(2 * p->rows + 2, p->height - p->row);
  for (int64_t i = 0; i < line; i += LANES) {
    if (i + LANES > line && line >= LANES) i = line - LANES;
    const part left = part_of(2 * i - p->left, width), right = part_of(left.first + LANES, width);
    for (int64_t r = 0; r < 2 * p->rows + 2; r++) {
      float *even = p->phase + r % 2 * 2 * size + r / 2 * line + i;
      vec_f32 a = { 0 }, b = { 0 };
      if (r >= above && r < below) {
        a = load_columns(p->x + (p->row + r) * width, left);
        b = load_columns(p->x + (p->row + r) * width, right);
      }
      F32(store)(even, HALF_32(picks_f32, a, b, 0));
      F32(store)(even + size, HALF_32(picks_f32, a, b, 1));
    }
  }
  for (int k = 0; k < 4; k++) F32(store)(p->phase + k * size + (p->rows + 1) * line, (vec_f32){ 0 });
}

/* One dimension: of 4 elements. */
ALWAYS_INLINE void map_input(vec_f32 *x, int step) {
  const vec_f32 a = x[0], b = x[step], c = x[2 * step], d = x[3 * step];
  x[0] = a - c, x[step] = b + c, x[2 * step] = c - b, x[3 * step] = b - d;
}

static void input(const situ__winograd_input *p) {
  const float *phase = p->phase;
  float *to = p->to;
  const int64_t size = p->size, line = p->line, next = p->next, places = p->rows * line;
  split(p);
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

/* The last vector ends where the row does; a short one is read as a whole, and written so where `room` elements follow
   that are written later. */
ALWAYS_INLINE void copy_row(float *to, const float *from, int64_t count, int64_t room, bool relu) {
  for (int64_t i = 0; i < count; i += LANES) {
    if (i + LANES > count && count >= LANES) i = count - LANES;
    const vec_f32 v = F32(load)(from + i), kept = relu ? F32(relu)(v) : v;
    if (count + room >= LANES) F32(store)(to + i, kept);
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
    if (p->turned) {
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
