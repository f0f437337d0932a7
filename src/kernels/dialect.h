/* The macros that kernels are written in, defined for C17, OpenCL C 1.2 and CUDA C.
   SPDX-License-Identifier: MIT

   A table (unary.h, binary.h, ternary.h) is included once for each type T in { float, double } and once for integers,
   I64. Its rows use only what all three languages have: operators, ?:, exp log log1p log2 expm1 sin cos tanh erf sqrt
   fabs floor ceil trunc rint copysign fmod pow, the others of C's math.h that OpenCL has, LOG_GAMMA, and the functions
   of floats.h, special.h and integer.h. */
#ifndef SITU_KERNELS_DIALECT_H
#define SITU_KERNELS_DIALECT_H

#if defined(__OPENCL_C_VERSION__)
/* Results must have the same bits on all devices: the compiler must not contract to fused multiply-adds. */
/* clang-format off */
#pragma OPENCL FP_CONTRACT OFF
/* clang-format on */
#define DEVICE static
#define KERNEL __kernel void
#define GLOBAL __global
#define LOCAL __local
#define SHARED __local    /* qualifies pointers to LOCAL memory */
#define CONST_PARAM const /* struct parameters whose address is taken */
#define NOINLINE static   /* functions that are too large to inline at every call */
#define BITS_F32(x) as_uint(x)
#define F32_BITS(x) as_float(x)
#define BITS_F64(x) as_ulong(x)
#define F64_BITS(x) as_double(x)
typedef long I64;
typedef ulong U64;
typedef uint U32;
typedef int I32;
#ifdef cl_khr_fp64
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#define DIALECT_F64
#endif
#if ON_CPU
#include "kernels/branchless.h"
#else
/* Returns -1 or 1 where these are the nearest floats; some drivers (PoCL 3) return the float next to them. */
__attribute__((overloadable)) static float tanh_to_the_end(float x) {
  return fabs(x) > 10 ? copysign(1.0f, x) : tanh(x);
}
#ifdef DIALECT_F64
__attribute__((overloadable)) static double tanh_to_the_end(double x) {
  return fabs(x) > 20 ? copysign(1.0, x) : tanh(x);
}
#endif
#define tanh(x) tanh_to_the_end(x)
#endif
/* All kernels have one dimension of work-items, in work-groups of GROUP_SIZE. */
#define ITEM ((I64)get_global_id(0))
#define LANE ((int)get_local_id(0))
#define GROUP ((I64)get_group_id(0))
#define SYNC barrier(CLK_LOCAL_MEM_FENCE)
/* Sets *at to 1; true for the one work-item that found 0 there. */
#define FIRST_TO_RAISE(at) (atomic_cmpxchg((volatile __global int *)(at), 0, 1) == 0)
/* Atomic increment; wraps at 2^32, as 64-bit atomics are an OpenCL extension. */
#define ADD_ONE(at) (void)atomic_inc((volatile __global uint *)(at))
#define GROUPS __attribute__((reqd_work_group_size(GROUP_SIZE, 1, 1)))
#define ALONE __attribute__((reqd_work_group_size(1, 1, 1)))
#define UNROLL
#define ROLLED
#define AS(type, at) (*(type *)(at))
/* FLAT kernels loop over elements. On a CPU each work-group has an equal share of the items, in whole cache lines, and
   the compiler vectorises its loop; elsewhere each work-item has one item. */
#if ON_CPU
#define FLAT ALONE KERNEL
#define SHARE_OF(count) (((count) / (I64)get_num_groups(0) + 16) & ~(I64)15)
#define FOR_RUNS(i, end, count, length)                                                                              \
  for (I64 share_ = SHARE_OF(count), i = GROUP * share_, end = i + share_ < (count) ? i + share_ : (count); i < end; \
       i += length)
#define FOR_EACH(i, count) FOR_RUNS(i, end_, count, 1)
/* Non-temporal stores: results larger than the caches would be evicted before they are read. STREAMED waits for
   them. */
