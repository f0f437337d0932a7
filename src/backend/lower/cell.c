/* Recurrent cells.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_cell(int index, const situ_work *work) {
  const situ_view_desc *h = work->out[work->outs - 1];
  if (situ__lower_compute_of((situ_dtype)h->dtype) == SITU__COMPUTE_I64) return SITU_E_UNSUPPORTED;
  cells w = { .count = h->numel, .hidden = h->size[1] };
  situ__call call = { .variant = { SITU__TEXT_cell, .op = (uint8_t)work->op,
                                   .compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)h->dtype),
                                   .dtype = { h->dtype } },
                      .op = "cell" };
  for (int k = 0; k < work->outs + work->ins; k++) {
    const situ_view_desc *view = k < work->outs ? work->out[k] : work->in[k - work->outs];
    w.offset[k] = view->offset;
    situ__lower_buffer(&call, view);
  }
  situ__lower_block(&call, &w, sizeof w);
  return situ__lower_run_flat(index, &call, w.count, 1);
}
