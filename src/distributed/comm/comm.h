/* Inside of a communicator: headers between ranks, and calls on their way.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_COMM_H
#define SITU_DIST_COMM_H

#include "base/busy.h"
#include "base/fail.h"
#include "base/fork.h"
#include "base/handle.h"
#include "situ/sys/comm_device.h"
#include "situ/sys/dry.h"

enum { SITU__COMM_NAME = 64, SITU__COMM_TEXT = 512, SITU__COMM_RANKS = 4096 };

/* What two ranks tell each other before a call. Sent as bytes: all ranks run one build on one architecture. */
typedef struct situ__comm_header {
  uint32_t magic;  /* the layout of this struct */
  int32_t status;  /* SITU_OK: a call; else its sender has given up, and `text` says why */
  int32_t culprit; /* of a failure: the rank that caused it; -1: unknown */
  int32_t op, reduction, dtype, peer;
  int64_t number; /* collectives begun so far on this communicator; 0 for SEND and RECEIVE. Of a rank that has given up:
                     the last one that has ended there, with all before it */
  int64_t behind; /* SEND, RECEIVE: the number of the last collective that its sender began before them */
  int64_t count, step;
  int32_t direct; /* the values of its sender, and of all that it has heard of, may stay on their device */
  char name[SITU__COMM_NAME];
  char text[320];
} situ__comm_header;

/* A header that a peer sends, in memory of its own from its arrival until a call takes it. */
typedef struct situ__letter {
  struct situ__letter *later;
  situ__comm_header header;
} situ__letter;

/* Headers that no call has asked for yet, in the order of their arrival. */
typedef struct situ__inbox {
  situ__letter *first, *last;
} situ__inbox;

/* Another rank, as this one sees it. */
typedef struct situ__peer {
  void *incoming;       /* the engine's request for its next header; NULL: none is awaited any more */
  situ__letter *next;   /* where that arrives */
  situ__letter *spare;  /* one that was taken: where the next but one arrives; NULL: none */
  situ__inbox inbox[2]; /* of collectives; of SEND and RECEIVE */
  uint64_t claimed[2];  /* the pass over the calls in which an earlier one waits for its next header */
  uint64_t heard_at;    /* the pass in which it was last asked for a header */
  bool heard;           /* it has said that it gave up */
  bool silent;          /* it has said nothing since this rank gave up */
  bool lost;            /* the engine says so: a failure of the calls that still need its header */
  situ_comm_report report;
} situ__peer;

typedef enum situ__comm_stage {
  SITU__COMM_HEADERS, /* some rank has not come to this call, or this rank has not heard of it */
  SITU__COMM_READY,   /* an earlier collective has to begin first */
  SITU__COMM_VALUES,  /* the engine is at work */
  SITU__COMM_DONE,
  SITU__COMM_FAILED
} situ__comm_stage;

/* An engine with its state. */
typedef struct situ__comm_way {
  const situ_comm_engine *engine; /* NULL: there is none */
  void *state;
} situ__comm_way;

/* The ranks among which an ALL_TO_ALL goes. */
typedef enum situ__comm_group { SITU__COMM_ALL, SITU__COMM_NODE, SITU__COMM_ACROSS } situ__comm_group;

struct situ_comm_request {
  uint32_t head;
  situ_comm *comm; /* referenced */
  situ_comm_request *later;
  situ__comm_stage stage;
  situ_comm_transfer transfer;
  void *receive;             /* the program's memory */
  size_t sent, received;     /* bytes */
  situ__comm_header *header; /* one for each round; apart, because an engine may read them for longer */
  void **sending;            /* per round: the engine's request for the header; NULL: done. Behind the headers */
  int round, rounds;         /* the number of headers that have come, and of those that must */
  const situ__comm_way *way; /* of the values: host memory, or that of a device */
  bool mixed;                /* some rank's values are elsewhere: those of all go through the host */
  bool simulated;            /* of a dry run: nothing is sent, and what arrives has a shape only */
  void *values;              /* that engine's request */
  int64_t begun;             /* elements that the engine has been given: those of a long call go in pieces */
  /* Direct or lent: what is sent, and a tensor of its own for what arrives; owned. transfer has their addresses. */
  situ_tensor *source, *target;
};

