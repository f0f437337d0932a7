/* Operands as kernels see them: merged dimensions, sizes of elements, lanes.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

situ__cl_lane situ__cl_lane_of(situ_dtype dtype) {
  switch (dtype) {
  case SITU_F16:
  case SITU_BF16:
  case SITU_F32: return SITU__CL_F32;
  case SITU_F64: return SITU__CL_F64;
  default: return SITU__CL_I64;
  }
}

size_t situ__cl_size(int dtype) {
  static const uint8_t size[SITU_DTYPES] = { [SITU_BOOL] = 1, [SITU_U8] = 1,  [SITU_I8] = 1,   [SITU_I16] = 2, [SITU_I32] = 4,
                                             [SITU_I64] = 8,  [SITU_F16] = 2, [SITU_BF16] = 2, [SITU_F32] = 4, [SITU_F64] = 8 };
  return size[dtype];
}

/* Does one step along the last dimension so far lead over all of the next one, for every operand? */
static bool continues(const walk *w, int count, const situ_view_desc *const *views, int d) {
  for (int k = 0; k < count; k++)
    if (w->stride[k][w->ndim - 1] != views[k]->stride[d] * views[k]->size[d]) return false;
  return true;
}

bool situ__cl_walk(walk *to, int count, const situ_view_desc *const *views) {
  bool dense = true;
  to->numel = views[0]->numel;
  to->ndim = 0;
  for (int k = 0; k < count; k++) {
    to->offset[k] = views[k]->offset;
    dense = dense && (views[k]->contiguous || to->numel == 1);
  }
  if (dense) {
    to->ndim = 1;
    for (int k = 0; k < count; k++) to->stride[k][0] = 1;
    return true;
  }
  for (int d = 0; d < views[0]->ndim; d++) {
    int64_t size = views[0]->size[d];
    if (size == 1) continue;
    bool merged = to->ndim && continues(to, count, views, d);
    if (!merged) to->size[to->ndim++] = 1;
    to->size[to->ndim - 1] *= size;
    for (int k = 0; k < count; k++) to->stride[k][to->ndim - 1] = views[k]->stride[d];
  }
  return false;
}
