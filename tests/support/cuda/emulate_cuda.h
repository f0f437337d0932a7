/* The words of CUDA C that kernels use, for a C++ compiler of the host: lanes are fibers (emulate.c), of which one runs at a
   time. Put before a file of kernels by -include.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_EMULATE_CUDA_H
#define SITU_TESTS_EMULATE_CUDA_H

#include <math.h>
#include <stdint.h>
#include <string.h>
#include <utility>

#define __CUDACC__
#define __device__
#define __global__
#define __shared__ static
#define __launch_bounds__(lanes)
#define __grid_constant__
#define __noinline__

/* A gpu faults where an access is not aligned for its type. */
template <class To, class From> static inline To &situ_aligned(From *at) {
  if ((uintptr_t)at % alignof(To)) __builtin_trap();
  return *(To *)at;
}
#define AS(type, at) situ_aligned<type>(at)

extern "C" {
struct situ_emulated {
  unsigned x;
};
extern situ_emulated situ_emulated_lane, situ_emulated_group;
void situ_emulate_sync(void);
void situ_emulate_warp(void);
}
#define threadIdx situ_emulated_lane
#define blockIdx situ_emulated_group
#define __syncthreads() situ_emulate_sync()

static inline int atomicCAS(int *at, int expected, int wanted) {
  const int found = *at;
  if (found == expected) *at = wanted;
  return found;
}
static inline unsigned long long atomicAdd(unsigned long long *at, unsigned long long more) {
  const unsigned long long found = *at;
  *at += more;
  return found;
}

template <class To, class From> static inline To situ_bits(From from) {
  To to;
  static_assert(sizeof to == sizeof from, "the same bits");
  memcpy(&to, &from, sizeof to);
  return to;
}
static inline unsigned __float_as_uint(float x) { return situ_bits<unsigned>(x); }
static inline float __uint_as_float(unsigned x) { return situ_bits<float>(x); }
static inline long long __double_as_longlong(double x) { return situ_bits<long long>(x); }
static inline double __longlong_as_double(long long x) { return situ_bits<double>(x); }

/* Each lane shows its value, and looks at another's when all of its warp have shown theirs. */
template <class T> static inline T __shfl_xor_sync(unsigned, T value, unsigned apart) {
  static T shown[1024];
  shown[threadIdx.x] = value;
  situ_emulate_warp();
  const T seen = shown[threadIdx.x ^ apart];
  situ_emulate_warp();
  return seen;
}

/* Calls a kernel with arguments as cudaLaunchKernel has them: where each lies. */
template <class... Arguments, size_t... At>
static void situ_unpack(void (*kernel)(Arguments...), void **arguments, std::index_sequence<At...>) {
  kernel(*static_cast<std::remove_const_t<Arguments> *>(arguments[At])...);
}
template <class... Arguments> static void situ_call(void (*kernel)(Arguments...), void **arguments) {
  situ_unpack(kernel, arguments, std::index_sequence_for<Arguments...>());
}
/* How large its parameters are; returns how many there are. */
template <class... Arguments> static int situ_measure(void (*)(Arguments...), size_t *size) {
  const size_t all[] = { sizeof(Arguments)... };
  for (size_t k = 0; k < sizeof...(Arguments); k++) size[k] = all[k];
  return sizeof...(Arguments);
}
#define ENTRY(symbol)                                                               \
  extern "C" void call_##symbol(void **arguments) { situ_call(symbol, arguments); } \
  extern "C" int measure_##symbol(size_t *size) { return situ_measure(symbol, size); }

#endif
