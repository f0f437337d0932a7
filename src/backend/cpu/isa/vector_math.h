/* Functions of libm that loops may call for a whole vector at once.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CPU_ISA_VECTOR_MATH_H
#define SITU_CPU_ISA_VECTOR_MATH_H

#include <math.h>

/* glibc has vector variants of these (libmvec, within 4 ULP, NaN and infinities kept), but declares them only under
   -ffast-math, which would break NaN everywhere else. Declared here, gcc uses them; other compilers call the scalar ones. */
#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define SITU__VECTOR __attribute__((simd("notinbranch"), const, nothrow))
extern float situ__expf(float) __asm__("expf") SITU__VECTOR;
extern double situ__exp(double) __asm__("exp") SITU__VECTOR;
extern float situ__powf(float, float) __asm__("powf") SITU__VECTOR;
extern double situ__pow(double, double) __asm__("pow") SITU__VECTOR;
#undef SITU__VECTOR
#else
#define situ__expf expf
#define situ__exp exp
#define situ__powf powf
#define situ__pow pow
#endif

#endif
