/* Quantised blocks, compiled for each instruction set. values has the formulas that all devices share; dot multiplies
   the integers of a group before it applies the group's scale, which needs one more product for each group instead of
   each number.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/gemm/blocks.h"
#include "block_parts.h"

enum { STEPS = 32 / LANES };

/* ---- values ---- */

#define VALUES(type, elements, bytes)                                                                     \
  static void values_##type(const unsigned char *b, int64_t count, float *restrict y) {                   \
    for (int64_t i = 0; i < count; i++, b += bytes, y += elements)                                        \
      for (int g = 0; g < elements / type##_LENGTH; g++) {                                                \
        const float scale = type##_scale(b, g), minimum = type##_minimum(b, g);                           \
        float *restrict to = y + g * type##_LENGTH;                                                       \
        INDEPENDENT                                                                                       \
        for (int k = 0; k < type##_LENGTH; k++) to[k] = scale * (float)type##_integer(b, g, k) - minimum; \
      }                                                                                                   \
  }
VALUES(Q8_0, 32, 34)
VALUES(Q4_0, 32, 18)
VALUES(Q4_K, 256, 144)
VALUES(Q5_K, 256, 176)
VALUES(Q6_K, 256, 210)
VALUES(Q4_1, 32, 20)
VALUES(Q5_0, 32, 22)
VALUES(Q5_1, 32, 24)
VALUES(IQ4_NL, 32, 18)

/* ---- dot ---- */

/* LANES bytes as numbers. */
#if defined(__AVX512F__)
ALWAYS_INLINE picks_f32 load_bytes(const unsigned char *at) {
  return (picks_f32)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at));
}
ALWAYS_INLINE picks_f32 load_signed(const unsigned char *at) {
  return (picks_f32)_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)at));
}
#elif defined(__AVX2__)
ALWAYS_INLINE picks_f32 load_bytes(const unsigned char *at) {
  return (picks_f32)_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}
ALWAYS_INLINE picks_f32 load_signed(const unsigned char *at) {
  return (picks_f32)_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)at));
}
#else
ALWAYS_INLINE picks_f32 load_bytes(const unsigned char *at) {
  picks_f32 v;
  for (int l = 0; l < LANES; l++) v[l] = at[l];
  return v;
}
ALWAYS_INLINE picks_f32 load_signed(const unsigned char *at) {
  picks_f32 v;
  for (int l = 0; l < LANES; l++) v[l] = (signed char)at[l];
  return v;
}
#endif
ALWAYS_INLINE vec_f32 floats_of(picks_f32 v) { return __builtin_convertvector(v, vec_f32); }
/* The low 4 bits of each lane. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec_f32 low_bits(picks_f32 v) {
  const __m512 table = _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return (vec_f32)_mm512_permutexvar_ps((__m512i)v, table); /* which reads no other bits */
}
#else
ALWAYS_INLINE vec_f32 low_bits(picks_f32 v) { return floats_of(v & 15); }
#endif
static float dot_Q8_0(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  (void)sums;
  vec_f32 all = { 0 };
  for (int64_t i = 0; i < count; i++, b += 34, x += 32) {
    fetch_ahead(b, 34);
    vec_f32 group = { 0 };
    UNROLL
    for (int s = 0; s < STEPS; s++)
      group = F32(fma_vec)(floats_of(load_signed(b + 2 + s * LANES)), F32(load)(x + s * LANES), group);
    all = F32(fma_vec)(F32(splat)(load_half(b)), group, all);
  }
  return add_lanes(all);
}

