/* Tensors: dtype, shape, strides, device; copies from and to host memory.
   Threads: several threads may read a tensor; the caller locks writes in place (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TENSOR_H
#define SITU_TENSOR_H

#include "device.h"
#include "scope.h"

SITU_BEGIN

typedef enum situ_dtype {
  SITU_DTYPE_DEFAULT = 0, /**< unspecified: f32, or derived by the call */
  SITU_BOOL,
  SITU_U8,
  SITU_I8,
  SITU_I16,
  SITU_I32,
  SITU_I64,
  SITU_F16,
  SITU_BF16,
  SITU_F32,
  SITU_F64,
  SITU_DTYPES
} situ_dtype;

/** Bytes of one element; 0 for an invalid value. */
SITU_API size_t situ_dtype_size(situ_dtype dtype);
/** "f32", "i64", "bool"; "?" for an invalid value. Static text. */
SITU_API const char *situ_dtype_name(situ_dtype dtype);
/** f16, bf16, f32, f64. */
SITU_API bool situ_dtype_is_floating(situ_dtype dtype);
SITU_API bool situ_dtype_is_integer(situ_dtype dtype); /**< u8, i8, i16, i32, i64 */
/** The dtype that both convert to (torch.promote_types). */
SITU_API situ_dtype situ_promote_types(situ_dtype a, situ_dtype b);

/** A shape, or a list of dimensions, by value. */
typedef struct situ_shape {
  int ndim;
  int64_t dim[SITU_MAX_DIMS];
} situ_shape;

#ifdef __cplusplus
extern "C++" template <typename... N> constexpr situ_shape situ_shape_of_(N... n) {
  return situ_shape{ static_cast<int>(sizeof...(n)), { static_cast<int64_t>(n)... } };
}
#define SITU_SHAPE(...) situ_shape_of_(__VA_ARGS__)
#define SITU_SCALAR (situ_shape_of_())
#else
/** SITU_SHAPE(32, 784) is a shape by value. */
#define SITU_SHAPE(...) ((situ_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
/** The shape of a 0-dim tensor. */
#define SITU_SCALAR ((situ_shape){ 0, { 0 } })
#endif
/** SITU_DIMS(0, -1) is a list of dimensions. */
#define SITU_DIMS(...) SITU_SHAPE(__VA_ARGS__)

/** A random number generator: Philox4x32-10 (Salmon et al. 2011), by seed and number of draws so far. The same state
    gives the same bits on every device and for any number of threads. */
typedef struct situ_generator {
  uint64_t seed;
  uint64_t offset; /**< number of draws so far: calls, not elements */
} situ_generator;

/** The order of a tensor's strides (torch.memory_format). */
typedef enum situ_memory_format {
  SITU_MEMORY_FORMAT_DEFAULT = 0, /**< the call's default in torch: contiguous, or preserve where it has an input */
  SITU_CONTIGUOUS_FORMAT,         /**< row-major */
  SITU_PRESERVE_FORMAT,           /**< the input's strides; without its gaps and repeats, if it has any */
  SITU_CHANNELS_LAST,             /**< [N, C, H, W], C innermost in memory, then W, H, N */
  SITU_CHANNELS_LAST_3D           /**< [N, C, D, H, W], likewise */
} situ_memory_format;

/** Options of functions that make a tensor; NULL or {0} is PyTorch's default. */
typedef struct situ_options {
  situ_dtype dtype;
  situ_device device;
  bool requires_grad;
  situ_generator *generator; /**< random factories only; NULL: the default generator */
  /** contiguous by default; of situ_..._like calls the input's. Ranges, eye and index lists are always contiguous. */
  situ_memory_format memory_format;
  /** zeros, ones, full, empty, rand..., all of these ..._like, and from_host: a cpu tensor in memory that this device
      copies from and to directly (pin_memory=True; see situ_pin_memory); {0}: ordinary memory. */
  situ_device pinned;
} situ_options;

/** How a loss combines the values of its samples. Declared here because kernels use it too. */
typedef enum situ_reduction { SITU_REDUCTION_MEAN = 0, SITU_REDUCTION_SUM, SITU_REDUCTION_NONE } situ_reduction;

