/* Writes a safetensors file.
   SPDX-License-Identifier: MIT */
#include "save.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "base/text.h"
#include "base/utf8.h"
#include "header.h"
#include "io/format/values.h"
#include "situ/blocks.h"

/* ---- input checks ---- */

static bool fit_for_json(const char *op, const char *what, const char *text) {
  char shown[SITU__SHOWN_MAX];
  size_t length = strlen(text);
  if (situ__utf8_prefix(text, length) == length) return true;
  return situ__fail(SITU_E_ARG, op, "the %s '%s' is not UTF-8", what, situ__shown(text, shown)), false;
}

static bool fill_saved(const char *op, const char *name, situ_tensor *tensor, situ__saved *out) {
  const situ__file_type *type = situ__file_type_of(situ_dtype_of(tensor));
  if (!type || !fit_for_json(op, "name", name)) return false;
  if (strcmp(name, "__metadata__") == 0)
    return situ__fail(SITU_E_ARG, op, "the format keeps the name __metadata__ for itself"), false;
  *out = (situ__saved){
    .tensor = tensor,
    .entry = { .name = name, .type = type->name, .dtype = type->dtype, .shape = situ_shape_of(tensor), .file = "" }
  };
  if (situ__shape_bytes(&out->entry.shape, type->bits, &out->entry.bytes)) return true;
  return situ__fail(SITU_E_OVERFLOW, op, "'%s' has more bytes than a file can", name), false;
}

/* Copies the caller's metadata, sorted, into a block of its own. */
static bool take_metadata(const char *op, const situ_save_options *options, situ_metadata **out) {
  int64_t count = options->metadata_count;
  if (count < 0 || (count > 0 && !options->metadata))
    return situ__fail(SITU_E_ARG, op, "metadata_count is %lld without metadata", (long long)count), false;
  for (int64_t i = 0; i < count; i++) {
    const situ_metadata *m = &options->metadata[i];
    if (!m->key || !m->value) return situ__null(op, "metadata"), false;
    if (!fit_for_json(op, "metadata key", m->key) || !fit_for_json(op, "metadata value", m->value)) return false;
  }
  situ_metadata *list = situ__calloc((size_t)count + 1, sizeof *list);
  if (!list) return situ__no_memory(op, ((size_t)count + 1) * sizeof *list), false;
  if (count) {
    memcpy(list, options->metadata, (size_t)count * sizeof *list);
    qsort(list, (size_t)count, sizeof *list, situ__metadata_by_key);
  }
  for (int64_t i = 0; i < count; i++) {
    if (strcmp(list[i].key, SITU__CHECKSUM_KEY) != 0 && (i == 0 || situ__metadata_by_key(&list[i - 1], &list[i]) != 0))
      continue;
    situ__fail(SITU_E_ARG, op, "the metadata key '%s' is there twice, or is the library's own", list[i].key);
    situ__free(list);
    return false;
  }
  *out = list;
  return true;
}

/* ---- one file -------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  return strcmp(((const situ__saved *)a)->entry.name, ((const situ__saved *)b)->entry.name);
}

/* Sorts the widest dtypes first: this aligns every tensor without gaps, which the format forbids. */
static int in_file_order(const void *a, const void *b) {
  const situ__saved *x = *(situ__saved *const *)a, *y = *(situ__saved *const *)b;
  size_t wide_x = situ_dtype_size(x->entry.dtype), wide_y = situ_dtype_size(y->entry.dtype);
  if (wide_x != wide_y) return wide_x > wide_y ? -1 : 1;
  return strcmp(x->entry.name, y->entry.name);
}

/* A file that is being written. */
typedef struct job {
  const char *op;
  int64_t count;
  situ__saved *list;   /* sorted by name */
  situ__saved **order; /* in file order */
  uint32_t *sum;       /* in the order of `list` */
  situ__header header; /* as a reader will see it: input of the digest */
  situ__text text;     /* the first 8 bytes and the JSON */
  size_t sums_at;      /* offset of the checksums in text */
  int64_t data_bytes;
} job;

