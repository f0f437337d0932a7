/* What the files of the double's cuDNN know of each other: descriptors with their attributes, and the running of graphs.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_DOUBLE_DNN_H
#define SITU_CUDA_DOUBLE_DNN_H

#include <cudnn_graph.h>

#include "support/cuda/double.h"
#include "support/cuda/number.h"

struct cudnnContext {
  int device;
  cudaStream_t stream;
};

typedef struct dnn_attribute {
  struct dnn_attribute *next;
  int name;
  int64_t count;
  size_t bytes;
  char data[];
} dnn_attribute;

typedef struct dnn_descriptor {
  struct dnn_descriptor *next;
  int type;
  bool final, needed, compiled; /* compiled: see dnn_beside.c */
  dnn_attribute *first;
  int engine;                         /* of an ENGINECFG, an ENGINE or a PLAN: a row of the double's engines */
  const struct dnn_descriptor *graph; /* of an ENGINECFG */
  void *beside;                       /* the real library's (dnn_beside.c) */
} dnn_descriptor;

/* What was set; NULL: nothing. */
const dnn_attribute *dnn_attribute_of(const dnn_descriptor *descriptor, int name);
/* One that is a descriptor; NULL: it is not set. */
const dnn_descriptor *dnn_reference(const dnn_descriptor *descriptor, int name, int64_t at);

/* ---- graphs that run (dnn_run.c) ---- */
/* Operations of a kind that can be run, as they stand in a graph. */
bool dnn_known(const dnn_descriptor *graph);
/* Queues a plan's graph with the addresses of a pack. `spoiled`: the engine must not be taken, and shows it. */
cudnnStatus_t dnn_execute(cudnnHandle_t handle, const dnn_descriptor *graph, const dnn_descriptor *pack, bool tf32,
                          bool spoiled);

/* ---- graphs of small operations, as of attention (dnn_steps.c) ---- */
bool dnn_steps_known(const dnn_descriptor *graph);
cudnnStatus_t dnn_steps_execute(cudnnHandle_t handle, const dnn_descriptor *graph, const dnn_descriptor *pack,
                                bool spoiled);

/* ---- the real library beside it (dnn_beside.c) ---- */
/* Each does nothing, and is well, where cuda_double_state()->beside is NULL. */
cudnnStatus_t beside_create(cudnnBackendDescriptorType_t type, dnn_descriptor *made);
void beside_destroy(dnn_descriptor *descriptor);
cudnnStatus_t beside_set(dnn_descriptor *descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void *value);
cudnnStatus_t beside_finalize(dnn_descriptor *descriptor);
/* What it says of an attribute; false: it was not asked. */
bool beside_get(dnn_descriptor *descriptor, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                int64_t room, int64_t *count, void *value, cudnnStatus_t *status);

#endif
