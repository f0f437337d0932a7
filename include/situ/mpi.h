/* Communicators over MPI. Header-only: your own mpicc compiles it into your program, so one libsitu serves every MPI.

     #include <mpi.h>
     #include <situ/mpi.h>

     MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
     situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
     ...
     situ_comm_free(comm);
     MPI_Finalize();

   It calls MPI_Comm_dup on the communicator that it is given, and works on that one alone; it never initialises or ends
   MPI. Behind a failure MPI_Finalize may wait for a rank that is lost: end such a program by _Exit.
   Threads: MPI_THREAD_FUNNELED if the main thread alone uses the communicator, else MPI_THREAD_SERIALIZED (MULTIPLE if
   the program's other threads call MPI meanwhile).
   SPDX-License-Identifier: MIT */
#ifndef SITU_MPI_H
#define SITU_MPI_H

#include <limits.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "sys/comm.h"

SITU_BEGIN

/* Elements in one transfer. */
#ifndef SITU_MPI_MOST
#define SITU_MPI_MOST INT_MAX
#endif

/* One transfer, and the engine's state. */
typedef struct situ_mpi_request {
  MPI_Request request[2]; /* [1]: of an all_reduce of two ranks */
  situ_comm_op op;
  bool adds;              /* such an all_reduce, whose first halves are on their way */
  situ_comm_transfer sum; /* of that */
} situ_mpi_request;
typedef struct situ_mpi_state {
  MPI_Comm comm, node, across; /* the last two: of this node's ranks, of those at its place; MPI_COMM_NULL: not used */
  int rank, size;
  int sums;                /* all_reduces of two ranks so far, modulo SITU_MPI_SUMS */
  situ_mpi_request *spare; /* of a transfer that has ended; NULL: none */
} situ_mpi_state;

/* MPI_SUCCESS is SITU_OK, all else SITU_E_COMM with MPI's words. */
static inline situ_status situ_mpi_status(int code, situ_comm_report *report) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (code == MPI_SUCCESS) return SITU_OK;
  report->rank = -1;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) length = 0;
  text[length] = 0;
  (void)snprintf(report->text, sizeof report->text, "MPI: %.150s", text);
  return SITU_E_COMM;
}

/* MPI's type of a dtype; bool and 16-bit floats, which are only moved, go as integers. */
static inline MPI_Datatype situ_mpi_type(situ_dtype dtype) {
  switch (dtype) {
  case SITU_I8: return MPI_INT8_T;
  case SITU_I16:
  case SITU_F16:
  case SITU_BF16: return MPI_INT16_T;
  case SITU_I32: return MPI_INT32_T;
  case SITU_I64: return MPI_INT64_T;
  case SITU_F32: return MPI_FLOAT;
  case SITU_F64: return MPI_DOUBLE;
  default: return MPI_UINT8_T;
  }
}

static inline MPI_Op situ_mpi_op(situ_comm_reduction reduction) {
  return reduction == SITU_COMM_MIN ? MPI_MIN : reduction == SITU_COMM_MAX ? MPI_MAX : MPI_SUM;
}

/* Two ranks give each other a half of their values, add, and give each other the sums: MPI_Iallreduce of Open MPI takes
   twice the time of MPI_Allreduce. An element is added on one rank, in the order of the ranks or the other one. */
enum { SITU_MPI_SUMS = 1 << 14 }; /* tags from here to the largest that every MPI has: one for each sum under way */

static inline char *situ_mpi_half(const situ_comm_transfer *t, const void *values, int half, int *count) {
  const int64_t first = t->count / 2;
  *count = (int)(half ? t->count - first : first);
  return (char *)(uintptr_t)values + (half ? (size_t)first * situ_dtype_size(t->dtype) : 0);
}

/* Sends the other rank the half that it adds, or the sum that this one has made. */
static inline int situ_mpi_trade(const situ_mpi_state *s, situ_mpi_request *r) {
  const situ_comm_transfer *t = &r->sum;
  const MPI_Datatype type = situ_mpi_type(t->dtype);
  const int its = 1 - s->rank;
  int gives, takes;
  char *give = situ_mpi_half(t, r->adds ? t->send : t->receive, r->adds ? its : s->rank, &gives);
  char *take = situ_mpi_half(t, t->receive, r->adds ? s->rank : its, &takes);
  const int code = MPI_Irecv(take, takes, type, its, t->tag, s->comm, &r->request[0]);
  return code == MPI_SUCCESS ? MPI_Isend(give, gives, type, its, t->tag, s->comm, &r->request[1]) : code;
}

static inline int situ_mpi_start_sum(situ_mpi_state *s, const situ_comm_transfer *t, situ_mpi_request *r) {
  r->sum = *t;
  s->sums = (s->sums + 1) % SITU_MPI_SUMS;
  r->sum.tag = SITU_MPI_SUMS + s->sums;
  r->adds = true;
  return situ_mpi_trade(s, r);
}

