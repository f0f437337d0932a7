/* Memory of a device between ranks: each communicator has one of NCCL's, and a stream of its own.

   A transfer waits for the work that its device has queued when it is marked, and runs beside what is queued later.
   NCCL is told not to block: it enqueues one transfer at a time, perhaps on a thread of its own, and is polled;
   meanwhile further transfers wait here, in order. Nothing waits without a limit, so that the library's deadline holds.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/nccl.h"

#include <stdio.h>
#include <string.h>

/* ---- failures -------------------------------------------------------------------------------- */

situ_status situ__nccl_report(const situ__nccl_member *m, const char *call, int result, situ_comm_report *report) {
  const char *more = m->nccl->GetLastError(m->comm);
  report->rank = -1;
  (void)snprintf(report->text, sizeof report->text, "rank %d, cuda:%d: %s: %.64s%s%.48s", m->rank, m->index, call,
                 m->nccl->GetErrorString(result), more && *more ? ": " : "", more ? more : "");
  return SITU_E_COMM;
}

/* What CUDA refuses is reported by the communicator; all but a lack of memory has lost the device as well. */
static situ_status report_cuda(situ__cuda_device *d, const situ__nccl_member *m, const char *call, cudaError_t error,
                               situ_comm_report *report) {
  report->rank = -1;
  (void)snprintf(report->text, sizeof report->text, "rank %d, cuda:%d: %s: %.64s", m->rank, m->index, call,
                 situ__cuda.GetErrorString(error));
  if (error != cudaErrorMemoryAllocation) situ__cuda_lose(d, call, error);
  (void)situ__cuda.GetLastError();
  return error == cudaErrorMemoryAllocation ? SITU_E_NOMEM : SITU_E_COMM;
}

static situ__cuda_device *enter(const situ__nccl_member *m, situ_comm_report *report) {
  situ__cuda_device *d = situ__cuda_enter_open(m->index);
  if (d) return d;
  report->rank = -1;
  (void)snprintf(report->text, sizeof report->text, "rank %d: cuda:%d is lost", m->rank, m->index);
  return NULL;
}

/* ---- what NCCL carries ----------------------------------------------------------------------- */

static int type_of(situ_dtype dtype) {
  switch (dtype) {
  case SITU_I8: return SITU__NCCL_INT8;
  case SITU_U8: return SITU__NCCL_UINT8;
  case SITU_I32: return SITU__NCCL_INT32;
  case SITU_I64: return SITU__NCCL_INT64;
  case SITU_F32: return SITU__NCCL_FLOAT32;
  case SITU_F64: return SITU__NCCL_FLOAT64;
  default: return -1;
  }
}

/* Values that are only moved are bytes. */
static bool carries(situ_comm_op op, situ_dtype dtype) {
  return op != SITU_COMM_ALL_REDUCE && op != SITU_COMM_REDUCE_SCATTER ? op != SITU_COMM_BARRIER : type_of(dtype) >= 0;
}

static int op_of(situ_comm_reduction reduction) {
  return reduction == SITU_COMM_SUM ? SITU__NCCL_SUM : reduction == SITU_COMM_MIN ? SITU__NCCL_MIN : SITU__NCCL_MAX;
}

/* Of NCCL 2.28 and later alone there is one call for it. */
static int exchange(const situ__nccl_member *m, const situ_comm_transfer *t, size_t bytes) {
  const situ__nccl_table *n = m->nccl;
  int result = n->GroupStart();
  if (result != SITU__NCCL_SUCCESS) return result;
  for (int k = 0; k < t->members && result == SITU__NCCL_SUCCESS; k++) {
    const int r = t->first + k * t->apart;
    result = n->Send((const char *)t->send + (size_t)k * bytes, bytes, SITU__NCCL_UINT8, r, m->comm, m->stream);
    if (result == SITU__NCCL_SUCCESS)
      result = n->Recv((char *)t->receive + (size_t)k * bytes, bytes, SITU__NCCL_UINT8, r, m->comm, m->stream);
  }
  const int ended = n->GroupEnd(); /* also behind a failure */
  return result == SITU__NCCL_SUCCESS ? ended : result;
}

