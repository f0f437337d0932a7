/* The public calls of a communicator: on host memory, and on tensors.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "comm.h"
#include "situ/ops.h"

static const char itself[] = "this communicator";

static bool is_request(const char *op, const situ_comm_request *r) {
  return situ__valid(op, "request", r, SITU__A_COMM_REQUEST) && situ__comm_is_here(op);
}

/* ---- on host memory ---- */

static situ_comm_request *open_call(const char *op, situ_comm *c, const situ_comm_call *call,
                                    const situ__comm_way *way) {
  if (!c->held) return situ_is_dry() ? situ__comm_simulate(op, c, call) : situ__comm_open_for(op, c, call, way);
  return situ__fail(SITU_E_STATE, op,
                    "a backward exchanges gradients over this communicator: give hooks and layers one of their own, "
                    "or make this call when situ_backward has returned"),
         NULL;
}

static situ_comm_request *begin_call(const char *op, situ_comm *c, const situ_comm_call *call) {
  situ_comm_request *r = open_call(op, c, call, &c->host);
  if (!r) return NULL;
  if ((r->sent && !call->send) || (r->received && !call->receive)) {
    situ__fail(SITU_E_ARG, op, "%s of %" PRId64 " elements without memory for what it %s", situ_comm_op_name(call->op),
               call->count, r->sent && !call->send ? "sends" : "receives");
    if (r->header->number) c->number--;
    situ__comm_close(r);
    return NULL;
  }
  if (r->simulated) return r;
  r->receive = call->receive;
  if (r->sent) memcpy(situ__comm_outgoing(r), call->send, r->sent);
  situ__comm_post(c, r);
  return r;
}

situ_status situ_comm_begin(situ_comm *comm, const situ_comm_call *call, situ_comm_request **request) {
  static const char op[] = "comm_begin";
  if (!situ__comm_given(op, comm) || !situ__given(op, "call", call) || !situ__given(op, "request", request))
    return situ_error();
  SITU__ALONE(in, &comm->alone, op, itself);
  if (!in) return situ_error();
  *request = begin_call(op, comm, call);
  return *request ? SITU_OK : situ_error();
}

situ_status situ_comm_test(situ_comm_request *request, bool *done) {
  static const char op[] = "comm_test";
  if (!is_request(op, request) || !situ__given(op, "done", done)) return situ_error();
  SITU__ALONE(in, &request->comm->alone, op, itself);
  if (!in) return situ_error();
  if (request->stage < SITU__COMM_DONE && !situ_is_dry()) situ__comm_progress(request->comm);
  *done = request->stage >= SITU__COMM_DONE;
  return SITU_OK;
}

static situ_status end_call(const char *op, situ_comm_request *r) {
  if (r->simulated) return r->received && !r->comm->rehearses ? situ_dry_refuse(op) : SITU_OK;
  const bool good = situ__comm_finish(op, r);
  if (good && r->received) memcpy(r->receive, r->transfer.receive, r->received);
  return good ? SITU_OK : situ_error();
}

situ_status situ_comm_wait(situ_comm_request *request) {
  static const char op[] = "comm_wait";
  if (!is_request(op, request)) return situ_error();
  if (situ_is_dry() && !request->simulated) return situ_dry_refuse(op); /* it stays with the program */
  situ__alone *in = situ__alone_begin(&request->comm->alone, op, itself);
  if (!in) return situ_error();
  const situ_status status = end_call(op, request);
  situ__alone_end(&in);
  situ__comm_close(request);
  return status;
}

situ_status situ__comm_call(const char *op, situ_comm *c, const situ_comm_call *call) {
  SITU__ALONE(in, &c->alone, op, itself);
  if (!in) return situ_error();
  situ_comm_request *r = begin_call(op, c, call);
  if (!r) return situ_error();
  const situ_status status = end_call(op, r);
  situ__comm_close(r);
  return status;
}

