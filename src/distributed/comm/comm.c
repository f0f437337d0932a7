/* Communicators: making them, and beginning and ending calls.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "base/alloc.h"
#include "base/size.h"
#include "comm.h"

static const char itself[] = "this communicator";

/* ---- making and freeing ---- */

static void free_inbox(const situ__inbox *box) {
  for (situ__letter *at = box->first, *later; at; at = later) {
    later = at->later;
    situ__free(at);
  }
}

static void free_peers(situ_comm *c) {
  for (int i = 0; c->peers && i < c->size; i++) {
    situ__peer *p = &c->peers[i];
    if (!p->incoming || c->host.engine->abandon(c->host.state, p->incoming)) situ__free(p->next);
    situ__free(p->spare);
    free_inbox(&p->inbox[0]);
    free_inbox(&p->inbox[1]);
  }
  situ__free(c->peers);
}

static void release_comm(situ_comm *c) {
  if (--c->refs > 0 || situ__forked()) return;
  if (c->rehearses) {
    situ__handle_free(c, sizeof *c, NULL);
    return;
  }
  free_peers(c);
  if (c->direct.engine) c->direct.engine->release(c->direct.state, c->failed != SITU_OK);
  c->host.engine->release(c->host.state, c->failed != SITU_OK);
  situ__handle_free(c, sizeof *c, NULL);
}

static bool valid_engine(const char *op, const situ_comm_engine *e) {
  if (e->name && e->begin && e->test && e->abandon && e->release) return true;
  return situ__fail(SITU_E_ARG, op, "the engine lacks a name or a function: all of situ_comm_engine is required"),
         false;
}

/* The ranks of each node. Returns false after recording an error. */
static bool valid_node(const char *op, const char *engine, int node_size, int size) {
  if (node_size >= 0 && (!node_size || size % node_size == 0)) return true;
  return situ__fail(SITU_E_ARG, op,
                    "%s: node_size is %d of %d ranks: each node must have as many (1: all links are alike)", engine,
                    node_size, size),
         false;
}

static bool valid_place(const char *op, const char *engine, int rank, int size, double deadline) {
  if (size >= 1 && size <= SITU__COMM_RANKS && rank >= 0 && rank < size && deadline >= 0 && isfinite(deadline))
    return true;
  return situ__fail(SITU_E_ARG, op, "%s: rank %d of %d ranks, deadline %g s: ranks are 0..size - 1, at most %d", engine,
                    rank, size, deadline, SITU__COMM_RANKS),
         false;
}

situ_comm *situ_comm_new(const situ_comm_engine *engine, void *state, int rank, int size,
                         const situ_comm_options *options) {
  static const char op[] = "comm_new";
  if (!situ__given(op, "engine", engine) || !valid_engine(op, engine)) return NULL;
  const double deadline = options && options->deadline != 0 ? options->deadline : 60;
  const int node = options ? options->node_size : 0;
  const bool valid = valid_place(op, engine->name, rank, size, deadline) && valid_node(op, engine->name, node, size);
  situ_comm *c = valid ? situ__handle_new(SITU__A_COMM, sizeof *c) : NULL;
  if (!c) {
    if (situ_error() == SITU_OK) situ__no_memory(op, sizeof *c);
    engine->release(state, false);
    return NULL;
  }
  situ__fork_guard();
  c->refs = 1;
  c->host = c->lent = (situ__comm_way){ engine, state };
  c->rank = rank;
  c->size = size;
  c->node = node ? node & -node : 1; /* of 6 ranks each two are a sub-tree */
  c->deadline = deadline;
  c->last = &c->first;
  c->culprit = -1;
  c->peers = situ__calloc((size_t)size, sizeof *c->peers);
  if (!c->peers) situ__no_memory(op, (size_t)size * sizeof *c->peers);
  if (c->peers && situ__comm_listen(op, c)) return c;
  release_comm(c);
  return NULL;
}

