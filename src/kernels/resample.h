/* Which places of a line a place of the resampled line is made of, and with which weights, for the floating type T.
   Included once for each T. PyTorch's formulas (aten/src/ATen/native/UpSample.h and cpu/UpSampleKernel.cpp), in T as
   there; the cubic kernel is R. Keys, "Cubic convolution interpolation for digital image processing", 1981.
   SPDX-License-Identifier: MIT */

typedef struct FN(band) {
  I64 first, count; /* the operand's places */
  I64 place;        /* CUBIC: the place at or before `at` */
  T at;             /* where in the operand the place is; LINEAR, CUBIC: the fraction of a place */
  T reach;          /* antialiased: the operand's places for which the kernel is one unit wide */
  T total;          /* AREA, antialiased: what weights are divided by */
} FN(band);

DEVICE I64 FN(floor_of)(T x) {
  const I64 integer = (I64)x;
  return (T)integer > x ? integer - 1 : integer;
}

DEVICE T FN(keys)(T x, T a) {
  x = x < 0 ? -x : x;
  return x < 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* The place of the operand that is `at` or next to it, as torch rounds it: in f32 for all dtypes. */
DEVICE I64 FN(nearest)(T at, I64 size) {
  const I64 place = (I64)(float)at;
  return place < size ? place : size - 1;
}

/* The weight of the band's place k. */
DEVICE T FN(weight_of)(const resamples *r, const FN(band) * b, I64 k) {
  if (r->rule == RESAMPLE_LINEAR) return b->count == 1 ? 1 : k ? b->at : 1 - b->at;
  if (r->rule == RESAMPLE_CUBIC) { /* places outside the operand are its first and last ones */
    T sum = 0;
    for (I64 j = -1; j <= 2; j++) {
      const I64 place = b->place + j < 0 ? 0 : b->place + j < r->size ? b->place + j : r->size - 1;
      if (place == b->first + k) sum += FN(keys)(b->at - (T)j, (T)-0.75);
    }
    return sum;
  }
  if (r->rule < RESAMPLE_LINEAR_WIDE) return 1;
  if (r->rule == RESAMPLE_AREA) return 1 / b->total;
  T x = ((T)(b->first + k) - b->at + (T)0.5) / b->reach;
  x = x < 0 ? -x : x;
  return (r->rule == RESAMPLE_CUBIC_WIDE ? FN(keys)(x, (T)-0.5) : x < 1 ? 1 - x : 0) / b->total;
}

DEVICE FN(band) FN(wide_band)(const resamples *r, T scale, I64 o) {
  FN(band) b;
  b.reach = scale > 1 ? scale : 1;
  b.at = scale * ((T)o + (T)0.5);
  b.total = 1;
  b.place = 0;
  const T side = r->rule == RESAMPLE_CUBIC_WIDE ? 2 * b.reach : b.reach;
  const I64 end = (I64)(b.at + side + (T)0.5);
  b.first = (I64)(b.at - side + (T)0.5);
  b.first = b.first < 0 ? 0 : b.first < r->size ? b.first : r->size - 1;
  b.count = (end < r->size ? end : r->size) - b.first;
  T total = 0;
  for (I64 k = 0; k < b.count; k++) total += FN(weight_of)(r, &b, k);
  b.total = total != 0 ? total : 1;
  return b;
}

/* The places of the operand that place o of the result is made of. */
DEVICE FN(band) FN(band_of)(const resamples *r, T scale, I64 o) {
  FN(band) b;
  if (r->rule == RESAMPLE_LINEAR_WIDE || r->rule == RESAMPLE_CUBIC_WIDE) return FN(wide_band)(r, scale, o);
  b.first = o, b.count = 1, b.place = 0, b.at = 0, b.reach = 1, b.total = 1;
  if (r->rule == RESAMPLE_AREA) {
    b.first = o * r->size / r->out;
    b.count = ((o + 1) * r->size + r->out - 1) / r->out - b.first;
    b.total = (T)b.count;
    return b;
  }
  T at = r->align || r->rule == RESAMPLE_NEAREST ? scale * (T)o : scale * ((T)o + (T)0.5) - (T)0.5;
  if (r->rule != RESAMPLE_CUBIC && at < 0) at = 0;
  if (r->rule == RESAMPLE_NEAREST || r->rule == RESAMPLE_NEAREST_EXACT) {
    b.first = FN(nearest)(r->rule == RESAMPLE_NEAREST ? at : at + (T)0.5, r->size);
    return b;
  }
  if (r->rule == RESAMPLE_LINEAR && r->out == r->size) return b;
  b.place = FN(floor_of)(at);
  if (b.place > r->size - 1) b.place = r->size - 1;
  b.at = at - (T)b.place;
  b.at = b.at < 0 ? 0 : b.at > 1 ? 1 : b.at;
  const I64 before = r->rule == RESAMPLE_CUBIC, last = b.place + (before ? 2 : 1);
  b.first = b.place - before < 0 ? 0 : b.place - before;
  b.count = (last < r->size ? last : r->size - 1) - b.first + 1;
  return b;
}

/* Places [*first, *last) of the result, among which are all whose band has place i of the operand. */
DEVICE void FN(bands_with)(const resamples *r, T scale, I64 i, I64 *first, I64 *last) {
  *first = 0, *last = r->out;
  if (r->rule == RESAMPLE_AREA) {
    *first = i * r->out / r->size;
    *last = ((i + 1) * r->out - 1) / r->size + 1;
  } else if (scale > 0) {
    const T side = (scale > 1 ? 2 * scale : 2) + (T)1.5;
    /* Rounding of `at` is that of r->out places at most: 2^-20 of them, and two more. */
    const I64 slack = 2 + (r->out >> 20), low = FN(floor_of)(((T)i - side) / scale) - slack,
              high = FN(floor_of)(((T)i + side) / scale) + slack + 2;
    if (i > 0 && low > 0) *first = low;
    if (i < r->size - 1 && high < r->out) *last = high;
  }
}
