/* y = one value, any strides. D0 is a whole dtype of the element's size.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

FLAT run(GLOBAL MEMORY(D0) *y, GIVEN walk w, const I64 bits) {
  FOR_EACH(i, w.numel) {
#if FLAGS & FLAG_STRIDED
    GLOBAL MEMORY(D0) *at = y + walk_at(&w, 0, i);
#else
    GLOBAL MEMORY(D0) *at = y + w.offset[0] + i;
#endif
    *at = (MEMORY(D0))bits;
  }
}
