/* NCCL without a GPU, for tests: built as libnccl.so.2 beside the double's runtime, and queued on its streams. Ranks are
   threads of one process, each with a device of its own. It enqueues a transfer when it is polled the fourth time, refuses
   what the real one refuses (addresses outside of the device's memory, a second transfer while it enqueues one, two ranks
   on one device), and adds up from the last rank to the first. Transfers that do not match end the test.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"

#define API CUDA_DOUBLE_API
enum { RANKS = 8, PARTS = 2 * RANKS };
typedef enum result {
  SUCCESS,
  UNHANDLED_CUDA_ERROR,
  SYSTEM_ERROR,
  INTERNAL_ERROR,
  INVALID_ARGUMENT,
  INVALID_USAGE,
  REMOTE_ERROR,
  IN_PROGRESS
} result;
typedef enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SEND, RECEIVE } kind;

typedef struct unique_id {
  char bytes[128];
} unique_id;
typedef struct config {
  size_t size;
  unsigned magic, version;
  int blocking, clusters;
} config;

/* One rank's part in a transfer. */
typedef struct part {
  kind kind;
  const char *send;
  char *receive;
  size_t count;
  int type, op, peer;
  bool here, done;
} part;

/* What is enqueued at once: one collective, or a group of sends and receives. */
typedef struct set {
  struct set *next; /* of the rank */
  struct rank *rank;
  long number; /* of its collectives; 0: sends and receives */
  int count;
  bool hangs;
  part part[PARTS];
} set;

typedef struct world {
  struct world *next;
  unique_id id;
  int size, joined;
  bool twice; /* two ranks have one device */
  struct rank *rank[RANKS];
} world;

/* A communicator. They are kept for ever, since queued tasks know them. */
typedef struct rank {
  struct rank *next;
  world *world;
  int number, device;
  bool aborted, finalized;
  result broken;
  long collectives;
  set *sets, *enqueuing; /* all that have not ended; the one that waits to be enqueued */
  int polls;
  cudaStream_t stream; /* of that one */
} rank;

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

static void mistake(const char *what) {
  (void)fprintf(stderr, "nccl double: %s\n", what);
  abort();
}

/* ---- values ---------------------------------------------------------------------------------- */

static size_t size_of(int type) {
  static const size_t size[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2 };
  return size[type];
}

#define DEFINE_ADD(name, type)                                                     \
  static void name(type *into, const type *from, size_t count, int op) {           \
    for (size_t i = 0; i < count; i++)                                             \
      if (op == 0) into[i] = (type)(into[i] + from[i]);                            \
      else if (op == 2 ? from[i] > into[i] : from[i] < into[i]) into[i] = from[i]; \
  }
DEFINE_ADD(add_i8, int8_t)
DEFINE_ADD(add_u8, uint8_t)
DEFINE_ADD(add_i32, int32_t)
DEFINE_ADD(add_i64, int64_t)
DEFINE_ADD(add_f32, float)
DEFINE_ADD(add_f64, double)

static void add(void *into, const void *from, const part *p) {
  switch (p->type) {
  case 0: add_i8(into, from, p->count, p->op); break;
  case 1: add_u8(into, from, p->count, p->op); break;
  case 2: add_i32(into, from, p->count, p->op); break;
  case 4: add_i64(into, from, p->count, p->op); break;
  case 7: add_f32(into, from, p->count, p->op); break;
  case 8: add_f64(into, from, p->count, p->op); break;
  default: mistake("a type that is not added up here");
  }
}

static void check(const rank *r, const void *data, size_t bytes) {
  bool bad;
  const double_block *b = double_find(data, bytes, &bad);
  if (bad || !b || b->device != r->device) mistake("memory that is not, or no longer, the device's");
}