/* ---- properties --------------------------------------------------------------------------- */

/** Number of dimensions; -1 for NULL. */
SITU_API int situ_dim(const situ_tensor *t);
/** Size of one dimension (negative counts from the end); -1 on error. */
SITU_API int64_t situ_size(const situ_tensor *t, int dim);
/** Distance, in elements, between neighbours along a dimension; -1 on error. */
SITU_API int64_t situ_stride(const situ_tensor *t, int dim);
/** Index of the first element in its storage; -1 for NULL. */
SITU_API int64_t situ_storage_offset(const situ_tensor *t);
/** The shape by value; ndim -1 for NULL. */
SITU_API situ_shape situ_shape_of(const situ_tensor *t);
/** Number of elements; -1 for NULL. */
SITU_API int64_t situ_numel(const situ_tensor *t);
/** The dtype; SITU_DTYPE_DEFAULT for NULL. */
SITU_API situ_dtype situ_dtype_of(const situ_tensor *t);
/** The device; for NULL a device that every call refuses. */
SITU_API situ_device situ_device_of(const situ_tensor *t);
/** Whether the elements are in row-major order without gaps; false for NULL. */
SITU_API bool situ_is_contiguous(const situ_tensor *t);
/** Whether the elements lie without gaps in the order of a memory format; DEFAULT: row-major. False for NULL, for a
    channels-last format of another number of dimensions, and after recording an error for PRESERVE. */
SITU_API bool situ_is_contiguous_memory_format(const situ_tensor *t, situ_memory_format memory_format);
/** Whether both tensors use the same storage. */
SITU_API bool situ_shares_storage(const situ_tensor *a, const situ_tensor *b);
/** Number of writes to the storage, checked by autograd (torch's _version). */
SITU_API uint32_t situ_version_of(const situ_tensor *t);

/** The name shown in messages; "" if there is none. */
SITU_API const char *situ_name(const situ_tensor *t);
/** Names a tensor (the text is copied); returns it. */
SITU_API situ_tensor *situ_set_name(situ_tensor *t, const char *name);
/** Writes the source line where the tensor was made, "train.c:12 in step", to buffer (truncated at size); "" if
    unknown. Returns buffer; "" for a NULL buffer, after recording an error. */
SITU_API const char *situ_created_at(const situ_tensor *t, char *buffer, size_t size);
/** Whether this is the address of a live tensor; accepts any pointer, also a dangling one. Slow: a system call checks
    that the memory is readable; always false outside Linux. Meanwhile no other thread may make or release tensors of
    the same storage. */
SITU_API bool situ_is_tensor(const void *pointer);

/* ---- copies from and to host memory ------------------------------------------------------- */

/** A tensor with a copy of host values, in row-major order, of options' dtype (default f32). bytes must be exactly the
    size of shape and dtype. */
SITU_API situ_tensor *situ_from_host(const void *data, size_t bytes, situ_shape shape, const situ_options *options);
/** situ_from_host without a copy: a cpu tensor on the caller's memory, which must outlive it. Writes to either are seen
    by both. situ_from_blob takes strides and a release function too. */
SITU_API situ_tensor *situ_view_host(void *data, size_t bytes, situ_shape shape, const situ_options *options);
/** A cpu tensor on the caller's memory, without a copy: the memory must outlive the tensor, or be freed by
    `release(payload)`, which is called once, when the storage is freed (also if this call fails). strides in elements;
    NULL: contiguous. */
SITU_API situ_tensor *situ_from_blob(void *data, situ_shape shape, const int64_t *strides,
                                     void (*release)(void *payload), void *payload, const situ_options *options);
/** Copies the values, in row-major order, to host memory of exactly `bytes` bytes. Waits for the device. */
SITU_API SITU_CHECKED situ_status situ_copy_to_host(situ_tensor *t, void *data, size_t bytes);
/** Copies host values of t's dtype into t, in place; bytes must be exactly t's size. */
SITU_API SITU_CHECKED situ_status situ_copy_from_host(situ_tensor *t, const void *data, size_t bytes);
/** CRC-32C of t's values in row-major order, as they are on its device: the same for every device and strides, and the
    one that situ_save writes for a tensor. */
