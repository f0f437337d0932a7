/* Ranks on paper: a cuda:0 that has no memory and computes nothing, and a network that carries no values, with a clock
   for each rank. So the library's own code runs at any size, message by message; only the time is made up.

   Each rank is a thread, of which one runs at a time. Its host has a clock, its device a second and its network stream a third: a kernel is queued
   on the device, a transfer of device memory on the stream behind what the device has so far, and a message of the host
   (a header) leaves at once. Where a rank waits, its host's clock goes on to what it waits for.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_PAPER_H
#define SITU_TESTS_SUPPORT_PAPER_H

#include "situ/sys/comm.h"

/* Allocations of at most so many bytes have memory, and kernels on such operands alone are computed: flags, counters,
   numbers of ranks. */
enum { PAPER_REAL = 8192 };

/* Of a rank's device, and of its link to each other rank; seconds and units a second. Of a rank that is in a node: its
   link to other nodes, and that to its own. */
typedef struct paper_costs {
  double latency, bandwidth;    /* of a message; bytes */
  double launch, memory, flops; /* the host's time for a kernel; bytes that one reads and writes; products */
  int node;                     /* ranks of a node, numbered one behind the other; 0: all links are alike */
  double near_latency, near_bandwidth;
} paper_costs;

/* What a rank has done so far. */
typedef struct paper_count {
  int64_t headers, header_bytes; /* messages of the host to one rank: what the library says of a call */
  int64_t values, value_bytes;   /* and what the call carries */
  int64_t calls, call_bytes;     /* collectives, of the host and of the device; bytes that it gave to them */
  int64_t kernels;
  double time, device, network;   /* clocks: the host's; when the device and the stream will have done all they have */
  double computing, transferring; /* what of that they have been at work */
  double edge_bytes;              /* of collectives of the device: what it sends to other nodes */
} paper_count;

typedef struct paper_world paper_world;

paper_world *paper_world_new(int size, const paper_costs *costs);
/* When all ranks have left. */
void paper_world_free(paper_world *w);
/* The calling thread is this rank from now on; it waits for its turn. Until it leaves nothing else may hold it up. */
void paper_enter(paper_world *w, int rank);
void paper_leave(void);
/* The state of an engine: of the communicator of `size` ranks with this number, all of which come to it. */
void *paper_join(int id, int rank, int size);
extern const situ_comm_engine paper_network;
/* Of the calling thread's rank. */
paper_count paper_now(void);

/* ---- between the network and the device ---- */

/* The library's own functions are out of a module's reach. */
static inline size_t paper_size(situ_dtype dtype) {
  return dtype <= SITU_I8                                               ? 1
         : dtype == SITU_I16 || dtype == SITU_F16 || dtype == SITU_BF16 ? 2
         : dtype == SITU_I32 || dtype == SITU_F32                       ? 4
                                                                        : 8;
}

typedef struct paper_rank paper_rank;
extern _Thread_local paper_rank *paper_me; /* NULL: a thread that is no rank; its kernels take no time */
/* A kernel has been queued that reads and writes so many bytes and multiplies so often. */
void paper_compute(double bytes, double flops);
/* The host waits for the device. */
void paper_wait(void);
/* Whether an address is of memory that is there. */
bool paper_is_real(const void *data);

#endif