/* Numbers are 8 too large. */
static float dot_Q4_0(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  vec_f32 all = { 0 };
  float excess = 0;
  for (int64_t i = 0; i < count; i++, b += 18, x += 32) {
    fetch_ahead(b, 18);
    vec_f32 group = { 0 };
    const float scale = load_half(b);
    UNROLL
    for (int s = 0; s < 16 / LANES; s++) {
      const picks_f32 both = load_bytes(b + 2 + s * LANES);
      group = F32(fma_vec)(low_bits(both), F32(load)(x + s * LANES), group);
      group = F32(fma_vec)(floats_of(both >> 4), F32(load)(x + 16 + s * LANES), group);
    }
    all = F32(fma_vec)(F32(splat)(scale), group, all);
    excess += scale * sums[i];
  }
  return add_lanes(all) - 8 * excess;
}

#if defined(__AVX512F__)
/* A vector of 16 words holds 128 numbers of 4 bits. Number n of each word is looked up in a table of floats by its low
   bits, so that nothing but a shift is needed before; x is arranged as the words are. */
enum { WORDS = 16, HALF = 8 * WORDS };
static bool arrange_Q4_K(const float *x, int64_t count, void *to) {
  float *y = to;
  for (int64_t i = 0; i < 2 * count; i++, x += HALF, y += HALF)
    for (int n = 0; n < 8; n++)
      for (int word = 0; word < WORDS; word++) {
        const int byte = 4 * word + n / 2;
        y[n * WORDS + word] = x[byte / 32 * 64 + n % 2 * 32 + byte % 32];
      }
  return true;
}

/* Adds a block times x to *all; whole: 3 bytes after it may be read, and are loads in the place of shifts. */
ALWAYS_INLINE void add_Q4_K(const unsigned char *b, const float *x, const floats_8 *scale, bool full, vec_f32 *all) {
  /* Groups 0 and 2 of the first half block are the low bits of its bytes, and 1 and 3 the high ones. */
  static const int32_t groups[4][WORDS] = { { 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2 },
                                            { 1, 1, 1, 1, 1, 1, 1, 1, 3, 3, 3, 3, 3, 3, 3, 3 },
                                            { 4, 4, 4, 4, 4, 4, 4, 4, 6, 6, 6, 6, 6, 6, 6, 6 },
                                            { 5, 5, 5, 5, 5, 5, 5, 5, 7, 7, 7, 7, 7, 7, 7, 7 } };
  const __m512 scales = _mm512_castps256_ps512((__m256)*scale);
  UNROLL
  for (int h = 0; h < 2; h++) {
    const unsigned char *at = b + 16 + h * 64;
    const __m512i first = _mm512_loadu_si512(at);
    vec_f32 low = { 0 }, high = { 0 };
    UNROLL
    for (int n = 0; n < 4; n++) {
      const __m512i words = h == 0 || full ? _mm512_loadu_si512(at + n) : _mm512_srli_epi32(first, 8 * n);
      low = F32(fma_vec)(low_bits((picks_f32)words), F32(load)(x + h * HALF + 2 * n * WORDS), low);
      high = F32(fma_vec)(low_bits((picks_f32)_mm512_srli_epi32(words, 4)),
                          F32(load)(x + h * HALF + (2 * n + 1) * WORDS), high);
    }
    *all = F32(fma_vec)((vec_f32)_mm512_permutexvar_ps(_mm512_loadu_si512(groups[2 * h]), scales), low, *all);
    *all = F32(fma_vec)((vec_f32)_mm512_permutexvar_ps(_mm512_loadu_si512(groups[2 * h + 1]), scales), high, *all);
  }
}