static int start(const situ__nccl_member *m, const situ_comm_transfer *t, const char **call) {
  const situ__nccl_table *n = m->nccl;
  const size_t count = (size_t)t->count, bytes = count * situ__lower_size(t->dtype);
  const int type = type_of(t->dtype), op = op_of(t->reduction);
  switch (t->op) {
  case SITU_COMM_ALL_REDUCE:
    *call = "ncclAllReduce";
    return n->AllReduce(t->send, t->receive, count, type, op, m->comm, m->stream);
  case SITU_COMM_REDUCE_SCATTER:
    *call = "ncclReduceScatter";
    return n->ReduceScatter(t->send, t->receive, count, type, op, m->comm, m->stream);
  case SITU_COMM_ALL_GATHER:
    *call = "ncclAllGather";
    return n->AllGather(t->send, t->receive, bytes, SITU__NCCL_UINT8, m->comm, m->stream);
  case SITU_COMM_BROADCAST: /* `send` counts on the root alone */
    *call = "ncclBroadcast";
    return n->Broadcast(t->send ? t->send : t->receive, t->receive, bytes, SITU__NCCL_UINT8, t->peer, m->comm,
                        m->stream);
  case SITU_COMM_SEND:
    *call = "ncclSend";
    return n->Send(t->send, bytes, SITU__NCCL_UINT8, t->peer, m->comm, m->stream);
  case SITU_COMM_RECEIVE:
    *call = "ncclRecv";
    return n->Recv(t->receive, bytes, SITU__NCCL_UINT8, t->peer, m->comm, m->stream);
  case SITU_COMM_ALL_TO_ALL: *call = "ncclGroupEnd"; return exchange(m, t, bytes);
  default: *call = "a barrier"; return SITU__NCCL_INVALID_USAGE;
  }
}

/* ---- stopping -------------------------------------------------------------------------------- */

/* Whether nothing of this rank's is at work any more. */
static bool is_quiet(const situ__nccl_member *m) {
  for (int k = 0; k < SITU__NCCL_PATIENCE; k++) {
    situ__cuda_device *d = situ__cuda_enter_open(m->index);
    if (!d) return true; /* its memory is lost with it */
    const cudaError_t error = situ__cuda.StreamQuery(m->stream);
    if (error == cudaErrorNotReady) (void)situ__cuda.GetLastError();
    else if (error != cudaSuccess) situ__cuda_lose(d, "cudaStreamQuery", error);
    (void)situ__cuda_leave(d, SITU_OK);
    if (error != cudaErrorNotReady) return true;
    situ__nccl_pause();
  }
  return false;
}

/* Behind an error the library frees the memory of the transfer, so nothing may be using it. */
static void stop(situ__cuda_device *d, situ__nccl_member *m) {
  situ__nccl_abort(m);
  if (!is_quiet(m)) situ__cuda_lose(d, "ncclCommAbort", cudaErrorNotReady);
}

/* ---- progress -------------------------------------------------------------------------------- */

/* NCCL has enqueued the last one: what marks its end goes behind it, and the next one may begin. */
static situ_status advance(situ__cuda_device *d, situ__nccl_member *m, situ_comm_report *report) {
  for (;;) {
    int state = SITU__NCCL_SUCCESS, result = m->nccl->CommGetAsyncError(m->comm, &state);
    const char *call = "ncclCommGetAsyncError";
    if (result == SITU__NCCL_SUCCESS) result = state;
    if (result == SITU__NCCL_IN_PROGRESS) return SITU_OK;
    if (result != SITU__NCCL_SUCCESS) return situ__nccl_report(m, call, result, report);
    if (m->enqueuing) {
      const cudaError_t error = situ__cuda.EventRecord(m->enqueuing->after, m->stream);
      if (error != cudaSuccess) return report_cuda(d, m, "cudaEventRecord", error, report);
      m->enqueuing->stage = SITU__NCCL_RUNNING;
      m->enqueuing = NULL;
    }
    situ__nccl_flight *f = m->waiting;
    if (!f) return SITU_OK;
    if (!(m->waiting = f->next)) m->last = &m->waiting;
    f->stage = SITU__NCCL_ENQUEUING;
    m->enqueuing = f;
    const cudaError_t error = situ__cuda.StreamWaitEvent(m->stream, f->before, 0);
    if (error != cudaSuccess) return report_cuda(d, m, "cudaStreamWaitEvent", error, report);
    result = start(m, &f->what, &call);
    if (result != SITU__NCCL_SUCCESS && result != SITU__NCCL_IN_PROGRESS)
      return situ__nccl_report(m, call, result, report);
  }
}

/* Its device is entered, or lost. */
static void free_flight(situ__nccl_member *m, situ__nccl_flight *f) {
  situ__nccl_flight **at = &m->waiting;
  while (*at && *at != f) at = &(*at)->next;
  if (*at) *at = f->next;
  for (m->last = &m->waiting; *m->last;) m->last = &(*m->last)->next;
  if (m->enqueuing == f) m->enqueuing = NULL;
  if (f->before) (void)situ__cuda.EventDestroy(f->before);
  if (f->after) (void)situ__cuda.EventDestroy(f->after);
  situ__host->free(f);
}