static inline int situ_mpi_end_sum(const situ_mpi_state *s, situ_mpi_request *r) {
  const situ_comm_transfer *t = &r->sum;
  int count;
  const char *mine = situ_mpi_half(t, t->send, s->rank, &count);
  char *sum = situ_mpi_half(t, t->receive, s->rank, &count); /* now the other rank's values */
  const int code = MPI_Reduce_local(mine, sum, count, situ_mpi_type(t->dtype), situ_mpi_op(t->reduction));
  r->adds = false;
  return code == MPI_SUCCESS ? situ_mpi_trade(s, r) : code;
}

static inline int situ_mpi_start(situ_mpi_state *s, const situ_comm_transfer *t, situ_mpi_request *r) {
  const MPI_Datatype type = situ_mpi_type(t->dtype);
  const int n = (int)t->count;
  MPI_Request *request = &r->request[0];
  if (t->op == SITU_COMM_ALL_REDUCE && s->size == 2) return situ_mpi_start_sum(s, t, r);
  switch (t->op) {
  case SITU_COMM_ALL_REDUCE:
    return MPI_Iallreduce(t->send, t->receive, n, type, situ_mpi_op(t->reduction), s->comm, request);
  case SITU_COMM_REDUCE_SCATTER:
    return MPI_Ireduce_scatter_block(t->send, t->receive, n, type, situ_mpi_op(t->reduction), s->comm, request);
  case SITU_COMM_ALL_GATHER: return MPI_Iallgather(t->send, n, type, t->receive, n, type, s->comm, request);
  case SITU_COMM_ALL_TO_ALL:
    return MPI_Ialltoall(t->send, n, type, t->receive, n, type,
                         t->members == s->size ? s->comm
                         : t->apart == 1       ? s->node
                                               : s->across,
                         request);
  case SITU_COMM_BROADCAST: return MPI_Ibcast(t->receive, n, type, t->peer, s->comm, request);
  case SITU_COMM_SEND: return MPI_Isend(t->send, n, type, t->peer, t->tag, s->comm, request);
  default: return MPI_Irecv(t->receive, n, type, t->peer, t->tag, s->comm, request);
  }
}

static inline situ_status situ_mpi_begin(void *state, const situ_comm_transfer *t, void **request,
                                         situ_comm_report *report) {
  situ_mpi_state *s = (situ_mpi_state *)state;
  situ_mpi_request *r = s->spare ? s->spare : (situ_mpi_request *)malloc(sizeof *r);
  situ_status status;
  s->spare = NULL;
  report->rank = -1;
  if (!r || t->count > INT_MAX) { /* the second: values that NCCL was to carry */
    (void)snprintf(report->text, sizeof report->text,
                   r ? "MPI: %lld elements in one transfer, at most %d" : "no memory", (long long)t->count, INT_MAX);
    status = r ? SITU_E_LIMIT : SITU_E_NOMEM;
    free(r);
    return status;
  }
  r->op = t->op;
  r->adds = false;
  r->request[0] = r->request[1] = MPI_REQUEST_NULL;
  if (t->op == SITU_COMM_BROADCAST && t->send) { /* MPI has one buffer for it */
    const size_t bytes = (size_t)t->count * situ_dtype_size(t->dtype);
    for (size_t i = 0; i < bytes; i++) ((char *)t->receive)[i] = ((const char *)t->send)[i];
  }
  status = situ_mpi_status(situ_mpi_start(s, t, r), report);
  if (status == SITU_OK) *request = r;
  else free(r);
  return status;
}

static inline situ_status situ_mpi_test(void *state, void *request, bool *done, situ_comm_report *report) {
  situ_mpi_state *s = (situ_mpi_state *)state;
  situ_mpi_request *r = (situ_mpi_request *)request;
  int flag = 0, code = MPI_Test(&r->request[0], &flag, MPI_STATUS_IGNORE);
  situ_status status;
  if (code == MPI_SUCCESS && flag && r->request[1] != MPI_REQUEST_NULL)
    code = MPI_Test(&r->request[1], &flag, MPI_STATUS_IGNORE);
  if (code == MPI_SUCCESS && flag && r->adds) {
    code = situ_mpi_end_sum(s, r);
    flag = 0;
  }
  status = situ_mpi_status(code, report);
  *done = flag != 0;
  if (*done && !s->spare) s->spare = r;
  else if (*done || status != SITU_OK) free(r);
  return status;
}

