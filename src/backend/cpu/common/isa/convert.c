/* Converts rows of any dtype to a compute type and back. Compiled once for each instruction set.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/convert.h"
#include "base/stream.h"
#include "kernels/dialect.h"
#include "kernels/half.h"

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "kernels/convert.h"

static inline float f16(uint16_t h) { return situ__f16_to_f32(h); }
static inline float bf16(uint16_t h) { return situ__bf16_to_f32(h); }
static inline uint16_t to_f16(float x) { return situ__f32_to_f16(x); }
static inline uint16_t to_bf16(float x) { return situ__f32_to_bf16(x); }

/* Loads a row: S is the dtype in memory, v one of its elements; one loop for each of three strides. */
#define LOAD(name, S, D, value)                                                 \
  static void name(const void *src, int64_t stride, int64_t count, void *dst) { \
    D *d = dst;                                                                 \
    if (stride == sizeof(S)) {                                                  \
      const S *s = src;                                                         \
      for (int64_t i = 0; i < count; i++) {                                     \
        S v = s[i];                                                             \
        d[i] = (D)(value);                                                      \
      }                                                                         \
    } else {                                                                    \
      const char *s = src;                                                      \
      for (int64_t i = 0; i < count; i++, s += stride) {                        \
        S v = *(const S *)s;                                                    \
        d[i] = (D)(value);                                                      \
      }                                                                         \
    }                                                                           \
  }
#define LOADS(name, S, as_f32, as_f64, as_i64)  \
  LOAD(load_##name##_as_f32, S, float, as_f32)  \
  LOAD(load_##name##_as_f64, S, double, as_f64) \
  LOAD(load_##name##_as_i64, S, int64_t, as_i64)

/* Stores a row: v is one element of the compute type. */
#define STORE(name, S, D, value)                                                \
  static void name(const void *src, int64_t count, void *dst, int64_t stride) { \
    const S *s = src;                                                           \
    if (stride == sizeof(D)) {                                                  \
      D *d = dst;                                                               \
      for (int64_t i = 0; i < count; i++) {                                     \
        S v = s[i];                                                             \
        d[i] = (D)(value);                                                      \
      }                                                                         \
    } else {                                                                    \
      char *d = dst;                                                            \
      for (int64_t i = 0; i < count; i++, d += stride) {                        \
        S v = s[i];                                                             \
        *(D *)d = (D)(value);                                                   \
      }                                                                         \
    }                                                                           \
  }
#define STORES(name, D, from_f32, from_f64, from_i64) \
  STORE(store_f32_as_##name, float, D, from_f32)      \
  STORE(store_f64_as_##name, double, D, from_f64)     \
  STORE(store_i64_as_##name, int64_t, D, from_i64)

LOADS(bool, uint8_t, v != 0, v != 0, v != 0)
LOADS(u8, uint8_t, v, v, v)
LOADS(i8, int8_t, v, v, v)
LOADS(i16, int16_t, v, v, v)
LOADS(i32, int32_t, v, v, v)
LOADS(i64, int64_t, v, v, v)
LOAD(plain_f16_as_f32, uint16_t, float, f16(v))
LOAD(load_f16_as_f64, uint16_t, double, f16(v))
LOAD(load_f16_as_i64, uint16_t, int64_t, f32_to_i64(f16(v)))
LOADS(bf16, uint16_t, bf16(v), bf16(v), f32_to_i64(bf16(v)))
LOADS(f32, float, v, v, f32_to_i64(v))
LOADS(f64, double, v, v, f64_to_i64(v))

STORES(bool, uint8_t, v != 0, v != 0, v != 0)
STORES(u8, uint8_t, f32_to_u8(v), f64_to_u8(v), v)
STORES(i8, int8_t, f32_to_i8(v), f64_to_i8(v), v)
STORES(i16, int16_t, f32_to_i16(v), f64_to_i16(v), v)
STORES(i32, int32_t, f32_to_i32(v), f64_to_i32(v), v)
STORE(plain_f32_as_i64, float, int64_t, f32_to_i64(v))
STORE(store_f64_as_i64, double, int64_t, f64_to_i64(v))
STORE(store_i64_as_i64, int64_t, int64_t, v)
STORE(plain_f32_as_f16, float, uint16_t, to_f16(v))
STORE(store_f64_as_f16, double, uint16_t, to_f16((float)v))
STORE(store_i64_as_f16, int64_t, uint16_t, to_f16((float)v))
STORE(store_f32_as_bf16, float, uint16_t, to_bf16(v))
STORE(store_f64_as_bf16, double, uint16_t, to_bf16((float)v))
STORE(store_i64_as_bf16, int64_t, uint16_t, to_bf16((float)v))
STORES(f32, float, v, v, v)
STORES(f64, double, v, v, v)

/* Uses the processor's f16 conversion: the same bits, five times as fast. */
static void load_f16_as_f32(const void *src, int64_t stride, int64_t count, void *dst) {
  int64_t done = 0;
#ifdef __AVX512F__
  if (stride == 2)
    for (; done + 16 <= count; done += 16)
      _mm512_storeu_ps((float *)dst + done,
                       _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)((const uint16_t *)src + done))));
#endif
#ifdef __F16C__
  if (stride == 2)
    for (; done + 8 <= count; done += 8)
      _mm256_storeu_ps((float *)dst + done,
                       _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)((const uint16_t *)src + done))));
#endif
  plain_f16_as_f32((const char *)src + done * stride, stride, count - done, (float *)dst + done);
}

