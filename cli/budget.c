/* The options --memory and --devices: devices, not necessarily of this machine, and their limits.
   SPDX-License-Identifier: MIT */
#include <situ/place.h>
#include <stdio.h>
#include <string.h>

#include "cli.h"
#include "plan.h"

static bool wrong(const char *item, size_t length, const char *why) {
  char shown[CLI_SHOWN];
  fprintf(stderr, "situ: --memory: '%s' %s\n", cli_shown(item, length, shown), why);
  return false;
}

/* Bytes of one unit; 0: there is no such unit. */
static uint64_t unit_of(const char *name, size_t length) {
  static const struct {
    const char *name;
    uint64_t bytes;
  } units[] = {
    { "", 1 },
    { "B", 1 },
    { "KiB", 1ull << 10 },
    { "MiB", 1ull << 20 },
    { "GiB", 1ull << 30 },
    { "TiB", 1ull << 40 },
    { "KB", 1000 },
    { "MB", 1000000 },
    { "GB", 1000000000 },
    { "TB", 1000000000000 },
  };
  for (size_t i = 0; i < sizeof units / sizeof *units; i++)
    if (strlen(units[i].name) == length && memcmp(units[i].name, name, length) == 0) return units[i].bytes;
  return 0;
}

/* Parses "8GiB", "1.5GB", "4096". Returns NULL, or the error as a text. */
static const char *read_bytes(const char *text, size_t length, uint64_t *out) {
  const char *at = text, *end = text + length;
  uint64_t whole = 0, part = 0, of = 1, unit, more;
  if (at == end || *at < '0' || *at > '9') return "has no number of bytes after the =";
  for (; at < end && *at >= '0' && *at <= '9'; at++)
    if (__builtin_mul_overflow(whole, 10u, &whole) || __builtin_add_overflow(whole, (uint64_t)(*at - '0'), &whole))
      return "is more than 2^64 bytes";
  if (at < end && *at == '.')
    for (at++; at < end && *at >= '0' && *at <= '9'; at++)
      if (of < 1000) part = 10 * part + (uint64_t)(*at - '0'), of *= 10;
  unit = unit_of(at, (size_t)(end - at));
  if (!unit) return "has an unknown unit (B, KiB, MiB, GiB, TiB, KB, MB, GB, TB)";
  more = unit / of * part + unit % of * part / of;
  if (__builtin_mul_overflow(whole, unit, &whole) || __builtin_add_overflow(whole, more, out))
    return "is more than 2^64 bytes";
  return *out ? NULL : "has 0 bytes";
}

static bool read_device(plan *p, const char *item, size_t length) {
  const char *equals = memchr(item, '=', length);
  plan_device d = { .used = 0 };
  size_t name = equals ? (size_t)(equals - item) : length;
  if (!equals) return wrong(item, length, "is not DEVICE=BYTES, as in cuda:0=8GiB");
  if (name < sizeof d.name) memcpy(d.name, item, name);
  if (name >= sizeof d.name || situ_place_device(d.name, &d.device) != SITU_OK)
    return wrong(item, length, "is not the name of a device (cpu, cuda:0, opencl:1, sim:0)");
  if (d.device.kind == SITU_META) return wrong(item, length, "is not possible: meta has no memory");
  const char *bad = read_bytes(equals + 1, length - name - 1, &d.limit);
  if (bad) return wrong(item, length, bad);
  situ_device_name(d.device, d.name);
  for (int i = 0; i < p->devices; i++)
    if (situ_device_equal(p->device[i].device, d.device))
      return wrong(item, length, "is a device that was given already");
  if (p->devices == PLAN_DEVICES) return wrong(item, length, "has too many devices: at most 64");
  p->device[p->devices++] = d;
  return true;
}

static bool add_planned(const char *profile, plan *p) {
  if (situ_plan_devices(profile) != SITU_OK) {
    fprintf(stderr, "situ: --devices: %s\n", situ_error_message());
    return false;
  }
  const int count = situ_device_count("plan");
  for (int i = 0; i < count; i++) {
    plan_device *d = &p->device[p->devices++];
    situ_device_properties has;
    *d = (plan_device){ .device = { SITU_PLAN, (uint16_t)i } };
    if (situ_device_info(d->device, &has) != SITU_OK) return false;
    d->limit = has.memory_total;
    situ_device_name(d->device, d->name);
  }
  if (!count) fprintf(stderr, "situ: --devices: the profile has no device\n");
  return count > 0;
}

bool plan_read_memory(const char *profile, const char *text, plan *p) {
  if (profile && !add_planned(profile, p)) return false;
  for (const char *at = text; at; at++) {
    size_t length = strcspn(at, ",");
    if (!read_device(p, at, length)) return false;
    at += length;
    if (!*at) return true;
  }
  return true;
}
