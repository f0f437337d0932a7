/* Tensors of ONNX files: in the model's bytes, or in files beside it.
   SPDX-License-Identifier: MIT */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/problem.h"
#include "base/size.h"
#include "io/safetensors/header.h"
#include "io/format/values.h"
#include "onnx.h"

/* ---- dtypes ---- */

static const struct {
  const char *name;
  situ_dtype dtype;
} dtypes[] = { [1] = { "FLOAT", SITU_F32 },
               [2] = { "UINT8", SITU_U8 },
               [3] = { "INT8", SITU_I8 },
               [5] = { "INT16", SITU_I16 },
               [6] = { "INT32", SITU_I32 },
               [7] = { "INT64", SITU_I64 },
               [8] = { "STRING", 0 },
               [9] = { "BOOL", SITU_BOOL },
               [10] = { "FLOAT16", SITU_F16 },
               [11] = { "DOUBLE", SITU_F64 },
               [14] = { "COMPLEX64", 0 },
               [15] = { "COMPLEX128", 0 },
               [16] = { "BFLOAT16", SITU_BF16 },
               [27] = { "FLOAT6E2M3", 0 },
               [28] = { "FLOAT6E3M2", 0 } };
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

situ_dtype situ__onnx_dtype(uint64_t number) {
  const situ__onnx_format *format = situ__onnx_format_of(number);
  if (format) return format->wide;
  return number < DTYPES ? dtypes[number].dtype : SITU_DTYPE_DEFAULT;
}
const char *situ__onnx_dtype_name(uint64_t number, char out[32]) {
  const situ__onnx_format *format = situ__onnx_format_of(number);
  const char *name = format ? format->name : number < DTYPES ? dtypes[number].name : NULL;
  if (name) (void)snprintf(out, 32, "%s", name);
  else (void)snprintf(out, 32, "number %llu", (unsigned long long)number);
  return out;
}

/* ---- the message ---- */

/* A number in decimal, as external data has it; false for anything else. */
static bool read_decimal(const char *text, int64_t *out) {
  *out = 0;
  if (!*text) return false;
  for (; *text; text++)
    if (*text < '0' || *text > '9' || !situ__mul_i64(*out, 10, out) || !situ__add_i64(*out, *text - '0', out))
      return false;
  return true;
}

/* An entry of external_data: a key and its value. */
static bool read_external(situ__onnx *f, situ__protobuf entry, situ__onnx_tensor *t) {
  const char *key = "", *value = "";
  for (situ__protobuf_field field; situ__protobuf_next(&entry, &field);)
    if (field.wire == SITU__PROTOBUF_BYTES && field.number <= 2) {
      const char *text = situ__onnx_text(f, &field.bytes);
      if (!text) return false;
      *(field.number == 1 ? &key : &value) = text;
    }
  if (entry.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has external data that is cut off");
  if (strcmp(key, "location") == 0) t->location = value;
  const bool offset = strcmp(key, "offset") == 0;
  if ((offset || strcmp(key, "length") == 0) && !read_decimal(value, offset ? &t->offset : &t->length))
    return situ__onnx_bad(f, SITU_E_FORMAT, "has external data whose %s is not a number", key);
  return true;
}

static bool read_dims(situ__onnx *f, situ__protobuf *m, situ__protobuf_field *field, situ__onnx_tensor *t) {
  situ_shape *shape = &t->shape;
  uint64_t dim;
  while (situ__protobuf_element(m, field, SITU__PROTOBUF_VARINT, &dim)) {
    if (shape->ndim == SITU_MAX_DIMS)
      return situ__onnx_bad(f, SITU_E_LIMIT, "has a tensor '%s' of more than %d dimensions", t->name, SITU_MAX_DIMS);
    shape->dim[shape->ndim++] = (int64_t)dim;
    if ((int64_t)dim < 0) return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' with a negative size", t->name);
  }
  return true;
}

bool situ__onnx_read_tensor(situ__onnx *f, situ__protobuf message, situ__onnx_tensor *t) {
  enum { DIMS = 1, DATA_TYPE = 2, SEGMENT = 3, NAME = 8, RAW = 9, EXTERNAL = 13, LOCATION = 14 };
  *t = (situ__onnx_tensor){ .name = "", .message = message, .length = -1 };
  situ__protobuf m = message;
  bool fine = true;
  for (situ__protobuf_field field; fine && situ__protobuf_next(&m, &field);) /* first, for the others' errors */
    if (field.number == NAME && field.wire == SITU__PROTOBUF_BYTES)
      fine = (t->name = situ__onnx_text(f, &field.bytes)) != NULL;
  if (!fine) return false;
  m = message;
  for (situ__protobuf_field field; fine && situ__protobuf_next(&m, &field);) {
    const bool bytes = field.wire == SITU__PROTOBUF_BYTES, number = field.wire == SITU__PROTOBUF_VARINT;
    if (field.number == DIMS) fine = read_dims(f, &m, &field, t);
    else if (field.number == DATA_TYPE && number) t->number = field.value;
    else if (field.number == SEGMENT)
      fine = situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has a tensor '%s' in segments", t->name);
    else if (field.number == EXTERNAL && bytes) fine = read_external(f, field.bytes, t);
    else if (field.number == LOCATION && number) t->external = field.value == 1;
    else if (field.number == RAW && bytes) {
      t->raw = field.bytes;
      t->has_raw = true;
    }
  }
  t->dtype = situ__onnx_dtype(t->number);
  t->format = situ__onnx_format_of(t->number);
  if (fine && m.bad) return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' that is cut off", t->name);
  return fine;
}

/* ---- files beside the model ---- */

static bool bad_location(situ__onnx *f, const char *location, const char *why) {
  char shown[SITU__SHOWN_MAX];
  return situ__onnx_bad(f, SITU_E_FORMAT, "names the file '%s' with its values, %s", situ__shown(location, shown), why);
}

static int open_at(int dir, const char *name, int flags) {
  int fd;
  do fd = situ__sys.openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0);
  while (fd < 0 && errno == EINTR);
  return fd;
}