situ_status situ_comm_run(situ_comm *comm, const situ_comm_call *call) {
  static const char op[] = "comm_run";
  if (!situ__comm_given(op, comm) || !situ__given(op, "call", call)) return situ_error();
  return situ__comm_call(op, comm, call);
}

bool situ__comm_gather(const char *op, situ_comm *c, const char *name, int64_t step, const void *mine, void *all,
                       size_t bytes) {
  const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = SITU_U8, .count = (int64_t)bytes,
                                .send = mine,         .receive = all,   .name = name,
                                .step = step };
  return situ__comm_call(op, c, &call) == SITU_OK;
}

bool situ__comm_all_ready(const char *op, situ_comm *c, const char *words, situ_status status) {
  const int64_t mine = words ? c->size - c->rank : 0;
  int64_t first = 0;
  char text[SITU__COMM_WORDS] = "";
  if (words) (void)snprintf(text, sizeof text, "%s", words);
  const situ_comm_call ask = { SITU_COMM_ALL_REDUCE, .reduction = SITU_COMM_MAX, .dtype = SITU_I64, .count = 1,
                               .send = &mine,        .receive = &first,          .name = op };
  if (situ__comm_call(op, c, &ask) != SITU_OK) return false;
  if (!first) return true;
  const int rank = c->size - (int)first;
  const situ_comm_call tell = { SITU_COMM_BROADCAST, .dtype = SITU_U8, .count = sizeof text, .peer = rank, .send = text,
                                .receive = text,     .name = op };
  if (situ__comm_call(op, c, &tell) != SITU_OK) return false;
  text[SITU__COMM_WORDS - 1] = 0;
  if (!words) situ__fail(status, op, "rank %d: %s", rank, text);
  return false;
}

/* ---- on tensors ---- */

/* A call whose values are t's. Returns the request when it has ended, with what has arrived; NULL after recording an
   error. */
static situ_comm_request *carry(const char *op, situ_comm *c, situ_tensor *t, const situ_comm_call *call) {
  situ_comm_request *r = open_call(op, c, call, situ__comm_way_of(c, call, t));
  if (!r || r->simulated) return r;
  const bool filled = situ__comm_fill(r, t);
  if (filled) situ__comm_post(c, r);
  else situ__comm_fail(c, SITU_E_COMM, c->rank, "rank %d gave up: %.159s", c->rank, situ_error_message());
  if (filled && situ__comm_finish(op, r)) return r;
  situ__comm_close(r);
  return NULL;
}

static bool both_given(const char *op, const situ_comm *c, const situ_tensor *t) {
  return situ__comm_given(op, c) && situ__valid(op, "t", t, SITU__A_TENSOR);
}

/* Carries t, and writes what arrives into it. */
static situ_status carry_in_place(const char *op, situ_comm *c, situ_tensor *t, situ_comm_call call) {
  if (!both_given(op, c, t)) return situ_error();
  SITU__ALONE(in, &c->alone, op, itself);
  if (!in) return situ_error();
  call.dtype = situ_dtype_of(t);
  call.count = situ_numel(t);
  situ_comm_request *r = carry(op, c, t, &call);
  if (!r) return situ_error();
  const bool written = situ__comm_write(r, 0, t);
  situ__comm_close(r);
  return written ? SITU_OK : situ_error();
}

/* Carries t, and returns what arrives in a new tensor of this shape. */
static situ_tensor *carry_apart(const char *op, situ_comm *c, situ_tensor *t, situ_comm_call call, situ_shape shape) {
  SITU__ALONE(in, &c->alone, op, itself);
  if (!in) return NULL;
  call.dtype = situ_dtype_of(t);
  situ_comm_request *r = carry(op, c, t, &call);
  if (!r) return NULL;
  situ_tensor *out = situ__comm_result(r, 0, shape, situ_device_of(t));
  situ__comm_close(r);
  return out;
}

