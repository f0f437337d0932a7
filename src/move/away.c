/* Memory that is given up for a while: the values of a tensor are elsewhere.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "move/move.h"

bool situ_memory_is_away(const situ_tensor *t) {
  return situ__need("memory_is_away", "input", t) && t->view.storage->flags & SITU_STORAGE_AWAY;
}

/* foreign: flags of memory that cannot be given up, or given away; meta: it need not be memory. */
static bool is_whole(const char *op, const situ_tensor *t, uint32_t foreign, bool meta) {
  const situ_view_desc *v = &t->view;
  const size_t bytes = (size_t)v->numel * situ_dtype_size((situ_dtype)v->dtype);
  if (situ__is_leased(v->storage)) return situ__refuse_leased(op, v->storage), false;
  if (situ__is_dense(v) && v->offset == 0 && bytes == v->storage->bytes &&
      (meta || v->storage->device.kind != SITU_META) && !(v->storage->flags & foreign))
    return true;
  const bool in_file = v->storage->flags & foreign & SITU_STORAGE_FOREIGN && v->storage->flags & SITU_STORAGE_MAPPED;
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s does not have memory for itself alone%s",
                    *situ_name(t) ? situ_name(t) : "the tensor",
                    in_file ? ", but a file's: bring its module back (situ_nn_unspill)" : ""),
         false;
}

situ_status situ_release_memory(const char *op, situ_tensor *t, const char *where) {
  if (!situ__need(op, "input", t) || !situ__given(op, "where", where)) return situ_error();
  situ_storage *s = t->view.storage;
  if (s->flags & (SITU_STORAGE_AWAY | SITU_STORAGE_PENDING) && situ__settle(op, s) != SITU_OK) return situ_error();
  if (!is_whole(op, t, SITU_STORAGE_FOREIGN | SITU_STORAGE_SAMPLE, true)) return situ_error();
  if (s->recipe) situ__recipe_lose(s);
  if (situ__is_void(s)) situ__dry_leave(s, where);
  else if (!situ__is_dry()) situ__storage_leave(s, where);
  return SITU_OK;
}

situ_status situ_return_memory(const char *op, situ_tensor *t, situ_tensor *values) {
  if (!situ__need(op, "input", t) || !situ__need(op, "values", values)) return situ_error();
  situ_storage *to = t->view.storage, *from = values->view.storage;
  if (from->flags & (SITU_STORAGE_AWAY | SITU_STORAGE_PENDING) && situ__settle(op, from) != SITU_OK)
    return situ_error();
  if (!is_whole(op, values, SITU_STORAGE_FOREIGN | SITU_STORAGE_SAMPLE | SITU_STORAGE_SLICE, false))
    return situ_error();
  if (!(to->flags & SITU_STORAGE_AWAY) || to->bytes != from->bytes || !situ__same_device(to->device, from->device))
    return situ__fail(SITU_E_STATE, op, "%s has memory, or another size or device than the %zu bytes that it would get",
                      *situ_name(t) ? situ_name(t) : "the tensor", from->bytes);
  if (situ__is_void(to) && situ__is_void(from)) situ__dry_return(to, from);
  else if (!situ__is_dry()) situ__storage_return(to, from);
  return SITU_OK;
}
