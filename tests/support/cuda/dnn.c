/* cuDNN's graph API without a GPU, for tests: built as libcudnn.so.9 beside the double's runtime. It refuses what the real one
   refuses (an attribute of another type or number, a descriptor that is not finalised or is gone, one that lacks something),
   lists engines of which only the last keeps situ's promises, and can be made to fail as every call can.
   SPDX-License-Identifier: MIT */
#include "support/cuda/dnn.h"

#include <stdlib.h>
#include <string.h>

static cudnnStatus_t meaning(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return CUDNN_STATUS_SUCCESS;
  case cudaErrorMemoryAllocation: return CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED;
  case cudaErrorNotSupported: return CUDNN_STATUS_NOT_SUPPORTED;
  default: return CUDNN_STATUS_EXECUTION_FAILED;
  }
}
static cudnnStatus_t end(cudnnStatus_t status) {
  (void)double_end(cudaSuccess);
  return status;
}
#define BEGIN_DNN(name)                                  \
  do {                                                   \
    cudaError_t asked_ = double_begin(name);             \
    if (!asked_) asked_ = double_stuck(double_device()); \
    if (asked_) return meaning(double_end(asked_));      \
  } while (0)
#define API CUDA_DOUBLE_API

/* ---- what may be said of what ---------------------------------------------------------------- */

enum { ANY_OPERATION = -2, NO_DESCRIPTOR = -1 };

typedef struct rule {
  int of, name, type, least, most; /* numbers of elements */
  bool needed;
  int refers; /* type of the descriptor that it is */
} rule;

