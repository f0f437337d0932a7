/* Blocks of random numbers. Compiled once for each instruction set, with the same bits in all.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"
#include "backend/cpu/common/isa/simd.h"
#include "backend/cpu/elementwise/random.h"
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

/* Several blocks at a time: words are in lanes of 64 bits, of which products read the low halves, while the high ones
   hold anything. EVENS and ODDS are instructions: lanes of two vectors in turn, but within 128 bits. So that results
   are in memory's order, the lanes' counters are IN_TURN. */
#if defined(__SSE2__)
#include <emmintrin.h>
#if VECTOR == 64
#define IN_TURN 0, 4, 1, 5, 2, 6, 3, 7
#define EVENS(a, b) SHUFFLE(picks_f64, a, b, 0, 8, 2, 10, 4, 12, 6, 14)
#define ODDS(a, b) SHUFFLE(picks_f64, a, b, 1, 9, 3, 11, 5, 13, 7, 15)
#define PRODUCT(a, b) (lanes) _mm512_mul_epu32((__m512i)(a), _mm512_set1_epi64(b))
#elif VECTOR == 32
#define IN_TURN 0, 2, 1, 3
#define EVENS(a, b) SHUFFLE(picks_f64, a, b, 0, 4, 2, 6)
#define ODDS(a, b) SHUFFLE(picks_f64, a, b, 1, 5, 3, 7)
#define PRODUCT(a, b) (lanes) _mm256_mul_epu32((__m256i)(a), _mm256_set1_epi64x(b))
#else
#define IN_TURN 0, 1
#define EVENS(a, b) SHUFFLE(picks_f64, a, b, 0, 2)
#define ODDS(a, b) SHUFFLE(picks_f64, a, b, 1, 3)
#define PRODUCT(a, b) (lanes) _mm_mul_epu32((__m128i)(a), _mm_set1_epi64x(b))
#endif
typedef U64 lanes __attribute__((vector_size(VECTOR)));
enum { LANES = VECTOR / 8 };

ALWAYS_INLINE void several(U64 first, U64 offset, U64 key, uint32_t *w) {
  lanes c0 = (lanes){ IN_TURN } + first, c1 = c0 >> 32, c2 = offset - (lanes){ 0 }, c3 = c2 >> 32;
  U64 k0 = (U32)key, k1 = key >> 32;
  for (int round = 0; round < 10; round++) {
    const lanes a = PRODUCT(c0, 0xD2511F53), b = PRODUCT(c2, 0xCD9E8D57);
    c0 = (b >> 32) ^ c1 ^ k0;
    c1 = b;
    c2 = (a >> 32) ^ c3 ^ k1;
    c3 = a;
    k0 += 0x9E3779B9;
    k1 += 0xBB67AE85;
  }
  const lanes low = (c0 & 0xffffffff) | c1 << 32, high = (c2 & 0xffffffff) | c3 << 32;
  const lanes blocks[2] = { EVENS(low, high), ODDS(low, high) };
  memcpy(w, blocks, sizeof blocks);
}
#else
enum { LANES = 1 };
ALWAYS_INLINE void several(U64 first, U64 offset, U64 key, uint32_t *w) {
  philox(first, offset, key, &w[0], &w[1], &w[2], &w[3]);
}
#endif

static void words(uint32_t *w, int64_t first, int64_t count, uint64_t seed, uint64_t offset) {
  int64_t i = 0;
  for (; i + LANES <= count; i += LANES) several((U64)(first + i), offset, seed, w + 4 * i);
  for (; i < count; i++) philox((U64)(first + i), offset, seed, &w[4 * i], &w[4 * i + 1], &w[4 * i + 2], &w[4 * i + 3]);
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

const situ__random_rows SITU__ISA_NAME(situ__random_rows) = { words, integers, permutation, normal_32, normal_64 };
