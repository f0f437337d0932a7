/* Copies between host memory and tensors, and tensors on the caller's own memory.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/alloc.h"
#include "base/crc32c.h"
#include "base/fail.h"
#include "base/size.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "tensor/tensor.h"
#include "situ/sys/shape.h"
#include "situ/sys/plain.h"

static bool check_size(const char *op, const situ_view_desc *v, size_t bytes) {
  size_t need = (size_t)v->numel * situ_dtype_size((situ_dtype)v->dtype);
  if (bytes == need) return true;
  situ_shape shape = situ__shape(v);
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "%zu bytes given, %s of %s takes %zu", bytes, situ_shape_text(&shape, text),
                    situ_dtype_name((situ_dtype)v->dtype), need),
         false;
}

static bool has_memory(const char *op, const situ_tensor *t) {
  if (t->view.storage->device.kind != SITU_META) return true;
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s%sis on meta: it has a shape and a dtype, but no values", situ_name(t),
                    *situ_name(t) ? " " : "the tensor "),
         false;
}

/* Returns a row-major copy of a view on its own device. */
static situ_tensor *copy_rows(const char *op, situ_tensor *t) {
  situ_shape shape = situ__shape(&t->view);
  situ_device device = t->view.storage->device;
  situ_tensor *copy = situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, device);
  if (!copy) return NULL;
  const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { &copy->view } };
  return situ__run(op, device, &work) == SITU_OK ? copy : NULL;
}

situ_tensor *situ_from_host(const void *data, size_t bytes, situ_shape shape, const situ_options *options) {
  const char *op = "from_host";
  situ_dtype dtype = options && options->dtype ? options->dtype : SITU_F32;
  situ_device device;
  const bool pinned = options && options->pinned.kind;
  if (!situ__device_resolve(op, options ? options->device : (situ_device){ 0 }, &device)) return NULL;
  situ_tensor *t = pinned ? situ__tensor_pinned(op, &shape, dtype, options->device, options->pinned)
                          : situ__tensor_new(op, &shape, dtype, device);
  if (!t || !check_size(op, &t->view, bytes)) return NULL;
  if (!options || !options->device.kind) t->view.storage->flags |= SITU_STORAGE_UNSTATED;
  if (bytes && !data) return situ__fail(SITU_E_ARG, op, "data is NULL"), NULL;
  if (device.kind == SITU_META) situ__recipe_lose(t->view.storage);
  else if (bytes && situ__copy_from_host(op, t->view.storage, 0, data, bytes, SITU__COPY_USER) != SITU_OK) return NULL;
  return options && options->requires_grad ? situ__tensor_up.set_requires_grad(t, true) : t;
}

/* Sets *bytes to the extent of a strided view, from its first element. Returns false after recording an error. */
static bool compute_extent(const char *op, situ_view_desc *v, size_t *bytes) {
  int64_t last = 0, span;
  for (int d = 0; d < v->ndim; d++) {
    if (v->stride[d] < 0)
      return situ__fail(SITU_E_ARG, op, "stride %lld at dimension %d is negative", (long long)v->stride[d], d), false;
    if (v->size[d] == 0) continue;
    if (!situ__mul_i64(v->size[d] - 1, v->stride[d], &span) || !situ__add_i64(last, span, &last))
      return situ__fail(SITU_E_OVERFLOW, op, "strides reach beyond 2^63 elements"), false;
  }
  int64_t elements = v->numel ? last + 1 : 0;
  if (!situ__mul_size((size_t)elements, situ_dtype_size((situ_dtype)v->dtype), bytes))
    return situ__fail(SITU_E_OVERFLOW, op, "strides reach beyond 2^63 bytes"), false;
  return true;
}

bool situ__foreign_view(const char *op, const situ_shape *shape, const int64_t *strides, const situ_options *options,
                        situ_view_desc *v, size_t *bytes) {
  *v = (situ_view_desc){ .dtype = (uint8_t)(options && options->dtype ? options->dtype : SITU_F32) };
  if (!situ__desc_rows(op, shape, v)) return false;
  if (!situ__dtype_valid((situ_dtype)v->dtype))
    return situ__fail(SITU_E_DTYPE, op, "%d is not a dtype", (int)v->dtype), false;
  if (strides) {
    for (int d = 0; d < v->ndim; d++) v->stride[d] = strides[d];
    situ_desc_refresh(v);
  }
  return compute_extent(op, v, bytes);
}

situ_tensor *situ__foreign_tensor(const char *op, const situ_view_desc *v, const situ_options *options) {
  if (!v->storage) return NULL;
  situ_tensor *t = situ__tensor_view(op, v);
  situ__storage_release(v->storage); /* the tensor holds its own reference */
  return t && options && options->requires_grad ? situ__tensor_up.set_requires_grad(t, true) : t;
}

