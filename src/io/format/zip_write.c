/* Writes zip files. Formats: APPNOTE 6.3 of PKWARE, sections 4.3.7 to 4.3.16 and 4.5.3 (zip64).
   SPDX-License-Identifier: MIT */
#include "zip_write.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "zip.h"

enum {
  LOCAL = 30,
  CENTRAL = 46,
  ALIGNMENT = 64,
  LONGEST = 512,
  WIDE_VERSION = 45,
  PLAIN_VERSION = 20,
  PAD_ID = 0x4246
};
#define LIMIT32 0xffffffffu

/* A record that is put together field by field. */
typedef struct record {
  unsigned char bytes[CENTRAL + LONGEST + 4 * ALIGNMENT];
  size_t length;
} record;

static void put(record *r, int size, uint64_t value) {
  for (int i = 0; i < size; i++) r->bytes[r->length++] = (unsigned char)(value >> (8 * i));
}
static void put_text(record *r, const char *text) {
  memcpy(r->bytes + r->length, text, strlen(text));
  r->length += strlen(text);
}
static uint64_t narrow(uint64_t value) { return value < LIMIT32 ? value : LIMIT32; }

typedef struct entry {
  const char *name;
  uint64_t bytes, header;
  uint32_t crc;
  bool wide; /* has 64-bit fields */
} entry;

/* What both headers share, from the version that is needed to read the entry to the length of its name. */
static void put_common(record *r, const entry *e) {
  enum { UTF8 = 1 << 11, STORED = 0, TIME = 0, DATE = 1 << 5 | 1 }; /* 1 January 1980 */
  put(r, 2, e->wide ? WIDE_VERSION : PLAIN_VERSION);
  put(r, 2, UTF8);
  put(r, 2, STORED);
  put(r, 2, TIME);
  put(r, 2, DATE);
  put(r, 4, e->crc);
  put(r, 4, e->wide ? LIMIT32 : e->bytes);
  put(r, 4, e->wide ? LIMIT32 : e->bytes);
  put(r, 2, strlen(e->name));
}

/* The extra fields before the data bring it to a multiple of 64. */
static void put_local(record *r, const entry *e) {
  const size_t wide = e->wide ? 4 + 16 : 0;
  const uint64_t data = e->header + LOCAL + strlen(e->name) + wide + 4;
  const size_t pad = (size_t)(-data & (ALIGNMENT - 1));
  put(r, 4, 0x04034b50);
  put_common(r, e);
  put(r, 2, wide + 4 + pad);
  put_text(r, e->name);
  if (e->wide) {
    put(r, 2, 1);
    put(r, 2, 16);
    put(r, 8, e->bytes);
    put(r, 8, e->bytes);
  }
  put(r, 2, PAD_ID);
  put(r, 2, pad);
  memset(r->bytes + r->length, 'Z', pad);
  r->length += pad;
}

static void put_central(record *r, const entry *e) {
  put(r, 4, 0x02014b50);
  put(r, 2, e->wide ? WIDE_VERSION : PLAIN_VERSION);
  put_common(r, e);
  put(r, 2, e->wide ? 4 + 24 : 0);
  put(r, 2, 0); /* comment */
  put(r, 2, 0); /* disk */
  put(r, 2, 0); /* attributes */
  put(r, 4, 0);
  put(r, 4, e->wide ? LIMIT32 : e->header);
  put_text(r, e->name);
  if (!e->wide) return;
  put(r, 2, 1);
  put(r, 2, 24);
  put(r, 8, e->bytes);
  put(r, 8, e->bytes);
  put(r, 8, e->header);
}

static bool keep(situ__zip_writer *w, const record *r) {
  if (!situ__grow(w->file->op, &w->directory, &w->capacity, 1, w->length + r->length)) return false;
  memcpy(w->directory + w->length, r->bytes, r->length);
  w->length += r->length;
  w->count++;
  return true;
}

bool situ__zip_add(situ__zip_writer *w, const char *name, const void *data, size_t bytes) {
  if (strlen(name) > LONGEST)
    return situ__fail(SITU_E_LIMIT, w->file->op, "%s: a name of more than %d bytes", w->file->path, LONGEST), false;
  entry e = { .name = name, .bytes = bytes, .header = (uint64_t)w->file->written, .crc = situ__crc32(0, data, bytes) };
  e.wide = e.bytes >= LIMIT32 || e.header >= LIMIT32;
  record local = { .length = 0 }, central = { .length = 0 };
  put_local(&local, &e);
  put_central(&central, &e);
  return situ__replace_write(w->file, local.bytes, local.length) == SITU_OK &&
         situ__replace_write(w->file, data, bytes) == SITU_OK && keep(w, &central);
}

/* The two records that stand before the end where its fields are too narrow. */
static void put_wide_end(record *r, const situ__zip_writer *w, uint64_t start) {
  put(r, 4, 0x06064b50);
  put(r, 8, 44); /* bytes of this record after this field */
  put(r, 2, WIDE_VERSION);
  put(r, 2, WIDE_VERSION);
  put(r, 4, 0);
  put(r, 4, 0);
  put(r, 8, (uint64_t)w->count);
  put(r, 8, (uint64_t)w->count);
  put(r, 8, w->length);
  put(r, 8, start);
  put(r, 4, 0x07064b50);
  put(r, 4, 0);
  put(r, 8, start + w->length);
  put(r, 4, 1);
}

bool situ__zip_end(situ__zip_writer *w) {
  const uint64_t start = (uint64_t)w->file->written, most = 0xffff;
  record r = { .length = 0 };
  if ((uint64_t)w->count >= most || start >= LIMIT32 || w->length >= LIMIT32) put_wide_end(&r, w, start);
  put(&r, 4, 0x06054b50);
  put(&r, 2, 0);
  put(&r, 2, 0);
  put(&r, 2, (uint64_t)w->count < most ? (uint64_t)w->count : most);
  put(&r, 2, (uint64_t)w->count < most ? (uint64_t)w->count : most);
  put(&r, 4, narrow(w->length));
  put(&r, 4, narrow(start));
  put(&r, 2, 0);
  const bool good = situ__replace_write(w->file, w->directory, w->length) == SITU_OK &&
                    situ__replace_write(w->file, r.bytes, r.length) == SITU_OK;
  situ__free(w->directory);
  w->directory = NULL;
  return good;
}
