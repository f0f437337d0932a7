/* A line resampled to another size, and (OP 1) the transpose: each place of the operand gathers from the places of the
   result that it is part of. D0 is the dtype of both.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/resample.h"

typedef struct parameters {
  T p[4]; /* scale */
} parameters;

#define SIZE_TO (OP ? r.size : r.out)
#define SIZE_FROM (OP ? r.out : r.size)

FLAT run(GLOBAL MEMORY(D0) *y, GLOBAL const MEMORY(D0) *x, CONST_PARAM resamples r, const parameters q) {
  const T scale = q.p[0];
  FOR_EACH(i, r.outer * SIZE_TO * r.inner) {
    const I64 to = i / r.inner % SIZE_TO, from = r.x + i / r.inner / SIZE_TO * SIZE_FROM * r.inner + i % r.inner;
    T sum = 0;
#if OP == 0
    const FN(band) b = FN(band_of)(&r, scale, to);
    for (I64 k = 0; k < b.count; k++) sum += FN(weight_of)(&r, &b, k) * LOAD(D0, x[from + (b.first + k) * r.inner]);
#else
    I64 o, last;
    FN(bands_with)(&r, scale, to, &o, &last);
    for (; o < last; o++) {
      const FN(band) b = FN(band_of)(&r, scale, o);
      if (to >= b.first && to < b.first + b.count)
        sum += FN(weight_of)(&r, &b, to - b.first) * LOAD(D0, x[from + o * r.inner]);
    }
#endif
    y[r.y + i] = STORE(D0, sum);
  }
}
