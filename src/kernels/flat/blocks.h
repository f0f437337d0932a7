/* Values of quantised blocks; NAME is their type, one work-item computes one number.
   SPDX-License-Identifier: MIT */
#include "kernels/blocks.h"
#include "kernels/element.h"

#define OF_TYPE(name) PASTE(NAME, name)

GROUPS KERNEL run(GLOBAL float *y, GLOBAL const unsigned char *x, CONST_PARAM block_rows q) {
  const I64 i = ITEM;
  if (i >= q.numel) return;
  BLOCK_BYTES b = x + q.x + i / q.elements * q.bytes;
  const int at = (int)(i % q.elements), g = at / OF_TYPE(LENGTH), k = at % OF_TYPE(LENGTH);
  y[q.y + i] = OF_TYPE(scale)(b, g) * (float)OF_TYPE(integer)(b, g, k) - OF_TYPE(minimum)(b, g);
}
