/* Counter-based random numbers with the same bits in every language and on every device: Philox4x32-10 (Salmon, Moraes,
   Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011), and normal numbers from + - * / and sqrt
   alone.
   SPDX-License-Identifier: MIT

   Element i of draw `offset` uses words of the block whose counter is (i / 4, offset), or (i / 2, offset) where it
   needs 64 bits: word i % 4, or words 2 (i % 2) and 2 (i % 2) + 1, the low one first. */
#ifndef SITU_KERNELS_RANDOM_H
#define SITU_KERNELS_RANDOM_H

/* The block of four words for a counter and a key. */
DEVICE void philox(U64 index, U64 offset, U64 key, U32 *w0, U32 *w1, U32 *w2, U32 *w3) {
  U32 c0 = (U32)index, c1 = (U32)(index >> 32), c2 = (U32)offset, c3 = (U32)(offset >> 32);
  U32 k0 = (U32)key, k1 = (U32)(key >> 32);
  for (int round = 0; round < 10; round++) {
    U64 a = (U64)0xD2511F53u * c0, b = (U64)0xCD9E8D57u * c2;
    c0 = (U32)(b >> 32) ^ c1 ^ k0;
    c1 = (U32)b;
    c2 = (U32)(a >> 32) ^ c3 ^ k1;
    c3 = (U32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  *w0 = c0;
  *w1 = c1;
  *w2 = c2;
  *w3 = c3;
}

/* Uniform in [0, 1), a multiple of 2^-digits: no more digits than the result's dtype has, so that rounding never gives
   1. */
DEVICE float uniform_f32(U32 word, int digits) {
  return (float)(I32)(word >> (32 - digits)) * F32_BITS((U32)(127 - digits) << 23);
}
/* low + u (high - low) is rounded, so that it may be high where numbers are coarse. */
DEVICE float at_most_f32(float x, float most) { return x < most ? x : most; }
#ifdef DIALECT_F64
DEVICE double uniform_f64(U64 words) { return (double)(I64)(words >> 11) * 0x1p-53; }
DEVICE double at_most_f64(double x, double most) { return x < most ? x : most; }
#endif

/* For normal numbers: converts a word to u in (0, 1], and one to an angle below a quarter turn (its top two bits count
   quarter turns). */
DEVICE float normal_unit_f32(U32 word) { return (float)(I32)(word >> 1) * 0x1p-31f + 0x1p-32f; }
DEVICE float normal_angle_f32(U32 word) { return (float)(I32)(word << 2) * (1.57079632679489661923f * 0x1p-32f); }
#ifdef DIALECT_F64
DEVICE double normal_unit_f64(U64 words) { return (double)(I64)(words >> 1) * 0x1p-63 + 0x1p-64; }
DEVICE double normal_angle_f64(U64 words) { return (double)(I64)(words << 2) * (1.57079632679489661923 * 0x1p-64); }
#endif

/* Splits u into 2^k m, with m in [sqrt(1/2), sqrt(2)). */
DEVICE float split_f32(float u, I32 *k) {
  U32 bits = BITS_F32(u);
  *k = (I32)(bits - 0x3f3504f3u) >> 23;
  return F32_BITS(bits - ((U32)*k << 23));
}
#ifdef DIALECT_F64
DEVICE double split_f64(double u, I32 *k) {
  U64 bits = BITS_F64(u);
  *k = (I32)((I64)(bits - 0x3fe6a09e667f3bcdu) >> 52);
  return F64_BITS(bits - ((U64)*k << 52));
}
#endif

/* A permutation of [0, n) each of whose elements is computed by itself: a Feistel network over 2^bits >= n, which is
   run again on what is not below n (Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002). Its
   rounds mix by the finaliser of MurmurHash3 (Appleby). */
enum { SHUFFLE_ROUNDS = 8 };
typedef struct drawn_order {
  U32 key[SHUFFLE_ROUNDS];
  int low, high; /* bits of the halves, 1 to 32 */
} drawn_order;
DEVICE drawn_order drawn_order_of(U64 n, U64 offset, U64 seed) {
  drawn_order s;
  int bits = 2;
  while ((n - 1) >> bits) bits++;
  s.low = bits / 2;
  s.high = bits - s.low;
  for (int k = 0; k < SHUFFLE_ROUNDS; k += 4)
    philox((U64)(k / 4), offset, seed, &s.key[k], &s.key[k + 1], &s.key[k + 2], &s.key[k + 3]);
  return s;
}
DEVICE U32 mixed(U32 x, U32 key) {
  x ^= key;
  x = (x ^ x >> 16) * 0x85ebca6bu;
  x = (x ^ x >> 13) * 0xc2b2ae35u;
  return x ^ x >> 16;
}
DEVICE U64 shuffled_once(const drawn_order s, U64 i) {
  U32 a = (U32)(i >> s.low), b = (U32)i & 0xffffffffu >> (32 - s.low);
  for (int k = 0; k < SHUFFLE_ROUNDS; k += 2) {
    a ^= mixed(b, s.key[k]) & 0xffffffffu >> (32 - s.high);
    b ^= mixed(a, s.key[k + 1]) & 0xffffffffu >> (32 - s.low);
  }
  return (U64)a << s.low | b;
}

/* An integer in [0, range): the high half of the product words * range. */
DEVICE U64 below(U64 words, U64 range) {
  U64 a = words >> 32, b = words & 0xffffffffu, c = range >> 32, d = range & 0xffffffffu;
  U64 middle = a * d + (b * d >> 32);
  return a * c + (middle >> 32) + ((b * c + (middle & 0xffffffffu)) >> 32);
}

#endif
