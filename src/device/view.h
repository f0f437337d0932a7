/* Views: which elements of a storage they have.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_VIEW_H
#define SITU_DEVICE_VIEW_H

#include "situ/sys/backend.h"

static inline bool situ__same_sizes(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->ndim != b->ndim) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] != b->size[d]) return false;
  return true;
}
/* Returns true if two views of one storage have the same elements in the same order. */
static inline bool situ__same_place(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->offset != b->offset || !situ__same_sizes(a, b)) return false;
  for (int d = 0; d < a->ndim; d++)
    if (a->size[d] > 1 && a->stride[d] != b->stride[d]) return false;
  return true;
}
/* First and last element of v in its storage. Returns false if v is empty. */
static inline bool situ__desc_range(const situ_view_desc *v, int64_t *first, int64_t *last) {
  *first = *last = v->offset;
  if (!v->numel) return false; /* its sizes may be any */
  for (int d = 0; d < v->ndim; d++) *(v->stride[d] < 0 ? first : last) += (v->size[d] - 1) * v->stride[d];
  return true;
}

#endif