/* Opens the file part by part, so that no symbolic link is followed out of the model's directory. */
static int open_below(situ__onnx *f, const char *location) {
  const char *slash = strrchr(f->path, '/');
  const size_t length = slash ? (size_t)(slash - f->path) + 1 : 1;
  const char *directory = situ__arena_text(&f->program->arena, slash ? f->path : ".", length);
  char *parts = situ__arena_text(&f->program->arena, location, strlen(location));
  if (!directory || !parts) return situ__onnx_no_memory(), -1;
  if (*location == '/' || strchr(location, '\\')) return bad_location(f, location, "which is not a relative path"), -1;
  int fd = open_at(AT_FDCWD, directory, O_DIRECTORY);
  for (char *next; fd >= 0 && parts; parts = next) {
    next = strchr(parts, '/');
    if (next) *next++ = 0;
    const bool inside = *parts && strcmp(parts, "..") != 0;
    const int inner = inside ? open_at(fd, parts, O_NOFOLLOW | (next ? O_DIRECTORY : 0)) : -1;
    situ__file_close(fd);
    fd = inner;
    if (!inside) return bad_location(f, location, "which is not inside the model's directory"), -1;
  }
  if (fd < 0) {
    const bool link = errno == ELOOP || errno == EMLINK || errno == ENOTDIR;
    char why[160] = "which is or passes a symbolic link: copy it into place";
    if (!link)
      (void)snprintf(why, sizeof why, "which cannot be opened (%s): it belongs beside the model", strerror(errno));
    bad_location(f, location, why);
  }
  return fd;
}

/* Opens a file beside the model, or finds it open; NULL after recording an error. */
static const situ__onnx_file *open_file(situ__onnx *f, const char *location) {
  for (int32_t i = 0; i < f->files; i++)
    if (strcmp(f->file[i].location, location) == 0) return &f->file[i];
  situ__onnx_file *larger = situ__realloc(f->file, ((size_t)f->files + 1) * sizeof *larger);
  if (!larger) return situ__onnx_no_memory(), NULL;
  f->file = larger;
  situ__onnx_file *file = &f->file[f->files];
  *file = (situ__onnx_file){ .location = location, .fd = open_below(f, location) };
  if (file->fd < 0) return NULL;
  f->files++;
  struct stat about;
  if (situ__sys.fstat(file->fd, &about) != 0 || !S_ISREG(about.st_mode))
    return bad_location(f, location, "which is not a file"), NULL;
  file->bytes = about.st_size;
  if (f->options.map && file->bytes > 0 &&
      !(file->mapping = situ__mapping_new("export_load", location, file->fd, file->bytes)))
    return NULL;
  return file;
}

/* ---- values ---- */

static situ_tensor *load_external(situ__onnx *f, const situ__onnx_tensor *t, int64_t bytes, situ_device device) {
  int64_t end;
  if (!t->location) return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' in no file", t->name), NULL;
  const situ__onnx_file *file = open_file(f, t->location);
  if (!file) return NULL;
  if ((t->length >= 0 && t->length != bytes) || !situ__add_i64(t->offset, bytes, &end) || end > file->bytes)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' of %lld bytes at %lld, which file '%s' does not have",
                          t->name, (long long)bytes, (long long)t->offset, t->location),
           NULL;
  const situ__source source = { .op = "export_load", .path = t->location, .fd = file->fd, .mapping = file->mapping };
  return situ__values_load(&source, t->name, t->offset, &t->shape, t->dtype, device, NULL);
}

