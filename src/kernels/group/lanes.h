/* A line of elements, shared by the threads of a work-group, or processed by one work-item (FLAG_SERIAL). On a CPU each
   thread has adjacent elements, on a GPU threads stride by GROUP_SIZE. The order of summation depends on the problem
   alone.
   SPDX-License-Identifier: MIT */
#define PLUS(a, b) ((a) + (b))
#define GREATER(a, b) ((b) > (a) ? (b) : (a)) /* ignores NaN; for sums, which propagate it themselves */
#if FLAGS & FLAG_SERIAL
#define LINE ITEM
#define SHARED_SCRATCH
#define FIRST_OF(count) 0
#define END_OF(count) (count)
#define ALLREDUCE(op, x) (x)
#define IS_FIRST 1
#define OUTSIDE(line, count) ((line) >= (count))
#else
#define LINE GROUP
#define SHARED_SCRATCH LOCAL T scratch[GROUP_SIZE]
#define SHARE(count) (((count) + GROUP_SIZE - 1) / GROUP_SIZE)
#define FIRST_OF(count) (LANE * SHARE(count))
#define END_OF(count) (FIRST_OF(count) + SHARE(count) < (count) ? FIRST_OF(count) + SHARE(count) : (count))
#define ALLREDUCE(op, x) allreduce_##op(x, scratch)
#define IS_FIRST (LANE == 0)
#define OUTSIDE(line, count) 0 /* there are as many work-groups as lines */

/* Tree reduction over all threads of the work-group; every thread gets the result. */
#define TREE(name, together)                                  \
  DEVICE T allreduce_##name(T x, SHARED T *scratch) {         \
    scratch[LANE] = x;                                        \
    SYNC;                                                     \
    for (int apart = GROUP_SIZE / 2; apart > 0; apart /= 2) { \
      if (LANE < apart) {                                     \
        const T a = scratch[LANE], b = scratch[LANE + apart]; \
        scratch[LANE] = together;                             \
      }                                                       \
      SYNC;                                                   \
    }                                                         \
    const T all = scratch[0];                                 \
    SYNC;                                                     \
    return all;                                               \
  }
TREE(sum, a + b)
TREE(product, (a * b))
#if FLOATING
TREE(larger, FN(larger)(a, b))
TREE(smaller, FN(smaller)(a, b))
#else
TREE(larger, a > b ? a : b)
TREE(smaller, a < b ? a : b)
#endif
#endif

#if ON_CPU || FLAGS & FLAG_SERIAL
#define EACH(j, count) for (I64 j = FIRST_OF(count), end_##j = END_OF(count); j < end_##j; j++)
#else
#define EACH(j, count) for (I64 j = LANE; j < (count); j += GROUP_SIZE)
#endif
/* The thread's reduction of an expression of j; `result` starts as the identity. Partial results keep a long sum
   accurate: a CPU that has a whole line keeps SIDES of them, which the compiler vectorises. */
#if ON_CPU && FLAGS & FLAG_SERIAL
enum { SIDES = 32 };
#define FOLD_EACH(result, take, j, count, value)                         \
  {                                                                      \
    T side[SIDES];                                                       \
    for (int l = 0; l < SIDES; l++) side[l] = result;                    \
    I64 at_##j = FIRST_OF(count);                                        \
    const I64 end_##j = END_OF(count);                                   \
    for (; at_##j + SIDES <= end_##j; at_##j += SIDES)                   \
      for (int l = 0; l < SIDES; l++) {                                  \
        const I64 j = at_##j + l;                                        \
        side[l] = take(side[l], value);                                  \
      }                                                                  \
    for (I64 j = at_##j; j < end_##j; j++) result = take(result, value); \
    for (int l = 0; l < SIDES; l++) result = take(result, side[l]);      \
  }
#elif ON_CPU || FLAGS & FLAG_SERIAL
#define FOLD_EACH(result, take, j, count, value) \
  {                                              \
    const T none = result;                       \
    T run = none;                                \
    int length = 0;                              \
    EACH(j, count) {                             \
      run = take(run, value);                    \
      if (++length == 64) {                      \
        result = take(result, run);              \
        run = none;                              \
        length = 0;                              \
      }                                          \
    }                                            \
    result = take(result, run);                  \
  }
#else
/* The same sums; a GPU's thread loads AHEAD elements before it waits for the first. */
enum { AHEAD = 8 };
#define FOLD_EACH(result, take, j, count, value)                                        \
  {                                                                                     \
    const T none = result;                                                              \
    T run = none;                                                                       \
    int length = 0;                                                                     \
    I64 at_##j = LANE;                                                                  \
    for (; at_##j + (AHEAD - 1) * GROUP_SIZE < (count); at_##j += AHEAD * GROUP_SIZE) { \
      T next[AHEAD];                                                                    \
      UNROLL for (int l = 0; l < AHEAD; l++) {                                          \
        const I64 j = at_##j + l * GROUP_SIZE;                                          \
        next[l] = value;                                                                \
      }                                                                                 \
      UNROLL for (int l = 0; l < AHEAD; l++) run = take(run, next[l]);                  \
      if ((length += AHEAD) == 64) {                                                    \
        result = take(result, run);                                                     \
        run = none;                                                                     \
        length = 0;                                                                     \
      }                                                                                 \
    }                                                                                   \
    for (I64 j = at_##j; j < (count); j += GROUP_SIZE) run = take(run, value);          \
    result = take(result, run);                                                         \
  }
#endif
