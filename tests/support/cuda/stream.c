/* The double's streams: queues of tasks that run when somebody waits for them, and events between them.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"

struct CUstream_st {
  struct CUstream_st *next;
  int device;
  double_task *first, **last;
  double_graph *capture;
};

struct CUevent_st {
  struct CUstream_st *stream; /* of the last record */
  long recorded, done;        /* tickets */
  long pending;               /* tasks that know it */
  bool destroyed;
};

static struct CUstream_st *streams;
static struct CUstream_st defaults[CUDA_DOUBLE_DEVICES];

/* The stream itself: NULL and cudaStreamLegacy are the one of this thread's device. */
static struct CUstream_st *resolve(cudaStream_t stream) {
  if (stream && stream != cudaStreamLegacy) return stream;
  struct CUstream_st *s = &defaults[double_device()];
  if (s->last) return s;
  *s = (struct CUstream_st){ .next = streams, .device = double_device(), .last = &s->first };
  return streams = s;
}

int double_stream_device(cudaStream_t stream) { return resolve(stream)->device; }
double_graph **double_capture(cudaStream_t stream) { return &resolve(stream)->capture; }

static void forget(struct CUevent_st *event) {
  if (event->destroyed && event->pending == 0) free(event);
}

double_task *double_queue(cudaStream_t stream, double_task_kind kind, size_t more) {
  stream = resolve(stream);
  double_task *task = calloc(1, sizeof *task + more);
  if (!task) return NULL;
  task->kind = kind;
  task->more = more;
  double_task ***last = stream->capture ? &stream->capture->last : &stream->last;
  **last = task;
  *last = &task->next;
  if (stream->capture) return task;
  cuda_double_state()->pending++;
  return task;
}

/* ---- running -------------------------------------------------------------------------------- */

static bool run_first(struct CUstream_st *stream);

/* It waits for what another thread has to bring. */
static bool is_blocked(double_task *task) {
  if (task->kind == DOUBLE_CALL) return task->ready && !task->ready(task + 1);
  if (task->kind != DOUBLE_WAIT) return false;
  while (task->event->done < task->ticket)
    if (!run_first(task->recorded_in)) return true;
  return false;
}

/* A device that an error sticks to does nothing any more, but lets go of what it was given. */
static void run(struct CUstream_st *stream, double_task *task) {
  cuda_double *state = cuda_double_state();
  bool works =
      task->kind == DOUBLE_COPY || task->kind == DOUBLE_SET || task->kind == DOUBLE_KERNEL || task->kind == DOUBLE_CALL;
  if (works && state->break_device == stream->device && state->break_nth > 0 && --state->break_nth == 0)
    double_stick(stream->device, state->break_error);
  if (works && double_stuck(stream->device)) return;
  switch (task->kind) {
  case DOUBLE_COPY:
    memmove(task->to, task->from, task->bytes);
    if (task->value) ((char *)task->to)[task->bytes / 2] ^= 1;
    break;
  case DOUBLE_SET: memset(task->to, task->value, task->bytes); break;
  case DOUBLE_RECORD:
    task->event->done = task->ticket;
    task->event->pending--;
    forget(task->event);
    break;
  case DOUBLE_WAIT:
    task->event->pending--;
    forget(task->event);
    break;
  case DOUBLE_CALL: task->call(task + 1); break;
  case DOUBLE_FREE: double_release(task->block); break;
  case DOUBLE_KERNEL:
    if (!double_run_kernel(task)) double_stick(stream->device, cudaErrorIllegalAddress);
    break;
  }
}

static bool run_first(struct CUstream_st *stream) {
  double_task *task = stream->first;
  if (is_blocked(task)) return false;
  stream->first = task->next;
  if (!stream->first) stream->last = &stream->first;
  cuda_double_state()->pending--;
  run(stream, task);
  free(task);
  return true;
}

void double_run_all(cudaStream_t stream) {
  stream = resolve(stream);
  while (stream->first)
    if (!run_first(stream)) double_pause();
}

void double_run_device(int device) {
  for (struct CUstream_st *s = streams; s; s = s->next)
    if (s->device == device) double_run_all(s);
}

/* ---- streams -------------------------------------------------------------------------------- */

CUDA_DOUBLE_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags) {
  BEGIN("cudaStreamCreateWithFlags");
  (void)flags;
  struct CUstream_st *s = calloc(1, sizeof *s);
  if (!s) return double_end(cudaErrorMemoryAllocation);
  s->device = double_device();
  s->last = &s->first;
  s->next = streams;
  streams = s;
  cuda_double_state()->streams++;
  *out = s;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
  BEGIN("cudaStreamGetDevice");
  struct CUstream_st *s = streams;
  while (s && s != stream) s = s->next;
  if (!s) return double_end(cudaErrorInvalidResourceHandle);
  *device = s->device;
  return double_end(cudaSuccess);
}

/* Fails, if it is to, after it has done its work: who destroys can do nothing about it. */
CUDA_DOUBLE_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t asked = double_begin("cudaStreamDestroy");
  double_run_all(stream);
  struct CUstream_st **link = &streams;
  while (*link != stream) link = &(*link)->next;
  *link = stream->next;
  free(stream);
  cuda_double_state()->streams--;
  return double_end(asked ? asked : double_stuck(double_device()));
}

