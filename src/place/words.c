/* Texts for bytes, roles and names, and their output.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/problem.h"
#include "base/utf8.h"
#include "place/draw/snapshot.h"
#include "situ/sys/part.h"
#include "situ/sys/tensor.h"

const char *situ__place_role(situ_place_role role) {
  static const char *const word[SITU_PLACE_ROLES] = {
    [SITU_PLACE_MODULE] = "module",       [SITU_PLACE_PARAMETER] = "parameter", [SITU_PLACE_BUFFER] = "buffer",
    [SITU_PLACE_TRANSIENT] = "transient", [SITU_PLACE_TENSOR] = "tensor",       [SITU_PLACE_GRAD] = "gradient",
    [SITU_PLACE_STATE] = "state",         [SITU_PLACE_PLAIN] = "plain",
  };
  return word[role];
}

/* ---- reasons --------------------------------------------------------------------------------- */

bool situ__place_is_reason(const char *word) {
  static const char *const all[] = { "made", "default", "moved", "mapped", "loaded" };
  bool is = false;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) is = is || strcmp(word, all[i]) == 0;
  return is;
}

bool situ__place_reason(const char *op, const situ_tensor *t, situ_facts *facts, situ_place_entry *e) {
  if (!situ_facts_of(op, t, facts)) return false;
  e->by = facts->moved_by;
  e->at = e->by ? facts->moved : facts->created;
  if (!*e->at) e->at = NULL;
  if (!e->by) e->reason = facts->unstated ? "default" : "made";
  else if (strcmp(e->by, "nn_to_map") == 0) e->reason = "mapped";
  else e->reason = strncmp(e->by, "nn_load", 7) == 0 ? "loaded" : "moved";
  return true;
}

void situ__place_why(situ__text *text, const char *before, const situ_place_entry *e, const char *behind) {
  if (!e->reason) return;
  situ__text_add(text, "%s%s%s", before, e->reason, e->by ? " by " : "");
  if (e->by) situ__place_clean(text, e->by);
  situ__text_add(text, "%s", e->at ? " at " : "");
  if (e->at) situ__place_clean(text, e->at);
  situ__text_add(text, "%s", behind);
}

/* ---- parts of ranks -------------------------------------------------------------------------- */

const char *situ__place_part(const situ_tensor *t, char buffer[SITU__PLACE_PART]) {
  situ_part p;
  if (!situ_part_of(t, &p)) return NULL;
  const int64_t length = p.dim < 0 ? 0 : p.whole.dim[p.dim] / p.blocks;
  int at = snprintf(buffer, SITU__PLACE_PART, "[");
  for (int d = 0; d < p.dim; d++) at += snprintf(buffer + at, 3, ":,");
  for (int b = 0; b < p.blocks && at < SITU__PLACE_PART - 64; b++)
    at += snprintf(buffer + at, 48, "%s%" PRId64 ":%" PRId64, b ? "+" : "", b * length + p.from, b * length + p.to);
  for (int d = p.dim + 1; p.dim >= 0 && d < p.whole.ndim; d++) at += snprintf(buffer + at, 3, ",:");
  (void)snprintf(buffer + at, 2, "]");
  return buffer;
}

uint64_t situ__place_bytes(const situ_tensor *t) {
  situ_part p;
  const uint64_t bytes = situ_memory_is_away(t) ? 0 : situ_desc(t)->storage->bytes;
  if (!situ_part_of(t, &p) || p.dim >= 0) return bytes;
  return bytes + (uint64_t)(p.to - p.from) * situ_dtype_size(situ_dtype_of(t));
}

const char *situ__place_shape(const situ_place_entry *e, char buffer[SITU__PLACE_SHAPE]) {
  char shape[SITU_SHAPE_TEXT];
  (void)snprintf(buffer, SITU__PLACE_SHAPE, "%s%s", situ_shape_text(&e->shape, shape), e->part ? e->part : "");
  return buffer;
}

/* ---- untrusted text -------------------------------------------------------------------------- */

uint32_t situ__place_char(const char *at, size_t *length) {
  const unsigned char *s = (const unsigned char *)at;
  size_t bytes = situ__utf8_character(at, strnlen(at, 4));
  uint32_t code = '?';
  *length = bytes ? bytes : 1;
  if (bytes == 1) code = s[0];
  if (bytes == 2) code = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
  if (bytes == 3) code = (s[0] & 0x0Fu) << 12 | (s[1] & 0x3Fu) << 6 | (s[2] & 0x3Fu);
  if (bytes == 4) code = (s[0] & 0x07u) << 18 | (s[1] & 0x3Fu) << 12 | (s[2] & 0x3Fu) << 6 | (s[3] & 0x3Fu);
  /* C0, DEL, C1, and characters that XML does not allow. */
  bool bad = code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xFFFE || code == 0xFFFF;
  return bad ? '?' : code;
}

void situ__place_clean(situ__text *text, const char *from) {
  for (size_t length; *from; from += length) {
    bool own = situ__place_char(from, &length) != '?';
    situ__text_append(text, own ? from : "?", own ? length : 1);
  }
}

/* ---- names of devices ------------------------------------------------------------------------ */

bool situ__place_device_read(const char *name, situ_device *out) {
  const char *colon = strchr(name, ':');
  unsigned index = 0;
  for (const char *c = colon ? colon + 1 : ""; *c >= '0' && *c <= '9' && index < 6553; c++)
    index = 10 * index + (unsigned)(*c - '0');
  for (uint16_t kind = SITU_CPU; kind < SITU_DEVICE_KINDS; kind++) {
    char text[SITU_DEVICE_NAME_MAX];
    const situ_device device = { kind, (uint16_t)index };
    if (kind <= SITU_META && index > 0) continue; /* there is only one of these */
    /* Only the canonical form is a name; "cuda" is short for cuda:0. */
    situ_device_name(device, text);
    if (!colon) text[strcspn(text, ":")] = 0;
    if (strcmp(name, text) != 0) continue;
    *out = device;
    return true;
  }
  return false;
}

situ_status situ_place_device(const char *name, situ_device *out) {
  static const char op[] = "place_device";
  char shown[SITU__SHOWN_MAX];
  if (!name || !out) return situ__null(op, name ? "out" : "name");
  if (situ__place_device_read(name, out)) return SITU_OK;
  return situ__fail(SITU_E_ARG, op, "'%s' is not a device (cpu, cuda:0, opencl:1, sim:0, meta)",
                    situ__shown(name, shown));
}
