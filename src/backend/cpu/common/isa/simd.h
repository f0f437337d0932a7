/* Vectors of f32 and of f64 for the instruction set that the file is compiled for; FN(name) is the name for one of
   them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_SIMD_H
#define SITU_BACKEND_CPU_ISA_SIMD_H

#include "backend/cpu/common/isa.h"
#include "loops.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif
#include <string.h>

#define UNROLL _Pragma("GCC unroll 16")
#define F32(name) SITU__ISA_NAME(name##_f32)
#define F64(name) SITU__ISA_NAME(name##_f64)
#define I64(name) SITU__ISA_NAME(name##_i64)
/* Lanes of two vectors by constant numbers; picks: a vector of such numbers. */
#if defined(__clang__)
#define SHUFFLE(picks, a, b, ...) __builtin_shufflevector(a, b, __VA_ARGS__)
#else
#define SHUFFLE(picks, a, b, ...) __builtin_shuffle(a, b, (picks){ __VA_ARGS__ })
#endif

/* Bytes of a vector, and vectors of the widest tile: 32 registers hold 6 x 4 sums, 4 vectors of b and one of a. */
#if defined(__AVX512F__)
#define VECTOR 64
#define WIDE 4
#define NUMBERS_F32 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
#define NUMBERS_F64 0, 1, 2, 3, 4, 5, 6, 7
#elif defined(__AVX__)
#define VECTOR 32
#define WIDE 2
#define NUMBERS_F32 0, 1, 2, 3, 4, 5, 6, 7
#define NUMBERS_F64 0, 1, 2, 3
#else
#define VECTOR 16
#define NUMBERS_F32 0, 1, 2, 3
#define NUMBERS_F64 0, 1
#if defined(__aarch64__)
#define WIDE 4
#else
#define WIDE 2
#endif
#endif

/* a * b + c with one rounding where the processor has FMA: explicit, as the compiler contracts nothing here. */
#define FMA_LOOP(type, fn)                                                            \
  for (int i = 0; i < (int)(VECTOR / sizeof(type)); i++) c[i] = fn(a[i], b[i], c[i]); \
  return c

typedef float vec_f32 __attribute__((vector_size(VECTOR)));
typedef int32_t picks_f32 __attribute__((vector_size(VECTOR)));
ALWAYS_INLINE vec_f32 F32(fma_vec)(vec_f32 a, vec_f32 b, vec_f32 c) {
#if defined(__AVX512F__)
  return (vec_f32)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
#elif defined(__FMA__)
  return (vec_f32)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
#elif defined(__FP_FAST_FMAF)
  FMA_LOOP(float, __builtin_fmaf);
#else
  return a * b + c;
#endif
}
typedef double vec_f64 __attribute__((vector_size(VECTOR)));
typedef int64_t picks_f64 __attribute__((vector_size(VECTOR)));
ALWAYS_INLINE vec_f64 F64(fma_vec)(vec_f64 a, vec_f64 b, vec_f64 c) {
#if defined(__AVX512F__)
  return (vec_f64)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(__FMA__)
  return (vec_f64)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#elif defined(__FP_FAST_FMA)
  FMA_LOOP(double, __builtin_fma);
#else
  return a * b + c;
#endif
}

/* Whole vectors, at any address; splat: x in all lanes. */
#define FULL_VECTORS(type, vec, FN)                                          \
  ALWAYS_INLINE vec FN(load)(const type *p) {                                \
    vec v;                                                                   \
    memcpy(&v, p, sizeof v);                                                 \
    return v;                                                                \
  }                                                                          \
  ALWAYS_INLINE void FN(store)(type * p, vec v) { memcpy(p, &v, sizeof v); } \
  ALWAYS_INLINE vec FN(splat)(type x) { return x - (vec){ 0 }; }
FULL_VECTORS(float, vec_f32, F32)
FULL_VECTORS(double, vec_f64, F64)

