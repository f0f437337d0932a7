/* Other tensors for those that a graph was captured with: what can be said before the graph is looked at.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/fail.h"
#include "device/graph/graph.h"
#include "device/launch/launch.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

typedef struct pairs {
  situ_tensor *const *captured, *const *bound;
} pairs;

static const situ_view_desc *view_of(void *payload, int64_t i, bool bound) {
  const pairs *p = payload;
  return &(bound ? p->bound : p->captured)[i]->view;
}

/* Strides of dimensions with one element reach nothing. */
static bool same_strides(const situ_view_desc *a, const situ_view_desc *b) {
  int d = 0;
  while (d < a->ndim && (a->size[d] == 1 || a->stride[d] == b->stride[d])) d++;
  return d == a->ndim;
}

static situ_status check_pair(const char *op, int i, const situ_view_desc *a, const situ_view_desc *b) {
  const situ_shape was = situ__shape(a), is = situ__shape(b);
  char text[2][SITU_SHAPE_TEXT], name[2][SITU_DEVICE_NAME_MAX];
  if (!situ_shape_equal(&was, &is))
    return situ__fail(SITU_E_SHAPE, op, "bound[%d] is %s, but captured[%d] is %s: pass a tensor of this shape", i,
                      situ_shape_text(&is, text[0]), i, situ_shape_text(&was, text[1]));
  if (a->dtype != b->dtype || (a->storage->flags ^ b->storage->flags) & SITU_STORAGE_BLOCKS)
    return situ__fail(SITU_E_DTYPE, op, "bound[%d] is %s, but captured[%d] is %s: pass a tensor of this dtype", i,
                      situ_dtype_name((situ_dtype)b->dtype), i, situ_dtype_name((situ_dtype)a->dtype));
  if (!situ__same_device(a->storage->device, b->storage->device))
    return situ__fail(SITU_E_DEVICE, op, "bound[%d] is on %s, but captured[%d] is on %s: pass a tensor there", i,
                      situ_device_name(b->storage->device, name[0]), i, situ_device_name(a->storage->device, name[1]));
  if (!same_strides(a, b))
    return situ__fail(SITU_E_SHAPE, op,
                      "bound[%d] has other strides than captured[%d] (situ_stride): pass a tensor laid out like it, or "
                      "capture with one that is laid out like bound[%d]",
                      i, i, i);
  return situ__settle(op, b->storage);
}

situ_status situ_graph_rebind(situ_graph *graph, situ_tensor *const *captured, situ_tensor *const *bound, int count) {
  const char *op = "graph_rebind";
  if (count < 0) return situ__fail(SITU_E_ARG, op, "count is %d", count);
  if (count && !captured) return situ__null(op, "captured");
  if (count && !bound) return situ__null(op, "bound");
  for (int i = 0; i < count; i++) {
    char name[32];
    (void)snprintf(name, sizeof name, "captured[%d]", i);
    if (!situ__need(op, name, captured[i])) return situ_error();
    (void)snprintf(name, sizeof name, "bound[%d]", i);
    if (!situ__need(op, name, bound[i])) return situ_error();
    const situ_status status = check_pair(op, i, &captured[i]->view, &bound[i]->view);
    if (status != SITU_OK) return status;
  }
  return situ__graph_rebind(op, graph, count, view_of, &(pairs){ captured, bound });
}
