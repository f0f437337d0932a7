/* Writes a program that was read from an ONNX model: the model as it was, with the values that the module has now.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "io/format/onnx_copy.h"
#include "program/graph/module.h"
#include "situ/sys/shape.h"
#include "write.h"

typedef struct again {
  situ__onnx_copier copier; /* first: the callback gets it */
  situ__onnx_writer *w;
} again;

/* What the kept model says of a tensor. */
typedef struct kept {
  int64_t part; /* its number; -1: it is not a part */
  int number;   /* ONNX's dtype */
  situ_shape shape;
  situ__protobuf name;
} kept;

static kept read_kept(situ__protobuf m) {
  enum { DIMS = 1, DTYPE = 2, NAME = 8 };
  kept k = { .part = -1 };
  for (situ__protobuf_field field; situ__protobuf_next(&m, &field);) {
    uint64_t dim;
    if (field.number == DTYPE) k.number = (int)field.value;
    if (field.number == NAME) k.name = field.bytes;
    if (field.number == SITU__PROGRAM_PART_FIELD) k.part = (int64_t)field.value;
    while (field.number == DIMS && situ__protobuf_element(&m, &field, SITU__PROTOBUF_VARINT, &dim))
      if (k.shape.ndim < SITU_MAX_DIMS) k.shape.dim[k.shape.ndim++] = (int64_t)dim;
  }
  return k;
}

/* The operators of the model are of the dtypes and sizes that it had. */
static bool is_as_before(const situ__onnx_writer *w, const kept *k, const char *path, const situ_tensor *t) {
  const situ_shape shape = situ_shape_of(t);
  if (situ__onnx_number_of(situ_dtype_of(t)) == k->number && situ_shape_equal(&shape, &k->shape)) return true;
  char now[SITU_SHAPE_TEXT], before[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_UNSUPPORTED, w->op,
                    "%s is %s %s, and the operators of %s need the dtype and shape that it had there, %s", path,
                    situ_dtype_name(situ_dtype_of(t)), situ_shape_text(&shape, now), w->program->path,
                    situ_shape_text(&k->shape, before)),
         false;
}

static bool put_inner(situ__onnx_writer *w, situ_tensor *t, const char *name, situ__protobuf_writer *out) {
  situ__onnx_weight weight = { .tensor = t, .name = name };
  void *values = situ__program_values(w->op, t, &weight.bytes);
  situ__onnx_put_weight(out, &weight, NULL);
  if (values) situ__protobuf_append(out, values, weight.bytes);
  situ__free(values);
  return values != NULL;
}

/* Weights of the outer graph follow after it, by themselves. */
static bool put_tensor(situ__onnx_copier *c, uint32_t number, situ__protobuf message, int depth,
                       situ__protobuf_writer *out) {
  situ__onnx_writer *w = ((again *)c)->w;
  const kept k = read_kept(message);
  if (k.part < 0) return situ__protobuf_put_bytes(out, number, message.at, (size_t)message.bytes), true;
  const char *path = w->program->part[k.part].path;
  situ_tensor *t = situ_nn_get_tensor(w->module, path);
  const char *name = situ__arena_text(&w->arena, (const char *)k.name.at, (size_t)k.name.bytes);
  if (!t || !name) return t ? situ__no_memory(w->op, (size_t)k.name.bytes), false : false;
  if (!is_as_before(w, &k, path, t)) return false;
  if (depth > 1) return put_inner(w, t, name, out);
  situ__onnx_add_weight(w, t, name);
  return true;
}

bool situ__onnx_put_again(situ__onnx_writer *w, situ__protobuf_writer *graph) {
  again a = { .copier = { .tensor = put_tensor, .graph = graph }, .w = w };
  const situ__program *p = w->program;
  const situ__protobuf model = situ__protobuf_of(p->model, p->model_bytes);
  return situ__onnx_copy(&a.copier, SITU__ONNX_MODEL, model, 0, &w->head);
}
