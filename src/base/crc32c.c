/* CRC-32C: eight bytes per step with tables, three streams at once with the SSE 4.2 instruction, or 256 bytes at a time
   by products of polynomials (V. Gopal et al., "Fast CRC Computation for Generic Polynomials Using PCLMULQDQ
   Instruction", Intel 2009, in vectors of four).
   SPDX-License-Identifier: MIT */
#include "base/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LANE = 4096 }; /* bytes of each of the three streams */
#define POLYNOMIAL 0x82F63B78u
enum { LANES = 4, VECTOR = 64, BLOCK = LANES * VECTOR }; /* bytes that products take at a time */

static uint32_t table[8][256]; /* [k][b]: byte b followed by k zero bytes */
static uint32_t shift[4][256]; /* [k][b]: byte k of a checksum, advanced by LANE zero bytes */
static uint64_t ahead[2][2];   /* [0: a block, 1: a vector]: what moves both halves of 16 bytes on by as much */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* `raw` is the checksum without the inversions at both ends, so it is linear. */
static uint32_t raw_portable(uint32_t raw, const unsigned char *p, size_t bytes) {
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint32_t low = raw ^ ((uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24);
    raw = table[7][low & 255] ^ table[6][low >> 8 & 255] ^ table[5][low >> 16 & 255] ^ table[4][low >> 24] ^
          table[3][p[4]] ^ table[2][p[5]] ^ table[1][p[6]] ^ table[0][p[7]];
  }
  for (; bytes > 0; p++, bytes--) raw = raw >> 8 ^ table[0][(raw ^ *p) & 255];
  return raw;
}

/* x^n mod the polynomial, the highest power in the lowest bit; shifted, as a product of two such numbers is. */
static uint64_t power(int n) {
  uint32_t raw = (uint32_t)1 << 31;
  for (int i = 0; i < n; i++) raw = raw >> 1 ^ (raw & 1 ? POLYNOMIAL : 0);
  return (uint64_t)raw << 1;
}

static void make_tables(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t raw = b;
    for (int i = 0; i < 8; i++) raw = raw >> 1 ^ (raw & 1 ? POLYNOMIAL : 0);
    table[0][b] = raw;
  }
  for (int k = 1; k < 8; k++)
    for (int b = 0; b < 256; b++) table[k][b] = table[k - 1][b] >> 8 ^ table[0][table[k - 1][b] & 255];
  static const unsigned char zeros[LANE];
  for (int bit = 0; bit < 32; bit++) {
    uint32_t moved = raw_portable((uint32_t)1 << bit, zeros, LANE);
    for (int b = 0; b < 256; b++)
      if (b >> (bit % 8) & 1) shift[bit / 8][b] ^= moved;
  }
  for (int k = 0; k < 2; k++) {
    const int bits = 8 * (k ? VECTOR : BLOCK);
    ahead[k][0] = power(bits + 32);
    ahead[k][1] = power(bits - 32);
  }
}

uint32_t situ__crc32c_portable(uint32_t crc, const void *data, size_t bytes) {
  pthread_once(&once, make_tables);
  return ~raw_portable(~crc, data, bytes);
}

#if defined(__x86_64__)
static uint32_t move_on(uint32_t raw) {
  return shift[0][raw & 255] ^ shift[1][raw >> 8 & 255] ^ shift[2][raw >> 16 & 255] ^ shift[3][raw >> 24];
}

/* The instruction has a latency of three cycles and a throughput of one per cycle: three independent streams use it
   fully. */
__attribute__((target("sse4.2"))) static uint32_t raw_sse42(uint32_t raw, const unsigned char *p, size_t bytes) {
  for (; bytes >= 3 * LANE; p += 3 * LANE, bytes -= 3 * LANE) {
    uint64_t a = raw, b = 0, c = 0, word;
    for (size_t i = 0; i < LANE; i += 8) {
      a = _mm_crc32_u64(a, (memcpy(&word, p + i, 8), word));
      b = _mm_crc32_u64(b, (memcpy(&word, p + LANE + i, 8), word));
      c = _mm_crc32_u64(c, (memcpy(&word, p + 2 * LANE + i, 8), word));
    }
    raw = move_on(move_on((uint32_t)a) ^ (uint32_t)b) ^ (uint32_t)c;
  }
  for (; bytes >= 8; p += 8, bytes -= 8) {
    uint64_t word;
    memcpy(&word, p, 8);
    raw = (uint32_t)_mm_crc32_u64(raw, word);
  }
  for (; bytes > 0; p++, bytes--) raw = _mm_crc32_u8(raw, *p);
  return raw;
}

#define WIDE __attribute__((target("avx512f,pclmul,vpclmulqdq,sse4.2")))

/* `next` with each 16 bytes of v added as many bytes earlier as `by` was made for. */
WIDE static inline __m512i move_vector(__m512i v, __m512i by, __m512i next) {
  const __m512i low = _mm512_clmulepi64_epi128(v, by, 0x00), high = _mm512_clmulepi64_epi128(v, by, 0x11);
  return _mm512_ternarylogic_epi64(low, high, next, 0x96); /* exclusive or */
}

/* Of at least BLOCK bytes: what is left of all blocks is 64 bytes with the checksum of the blocks. */
WIDE static uint32_t raw_wide(uint32_t raw, const unsigned char *p, size_t bytes) {
  __m512i v[LANES];
  for (int k = 0; k < LANES; k++) v[k] = _mm512_loadu_si512(p + k * VECTOR);
  v[0] = _mm512_xor_si512(v[0], _mm512_zextsi128_si512(_mm_cvtsi32_si128((int)raw)));
  __m512i by = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)ahead[0]));
  for (p += BLOCK, bytes -= BLOCK; bytes >= BLOCK; p += BLOCK, bytes -= BLOCK)
    for (int k = 0; k < LANES; k++) v[k] = move_vector(v[k], by, _mm512_loadu_si512(p + k * VECTOR));
  by = _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)ahead[1]));
  for (int k = 1; k < LANES; k++) v[0] = move_vector(v[0], by, v[k]);
  unsigned char left[VECTOR];
  _mm512_storeu_si512(left, v[0]);
  return raw_sse42(raw_sse42(0, left, VECTOR), p, bytes);
}
#endif

uint32_t situ__crc32c(uint32_t crc, const void *data, size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    pthread_once(&once, make_tables);
    if (bytes >= BLOCK && __builtin_cpu_supports("vpclmulqdq") && __builtin_cpu_supports("avx512f"))
      return ~raw_wide(~crc, data, bytes);
    return ~raw_sse42(~crc, data, bytes);
  }
#endif
  return situ__crc32c_portable(crc, data, bytes);
}