static bool prepare_job(job *j) {
  size_t count = (size_t)j->count + 1; /* a file may have no tensors */
  j->order = situ__calloc(count, sizeof *j->order);
  j->sum = situ__calloc(count, sizeof *j->sum);
  j->header.entry = situ__calloc(count, sizeof *j->header.entry);
  if (!j->order || !j->sum || !j->header.entry) return situ__no_memory(j->op, count * sizeof *j->header.entry), false;
  if (j->count > 1) qsort(j->list, (size_t)j->count, sizeof *j->list, by_name);
  for (int64_t i = 0; i < j->count; i++) j->order[i] = &j->list[i];
  if (j->count > 1) qsort(j->order, (size_t)j->count, sizeof *j->order, in_file_order);
  for (int64_t i = 0; i < j->count; i++) {
    j->order[i]->entry.offset = j->data_bytes;
    if (!situ__add_i64(j->data_bytes, j->order[i]->entry.bytes, &j->data_bytes))
      return situ__fail(SITU_E_OVERFLOW, j->op, "the tensors have more bytes than a file can"), false;
  }
  for (int64_t i = 0; i < j->count; i++) j->header.entry[i] = j->list[i].entry;
  j->header.count = j->count;
  return true;
}

static void write_hex(char *to, uint32_t value) {
  for (int i = 7; i >= 0; i--, value >>= 4) to[i] = "0123456789abcdef"[value & 15];
}

/* Builds the header, with zeros for the checksums: they are known after the data was written. */
static bool make_header(job *j) {
  situ__text *t = &j->text;
  situ__text_add(t, "........{\"__metadata__\":{\"%s\":\"", SITU__CHECKSUM_KEY);
  j->sums_at = t->length;
  for (int64_t i = 0; i <= j->count; i++) situ__text_append(t, "00000000", 8);
  situ__text_append(t, "\"", 1);
  for (int64_t i = 0; i < j->header.metadata_count; i++) {
    situ__text_append(t, ",", 1);
    situ__text_json_string(t, j->header.metadata[i].key);
    situ__text_append(t, ":", 1);
    situ__text_json_string(t, j->header.metadata[i].value);
  }
  situ__text_append(t, "}", 1);
  for (int64_t i = 0; i < j->count; i++) {
    const situ_file_entry *e = &j->order[i]->entry;
    situ__text_append(t, ",", 1);
    situ__text_json_string(t, e->name);
    situ__text_add(t, ":{\"dtype\":\"%s\",\"shape\":", e->type);
    situ__text_dims(t, e->shape.dim, e->shape.ndim);
    situ__text_add(t, ",\"data_offsets\":[%lld,%lld]}", (long long)e->offset, (long long)(e->offset + e->bytes));
  }
  situ__text_append(t, "}", 1);
  /* Align the data to a cache line. */
  while (!t->failed && t->length % 64 != 0) situ__text_append(t, " ", 1);
  if (t->failed) return situ__no_memory(j->op, t->length), false;
  uint64_t length = t->length - 8;
  if (length > SITU__HEADER_MAX)
    return situ__fail(SITU_E_LIMIT, j->op, "a header of %llu bytes; the format allows %d", (unsigned long long)length,
                      SITU__HEADER_MAX),
           false;
  for (int i = 0; i < 8; i++) t->data[i] = (char)(length >> (8 * i));
  return true;
}

static situ_status write_tensor(situ__replace *r, situ__saved *saved, uint32_t *sum) {
  situ_scope scope;
  const void *data;
  size_t bytes;
  situ_scope_begin_no_grad(&scope);
  situ_status status = situ__values_on_host(r->op, saved->entry.name, saved->tensor, &data, &bytes);
  if (status == SITU_OK) status = situ__values_write(r, saved->tensor, data, bytes, sum);
  situ_status ended = situ_scope_end(&scope);
  return status != SITU_OK ? status : ended;
}

static situ_status write_file(job *j, const char *path, const situ_save_options *options, const situ__still *still) {
  situ__replace r;
  int64_t total;
  if (!situ__add_i64(j->data_bytes, (int64_t)j->text.length, &total))
    return situ__fail(SITU_E_OVERFLOW, j->op, "the tensors have more bytes than a file can");
  situ_status status = situ__replace_begin(&r, j->op, path, total, !options->no_sync);
  if (status != SITU_OK) return status;
  situ__replace_write(&r, j->text.data, j->text.length);
  for (int64_t i = 0; i < j->count && status == SITU_OK; i++)
    status = write_tensor(&r, j->order[i], &j->sum[j->order[i] - j->list]);
  if (status != SITU_OK) {
    situ__replace_abandon(&r);
    return status;
  }
  char *sums = j->text.data + j->sums_at;
  write_hex(sums, situ__header_digest(&j->header, j->sum));
  for (int64_t i = 0; i < j->count; i++) write_hex(sums + 8 * (i + 1), j->sum[i]);
  situ__replace_rewrite(&r, sums, 8 * ((size_t)j->count + 1), (int64_t)j->sums_at);
  return situ__values_end(&r, options, still);
}

