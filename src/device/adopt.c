/* Devices of the program: adopted, listed with what lives on them, and given back.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "base/text.h"
#include "device/block_cache.h"

/* A storage that was made on an adopted device. There is no list of other storages: only these devices ask for it. */
struct situ_seat {
  situ_storage *storage;
  struct situ_seat *next, **link;
};

static struct {
  uint8_t state; /* a situ__adoption */
  void *site;    /* of the call that adopted it, or gave it back */
} adoptions[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];

static situ__mutex lock = SITU__MUTEX_INIT; /* guards changes of the adoptions, and the list of seats */
static struct situ_seat *seats;

situ__adoption situ__device_adoption(situ_device device, void **site) {
  *site = NULL;
  if (device.kind >= SITU_DEVICE_KINDS || device.index >= SITU__DEVICES_MAX) return SITU__NOT_ADOPTED;
  const uint8_t state = __atomic_load_n(&adoptions[device.kind][device.index].state, __ATOMIC_ACQUIRE);
  if (state != SITU__NOT_ADOPTED) *site = __atomic_load_n(&adoptions[device.kind][device.index].site, __ATOMIC_RELAXED);
  return (situ__adoption)state;
}

static situ__adoption adoption_of(situ_device device) {
  void *site;
  return situ__device_adoption(device, &site);
}

static void set_adoption(situ_device device, situ__adoption state, void *site) {
  __atomic_store_n(&adoptions[device.kind][device.index].site, site, __ATOMIC_RELAXED);
  __atomic_store_n(&adoptions[device.kind][device.index].state, (uint8_t)state, __ATOMIC_RELEASE);
}

/* Returns false, with nothing changed, if it is in another state. */
static bool change_adoption(situ_device device, situ__adoption from, situ__adoption to) {
  situ__mutex_lock(&lock);
  const bool is = adoption_of(device) == from;
  if (is) set_adoption(device, to, adoptions[device.kind][device.index].site);
  situ__mutex_unlock(&lock);
  return is;
}

/* ---- what lives there ---- */

bool situ__seat_take(const char *op, situ_storage *storage) {
  storage->seat = NULL;
  if (adoption_of(storage->device) != SITU__ADOPTED) return true;
  struct situ_seat *seat = situ__small_alloc(sizeof *seat);
  if (!seat && op) situ__no_memory(op, sizeof *seat);
  if (!seat) return false;
  situ__mutex_lock(&lock);
  *seat = (struct situ_seat){ storage, seats, &seats };
  if (seats) seats->link = &seat->next;
  seats = storage->seat = seat;
  situ__mutex_unlock(&lock);
  return true;
}

void situ__seat_swap(situ_storage *a, situ_storage *b) {
  if (!a->seat && !b->seat) return;
  situ__mutex_lock(&lock);
  struct situ_seat *seat = a->seat;
  a->seat = b->seat;
  b->seat = seat;
  if (a->seat) a->seat->storage = a;
  if (b->seat) b->seat->storage = b;
  situ__mutex_unlock(&lock);
}

void situ__seat_leave(situ_storage *storage) {
  struct situ_seat *seat = storage->seat;
  if (!seat) return;
  situ__mutex_lock(&lock);
  *seat->link = seat->next;
  if (seat->next) seat->next->link = seat->link;
  situ__mutex_unlock(&lock);
  situ__small_free(seat, sizeof *seat);
  storage->seat = NULL;
}

/* Adds the first few storages on the device to the text; returns how many there are. shown: those that have tensors;
   else those that have none, which are a graph's. */
static int describe_some(situ_device device, bool shown, situ__text *text) {
  enum { NAMED = 4 };
  int count = 0;
  situ__mutex_lock(&lock);
  for (struct situ_seat *seat = seats; seat; seat = seat->next) {
    situ_storage *s = seat->storage;
    const bool is = __atomic_load_n(&s->handles, __ATOMIC_RELAXED) != NULL;
    if (is != shown || !situ__same_device(s->device, device) || ++count > NAMED) continue;
    situ__described d = { "memory of a graph or of a transfer", "" };
    situ__device_up.describe_storage(s, &d);
    situ__text_add(text, "%s%s%s", count > 1 ? "; " : "", d.what, d.where);
  }
  situ__mutex_unlock(&lock);
  if (count > NAMED) situ__text_add(text, "; and %d more", count - NAMED);
  return count;
}

