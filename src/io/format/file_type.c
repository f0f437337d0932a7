/* The dtypes of the safetensors format, and the bytes that a shape of them takes.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/size.h"
#include "file_type.h"

static const situ__file_type types[] = {
  { "BOOL", SITU_BOOL, 8 },
  { "U8", SITU_U8, 8 },
  { "I8", SITU_I8, 8 },
  { "I16", SITU_I16, 16 },
  { "I32", SITU_I32, 32 },
  { "I64", SITU_I64, 64 },
  { "F16", SITU_F16, 16 },
  { "BF16", SITU_BF16, 16 },
  { "F32", SITU_F32, 32 },
  { "F64", SITU_F64, 64 },
  { "U16", SITU_DTYPE_DEFAULT, 16 },
  { "U32", SITU_DTYPE_DEFAULT, 32 },
  { "U64", SITU_DTYPE_DEFAULT, 64 },
  { "C64", SITU_DTYPE_DEFAULT, 64 },
  { "F4", SITU_DTYPE_DEFAULT, 4 },
  { "F6_E2M3", SITU_DTYPE_DEFAULT, 6 },
  { "F6_E3M2", SITU_DTYPE_DEFAULT, 6 },
  { "F8_E5M2", SITU_DTYPE_DEFAULT, 8 },
  { "F8_E4M3", SITU_DTYPE_DEFAULT, 8 },
  { "F8_E8M0", SITU_DTYPE_DEFAULT, 8 },
  { "F8_E4M3FNUZ", SITU_DTYPE_DEFAULT, 8 },
  { "F8_E5M2FNUZ", SITU_DTYPE_DEFAULT, 8 },
};
enum { TYPES = sizeof types / sizeof *types };

const situ__file_type *situ__file_type_named(const char *name) {
  for (int i = 0; i < TYPES; i++)
    if (strcmp(types[i].name, name) == 0) return &types[i];
  return NULL;
}

const situ__file_type *situ__file_type_of(situ_dtype dtype) {
  for (int i = 0; i < TYPES; i++)
    if (types[i].dtype == dtype && dtype != SITU_DTYPE_DEFAULT) return &types[i];
  return NULL;
}

bool situ__shape_bytes(const situ_shape *shape, int bits, int64_t *out) {
  /* A size of 0 must not hide an overflow: [0, 2^62, 2^62] is an error too. */
  int64_t count = 1, total;
  bool empty = false;
  for (int i = 0; i < shape->ndim; i++) {
    if (shape->dim[i] == 0) empty = true;
    else if (!situ__mul_i64(count, shape->dim[i], &count)) return false;
  }
  if (!situ__mul_i64(count, bits, &total)) return false;
  if (empty) total = 0;
  *out = total / 8;
  return total % 8 == 0;
}

bool situ__is_row_major(const situ_shape *size, const situ_shape *stride) {
  int64_t step = 1;
  bool dense = true;
  for (int d = size->ndim - 1; d >= 0; d--) {
    if (size->dim[d] == 0) return true;
    dense = dense && (size->dim[d] == 1 || stride->dim[d] == step) && situ__mul_i64(step, size->dim[d], &step);
  }
  return dense;
}

int situ__metadata_by_key(const void *a, const void *b) {
  return strcmp(((const situ_metadata *)a)->key, ((const situ_metadata *)b)->key);
}