SITU_API SITU_CHECKED situ_status situ_checksum(situ_tensor *t, uint32_t *out);
/** The single element of t as a double. Waits for the device; other sizes are SITU_E_SHAPE. */
SITU_API SITU_CHECKED situ_status situ_item(situ_tensor *t, double *out);
/** The single element of t as an integer, exact for every integer dtype. Fractions are truncated; NaN and values
    outside 64 bits are SITU_E_OVERFLOW. */
SITU_API SITU_CHECKED situ_status situ_item_i64(situ_tensor *t, int64_t *out);
/** Address of the first element of a cpu tensor; NULL for a tensor without elements, and with an error for other
    devices. */
SITU_API void *situ_data_ptr(situ_tensor *t);
/** A row-major copy in host memory that a device copies from and to directly (x.pin_memory()), on cpu and without a
    history; where the device has no such memory (cpu, adopted devices) in ordinary memory. It is few: for buffers that
    are used again. The values of input are copied, if it has any (SITU_E_STATE if in part). Without a copy: the option
    `pinned`. */
SITU_API SITU_CHECKED situ_tensor *situ_pin_memory(situ_tensor *input, situ_device device);
/** Whether t is in such memory now; a move ends it. False for NULL. */
SITU_API bool situ_is_pinned(const situ_tensor *t);
/** Whether the memory of t is a scratch file's (situ_nn_to_scratch). False for NULL. */
SITU_API bool situ_is_in_scratch(const situ_tensor *t);

/** What the host does with memory that it leases. */
typedef enum situ_lease_access {
  SITU_LEASE_READ = 0,  /**< reads values that are there */
  SITU_LEASE_READ_WRITE /**< writes too: counts as a write in place when it begins and when it ends */
} situ_lease_access;
/** situ_data_ptr for a while, to elements of `dtype` at t's strides (situ_stride). Until the lease ends the memory
    stays where it is, whatever is released meanwhile: moves, casts and changes of the memory format of the tensor's
    storage are SITU_E_STATE and name the line of this call. It ends with situ_data_release or the scope in which it was
    taken, whichever is first. NULL for a tensor without elements, whose lease is held too, and without a lease after
    recording an error: SITU_E_DTYPE for another dtype than t's, SITU_E_DEVICE off the cpu, SITU_E_STATE to read what
    was never written, to write read-only memory, or what requires a gradient outside of a no_grad scope. */
SITU_API void *situ_data_lease(situ_tensor *t, situ_dtype dtype, situ_lease_access access);
/** situ_data_lease for every device, whose memory the host reads in no other way: the address is of memory of the host
    with the values, on OpenCL what the driver maps, else a copy in pinned memory. Until the end nothing else writes
    the tensor's storage, and with READ_WRITE nothing reads it (SITU_E_STATE). What the host has written is on the
    device after situ_data_release, or after the scope; if that copy fails, so do they. Waits for the device; the ledger
    counts both copies. On cpu it is situ_data_lease. */
SITU_API void *situ_data_map(situ_tensor *t, situ_dtype dtype, situ_lease_access access);
/** Ends the newest lease of t that a scope of this thread has, else the newest that was taken outside of all scopes.
    SITU_E_STATE if there is none. Where a graph that is captured or this thread's guards refuse the copy of what the
    host has written, the lease stays, with its values. */
SITU_API SITU_CHECKED situ_status situ_data_release(situ_tensor *t);

/* ---- printing ----------------------------------------------------------------------------- */

/** torch's repr: tensor([[1., 2.], [3., 4.]], device='sim:0'). Written to buffer (truncated at size, always
    terminated); returns the length of the whole text, as snprintf does; negative on error. */
SITU_API int64_t situ_to_string(situ_tensor *t, char *buffer, size_t size);
/** Prints t and a newline to stdout. */
SITU_API void situ_print(situ_tensor *t);

SITU_END
#endif