typedef ulong8 line;
#ifndef __has_builtin
#define __has_builtin(name) 0
#endif
#if __has_builtin(__builtin_nontemporal_store)
DEVICE void stream(__global uchar *to, const uchar *from, I64 bytes) {
  for (; bytes > 0 && (ulong)to % sizeof(line); bytes--) *to++ = *from++;
  for (; bytes >= (I64)sizeof(line); bytes -= sizeof(line), to += sizeof(line), from += sizeof(line)) {
    line next;
    __builtin_memcpy(&next, from, sizeof next);
    __builtin_nontemporal_store(next, (__global line *)to);
  }
  for (; bytes > 0; bytes--) *to++ = *from++;
}
#define STREAMED __atomic_thread_fence(__ATOMIC_SEQ_CST)
#else
DEVICE void stream(__global uchar *to, const uchar *from, I64 bytes) {
  for (I64 i = 0; i < bytes; i++) to[i] = from[i];
}
#define STREAMED
#endif
#else
#define FLAT GROUPS KERNEL
#define FOR_EACH(i, count) for (I64 i = ITEM; i < (count); i = (count))
/* Loops over runs of `length` items: i is the first item of a run, `end` the end of the share. */
#define FOR_RUNS(i, end, count, length) for (I64 i = ITEM, end = i + 1; i < (count); i = (count))
#endif
#elif defined(__CUDACC__)
#define DEVICE static __device__ inline /* compiled with -fmad=false, for the same reason as above */
#define DIALECT_F64
#define KERNEL void
#define GLOBAL
#define LOCAL __shared__
#define SHARED
#define CONST_PARAM const __grid_constant__ /* else each thread makes a copy */
#define NOINLINE static __device__ __noinline__
#define ITEM ((I64)blockIdx.x * GROUP_SIZE + threadIdx.x)
#define LANE ((int)threadIdx.x)
#define GROUP ((I64)blockIdx.x)
#define SYNC __syncthreads()
#define SHUFFLE_XOR(x, apart) \
  __shfl_xor_sync(0xffffffffu, x, apart) /* x of the lane in the warp whose index is LANE ^ apart */
#define FIRST_TO_RAISE(at) (atomicCAS((int *)(at), 0, 1) == 0)
#define ADD_ONE(at) (void)atomicAdd((unsigned long long *)(at), 1ull)
#define GROUPS extern "C" __global__ __launch_bounds__(GROUP_SIZE)
#define FLAT GROUPS KERNEL
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1")
#ifndef AS
#define AS(type, at) (*(type *)(at)) /* one access; `at` is aligned for the type */
#endif
#define FOR_EACH(i, count) for (I64 i = ITEM; i < (count); i = (count))
#define FOR_RUNS(i, end, count, length) for (I64 i = ITEM, end = i + 1; i < (count); i = (count))
#define BITS_F32(x) __float_as_uint(x)
#define F32_BITS(x) __uint_as_float(x)
#define BITS_F64(x) ((unsigned long long)__double_as_longlong(x))
#define F64_BITS(x) __longlong_as_double((long long)(x))
typedef long long I64;
typedef unsigned long long U64;
typedef unsigned int U32;
typedef int I32;
/* CUDA's hypot is infinite where the larger operand is the largest number, and the smaller one too small to count. */
template <class Real> DEVICE Real hypot_to_the_end(Real a, Real b) {
  const Real more = fabs(a) > fabs(b) ? fabs(a) : fabs(b), less = fabs(a) > fabs(b) ? fabs(b) : fabs(a);
  return less < more * (Real)0x1p-27 ? more : hypot(a, b);
}
#define hypot(a, b) hypot_to_the_end(a, b)
#else
#include "vector_math.h"
#include <stdint.h>
#define DEVICE static inline
#define NOINLINE static __attribute__((noinline, unused))
#define DIALECT_F64
typedef int64_t I64;
typedef uint64_t U64;
typedef uint32_t U32;
typedef int32_t I32;
/* clang-format off */
static inline U32 BITS_F32(float x) { return (union { float f; U32 u; }){ x }.u; }
static inline float F32_BITS(U32 bits) { return (union { U32 u; float f; }){ bits }.f; }
static inline U64 BITS_F64(double x) { return (union { double f; U64 u; }){ x }.u; }
static inline double F64_BITS(U64 bits) { return (union { U64 u; double f; }){ bits }.f; }
/* clang-format on */
#endif

/* The C library's lgamma writes the sign to a variable of the whole process. */
#ifndef LOG_GAMMA
#define LOG_GAMMA(x) lgamma(x)
#endif
/* The cpu has its own of f32: exp of x <= 0, P(X < x) of a standard normal X, and in some builds sin and cos. */
#define EXP_BELOW(x) exp(x)
#define SIN(x) sin(x)
#define COS(x) cos(x)
#define NORMAL_POWER(x) erf((x) * (T)0.70710678118654752440)
#define NORMAL_BY(x, e) ((void)(x), (1 + (e)) * (T)0.5)

#define ALIGNED(bytes) __attribute__((aligned(bytes)))

/* The function of floats.h for the current type: FN(remainder) is remainder_f32 while T is float. */
#define PASTE_(name, type) name##_##type
#define PASTE(name, type) PASTE_(name, type)
#define FN(name) PASTE(name, TNAME)

/* What a gradient formula reads besides g. */
#define USES_NOTHING 0
#define USES_X 1
#define USES_Y 2
/* torch refuses other dtypes than floating ones; bool alone. */
#define OF_FLOATS 4
#define OF_NUMBERS 8
/* Overflows f16, or loses too much in 16 bits: torch's autocast computes it in f32. CPU kernels do that by
   themselves. */
#define IN_F32 16

#endif
