/* cuDNN's graph API: its functions, opened at the first problem that it may solve, graphs as they are described, and the plans
   of problems that were met before.
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

/* Filled by situ__dnn_open. */
extern situ__dnn_table situ__cudnn;

/* ---- graphs ---------------------------------------------------------------------------------- */
enum { SITU__DNN_DESCRIPTORS = 88, SITU__DNN_OPS = 24 };

/* Descriptors that live and go together, and the first failure among them: what is asked for after that does nothing. */
typedef struct situ__dnn_graph {
  cudnnBackendDescriptor_t made[SITU__DNN_DESCRIPTORS], op[SITU__DNN_OPS];
  int count, ops;
  cudnnStatus_t status;
  const char *call; /* that failed */
} situ__dnn_graph;

cudnnBackendDescriptor_t situ__dnn_make(situ__dnn_graph *graph, cudnnBackendDescriptorType_t type);
void situ__dnn_set(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void *value);
/* An attribute that is another descriptor. */
void situ__dnn_refer(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t to);
void situ__dnn_finalize(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor);
/* Finalised, and one of the graph's operations. */
void situ__dnn_operation(situ__dnn_graph *graph, cudnnBackendDescriptor_t descriptor);

typedef struct situ__dnn_tensor {
  int64_t size[4], stride[4];
} situ__dnn_tensor;
/* Where it lies: in memory of the device; nowhere, as what one operation hands to the next; with the host, one number. */
typedef enum situ__dnn_where { SITU__DNN_THERE, SITU__DNN_NOWHERE, SITU__DNN_VALUE } situ__dnn_where;
/* uid: the number by which it is given an address later. */
cudnnBackendDescriptor_t situ__dnn_describe(situ__dnn_graph *graph, int64_t uid, cudnnDataType_t type,
                                            const situ__dnn_tensor *tensor, uint8_t aligned, situ__dnn_where where);
cudnnDataType_t situ__dnn_type(situ_dtype dtype);

/* ---- problems and plans ---------------------------------------------------------------------- */
/* All that an engine is chosen by. Cleared first: it is compared as bytes. */
typedef struct situ__dnn_problem {
  situ__dnn_tensor of[4];
  int64_t window[6];
  uint8_t kind, dtype, precision; /* kind: a situ_conv_pass, or of attention */
  bool more;                      /* a bias is added; attention is causal */
  uint8_t aligned[4];             /* the power of 2 that addresses are multiples of */
} situ__dnn_problem;

typedef struct situ__dnn_plan {
  situ__cuda_plan place;
  situ__dnn_problem problem;
  bool none; /* the library has no way to solve it that situ allows */
  situ__dnn_graph graph;
  cudnnBackendDescriptor_t way;
  int64_t bytes; /* of workspace */
} situ__dnn_plan;

enum { SITU__DNN_PLANS = 256 };

enum { SITU__DNN_ATTENTION = 8, SITU__DNN_ATTENTION_GRAD };

/* A device's; guarded by its lock. */
typedef struct situ__dnn {
  bool opened, there; /* tried to; worked */
  cudnnHandle_t handle;
  cudnnBackendDescriptor_t device; /* what it has, by which engines are chosen */
  uint64_t clock;
  situ__dnn_plan plan[SITU__DNN_PLANS];
} situ__dnn;

/* The library on this device. NULL: there is none, which situ_device_status explains, and *status is SITU_OK; or opening it
   failed with *status. */
situ__dnn *situ__dnn_open(situ__cuda_device *device, const char *op, situ_status *status);
/* The plan of a problem, remembered or made of what `describe` tells of it. NULL: the library has none, and *status is
   SITU_OK; or it failed with *status. */
situ__dnn_plan *situ__dnn_find(situ__cuda_device *device, const char *op, const situ__dnn_problem *problem,
                               void (*describe)(situ__dnn_graph *, const situ__dnn_problem *), situ_status *status);
/* Queues it: addresses of tensors by their uids. SITU_OK and not *done: it was refused, and plan->none is set; or there is no
   room for what it needs beside them. */
situ_status situ__dnn_run(situ__cuda_device *device, const char *op, situ__dnn_plan *plan, int count,
                          const int64_t *uid, void *const *data, bool *done);

#endif
