/* Devices of the program: its context and queue, and its buffers. Errors name the handle that is wrong.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "backend/opencl/opencl.h"

static const char *const adopting = "device_adopt", *const opening = "device_open_queue",
                         *const borrowing = "from_memory", *const waiting = "device_wait_event",
                         *const recording = "device_record_event", *const asking = "device_query_event";

/* ---- adopting ------------------------------------------------------------------------------- */

/* What the queue says of itself. */
typedef struct described {
  cl_context context;
  cl_device_id device;
  cl_command_queue_properties properties;
} described;

static cl_int describe(cl_command_queue queue, described *q) {
  cl_int error = clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof q->context, &q->context, NULL);
  if (error == CL_SUCCESS) error = clGetCommandQueueInfo(queue, CL_QUEUE_DEVICE, sizeof q->device, &q->device, NULL);
  if (error == CL_SUCCESS)
    error = clGetCommandQueueInfo(queue, CL_QUEUE_PROPERTIES, sizeof q->properties, &q->properties, NULL);
  return error;
}

static situ_status check_handles(const situ_foreign *f, described *q) {
  if (!f->queue)
    return situ__host->fail(SITU_E_ARG, adopting, "foreign->queue is NULL; OpenCL needs a cl_command_queue, in order");
  const cl_int error = describe(f->queue, q);
  if (error != CL_SUCCESS)
    return situ__host->fail(SITU_E_ARG, adopting,
                            "foreign->queue is not a cl_command_queue (clGetCommandQueueInfo: %d)", (int)error);
  if (f->context && f->context != q->context)
    return situ__host->fail(SITU_E_ARG, adopting,
                            "foreign->queue is of the cl_context %p, and foreign->context is %p; give a queue that was "
                            "made in that context",
                            (void *)q->context, f->context);
  if (f->device && f->device != q->device)
    return situ__host->fail(
        SITU_E_ARG, adopting,
        "foreign->queue is of the cl_device_id %p, and foreign->device is %p; give a queue that was "
        "made for that device",
        (void *)q->device, f->device);
  if (q->properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return situ__host->fail(SITU_E_ARG, adopting,
                            "foreign->queue runs its work out of order; make one without "
                            "CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE");
  return SITU_OK;
}

/* Entered. Retains nothing on failure. */
static situ_status open_adopted(situ__cl_device *d, const described *q, const situ_foreign *foreign) {
  *d->lost = 0; /* of an attempt before */
  cl_platform_id platform;
  cl_int error = clGetDeviceInfo(q->device, CL_DEVICE_PLATFORM, sizeof platform, &platform, NULL);
  if (error == CL_SUCCESS) error = situ__cl_query(d, platform, q->device);
  if (error != CL_SUCCESS) return situ__cl_fail(d, adopting, "asking for its properties", error, false);
  d->aside = clCreateCommandQueue(q->context, q->device, 0, &error);
  if (!d->aside) return situ__cl_fail(d, adopting, "clCreateCommandQueue", error, false);
  const situ_status status = situ__cl_open(d, adopting, q->context, foreign->queue);
  if (status == SITU_OK) {
    d->program = *foreign;
    (void)clRetainContext(q->context);
    (void)clRetainCommandQueue(foreign->queue);
    return SITU_OK;
  }
  (void)clReleaseCommandQueue(d->aside);
  d->aside = NULL;
  return status;
}

situ_status situ__cl_adopt(int index, const situ_foreign *foreign) {
  described q;
  if (!situ__cl_may_open(adopting)) return SITU_E_STATE;
  situ_status status = check_handles(foreign, &q);
  if (status != SITU_OK) return status;
  situ__cl_device *d = situ__cl_enter_to_free(index);
  status = situ__cl_leave(d, open_adopted(d, &q, foreign));
  if (status == SITU_OK) situ__cl_grow(index + 1);
  return status;
}

situ_status situ__cl_open_queue(int from, int index) {
  situ_status status;
  cl_int error;
  situ__cl_device *d = situ__cl_enter(from, opening, &status);
  if (!d) return status;
  cl_command_queue queue = clCreateCommandQueue(d->context, d->id, 0, &error);
  status = situ__cl_leave(d, queue ? SITU_OK : situ__cl_fail(d, opening, "clCreateCommandQueue", error, false));
  if (!queue) return status;
  const situ_foreign foreign = { .kind = SITU_OPENCL, .queue = queue };
  status = situ__cl_adopt(index, &foreign); /* retains it */
  (void)clReleaseCommandQueue(queue);
  return status;
}

/* ---- giving back ---------------------------------------------------------------------------- */

static void release_kernels(situ__table *kernels) {
  for (size_t k = 0; k < kernels->slots; k++)
    if (kernels->made[k].kernel) (void)clReleaseKernel(kernels->made[k].kernel);
  situ__host->free(kernels->made);
  *kernels = (situ__table){ 0 };
}

situ_status situ__cl_abandon(int index) {
  situ__cl_device *d = situ__cl_enter_to_free(index);
  const situ_status status = *d->lost ? SITU_OK : situ__cl_check(d);
  release_kernels(&d->kernels);
  situ__host->free(d->build);
  situ__host->free(d->believed);
  (void)clReleaseMemObject(d->fault);
  (void)clReleaseCommandQueue(d->aside);
  (void)clReleaseCommandQueue(d->queue);
  (void)clReleaseContext(d->context);
  d->build = NULL;
  d->believed = NULL;
  d->believed_count = 0;
  d->used = 0;
  d->fault = NULL;
  d->aside = d->queue = NULL;
  d->context = NULL;
  d->program = (situ_foreign){ 0 };
  d->unchecked = d->open = false;
  *d->lost = 0;
  return situ__cl_leave(d, status);
}

/* The context of another device has none of the program's objects. */
situ__cl_device *situ__cl_enter_adopted(int index, const char *op, situ_status *status) {
  situ__cl_device *d = situ__cl_enter(index, op, status);
  if (!d || d->aside) return d;
  *status = situ__cl_leave(d, SITU_E_DEVICE);
  return situ__host->fail(SITU_E_DEVICE, op,
                          "opencl:%d is a device that situ has opened, in a context of its own; adopt one of the "
                          "program's with situ_device_adopt",
                          index),
         NULL;
}

/* ---- memory --------------------------------------------------------------------------------- */

/* Which device has this context; -1: none. */
static int find_context(cl_context context) {
  const char *reason;
  for (int i = 0; i < situ__cl_count(&reason); i++) {
    situ__cl_device *d = situ__cl_enter_to_free(i);
    const bool its = d->open && d->context == context;
    (void)situ__cl_leave(d, SITU_OK);
    if (its) return i;
  }
  return -1;
}

situ_status situ__cl_refuse_context(const char *op, const char *what, int index, cl_context is, cl_context should) {
  const int other = find_context(is);
  if (other >= 0)
    return situ__host->fail(SITU_E_DEVICE, op,
                            "the %s is of the context of opencl:%d (cl_context %p), not of opencl:%d (%p); state the "
                            "former, or make the %s in the context of the latter",
                            what, other, (void *)is, index, (void *)should, what);
  return situ__host->fail(SITU_E_DEVICE, op,
                          "the %s is of the cl_context %p, not of that of opencl:%d (%p); adopt a queue of that "
                          "context with situ_device_adopt",
                          what, (void *)is, index, (void *)should);
}

/* What a buffer says of itself. */
static cl_int ask(cl_mem memory, cl_mem_info what, size_t size, void *to, cl_int error) {
  return error == CL_SUCCESS ? clGetMemObjectInfo(memory, what, size, to, NULL) : error;
}

static situ_status check_buffer(int index, cl_mem memory, size_t bytes, cl_context should, bool *read_only) {
  cl_context context = NULL;
  cl_mem_object_type type = 0;
  cl_mem_flags flags = 0;
  size_t size = 0;
  cl_int error = ask(memory, CL_MEM_TYPE, sizeof type, &type, CL_SUCCESS);
  error = ask(memory, CL_MEM_CONTEXT, sizeof context, &context, error);
  error = ask(memory, CL_MEM_FLAGS, sizeof flags, &flags, error);
  error = ask(memory, CL_MEM_SIZE, sizeof size, &size, error);
  if (error != CL_SUCCESS)
    return situ__host->fail(SITU_E_ARG, borrowing, "memory->handle is not a cl_mem (clGetMemObjectInfo: %d)",
                            (int)error);
  if (type != CL_MEM_OBJECT_BUFFER)
    return situ__host->fail(SITU_E_ARG, borrowing,
                            "memory->handle is an image, not a buffer; copy it into a tensor with "
                            "situ_copy_from_image");
  if (context != should) return situ__cl_refuse_context(borrowing, "buffer", index, context, should);
  if (size < bytes)
    return situ__host->fail(SITU_E_SHAPE, borrowing,
                            "the buffer has %zu bytes, and offset, shape and strides reach to byte %zu", size, bytes);
  if (flags & CL_MEM_WRITE_ONLY)
    return situ__host->fail(SITU_E_ARG, borrowing,
                            "the buffer is CL_MEM_WRITE_ONLY, and kernels may read what they write; make it "
                            "CL_MEM_READ_WRITE");
  *read_only = *read_only || flags & CL_MEM_READ_ONLY;
  return SITU_OK;
}

situ_status situ__cl_borrow(int index, void *handle, size_t bytes, void **data, bool *read_only) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter_adopted(index, borrowing, &status);
  if (!d) return status;
  const cl_context context = d->context;
  (void)situ__cl_leave(d, SITU_OK);
  status = check_buffer(index, handle, bytes, context, read_only);
  if (status != SITU_OK) return status;
  (void)clRetainMemObject(handle);
  *data = handle;
  return SITU_OK;
}

