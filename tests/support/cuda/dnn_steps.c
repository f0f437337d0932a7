/* Graphs of the double's cuDNN that are made of small operations, such as attention: each is done in turn, on numbers that lie as
   the tensor's strides say.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>

#include "support/cuda/dnn.h"

enum { STEPS = 24, TENSORS = 48, OPERANDS = 3 };

typedef struct tensor {
  int64_t size[4], stride[4], uid, aligned;
  int type; /* a cudnnDataType_t */
  bool nowhere, value;
  void *data; /* of one that lies somewhere */
  double number;
} tensor;

typedef struct step {
  int type, mode, axis, out, in[OPERANDS]; /* in: -1: none */
} step;

typedef struct job {
  int steps, tensors;
  step step[STEPS];
  tensor of[TENSORS];
  bool spoiled;
} job;

/* ---- reading descriptors --------------------------------------------------------------------- */

static const void *value_of(const dnn_descriptor *d, int name) {
  const dnn_attribute *a = dnn_attribute_of(d, name);
  return a ? a->data : NULL;
}
static bool flag_of(const dnn_descriptor *d, int name) {
  const bool *flag = value_of(d, name);
  return flag && *flag;
}

/* The number of a tensor in the job; -1: the operation has none. */
static int tensor_of(job *j, const dnn_descriptor *operation, int name) {
  const dnn_descriptor *d = dnn_reference(operation, name, 0);
  if (!d) return -1;
  tensor t = { .data = NULL };
  memcpy(t.size, value_of(d, CUDNN_ATTR_TENSOR_DIMENSIONS), sizeof t.size);
  memcpy(t.stride, value_of(d, CUDNN_ATTR_TENSOR_STRIDES), sizeof t.stride);
  memcpy(&t.uid, value_of(d, CUDNN_ATTR_TENSOR_UNIQUE_ID), sizeof t.uid);
  memcpy(&t.aligned, value_of(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT), sizeof t.aligned);
  t.type = *(const int *)value_of(d, CUDNN_ATTR_TENSOR_DATA_TYPE);
  t.nowhere = flag_of(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
  t.value = flag_of(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE);
  for (int k = 0; k < j->tensors; k++)
    if (j->of[k].uid == t.uid) return k;
  if (j->tensors == TENSORS) return -1;
  j->of[j->tensors] = t;
  return j->tensors++;
}

/* What each kind of operation is made of. */
static const struct {
  int type, how, mode, in[OPERANDS], out;
} kinds[] = {
  { CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR,
    -1,
    -1,
    { CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC, -1 },
    CUDNN_ATTR_OPERATION_MATMUL_CDESC },
  { CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
    CUDNN_ATTR_POINTWISE_MODE,
    { CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
      CUDNN_ATTR_OPERATION_POINTWISE_TDESC },
    CUDNN_ATTR_OPERATION_POINTWISE_YDESC },
  { CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR,
    CUDNN_ATTR_OPERATION_REDUCTION_DESC,
    CUDNN_ATTR_REDUCTION_OPERATOR,
    { CUDNN_ATTR_OPERATION_REDUCTION_XDESC, -1, -1 },
    CUDNN_ATTR_OPERATION_REDUCTION_YDESC },
  { CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR,
    -1,
    -1,
    { CUDNN_ATTR_OPERATION_RESHAPE_XDESC, -1, -1 },
    CUDNN_ATTR_OPERATION_RESHAPE_YDESC },
};

/* What is handed on was made before; a result lies somewhere or is handed on. */
static bool read_step(job *j, const dnn_descriptor *operation, bool *made) {
  for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
    if (kinds[k].type != operation->type) continue;
    step *s = &j->step[j->steps++];
    *s = (step){ .type = operation->type, .axis = -1 };
    if (kinds[k].how >= 0) {
      const dnn_descriptor *how = dnn_reference(operation, kinds[k].how, 0);
      const int64_t *axis = value_of(how, CUDNN_ATTR_POINTWISE_AXIS);
      s->mode = *(const int *)value_of(how, kinds[k].mode);
      if (axis) s->axis = (int)*axis;
    }
    for (int i = 0; i < OPERANDS; i++) {
      s->in[i] = kinds[k].in[i] < 0 ? -1 : tensor_of(j, operation, kinds[k].in[i]);
      if (s->in[i] >= 0 && j->of[s->in[i]].nowhere && !made[s->in[i]]) return false;
    }
    s->out = tensor_of(j, operation, kinds[k].out);
    if (s->in[0] < 0 || s->out < 0 || j->of[s->out].value || made[s->out]) return false;
    made[s->out] = true;
    return true;
  }
  return false;
}

