/* Byte copies between memories, each recorded in the ledger. Kernels copy elements.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/graph/graph.h"
#include "device/launch/arrive.h"
#include "device/launch/launch.h"
#include "device/profile/profile.h"
#include "situ/sys/plain.h"

enum { STAGE = 4 << 20 }; /* size of the staging buffer on the host */

static const situ_device host = { SITU_CPU, 0 };

static const char *describe_reason(situ__copy_reason why) {
  return why == SITU__COPY_READ      ? "reading"
         : why == SITU__COPY_MOVE    ? "moving"
         : why == SITU__COPY_OFFLOAD ? "fetching"
                                     : "copying";
}

situ_status situ__check_range(const char *op, const situ_storage *storage, size_t at, size_t bytes) {
  char name[SITU_DEVICE_NAME_MAX];
  const situ_backend *backend = situ__backend(storage->device);
  if (!backend || backend->no_memory)
    return situ__fail(SITU_E_UNSUPPORTED, op, "a tensor on %s has no values", situ_device_name(storage->device, name));
  const situ_status settled = situ__settle(op, (situ_storage *)storage);
  if (settled != SITU_OK) return settled;
  if (at > storage->bytes || bytes > storage->bytes - at)
    return situ__fail(SITU_E_INDEX, op, "bytes %zu to %zu of a storage of %zu", at, at + bytes, storage->bytes);
  if (__builtin_expect(situ__graph_recording && !situ__is_dry(), 0)) return situ__graph_refuse_copy(op);
  return situ__device_usable(op, storage->device);
}

static situ_status check_target(const char *op, situ_storage *storage, size_t at, size_t bytes) {
  if (__builtin_expect(storage->flags & SITU_STORAGE_NO_WRITES, 0)) return situ__refuse_read_only(op, storage);
  if (__builtin_expect(storage->flags & SITU_STORAGE_PENDING, 0) && bytes == storage->bytes && !situ__is_dry())
    situ__renew_arrival(storage);
  return situ__check_range(op, storage, at, bytes);
}

/* Whether this thread's policy has guards. */
static bool is_guarded(void) {
  const situ_policy policy = situ_get_policy();
  return policy.guard_to_device | policy.guard_to_host | policy.guard_between_devices;
}

static void count_write(situ_storage *to, size_t at, size_t bytes) {
  if (bytes == to->bytes || situ__is_filled(to)) {
    situ__storage_wrote(to);
    return;
  }
  (void)__atomic_fetch_add(&to->version, 1, __ATOMIC_RELAXED);
  situ__wrote_bytes(to, at, bytes);
}

situ_status situ__record_copy(const char *op, situ_device from, situ_device to, size_t bytes, situ_storage *about,
                              size_t at, bool written, situ__copy_reason why) {
  const bool same_memory = situ__backend(from)->host_memory && situ__backend(to)->host_memory;
  if (same_memory) return SITU_OK;
  if (situ__ledger_recording())
    situ__ledger_note(&(situ__transfer){ .from = from,
                                         .to = to,
                                         .bytes = bytes,
                                         .at = at,
                                         .site = situ__call_site(),
                                         .op = op,
                                         .reason = (uint8_t)why,
                                         .written = written },
                      about);
  if (!situ__is_profiled()) return SITU_OK;
  const uint64_t before = situ__error_count();
  const situ_status status = situ__profile_transfer(op, from, to, bytes);
  return status == SITU_OK ? status : situ__device_failed(op, to, status, before, describe_reason(why));
}

/* Calls the backend's copy, and records its failure as an error of op. */
static situ_status copy_in(const char *op, situ_storage *to, size_t at, const void *from, size_t bytes,
                           situ__copy_reason why) {
  uint64_t before = situ__error_count();
  situ_status status = situ__backend(to->device)->copy_in(to->device.index, to->data, at, from, bytes);
  return status == SITU_OK ? status : situ__device_failed(op, to->device, status, before, describe_reason(why));
}