static cudaError_t make_event(cudaEvent_t *event) {
  const cudaError_t error = situ__cuda.EventCreateWithFlags(event, cudaEventDisableTiming);
  if (error != cudaSuccess) *event = NULL;
  return error;
}

static cudaError_t mark_work(const situ__cuda_device *d, cudaEvent_t *event) {
  const cudaError_t error = make_event(event);
  return error == cudaSuccess ? situ__cuda.EventRecord(*event, d->stream) : error;
}

static void forget(void *state, void *mark) {
  const situ__nccl_member *m = state;
  situ__cuda_device *d = situ__cuda_enter_open(m->index);
  if (mark) (void)situ__cuda.EventDestroy(mark);
  if (d) (void)situ__cuda_leave(d, SITU_OK);
}

static situ_status mark(void *state, void **event, situ_comm_report *report) {
  situ__nccl_member *m = state;
  situ__cuda_device *d = enter(m, report);
  cudaEvent_t made = NULL;
  if (!d) return SITU_E_COMM;
  const cudaError_t error = mark_work(d, &made);
  const situ_status status = error == cudaSuccess ? SITU_OK : report_cuda(d, m, "cudaEventRecord", error, report);
  if (status != SITU_OK && made) (void)situ__cuda.EventDestroy(made);
  *event = made;
  return situ__cuda_leave(d, status);
}

static situ_status begin(void *state, const situ_comm_transfer *what, void **request, situ_comm_report *report) {
  situ__nccl_member *m = state;
  situ__cuda_device *d = enter(m, report);
  situ__nccl_flight *f = d ? situ__host->alloc(sizeof *f) : NULL;
  situ_status status = SITU_OK;
  if (!f && what->behind) (void)situ__cuda.EventDestroy(what->behind);
  if (!d) return SITU_E_COMM;
  if (!f) return situ__cuda_leave(d, report_cuda(d, m, "a transfer", cudaErrorMemoryAllocation, report));
  *f = (situ__nccl_flight){ .what = *what, .before = what->behind };
  cudaError_t error = f->before ? cudaSuccess : mark_work(d, &f->before);
  if (error == cudaSuccess) error = make_event(&f->after);
  if (error != cudaSuccess) {
    status = report_cuda(d, m, "cudaEventRecord", error, report);
  } else {
    *m->last = f;
    m->last = &f->next;
    status = advance(d, m, report);
  }
  if (status == SITU_OK) {
    *request = f;
  } else {
    stop(d, m);
    free_flight(m, f);
  }
  return situ__cuda_leave(d, status);
}

static situ_status test(void *state, void *request, bool *done, situ_comm_report *report) {
  situ__nccl_member *m = state;
  situ__nccl_flight *f = request;
  *done = false;
  situ__cuda_device *d = enter(m, report);
  situ_status status = d ? advance(d, m, report) : SITU_E_COMM;
  if (status == SITU_OK && f->stage == SITU__NCCL_RUNNING) {
    const cudaError_t error = situ__cuda.EventQuery(f->after);
    *done = error == cudaSuccess;
    if (error == cudaErrorNotReady) (void)situ__cuda.GetLastError();
    else if (error != cudaSuccess) status = report_cuda(d, m, "cudaEventQuery", error, report);
  }
  if (d && status != SITU_OK) stop(d, m);
  if (*done || status != SITU_OK) free_flight(m, f);
  return d ? situ__cuda_leave(d, status) : status;
}

/* ---- the slots -------------------------------------------------------------------------------- */

static bool abandon(void *state, void *request) {
  situ__nccl_member *m = state;
  situ__nccl_abort(m);
  const bool quiet = ((situ__nccl_flight *)request)->stage == SITU__NCCL_WAITING || is_quiet(m);
  situ__cuda_device *d = situ__cuda_enter_open(m->index);
  free_flight(m, request);
  if (d) (void)situ__cuda_leave(d, SITU_OK);
  return quiet;
}

const situ_comm_device_engine situ_module_comm_engine = {
  .size = sizeof situ_module_comm_engine,
  .engine = { "nccl", begin, test, abandon, situ__nccl_release, 0 },
  .mark = mark,
  .forget = forget,
  .carries = carries,
  .identify = situ__nccl_identify,
  .join = situ__nccl_join,
};
