/* Tables of weights in T, by the formulas that all devices share: included by resample.c with T and TNAME.
   SPDX-License-Identifier: MIT */
#include "kernels/resample.h"

static bool FN(forward)(const resamples *r, T scale, situ__bands *b) {
  if (!open_places(b, r->out)) return false;
  for (int64_t o = 0; o < r->out; o++) {
    const FN(band) at = FN(band_of)(r, scale, o);
    b->first[o] = at.first;
    b->count[o] = situ__max_i64(at.count, 0);
  }
  if (!open_weights(b, sizeof(T))) return false;
  for (int64_t o = 0; o < r->out; o++) {
    const FN(band) at = FN(band_of)(r, scale, o);
    for (int64_t k = 0; k < at.count; k++) ((T *)b->weight)[b->start[o] + k] = FN(weight_of)(r, &at, k);
  }
  return true;
}

/* Bands begin and end in rising places, so those that contain a place are adjacent. */
static bool FN(transpose)(const situ__bands *of, int64_t size, situ__bands *b) {
  if (!open_places(b, size)) return false;
  for (int64_t o = 0; o < of->places; o++)
    for (int64_t i = of->first[o]; i < of->first[o] + of->count[o]; i++) {
      if (b->count[i] == 0) b->first[i] = o;
      b->count[i] = o - b->first[i] + 1;
    }
  if (!open_weights(b, sizeof(T))) return false;
  for (int64_t o = 0; o < of->places; o++)
    for (int64_t k = 0; k < of->count[o]; k++) {
      const int64_t i = of->first[o] + k;
      ((T *)b->weight)[b->start[i] + o - b->first[i]] = ((const T *)of->weight)[of->start[o] + k];
    }
  return true;
}

/* Makes the table, which the caller closes. Returns false when out of memory. */
static bool FN(make)(const resamples *r, double scale, bool transposed, situ__bands *b) {
  situ__bands forward, *first = transposed ? &forward : b;
  bool made = FN(forward)(r, (T)scale, first);
  if (made && transposed) {
    made = FN(transpose)(&forward, r->size, b);
    close_bands(&forward);
    first = b;
  }
  if (!made) close_bands(first);
  return made;
}
