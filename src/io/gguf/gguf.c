/* Opens and loads GGUF files.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/handle.h"
#include "base/size.h"
#include "gguf.h"
#include "io/format/values.h"

struct situ_gguf {
  uint32_t head;
  char *path;
  int fd;
  situ_load_options options;
  situ__mapping *mapping;
  situ__gguf_header header;
};

static const char op[] = "gguf_open";

static bool is_open(const char *by, const situ_gguf *f) { return situ__valid(by, "file", f, SITU__A_FILE); }

/* ---- opening ---- */

/* Reads the first bytes of the file, and more of them until the header is complete. */
static bool read_header(situ_gguf *f, int64_t bytes) {
  enum { FIRST = 1 << 20 };
  situ__problem problem;
  situ__gguf_parsed parsed = SITU__GGUF_MORE;
  for (int64_t length = FIRST; parsed == SITU__GGUF_MORE; length *= 4) {
    length = situ__min_i64(length, situ__min_i64(bytes, SITU__GGUF_HEADER_MAX));
    unsigned char *text = situ__alloc((size_t)length + 1);
    if (!text) return situ__no_memory(op, (size_t)length + 1), false;
    if (situ__file_read(op, f->path, f->fd, text, (size_t)length, 0) != SITU_OK) return situ__free(text), false;
    parsed = situ__gguf_parse(&f->header, text, length, bytes, f->options.lenient, &problem);
    if (parsed == SITU__GGUF_MORE && length == SITU__GGUF_HEADER_MAX)
      return situ__fail(SITU_E_LIMIT, op, "%s: has a header of more than %lld bytes", f->path, (long long)length),
             false;
  }
  if (parsed == SITU__GGUF_BAD) situ__fail(problem.status, op, "%s: %s", f->path, problem.text);
  return parsed == SITU__GGUF_GOOD;
}

static bool open_file(situ_gguf *f, const char *path) {
  int64_t bytes;
  if (!(f->path = situ__strdup(path))) return situ__no_memory(op, strlen(path) + 1), false;
  if ((f->fd = situ__file_open(op, path, &bytes)) < 0 || !read_header(f, bytes)) return false;
  return !f->options.map || (f->mapping = situ__mapping_new(op, path, f->fd, bytes));
}

situ_gguf *situ_gguf_open(const char *path, const situ_load_options *options) {
  if (!situ__given(op, "path", path)) return NULL;
  situ_gguf *f = situ__handle_new(SITU__A_FILE, sizeof *f);
  if (!f) return situ__no_memory(op, sizeof *f), NULL;
  f->fd = -1;
  if (options) f->options = *options;
  if (open_file(f, path)) return f;
  situ_gguf_close(f);
  return NULL;
}

void situ_gguf_close(situ_gguf *file) {
  if (!file || !is_open("gguf_close", file)) return;
  situ__mapping_release(file->mapping);
  situ__file_close(file->fd);
  situ__gguf_free(&file->header);
  situ__free(file->path);
  situ__handle_free(file, sizeof *file, NULL);
}

/* ---- tensors ---- */

int64_t situ_gguf_count(const situ_gguf *file) {
  return file && is_open("gguf_count", file) ? file->header.tensors : 0;
}

const situ_file_entry *situ_gguf_entry(const situ_gguf *file, int64_t index) {
  if (!file || !is_open("gguf_entry", file) || index < 0 || index >= file->header.tensors) return NULL;
  return &file->header.tensor[index].entry;
}

static int by_name(const void *name, const void *t) { return strcmp(name, ((const situ__gguf_tensor *)t)->entry.name); }
static const situ__gguf_tensor *find_tensor(const situ_gguf *f, const char *name) {
  const situ__gguf_header *h = &f->header;
  return h->tensors ? bsearch(name, h->tensor, (size_t)h->tensors, sizeof *h->tensor, by_name) : NULL;
}

const situ_file_entry *situ_gguf_find(const situ_gguf *file, const char *name) {
  const situ__gguf_tensor *t = file && is_open("gguf_find", file) && name ? find_tensor(file, name) : NULL;
  return t ? &t->entry : NULL;
}

static situ_tensor *load_tensor(const char *by, const situ_gguf *f, const situ__gguf_tensor *t) {
  const situ_file_entry *e = &t->entry;
  char shown[SITU__SHOWN_MAX];
  if (e->dtype == SITU_DTYPE_DEFAULT)
    return situ__fail(SITU_E_UNSUPPORTED, by, "%s: '%s' is of type %s, which this library does not have", f->path,
                      situ__shown(e->name, shown), e->type),
           NULL;
  const situ__source source = { .op = by, .path = f->path, .fd = f->fd, .mapping = f->mapping };
  situ_tensor *values = situ__values_load(&source, e->name, e->offset, &e->shape, e->dtype, f->options.device, NULL);
  if (values && t->blocks && situ_set_block_type(values, t->blocks) != SITU_OK) return NULL;
  return values ? situ_set_name(values, e->name) : NULL;
}

