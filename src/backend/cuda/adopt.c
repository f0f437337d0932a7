/* Devices of the program: its stream, and its device memory. Errors name the handle that is wrong.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/cuda/cuda.h"

static const char *const adopting = "device_adopt", *const opening = "device_open_queue",
                         *const borrowing = "from_memory", *const waiting = "device_wait_event",
                         *const recording = "device_record_event", *const asking = "device_query_event";

/* Clears the error, so that the program's own calls do not get it. */
static const char *name_of(cudaError_t error) {
  (void)situ__cuda.GetLastError();
  return situ__cuda.GetErrorName(error);
}

/* A function of the driver's, of which the runtime knows where it is; NULL: there is none. */
static void *find_driver(const char *name) {
  void *found = NULL;
  enum cudaDriverEntryPointQueryResult result;
  const cudaError_t error =
      situ__cuda.GetDriverEntryPointByVersion(name, &found, CUDART_VERSION, cudaEnableDefault, &result);
  if (error == cudaSuccess) return found;
  (void)situ__cuda.GetLastError();
  return NULL;
}

/* ---- adopting ------------------------------------------------------------------------------- */

/* Sets the number of the stream's device. */
static situ_status find_ordinal(const situ_foreign *f, int *ordinal) {
  const int *stated = f->device;
  const bool is_default = !f->queue || f->queue == cudaStreamLegacy;
  cudaError_t error = cudaSuccess;
  if (is_default && stated) *ordinal = *stated;
  else if (is_default) error = situ__cuda.GetDevice(ordinal);
  else error = situ__cuda.StreamGetDevice(f->queue, ordinal);
  if (error != cudaSuccess)
    return situ__host->fail(SITU_E_ARG, adopting, "foreign->queue is not a cudaStream_t (%s: %s)",
                            is_default ? "cudaGetDevice" : "cudaStreamGetDevice", name_of(error));
  if (*ordinal < 0 || *ordinal >= situ__cuda_ordinals())
    return situ__host->fail(SITU_E_ARG, adopting, "*foreign->device is %d, and CUDA has %d devices; set it to 0 to %d",
                            *ordinal, situ__cuda_ordinals(), situ__cuda_ordinals() - 1);
  if (stated && *stated != *ordinal)
    return situ__host->fail(SITU_E_ARG, adopting,
                            "foreign->queue is of CUDA's device %d, and *foreign->device is %d; give a stream that was "
                            "made for that device",
                            *ordinal, *stated);
  return SITU_OK;
}

static situ_status check_handles(const situ_foreign *f, int *ordinal) {
  const char *reason;
  (void)situ__cuda_count(&reason);
  if (!situ__cuda_ordinals())
    return situ__host->fail(SITU_E_UNSUPPORTED, adopting, "there is no CUDA device: %s", reason);
  if (f->queue == cudaStreamPerThread)
    return situ__host->fail(SITU_E_ARG, adopting,
                            "foreign->queue is cudaStreamPerThread, another stream in each thread; make one with "
                            "cudaStreamCreate");
  return find_ordinal(f, ordinal);
}

/* The primary context of a device; NULL: the driver does not say. */
static void *primary_context(int ordinal) {
  int (*retain)(void **context, int device) = NULL, (*release)(int device) = NULL;
  void *context = NULL,
       *found[] = { find_driver("cuDevicePrimaryCtxRetain"), find_driver("cuDevicePrimaryCtxRelease") };
  memcpy(&retain, &found[0], sizeof retain);
  memcpy(&release, &found[1], sizeof release);
  if (!retain || !release || retain(&context, ordinal)) return NULL;
  (void)release(ordinal); /* the runtime has it, and keeps it */
  return context;
}

/* The runtime works in a device's primary context, and knows no stream and no memory of another one. */
static situ_status check_context(const situ_foreign *f, int ordinal) {
  void *const primary = f->context ? primary_context(ordinal) : NULL;
  if (f->context == primary) return SITU_OK;
  return situ__host->fail(SITU_E_ARG, adopting,
                          "foreign->context is %p, and situ works in the primary context of CUDA's device %d, which is "
                          "%p; make stream and memory there (cudaSetDevice, cuDevicePrimaryCtxRetain)",
                          f->context, ordinal, primary);
}