situ_tensor *situ_from_blob(void *data, situ_shape shape, const int64_t *strides, void (*release)(void *payload),
                            void *payload, const situ_options *options) {
  const char *op = "from_blob";
  situ_view_desc v;
  size_t bytes = 0;
  bool good = situ__foreign_view(op, &shape, strides, options, &v, &bytes);
  if (good && options && options->device.kind && options->device.kind != SITU_CPU) {
    char name[SITU_DEVICE_NAME_MAX];
    situ__fail(SITU_E_DEVICE, op, "host memory is on cpu, not on %s; use situ_from_host to copy it there",
               situ_device_name(options->device, name));
    good = false;
  }
  if (good && bytes && !data) {
    situ__fail(SITU_E_ARG, op, "data is NULL");
    good = false;
  }
  if (!good) {
    if (release) release(payload);
    return NULL;
  }
  v.storage = situ__storage_foreign(op, (situ_device){ SITU_CPU, 0 }, data, bytes, release, payload);
  return situ__foreign_tensor(op, &v, options);
}

situ_tensor *situ_view_host(void *data, size_t bytes, situ_shape shape, const situ_options *options) {
  SITU__MADE_OF_OPS("view_host");
  situ_tensor *t = situ_from_blob(data, shape, NULL, NULL, NULL, options);
  return t && check_size("view_host", &t->view, bytes) ? t : NULL;
}

/* Describes the storage by the first of its tensors that has a name, else by its oldest one, with name or shape. The
   text is made without the lock: looking a source line up takes milliseconds, and other locks. */
void situ__describe_storage(situ_storage *storage, situ__described *to) {
  const situ_tensor *found = situ__handles_begin(storage);
  while (found && !found->name && found->next_handle) found = found->next_handle;
  situ_view_desc view = { 0 };
  void *created_at = NULL;
  char name[256] = "", shape[SITU_SHAPE_TEXT], site[256];
  if (found) {
    view = found->view;
    created_at = found->created_at;
    if (found->name) (void)snprintf(name, sizeof name, "%s", found->name);
  }
  situ__handles_end(storage);
  if (!found) return;
  const situ_shape sizes = situ__shape(&view);
  (void)snprintf(to->what, sizeof to->what, "%s%s%s(%s %s)", *name ? "`" : "a tensor ", name, *name ? "` " : "",
                 situ_shape_text(&sizes, shape), situ_dtype_name((situ_dtype)view.dtype));
  situ__site_text(created_at, site, sizeof site);
  (void)snprintf(to->where, sizeof to->where, "%s%s", *site ? " at " : "", site);
}

bool situ__check_written(const char *op, const situ_tensor *t) {
  if (!has_memory(op, t)) return false;
  return situ__first_unwritten(&t->view) < 0 || (situ__refuse_unwritten(op, &t->view), false);
}

bool situ_has_values(const situ_tensor *t) {
  if (!t || !situ__need("has_values", "input", t)) return false;
  const situ_storage *s = t->view.storage;
  if (t->view.numel == 0) return true;
  return s->device.kind == SITU_META ? situ__recipe_has(s) : situ__first_unwritten(&t->view) < 0;
}

static situ_status read_values(const char *op, situ_tensor *t, void *data, size_t bytes) {
  if (!situ__check_written(op, t)) return situ_error();
  if (bytes == 0) return SITU_OK;
  if (!data) return situ__fail(SITU_E_ARG, op, "data is NULL");
  if (t->view.contiguous)
    return situ__copy_to_host(op, t->view.storage, (size_t)t->view.offset * situ_dtype_size((situ_dtype)t->view.dtype),
                              data, bytes, SITU__COPY_READ);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *rows = copy_rows(op, t);
  situ_status status = rows ? read_values(op, rows, data, bytes) : situ_error();
  SITU_IGNORE(situ_scope_end(&s));
  return status;
}

situ_status situ_copy_to_host(situ_tensor *t, void *data, size_t bytes) {
  const char *op = "copy_to_host";
  if (!situ__need(op, "input", t) || !check_size(op, &t->view, bytes)) return situ_error();
  return read_values(op, t, data, bytes);
}

enum { PART = 1 << 20 }; /* bytes that a checksum reads at a time */

