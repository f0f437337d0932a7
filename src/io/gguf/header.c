/* Parses the header of a GGUF file, and rejects everything that the format does not allow. Counts and lengths are
   compared with the bytes that are left in the file before anything of their size is allocated.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "base/utf8.h"
#include "gguf.h"
#include "io/format/file_type.h"

enum { ALIGNMENT = 32, ALIGNMENT_MAX = 1 << 20, DIMS_MAX = 4, NAME_MAX_BYTES = 65535 };
enum { UINT8, INT8, UINT16, INT16, UINT32, INT32, FLOAT32, BOOL, STRING, ARRAY, UINT64, INT64, FLOAT64, VALUE_TYPES };
static const uint8_t value_bytes[VALUE_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

/* GGML_QUANT_SIZES of llama.cpp's gguf package. */
static const situ__gguf_type types[] = {
  [0] = { "F32", 1, 4, SITU_F32, SITU_BLOCK_NONE },
  [1] = { "F16", 1, 2, SITU_F16, SITU_BLOCK_NONE },
  [2] = { "Q4_0", 32, 18, SITU_U8, SITU_BLOCK_Q4_0 },
  [3] = { "Q4_1", 32, 20, SITU_U8, SITU_BLOCK_Q4_1 },
  [6] = { "Q5_0", 32, 22, SITU_U8, SITU_BLOCK_Q5_0 },
  [7] = { "Q5_1", 32, 24, SITU_U8, SITU_BLOCK_Q5_1 },
  [8] = { "Q8_0", 32, 34, SITU_U8, SITU_BLOCK_Q8_0 },
  [9] = { "Q8_1", 32, 40, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [10] = { "Q2_K", 256, 84, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [11] = { "Q3_K", 256, 110, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [12] = { "Q4_K", 256, 144, SITU_U8, SITU_BLOCK_Q4_K },
  [13] = { "Q5_K", 256, 176, SITU_U8, SITU_BLOCK_Q5_K },
  [14] = { "Q6_K", 256, 210, SITU_U8, SITU_BLOCK_Q6_K },
  [15] = { "Q8_K", 256, 292, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [16] = { "IQ2_XXS", 256, 66, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [17] = { "IQ2_XS", 256, 74, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [18] = { "IQ3_XXS", 256, 98, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [19] = { "IQ1_S", 256, 50, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [20] = { "IQ4_NL", 32, 18, SITU_U8, SITU_BLOCK_IQ4_NL },
  [21] = { "IQ3_S", 256, 110, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [22] = { "IQ2_S", 256, 82, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [23] = { "IQ4_XS", 256, 136, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [24] = { "I8", 1, 1, SITU_I8, SITU_BLOCK_NONE },
  [25] = { "I16", 1, 2, SITU_I16, SITU_BLOCK_NONE },
  [26] = { "I32", 1, 4, SITU_I32, SITU_BLOCK_NONE },
  [27] = { "I64", 1, 8, SITU_I64, SITU_BLOCK_NONE },
  [28] = { "F64", 1, 8, SITU_F64, SITU_BLOCK_NONE },
  [29] = { "IQ1_M", 256, 56, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [30] = { "BF16", 1, 2, SITU_BF16, SITU_BLOCK_NONE },
  [34] = { "TQ1_0", 256, 54, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [35] = { "TQ2_0", 256, 66, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [39] = { "MXFP4", 32, 17, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [40] = { "NVFP4", 64, 36, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
  [41] = { "Q1_0", 128, 18, SITU_DTYPE_DEFAULT, SITU_BLOCK_NONE },
};

/* NULL for an unknown number. */
static const situ__gguf_type *type_at(uint32_t number) {
  return number < sizeof types / sizeof *types && types[number].name ? &types[number] : NULL;
}

/* The state of the parser. */
typedef struct reader {
  unsigned char *text;
  int64_t at, length, bytes; /* at <= length <= bytes, that of the file */
  situ__gguf_header *header;
  situ__problem *problem;
  bool more; /* the text ends where the file goes on */
} reader;

#define BAD(r, ...) situ__problem_set((r)->problem, SITU_E_FORMAT, __VA_ARGS__)

/* ---- bytes ---- */

/* Returns the next `count` bytes; NULL if the file, or the text, ends before. */
static unsigned char *take_bytes(reader *r, uint64_t count) {
  if (count > (uint64_t)(r->bytes - r->at)) return BAD(r, "ends inside its header"), NULL;
  r->more = count > (uint64_t)(r->length - r->at);
  if (r->more) return NULL;
  unsigned char *at = r->text + r->at;
  r->at += (int64_t)count;
  return at;
}

/* As they lie in memory: io/format/values.h asks for a little-endian machine. */
static uint64_t join_bytes(const unsigned char *at, int bytes) {
  uint64_t value = 0;
  memcpy(&value, at, (size_t)bytes);
  return value;
}

static bool take_number(reader *r, int bytes, uint64_t *out) {
  const unsigned char *at = take_bytes(r, (uint64_t)bytes);
  if (at) *out = join_bytes(at, bytes);
  return at != NULL;
}

/* A string, moved over the last byte of its length, which is 0, so that a NUL fits behind it. */
static bool take_text(reader *r, const char **out, int64_t *length) {
  uint64_t count;
  if (!take_number(r, 8, &count)) return false;
  unsigned char *at = take_bytes(r, count);
  if (!at) return false;
  unsigned char *text = at - 1;
  memmove(text, at, count);
  text[count] = 0; /* count may be 0 */
  *out = (const char *)text;
  *length = (int64_t)count;
  return true;
}

static bool take_name(reader *r, const char *what, const char **out) {
  int64_t length;
  if (!take_text(r, out, &length)) return false;
  if (!length) return BAD(r, "has %s without a name", what);
  if (length > NAME_MAX_BYTES)
    return situ__problem_set(r->problem, SITU_E_LIMIT, "has %s with a name of %lld bytes", what, (long long)length);
  if (strlen(*out) != (size_t)length || situ__utf8_prefix(*out, (size_t)length) != (size_t)length)
    return BAD(r, "has %s whose name is not UTF-8", what);
  return true;
}

/* Returns a zeroed list; NULL when memory runs out. */
static void *new_list(reader *r, uint64_t count, size_t size) {
  void *list = situ__calloc((size_t)count + 1, size);
  if (!list) situ__problem_set(r->problem, SITU_E_NOMEM, "has a header too large for the memory");
  return list;
}

/* ---- metadata ---- */

static bool read_texts(reader *r, situ__gguf_item *item) {
  item->text = new_list(r, (uint64_t)item->count, sizeof *item->text);
  item->length = item->text ? new_list(r, (uint64_t)item->count, sizeof *item->length) : NULL;
  if (!item->length) return false;
  for (int64_t i = 0; i < item->count; i++)
    if (!take_text(r, &item->text[i], &item->length[i])) return false;
  return true;
}

static bool check_bools(reader *r, const situ__gguf_item *item) {
  for (int64_t i = 0; i < item->count; i++)
    if (item->data[i] > 1) return BAD(r, "has a bool '%.60s' of the value %d", item->key, item->data[i]);
  return true;
}

static bool read_item(reader *r, situ__gguf_item *item) {
  uint64_t type, count = 1;
  char shown[SITU__SHOWN_MAX];
  if (!take_name(r, "metadata", &item->key) || !take_number(r, 4, &type)) return false;
  item->array = type == ARRAY;
  if (item->array && (!take_number(r, 4, &type) || !take_number(r, 8, &count))) return false;
  if (item->array && type == ARRAY)
    return situ__problem_set(r->problem, SITU_E_UNSUPPORTED, "has metadata '%s' of arrays in an array",
                             situ__shown(item->key, shown));
  if (type >= VALUE_TYPES)
    return BAD(r, "has metadata '%s' of the unknown type %llu", situ__shown(item->key, shown),
               (unsigned long long)type);
  /* A string takes 8 bytes at least. */
  const uint64_t each = type == STRING ? 8 : value_bytes[type];
  if (count > (uint64_t)(r->bytes - r->at) / each)
    return BAD(r, "has metadata '%s' of %llu values, more than the file has bytes for", situ__shown(item->key, shown),
               (unsigned long long)count);
  item->type = (uint8_t)type;
  item->count = (int64_t)count;
  if (type == STRING) {
    /* No list before all of its strings may be in the text. */
    r->more = count > (uint64_t)(r->length - r->at) / each;
    return !r->more && read_texts(r, item);
  }
  item->data = take_bytes(r, count * each);
  return item->data && (type != BOOL || check_bools(r, item));
}

static int by_key(const void *a, const void *b) {
  return strcmp(((const situ__gguf_item *)a)->key, ((const situ__gguf_item *)b)->key);
}

static bool read_items(reader *r, uint64_t count) {
  situ__gguf_header *h = r->header;
  char shown[SITU__SHOWN_MAX];
  if (!(h->item = new_list(r, count, sizeof *h->item))) return false;
  for (; h->items < (int64_t)count; h->items++)
    if (!read_item(r, &h->item[h->items])) return h->items++, false; /* counted, so that its lists are freed */
  if (h->items > 1) qsort(h->item, (size_t)h->items, sizeof *h->item, by_key);
  for (int64_t i = 1; i < h->items; i++)
    if (by_key(&h->item[i - 1], &h->item[i]) == 0)
      return BAD(r, "has metadata '%s' twice", situ__shown(h->item[i].key, shown));
  return true;
}

/* Sets *out to the alignment of the data. */
static bool find_alignment(reader *r, int64_t *out) {
  const situ__gguf_item wanted = { .key = "general.alignment" };
  const situ__gguf_header *h = r->header;
  const situ__gguf_item *found = h->items ? bsearch(&wanted, h->item, (size_t)h->items, sizeof wanted, by_key) : NULL;
  *out = ALIGNMENT;
  if (!found) return true;
  const uint64_t value = found->type == UINT32 && !found->array ? join_bytes(found->data, 4) : 0;
  *out = (int64_t)value;
  return (value && value <= ALIGNMENT_MAX && !(value & (value - 1))) ||
         BAD(r, "has a general.alignment that is not a power of 2 up to %d of type uint32", ALIGNMENT_MAX);
}

/* ---- tensors ---- */

/* Sets the shape, in PyTorch's order, and the bytes. */
static bool set_shape(reader *r, situ__gguf_tensor *t, const situ__gguf_type *type, const uint64_t *dim, int ndim) {
  situ_file_entry *e = &t->entry;
  char shown[SITU__SHOWN_MAX];
  situ__shown(e->name, shown);
  e->shape.ndim = ndim;
  for (int d = 0; d < ndim; d++) {
    if (dim[d] > INT64_MAX) return BAD(r, "has a tensor '%s' with a size above 2^63", shown);
    e->shape.dim[ndim - 1 - d] = (int64_t)dim[d];
  }
  if (type->elements > 1) {
    int64_t *row = ndim ? &e->shape.dim[ndim - 1] : NULL;
    if (!row || *row % type->elements)
      return BAD(r, "has a tensor '%s' of %s whose rows are not blocks of %d", shown, type->name, type->elements);
    if (!situ__mul_i64(*row / type->elements, type->bytes, row))
      return BAD(r, "has a tensor '%s' with more bytes than a file can", shown);
  }
  return situ__shape_bytes(&e->shape, type->elements > 1 ? 8 : 8 * type->bytes, &e->bytes) ||
         BAD(r, "has a tensor '%s' with more bytes than a file can", shown);
}

static bool read_tensor(reader *r, situ__gguf_tensor *t) {
  uint64_t ndim, number, dim[DIMS_MAX], offset;
  char shown[SITU__SHOWN_MAX];
  if (!take_name(r, "a tensor", &t->entry.name) || !take_number(r, 4, &ndim)) return false;
  situ__shown(t->entry.name, shown);
  if (ndim > DIMS_MAX)
    return situ__problem_set(r->problem, SITU_E_LIMIT, "has a tensor '%s' of %llu dimensions; the format allows %d",
                             shown, (unsigned long long)ndim, DIMS_MAX);
  for (uint64_t d = 0; d < ndim; d++)
    if (!take_number(r, 8, &dim[d])) return false;
  if (!take_number(r, 4, &number) || !take_number(r, 8, &offset)) return false;
  const situ__gguf_type *type = type_at((uint32_t)number);
  if (!type) return BAD(r, "has a tensor '%s' of the unknown type %llu", shown, (unsigned long long)number);
  if (offset > (uint64_t)r->bytes) return BAD(r, "has a tensor '%s' behind its end", shown);
  t->entry.type = type->name;
  t->entry.dtype = type->dtype;
  t->entry.file = "";
  t->entry.offset = (int64_t)offset; /* until its base is known */
  t->blocks = type->blocks;
  return set_shape(r, t, type, dim, (int)ndim);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__gguf_tensor *)a)->entry.name, ((const situ__gguf_tensor *)b)->entry.name);
}
static int by_offset(const void *a, const void *b) {
  const situ_file_entry *x = &((const situ__gguf_tensor *)a)->entry, *y = &((const situ__gguf_tensor *)b)->entry;
  if (x->offset != y->offset) return x->offset < y->offset ? -1 : 1;
  return (x->bytes > y->bytes) - (x->bytes < y->bytes);
}

static int64_t padded(int64_t at, int64_t alignment) { return (at + alignment - 1) / alignment * alignment; }

/* Checks that the tensors lie one after the other in the data, which begins at `start`, and where they end. */
static bool place_tensors(reader *r, int64_t alignment, bool lenient) {
  situ__gguf_header *h = r->header;
  char shown[SITU__SHOWN_MAX];
  const int64_t start = padded(r->at, alignment);
  int64_t end = r->at;
  if (h->tensors > 1) qsort(h->tensor, (size_t)h->tensors, sizeof *h->tensor, by_offset);
  for (int64_t i = 0; i < h->tensors; i++) {
    situ_file_entry *e = &h->tensor[i].entry;
    situ__shown(e->name, shown);
    if (e->offset % alignment)
      return BAD(r, "has a tensor '%s' that is not aligned to %lld", shown, (long long)alignment);
    e->offset += start;
    if (e->offset > r->bytes || e->bytes > r->bytes - e->offset) return BAD(r, "ends before its tensor '%s'", shown);
    if (e->bytes && e->offset < end) return BAD(r, "has a tensor '%s' that overlaps another", shown);
    if (e->bytes) end = e->offset + e->bytes;
  }
  const bool exact = r->bytes == padded(end, alignment) || (!h->tensors && r->bytes == end);
  if (!lenient && !exact)
    return r->bytes > end && r->bytes > padded(end, alignment)
               ? BAD(r, "has %lld bytes after its tensors", (long long)(r->bytes - padded(end, alignment)))
               : BAD(r, "ends inside the padding of its last tensor");
  if (h->tensors > 1) qsort(h->tensor, (size_t)h->tensors, sizeof *h->tensor, by_name);
  for (int64_t i = 1; i < h->tensors; i++)
    if (by_name(&h->tensor[i - 1], &h->tensor[i]) == 0)
      return BAD(r, "has a tensor '%s' twice", situ__shown(h->tensor[i].entry.name, shown));
  return true;
}

static bool read_tensors(reader *r, uint64_t count) {
  situ__gguf_header *h = r->header;
  if (!(h->tensor = new_list(r, count, sizeof *h->tensor))) return false;
  for (; h->tensors < (int64_t)count; h->tensors++)
    if (!read_tensor(r, &h->tensor[h->tensors])) return false;
  return true;
}

/* ---- the header ---- */

static bool check_version(reader *r, uint64_t version) {
  if (version == 2 || version == 3) return true; /* the same layout */
  const char *what = version == 3u << 24 ? " of big-endian machines" : "";
  return situ__problem_set(r->problem, SITU_E_UNSUPPORTED, "is GGUF of version %llu%s, must be 2 or 3",
                           (unsigned long long)(*what ? 3 : version), what);
}

static bool read_header(reader *r, bool lenient) {
  enum { ITEM_BYTES = 8 + 4 + 1, TENSOR_BYTES = 8 + 4 + 4 + 8 }; /* at least */
  uint64_t version, tensors, items;
  int64_t alignment;
  const unsigned char *magic = take_bytes(r, 4);
  if (!magic) return false;
  if (memcmp(magic, "GGUF", 4) != 0) return BAD(r, "is not a GGUF file");
  if (!take_number(r, 4, &version) || !check_version(r, version)) return false;
  if (!take_number(r, 8, &tensors) || !take_number(r, 8, &items)) return false;
  const uint64_t left = (uint64_t)(r->bytes - r->at);
  if (tensors > left / TENSOR_BYTES || items > (left - tensors * TENSOR_BYTES) / ITEM_BYTES)
    return BAD(r, "has %llu tensors and %llu metadata, more than it has bytes for", (unsigned long long)tensors,
               (unsigned long long)items);
  if (tensors > SITU__FILE_TENSORS)
    return situ__problem_set(r->problem, SITU_E_LIMIT, "has more than %d tensors", SITU__FILE_TENSORS);
  r->more = tensors * TENSOR_BYTES + items * ITEM_BYTES > (uint64_t)(r->length - r->at);
  return !r->more && read_items(r, items) && find_alignment(r, &alignment) && read_tensors(r, tensors) &&
         place_tensors(r, alignment, lenient);
}

situ__gguf_parsed situ__gguf_parse(situ__gguf_header *header, unsigned char *text, int64_t length, int64_t bytes,
                                   bool lenient, situ__problem *problem) {
  *header = (situ__gguf_header){ .text = text };
  reader r = { .text = text, .length = length, .bytes = bytes, .header = header, .problem = problem };
  if (read_header(&r, lenient)) return SITU__GGUF_GOOD;
  situ__gguf_free(header);
  return r.more ? SITU__GGUF_MORE : SITU__GGUF_BAD;
}

void situ__gguf_free(situ__gguf_header *header) {
  for (int64_t i = 0; i < header->items; i++) {
    situ__free(header->item[i].text);
    situ__free(header->item[i].length);
  }
  situ__free(header->item);
  situ__free(header->tensor);
  situ__free(header->text);
  *header = (situ__gguf_header){ 0 };
}
