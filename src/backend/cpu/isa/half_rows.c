/* Rows of f16 without blocks of f32 between: functions that take less time than these blocks. Compiled once for each
   instruction set; tables are empty where no instruction converts f16.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cpu/elementwise.h"
#include "backend/cpu/isa/loops.h"
#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/whole.h"

#if defined(__F16C__)
#include <immintrin.h>

#define T float
#define TNAME f32
#include "kernels/floats.h"

enum { LANES = 16 }; /* elements that are converted, and are in registers, at a time */

ALWAYS_INLINE void widen_16(const uint16_t *x, int64_t count, float *y) {
  uint16_t some[LANES];
  if (count < LANES) {
    memset(some, 0, sizeof some);
    x = memcpy(some, x, (size_t)count * sizeof *x);
  }
#if defined(__AVX512F__)
  _mm512_storeu_ps(y, _mm512_cvtph_ps(_mm256_loadu_si256((const void *)x)));
#else
  for (int half = 0; half < LANES; half += 8)
    _mm256_storeu_ps(y + half, _mm256_cvtph_ps(_mm_loadu_si128((const void *)(x + half))));
#endif
}

ALWAYS_INLINE void narrow_16(const float *x, int64_t count, uint16_t *y) {
  uint16_t some[LANES], *to = count < LANES ? some : y;
#if defined(__AVX512F__)
  _mm256_storeu_si256((void *)to, _mm512_cvtps_ph(_mm512_loadu_ps(x), _MM_FROUND_TO_NEAREST_INT));
#else
  for (int half = 0; half < LANES; half += 8)
    _mm_storeu_si128((void *)(to + half), _mm256_cvtps_ph(_mm256_loadu_ps(x + half), _MM_FROUND_TO_NEAREST_INT));
#endif
  if (count < LANES) memcpy(y, some, (size_t)count * sizeof *y);
}

/* ---- of two tensors ---- */

#define ROW(name, value)                                                                                            \
  ALWAYS_INLINE void name##_step(const float *pa, const float *pb, int64_t count, uint16_t *py) {                   \
    float y[LANES];                                                                                                 \
    ROLLED for (int i = 0; i < LANES; i++) {                                                                        \
      const float a = pa[i], b = pb[i];                                                                             \
      y[i] = value;                                                                                                 \
    }                                                                                                               \
    narrow_16(y, count, py);                                                                                        \
  }                                                                                                                 \
  ALWAYS_INLINE void name##_loop(const uint16_t *pa, const uint16_t *pb, uint32_t splat, int64_t n, uint16_t *py) { \
    float a[LANES], b[LANES];                                                                                       \
    for (int i = 0; i < LANES && splat; i++) a[i] = b[i] = situ__f16_to_f32(splat == 1 ? *pa : *pb);                \
    for (int64_t at = 0; at < n; at += LANES) {                                                                     \
      const int64_t count = n - at < LANES ? n - at : LANES;                                                        \
      if (splat != 1) widen_16(pa + at, count, a);                                                                  \
      if (splat != 2) widen_16(pb + at, count, b);                                                                  \
      name##_step(a, b, count, py + at);                                                                            \
    }                                                                                                               \
  }                                                                                                                 \
  static void name##_two(void *y, const void *const *x, uint32_t splat, int64_t n, const void *p) {                 \
    (void)p;                                                                                                        \
    if (splat == 0) name##_loop(x[0], x[1], 0, n, y);                                                               \
    else if (splat == 1) name##_loop(x[0], x[1], 1, n, y);                                                          \
    else name##_loop(x[0], x[1], 2, n, y);                                                                          \
  }
#define FLOAT(name, value) ROW(name, value)
#define BOTH(name, value, whole) ROW(name, value)
#define WIDE(name, value)
#define MATH(name, value, whole)
#define WHOLE(name, whole)
#define TEST(name, value)
#include "kernels/binary.h"

static const situ__row binaries[SITU_BINARIES] = {
#define FLOAT(name, value) [SITU_BINARY_##name] = name##_two,
#define BOTH(name, value, whole) FLOAT(name, )
#define WIDE(name, value)
#define MATH(name, value, whole)
#define WHOLE(name, whole)
#define TEST(name, value)
#include "kernels/binary.h"
};

/* ---- of one tensor ---- */

#undef ROW
#define ROW(name, value)                                                                             \
  static void name##_one(void *y, const void *const *in, uint32_t splat, int64_t n, const void *p) { \
    const float p0 = ((const float *)p)[0], p1 = ((const float *)p)[1], p2 = ((const float *)p)[2];  \
    (void)splat, (void)p0, (void)p1, (void)p2;                                                       \
    for (int64_t at = 0; at < n; at += LANES) {                                                      \
      const int64_t count = n - at < LANES ? n - at : LANES;                                         \
      float from[LANES], to[LANES];                                                                  \
      widen_16((const uint16_t *)in[0] + at, count, from);                                           \
      ROLLED for (int i = 0; i < LANES; i++) {                                                       \
        const float x = from[i];                                                                     \
        (void)x;                                                                                     \
        to[i] = (float)(value);                                                                      \
      }                                                                                              \
      narrow_16(to, count, (uint16_t *)y + at);                                                      \
    }                                                                                                \
  }
#define BOTH(name, value, whole, dx, uses) ROW(name, value)
#define FLOAT(name, value, dx, uses)
#define WIDE FLOAT
#define MATH(name, value, whole, dx, uses)
#define WHOLE(name, whole)
#define TEST(name, value, whole)
#include "kernels/unary.h"

static const situ__row unaries[SITU_UNARIES] = {
#define BOTH(name, value, whole, dx, uses) [SITU_UNARY_##name] = name##_one,
#define FLOAT(name, value, dx, uses)
#define WIDE FLOAT
#define MATH(name, value, whole, dx, uses)
#define WHOLE(name, whole)
#define TEST(name, value, whole)
#include "kernels/unary.h"
};
#else
static const situ__row binaries[SITU_BINARIES], unaries[SITU_UNARIES];
#endif

const situ__half_rows SITU__ISA_NAME(situ__half_rows) = { binaries, unaries };
