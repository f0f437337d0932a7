/* The C library's math functions, declared so that gcc may call their vector variants in loops.
   SPDX-License-Identifier: MIT

   glibc has them in libmvec but declares them only under -ffast-math. They handle IEEE's special values correctly, with
   at most 4 ULP of error. Other compilers and libraries call the ordinary functions. */
#ifndef SITU_KERNELS_VECTOR_MATH_H
#define SITU_KERNELS_VECTOR_MATH_H

#include <tgmath.h>

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
SITU__VECTOR_1(expm1)
SITU__VECTOR_1(log1p)
SITU__VECTOR_1(log2)
SITU__VECTOR_1(tanh)
SITU__VECTOR_1(erf)
#endif
#undef SITU__VECTOR_1
#undef SITU__VECTOR
#endif

#endif
