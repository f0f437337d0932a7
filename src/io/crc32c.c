/* CRC-32C: eight bytes per step with tables, or three streams at once with the SSE 4.2 instruction.
   SPDX-License-Identifier: MIT */
#include "io/crc32c.h"

#include <pthread.h>
#include <string.h>

#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

enum { LANE = 4096 }; /* bytes of each of the three streams */

static uint32_t table[8][256]; /* [k][b]: byte b followed by k zero bytes */
static uint32_t shift[4][256]; /* [k][b]: byte k of a checksum, advanced by LANE zero bytes */
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

static void make_tables(void) {
  for (uint32_t b = 0; b < 256; b++) {
    uint32_t raw = b;
    for (int i = 0; i < 8; i++) raw = raw >> 1 ^ (raw & 1 ? 0x82F63B78u : 0);
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
#endif

uint32_t situ__crc32c(uint32_t crc, const void *data, size_t bytes) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) {
    pthread_once(&once, make_tables);
    return ~raw_sse42(~crc, data, bytes);
  }
#endif
  return situ__crc32c_portable(crc, data, bytes);
}
