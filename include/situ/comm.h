/* Communicators: the ranks of a program that runs as several processes (torch.distributed).
   Threads: one thread at a time may use a communicator; a second one is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_COMM_H
#define SITU_COMM_H

#include "tensor.h"

SITU_BEGIN

/** A handle over an engine that carries bytes between ranks: MPI (situ/mpi.h), or threads (situ/sys/comm_sim.h). Before
    each call the ranks that take part exchange a header (op, dtype, count, root, name, step); if these differ, every
    rank is refused by name (SITU_E_COMM) and nothing has been transferred. After the first failure a communicator
    refuses all further calls: the ranks may not be at the same call any more. In a check (situ_place_check) calls are
    checked and nothing is sent: tensors have their shapes, and values in host memory are refused. */
typedef struct situ_comm situ_comm;

typedef enum situ_comm_op {
  SITU_COMM_ALL_REDUCE = 0, /**< receive[count] = the reduction of all ranks' send[count], in the engine's order */
  SITU_COMM_REDUCE_SCATTER, /**< receive[count] = this rank's block of the reduction of all send[size * count] */
  SITU_COMM_ALL_GATHER,     /**< receive[size * count] = all ranks' send[count], in the order of the ranks */
  SITU_COMM_BROADCAST,      /**< receive[count] = send[count] of rank `peer` */
  SITU_COMM_ALL_TO_ALL,     /**< block r of receive[size * count] = rank r's block for this rank */
  SITU_COMM_SEND,           /**< send[count] to rank `peer`, which calls RECEIVE */
  SITU_COMM_RECEIVE,        /**< receive[count] from rank `peer` */
  SITU_COMM_BARRIER         /**< no values: returns when all ranks have called it */
} situ_comm_op;
/** "all_reduce", "barrier", ...; "?" for an invalid value. Static text. */
SITU_API const char *situ_comm_op_name(situ_comm_op op);

typedef enum situ_comm_reduction { SITU_COMM_SUM = 0, SITU_COMM_MIN, SITU_COMM_MAX } situ_comm_reduction;

/** One call. Values are in host memory, in row-major order. */
typedef struct situ_comm_call {
  situ_comm_op op;
  situ_comm_reduction reduction; /**< ALL_REDUCE, REDUCE_SCATTER; not of f16, bf16 and bool (SITU_E_UNSUPPORTED) */
  situ_dtype dtype;              /**< SITU_DTYPE_DEFAULT: f32 */
  int64_t count;                 /**< elements; see situ_comm_op */
  const void *send;              /**< NULL where the op has none; copied by situ_comm_begin */
  void *receive;                 /**< NULL where the op has none; written by situ_comm_wait */
  int peer;                      /**< BROADCAST: the root; SEND, RECEIVE: the other rank */
  const char *name;              /**< what is transferred, for messages; compared. Copied, cut at 63 bytes; NULL: "" */
  int64_t step;                  /**< of the training, for messages; compared */
} situ_comm_call;

/** A call that has begun. */
typedef struct situ_comm_request situ_comm_request;

/** This rank, 0..size - 1; -1 on error. */
SITU_API int situ_comm_rank(const situ_comm *comm);
/** Number of ranks; -1 on error. */
SITU_API int situ_comm_size(const situ_comm *comm);
/** Bytes of values that this rank has given to calls so far, and has asked for: headers, which all calls have, are not
    counted. What a step will come to is in the report of a check (situ_place_report.exchanges). */
SITU_API SITU_CHECKED situ_status situ_comm_traffic(const situ_comm *comm, uint64_t *sent, uint64_t *received);

/** Begins a call, and returns at once: *request ends with situ_comm_wait. Calls of different ranks match in the order
    in which they begin. They progress whenever this rank is in a call of this communicator. */
SITU_API SITU_CHECKED situ_status situ_comm_begin(situ_comm *comm, const situ_comm_call *call,
                                                  situ_comm_request **request);
/** Lets calls progress, and says whether this one is done, or has failed: situ_comm_wait then returns at once. */
SITU_API SITU_CHECKED situ_status situ_comm_test(situ_comm_request *request, bool *done);
/** Waits for a call, writes call.receive and frees the request, also on error. SITU_E_COMM: ranks disagree, or one was
    lost or gave up; SITU_E_TIMEOUT: the deadline of the communicator passed in this wait. Both name the rank, the op,
    call.name and call.step, and .receive is as it was. */
SITU_API SITU_CHECKED situ_status situ_comm_wait(situ_comm_request *request);
/** situ_comm_begin and situ_comm_wait. */
SITU_API SITU_CHECKED situ_status situ_comm_run(situ_comm *comm, const situ_comm_call *call);

/* The same for tensors on any device, staged through host memory; those of the cpu are sent from where they are, and if
   an engine cannot take such a transfer back after a failure, the memory stays there for ever: moves of that tensor are
   refused. name: for messages; may be NULL. On error no tensor has changed. */
/** torch.distributed.all_reduce, in place. A result's last bits may depend on the number of ranks. */
SITU_API SITU_CHECKED situ_status situ_comm_all_reduce(situ_comm *comm, situ_tensor *t, situ_comm_reduction reduction,
                                                       const char *name);
/** torch.distributed.broadcast, in place: t gets the values of rank `root`. */
SITU_API SITU_CHECKED situ_status situ_comm_broadcast(situ_comm *comm, situ_tensor *t, int root, const char *name);
/** torch.distributed.all_gather_into_tensor: [size, ...t] on t's device; the scope owns it. NULL on error. */
SITU_API SITU_CHECKED situ_tensor *situ_comm_all_gather(situ_comm *comm, situ_tensor *t, const char *name);
/** torch.distributed.reduce_scatter_tensor: t is [size, ...]; the result [...] is this rank's block of the reduction,
    on t's device; the scope owns it. NULL on error. */
SITU_API SITU_CHECKED situ_tensor *situ_comm_reduce_scatter(situ_comm *comm, situ_tensor *t,
                                                            situ_comm_reduction reduction, const char *name);
/** torch.distributed.all_to_all_single: t is [size, ...], block r is for rank r; the result, of t's shape, has rank r's
    block at r. The scope owns it. NULL on error. */
SITU_API SITU_CHECKED situ_tensor *situ_comm_all_to_all(situ_comm *comm, situ_tensor *t, const char *name);
/** torch.distributed.send: returns when rank `peer` has called situ_comm_receive. */
SITU_API SITU_CHECKED situ_status situ_comm_send(situ_comm *comm, situ_tensor *t, int peer, const char *name);
/** torch.distributed.recv, in place: dtype and number of elements are compared with the sender's. */
SITU_API SITU_CHECKED situ_status situ_comm_receive(situ_comm *comm, situ_tensor *t, int peer, const char *name);
/** torch.distributed.barrier. */
SITU_API SITU_CHECKED situ_status situ_comm_barrier(situ_comm *comm, const char *name);

/** Tells all other ranks that this one gives up, and why (copied, cut at 159 bytes; NULL: no reason): their calls end
    with SITU_E_COMM and this text. The communicator refuses calls from now on. Call it when a rank cannot go on, so
    that the others need not wait for their deadline. */
SITU_API void situ_comm_abort(situ_comm *comm, const char *why);
/** Frees the communicator; requests that are left fail. NULL is fine. */
SITU_API void situ_comm_free(situ_comm *comm);

SITU_END
#endif
