/* Element i of draw (seed, offset): the cpu's bits. OP is a situ_random; T is I64 for whole numbers.
   SPDX-License-Identifier: MIT

   FLAGS: digits of a uniform number in the result's dtype; 0 for f64, whose numbers take two words. */
#include "kernels/element.h"
#include "kernels/random.h"
#if FLOATING
#include "kernels/normal.h"
#endif

enum { UNIFORM, NORMAL, BERNOULLI, INTEGER, RAW };
typedef struct parameters {
  U64 seed, offset;
  I64 numel, at, low, range;
  T a, b;
} parameters;

DEVICE U32 word(const parameters *q, I64 i) {
  U32 w0, w1, w2, w3;
  philox((U64)i >> 2, q->offset, q->seed, &w0, &w1, &w2, &w3);
  return i & 2 ? (i & 1 ? w3 : w2) : (i & 1 ? w1 : w0);
}
DEVICE U64 words(const parameters *q, I64 i) {
  U32 w0, w1, w2, w3;
  philox((U64)i >> 1, q->offset, q->seed, &w0, &w1, &w2, &w3);
  return i & 1 ? (U64)w3 << 32 | w2 : (U64)w1 << 32 | w0;
}

#if OP == 0
#if FLAGS
#define VALUE q.a + uniform_f32(word(&q, i), FLAGS) * q.b
#else
#define VALUE q.a + uniform_f64(words(&q, i)) * q.b
#endif
#elif OP == 1
DEVICE T normal(const parameters *q, I64 i) {
  T first, second;
#if FLAGS
  const I64 even = i & ~(I64)1;
  normal_pair_f32(normal_unit_f32(word(q, even)), word(q, even + 1) >> 30, normal_angle_f32(word(q, even + 1)), &first, &second);
#else
  const I64 even = i & ~(I64)1;
  const U64 turn = words(q, even + 1);
  normal_pair_f64(normal_unit_f64(words(q, even)), (U32)(turn >> 62), normal_angle_f64(turn), &first, &second);
#endif
  return q->a + (i & 1 ? second : first) * q->b;
}
#define VALUE normal(&q, i)
#elif OP == 2
#if FLAGS
#define VALUE uniform_f32(word(&q, i), 24) < CHANCE
#else
#define VALUE uniform_f64(words(&q, i)) < CHANCE
#endif
#elif OP == 3
#define VALUE (I64)((U64)q.low + below(words(&q, i), (U64)q.range))
#else
#define VALUE (I64)words(&q, i)
#endif

#ifdef D1
#define CHANCE LOAD(D1, chance[walk_at(&w, 1, i)])
#else
#define CHANCE q.a
#endif

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y
#ifdef D1
                  , GLOBAL const MEMORY(D1) *chance
#endif
                  , const parameters q
#ifdef D1
                  , GIVEN walk w
#endif
                  ) {
  const I64 i = ITEM;
  if (i >= q.numel) return;
  const T value = VALUE;
  y[q.at + i] = STORE(D0, value);
}
