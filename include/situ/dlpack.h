/* DLPack: tensors of other libraries in the same process (NumPy, PyTorch, JAX, ...), taken in and given out without
   a copy. The structs have the layout of DLPack 1.x (https://dmlc.github.io/dlpack/latest/c_api.html), so that a
   pointer to its DLManagedTensorVersioned or DLManagedTensor is one to these; neither header needs the other.
   Threads: as of all tensors; the consumer's deleter may be called on any thread (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DLPACK_H
#define SITU_DLPACK_H

#include "tensor.h"

SITU_BEGIN

/** What a managed tensor describes (DLTensor). */
typedef struct situ_dlpack_tensor {
  void *data;
  int32_t device_type; /**< 1: host memory */
  int32_t device_id;
  int32_t ndim;
  uint8_t code;     /**< 0 int, 1 unsigned int, 2 float, 4 bfloat, 6 bool */
  uint8_t bits;     /**< of one element */
  uint16_t lanes;   /**< elements of a vector; 1 for all tensors of situ */
  int64_t *shape;   /**< ndim sizes */
  int64_t *strides; /**< ndim distances in elements; NULL: row-major without gaps */
  uint64_t byte_offset;
} situ_dlpack_tensor;

/** A tensor and the function that gives it back, before DLPack 1.0 (DLManagedTensor). */
typedef struct situ_dlpack_unversioned {
  situ_dlpack_tensor tensor;
  void *manager; /**< the producer's own */
  /** Called once by the consumer when it does not use the tensor any more; NULL: nothing is to be done. */
  void (*deleter)(struct situ_dlpack_unversioned *self);
} situ_dlpack_unversioned;

/** The same since DLPack 1.0 (DLManagedTensorVersioned). */
typedef struct situ_dlpack_versioned {
  uint32_t major, minor; /**< of the producer's DLPack; another major version has another layout behind `flags` */
  void *manager;
  void (*deleter)(struct situ_dlpack_versioned *self);
  uint64_t flags; /**< 1: the consumer must not write the elements; 2: they are a copy */
  situ_dlpack_tensor tensor;
} situ_dlpack_versioned;

/** Which of the two structs a pointer points to. The pointer does not tell; in Python the name of the capsule does:
    "dltensor_versioned" or "dltensor". */
typedef enum situ_dlpack_abi { SITU_DLPACK_VERSIONED = 0, SITU_DLPACK_UNVERSIONED } situ_dlpack_abi;

/** A cpu tensor on the memory of another library's, without a copy, with its shape, strides and dtype. situ owns
    `managed` from now on, also if this call fails: its deleter is called once, when the last tensor on the memory is
    freed, or at once after an error. Memory that the producer calls read-only stays so: writes in place are
    SITU_E_STATE. NULL with SITU_E_DTYPE for a dtype that situ lacks (lanes but 1, float8, complex, wide unsigned
    integers), SITU_E_DEVICE for memory that the host cannot read, SITU_E_ARG for negative strides, elements that are
    not aligned, another major version; SITU_E_SHAPE for more than SITU_MAX_DIMS dimensions. */
SITU_API situ_tensor *situ_from_dlpack(void *managed, situ_dlpack_abi abi);
/** A cpu tensor for another library, without a copy: a new struct, which the consumer gives back by its deleter. Until
    then the memory stays where it is, whatever is released meanwhile: moves, casts and changes of the memory format of
    the tensor's storage are SITU_E_STATE, and name the line of this call. The consumer may write the elements at any
    time, but those of read-only memory, which has flag 1 and is refused for the unversioned struct. NULL with
    SITU_E_DEVICE for a tensor on another device, SITU_E_STATE for one that requires a gradient (pass its situ_detach),
    SITU_E_UNSUPPORTED for quantised blocks and samples of situ_func_vmap. */
SITU_API void *situ_to_dlpack(situ_tensor *t, situ_dlpack_abi abi);

/** situ_from_dlpack for memory of a device: a tensor on `device`, which was adopted (situ/interop.h) and whose queue
    the producer was told. CUDA: types 2 (its device), 3 (pinned) and 13 (managed); OpenCL: 4, where data is a cl_mem.
    Work is in the order of that queue; nothing waits. Also SITU_E_DEVICE: memory of another device or context. */
SITU_API situ_tensor *situ_from_dlpack_on(void *managed, situ_dlpack_abi abi, situ_device device);
/** situ_to_dlpack for a tensor on an adopted device, with its type and CUDA's number of it. queue: the consumer's,
    whose later work runs after what is queued on the tensor's device (__dlpack__'s stream; 1 and 2 are CUDA's default
    ones); NULL: the consumer orders its work itself (-1 there). On cpu queue is not used. */
SITU_API void *situ_to_dlpack_for(situ_tensor *t, situ_dlpack_abi abi, void *queue);

SITU_END
#endif
