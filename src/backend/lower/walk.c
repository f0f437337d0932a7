/* Operands as kernels see them: merged dimensions, element sizes, compute types.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ__lower_compute situ__lower_compute_of(situ_dtype dtype) {
  switch (dtype) {
  case SITU_F16:
  case SITU_BF16:
  case SITU_F32: return SITU__COMPUTE_F32;
  case SITU_F64: return SITU__COMPUTE_F64;
  default: return SITU__COMPUTE_I64;
  }
}

situ_dtype situ__lower_integer_dtype(int dtype) {
  static const situ_dtype integer[] = { [1] = SITU_U8, [2] = SITU_I16, [4] = SITU_I32, [8] = SITU_I64 };
  return integer[situ__lower_size(dtype)];
}

situ_dtype situ__lower_compute_dtype(situ_dtype dtype) {
  static const situ_dtype of[] = {
    [SITU__COMPUTE_F32] = SITU_F32, [SITU__COMPUTE_F64] = SITU_F64, [SITU__COMPUTE_I64] = SITU_I64
  };
  return of[situ__lower_compute_of(dtype)];
}

/* ---- walks ---------------------------------------------------------------------------------- */

int64_t situ__lower_magic(int64_t size) {
  if (size >= INT64_C(1) << 31) return 0;
  int shift = 0;
  while (INT64_C(1) << shift < size) shift++;
  const uint64_t multiplier = (((UINT64_C(1) << shift) - (uint64_t)size) << 32) / (uint64_t)size + 1;
  return (int64_t)((uint64_t)shift << 32 | multiplier);
}

void situ__lower_walk_add(walk *to, int count, int64_t size, const int64_t *strides) {
  if (size == 1) return;
  bool continues = to->ndim > 0;
  for (int k = 0; continues && k < count; k++) continues = to->stride[k][to->ndim - 1] == strides[k] * size;
  if (!continues) to->size[to->ndim++] = 1;
  to->size[to->ndim - 1] *= size;
  to->magic[to->ndim - 1] = situ__lower_magic(to->size[to->ndim - 1]);
  for (int k = 0; k < count; k++) to->stride[k][to->ndim - 1] = strides[k];
}

bool situ__lower_walk(walk *to, int count, const situ_view_desc *const *views) {
  bool dense = true;
  to->numel = views[0]->numel;
  to->ndim = 0;
  for (int k = 0; k < count; k++) {
    to->offset[k] = views[k]->offset;
    dense = dense && (views[k]->contiguous || to->numel == 1);
  }
  if (dense) {
    to->ndim = 1;
    to->size[0] = to->numel;
    to->magic[0] = 0;
    for (int k = 0; k < count; k++) to->stride[k][0] = 1;
    return true;
  }
  for (int d = 0; d < views[0]->ndim; d++) {
    int64_t strides[WALK_OPERANDS];
    for (int k = 0; k < count; k++) strides[k] = views[k]->stride[d];
    situ__lower_walk_add(to, count, views[0]->size[d], strides);
  }
  return false;
}

int64_t situ__lower_pack(int count, const situ_view_desc *const *views) {
  size_t widest = 1;
  for (int k = 0; k < count; k++)
    if (situ__lower_size(views[k]->dtype) > widest) widest = situ__lower_size(views[k]->dtype);
  return PACK_BYTES / widest < PACK_MOST ? (int64_t)(PACK_BYTES / widest) : PACK_MOST;
}

int64_t situ__lower_skew(const situ__target *target, const situ_view_desc *view, int64_t pack) {
  int64_t at = view->offset % pack;
  if (target->addresses)
    at += (int64_t)((uintptr_t)view->storage->data / situ__lower_size(view->dtype) % (uintptr_t)pack);
  return at % pack;
}

packs situ__lower_packs(const situ__target *target, const walk *w, int64_t pack, int count,
                        const situ_view_desc *const *views) {
  const int along = (int)w->ndim - 1;
  int64_t skew[WALK_OPERANDS] = { 0 };
  for (int k = 0; k < count; k++) skew[k] = situ__lower_skew(target, views[k], pack);
  /* Aligns writes first, and reads with them where their alignment is the same. */
  packs s = { .shift = w->stride[0][along] == 1 ? skew[0] : 0 };
  for (int k = 0; k < count; k++) {
    bool full = w->stride[k][along] == 1 && skew[k] == s.shift;
    for (int d = 0; d < along; d++) full = full && w->stride[k][d] % pack == 0;
    if (full) s.full |= INT64_C(1) << k;
  }
  s.each = (w->size[along] + s.shift + pack - 1) / pack;
  s.magic = situ__lower_magic(s.each);
  s.count = w->numel ? w->numel / w->size[along] * s.each : 0;
  return s;
}

lines situ__lower_lines(const situ_view_desc *of, int64_t dim, int count, const situ_view_desc *const *views) {
  lines l = { .outer = 1, .size = of->ndim ? of->size[dim] : 1, .inner = 1 };
  for (int64_t d = 0; d < dim; d++) l.outer *= of->size[d];
  for (int64_t d = dim + 1; d < of->ndim; d++) l.inner *= of->size[d];
  for (int k = 0; k < count; k++) l.offset[k] = situ__lower_offset(views[k]);
  return l;
}

situ_view_desc situ__lower_scratch_view(situ_storage *storage, void *memory, situ_dtype dtype, int64_t numel) {
  *storage = (situ_storage){ .data = memory };
  return (situ_view_desc){ .storage = storage,
                           .dtype = (uint8_t)dtype,
                           .ndim = 1,
                           .contiguous = true,
                           .numel = numel,
                           .size = { numel },
                           .stride = { 1 } };
}
