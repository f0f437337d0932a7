/* The engine of a backend that carries its devices' memory between ranks (NCCL): a communicator has it beside its own.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_COMM_DEVICE_H
#define SITU_SYS_COMM_DEVICE_H

#include "comm.h"

SITU_BEGIN

#define SITU_COMM_ID 128

/** What a module exports beside its backend, if it can. All slots are required. */
typedef struct situ_comm_device_engine {
  size_t size; /**< sizeof(situ_comm_device_engine) it was compiled with */
  /** send and receive of its transfers are addresses on the device that was joined. Transfers are queued behind their
      mark; `test` says when their values are there for whatever is queued later. The first one ends when all ranks have
      joined. */
  situ_comm_engine engine;
  /** Sets *mark, which is not NULL, to the work that the device has so far. A transfer begins when all ranks have come
      to it, and by then the host may have queued much more, which it need not wait for. On error as `begin`. */
  situ_status (*mark)(void *state, void **mark, situ_comm_report *report);
  /** Frees a mark that no transfer has got. */
  void (*forget)(void *state, void *mark);
  /** Whether it has this dtype for this op. */
  bool (*carries)(situ_comm_op op, situ_dtype dtype);
  /** On one rank: writes what the ranks find each other by. On error it has been recorded. */
  situ_status (*identify)(int index, unsigned char id[SITU_COMM_ID]);
  /** Begins to join the ranks with this id, without waiting for them. On error it has been recorded. */
  situ_status (*join)(int index, const unsigned char id[SITU_COMM_ID], int rank, int size, void **state);
} situ_comm_device_engine;

/** The optional export of a module (situ/sys/module.h). */
extern SITU_API const situ_comm_device_engine situ_module_comm_engine;

/** The engine for a device's memory; NULL after recording an error (SITU_E_UNSUPPORTED: it has none). */
SITU_API const situ_comm_device_engine *situ_comm_device_engine_of(situ_device device);

SITU_END
#endif
