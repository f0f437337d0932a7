/* Dry runs: storages without memory, and the calls of their recorder.
   SPDX-License-Identifier: MIT */
#include "device/dry.h"

#include "base/alloc.h"
#include "base/fail.h"

SITU__THREAD_LOCAL situ_dry *situ__dry;
static SITU__THREAD_LOCAL situ_dry *aside; /* by situ_dry_pause */

/* A storage of a dry run; other storages have no such list. */
typedef struct situ_void {
  situ_storage base;
  situ_dry *dry; /* NULL: its run has ended */
  struct situ_void *next, **link;
  void *note;
} situ_void;

static situ_void *void_of(const situ_storage *storage) { return situ__is_void(storage) ? (situ_void *)storage : NULL; }

situ_storage *situ__dry_storage(const char *op, situ_device device, size_t bytes, uint64_t serial) {
  situ_dry *dry = situ__dry;
  if (device.kind == SITU_META && dry->meta_is.kind) device = dry->meta_is;
  const size_t block = situ__memory_block(bytes);
  if (dry->has_memory && !dry->has_memory(dry, device, block)) return situ__no_memory(op, bytes), NULL;
  situ_void *v = situ__small_alloc(sizeof *v);
  if (!v) return situ__no_memory(op, sizeof *v), NULL;
  *v = (situ_void){ .base = { .bytes = bytes,
                              .device = device,
                              .flags = SITU_STORAGE_UNWRITTEN | SITU_STORAGE_VOID,
                              .refs = 1,
                              .serial = serial },
                    .dry = dry,
                    .next = dry->storages,
                    .link = &dry->storages };
  if (v->next) v->next->link = &v->next;
  dry->storages = v;
  if (dry->made) dry->made(dry, &v->base, block);
  return &v->base;
}

void situ__dry_freed(situ_storage *storage, situ_device device, size_t bytes, bool moved) {
  situ_dry *dry = void_of(storage)->dry;
  const bool part = storage->flags & (SITU_STORAGE_SLICE | SITU_STORAGE_AWAY);
  if (dry && dry->freed) dry->freed(dry, storage, device, part ? 0 : situ__memory_block(bytes), moved);
}

static void be_away(situ_storage *storage, const char *where) {
  storage->flags |= SITU_STORAGE_AWAY | SITU_STORAGE_UNWRITTEN;
  storage->payload = (void *)(uintptr_t)where;
}

void situ__dry_leave(situ_storage *storage, const char *where) {
  situ_storage *shared = storage->flags & SITU_STORAGE_SLICE ? storage->payload : NULL;
  situ__dry_freed(storage, storage->device, storage->bytes, true);
  storage->flags &= ~(uint32_t)SITU_STORAGE_SLICE;
  be_away(storage, where);
  situ__storage_release(shared);
}

void situ__dry_return(situ_storage *storage, situ_storage *source) {
  storage->flags = (storage->flags & ~(uint32_t)(SITU_STORAGE_AWAY | SITU_STORAGE_UNWRITTEN)) |
                   (source->flags & SITU_STORAGE_UNWRITTEN);
  storage->payload = NULL;
  be_away(source, "another tensor has got it");
}

void situ__dry_discard(situ_storage *storage) {
  situ_void *v = void_of(storage);
  if (v->dry) {
    *v->link = v->next;
    if (v->next) v->next->link = v->link;
  }
  situ__small_free(v, sizeof *v);
}

void **situ_dry_note(const situ_storage *storage) {
  situ_void *v = storage ? void_of(storage) : NULL;
  return v && v->dry ? &v->note : NULL;
}

size_t situ_storage_block(const situ_storage *storage) {
  while (storage && storage->flags & SITU_STORAGE_SLICE) storage = storage->payload;
  const bool none = !storage || storage->flags & (SITU_STORAGE_FOREIGN | SITU_STORAGE_SAMPLE | SITU_STORAGE_AWAY);
  return none ? 0 : situ__memory_block(storage->bytes);
}

/* ---- begin and end ---- */

situ_status situ_dry_begin(situ_dry *dry) {
  if (!dry) return situ__null("dry_begin", "dry");
  if (situ__dry) return situ__fail(SITU_E_STATE, "dry_begin", "this thread is in a dry run already");
  dry->storages = NULL;
  dry->findings = 0;
  dry->depth = 0;
  dry->told = dry->blind = false;
  situ__dry = dry;
  return SITU_OK;
}

int64_t situ_dry_end(situ_dry *dry) {
  int64_t kept = 0;
  if (!dry || situ__dry != dry) return 0;
  situ__dry = NULL;
  for (situ_void *v = dry->storages; v; v = v->next, kept++) {
    situ__dry_freed(&v->base, v->base.device, v->base.bytes, false);
    v->dry = NULL;
    v->base.data = NULL;
    v->base.device = (situ_device){ SITU_META, 0 };
  }
  dry->storages = NULL;
  return kept;
}

bool situ_dry_pause(void) {
  if (!situ__dry) return false;
  aside = situ__dry;
  situ__dry = NULL;
  return true;
}

void situ_dry_resume(void) {
  if (aside) situ__dry = aside;
  aside = NULL;
}

void situ_dry_tell(situ_dry *dry) {
  if (!situ__dry || (dry && situ__dry != dry)) return;
  situ__dry_found();
  situ__dry_forget();
}

/* ---- reports to the recorder ---- */

void situ__dry_found(void) {
  situ_dry *dry = situ__dry;
  if (situ_error() == SITU_OK || dry->told) return;
  dry->told = true;
  dry->findings++;
  if (dry->found) dry->found(dry);
}

void situ__dry_forget(void) {
  situ_error_clear();
  situ__dry->told = false;
}

situ_status situ__dry_blind(const char *op) {
  situ__fail(SITU_E_UNSUPPORTED, op, "a dry run has no values, but this call reads them");
  if (situ_error() != SITU_OK && !situ__dry->told) situ__dry->blind = true;
  situ__dry_found();
  situ__dry->blind = false;
  return situ_error();
}

situ_status situ__dry_copy(const char *op, const situ_storage *from, situ_storage *to, size_t bytes) {
  static const situ_device host = { SITU_CPU, 0 };
  situ_dry *dry = situ__dry;
  const situ_dry_copy copy = { .op = op,
                               .from = from ? from->device : host,
                               .to = to ? to->device : host,
                               .bytes = bytes,
                               .site = situ__call_site(),
                               .source = from,
                               .target = to };
  if (dry->copied && !situ_device_equal(copy.from, copy.to)) dry->copied(dry, &copy);
  if (to && dry->loaded && !dry->depth) dry->loaded(dry, op, to);
  if (to && situ__is_void(to)) situ__storage_wrote(to);
  return SITU_OK;
}

bool situ_dry_tell_exchange(const situ_dry_exchange *exchange) {
  if (!situ__dry || !situ__dry->exchanged) return false;
  if (exchange) situ__dry->exchanged(situ__dry, exchange);
  return true;
}

bool situ_is_dry(void) { return situ__is_dry(); }

situ_status situ_dry_refuse(const char *op) {
  if (!situ__given("dry_refuse", "op", op)) return situ_error();
  return situ__is_dry() ? situ__dry_blind(op) : SITU_OK;
}

const char *situ_site_text(void *site, char *buffer, size_t size) {
  return situ__given("site_text", "buffer", buffer) ? situ__site_text(site, buffer, size) : "";
}
