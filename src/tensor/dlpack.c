/* DLPack: other libraries' tensors without a copy. Layout and rules: https://dmlc.github.io/dlpack/latest/c_api.html
   SPDX-License-Identifier: MIT */
#include "situ/dlpack.h"

#include "base/alloc.h"
#include "base/fail.h"
#include "device/dry.h"
#include "device/launch/launch.h"
#include "situ/interop.h"
#include "situ/sys/plain.h"
#include "tensor/tensor.h"

_Static_assert(sizeof(situ_dlpack_tensor) == 48 && offsetof(situ_dlpack_tensor, shape) == 24, "DLTensor");
_Static_assert(sizeof(situ_dlpack_unversioned) == 64, "DLManagedTensor");
_Static_assert(sizeof(situ_dlpack_versioned) == 80 && offsetof(situ_dlpack_versioned, tensor) == 32,
               "DLManagedTensorVersioned");

enum {
  MAJOR = 1,
  READ_ONLY = 1,
  ON_HOST = 1,
  ON_CUDA = 2,
  ON_CUDA_HOST = 3,
  ON_OPENCL = 4,
  ON_ROCM_HOST = 11,
  ON_CUDA_MANAGED = 13
};

static const struct {
  uint8_t code, bits;
} dtypes[SITU_DTYPES] = {
  [SITU_BOOL] = { 6, 8 }, [SITU_U8] = { 1, 8 },   [SITU_I8] = { 0, 8 },   [SITU_I16] = { 0, 16 },
  [SITU_I32] = { 0, 32 }, [SITU_I64] = { 0, 64 }, [SITU_F16] = { 2, 16 }, [SITU_BF16] = { 4, 16 },
  [SITU_F32] = { 2, 32 }, [SITU_F64] = { 2, 64 }
};

static const char *const codes[] = {
  "int",         "unsigned int",    "float",          "opaque handle",      "bfloat",        "complex",
  "bool",        "float8_e3m4",     "float8_e4m3",    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz",
  "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn",      "float6_e3m2fn", "float4_e2m1fn"
};
static const char *const devices[] = {
  [2] = "CUDA",       [4] = "OpenCL",        [7] = "Vulkan",  [8] = "Metal",   [10] = "ROCm",
  [12] = "extension", [13] = "managed CUDA", [14] = "oneAPI", [15] = "WebGPU", [16] = "Hexagon"
};

static bool check_abi(const char *op, situ_dlpack_abi abi) {
  if ((unsigned)abi <= SITU_DLPACK_UNVERSIONED) return true;
  return situ__fail(SITU_E_ARG, op, "%d is not a situ_dlpack_abi", (int)abi), false;
}

/* ---- from another library ---- */

static void end_versioned(void *managed) {
  situ_dlpack_versioned *m = managed;
  if (m->deleter) m->deleter(m);
}
static void end_unversioned(void *managed) {
  situ_dlpack_unversioned *m = managed;
  if (m->deleter) m->deleter(m);
}

static bool read_dtype(const char *op, const situ_dlpack_tensor *d, situ_dtype *dtype) {
  const char *code = d->code < sizeof codes / sizeof *codes ? codes[d->code] : "unknown";
  if (d->lanes != 1)
    return situ__fail(SITU_E_DTYPE, op,
                      "an element is a vector of %d %s values (lanes); give them a dimension of their own", d->lanes,
                      code),
           false;
  for (unsigned k = SITU_BOOL; k < SITU_DTYPES; k++)
    if (dtypes[k].code == d->code && dtypes[k].bits == d->bits) return *dtype = (situ_dtype)k, true;
  return situ__fail(SITU_E_DTYPE, op,
                    "%s of %d bits (code %d) has no dtype in situ; convert it first, to float32 or int64", code,
                    d->bits, d->code),
         false;
}

static bool is_on(int32_t type, situ_device device) {
  if (device.kind == SITU_CUDA) return type == ON_CUDA || type == ON_CUDA_HOST || type == ON_CUDA_MANAGED;
  if (device.kind == SITU_OPENCL) return type == ON_OPENCL;
  return device.kind == SITU_CPU && (type == ON_HOST || type == ON_CUDA_HOST || type == ON_ROCM_HOST);
}

static bool check_place(const char *op, const situ_dlpack_tensor *d, situ_device device) {
  const int32_t type = d->device_type;
  char text[SITU_DEVICE_NAME_MAX];
  if (is_on(type, device)) return true;
  const char *name = type >= 0 && type < (int)(sizeof devices / sizeof *devices) ? devices[type] : NULL;
  if (!name) name = type == ON_HOST ? "the host, its" : "another kind of";
  return device.kind == SITU_CPU
             ? situ__fail(SITU_E_DEVICE, op,
                          "its memory is on %s device %d (type %d), which the host cannot read; copy it to the host "
                          "first, as torch's .cpu() does, or use situ_from_dlpack_on",
                          name, (int)d->device_id, (int)type)
             : situ__fail(SITU_E_DEVICE, op, "its memory is on %s device %d (type %d), which %s cannot use", name,
                          (int)d->device_id, (int)type, situ_device_name(device, text)),
         false;
}

