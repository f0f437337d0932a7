/* Parses the directory of a zip file (APPNOTE 6.3.10), and rejects everything that torch's writers do not write.
   SPDX-License-Identifier: MIT */
#include "io/zip.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/utf8.h"

enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, CENTRAL_BYTES = 46, LOCAL_BYTES = 30 };
enum { HAS_DESCRIPTOR = 1 << 3, IS_UTF8 = 1 << 11 };
/* A field that has this value is in the zip64 extra field. */
#define IN_EXTRA 0xFFFFFFFFu

typedef struct reader {
  const unsigned char *file;
  int64_t bytes;
  int64_t start, length, count; /* of the central directory */
  situ__zip *zip;
  situ__problem *problem;
} reader;

/* The fields that a local and a central header share. */
typedef struct fields {
  uint32_t flags, method, crc, name_length, extra_length;
  uint64_t packed, bytes;
  uint64_t header; /* of central headers only */
} fields;

static uint64_t number(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  for (int i = bytes - 1; i >= 0; i--) value = value << 8 | at[i];
  return value;
}

static bool is_signed(const unsigned char *at, uint32_t signature) { return number(at, 4) == signature; }

static bool bad_zip(reader *r, const char *what) { return situ__problem_set(r->problem, SITU_E_FORMAT, "%s", what); }

static bool bad_entry(reader *r, situ_status status, const char *name, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__problem_set(r->problem, status, "has an entry '%s' %s", situ__shown(name, shown), what);
}

/* ---- the end of the file ---- */

/* Replaces the numbers of the 32-bit end by those of the zip64 end before it, if there is one. */
static bool read_end64(reader *r, int64_t *end) {
  const int64_t locator = *end - LOCATOR_BYTES, at = locator - END64_BYTES;
  if (locator < 0 || !is_signed(r->file + locator, 0x07064b50)) return true;
  const unsigned char *e = r->file + at;
  if (at < 0 || number(r->file + locator + 8, 8) != (uint64_t)at || !is_signed(e, 0x06064b50) ||
      number(e + 4, 8) != END64_BYTES - 12)
    return bad_zip(r, "has a zip64 directory end that is not where its locator says");
  const uint64_t count = number(e + 32, 8), length = number(e + 40, 8), start = number(e + 48, 8);
  const bool agrees = (r->count == 0xFFFF || (uint64_t)r->count == count) &&
                      (r->length == IN_EXTRA || (uint64_t)r->length == length) &&
                      (r->start == IN_EXTRA || (uint64_t)r->start == start);
  if (!agrees || number(e + 16, 8) != 0 || number(e + 24, 8) != count)
    return bad_zip(r, "has two directory ends that disagree, or several disks");
  if (count > INT64_MAX || length > INT64_MAX || start > INT64_MAX) return bad_zip(r, "has a directory outside of it");
  r->count = (int64_t)count;
  r->length = (int64_t)length;
  r->start = (int64_t)start;
  *end = at;
  return true;
}

static bool read_end(reader *r) {
  int64_t end = r->bytes - END_BYTES;
  /* A comment could hide a second directory. */
  if (end < 0 || !is_signed(r->file + end, 0x06054b50) || number(r->file + end + 20, 2) != 0)
    return bad_zip(r, "is not a zip file, or has bytes after its directory");
  const unsigned char *e = r->file + end;
  r->count = (int64_t)number(e + 10, 2);
  r->length = (int64_t)number(e + 12, 4);
  r->start = (int64_t)number(e + 16, 4);
  if (number(e + 4, 4) != 0 || number(e + 8, 2) != (uint64_t)r->count) return bad_zip(r, "has several disks");
  if (!read_end64(r, &end)) return false;
  if (r->start > end || r->length != end - r->start) return bad_zip(r, "has a directory outside of it");
  if (r->count > r->length / CENTRAL_BYTES) return bad_zip(r, "has a directory with too few bytes for its entries");
  return true;
}

/* ---- entries ---- */

/* Takes 8 bytes of the zip64 extra field for a value that does not fit in 32 bits. */
static bool take_wide(const unsigned char **at, int64_t *left, uint64_t *value) {
  if (*value != IN_EXTRA) return true;
  if (*left < 8) return false;
  *value = number(*at, 8);
  *at += 8;
  *left -= 8;
  return true;
}

