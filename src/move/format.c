/* Another memory format for tensors in place: like a move, it replaces the memory behind all handles.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "move/move.h"

/* The strides that t is to have; t's own if its rank cannot have the format. Returns true if its memory changes. */
static bool choose(const situ_tensor *t, situ_memory_format format, situ_view_desc *to) {
  if (format == SITU_MEMORY_FORMAT_DEFAULT || format == SITU_PRESERVE_FORMAT) return false;
  const int rank = format == SITU_CHANNELS_LAST ? 4 : format == SITU_CHANNELS_LAST_3D ? 5 : t->view.ndim;
  *to = t->view;
  return t->view.ndim == rank && situ__format_strides(to, format) && !situ__same_order(to, &t->view);
}

/* Every handle of the storage must be t, or the same view as t: what others see would be other elements. */
static bool may_change(const char *op, situ_tensor *t) {
  situ_storage *s = t->view.storage;
  const char *name = t->name ? t->name : "a tensor";
  if (situ__is_leased(s)) return situ__refuse_leased(op, s), false;
  bool whole = situ__is_dense(&t->view) && !t->view.offset && !(s->flags & SITU_STORAGE_FOREIGN) &&
               (size_t)t->view.numel * situ_dtype_size((situ_dtype)t->view.dtype) == s->bytes;
  for (const situ_tensor *h = situ__handles_begin(s); h; h = h->next_handle)
    whole = whole && h->view.dtype == t->view.dtype && situ__same_place(&h->view, &t->view);
  situ__handles_end(s);
  if (whole) return true;
  return situ__fail(SITU_E_ALIAS, op,
                    "%s has views, or is a part of other memory, which would show other elements then; make the views "
                    "after the change",
                    name),
         false;
}

/* A copy of t's values in the new order; without values, memory for them. */
static situ_tensor *stage(const char *op, const situ_tensor *t, const situ_view_desc *to) {
  situ_tensor *copy = situ__tensor_strided(op, to, (situ_dtype)t->view.dtype, t->view.storage->device);
  if (!copy || !situ__move_has_values(t->view.storage)) return copy;
  const bool partly = situ__move_reads_parts(t->view.storage);
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { &copy->view } };
  const bool good = situ__run(op, t->view.storage->device, &work) == SITU_OK;
  situ__move_read_parts(t->view.storage, partly);
  return good ? copy : NULL;
}

/* Cannot fail. */
static void commit(const char *op, situ_tensor *t, situ_tensor *copy, void *site) {
  situ_storage *s = t->view.storage;
  const uint32_t unwritten = s->written ? 0 : s->flags & SITU_STORAGE_UNWRITTEN;
  situ__storage_replace(s, copy->view.storage, 0, s->bytes, false);
  situ__forget_written(s); /* its elements lie elsewhere: all counts as written */
  situ__storage_set_flags(s, (s->flags & ~(uint32_t)SITU_STORAGE_UNWRITTEN) | unwritten);
  s->moved_at = site;
  s->moved_by = op;
  for (situ_tensor *h = situ__handles_begin(s); h; h = h->next_handle) {
    memcpy(h->view.stride, copy->view.stride, sizeof h->view.stride);
    h->view.contiguous = copy->view.contiguous;
  }
  situ__handles_end(s);
  __atomic_fetch_add(&s->version, 1, __ATOMIC_RELAXED); /* what was saved for a backward has other strides now */
}

/* A tensor may be listed twice, and tied ones share their storage. */
static bool is_listed_before(situ_tensor *const *list, int64_t i) {
  for (int64_t k = 0; k < i; k++)
    if (list[k]->view.storage == list[i]->view.storage) return true;
  return false;
}

static bool stage_all(const char *op, situ_tensor *const *list, int64_t count, situ_memory_format format,
                      situ_tensor **copy) {
  for (int64_t i = 0; i < count; i++) {
    situ_view_desc to;
    if (!situ__need(op, "tensor", list[i])) return false;
    if (is_listed_before(list, i) || !choose(list[i], format, &to)) continue;
    if (!may_change(op, list[i]) || !(copy[i] = stage(op, list[i], &to)) ||
        (list[i]->view.storage->device.kind != SITU_META && situ_synchronize(list[i]->view.storage->device) != SITU_OK))
      return false;
  }
  return true;
}

situ_status situ_relayout(const char *op, situ_tensor *const *list, int64_t count, situ_memory_format memory_format) {
  if (count < 0 || (count && !list)) return situ__null(op, "list");
  if ((unsigned)memory_format > SITU_CHANNELS_LAST_3D)
    return situ__fail(SITU_E_ARG, op, "%d is not a memory format", (int)memory_format);
  if (situ__is_dry()) return situ__fail(SITU_E_STATE, op, "a dry run changes nothing");
  const size_t bytes = (size_t)(count + 1) * sizeof(situ_tensor *);
  situ_tensor **copy = situ__alloc(bytes);
  if (!copy) return situ__no_memory(op, bytes);
  memset(copy, 0, bytes);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  void *site = situ__call_site();
  const bool good = stage_all(op, list, count, memory_format, copy);
  for (int64_t i = 0; good && i < count; i++)
    if (copy[i]) commit(op, list[i], copy[i], site);
  const situ_status ended = situ_scope_end(&scope);
  situ__free(copy);
  return good ? ended : situ_error();
}