/* Returns false after recording an error. */
static bool read_tensor(const char *op, const situ_dlpack_tensor *d, situ_dtype *dtype, situ_shape *shape) {
  if (!read_dtype(op, d, dtype)) return false;
  if (d->ndim < 0 || d->ndim > SITU_MAX_DIMS)
    return situ__fail(SITU_E_SHAPE, op, "%d dimensions; a tensor has 0 to %d", (int)d->ndim, SITU_MAX_DIMS), false;
  if (d->ndim && !d->shape)
    return situ__fail(SITU_E_SHAPE, op, "%d dimensions, but shape is NULL", (int)d->ndim), false;
  *shape = (situ_shape){ .ndim = d->ndim };
  for (int i = 0; i < d->ndim; i++) shape->dim[i] = d->shape[i];
  return true;
}

/* A tensor on the host's memory. */
static situ_tensor *take_host(const char *op, const situ_dlpack_tensor *d, situ_shape shape, void (*end)(void *),
                              void *managed, const situ_options *o) {
  const uintptr_t first = d->data ? (uintptr_t)d->data + d->byte_offset : 0;
  const size_t size = situ_dtype_size(o->dtype);
  /* NOLINTNEXTLINE(performance-no-int-to-ptr): an address and an offset in bytes */
  if (first % size == 0) return situ_from_blob((void *)first, shape, d->strides, end, managed, o);
  end(managed);
  return situ__fail(SITU_E_ARG, op, "its first element is not aligned to the %zu bytes of %s; copy it first", size,
                    situ_dtype_name(o->dtype)),
         NULL;
}

/* On a device's memory: an address, into which the offset is added, or a handle. Empty tensors have none. */
static situ_tensor *take_device(const situ_dlpack_tensor *d, situ_shape shape, void (*end)(void *), void *managed,
                                const situ_options *o) {
  const size_t at = d->data && situ__backend(o->device)->addressable ? d->byte_offset : 0;
  situ_memory m = { .handle = d->data ? (char *)d->data + at : NULL, .offset = d->byte_offset - at };
  m.strides = d->strides;
  m.release = end;
  m.payload = managed;
  for (int i = 0; i < shape.ndim; i++)
    if (!shape.dim[i] && !m.handle) m.handle = managed;
  return situ_from_memory(&m, shape, o);
}

static situ_tensor *take(const char *op, void *managed, situ_dlpack_abi abi, situ_device device) {
  if (!situ__given(op, "managed", managed) || !check_abi(op, abi)) return NULL;
  const situ_dlpack_versioned *versioned = abi == SITU_DLPACK_VERSIONED ? managed : NULL;
  void (*end)(void *) = versioned ? end_versioned : end_unversioned;
  const situ_dlpack_tensor *d = versioned ? &versioned->tensor : &((situ_dlpack_unversioned *)managed)->tensor;
  situ_options options = { .device = device };
  situ_shape shape;
  bool good = !versioned || versioned->major == MAJOR;
  if (!good)
    situ__fail(SITU_E_ARG, op, "a tensor of DLPack %u.%u, of which situ reads %d.x", versioned->major, versioned->minor,
               MAJOR);
  good = good && situ__device_resolve(op, device, &options.device) && check_place(op, d, options.device);
  if (!good || !read_tensor(op, d, &options.dtype, &shape)) return end(managed), NULL;
  const bool read_only = versioned && versioned->flags & READ_ONLY;
  situ_tensor *t = options.device.kind == SITU_CPU ? take_host(op, d, shape, end, managed, &options)
                                                   : take_device(d, shape, end, managed, &options);
  if (t && read_only) t->view.storage->flags |= SITU_STORAGE_READ_ONLY;
  return t;
}

situ_tensor *situ_from_dlpack(void *managed, situ_dlpack_abi abi) {
  const char *op = "from_dlpack";
  SITU__MADE_OF_OPS(op);
  return take(op, managed, abi, (situ_device){ SITU_CPU, 0 });
}

situ_tensor *situ_from_dlpack_on(void *managed, situ_dlpack_abi abi, situ_device device) {
  const char *op = "from_dlpack_on";
  SITU__MADE_OF_OPS(op);
  return take(op, managed, abi, device);
}

/* ---- to another library ---- */

/* What the consumer has: the struct is the first member, so that its address is that of all. */
typedef struct export {
  union {
    situ_dlpack_versioned versioned;
    situ_dlpack_unversioned unversioned;
  } managed;
  situ_tensor *lease;
  int64_t size[SITU_MAX_DIMS], stride[SITU_MAX_DIMS];
}
export;

