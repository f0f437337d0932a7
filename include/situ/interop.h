/* A program's own devices and device memory: its context and queue as a device of situ, its buffers as tensors, without
   a copy and without a wait (docs/in-place.md).
   Threads: all functions may be called concurrently; a device is given back when no other thread uses it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_INTEROP_H
#define SITU_INTEROP_H

#include "tensor.h"

SITU_BEGIN

/** A context and a queue of the program. Zero it first. */
typedef struct situ_foreign {
  situ_device_kind kind; /**< SITU_OPENCL, SITU_CUDA; SITU_SIM: see sys/sim.h */
  void *device;          /**< cl_device_id; CUDA: an int *, its number; NULL: the queue's, or the current one */
  void *context;         /**< cl_context, CUcontext; NULL: the queue's. CUDA: the device's primary one */
  void *queue;           /**< cl_command_queue, in order; cudaStream_t, of which NULL is the default stream */
  /** NULL, or where situ's own memory there comes from, in place of the driver: both or none. alloc returns a cl_mem
      of that very size, or an address that is a multiple of 256; or NULL, after which situ empties its cache and asks
      again; then it is SITU_E_NOMEM. free gets it back, when queued work may still use it. On any thread, the device
      locked: they call nothing of situ's. */
  void *(*alloc)(void *payload, size_t bytes, void *queue);
  void (*free)(void *payload, void *handle, void *queue);
  void *payload;
} situ_foreign;

/** Makes a device of situ of the program's context and queue, in *out: "opencl:2". Its memory is allocated in that
    context, and its work is queued there, in order with the program's own. situ waits for the queue only where a value
    is asked for (situ_item, situ_copy_to_host, situ_print, ...), where values come from the host or another device, and
    in situ_synchronize. OpenCL's handles are retained; a stream of CUDA's lives until situ_device_abandon, and CUDA's
    current device stays as it is. On error *out is unchanged. */
SITU_API SITU_CHECKED situ_status situ_device_adopt(const situ_foreign *foreign, situ_device *out);
/** Gives an adopted device back: frees what situ keeps there and releases the handles. SITU_E_STATE while tensors live
    there, with their names. Waits for copies that are on the way to the host, a failure of which is returned and
    changes nothing; on OpenCL also if a kernel may have found an index out of range and nothing was read since, on CUDA
    always: that error is returned, and the device is given back all the same. Its name can be given to a device that is
    adopted later. */
SITU_API SITU_CHECKED situ_status situ_device_abandon(situ_device device);
/** One more queue of a device, in the same context (CUDA: one more stream), as a device of its own in *out: for work
    that may run beside the first one's. It has all that an adopted device has, and ends with situ_device_abandon.
    Copies between the two stay on the device and do not wait. SITU_E_UNSUPPORTED for cpu and meta. */
SITU_API SITU_CHECKED situ_status situ_device_open_queue(situ_device device, situ_device *out);

/* ---- events: of adopted devices and of situ's own ---- */

/** Work that is queued on the device from now on runs after the event (cl_event, cudaEvent_t), which stays the
    program's: for work of another queue of the context. Does not wait. */
SITU_API SITU_CHECKED situ_status situ_device_wait_event(situ_device device, void *event);
/** Sets *event to one that is complete when all work is done that was queued on the device until now (of the cpu: at
    once). It is a cl_event or a cudaEvent_t, and on sim and cpu situ's own; the program releases it, by
    situ_device_release_event or by the driver's call (clReleaseEvent, cudaEventDestroy). Does not wait. */
SITU_API SITU_CHECKED situ_status situ_device_record_event(situ_device device, void **event);
/** Sets *done to whether the event is complete, and does not wait. The device is that of the event's context.
    SITU_E_IO if the work that it stands for has failed. */
SITU_API SITU_CHECKED situ_status situ_device_query_event(situ_device device, void *event, bool *done);
/** Releases an event: for programs that do not call the driver themselves. */
SITU_API SITU_CHECKED situ_status situ_device_release_event(situ_device device, void *event);

/* ---- memory ---- */

/** Memory of the program. Zero it first. */
typedef struct situ_memory {
  void *handle;           /**< cl_mem, a buffer, which is retained; CUDA: an address that it knows */
  size_t offset;          /**< of the first element, in bytes: a multiple of the dtype's size */
  const int64_t *strides; /**< in elements; NULL: contiguous */
  /** NULL, or called once when the memory is not used any more, also if the call fails; queued work may still use it
      then, so it is freed in the order of the queue. */
  void (*release)(void *payload);
  void *payload;
  bool read_only; /**< writes are SITU_E_STATE; also where the memory itself says so (CL_MEM_READ_ONLY) */
} situ_memory;

/** A tensor on the program's memory, without a copy, on options' device: an adopted one, whose context the memory is
    of. Writes to either are seen by both, in the order of the queue. For host memory: situ_from_blob. */
SITU_API situ_tensor *situ_from_memory(const situ_memory *memory, situ_shape shape, const situ_options *options);
/** The other direction: the memory of a tensor, of the program or of situ, and the byte offset of its first element
    there. The handle is borrowed until the tensor is moved or freed. The program may write to it, in the order of the
    queue, and saved values of a recorded call do not notice. SITU_E_DEVICE for devices without such handles. */
SITU_API SITU_CHECKED situ_status situ_memory_of(situ_tensor *t, void **handle, size_t *offset);

/** Copies a two-dimensional image (cl_mem) of the context of t's device into t, [height, width, channels] or of one
    channel [height, width], contiguous, without a wait. The bytes stay as they are: float channels are f32, half f16,
    8 bits u8 or i8, 16 bits i16, 32 bits i32. The ledger counts it as a copy on the device, which a ledger that allows
    none allows. SITU_E_DTYPE for another format, SITU_E_SHAPE for another size. */
SITU_API SITU_CHECKED situ_status situ_copy_from_image(situ_tensor *t, void *image);
/** The other direction. */
SITU_API SITU_CHECKED situ_status situ_copy_to_image(situ_tensor *t, void *image);

SITU_END
#endif