static bool read_graph(const dnn_descriptor *graph, job *j) {
  const dnn_attribute *all = dnn_attribute_of(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  bool made[TENSORS] = { false }, good = all->count <= STEPS;
  for (int64_t k = 0; good && k < all->count; k++)
    good = read_step(j, dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, k), made);
  return good;
}

bool dnn_steps_known(const dnn_descriptor *graph) {
  job j = { .steps = 0 };
  return read_graph(graph, &j);
}

/* ---- numbers --------------------------------------------------------------------------------- */

static cudaDataType memory_type(int type) {
  return type == CUDNN_DATA_HALF ? CUDA_R_16F : type == CUDNN_DATA_BFLOAT16 ? CUDA_R_16BF : CUDA_R_32F;
}

static int64_t extent(const tensor *t) {
  int64_t most = 1;
  for (int d = 0; d < 4; d++) most += (t->size[d] - 1) * t->stride[d];
  return most;
}
static int64_t numel(const tensor *t) { return t->size[0] * t->size[1] * t->size[2] * t->size[3]; }

static void indices(const tensor *t, int64_t item, int64_t at[4]) {
  for (int d = 3; d >= 0; item /= t->size[d], d--) at[d] = item % t->size[d];
}
/* Where an element lies; of one that is broadcast, the only one. */
static int64_t place(const tensor *t, const int64_t at[4]) {
  int64_t offset = 0;
  for (int d = 0; d < 4; d++) offset += t->size[d] == 1 ? 0 : at[d] * t->stride[d];
  return offset;
}

static double rounded(int type, double value) {
  char room[8];
  if (type == CUDNN_DATA_INT32 || type == CUDNN_DATA_BOOLEAN) return value;
  number_store(memory_type(type), room, 0, value);
  return number_load(memory_type(type), room, 0);
}

static double point(const step *s, const double x[OPERANDS], const int64_t at[4]) {
  switch (s->mode) {
  case CUDNN_POINTWISE_MUL: return x[0] * x[1];
  case CUDNN_POINTWISE_ADD: return x[0] + x[1];
  case CUDNN_POINTWISE_SUB: return x[0] - x[1];
  case CUDNN_POINTWISE_DIV: return x[0] / x[1];
  case CUDNN_POINTWISE_EXP: return exp(x[0]);
  case CUDNN_POINTWISE_LOG: return log(x[0]);
  case CUDNN_POINTWISE_GEN_INDEX: return (double)at[s->axis];
  case CUDNN_POINTWISE_CMP_GE: return x[0] >= x[1];
  case CUDNN_POINTWISE_BINARY_SELECT: return x[2] != 0 ? x[0] : x[1];
  default: return NAN;
  }
}

static double multiplied(const job *j, double *const *value, const step *s, const int64_t at[4]) {
  const tensor *a = &j->of[s->in[0]], *b = &j->of[s->in[1]];
  double sum = 0;
  for (int64_t k = 0; k < a->size[3]; k++)
    sum += value[s->in[0]][place(a, (int64_t[]){ at[0], at[1], at[2], k })] *
           value[s->in[1]][place(b, (int64_t[]){ at[0], at[1], k, at[3] })];
  return sum;
}

