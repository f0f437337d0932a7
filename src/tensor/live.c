/* Tells whether an arbitrary pointer is a live tensor.
   SPDX-License-Identifier: MIT */
#include "base/peek.h"
#include "base/fail.h"
#include "tensor/tensor.h"

/* A list of all tensors would slow down creating one, the hottest operation of the library. Instead, a tensor refers
   to its storage, and the storage lists its handles: a pointer is a live tensor exactly if the storage that it refers
   to lists it. A byte copy of a tensor, or a freed one, is not in the list. */
bool situ_is_tensor(const void *pointer) {
  situ_tensor t;
  situ_storage storage;
  if (!pointer || (uintptr_t)pointer % _Alignof(situ_tensor) != 0) return false;
  if (!situ__peek(pointer, &t, sizeof t) || !situ__alive(&t)) return false;
  if (!situ__peek(t.view.storage, &storage, sizeof storage)) return false;
  /* Each handle holds a reference, so a valid list is not longer than refs. */
  const situ_tensor *handle = storage.handles;
  for (int64_t i = 0; i < storage.refs && handle; i++) {
    if (handle == pointer) return true;
    if (!situ__peek(handle, &t, sizeof t) || !situ__alive(&t)) return false;
    handle = t.next_handle;
  }
  return false;
}

const char *situ_created_at(const situ_tensor *t, char *buffer, size_t size) {
  if (!situ__given("created_at", "buffer", buffer)) return "";
  return situ__site_text(t && situ__need("created_at", "input", t) ? t->created_at : NULL, buffer, size);
}
