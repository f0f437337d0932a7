/* Element i of draw (seed, offset), bit-identical to the CPU's. OP is a situ_random; T is I64 for integers.
   SPDX-License-Identifier: MIT

   FLAGS: mantissa bits of a uniform number in the result's dtype; 0 for f64, whose numbers take two words. */
#include "kernels/element.h"
#include "kernels/random.h"
#if FLOATING
#include "kernels/normal.h"
#endif

enum { UNIFORM, NORMAL, BERNOULLI, INTEGER, RAW, PERMUTATION };
typedef struct parameters {
  U64 seed, offset;
  I64 numel, at, low, range;
  T a, b, most;
} parameters;

/* The last block of words, as neighbouring elements share one. */
typedef struct block {
  U64 index;
  U32 w0, w1, w2, w3;
} block;
DEVICE void turn_to(block *b, const parameters *q, U64 index) {
  if (b->index == index) return;
  b->index = index;
  philox(index, q->offset, q->seed, &b->w0, &b->w1, &b->w2, &b->w3);
}
DEVICE U32 word(block *b, const parameters *q, I64 i) {
  turn_to(b, q, (U64)i >> 2);
  return i & 2 ? (i & 1 ? b->w3 : b->w2) : (i & 1 ? b->w1 : b->w0);
}
DEVICE U64 words(block *b, const parameters *q, I64 i) {
  turn_to(b, q, (U64)i >> 1);
  return i & 1 ? (U64)b->w3 << 32 | b->w2 : (U64)b->w1 << 32 | b->w0;
}

#if OP == 0
#if FLAGS
#define DRAWN at_most_f32(q.a + uniform_f32(word(&b, &q, i), FLAGS) * q.b, q.most)
#else
#define DRAWN at_most_f64(q.a + uniform_f64(words(&b, &q, i)) * q.b, q.most)
#endif
#elif OP == 1
DEVICE T normal(block *b, const parameters *q, I64 i) {
  T first, second;
#if FLAGS
  const I64 even = i & ~(I64)1;
  normal_pair_f32(normal_unit_f32(word(b, q, even)), word(b, q, even + 1) >> 30, normal_angle_f32(word(b, q, even + 1)),
                  &first, &second);
#else
  const I64 even = i & ~(I64)1;
  const U64 turn = words(b, q, even + 1);
  normal_pair_f64(normal_unit_f64(words(b, q, even)), (U32)(turn >> 62), normal_angle_f64(turn), &first, &second);
#endif
  return q->a + (i & 1 ? second : first) * q->b;
}
#define DRAWN normal(&b, &q, i)
#elif OP == 2
#if FLAGS
#define DRAWN uniform_f32(word(&b, &q, i), 24) < CHANCE
#else
#define DRAWN uniform_f64(words(&b, &q, i)) < CHANCE
#endif
#elif OP == 3
#define DRAWN (I64)((U64)q.low + below(words(&b, &q, i), (U64)q.range))
#elif OP == 4
#define DRAWN (I64) words(&b, &q, i)
#else
DEVICE I64 permuted(const drawn_order s, U64 i, U64 n) {
  do { i = shuffled_once(s, i); } while (i >= n);
  return (I64)i;
}
#define DRAWN permuted(s, (U64)i, (U64)q.numel)
#endif

#ifdef D1
#define CHANCE LOAD(D1, chance[walk_at(&w, 1, i)])
#else
#define CHANCE q.a
#endif

FLAT run(GLOBAL MEMORY(D0) *y
#ifdef D1
         ,
         GLOBAL const MEMORY(D1) *chance
#endif
         ,
         const parameters q
#ifdef D1
         ,
         CONST_PARAM walk w, GLOBAL fault *found
#endif
) {
#if OP == 5
  const drawn_order s = drawn_order_of((U64)q.numel, q.offset, q.seed);
#else
  block b = { ~(U64)0, 0, 0, 0, 0 };
#endif
  FOR_EACH(i, q.numel) {
#ifdef D1
    const T chance_i = CHANCE;
    if (!(chance_i >= 0 && chance_i <= 1) && FIRST_TO_RAISE(&found->raised)) found->verb = FAULT_CHANCE, found->at = i;
#endif
    const T value = DRAWN;
    y[q.at + i] = STORE(D0, value);
  }
}
