/* Parses the header of a safetensors file, and rejects everything that the format does not allow.
   SPDX-License-Identifier: MIT */
#include "header.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "io/format/json.h"

/* The state of the parser. */
typedef struct reader {
  situ__json json;
  situ__header *header;
  int64_t capacity, metadata_capacity;
  bool metadata_seen;
  situ__problem *problem;
} reader;

static bool bad_json(reader *r) {
  if (!r->json.problem)
    return situ__problem_set(r->problem, SITU_E_FORMAT, "has a header that is not an object of tensors");
  return situ__problem_set(r->problem, r->json.too_deep ? SITU_E_LIMIT : SITU_E_FORMAT,
                           "has a header that %s (at its byte %zu)", r->json.problem, situ__json_offset(&r->json));
}

static bool bad_entry(reader *r, situ_status status, const char *name, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__problem_set(r->problem, status, "has a tensor '%s' %s", situ__shown(name, shown), what);
}

/* Makes space for one more item of `size` bytes. A list grows only with the text that was read, so a short file
   cannot cause a large allocation. */
static bool grow_list(reader *r, void *list, int64_t count, int64_t *capacity, size_t size) {
  return situ__grow(NULL, list, capacity, size, count + 1) ||
         situ__problem_set(r->problem, SITU_E_NOMEM, "has a header too large for the memory");
}

static bool read_metadata(reader *r) {
  situ__header *h = r->header;
  if (r->metadata_seen) return situ__problem_set(r->problem, SITU_E_FORMAT, "has __metadata__ twice");
  r->metadata_seen = true;
  situ__json_kind kind = situ__json_next(&r->json);
  if (kind == SITU__JSON_OBJECT) {
    while ((kind = situ__json_next(&r->json)) == SITU__JSON_KEY) {
      if (!grow_list(r, &h->metadata, h->metadata_count, &r->metadata_capacity, sizeof *h->metadata)) return false;
      situ_metadata *item = &h->metadata[h->metadata_count];
      item->key = r->json.text;
      if ((kind = situ__json_next(&r->json)) != SITU__JSON_STRING) break;
      item->value = r->json.text;
      h->metadata_count++;
    }
    if (kind == SITU__JSON_OBJECT_END) return true;
  }
  if (kind == SITU__JSON_ERROR) return bad_json(r);
  return situ__problem_set(r->problem, SITU_E_FORMAT, "has a __metadata__ that is not texts by name");
}

/* Reads [a, b, ...] of non-negative integers into list, at most `most` of them. Returns their number, or -1. */
static int read_sizes(reader *r, const char *name, const char *field, int64_t *list, int most) {
  char what[96];
  int count = 0;
  situ__json_kind kind = situ__json_next(&r->json);
  if (kind == SITU__JSON_ARRAY) {
    while ((kind = situ__json_next(&r->json)) == SITU__JSON_INTEGER && r->json.integer >= 0) {
      if (count == most) {
        snprintf(what, sizeof what, "with more than %d numbers in %s", most, field);
        bad_entry(r, SITU_E_LIMIT, name, what);
        return -1;
      }
      list[count++] = r->json.integer;
    }
    if (kind == SITU__JSON_ARRAY_END) return count;
  }
  if (kind == SITU__JSON_ERROR) {
    bad_json(r);
  } else {
    snprintf(what, sizeof what, "whose %s is not a list of sizes", field);
    bad_entry(r, SITU_E_FORMAT, name, what);
  }
  return -1;
}

static bool read_entry(reader *r, char *name, int64_t bytes) {
  situ__header *h = r->header;
  if (h->count == SITU__FILE_TENSORS)
    return situ__problem_set(r->problem, SITU_E_LIMIT, "has more than %d tensors", SITU__FILE_TENSORS);
  if (!grow_list(r, &h->entry, h->count, &r->capacity, sizeof *h->entry)) return false;
  situ_file_entry *e = &h->entry[h->count];
  *e = (situ_file_entry){ .name = name, .file = "" };

  const situ__file_type *type = NULL;
  int64_t offsets[2];
  bool has_shape = false, has_offsets = false;
  situ__json_kind kind = situ__json_next(&r->json);
  if (kind == SITU__JSON_ERROR) return bad_json(r);
  if (kind != SITU__JSON_OBJECT) return bad_entry(r, SITU_E_FORMAT, name, "that is not an object");
  while ((kind = situ__json_next(&r->json)) == SITU__JSON_KEY) {
    const char *field = r->json.text;
    if (strcmp(field, "dtype") == 0 && !type) {
      kind = situ__json_next(&r->json);
      if (kind == SITU__JSON_ERROR) return bad_json(r);
      type = kind == SITU__JSON_STRING ? situ__file_type_named(r->json.text) : NULL;
      if (!type) return bad_entry(r, SITU_E_FORMAT, name, "of a dtype that the format does not have");
    } else if (strcmp(field, "shape") == 0 && !has_shape) {
      has_shape = true;
      e->shape.ndim = read_sizes(r, name, "shape", e->shape.dim, SITU_MAX_DIMS);
      if (e->shape.ndim < 0) return false;
    } else if (strcmp(field, "data_offsets") == 0 && !has_offsets) {
      has_offsets = true;
      int count = read_sizes(r, name, "data_offsets", offsets, 2);
      if (count < 0) return false;
      if (count < 2) return bad_entry(r, SITU_E_FORMAT, name, "without two data_offsets");
    } else {
      return bad_entry(r, SITU_E_FORMAT, name, "with a field twice or one that is unknown");
    }
  }
  if (kind == SITU__JSON_ERROR) return bad_json(r);
  if (!type || !has_shape || !has_offsets)
    return bad_entry(r, SITU_E_FORMAT, name, "that lacks dtype, shape or data_offsets");
  if (offsets[1] < offsets[0] || offsets[1] > bytes)
    return bad_entry(r, SITU_E_FORMAT, name, "whose data_offsets lie outside the file");
  if (!situ__shape_bytes(&e->shape, type->bits, &e->bytes))
    return bad_entry(r, SITU_E_FORMAT, name, "whose shape is not a whole number of bytes");
  if (e->bytes != offsets[1] - offsets[0])
    return bad_entry(r, SITU_E_FORMAT, name, "whose data_offsets do not fit its shape");
  e->type = type->name;
  e->dtype = type->dtype;
  e->offset = offsets[0];
  h->count++;
  return true;
}

