/* Softmax, log-softmax, and their gradients.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_softmax(int index, const situ_work *work) {
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1] };
  int operands = work->op >= SITU_SOFTMAX_GRAD ? 3 : 2;
  lines w = situ__lower_lines(view[0], work->integer[0], operands, view);
  w.masked = work->integer[1] != 0;
  if (situ__lower_compute_of((situ_dtype)view[0]->dtype) == SITU__COMPUTE_I64) return SITU_E_UNSUPPORTED;
  situ__call call = { .variant = { SITU__TEXT_softmax, .op = (uint8_t)work->op,
                                   .compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)view[0]->dtype) },
                      .op = "softmax" };
  for (int k = 0; k < operands; k++) {
    call.variant.dtype[k] = view[k]->dtype;
    situ__lower_buffer(&call, view[k]);
  }
  situ__lower_block(&call, &w, sizeof w);
  const situ__target *target = situ__targets->of(index);
  row_layout layout;
  if (w.inner == 1 && w.size > ROW_FEW && situ__lower_rows(index, &call, w.size, &layout, operands, operands, view)) {
    situ__lower_block(&call, &layout, sizeof layout);
    return situ__lower_run_rows(index, &call, w.outer);
  }
  if (w.inner == 1 && target->cpu) call.variant.flags |= FLAG_DENSE;
  return situ__lower_run_lines(index, &call, w.outer * w.inner, w.size, false);
}
