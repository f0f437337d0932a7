/* Convolution with an image in each lane, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/conv/batch_lanes.h"
#include "backend/cpu/common/isa/simd.h"
#include "base/size.h"

/* Keeps what several sums need in a register; compilers would have each of them load it. */
#if defined(__AVX__)
#define KEEP(v) __asm__("" : "+v"(v))
#else
#define KEEP(v) (void)(v)
#endif

#define FN F32
#define LANES ((int)(VECTOR / sizeof(float)))
#define LANE_NUMBERS NUMBERS_F32
#define real float
#define vec vec_f32
#define picks picks_f32
#include "batch_lanes_compute.h"
#undef FN
#undef LANES
#undef LANE_NUMBERS
#undef real
#undef vec
#undef picks

#define FN F64
#define LANES ((int)(VECTOR / sizeof(double)))
#define LANE_NUMBERS NUMBERS_F64
#define real double
#define vec vec_f64
#define picks picks_f64
#include "batch_lanes_compute.h"
