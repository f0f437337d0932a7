/* y = one value, any strides. D0 is the integer dtype of the element's size.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"
#if ON_CPU
FLAT run(GLOBAL MEMORY(D0) *y, CONST_PARAM walk w, const I64 bits) {
  FOR_EACH(i, w.numel) {
#if FLAGS & FLAG_STRIDED
    GLOBAL MEMORY(D0) *at = y + walk_at(&w, 0, i);
#else
    GLOBAL MEMORY(D0) *at = y + w.offset[0] + i;
#endif
    *at = (MEMORY(D0))bits;
  }
}
#else
#include "kernels/flat/pack.h"
FLAT run(GLOBAL MEMORY(D0) *y, CONST_PARAM walk w, const I64 bits, CONST_PARAM packs s) {
  pack_0 all;
  UNROLL for (int e = 0; e < PACK; e++) all.v[e] = (MEMORY(D0))bits;
  UNROLL for (int p = 0; p < PACKS; p++) {
    spot here;
    find_spot(&w, &s, PACK_OF_ITEM(p), &here);
    WRITE_PACK(y, here, all)
  }
}
#endif
