/* Telling a live tensor from any other word: for whoever finds a pointer and does not know what it
   is.
   SPDX-License-Identifier: MIT */
#include "base/peek.h"
#include "base/fail.h"
#include "tensor/tensor.h"

/* No list of all tensors is kept: making one is the hottest thing that the library does. But a live
   tensor knows its storage, and its storage knows its handles, so a pointer is a live tensor
   exactly if what would be its storage says so. A byte copy of one, or what it left behind, does
   not pass. */
bool situ_is_tensor(const void *pointer) {
  situ_tensor t;
  situ_storage storage;
  if (!pointer || (uintptr_t)pointer % _Alignof(situ_tensor) != 0) return false;
  if (!situ__peek(pointer, &t, sizeof t) || !situ__alive(&t)) return false;
  if (!situ__peek(t.view.storage, &storage, sizeof storage)) return false;
  /* Each handle is an owner, so a chain of more is no chain of handles. */
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