/* The larger of 0 and x, where a NaN stays: the instruction gives its second operand then. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec_f32 F32(relu)(vec_f32 x) { return (vec_f32)_mm512_max_ps(_mm512_setzero_ps(), (__m512)x); }
ALWAYS_INLINE vec_f64 F64(relu)(vec_f64 x) { return (vec_f64)_mm512_max_pd(_mm512_setzero_pd(), (__m512d)x); }
#else
ALWAYS_INLINE vec_f32 F32(relu)(vec_f32 x) { return (vec_f32)((picks_f32)x & ~(picks_f32)(x < 0)); }
ALWAYS_INLINE vec_f64 F64(relu)(vec_f64 x) { return (vec_f64)((picks_f64)x & ~(picks_f64)(x < 0)); }
#endif

/* Loads and stores the first `count` lanes, 0 to LANES, of memory that ends there; loaded lanes after them are 0.
   load_between: lanes from `first` on and before `last`, the others are 0; p is the address of lane 0. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec_f32 F32(load_some)(const float *p, int count) {
  return (vec_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << count) - 1), p);
}
ALWAYS_INLINE vec_f32 F32(load_between)(const float *p, int first, int last) {
  return (vec_f32)_mm512_maskz_loadu_ps((__mmask16)((1u << last) - (1u << first)), p);
}
ALWAYS_INLINE void F32(store_some)(float *p, vec_f32 v, int count) {
  _mm512_mask_storeu_ps(p, (__mmask16)((1u << count) - 1), (__m512)v);
}
ALWAYS_INLINE vec_f64 F64(load_some)(const double *p, int count) {
  return (vec_f64)_mm512_maskz_loadu_pd((__mmask8)((1u << count) - 1), p);
}
ALWAYS_INLINE void F64(store_some)(double *p, vec_f64 v, int count) {
  _mm512_mask_storeu_pd(p, (__mmask8)((1u << count) - 1), (__m512d)v);
}
/* The lanes of a mask, moved to the first ones. */
ALWAYS_INLINE vec_f32 F32(compress)(vec_f32 v, uint32_t mask) {
  return (vec_f32)_mm512_maskz_compress_ps((__mmask16)mask, (__m512)v);
}
ALWAYS_INLINE vec_f64 F64(compress)(vec_f64 v, uint32_t mask) {
  return (vec_f64)_mm512_maskz_compress_pd((__mmask8)mask, (__m512d)v);
}
ALWAYS_INLINE picks_f64 I64(load_some)(const int64_t *p, int count) {
  return (picks_f64)_mm512_maskz_loadu_epi64((__mmask8)((1u << count) - 1), p);
}
ALWAYS_INLINE void I64(store_some)(int64_t *p, picks_f64 v, int count) {
  _mm512_mask_storeu_epi64(p, (__mmask8)((1u << count) - 1), (__m512i)v);
}
#else
#define LOAD_SOME(type, vec, FN)                                       \
  ALWAYS_INLINE vec FN(load_some)(const type *p, int count) {          \
    vec v = { 0 };                                                     \
    if (count == (int)(sizeof v / sizeof *p)) memcpy(&v, p, sizeof v); \
    else                                                               \
      for (int l = 0; l < count; l++) v[l] = p[l];                     \
    return v;                                                          \
  }
#define STORE_SOME(type, vec, FN)                                      \
  ALWAYS_INLINE void FN(store_some)(type * p, vec v, int count) {      \
    if (count == (int)(sizeof v / sizeof *p)) memcpy(p, &v, sizeof v); \
    else                                                               \
      for (int l = 0; l < count; l++) p[l] = v[l];                     \
  }
#if defined(__AVX2__)
/* Masked stores are slow on AMD's processors, so stores go by halves. */
ALWAYS_INLINE vec_f32 F32(load_some)(const float *p, int count) {
  static const int32_t mask[16] = { -1, -1, -1, -1, -1, -1, -1, -1 };
  return (vec_f32)_mm256_maskload_ps(p, _mm256_loadu_si256((const __m256i *)(const void *)(mask + 8 - count)));
}
ALWAYS_INLINE vec_f32 F32(load_between)(const float *p, int first, int last) {
  static const int32_t mask[24] = { [8] = -1, -1, -1, -1, -1, -1, -1, -1 };
  const __m256i from = _mm256_loadu_si256((const __m256i *)(const void *)(mask + 8 - first)),
                to = _mm256_loadu_si256((const __m256i *)(const void *)(mask + 16 - last));
  return (vec_f32)_mm256_maskload_ps(p, _mm256_and_si256(from, to));
}
/* No memcpy, whose checked form (_FORTIFY_SOURCE) keeps what it copies from in memory. */
ALWAYS_INLINE void F32(store_some)(float *p, vec_f32 v, int count) {
  __m128 part = _mm256_castps256_ps128((__m256)v);
  if (count & 8) {
    _mm256_storeu_ps(p, (__m256)v);
    return;
  }
  if (count & 4) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps((__m256)v, 1);
    p += 4;
  }
  if (count & 2) {
    _mm_storel_pi((__m64 *)(void *)p, part);
    part = _mm_movehl_ps(part, part);
    p += 2;
  }
  if (count & 1) _mm_store_ss(p, part);
}
ALWAYS_INLINE vec_f64 F64(load_some)(const double *p, int count) {
  static const int64_t mask[8] = { -1, -1, -1, -1 };
  return (vec_f64)_mm256_maskload_pd(p, _mm256_loadu_si256((const __m256i *)(const void *)(mask + 4 - count)));
}
#else
LOAD_SOME(float, vec_f32, F32)
LOAD_SOME(double, vec_f64, F64)
STORE_SOME(float, vec_f32, F32)
ALWAYS_INLINE vec_f32 F32(load_between)(const float *p, int first, int last) {
  vec_f32 v = { 0 };
  if (first == 0 && last == (int)(sizeof v / sizeof *p)) memcpy(&v, p, sizeof v);
  else
    for (int l = first; l < last; l++) v[l] = p[l];
  return v;
}
#endif
STORE_SOME(double, vec_f64, F64)
LOAD_SOME(int64_t, picks_f64, I64)
STORE_SOME(int64_t, picks_f64, I64)
#endif

#endif
