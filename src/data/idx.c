/* Loads IDX files: a type, sizes and values, all big-endian.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/file.h"
#include "data/idx_header.h"
#include "situ/data.h"

#define IDX_MAX ((int64_t)1 << 36)

static situ_dtype dtype_of(unsigned char code) {
  switch (code) {
  case 0x08: return SITU_U8;
  case 0x09: return SITU_I8;
  case 0x0B: return SITU_I16;
  case 0x0C: return SITU_I32;
  case 0x0D: return SITU_F32;
  case 0x0E: return SITU_F64;
  default: return SITU_DTYPE_DEFAULT;
  }
}

bool situ__idx_parse(const unsigned char *data, size_t length, situ__idx *out, situ__problem *problem) {
  if (length >= 2 && data[0] == 0x1F && data[1] == 0x8B)
    return situ__problem_set(problem, SITU_E_FORMAT, "is packed: unpack it with gunzip first");
  if (length < 4 || data[0] != 0 || data[1] != 0)
    return situ__problem_set(problem, SITU_E_FORMAT, "is not an IDX file");
  *out = (situ__idx){ .dtype = dtype_of(data[2]), .shape.ndim = data[3], .start = 4 + 4 * (size_t)data[3] };
  if (!out->dtype) return situ__problem_set(problem, SITU_E_FORMAT, "has values of an unknown type, 0x%02x", data[2]);
  if (out->shape.ndim > SITU_MAX_DIMS)
    return situ__problem_set(problem, SITU_E_LIMIT, "has %d dimensions: %d are the most", data[3], SITU_MAX_DIMS);
  if (length < out->start) return situ__problem_set(problem, SITU_E_FORMAT, "ends within its header");
  size_t bytes = situ_dtype_size(out->dtype);
  bool empty = false, fits = true;
  for (int i = 0; i < out->shape.ndim; i++) {
    const unsigned char *at = data + 4 + 4 * i;
    uint32_t size = (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
    out->shape.dim[i] = size;
    if (size == 0) empty = true;
    else fits = fits && !__builtin_mul_overflow(bytes, (size_t)size, &bytes);
  }
  out->bytes = empty ? 0 : bytes;
  if (!fits || out->bytes != length - out->start)
    return situ__problem_set(problem, SITU_E_FORMAT, "has %zu bytes of values, which do not fit its shape",
                             length - out->start);
  return true;
}

/* Converts big-endian values to the host's byte order, in place. */
static void swap_bytes(unsigned char *at, size_t bytes, size_t width) {
  for (size_t i = 0; width > 1 && i < bytes; i += width)
    for (size_t k = 0; k < width / 2; k++) {
      unsigned char kept = at[i + k];
      at[i + k] = at[i + width - 1 - k];
      at[i + width - 1 - k] = kept;
    }
}

situ_tensor *situ_idx_load(const char *path, situ_device device) {
  static const char op[] = "idx_load";
  situ__problem problem;
  situ__idx idx;
  size_t length;
  situ_tensor *t = NULL;
  unsigned char *data = (unsigned char *)situ__file_load(op, path, IDX_MAX, &length);
  if (!data) return NULL;
  if (situ__idx_parse(data, length, &idx, &problem)) {
    swap_bytes(data + idx.start, idx.bytes, situ_dtype_size(idx.dtype));
    t = situ_from_host(data + idx.start, idx.bytes, idx.shape, &(situ_options){ .dtype = idx.dtype, .device = device });
  } else {
    situ__fail(problem.status, op, "%s: %s", path, problem.text);
  }
  situ__free(data);
  return t;
}