situ_comm *situ__comm_rehearsal(const char *op, const situ_comm *c) {
  situ_comm *r = situ__handle_new(SITU__A_COMM, sizeof *r);
  if (!r) return situ__no_memory(op, sizeof *r), NULL;
  r->refs = 1;
  r->host = c->host;
  r->direct = c->direct;
  r->device_engine = c->device_engine;
  r->device = c->device;
  r->rank = c->rank;
  r->size = c->size;
  r->node = c->node;
  r->deadline = c->deadline;
  r->last = &r->first;
  r->culprit = -1;
  r->divides = c->divides;
  r->rehearses = true;
  return r;
}

situ_comm *situ_comm_refuse(situ_status status, const char *engine, const char *why) {
  return situ__fail(status == SITU_OK ? SITU_E_COMM : status, "comm_new", "%s: %s", engine ? engine : "?",
                    why ? why : "?"),
         NULL;
}

int situ_comm_rank(const situ_comm *comm) { return situ__comm_given("comm_rank", comm) ? comm->rank : -1; }
situ_status situ_comm_traffic(const situ_comm *comm, uint64_t *sent, uint64_t *received) {
  static const char op[] = "comm_traffic";
  if (!situ__comm_given(op, comm) || !situ__given(op, "sent", sent) || !situ__given(op, "received", received))
    return situ_error();
  *sent = comm->sent;
  *received = comm->received;
  return SITU_OK;
}
int situ_comm_size(const situ_comm *comm) { return situ__comm_given("comm_size", comm) ? comm->size : -1; }

void situ_comm_abort(situ_comm *comm, const char *why) {
  static const char op[] = "comm_abort";
  if (!situ__comm_given(op, comm)) return;
  SITU__ALONE(in, &comm->alone, op, itself);
  if (in)
    situ__comm_fail(comm, SITU_E_COMM, comm->rank, "rank %d gave up: %.159s", comm->rank, why ? why : "no reason");
}

void situ_comm_free(situ_comm *comm) {
  static const char op[] = "comm_free";
  if (!comm || !situ__comm_given(op, comm)) return;
  situ__alone *in = situ__alone_begin(&comm->alone, op, itself);
  if (!in) return;
  if (comm->first) situ__comm_fail(comm, SITU_E_COMM, comm->rank, "rank %d freed its communicator", comm->rank);
  situ__alone_end(&in);
  if (comm->refs > 1) situ__handle_close(comm);
  release_comm(comm);
}

/* ---- one call ---- */

static int members_of(const situ_comm *c, situ__comm_group group) {
  return group == SITU__COMM_ALL ? c->size : group == SITU__COMM_NODE ? c->node : c->size / c->node;
}

/* Elements that a rank sends and receives. */
static bool block_sizes(const situ_comm *c, const situ_comm_call *call, situ__comm_group group, int64_t *sends,
                        int64_t *receives) {
  int64_t all;
  if (!situ__mul_i64(call->count, members_of(c, group), &all)) return false;
  const bool root = call->peer == c->rank;
  switch (call->op) {
  case SITU_COMM_ALL_REDUCE: *sends = *receives = call->count; return true;
  case SITU_COMM_REDUCE_SCATTER: *sends = all, *receives = call->count; return true;
  case SITU_COMM_ALL_GATHER: *sends = call->count, *receives = all; return true;
  case SITU_COMM_BROADCAST: *sends = root ? call->count : 0, *receives = call->count; return true;
  case SITU_COMM_ALL_TO_ALL: *sends = *receives = all; return true;
  case SITU_COMM_SEND: *sends = call->count, *receives = 0; return true;
  case SITU_COMM_RECEIVE: *sends = 0, *receives = call->count; return true;
  case SITU_COMM_BARRIER: *sends = *receives = 0; return true;
  }
  return false;
}

static bool reduces(situ_comm_op op) { return op == SITU_COMM_ALL_REDUCE || op == SITU_COMM_REDUCE_SCATTER; }

