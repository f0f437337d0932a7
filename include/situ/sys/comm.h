/* The engine behind a communicator: for those who write one. situ/mpi.h is an example.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_COMM_H
#define SITU_SYS_COMM_H

#include "../comm.h"
#include "../error.h"

SITU_BEGIN

/** What an engine is asked to carry. The library has checked it, and has compared it across ranks. */
typedef struct situ_comm_transfer {
  situ_comm_op op; /**< not BARRIER, which the library makes of SEND and RECEIVE */
  situ_comm_reduction reduction;
  situ_dtype dtype;
  int64_t count;    /**< as in situ_comm_call; a RECEIVE may get fewer elements */
  const void *send; /**< both belong to the library, stay valid until the transfer ends, and do not overlap */
  void *receive;
  int peer;
  /** ALL_TO_ALL: among `members` ranks: first, first + apart, ... All, or with .node_size those of a node, or those at
      one place of all nodes. An engine that cannot returns SITU_E_UNSUPPORTED. */
  int members, first, apart;
  int tag;      /**< SEND, RECEIVE: transfers match by ranks and tag, in the order in which they begin */
  void *behind; /**< of a device's memory: a mark, which `begin` owns, also on error; NULL: all work that it has */
} situ_comm_transfer;

/** Why a slot failed. */
typedef struct situ_comm_report {
  int rank;       /**< the rank that is lost; -1: unknown */
  char text[160]; /**< the engine's words */
} situ_comm_report;

/** All functions are required. They run on the thread that uses the communicator, and must not wait. */
typedef struct situ_comm_engine {
  const char *name; /**< "mpi": for messages; static text */
  /** Begins a transfer and sets *request, which is not NULL. All ranks begin their collectives in one order. On error
      fills *report and returns SITU_E_COMM, or SITU_E_UNSUPPORTED for a dtype or SITU_E_LIMIT for a size that the
      engine cannot carry, or SITU_E_NOMEM. */
  situ_status (*begin)(void *state, const situ_comm_transfer *transfer, void **request, situ_comm_report *report);
  /** Lets transfers progress. Sets *done when this one has ended, and frees the request then and on error. */
  situ_status (*test)(void *state, void *request, bool *done, situ_comm_report *report);
  /** Gives up a transfer and frees the request. Returns false if its memory may still be read or written: the library
      then never frees it. */
  bool (*abandon)(void *state, void *request);
  /** Frees the engine's state. failed: transfers may have been abandoned. */
  void (*release)(void *state, bool failed);
  /** Elements that one transfer can have (`count`); 0 or less: any number. Longer SEND, RECEIVE, BROADCAST and
      ALL_REDUCE are several transfers, one behind the other; other calls are refused (SITU_E_LIMIT). */
  int64_t most;
} situ_comm_engine;

/** Options of situ_comm_new; NULL or {0}: defaults. */
typedef struct situ_comm_options {
  double deadline; /**< seconds that one wait may take; 0: 60 */
  int node_size;   /**< ranks of each node, torchrun's LOCAL_WORLD_SIZE: gradients are added in a node before their sum
                      leaves it. Ranks must be numbered node by node. 0: situ_comm_mpi asks MPI, else as 1 */
} situ_comm_options;

/** A communicator over an engine (borrowed: static), whose state it owns from now on, also if the call fails. NULL on
    error. */
SITU_API situ_comm *situ_comm_new(const situ_comm_engine *engine, void *state, int rank, int size,
                                  const situ_comm_options *options);
/** For an engine that cannot be made: records the error. Returns NULL. */
SITU_API situ_comm *situ_comm_refuse(situ_status status, const char *engine, const char *why);

SITU_END
#endif