/* Walks over the extra fields, and reads zip64's. */
static bool read_extra(const unsigned char *at, int64_t left, fields *f, bool central) {
  while (left >= 4) {
    const int64_t id = (int64_t)number(at, 2), size = (int64_t)number(at + 2, 2);
    const unsigned char *body = at + 4;
    int64_t rest = size;
    if (size > left - 4) return false;
    if (id == 1 && !(take_wide(&body, &rest, &f->bytes) && take_wide(&body, &rest, &f->packed) &&
                     (!central || take_wide(&body, &rest, &f->header))))
      return false;
    at += 4 + size;
    left -= 4 + size;
  }
  return left == 0;
}

static bool is_safe_name(const char *name) {
  if (!*name || *name == '/' || strchr(name, '\\') || strchr(name, ':')) return false;
  for (const char *part = name; part; part = strchr(part, '/')) {
    part += *part == '/';
    const size_t length = strcspn(part, "/");
    if (length == 2 && memcmp(part, "..", 2) == 0) return false;
  }
  return true;
}

/* Compares the header before the data with the directory, and finds the data. */
static bool read_local(reader *r, const fields *central, situ__zip_entry *e) {
  fields f;
  if (e->header > r->start - LOCAL_BYTES) return bad_entry(r, SITU_E_FORMAT, e->name, "outside of the file");
  const unsigned char *h = r->file + e->header;
  if (!is_signed(h, 0x04034b50)) return bad_entry(r, SITU_E_FORMAT, e->name, "without a local header");
  f = (fields){ .flags = (uint32_t)number(h + 6, 2),
                .method = (uint32_t)number(h + 8, 2),
                .crc = (uint32_t)number(h + 14, 4),
                .packed = number(h + 18, 4),
                .bytes = number(h + 22, 4),
                .name_length = (uint32_t)number(h + 26, 2),
                .extra_length = (uint32_t)number(h + 28, 2) };
  e->offset = e->header + LOCAL_BYTES + (int64_t)f.name_length + (int64_t)f.extra_length;
  if (e->offset > r->start || e->bytes > r->start - e->offset)
    return bad_entry(r, SITU_E_FORMAT, e->name, "outside of the file");
  /* With a descriptor after the data the header may leave crc and sizes at 0. */
  const bool later = (f.flags & HAS_DESCRIPTOR) && f.crc == 0 && f.packed == 0 && f.bytes == 0;
  bool agrees = f.flags == central->flags && f.method == central->method && f.name_length == central->name_length &&
                memcmp(h + LOCAL_BYTES, e->name, f.name_length) == 0 &&
                read_extra(h + LOCAL_BYTES + f.name_length, (int64_t)f.extra_length, &f, false);
  if (agrees && !later) agrees = f.crc == central->crc && f.bytes == central->bytes && f.packed == central->packed;
  return agrees || bad_entry(r, SITU_E_FORMAT, e->name, "whose local header differs from the directory");
}

static bool read_central(reader *r, const unsigned char **at, int64_t *left, char **names, situ__zip_entry *e) {
  const unsigned char *h = *at;
  if (*left < CENTRAL_BYTES || !is_signed(h, 0x02014b50)) return bad_zip(r, "has a directory that ends too early");
  fields f = { .flags = (uint32_t)number(h + 8, 2),
               .method = (uint32_t)number(h + 10, 2),
               .crc = (uint32_t)number(h + 16, 4),
               .packed = number(h + 20, 4),
               .bytes = number(h + 24, 4),
               .name_length = (uint32_t)number(h + 28, 2),
               .extra_length = (uint32_t)number(h + 30, 2),
               .header = number(h + 42, 4) };
  const int64_t comment = (int64_t)number(h + 32, 2);
  const int64_t whole = CENTRAL_BYTES + (int64_t)f.name_length + (int64_t)f.extra_length + comment;
  if (whole > *left) return bad_zip(r, "has a directory that ends too early");
  e->name = *names;
  memcpy(e->name, h + CENTRAL_BYTES, f.name_length);
  e->name[f.name_length] = '\0';
  if (strlen(e->name) != f.name_length || situ__utf8_prefix(e->name, f.name_length) != f.name_length ||
      !is_safe_name(e->name))
    return bad_entry(r, SITU_E_FORMAT, e->name, "whose name is not a relative path");
  if (f.flags & ~(uint32_t)(HAS_DESCRIPTOR | IS_UTF8))
    return bad_entry(r, SITU_E_UNSUPPORTED, e->name, "that is encrypted or has unknown flags");
  if (f.method != 0) return bad_entry(r, SITU_E_UNSUPPORTED, e->name, "that is compressed: only stored ones are read");
  if (number(h + 34, 2) != 0 || !read_extra(h + CENTRAL_BYTES + f.name_length, (int64_t)f.extra_length, &f, true) ||
      f.packed != f.bytes || f.bytes > INT64_MAX || f.header > INT64_MAX)
    return bad_entry(r, SITU_E_FORMAT, e->name, "with sizes that are not those of a stored one");
  e->crc = f.crc;
  e->header = (int64_t)f.header;
  e->bytes = (int64_t)f.bytes;
  *names += f.name_length + 1;
  *at += whole;
  *left -= whole;
  return read_local(r, &f, e);
}

