/* Opens cuDNN when a problem first needs it, once per process, and initialises it once per device. A problem is
   described as a graph of operations; the library lists engines for it, best first, and the first that keeps situ's
   guarantees becomes the cached plan. Descriptors use a device descriptor, not the handle, so all but the execution
   works without a GPU.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/dnn.h"

#include <stdio.h>
#include <string.h>

#include "backend/cuda/range.h"

situ__dnn_table situ__cudnn;

/* ---- failures ------------------------------------------------------------------------------- */

/* Returns SITU_OK if the problem was refused as unsupported before anything was queued. */
static situ_status fail_of(situ__cuda_device *d, const char *op, const char *call, cudnnStatus_t status) {
  char what[256];
  const char *name = situ__cudnn.GetErrorString(status);
  if (status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
      status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED)
    return situ__host->fail(SITU_E_NOMEM, op, "cuda:%d: %s: %s (%d)", d->target.index, call, name, (int)status);
  if (CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
      CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_BAD_PARAM ||
      status == CUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED)
    return SITU_OK;
  (void)snprintf(what, sizeof what, "%s: %s (%d)", call, name, (int)status);
  cudaError_t error = situ__cuda.GetLastError();
  situ__cuda_lose(d, what, error == cudaSuccess ? cudaErrorUnknown : error);
  return situ__cuda_lost(d, op);
}

/* ---- opening -------------------------------------------------------------------------------- */

static bool loaded;

static void load(void) {
  static const char *const name[] = {
#define ROW(name) "cudnn" #name,
    SITU__CUDNN(ROW)
#undef ROW
  };
  enum { COUNT = sizeof name / sizeof *name, LEAST = 90800 }; /* LEAST: the first version with device descriptors */
  situ__dnn_table found;
  _Static_assert(sizeof name == sizeof found, "a row is a pointer");
  char why[512], note[640];
  loaded = situ__cuda_bind("libcudnn.so.9", name, COUNT, &found, why, sizeof why);
  if (loaded && found.GetVersion() < LEAST) {
    (void)snprintf(why, sizeof why, "version %zu is older than 9.8", found.GetVersion());
    loaded = false;
  }
  if (loaded) {
    situ__cudnn = found;
    return;
  }
  (void)snprintf(note, sizeof note, "no cuDNN: convolutions take kernels of situ's own (%s)", why);
  situ__cuda_note(note);
}

static void drop_graph(situ__dnn_graph *g) {
  while (g->count > 0) (void)situ__cudnn.BackendDestroyDescriptor(g->made[--g->count]);
}

static cudnnStatus_t start_handle(situ__cuda_device *d, situ__dnn *dnn, const char **call) {
  *call = "cudnnCreate";
  cudnnStatus_t status = situ__cudnn.Create(&dnn->handle);
  if (status != CUDNN_STATUS_SUCCESS) return status;
  situ__dnn_graph g = { .count = 0 };
  cudnnBackendDescriptor_t device = situ__dnn_make(&g, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  situ__dnn_set(&g, device, CUDNN_ATTR_DEVICEPROP_HANDLE, CUDNN_TYPE_HANDLE, 1, &dnn->handle);
  situ__dnn_finalize(&g, device);
  *call = g.call;
  status = g.status;
  if (status == CUDNN_STATUS_SUCCESS) {
    *call = "cudnnSetStream";
    status = situ__cudnn.SetStream(dnn->handle, d->stream);
  }
  if (status == CUDNN_STATUS_SUCCESS) {
    dnn->device = device;
  } else {
    drop_graph(&g);
    (void)situ__cudnn.Destroy(dnn->handle);
  }
  return status;
}

/* True if cuDNN does not support this device or this driver: this is not an error, and is not tried again. */
static bool cannot_start(cudnnStatus_t status) {
  return CUDNN_STATUS_CATEGORY(status) == CUDNN_STATUS_NOT_SUPPORTED ||
         CUDNN_STATUS_CATEGORY(status) == 1000; /* mismatched versions of it or its sublibraries */
}

static situ_status start(situ__cuda_device *d, const char *op, situ__dnn *dnn) {
  const char *call;
  cudnnStatus_t status = start_handle(d, dnn, &call);
  dnn->there = status == CUDNN_STATUS_SUCCESS;
  dnn->opened = dnn->there || cannot_start(status);
  if (dnn->there) return SITU_OK;
  if (dnn->opened) {
    char note[256];
    (void)snprintf(note, sizeof note, "cuDNN does not start on cuda:%d (%s): convolutions take kernels of situ's own",
                   d->target.index, situ__cudnn.GetErrorString(status));
    situ__cuda_note(note);
    return SITU_OK;
  }
  return fail_of(d, op, call, status);
}

situ__dnn *situ__dnn_open(situ__cuda_device *d, const char *op, situ_status *status) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  *status = SITU_OK;
  if (d->dnn && d->dnn->opened) return d->dnn->there ? d->dnn : NULL;
  (void)pthread_once(&once, load);
  if (!loaded) return NULL;
  if (!d->dnn) {
    d->dnn = situ__host->alloc(sizeof *d->dnn);
    if (!d->dnn) {
      *status = situ__host->fail(SITU_E_NOMEM, op, "no memory for plans of cuDNN's");
      return NULL;
    }
    memset(d->dnn, 0, sizeof *d->dnn);
  }
  *status = start(d, op, d->dnn);
  return *status == SITU_OK && d->dnn->there ? d->dnn : NULL;
}

