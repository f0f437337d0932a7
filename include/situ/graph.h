/* Graphs: a stretch of work that is recorded while it runs, and run again by one call.
   Threads: recording is the thread's own; a graph that another thread replays is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_GRAPH_H
#define SITU_GRAPH_H

#include "device.h"

SITU_BEGIN

/** What a thread asked of one device between situ_graph_capture_begin and situ_graph_capture_end: which functions of which
    memory, in which order (torch.cuda.CUDAGraph; here on every device). A replay spends nothing on checks, on gradients'
    records, on allocation; on CUDA the whole is one launch.

    A graph works on the memory that it was recorded with, and keeps it: inputs are written into the tensors that were
    inputs then (situ_copy_), results are read from those that were results. A tensor that moved to another device or
    other memory since is an error of the replay. Used by one thread at a time. */
typedef struct situ_graph situ_graph;

/** From now on what this thread asks of `device` runs as always and is recorded too. Until the end these are errors
    (SITU_E_STATE), as a replay could not repeat them: work on another device, copies between devices and reads of values by
    the host, moves and casts of modules, random numbers (dropout in training), steps of an optimiser (its step count and
    learning rate are the host's). The backward pass is none. */
SITU_API SITU_CHECKED situ_status situ_graph_capture_begin(situ_device device);
/** Ends the recording of this thread. The graph is the caller's: situ_graph_free. NULL: an error happened since the
    beginning, nothing was asked of the device (SITU_E_STATE), or it could not make a graph of it; nothing is kept then. */
SITU_API situ_graph *situ_graph_capture_end(void);
/** Queues all of it again; what it writes counts as written. On error nothing was queued, unless the device itself failed. */
SITU_API SITU_CHECKED situ_status situ_graph_replay(situ_graph *graph);
/** How many pieces of work it has; 0 for NULL. */
SITU_API size_t situ_graph_length(const situ_graph *graph);
/** Lets go of its memory. What is queued is done first. NULL is fine. */
SITU_API void situ_graph_free(situ_graph *graph);

SITU_END
#endif
