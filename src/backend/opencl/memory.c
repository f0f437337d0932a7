/* Memory of OpenCL devices, and copies to, from and between them, in the order of each device's queue.
   SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "backend/opencl/opencl.h"

static const char *const copying = "copy", *const mapping = "data_map";

enum { HUGE_PAGE = 2 << 20 };

/* Large buffers of a CPU device are host memory, which is faster in large pages. This is a hint, so failures are
   ignored. The mapping is not waited for: its address is valid at once. */
static void widen_pages(situ__cl_device *d, cl_mem memory, size_t bytes) {
  char *at = clEnqueueMapBuffer(d->queue, memory, CL_FALSE, CL_MAP_READ, 0, bytes, 0, NULL, NULL, NULL);
  if (!at) return;
  const size_t head = (size_t)(-(uintptr_t)at & (HUGE_PAGE - 1));
  if (head < bytes) (void)madvise(at + head, (bytes - head) & ~(size_t)(HUGE_PAGE - 1), MADV_HUGEPAGE);
  (void)clEnqueueUnmapMemObject(d->queue, memory, at, 0, NULL, NULL);
  situ__cl_used(d, 1, (void *const *)&memory);
}

/* Does not record an error when out of memory: the library empties its cache and retries, and knows the sizes. */
situ_status situ__cl_alloc(int index, size_t bytes, void **data) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, "alloc", &status);
  if (!d) return status;
  cl_int error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
  cl_mem memory = NULL;
  if (d->program.alloc) memory = d->program.alloc(d->program.payload, bytes, d->queue);
  else if (bytes <= d->largest && d->used <= d->budget && bytes <= d->budget - d->used)
    memory = clCreateBuffer(d->context, CL_MEM_READ_WRITE, bytes, NULL, &error);
  if (memory) {
    d->used += bytes;
    if (d->target.cpu && bytes >= HUGE_PAGE && !d->aside) widen_pages(d, memory, bytes);
  } else if (error == CL_MEM_OBJECT_ALLOCATION_FAILURE || error == CL_OUT_OF_RESOURCES ||
             error == CL_OUT_OF_HOST_MEMORY)
    status = SITU_E_NOMEM;
  else status = situ__cl_fail(d, "alloc", "clCreateBuffer", error, false);
  *data = memory;
  return situ__cl_leave(d, status);
}

/* The driver keeps the memory until all queued work that uses it is complete. */
void situ__cl_free(int index, void *data, size_t bytes) {
  situ__cl_device *d = situ__cl_enter_to_free(index);
  if (d->program.alloc) d->program.free(d->program.payload, data, d->queue);
  else (void)clReleaseMemObject(data);
  d->used -= bytes;
  (void)situ__cl_leave(d, SITU_OK);
}

/* Scratch comes from the library, which caches and counts it. The queue runs in order, so later uses of the same memory
   wait for this one. */
void *situ__cl_target_scratch(situ__target *target, const char *op, size_t bytes) {
  situ__cl_device *d = (situ__cl_device *)target;
  void *memory = NULL;
  if (situ__cl_is_aside(d)) {
    if (situ__cl_alloc(target->index, bytes ? bytes : 1, &memory) == SITU_E_NOMEM)
      (void)situ__cl_fail(d, op, "clCreateBuffer", CL_MEM_OBJECT_ALLOCATION_FAILURE, false);
    return memory;
  }
  const situ_device device = { SITU_OPENCL, (uint16_t)target->index };
  return situ__host->take(op, device, bytes ? bytes : 1);
}

void situ__cl_target_release(int index, void *scratch) {
  const situ_device device = { SITU_OPENCL, (uint16_t)index };
  size_t bytes;
  if (!scratch || clGetMemObjectInfo(scratch, CL_MEM_SIZE, sizeof bytes, &bytes, NULL) != CL_SUCCESS) return;
  situ__cl_device *d = (situ__cl_device *)(uintptr_t)situ__cl_target_of(index);
  if (d->aside) (void)situ__cl_enter_to_free(index);
  if (situ__cl_is_aside(d)) situ__cl_free(index, scratch, bytes);
  else situ__host->give(device, scratch, bytes);
  if (d->aside) (void)situ__cl_leave(d, SITU_OK);
}