#define T(name) CUDNN_BACKEND_##name##_DESCRIPTOR
#define VALUE(of, name, type, count, needed) \
  { T(of), CUDNN_ATTR_##name, CUDNN_TYPE_##type, count, count, needed, NO_DESCRIPTOR }
#define REFER(of, name, to) \
  { T(of), CUDNN_ATTR_##name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, true, T(to) }
#define CONVOLUTION(of, pass, x, w, y)                                                                              \
  REFER(of, OPERATION_CONVOLUTION_##pass##_CONV_DESC, CONVOLUTION),                                                 \
      REFER(of, OPERATION_CONVOLUTION_##pass##_##x, TENSOR), REFER(of, OPERATION_CONVOLUTION_##pass##_##w, TENSOR), \
      REFER(of, OPERATION_CONVOLUTION_##pass##_##y, TENSOR),                                                        \
      VALUE(of, OPERATION_CONVOLUTION_##pass##_ALPHA, FLOAT, 1, false),                                             \
      VALUE(of, OPERATION_CONVOLUTION_##pass##_BETA, FLOAT, 1, false),                                              \
      VALUE(of, OPERATION_CONVOLUTION_##pass##_ALPHA, DOUBLE, 1, false),                                            \
      VALUE(of, OPERATION_CONVOLUTION_##pass##_BETA, DOUBLE, 1, false)

static const rule rules[] = {
  VALUE(TENSOR, TENSOR_DATA_TYPE, DATA_TYPE, 1, true),
  VALUE(TENSOR, TENSOR_DIMENSIONS, INT64, 4, true),
  VALUE(TENSOR, TENSOR_STRIDES, INT64, 4, true),
  VALUE(TENSOR, TENSOR_UNIQUE_ID, INT64, 1, true),
  VALUE(TENSOR, TENSOR_BYTE_ALIGNMENT, INT64, 1, true),
  VALUE(TENSOR, TENSOR_IS_VIRTUAL, BOOLEAN, 1, false),
  VALUE(TENSOR, TENSOR_IS_BY_VALUE, BOOLEAN, 1, false),
  VALUE(CONVOLUTION, CONVOLUTION_COMP_TYPE, DATA_TYPE, 1, true),
  VALUE(CONVOLUTION, CONVOLUTION_CONV_MODE, CONVOLUTION_MODE, 1, true),
  VALUE(CONVOLUTION, CONVOLUTION_SPATIAL_DIMS, INT64, 1, true),
  VALUE(CONVOLUTION, CONVOLUTION_FILTER_STRIDES, INT64, 2, true),
  VALUE(CONVOLUTION, CONVOLUTION_PRE_PADDINGS, INT64, 2, true),
  VALUE(CONVOLUTION, CONVOLUTION_POST_PADDINGS, INT64, 2, true),
  VALUE(CONVOLUTION, CONVOLUTION_DILATIONS, INT64, 2, true),
  CONVOLUTION(OPERATION_CONVOLUTION_FORWARD, FORWARD, X, W, Y),
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_DATA, BWD_DATA, DX, W, DY),
  CONVOLUTION(OPERATION_CONVOLUTION_BACKWARD_FILTER, BWD_FILTER, X, DW, DY),
  VALUE(POINTWISE, POINTWISE_MODE, POINTWISE_MODE, 1, true),
  VALUE(POINTWISE, POINTWISE_MATH_PREC, DATA_TYPE, 1, true),
  VALUE(POINTWISE, POINTWISE_AXIS, INT64, 1, false),
  VALUE(MATMUL, MATMUL_COMP_TYPE, DATA_TYPE, 1, true),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_ADESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_BDESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_CDESC, TENSOR),
  REFER(OPERATION_MATMUL, OPERATION_MATMUL_DESC, MATMUL),
  VALUE(REDUCTION, REDUCTION_OPERATOR, REDUCTION_OPERATOR_TYPE, 1, true),
  VALUE(REDUCTION, REDUCTION_COMP_TYPE, DATA_TYPE, 1, true),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_XDESC, TENSOR),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_YDESC, TENSOR),
  REFER(OPERATION_REDUCTION, OPERATION_REDUCTION_DESC, REDUCTION),
  REFER(OPERATION_RESHAPE, OPERATION_RESHAPE_XDESC, TENSOR),
  REFER(OPERATION_RESHAPE, OPERATION_RESHAPE_YDESC, TENSOR),
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_PW_DESCRIPTOR, POINTWISE),
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_XDESC, TENSOR),
  { T(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_BDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false,
    T(TENSOR) },
  { T(OPERATION_POINTWISE), CUDNN_ATTR_OPERATION_POINTWISE_TDESC, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 1, false,
    T(TENSOR) },
  REFER(OPERATION_POINTWISE, OPERATION_POINTWISE_YDESC, TENSOR),
  { T(OPERATIONGRAPH), CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, 24, true, ANY_OPERATION },
  VALUE(DEVICEPROP, DEVICEPROP_HANDLE, HANDLE, 1, true),
  VALUE(ENGINEHEUR, ENGINEHEUR_MODE, HEUR_MODE, 1, true),
  REFER(ENGINEHEUR, ENGINEHEUR_OPERATION_GRAPH, OPERATIONGRAPH),
  REFER(ENGINEHEUR, ENGINEHEUR_DEVICEPROP, DEVICEPROP),
  REFER(EXECUTION_PLAN, EXECUTION_PLAN_ENGINE_CONFIG, ENGINECFG),
  REFER(EXECUTION_PLAN, EXECUTION_PLAN_DEVICEPROP, DEVICEPROP),
  { T(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, 1, 16, true, NO_DESCRIPTOR },
  { T(VARIANT_PACK), CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, 1, 16, true, NO_DESCRIPTOR },
  VALUE(VARIANT_PACK, VARIANT_PACK_WORKSPACE, VOID_PTR, 1, true),
};
enum { RULES = sizeof rules / sizeof *rules };

static size_t bytes_of(int type) {
  switch (type) {
  case CUDNN_TYPE_BOOLEAN: return sizeof(bool);
  case CUDNN_TYPE_INT64:
  case CUDNN_TYPE_DOUBLE:
  case CUDNN_TYPE_VOID_PTR:
  case CUDNN_TYPE_HANDLE:
  case CUDNN_TYPE_BACKEND_DESCRIPTOR: return 8;
  default: return sizeof(int);
  }
}

/* ---- descriptors ----------------------------------------------------------------------------- */

static dnn_descriptor *all;

/* NULL: it was never made, or is gone. */
static dnn_descriptor *alive(const void *descriptor) {
  dnn_descriptor *d = all;
  while (d && d != descriptor) d = d->next;
  return d;
}

const dnn_attribute *dnn_attribute_of(const dnn_descriptor *d, int name) {
  const dnn_attribute *a = d->first;
  while (a && a->name != name) a = a->next;
  return a;
}

const dnn_descriptor *dnn_reference(const dnn_descriptor *d, int name, int64_t at) {
  const dnn_attribute *a = dnn_attribute_of(d, name);
  const void *to;
  if (!a || a->bytes / (size_t)a->count != sizeof to || at >= a->count) return NULL;
  memcpy(&to, a->data + (size_t)at * sizeof to, sizeof to);
  return alive(to);
}

API cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *out) {
  BEGIN_DNN(__func__);
  dnn_descriptor *d = calloc(1, sizeof *d);
  if (!d) return end(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  d->type = type;
  cudnnStatus_t status = beside_create(type, d);
  if (status != CUDNN_STATUS_SUCCESS) {
    free(d);
    return end(status);
  }
  d->next = all;
  all = d;
  cuda_double_state()->described++;
  *out = d;
  return end(CUDNN_STATUS_SUCCESS);
}

/* Fails, if it is to, after it has done its work: who destroys can do nothing about it. */
API cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t descriptor) {
  const cudaError_t asked = double_begin(__func__);
  dnn_descriptor *d = alive(descriptor), **link = &all;
  if (!d) return end(CUDNN_STATUS_BAD_PARAM);
  while (*link != d) link = &(*link)->next;
  *link = d->next;
  beside_destroy(d);
  while (d->first) {
    dnn_attribute *a = d->first;
    d->first = a->next;
    free(a);
  }
  free(d);
  cuda_double_state()->described--;
  return asked ? meaning(double_end(asked)) : end(CUDNN_STATUS_SUCCESS);
}

static bool is_operation(int type) {
  return type == T(OPERATION_CONVOLUTION_FORWARD) || type == T(OPERATION_CONVOLUTION_BACKWARD_DATA) ||
         type == T(OPERATION_CONVOLUTION_BACKWARD_FILTER) || type == T(OPERATION_POINTWISE) ||
         type == T(OPERATION_MATMUL) || type == T(OPERATION_REDUCTION) || type == T(OPERATION_RESHAPE);
}

static bool refers_well(const rule *r, int64_t count, const void *value) {
  for (int64_t k = 0; r->refers != NO_DESCRIPTOR && k < count; k++) {
    const dnn_descriptor *to = alive(((void *const *)value)[k]);
    if (!to || !to->final) return false;
    if (r->refers == ANY_OPERATION ? !is_operation(to->type) : to->type != r->refers) return false;
  }
  return true;
}

API cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t count, const void *value) {
  BEGIN_DNN(__func__);
  dnn_descriptor *d = alive(descriptor);
  const rule *r = NULL;
  for (int k = 0; d && k < RULES && !r; k++)
    if (rules[k].of == d->type && rules[k].name == (int)name && rules[k].type == (int)type) r = &rules[k];
  if (!r || d->final || count < r->least || count > r->most || !value || !refers_well(r, count, value) ||
      dnn_attribute_of(d, name))
    return end(CUDNN_STATUS_BAD_PARAM);
  const size_t bytes = bytes_of(type) * (size_t)count;
  dnn_attribute *a = malloc(sizeof *a + bytes);
  if (!a) return end(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  *a = (dnn_attribute){ .next = d->first, .name = name, .count = count, .bytes = bytes };
  memcpy(a->data, value, bytes);
  d->first = a;
  return end(beside_set(d, name, type, count, value));
}

/* ---- what is left over ----------------------------------------------------------------------- */

static void need(dnn_descriptor *d) {
  if (!d || d->needed) return;
  d->needed = true;
  need(alive(d->graph));
  for (const dnn_attribute *a = d->first; a; a = a->next)
    for (int64_t k = 0; k < a->count; k++) need((dnn_descriptor *)(uintptr_t)dnn_reference(d, a->name, k));
}

static long orphans(void) {
  long count = 0;
  for (dnn_descriptor *d = all; d; d = d->next) d->needed = false;
  for (dnn_descriptor *d = all; d; d = d->next)
    if (d->type == T(EXECUTION_PLAN) || d->type == T(DEVICEPROP)) need(d);
  for (dnn_descriptor *d = all; d; d = d->next) count += !d->needed;
  return count;
}

__attribute__((constructor)) static void opened(void) { cuda_double_state()->orphans = orphans; }

/* ---- engines --------------------------------------------------------------------------------- */

/* What the heuristics list, best first. The first four must not be taken (the fourth: not for f32), the next two cannot. The
   eighth does not say that it loses bits of f32 in gradients of weights, as one of cuDNN 9.14 does not: only its
   workspace tells. */
typedef struct engine {
  int note; /* -1: none */
  bool spoiled, refused;
  int64_t bytes;
  bool loses;
} engine;
static const engine engines[] = {
  { .note = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, .spoiled = true },
  { .note = CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, .spoiled = true },
  { .note = CUDNN_NUMERICAL_NOTE_WINOGRAD, .spoiled = true },
  { .note = CUDNN_NUMERICAL_NOTE_TYPE_COUNT, .spoiled = true }, /* of a later library */
  { .note = -1, .spoiled = true, .refused = true },
  { .note = -1, .spoiled = true, .bytes = (int64_t)4 << 30 },
  { .note = CUDNN_NUMERICAL_NOTE_TENSOR_CORE, .bytes = 1024 },
  { .note = -1, .bytes = 2048, .loses = true },
  { .note = CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP, .bytes = 4096 },
  { .note = -1 },
};
enum { ENGINES = sizeof engines / sizeof *engines, FALLBACK = ENGINES - 1 };

static bool is_f64(const dnn_descriptor *graph) {
  const dnn_descriptor *operation = dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0);
  for (const dnn_attribute *a = operation->first; a; a = a->next) {
    const dnn_descriptor *tensor = dnn_reference(operation, a->name, 0);
    const dnn_attribute *type = tensor ? dnn_attribute_of(tensor, CUDNN_ATTR_TENSOR_DATA_TYPE) : NULL;
    if (type) return *(const int *)(const void *)type->data == CUDNN_DATA_DOUBLE;
  }
  return false;
}

static bool is_weight(const dnn_descriptor *graph) {
  return dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0)->type == T(OPERATION_CONVOLUTION_BACKWARD_FILTER);
}

/* A bias after the gradient of the data, for which the library has no engine. */
static bool is_data_and_bias(const dnn_descriptor *graph) {
  const dnn_descriptor *first = dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 0);
  return first->type == T(OPERATION_CONVOLUTION_BACKWARD_DATA) &&
         dnn_reference(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, 1);
}

/* f64 has none but the fallback. */
static int64_t list(const dnn_descriptor *asked, int *first) {
  const dnn_descriptor *graph = dnn_reference(asked, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
  const int mode = *(const int *)(const void *)dnn_attribute_of(asked, CUDNN_ATTR_ENGINEHEUR_MODE)->data;
  *first = mode == CUDNN_HEUR_MODE_FALLBACK ? FALLBACK : 0;
  if (cuda_double_state()->no_engines || is_data_and_bias(graph)) return 0;
  return mode == CUDNN_HEUR_MODE_FALLBACK ? 1 : is_f64(graph) ? 3 : FALLBACK;
}

/* Configurations are made by the caller, and filled here. */
static cudnnStatus_t engines_of(dnn_descriptor *asked, int64_t room, int64_t *count, void *value) {
  dnn_descriptor *const *config = value;
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  int first;
  *count = list(asked, &first);
  const bool beside =
      beside_get(asked, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, room, count, value, &status);
  for (int64_t k = 0; status == CUDNN_STATUS_SUCCESS && k < room && k < *count; k++) {
    dnn_descriptor *d = alive(config[k]);
    if (!d || d->type != T(ENGINECFG)) return CUDNN_STATUS_BAD_PARAM;
    d->engine = beside ? FALLBACK : first + (int)k;
    d->graph = dnn_reference(asked, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, 0);
    d->final = true;
  }
  return status;
}

static cudnnStatus_t engine_of(dnn_descriptor *config, void *value) {
  dnn_descriptor *to = alive(*(void **)value);
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  int64_t count;
  if (!to || to->type != T(ENGINE)) return CUDNN_STATUS_BAD_PARAM;
  (void)beside_get(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, value, &status);
  to->engine = config->engine;
  to->final = status == CUDNN_STATUS_SUCCESS;
  return status;
}

API cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t descriptor) {
  BEGIN_DNN(__func__);
  dnn_descriptor *d = alive(descriptor);
  if (!d || d->final) return end(CUDNN_STATUS_BAD_PARAM);
  for (int k = 0; k < RULES; k++)
    if (rules[k].of == d->type && rules[k].needed && !dnn_attribute_of(d, rules[k].name))
      return end(CUDNN_STATUS_BAD_PARAM);
  if (d->type == T(OPERATIONGRAPH) && !dnn_known(d) && !dnn_steps_known(d))
    return end(CUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
  if (d->type == T(EXECUTION_PLAN)) {
    d->engine = dnn_reference(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0)->engine;
    if (engines[d->engine].refused && !cuda_double_state()->beside)
      return end(CUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT);
  }
  cuda_double_state()->lists += d->type == T(ENGINEHEUR);
  cudnnStatus_t status = beside_finalize(d);
  d->final = status == CUDNN_STATUS_SUCCESS;
  return end(status);
}

API cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const descriptor, cudnnBackendAttributeName_t name,
                                           cudnnBackendAttributeType_t type, int64_t room, int64_t *count,
                                           void *value) {
  BEGIN_DNN(__func__);
  dnn_descriptor *d = alive(descriptor);
  cudnnStatus_t status;
  if (!d || !d->final) return end(CUDNN_STATUS_BAD_PARAM);
  const engine *e = &engines[d->engine];
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return end(engines_of(d, room, count, value));
  *count = 1;
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR && room == 1)
    return end(engine_of(d, value));
  if (beside_get(d, name, type, room, count, value, &status)) return end(status);
  if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE) {
    *count = e->note >= 0;
    if (*count && room) *(int *)value = e->note;
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64 && room == 1) {
    *(int64_t *)value = e->bytes;
  } else {
    return end(CUDNN_STATUS_BAD_PARAM);
  }
  return end(CUDNN_STATUS_SUCCESS);
}