/* Along the last dimension. */
static double reduced(const job *j, double *const *value, const step *s, const int64_t at[4]) {
  const tensor *x = &j->of[s->in[0]];
  double result = s->mode == CUDNN_REDUCE_TENSOR_MAX ? -INFINITY : 0;
  for (int64_t k = 0; k < x->size[3]; k++) {
    const double one = value[s->in[0]][place(x, (int64_t[]){ at[0], at[1], at[2], k })];
    result = s->mode == CUDNN_REDUCE_TENSOR_MAX ? fmax(result, one) : result + one;
  }
  return result;
}

static double result_of(const job *j, double *const *value, const step *s, const int64_t at[4]) {
  double x[OPERANDS] = { 0 };
  if (s->type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) return multiplied(j, value, s, at);
  if (s->type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) return reduced(j, value, s, at);
  if (s->type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) /* the same numbers, looked at in another order */
    return value[s->in[0]][place(&j->of[s->out], at)];
  for (int i = 0; i < OPERANDS; i++)
    if (s->in[i] >= 0) x[i] = value[s->in[i]][place(&j->of[s->in[i]], at)];
  return point(s, x, at);
}

static void run_step(const job *j, double *const *value, const step *s) {
  const tensor *y = &j->of[s->out];
  for (int64_t item = 0; item < numel(y); item++) {
    int64_t at[4];
    indices(y, item, at);
    const double result = rounded(y->type, result_of(j, value, s, at) + (j->spoiled ? 1 : 0));
    value[s->out][place(y, at)] = result;
    if (!y->nowhere) number_store(memory_type(y->type), y->data, place(y, at), result);
  }
}

static void run(const void *payload) {
  const job *j = payload;
  double *value[TENSORS];
  for (int k = 0; k < j->tensors; k++) {
    const tensor *t = &j->of[k];
    value[k] = calloc((size_t)extent(t), sizeof **value);
    if (!value[k]) abort();
    for (int64_t at = 0; t->data && !t->value && at < extent(t); at++)
      value[k][at] = number_load(memory_type(t->type), t->data, at);
    if (t->value) value[k][0] = t->number;
  }
  for (int k = 0; k < j->steps; k++) run_step(j, value, &j->step[k]);
  for (int k = 0; k < j->tensors; k++) free(value[k]);
}

/* ---- queueing -------------------------------------------------------------------------------- */

/* An address: of the host for a number, which is read now; else in memory of the device, and as aligned as was said. */
static bool give_address(const dnn_descriptor *pack, int device, tensor *t) {
  const dnn_attribute *uids = dnn_attribute_of(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  for (int64_t k = 0; !t->nowhere && k < uids->count; k++) {
    bool bad;
    if (((const int64_t *)(const void *)uids->data)[k] != t->uid) continue;
    t->data = ((void *const *)value_of(pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS))[k];
    const cudaDataType type = memory_type(t->type);
    const double_block *b = double_find(t->data, (size_t)extent(t) * number_bytes(type), &bad);
    if (t->value) t->number = number_load(type, t->data, 0);
    return t->value ? !b && !bad : b && !bad && b->device == device && (uintptr_t)t->data % (uint64_t)t->aligned == 0;
  }
  return t->nowhere;
}

cudnnStatus_t dnn_steps_execute(cudnnHandle_t handle, const dnn_descriptor *graph, const dnn_descriptor *pack,
                                bool spoiled) {
  job j = { .spoiled = spoiled };
  bool good = handle->stream && handle->device == double_device() && read_graph(graph, &j);
  for (int k = 0; good && k < j.tensors; k++) good = give_address(pack, handle->device, &j.of[k]);
  if (!good) return CUDNN_STATUS_BAD_PARAM;
  double_task *task = double_queue(handle->stream, DOUBLE_CALL, sizeof j);
  if (!task) return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  memcpy(task + 1, &j, sizeof j);
  task->call = run;
  cuda_double_state()->solved++;
  return CUDNN_STATUS_SUCCESS;
}
