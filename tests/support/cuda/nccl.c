/* NCCL without a GPU, for tests: built as libnccl.so.2 beside the double's runtime, and queued on its streams. Ranks are
   threads of one process, each with a device of its own. It enqueues a transfer when it is polled the fourth time, refuses
   what the real one refuses (addresses outside of the device's memory, a second transfer while it enqueues one, two ranks
   on one device), and adds up from the last rank to the first. Transfers that do not match end the test.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda/nccl.h"

#define API CUDA_DOUBLE_API
static world *worlds;
static rank *ranks;

static result meaning(cudaError_t error) {
  return error == cudaSuccess ? SUCCESS : error == cudaErrorMemoryAllocation ? SYSTEM_ERROR : UNHANDLED_CUDA_ERROR;
}
static result end(result is) {
  (void)double_end(cudaSuccess);
  return is;
}
#define BEGIN_NCCL()                                     \
  do {                                                   \
    cudaError_t asked_ = double_begin(__func__);         \
    if (asked_) return (int)meaning(double_end(asked_)); \
  } while (0)

/* ---- enqueuing ------------------------------------------------------------------------------- */

static _Thread_local int depth;
static _Thread_local set *grouped;
static _Thread_local cudaStream_t group_stream;

static void apply_schedule(rank *r, set *s) {
  cuda_double *state = cuda_double_state();
  state->carried++;
  if (state->nccl_nth <= 0 || state->nccl_device != r->device || --state->nccl_nth > 0) return;
  s->hangs = true;
  if (state->nccl_fault == CUDA_DOUBLE_NCCL_FAILS) r->broken = REMOTE_ERROR;
}

/* NCCL has it, and enqueues it when it is polled the fourth time. */
static result hand_over(set *s, cudaStream_t stream) {
  rank *r = s->rank;
  if (r->enqueuing || r->world->joined < r->world->size || r->broken || r->finalized) {
    free(s);
    return INVALID_USAGE;
  }
  if (s->part[0].kind < SEND) s->number = ++r->collectives;
  apply_schedule(r, s);
  s->next = r->sets;
  r->sets = r->enqueuing = s;
  r->stream = stream;
  r->polls = 0;
  return IN_PROGRESS;
}

static result enqueue(rank *r) {
  double_task *task = double_queue(r->stream, DOUBLE_CALL, sizeof(set *));
  if (!task) return SYSTEM_ERROR;
  memcpy(task + 1, &r->enqueuing, sizeof(set *));
  task->ready = nccl_is_over;
  task->call = nccl_leave;
  r->enqueuing = NULL;
  return SUCCESS;
}

static result take(rank *r, const part *p, cudaStream_t stream) {
  if (!r || r->aborted || double_stream_device(stream) != r->device) return end(INVALID_ARGUMENT);
  if (p->peer < 0 || p->peer >= r->world->size) return end(INVALID_ARGUMENT);
  if ((p->kind == SEND || p->kind == RECEIVE) && depth == 0 && p->peer == r->number) return end(INVALID_USAGE);
  set *s = depth ? grouped : NULL;
  if (!s && !(s = calloc(1, sizeof *s))) return end(SYSTEM_ERROR);
  s->rank = r;
  if (s->count == PARTS) nccl_mistake("a group that is too large");
  s->part[s->count++] = *p;
  if (!depth) return end(hand_over(s, stream));
  grouped = s;
  group_stream = stream;
  return end(SUCCESS);
}

API int ncclGroupStart(void) {
  BEGIN_NCCL();
  depth++;
  return end(SUCCESS);
}
API int ncclGroupEnd(void) {
  set *s = grouped;
  depth--;
  grouped = NULL;
  const cudaError_t asked = double_begin(__func__);
  if (asked) free(s);
  if (asked) return (int)meaning(double_end(asked));
  return end(s ? hand_over(s, group_stream) : SUCCESS);
}

#define COLLECTIVE(name, what)                                                                                     \
  API int name(const void *send, void *receive, size_t count, int type, int op, rank *comm, cudaStream_t stream) { \
    BEGIN_NCCL();                                                                                                  \
    return take(comm,                                                                                              \
                &(part){ .kind = what, .send = send, .receive = receive, .count = count, .type = type, .op = op }, \
                stream);                                                                                           \
  }
