/* Loads and saves .npy files.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "base/size.h"
#include "base/text.h"
#include "header.h"
#include "io/format/values.h"
#include "situ/blocks.h"
#include "situ/ops.h"

/* Reads and checks the header of an open file of `size` bytes. */
static bool read_header(const char *op, const char *path, int fd, int64_t size, bool lenient, situ_file_entry *out,
                        bool *fortran) {
  unsigned char first[SITU__NPY_START];
  size_t length = size < SITU__NPY_START ? (size_t)size : SITU__NPY_START, begin, header;
  situ__problem problem;
  char *text = NULL;
  if (situ__file_read(op, path, fd, first, length, 0) != SITU_OK) return false;
  bool fine = situ__npy_start(first, length, &begin, &header, &problem);
  if (fine && (int64_t)(begin + header) > size)
    fine = situ__problem_set(&problem, SITU_E_FORMAT, "ends within its header");
  if (fine) {
    text = situ__alloc(header);
    if (!text || situ__file_read(op, path, fd, text, header, (int64_t)begin) != SITU_OK) {
      if (!text) situ__no_memory(op, header);
      situ__free(text);
      return false;
    }
    fine = situ__npy_parse(text, header, out, fortran, &problem);
    situ__free(text);
  }
  if (fine) {
    out->offset = (int64_t)(begin + header);
    int64_t there = size - out->offset;
    if (there < out->bytes || (there > out->bytes && !lenient))
      fine = situ__problem_set(&problem, SITU_E_FORMAT, "has %lld bytes of values, its shape takes %lld",
                               (long long)there, (long long)out->bytes);
  }
  if (!fine) situ__fail(problem.status, op, "%s: %s", path, problem.text);
  return fine;
}

situ_status situ_npy_info(const char *path, situ_file_entry *out) {
  static const char op[] = "npy_info";
  situ_file_entry entry;
  int64_t size;
  bool fortran;
  if (!out) return situ__null(op, "out");
  int fd = situ__file_open(op, path, &size);
  if (fd < 0) return situ_error();
  bool fine = read_header(op, path, fd, size, false, &entry, &fortran);
  situ__file_close(fd);
  if (!fine) return situ_error();
  *out = entry;
  return SITU_OK;
}

/* Converts from Fortran order: t was read in C order with the reversed shape, so its transpose is the array. */
static situ_tensor *from_fortran(situ_tensor *t) {
  situ_shape dims = { .ndim = situ_dim(t) };
  for (int i = 0; i < dims.ndim; i++) dims.dim[i] = dims.ndim - 1 - i;
  return situ_contiguous(situ_permute(t, dims));
}

static situ_tensor *load_values(const situ__source *source, const situ_file_entry *entry, bool fortran,
                                situ_device device) {
  situ_shape shape = entry->shape;
  if (fortran && shape.ndim > 1)
    for (int i = 0; i < shape.ndim; i++) shape.dim[i] = entry->shape.dim[shape.ndim - 1 - i];
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *t = situ__values_load(source, "", entry->offset, &shape, entry->dtype, device, NULL);
  if (fortran && shape.ndim > 1 && t) t = from_fortran(t);
  return situ_scope_return(&scope, t);
}

situ_tensor *situ_npy_load(const char *path, const situ_load_options *options) {
  SITU__MADE_OF_OPS("npy_load");
  static const char op[] = "npy_load";
  static const situ_load_options defaults;
  situ_file_entry entry;
  int64_t size;
  bool fortran;
  if (!options) options = &defaults;
  situ_tensor *t = NULL;
  int fd = situ__file_open(op, path, &size);
  if (fd < 0) return NULL;
  if (read_header(op, path, fd, size, options->lenient, &entry, &fortran)) {
    situ__source source = { .op = op, .path = path, .fd = fd };
    if (!options->map || (source.mapping = situ__mapping_new(op, path, fd, size)))
      t = load_values(&source, &entry, fortran, options->device);
    situ__mapping_release(source.mapping);
  }
  situ__file_close(fd);
  return t;
}

static bool make_header(const char *op, situ_tensor *t, situ__text *text) {
  const char *type = situ__npy_type(situ_dtype_of(t));
  situ_shape shape = situ_shape_of(t);
  if (situ_block_type_of(t))
    return situ__fail(SITU_E_UNSUPPORTED, op,
                      "tensor holds %s blocks, which .npy does not have: save situ_dequantize's",
                      situ_block_name(situ_block_type_of(t))),
           false;
  if (!type)
    return situ__fail(SITU_E_UNSUPPORTED, op, "NumPy has no %s: save situ_to_dtype(tensor, SITU_F32)",
                      situ_dtype_name(situ_dtype_of(t))),
           false;
  situ__text_add(text, "\x93NUMPY%c%c..{'descr': '%s', 'fortran_order': False, 'shape': (", 1, 0, type);
  for (int i = 0; i < shape.ndim; i++) situ__text_add(text, i == 0 ? "%lld" : ", %lld", (long long)shape.dim[i]);
  situ__text_add(text, shape.ndim == 1 ? ",), }" : "), }");
  while (!text->failed && text->length % 64 != 63) situ__text_append(text, " ", 1);
  situ__text_append(text, "\n", 1);
  if (text->failed) return situ__no_memory(op, text->length), false;
  size_t length = text->length - 10;
  text->data[8] = (char)length;
  text->data[9] = (char)(length >> 8);
  return true;
}

situ_status situ_npy_save(const char *path, situ_tensor *tensor, const situ_save_options *options) {
  static const char op[] = "npy_save";
  static const situ_save_options defaults;
  if (!options) options = &defaults;
  if (options->replaced) *options->replaced = SITU_NOT_REPLACED;
  if (!path || !tensor) return situ__null(op, path ? "tensor" : "path");
  situ__text text = { 0 };
  situ__replace r;
  situ_scope scope;
  const void *data;
  size_t bytes;
  situ_scope_begin_no_grad(&scope);
  situ__still still = { 0 };
  situ_status status = situ__still_begin(op, &still, situ__still_one, tensor, 1) && make_header(op, tensor, &text)
                           ? SITU_OK
                           : situ_error();
  if (status == SITU_OK) status = situ__values_on_host(op, situ_name(tensor), tensor, &data, &bytes);
  if (status == SITU_OK) status = situ__replace_begin(&r, op, path, (int64_t)(text.length + bytes), !options->no_sync);
  if (status == SITU_OK) {
    situ__replace_write(&r, text.data, text.length);
    status = situ__values_write(&r, tensor, data, bytes, NULL);
    if (status == SITU_OK) status = situ__values_end(&r, options, &still);
    else situ__replace_abandon(&r);
  }
  situ__still_end(&still);
  situ__text_free(&text);
  situ_status ended = situ_scope_end(&scope);
  return status != SITU_OK ? status : ended;
}