static float dot_Q4_K(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  vec_f32 all = { 0 };
  floats_8 least = { 0 }, scale, minimum;
  for (int64_t i = 0; i < count; i++, b += 144, x += 256, sums += 8) {
    fetch_ahead(b, 144);
    unpack_scales(b, &scale, &minimum);
    add_minima(&minimum, sums, &least);
    if (i + 1 < count) add_Q4_K(b, x, &scale, true, &all);
    else add_Q4_K(b, x, &scale, false, &all);
  }
  return add_lanes(all) - add_eight(&least);
}
#else
static float dot_Q4_K(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  vec_f32 all = { 0 };
  floats_8 least = { 0 };
  for (int64_t i = 0; i < count; i++, b += 144, x += 256, sums += 8) {
    fetch_ahead(b, 144);
    floats_8 scale, minimum;
    unpack_scales(b, &scale, &minimum);
    add_minima(&minimum, sums, &least);
    UNROLL
    for (int g = 0; g < 8; g += 2) {
      vec_f32 low = { 0 }, high = { 0 };
      UNROLL
      for (int s = 0; s < STEPS; s++) {
        const picks_f32 both = load_bytes(b + 16 + g * 16 + s * LANES);
        low = F32(fma_vec)(floats_of(both & 15), F32(load)(x + g * 32 + s * LANES), low);
        high = F32(fma_vec)(floats_of(both >> 4), F32(load)(x + g * 32 + 32 + s * LANES), high);
      }
      all = F32(fma_vec)(F32(splat)(scale[g]), low, all);
      all = F32(fma_vec)(F32(splat)(scale[g + 1]), high, all);
    }
  }
  return add_lanes(all) - add_eight(&least);
}
#endif

static float dot_Q5_K(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  vec_f32 all = { 0 };
  floats_8 least = { 0 };
  for (int64_t i = 0; i < count; i++, b += 176, x += 256, sums += 8) {
    fetch_ahead(b, 176);
    floats_8 scale, minimum;
    picks_f32 fifth[STEPS]; /* bit 4: that of the current group */
    unpack_scales(b, &scale, &minimum);
    add_minima(&minimum, sums, &least);
    UNROLL
    for (int s = 0; s < STEPS; s++) fifth[s] = load_bytes(b + 16 + s * LANES) << 4;
    for (int g = 0; g < 8; g += 2) {
      vec_f32 low = { 0 }, high = { 0 };
      UNROLL
      for (int s = 0; s < STEPS; s++) {
        const picks_f32 both = load_bytes(b + 48 + g * 16 + s * LANES);
        low = F32(fma_vec)(floats_of((both & 15) | (fifth[s] & 16)), F32(load)(x + g * 32 + s * LANES), low);
        high = F32(fma_vec)(floats_of(both >> 4 | (fifth[s] >> 1 & 16)), F32(load)(x + g * 32 + 32 + s * LANES), high);
        fifth[s] >>= 2;
      }
      all = F32(fma_vec)(F32(splat)(scale[g]), low, all);
      all = F32(fma_vec)(F32(splat)(scale[g + 1]), high, all);
    }
  }
  return add_lanes(all) - add_eight(&least);
}

/* Numbers j of the four groups of 32 of a half block that share their bytes. */
ALWAYS_INLINE void add_quarters(const unsigned char *low, const unsigned char *high, const float *x, vec_f32 *group) {
  const picks_f32 first = load_bytes(low), second = load_bytes(low + 32), top = load_bytes(high);
  const picks_f32 number[4] = { (first & 15) | (top << 4 & 48), (second & 15) | (top << 2 & 48),
                                first >> 4 | (top & 48), second >> 4 | (top >> 2 & 48) };
  UNROLL
  for (int r = 0; r < 4; r++) group[r] = F32(fma_vec)(floats_of(number[r] - 32), F32(load)(x + 32 * r), group[r]);
}

static float dot_Q6_K(const unsigned char *b, int64_t count, const void *numbers, const float *sums) {
  const float *x = numbers;
  (void)sums;
  vec_f32 all = { 0 };
  for (int64_t i = 0; i < count; i++, b += 210, x += 256) {
    fetch_ahead(b, 210);
    const float d = load_half(b + 208);
    for (int h = 0; h < 4; h++) { /* 16 numbers of each quarter */
      const int at = h % 2 * 16;
      vec_f32 group[4] = { { 0 } };
      UNROLL
      for (int s = 0; s < 16 / LANES; s++)
        add_quarters(b + 64 * (h / 2) + at + s * LANES, b + 128 + 32 * (h / 2) + at + s * LANES,
                     x + 128 * (h / 2) + at + s * LANES, group);
      UNROLL
      for (int r = 0; r < 4; r++) {
        const signed char scale = (signed char)b[192 + 8 * (h / 2) + 2 * r + h % 2];
        all = F32(fma_vec)(F32(splat)(d * (float)scale), group[r], all);
      }
    }
  }
  return add_lanes(all);
}