static void store_f32_as_f16(const void *src, int64_t count, void *dst, int64_t stride) {
  int64_t done = 0;
#ifdef __AVX512F__
  if (stride == 2)
    for (; done + 16 <= count; done += 16)
      _mm256_storeu_si256((__m256i *)((uint16_t *)dst + done),
                          _mm512_cvtps_ph(_mm512_loadu_ps((const float *)src + done), _MM_FROUND_TO_NEAREST_INT));
#endif
#ifdef __F16C__
  if (stride == 2)
    for (; done + 8 <= count; done += 8)
      _mm_storeu_si128((__m128i *)((uint16_t *)dst + done),
                       _mm256_cvtps_ph(_mm256_loadu_ps((const float *)src + done), _MM_FROUND_TO_NEAREST_INT));
#endif
  plain_f32_as_f16((const float *)src + done, count - done, (char *)dst + done * stride, stride);
}

/* By way of i32 for eight numbers within its range, where no instruction converts to 64 bits. */
static void store_f32_as_i64(const void *src, int64_t count, void *dst, int64_t stride) {
  int64_t done = 0;
#if defined(__AVX2__) && !defined(__AVX512DQ__)
  const __m256 size = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff)), limit = _mm256_set1_ps(0x1p31f);
  for (__m256i *d = dst; stride == 8 && done + 8 <= count; done += 8, d += 2) {
    const __m256 x = _mm256_loadu_ps((const float *)src + done);
    if (_mm256_movemask_ps(_mm256_cmp_ps(_mm256_and_ps(x, size), limit, _CMP_LT_OQ)) == 0xff) {
      const __m256i integer = _mm256_cvttps_epi32(x);
      _mm256_storeu_si256(d, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(integer)));
      _mm256_storeu_si256(d + 1, _mm256_cvtepi32_epi64(_mm256_extracti128_si256(integer, 1)));
    } else {
      plain_f32_as_i64((const float *)src + done, 8, d, stride);
    }
  }
#endif
  plain_f32_as_i64((const float *)src + done, count - done, (char *)dst + done * stride, stride);
}

/* Infinity has all ones in the exponent and zeros in the fraction, with either sign. Rows without any are the usual
   case: to see that takes a third of the time of counting, which adds in 64 bits. */
#define INFINITE(name, T, shifted)                                                                    \
  static int64_t name(const void *src, int64_t stride, int64_t count) {                               \
    int64_t found = 0;                                                                                \
    if (stride == sizeof(T)) {                                                                        \
      const T *s = src;                                                                               \
      T any = 0;                                                                                      \
      for (int64_t i = 0; i < count; i++) any = (T)(any | ((T)(s[i] << 1) == (shifted)));             \
      for (int64_t i = 0; any && i < count; i++) found += (T)(s[i] << 1) == (shifted);                \
    } else {                                                                                          \
      const char *s = src;                                                                            \
      for (int64_t i = 0; i < count; i++, s += stride) found += (T)(*(const T *)s << 1) == (shifted); \
    }                                                                                                 \
    return found;                                                                                     \
  }
INFINITE(infinite_f16, uint16_t, 0xf800u)
INFINITE(infinite_bf16, uint16_t, 0xff00u)
INFINITE(infinite_f32, uint32_t, 0xff000000u)
INFINITE(infinite_f64, uint64_t, 0xffe0000000000000u)