static int by_header(const void *a, const void *b) {
  const situ__zip_entry *x = a, *y = b;
  return (x->header > y->header) - (x->header < y->header);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__zip_entry *)a)->name, ((const situ__zip_entry *)b)->name);
}

/* No byte belongs to two entries. Then sorts by name, which brings equal names together. */
static bool check_apart(reader *r) {
  situ__zip *z = r->zip;
  if (z->count > 1) qsort(z->entry, (size_t)z->count, sizeof *z->entry, by_header);
  for (int64_t i = 1; i < z->count; i++)
    if (z->entry[i].header < z->entry[i - 1].offset + z->entry[i - 1].bytes)
      return bad_entry(r, SITU_E_FORMAT, z->entry[i].name, "that overlaps another");
  if (z->count > 1) qsort(z->entry, (size_t)z->count, sizeof *z->entry, by_name);
  for (int64_t i = 1; i < z->count; i++)
    if (by_name(&z->entry[i - 1], &z->entry[i]) == 0) return bad_entry(r, SITU_E_FORMAT, z->entry[i].name, "twice");
  return true;
}

static bool read_entries(reader *r) {
  situ__zip *z = r->zip;
  /* Each name ends with a NUL, and its header is longer than that: the directory's length is enough for all. */
  z->entry = situ__calloc((size_t)r->count + 1, sizeof *z->entry);
  z->names = situ__alloc((size_t)r->length + 1);
  if (!z->entry || !z->names)
    return situ__problem_set(r->problem, SITU_E_NOMEM, "has a directory too large for the memory");
  const unsigned char *at = r->file + r->start;
  int64_t left = r->length;
  char *names = z->names;
  for (; z->count < r->count; z->count++)
    if (!read_central(r, &at, &left, &names, &z->entry[z->count])) return false;
  if (left != 0) return bad_zip(r, "has a directory with bytes after its entries");
  return check_apart(r);
}

bool situ__zip_parse(situ__zip *zip, const char *file, int64_t bytes, situ__problem *problem) {
  *zip = (situ__zip){ 0 };
  reader r = { .file = (const unsigned char *)file, .bytes = bytes, .zip = zip, .problem = problem };
  if (read_end(&r) && read_entries(&r)) return true;
  situ__zip_free(zip);
  return false;
}

void situ__zip_free(situ__zip *zip) {
  situ__free(zip->entry);
  situ__free(zip->names);
  *zip = (situ__zip){ 0 };
}

const situ__zip_entry *situ__zip_find(const situ__zip *zip, const char *name) {
  const situ__zip_entry wanted = { .name = (char *)name };
  return zip->count ? bsearch(&wanted, zip->entry, (size_t)zip->count, sizeof wanted, by_name) : NULL;
}

uint32_t situ__crc32(uint32_t crc, const void *data, size_t bytes) {
  /* Four bits at a time: a table of 16 needs no initialisation at run time. */
  static const uint32_t table[16] = { 0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                      0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                      0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c };
  const unsigned char *at = data;
  crc = ~crc;
  for (size_t i = 0; i < bytes; i++) {
    crc = table[(crc ^ at[i]) & 15] ^ (crc >> 4);
    crc = table[(crc ^ (at[i] >> 4)) & 15] ^ (crc >> 4);
  }
  return ~crc;
}