situ_status situ__cl_target_clear(situ__target *target, const char *op, void *scratch, size_t bytes) {
  situ__cl_device *d = (situ__cl_device *)target;
  const unsigned char none = 0;
  cl_int error = clEnqueueFillBuffer(d->queue, scratch, &none, 1, 0, bytes, 0, NULL, NULL);
  situ__cl_used(d, 1, &scratch);
  return error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, op, "clEnqueueFillBuffer", error, false);
}

situ_status situ__cl_check(situ__cl_device *d) {
  if (!d->unchecked) return SITU_OK;
  fault seen;
  const fault none = { 0 };
  cl_int error = clEnqueueReadBuffer(d->queue, d->fault, CL_TRUE, 0, sizeof seen, &seen, 0, NULL, NULL);
  if (error != CL_SUCCESS) return situ__cl_fail(d, copying, "clEnqueueReadBuffer", error, true);
  d->unchecked = seen.raised;
  if (!seen.raised) return SITU_OK;
  error = clEnqueueWriteBuffer(d->queue, d->fault, CL_TRUE, 0, sizeof none, &none, 0, NULL, NULL);
  if (error != CL_SUCCESS) return situ__cl_fail(d, copying, "clEnqueueWriteBuffer", error, true);
  return situ__lower_tell("opencl", d->target.index, &seen);
}

situ_status situ__cl_copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, copying, &status);
  if (!d) return status;
  cl_int error = clEnqueueWriteBuffer(d->queue, data, CL_TRUE, at, bytes, host, 0, NULL, NULL);
  return situ__cl_leave(d,
                        error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, copying, "clEnqueueWriteBuffer", error, true));
}

/* Errors are reported before values are returned. */
situ_status situ__cl_copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, copying, &status);
  if (!d) return status;
  status = situ__cl_check(d);
  if (status != SITU_OK) return situ__cl_leave(d, status);
  cl_int error = clEnqueueReadBuffer(d->queue, (cl_mem)(uintptr_t)data, CL_TRUE, at, bytes, host, 0, NULL, NULL);
  return situ__cl_leave(d,
                        error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, copying, "clEnqueueReadBuffer", error, true));
}

/* ---- without waiting ---- */

static void CL_CALLBACK free_stage(cl_event event, cl_int state, void *stage) {
  (void)state;
  (void)clReleaseEvent(event);
  situ__host->free(stage);
}

/* From a copy of the bytes, as a copy that is queued reads them later. */
situ_status situ__cl_send(int index, void *data, size_t at, const void *host, size_t bytes) {
  void *stage = situ__host->alloc(bytes);
  situ_status status = SITU_E_NOMEM;
  situ__cl_device *d = stage ? situ__cl_enter(index, copying, &status) : NULL;
  if (!d) return situ__host->free(stage), status;
  cl_event written = NULL;
  memcpy(stage, host, bytes);
  cl_int error = situ__cl_write(d, data, at, bytes, stage, &written);
  if (error != CL_SUCCESS) {
    situ__host->free(stage);
    return situ__cl_leave(d, situ__cl_fail(d, copying, "clEnqueueWriteBuffer", error, false));
  }
  if (clSetEventCallback(written, CL_COMPLETE, free_stage, stage) != CL_SUCCESS) {
    (void)clWaitForEvents(1, &written);
    free_stage(written, CL_COMPLETE, stage);
  }
  (void)clFlush(d->queue);
  return situ__cl_leave(d, SITU_OK);
}