static int by_offset(const void *a, const void *b) {
  const situ_file_entry *x = a, *y = b;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ_file_entry *)a)->name, ((const situ_file_entry *)b)->name);
}

/* The tensors must cover the data without gaps and overlaps: no byte belongs to two tensors, and none is hidden. Then
   sorts by name, which brings equal names together. */
static bool check_whole(reader *r, int64_t start, int64_t bytes, bool lenient) {
  situ__header *h = r->header;
  if (h->count > 1) qsort(h->entry, (size_t)h->count, sizeof *h->entry, by_offset);
  int64_t end = 0;
  for (int64_t i = 0; i < h->count; i++) {
    situ_file_entry *e = &h->entry[i];
    if (e->offset != end)
      return bad_entry(r, SITU_E_FORMAT, e->name,
                       e->offset < end ? "that overlaps another" : "with unused bytes before it");
    end += e->bytes;
    e->offset += start;
  }
  if (end < bytes && !lenient)
    return situ__problem_set(r->problem, SITU_E_FORMAT, "has %lld bytes behind its last tensor",
                             (long long)(bytes - end));
  if (h->count > 1) qsort(h->entry, (size_t)h->count, sizeof *h->entry, by_name);
  for (int64_t i = 1; i < h->count; i++)
    if (strcmp(h->entry[i - 1].name, h->entry[i].name) == 0)
      return bad_entry(r, SITU_E_FORMAT, h->entry[i].name, "twice");
  if (h->metadata_count > 1) qsort(h->metadata, (size_t)h->metadata_count, sizeof *h->metadata, situ__metadata_by_key);
  for (int64_t i = 1; i < h->metadata_count; i++)
    if (situ__metadata_by_key(&h->metadata[i - 1], &h->metadata[i]) == 0)
      return situ__problem_set(r->problem, SITU_E_FORMAT, "has a remark in __metadata__ twice");
  return true;
}

static bool read_all(reader *r, int64_t bytes) {
  (void)situ__json_next(&r->json); /* the object, which the caller has seen begin */
  situ__json_kind kind;
  while ((kind = situ__json_next(&r->json)) == SITU__JSON_KEY) {
    char *name = r->json.text;
    bool fine = strcmp(name, "__metadata__") == 0 ? read_metadata(r) : read_entry(r, name, bytes);
    if (!fine) return false;
  }
  if (kind == SITU__JSON_ERROR || situ__json_next(&r->json) != SITU__JSON_END) return bad_json(r);
  return true;
}

bool situ__header_parse(situ__header *header, char *text, size_t length, int64_t start, int64_t bytes, bool lenient,
                        situ__problem *problem) {
  *header = (situ__header){ .text = text };
  reader r = { .header = header, .problem = problem };
  situ__json_begin(&r.json, text, length);
  bool fine =
      length > 0 && text[0] == '{' ? read_all(&r, bytes) && check_whole(&r, start, bytes, lenient) : bad_json(&r);
  if (!fine) situ__header_free(header);
  return fine;
}

void situ__header_free(situ__header *header) {
  situ__free(header->entry);
  situ__free(header->metadata);
  situ__free(header->text);
  *header = (situ__header){ 0 };
}

const situ_file_entry *situ__header_find(const situ__header *header, const char *name) {
  situ_file_entry wanted = { .name = name };
  return header->count ? bsearch(&wanted, header->entry, (size_t)header->count, sizeof wanted, by_name) : NULL;
}

const char *situ__header_metadata(const situ__header *header, const char *key) {
  situ_metadata wanted = { .key = key };
  const situ_metadata *found =
      header->metadata_count
          ? bsearch(&wanted, header->metadata, (size_t)header->metadata_count, sizeof wanted, situ__metadata_by_key)
          : NULL;
  return found ? found->value : NULL;
}
