/* The f32 functions of kernels/branchless.h in place of the C library's, from here to the end of the file. Needs fused
   multiply-adds (SITU__FUSED). Include after kernels/dialect.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_BRANCHLESS_H
#define SITU_BACKEND_CPU_ISA_BRANCHLESS_H

#include "loops.h"

#define OF_F32(name) ALWAYS_INLINE float name##_of(float x)
#define as_float(bits) F32_BITS((U32)(bits))
#define as_int(x) (int)BITS_F32(x)
#undef exp
#undef expm1
#undef log
#undef log1p
#undef tanh
#undef erf
#include "kernels/branchless.h"

#endif
