/* The registry: the kinds of device that this process has, and the thread's default device.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/fork.h"
#include "device/device.h"

static const situ_backend *backends[SITU_DEVICE_KINDS];
static char missing[SITU_DEVICE_KINDS][512]; /* why a kind has no backend */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void open_backends(void) {
  backends[SITU_META] = situ__device_up.meta;
  backends[SITU_SIM] = situ__device_up.sim();
  backends[SITU_PLAN] = situ__device_up.plan();
  for (unsigned kind = SITU_OPENCL; kind <= SITU_CUDA; kind++)
    backends[kind] =
        situ__module_open(situ__kind_name(kind), (situ_device_kind)kind, missing[kind], sizeof missing[kind]);
}

const situ_backend *situ__backend_opened(situ_device device) {
  if (device.kind == SITU_CPU) return situ__device_up.cpu;
  if (device.kind >= SITU_DEVICE_KINDS) return NULL;
  (void)pthread_once(&once, open_backends);
  return backends[device.kind];
}

/* Whether the program has taken the device back, or is about to. */
static bool is_away(situ_device device) {
  void *site;
  return situ__device_adoption(device, &site) >= SITU__ADOPTION_CHANGES;
}

/* Returns how many devices a kind has, and sets the reason. */
static int count_of(unsigned kind, const char **reason) {
  const situ_backend *backend = situ__backend((situ_device){ (uint16_t)kind, 0 });
  if (!backend) {
    *reason = missing[kind];
    return 0;
  }
  int count = backend->count(reason);
  count = count < 0 ? 0 : count > SITU__DEVICES_MAX ? SITU__DEVICES_MAX : count;
  while (count && is_away((situ_device){ (uint16_t)kind, (uint16_t)(count - 1) })) count--;
  return count;
}

/* Returns the kind that the first `length` characters name; 0 if none. */
static unsigned kind_of(const char *name, size_t length) {
  for (unsigned kind = SITU_CPU; name && kind < SITU_DEVICE_KINDS; kind++) {
    const char *known = situ__kind_name(kind);
    if (strlen(known) == length && memcmp(name, known, length) == 0) return kind;
  }
  return 0;
}

int situ_device_count(const char *kind) {
  const char *reason;
  unsigned known = kind_of(kind, kind ? strlen(kind) : 0);
  return known ? count_of(known, &reason) : 0;
}

/* Returns the status of one device, whose index begins at `digits`; `reason` is that of its kind. */
static const char *status_of(unsigned kind, const char *digits, int count, const char *reason) {
  size_t length = strspn(digits, "0123456789");
  if (length == 0 || length > 2 || digits[length]) return "no device's name: a kind, or a kind, a colon and an index";
  int index = length == 2 ? (digits[0] - '0') * 10 + digits[1] - '0' : digits[0] - '0';
  if (index >= count) return reason;
  situ_device device = { (uint16_t)kind, (uint16_t)index };
  if (is_away(device)) return "the program has it back";
  if (kind == SITU_PLAN) return reason;
  if (!situ__device_lost(device)) return "it is there";
  const situ_backend *backend = situ__backend(device);
  const char *why = backend->lost ? backend->lost(index) : NULL;
  return why ? why : "it is lost";
}

const char *situ_device_status(const char *kind) {
  const char *reason = NULL;
  size_t length = kind ? strcspn(kind, ":") : 0;
  unsigned known = kind_of(kind, length);
  if (!known) return "no such kind of device (cpu, meta, sim, opencl, cuda, plan)";
  int count = count_of(known, &reason);
  if (!reason) reason = "the backend does not say";
  return kind[length] ? status_of(known, kind + length + 1, count, reason) : reason;
}

bool situ_device_is_available(situ_device device) {
  const char *reason;
  if (device.kind == SITU_DEVICE_DEFAULT) device = situ_get_default_device();
  return device.kind < SITU_DEVICE_KINDS && device.index < count_of(device.kind, &reason) && !is_away(device);
}

