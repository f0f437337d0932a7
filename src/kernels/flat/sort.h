/* Merge sort of indices: OP 0 writes each line's indices 0, 1, ..., 1 merges sorted runs of `run` elements into runs of
   twice the length, 2 writes the first k. The sort is stable; NaN is greater than all numbers.
   SPDX-License-Identifier: MIT

   D1 is x; FLAG_SERIAL: descending. Indices are laid out as [line, size]. */
#include "kernels/element.h"

typedef struct sorts {
  I64 outer, size, inner, k, run, x, values, indices;
} sorts;

#define AT(place) (line / s.inner * s.size * s.inner + s.inner * (place) + line % s.inner)

#if OP == 0
GROUPS KERNEL run(GLOBAL I64 *to, const sorts s) {
  const I64 i = ITEM;
  if (i < s.outer * s.inner * s.size) to[i] = i % s.size;
}
#elif OP == 1
/* True if a sorts before b; false for equal values. */
DEVICE bool before(T a, T b) {
#if FLAGS & FLAG_SERIAL
  return a > b || (a != a && b == b);
#else
  return a < b || (b != b && a == a);
#endif
}

/* New position: its position in its run plus the number of elements of the other run that come before it. */
GROUPS KERNEL run(GLOBAL const I64 *from, GLOBAL I64 *to, GLOBAL const MEMORY(D1) *x, const sorts s) {
  const I64 i = ITEM;
  if (i >= s.outer * s.inner * s.size) return;
  const I64 line = i / s.size, own = i % s.size, start = own / (2 * s.run) * (2 * s.run);
  GLOBAL const I64 *places = from + line * s.size;
  GLOBAL const MEMORY(D1) *values = x + s.x;
  const bool left = own < start + s.run;
  const T v = LOAD(D1, values[AT(places[own])]);
  I64 low = left ? start + s.run : start, high = left ? start + 2 * s.run : start + s.run;
  if (low > s.size) low = s.size;
  if (high > s.size) high = s.size;
  const I64 first = low;
  while (low < high) {
    const I64 middle = (low + high) / 2;
    const T other = LOAD(D1, values[AT(places[middle])]);
    if (left ? before(other, v) : !before(v, other)) low = middle + 1;
    else high = middle;
  }
  const I64 mine = left ? own - start : own - start - s.run;
  to[line * s.size + start + mine + (low - first)] = places[own];
}
#else
GROUPS KERNEL run(GLOBAL const I64 *places, GLOBAL MEMORY(D0) *values, GLOBAL I64 *indices, GLOBAL const MEMORY(D0) *x,
                  const sorts s) {
  const I64 i = ITEM;
  if (i >= s.outer * s.inner * s.k) return;
  const I64 line = i / s.k, j = i % s.k, place = places[line * s.size + j];
  const I64 at = line / s.inner * s.k * s.inner + j * s.inner + line % s.inner;
#if FLAGS & FLAG_EACH
  values[s.values + at] = x[s.x + AT(place)];
#endif
#if FLAGS & FLAG_STATISTICS
  indices[s.indices + at] = place;
#endif
}
#endif
