/* Quantised blocks by the instruction that adds four products of bytes to an i32 (AVX512_VNNI). x is integers of 23
   bits, at a step of its own for each 32 numbers, in three signed digits of 8 bits: products and sums of four are
   exact, and are rounded once, to f32.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/blocks.h"
#include "backend/cpu/gemm/isa/block_parts.h"

enum {
  DIGITS = 3,
  BITS = 22, /* of the largest magnitude: four products with 63 are below 2^31 */
  GROUP = SITU__BLOCK_GROUP,
  CHUNK = 128, /* numbers of two vectors of bytes */
  K = 256      /* numbers of a block of Q4_K, Q5_K, Q6_K */
};

/* ---- x ---- */

/* 128 elements of x in the order of the blocks' bytes: those of their low bits, then those of their high bits; the most
   significant digits first. */
typedef struct chunk {
  int8_t digit[2][DIGITS][CHUNK / 2];
  int32_t offset[2][LANES]; /* - 8 (Q4_0) or - 32 (Q6_K) times each four integers */
  float step[LANES];        /* Q4_0: of the four groups; else, in a block's first chunk, of 8 groups or 16 halves */
} chunk;
_Static_assert(sizeof(chunk) == CHUNK * 9 / 2, "what situ__block_arranged gives");

/* Where half of the chunk's group g lies in its 128 digits. */
ALWAYS_INLINE int digit_place(situ_block_type type, int g, int half) {
  if (type == SITU_BLOCK_Q4_0) return half * 64 + g * 16;
  if (type == SITU_BLOCK_Q6_K) return g * GROUP + half * 16;
  return g % 2 * 64 + g / 2 * GROUP + half * 16;
}

/* The step of x[32]: a power of 2, or 0 if all are 0. Returns false if x has a NaN or an infinity, or
   numbers so large or small that the step times a scale might be infinite or subnormal. */
static bool step_of(const float *x, float *step, float *inverse) {
  enum { FRACTION = 23, LEAST = 127 - 63, MOST = 127 + 63 };
  uint32_t most = 0;
  for (int k = 0; k < GROUP; k++) {
    uint32_t bits;
    memcpy(&bits, &x[k], sizeof bits);
    bits &= 0x7fffffff;
    most = bits > most ? bits : most;
  }
  *step = *inverse = 0;
  if (most == 0) return true;
  const uint32_t exponent = most >> FRACTION;
  if (exponent < LEAST || exponent > MOST) return false;
  const uint32_t forth = (exponent - BITS + 1) << FRACTION, back = (254 + BITS - 1 - exponent) << FRACTION;
  memcpy(step, &forth, sizeof *step);
  memcpy(inverse, &back, sizeof *inverse);
  return true;
}

static void arrange_half(const float *x, float inverse, int centre, int at, chunk *to) {
  for (int k = 0; k < 16; k++) {
    int32_t left = (int32_t)(x[k] * inverse + (x[k] < 0 ? -0.5f : 0.5f));
    to->offset[at / 64][(at % 64 + k) / 4] -= centre * left;
    for (int d = DIGITS - 1; d >= 0; d--) {
      const int8_t digit = (int8_t)(uint8_t)((uint32_t)left & 255);
      to->digit[at / 64][d][at % 64 + k] = digit;
      left = (left - digit) / 256;
    }
  }
}

ALWAYS_INLINE bool arrange_groups(situ_block_type type, int centre, const float *x, int64_t groups, chunk *to) {
  memset(to, 0, sizeof *to * (size_t)((groups + 3) / 4));
  for (int64_t i = 0; i < groups; i++, x += GROUP) {
    const int g = (int)(i % 4), of_block = (int)(i % (K / GROUP));
    chunk *c = to + i / 4, *first = type == SITU_BLOCK_Q4_0 ? c : to + i / (K / GROUP) * 2;
    float step, inverse;
    if (!step_of(x, &step, &inverse)) return false;
    for (int half = 0; half < 2; half++) {
      arrange_half(x + half * 16, inverse, centre, digit_place(type, g, half), c);
      if (type == SITU_BLOCK_Q6_K) first->step[2 * of_block + half] = step;
    }
    if (type == SITU_BLOCK_Q4_0) c->step[g] = step;
    else if (type != SITU_BLOCK_Q6_K) first->step[of_block] = step;
  }
  return true;
}
static bool arrange_Q4_0(const float *x, int64_t count, void *to) {
  return arrange_groups(SITU_BLOCK_Q4_0, 8, x, count, to);
}
static bool arrange_K(const float *x, int64_t count, void *to) {
  return arrange_groups(SITU_BLOCK_Q4_K, 0, x, count * (K / GROUP), to);
}
static bool arrange_Q6_K(const float *x, int64_t count, void *to) {
  return arrange_groups(SITU_BLOCK_Q6_K, 32, x, count * (K / GROUP), to);
}