/* t is a stack of blocks, one for each rank. Sets the number of elements of one. */
static bool is_stack(const char *op, const situ_comm *c, const situ_tensor *t, int64_t *count) {
  if (situ_dim(t) >= 1 && situ_size(t, 0) == c->size) {
    *count = situ_numel(t) / c->size;
    return true;
  }
  const situ_shape shape = situ_shape_of(t);
  return situ__fail(SITU_E_SHAPE, op,
                    "t has %d dimensions, %" PRId64 " rows: it must have a block for each of %d ranks", shape.ndim,
                    shape.ndim ? shape.dim[0] : 1, c->size),
         false;
}

situ_status situ_comm_all_reduce(situ_comm *comm, situ_tensor *t, situ_comm_reduction reduction, const char *name) {
  return carry_in_place("comm_all_reduce", comm, t,
                        (situ_comm_call){ SITU_COMM_ALL_REDUCE, .reduction = reduction, .name = name });
}

situ_tensor *situ__comm_sum(const char *op, situ_comm *c, situ_tensor *t, const char *name) {
  const situ_comm_call call = { SITU_COMM_ALL_REDUCE, .count = situ_numel(t), .name = name };
  return carry_apart(op, c, t, call, situ_shape_of(t));
}

situ_status situ_comm_broadcast(situ_comm *comm, situ_tensor *t, int root, const char *name) {
  return carry_in_place("comm_broadcast", comm, t, (situ_comm_call){ SITU_COMM_BROADCAST, .peer = root, .name = name });
}

situ_status situ_comm_send(situ_comm *comm, situ_tensor *t, int peer, const char *name) {
  return carry_in_place("comm_send", comm, t, (situ_comm_call){ SITU_COMM_SEND, .peer = peer, .name = name });
}

situ_status situ_comm_receive(situ_comm *comm, situ_tensor *t, int peer, const char *name) {
  return carry_in_place("comm_receive", comm, t, (situ_comm_call){ SITU_COMM_RECEIVE, .peer = peer, .name = name });
}

situ_tensor *situ_comm_all_gather(situ_comm *comm, situ_tensor *t, const char *name) {
  static const char op[] = "comm_all_gather";
  if (!both_given(op, comm, t)) return NULL;
  situ_shape shape = situ_shape_of(t);
  if (shape.ndim == SITU_MAX_DIMS)
    return situ__fail(SITU_E_SHAPE, op, "t has %d dimensions: the result would have one more", shape.ndim), NULL;
  memmove(shape.dim + 1, shape.dim, (size_t)shape.ndim++ * sizeof *shape.dim);
  shape.dim[0] = comm->size;
  return carry_apart(op, comm, t, (situ_comm_call){ SITU_COMM_ALL_GATHER, .count = situ_numel(t), .name = name },
                     shape);
}

situ_tensor *situ_comm_reduce_scatter(situ_comm *comm, situ_tensor *t, situ_comm_reduction reduction,
                                      const char *name) {
  static const char op[] = "comm_reduce_scatter";
  situ_comm_call call = { SITU_COMM_REDUCE_SCATTER, .reduction = reduction, .name = name };
  if (!both_given(op, comm, t) || !is_stack(op, comm, t, &call.count)) return NULL;
  situ_shape shape = situ_shape_of(t);
  memmove(shape.dim, shape.dim + 1, (size_t)--shape.ndim * sizeof *shape.dim);
  return carry_apart(op, comm, t, call, shape);
}

situ_tensor *situ_comm_all_to_all(situ_comm *comm, situ_tensor *t, const char *name) {
  static const char op[] = "comm_all_to_all";
  situ_comm_call call = { SITU_COMM_ALL_TO_ALL, .name = name };
  if (!both_given(op, comm, t) || !is_stack(op, comm, t, &call.count)) return NULL;
  return carry_apart(op, comm, t, call, situ_shape_of(t));
}

situ_status situ_comm_barrier(situ_comm *comm, const char *name) {
  static const char op[] = "comm_barrier";
  if (!situ__comm_given(op, comm)) return situ_error();
  return situ__comm_call(op, comm, &(situ_comm_call){ SITU_COMM_BARRIER, .name = name });
}
