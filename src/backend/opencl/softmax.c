/* Softmax, its logarithm, and their gradients.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

situ_status situ__cl_softmax(int index, const situ_work *work) {
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1] };
  int operands = work->op >= SITU_SOFTMAX_GRAD ? 3 : 2;
  lines w = situ__cl_lines(view[0], work->integer[0], operands, view);
  if (situ__cl_lane_of((situ_dtype)view[0]->dtype) == SITU__CL_I64) return SITU_E_UNSUPPORTED;
  situ__cl_call call = { .variant = { .text = SITU__CL_softmax,
                                      .op = (uint8_t)work->op,
                                      .compute = (uint8_t)situ__cl_lane_dtype(
                                          (situ_dtype)view[0]->dtype) },
                         .op = "softmax" };
  for (int k = 0; k < operands; k++) {
    call.variant.dtype[k] = view[k]->dtype;
    situ__cl_buffer(&call, view[k]);
  }
  situ__cl_block(&call, &w, sizeof w);
  return situ__cl_run_lines(index, &call, w.outer * w.inner, w.size);
}