void situ__cl_give_back(int index, void *data) {
  (void)index;
  (void)clReleaseMemObject(data);
}

/* ---- events --------------------------------------------------------------------------------- */

/* Enters the device if the event is of its context. NULL after recording an error. */
static situ__cl_device *enter_of_event(int index, const char *op, cl_event event, situ_status *status) {
  situ__cl_device *d = situ__cl_enter(index, op, status);
  if (!d) return NULL;
  cl_context context = NULL;
  const cl_int error = clGetEventInfo(event, CL_EVENT_CONTEXT, sizeof context, &context, NULL);
  const cl_context should = d->context;
  if (error == CL_SUCCESS && context == should) return d;
  (void)situ__cl_leave(d, SITU_OK); /* find_context enters others: one lock at a time, to avoid deadlock */
  if (error == CL_SUCCESS) *status = situ__cl_refuse_context(op, "event", index, context, should);
  else *status = situ__host->fail(SITU_E_ARG, op, "event is not a cl_event (clGetEventInfo: %d)", (int)error);
  return NULL;
}

situ_status situ__cl_wait_event(int index, void *event) {
  situ_status status;
  const cl_event given = event;
  situ__cl_device *d = enter_of_event(index, waiting, given, &status);
  if (!d) return status;
  const cl_int error = clEnqueueBarrierWithWaitList(d->queue, 1, &given, NULL);
  if (error != CL_SUCCESS) status = situ__cl_fail(d, waiting, "clEnqueueBarrierWithWaitList", error, false);
  return situ__cl_leave(d, status);
}

