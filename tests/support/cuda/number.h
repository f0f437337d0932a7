/* Numbers in memory, for the doubles of CUDA's libraries.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_NUMBER_H
#define SITU_CUDA_NUMBER_H

#include <library_types.h>
#include <stdint.h>
#include <string.h>

__extension__ typedef _Float16 number_half;

static inline size_t number_bytes(cudaDataType type) { return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : 2; }

static inline float number_of_bits(uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
static inline uint32_t number_bits(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double number_load(cudaDataType type, const void *base, int64_t at) {
  switch (type) {
  case CUDA_R_64F: return ((const double *)base)[at];
  case CUDA_R_32F: return (double)((const float *)base)[at];
  case CUDA_R_16F: return (double)(float)((const number_half *)base)[at];
  default: return (double)number_of_bits((uint32_t)((const uint16_t *)base)[at] << 16);
  }
}

static inline void number_store(cudaDataType type, void *base, int64_t at, double value) {
  const uint32_t bits = number_bits((float)value);
  switch (type) {
  case CUDA_R_64F: ((double *)base)[at] = value; break;
  case CUDA_R_32F: ((float *)base)[at] = (float)value; break;
  case CUDA_R_16F: ((number_half *)base)[at] = (number_half)(float)value; break;
  default:
    ((uint16_t *)base)[at] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
    if (value != value) ((uint16_t *)base)[at] = 0x7fc0; /* rounding must not make NaN infinite */
    break;
  }
}

/* Without its last bits, as the units that take TF32 (13) or BF16 (16) read it. */
static inline double number_without(double value, uint32_t lost) {
  return (double)number_of_bits((number_bits((float)value) + (1u << (lost - 1))) >> lost << lost);
}

#endif
