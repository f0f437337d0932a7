/* Tile registers, and panels of tiles: a tile of a is 16 rows of 32 elements, one of b 16 pairs of elements of 16
   columns; each is 1 KiB. Panels are two tiles wide.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_AMX_TILES_H
#define SITU_BACKEND_CPU_ISA_AMX_TILES_H

#include "backend/cpu/common/isa/pairs.h"
#include "backend/cpu/common/isa/round_bf16.h"
#include "backend/cpu/gemm/packed.h"

enum { TILE_BYTES = 1024, WIDTH = 2 * TILE };

ALWAYS_INLINE void store_tile(char *to, const vec_f32 tile[TILE]) {
  UNROLL for (int i = 0; i < TILE; i++) _mm512_store_ps(to + i * 64, (__m512)tile[i]);
}

/* The squares of 16 lanes and 32 elements that panels are packed of, two side by side in each panel. Those of other
   lanes come next if lanes follow each other, so that memory is read in order. */
typedef struct squares {
  bool in_rows;
  int64_t blocks, across; /* of elements, of lanes */
} squares;
ALWAYS_INLINE squares squares_of(int64_t lane, int64_t step, int64_t lanes, int64_t k) {
  return (squares){ lane == 1 && step != 1, (k + DEPTH - 1) / DEPTH, (lanes + WIDTH - 1) / WIDTH * 2 };
}
ALWAYS_INLINE int64_t count_squares(const squares *s) { return s->blocks * s->across; }
/* Of square `at`: its first lane is lanes * TILE, its first element block * DEPTH. */
typedef struct square_place {
  int64_t lanes, block;
} square_place;
ALWAYS_INLINE square_place square_at(const squares *s, int64_t at) {
  return s->in_rows ? (square_place){ at % s->across, at / s->across }
                    : (square_place){ at / s->blocks, at % s->blocks };
}

/* The layout that the processor defines (palette 1): 8 tiles of 16 rows of 64 bytes. */
typedef struct tiles {
  uint8_t palette, start, reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
} tiles;

static const tiles layout = { .palette = 1,
                              .row_bytes = { 64, 64, 64, 64, 64, 64, 64, 64 },
                              .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };

/* situ__panels.begin and end. */
static inline void begin_tiles(void) { _tile_loadconfig(&layout); }
static inline void end_tiles(void) { _tile_release(); }

/* Adds the products of 32 elements of a panel of a and of one of b to the sums, tiles 0 to 3; 4 and 5 are for tiles of
   a, 6 and 7 for those of b. row: bytes between rows of a. tall, wide: the second tile of a, of b is needed. */
typedef void block_multiplier(const char *a, int64_t row, const char *b, bool tall, bool wide);

ALWAYS_INLINE void zero_sums(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}
/* below: the rows of the second tile of a's panel; row: bytes from row to row. */
ALWAYS_INLINE void load_sums(const float *c, const float *below, int64_t row, bool tall, bool wide) {
  _tile_loadd(0, c, row);
  if (wide) _tile_loadd(1, c + TILE, row);
  if (tall) _tile_loadd(2, below, row);
  if (tall && wide) _tile_loadd(3, below + TILE, row);
}
ALWAYS_INLINE void store_sums(float *c, float *below, int64_t row, bool tall, bool wide) {
  _tile_stored(0, c, row);
  if (wide) _tile_stored(1, c + TILE, row);
  if (tall) _tile_stored(2, below, row);
  if (tall && wide) _tile_stored(3, below + TILE, row);
}

/* Bytes from a row of a to the next, from a block of DEPTH elements, from a panel. */
typedef struct steps_of_a {
  int64_t row, next, panel;
} steps_of_a;

/* Addresses that memory is asked for while a panel of a is multiplied, step by step: a part of the next panel of b,
   into the L2 cache, and the rows of the result that are rounded next; 0: nothing. */
typedef struct ahead {
  uintptr_t b, c, c_row;
} ahead;
enum { LINES = 4, SHARES = 2 * TILE_BYTES / 64 / LINES }; /* of b for each step; panels of a that ask for all of it */

ALWAYS_INLINE void ask_ahead(const ahead *of, int64_t step) {
  if (of->b) {
    UNROLL for (int i = 0; i < LINES; i++)
        __builtin_prefetch((const void *)(of->b + (uintptr_t)(step * LINES + i) * 64), 0, 2);
  }
  if (!of->c || step >= TILE) return;
  const uintptr_t c = of->c + (uintptr_t)(2 * step) * of->c_row;
  __builtin_prefetch((const void *)c, 1);
  __builtin_prefetch((const void *)(c + of->c_row), 1);
}