situ_status situ__cl_fetch(int index, const void *data, size_t at, void *host, size_t bytes, void **ticket) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, copying, &status);
  if (!d) return status;
  cl_event read = NULL;
  cl_int error = clEnqueueReadBuffer(d->queue, (cl_mem)(uintptr_t)data, CL_FALSE, at, bytes, host, 0, NULL, &read);
  if (error != CL_SUCCESS) return situ__cl_leave(d, situ__cl_fail(d, copying, "clEnqueueReadBuffer", error, false));
  situ__cl_used(d, 1, (void *const *)&data);
  *ticket = read;
  (void)clFlush(d->queue);
  return situ__cl_leave(d, SITU_OK);
}

bool situ__cl_fetched(int index, const void *ticket) {
  (void)index;
  cl_int state = CL_QUEUED;
  (void)clGetEventInfo((cl_event)(uintptr_t)ticket, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
  return state <= CL_COMPLETE; /* below: it has failed */
}

situ_status situ__cl_fetch_end(int index, void *ticket, bool wait) {
  cl_event read = ticket;
  situ_status status = SITU_OK;
  situ__cl_device *d = wait ? situ__cl_enter(index, copying, &status) : NULL;
  if (d) {
    const cl_int error = clWaitForEvents(1, &read);
    status = error == CL_SUCCESS ? situ__cl_check(d) : situ__cl_fail(d, copying, "clWaitForEvents", error, true);
    status = situ__cl_leave(d, status);
  }
  (void)clReleaseEvent(read);
  return status;
}

/* A buffer that the driver keeps in host memory for its copies, mapped as long as it is there. */
situ_status situ__cl_pin(int index, size_t bytes, void **host, void **handle) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, copying, &status);
  if (!d) return status;
  cl_int error;
  cl_mem memory = clCreateBuffer(d->context, CL_MEM_READ_WRITE | CL_MEM_ALLOC_HOST_PTR, bytes, NULL, &error);
  if (!memory) return situ__cl_leave(d, situ__cl_fail(d, copying, "clCreateBuffer", error, false));
  *handle = memory;
  *host = clEnqueueMapBuffer(d->queue, memory, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 0, bytes, 0, NULL, NULL, &error);
  if (*host) return situ__cl_leave(d, SITU_OK);
  (void)clReleaseMemObject(memory);
  return situ__cl_leave(d, situ__cl_fail(d, copying, "clEnqueueMapBuffer", error, true));
}

void situ__cl_unpin(int index, void *host, void *handle) {
  situ__cl_device *d = situ__cl_enter_to_free(index);
  (void)clEnqueueUnmapMemObject(d->queue, handle, host, 0, NULL, NULL);
  (void)clReleaseMemObject(handle);
  (void)situ__cl_leave(d, SITU_OK);
}

situ_status situ__cl_map(int index, void *data, size_t at, size_t bytes, bool write, void **host) {
  situ_status status;
  cl_int error;
  situ__cl_device *d = situ__cl_enter(index, mapping, &status);
  if (!d) return status;
  status = situ__cl_check(d);
  if (status != SITU_OK) return situ__cl_leave(d, status);
  *host = clEnqueueMapBuffer(d->queue, data, CL_TRUE, CL_MAP_READ | (write ? CL_MAP_WRITE : 0), at, bytes, 0, NULL,
                             NULL, &error);
  return situ__cl_leave(d, *host ? SITU_OK : situ__cl_fail(d, mapping, "clEnqueueMapBuffer", error, true));
}

situ_status situ__cl_unmap(int index, void *data, void *host) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, mapping, &status);
  if (!d) return status;
  const cl_int error = clEnqueueUnmapMemObject(d->queue, data, host, 0, NULL, NULL);
  return situ__cl_leave(d, error == CL_SUCCESS ? SITU_OK
                                               : situ__cl_fail(d, mapping, "clEnqueueUnmapMemObject", error, false));
}

static situ_status copy_within(int index, void *dst, size_t dst_at, const void *src, size_t src_at, size_t bytes) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, copying, &status);
  if (!d) return status;
  cl_int error = clEnqueueCopyBuffer(d->queue, (cl_mem)(uintptr_t)src, dst, src_at, dst_at, bytes, 0, NULL, NULL);
  situ__cl_used(d, 2, (void *const[]){ (cl_mem)(uintptr_t)src, dst });
  return situ__cl_leave(d,
                        error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, copying, "clEnqueueCopyBuffer", error, false));
}

