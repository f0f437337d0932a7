/* Conversions between f32 and the bits of f16 and bf16: round to nearest even, NaN stays NaN. Without branches, so that
   compilers vectorise loops over them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_HALF_H
#define SITU_KERNELS_HALF_H

#if defined(__OPENCL_C_VERSION__) || defined(__CUDACC__)
#ifdef __OPENCL_C_VERSION__
typedef unsigned int uint32_t;
typedef unsigned short uint16_t;
#else
#include <stdint.h>
#endif
#define SITU__HALF DEVICE
#define situ__from_bits F32_BITS
#define situ__to_bits BITS_F32
#else
#include <stdint.h>
#define SITU__HALF static inline

typedef union situ__f32_bits {
  float value;
  uint32_t bits;
} situ__f32_bits;

static inline float situ__from_bits(uint32_t bits) { return (situ__f32_bits){ .bits = bits }.value; }
static inline uint32_t situ__to_bits(float value) { return (situ__f32_bits){ .value = value }.bits; }
#endif

SITU__HALF float situ__bf16_to_f32(uint16_t h) { return situ__from_bits((uint32_t)h << 16); }

#ifdef __CUDA_ARCH__
/* A GPU has an instruction for this, with the same results except for a NaN's bits. */
DEVICE uint16_t situ__f32_to_bf16(float value) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(value));
  return h;
}
/* Two at a time, the first in the low half. */
DEVICE uint32_t situ__f32_to_bf16_pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
DEVICE uint32_t situ__f32_to_f16_pair(float first, float second) {
  uint32_t pair;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(second), "f"(first));
  return pair;
}
DEVICE float situ__f16_to_f32(uint16_t h) {
  float value;
  asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(h));
  return value;
}
DEVICE uint16_t situ__f32_to_f16(float value) {
  uint16_t h;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(value));
  return h;
}
#else
SITU__HALF uint16_t situ__f32_to_bf16(float value) {
  uint32_t bits = situ__to_bits(value);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  /* Tests the value for NaN, not the bits: for the bits' test LLVM 18 (PoCL 6) generates wrong AVX-512 code where a
     floor, ceil, rint or trunc of a widened bf16 is stored. */
  return (uint16_t)(value != value ? (bits >> 16 | 0x40u) : rounded);
}

SITU__HALF float situ__f16_to_f32(uint16_t h) {
  /* With its bits in an f32's fields, the half's exponent is too small by the difference of the biases: multiplying by
     2^112 is exact for normal and subnormal numbers. */
  float magnitude = situ__from_bits((uint32_t)(h & 0x7fffu) << 13) * 0x1p112f;
  uint32_t special = (h & 0x7c00u) == 0x7c00u ? 0x7f800000u : 0u;
  return situ__from_bits(situ__to_bits(magnitude) | special | (uint32_t)(h & 0x8000u) << 16);
}

SITU__HALF uint16_t situ__f32_to_f16(float value) {
  uint32_t bits = situ__to_bits(value), magnitude = bits & 0x7fffffffu;
  /* Subnormal results: adding 0.5 aligns the last bit of an f16 with the last bit of the sum, so that the addition
     rounds. */
  uint32_t tiny = situ__to_bits(situ__from_bits(magnitude) + 0.5f) - 0x3f000000u;
  uint32_t normal = (magnitude + 0xfffu + (magnitude >> 13 & 1u) - (112u << 23)) >> 13;
  uint32_t h = magnitude < 0x38800000u ? tiny : normal;
  h = magnitude >= 0x477ff000u ? 0x7c00u : h;
  h = magnitude > 0x7f800000u ? 0x7e00u : h;
  return (uint16_t)(h | (bits >> 16 & 0x8000u));
}
#endif

#endif
