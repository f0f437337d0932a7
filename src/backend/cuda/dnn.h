/* cuDNN's graph API: its functions, opened at the first problem that it may solve, descriptions of graphs, and cached
   plans.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_DNN_H
#define SITU_BACKEND_CUDA_DNN_H

#include <cudnn_graph.h>

#include "backend/cuda/cuda.h"
#include "backend/cuda/plans.h"

/* clang-format off */
#define SITU__CUDNN(ROW)                                                                   \
  ROW(GetVersion)                                                                          \
  ROW(GetErrorString) ROW(Create) ROW(Destroy) ROW(SetStream) ROW(BackendCreateDescriptor) \
      ROW(BackendDestroyDescriptor) ROW(BackendSetAttribute) ROW(BackendGetAttribute)      \
          ROW(BackendFinalize) ROW(BackendExecute)
/* clang-format on */

typedef struct situ__dnn_table {
#define ROW(name) __typeof__(&cudnn##name) name;
  SITU__CUDNN(ROW)
#undef ROW
} situ__dnn_table;

/* situ__dnn_open fills it. */
extern situ__dnn_table situ__cudnn;

/* ---- graphs ---------------------------------------------------------------------------------- */
enum { SITU__DNN_DESCRIPTORS = 88, SITU__DNN_OPS = 24 };

/* Descriptors with a common lifetime, and the first failure among them, after which all calls do nothing. */
typedef struct situ__dnn_graph {
  cudnnBackendDescriptor_t made[SITU__DNN_DESCRIPTORS], op[SITU__DNN_OPS];
  int count, ops;
  cudnnStatus_t status;
  const char *call; /* the call that failed */
} situ__dnn_graph;

cudnnBackendDescriptor_t situ__dnn_make(situ__dnn_graph *graph, cudnnBackendDescriptorType_t type);
void situ__dnn_set(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void *value);
/* Sets an attribute that is another descriptor. */
void situ__dnn_refer(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t to);
void situ__dnn_finalize(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor);
/* Finalises the descriptor and adds it to the graph's operations. */
void situ__dnn_operation(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor);

typedef struct situ__dnn_tensor {
  int64_t size[4], stride[4];
} situ__dnn_tensor;
/* Where the tensor is: in device memory; nowhere, as an intermediate result; on the host, as a scalar. */
typedef enum situ__dnn_where { SITU__DNN_THERE, SITU__DNN_NOWHERE, SITU__DNN_VALUE } situ__dnn_where;
/* uid: the number by which a plan gets its address. */
cudnnBackendDescriptor_t situ__dnn_describe(situ__dnn_graph *graph, int64_t uid, cudnnDataType_t type,
                                            const situ__dnn_tensor *tensor, uint8_t aligned, situ__dnn_where where);
cudnnDataType_t situ__dnn_type(situ_dtype dtype);

/* ---- problems and plans ---------------------------------------------------------------------- */
/* Everything that the choice of an engine depends on. Zero it first: problems are compared as bytes. */
typedef struct situ__dnn_problem {
  situ__dnn_tensor of[4];
  int64_t window[6];
  uint8_t kind, dtype, precision; /* kind: a situ_conv_pass, or one of attention */
  uint8_t more;                   /* what comes after a convolution (conv.c); for attention: it is causal */
  uint8_t aligned[4];             /* the power of 2 that addresses are multiples of */
} situ__dnn_problem;

typedef struct situ__dnn_plan {
  situ__cuda_plan place;
  situ__dnn_problem problem;
  bool none; /* the library has no engine that situ allows */
  situ__dnn_graph graph;
  cudnnBackendDescriptor_t way;
  int64_t bytes; /* of workspace */
} situ__dnn_plan;

enum { SITU__DNN_PLANS = 256 };

enum { SITU__DNN_ATTENTION = 8, SITU__DNN_ATTENTION_GRAD };

/* State of one device; the device's lock guards it. */
typedef struct situ__dnn {
  bool opened, there; /* opening was attempted; it succeeded */
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t device; /* describes its hardware, from which engines are chosen */
  uint64_t clock;
  situ__dnn_plan plan[SITU__DNN_PLANS];
} situ__dnn;

/* Opens the library on this device. Returns NULL with *status SITU_OK if it is not available, which situ_device_status
   explains; NULL with an error if opening failed. */
situ__dnn *situ__dnn_open(situ__cuda_device *device, const char *op, situ_status *status);
/* The cached plan of a problem, or a new one for the graph that `describe` builds. Returns NULL with *status SITU_OK if
   the library has none; NULL with an error if it failed. */
situ__dnn_plan *situ__dnn_find(situ__cuda_device *device, const char *op, const situ__dnn_problem *problem,
                               void (*describe)(situ__dnn_graph *, const situ__dnn_problem *), situ_status *status);
/* Queues the plan, with addresses of tensors by their uids. SITU_OK without *done: cuDNN refused it (plan->none is
   set), or its workspace could not be allocated. */
situ_status situ__dnn_run(situ__cuda_device *device, const char *op, situ__dnn_plan *plan, int count,
                          const int64_t *uid, void *const *data, bool *done);

#endif