bool situ_cuda_is_available(void) { return situ_device_count("cuda") > 0; }

/* ---- resolving devices ---- */

static bool refuse_device(const char *op, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  const char *reason = "";
  if (device.kind == SITU_DEVICE_KINDS) {
    /* situ_dev has recorded the reason. After a clear, this value must still be an error. */
    if (situ_error() != SITU_OK) situ__null(op, "device");
    else situ__fail(SITU_E_ARG, op, "the device is one whose name was refused");
  } else if (device.kind > SITU_DEVICE_KINDS || device.kind == SITU_DEVICE_DEFAULT) {
    situ__fail(SITU_E_ARG, op, "%u is not a kind of device", device.kind);
  } else {
    char line[256];
    void *site;
    int count = count_of(device.kind, &reason);
    situ_device_name(device, name);
    if (situ__device_adoption(device, &site) == SITU__GIVEN_BACK && site)
      situ__fail(SITU_E_ARG, op, "%s is not there: it was given back at %s", name,
                 situ__site_text(site, line, sizeof line));
    else situ__fail(count ? SITU_E_ARG : SITU_E_UNSUPPORTED, op, "%s is not there: %s", name, reason);
  }
  return false;
}

static SITU_COLD bool refuse_unstated(const char *op) {
  return situ__fail(SITU_E_DEVICE, op, "no device was stated, and this thread's policy forbids an unstated one"), false;
}

bool situ__device_resolve(const char *op, situ_device wanted, situ_device *out) {
  if (wanted.kind == SITU_DEVICE_DEFAULT && wanted.index == 0) {
    if (situ__unstated_forbidden()) return refuse_unstated(op);
    wanted = situ_get_default_device();
  }
  bool there = wanted.kind == SITU_CPU ? wanted.index == 0
                                       : wanted.kind != SITU_DEVICE_DEFAULT && situ_device_is_available(wanted);
  if (!there) return refuse_device(op, wanted);
  *out = wanted;
  return true;
}

bool situ__device_there(const char *op, situ_device device) {
  if (device.kind == SITU_CPU && device.index == 0) return true;
  return (device.kind != SITU_DEVICE_DEFAULT && situ_device_is_available(device)) || refuse_device(op, device);
}

situ_device situ_get_default_device(void) {
  const situ_device stated = situ__setting.device;
  return stated.kind == SITU_DEVICE_DEFAULT ? (situ_device){ SITU_CPU, 0 } : stated;
}

situ_status situ_set_default_device(situ_device device) {
  if (device.kind == SITU_DEVICE_DEFAULT && device.index == 0) {
    situ__setting.device = device;
    return SITU_OK;
  }
  return situ__device_resolve("set_default_device", device, &situ__setting.device) ? SITU_OK : situ_error();
}

situ_status situ_device_info(situ_device device, situ_device_properties *out) {
  if (!out) return situ__null("device_info", "out");
  if (!situ__device_resolve("device_info", device, &device)) return situ_error();
  const situ_backend *backend = situ__backend(device);
  situ_device_properties found = { 0 };
  uint64_t before = situ__error_count();
  situ_status status = backend->info ? backend->info(device.index, &found) : SITU_E_UNSUPPORTED;
  if (status != SITU_OK) return situ__device_failed("device_info", device, status, before, "asking for its properties");
  int64_t used, cached;
  situ__memory_stats(device, &used, &cached);
  found.memory_used = used > 0 ? (uint64_t)used : 0;
  found.memory_cached = cached > 0 ? (uint64_t)cached : 0;
  found.memory_reserved = situ__memory_reserved(device);
  size_t limit = situ__memory_limit(device);
  if (limit != SIZE_MAX && (!found.memory_total || limit < found.memory_total)) found.memory_total = limit;
  *out = found;
  return SITU_OK;
}
