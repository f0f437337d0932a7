/* NCCL beside a communicator's own engine: memory of a CUDA device goes from rank to rank without the host (torch's
   init_process_group("cpu:mpi,cuda:nccl")). The library links no NCCL: the cuda module opens libnccl.so.2 at run time.
   SPDX-License-Identifier: MIT */
#ifndef SITU_NCCL_H
#define SITU_NCCL_H

#include "comm.h"

SITU_BEGIN

/** Gives `comm` NCCL for the memory of `device` ("cuda:0"): each rank is a process with a GPU of its own. A collective
    call: rank 0's id goes to all ranks over comm's own engine, and a trial shows that values arrive. From then on all
    collectives, sends and receives of tensors on that device are carried by NCCL, on a stream of their own behind the
    work that is queued; nothing is copied through the host. All else stays as it was: headers, deadlines, abort and
    calls of host memory go through comm's own engine, as do reductions of i16, which NCCL does not have, and calls in
    which the tensor of any rank is elsewhere.

    SITU_E_UNSUPPORTED: the device is not of CUDA, or NCCL 2.14 or later cannot be opened: the message says what is
    missing, and where it was looked for. SITU_E_STATE: comm has NCCL already, or has calls on their way. When one rank
    has such an error, the others return SITU_E_COMM with its words, and comm is as before on all. SITU_E_TIMEOUT, or
    SITU_E_COMM with NCCL's words: the ranks were not connected within comm's deadline, and comm has failed. */
SITU_API SITU_CHECKED situ_status situ_comm_use_nccl(situ_comm *comm, situ_device device);

SITU_END
#endif
