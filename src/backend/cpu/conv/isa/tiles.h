/* Register tiles of a convolution for one element type: included with `real`, `vec`, LANES and FN; `result`, the type
   of results, with GIVE(to, v) and GIVE_SOME(to, v, count) that store them; and MULTIPLY_ADD(weight, row, sum).
   SPDX-License-Identifier: MIT */

/* Stores the windows among a vector's lanes, which follow each other in the result. */
ALWAYS_INLINE void FN(put)(result *to, vec v, const situ__conv_lanes *l) {
#if defined(__AVX512F__)
  const bool first = !(l->mask & (l->mask + 1)); /* the others follow them */
  GIVE_SOME(to, first ? v : FN(compress)(v, l->mask), l->count);
#else
  for (int i = 0; i < LANES; i++)
    if (l->mask >> i & 1) *to++ = v[i];
#endif
}

/* The last pass over the sums: whole and relu are constants where this is inlined, as are rows and vectors. */
ALWAYS_INLINE void FN(finish)(const situ__conv_tile *t, const vec *sum, int rows, int v, bool full, bool relu) {
  const situ__conv_lanes *l = &t->lanes[v];
  result *to = (result *)t->y + l->at;
  UNROLL for (int i = 0; i < rows; i++) {
    const vec value = relu ? FN(relu)(sum[i * 4]) : sum[i * 4];
    if (full) GIVE(to + i * t->y_row, value);
    else FN(put)(to + i * t->y_row, value, l);
  }
}

/* rows and vectors are constants wherever this is inlined, so that the compiler keeps sum[] in registers. */
ALWAYS_INLINE void FN(conv_tile)(const situ__conv_tile *t, int rows, int vectors) {
  const real *w = t->w, *x = t->x;
  const int64_t w_row = t->w_row, k = t->k, *at = t->at;
  vec sum[8][4];
  UNROLL for (int i = 0; i < rows; i++) {
    const vec bias = FN(splat)(t->bias ? ((const real *)t->bias)[i] : 0);
    UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = bias;
  }
  for (int64_t p = 0; p < k; p++) {
    vec row[4];
    UNROLL for (int v = 0; v < vectors; v++) row[v] = FN(load)(x + at[p] + v * LANES);
    UNROLL for (int i = 0; i < rows; i++) {
      const vec weight = FN(splat)(w[i * w_row + p]);
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] = MULTIPLY_ADD(weight, row[v], sum[i][v]);
    }
  }
  if (t->add) {
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < vectors; v++) sum[i][v] += FN(load)((real *)t->sums + i * t->sums_row + v * LANES);
    }
  }
  if (!t->y) {
    UNROLL for (int i = 0; i < rows; i++) {
      UNROLL for (int v = 0; v < vectors; v++) FN(store)((real *)t->sums + i * t->sums_row + v * LANES, sum[i][v]);
    }
    return;
  }
  UNROLL for (int v = 0; v < vectors; v++) {
    const bool full = t->lanes[v].count == LANES;
    if (full && t->relu) FN(finish)(t, &sum[0][v], rows, v, true, true);
    else if (full) FN(finish)(t, &sum[0][v], rows, v, true, false);
    else if (t->relu) FN(finish)(t, &sum[0][v], rows, v, false, true);
    else FN(finish)(t, &sum[0][v], rows, v, false, false);
  }
}

#define TILE(rows, vectors) \
  static void FN(conv_tile_##rows##x##vectors)(const situ__conv_tile *t) { FN(conv_tile)(t, rows, vectors); }
#define TILES(vectors) TILE(1, vectors) TILE(2, vectors) TILE(4, vectors)
#define NAMES(vectors) FN(conv_tile_1x##vectors), FN(conv_tile_2x##vectors), FN(conv_tile_4x##vectors)
/* clang-format off */
TILES(1) TILES(2) TILE(6, 1) TILE(6, 2) TILE(8, 1)
#if WIDE == 4
TILES(3) TILES(4) TILE(6, 3) TILE(6, 4) TILE(8, 2) TILE(8, 3)
#endif

const situ__conv_kernels KERNELS = {
  .lanes = LANES,
  .y_size = sizeof(result),
#if WIDE == 4
  .tile = { { NAMES(1), FN(conv_tile_6x1), FN(conv_tile_8x1) },
            { NAMES(2), FN(conv_tile_6x2), FN(conv_tile_8x2) },
            { NAMES(3), FN(conv_tile_6x3), FN(conv_tile_8x3) },
            { NAMES(4), FN(conv_tile_6x4) } },
#else
  .tile = { { NAMES(1), FN(conv_tile_6x1), FN(conv_tile_8x1) }, { NAMES(2), FN(conv_tile_6x2) } },
#endif
  OTHERS
};
/* clang-format on */
#undef TILE
#undef TILES
#undef NAMES