static int describe_living(situ_device device, situ__text *text) {
  const int count = describe_some(device, true, text);
  return count ? count : describe_some(device, false, text);
}

/* ---- adopting and giving back ---- */

/* Takes the first index of the kind that is free; the device's index is SITU__DEVICES_MAX if there is none. */
static situ_device take_index(situ_device_kind kind, const situ_backend *backend) {
  const char *reason;
  situ_device device = { (uint16_t)kind, 0 };
  const int count = backend->count(&reason);
  situ__mutex_lock(&lock);
  for (; device.index < SITU__DEVICES_MAX; device.index++) {
    const situ__adoption is = adoption_of(device);
    if (is == SITU__GIVEN_BACK || (is == SITU__NOT_ADOPTED && device.index >= count)) break;
  }
  if (device.index < SITU__DEVICES_MAX) set_adoption(device, SITU__ADOPTION_CHANGES, NULL);
  situ__mutex_unlock(&lock);
  return device;
}

/* Of what the program gives, or (foreign is NULL) of one more queue of a device. */
static situ_status add_device(const char *op, situ_device_kind kind, const situ_foreign *foreign, situ_device from,
                              situ_device *out) {
  const situ_backend *backend = situ__backend((situ_device){ (uint16_t)kind, 0 });
  void *site = situ__call_site();
  const char *reason;
  const situ_device device = take_index(kind, backend);
  if (device.index >= SITU__DEVICES_MAX)
    return situ__fail(SITU_E_LIMIT, op, "there are %d %s devices; give one back with situ_device_abandon",
                      SITU__DEVICES_MAX, situ__kind_name(kind));
  const uint64_t before = situ__error_count();
  const situ_status status =
      foreign ? backend->adopt(device.index, foreign) : backend->open_queue(from.index, device.index);
  if (status != SITU_OK) (void)situ__device_failed(op, device, status, before, "adopting it");
  situ__device_found(device); /* the next one that is adopted here is not lost */
  const bool counted = device.index < backend->count(&reason);
  set_adoption(device, status == SITU_OK ? SITU__ADOPTED : counted ? SITU__GIVEN_BACK : SITU__NOT_ADOPTED, site);
  if (status != SITU_OK) return status;
  *out = device;
  return SITU_OK;
}

situ_status situ_device_adopt(const situ_foreign *foreign, situ_device *out) {
  const char *op = "device_adopt";
  if (!foreign) return situ__null(op, "foreign");
  if (!out) return situ__null(op, "out");
  const char *kind = situ__kind_name(foreign->kind);
  if (!kind || foreign->kind == SITU_DEVICE_DEFAULT)
    return situ__fail(SITU_E_ARG, op, "foreign->kind is %d, which is not a kind of device; set it to SITU_OPENCL",
                      (int)foreign->kind);
  const situ_backend *backend = situ__backend((situ_device){ (uint16_t)foreign->kind, 0 });
  if (!backend || !backend->adopt)
    return situ__fail(SITU_E_UNSUPPORTED, op, "no context and queue of %s can be adopted: %s", kind,
                      backend ? "its backend cannot" : situ_device_status(kind));
  if (!foreign->alloc != !foreign->free)
    return situ__fail(SITU_E_ARG, op, "foreign->%s is NULL; give both functions of the allocator, or none",
                      foreign->alloc ? "free" : "alloc");
  if (situ__forked()) return situ__check_usable(op, (situ_device){ (uint16_t)foreign->kind, 0 });
  return add_device(op, foreign->kind, foreign, (situ_device){ 0 }, out);
}

situ_status situ_device_open_queue(situ_device device, situ_device *out) {
  const char *op = "device_open_queue";
  char name[SITU_DEVICE_NAME_MAX];
  if (!out) return situ__null(op, "out");
  if (!situ__device_resolve(op, device, &device) || situ__device_usable(op, device) != SITU_OK) return situ_error();
  if (!situ__backend(device)->open_queue)
    return situ__fail(SITU_E_UNSUPPORTED, op, "%s has no queues", situ_device_name(device, name));
  return add_device(op, device.kind, NULL, device, out);
}