/* from: what is added to, with rows from_row apart, 0 for one row; NULL: nothing. */
ALWAYS_INLINE void multiply_panel(const char *a, steps_of_a by, const char *b, float *c, int64_t c_row,
                                  const float *from, int64_t from_row, int64_t blocks, bool tall, bool wide, int parts,
                                  block_multiplier *block, const ahead *next) {
  const int64_t row = c_row * (int64_t)sizeof(float);
  float *below = c + TILE * c_row;
  if (from) load_sums(from, from + TILE * from_row, from_row * (int64_t)sizeof(float), tall, wide);
  else zero_sums();
  for (int64_t q = 0; q < blocks; q++, a += by.next, b += 2 * parts * TILE_BYTES) {
    ask_ahead(next, q);
    block(a, by.row, b, tall, wide);
  }
  store_sums(c, below, row, tall, wide);
}

/* The sums of up to WIDTH rows, rounded to where t says. */
ALWAYS_INLINE void round_sums(float sums[WIDTH][WIDTH], const situ__tile *t, uint16_t *to, int64_t rows) {
  for (int64_t i = 0; i < rows; i++, to += t->rounded_row) {
    if (t->columns >= WIDTH) {
      __m512 low = _mm512_load_ps(sums[i]), high = _mm512_load_ps(sums[i] + TILE);
      if (t->bias) {
        low = _mm512_add_ps(low, _mm512_loadu_ps(t->bias));
        high = _mm512_add_ps(high, _mm512_loadu_ps(t->bias + TILE));
      }
      if (t->past_cache) _mm512_stream_si512((void *)to, rounded_32(low, high));
      else round_32(low, high, to);
    } else {
      for (int64_t j = 0; j < t->columns; j++) to[j] = situ__f32_to_bf16(sums[i][j] + (t->bias ? t->bias[j] : 0));
    }
  }
}

/* `multiply` of situ__panels whose elements are the sum of so many parts: for each 32 of them a panel has two tiles of
   first parts, then two of second ones, and so on. Sums that are rounded stay in the L1 cache until then. */
ALWAYS_INLINE void multiply_panels(const situ__tile *t, int64_t rows, int parts, block_multiplier *block) {
  const int64_t blocks = (t->k + DEPTH - 1) / DEPTH, a_row = 2 * t->a_row;
  const steps_of_a packed = { 64, 2 * parts * TILE_BYTES, blocks * 2 * parts * TILE_BYTES },
                   in_place = { a_row, 2 * DEPTH, WIDTH * a_row }, by = t->a_col == 1 ? in_place : packed;
  const int64_t from_row = t->from ? t->from_row : t->c_row, c_row = t->rounded ? WIDTH : t->c_row;
  _Alignas(64) float sums[WIDTH][WIDTH];
  const char *a = t->a, *b = t->b;
  float *c = t->rounded ? sums[0] : t->c;
  const float *from = !t->add ? NULL : t->from ? t->from : t->c;
  ahead next = { .c_row = 2 * (uintptr_t)t->rounded_row };
  if (parts == 1 && rows >= SHARES * WIDTH) next.b = (uintptr_t)b + (uintptr_t)(blocks * 2 * TILE_BYTES);
  for (int64_t i = 0; i < rows; i += WIDTH, a += by.panel) {
    if (t->rounded && !t->past_cache) next.c = (uintptr_t)(t->rounded + i * t->rounded_row);
    const bool tall = rows - i > TILE, wide = t->columns > TILE;
    if (tall && wide) multiply_panel(a, by, b, c, c_row, from, from_row, blocks, true, true, parts, block, &next);
    else if (tall) multiply_panel(a, by, b, c, c_row, from, from_row, blocks, true, false, parts, block, &next);
    else if (wide) multiply_panel(a, by, b, c, c_row, from, from_row, blocks, false, true, parts, block, &next);
    else multiply_panel(a, by, b, c, c_row, from, from_row, blocks, false, false, parts, block, &next);
    if (next.b) next.b += (uintptr_t)(blocks * LINES * 64);
    if (from) from += WIDTH * from_row;
    if (!t->rounded) c += WIDTH * c_row;
    else round_sums(sums, t, t->rounded + i * t->rounded_row, rows - i < WIDTH ? rows - i : WIDTH);
  }
}

#endif