static bool valid_call(const char *op, const situ_comm *c, const situ_comm_call *call, situ_dtype dtype) {
  if ((unsigned)call->op > SITU_COMM_BARRIER || (unsigned)call->reduction > SITU_COMM_MAX || !situ_dtype_size(dtype))
    return situ__fail(SITU_E_ARG, op, "op %d, reduction %d, dtype %d: one is out of range", (int)call->op,
                      (int)call->reduction, (int)dtype),
           false;
  const char *name = situ_comm_op_name(call->op);
  if (call->count < 0) return situ__fail(SITU_E_ARG, op, "%s: count is %" PRId64, name, call->count), false;
  const bool pair = situ__comm_is_pair(call->op);
  if ((pair || call->op == SITU_COMM_BROADCAST) &&
      (call->peer < 0 || call->peer >= c->size || (pair && call->peer == c->rank)))
    return situ__fail(SITU_E_ARG, op, "%s: rank %d of %d has peer %d", name, c->rank, c->size, call->peer), false;
  if (reduces(call->op) && (dtype == SITU_F16 || dtype == SITU_BF16 || dtype == SITU_BOOL))
    return situ__fail(SITU_E_UNSUPPORTED, op, "%s of %s: convert it to f32 first", name, situ_dtype_name(dtype)), false;
  return true;
}

static bool fits_engine(const char *op, const situ_comm_call *call, const situ_comm_engine *e) {
  if (e->most <= 0 || call->count <= e->most || !situ__comm_has_blocks(call->op)) return true;
  return situ__fail(SITU_E_LIMIT, op,
                    "%s of %" PRId64 " elements a rank, and %s carries at most %" PRId64
                    " in such a call: divide it into several (of ddp: .bucket_bytes)",
                    situ_comm_op_name(call->op), call->count, e->name, e->most),
         false;
}

static void free_request(situ_comm_request *r) {
  situ__comm_forget_mark(r);
  if (!situ__comm_has_tensors(r)) {
    situ__free((void *)(uintptr_t)r->transfer.send);
    situ__free(r->transfer.receive);
  }
  situ_drop(&r->source);
  situ_drop(&r->target);
  situ__free(r->header);
  situ__handle_free(r, sizeof *r, NULL);
}

/* After round k of a collective a rank has heard of 2^(k + 1) ranks (progress.c). */
static int count_rounds(const situ_comm *c, situ_comm_op op) {
  int rounds = 0;
  while (!situ__comm_is_pair(op) && 1 << rounds < c->size) rounds++;
  return situ__comm_is_pair(op) ? 1 : rounds;
}

static bool allocate_request(const char *op, const situ_comm *c, situ_comm_request *r) {
  /* values are tensors (direct.c), or there are none */
  const bool direct = situ__comm_has_tensors(r) || (r->simulated && !c->rehearses);
  r->rounds = count_rounds(c, r->transfer.op);
  const int headers = r->rounds ? r->rounds : 1;
  r->header = situ__calloc((size_t)headers, sizeof *r->header + sizeof *r->sending);
  if (r->header) r->sending = (void **)(void *)(r->header + headers);
  r->transfer.send = r->sent && !direct ? situ__alloc(r->sent) : NULL;
  r->transfer.receive = r->received && !direct ? situ__alloc(r->received) : NULL;
  if (r->header && (direct || !r->sent || r->transfer.send) && (direct || !r->received || r->transfer.receive))
    return !situ__comm_has_tensors(r) || situ__comm_make_target(r);
  return situ__no_memory(op, r->sent + r->received), false;
}

static void set_group(const situ_comm *c, situ_comm_transfer *t, situ__comm_group group) {
  t->members = members_of(c, group);
  t->first = group == SITU__COMM_ALL ? 0 : group == SITU__COMM_NODE ? c->rank / c->node * c->node : c->rank % c->node;
  t->apart = group == SITU__COMM_ACROSS ? c->node : 1;
}

static void fill_request(situ_comm *c, situ_comm_request *r, const situ_comm_call *call, situ__comm_group group) {
  const bool pair = situ__comm_is_pair(call->op);
  situ__comm_header *h = r->header;
  h->magic = SITU__COMM_MAGIC;
  h->op = call->op;
  h->reduction = reduces(call->op) ? (int32_t)call->reduction : 0;
  h->dtype = r->transfer.dtype;
  h->peer = pair || call->op == SITU_COMM_BROADCAST ? call->peer : group == SITU__COMM_ALL ? 0 : c->node;
  h->number = pair || r->simulated ? 0 : ++c->number;
  h->count = call->op == SITU_COMM_BARRIER ? 0 : call->count;
  h->step = call->step;
  h->direct = situ__comm_is_direct(r);
  if (call->name) memcpy(h->name, call->name, strnlen(call->name, sizeof h->name - 1));
}

