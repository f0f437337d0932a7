/* Pooling: windows that move over planes.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

windows situ__lower_windows(const situ_window *w, const situ_view_desc *large, const situ_view_desc *small) {
  windows c = { .groups = w->groups,
                .height = large->size[2],
                .width = large->size[3],
                .out_height = small->size[2],
                .out_width = small->size[3],
                .exclude_pad = w->exclude_pad,
                .divisor = w->divisor,
                .x = large->offset,
                .y = small->offset };
  for (int k = 0; k < 2; k++) {
    c.window[k] = w->kernel[k], c.stride[k] = w->stride[k];
    c.padding[k] = w->padding[k], c.dilation[k] = w->dilation[k] ? w->dilation[k] : 1;
  }
  return c;
}

situ_status situ__lower_pool(int index, const situ_work *work) {
  bool back =
      work->op == SITU_POOL_MAX_GRAD || work->op == SITU_POOL_AVG_GRAD || work->op == SITU_POOL_ADAPTIVE_AVG_GRAD;
  const situ_view_desc *large = back ? work->out[0] : work->in[0], *small = back ? work->in[0] : work->out[0];
  const situ_view_desc *where = work->op == SITU_POOL_MAX        ? (work->outs > 1 ? work->out[1] : NULL)
                                : work->op == SITU_POOL_MAX_GRAD ? work->in[1]
                                                                 : NULL;
  situ_dtype compute = situ__lower_compute_dtype((situ_dtype)large->dtype);
  if (compute == SITU_I64 && work->op >= SITU_POOL_ADAPTIVE_AVG) return SITU_E_UNSUPPORTED;
  const situ_window none = { .kernel = { 1, 1 }, .stride = { 1, 1 }, .groups = 1 };
  windows c = situ__lower_windows(work->window ? work->window : &none, large, small);
  c.images = large->size[0] * large->size[1];
  c.w = situ__lower_offset(where);
  int64_t verb = SITU_VERB_POOL, planes = c.images;
  situ__call call = { .variant = { SITU__TEXT_pool, .op = (uint8_t)work->op, .compute = (uint8_t)compute,
                                   .dtype = { work->out[0]->dtype, work->in[0]->dtype },
                                   .flags = where ? FLAG_EACH : 0 },
                      .op = "pool" };
  situ__lower_buffer(&call, work->out[0]);
  situ__lower_buffer(&call, work->in[0]);
  if (work->op == SITU_POOL_MAX) situ__lower_buffer(&call, where);
  if (work->op != SITU_POOL_MAX_GRAD) {
    situ__lower_block(&call, &c, sizeof c);
    return situ__lower_run_flat(index, &call, work->out[0]->numel, c.window[0] * c.window[1]);
  }
  situ_status status;
  situ__target *d = situ__targets->enter(index, call.op, &status);
  if (!d) return status;
  void *scratch = situ__targets->scratch(d, call.op, (size_t)large->numel * 8);
  call.checks = true;
  situ__lower_buffer(&call, where);
  call.buffer[call.buffers++] = scratch;
  situ__lower_block(&call, &c, sizeof c);
  situ__lower_block(&call, &verb, sizeof verb);
  status = scratch ? situ__lower_items(d, &call, planes) : SITU_E_NOMEM;
  situ__targets->release(index, scratch);
  return situ__targets->leave(d, status);
}
