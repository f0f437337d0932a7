/* Register tiles of a convolution, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv.h"
#include "backend/cpu/isa/simd.h"

/* The lanes of a mask, moved to the first ones. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec_f32 F32(compress)(vec_f32 v, uint32_t mask) {
  return (vec_f32)_mm512_maskz_compress_ps((__mmask16)mask, (__m512)v);
}
ALWAYS_INLINE vec_f64 F64(compress)(vec_f64 v, uint32_t mask) {
  return (vec_f64)_mm512_maskz_compress_pd((__mmask8)mask, (__m512d)v);
}
#endif

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define real float
#define vec vec_f32
#include "conv_tiles.h"
#undef FN
#undef LANES
#undef real
#undef vec

#define FN F64
#define LANES ((int)(VECTOR / sizeof(double)))
#define real double
#define vec vec_f64
#include "conv_tiles.h"
