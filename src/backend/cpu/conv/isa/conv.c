/* Register tiles of a convolution, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/conv.h"
#include "backend/cpu/common/isa/simd.h"
#include "base/size.h"

/* larger: as max pooling takes v after `most`: NaN wins, else the first of equals, which is the instruction's second
   operand. */
#if defined(__AVX512F__)
ALWAYS_INLINE vec_f32 F32(larger)(vec_f32 v, vec_f32 most) {
  const __mmask16 number = _mm512_cmp_ps_mask((__m512)v, (__m512)v, _CMP_ORD_Q);
  return (vec_f32)_mm512_mask_max_ps((__m512)v, number, (__m512)v, (__m512)most);
}
ALWAYS_INLINE vec_f64 F64(larger)(vec_f64 v, vec_f64 most) {
  const __mmask8 number = _mm512_cmp_pd_mask((__m512d)v, (__m512d)v, _CMP_ORD_Q);
  return (vec_f64)_mm512_mask_max_pd((__m512d)v, number, (__m512d)v, (__m512d)most);
}
#endif

#define MULTIPLY_ADD FN(fma_vec)
#define GIVE FN(store)
#define GIVE_SOME FN(store_some)
#define KERNELS FN(situ__conv_kernels)
#if VECTOR == 64
#define OTHERS .maxima = FN(maxima), .maxima_weights = FN(maxima_weights), PLANES
#elif VECTOR == 32
#define OTHERS PLANES
#else
#define OTHERS
#endif

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define real float
#define result float
#define vec vec_f32
#if VECTOR == 64
#define picks picks_f32
#define LANE_NUMBERS NUMBERS_F32
#include "maxima.h"
#undef picks
#undef LANE_NUMBERS
#endif
#if VECTOR >= 32
#include "depthwise.h"
#define PLANES .plane = { { plane_3_1, plane_3_2 }, { plane_5_1, plane_5_2 }, { plane_7_1, plane_7_2 } },
#endif
#include "tiles.h"
#undef FN
#undef LANES
#undef real
#undef result
#undef vec
#undef PLANES

#define FN F64
#define LANES ((int)(VECTOR / sizeof(double)))
#define real double
#define result double
#define vec vec_f64
#if VECTOR == 64
#define picks picks_f64
#define LANE_NUMBERS NUMBERS_F64
#include "maxima.h"
#undef picks
#undef LANE_NUMBERS
#endif
#define PLANES
#include "tiles.h"
