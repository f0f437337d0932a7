/* Leases: while one is held, the memory of a storage stays where it is. A lease is a tensor that the program does not
   see, one more handle of the storage: its owner's release ends it, and where it was made is the line that took it.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/stripes.h"
#include "tensor/tensor.h"

situ_tensor *situ__lease_new(const char *op, const situ_tensor *t, situ__lease kind) {
  situ_tensor *lease = situ__tensor_alias(op, &t->view, situ__call_site());
  if (!lease) return NULL;
  situ_storage *s = t->view.storage;
  situ__stripe_lock(s);
  lease->node_result = kind;
  (void)__atomic_or_fetch(&s->flags, SITU_STORAGE_LEASED, __ATOMIC_RELAXED);
  situ__stripe_unlock(s);
  return lease;
}

void situ__lease_ended(situ_storage *s) {
  for (const situ_tensor *t = s->handles; t; t = t->next_handle)
    if (situ__is_lease(t)) return;
  (void)__atomic_and_fetch(&s->flags, ~SITU_STORAGE_LEASED, __ATOMIC_RELAXED);
}

situ_status situ__refuse_leased(const char *op, situ_storage *storage) {
  situ__described d = { "the tensor", "" };
  char site[256];
  void *taken_at = NULL;
  for (const situ_tensor *t = situ__handles_begin(storage); t; t = t->next_handle)
    if (situ__is_lease(t)) taken_at = t->created_at;
  situ__handles_end(storage);
  situ__device_up.describe_storage(storage, &d);
  situ__site_text(taken_at, site, sizeof site);
  return situ__fail(
      SITU_E_STATE, op,
      "%s cannot change its memory: situ_to_dlpack gave it to another library%s%s, which has not given it "
      "back; let it do so first, or take a copy (situ_to)",
      d.what, *site ? " at " : "", site);
}
