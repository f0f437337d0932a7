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

/* Q4_1: f16 scale, f16 minimum with its sign turned, 16 bytes as of Q4_0. */
#define Q4_1_LENGTH 16
DEVICE float Q4_1_scale(BLOCK_BYTES b, int g) { return (void)g, block_half(b); }
DEVICE float Q4_1_minimum(BLOCK_BYTES b, int g) { return (void)g, -block_half(b + 2); }
DEVICE int Q4_1_integer(BLOCK_BYTES b, int g, int k) { return b[4 + k] >> 4 * g & 15; }

/* Q5_0 and Q5_1: as Q4_0 and Q4_1, with 4 bytes before the 16, whose bit i is the fifth bit of number i. */
DEVICE int fifth_bit(BLOCK_BYTES b, int i) { return (b[i / 8] >> i % 8 & 1) << 4; }
#define Q5_0_LENGTH 16
DEVICE float Q5_0_scale(BLOCK_BYTES b, int g) { return (void)g, block_half(b); }
DEVICE float Q5_0_minimum(BLOCK_BYTES b, int g) { return (void)b, (void)g, 0.0f; }
DEVICE int Q5_0_integer(BLOCK_BYTES b, int g, int k) {
  return ((b[6 + k] >> 4 * g & 15) | fifth_bit(b + 2, 16 * g + k)) - 16;
}
#define Q5_1_LENGTH 16
DEVICE float Q5_1_scale(BLOCK_BYTES b, int g) { return Q4_1_scale(b, g); }
DEVICE float Q5_1_minimum(BLOCK_BYTES b, int g) { return Q4_1_minimum(b, g); }
DEVICE int Q5_1_integer(BLOCK_BYTES b, int g, int k) { return (b[8 + k] >> 4 * g & 15) | fifth_bit(b + 4, 16 * g + k); }

/* IQ4_NL: as Q4_0, but 4 bits are the place of a number in a table of 16, whose bytes are two words here: a kernel in
   OpenCL C has no table of its own without an address space. */
#define IQ4_NL_LENGTH 16
DEVICE float IQ4_NL_scale(BLOCK_BYTES b, int g) { return (void)g, block_half(b); }
DEVICE float IQ4_NL_minimum(BLOCK_BYTES b, int g) { return (void)b, (void)g, 0.0f; }
DEVICE int IQ4_NL_integer(BLOCK_BYTES b, int g, int k) {
  const int at = b[2 + k] >> 4 * g & 15;
  return (signed char)((at < 8 ? (U64)0xf6eaddcfbfad9881 : (U64)0x7159453526190d01) >> 8 * (at & 7) & 255);
}

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
