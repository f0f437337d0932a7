/* CUDA graphs: queued ops are captured from the stream into one graph to launch.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

/* Keeps the device locked until the end, as other threads' ops would be captured, too. Relaxed: other CUDA calls of the
   program are not restricted. */
situ_status situ__cuda_graph_begin(int index) {
  const char *op = "graph_capture_end";
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, op, &status);
  if (!d) return status;
  if (!d->pool) /* a graph can capture allocations from a pool only */
    return situ__cuda_leave(d, situ__host->fail(SITU_E_UNSUPPORTED, op,
                                                "cuda:%d has no memory pools, and a graph's scratch must be of one",
                                                index));
  cudaError_t error = situ__cuda.StreamBeginCapture(d->stream, cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, op, "cudaStreamBeginCapture", error));
  d->captures = true;
  return SITU_OK; /* still entered */
}

situ_status situ__cuda_graph_end(int index, bool keep, void **graph) {
  const char *call = "cudaStreamEndCapture";
  situ__cuda_device *d = situ__cuda_entered(index);
  cudaGraph_t captured = NULL;
  cudaGraphExec_t full = NULL;
  cudaError_t error = situ__cuda.StreamEndCapture(d->stream, &captured);
  d->captures = false;
  if (error == cudaSuccess && keep) {
    call = "cudaGraphInstantiate";
    error = situ__cuda.GraphInstantiate(&full, captured, 0);
  }
  const cudaError_t freed = captured ? situ__cuda.GraphDestroy(captured) : cudaSuccess;
  if (freed != cudaSuccess) situ__cuda_lose(d, "cudaGraphDestroy", freed);
  *graph = full;
  if (error == cudaSuccess) return situ__cuda_leave(d, SITU_OK);
  *graph = NULL;
  if (keep) return situ__cuda_leave(d, situ__cuda_fail(d, "graph_capture_end", call, error));
  (void)situ__cuda.GetLastError(); /* its cause was already reported */
  return situ__cuda_leave(d, SITU_OK);
}

situ_status situ__cuda_graph_launch(int index, void *graph) {
  const char *op = "graph_replay";
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, op, &status);
  if (!d) return status;
  cudaError_t error = situ__cuda.GraphLaunch(graph, d->stream);
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, op, "cudaGraphLaunch", error));
  d->order.graph = d->queued + 1; /* the graph may use any memory */
  situ__cuda_queued(d, op);
  d->unchecked = true;
  return situ__cuda_leave(d, situ__cuda_step(d, op));
}

void situ__cuda_graph_free(int index, void *graph) {
  situ__cuda_device *d = situ__cuda_enter_open(index);
  if (!d) return; /* destroyed with the device */
  cudaError_t error = situ__cuda.GraphExecDestroy(graph);
  if (error != cudaSuccess) situ__cuda_lose(d, "cudaGraphExecDestroy", error);
  (void)situ__cuda_leave(d, SITU_OK);
}
