/* arange and linspace. T is double where the device supports it, and I64 for integers.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

typedef struct parameters {
  T start, step, end;
  I64 numel, offset;
} parameters;

/* linspace (OP 1) counts from the nearer end, so that both ends are exact. */
GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, const parameters q) {
  const I64 i = ITEM, last = q.numel - 1;
  if (i > last) return;
#if FLOATING
  const I64 middle = OP == 1 ? (last + 1) / 2 : last + 1;
  const T value = i < middle || last == 0 ? q.start + (T)i * q.step : q.end - (T)(last - i) * q.step;
#else
  const T value = (T)((U64)q.start + (U64)i * (U64)q.step);
#endif
  y[q.offset + i] = STORE(D0, value);
}