/* The usual cast of small parameters in one pass, with its end by a mask. */
static bool f16_of_f32(const void *src, int64_t count, void *dst) {
#ifdef __AVX512F__
  const float *x = src;
  uint16_t *y = dst;
  __mmask16 infinite = 0;
  for (int64_t at = 0; at < count; at += 16) {
    const __mmask16 some = count - at < 16 ? (__mmask16)((1u << (count - at)) - 1) : (__mmask16)0xffff;
    const __m256i half = _mm512_cvtps_ph(_mm512_maskz_loadu_ps(some, x + at), _MM_FROUND_TO_NEAREST_INT);
    const __m512i wide = _mm512_slli_epi32(_mm512_cvtepu16_epi32(half), 17);
    infinite = _kor_mask16(infinite, _mm512_cmpeq_epi32_mask(wide, _mm512_set1_epi32((int)0xf8000000u)));
    if (some == 0xffff) _mm256_storeu_si256((__m256i *)(y + at), half);
    else _mm512_mask_cvtepi32_storeu_epi16(y + at, some, _mm512_cvtepu16_epi32(half));
  }
  return infinite;
#else
  store_f32_as_f16(src, count, dst, sizeof(uint16_t));
  return infinite_f16(dst, sizeof(uint16_t), count);
#endif
}

/* Without a call for each row; the last vector of a row overlaps the one before. */
typedef char vector __attribute__((vector_size(32), aligned(1), may_alias));
static void copy_rows(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t rows, int64_t bytes) {
  const int64_t last = bytes - (int64_t)sizeof(vector);
  for (; rows > 0; rows--, dst += dst_step, src += src_step) {
    if (last < 0) {
      memcpy(dst, src, (size_t)bytes);
      continue;
    }
    for (int64_t i = 0; i < last; i += (int64_t)sizeof(vector)) *(vector *)(dst + i) = *(const vector *)(src + i);
    *(vector *)(dst + last) = *(const vector *)(src + last);
  }
}

#define LOAD_ROW(name) \
  { load_##name##_as_f32, load_##name##_as_f64, load_##name##_as_i64 }
#define STORE_ROW(compute, as_bf16)                                                                                    \
  {                                                                                                                    \
    [SITU_BOOL] = store_##compute##_as_bool, [SITU_U8] = store_##compute##_as_u8, [SITU_I8] = store_##compute##_as_i8, \
    [SITU_I16] = store_##compute##_as_i16, [SITU_I32] = store_##compute##_as_i32,                                      \
    [SITU_I64] = store_##compute##_as_i64, [SITU_F16] = store_##compute##_as_f16, [SITU_BF16] = as_bf16,               \
    [SITU_F32] = store_##compute##_as_f32, [SITU_F64] = store_##compute##_as_f64                                       \
  }
#define TABLE(f32_as_bf16)                                                                                            \
  {                                                                                                                   \
    .load = { [SITU_BOOL] = LOAD_ROW(bool), [SITU_U8] = LOAD_ROW(u8),   [SITU_I8] = LOAD_ROW(i8),                   \
              [SITU_I16] = LOAD_ROW(i16),   [SITU_I32] = LOAD_ROW(i32), [SITU_I64] = LOAD_ROW(i64),                 \
              [SITU_F16] = LOAD_ROW(f16),   [SITU_BF16] = LOAD_ROW(bf16),                                           \
              [SITU_F32] = LOAD_ROW(f32),   [SITU_F64] = LOAD_ROW(f64), },                                          \
    .store = { STORE_ROW(f32, f32_as_bf16), STORE_ROW(f64, store_f64_as_bf16), STORE_ROW(i64, store_i64_as_bf16) }, \
    .infinite = { [SITU_F16] = infinite_f16, [SITU_BF16] = infinite_bf16, [SITU_F32] = infinite_f32,                \
                  [SITU_F64] = infinite_f64 },                                                                      \
    .f16_of_f32 = f16_of_f32,                                                                                       \
    .stream = situ__stream,                                                                                         \
    .copy_rows = copy_rows, \
  }

const situ__convert SITU__ISA_NAME(situ__convert) = TABLE(store_f32_as_bf16);
#if defined(SITU_HAVE_ISA_BF16) && defined(__AVX512F__)
const situ__convert situ__convert_bf16 = TABLE(situ__store_f32_as_bf16);
#endif
