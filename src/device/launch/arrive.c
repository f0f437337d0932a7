/* Copies to the host that are queued: the storage that gets the values is marked, every use of a marked one comes here
   first, and the list below owns it until they are there.
   SPDX-License-Identifier: MIT */
#include "device/launch/arrive.h"

#include <sched.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "device/launch/launch.h"
#include "situ/sys/plain.h"

typedef struct arrival {
  struct arrival *next;
  situ_storage *to;
  situ_device from;
  void *ticket;
  bool taken; /* a thread waits for it */
} arrival;

static situ__mutex lock = SITU__MUTEX_INIT; /* guards the list and `taken` */
static arrival *arrivals;

situ_status situ__expect_arrival(const char *op, situ_storage *to, const situ_storage *from, size_t from_at,
                                 size_t bytes) {
  situ__reap_arrivals();
  arrival *a = situ__alloc(sizeof *a);
  if (!a) return situ__no_memory(op, sizeof *a);
  *a = (arrival){ .to = to, .from = from->device };
  const situ_status status =
      situ__backend(from->device)->fetch(from->device.index, from->data, from_at, to->data, bytes, &a->ticket);
  if (status != SITU_OK) return situ__free(a), status;
  situ__storage_retain(to);
  (void)__atomic_or_fetch(&to->flags, SITU_STORAGE_PENDING, __ATOMIC_RELAXED);
  situ__mutex_lock(&lock);
  a->next = arrivals;
  arrivals = a;
  situ__mutex_unlock(&lock);
  return SITU_OK;
}

/* Takes the arrival of a storage (NULL: one from a device), and says of one that another thread has taken that it is
   busy. */
static arrival *take(const situ_storage *to, situ_device from, bool *busy) {
  situ__mutex_lock(&lock);
  arrival *a = arrivals;
  while (a && !(to ? a->to == to : situ__same_device(a->from, from))) a = a->next;
  *busy = a && a->taken;
  if (a) a->taken = true;
  situ__mutex_unlock(&lock);
  return *busy ? NULL : a;
}

/* Takes one whose storage has no other owner, of those behind another in the list (NULL: of all). */
static arrival *take_abandoned(const arrival *behind) {
  bool passed = !behind;
  situ__mutex_lock(&lock);
  arrival *a = arrivals;
  for (; a && !(passed && !a->taken && __atomic_load_n(&a->to->refs, __ATOMIC_ACQUIRE) == 1); a = a->next)
    passed = passed || a == behind;
  if (a) a->taken = true;
  situ__mutex_unlock(&lock);
  return a;
}

/* A storage whose values did not come stays marked, so that nothing uses it. */
static void end(arrival *a, bool good) {
  situ__mutex_lock(&lock);
  arrival **link = &arrivals;
  while (*link != a) link = &(*link)->next;
  *link = a->next;
  if (good) (void)__atomic_and_fetch(&a->to->flags, ~SITU_STORAGE_PENDING, __ATOMIC_RELEASE);
  situ__mutex_unlock(&lock);
  situ__storage_release(a->to);
  situ__free(a);
}

static situ_status wait_for(const char *op, arrival *a) {
  const situ_backend *backend = situ__backend(a->from);
  const uint64_t before = situ__error_count();
  /* Values that have arrived are valid on a lost device, too. A ticket of the parent is not for a child of a fork. */
  const bool mine = !situ__forked(), arrived = mine && backend->fetched(a->from.index, a->ticket);
  situ_status status = arrived ? SITU_OK : situ__device_usable(op, a->from);
  if (status == SITU_OK && !arrived) situ__ledger_wait(op, a->from);
  const situ_status ended = mine ? backend->fetch_end(a->from.index, a->ticket, status == SITU_OK) : status;
  if (status == SITU_OK) status = ended;
  if (status != SITU_OK) status = situ__device_failed(op, a->from, status, before, "copying");
  end(a, status == SITU_OK);
  return status;
}

situ_status situ__settle_arrival(const char *op, situ_storage *storage) {
  if (!(__atomic_load_n(&storage->flags, __ATOMIC_ACQUIRE) & SITU_STORAGE_PENDING))
    return situ__refuse_sample(op, storage);
  bool busy = true;
  while (busy) {
    arrival *a = take(storage, (situ_device){ 0 }, &busy);
    if (a) return wait_for(op, a);
    if (busy) (void)sched_yield();
  }
  if (!(__atomic_load_n(&storage->flags, __ATOMIC_ACQUIRE) & SITU_STORAGE_PENDING)) return SITU_OK;
  situ__described d = { "an operand", "" };
  situ__device_up.describe_storage(storage, &d);
  return situ__fail(
      SITU_E_STATE, op,
      "%s has no values: the copy that was to bring them failed%s; copy again, or write all of it (situ_zero_)", d.what,
      d.where);
}

void situ__renew_arrival(situ_storage *storage) {
  situ__mutex_lock(&lock);
  const arrival *a = arrivals;
  while (a && a->to != storage) a = a->next;
  if (!a && situ__storage_flags(storage) & SITU_STORAGE_PENDING) {
    (void)__atomic_or_fetch(&storage->flags, SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
    (void)__atomic_and_fetch(&storage->flags, ~SITU_STORAGE_PENDING, __ATOMIC_RELEASE);
  }
  situ__mutex_unlock(&lock);
}

situ_status situ__finish_arrivals(const char *op, situ_device from) {
  situ_status status = SITU_OK;
  bool busy = true;
  for (arrival *a = NULL; (a || busy) && status == SITU_OK;) {
    a = take(NULL, from, &busy);
    if (a) status = wait_for(op, a);
    else if (busy) (void)sched_yield();
  }
  return status;
}

void situ__reap_arrivals(void) {
  if (!__atomic_load_n(&arrivals, __ATOMIC_RELAXED) || situ__forked()) return;
  for (arrival *a = take_abandoned(NULL), *next; a; a = next) {
    const situ_backend *backend = situ__backend(a->from);
    next = take_abandoned(a);
    if (backend->fetched(a->from.index, a->ticket)) {
      (void)backend->fetch_end(a->from.index, a->ticket, false);
      end(a, false);
    } else {
      __atomic_store_n(&a->taken, false, __ATOMIC_RELEASE);
    }
  }
}
