/* Reads the directory of a zip archive (APPNOTE 6.3.10), and rejects everything that torch's writers do not write. It
   is read into memory before it is parsed: a mapped file can be cut short meanwhile.
   SPDX-License-Identifier: MIT */
#include "zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/problem.h"
#include "base/utf8.h"

enum { END_BYTES = 22, END64_BYTES = 56, LOCATOR_BYTES = 20, CENTRAL_BYTES = 46, LOCAL_BYTES = 30 };
/* Limit on the directory: 5 million entries of the names that torch gives. */
enum { DIRECTORY_MAX = 256 << 20 };
enum { LOCAL_MAX = LOCAL_BYTES + 2 * 0xFFFF };
enum { HAS_DESCRIPTOR = 1 << 3, IS_UTF8 = 1 << 11 };
/* A field that has this value is in the zip64 extra field. */
#define IN_EXTRA 0xFFFFFFFFu

typedef struct reader {
  const situ__zip_source *source;
  unsigned char tail[END_BYTES + LOCATOR_BYTES + END64_BYTES]; /* the last bytes of the archive */
  int64_t tail_at;                                             /* offset of tail */
  unsigned char *directory, *local;                            /* central directory; scratch for one local header */
  int64_t start, length, count;                                /* of the central directory */
  situ__zip *zip;
  situ__problem problem; /* SITU_OK: the error is recorded already */
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

static bool bad_zip(reader *r, const char *what) { return situ__problem_set(&r->problem, SITU_E_FORMAT, "%s", what); }

static bool bad_entry(reader *r, situ_status status, const char *name, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__problem_set(&r->problem, status, "has an entry '%s' %s", situ__shown(name, shown), what);
}

static bool read_bytes(reader *r, void *to, int64_t bytes, int64_t at) {
  const situ__zip_source *s = r->source;
  return situ__file_read(s->op, s->path, s->fd, to, (size_t)bytes, s->start + at) == SITU_OK;
}

/* ---- the end of the file ---- */

/* Replaces the numbers of the 32-bit end by those of the zip64 end before it, if there is one. */
static bool read_end64(reader *r, int64_t *end) {
  const int64_t locator = *end - LOCATOR_BYTES, at = locator - END64_BYTES;
  const unsigned char *l = r->tail + (locator - r->tail_at), *e = r->tail + (at - r->tail_at);
  if (locator < 0 || !is_signed(l, 0x07064b50)) return true;
  if (at < 0 || number(l + 8, 8) != (uint64_t)at || !is_signed(e, 0x06064b50) || number(e + 4, 8) != END64_BYTES - 12)
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
  const int64_t bytes = r->source->bytes, kept = (int64_t)sizeof r->tail;
  int64_t end = bytes - END_BYTES;
  r->tail_at = bytes - kept;
  if (end >= 0) {
    const int64_t from = r->tail_at > 0 ? r->tail_at : 0;
    if (!read_bytes(r, r->tail + (from - r->tail_at), bytes - from, from)) return false;
  }
  const unsigned char *e = r->tail + kept - END_BYTES;
  /* A comment could hide a second directory. */
  if (end < 0 || !is_signed(e, 0x06054b50) || number(e + 20, 2) != 0)
    return bad_zip(r, "is not a zip file, is cut off, or has bytes after its directory");
  r->count = (int64_t)number(e + 10, 2);
  r->length = (int64_t)number(e + 12, 4);
  r->start = (int64_t)number(e + 16, 4);
  if (number(e + 4, 4) != 0 || number(e + 8, 2) != (uint64_t)r->count) return bad_zip(r, "has several disks");
  if (!read_end64(r, &end)) return false;
  if (r->start > end || r->length != end - r->start) return bad_zip(r, "has a directory outside of it");
  if (r->count > r->length / CENTRAL_BYTES) return bad_zip(r, "has a directory with too few bytes for its entries");
  if (r->length > DIRECTORY_MAX)
    return situ__problem_set(&r->problem, SITU_E_LIMIT, "has a directory of more than %d bytes", DIRECTORY_MAX);
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

/* Whether the entry is in the directory that is left out, of the archive's own directory. */
static bool is_skipped(const reader *r, const char *name) {
  const char *skip = r->source->skip, *slash = strchr(name, '/');
  return skip && slash && strncmp(slash + 1, skip, strlen(skip)) == 0;
}

/* Compares the header before the data with the directory, and finds the data. */
static bool read_local(reader *r, const fields *central, situ__zip_entry *e) {
  fields f;
  const unsigned char *h = r->local;
  if (e->header > r->start - LOCAL_BYTES) return bad_entry(r, SITU_E_FORMAT, e->name, "outside of the file");
  if (!read_bytes(r, r->local, LOCAL_BYTES, e->header)) return false;
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
  if (!read_bytes(r, r->local + LOCAL_BYTES, (int64_t)f.name_length + (int64_t)f.extra_length, e->header + LOCAL_BYTES))
    return false;
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
  const bool packed = f.method != 0 && is_skipped(r, e->name);
  if (f.method != 0 && !packed)
    return bad_entry(r, SITU_E_UNSUPPORTED, e->name, "that is compressed: only stored ones are read");
  if (number(h + 34, 2) != 0 || !read_extra(h + CENTRAL_BYTES + f.name_length, (int64_t)f.extra_length, &f, true) ||
      (f.packed != f.bytes && !packed) || f.packed > INT64_MAX || f.header > INT64_MAX)
    return bad_entry(r, SITU_E_FORMAT, e->name, "with sizes that are not those of a stored one");
  e->crc = f.crc;
  e->header = (int64_t)f.header;
  e->bytes = (int64_t)f.packed;
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

const situ__zip_entry *situ__zip_sort(situ__zip *z) {
  if (z->count > 1) qsort(z->entry, (size_t)z->count, sizeof *z->entry, by_name);
  for (int64_t i = 1; i < z->count; i++)
    if (by_name(&z->entry[i - 1], &z->entry[i]) == 0) return &z->entry[i];
  return NULL;
}

/* No byte belongs to two entries. Then sorts by name, which brings equal names together. */
static bool check_apart(reader *r) {
  situ__zip *z = r->zip;
  if (z->count > 1) qsort(z->entry, (size_t)z->count, sizeof *z->entry, by_header);
  for (int64_t i = 1; i < z->count; i++)
    if (z->entry[i].header < z->entry[i - 1].offset + z->entry[i - 1].bytes)
      return bad_entry(r, SITU_E_FORMAT, z->entry[i].name, "that overlaps another");
  const situ__zip_entry *twice = situ__zip_sort(z);
  return !twice || bad_entry(r, SITU_E_FORMAT, twice->name, "twice");
}

/* Removes what is left out; their names stay in memory. */
static void drop_skipped(reader *r) {
  situ__zip *z = r->zip;
  int64_t kept = 0;
  for (int64_t i = 0; i < z->count; i++)
    if (!is_skipped(r, z->entry[i].name)) z->entry[kept++] = z->entry[i];
  z->count = kept;
}

static bool read_entries(reader *r) {
  situ__zip *z = r->zip;
  /* Each name ends with a NUL, and its header is longer than that: the directory's length is enough for all. */
  z->entry = situ__calloc((size_t)r->count + 1, sizeof *z->entry);
  z->names = situ__alloc((size_t)r->length + 1);
  r->directory = situ__alloc((size_t)r->length + 1);
  r->local = situ__alloc(LOCAL_MAX);
  if (!z->entry || !z->names || !r->directory || !r->local)
    return situ__problem_set(&r->problem, SITU_E_NOMEM, "has a directory too large for the memory");
  if (!read_bytes(r, r->directory, r->length, r->start)) return false;
  const unsigned char *at = r->directory;
  int64_t left = r->length;
  char *names = z->names;
  for (; z->count < r->count; z->count++)
    if (!read_central(r, &at, &left, &names, &z->entry[z->count])) return false;
  if (left != 0) return bad_zip(r, "has a directory with bytes after its entries");
  if (!check_apart(r)) return false;
  drop_skipped(r);
  for (int64_t i = 0; i < z->count; i++) {
    z->entry[i].header += r->source->start;
    z->entry[i].offset += r->source->start;
  }
  return true;
}

bool situ__zip_open(situ__zip *zip, const situ__zip_source *source) {
  *zip = (situ__zip){ 0 };
  reader r = { .source = source, .zip = zip };
  const bool fine = read_end(&r) && read_entries(&r);
  situ__free(r.directory);
  situ__free(r.local);
  if (fine) return true;
  if (r.problem.status != SITU_OK) situ__fail(r.problem.status, source->op, "%s: %s", source->path, r.problem.text);
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

const situ__zip_entry *situ__zip_find_inside(const situ__zip *zip, const char *name) {
  char full[1024];
  const char *first = zip->count ? zip->entry[0].name : "";
  const int length = snprintf(full, sizeof full, "%.*s/%s", (int)strcspn(first, "/"), first, name);
  return length > 0 && (size_t)length < sizeof full ? situ__zip_find(zip, full) : NULL;
}

char *situ__zip_load(const situ__zip_source *source, const situ__zip_entry *entry, int64_t limit) {
  char shown[SITU__SHOWN_MAX];
  if (entry->bytes > limit)
    return situ__fail(SITU_E_LIMIT, source->op, "%s: has an entry '%s' of %lld bytes, more than the %lld that are read",
                      source->path, situ__shown(entry->name, shown), (long long)entry->bytes, (long long)limit),
           NULL;
  char *data = situ__alloc((size_t)entry->bytes + 1);
  if (!data) return situ__no_memory(source->op, (size_t)entry->bytes + 1), NULL;
  if (situ__file_read(source->op, source->path, source->fd, data, (size_t)entry->bytes, entry->offset) != SITU_OK) {
    situ__free(data);
    return NULL;
  }
  data[entry->bytes] = '\0';
  return data;
}

bool situ__zip_has_text(const situ__zip_source *source, const situ__zip_entry *entry, const char *text) {
  char data[64];
  const int64_t length = (int64_t)strlen(text), bytes = entry ? entry->bytes : -1;
  if (bytes < length || bytes > (int64_t)sizeof data ||
      situ__file_read(source->op, source->path, source->fd, data, (size_t)bytes, entry->offset) != SITU_OK)
    return false;
  for (int64_t i = length; i < bytes; i++)
    if (data[i] != '\n' && data[i] != '\r' && data[i] != ' ') return false;
  return memcmp(data, text, (size_t)length) == 0;
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

bool situ__zip_check(const situ__zip_source *source, const situ__zip_entry *entry) {
  enum { PIECE = 64 << 10 };
  char shown[SITU__SHOWN_MAX];
  uint32_t crc = 0;
  char *piece = situ__alloc(PIECE);
  bool fine = piece || (situ__no_memory(source->op, PIECE), false);
  for (int64_t at = 0; fine && at < entry->bytes; at += PIECE) {
    const size_t bytes = entry->bytes - at < PIECE ? (size_t)(entry->bytes - at) : PIECE;
    fine = situ__file_read(source->op, source->path, source->fd, piece, bytes, entry->offset + at) == SITU_OK;
    if (fine) crc = situ__crc32(crc, piece, bytes);
  }
  situ__free(piece);
  if (fine && crc != entry->crc)
    situ__fail(SITU_E_FORMAT, source->op, "%s: has an entry '%s' that does not match its checksum", source->path,
               situ__shown(entry->name, shown));
  return fine && crc == entry->crc;
}
