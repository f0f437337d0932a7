/* Blocks of random numbers. Compiled once for each instruction set, with the same bits in all.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/cpu.h"
#include "backend/cpu/isa/loops.h"
#include "backend/cpu/random.h"
#include "kernels/dialect.h"
#include "kernels/random.h"

#define T float
#define TNAME f32
#include "kernels/normal.h"
#undef T
#undef TNAME
#define T double
#define TNAME f64
#include "kernels/normal.h"

static void words(uint32_t *w, int64_t first, int64_t count, uint64_t seed, uint64_t offset) {
  for (int64_t i = 0; i < count; i++)
    philox((U64)(first + i), offset, seed, &w[4 * i], &w[4 * i + 1], &w[4 * i + 2], &w[4 * i + 3]);
}

static void pairs(uint64_t *pair, int64_t first, int64_t count, uint64_t seed, uint64_t offset) {
  for (int64_t i = 0; i < count; i++) {
    U32 w[4];
    philox((U64)(first + i), offset, seed, &w[0], &w[1], &w[2], &w[3]);
    pair[2 * i] = (U64)w[1] << 32 | w[0];
    pair[2 * i + 1] = (U64)w[3] << 32 | w[2];
  }
}

/* A range of 32 bits needs half of the products: its high half is 0. */
static void integers(uint64_t *y, int64_t count, uint64_t low, uint64_t range) {
  const U32 narrow = (U32)range;
  if (range == narrow)
    for (int64_t i = 0; i < count; i++) y[i] = low + below(y[i], narrow);
  else
    for (int64_t i = 0; i < count; i++) y[i] = low + below(y[i], range);
}

/* About half of the elements, at most, are not below n after a run: those run again, together. */
static void permutation(uint64_t *y, int64_t first, int64_t count, uint64_t n, uint64_t seed, uint64_t offset) {
  const drawn_order s = drawn_order_of(n, offset, seed);
  uint64_t again[SITU__BLOCK];
  int64_t at[SITU__BLOCK], left = 0;
  INDEPENDENT
  for (int64_t i = 0; i < count; i++) y[i] = shuffled_once(s, (U64)(first + i));
  for (int64_t i = 0; i < count; i++) at[left] = i, left += y[i] >= n;
  while (left) {
    for (int64_t k = 0; k < left; k++) again[k] = y[at[k]];
    INDEPENDENT
    for (int64_t k = 0; k < left; k++) again[k] = shuffled_once(s, again[k]);
    int64_t more = 0;
    for (int64_t k = 0; k < left; k++) {
      y[at[k]] = again[k];
      at[more] = at[k], more += again[k] >= n;
    }
    left = more;
  }
}

static void normal_32(const uint32_t *w, int64_t pairs, float *y) {
  INDEPENDENT
  for (int64_t i = 0; i < pairs; i++) {
    normal_pair_f32(normal_unit_f32(w[2 * i]), w[2 * i + 1] >> 30, normal_angle_f32(w[2 * i + 1]), &y[2 * i],
                    &y[2 * i + 1]);
  }
}

static void normal_64(const uint64_t *w, int64_t pairs, double *y) {
  INDEPENDENT
  for (int64_t i = 0; i < pairs; i++) {
    normal_pair_f64(normal_unit_f64(w[2 * i]), (U32)(w[2 * i + 1] >> 62), normal_angle_f64(w[2 * i + 1]), &y[2 * i],
                    &y[2 * i + 1]);
  }
}

const situ__random_rows
    SITU__ISA_NAME(situ__random_rows) = { words, pairs, integers, permutation, normal_32, normal_64 };
