/* Rows of f16 and of bf16 without blocks of f32 between: functions that take less time than these blocks. Compiled once
   for each instruction set; tables are empty where no instruction converts f16.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cpu/elementwise/elementwise.h"
#include "backend/cpu/common/isa/widen.h"
#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/integer.h"

#undef WIDE /* of a tile; here of the tables */

#if defined(__AVX2__) && defined(__F16C__)

#define T float
#define TNAME f32
#include "kernels/floats.h"

enum { LANES = 16 }; /* elements that are converted, and are in registers, at a time */

ALWAYS_INLINE void widen_16(bool bf16, const uint16_t *x, float *y) {
  for (int at = 0; at < LANES; at += VECTOR / 4) F32(store)(y + at, number_16(bf16, x + at));
}
#if defined(__AVX512F__)
/* situ__f32_to_bf16, in lanes of 32 bits. */
ALWAYS_INLINE __m512i nearest_bf16(__m512 x) {
  const __m512i bits = _mm512_castps_si512(x), high = _mm512_srli_epi32(bits, 16),
                odd = _mm512_and_si512(high, _mm512_set1_epi32(1)),
                sum = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  return _mm512_mask_or_epi32(_mm512_srli_epi32(sum, 16), _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), high,
                              _mm512_set1_epi32(0x40));
}
ALWAYS_INLINE void narrow_16(bool bf16, const float *from, uint16_t *y) {
  const __m512 x = _mm512_loadu_ps(from);
  _mm256_storeu_si256((void *)y,
                      bf16 ? _mm512_cvtepi32_epi16(nearest_bf16(x)) : _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}
#else
/* situ__f32_to_bf16, in lanes of 32 bits. */
ALWAYS_INLINE __m256i nearest_bf16(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x), high = _mm256_srli_epi32(bits, 16),
                odd = _mm256_and_si256(high, _mm256_set1_epi32(1)),
                sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd),
                nan = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
  return _mm256_blendv_epi8(_mm256_srli_epi32(sum, 16), nan, _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q)));
}
ALWAYS_INLINE void narrow_16(bool bf16, const float *from, uint16_t *y) {
  const __m256 low = _mm256_loadu_ps(from), high = _mm256_loadu_ps(from + 8);
  if (bf16) {
    /* Packed within 128 bits: quarters 0 2 1 3. */
    const __m256i both = _mm256_packus_epi32(nearest_bf16(low), nearest_bf16(high));
    _mm256_storeu_si256((void *)y, _mm256_permute4x64_epi64(both, 0xd8));
  } else {
    _mm_storeu_si128((void *)y, _mm256_cvtps_ph(low, _MM_FROUND_TO_NEAREST_INT));
    _mm_storeu_si128((void *)(y + 8), _mm256_cvtps_ph(high, _MM_FROUND_TO_NEAREST_INT));
  }
}
#endif

/* The first `count` of LANES. */
ALWAYS_INLINE void widen_some(bool bf16, const uint16_t *x, int64_t count, float *y) {
  uint16_t some[LANES] = { 0 };
  if (count < LANES) x = memcpy(some, x, (size_t)count * sizeof *x);
  widen_16(bf16, x, y);
}
ALWAYS_INLINE void narrow_some(bool bf16, const float *x, int64_t count, uint16_t *y) {
  uint16_t some[LANES];
  narrow_16(bf16, x, count < LANES ? some : y);
  if (count < LANES) memcpy(y, some, (size_t)count * sizeof *y);
}

/* ---- of two tensors ---- */

