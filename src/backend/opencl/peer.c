/* Copies between devices of separate contexts that wait for neither queue. An event is of one context, so each side has
   one of the user's, which a callback of the other side's completes: the source is mapped; then the target is written
   from the address, which is known at once; then the source is unmapped.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

static const char *const copying = "copy";

/* Two queues that wait for each other's copies would wait for ever: the commands of a copy are queued together. */
static pthread_mutex_t crossing = PTHREAD_MUTEX_INITIALIZER;

static void CL_CALLBACK complete(cl_event event, cl_int state, void *other) {
  (void)clSetUserEventStatus(other, state < CL_COMPLETE ? state : CL_COMPLETE);
  (void)clReleaseEvent(other);
  (void)clReleaseEvent(event);
}

/* Takes over both events: when `event` is complete, so is `other`. If the driver takes no callback, waits. */
static void chain(cl_event event, cl_event other) {
  if (clSetEventCallback(event, CL_COMPLETE, complete, other) == CL_SUCCESS) return;
  const cl_int error = clWaitForEvents(1, &event);
  complete(event, error == CL_SUCCESS ? CL_COMPLETE : error, other);
}

/* Maps the source, and queues the end of that behind *written, an event of the user's. */
static situ_status open_source(int from, const void *src, size_t at, size_t bytes, void **address, cl_event *mapped,
                               cl_event *written) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(from, copying, &status);
  if (!d) return status;
  const char *call = "clCreateUserEvent";
  cl_int error;
  *written = clCreateUserEvent(d->context, &error);
  if (error != CL_SUCCESS) return situ__cl_leave(d, situ__cl_fail(d, copying, call, error, false));
  call = "clEnqueueMapBuffer";
  cl_mem memory = (cl_mem)(uintptr_t)src;
  *address = clEnqueueMapBuffer(d->queue, memory, CL_FALSE, CL_MAP_READ, at, bytes, 0, NULL, mapped, &error);
  if (*address) {
    call = "clEnqueueUnmapMemObject";
    error = clEnqueueUnmapMemObject(d->queue, memory, *address, 1, written, NULL);
  }
  if (error == CL_SUCCESS) return (void)clFlush(d->queue), situ__cl_leave(d, SITU_OK);
  if (*address) {
    (void)clEnqueueUnmapMemObject(d->queue, memory, *address, 0, NULL, NULL);
    (void)clReleaseEvent(*mapped);
  }
  (void)clReleaseEvent(*written);
  return situ__cl_leave(d, situ__cl_fail(d, copying, call, error, false));
}

/* Writes the target behind *mapped, an event of the user's, too. */
static situ_status write_target(int to, void *dst, size_t at, size_t bytes, const void *address, cl_event *mapped,
                                cl_event *written) {
  situ_status status;
  situ__cl_device *d = situ__cl_enter(to, copying, &status);
  if (!d) return status;
  const char *call = "clCreateUserEvent";
  cl_int error;
  *mapped = clCreateUserEvent(d->context, &error);
  if (error == CL_SUCCESS) {
    call = "clEnqueueWriteBuffer";
    error = clEnqueueWriteBuffer(d->queue, dst, CL_FALSE, at, bytes, address, 1, mapped, written);
    if (error != CL_SUCCESS) (void)clReleaseEvent(*mapped);
  }
  if (error == CL_SUCCESS) return (void)clFlush(d->queue), situ__cl_leave(d, SITU_OK);
  return situ__cl_leave(d, situ__cl_fail(d, copying, call, error, false));
}

situ_status situ__cl_send_peer(int to, void *dst, size_t dst_at, int from, const void *src, size_t src_at,
                               size_t bytes) {
  if (to == from || situ__cl_same_context(to, from))
    return situ__cl_copy_peer(to, dst, dst_at, from, src, src_at, bytes);
  void *address = NULL;
  cl_event mapped, written, gate, end;
  pthread_mutex_lock(&crossing);
  situ_status status = open_source(from, src, src_at, bytes, &address, &mapped, &end);
  if (status == SITU_OK) {
    status = write_target(to, dst, dst_at, bytes, address, &gate, &written);
    if (status == SITU_OK) {
      chain(mapped, gate);
      chain(written, end);
    } else {
      (void)clReleaseEvent(mapped);
      (void)clSetUserEventStatus(end, CL_COMPLETE);
      (void)clReleaseEvent(end);
    }
  }
  pthread_mutex_unlock(&crossing);
  return status;
}