static situ_tensor *load_raw(situ__onnx *f, const situ__onnx_tensor *t, int64_t bytes, situ_device device) {
  if (t->raw.bytes != bytes)
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' of %lld bytes, whose shape needs %lld", t->name,
                          (long long)t->raw.bytes, (long long)bytes),
           NULL;
  const situ__source source = {
    .op = "export_load", .path = f->path, .fd = f->fd, .mapping = f->options.map ? f->mapping : NULL
  };
  const int64_t offset = bytes ? t->raw.at - (const unsigned char *)situ__mapping_at(f->mapping, 0) : 0;
  return situ__values_load(&source, t->name, offset, &t->shape, t->dtype, device, NULL);
}

/* The field of a tensor's typed values, and how an element is encoded. */
static uint32_t typed_field(const situ__onnx_tensor *t, situ__protobuf_wire *wire) {
  enum { UINT32 = 12, UINT64 = 13 };
  const situ_dtype dtype = t->dtype;
  *wire = dtype == SITU_F32   ? SITU__PROTOBUF_FIXED32
          : dtype == SITU_F64 ? SITU__PROTOBUF_FIXED64
                              : SITU__PROTOBUF_VARINT;
  if (t->number == UINT32 || t->number == UINT64) return 11;
  switch (dtype) {
  case SITU_F32: return 4;
  case SITU_I64: return 7;
  case SITU_F64: return 10;
  default: return 5;
  }
}

static situ_tensor *load_typed(situ__onnx *f, const situ__onnx_tensor *t, situ_device device) {
  const size_t size = situ_dtype_size(t->dtype);
  situ_tensor *out;
  int64_t count = 0, numel = 1;
  situ__protobuf_wire wire;
  const uint32_t number = typed_field(t, &wire);
  situ__protobuf m = t->message;
  bool bools = true;
  uint64_t element;
  /* Each element takes at least a byte of the message: this bounds the allocation. */
  for (int d = 0; d < t->shape.ndim; d++)
    if (!situ__mul_i64(numel, t->shape.dim[d], &numel)) numel = INT64_MAX;
  if (numel > m.bytes) out = NULL;
  else out = situ_empty(t->shape, &(situ_options){ .dtype = t->dtype, .device = { .kind = SITU_CPU } });
  if (numel <= m.bytes && !out) return NULL;
  char *data = out && numel ? situ_data_ptr(out) : NULL;
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);)
    while (field.number == number && situ__protobuf_element(&m, &field, wire, &element)) {
      bools = bools && element <= 1;
      if (data && count < numel) memcpy(data + (size_t)count * size, &element, size); /* little-endian */
      count++;
    }
  if (m.bad || count != numel || (t->dtype == SITU_BOOL && !bools))
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' of %lld values, whose shape or dtype needs others",
                          t->name, (long long)count),
           NULL;
  situ__values_hide(out);
  return device.kind == SITU_DEVICE_DEFAULT ? out : situ_to(out, device);
}

situ_tensor *situ__onnx_load_codes(situ__onnx *f, const situ__onnx_tensor *t, situ_device device) {
  situ__onnx_tensor stored = *t;
  char dtype[32];
  int64_t bytes;
  if (!t->dtype)
    return situ__onnx_bad(f, SITU_E_UNSUPPORTED, "has a tensor '%s' of dtype %s, which this library lacks", t->name,
                          situ__onnx_dtype_name(t->number, dtype)),
           NULL;
  if (t->format) stored.dtype = situ__onnx_format_carrier(t->format);
  if (!situ__shape_bytes(&t->shape, (int)(8 * situ_dtype_size(stored.dtype)), &bytes))
    return situ__onnx_bad(f, SITU_E_FORMAT, "has a tensor '%s' of more than 2^63 bytes", t->name), NULL;
  if (t->format && t->format->bits < 8) {
    bytes = situ__ceil_div(bytes, 8 / t->format->bits);
    stored.shape = SITU_SHAPE(bytes);
  }
  if (t->external) return load_external(f, &stored, bytes, device);
  if (t->has_raw) return load_raw(f, &stored, bytes, device);
  return load_typed(f, &stored, device);
}

situ_tensor *situ__onnx_load_tensor(situ__onnx *f, const situ__onnx_tensor *t, situ_device device) {
  if (!t->format) return situ__onnx_load_codes(f, t, device);
  situ_tensor *codes = situ__onnx_load_codes(f, t, (situ_device){ .kind = SITU_CPU });
  situ_tensor *values = codes ? situ__onnx_format_unpack(t->format, codes, t->shape) : NULL;
  if (!values) return NULL;
  situ__values_hide(values);
  return device.kind == SITU_DEVICE_DEFAULT ? values : situ_to(values, device);
}