CUDA_DOUBLE_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  BEGIN("cudaStreamSynchronize");
  cuda_double_state()->waits++;
  stream = resolve(stream);
  NOT_CAPTURED(stream);
  double_run_all(stream);
  return double_end(double_stuck(stream->device));
}

CUDA_DOUBLE_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  BEGIN("cudaStreamWaitEvent");
  stream = resolve(stream);
  (void)flags;
  NOT_CAPTURED(stream);
  if (event->done == event->recorded) return double_end(cudaSuccess);
  double_task *task = double_queue(stream, DOUBLE_WAIT, 0);
  if (!task) return double_end(cudaErrorMemoryAllocation);
  task->event = event;
  task->ticket = event->recorded;
  task->recorded_in = event->stream;
  event->pending++;
  return double_end(cudaSuccess);
}

/* ---- events --------------------------------------------------------------------------------- */

CUDA_DOUBLE_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags) {
  BEGIN("cudaEventCreateWithFlags");
  (void)flags;
  struct CUevent_st *event = calloc(1, sizeof *event);
  if (!event) return double_end(cudaErrorMemoryAllocation);
  cuda_double_state()->events++;
  *out = event;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const cudaError_t asked = double_begin("cudaEventDestroy");
  event->destroyed = true;
  forget(event);
  cuda_double_state()->events--;
  return double_end(asked ? asked : double_stuck(double_device()));
}

CUDA_DOUBLE_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  BEGIN("cudaEventRecord");
  stream = resolve(stream);
  NOT_CAPTURED(stream);
  if (stream->device != double_device()) return double_end(cudaErrorInvalidResourceHandle);
  double_task *task = double_queue(stream, DOUBLE_RECORD, 0);
  if (!task) return double_end(cudaErrorMemoryAllocation);
  task->event = event;
  task->ticket = ++event->recorded;
  event->stream = stream;
  event->pending++;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  BEGIN("cudaEventSynchronize");
  cuda_double_state()->waits++;
  while (event->done < event->recorded)
    if (!run_first(event->stream)) double_pause();
  return double_end(event->stream ? double_stuck(event->stream->device) : cudaSuccess);
}

/* Each query runs one queued task, so that polling makes progress. */
CUDA_DOUBLE_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  BEGIN("cudaEventQuery");
  if (event->done < event->recorded) (void)run_first(event->stream);
  return double_end(event->done < event->recorded ? cudaErrorNotReady : cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  BEGIN("cudaStreamQuery");
  stream = resolve(stream);
  if (stream->first) (void)run_first(stream);
  return double_end(stream->first ? cudaErrorNotReady : cudaSuccess);
}

/* ---- copies --------------------------------------------------------------------------------- */

/* These bytes are the host's (device -1), or lie in a block of this device. */
static bool lies_on(const void *data, size_t bytes, int device) {
  bool bad;
  const double_block *b = double_find(data, bytes, &bad);
  return !bad && (b ? b->device : -1) == device;
}

static int device_of(const void *data) {
  bool bad;
  const double_block *b = double_find(data, 1, &bad);
  return b ? b->device : -1;
}

static cudaError_t copy(void *to, int to_device, const void *from, int from_device, size_t bytes, cudaStream_t stream,
                        bool garble) {
  if (!lies_on(to, bytes, to_device) || !lies_on(from, bytes, from_device)) return cudaErrorInvalidValue;
  double_task *task = double_queue(stream, DOUBLE_COPY, 0);
  if (!task) return cudaErrorMemoryAllocation;
  task->to = to;
  task->from = from;
  task->bytes = bytes;
  task->value = garble;
  cuda_double_state()->host_copies += to_device < 0 || from_device < 0;
  return cudaSuccess;
}

CUDA_DOUBLE_API cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind,
                                            cudaStream_t stream) {
  BEGIN("cudaMemcpyAsync");
  stream = resolve(stream);
  const int device = stream->device;
  NOT_CAPTURED(stream); /* CUDA can; nobody should */
  if (device != double_device()) return double_end(cudaErrorInvalidResourceHandle);
  const bool inferred = kind == cudaMemcpyDefault;
  return double_end(copy(to,
                         inferred                         ? device_of(to)
                         : kind == cudaMemcpyDeviceToHost ? -1
                                                          : device,
                         from,
                         inferred                         ? device_of(from)
                         : kind == cudaMemcpyHostToDevice ? -1
                                                          : device,
                         bytes, stream, false));
}

CUDA_DOUBLE_API cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device,
                                                size_t bytes, cudaStream_t stream) {
  BEGIN("cudaMemcpyPeerAsync");
  cuda_double_state()->peer_copies++;
  return double_end(
      copy(to, to_device, from, from_device, bytes, stream, cuda_double_state()->peers == CUDA_DOUBLE_PEERS_GARBLED));
}

CUDA_DOUBLE_API cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream) {
  BEGIN("cudaMemsetAsync");
  stream = resolve(stream);
  if (stream->device != double_device()) return double_end(cudaErrorInvalidResourceHandle);
  if (!lies_on(to, bytes, stream->device)) return double_end(cudaErrorInvalidValue);
  double_task *task = double_queue(stream, DOUBLE_SET, 0);
  if (!task) return double_end(cudaErrorMemoryAllocation);
  task->to = to;
  task->value = value;
  task->bytes = bytes;
  return double_end(cudaSuccess);
}