/* Of `bytes` of the storage from `at` on. */
static situ_status checksum(const char *op, situ_storage *storage, size_t at, size_t bytes, uint32_t *crc) {
  char *buffer = situ__alloc(bytes < PART ? bytes : PART);
  if (!buffer) return situ__no_memory(op, bytes < PART ? bytes : PART);
  situ_status status = SITU_OK;
  uint32_t sum = 0;
  for (size_t done = 0; done < bytes && status == SITU_OK; done += PART) {
    const size_t part = bytes - done < PART ? bytes - done : PART;
    status = situ__copy_to_host(op, storage, at + done, buffer, part, SITU__COPY_READ);
    if (status == SITU_OK) sum = situ__crc32c(sum, buffer, part);
  }
  situ__free(buffer);
  if (status == SITU_OK) *crc = sum;
  return status;
}

situ_status situ_checksum(situ_tensor *t, uint32_t *out) {
  const char *op = "checksum";
  if (!situ__need(op, "input", t)) return situ_error();
  if (!out) return situ__null(op, "out");
  if (!situ__check_written(op, t)) return situ_error();
  if (t->view.numel == 0) return *out = 0, SITU_OK;
  const size_t item = situ_dtype_size((situ_dtype)t->view.dtype), bytes = (size_t)t->view.numel * item;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const situ_tensor *rows = t->view.contiguous ? t : copy_rows(op, t);
  const situ_status status =
      rows ? checksum(op, rows->view.storage, (size_t)rows->view.offset * item, bytes, out) : situ_error();
  SITU_IGNORE(situ_scope_end(&s));
  return status;
}

bool situ__may_write(const char *op, const situ_tensor *t) {
  if (!situ__recording() || !(t->requires_grad || (t->base && t->base->requires_grad))) return true;
  return situ__fail(SITU_E_STATE, op, "%s is written in place; do it in a no_grad scope",
                    t->node ? "the result of a recorded call, whose history would no longer be that of its values,"
                            : "a leaf that requires a gradient"),
         false;
}

situ_status situ_copy_from_host(situ_tensor *t, const void *data, size_t bytes) {
  const char *op = "copy_from_host";
  if (!situ__need(op, "input", t) || !check_size(op, &t->view, bytes) || !has_memory(op, t)) return situ_error();
  if (bytes == 0) return SITU_OK;
  if (!data) return situ__fail(SITU_E_ARG, op, "data is NULL");
  if (!situ__may_write(op, t)) return situ_error();
  if (situ__desc_overlaps(&t->view)) return situ__fail(SITU_E_ALIAS, op, "elements of the tensor share memory");
  situ_device device = t->view.storage->device;
  size_t item = situ_dtype_size((situ_dtype)t->view.dtype);
  if (t->view.contiguous && !situ__verifies())
    return situ__copy_from_host(op, t->view.storage, (size_t)t->view.offset * item, data, bytes, SITU__COPY_USER);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_status status = situ_error();
  situ_shape shape = situ__shape(&t->view);
  situ_tensor *staged = situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, device);
  if (staged) status = situ__copy_from_host(op, staged->view.storage, 0, data, bytes, SITU__COPY_USER);
  if (staged && status == SITU_OK) {
    const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &staged->view }, .out = { &t->view } };
    const bool part = situ__part_begin(&t->view);
    status = situ__run(op, device, &work);
    if (part) situ__end_part(&t->view, status == SITU_OK);
  }
  SITU_IGNORE(situ_scope_end(&s));
  return status;
}

/* Reads the single element of t, converted to `as` on its device. */
static situ_status read_element(const char *op, situ_tensor *t, situ_dtype as, void *out) {
  if (!situ__need(op, "input", t)) return situ_error();
  if (t->view.numel != 1)
    return situ__fail(SITU_E_SHAPE, op, "%lld elements: only a tensor of one element is a number",
                      (long long)t->view.numel);
  if ((situ_dtype)t->view.dtype == as) return read_values(op, t, out, situ_dtype_size(as));
  if (t->view.dtype == SITU_F32 && as == SITU_F64) { /* a loss: without a kernel */
    float value = 0;
    const situ_status read = read_values(op, t, &value, sizeof value);
    *(double *)out = (double)value;
    return read;
  }
  if (!situ__check_written(op, t)) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_shape shape = situ__shape(&t->view);
  situ_device device = t->view.storage->device;
  situ_tensor *cast = situ__tensor_new(op, &shape, as, device);
  situ_status status = situ_error();
  if (cast) {
    const situ_work work = { SITU_VERB_COPY, .ins = 1, .outs = 1, .in = { &t->view }, .out = { &cast->view } };
    status = situ__run(op, device, &work);
    if (status == SITU_OK) status = read_values(op, cast, out, situ_dtype_size(as));
  }
  SITU_IGNORE(situ_scope_end(&s));
  return status;
}

situ_status situ_item(situ_tensor *t, double *out) {
  double value;
  if (!out) return situ__null("item", "out");
  situ_status status = read_element("item", t, SITU_F64, &value);
  if (status == SITU_OK) *out = value;
  return status;
}

