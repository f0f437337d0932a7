/* Graphs: work captured while it runs, and replayed by one call.
   Threads: capture is per thread; a graph that another thread is replaying is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_GRAPH_H
#define SITU_GRAPH_H

#include "tensor.h"

SITU_BEGIN

/** The work that a thread launched on one device between situ_graph_capture_begin and situ_graph_capture_end: kernels,
    their memory, their order (torch.cuda.CUDAGraph; here on every device). A replay skips checks, recording for
    backward and allocation; on CUDA it is a single launch.

    A graph uses the memory that it was captured with, and keeps it alive: write new inputs into the tensors that were
    inputs then (situ_copy_), read results from those that were results. If one of its tensors has moved to another
    device or other memory since, the replay fails. Used by one thread at a time. */
typedef struct situ_graph situ_graph;

/** Starts capture: work of this thread on `device` runs as always and is captured too. A whole training step can be
    captured:
    - random numbers (dropout) are drawn anew by each replay, from the generators that they were drawn from, which must
      outlive the graph, and are those that the calls would have drawn next;
    - situ_backward adds to the .grad of before the capture, in its memory, and makes one anew at each replay where
      there was none. Between replays fill gradients with zeros: a replay whose gradients were dropped is an error;
    - situ_optim_step reads hyperparameters and counts steps at each replay; state that a first step makes is not
      captured. Not those of Adafactor, Muon and LBFGS, which are made of ops;
    - a gradient scaler, which must outlive the graph, reads its scale, skips the step and updates as its calls would.
      The captured step must be one whose gradients are finite.
    Until the end these are errors (SITU_E_STATE), because a replay could not repeat them: work on another device,
    copies between devices, reads of values by the host, moves and casts of modules, seeding a generator. */
SITU_API SITU_CHECKED situ_status situ_graph_capture_begin(situ_device device);
/** Whether this thread captures a graph (torch.cuda.is_current_stream_capturing). */
SITU_API bool situ_graph_is_capturing(void);
/** Ends capture. Memory that the program does not hold any more is the graph's alone: what is not needed at the same
    time shares it, so end inner scopes before. Until a replay writes a result, it may use its memory for that as well.
    Copies may be left out, and cheap work done again where that saves memory; on the CPU, element-wise work that
    follows each other runs as one. Bits are those of the calls. The caller frees the graph: situ_graph_free. NULL if
    an error happened since the begin, if no work was launched (SITU_E_STATE), or if the device could not make the
    graph; nothing is kept then. */
SITU_API situ_graph *situ_graph_capture_end(void);
/** Queues the captured work again; its outputs count as written. On error nothing was queued, unless the device failed:
    then what the graph writes holds no values that mean anything. */
SITU_API SITU_CHECKED situ_status situ_graph_replay(situ_graph *graph);
/** Other inputs and outputs: from the next replay on, what the graph does with the memory of captured[i] it does with
    that of bound[i], as onnxruntime's IO binding. captured[i] is a tensor of the program that the captured work read or
    wrote, and stays the name of the place: bind it to itself to go back. bound[i] has its shape, strides, dtype and
    device (SITU_E_SHAPE, _DTYPE, _DEVICE), and the graph uses its memory as another tensor's only if it writes neither
    (SITU_E_ALIAS). All are rebound, or none. The graph keeps both alive. Only the first call for a place allocates;
    where the backend makes one launch of a graph (CUDA), the next replay makes it anew. An output that is to be rebound
    is best made before the capture: situ_nn_forward_into, situ_copy_. */
SITU_API SITU_CHECKED situ_status situ_graph_rebind(situ_graph *graph, situ_tensor *const *captured,
                                                    situ_tensor *const *bound, int count);
/** Number of launches in it, which can differ from the number of calls' launches; 0 for NULL. */
SITU_API size_t situ_graph_length(const situ_graph *graph);
/** Frees the graph after its queued work is done. NULL is fine. */
SITU_API void situ_graph_free(situ_graph *graph);

SITU_END
#endif