COLLECTIVE(ncclAllReduce, ALL_REDUCE)
COLLECTIVE(ncclReduceScatter, REDUCE_SCATTER)
API int ncclAllGather(const void *send, void *receive, size_t count, int type, rank *comm, cudaStream_t stream) {
  BEGIN_NCCL();
  return take(comm, &(part){ .kind = ALL_GATHER, .send = send, .receive = receive, .count = count, .type = type },
              stream);
}
API int ncclBroadcast(const void *send, void *receive, size_t count, int type, int root, rank *comm,
                      cudaStream_t stream) {
  BEGIN_NCCL();
  return take(
      comm, &(part){ .kind = BROADCAST, .send = send, .receive = receive, .count = count, .type = type, .peer = root },
      stream);
}
API int ncclSend(const void *send, size_t count, int type, int peer, rank *comm, cudaStream_t stream) {
  BEGIN_NCCL();
  return take(comm, &(part){ .kind = SEND, .send = send, .count = count, .type = type, .peer = peer }, stream);
}
API int ncclRecv(void *receive, size_t count, int type, int peer, rank *comm, cudaStream_t stream) {
  BEGIN_NCCL();
  return take(comm, &(part){ .kind = RECEIVE, .receive = receive, .count = count, .type = type, .peer = peer }, stream);
}

/* ---- communicators --------------------------------------------------------------------------- */

API int ncclGetVersion(int *version) {
  BEGIN_NCCL();
  *version = cuda_double_state()->nccl_version;
  return end(SUCCESS);
}
API int ncclGetUniqueId(unique_id *id) {
  static int made;
  BEGIN_NCCL();
  memset(id, 0, sizeof *id);
  (void)snprintf(id->bytes, sizeof id->bytes, "world %d", ++made);
  return end(SUCCESS);
}
API const char *ncclGetErrorString(int of) {
  static const char *const text[] = { "no error",       "unhandled cuda error",      "unhandled system error",
                                      "internal error", "invalid argument",          "invalid usage",
                                      "remote error",   "NCCL operation in progress" };
  return of >= 0 && of <= IN_PROGRESS ? text[of] : "unknown";
}
API const char *ncclGetLastError(rank *comm) { return comm && comm->world->twice ? "Duplicate GPU detected" : ""; }

static world *find_world(const unique_id *id, int size) {
  for (world *w = worlds; w; w = w->next)
    if (memcmp(&w->id, id, sizeof *id) == 0) return w;
  world *w = calloc(1, sizeof *w);
  if (!w) return NULL;
  *w = (world){ .next = worlds, .id = *id, .size = size };
  return worlds = w;
}

API int ncclCommInitRankConfig(rank **comm, int size, unique_id id, int number, config *c) {
  BEGIN_NCCL();
  if (c->magic != 0xcafebeef || c->version < 21400 || c->size < 20 || c->blocking != 0) return end(INVALID_ARGUMENT);
  if (size < 1 || size > RANKS || number < 0 || number >= size) return end(INVALID_ARGUMENT);
  world *w = find_world(&id, size);
  rank *r = calloc(1, sizeof *r);
  if (!w || !r || w->size != size || w->rank[number]) return end(INVALID_USAGE);
  *r = (rank){ .next = ranks, .world = w, .number = number, .device = double_device() };
  for (int k = 0; k < size; k++) w->twice = w->twice || (w->rank[k] && w->rank[k]->device == r->device);
  ranks = w->rank[number] = r;
  w->joined++;
  cuda_double_state()->ranks++;
  *comm = r;
  return end(IN_PROGRESS);
}

API int ncclCommGetAsyncError(rank *comm, int *is) {
  BEGIN_NCCL();
  if (!comm || comm->aborted) return end(INVALID_ARGUMENT);
  result now = comm->broken;
  if (!now && comm->world->twice) now = INVALID_USAGE;
  if (!now && comm->world->joined < comm->world->size) now = IN_PROGRESS;
  if (!now && comm->enqueuing) now = ++comm->polls < 4 ? IN_PROGRESS : enqueue(comm);
  *is = (int)now;
  return end(SUCCESS);
}

API int ncclCommFinalize(rank *comm) {
  BEGIN_NCCL();
  comm->finalized = true;
  return end(SUCCESS);
}

/* What has not ended never will, for the others neither. */
static void stop(rank *r) {
  if (r->enqueuing) {
    set **at = &r->sets;
    while (*at != r->enqueuing) at = &(*at)->next;
    *at = r->enqueuing->next;
    free(r->enqueuing);
  }
  r->enqueuing = NULL;
  r->aborted = true;
  cuda_double_state()->ranks--;
}
/* Fail, if they are to, after they have done their work: who destroys can do nothing about it. */
API int ncclCommDestroy(rank *comm) {
  const cudaError_t asked = double_begin(__func__);
  if (!comm->finalized || comm->sets) nccl_mistake("destroyed in the middle of a transfer");
  stop(comm);
  return end(meaning(asked));
}
API int ncclCommAbort(rank *comm) {
  const cudaError_t asked = double_begin(__func__);
  if (comm->aborted) nccl_mistake("aborted twice");
  stop(comm);
  return end(meaning(asked));
}
