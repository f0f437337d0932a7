/* A line of elements, shared by the lanes of a group or (FLAG_SERIAL) one work-item's own. On a processor a lane takes
   elements that lie beside each other, on a gpu lanes take turns. Sums are in an order that the problem alone decides.
   SPDX-License-Identifier: MIT */
#if FLAGS & FLAG_SERIAL
#define LINE ITEM
#define ROOM
#define EACH(j, count) for (I64 j = 0; j < (count); j++)
#define ALL(op, x) (x)
#define IS_FIRST 1
#define OUTSIDE(line, count) ((line) >= (count))
#else
#define LINE GROUP
#define ROOM LOCAL T room[GROUP_SIZE];
#if ON_CPU
#define EACH(j, count)                                                   \
  for (I64 share_##j = ((count) + GROUP_SIZE - 1) / GROUP_SIZE, j = LANE * share_##j, \
           end_##j = j + share_##j < (count) ? j + share_##j : (count);  \
       j < end_##j; j++)
#else
#define EACH(j, count) for (I64 j = LANE; j < (count); j += GROUP_SIZE)
#endif
#define ALL(op, x) all_##op(x, room)
#define IS_FIRST (LANE == 0)
#define OUTSIDE(line, count) 0 /* there are as many groups as lines */

/* What every lane has, as a tree; every lane gets the result. */
#define TREE(name, together)                                    \
  DEVICE T all_##name(T x, LOCAL T *room) {                     \
    room[LANE] = x;                                             \
    SYNC;                                                       \
    for (int apart = GROUP_SIZE / 2; apart > 0; apart /= 2) {      \
      if (LANE < apart) {                                        \
        const T a = room[LANE], b = room[LANE + apart];          \
        room[LANE] = together;                                  \
      }                                                         \
      SYNC;                                                     \
    }                                                           \
    const T all = room[0];                                      \
    SYNC;                                                       \
    return all;                                                 \
  }
TREE(sum, a + b)
TREE(product, a * b)
#if FLOATING
TREE(larger, FN(larger)(a, b))
TREE(smaller, FN(smaller)(a, b))
#else
TREE(larger, a > b ? a : b)
TREE(smaller, a < b ? a : b)
#endif
#endif
