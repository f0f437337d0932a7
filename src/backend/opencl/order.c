/* Order between a device's queues. All work is in one, in the order of the calls, but large copies to the device have
   their own, since they need only wait for the last command that used their buffer. So commands are numbered, a table
   over buffers stores the number of the last one that used each, and with each of these copies a marker is queued,
   which later ones can wait for.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

enum { LARGE = 64 << 10 };

/* Two buffers of one place seem to be used when either is: a copy waits for more then. */
static uint64_t *place_of(situ__cl_order *o, const void *buffer) {
  return &o->used[((uint64_t)(uintptr_t)buffer * 0x9e3779b97f4a7c15u >> 32) % SITU__CL_BUFFERS];
}

void situ__cl_used(situ__cl_device *d, int count, void *const *buffer) {
  d->order.queued++;
  for (int k = 0; k < count; k++) *place_of(&d->order, buffer[k]) = d->order.queued;
}

/* Whether the device has the queue. Work of a program's own queue is not known. */
static bool open_queue(situ__cl_device *d) {
  cl_int error;
  if (d->aside || d->order.in) return d->order.in;
  d->order.in = clCreateCommandQueue(d->context, d->id, 0, &error);
  return d->order.in;
}

/* The marker behind command `last` that is complete first. */
static cl_event find_marker(const situ__cl_order *o, uint64_t last) {
  int found = -1;
  for (int k = 0; k < SITU__CL_MARKERS; k++)
    if (o->marker[k].event && o->marker[k].behind >= last &&
        (found < 0 || o->marker[k].behind < o->marker[found].behind))
      found = k;
  return found < 0 ? NULL : o->marker[found].event;
}

/* Behind all that is queued; flushed, as another queue waits for it. Returns NULL if the driver has none. */
static cl_event add_marker(situ__cl_device *d) {
  situ__cl_order *o = &d->order;
  cl_event made = NULL;
  if (clEnqueueMarkerWithWaitList(d->queue, 0, NULL, &made) != CL_SUCCESS || clFlush(d->queue) != CL_SUCCESS) {
    if (made) (void)clReleaseEvent(made);
    return NULL;
  }
  if (o->marker[o->next].event) (void)clReleaseEvent(o->marker[o->next].event);
  o->marker[o->next].event = made;
  o->marker[o->next].behind = o->queued;
  o->next = (o->next + 1) % SITU__CL_MARKERS;
  return made;
}

static cl_int write_aside(situ__cl_device *d, cl_mem to, size_t at, size_t bytes, const void *from, cl_event *written) {
  const uint64_t last = *place_of(&d->order, to);
  const bool waits = last > d->order.done;
  const cl_event before = waits ? find_marker(&d->order, last) : NULL;
  if (before) (void)clRetainEvent(before); /* the new marker may take its place */
  const cl_event now = add_marker(d), after = before ? before : now;
  cl_int error = CL_OUT_OF_RESOURCES;
  if (after || !waits)
    error = clEnqueueWriteBuffer(d->order.in, to, CL_FALSE, at, bytes, from, waits, waits ? &after : NULL, written);
  if (before) (void)clReleaseEvent(before);
  if (error != CL_SUCCESS) return error;
  (void)clFlush(d->order.in);
  error = clEnqueueBarrierWithWaitList(d->queue, 1, written, NULL);
  return error == CL_SUCCESS ? error : clWaitForEvents(1, written);
}

cl_int situ__cl_write(situ__cl_device *d, cl_mem to, size_t at, size_t bytes, const void *from, cl_event *written) {
  const bool aside = bytes >= LARGE && open_queue(d);
  cl_int error = aside ? write_aside(d, to, at, bytes, from, written) : CL_OUT_OF_RESOURCES;
  if (error != CL_SUCCESS) error = clEnqueueWriteBuffer(d->queue, to, CL_FALSE, at, bytes, from, 0, NULL, written);
  situ__cl_used(d, 1, (void *const *)&to);
  return error;
}
