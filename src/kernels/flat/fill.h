/* y = one value, any strides. D0 is a whole dtype of the element's size.
   SPDX-License-Identifier: MIT */
#include "kernels/element.h"

GROUPS KERNEL run(GLOBAL MEMORY(D0) *y, const walk w, const I64 bits) {
  const I64 i = ITEM;
  if (i >= w.numel) return;
#if FLAGS & FLAG_STRIDED
  GLOBAL MEMORY(D0) *at = y + walk_at(&w, 0, i);
#else
  GLOBAL MEMORY(D0) *at = y + w.offset[0] + i;
#endif
  *at = (MEMORY(D0))bits;
}
