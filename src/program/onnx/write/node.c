/* Nodes and constants of a written ONNX model.
   Format: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto3
   SPDX-License-Identifier: MIT */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "write.h"

int situ__onnx_number_of(situ_dtype dtype) {
  static const int number[] = { [SITU_U8] = 2,   [SITU_I8] = 3,  [SITU_I16] = 5,  [SITU_I32] = 6,  [SITU_I64] = 7,
                                [SITU_F16] = 10, [SITU_F32] = 1, [SITU_F64] = 11, [SITU_BOOL] = 9, [SITU_BF16] = 16 };
  return number[dtype];
}

const char *situ__onnx_lacks(situ__onnx_writer *w, const char *why) {
  if (w->failed) return NULL;
  situ__lacks_note(&w->lacks, w->node->row->target, *w->node->module ? w->node->module : "forward", why, w->node);
  return NULL;
}

static const char *no_memory(situ__onnx_writer *w) {
  w->failed = true;
  return NULL;
}

const char *situ__onnx_new_name(situ__onnx_writer *w, const char *stem) {
  char name[160];
  (void)snprintf(name, sizeof name - 12, "%s", stem);
  const size_t length = strlen(name);
  for (int64_t n = w->names.count; situ__names_get(&w->names, name) >= 0; n++)
    (void)snprintf(name + length, sizeof name - length, "_%d", (int)n);
  const char *kept = situ__arena_text(&w->arena, name, strlen(name));
  return kept && situ__names_put(&w->names, kept, 0) ? kept : no_memory(w);
}

/* ---- attributes ---- */

enum { ATTRIBUTE_FLOAT = 1, ATTRIBUTE_INT = 2, ATTRIBUTE_TEXT = 3, ATTRIBUTE_INTS = 7, ATTRIBUTE_TEXTS = 8 };

static void put_attribute(situ__protobuf_writer *node, const char *name, int length, char code, va_list *args) {
  situ__protobuf_writer a = { 0 };
  int kind = ATTRIBUTE_INT;
  situ__protobuf_put_bytes(&a, 1, name, (size_t)length);
  if (code == 'i') situ__protobuf_put_int(&a, 3, va_arg(*args, int64_t));
  else if (code == 'f') situ__protobuf_put_float(&a, 2, (float)va_arg(*args, double)), kind = ATTRIBUTE_FLOAT;
  else if (code == 's') situ__protobuf_put_text(&a, 4, va_arg(*args, const char *)), kind = ATTRIBUTE_TEXT;
  else if (code == 'S') {
    const char *text = va_arg(*args, const char *);
    for (int times = va_arg(*args, int); times > 0; times--) situ__protobuf_put_text(&a, 9, text);
    kind = ATTRIBUTE_TEXTS;
  } else {
    const situ_shape *list = va_arg(*args, const situ_shape *);
    for (int i = 0; i < list->ndim; i++) situ__protobuf_put_int(&a, 8, list->dim[i]);
    kind = ATTRIBUTE_INTS;
  }
  situ__protobuf_put_int(&a, 20, kind);
  situ__protobuf_put_message(node, 5, &a);
  situ__protobuf_free(&a);
}

static void put_attributes(situ__protobuf_writer *node, const char *attributes, va_list *args) {
  for (const char *at = attributes; *at;) {
    const int length = (int)strcspn(at, ":");
    put_attribute(node, at, length, at[length + 1], args);
    at += length + 2;
    at += *at == ' ';
  }
}

/* ---- nodes ---- */

static bool put_node(situ__onnx_writer *w, const char *type, const char *const *in, const char **out, int outs,
                     const char *attributes, va_list *args) {
  situ__protobuf_writer node = { 0 };
  if (w->failed || !*in) return false; /* an operand that could not be written */
  for (; *in; in++) situ__protobuf_put_text(&node, 1, *in);
  for (int i = 0; i < outs; i++) {
    if (!(out[i] = situ__onnx_new_name(w, type))) break;
    situ__protobuf_put_text(&node, 2, out[i]);
  }
  situ__protobuf_put_text(&node, 3, out[0] ? out[0] : "");
  situ__protobuf_put_text(&node, 4, type);
  put_attributes(&node, attributes, args);
  situ__protobuf_put_message(&w->nodes, 1, &node);
  w->failed |= w->nodes.failed;
  situ__protobuf_free(&node);
  return !w->failed;
}

bool situ__onnx_put_all(situ__onnx_writer *w, const char *type, const char *const *in, const char **out, int outs,
                        const char *attributes, ...) {
  va_list args;
  va_start(args, attributes);
  const bool good = put_node(w, type, in, out, outs, attributes, &args);
  va_end(args);
  return good;
}

