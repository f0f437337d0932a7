/* Calls whose values are tensors: on their device where the communicator has an engine for its memory (NCCL), those of
   the cpu where they are, else through host memory.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/alloc.h"
#include "comm.h"
#include "situ/dlpack.h"
#include "situ/graph.h"
#include "situ/nccl.h"
#include "situ/ops.h"
#include "situ/sys/dry.h"
#include "situ/sys/shape.h"

/* ---- the way --------------------------------------------------------------------------------- */

/* Whether this rank gives values to the call. */
static bool sends(const situ_comm *c, const situ_comm_call *call) {
  return call->op != SITU_COMM_RECEIVE && (call->op != SITU_COMM_BROADCAST || call->peer == c->rank);
}

/* Tensors without memory or values take the way through the host, where the copy is refused by name. */
static bool has_memory(const situ_tensor *t, bool values) {
  const situ_storage *s = situ_desc(t)->storage;
  const uint32_t flags = __atomic_load_n(&s->flags, __ATOMIC_RELAXED);
  const uint32_t bad = SITU_STORAGE_SAMPLE | SITU_STORAGE_AWAY | SITU_STORAGE_PENDING | SITU_STORAGE_HELD |
                       SITU_STORAGE_VOID | (values ? SITU_STORAGE_UNWRITTEN : 0);
  return s->data && !(flags & bad);
}

const situ__comm_way *situ__comm_way_on(const situ_comm *c, const situ_comm_call *call, situ_device device) {
  const situ_dtype dtype = call->dtype ? call->dtype : SITU_F32;
  if (!c->direct.engine || device.kind != c->device.kind || device.index != c->device.index || !call->count)
    return &c->host;
  /* A graph that is captured could not repeat the transfer: on the host it is refused. */
  return c->device_engine->carries(call->op, dtype) && !situ_graph_is_capturing() ? &c->direct : &c->host;
}

const situ__comm_way *situ__comm_way_of(const situ_comm *c, const situ_comm_call *call, const situ_tensor *t) {
  const situ_device device = situ_device_of(t);
  const situ__comm_way *way = situ__comm_way_on(c, call, device);
  if (way == &c->host && device.kind == SITU_CPU && call->count && !situ_graph_is_capturing()) way = &c->lent;
  return way == &c->host || has_memory(t, sends(c, call)) ? way : &c->host;
}

/* ---- memory on the device -------------------------------------------------------------------- */

static void *address_of(const situ_tensor *t) {
  const situ_view_desc *v = situ_desc(t);
  return (char *)v->storage->data + v->offset * (int64_t)situ_dtype_size((situ_dtype)v->dtype);
}

static situ_tensor *make_memory(const situ_comm_request *r, size_t bytes, bool zero) {
  const situ_shape shape = SITU_SHAPE((int64_t)(bytes / situ_dtype_size(r->transfer.dtype)));
  const situ_options options = { .dtype = r->transfer.dtype,
                                 .device = situ__comm_is_direct(r) ? r->comm->device : situ_dev("cpu") };
  return zero ? situ_zeros(shape, &options) : situ_empty(shape, &options);
}

/* What arrives has memory of its own: on an error no tensor has changed. */
bool situ__comm_make_target(situ_comm_request *r) {
  situ_scope s;
  if (!r->received) return true;
  situ_scope_begin_no_grad(&s);
  if (situ_set(&r->target, make_memory(r, r->received, false))) r->transfer.receive = address_of(r->target);
  return situ_scope_end(&s) == SITU_OK;
}

static bool set_source(situ_comm_request *r, situ_tensor *t) {
  if (!situ_set(&r->source, t)) return false;
  r->transfer.send = address_of(r->source);
  return true;
}

void situ__comm_forget_mark(situ_comm_request *r) {
  if (r->transfer.behind) r->comm->device_engine->forget(r->comm->direct.state, r->transfer.behind);
  r->transfer.behind = NULL;
}

/* Memory that its owner frees, though there are references. */
enum { OF_OTHERS = SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE };

static uint32_t flags_of(const situ_tensor *t) {
  return __atomic_load_n(&situ_desc(t)->storage->flags, __ATOMIC_RELAXED);
}

void situ__comm_leave_tensors(situ_comm_request *r) {
  /* An export that never ends: its memory does not move, either. What arrives is in a tensor of the call alone. */
  if (r->source && !situ__comm_is_direct(r)) (void)situ_to_dlpack(r->source, SITU_DLPACK_VERSIONED);
  r->source = r->target = NULL;
}

