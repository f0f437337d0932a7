/* The convolution verb: converts operands to a compute type and chooses the algorithm for the geometry.
   SPDX-License-Identifier: MIT */
#include "conv.h"
#include "operand.h"

static situ__conv describe(const situ_work *work, const situ_view_desc *x, const situ_view_desc *w,
                           const situ_view_desc *y, const situ_view_desc *bias) {
  const int64_t groups = work->window->groups;
  return (situ__conv){ .pass = (situ_conv_pass)work->op,
                       .window = work->window,
                       .dtype = (situ_dtype)x->dtype,
                       .x = situ__cpu_data(x),
                       .w = situ__cpu_data(w),
                       .y = situ__cpu_data(y),
                       .bias = bias ? situ__cpu_data(bias) : NULL,
                       .images = x->size[0],
                       .groups = groups,
                       .channels = x->size[1] / groups,
                       .outputs = y->size[1] / groups,
                       .height = x->size[2],
                       .width = x->size[3],
                       .out_height = y->size[2],
                       .out_width = y->size[3] };
}

static situ_status run_conv(const situ__conv *c) {
  situ_status status = SITU_OK;
  if (c->dtype == SITU_I64) situ__conv_whole(c);
  else if (!situ__conv_blocked(c, &status)) status = situ__conv_unfold(c);
  return status;
}

situ_status situ__cpu_conv(int index, const situ_work *work) {
  (void)index;
  const char *op = "conv";
  const situ_dtype dtype = situ__cpu_lane_dtype(work->compute);
  const situ_view_desc *bias = work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2 ? work->in[2] : NULL;
  situ__cpu_operand a = { 0 }, b = { 0 }, extra = { 0 }, result = { 0 };
  situ_status status = situ__operand_in(&a, op, work->in[0], dtype);
  if (status == SITU_OK) status = situ__operand_in(&b, op, work->in[1], dtype);
  if (status == SITU_OK) status = situ__operand_in(&extra, op, bias, dtype);
  if (status == SITU_OK) status = situ__operand_out(&result, op, work->out[0], dtype, true);
  if (status == SITU_OK) {
    /* x, w and y among the two operands and the result, for each pass */
    const situ_view_desc *of[][3] = { { a.view, b.view, result.view },
                                      { result.view, b.view, a.view },
                                      { a.view, result.view, b.view } };
    const situ__conv c = describe(work, of[work->op][0], of[work->op][1], of[work->op][2], extra.view);
    status = run_conv(&c);
  }
  if (status == SITU_OK) situ__operand_write(&result);
  situ__operand_close(&a);
  situ__operand_close(&b);
  situ__operand_close(&extra);
  situ__operand_close(&result);
  return status;
}
