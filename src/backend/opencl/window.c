/* Convolution and pooling: windows that move over planes.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

static windows geometry(const situ_window *w, const situ_view_desc *large, const situ_view_desc *small) {
  windows c = { .groups = w->groups, .height = large->size[2], .width = large->size[3], .out_height = small->size[2],
                .out_width = small->size[3], .exclude_pad = w->exclude_pad, .divisor = w->divisor, .x = large->offset, .y = small->offset };
  for (int k = 0; k < 2; k++) {
    c.window[k] = w->kernel[k], c.stride[k] = w->stride[k];
    c.padding[k] = w->padding[k], c.dilation[k] = w->dilation[k] ? w->dilation[k] : 1;
  }
  return c;
}

situ_status situ__cl_conv(int index, const situ_work *work) {
  const situ_view_desc *result = work->out[0], *a = work->in[0], *b = work->in[1];
  const situ_view_desc *bias = work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2 ? work->in[2] : NULL;
  /* x, w and y among the two operands and the result, for each pass */
  const situ_view_desc *of[][3] = { { a, b, result }, { result, b, a }, { a, result, b } };
  const situ_view_desc *x = of[work->op][0], *w = of[work->op][1], *y = of[work->op][2];
  windows c = geometry(work->window, x, y);
  c.images = x->size[0], c.channels = x->size[1] / c.groups, c.outputs = y->size[1] / c.groups;
  c.w = w->offset, c.bias = situ__cl_offset(bias);
  situ_dtype compute = work->compute ? work->compute : (situ_dtype)result->dtype;
  situ__cl_call call = { .variant = { .text = SITU__CL_conv, .op = (uint8_t)work->op, .compute = (uint8_t)situ__cl_lane_dtype(compute) }, .op = "conv" };
  const situ_view_desc *view[] = { result, a, b, bias };
  for (int k = 0; k < (bias ? 4 : 3); k++) {
    call.variant.dtype[k] = view[k]->dtype;
    situ__cl_buffer(&call, view[k]);
  }
  situ__cl_block(&call, &c, sizeof c);
  return situ__cl_run(index, &call, result->numel);
}

situ_status situ__cl_pool(int index, const situ_work *work) {
  bool back = work->op == SITU_POOL_MAX_GRAD || work->op == SITU_POOL_AVG_GRAD || work->op == SITU_POOL_ADAPTIVE_AVG_GRAD;
  const situ_view_desc *large = back ? work->out[0] : work->in[0], *small = back ? work->in[0] : work->out[0];
  const situ_view_desc *where = work->op == SITU_POOL_MAX ? (work->outs > 1 ? work->out[1] : NULL) : work->op == SITU_POOL_MAX_GRAD ? work->in[1] : NULL;
  situ_dtype lane = situ__cl_lane_dtype((situ_dtype)large->dtype);
  if (lane == SITU_I64 && work->op >= SITU_POOL_ADAPTIVE_AVG) return SITU_E_UNSUPPORTED;
  const situ_window none = { .kernel = { 1, 1 }, .stride = { 1, 1 }, .groups = 1 };
  windows c = geometry(work->window ? work->window : &none, large, small);
  c.images = large->size[0] * large->size[1];
  c.w = situ__cl_offset(where);
  int64_t verb = SITU_VERB_POOL, planes = c.images;
  situ__cl_call call = { .variant = { .text = SITU__CL_pool, .op = (uint8_t)work->op, .compute = (uint8_t)lane,
                                      .dtype = { work->out[0]->dtype, work->in[0]->dtype }, .flags = where ? FLAG_EACH : 0 },
                         .op = "pool" };
  situ__cl_buffer(&call, work->out[0]);
  situ__cl_buffer(&call, work->in[0]);
  if (work->op == SITU_POOL_MAX) situ__cl_buffer(&call, where);
  if (work->op != SITU_POOL_MAX_GRAD) {
    situ__cl_block(&call, &c, sizeof c);
    return situ__cl_run(index, &call, work->out[0]->numel);
  }
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, call.op, &status);
  if (!d) return status;
  cl_mem room = situ__cl_scratch(d, call.op, (size_t)large->numel * 8);
  call.checks = true;
  situ__cl_buffer(&call, where);
  call.buffer[call.buffers++] = room;
  situ__cl_block(&call, &c, sizeof c);
  situ__cl_block(&call, &verb, sizeof verb);
  status = room ? situ__cl_items(d, &call, planes) : SITU_E_NOMEM;
  if (room) (void)clReleaseMemObject(room);
  return situ__cl_leave(d, status);
}
