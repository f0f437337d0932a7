/* Packing beside products by tile registers: a square of 16 lanes and 32 elements takes as long as a block of products.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/attention/attention.h"
#include "backend/cpu/gemm/isa_amx/beside.h"

struct company {
  situ__side_packing *p;
  vec_f32 low[TILE], high[TILE];
  char *to; /* of the square; NULL: there is none */
  const float *from;
  int64_t lanes, elements; /* that are left from the square on */
  magnitudes seen;
};

ALWAYS_INLINE squares all_of(const situ__side_packing *p) { return squares_of(p->lane, p->step, p->lanes, p->k); }

ALWAYS_INLINE void take_square(company *c) {
  situ__side_packing *p = c->p;
  const squares all = all_of(p);
  c->to = NULL;
  if (p->square >= count_squares(&all)) return;
  const square_place place = square_at(&all, p->square++);
  const int64_t t = place.lanes, q = place.block;
  c->to = p->to + (t / 2 * all.blocks + q) * BLOCK_BYTES + t % 2 * TILE_BYTES;
  c->from = p->from + t * TILE * p->lane + q * DEPTH * p->step;
  c->lanes = p->lanes - t * TILE, c->elements = p->k - q * DEPTH;
  c->seen = (magnitudes){ _mm512_load_si512(p->least), _mm512_load_si512(p->most) };
}

ALWAYS_INLINE void pack_half(const company *c, vec_f32 half[TILE], int64_t first) {
  const situ__side_packing *p = c->p;
  const squares all = all_of(p);
  load_half(half, c->from + first * p->step, p->lane, p->step, c->lanes, c->elements - first, all.in_rows);
  if (all.in_rows) FN(transpose)(half);
}

ALWAYS_INLINE void pack_between(company *c, int number) {
  if (!c->to) return;
  if (number == 0) pack_half(c, c->low, 0);
  if (number == 1) pack_half(c, c->high, TILE);
  if (number < 2) return;
  UNROLL for (int i = 0; i < 4; i++) {
    const int lane = 4 * (number - 2) + i;
    store_parts(&c->seen, c->low[lane], c->high[lane], c->to + lane * 64, 2 * TILE_BYTES);
  }
}

ALWAYS_INLINE void give_square(company *c) {
  if (!c->to) return;
  _mm512_store_si512(c->p->least, c->seen.least);
  _mm512_store_si512(c->p->most, c->seen.most);
}

static void begin(situ__side_packing *p) {
  const magnitudes none = no_magnitudes();
  p->square = 0;
  _mm512_store_si512(p->least, none.least);
  _mm512_store_si512(p->most, none.most);
}

static void multiply(const situ__tile *t, int64_t rows, situ__side_packing *p) {
  static const side_work work = { take_square, pack_between, give_square };
  company with = { .p = p };
  multiply_beside(t, rows, &work, &with);
}

static bool finish(situ__side_packing *p) {
  company with = { .p = p };
  const squares all = all_of(p);
  while (p->square < count_squares(&all)) {
    take_square(&with);
    UNROLL for (int number = 0; number < 6; number++) pack_between(&with, number);
    give_square(&with);
  }
  const magnitudes seen = { _mm512_load_si512(p->least), _mm512_load_si512(p->most) };
  return has_parts(&seen);
}

const situ__attention_packer situ__attention_packer_amx = { begin, multiply, finish };
