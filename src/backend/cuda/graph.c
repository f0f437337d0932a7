/* Graphs: what is queued goes into a capture of the stream, which becomes one thing to launch.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

/* The device stays locked until the end: what another thread queued would go into the graph too. Relaxed: what others ask of
   CUDA meanwhile is their own affair. */
situ_status situ__cuda_graph_begin(int index) {
  const char *op = "graph_capture_end";
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, op, &status);
  if (!d) return status;
  if (!d->pool) /* only what a pool gives out and takes back becomes a part of a graph */
    return situ__cuda_leave(d, situ__host->fail(SITU_E_UNSUPPORTED, op,
                                                "cuda:%d has no memory pools, and a graph's scratch must be of one",
                                                index));
  cudaError_t error = situ__cuda.StreamBeginCapture(d->stream, cudaStreamCaptureModeRelaxed);
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, op, "cudaStreamBeginCapture", error));
  d->captures = true;
  return SITU_OK; /* entered */
}

situ_status situ__cuda_graph_end(int index, bool keep, void **graph) {
  const char *call = "cudaStreamEndCapture";
  situ__cuda_device *d = situ__cuda_entered(index);
  cudaGraph_t captured = NULL;
  cudaGraphExec_t whole = NULL;
  cudaError_t error = situ__cuda.StreamEndCapture(d->stream, &captured);
  d->captures = false;
  if (error == cudaSuccess && keep) {
    call = "cudaGraphInstantiate";
    error = situ__cuda.GraphInstantiate(&whole, captured, 0);
  }
  const cudaError_t freed = captured ? situ__cuda.GraphDestroy(captured) : cudaSuccess;
  if (freed != cudaSuccess) situ__cuda_lose(d, "cudaGraphDestroy", freed);
  *graph = whole;
  if (error == cudaSuccess) return situ__cuda_leave(d, SITU_OK);
  *graph = NULL;
  if (keep) return situ__cuda_leave(d, situ__cuda_fail(d, "graph_capture_end", call, error));
  (void)situ__cuda.GetLastError(); /* what spoilt it was told */
  return situ__cuda_leave(d, SITU_OK);
}

situ_status situ__cuda_graph_launch(int index, void *graph) {
  const char *op = "graph_replay";
  situ_status status;
  situ__cuda_device *d = situ__cuda_enter(index, op, &status);
  if (!d) return status;
  cudaError_t error = situ__cuda.GraphLaunch(graph, d->stream);
  if (error != cudaSuccess) return situ__cuda_leave(d, situ__cuda_fail(d, op, "cudaGraphLaunch", error));
  d->order.graph = d->queued + 1; /* it may use any memory */
  situ__cuda_queued(d, op);
  d->unchecked = true;
  return situ__cuda_leave(d, situ__cuda_step(d, op));
}

void situ__cuda_graph_free(int index, void *graph) {
  situ__cuda_device *d = situ__cuda_enter_open(index);
  if (!d) return; /* gone with the device */
  cudaError_t error = situ__cuda.GraphExecDestroy(graph);
  if (error != cudaSuccess) situ__cuda_lose(d, "cudaGraphExecDestroy", error);
  (void)situ__cuda_leave(d, SITU_OK);
}
