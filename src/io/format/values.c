/* Transfers the values of a tensor between a file and memory.
   SPDX-License-Identifier: MIT */
#include "values.h"

#include <string.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/problem.h"
#include "base/stream.h"
#include "situ/ops.h"
#include "situ/sys/shape.h"
#include "situ/sys/plain.h"
#include "situ/sys/tensor.h"

/* Bytes per read or write: the piece is still in the cache when its checksum is computed. */
#define PIECE ((size_t)128 << 10)
/* A tensor of as many bytes goes through a buffer in the cache, so that its own memory is only written. */
#define STREAMED ((size_t)1 << 20)
/* Bytes per piece of a tensor that is read to another device: large enough for the copy to run at full speed. */
#define PART ((size_t)16 << 20)

static bool bad_values(const situ__source *source, const char *name, const char *what) {
  char shown[SITU__SHOWN_MAX];
  return situ__fail(SITU_E_FORMAT, source->op, "%s: tensor '%s' %s", source->path, situ__shown(name, shown), what),
         false;
}

/* A bool other than 0 and 1 is undefined behaviour in C. */
static bool bools_are_bools(const unsigned char *at, size_t bytes) {
  unsigned char all = 0;
  for (size_t i = 0; i < bytes; i++) all |= at[i];
  return all <= 1;
}

static bool check_bools(const situ__source *source, const char *name, const void *data, size_t bytes,
                        situ_dtype dtype) {
  return dtype != SITU_BOOL || bools_are_bools(data, bytes) ||
         bad_values(source, name, "is bool, but has bytes other than 0 and 1");
}

static bool check_sum(const situ__source *source, const char *name, uint32_t sum, const uint32_t *wanted) {
  return !wanted || sum == *wanted || bad_values(source, name, "does not match its checksum: the file is damaged");
}

void situ__values_hide(situ_tensor *t) {
  const situ_view_desc *d = situ_desc(t);
  if (d) (void)__atomic_and_fetch(&d->storage->flags, ~SITU_STORAGE_EXPOSED, __ATOMIC_RELAXED);
}

/* A tensor on the host with the values at an offset; *sum (NULL: none) goes on over them. */
static situ_tensor *read_part(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                              situ_dtype dtype, uint32_t *sum) {
  situ_tensor *t = situ_empty(*shape, &(situ_options){ .dtype = dtype, .device = { .kind = SITU_CPU } });
  char *data = situ_data_ptr(t);
  if (!t || situ_numel(t) == 0) return t;
  size_t bytes = (size_t)situ_numel(t) * situ_dtype_size(dtype);
  char *buffer = bytes >= STREAMED ? situ__alloc(PIECE) : NULL;
  situ_status status = SITU_OK;
  for (size_t at = 0; at < bytes && status == SITU_OK; at += PIECE) {
    size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
    char *to = buffer ? buffer : data + at;
    status = situ__file_read(source->op, source->path, source->fd, to, piece, offset + (int64_t)at);
    if (status == SITU_OK && sum) *sum = situ__crc32c(*sum, to, piece);
    if (status == SITU_OK && buffer) situ__stream(data + at, buffer, (int64_t)piece);
  }
  if (buffer) situ__stream_end();
  situ__free(buffer);
  if (status != SITU_OK) return NULL;
  situ__values_hide(t);
  return check_bools(source, name, data, bytes, dtype) ? t : NULL;
}

/* Reads into t, which is on another device, a part at a time: the host never holds it whole. */
static bool read_parts(const situ__source *source, const char *name, int64_t offset, situ_tensor *t, uint32_t *sum) {
  const situ_dtype dtype = situ_dtype_of(t);
  const int64_t size = (int64_t)situ_dtype_size(dtype), numel = situ_numel(t), most = (int64_t)PART / size;
  situ_tensor *flat = situ_view(t, SITU_SHAPE(numel));
  bool good = flat != NULL;
  for (int64_t at = 0; good && at < numel; at += most) {
    const int64_t count = numel - at < most ? numel - at : most;
    situ_scope scope;
    situ_scope_begin_no_grad(&scope);
    situ_tensor *part =
        situ_set_name(read_part(source, name, offset + at * size, &SITU_SHAPE(count), dtype, sum), name);
    good = part && situ_copy_(situ_narrow(flat, 0, at, count), situ_to(part, situ_device_of(t)));
    good = situ_scope_end(&scope) == SITU_OK && good;
  }
  return good;
}

static situ_tensor *read_values(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                                situ_dtype dtype, situ_device device, const uint32_t *wanted) {
  uint32_t sum = 0, *taken = wanted ? &sum : NULL;
  if (device.kind <= SITU_CPU || device.kind == SITU_META) {
    situ_tensor *t = read_part(source, name, offset, shape, dtype, taken);
    return t && check_sum(source, name, sum, wanted) ? t : NULL;
  }
  situ_tensor *t = situ_empty(*shape, &(situ_options){ .dtype = dtype, .device = device });
  return t && read_parts(source, name, offset, t, taken) && check_sum(source, name, sum, wanted) ? t : NULL;
}

