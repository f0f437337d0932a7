/* <tgmath.h> for C libraries whose own copies each argument many times: musl's made 258 MB of text of nested calls. gcc
   chooses the function by itself. SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_GENERIC_MATH_H
#define SITU_KERNELS_GENERIC_MATH_H

#include <math.h> /* says which library it is */

#if defined(__GLIBC__) || !defined(__GNUC__) || defined(__clang__)
#include <tgmath.h>
#else
#define acos(x) __builtin_tgmath(acosf, acos, acosl, x)
#define acosh(x) __builtin_tgmath(acoshf, acosh, acoshl, x)
#define asin(x) __builtin_tgmath(asinf, asin, asinl, x)
#define asinh(x) __builtin_tgmath(asinhf, asinh, asinhl, x)
#define atan(x) __builtin_tgmath(atanf, atan, atanl, x)
#define atanh(x) __builtin_tgmath(atanhf, atanh, atanhl, x)
#define ceil(x) __builtin_tgmath(ceilf, ceil, ceill, x)
#define cos(x) __builtin_tgmath(cosf, cos, cosl, x)
#define cosh(x) __builtin_tgmath(coshf, cosh, coshl, x)
#define erf(x) __builtin_tgmath(erff, erf, erfl, x)
#define erfc(x) __builtin_tgmath(erfcf, erfc, erfcl, x)
#define exp(x) __builtin_tgmath(expf, exp, expl, x)
#define exp2(x) __builtin_tgmath(exp2f, exp2, exp2l, x)
#define expm1(x) __builtin_tgmath(expm1f, expm1, expm1l, x)
#define fabs(x) __builtin_tgmath(fabsf, fabs, fabsl, x)
#define floor(x) __builtin_tgmath(floorf, floor, floorl, x)
#define lgamma(x) __builtin_tgmath(lgammaf, lgamma, lgammal, x)
#define log(x) __builtin_tgmath(logf, log, logl, x)
#define log10(x) __builtin_tgmath(log10f, log10, log10l, x)
#define log1p(x) __builtin_tgmath(log1pf, log1p, log1pl, x)
#define log2(x) __builtin_tgmath(log2f, log2, log2l, x)
#define rint(x) __builtin_tgmath(rintf, rint, rintl, x)
#define sin(x) __builtin_tgmath(sinf, sin, sinl, x)
#define sinh(x) __builtin_tgmath(sinhf, sinh, sinhl, x)
#define sqrt(x) __builtin_tgmath(sqrtf, sqrt, sqrtl, x)
#define tan(x) __builtin_tgmath(tanf, tan, tanl, x)
#define tanh(x) __builtin_tgmath(tanhf, tanh, tanhl, x)
#define trunc(x) __builtin_tgmath(truncf, trunc, truncl, x)
#define atan2(x, y) __builtin_tgmath(atan2f, atan2, atan2l, x, y)
#define copysign(x, y) __builtin_tgmath(copysignf, copysign, copysignl, x, y)
#define fmax(x, y) __builtin_tgmath(fmaxf, fmax, fmaxl, x, y)
#define fmod(x, y) __builtin_tgmath(fmodf, fmod, fmodl, x, y)
#define hypot(x, y) __builtin_tgmath(hypotf, hypot, hypotl, x, y)
#define nextafter(x, y) __builtin_tgmath(nextafterf, nextafter, nextafterl, x, y)
#define pow(x, y) __builtin_tgmath(powf, pow, powl, x, y)
#define fma(x, y, z) __builtin_tgmath(fmaf, fma, fmal, x, y, z)
#endif

#endif