bool situ__comm_leave_device(situ_comm_request *r) {
  void *send = r->sent ? situ__alloc(r->sent) : NULL, *receive = r->received ? situ__alloc(r->received) : NULL;
  const bool made = (!r->sent || send) && (!r->received || receive);
  if (!made) situ__no_memory("comm", r->sent + r->received);
  if (made && (!r->sent || situ_copy_to_host(r->source, send, r->sent) == SITU_OK)) {
    situ__comm_forget_mark(r);
    situ_drop(&r->source);
    situ_drop(&r->target);
    r->transfer.send = send;
    r->transfer.receive = receive;
    r->way = &r->comm->host;
    return true;
  }
  situ__free(send);
  situ__free(receive);
  return false;
}

/* ---- values that are sent -------------------------------------------------------------------- */

bool situ__comm_fill(situ_comm_request *r, situ_tensor *t) {
  if (!r->sent) return true;
  if (!situ__comm_has_tensors(r) && r->simulated) return true;
  if (!situ__comm_has_tensors(r)) return situ_copy_to_host(t, situ__comm_outgoing(r), r->sent) == SITU_OK;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *values = situ_contiguous(t);
  if (values && !situ__comm_is_direct(r) && flags_of(values) & OF_OTHERS) values = situ_clone(values);
  set_source(r, values);
  return situ_scope_end(&s) == SITU_OK;
}

bool situ__comm_clear(situ_comm_request *r) {
  if (situ__comm_is_direct(r)) return set_source(r, make_memory(r, r->sent, true));
  if (!r->simulated) memset(situ__comm_outgoing(r), 0, r->sent);
  return true;
}

bool situ__comm_put(situ_comm_request *r, int64_t at, situ_tensor *t) {
  const size_t size = situ_dtype_size(r->transfer.dtype), bytes = (size_t)situ_numel(t) * size;
  if (!situ__comm_is_direct(r) && r->simulated) return true;
  if (!situ__comm_is_direct(r))
    return situ_copy_to_host(t, (char *)situ__comm_outgoing(r) + (size_t)at * size, bytes) == SITU_OK;
  if (!r->source && !set_source(r, make_memory(r, r->sent, false))) return false;
  return situ_copy_(situ_narrow(r->source, 0, at, situ_numel(t)), situ_reshape(t, SITU_SHAPE(situ_numel(t)))) != NULL;
}

/* Whether what has these strides is in one piece. */
static bool is_dense(const situ_shape *shape, const situ_shape *strides) {
  int64_t count = 1;
  for (int k = shape->ndim - 1; k >= 0; count *= shape->dim[k--])
    if (shape->dim[k] > 1 && strides->dim[k] != count) return false;
  return true;
}

bool situ__comm_put_strided(situ_comm_request *r, int64_t at, situ_shape strides, situ_tensor *t) {
  if (!t) return false;
  const situ_shape shape = situ_shape_of(t);
  if (is_dense(&shape, &strides)) return situ__comm_put(r, at, t);
  if (situ__comm_is_direct(r)) {
    if (!r->source && !set_source(r, make_memory(r, r->sent, false))) return false;
    return situ_copy_(situ_as_strided(r->source, shape, strides, at), t) != NULL;
  }
  situ_shape inner = { .ndim = shape.ndim - 1 };
  memcpy(inner.dim, strides.dim + 1, (size_t)inner.ndim * sizeof *inner.dim);
  for (int64_t k = 0; k < shape.dim[0]; k++)
    if (!situ__comm_put_strided(r, at + k * strides.dim[0], inner, situ_select(t, 0, k))) return false;
  return true;
}

/* ---- values that have arrived ---------------------------------------------------------------- */

situ_tensor *situ__comm_part(const situ_comm_request *r, int64_t at, int64_t count) {
  const size_t size = situ_dtype_size(r->transfer.dtype);
  if (!r->target)
    return situ_view_host((char *)r->transfer.receive + (size_t)at * size, (size_t)count * size, SITU_SHAPE(count),
                          &(situ_options){ .dtype = r->transfer.dtype });
  /* no kernel has told the storage that it was written */
  (void)__atomic_and_fetch(&situ_desc(r->target)->storage->flags, ~SITU_STORAGE_UNWRITTEN, __ATOMIC_RELAXED);
  return situ_narrow(r->target, 0, at, count);
}

situ_tensor *situ__comm_result(const situ_comm_request *r, int64_t at, situ_shape shape, situ_device device) {
  int64_t count;
  if (!situ_shape_numel("comm", &shape, &count)) return NULL;
  const size_t size = situ_dtype_size(r->transfer.dtype);
  if (!r->target && r->simulated)
    return situ_zeros(shape, &(situ_options){ .dtype = r->transfer.dtype, .device = device });
  if (!r->target)
    return situ_from_host((char *)r->transfer.receive + (size_t)at * size, (size_t)count * size, shape,
                          &(situ_options){ .dtype = r->transfer.dtype, .device = device });
  situ_tensor *part = situ_reshape(situ__comm_part(r, at, count), shape);
  return (size_t)count * size == r->received ? part : situ_clone(part);
}