struct situ_comm {
  uint32_t head;
  int32_t refs; /* the program's, until situ_comm_free, and one for each request */
  situ__alone alone;
  situ__comm_way host, direct; /* headers and host memory; memory of `device` (situ_comm_use_nccl) */
  situ__comm_way lent;         /* the host's engine, for values that are in tensors of the cpu and stay there */
  const situ_comm_device_engine *device_engine;
  situ_device device;
  int rank, size;
  int node; /* ranks of a node that are a sub-tree of all: a power of two; 1: not known */
  double deadline;
  int64_t number, posted;           /* collectives opened; whose headers have been sent */
  situ__peer *peers;                /* per rank; its own is unused */
  uint64_t pass;                    /* the number of passes over headers and calls, from 1 on */
  int looked_at;                    /* the peer that the next pass looks at first, of those that no call waits for */
  int64_t pairs;                    /* headers of SEND and RECEIVE in all inboxes */
  situ_comm_request *first, **last; /* calls that have begun, in order, until they end */
  bool held;                        /* a backward exchanges gradients: calls of the program would be out of order */
  bool rehearses;                   /* a double for dry runs, of which nothing leaves this rank */
  uint64_t sent, received;          /* bytes of values, of all calls so far */
  bool divides;                     /* a model is divided over its ranks, which have different values */
  situ__comm_header *words;         /* of the first rank that has given up, until this one does; borrowed of a peer */
  int speaker;                      /* that rank */
  int64_t owed;                     /* the last collective that has ended on a rank that has given up */
  situ_status failed;               /* SITU_OK, or why it refuses calls */
  int culprit;
  char text[SITU__COMM_TEXT]; /* of that failure */
};

static inline bool situ__comm_is_direct(const situ_comm_request *r) { return r->way == &r->comm->direct; }
static inline bool situ__comm_has_tensors(const situ_comm_request *r) { return r->way != &r->comm->host; }
static inline bool situ__comm_given(const char *op, const situ_comm *c) {
  return situ__valid(op, "comm", c, SITU__A_COMM);
}
static inline bool situ__comm_is_pair(situ_comm_op op) { return op == SITU_COMM_SEND || op == SITU_COMM_RECEIVE; }
/* Whether its values are a block for each rank, or of each: these cannot go in pieces. */
static inline bool situ__comm_has_blocks(situ_comm_op op) {
  return op == SITU_COMM_REDUCE_SCATTER || op == SITU_COMM_ALL_GATHER || op == SITU_COMM_ALL_TO_ALL;
}

/* Its peers know the process that made it. Returns false after recording an error in a child of that. */
static inline bool situ__comm_is_here(const char *op) {
  if (!situ__forked()) return true;
  return situ__fail(SITU_E_STATE, op,
                    "this process is the child of a fork; communicators stayed in the parent (exec, or fork before the "
                    "first one is made)"),
         false;
}

/* For what needs ranks that have the same. Returns false after recording an error. */
static inline bool situ__comm_replicates(const char *op, const situ_comm *c) {
  if (!c->divides) return true;
  return situ__fail(SITU_E_STATE, op,
                    "situ_dist_tp_new has divided a model over this communicator: give a communicator of ranks that "
                    "have the same parts"),
         false;
}

/* `total` things are divided among ranks: the first one of a rank; that of rank `size` is the total. */
static inline int64_t situ__dist_first(int64_t total, int rank, int size) {
  return total / size * rank + total % size * rank / size;
}
/* They are dealt out in turn, as far as their number matters: of the next `count` things behind `before` the first one
   of a rank; that of rank `size` is `count`. Each rank has as many of all as of one such lot, to a thing. */
static inline int64_t situ__dist_dealt(int64_t before, int64_t count, int rank, int size) {
  const int64_t all = before + count, most = all % size, least = before % size;
  return (all / size - before / size) * rank + (most < rank ? most : rank) - (least < rank ? least : rank);
}

/* ---- headers (header.c) ---- */

enum { SITU__COMM_MAGIC = 0x53430003 };
/* Compares a peer's header with this rank's. Returns true if both are of one call, else false with `text` filled. */
bool situ__comm_match(const situ__comm_header *mine, const situ__comm_header *its, int rank, int peer,
                      char text[SITU__COMM_TEXT]);
/* Writes "all_reduce "loss" (call 3, step 7)". */
const char *situ__comm_call_text(const situ__comm_header *h, char text[SITU__COMM_NAME * 3]);

/* ---- progress (progress.c) ---- */

/* Begins to wait for the next header of each peer. Returns false after recording an error. */
bool situ__comm_listen(const char *op, situ_comm *c);
/* Sends this call's header, and puts the call last. On error the communicator has failed. */
void situ__comm_post(situ_comm *c, situ_comm_request *r);
/* One pass over headers and calls, without waiting. */
void situ__comm_progress(situ_comm *c);
/* Waits until r is done or has failed. */
void situ__comm_await(situ_comm *c, situ_comm_request *r);
/* Waits until all ranks have come to r, and its values are on their way: work that is queued later runs beside them. */
void situ__comm_await_begun(situ_comm *c, situ_comm_request *r);
/* The communicator fails: all calls end, and the other ranks are told. culprit: -1 if unknown. Not in a dry run. */
void situ__comm_fail(situ_comm *c, situ_status status, int culprit, const char *fmt, ...) SITU_PRINTF(4, 5);
/* Records why the communicator has failed. */
situ_status situ__comm_failure(const char *op, const situ_comm *c);

/* ---- calls whose memory the library fills in itself (comm.c) ---- */

/* A request with memory for call.count elements, whose call.send and .receive are not used. NULL after recording. */
situ_comm_request *situ__comm_open(const char *op, situ_comm *c, const situ_comm_call *call);
/* In a dry run: the same checks, and a request that has ended. Nothing is sent, counted or received, and it has no
   memory. situ__comm_open and situ__comm_open_for are refused in a dry run, but of a rehearsal: there requests have
   memory, which is not written, and all that follows gives shapes. */
