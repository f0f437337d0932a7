/* Tensors in pinned host memory.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "situ/blocks.h"
#include "situ/sys/plain.h"
#include "situ/sys/shape.h"
#include "tensor/tensor.h"

/* Of a storage, which calls its release. */
typedef struct pinned {
  situ_device device;
  void *host, *handle;
} pinned;

static void release_pinned(void *payload) {
  pinned *p = payload;
  situ__backend(p->device)->unpin(p->device.index, p->host, p->handle);
  situ__free(p);
}

static bool has_pinned(situ_device device) {
  void *site;
  return situ__backend(device)->pin && situ__device_adoption(device, &site) == SITU__NOT_ADOPTED;
}

static situ_tensor *make_pinned(const char *op, situ_device device, const situ_shape *shape, situ_dtype dtype) {
  const situ_options options = { .dtype = dtype };
  situ_view_desc v;
  size_t bytes;
  if (!situ__foreign_view(op, shape, NULL, &options, &v, &bytes)) return NULL;
  pinned *p = situ__alloc(sizeof *p);
  if (!p) return situ__no_memory(op, sizeof *p), NULL;
  *p = (pinned){ .device = device };
  const uint64_t before = situ__error_count();
  const situ_status status = situ__backend(device)->pin(device.index, bytes, &p->host, &p->handle);
  if (status != SITU_OK) {
    (void)situ__device_failed(op, device, status, before, "pinning memory");
    return situ__free(p), NULL;
  }
  v.storage = situ__storage_foreign(op, (situ_device){ SITU_CPU, 0 }, p->host, bytes, release_pinned, p);
  if (v.storage) v.storage->flags |= SITU_STORAGE_PINNED | SITU_STORAGE_UNWRITTEN;
  return situ__foreign_tensor(op, &v, NULL);
}

situ_tensor *situ__tensor_pinned(const char *op, const situ_shape *shape, situ_dtype dtype, situ_device at,
                                 situ_device device) {
  const situ_device host = { SITU_CPU, 0 };
  char name[SITU_DEVICE_NAME_MAX];
  int64_t numel;
  if (at.kind && at.kind != SITU_CPU)
    return situ__fail(SITU_E_DEVICE, op, "pinned memory is the host's, and options->device is %s; set it to cpu",
                      situ_device_name(at, name)),
           NULL;
  if (!situ__device_resolve(op, device, &device) || !situ_shape_numel(op, shape, &numel)) return NULL;
  if (device.kind == SITU_PLAN && !situ__is_dry()) return situ__tensor_new(op, shape, dtype, device); /* refused */
  if (situ__is_dry() || !numel || !has_pinned(device)) return situ__tensor_new(op, shape, dtype, host);
  return situ__device_usable(op, device) == SITU_OK ? make_pinned(op, device, shape, dtype) : NULL;
}

situ_tensor *situ_pin_memory(situ_tensor *input, situ_device device) {
  SITU__MADE_OF_OPS("pin_memory");
  const char *op = "pin_memory";
  if (!situ__need(op, "input", input) || !situ__device_resolve(op, device, &device)) return NULL;
  if (situ__is_dry()) return situ__dry_blind(op), NULL;
  const bool has = situ_has_values(input);
  if (!has && input->view.storage->written) return situ__refuse_unwritten(op, &input->view), NULL; /* in part */
  const situ_shape shape = situ__shape(&input->view);
  situ_tensor *t = situ__tensor_pinned(op, &shape, (situ_dtype)input->view.dtype, (situ_device){ 0 }, device);
  if (!t) return NULL;
  const situ_block_type blocks = situ_block_type_of(input);
  const size_t bytes = (size_t)input->view.numel * situ_dtype_size((situ_dtype)input->view.dtype);
  if ((blocks && situ_set_block_type(t, blocks) != SITU_OK) ||
      (bytes && has && situ_copy_to_host(input, t->view.storage->data, bytes) != SITU_OK)) {
    if (!situ__scope_is_any()) situ_release(t); /* else the scope has it */
    return NULL;
  }
  if (bytes && has) situ__storage_wrote(t->view.storage);
  return t;
}

bool situ_is_pinned(const situ_tensor *t) {
  return t && situ__need("is_pinned", "input", t) && t->view.storage->flags & SITU_STORAGE_PINNED;
}
