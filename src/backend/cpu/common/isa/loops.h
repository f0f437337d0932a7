/* Shared by the loops of isa/.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ISA_LOOPS_H
#define SITU_BACKEND_CPU_ISA_LOOPS_H

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__FMA__) || defined(__FP_FAST_FMAF)
#define SITU__FUSED 1 /* fma is an instruction */
#endif

/* Tells the compiler that iterations are independent, also where the result overwrites an operand: without it, an
   in-place call takes the scalar loop that compilers keep for overlapping memory. */
/* ROLLED: a short loop becomes one vector where it is not unrolled before, in which conditions would stay jumps. */
#if defined(__clang__)
#define ROLLED _Pragma("clang loop vectorize(assume_safety)")
#define INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
/* clang has no vector variants of the library's functions, so loops that call them are not vectorised: do not warn. */
#pragma clang diagnostic ignored "-Wpass-failed"
#elif defined(__GNUC__)
#define ROLLED _Pragma("GCC unroll 1")
#define INDEPENDENT _Pragma("GCC ivdep")
#else
#define ROLLED
#define INDEPENDENT
#endif

#endif