#define ROW(name, value)                                                                                            \
  ALWAYS_INLINE void name##_step(bool bf16, const float *pa, const float *pb, int64_t count, uint16_t *py) {        \
    float y[LANES];                                                                                                 \
    ROLLED for (int i = 0; i < LANES; i++) {                                                                        \
      const float a = pa[i], b = pb[i];                                                                             \
      y[i] = value;                                                                                                 \
    }                                                                                                               \
    narrow_some(bf16, y, count, py);                                                                                \
  }                                                                                                                 \
  ALWAYS_INLINE void name##_loop(bool bf16, const void *const *x, uint32_t splat, int64_t n, uint16_t *py) {        \
    const uint16_t *pa = x[0], *pb = x[1], *one = splat == 1 ? pa : pb;                                             \
    float a[LANES], b[LANES];                                                                                       \
    for (int i = 0; i < LANES && splat; i++) a[i] = b[i] = bf16 ? situ__bf16_to_f32(*one) : situ__f16_to_f32(*one); \
    for (int64_t at = 0; at < n; at += LANES) {                                                                     \
      const int64_t count = n - at < LANES ? n - at : LANES;                                                        \
      if (splat != 1) widen_some(bf16, pa + at, count, a);                                                          \
      if (splat != 2) widen_some(bf16, pb + at, count, b);                                                          \
      name##_step(bf16, a, b, count, py + at);                                                                      \
    }                                                                                                               \
  }                                                                                                                 \
  TWO(name, f16, false)                                                                                             \
  TWO(name, bf16, true)
#define TWO(name, dtype, bf16)                                                                                \
  static void name##_##dtype##_two(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) { \
    (void)p;                                                                                                  \
    if (splat == 0) name##_loop(bf16, x, 0, n, y);                                                            \
    else if (splat == 1) name##_loop(bf16, x, 1, n, y);                                                       \
    else name##_loop(bf16, x, 2, n, y);                                                                       \
  }
#define FLOAT(name, value) ROW(name, value)
#define BOTH(name, value, integer) ROW(name, value)
#define WIDE(name, value)
#define MATH(name, value, integer)
#define INTEGER(name, integer)
#define TEST(name, value)
#include "kernels/binary.h"

static const situ__row binaries[SITU_BINARIES][2] = {
#define FLOAT(name, value) [SITU_BINARY_##name] = { name##_f16_two, name##_bf16_two },
#define BOTH(name, value, integer) FLOAT(name, )
#define WIDE(name, value)
#define MATH(name, value, integer)
#define INTEGER(name, integer)
#define TEST(name, value)
#include "kernels/binary.h"
};

/* ---- of one tensor ---- */

#undef ROW
#define ROW(name, value)                                                                                 \
  ALWAYS_INLINE void name##_run(bool bf16, const uint16_t *in, int64_t n, const float *p, uint16_t *y) { \
    const float p0 = p[0], p1 = p[1], p2 = p[2];                                                         \
    (void)p0, (void)p1, (void)p2;                                                                        \
    for (int64_t at = 0; at < n; at += LANES) {                                                          \
      const int64_t count = n - at < LANES ? n - at : LANES;                                             \
      float from[LANES], to[LANES];                                                                      \
      widen_some(bf16, in + at, count, from);                                                            \
      ROLLED for (int i = 0; i < LANES; i++) {                                                           \
        const float x = from[i];                                                                         \
        (void)x;                                                                                         \
        to[i] = (float)(value);                                                                          \
      }                                                                                                  \
      narrow_some(bf16, to, count, y + at);                                                              \
    }                                                                                                    \
  }                                                                                                      \
  ONE(name, f16, false)                                                                                  \
  ONE(name, bf16, true)
#define ONE(name, dtype, bf16)                                                                                 \
  static void name##_##dtype##_one(void *y, const void *const *in, uint32_t splat, int64_t n, const void *p) { \
    (void)splat;                                                                                               \
    name##_run(bf16, in[0], n, p, y);                                                                          \
  }
#define BOTH(name, value, integer, dx, uses) ROW(name, value)
#define FLOAT(name, value, dx, uses)
#define WIDE FLOAT
#define MATH(name, value, integer, dx, uses)
#define INTEGER(name, integer)
#define TEST(name, value, integer)
#include "kernels/unary.h"

static const situ__row unaries[SITU_UNARIES][2] = {
#define BOTH(name, value, integer, dx, uses) [SITU_UNARY_##name] = { name##_f16_one, name##_bf16_one },
#define FLOAT(name, value, dx, uses)
#define WIDE FLOAT
#define MATH(name, value, integer, dx, uses)
#define INTEGER(name, integer)
#define TEST(name, value, integer)
#include "kernels/unary.h"
};
#else
static const situ__row binaries[SITU_BINARIES][2], unaries[SITU_UNARIES][2];
#endif

const situ__half_rows SITU__ISA_NAME(situ__half_rows) = { binaries, unaries };
