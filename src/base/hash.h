/* FNV-1a: a hash of bytes that a file can make collide. Source: draft-eastlake-fnv, 64 bits.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_HASH_H
#define SITU_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define SITU__HASH 0xcbf29ce484222325u /* of no bytes */

/* The hash of what had `hash` and these bytes. */
static inline uint64_t situ__hash(uint64_t hash, const void *data, size_t bytes) {
  for (const unsigned char *c = data; bytes--; c++) hash = (hash ^ *c) * 0x100000001b3u;
  return hash;
}

static inline uint64_t situ__hash_text(const char *text) {
  uint64_t hash = SITU__HASH;
  for (; *text; text++) hash = situ__hash(hash, text, 1);
  return hash;
}

#endif
