/* Functions of three tensors.
   SPDX-License-Identifier: MIT */
#include "elementwise.h"

situ_status situ__cpu_ternary(int index, const situ_work *work) {
  (void)index;
  situ__compute compute = situ__cpu_compute(work->compute);
  situ__row row = SITU__ISA_PICK(situ__cpu_isa(), situ__ternary_rows)->row[compute][work->op];
  if (!row) return SITU_E_UNSUPPORTED;
  uint8_t native = situ__cpu_native(work->compute);
  return situ__cpu_elementwise(
      &(situ__row_call){ row, .type = compute, .compute = (uint8_t)work->compute, .ins = 3,
                         .native = { native, work->op == SITU_TERNARY_WHERE ? SITU_BOOL : native, native, native },
                         .view = { work->out[0], work->in[0], work->in[1], work->in[2] }, .p = work->scalar });
}
