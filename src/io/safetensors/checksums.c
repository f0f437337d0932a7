/* The checksums in a safetensors header: one for each tensor's data, and one for the header itself.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/crc32c.h"
#include "header.h"

static uint32_t add_text(uint32_t crc, const char *text) { return situ__crc32c(crc, text, strlen(text) + 1); }

uint32_t situ__header_digest(const situ__header *header, const uint32_t *sum) {
  uint32_t crc = 0;
  for (int64_t i = 0; i < header->count; i++) {
    const situ_file_entry *e = &header->entry[i];
    crc = add_text(add_text(crc, e->name), e->type);
    crc = situ__crc32c(crc, &e->shape.ndim, sizeof e->shape.ndim);
    crc = situ__crc32c(crc, e->shape.dim, (size_t)e->shape.ndim * sizeof *e->shape.dim);
    crc = situ__crc32c(crc, &sum[i], sizeof sum[i]);
  }
  for (int64_t i = 0; i < header->metadata_count; i++) {
    if (strcmp(header->metadata[i].key, SITU__CHECKSUM_KEY) == 0) continue;
    crc = add_text(add_text(crc, header->metadata[i].key), header->metadata[i].value);
  }
  return crc;
}

/* Eight lower-case hex digits. */
static bool read_hex(const char *text, uint32_t *out) {
  uint32_t value = 0;
  for (int i = 0; i < 8; i++) {
    char c = text[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  *out = value;
  return true;
}

bool situ__header_checksums(const situ__header *header, uint32_t *sum, bool *have, situ__problem *problem) {
  const char *text = situ__header_metadata(header, SITU__CHECKSUM_KEY);
  *have = text != NULL;
  if (!text) return true;
  uint32_t digest;
  bool fine = strlen(text) == 8 * ((size_t)header->count + 1) && read_hex(text, &digest);
  for (int64_t i = 0; fine && i < header->count; i++) fine = read_hex(text + 8 * (i + 1), &sum[i]);
  if (fine && situ__header_digest(header, sum) == digest) return true;
  return situ__problem_set(problem, SITU_E_FORMAT,
                           "has a header that does not match its checksum: it is damaged, or was "
                           "changed by a program that left the remark " SITU__CHECKSUM_KEY " as it was");
}