/* ---- the library ----------------------------------------------------------------------------- */

API cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                      cudnnBackendDescriptor_t pack) {
  BEGIN_DNN(__func__);
  dnn_descriptor *p = alive(plan), *with = alive(pack);
  if (!p || p->type != T(EXECUTION_PLAN) || !p->final || !with || with->type != T(VARIANT_PACK) || !with->final)
    return end(CUDNN_STATUS_BAD_PARAM);
  const engine *e = &engines[p->engine];
  const dnn_descriptor *config = dnn_reference(p, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, 0),
                       *graph = config ? alive(config->graph) : NULL;
  void *workspace;
  memcpy(&workspace, dnn_attribute_of(with, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)->data, 8);
  bool bad = false;
  const bool beside = cuda_double_state()->beside;
  const double_block *room = e->bytes && !beside ? double_find(workspace, (size_t)e->bytes, &bad) : NULL;
  if (!graph || bad || (e->bytes && !beside && (!room || room->device != handle->device)))
    return end(CUDNN_STATUS_BAD_PARAM);
  if (!dnn_known(graph)) return end(dnn_steps_execute(handle, graph, with, !beside && e->spoiled));
  return end(dnn_execute(handle, graph, with,
                         !beside && ((e->loses && is_weight(graph)) || e->note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
                         !beside && e->spoiled));
}

API cudnnStatus_t cudnnCreate(cudnnHandle_t *out) {
  BEGIN_DNN(__func__);
  if (cuda_double_state()->no_handle) return end(CUDNN_STATUS_NOT_INITIALIZED);
  cudnnHandle_t handle = calloc(1, sizeof *handle);
  if (!handle) return end(CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
  handle->device = double_device();
  cuda_double_state()->handles++;
  *out = handle;
  return end(CUDNN_STATUS_SUCCESS);
}
API cudnnStatus_t cudnnDestroy(cudnnHandle_t handle) {
  free(handle);
  cuda_double_state()->handles--;
  BEGIN_DNN(__func__);
  return end(CUDNN_STATUS_SUCCESS);
}
API cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  BEGIN_DNN(__func__);
  if (double_stream_device(stream) != handle->device) return end(CUDNN_STATUS_BAD_PARAM);
  handle->stream = stream;
  return end(CUDNN_STATUS_SUCCESS);
}
API size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
API const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED
             ? "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED"
         : status == CUDNN_STATUS_EXECUTION_FAILED ? "CUDNN_STATUS_EXECUTION_FAILED"
                                                   : "CUDNN_STATUS_OF_THE_DOUBLE";
}
