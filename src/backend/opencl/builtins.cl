/* The functions of OpenCL C that kernel sources call. For every program PoCL reads Clang's opencl-c.h, which declares
   eighteen thousand functions and takes most of a small program's compile time; these declarations replace it.
   SPDX-License-Identifier: MIT */
#define PURE __attribute__((overloadable, const))
#define ROW(T)                                                                                   \
  PURE T acos(T), acosh(T), asin(T), asinh(T), atan(T), atan2(T, T), atanh(T), ceil(T),          \
      copysign(T, T), cos(T), cosh(T), erf(T), erfc(T), exp(T), exp2(T), expm1(T), fabs(T), floor(T), \
      fma(T, T, T), fmax(T, T), fmin(T, T), fmod(T, T), hypot(T, T), lgamma(T), log(T), log10(T), log1p(T), \
      log2(T), nextafter(T, T), pow(T, T), rint(T), rsqrt(T), sin(T), sinh(T), sqrt(T), tan(T), tanh(T), trunc(T); \
  PURE int isinf(T), isnan(T);
ROW(float)
PURE float16 fma(float16, float16, float16);
#ifdef cl_khr_fp64
ROW(double)
PURE double8 fma(double8, double8, double8);
#endif
#undef ROW
PURE size_t get_global_id(uint), get_local_id(uint), get_group_id(uint), get_num_groups(uint);
#undef PURE
__attribute__((overloadable, convergent)) void barrier(cl_mem_fence_flags);
__attribute__((overloadable)) uint atomic_inc(volatile __global uint *);
__attribute__((overloadable)) int atomic_cmpxchg(volatile __global int *, int, int);
