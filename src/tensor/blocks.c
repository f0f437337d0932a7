/* Tensors of quantised blocks: their type is a property of the storage, so it moves with the bytes.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/size.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

const char *situ_block_name(situ_block_type type) {
  return type == SITU_BLOCK_NONE || situ__block_valid(type) ? situ__blocks[type].name : "?";
}
int64_t situ_block_elements(situ_block_type type) { return situ__block(type)->elements; }
int64_t situ_block_bytes(situ_block_type type) { return situ__block(type)->bytes; }

situ_block_type situ_block_type_of(const situ_tensor *t) {
  return t && situ__need("block_type_of", "input", t) ? situ__blocks_of(&t->view) : SITU_BLOCK_NONE;
}

situ_shape situ_block_shape(const situ_tensor *t) {
  situ_shape shape = situ_shape_of(t);
  const situ_block_type type = situ_block_type_of(t);
  int64_t *row = &shape.dim[shape.ndim > 0 ? shape.ndim - 1 : 0];
  if (type) *row = *row / situ_block_bytes(type) * situ_block_elements(type);
  return shape;
}

static bool check_type(const char *op, situ_block_type type) {
  if (situ__block_valid(type)) return true;
  return situ__fail(SITU_E_ARG, op, "type is %d, must be one of situ_block_type other than SITU_BLOCK_NONE", (int)type),
         false;
}

situ_status situ_set_block_type(situ_tensor *t, situ_block_type type) {
  const char *op = "set_block_type";
  if (!situ__need(op, "input", t) || !check_type(op, type)) return situ_error();
  const situ_view_desc *v = &t->view;
  const situ_shape shape = situ__shape(v);
  char text[SITU_SHAPE_TEXT];
  const int64_t bytes = situ_block_bytes(type);
  if (v->dtype != SITU_U8 || v->ndim < 1 || v->size[v->ndim - 1] % bytes)
    return situ__fail(SITU_E_SHAPE, op, "input is %s %s, must be u8 [.., a multiple of %lld] to hold %s",
                      situ_dtype_name((situ_dtype)v->dtype), situ_shape_text(&shape, text), (long long)bytes,
                      situ_block_name(type));
  if (!v->contiguous || v->offset || (size_t)v->numel != v->storage->bytes)
    return situ__fail(SITU_E_ALIAS, op, "input is a part of its storage, or not contiguous: clone it first");
  const situ_block_type own = situ__blocks_of(v);
  if (own && own != type) return situ__fail(SITU_E_STATE, op, "input holds %s already", situ_block_name(own));
  (void)__atomic_or_fetch(&v->storage->flags, (uint32_t)type << 8, __ATOMIC_RELAXED);
  return SITU_OK;
}

/* Sets *out to the sizes in bytes. Returns false after recording an error. */
static bool find_bytes(const char *op, const situ_shape *shape, situ_block_type type, situ_shape *out) {
  if (!check_type(op, type) || !situ__given(op, "shape", shape)) return false;
  char text[SITU_SHAPE_TEXT];
  const int last = shape->ndim > 0 ? shape->ndim - 1 : -1;
  *out = *shape;
  if (last >= 0 && last < SITU_MAX_DIMS && shape->dim[last] >= 0 && shape->dim[last] % situ_block_elements(type) == 0 &&
      situ__mul_i64(shape->dim[last] / situ_block_elements(type), situ_block_bytes(type), &out->dim[last]))
    return true;
  return situ__fail(SITU_E_SHAPE, op, "shape is %s, must be [.., a multiple of the %lld numbers of a %s block]",
                    last < SITU_MAX_DIMS ? situ_shape_text(shape, text) : "?", (long long)situ_block_elements(type),
                    situ_block_name(type)),
         false;
}

situ_tensor *situ_blocks_from_host(const void *data, size_t bytes, const situ_shape *shape, situ_block_type type,
                                   const situ_options *options) {
  const char *op = "blocks_from_host";
  situ_shape held;
  situ_options where = { .dtype = SITU_U8 };
  if (options) where.device = options->device;
  if (!find_bytes(op, shape, type, &held)) return NULL;
  situ_tensor *t;
  if (data) {
    t = situ_from_host(data, bytes, held, &where);
  } else {
    situ_device device;
    if (!situ__device_resolve(op, where.device, &device)) return NULL;
    t = situ__tensor_new(op, &held, SITU_U8, device);
  }
  return t && situ_set_block_type(t, type) == SITU_OK ? t : NULL;
}