/* All ranks have come. */
static void collect(const world *w, part *const *all) {
  for (int to = 0; to < w->size; to++) {
    part *p = all[to];
    const size_t bytes = p->count * size_of(p->type);
    if (p->kind == ALL_GATHER)
      for (int from = 0; from < w->size; from++) memcpy(p->receive + (size_t)from * bytes, all[from]->send, bytes);
    if (p->kind == BROADCAST) memmove(p->receive, all[p->peer]->send, bytes);
    const size_t at = p->kind == REDUCE_SCATTER ? (size_t)to * bytes : 0;
    for (int from = w->size - 1; (p->kind == ALL_REDUCE || p->kind == REDUCE_SCATTER) && from >= 0; from--)
      if (from == w->size - 1) memcpy(p->receive, all[from]->send + at, bytes);
      else add(p->receive, all[from]->send + at, p);
    p->done = true;
  }
}

static void look(const rank *r, const part *p) {
  const size_t bytes = p->count * size_of(p->type), all = bytes * (size_t)r->world->size;
  if (p->kind == BROADCAST ? p->peer == r->number : p->kind != RECEIVE)
    check(r, p->send, p->kind == REDUCE_SCATTER ? all : bytes);
  if (p->kind != SEND) check(r, p->receive, p->kind == ALL_GATHER ? all : bytes);
}

/* ---- meetings -------------------------------------------------------------------------------- */

static part *collective_of(const rank *r, long number) {
  for (set *s = r && !r->aborted ? r->sets : NULL; s; s = s->next)
    if (s->number == number && s->part[0].here) return &s->part[0];
  return NULL;
}

static void meet_all(const world *w, long number) {
  part *all[RANKS];
  for (int k = 0; k < w->size; k++) {
    all[k] = collective_of(w->rank[k], number);
    if (!all[k]) return;
    if (all[k]->kind != all[0]->kind || all[k]->count != all[0]->count || all[k]->type != all[0]->type)
      mistake("collectives that do not match");
  }
  if (!all[0]->done) collect(w, all);
}

static part *first_open(const rank *r, kind what, int peer) {
  for (set *s = r && !r->aborted ? r->sets : NULL; s; s = s->next)
    for (int k = 0; k < s->count; k++) {
      part *p = &s->part[k];
      if (p->kind == what && p->peer == peer && p->here && !p->done) return p;
    }
  return NULL;
}

static void meet_pair(const world *w, int from, int to) {
  part *send, *receive;
  while ((send = first_open(w->rank[from], SEND, to)) && (receive = first_open(w->rank[to], RECEIVE, from))) {
    if (send->count != receive->count || send->type != receive->type) mistake("a send that does not match its receive");
    memcpy(receive->receive, send->send, send->count * size_of(send->type));
    send->done = receive->done = true;
  }
}

/* The rank's stream has come to it. */
static bool is_over(const void *payload) {
  set *s = *(set *const *)payload;
  const world *w = s->rank->world;
  if (s->rank->aborted) return true;
  if (s->hangs) return false;
  bool over = true;
  for (int k = 0; k < s->count; k++) {
    part *p = &s->part[k];
    if (!p->here) look(s->rank, p);
    p->here = true;
    if (p->kind < SEND) meet_all(w, s->number);
    else if (p->kind == SEND) meet_pair(w, s->rank->number, p->peer);
    else meet_pair(w, p->peer, s->rank->number);
    over = over && p->done;
  }
  return over;
}

static void leave(const void *payload) {
  set *s = *(set *const *)payload;
  for (int k = 0; k < s->count;
       k++) /* the others must have read this one's memory, and they have: all is done at once */
    if (!s->part[k].done && !s->rank->aborted) mistake("a transfer that has not ended");
  set **at = &s->rank->sets;
  while (*at != s) at = &(*at)->next;
  *at = s->next;
  free(s);
}

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
  task->ready = is_over;
  task->call = leave;
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
  if (s->count == PARTS) mistake("a group that is too large");
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
  if (!comm->finalized || comm->sets) mistake("destroyed in the middle of a transfer");
  stop(comm);
  return end(meaning(asked));
}
API int ncclCommAbort(rank *comm) {
  const cudaError_t asked = double_begin(__func__);
  if (comm->aborted) mistake("aborted twice");
  stop(comm);
  return end(meaning(asked));
}