situ_comm_request *situ__comm_simulate(const char *op, situ_comm *c, const situ_comm_call *call);
/* The double of a communicator for dry runs. The caller frees it (situ_comm_free). NULL after recording an error. */
situ_comm *situ__comm_rehearsal(const char *op, const situ_comm *c);
/* The memory that is sent, and that values arrive in: NULL where the op has none. */
static inline void *situ__comm_outgoing(situ_comm_request *r) { return (void *)(uintptr_t)r->transfer.send; }
static inline void *situ__comm_arrived(situ_comm_request *r) { return r->transfer.receive; }
/* Waits for it. Returns false after recording an error; in both cases the request lives on. */
bool situ__comm_finish(const char *op, situ_comm_request *r);
/* NULL is fine. */
void situ__comm_close(situ_comm_request *r);

/* ---- calls whose values are tensors (direct.c) ---- */

/* The way for the values of a call on this device: its engine, or host memory. For those of t, which stays as
   it is until the call ends: these two, or lent. */
const situ__comm_way *situ__comm_way_on(const situ_comm *c, const situ_comm_call *call, situ_device device);
const situ__comm_way *situ__comm_way_of(const situ_comm *c, const situ_comm_call *call, const situ_tensor *t);
/* situ__comm_open for that way. */
situ_comm_request *situ__comm_open_for(const char *op, situ_comm *c, const situ_comm_call *call,
                                       const situ__comm_way *way);
/* The same, an ALL_TO_ALL among the ranks of this node (node of them), or those at this rank's place of all nodes
   (size / node). All ranks make such a call together. */
situ_comm_request *situ__comm_open_among(const char *op, situ_comm *c, const situ_comm_call *call,
                                         const situ__comm_way *way, situ__comm_group group);
/* The direct way, and what is lent: the memory that values arrive in. Returns false after recording an error. */
bool situ__comm_make_target(situ_comm_request *r);
/* Frees the mark of a call that has not begun. */
void situ__comm_forget_mark(situ_comm_request *r);
/* The engine may still read and write: their memory is not freed any more, and a move of it is refused. */
void situ__comm_leave_tensors(situ_comm_request *r);
/* The values go through the host after all. Returns false after recording an error. */
bool situ__comm_leave_device(situ_comm_request *r);
/* Gives the request t's values to send: copies them to the host, or keeps t, or a contiguous copy of it, where it is.
   Returns false after recording an error, as all that follow. */
bool situ__comm_fill(situ_comm_request *r, situ_tensor *t);
/* The same piece by piece: all zeros at first (without it, undefined), then t's values from element `at` on. */
bool situ__comm_clear(situ_comm_request *r);
bool situ__comm_put(situ_comm_request *r, int64_t at, situ_tensor *t);
/* The same with these strides, of which the last is 1. NULL: an error has been recorded. */
bool situ__comm_put_strided(situ_comm_request *r, int64_t at, situ_shape strides, situ_tensor *t);
/* The values that have arrived, from element `at` on: a 1-D tensor on their own memory, of the host or of the device,
   which lives as long as the request; and a tensor of this shape on a device, with memory of its own. */
situ_tensor *situ__comm_part(const situ_comm_request *r, int64_t at, int64_t count);
situ_tensor *situ__comm_result(const situ_comm_request *r, int64_t at, situ_shape shape, situ_device device);
/* Writes the values that have arrived, from element `at` on, into t. */
bool situ__comm_write(const situ_comm_request *r, int64_t at, situ_tensor *t);
/* Into the rows of t, from places that are `stride` elements apart. NULL: an error has been recorded. */
bool situ__comm_write_rows(const situ_comm_request *r, int64_t at, int64_t stride, situ_tensor *t);

/* The sum of all ranks' t, in the engine's order, in a new tensor. NULL after recording an error. */
situ_tensor *situ__comm_sum(const char *op, situ_comm *c, situ_tensor *t, const char *name);
/* A call of the library for these values; op names it in messages. */
situ_status situ__comm_call(const char *op, situ_comm *c, const situ_comm_call *call);
/* All ranks' `bytes` bytes, one behind the other. */
bool situ__comm_gather(const char *op, situ_comm *c, const char *name, int64_t step, const void *mine, void *all,
                       size_t bytes);
enum { SITU__COMM_WORDS = 256 }; /* of a rank's error that the others hear */
/* Tells all ranks whether this one is ready; `words`: why it is not, NULL: it is. Returns whether all are; else it has
   recorded, as `status`, the words of the first that is not, but on ranks with words of their own. A collective call,
   without memory that one rank alone could lack. */
bool situ__comm_all_ready(const char *op, situ_comm *c, const char *words, situ_status status);

/* Whether a path matches a pattern, in which '*' is any one part of the path. */
bool situ__dist_path_matches(const char *pattern, const char *path);

#endif
