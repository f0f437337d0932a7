/* The most f32 arithmetic that two threads can do: chains of fused multiply-adds that wait for nothing.
   SPDX-License-Identifier: MIT */
#include "support/peers.h"

#include "base/pool.h"

enum { CHAINS = 12, ROUNDS = 1000000 };

#ifdef __x86_64__
#include <immintrin.h>

/* As the tests of a processor's own speed do it: registers only, and as many chains as hide what one addition takes. */
#define CHAINS_OF(name, features, vector, fmadd, set)                                            \
  __attribute__((target(features), noinline)) static float name(void) {                          \
    vector sum[CHAINS], a = set(0.999f), b = set(0.001f);                                        \
    _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) sum[c] = set((float)c);            \
    for (int r = 0; r < ROUNDS; r++)                                                             \
      _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) sum[c] = fmadd(sum[c], a, b);    \
    _Pragma("GCC unroll 12") for (int c = 1; c < CHAINS; c++) sum[0] = fmadd(sum[0], a, sum[c]); \
    return sum[0][0];                                                                            \
  }
CHAINS_OF(chains_512, "avx512f", __m512, _mm512_fmadd_ps, _mm512_set1_ps)
CHAINS_OF(chains_256, "avx2,fma", __m256, _mm256_fmadd_ps, _mm256_set1_ps)

static void chains(int64_t begin, int64_t end, void *payload) {
  float *kept = payload;
  for (int64_t k = begin; k < end; k++) kept[k] = __builtin_cpu_supports("avx512f") ? chains_512() : chains_256();
}

double peak_of_two_threads(double (*clock)(void)) {
  float kept[2];
  if (!__builtin_cpu_supports("fma")) return 0;
  double begin = clock();
  situ__parallel(2, 1, chains, kept);
  return 2.0 * 2 * CHAINS * ROUNDS * (__builtin_cpu_supports("avx512f") ? 16 : 8) / (clock() - begin);
}
#else
double peak_of_two_threads(double (*clock)(void)) {
  (void)clock;
  return 0;
}
#endif
