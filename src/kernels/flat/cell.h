/* One step of a recurrent layer: OP is a situ_cell_pass, D0 the dtype of all operands. Results come first.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#include "kernels/floats.h"
#include "kernels/cell.h"

/* Element `unit` of part s of `parts` in the row of operand k. */
#define AT(p, k, parts, s) p[w.offset[k] + (row * (parts) + (s)) * w.hidden + unit]
#define GET(p, k, parts, s) LOAD(D0, AT(p, k, parts, s))
#define PUT(p, k, parts, s, v) AT(p, k, parts, s) = STORE(D0, v)

#if OP == 0
FLAT run(GLOBAL MEMORY(D0) *after, GLOBAL MEMORY(D0) *c_new, GLOBAL MEMORY(D0) *h, GLOBAL const MEMORY(D0) *gates,
         GLOBAL const MEMORY(D0) *hidden, GLOBAL const MEMORY(D0) *c, const cells w) {
  FOR_EACH(element, w.count) {
    const I64 row = element / w.hidden, unit = element - row * w.hidden;
    T v[4], state = GET(c, 5, 1, 0);
    UNROLL for (int s = 0; s < 4; s++) v[s] = GET(gates, 3, 4, s) + GET(hidden, 4, 4, s);
    const T value = FN(lstm)(&v[0], &v[1], &v[2], &v[3], &state);
    UNROLL for (int s = 0; s < 4; s++) PUT(after, 0, 4, s, v[s]);
    PUT(c_new, 1, 1, 0, state);
    PUT(h, 2, 1, 0, value);
  }
}
#elif OP == 1
FLAT run(GLOBAL MEMORY(D0) *dgates, GLOBAL MEMORY(D0) *dc, GLOBAL const MEMORY(D0) *after, GLOBAL const MEMORY(D0) *c,
         GLOBAL const MEMORY(D0) *c_new, GLOBAL const MEMORY(D0) *dh, GLOBAL const MEMORY(D0) *dc_new, const cells w) {
  FOR_EACH(element, w.count) {
    const I64 row = element / w.hidden, unit = element - row * w.hidden;
    T v[4];
    UNROLL for (int s = 0; s < 4; s++) v[s] = GET(after, 2, 4, s);
    const T state = FN(lstm_grad)(&v[0], &v[1], &v[2], &v[3], GET(c, 3, 1, 0), GET(c_new, 4, 1, 0), GET(dh, 5, 1, 0),
                                  GET(dc_new, 6, 1, 0));
    UNROLL for (int s = 0; s < 4; s++) PUT(dgates, 0, 4, s, v[s]);
    PUT(dc, 1, 1, 0, state);
  }
}
#elif OP == 2
FLAT run(GLOBAL MEMORY(D0) *kept, GLOBAL MEMORY(D0) *h_new, GLOBAL const MEMORY(D0) *gates,
         GLOBAL const MEMORY(D0) *hidden, GLOBAL const MEMORY(D0) *h, const cells w) {
  FOR_EACH(element, w.count) {
    const I64 row = element / w.hidden, unit = element - row * w.hidden;
    T v[4];
    UNROLL for (int s = 0; s < 3; s++) v[s] = GET(gates, 2, 3, s);
    v[3] = GET(hidden, 3, 3, 2);
    const T value = FN(gru)(&v[0], &v[1], &v[2], GET(hidden, 3, 3, 0), GET(hidden, 3, 3, 1), v[3], GET(h, 4, 1, 0));
    UNROLL for (int s = 0; s < 4; s++) PUT(kept, 0, 4, s, v[s]);
    PUT(h_new, 1, 1, 0, value);
  }
}
#else
FLAT run(GLOBAL MEMORY(D0) *dgates, GLOBAL MEMORY(D0) *dhidden, GLOBAL MEMORY(D0) *carried,
         GLOBAL const MEMORY(D0) *kept, GLOBAL const MEMORY(D0) *h, GLOBAL const MEMORY(D0) *dh,
         GLOBAL const MEMORY(D0) *dy, const cells w) {
  FOR_EACH(element, w.count) {
    const I64 row = element / w.hidden, unit = element - row * w.hidden;
    T v[4];
    UNROLL for (int s = 0; s < 4; s++) v[s] = GET(kept, 3, 4, s);
    const T up = GET(dh, 5, 1, 0) + GET(dy, 6, 1, 0),
            state = FN(gru_grad)(&v[0], &v[1], &v[2], &v[3], GET(h, 4, 1, 0), up);
    UNROLL for (int s = 0; s < 3; s++) PUT(dgates, 0, 3, s, v[s]);
    UNROLL for (int s = 0; s < 3; s++) PUT(dhidden, 1, 3, s, s == 2 ? v[3] : v[s]);
    PUT(carried, 2, 1, 0, state);
  }
}
#endif