/* ---- describing ----------------------------------------------------------------------------- */

static void note_status(situ__dnn_graph *g, const char *call, cudnnStatus_t status) {
  g->call = call;
  g->status = status;
}

cudnnBackendDescriptor_t situ__dnn_make(situ__dnn_graph *g, cudnnBackendDescriptorType_t type) {
  cudnnBackendDescriptor_t made = NULL;
  if (g->status != CUDNN_STATUS_SUCCESS) return NULL;
  note_status(g, "cudnnBackendCreateDescriptor", situ__cudnn.BackendCreateDescriptor(type, &made));
  if (g->status == CUDNN_STATUS_SUCCESS) g->made[g->count++] = made;
  return made;
}

void situ__dnn_set(situ__dnn_graph *g, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                   cudnnBackendAttributeType_t type, int64_t count, const void *value) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    note_status(g, "cudnnBackendSetAttribute", situ__cudnn.BackendSetAttribute(descriptor, name, type, count, value));
}

void situ__dnn_refer(situ__dnn_graph *g, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                     cudnnBackendDescriptor_t to) {
  situ__dnn_set(g, descriptor, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &to);
}

void situ__dnn_finalize(situ__dnn_graph *g, cudnnBackendDescriptor_t descriptor) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    note_status(g, "cudnnBackendFinalize", situ__cudnn.BackendFinalize(descriptor));
}

void situ__dnn_operation(situ__dnn_graph *g, cudnnBackendDescriptor_t descriptor) {
  situ__dnn_finalize(g, descriptor);
  g->op[g->ops++] = descriptor;
}

cudnnDataType_t situ__dnn_type(situ_dtype dtype) {
  return dtype == SITU_F64    ? CUDNN_DATA_DOUBLE
         : dtype == SITU_F16  ? CUDNN_DATA_HALF
         : dtype == SITU_BF16 ? CUDNN_DATA_BFLOAT16
                              : CUDNN_DATA_FLOAT;
}

cudnnBackendDescriptor_t situ__dnn_describe(situ__dnn_graph *g, int64_t uid, cudnnDataType_t type,
                                            const situ__dnn_tensor *tensor, uint8_t aligned, situ__dnn_where where) {
  cudnnBackendDescriptor_t t = situ__dnn_make(g, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  const int64_t bytes = (int64_t)1 << aligned;
  const bool nowhere = where == SITU__DNN_NOWHERE, value = where == SITU__DNN_VALUE;
  situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &type);
  situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, 4, tensor->size);
  situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, 4, tensor->stride);
  situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &uid);
  situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, 1, &bytes);
  if (nowhere) situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, 1, &nowhere);
  if (value) situ__dnn_set(g, t, CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, 1, &value);
  situ__dnn_finalize(g, t);
  return t;
}

/* ---- choosing ------------------------------------------------------------------------------- */

/* Guarantees: the same bits on every run, sums in at least the requested dtype, and NaN only where an input has one
   (transform-based engines spread it over their tile). Unknown notes are not allowed. */
static bool allows(const situ__dnn_problem *p, cudnnBackendNumericalNote_t note) {
  if (note == CUDNN_NUMERICAL_NOTE_TENSOR_CORE) return p->dtype != SITU_F32 || p->precision != SITU_PRECISION_HIGHEST;
  return note == CUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP;
}