situ_comm_request *situ__comm_open(const char *op, situ_comm *c, const situ_comm_call *call) {
  return situ__comm_open_for(op, c, call, &c->host);
}

static void tell_exchange(const situ_comm_request *r) {
  const situ_comm_op op = r->transfer.op;
  if (!r->sent && !r->received) return;
  (void)situ_dry_tell_exchange(
      &(situ_dry_exchange){ .op = situ_comm_op_name(op),
                            .name = r->header->name,
                            .peer = situ__comm_is_pair(op) || op == SITU_COMM_BROADCAST ? r->transfer.peer : -1,
                            .sent = r->sent,
                            .received = r->received });
}

static situ_comm_request *open_request(const char *op, situ_comm *c, const situ_comm_call *call,
                                       const situ__comm_way *way, situ__comm_group group, bool simulated) {
  const situ_dtype dtype = call->dtype ? call->dtype : SITU_F32;
  if (!situ__comm_is_here(op) || !valid_call(op, c, call, dtype) || !fits_engine(op, call, way->engine)) return NULL;
  if (c->failed) return situ__comm_failure(op, c), NULL;
  int64_t sends = 0, receives = 0, bytes;
  const int64_t size = (int64_t)situ_dtype_size(dtype);
  if (!block_sizes(c, call, group, &sends, &receives) || !situ__mul_i64(situ__max_i64(sends, receives), size, &bytes))
    return situ__fail(SITU_E_OVERFLOW, op, "%s of %" PRId64 " elements by %d ranks", situ_comm_op_name(call->op),
                      call->count, c->size),
           NULL;
  situ_comm_request *r = situ__handle_new(SITU__A_COMM_REQUEST, sizeof *r);
  if (!r) return situ__no_memory(op, sizeof *r), NULL;
  r->comm = c;
  r->way = way;
  r->simulated = simulated;
  if (simulated) r->stage = SITU__COMM_DONE;
  r->sent = (size_t)(sends * size);
  r->received = (size_t)(receives * size);
  r->transfer = (situ_comm_transfer){ .op = call->op,
                                      .reduction = call->reduction,
                                      .dtype = dtype,
                                      .count = call->op == SITU_COMM_BARRIER ? 0 : call->count,
                                      .peer = call->peer,
                                      .tag = 2 };
  set_group(c, &r->transfer, group);
  if (!allocate_request(op, c, r)) {
    free_request(r);
    return NULL;
  }
  fill_request(c, r, call, group);
  c->refs++;
  if (simulated) tell_exchange(r);
  return r;
}

situ_comm_request *situ__comm_open_among(const char *op, situ_comm *c, const situ_comm_call *call,
                                         const situ__comm_way *way, situ__comm_group group) {
  if (situ_is_dry() && !c->rehearses) return situ_dry_refuse(op), NULL;
  return open_request(op, c, call, way, group, c->rehearses);
}

situ_comm_request *situ__comm_open_for(const char *op, situ_comm *c, const situ_comm_call *call,
                                       const situ__comm_way *way) {
  return situ__comm_open_among(op, c, call, way, SITU__COMM_ALL);
}

situ_comm_request *situ__comm_simulate(const char *op, situ_comm *c, const situ_comm_call *call) {
  return open_request(op, c, call, &c->host, SITU__COMM_ALL, true);
}

void situ__comm_close(situ_comm_request *r) {
  if (!r) return;
  situ_comm *c = r->comm;
  free_request(r);
  release_comm(c);
}

bool situ__comm_finish(const char *op, situ_comm_request *r) {
  situ_comm *c = r->comm;
  situ__comm_await(c, r);
  if (r->stage == SITU__COMM_DONE) return true;
  situ__comm_failure(op, c);
  return false;
}

bool situ__dist_path_matches(const char *pattern, const char *path) {
  while (*pattern && *path) {
    if (*pattern == '*' && (pattern[1] == '.' || !pattern[1])) {
      pattern++;
      path += strcspn(path, ".");
    } else if (*pattern++ != *path++) return false;
  }
  return *pattern == *path;
}