static situ_status copy_out(const char *op, const situ_storage *from, size_t at, void *to, size_t bytes,
                            situ__copy_reason why) {
  uint64_t before = situ__error_count();
  situ_status status = situ__backend(from->device)->copy_out(from->device.index, from->data, at, to, bytes);
  return status == SITU_OK ? status : situ__device_failed(op, from->device, status, before, describe_reason(why));
}

static situ__side on_host(const void *data) { return (situ__side){ host, data, 0 }; }
static situ__side side_of(const situ_storage *s, size_t at) { return (situ__side){ s->device, s->data, at }; }

situ_status situ__copy_from_host(const char *op, situ_storage *to, size_t at, const void *from, size_t bytes,
                                 situ__copy_reason why) {
  situ_status status = check_target(op, to, at, bytes);
  if (status != SITU_OK || bytes == 0) return status;
  if (situ__is_dry()) return situ__dry_copy(op, NULL, to, bytes);
  if (is_guarded() && (status = situ__guard_copy(op, host, to->device, bytes, why, to)) != SITU_OK) return status;
  if (situ__is_profiled()) situ__profile_start();
  status = copy_in(op, to, at, from, bytes, why);
  if (status == SITU_OK && situ__verifies()) status = situ__verify_copy(op, on_host(from), side_of(to, at), bytes, to);
  if (status != SITU_OK) return status;
  count_write(to, at, bytes);
  return situ__record_copy(op, host, to->device, bytes, to, at, true, why);
}

situ_status situ__copy_to_host(const char *op, situ_storage *from, size_t at, void *to, size_t bytes,
                               situ__copy_reason why) {
  situ_status status = situ__check_range(op, from, at, bytes);
  if (status != SITU_OK || bytes == 0) return status;
  if (situ__is_dry()) return situ__dry_blind(op);
  if (is_guarded() && (status = situ__guard_copy(op, from->device, host, bytes, why, from)) != SITU_OK) return status;
  if (situ__is_profiled()) situ__profile_start();
  void *into = situ__verifies() && !situ__backend(from->device)->host_memory ? situ__alloc(bytes) : to;
  if (!into) return situ__no_memory(op, bytes);
  status = copy_out(op, from, at, into, bytes, why);
  if (into != to) {
    if (status == SITU_OK) status = situ__verify_copy(op, side_of(from, at), on_host(into), bytes, from);
    if (status == SITU_OK) memcpy(to, into, bytes);
    situ__free(into);
  }
  return status == SITU_OK ? situ__record_copy(op, from->device, host, bytes, from, at, false, why) : status;
}

/* Returns true if neither side is in host memory and no peer copy exists between the two. */
static bool is_staged(const situ_storage *to, const situ_storage *from) {
  const situ_backend *target = situ__backend(to->device), *source = situ__backend(from->device);
  return !source->host_memory && !target->host_memory && !(target == source && target->copy_peer);
}

/* Copies through a staging buffer. In a dry run it only allocates the buffer. */
static situ_status copy_staged(const char *op, situ_storage *to, size_t to_at, const situ_storage *from, size_t from_at,
                               size_t bytes, situ__copy_reason why) {
  size_t most = bytes < STAGE ? bytes : STAGE;
  situ_storage *stage = situ__storage_new(op, host, most);
  situ_status status = stage ? SITU_OK : situ_error();
  for (size_t done = 0; status == SITU_OK && done < bytes && !situ__is_dry(); done += most) {
    size_t part = bytes - done < most ? bytes - done : most;
    status = copy_out(op, from, from_at + done, stage->data, part, why);
    if (status == SITU_OK) status = copy_in(op, to, to_at + done, stage->data, part, why);
  }
  situ__storage_release(stage);
  return status;
}