static void end_export(export *e) {
  situ_release(e->lease);
  situ__free(e);
}
static void delete_versioned(situ_dlpack_versioned *self) { end_export(self->manager); }
static void delete_unversioned(situ_dlpack_unversioned *self) { end_export(self->manager); }

static bool may_export(const char *op, const situ_tensor *t, situ_dlpack_abi abi) {
  if (t->requires_grad)
    return situ__fail(SITU_E_STATE, op,
                      "%s requires a gradient, which another library does not record; pass its "
                      "situ_detach",
                      *situ_name(t) ? situ_name(t) : "the tensor"),
           false;
  if (situ__blocks_of(&t->view))
    return situ__fail(SITU_E_UNSUPPORTED, op,
                      "quantised blocks have no dtype in DLPack; situ_dequantize gives numbers"),
           false;
  const uint32_t unwritable = t->view.storage->flags & SITU_STORAGE_NO_WRITES;
  if (!unwritable || abi == SITU_DLPACK_VERSIONED) return true;
  if (unwritable & ~SITU_STORAGE_READ_ONLY) return (void)situ__refuse_held(op, t->view.storage), false;
  return situ__fail(SITU_E_STATE, op,
                    "the memory is read-only, which the unversioned struct cannot say; ask for "
                    "SITU_DLPACK_VERSIONED, or pass a copy (situ_clone)"),
         false;
}

/* Sets data, offset and device of what is exported. */
static bool set_place(const char *op, const situ_tensor *t, void *queue, situ_dlpack_tensor *d) {
  const situ_storage *s = t->view.storage;
  const situ_backend *backend = situ__backend(s->device);
  const size_t offset = (size_t)t->view.offset * situ_dtype_size((situ_dtype)t->view.dtype);
  int number = 0;
  d->device_type = ON_HOST;
  if (s->device.kind == SITU_CPU || !backend->share) return situ__host_address(op, t, &d->data);
  if (situ__is_dry()) return situ__dry_blind(op), false;
  if (s->flags & SITU__STORAGE_NOWHERE) return (void)situ__refuse_sample(op, (situ_storage *)(uintptr_t)s), false;
  const uint64_t before = situ__error_count();
  const situ_status status = backend->share(s->device.index, queue, &number);
  if (status != SITU_OK) return (void)situ__device_failed(op, s->device, status, before, "ordering a queue"), false;
  d->device_type = s->device.kind == SITU_CUDA ? ON_CUDA : ON_OPENCL;
  d->device_id = number;
  d->data = backend->addressable && s->data ? (char *)s->data + offset : s->data;
  d->byte_offset = backend->addressable ? 0 : offset;
  return true;
}

static void *give(const char *op, situ_tensor *t, situ_dlpack_abi abi, situ_dlpack_tensor d) {
  export *e = situ__alloc(sizeof *e);
  if (!e) return situ__no_memory(op, sizeof *e), NULL;
  const situ_view_desc *v = &t->view;
  *e = (export){ .lease = situ__lease_new(op, t, SITU__LEASE_EXPORT) };
  if (!e->lease) return situ__free(e), NULL;
  memcpy(e->size, v->size, sizeof e->size);
  memcpy(e->stride, v->stride, sizeof e->stride);
  d.ndim = v->ndim;
  d.code = dtypes[v->dtype].code;
  d.bits = dtypes[v->dtype].bits;
  d.lanes = 1;
  d.shape = e->size;
  d.strides = e->stride;
  const bool read_only = v->storage->flags & SITU_STORAGE_NO_WRITES;
  if (!read_only) situ__expose(v->storage);
  if (abi == SITU_DLPACK_VERSIONED)
    e->managed.versioned = (situ_dlpack_versioned){
      .major = MAJOR, .manager = e, .deleter = delete_versioned, .flags = read_only ? READ_ONLY : 0, .tensor = d
    };
  else e->managed.unversioned = (situ_dlpack_unversioned){ .tensor = d, .manager = e, .deleter = delete_unversioned };
  return e;
}

void *situ_to_dlpack(situ_tensor *t, situ_dlpack_abi abi) {
  const char *op = "to_dlpack";
  situ_dlpack_tensor d = { .device_type = ON_HOST };
  const bool good = situ__need(op, "input", t) && check_abi(op, abi) && situ__host_address(op, t, &d.data);
  return good && may_export(op, t, abi) ? give(op, t, abi, d) : NULL;
}

void *situ_to_dlpack_for(situ_tensor *t, situ_dlpack_abi abi, void *queue) {
  const char *op = "to_dlpack_for";
  situ_dlpack_tensor d = { 0 };
  const bool good = situ__need(op, "input", t) && check_abi(op, abi) && may_export(op, t, abi);
  return good && set_place(op, t, queue, &d) ? give(op, t, abi, d) : NULL;
}