situ_tensor *situ_gguf_load(situ_gguf *file, const char *name) {
  static const char by[] = "gguf_load";
  char shown[SITU__SHOWN_MAX];
  if (!is_open(by, file) || !situ__given(by, "name", name)) return NULL;
  const situ__gguf_tensor *t = find_tensor(file, name);
  if (t) return load_tensor(by, file, t);
  return situ__fail(SITU_E_ARG, by, "there is no tensor '%s' in %s", situ__shown(name, shown), file->path), NULL;
}

situ_tree *situ__gguf_load_all(const char *path, const situ_load_options *options) {
  situ_gguf *f = situ_gguf_open(path, options);
  if (!f) return NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = situ_tree_dict();
  for (int64_t i = 0; dict && i < f->header.tensors; i++)
    dict = situ_tree_put(dict, f->header.tensor[i].entry.name,
                         situ_tree_tensor(load_tensor("load", f, &f->header.tensor[i])));
  const situ_status status = situ_scope_end(&scope);
  situ_gguf_close(f);
  if (status == SITU_OK) return dict;
  situ_tree_free(dict);
  return NULL;
}

/* ---- metadata ---- */

/* The format's numbers of types of values. */
enum { UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64 };

int64_t situ_gguf_keys(const situ_gguf *file) { return file && is_open("gguf_keys", file) ? file->header.items : 0; }

const char *situ_gguf_key(const situ_gguf *file, int64_t index) {
  if (!file || !is_open("gguf_key", file) || index < 0 || index >= file->header.items) return NULL;
  return file->header.item[index].key;
}

static int by_key(const void *key, const void *item) { return strcmp(key, ((const situ__gguf_item *)item)->key); }

static const situ__gguf_item *find_item(const char *by, const situ_gguf *f, const char *key) {
  if (!f || !is_open(by, f) || !key) return NULL;
  const situ__gguf_header *h = &f->header;
  return h->items ? bsearch(key, h->item, (size_t)h->items, sizeof *h->item, by_key) : NULL;
}

situ_gguf_kind situ_gguf_kind_of(const situ_gguf *file, const char *key, int64_t *count) {
  const situ__gguf_item *item = find_item("gguf_kind_of", file, key);
  if (count) *count = item && item->array ? item->count : -1;
  if (!item) return SITU_GGUF_NONE;
  switch (item->type) {
  case FLOAT32:
  case FLOAT64: return SITU_GGUF_NUMBER;
  case BOOL: return SITU_GGUF_BOOL;
  case STRING: return SITU_GGUF_STRING;
  default: return SITU_GGUF_INTEGER;
  }
}

/* Element `index` of a number or a bool, as an integer or as a double. Returns false if there is none. */
typedef struct number {
  bool real;
  uint64_t integer; /* two's complement, if is_signed */
  bool is_signed;
  double value;
} number;

static bool read_number(const situ__gguf_item *item, int64_t index, number *out) {
  if (!item || item->type == STRING || index < 0 || index >= item->count) return false;
  union {
    int8_t i8;
    int16_t i16;
    int32_t i32;
    uint8_t u8;
    uint16_t u16;
    uint32_t u32;
    uint64_t u64;
    float f32;
    double f64;
  } v;
  static const uint8_t size[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
  memcpy(&v, item->data + index * size[item->type], size[item->type]);
  *out = (number){ .real = item->type == FLOAT32 || item->type == FLOAT64 };
  switch (item->type) {
  case INT8: out->integer = (uint64_t)(int64_t)v.i8; break;
  case INT16: out->integer = (uint64_t)(int64_t)v.i16; break;
  case INT32: out->integer = (uint64_t)(int64_t)v.i32; break;
  case UINT8:
  case BOOL: out->integer = v.u8; break;
  case UINT16: out->integer = v.u16; break;
  case UINT32: out->integer = v.u32; break;
  case FLOAT32: out->value = (double)v.f32; break;
  case FLOAT64: out->value = v.f64; break;
  default: out->integer = v.u64;
  }
  out->is_signed = item->type == INT8 || item->type == INT16 || item->type == INT32 || item->type == INT64;
  return true;
}

bool situ_gguf_integer(const situ_gguf *file, const char *key, int64_t index, int64_t *out) {
  number n;
  if (!out || !read_number(find_item("gguf_integer", file, key), index, &n) || n.real) return false;
  if (!n.is_signed && n.integer > INT64_MAX) return false;
  *out = (int64_t)n.integer;
  return true;
}

bool situ_gguf_number(const situ_gguf *file, const char *key, int64_t index, double *out) {
  number n;
  if (!out || !read_number(find_item("gguf_number", file, key), index, &n)) return false;
  *out = n.real ? n.value : n.is_signed ? (double)(int64_t)n.integer : (double)n.integer;
  return true;
}

const char *situ_gguf_string(const situ_gguf *file, const char *key, int64_t index, size_t *length) {
  const situ__gguf_item *item = find_item("gguf_string", file, key);
  if (!item || item->type != STRING || index < 0 || index >= item->count) return NULL;
  if (length) *length = (size_t)item->length[index];
  return item->text[index];
}