situ_status situ__cuda_adopt(int index, const situ_foreign *foreign) {
  int ordinal = 0;
  situ_status status = check_handles(foreign, &ordinal);
  if (status == SITU_OK) status = check_context(foreign, ordinal);
  if (status != SITU_OK) return status;
  situ__cuda_device *d = situ__cuda_adopting(index, adopting, ordinal, foreign, &status);
  if (!d) return status;
  const cudaError_t error = situ__cuda.EventRecord(d->here, d->stream);
  if (error != cudaSuccess) {
    status = situ__host->fail(SITU_E_ARG, adopting,
                              "foreign->queue takes no event of the primary context of CUDA's device %d "
                              "(cudaEventRecord: %s); give a stream of that context",
                              ordinal, name_of(error));
    situ__cuda_close(d);
    return situ__cuda_leave(d, status);
  }
  situ__cuda_forget_routes(index);
  situ__cuda_grow(index + 1);
  return situ__cuda_leave(d, SITU_OK);
}

situ_status situ__cuda_open_queue(int from, int index) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(from, opening, &status);
  if (!d) return status;
  cudaStream_t stream = NULL;
  int ordinal = d->ordinal;
  const cudaError_t error = situ__cuda.StreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) status = situ__cuda_fail(d, opening, "cudaStreamCreateWithFlags", error);
  if (situ__cuda_leave(d, status) != SITU_OK) return status;
  const situ_foreign foreign = { .kind = SITU_CUDA, .queue = stream, .device = &ordinal };
  status = situ__cuda_adopt(index, &foreign);
  if (status != SITU_OK) return (void)situ__cuda.StreamDestroy(stream), status;
  situ__cuda_device *made = situ__cuda_enter_to_close(index);
  made->opened = true;
  return situ__cuda_leave(made, SITU_OK);
}

/* ---- giving back ---------------------------------------------------------------------------- */

/* Waits, as pinned memory that kernels and copies use cannot be freed behind them. */
situ_status situ__cuda_abandon(int index) {
  situ__cuda_device *d = situ__cuda_enter_to_close(index);
  const situ_status status = d->lost ? SITU_OK : situ__cuda_wait(d, "device_abandon");
  situ__lt_close(d);
#ifdef SITU_CUDNN
  situ__dnn_close(d);
#endif
  situ__host->free(d->kernels.made);
  d->kernels = (situ__table){ 0 };
  situ__cuda_close_stages(d);
  situ__cuda_close_flights(d);
  situ__cuda_close(d);
  (void)situ__cuda.GetLastError();
  d->unchecked = d->lost = false;
  return situ__cuda_leave(d, status);
}

/* Enters a device of the program. NULL after recording an error: another one is not ordered with its streams. */
static situ__cuda_device *enter_adopted(int index, const char *op, situ_status *status) {
  situ__cuda_device *d = situ__cuda_enter(index, op, status);
  if (!d || d->adopted) return d;
  *status = situ__cuda_leave(d, SITU_E_DEVICE);
  return situ__host->fail(SITU_E_DEVICE, op,
                          "cuda:%d is a device that situ has opened, with a stream of its own; adopt one of the "
                          "program's with situ_device_adopt",
                          index),
         NULL;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Bytes from `at` to the end of its allocation; SIZE_MAX: unknown. The runtime has no such function, its driver has. */
static size_t bytes_behind(const void *at) {
  int (*get_range)(uintptr_t * base, size_t * size, uintptr_t pointer) = NULL;
  void *found = find_driver("cuMemGetAddressRange");
  uintptr_t base = 0;
  size_t size = 0;
  memcpy(&get_range, &found, sizeof found);
  if (!get_range || get_range(&base, &size, (uintptr_t)at)) return SIZE_MAX;
  return size - ((uintptr_t)at - base);
}

static situ_status check_pointer(const situ__cuda_device *d, void *handle, size_t bytes, void **data) {
  struct cudaPointerAttributes about = { .type = cudaMemoryTypeUnregistered };
  const cudaError_t error = situ__cuda.PointerGetAttributes(&about, handle);
  const int index = d->target.index;
  if (error != cudaSuccess || about.type == cudaMemoryTypeUnregistered || !about.devicePointer)
    return situ__host->fail(SITU_E_DEVICE, borrowing,
                            "the memory at %p is not CUDA's (cudaPointerGetAttributes: %s), and cuda:%d is on its "
                            "device %d; register it with cudaHostRegister, or use situ_from_blob for host memory",
                            handle, error == cudaSuccess ? "unregistered" : name_of(error), index, d->ordinal);
  if (about.type == cudaMemoryTypeDevice && about.device != d->ordinal)
    return situ__host->fail(SITU_E_DEVICE, borrowing,
                            "the memory at %p is on CUDA's device %d, and cuda:%d is on its device %d; adopt a stream "
                            "of the former with situ_device_adopt",
                            handle, about.device, index, d->ordinal);
  const size_t left = bytes_behind(about.devicePointer);
  if (left < bytes)
    return situ__host->fail(SITU_E_SHAPE, borrowing,
                            "the memory has %zu bytes, and offset, shape and strides reach to byte %zu", left, bytes);
  *data = about.devicePointer;
  return SITU_OK;
}

situ_status situ__cuda_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only) {
  (void)read_only;
  situ_status status;
  situ__cuda_device *d = enter_adopted(index, borrowing, &status);
  return d ? situ__cuda_leave(d, check_pointer(d, handle, bytes, data)) : status;
}

