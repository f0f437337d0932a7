/* Tile registers, and panels of tiles: a tile of a is 16 rows of 32 elements, one of b 16 pairs of elements of 16
   columns; each is 1 KiB. Panels are two tiles wide.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_AMX_TILES_H
#define SITU_BACKEND_CPU_ISA_AMX_TILES_H

#include "backend/cpu/isa/pairs.h"
#include "backend/cpu/packed.h"

enum { TILE_BYTES = 1024, WIDTH = 2 * TILE };

ALWAYS_INLINE void store_tile(char *to, const vec_f32 tile[TILE]) {
  UNROLL for (int i = 0; i < TILE; i++) _mm512_store_ps(to + i * 64, (__m512)tile[i]);
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

#endif