/* Blocks of two groups of 16, whose scales and minima are equal; minimum: its product with the sum of x, 0 without. */
#define DOT(type, bytes, minimum)                                                                          \
  static float dot_##type(const unsigned char *b, int64_t count, const void *numbers, const float *sums) { \
    const float *x = numbers;                                                                              \
    vec_f32 all = { 0 };                                                                                   \
    float least = 0;                                                                                       \
    (void)sums;                                                                                            \
    for (int64_t i = 0; i < count; i++, b += bytes, x += 32) {                                             \
      fetch_ahead(b, bytes);                                                                               \
      vec_f32 block = { 0 };                                                                               \
      for (int g = 0; g < 2; g++) {                                                                        \
        float number[16];                                                                                  \
        INDEPENDENT                                                                                        \
        for (int k = 0; k < 16; k++) number[k] = (float)type##_integer(b, g, k);                           \
        for (int s = 0; s < 16; s += LANES)                                                                \
          block = F32(fma_vec)(F32(load)(number + s), F32(load)(x + 16 * g + s), block);                   \
      }                                                                                                    \
      all = F32(fma_vec)(F32(splat)(type##_scale(b, 0)), block, all);                                      \
      least += minimum;                                                                                    \
    }                                                                                                      \
    return add_lanes(all) - least;                                                                         \
  }
DOT(Q4_1, 20, Q4_1_minimum(b, 0) * sums[i])
DOT(Q5_0, 22, 0)
DOT(Q5_1, 24, Q5_1_minimum(b, 0) * sums[i])
DOT(IQ4_NL, 18, 0)

static void add_groups(const float *x, int64_t count, float *y) {
  for (int64_t i = 0; i < count; i++, x += SITU__BLOCK_GROUP) {
    vec_f32 sum = { 0 };
    for (int s = 0; s < STEPS; s++) sum += F32(load)(x + s * LANES);
    y[i] = add_lanes(sum);
  }
}

const situ__block_kernels SITU__ISA_NAME(situ__block_kernels) = {
  .values = { [SITU_BLOCK_Q8_0] = values_Q8_0,
              [SITU_BLOCK_Q4_0] = values_Q4_0,
              [SITU_BLOCK_Q4_K] = values_Q4_K,
              [SITU_BLOCK_Q5_K] = values_Q5_K,
              [SITU_BLOCK_Q6_K] = values_Q6_K,
              [SITU_BLOCK_Q4_1] = values_Q4_1,
              [SITU_BLOCK_Q5_0] = values_Q5_0,
              [SITU_BLOCK_Q5_1] = values_Q5_1,
              [SITU_BLOCK_IQ4_NL] = values_IQ4_NL },
  .dot = { [SITU_BLOCK_Q8_0] = dot_Q8_0,
           [SITU_BLOCK_Q4_0] = dot_Q4_0,
           [SITU_BLOCK_Q4_K] = dot_Q4_K,
           [SITU_BLOCK_Q5_K] = dot_Q5_K,
           [SITU_BLOCK_Q6_K] = dot_Q6_K,
           [SITU_BLOCK_Q4_1] = dot_Q4_1,
           [SITU_BLOCK_Q5_0] = dot_Q5_0,
           [SITU_BLOCK_Q5_1] = dot_Q5_1,
           [SITU_BLOCK_IQ4_NL] = dot_IQ4_NL },
  .sums = add_groups,
#if defined(__AVX512F__)
  .arrange = { [SITU_BLOCK_Q4_K] = arrange_Q4_K },
#endif
};