/* CUDA's memory has no count of owners: the program keeps it, and frees it in the order of its stream. */
void situ__cuda_give_back(int index, void *data) { (void)index, (void)data; }

/* ---- events --------------------------------------------------------------------------------- */

static situ_status end_event(situ__cuda_device *d, const char *op, const char *call, cudaError_t error) {
  if (error == cudaSuccess) return situ__cuda_leave(d, SITU_OK);
  if (error != cudaErrorInvalidResourceHandle) return situ__cuda_leave(d, situ__cuda_fail(d, op, call, error));
  return situ__cuda_leave(
      d, situ__host->fail(SITU_E_ARG, op, "event is not a cudaEvent_t (%s: %s)", call, name_of(error)));
}

/* Copies on streams of their own run after it, too. */
situ_status situ__cuda_wait_event(int index, void *event) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, waiting, &status);
  if (!d) return status;
  const cudaStream_t later[] = { d->stream, d->order.in, d->order.out };
  cudaError_t error = cudaSuccess;
  for (int k = 0; k < (d->adopted ? 1 : 3) && error == cudaSuccess; k++)
    error = situ__cuda.StreamWaitEvent(later[k], event, 0);
  return end_event(d, waiting, "cudaStreamWaitEvent", error);
}

situ_status situ__cuda_record_event(int index, void **event) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, recording, &status);
  if (!d) return status;
  cudaEvent_t made = NULL;
  cudaError_t error = situ__cuda.EventCreateWithFlags(&made, cudaEventDisableTiming);
  if (error != cudaSuccess)
    return situ__cuda_leave(d, situ__cuda_fail(d, recording, "cudaEventCreateWithFlags", error));
  error = situ__cuda.EventRecord(made, d->stream);
  if (error == cudaSuccess) {
    *event = made;
    return situ__cuda_leave(d, SITU_OK);
  }
  status = situ__cuda_fail(d, recording, "cudaEventRecord", error);
  (void)situ__cuda.EventDestroy(made);
  return situ__cuda_leave(d, status);
}

situ_status situ__cuda_query_event(int index, void *event, bool *done) {
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, asking, &status);
  if (!d) return status;
  const cudaError_t error = situ__cuda.EventQuery(event);
  *done = error != cudaErrorNotReady;
  if (!*done) (void)situ__cuda.GetLastError();
  return end_event(d, asking, "cudaEventQuery", *done ? error : cudaSuccess);
}

situ_status situ__cuda_release_event(int index, void *event) {
  const char *op = "device_release_event";
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, op, &status);
  return d ? end_event(d, op, "cudaEventDestroy", situ__cuda.EventDestroy(event)) : status;
}

situ_status situ__cuda_share(int index, void *queue, int *number) {
  situ_status status;
  situ__cuda_device *d = enter_adopted(index, "to_dlpack_for", &status);
  if (!d) return status;
  *number = d->ordinal;
  cudaError_t error = queue ? situ__cuda.EventRecord(d->here, d->stream) : cudaSuccess;
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, "to_dlpack_for", "cudaEventRecord", error));
  if (queue) error = situ__cuda.StreamWaitEvent(queue, d->here, 0);
  if (error != cudaSuccess)
    status = situ__host->fail(SITU_E_ARG, "to_dlpack_for", "queue is not a cudaStream_t (cudaStreamWaitEvent: %s)",
                              name_of(error));
  return situ__cuda_leave(d, status);
}
