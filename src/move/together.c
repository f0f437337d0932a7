/* Copies of many small tensors, which travel together as those of a module do.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "move/move.h"

/* Whether a copy is that of all bytes of a small storage, and nothing else. */
static bool is_plain(const situ_move_request *r) {
  const uint32_t odd = SITU_STORAGE_UNWRITTEN | SITU__STORAGE_NOWHERE | SITU_STORAGE_BLOCKS;
  const situ_view_desc *v = &r->tensor->view;
  const situ_storage *s = v->storage;
  const bool whole = situ__is_dense(v) && !v->offset && s->bytes == (size_t)v->numel * situ__move_size(v->dtype);
  return whole && r->to.kind && s->bytes && s->bytes <= SITU__MOVE_SMALL && s->device.kind != SITU_META &&
         r->to.kind != SITU_META && !situ__move_same(s->device, r->to) && !(situ__storage_flags(s) & odd) &&
         !(r->tensor->requires_grad && situ__recording());
}

/* A tensor on the unit's new memory, laid out as its old one. Takes the memory over. NULL after recording an error. */
static situ_tensor *make_tensor(const char *op, situ_move_unit *u) {
  situ_storage *s = u->destination;
  u->destination = NULL;
  if (u->shared) {
    situ_storage *memory = s;
    if (!(s = situ__storage_new(op, u->to, 0))) return situ__storage_release(memory), NULL;
    situ__storage_replace(s, memory, u->at, u->bytes_after, true);
    s->flags &= ~(uint32_t)SITU_STORAGE_UNWRITTEN;
  }
  situ_view_desc view = u->tensor->view;
  view.storage = s;
  situ_tensor *t = situ__tensor_view(op, &view);
  situ__storage_release(s);
  return t;
}

situ_status situ_copy_together(const char *op, const situ_move_request *list, int64_t count, situ_tensor **copies) {
  if (count && (!situ__given(op, "list", list) || !situ__given(op, "copies", copies))) return situ_error();
  situ_device there = { 0 };
  for (int64_t i = 0; i < count; i++) {
    if (!situ__need(op, "tensor", list[i].tensor)) return situ_error();
    if (!situ__move_same(list[i].to, there) && !situ__device_resolve(op, list[i].to, &there)) return situ_error();
    copies[i] = NULL;
  }
  if (situ__is_dry() || situ__verifies() || situ__forward_mode || situ__sampling) return SITU_OK;
  const size_t bytes = (size_t)count * sizeof(situ_move_unit);
  situ_move_plan m = { .op = op, .why = SITU__COPY_USER, .unit = situ__alloc(bytes + 1), .capacity = count };
  if (!m.unit) return situ__no_memory(op, bytes);
  for (int64_t i = 0; i < count; i++) {
    const situ_tensor *t = list[i].tensor;
    if (!is_plain(&list[i])) continue;
    const size_t size = t->view.storage->bytes;
    m.unit[m.count++] = (situ_move_unit){ .storage = t->view.storage,
                                          .tensor = list[i].tensor,
                                          .from = t->view.storage->device,
                                          .to = list[i].to,
                                          .from_dtype = t->view.dtype,
                                          .to_dtype = t->view.dtype,
                                          .moves = true,
                                          .bytes = size,
                                          .bytes_after = size };
  }
  bool good = m.count < 2 || situ__move_stage(&m);
  for (int64_t i = 0, k = 0; good && m.count > 1 && i < count; i++)
    if (k < m.count && m.unit[k].tensor == list[i].tensor) good = (copies[i] = make_tensor(op, &m.unit[k++])) != NULL;
  for (int64_t k = 0; k < m.count; k++) situ__storage_release(m.unit[k].destination);
  situ__free(m.unit);
  return good ? SITU_OK : situ_error();
}
