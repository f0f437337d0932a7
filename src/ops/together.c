/* The check for functions that are made of other ops: else the first of those would find the mistake, and tell of operands
   that the caller has never seen, or a shape would be complained about before the device.
   SPDX-License-Identifier: MIT */
#include "ops/ops.h"

bool situ__together(const situ_op *schema, situ_tensor *const *in, int ins) {
  situ_call c = { .op = schema, .ins = ins, .in = in };
  return situ__check(&c);
}