situ_status situ_item_i64(situ_tensor *t, int64_t *out) {
  const char *op = "item_i64";
  int64_t value;
  if (!out) return situ__null(op, "out");
  if (!situ__need(op, "input", t)) return situ_error();
  const bool floating = situ_dtype_is_floating((situ_dtype)t->view.dtype);
  double real = 0;
  situ_status status = floating ? read_element(op, t, SITU_F64, &real) : read_element(op, t, SITU_I64, &value);
  if (status != SITU_OK) return status;
  if (floating && !(real >= -0x1p63 && real < 0x1p63))
    return situ__fail(SITU_E_OVERFLOW, op,
                      "the value is %g, which is not a whole number of 64 bits; read it with situ_item", real);
  *out = floating ? (int64_t)real : value;
  return SITU_OK;
}

bool situ__host_address(const char *op, const situ_tensor *t, void **first) {
  if (situ__is_dry()) return situ__dry_blind(op), false;
  if (t->view.storage->device.kind != SITU_CPU) {
    char name[SITU_DEVICE_NAME_MAX];
    return situ__fail(SITU_E_DEVICE, op,
                      "the tensor is on %s, whose memory the host cannot read; copy it with "
                      "situ_copy_to_host or situ_to",
                      situ_device_name(t->view.storage->device, name)),
           false;
  }
  if (situ__settle(op, t->view.storage) != SITU_OK) return false;
  char *data = t->view.storage->data;
  *first = data ? data + (size_t)t->view.offset * situ_dtype_size((situ_dtype)t->view.dtype) : NULL;
  return true;
}

void situ__expose(situ_storage *storage) {
  const uint32_t flags = situ__storage_flags(storage);
  /* The host may write through the pointer at any time, so count the values as written from now on. Values that are
     written already are not touched: other threads may read them. */
  if (flags & SITU_STORAGE_UNWRITTEN) situ__fill(storage);
  if (!(flags & SITU_STORAGE_EXPOSED)) (void)__atomic_or_fetch(&storage->flags, SITU_STORAGE_EXPOSED, __ATOMIC_RELAXED);
}

void *situ_data_ptr(situ_tensor *t) {
  void *first;
  if (!situ__need("data_ptr", "input", t) || !situ__host_address("data_ptr", t, &first)) return NULL;
  situ__expose(t->view.storage);
  return first;
}

/* The address of t's first element: its own, or on a device that of a mapping, which the lease keeps. */
static void *lease_values(const char *op, situ_tensor *t, situ_dtype dtype, situ_lease_access access, bool maps) {
  const bool writes = access == SITU_LEASE_READ_WRITE;
  void *first = NULL;
  if (!situ__need(op, "input", t)) return NULL;
  maps = maps && t->view.storage->device.kind != SITU_CPU;
  if ((unsigned)access > SITU_LEASE_READ_WRITE)
    return situ__fail(SITU_E_ARG, op, "%d is not a situ_lease_access", (int)access), NULL;
  if (dtype != (situ_dtype)t->view.dtype)
    return situ__fail(SITU_E_DTYPE, op, "the tensor is %s, not %s; lease it as that, or a copy (situ_to_dtype)",
                      situ_dtype_name((situ_dtype)t->view.dtype), situ_dtype_name(dtype)),
           NULL;
  if (maps && situ__is_dry()) return situ__dry_blind(op), NULL;
  if (!maps && !situ__host_address(op, t, &first)) return NULL;
  if (!(writes ? situ__may_write(op, t) : situ__check_written(op, t)) || (maps && !has_memory(op, t))) return NULL;
  situ_storage *s = t->view.storage;
  if (writes && s->flags & SITU_STORAGE_NO_WRITES) return (void)situ__refuse_read_only(op, s), NULL;
  const bool scoped = situ__scope_is_any();
  situ_tensor *lease =
      situ__lease_new(op, t, SITU__LEASE_HOST | (writes ? SITU__LEASE_WRITES : 0) | (scoped ? SITU__LEASE_SCOPED : 0));
  if (lease && maps && t->view.numel && !(first = situ__map_lease(op, t, lease, writes))) {
    lease->node_result = SITU__LEASE_HOST; /* nothing was written */
    situ_release(lease);
    return NULL;
  }
  if (!situ__scope_own(op, lease)) return NULL;
  if (writes) situ__storage_wrote(s);
  return first;
}

void *situ_data_lease(situ_tensor *t, situ_dtype dtype, situ_lease_access access) {
  return lease_values("data_lease", t, dtype, access, false);
}

void *situ_data_map(situ_tensor *t, situ_dtype dtype, situ_lease_access access) {
  return lease_values("data_map", t, dtype, access, true);
}
