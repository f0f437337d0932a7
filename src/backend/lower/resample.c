/* Lines resampled to another size.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_resample(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0], *x = work->in[0], *view[] = { y, x };
  const lines l = situ__lower_lines(x, work->integer[0], 2, view);
  const int64_t other = y->size[work->integer[0]];
  const resamples r = { .outer = l.outer,
                        .size = work->op ? other : l.size,
                        .out = work->op ? l.size : other,
                        .inner = l.inner,
                        .rule = work->integer[1],
                        .align = work->integer[2],
                        .y = l.offset[0],
                        .x = l.offset[1] };
  situ__call call = { .variant = { SITU__TEXT_resample, .op = (uint8_t)work->op, .compute = y->dtype,
                                   .dtype = { y->dtype } },
                      .op = "resample" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  situ__lower_block(&call, &r, sizeof r);
  situ__lower_scalars(&call, work->scalar);
  return situ__lower_run_flat(index, &call, y->numel, 4);
}
