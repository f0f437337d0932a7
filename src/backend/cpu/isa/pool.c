/* Pooling of a plane, compiled for each instruction set: f32, f64 and integers from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/pool.h"
#include "backend/cpu/isa.h"
#include "backend/cpu/isa/simd.h"
#include "base/size.h"

#include <math.h>
#include <string.h>

/* Windows [first, last) of a row, and the plane's column that window 0 reads. */
typedef struct span {
  int64_t first, last, offset;
} span;

/* Windows for which column kw of the kernel is inside the plane. */
static span span_of(const situ__plane *p, int64_t kw) {
  const situ_window *w = p->window;
  span s = { .offset = kw * w->dilation[1] - w->padding[1] };
  s.first = s.offset < 0 ? situ__ceil_div(-s.offset, w->stride[1]) : 0;
  s.last = s.offset < p->width ? situ__min_i64(p->out_width, situ__ceil_div(p->width - s.offset, w->stride[1])) : 0;
  return s;
}

/* Index in the plane of element `tap` of window (oh, ow); tap -1: of its first element inside the plane. */
static int64_t place(const situ__plane *p, int64_t oh, int64_t ow, int64_t tap) {
  const situ_window *w = p->window;
  const int64_t top = oh * w->stride[0] - w->padding[0], left = ow * w->stride[1] - w->padding[1];
  if (tap >= 0)
    return (top + tap / w->kernel[1] * w->dilation[0]) * p->width + left + tap % w->kernel[1] * w->dilation[1];
  const int64_t down = top < 0 ? situ__ceil_div(-top, w->dilation[0]) : 0,
                right = left < 0 ? situ__ceil_div(-left, w->dilation[1]) : 0;
  return (top + down * w->dilation[0]) * p->width + left + right * w->dilation[1];
}

/* Number of a window's elements along one dimension inside the padded plane, or inside the plane. */
static int64_t extent(const situ_window *w, int d, int64_t at, int64_t size) {
  const int64_t start = at * w->stride[d] - w->padding[d],
                end = situ__min_i64(start + w->kernel[d], size + w->padding[d]);
  return w->exclude_pad ? situ__min_i64(end, size) - situ__max_i64(start, 0) : end - start;
}
static int64_t divisor(const situ__plane *p, int64_t oh, int64_t ow) {
  if (p->window->divisor != 0) return p->window->divisor;
  return extent(p->window, 0, oh, p->height) * extent(p->window, 1, ow, p->width);
}

/* Part `at` of `parts` of a dimension; parts may overlap by an element. */
static span part_of(int64_t size, int64_t parts, int64_t at) {
  const int64_t first = at * size / parts;
  return (span){ .first = first, .last = situ__ceil_div((at + 1) * size, parts) };
}

/* Integers wrap, and the lowest one has no negative. */
#define PLUS(a, b) ((int64_t)((uint64_t)(a) + (uint64_t)(b)))
#define QUOTIENT(a, b) ((b) == -1 ? (int64_t)(0 - (uint64_t)(a)) : (a) / (b))
#define FN(name) SITU__ISA_NAME(name##_i64)
#define real int64_t
#define whole int64_t
#define LOWEST INT64_MIN
#define IS_NAN(v) false
#include "pool_lane.h"
#undef FN
#undef real
#undef whole
#undef LOWEST
#undef IS_NAN
#undef PLUS
#undef QUOTIENT

#define PARTS
#define PLUS(a, b) ((a) + (b))
#define QUOTIENT(a, b) ((a) / (b))

/* Elements of even and of odd index of two vectors. */
#define LANES ((int)(VECTOR / sizeof(float)))
#define vec vec_f32
#if defined(__AVX512F__)
#define HALVE(a, b, even, odd)                                                                            \
  even = (vec)_mm512_permutex2var_ps(                                                                     \
      (__m512)a, _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0), (__m512)b); \
  odd = (vec)_mm512_permutex2var_ps(                                                                      \
      (__m512)a, _mm512_set_epi32(31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1), (__m512)b)
#elif defined(__AVX2__)
#define HALVE(a, b, even, odd)                                                                       \
  even = (vec)_mm256_castpd_ps(                                                                      \
      _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps((__m256)a, (__m256)b, 0x88)), 0xd8)); \
  odd = (vec)_mm256_castpd_ps(                                                                       \
      _mm256_permute4x64_pd(_mm256_castps_pd(_mm256_shuffle_ps((__m256)a, (__m256)b, 0xdd)), 0xd8))
#endif
#define FN(name) SITU__ISA_NAME(name##_f32)
#define real float
#define whole int32_t
#define LOWEST (-INFINITY)
#define IS_NAN(v) ((v) != (v))
#include "pool_lane.h"
#undef FN
#undef real
#undef whole
#undef HALVE

#define FN(name) SITU__ISA_NAME(name##_f64)
#define real double
#define whole int64_t
#include "pool_lane.h"
