/* The double's graphs: tasks that a capture kept instead of queueing them, queued again by each launch.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "support/cuda/double.h"

static void let_go(double_graph *graph) {
  if (--graph->owners > 0) return;
  double_run_device(graph->device); /* launches may be using its memory */
  while (graph->first) {
    double_task *next = graph->first->next;
    free(graph->first);
    graph->first = next;
  }
  for (int k = 0; k < graph->blocks; k++) double_release(graph->block[k]);
  free(graph);
}

CUDA_DOUBLE_API cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  BEGIN("cudaStreamBeginCapture");
  (void)mode;
  double_graph *graph = *double_capture(stream) ? NULL : calloc(1, sizeof *graph);
  if (!graph) return double_end(cudaErrorIllegalState);
  *graph = (double_graph){ .device = double_stream_device(stream), .owners = 1 };
  graph->last = &graph->first;
  *double_capture(stream) = graph;
  cuda_double_state()->graphs++;
  return double_end(cudaSuccess);
}

/* It ends also where that fails. */
CUDA_DOUBLE_API cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out) {
  cudaError_t error = double_begin("cudaStreamEndCapture");
  double_graph *graph = *double_capture(stream);
  *out = NULL;
  if (!graph) return double_end(cudaErrorIllegalState);
  *double_capture(stream) = NULL;
  if (error == cudaSuccess) error = double_stuck(double_device());
  if (error == cudaSuccess && graph->spoilt) error = cudaErrorStreamCaptureInvalidated;
  if (error == cudaSuccess) {
    *out = graph;
  } else {
    cuda_double_state()->graphs--;
    let_go(graph);
  }
  return double_end(error);
}

/* Memory that the graph does not free could be allocated only once. */
CUDA_DOUBLE_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t *out, cudaGraph_t graph, unsigned long long flags) {
  BEGIN("cudaGraphInstantiate");
  (void)flags;
  for (int k = 0; k < graph->blocks; k++)
    if (!graph->block[k]->freed) return double_end(cudaErrorInvalidValue);
  graph->owners++;
  cuda_double_state()->graphs++;
  *out = (cudaGraphExec_t)graph;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  BEGIN("cudaGraphDestroy");
  cuda_double_state()->graphs--;
  let_go(graph);
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  BEGIN("cudaGraphExecDestroy");
  cuda_double_state()->graphs--;
  let_go((double_graph *)exec);
  return double_end(cudaSuccess);
}

static bool queue_again(cudaStream_t stream, const double_task *task) {
  double_task *copy = double_queue(stream, task->kind, task->more);
  if (!copy) return false;
  double_task *const next = copy->next;
  memcpy(copy, task, sizeof *copy + task->more);
  copy->next = next;
  for (size_t k = 0; k < sizeof copy->argument / sizeof *copy->argument; k++)
    if (task->argument[k]) copy->argument[k] = (char *)copy + ((char *)task->argument[k] - (const char *)task);
  return true;
}

CUDA_DOUBLE_API cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  BEGIN("cudaGraphLaunch");
  const double_graph *graph = (const double_graph *)exec;
  if (*double_capture(stream)) return double_end(cudaErrorStreamCaptureUnsupported);
  if (double_stream_device(stream) != graph->device) return double_end(cudaErrorInvalidValue);
  for (const double_task *t = graph->first; t; t = t->next)
    if (!queue_again(stream, t)) return double_end(cudaErrorMemoryAllocation);
  cuda_double_state()->replays++;
  return double_end(cudaSuccess);
}
