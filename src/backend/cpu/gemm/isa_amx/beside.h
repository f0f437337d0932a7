/* Products by tile registers, between which vectors do other work: each product takes 16 cycles.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_AMX_BESIDE_H
#define SITU_BACKEND_CPU_ISA_AMX_BESIDE_H

#include "parts.h"

/* Work beside products: a part is taken before each block of 32 elements, and given back after it. */
typedef struct side_work {
  void (*take)(company *c);
  vector_work *between;
  void (*give)(company *c);
} side_work;

/* The rows from `row` on, up to a panel's. */
ALWAYS_INLINE void multiply_panel_beside(const situ__tile *t, int64_t row, bool tall, bool wide, const side_work *work,
                                         company *with) {
  const int64_t line = t->c_row * (int64_t)sizeof(float), blocks = (t->k + DEPTH - 1) / DEPTH;
  float *c = (float *)t->c + row * t->c_row, *below = c + TILE * t->c_row;
  part_tiles a = { (const char *)t->a + row / WIDTH * blocks * BLOCK_BYTES, 64, TILE_BYTES, 2 * TILE_BYTES },
             b = { t->b, 64, TILE_BYTES, 2 * TILE_BYTES };
  if (t->add) load_sums(c, below, line, tall, wide);
  else zero_sums();
  for (int64_t k = 0; k < blocks; k++, a.first += BLOCK_BYTES, b.first += BLOCK_BYTES) {
    work->take(with);
    multiply_three_parts(&a, &b, tall, wide, work->between, with);
    work->give(with);
  }
  store_sums(c, below, line, tall, wide);
}

/* As `multiply` of situ__panels, without what its tiles lack here. */
ALWAYS_INLINE void multiply_beside(const situ__tile *t, int64_t rows, const side_work *work, company *with) {
  for (int64_t row = 0; row < rows; row += WIDTH) {
    const bool tall = rows - row > TILE, wide = t->columns > TILE;
    if (tall && wide) multiply_panel_beside(t, row, true, true, work, with);
    else multiply_panel_beside(t, row, tall, wide, work, with);
  }
}

#endif