situ_status situ__copy_storage_of(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                                  size_t bytes, situ__copy_reason why, situ_storage *about, size_t at) {
  situ_status status = check_target(op, to, to_at, bytes);
  if (status == SITU_OK) status = situ__check_range(op, from, from_at, bytes);
  if (status != SITU_OK || bytes == 0) return status;
  if (situ__is_dry() && is_staged(to, from)) status = copy_staged(op, to, to_at, from, from_at, bytes, why);
  if (status != SITU_OK) return status;
  if (situ__is_dry()) return situ__dry_copy(op, from, to, bytes);
  if (is_guarded() && (status = situ__guard_copy(op, from->device, to->device, bytes, why, about)) != SITU_OK)
    return status;
  const situ_backend *target = situ__backend(to->device), *source = situ__backend(from->device);
  if (situ__is_profiled()) situ__profile_start();
  if (source->host_memory) {
    status = copy_in(op, to, to_at, (const char *)from->data + from_at, bytes, why);
  } else if (target->host_memory) {
    status = copy_out(op, from, from_at, (char *)to->data + to_at, bytes, why);
  } else if (!is_staged(to, from)) {
    uint64_t before = situ__error_count();
    status = target->copy_peer(to->device.index, to->data, to_at, from->device.index, from->data, from_at, bytes);
    /* LOST does not say which of the two devices is lost: ask the source. */
    bool source_gone =
        status == SITU_E_LOST && source->synchronize && source->synchronize(from->device.index) == SITU_E_LOST;
    bool target_gone = !source_gone || (target->lost && target->lost(to->device.index));
    if (status != SITU_OK && source_gone)
      (void)situ__device_failed(op, from->device, status, before, describe_reason(why));
    if (status != SITU_OK && target_gone)
      (void)situ__device_failed(op, to->device, status, before, describe_reason(why));
  } else {
    status = copy_staged(op, to, to_at, from, from_at, bytes, why);
  }
  if (status == SITU_OK && situ__verifies())
    status = situ__verify_copy(op, side_of(from, from_at), side_of(to, to_at), bytes, about);
  if (status != SITU_OK) return status;
  count_write(to, to_at, bytes);
  return situ__record_copy(op, from->device, to->device, bytes, about, at, false, why);
}

situ_status situ__copy_storage_later(const char *op, situ_storage *to, situ_storage *from, size_t from_at, size_t bytes,
                                     situ__copy_reason why, situ_storage *about, size_t at) {
  const situ_backend *target = situ__backend(to->device), *source = situ__backend(from->device);
  const bool sends = source->host_memory && target->send, fetches = target->host_memory && source->fetch,
             crosses = source == target && target->send_peer;
  if (situ__is_dry() || situ__is_profiled() || situ__verifies() || is_guarded() || !bytes ||
      !(sends || fetches || crosses))
    return situ__copy_storage_of(op, to, 0, from, from_at, bytes, why, about, at);
  situ_status status = check_target(op, to, 0, bytes);
  if (status == SITU_OK) status = situ__check_range(op, from, from_at, bytes);
  if (status != SITU_OK) return status;
  const uint64_t before = situ__error_count();
  if (fetches) status = situ__expect_arrival(op, to, from, from_at, bytes);
  else if (crosses)
    status = target->send_peer(to->device.index, to->data, 0, from->device.index, from->data, from_at, bytes);
  else status = target->send(to->device.index, to->data, 0, (const char *)from->data + from_at, bytes);
  if (status != SITU_OK)
    return situ__device_failed(op, fetches ? from->device : to->device, status, before, describe_reason(why));
  situ__storage_wrote(to);
  return situ__record_copy(op, from->device, to->device, bytes, about, at, false, why);
}

situ_status situ__copy_storage(const char *op, situ_storage *to, size_t to_at, situ_storage *from, size_t from_at,
                               size_t bytes, situ__copy_reason why) {
  return situ__copy_storage_of(op, to, to_at, from, from_at, bytes, why, from, from_at);
}