const char *situ__onnx_put(situ__onnx_writer *w, const char *type, const char *const *in, const char *attributes, ...) {
  const char *out = NULL;
  va_list args;
  va_start(args, attributes);
  const bool good = put_node(w, type, in, &out, 1, attributes, &args);
  va_end(args);
  return good ? out : NULL;
}

const char *situ__onnx_put1(situ__onnx_writer *w, const char *type, const char *x) {
  return situ__onnx_put(w, type, SITU__ONNX_IN(x), "");
}

const char *situ__onnx_put2(situ__onnx_writer *w, const char *type, const char *a, const char *b) {
  return a && b ? situ__onnx_put(w, type, SITU__ONNX_IN(a, b), "") : NULL;
}

const char *situ__onnx_cast(situ__onnx_writer *w, const char *x, situ_dtype from, situ_dtype to) {
  if (from == to || !x) return x;
  return situ__onnx_put(w, "Cast", SITU__ONNX_IN(x), "to:i", (int64_t)situ__onnx_number_of(to));
}

const char *situ__onnx_expand(situ__onnx_writer *w, const char *x, const char *sizes, situ_dtype dtype) {
  const situ_dtype as = dtype == SITU_BF16 ? SITU_F32 : dtype; /* runtimes have none of it */
  return situ__onnx_cast(w, situ__onnx_put2(w, "Expand", situ__onnx_cast(w, x, dtype, as), sizes), as, dtype);
}

/* ---- constants ---- */

const char *situ__onnx_constant(situ__onnx_writer *w, situ_dtype dtype, const situ_shape *shape, const void *values) {
  situ__protobuf_writer tensor = { 0 };
  const char *name = situ__onnx_new_name(w, "constant");
  size_t bytes = situ_dtype_size(dtype);
  if (!name) return NULL;
  for (int d = 0; d < shape->ndim; d++) {
    situ__protobuf_put_int(&tensor, 1, shape->dim[d]);
    bytes *= (size_t)shape->dim[d];
  }
  situ__protobuf_put_int(&tensor, 2, situ__onnx_number_of(dtype));
  situ__protobuf_put_text(&tensor, 8, name);
  situ__protobuf_put_bytes(&tensor, 9, values, bytes);
  situ__protobuf_put_message(&w->constants, 5, &tensor);
  w->failed |= w->constants.failed;
  situ__protobuf_free(&tensor);
  return w->failed ? NULL : name;
}

const char *situ__onnx_ints(situ__onnx_writer *w, const situ_shape *values) {
  return situ__onnx_constant(w, SITU_I64, &SITU_SHAPE(values->ndim), values->dim);
}

const char *situ__onnx_int(situ__onnx_writer *w, int64_t value) { return situ__onnx_ints(w, &SITU_SHAPE(value)); }

bool situ__onnx_range_of(situ_dtype dtype, double *least, double *most) {
  const int bits = dtype == SITU_BOOL ? 1 : 8 * (int)situ_dtype_size(dtype);
  const bool below = situ_dtype_is_integer(dtype) && dtype != SITU_U8;
  *most = (double)((UINT64_C(1) << (bits < 64 ? bits - below : 63)) - 1);
  *least = below ? -*most - 1 : 0;
  return dtype != SITU_I64 && !situ_dtype_is_floating(dtype);
}

/* Exact for the dtypes that a double holds; an integer beyond 2^53 is not a number of a call. */
const char *situ__onnx_scalar(situ__onnx_writer *w, double value, situ_dtype dtype) {
  const situ_shape none = { 0 };
  const float single = (float)value;
  const int64_t integer = value >= -0x1p63 && value < 0x1p63 ? (int64_t)value : value > 0 ? INT64_MAX : INT64_MIN;
  switch (dtype) {
  case SITU_F64: return situ__onnx_constant(w, dtype, &none, &value);
  case SITU_F32: return situ__onnx_constant(w, dtype, &none, &single);
  case SITU_F16:
  case SITU_BF16: return situ__onnx_cast(w, situ__onnx_constant(w, SITU_F32, &none, &single), SITU_F32, dtype);
  case SITU_BOOL: return situ__onnx_constant(w, dtype, &none, &(unsigned char){ value != 0 });
  case SITU_I64: return situ__onnx_constant(w, dtype, &none, &integer);
  default: return situ__onnx_cast(w, situ__onnx_constant(w, SITU_I64, &none, &integer), SITU_I64, dtype);
  }
}