static cl_context context_of(int index) {
  situ__cl_device *d = situ__cl_enter_to_free(index);
  const cl_context context = d->context;
  (void)situ__cl_leave(d, SITU_OK);
  return context;
}

bool situ__cl_same_context(int a, int b) {
  const cl_context context = context_of(a);
  return context && context == context_of(b);
}

static situ_status queue_behind(int to, void *dst, size_t dst_at, const void *src, size_t src_at, size_t bytes,
                                cl_event ready, cl_event *done) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(to, copying, &status);
  if (!d) return status;
  cl_int error = clEnqueueCopyBuffer(d->queue, (cl_mem)(uintptr_t)src, dst, src_at, dst_at, bytes, 1, &ready, done);
  if (error == CL_SUCCESS) error = clFlush(d->queue); /* the other queue waits for it */
  return situ__cl_leave(d,
                        error == CL_SUCCESS ? SITU_OK : situ__cl_fail(d, copying, "clEnqueueCopyBuffer", error, false));
}

/* Between two queues of the program's context: ordered with both by events. One lock at a time, to avoid deadlock. */
static situ_status copy_beside(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes) {
  void *ready = NULL;
  cl_event done = NULL;
  situ_status status = situ__cl_record_event(from, &ready);
  if (status == SITU_OK) status = queue_behind(to, dst, dst_at, src, src_at, bytes, ready, &done);
  if (done) {
    const situ_status waits = situ__cl_wait_event(from, done);
    if (status == SITU_OK) status = waits;
    (void)clReleaseEvent(done);
  }
  if (ready) (void)clReleaseEvent(ready);
  return status;
}

/* Devices that situ opened have separate contexts, perhaps of different drivers: the source is mapped, which is free if
   it is in host memory, and written from there. */
situ_status situ__cl_copy_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes) {
  if (to == from) return copy_within(to, dst, dst_at, src, src_at, bytes);
  if (situ__cl_same_context(to, from)) return copy_beside(to, dst, dst_at, from, src, src_at, bytes);
  situ_status status;
  situ__cl_device *source = situ__cl_enter(from, copying, &status);
  if (!source) return status;
  cl_int error = CL_SUCCESS;
  void *mapped = NULL;
  status = situ__cl_check(source);
  if (status == SITU_OK) {
    mapped = clEnqueueMapBuffer(source->queue, (cl_mem)(uintptr_t)src, CL_TRUE, CL_MAP_READ, src_at, bytes, 0, NULL,
                                NULL, &error);
    if (!mapped) status = situ__cl_fail(source, copying, "clEnqueueMapBuffer", error, true);
  }
  (void)situ__cl_leave(source, status); /* one lock at a time, to avoid deadlock */
  if (!mapped) return status;
  status = situ__cl_copy_in(to, dst, dst_at, mapped, bytes);
  situ_status again;
  source = situ__cl_enter(from, copying, &again);
  if (!source) return status == SITU_OK ? again : status;
  error = clEnqueueUnmapMemObject(source->queue, (cl_mem)(uintptr_t)src, mapped, 0, NULL, NULL);
  situ__cl_used(source, 1, (void *const *)&src);
  if (error != CL_SUCCESS && status == SITU_OK)
    status = situ__cl_fail(source, copying, "clEnqueueUnmapMemObject", error, false);
  return situ__cl_leave(source, status);
}

situ_status situ__cl_synchronize(int index) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(index, "synchronize", &status);
  if (!d) return status;
  cl_int error = clFinish(d->queue);
  if (error == CL_SUCCESS) d->order.done = d->order.queued;
  status = error == CL_SUCCESS ? situ__cl_check(d) : situ__cl_fail(d, "synchronize", "clFinish", error, true);
  return situ__cl_leave(d, status);
}