/* ---- dot ---- */

/* Sums of four products each: of bytes with a part of x. */
ALWAYS_INLINE __m512i digit_products(__m512i bytes, const chunk *x, int part) {
  __m512i sum = _mm512_setzero_si512();
  UNROLL
  for (int d = 0; d < DIGITS; d++)
    sum = _mm512_dpbusd_epi32(d ? _mm512_slli_epi32(sum, 8) : sum, bytes, _mm512_load_si512(x->digit[part][d]));
  return sum;
}

ALWAYS_INLINE __m512i each_byte(int byte) { return _mm512_set1_epi8((char)byte); }
/* The high 4 bits of each byte. */
ALWAYS_INLINE __m512i high_bits(__m512i v) { return _mm512_and_si512(_mm512_srli_epi16(v, 4), each_byte(15)); }
ALWAYS_INLINE __m512i load_block(const unsigned char *at) { return _mm512_loadu_si512(at); }
/* 32 bytes, and the same two bits further right. */
ALWAYS_INLINE __m512i load_twice(const unsigned char *at) {
  const __m512i both = _mm512_broadcast_i64x4(_mm256_loadu_si256((const void *)at));
  return _mm512_srlv_epi64(both, _mm512_setr_epi64(0, 0, 0, 0, 2, 2, 2, 2));
}
/* Adds the sums, each times its scale: lane l's is scales[which[l]]. */
ALWAYS_INLINE __m512 add_scaled(__m512 all, __m512 scales, const int32_t which[LANES], __m512i sum) {
  return _mm512_fmadd_ps(_mm512_permutexvar_ps(_mm512_loadu_si512(which), scales), _mm512_cvtepi32_ps(sum), all);
}

/* The scales of 4 blocks. */
ALWAYS_INLINE __m128 four_scales(const unsigned char *const b[4]) {
  uint64_t all = 0;
  UNROLL
  for (int k = 0; k < 4; k++) {
    uint16_t half;
    memcpy(&half, b[k], sizeof half);
    all |= (uint64_t)half << 16 * k;
  }
  return _mm_cvtph_ps(_mm_cvtsi64_si128((int64_t)all));
}

static float dot_Q4_0(const unsigned char *b, int64_t count, const void *arranged, const float *sums) {
  static const unsigned char none[18];
  static const int32_t blocks[LANES] = { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3 };
  (void)sums;
  const chunk *x = arranged;
  __m512 all = _mm512_setzero_ps();
  for (int64_t left = count; left > 0; left -= 4, b += 4 * 18, x++) {
    fetch_ahead(b, 4 * 18);
    const unsigned char *const at[4] = { b, left > 1 ? b + 18 : none, left > 2 ? b + 36 : none,
                                         left > 3 ? b + 54 : none };
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const void *)(at[0] + 2)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(at[1] + 2)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(at[2] + 2)), 2);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const void *)(at[3] + 2)), 3);
    const __m512i low = _mm512_and_si512(v, each_byte(15)), high = high_bits(v);
    const __m512i sum =
        _mm512_add_epi32(_mm512_add_epi32(digit_products(low, x, 0), digit_products(high, x, 1)),
                         _mm512_add_epi32(_mm512_load_si512(x->offset[0]), _mm512_load_si512(x->offset[1])));
    const __m128 scales = _mm_mul_ps(four_scales(at), _mm_load_ps(x->step));
    all = add_scaled(all, _mm512_castps128_ps512(scales), blocks, sum);
  }
  return _mm512_reduce_add_ps(all);
}

/* Q4_K, and Q5_K, whose fifth bits lie before the others. Of each half block a vector has groups 0 and 2 in the low
   bits of its bytes, 1 and 3 in the high ones. */
