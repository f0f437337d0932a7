/* Device maps by path: "encoder.*=cuda:0, head=cpu".
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "place/place.h"

/* True if the pattern matches the whole text. `*` matches any text, including dots. */
static bool glob(const char *pattern, int length, const char *text, int size) {
  int star = -1, resume = 0, p = 0, t = 0;
  while (t < size) {
    if (p < length && pattern[p] == '*') {
      star = p++;
      resume = t;
    } else if (p < length && pattern[p] == text[t]) {
      p++;
      t++;
    } else if (star >= 0) { /* lets the last star match one character more */
      p = star + 1;
      t = ++resume;
    } else {
      return false;
    }
  }
  while (p < length && pattern[p] == '*') p++;
  return p == length;
}

const situ__map_rule *situ__device_map_find(const situ__device_map *map, const char *path) {
  for (int64_t i = 0; i < map->count; i++) {
    situ__map_rule *rule = &map->rule[i];
    for (const char *end = path;; end++) {
      if (*end && *end != '.') continue;
      if (glob(rule->pattern, rule->length, path, (int)(end - path))) {
        rule->matches++;
        return rule;
      }
      if (!*end) break;
    }
  }
  return NULL;
}

situ_status situ__device_map_used(const char *op, const situ__device_map *map, const char *what) {
  for (int64_t i = 0; i < map->count; i++)
    if (!map->rule[i].matches)
      return situ__fail(SITU_E_ARG, op, "\"%.*s\" matches no %s (or an earlier pattern has them all)",
                        map->rule[i].length, map->rule[i].pattern, what);
  return SITU_OK;
}

static const char *skip(const char *at, const char *end) {
  while (at < end && (*at == ' ' || *at == '\t' || *at == '\n')) at++;
  return at;
}

static const char *trim(const char *at, const char *end) {
  while (end > at && (end[-1] == ' ' || end[-1] == '\t' || end[-1] == '\n')) end--;
  return end;
}

/* Parses "pattern=device" between two addresses. */
static bool parse_rule(const char *op, const char *at, const char *end, situ__map_rule *rule) {
  char name[64];
  at = skip(at, end);
  end = trim(at, end);
  const char *equals = memchr(at, '=', (size_t)(end - at));
  const char *stop = equals ? trim(at, equals) : at, *device = equals ? skip(equals + 1, end) : end;
  if (!equals || stop == at || device == end || end - device >= (int64_t)sizeof name)
    return situ__fail(SITU_E_ARG, op, "\"%.*s\" in a device map must be pattern=device", (int)(end - at), at), false;
  memcpy(name, device, (size_t)(end - device));
  name[end - device] = 0;
  *rule = (situ__map_rule){ .pattern = at, .length = (int)(stop - at) };
  return situ_device_parse(name, &rule->device) == SITU_OK;
}

bool situ__device_map_parse(const char *op, const char *text, situ__device_map *map) {
  *map = (situ__device_map){ 0 };
  int64_t rules = 1;
  for (const char *c = text; *c; c++) rules += *c == ',';
  map->rule = situ__alloc((size_t)rules * sizeof *map->rule);
  if (!map->rule) return situ__no_memory(op, (size_t)rules * sizeof *map->rule), false;
  for (const char *at = text; map->count < rules; map->count++) {
    const char *end = at + strcspn(at, ",");
    if (!parse_rule(op, at, end, &map->rule[map->count])) return false;
    at = end + (*end == ',');
  }
  return true;
}

void situ__device_map_free(situ__device_map *map) {
  situ__free(map->rule);
  *map = (situ__device_map){ 0 };
}
