/* The C library's math functions, declared so that gcc may call their vector variants in loops.
   SPDX-License-Identifier: MIT

   glibc has them in libmvec but declares them only under -ffast-math. They handle IEEE's special values correctly, with
   at most 4 ULP of error. Other compilers and libraries call the ordinary functions, or, of f32, those of branchless.h
   (unary.c). */
#ifndef SITU_KERNELS_VECTOR_MATH_H
#define SITU_KERNELS_VECTOR_MATH_H

#include "generic_math.h"

#if defined(__GNUC__) && !defined(__clang__) && defined(__x86_64__) && defined(__GLIBC__)
#define SITU__VECTOR __attribute__((simd("notinbranch"), const, nothrow))
#define SITU__VECTOR_1(name)            \
  SITU__VECTOR float(name##f)(float x); \
  SITU__VECTOR double(name)(double x);
#if __GLIBC_PREREQ(2, 22)
SITU__VECTOR_1(exp)
SITU__VECTOR_1(log)
SITU__VECTOR_1(sin)
SITU__VECTOR_1(cos)
SITU__VECTOR float(powf)(float x, float y);
SITU__VECTOR double(pow)(double x, double y);
#endif
#if __GLIBC_PREREQ(2, 35)
#define SITU__VECTOR_LIBRARY 1 /* all that a table needs */
SITU__VECTOR_1(expm1)
SITU__VECTOR_1(log1p)
SITU__VECTOR_1(log2)
SITU__VECTOR_1(tanh)
SITU__VECTOR_1(erf)
SITU__VECTOR_1(erfc)
SITU__VECTOR_1(exp2)
SITU__VECTOR_1(log10)
SITU__VECTOR_1(tan)
SITU__VECTOR_1(asin)
SITU__VECTOR_1(acos)
SITU__VECTOR_1(atan)
SITU__VECTOR_1(sinh)
SITU__VECTOR_1(cosh)
SITU__VECTOR_1(asinh)
SITU__VECTOR_1(acosh)
SITU__VECTOR_1(atanh)
SITU__VECTOR float(atan2f)(float y, float x);
SITU__VECTOR double(atan2)(double y, double x);
SITU__VECTOR float(hypotf)(float x, float y);
SITU__VECTOR double(hypot)(double x, double y);
#endif
#undef SITU__VECTOR_1
#undef SITU__VECTOR
#endif

static inline float situ__log_gamma_f32(float x) { return lgammaf_r(x, &(int){ 0 }); }
static inline double situ__log_gamma_f64(double x) { return lgamma_r(x, &(int){ 0 }); }
#define LOG_GAMMA(x) PASTE(situ__log_gamma, TNAME)(x)

#endif