/* Frees what the library keeps there, then the device itself. */
static situ_status give_back(const char *op, situ_device device) {
  const uint64_t before = situ__error_count();
  situ__block_cache *blocks = situ__block_cache_of(device);
  if (blocks) {
    (void)situ__block_cache_empty(blocks);
    situ__block_cache_forget(blocks);
    situ__block_cache_limit(blocks, SIZE_MAX);
  }
  const situ_status status = situ__backend(device)->abandon(device.index);
  situ__device_found(device); /* one that is adopted here later is not lost */
  set_adoption(device, SITU__GIVEN_BACK, situ__call_site());
  return status == SITU_OK ? SITU_OK : situ__device_failed(op, device, status, before, "queued work");
}

situ_status situ_device_abandon(situ_device device) {
  const char *op = "device_abandon";
  char name[SITU_DEVICE_NAME_MAX];
  if (!situ__device_there(op, device)) return situ_error();
  if (situ__forked()) return situ__check_usable(op, device);
  const situ_status arrived = situ__device_up.finish_arrivals(op, device);
  if (arrived != SITU_OK) return arrived;
  if (!change_adoption(device, SITU__ADOPTED, SITU__ADOPTION_CHANGES))
    return situ__fail(SITU_E_ARG, op, "%s is not a device of the program: situ has opened it itself",
                      situ_device_name(device, name));
  situ__text text = { 0 };
  const int living = describe_living(device, &text);
  if (!living) return give_back(op, device);
  (void)change_adoption(device, SITU__ADOPTION_CHANGES, SITU__ADOPTED);
  const situ_status status = situ__fail(SITU_E_STATE, op, "%d tensor%s on %s: %s; free or move %s first", living,
                                        living == 1 ? " lives" : "s live", situ_device_name(device, name),
                                        text.data ? text.data : "", living == 1 ? "it" : "them");
  situ__text_free(&text);
  return status;
}

/* ---- events --------------------------------------------------------------------------------- */

/* Of devices whose work is done when a call returns. */
static const char complete;

/* Returns the backend of a device that takes events; NULL after recording an error. */
static const situ_backend *backend_of_events(const char *op, situ_device *device, const void *event) {
  char name[SITU_DEVICE_NAME_MAX];
  if (!event) return situ__null(op, "event"), NULL;
  if (!situ__device_resolve(op, *device, device) || situ__device_usable(op, *device) != SITU_OK) return NULL;
  const situ_backend *backend = situ__backend(*device);
  if (backend->wait_event || (backend->host_memory && event == &complete)) return backend;
  if (backend->host_memory)
    return situ__fail(SITU_E_ARG, op, "event is not one of %s; record it with situ_device_record_event",
                      situ_device_name(*device, name)),
           NULL;
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s has no events", situ_device_name(*device, name)), NULL;
}

static situ_status end_event(const char *op, situ_device device, situ_status status, uint64_t before) {
  return status == SITU_OK ? SITU_OK : situ__device_failed(op, device, status, before, "an event");
}

situ_status situ_device_wait_event(situ_device device, void *event) {
  const char *op = "device_wait_event";
  const situ_backend *backend = backend_of_events(op, &device, event);
  if (!backend) return situ_error();
  const uint64_t before = situ__error_count();
  return backend->wait_event ? end_event(op, device, backend->wait_event(device.index, event), before) : SITU_OK;
}

situ_status situ_device_record_event(situ_device device, void **event) {
  const char *op = "device_record_event";
  if (!event) return situ__null(op, "event");
  const situ_backend *backend = backend_of_events(op, &device, &complete);
  if (!backend) return situ_error();
  const uint64_t before = situ__error_count();
  if (backend->record_event) return end_event(op, device, backend->record_event(device.index, event), before);
  *event = (void *)(uintptr_t)&complete;
  return SITU_OK;
}

situ_status situ_device_query_event(situ_device device, void *event, bool *done) {
  const char *op = "device_query_event";
  if (!done) return situ__null(op, "done");
  const situ_backend *backend = backend_of_events(op, &device, event);
  if (!backend) return situ_error();
  const uint64_t before = situ__error_count();
  if (backend->query_event) return end_event(op, device, backend->query_event(device.index, event, done), before);
  *done = true;
  return SITU_OK;
}

situ_status situ_device_release_event(situ_device device, void *event) {
  const char *op = "device_release_event";
  const situ_backend *backend = backend_of_events(op, &device, event);
  if (!backend) return situ_error();
  const uint64_t before = situ__error_count();
  return backend->release_event ? end_event(op, device, backend->release_event(device.index, event), before) : SITU_OK;
}
