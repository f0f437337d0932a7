/* Leases: while one is held, the memory of a storage stays where it is. A lease is a tensor that the program does not
   see, one more handle of the storage: its owner's release ends it, and where it was made is the line that took it.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/stripes.h"
#include "tensor/tensor.h"

static inline bool has_bit(const situ_tensor *lease, situ__lease bit) {
  return situ__is_lease(lease) && (lease->node_result & bit & INT32_MAX);
}

situ_tensor *situ__lease_new(const char *op, const situ_tensor *t, int32_t kind) {
  situ_tensor *lease = situ__tensor_alias(op, &t->view, situ__call_site());
  if (!lease) return NULL;
  situ_storage *s = t->view.storage;
  situ__stripe_lock(s);
  lease->node_result = kind;
  (void)__atomic_or_fetch(&s->flags, SITU_STORAGE_LEASED, __ATOMIC_RELAXED);
  situ__stripe_unlock(s);
  return lease;
}

void situ__lease_ended(const situ_tensor *lease) {
  situ_storage *s = lease->view.storage;
  if (has_bit(lease, SITU__LEASE_WRITES)) situ__storage_wrote(s);
  for (const situ_tensor *t = s->handles; t; t = t->next_handle)
    if (situ__is_lease(t)) return;
  (void)__atomic_and_fetch(&s->flags, ~SITU_STORAGE_LEASED, __ATOMIC_RELAXED);
}

situ_status situ__refuse_leased(const char *op, situ_storage *storage) {
  situ__described d = { "the tensor", "" };
  char site[256];
  void *taken_at = NULL;
  bool by_host = false;
  for (const situ_tensor *t = situ__handles_begin(storage); t; t = t->next_handle) {
    if (!situ__is_lease(t)) continue;
    taken_at = t->created_at;
    by_host = has_bit(t, SITU__LEASE_HOST);
  }
  situ__handles_end(storage);
  situ__device_up.describe_storage(storage, &d);
  situ__site_text(taken_at, site, sizeof site);
  return situ__fail(
      SITU_E_STATE, op, "%s cannot change its memory: %s%s%s%s, or take a copy (situ_to)", d.what,
      by_host ? "the program leased it" : "situ_to_dlpack gave it to another library", *site ? " at " : "", site,
      by_host ? "; end that first (situ_data_release)" : ", which has not given it back; let it do so first");
}

/* ---- leases of the host ---- */

static bool is_lease_of(const situ_tensor *lease, const situ_tensor *t) {
  return has_bit(lease, SITU__LEASE_HOST) && lease->view.storage == t->view.storage &&
         situ__same_place(&lease->view, &t->view);
}

/* Takes the newest one that no scope owns, so that no other thread finds it. */
static situ_tensor *take_unscoped(const situ_tensor *t) {
  situ_tensor *lease = situ__handles_begin(t->view.storage);
  while (lease && !(is_lease_of(lease, t) && !has_bit(lease, SITU__LEASE_SCOPED))) lease = lease->next_handle;
  if (lease) lease->node_result &= ~1;
  situ__handles_end(t->view.storage);
  return lease;
}

situ_status situ_data_release(situ_tensor *t) {
  const char *op = "data_release";
  if (!situ__need(op, "input", t)) return situ_error();
  const situ_status refused = situ__map_may_end(op, t);
  if (refused != SITU_OK) return refused;
  situ_tensor *lease = situ__scope_take(t, is_lease_of);
  if (!lease) lease = take_unscoped(t);
  if (!lease)
    return situ__fail(
        SITU_E_STATE, op,
        "no lease of the tensor is held: it has ended, with its scope too, or belongs to a scope of another "
        "thread");
  const uint64_t before = situ__error_count();
  situ_release(lease);
  return situ__error_count() == before ? SITU_OK : situ_error();
}