situ_status situ__save_file(const char *op, const char *path, situ__saved *list, int64_t count,
                            const situ_save_options *options, const situ__still *still) {
  job j = { .op = op, .list = list, .count = count };
  j.header.metadata_count = options->metadata_count;
  bool fine = take_metadata(op, options, &j.header.metadata) && prepare_job(&j) && make_header(&j);
  situ_status status = fine ? write_file(&j, path, options, still) : situ_error();
  situ__text_free(&j.text);
  situ__header_free(&j.header);
  situ__free(j.sum);
  situ__free(j.order);
  return status;
}

/* ---- quantised blocks: bytes, whose type is metadata ---- */

/* Adds the types of all blocks in the list to *options, which gets a list of its own in *all and their keys in *keys.
   Returns false after recording an error. */
static bool add_blocks(const char *op, const situ__saved *list, int64_t count, situ_save_options *options,
                       situ_metadata **all, situ__text *keys) {
  int64_t blocks = 0;
  for (int64_t i = 0; i < count; i++) blocks += situ_block_type_of(list[i].tensor) != SITU_BLOCK_NONE;
  if (!blocks || options->metadata_count < 0 || (options->metadata_count && !options->metadata)) return true;
  const size_t total = (size_t)options->metadata_count + (size_t)blocks;
  *all = situ__calloc(total, sizeof **all);
  if (!*all) return situ__no_memory(op, total * sizeof **all), false;
  for (int64_t i = 0; i < count; i++) {
    if (!situ_block_type_of(list[i].tensor)) continue;
    situ__text_add(keys, "%s%s", SITU__BLOCKS_KEY, list[i].entry.name);
    situ__text_append(keys, "", 1);
  }
  if (keys->failed) return situ__no_memory(op, keys->length), false;
  if (options->metadata_count) memcpy(*all, options->metadata, (size_t)options->metadata_count * sizeof **all);
  situ_metadata *to = *all + options->metadata_count;
  const char *key = keys->data;
  for (int64_t i = 0; i < count; i++) {
    const situ_block_type type = situ_block_type_of(list[i].tensor);
    if (!type) continue;
    *to++ = (situ_metadata){ key, situ_block_name(type) };
    key += strlen(key) + 1;
  }
  options->metadata = *all;
  options->metadata_count = (int64_t)total;
  return true;
}

/* ---- the call -------------------------------------------------------------------------------- */

static situ_tensor *tensor_at(const void *flat, int64_t i, const char **name) {
  *name = situ_tree_key(flat, i);
  return situ_tree_tensor_at(flat, i);
}

situ_status situ_save(const char *path, const situ_tree *tree, const situ_save_options *options) {
  SITU__MADE_OF_OPS("save");
  const char *op = "save";
  static const situ_save_options defaults;
  if (!options) options = &defaults;
  if (options->replaced) *options->replaced = SITU_NOT_REPLACED;
  if (!path) return situ__null(op, "path");
  if (!tree) return situ__null(op, "tree");
  if (options->max_shard_bytes < 0)
    return situ__fail(SITU_E_ARG, op, "max_shard_bytes is %lld: 0 for one file, else the bytes of a shard",
                      (long long)options->max_shard_bytes);
  situ_tree *flat = situ_tree_flatten(tree);
  if (!flat) return situ_error();
  int64_t count = situ_tree_count(flat);
  situ__saved *list = situ__calloc((size_t)count + 1, sizeof *list);
  situ_status status = list ? SITU_OK : situ__no_memory(op, ((size_t)count + 1) * sizeof *list);
  situ__still still = { 0 };
  if (status == SITU_OK && !situ__still_begin(op, &still, tensor_at, flat, count)) status = situ_error();
  for (int64_t i = 0; i < count && status == SITU_OK; i++)
    if (!fill_saved(op, situ_tree_key(flat, i), situ_tree_tensor_at(flat, i), &list[i])) status = situ_error();
  situ_save_options given = *options;
  situ_metadata *metadata = NULL;
  situ__text keys = { 0 };
  if (status == SITU_OK && !add_blocks(op, list, count, &given, &metadata, &keys)) status = situ_error();
  if (status == SITU_OK) {
    status = given.max_shard_bytes > 0 ? situ__save_shards(op, path, list, count, &given, &still)
                                       : situ__save_file(op, path, list, count, &given, &still);
  }
  situ__still_end(&still);
  situ__text_free(&keys);
  situ__free(metadata);
  situ__free(list);
  situ_tree_free(flat);
  return status;
}