/* A receive can be cancelled, which MPI says at once; a send and a collective cannot. */
static inline bool situ_mpi_abandon(void *state, void *request) {
  situ_mpi_request *r = (situ_mpi_request *)request;
  int flag = 0;
  (void)state;
  if (r->op == SITU_COMM_RECEIVE && MPI_Cancel(&r->request[0]) == MPI_SUCCESS)
    for (int i = 0; i < 1000 && !flag; i++)
      if (MPI_Test(&r->request[0], &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS) break;
  free(r);
  return flag != 0;
}

/* Behind a failure MPI_Comm_free could wait for a rank that is lost. */
static inline void situ_mpi_release(void *state, bool failed) {
  situ_mpi_state *s = (situ_mpi_state *)state;
  if (!failed && s->node != MPI_COMM_NULL) (void)MPI_Comm_free(&s->node);
  if (!failed && s->across != MPI_COMM_NULL) (void)MPI_Comm_free(&s->across);
  if (!failed) (void)MPI_Comm_free(&s->comm);
  free(s->spare);
  free(s);
}

/* NULL, or why MPI cannot be used by this thread. */
static inline const char *situ_mpi_objection(void) {
  int initialised = 0, finalised = 0, level = MPI_THREAD_SINGLE, is_main = 0;
  if (MPI_Initialized(&initialised) != MPI_SUCCESS || !initialised) return "call MPI_Init_thread first";
  if (MPI_Finalized(&finalised) != MPI_SUCCESS || finalised) return "MPI_Finalize was called already";
  if (MPI_Query_thread(&level) != MPI_SUCCESS || level < MPI_THREAD_FUNNELED)
    return "MPI_THREAD_FUNNELED is needed, because the library has threads of its own: call MPI_Init_thread";
  if (level == MPI_THREAD_FUNNELED && (MPI_Is_thread_main(&is_main) != MPI_SUCCESS || !is_main))
    return "with MPI_THREAD_FUNNELED only the main thread may use it: ask for MPI_THREAD_SERIALIZED";
  return NULL;
}

/* Asks for the ranks of a node: 1, if nodes have different numbers, or ranks are not numbered node by node. */
static inline int situ_mpi_ask_node(const situ_mpi_state *s, int *node_size) {
  MPI_Comm node;
  int size = 1, place = 0, mine[3], most[3];
  int code = MPI_Comm_split_type(s->comm, MPI_COMM_TYPE_SHARED, s->rank, MPI_INFO_NULL, &node);
  *node_size = 1;
  if (code != MPI_SUCCESS) return code;
  if ((code = MPI_Comm_size(node, &size)) == MPI_SUCCESS) code = MPI_Comm_rank(node, &place);
  (void)MPI_Comm_free(&node);
  if (code != MPI_SUCCESS) return code;
  mine[0] = size;
  mine[1] = -size;
  mine[2] = s->rank % size != place;
  code = MPI_Allreduce(mine, most, 3, MPI_INT, MPI_MAX, s->comm);
  if (code == MPI_SUCCESS && most[0] == -most[1] && !most[2]) *node_size = size;
  return code;
}

/* Communicators for the levels that situ_comm_new will make of this. */
static inline int situ_mpi_divide(situ_mpi_state *s, int *node_size) {
  int code = *node_size ? MPI_SUCCESS : situ_mpi_ask_node(s, node_size);
  const int n = *node_size & -*node_size;
  s->node = s->across = MPI_COMM_NULL;
  if (code != MPI_SUCCESS || n < 2 || n >= s->size || s->size % n) return code;
  code = MPI_Comm_split(s->comm, s->rank / n, s->rank, &s->node);
  return code == MPI_SUCCESS ? MPI_Comm_split(s->comm, s->rank % n, s->rank, &s->across) : code;
}

/** A communicator over the ranks of `comm`, of which it uses a duplicate. A collective call, with one .node_size on all
    ranks. MPI's values must have the same representation on all ranks. NULL on error: SITU_E_STATE if MPI has not
    been initialised, or gives this thread too little; SITU_E_COMM. */
static inline situ_comm *situ_comm_mpi(MPI_Comm comm, const situ_comm_options *options) {
  static const situ_comm_engine engine = {
    "mpi", situ_mpi_begin, situ_mpi_test, situ_mpi_abandon, situ_mpi_release, SITU_MPI_MOST
  };
  const char *objection = situ_mpi_objection();
  situ_mpi_state *s;
  situ_comm_options with;
  situ_comm_report report;
  if (objection) return situ_comm_refuse(SITU_E_STATE, "mpi", objection);
  s = (situ_mpi_state *)malloc(sizeof *s);
  if (!s) return situ_comm_refuse(SITU_E_NOMEM, "mpi", "no memory");
  with.deadline = options ? options->deadline : 0;
  with.node_size = options ? options->node_size : 0;
  s->sums = 0;
  s->spare = NULL;
  if (situ_mpi_status(MPI_Comm_dup(comm, &s->comm), &report) != SITU_OK ||
      situ_mpi_status(MPI_Comm_set_errhandler(s->comm, MPI_ERRORS_RETURN), &report) != SITU_OK ||
      situ_mpi_status(MPI_Comm_rank(s->comm, &s->rank), &report) != SITU_OK ||
      situ_mpi_status(MPI_Comm_size(s->comm, &s->size), &report) != SITU_OK ||
      situ_mpi_status(situ_mpi_divide(s, &with.node_size), &report) != SITU_OK) {
    free(s);
    return situ_comm_refuse(SITU_E_COMM, "mpi", report.text);
  }
  return situ_comm_new(&engine, s, s->rank, s->size, &with);
}

SITU_END
#endif