bool situ__comm_write(const situ_comm_request *r, int64_t at, situ_tensor *t) {
  const size_t size = situ_dtype_size(r->transfer.dtype), count = (size_t)situ_numel(t);
  if (!r->received) return true;
  if (!situ__comm_is_direct(r) && !r->simulated)
    return situ_copy_from_host(t, (char *)r->transfer.receive + (size_t)at * size, count * size) == SITU_OK;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  if (!r->target) situ_zero_(t); /* values that are unknown in a dry run */
  else situ_copy_(t, situ_reshape(situ__comm_part(r, at, (int64_t)count), situ_shape_of(t)));
  return situ_scope_end(&s) == SITU_OK;
}

bool situ__comm_write_rows(const situ_comm_request *r, int64_t at, int64_t stride, situ_tensor *t) {
  const int64_t rows = t ? situ_size(t, 0) : 0, count = t ? situ_size(t, 1) : 0;
  if (!t || rows == 1 || stride == count) return t && situ__comm_write(r, at, t);
  if (r->target) {
    situ_tensor *from = situ__comm_part(r, 0, situ_numel(r->target));
    return situ_copy_(t, situ_as_strided(from, situ_shape_of(t), SITU_SHAPE(stride, 1), at)) != NULL;
  }
  for (int64_t k = 0; k < rows; k++)
    if (!situ__comm_write(r, at + k * stride, situ_select(t, 0, k))) return false;
  return true;
}

/* ---- joining --------------------------------------------------------------------------------- */

static const char joining[] = "comm_use_nccl";

static bool may_join(const situ_comm *c) {
  if (c->direct.engine) return situ__fail(SITU_E_STATE, joining, "this communicator has NCCL already"), false;
  if (!c->held && !c->first) return true;
  return situ__fail(SITU_E_STATE, joining, "this communicator has calls on their way: wait for them"), false;
}

/* Whether all ranks have come so far; else each has recorded an error: its own, or that of the first that has not. */
static bool all_good(situ_comm *c, bool good) {
  return situ__comm_all_ready(joining, c, good ? NULL : situ_error_message(), SITU_E_COMM);
}

/* Rank 0 tells all ranks what they find each other by. */
static bool share_id(situ_comm *c, unsigned char id[SITU_COMM_ID]) {
  const situ_comm_call call = { SITU_COMM_BROADCAST, .dtype = SITU_U8, .count = SITU_COMM_ID,
                                .send = id,          .receive = id,    .name = joining };
  return situ__comm_call(joining, c, &call) == SITU_OK;
}

/* Every rank's number: NCCL has connected all ranks, and brings what it is given. */
static bool try_out(situ_comm *c) {
  int64_t got = 0;
  situ_tensor *mine = situ_full(SITU_SHAPE(1), c->rank + 1, &(situ_options){ .dtype = SITU_I64, .device = c->device });
  if (!mine) return situ_comm_abort(c, situ_error_message()), false;
  situ_tensor *all = situ_comm_all_gather(c, mine, "trial of NCCL");
  for (int r = 0; all && r < c->size; r++) {
    if (situ_copy_to_host(situ_select(all, 0, r), &got, sizeof got) != SITU_OK) return false;
    if (got == r + 1) continue;
    return situ__comm_fail(c, SITU_E_COMM, r, "NCCL brought rank %d a wrong value of rank %d", c->rank, r),
           situ__comm_failure(joining, c) == SITU_OK;
  }
  return all != NULL;
}

static bool join_ranks(situ_comm *c, const situ_comm_device_engine *e, situ_device device) {
  unsigned char id[SITU_COMM_ID] = { 0 };
  void *state = NULL;
  if (!all_good(c, may_join(c) && e && e->identify(device.index, c->rank == 0 ? id : NULL) == SITU_OK)) return false;
  if (!share_id(c, id)) return false;
  if (!all_good(c, e->join(device.index, id, c->rank, c->size, &state) == SITU_OK)) {
    if (state) e->engine.release(state, true);
    return false;
  }
  c->direct = (situ__comm_way){ &e->engine, state };
  c->device_engine = e;
  c->device = device;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = try_out(c);
  return situ_scope_end(&s) == SITU_OK && good;
}

situ_status situ_comm_use_nccl(situ_comm *comm, situ_device device) {
  if (!situ__comm_given(joining, comm)) return situ_error();
  if (comm->failed) return situ__comm_failure(joining, comm);
  if (device.kind == SITU_DEVICE_DEFAULT) device = situ_get_default_device();
  return join_ranks(comm, situ_comm_device_engine_of(device), device) ? SITU_OK : situ_error();
}