/* Flushed, as other queues may wait for it. */
situ_status situ__cl_record_event(int index, void **event) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, recording, &status);
  if (!d) return status;
  cl_event made = NULL;
  cl_int error = clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &made);
  if (error == CL_SUCCESS) error = clFlush(d->queue);
  if (error == CL_SUCCESS) *event = made;
  else {
    if (made) (void)clReleaseEvent(made);
    status = situ__cl_fail(d, recording, "clEnqueueMarkerWithWaitList", error, false);
  }
  return situ__cl_leave(d, status);
}

situ_status situ__cl_query_event(int index, void *event, bool *done) {
  situ_status status;
  situ__cl_device *d = enter_of_event(index, asking, event, &status);
  if (!d) return status;
  cl_int state = CL_QUEUED;
  (void)clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  *done = state <= CL_COMPLETE; /* below: it has failed */
  (void)situ__cl_leave(d, SITU_OK);
  if (state >= CL_COMPLETE) return SITU_OK;
  return situ__host->fail(SITU_E_IO, asking, "the work of the event has failed on opencl:%d (%d)", index, (int)state);
}

situ_status situ__cl_release_event(int index, void *event) {
  situ_status status;
  situ__cl_device *d = enter_of_event(index, "device_release_event", event, &status);
  if (!d) return status;
  (void)clReleaseEvent(event);
  return situ__cl_leave(d, SITU_OK);
}

situ_status situ__cl_share(int index, void *queue, int *number) {
  void *event = NULL;
  *number = 0; /* OpenCL has none */
  if (!queue) return SITU_OK;
  const situ_status status = situ__cl_record_event(index, &event);
  if (status != SITU_OK) return status;
  const cl_event ready = event;
  const cl_int error = clEnqueueBarrierWithWaitList(queue, 1, &ready, NULL);
  (void)clReleaseEvent(ready);
  if (error == CL_SUCCESS) return SITU_OK;
  return situ__host->fail(
      SITU_E_ARG, "to_dlpack_for",
      "queue is not a cl_command_queue of the context of opencl:%d (clEnqueueBarrierWithWaitList: %d)", index,
      (int)error);
}
