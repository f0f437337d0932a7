/* A copy past the caches, for memory that is read much later: a store that goes there alone need not read the line that
   it replaces. Each file that includes this gets the widest stores of the processor that it is compiled for.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_STREAM_H
#define SITU_BASE_STREAM_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <immintrin.h>
#endif

/* These stores are not ordered with others: situ__stream_end orders them before all later ones. */
static inline void situ__stream(void *dst, const void *src, int64_t bytes) {
  char *d = dst;
  const char *s = src;
#if defined(__SSE2__)
  int64_t head = (int64_t)(-(uintptr_t)d & 63);
  if (head > bytes) head = bytes;
  memcpy(d, s, (size_t)head);
  d += head, s += head, bytes -= head;
  for (; bytes >= 64; d += 64, s += 64, bytes -= 64) {
#if defined(__AVX512F__)
    _mm512_stream_si512((void *)d, _mm512_loadu_si512(s));
#elif defined(__AVX__)
    for (int k = 0; k < 64; k += 32)
      _mm256_stream_si256((__m256i *)(d + k), _mm256_loadu_si256((const __m256i *)(s + k)));
#else
    for (int k = 0; k < 64; k += 16) _mm_stream_si128((__m128i *)(d + k), _mm_loadu_si128((const __m128i *)(s + k)));
#endif
  }
#endif
  memcpy(d, s, (size_t)bytes);
}

static inline void situ__stream_end(void) {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

#endif
