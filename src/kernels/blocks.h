/* Quantised blocks in ggml's formats (ggml-common.h): a number of a block is scale * integer - minimum, in f32, each
   operation rounded; the bits are those of llama.cpp's gguf package.
   SPDX-License-Identifier: MIT

   A type T has groups of T_LENGTH numbers with one scale and one minimum: T_scale(b, g) and T_minimum(b, g) of group g
   of block b, and T_integer(b, g, k), number k of it. */
#ifndef SITU_KERNELS_BLOCKS_H
#define SITU_KERNELS_BLOCKS_H

#include "kernels/dialect.h"
#include "kernels/half.h"

#if defined(__OPENCL_C_VERSION__) || defined(__CUDACC__)
#define BLOCK_BYTES GLOBAL const unsigned char *
#else
#define BLOCK_BYTES const unsigned char *
#endif

DEVICE float block_half(BLOCK_BYTES b) { return situ__f16_to_f32((uint16_t)(b[0] | b[1] << 8)); }

/* Q8_0: f16 scale, i8[32]. */
#define Q8_0_LENGTH 32
DEVICE float Q8_0_scale(BLOCK_BYTES b, int g) { return (void)g, block_half(b); }
DEVICE float Q8_0_minimum(BLOCK_BYTES b, int g) { return (void)b, (void)g, 0.0f; }
DEVICE int Q8_0_integer(BLOCK_BYTES b, int g, int k) { return (void)g, (signed char)b[2 + k]; }

/* Q4_0: f16 scale, 16 bytes: numbers 0 to 15 in their low halves, 16 to 31 in the high ones. */
#define Q4_0_LENGTH 16
DEVICE float Q4_0_scale(BLOCK_BYTES b, int g) { return (void)g, block_half(b); }
DEVICE float Q4_0_minimum(BLOCK_BYTES b, int g) { return (void)b, (void)g, 0.0f; }
DEVICE int Q4_0_integer(BLOCK_BYTES b, int g, int k) { return (b[2 + k] >> 4 * g & 15) - 8; }

/* The 12 bytes of Q4_K and Q5_K have 8 scales and 8 minima of 6 bits: those of groups 0 to 3 in the low bits of bytes
   0 to 7; of the others the low 4 bits are in bytes 8 to 11, the high 2 in the high bits of bytes 0 to 7. */
DEVICE int packed_scale(BLOCK_BYTES s, int g) { return g < 4 ? s[g] & 63 : (s[g + 4] & 15) | (s[g - 4] >> 2 & 48); }
DEVICE int packed_minimum(BLOCK_BYTES s, int g) { return g < 4 ? s[g + 4] & 63 : s[g + 4] >> 4 | (s[g] >> 2 & 48); }

/* Q4_K: f16 scale of scales, f16 scale of minima, scales, 128 bytes: groups 2 i and 2 i + 1 in the low and high halves
   of the i-th 32. */
#define Q4_K_LENGTH 32
DEVICE float Q4_K_scale(BLOCK_BYTES b, int g) { return block_half(b) * (float)packed_scale(b + 4, g); }
DEVICE float Q4_K_minimum(BLOCK_BYTES b, int g) { return block_half(b + 2) * (float)packed_minimum(b + 4, g); }
DEVICE int Q4_K_integer(BLOCK_BYTES b, int g, int k) { return b[16 + g / 2 * 32 + k] >> g % 2 * 4 & 15; }

/* Q5_K: as Q4_K, with 32 bytes before the 128, whose bit g is the fifth bit of group g. */
#define Q5_K_LENGTH 32
DEVICE float Q5_K_scale(BLOCK_BYTES b, int g) { return Q4_K_scale(b, g); }
DEVICE float Q5_K_minimum(BLOCK_BYTES b, int g) { return Q4_K_minimum(b, g); }
DEVICE int Q5_K_integer(BLOCK_BYTES b, int g, int k) {
  return (b[48 + g / 2 * 32 + k] >> g % 2 * 4 & 15) | (b[16 + k] >> g & 1) << 4;
}

/* Q6_K: 128 bytes of low 4 bits, 64 of high 2 bits, i8[16] scales, f16 scale of them. Numbers 128 h + 32 r + j have
   their low bits in half r / 2 of byte 64 h + 32 (r % 2) + j, their high ones in quarter r of byte 32 h + j. */
#define Q6_K_LENGTH 16
DEVICE float Q6_K_scale(BLOCK_BYTES b, int g) { return block_half(b + 208) * (float)(signed char)b[192 + g]; }
DEVICE float Q6_K_minimum(BLOCK_BYTES b, int g) { return (void)b, (void)g, 0.0f; }
DEVICE int Q6_K_integer(BLOCK_BYTES b, int g, int k) {
  const int h = g / 8, r = g % 8 / 2, j = g % 2 * 16 + k;
  return ((b[64 * h + 32 * (r % 2) + j] >> r / 2 * 4 & 15) | (b[128 + 32 * h + j] >> 2 * r & 3) << 4) - 32;
}

#endif