static void get_attribute(situ__dnn_graph *g, cudnnBackendDescriptor_t descriptor, cudnnBackendAttributeName_t name,
                          cudnnBackendAttributeType_t type, int64_t capacity, int64_t *count, void *value) {
  if (g->status == CUDNN_STATUS_SUCCESS)
    note_status(g, "cudnnBackendGetAttribute",
                situ__cudnn.BackendGetAttribute(descriptor, name, type, capacity, count, value));
}

static bool keeps_promises(situ__dnn_graph *g, const situ__dnn_problem *p, cudnnBackendDescriptor_t config) {
  enum { NOTES = 32 };
  cudnnBackendNumericalNote_t note[NOTES];
  int64_t count = 0;
  cudnnBackendDescriptor_t engine = situ__dnn_make(g, CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  get_attribute(g, config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &count, (void *)&engine);
  get_attribute(g, engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE, NOTES, &count, note);
  bool good = g->status == CUDNN_STATUS_SUCCESS && count <= NOTES;
  for (int64_t k = 0; good && k < count; k++) good = allows(p, note[k]);
  return good;
}

/* Errors that are not one engine's fault end the search and are stored in the plan. */
static void tell(situ__dnn_plan *plan, const situ__dnn_graph *g) {
  const bool serious = g->status == CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED ||
                       g->status == CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED ||
                       CUDNN_STATUS_CATEGORY(g->status) == CUDNN_STATUS_EXECUTION_FAILED;
  if (serious) note_status(&plan->graph, g->call, g->status);
}

/* Engines that transform their operands need workspace for that, and not all of them say what they do: one for
   gradients of weights (cuDNN 9.14, engine 17) lost 6 bits of f32. */
static int64_t workspace_limit(const situ__dnn_problem *p) {
  const bool exact = p->dtype == SITU_F32 && p->precision == SITU_PRECISION_HIGHEST;
  return exact && p->kind == SITU_CONV_GRAD_WEIGHT ? 0 : 1 << 30;
}

/* Makes a plan of an engine. Returns false if the engine is not allowed, does not support the problem here, or needs
   too much workspace. */
static bool try_engine(situ__dnn *dnn, situ__dnn_plan *plan, cudnnBackendDescriptor_t config) {
  situ__dnn_graph g = { .count = 0 };
  int64_t count = 0;
  bool good = keeps_promises(&g, &plan->problem, config);
  drop_graph(&g);
  if (good) {
    plan->way = situ__dnn_make(&g, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    situ__dnn_refer(&g, plan->way, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    situ__dnn_refer(&g, plan->way, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, dnn->device);
    situ__dnn_finalize(&g, plan->way);
    get_attribute(&g, plan->way, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &count, &plan->bytes);
    good = g.status == CUDNN_STATUS_SUCCESS && plan->bytes >= 0 && plan->bytes <= workspace_limit(&plan->problem);
    if (!good) drop_graph(&g);
  }
  tell(plan, &g);
  return good;
}

/* Tries the engines that one mode of the library's heuristics lists. */
static bool choose_by(situ__dnn *dnn, situ__dnn_plan *plan, cudnnBackendDescriptor_t graph,
                      cudnnBackendHeurMode_t mode) {
  enum { ENGINES = 64 };
  cudnnBackendDescriptor_t config[ENGINES];
  situ__dnn_graph g = { .count = 0 };
  int64_t capacity = 0, count = 0, chosen = -1;
  cudnnBackendDescriptor_t asked = situ__dnn_make(&g, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  situ__dnn_refer(&g, asked, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  situ__dnn_set(&g, asked, CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode);
  situ__dnn_refer(&g, asked, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, dnn->device);
  situ__dnn_finalize(&g, asked);
  get_attribute(&g, asked, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, NULL);
  while (g.status == CUDNN_STATUS_SUCCESS && capacity < ENGINES && capacity < count) {
    note_status(&g, "cudnnBackendCreateDescriptor",
                situ__cudnn.BackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR, &config[capacity]));
    capacity += g.status == CUDNN_STATUS_SUCCESS;
  }
  get_attribute(&g, asked, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, capacity, &count,
                (void *)config);
  bool ended = g.status != CUDNN_STATUS_SUCCESS;
  for (int64_t k = 0; k < count && k < capacity && !ended; k++) {
    if (try_engine(dnn, plan, config[k])) chosen = k;
    ended = chosen >= 0 || plan->graph.status != CUDNN_STATUS_SUCCESS;
  }
  for (int64_t k = 0; k < capacity; k++)
    if (k != chosen) (void)situ__cudnn.BackendDestroyDescriptor(config[k]);
  if (chosen >= 0) { /* the plan owns them now */
    plan->graph.made[plan->graph.count++] = config[chosen];
    plan->graph.made[plan->graph.count++] = plan->way;
  }
  tell(plan, &g);
  drop_graph(&g);
  return chosen >= 0;
}

static bool choose(situ__dnn *dnn, situ__dnn_plan *plan) {
  situ__dnn_graph *g = &plan->graph;
  cudnnBackendDescriptor_t graph = situ__dnn_make(g, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  situ__dnn_set(g, graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, g->ops, (const void *)g->op);
  situ__dnn_finalize(g, graph);
  static const cudnnBackendHeurMode_t mode[] = { CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK };
  bool found = false;
  for (int k = 0; k < 2 && !found && g->status == CUDNN_STATUS_SUCCESS; k++)
    found = choose_by(dnn, plan, graph, mode[k]);
  return found;
}

/* ---- plans ---------------------------------------------------------------------------------- */

static void drop(void *dropped) {
  situ__dnn_plan *plan = dropped;
  drop_graph(&plan->graph);
  memset(plan, 0, sizeof *plan);
}

situ__dnn_plan *situ__dnn_find(situ__cuda_device *d, const char *op, const situ__dnn_problem *problem,
                               void (*describe)(situ__dnn_graph *, const situ__dnn_problem *), situ_status *status) {
  _Static_assert(sizeof *problem % sizeof(uint64_t) == 0, "whole words");
  situ__dnn *dnn = d->dnn;
  situ__dnn_plan *plan = situ__cuda_place(dnn->plan, SITU__DNN_PLANS, sizeof *plan, problem, sizeof *problem, drop);
  *status = SITU_OK;
  if (!plan->place.used) {
    plan->problem = *problem;
    describe(&plan->graph, problem);
    plan->none = !choose(dnn, plan);
    const cudnnStatus_t made = plan->graph.status;
    if (made != CUDNN_STATUS_SUCCESS) *status = fail_of(d, op, plan->graph.call, made);
    if (plan->none) drop_graph(&plan->graph);
    if (*status != SITU_OK) drop(plan);
  }
  if (*status != SITU_OK) return NULL;
  plan->place.used = ++dnn->clock;
  return plan->none ? NULL : plan;
}

/* ---- running -------------------------------------------------------------------------------- */

situ_status situ__dnn_run(situ__cuda_device *d, const char *op, situ__dnn_plan *plan, int count, const int64_t *uid,
                          void *const *data, bool *done) {
  void *workspace = NULL;
  if (plan->bytes > 0) {
    const cudaError_t error = situ__cuda_scratch(d, (size_t)plan->bytes, &workspace);
    if (error == cudaErrorMemoryAllocation) return SITU_OK;
    if (error != cudaSuccess) return situ__cuda_fail(d, op, "allocating scratch", error);
  }
  situ__dnn_graph g = { .count = 0 };
  cudnnBackendDescriptor_t pack = situ__dnn_make(&g, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  situ__dnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, uid);
  situ__dnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, (const void *)data);
  situ__dnn_set(&g, pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, (const void *)&workspace);
  situ__dnn_finalize(&g, pack);
  if (g.status == CUDNN_STATUS_SUCCESS) {
    situ__cuda_range_begin(op);
    note_status(&g, "cudnnBackendExecute", situ__cudnn.BackendExecute(d->dnn->handle, plan->way, pack));
    situ__cuda_range_end();
  }
  situ_status status = SITU_OK;
  if (g.status != CUDNN_STATUS_SUCCESS) {
    status = fail_of(d, op, g.call, g.status);
    plan->none = status == SITU_OK; /* it would be refused again */
  } else {
    for (int k = 0; k < count; k++) situ__cuda_used(d, data[k], 1);
    situ__cuda_queued(d, op);
    *done = true;
    status = situ__cuda_step(d, op);
  }
  drop_graph(&g);
  situ__cuda_target_release(d->target.index, workspace);
  return status;
}

void situ__dnn_close(situ__cuda_device *d) {
  situ__dnn *dnn = d->dnn;
  if (!dnn) return;
  for (int k = 0; k < SITU__DNN_PLANS; k++) drop(&dnn->plan[k]);
  if (dnn->there) {
    (void)situ__cudnn.BackendDestroyDescriptor(dnn->device);
    (void)situ__cudnn.Destroy(dnn->handle);
  }
  situ__host->free(dnn);
  d->dnn = NULL;
}