static situ_tensor *map_values(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                               situ_dtype dtype, const uint32_t *wanted) {
  situ_tensor *t = situ__mapping_tensor(source->mapping, offset, shape, dtype);
  if (!t) return NULL;
  const char *data = situ__mapping_at(source->mapping, offset);
  size_t bytes = (size_t)situ_numel(t) * situ_dtype_size(dtype);
  return check_sum(source, name, wanted ? situ__crc32c(0, data, bytes) : 0, wanted) &&
                 check_bools(source, name, data, bytes, dtype)
             ? t
             : NULL;
}

situ_tensor *situ__values_load(const situ__source *source, const char *name, int64_t offset, const situ_shape *shape,
                               situ_dtype dtype, situ_device device, const uint32_t *sum) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  /* Values that are not aligned for the kernels cannot be mapped: they are read instead. */
  bool map = source->mapping && (uint64_t)offset % situ_dtype_size(dtype) == 0;
  situ_tensor *t = map ? map_values(source, name, offset, shape, dtype, sum)
                       : read_values(source, name, offset, shape, dtype, device, sum);
  if (device.kind != SITU_DEVICE_DEFAULT && device.kind != SITU_CPU)
    t = situ_to(situ_set_name(t, name), device); /* as it is, if it is there */
  return situ_scope_return(&scope, t);
}

situ_status situ__values_check(const situ__source *source, const char *name, int64_t offset, int64_t bytes,
                               uint32_t wanted) {
  uint32_t sum = 0;
  if (source->mapping) sum = situ__crc32c(0, situ__mapping_at(source->mapping, offset), (size_t)bytes);
  char *buffer = source->mapping ? NULL : situ__alloc(PIECE);
  if (!source->mapping && !buffer) return situ__no_memory(source->op, PIECE);
  situ_status status = SITU_OK;
  for (int64_t at = 0; buffer && at < bytes && status == SITU_OK; at += (int64_t)PIECE) {
    const size_t piece = (size_t)(bytes - at) < PIECE ? (size_t)(bytes - at) : PIECE;
    status = situ__file_read(source->op, source->path, source->fd, buffer, piece, offset + at);
    sum = situ__crc32c(sum, buffer, piece);
  }
  situ__free(buffer);
  return status == SITU_OK && !check_sum(source, name, sum, &wanted) ? situ_error() : status;
}

situ_status situ__values_on_host(const char *op, const char *name, situ_tensor *t, const void **data, size_t *bytes) {
  const situ_view_desc *view = situ_desc(t);
  char shown[SITU__SHOWN_MAX];
  *data = NULL;
  *bytes = 0;
  if (situ_device_of(t).kind == SITU_META)
    return situ__fail(SITU_E_DEVICE, op, "'%s' is on meta: it has no values", situ__shown(name, shown));
  if (view->numel == 0) return SITU_OK;
  if (!situ_has_values(t))
    return situ__fail(SITU_E_STATE, op, "'%s' holds no value yet, or not in all its parts", situ__shown(name, shown));
  const uint64_t lock = situ__still_lock(t);
  t = situ_to(situ_contiguous(t), (situ_device){ .kind = SITU_CPU });
  situ__write_end(lock);
  *data = situ_data_ptr(t);
  *bytes = (size_t)view->numel * situ_dtype_size(situ_dtype_of(t));
  return *data ? SITU_OK : situ_error();
}

/* By a copy of each piece: the checksum is that of what is written, also if the program writes to t meanwhile. */
situ_status situ__values_write(situ__replace *r, const situ_tensor *t, const void *data, size_t bytes, uint32_t *sum) {
  const char *from = data;
  char few[1024], *buffer = bytes > sizeof few ? situ__alloc(bytes < PIECE ? bytes : PIECE) : few;
  uint32_t crc = 0;
  if (!buffer) return situ__no_memory(r->op, bytes < PIECE ? bytes : PIECE);
  for (size_t at = 0; at < bytes && r->status == SITU_OK; at += PIECE) {
    size_t piece = bytes - at < PIECE ? bytes - at : PIECE;
    const uint64_t lock = situ__still_lock(t);
    memcpy(buffer, from + at, piece);
    situ__write_end(lock);
    situ__replace_write(r, buffer, piece);
    if (sum) crc = situ__crc32c(crc, buffer, piece);
  }
  if (buffer != few) situ__free(buffer);
  if (sum) *sum = crc;
  return r->status;
}

situ_status situ__values_end(situ__replace *r, const situ_save_options *options, const situ__still *still) {
  bool replaced;
  if (r->status == SITU_OK && !situ__still_unchanged(r->op, still)) {
    if (options->replaced) *options->replaced = SITU_NOT_REPLACED;
    situ__replace_abandon(r);
    return situ_error();
  }
  situ_status status = situ__replace_end(r, &replaced);
  if (options->replaced)
    *options->replaced = !replaced ? SITU_NOT_REPLACED : status == SITU_OK ? SITU_REPLACED : SITU_REPLACED_NOT_DURABLE;
  return status;
}
