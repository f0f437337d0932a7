/* Tensors: dtype, shape, strides, device; reading and writing them from the host.
   Threads: tensors may be read by several; writes in place are the caller's to lock (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TENSOR_H
#define SITU_TENSOR_H

#include "device.h"
#include "scope.h"

SITU_BEGIN

typedef enum situ_dtype {
  SITU_DTYPE_DEFAULT = 0, /**< not stated: f32, or what the call derives */
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

/** Bytes of one element; 0 for a value that is no dtype. */
SITU_API size_t situ_dtype_size(situ_dtype dtype);
/** "f32", "i64", "bool"; "?" for a value that is no dtype. Static text. */
SITU_API const char *situ_dtype_name(situ_dtype dtype);
SITU_API bool situ_dtype_is_floating(situ_dtype dtype);
SITU_API bool situ_dtype_is_integer(situ_dtype dtype); /**< bool is not one */
/** torch.promote_types. */
SITU_API situ_dtype situ_promote_types(situ_dtype a, situ_dtype b);

/** A shape, or a list of dimensions, by value. */
typedef struct situ_shape {
  int ndim;
  int64_t dim[SITU_MAX_DIMS];
} situ_shape;

#ifdef __cplusplus
extern "C++" template <typename... N> constexpr situ_shape situ_shape_of_(N... n) {
  return situ_shape{ (int)sizeof...(n), { (int64_t)n... } };
}
#define SITU_SHAPE(...) situ_shape_of_(__VA_ARGS__)
#define SITU_SCALAR (situ_shape_of_())
#else
/** SITU_SHAPE(32, 784): a shape by value. */
#define SITU_SHAPE(...) ((situ_shape){ (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), { __VA_ARGS__ } })
/** The shape of a 0-dim tensor. */
#define SITU_SCALAR ((situ_shape){ 0, { 0 } })
#endif
/** A list of dimensions: SITU_DIMS(0, -1). */
#define SITU_DIMS(...) SITU_SHAPE(__VA_ARGS__)

/** A source of random numbers: Philox4x32-10, by seed and the number of draws made so far. The same
    state gives the same bits on every device and for any number of threads. */
typedef struct situ_generator {
  uint64_t seed;
  uint64_t offset; /**< draws (calls, not elements) made so far */
} situ_generator;

/** Options of everything that makes a tensor; NULL or {0} is PyTorch's default. */
typedef struct situ_options {
  situ_dtype dtype;
  situ_device device;
  bool requires_grad;
  situ_generator *generator; /**< random factories only; NULL: the default generator */
} situ_options;

/** What a loss does with the values of its samples. Here, and not among the losses, because kernels know it too. */
typedef enum situ_reduction { SITU_REDUCTION_MEAN = 0, SITU_REDUCTION_SUM, SITU_REDUCTION_NONE } situ_reduction;

/* ---- looking at a tensor ------------------------------------------------------------------ */

/** Number of dimensions; -1 for NULL. */
SITU_API int situ_dim(const situ_tensor *t);
/** Size of one dimension (negative counts from the end); -1 on error. */
SITU_API int64_t situ_size(const situ_tensor *t, int dim);
/** Elements to step to reach the next one along a dimension. */
SITU_API int64_t situ_stride(const situ_tensor *t, int dim);
SITU_API int64_t situ_storage_offset(const situ_tensor *t);
/** The shape by value; ndim -1 for NULL. */
SITU_API situ_shape situ_shape_of(const situ_tensor *t);
SITU_API int64_t situ_numel(const situ_tensor *t);
SITU_API situ_dtype situ_dtype_of(const situ_tensor *t);
SITU_API situ_device situ_device_of(const situ_tensor *t);
SITU_API bool situ_is_contiguous(const situ_tensor *t);
/** Do both look at the same storage? */
SITU_API bool situ_shares_storage(const situ_tensor *a, const situ_tensor *b);
/** Counts the writes to the storage: what autograd checks. */
SITU_API uint32_t situ_version_of(const situ_tensor *t);

/** The name shown in messages; "" if there is none. */
SITU_API const char *situ_name(const situ_tensor *t);
/** Names a tensor (the text is copied); returns it. */
SITU_API situ_tensor *situ_set_name(situ_tensor *t, const char *name);
/** Where the tensor was made: "train.c:12 in step", written to buffer (cut at size); "" if that cannot
    be told. Returns buffer; "" for a NULL buffer, after recording an error. */
SITU_API const char *situ_created_at(const situ_tensor *t, char *buffer, size_t size);
/** Is this the address of a live tensor? Any pointer may be asked, a dangling one too. Slow (it asks the
    kernel whether there is memory); always false where that cannot be asked (not Linux). Meanwhile no
    other thread may make or release tensors of the same storage. */
SITU_API bool situ_is_tensor(const void *pointer);

/* ---- between host and tensor -------------------------------------------------------------- */

/** A tensor with a copy of host values, row by row, of options' dtype (default f32). bytes must be
    exactly what shape and dtype need. */
SITU_API situ_tensor *situ_from_host(const void *data, size_t bytes, situ_shape shape, const situ_options *options);
/** A cpu tensor on the caller's memory, not copied: it must outlive the tensor, or be freed by
    `release(payload)`, which is called once, when the storage dies (also if this call fails). strides
    in elements; NULL: contiguous. */
SITU_API situ_tensor *situ_from_blob(void *data, situ_shape shape, const int64_t *strides,
                                     void (*release)(void *payload), void *payload, const situ_options *options);
/** Copies the values, row by row, to host memory of exactly `bytes` bytes. Waits for the device. */
SITU_API SITU_CHECKED situ_status situ_copy_to_host(situ_tensor *t, void *data, size_t bytes);
/** Copies host values of t's own dtype into t (in place). */
SITU_API SITU_CHECKED situ_status situ_copy_from_host(situ_tensor *t, const void *data, size_t bytes);
/** The one element of t as a double. */
SITU_API SITU_CHECKED situ_status situ_item(situ_tensor *t, double *out);
/** The one element of t as an integer (exact for every integer dtype). A fraction is cut off; NaN, and what 64 bits cannot hold,
    is SITU_E_OVERFLOW. */
SITU_API SITU_CHECKED situ_status situ_item_i64(situ_tensor *t, int64_t *out);
/** The first element's address for a cpu tensor; NULL with an error for any other device, and without one for a tensor
    that has no elements. */
SITU_API void *situ_data_ptr(situ_tensor *t);

/* ---- printing ----------------------------------------------------------------------------- */

/** Text like torch's: tensor([[1., 2.], [3., 4.]], device='sim:0'). Written to buffer (cut at size, always ended);
    returns the length that the whole text has, as snprintf does; negative on error. */
SITU_API int64_t situ_to_string(situ_tensor *t, char *buffer, size_t size);
/** Prints t and a newline to stdout. */
SITU_API void situ_print(situ_tensor *t);

SITU_END
#endif