ALWAYS_INLINE float dot_packed(const unsigned char *b, int64_t count, const chunk *x, const float *sums, bool five) {
  static const int32_t groups[4][LANES] = { { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2 },
                                            { 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3 },
                                            { 4, 4, 4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6 },
                                            { 5, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7 } };
  const int bytes = five ? 176 : 144;
  __m512 all = _mm512_setzero_ps();
  floats_8 least = { 0 }, scale, minimum, step;
  for (int64_t i = 0; i < count; i++, b += bytes, x += 2, sums += 8) {
    fetch_ahead(b, bytes);
    unpack_scales(b, &scale, &minimum);
    add_minima(&minimum, sums, &least);
    memcpy(&step, x->step, sizeof step);
    scale *= step;
    const __m512 scales = _mm512_castps256_ps512((__m256)scale);
    const __m512i fifth = five ? load_twice(b + 16) : each_byte(0); /* bit 4 h + part */
    UNROLL
    for (int h = 0; h < 2; h++) {
      const __m512i v = load_block(b + bytes - 128 + 64 * h);
      __m512i low = _mm512_and_si512(v, each_byte(15)), high = high_bits(v);
      if (five) {
        low = _mm512_or_si512(low, _mm512_and_si512(h ? fifth : _mm512_slli_epi16(fifth, 4), each_byte(16)));
        high = _mm512_or_si512(
            high, _mm512_and_si512(h ? _mm512_srli_epi16(fifth, 1) : _mm512_slli_epi16(fifth, 3), each_byte(16)));
      }
      all = add_scaled(all, scales, groups[2 * h], digit_products(low, x + h, 0));
      all = add_scaled(all, scales, groups[2 * h + 1], digit_products(high, x + h, 1));
    }
  }
  return _mm512_reduce_add_ps(all) - add_eight(&least);
}
static float dot_Q4_K(const unsigned char *b, int64_t count, const void *x, const float *sums) {
  return dot_packed(b, count, x, sums, false);
}
static float dot_Q5_K(const unsigned char *b, int64_t count, const void *x, const float *sums) {
  return dot_packed(b, count, x, sums, true);
}

/* Numbers are 32 too large. Each four lanes have a scale. */
static float dot_Q6_K(const unsigned char *b, int64_t count, const void *arranged, const float *sums) {
  static const int32_t which[4][LANES] = { { 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3 },
                                           { 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 7, 7, 7, 7 },
                                           { 8, 8, 8, 8, 9, 9, 9, 9, 10, 10, 10, 10, 11, 11, 11, 11 },
                                           { 12, 12, 12, 12, 13, 13, 13, 13, 14, 14, 14, 14, 15, 15, 15, 15 } };
  (void)sums;
  const chunk *x = arranged;
  __m512 all = _mm512_setzero_ps();
  for (int64_t i = 0; i < count; i++, b += 210, x += 2) {
    fetch_ahead(b, 210);
    const __m512i integer = _mm512_cvtepi8_epi32(_mm_loadu_si128((const void *)(b + 192)));
    const __m512 scales = _mm512_mul_ps(_mm512_mul_ps(_mm512_set1_ps(load_half(b + 208)), _mm512_cvtepi32_ps(integer)),
                                        _mm512_load_ps(x->step));
    UNROLL
    for (int h = 0; h < 2; h++) {
      const __m512i v = load_block(b + 64 * h), top = load_twice(b + 128 + 32 * h);
      const __m512i low = _mm512_or_si512(_mm512_and_si512(v, each_byte(15)),
                                          _mm512_and_si512(_mm512_slli_epi16(top, 4), each_byte(48))),
                    high = _mm512_or_si512(high_bits(v), _mm512_and_si512(top, each_byte(48)));
      all = add_scaled(all, scales, which[2 * h],
                       _mm512_add_epi32(digit_products(low, x + h, 0), _mm512_load_si512(x[h].offset[0])));
      all = add_scaled(all, scales, which[2 * h + 1],
                       _mm512_add_epi32(digit_products(high, x + h, 1), _mm512_load_si512(x[h].offset[1])));
    }
  }
  return _mm512_reduce_add_ps(all);
}

const situ__block_kernels situ__block_kernels_digits = { .dot = { [SITU_BLOCK_Q4_0] = dot_Q4_0,
                                                                  [SITU_BLOCK_Q4_K] = dot_Q4_K,
                                                                  [SITU_BLOCK_Q5_K] = dot_Q5_K,
                                                                  [SITU_BLOCK_Q6_K] = dot_Q6_K },
                                                         .arrange = { [SITU_BLOCK_Q4_0] = arrange_Q4_0,
                                                                      [SITU_BLOCK_Q4_K] = arrange_K,
                                                                      [SITU_BLOCK_Q5_K] = arrange_K,
                                                                      [SITU_BLOCK_Q6_K] = arrange_Q6_K } };
