/* A real cuDNN beside the double's: it is told all that the double is told, and must agree; engines, their notes, plans and
   room are its own then. It works without a GPU up to the execution, as a device may be described to it in words (cuDNN 9.8:
   "deviceless" plans); what is described here is an H100.
   SPDX-License-Identifier: MIT */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "support/cuda/dnn.h"

static const char device[] = "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
                             "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"smClockRateKHz\":1980000,"
                             "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,\"warpSize\":32,"
                             "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
                             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,\"pciDeviceId\":0,"
                             "\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,\"maxThreadsPerSM\":2048,"
                             "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"totalGlobalMem\":85899345920,"
                             "\"cudaDeviceId\":0,\"deviceVer\":900,\"driverVer\":13000,"
                             "\"deviceName\":\"an H100, described\"}";

/* clang-format off */
#define FUNCTIONS(ROW)          \
  ROW(BackendCreateDescriptor)  \
  ROW(BackendDestroyDescriptor) \
  ROW(BackendSetAttribute) ROW(BackendGetAttribute) ROW(BackendFinalize) ROW(GetLastErrorString)
/* clang-format on */

static union {
  void *slot[6];
  struct {
#define ROW(name) __typeof__(&cudnn##name) name;
    FUNCTIONS(ROW)
#undef ROW
  } call;
} real;

static bool opened(void) {
  static const char *const name[] = {
#define ROW(name) "cudnn" #name,
    FUNCTIONS(ROW)
#undef ROW
  };
  const char *path = cuda_double_state()->beside;
  if (!path || real.slot[0]) return path;
  /* Engines that are compiled when they are chosen want a driver to be there: the toolkit's, which does nothing, will do. */
  if (*SITU_TEST_LIBCUDA) (void)dlopen(SITU_TEST_LIBCUDA, RTLD_NOW | RTLD_GLOBAL);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  for (int k = 0; k < 6; k++) {
    if (library) real.slot[k] = dlsym(library, name[k]);
    if (real.slot[k]) continue;
    (void)fprintf(stderr, "%s: no %s\n", path, name[k]);
    abort();
  }
  return true;
}

static cudnnStatus_t said(const char *call, const dnn_descriptor *d, cudnnStatus_t status) {
  char text[1024] = "";
  if (status != CUDNN_STATUS_SUCCESS) {
    real.call.GetLastErrorString(text, sizeof text);
    (void)fprintf(stderr, "the real cuDNN: %s, descriptor of type %d: %d: %s\n", call, d->type, (int)status, text);
  }
  return status;
}

cudnnStatus_t beside_create(cudnnBackendDescriptorType_t type, dnn_descriptor *made) {
  return opened() ? said("create", made, real.call.BackendCreateDescriptor(type, &made->beside)) : CUDNN_STATUS_SUCCESS;
}

void beside_destroy(dnn_descriptor *d) {
  if (d->beside) (void)said("destroy", d, real.call.BackendDestroyDescriptor(d->beside));
}

cudnnStatus_t beside_set(dnn_descriptor *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                         int64_t count, const void *value) {
  if (!opened()) return CUDNN_STATUS_SUCCESS;
  if (type == CUDNN_TYPE_HANDLE)
    return said("set", d,
                real.call.BackendSetAttribute(d->beside, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                              sizeof device, device));
  void *mapped[32];
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    dnn_descriptor *const *to = value;
    for (int64_t k = 0; k < count; k++) mapped[k] = to[k]->beside;
    value = (const void *)mapped;
  }
  return said("set", d, real.call.BackendSetAttribute(d->beside, name, type, count, value));
}

cudnnStatus_t beside_finalize(dnn_descriptor *d) {
  if (!opened()) return CUDNN_STATUS_SUCCESS;
  cudnnStatus_t status = real.call.BackendFinalize(d->beside);
  if (d->type != CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) return said("finalize", d, status);
  /* Compiled, and only not loaded, for want of a driver that does more. */
  d->compiled = status == CUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER;
  return d->compiled ? CUDNN_STATUS_SUCCESS : status;
}

bool beside_get(dnn_descriptor *d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t room,
                int64_t *count, void *value, cudnnStatus_t *status) {
  if (!opened()) return false;
  if (d->compiled) {
    *count = 1, *(int64_t *)value = 0, *status = CUDNN_STATUS_SUCCESS;
    return true;
  }
  void *mapped[64];
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR && room > 0) {
    dnn_descriptor *const *to = value;
    for (int64_t k = 0; k < room && k < 64; k++) mapped[k] = to[k]->beside;
    value = (void *)mapped;
  }
  *status = said("get", d, real.call.BackendGetAttribute(d->beside, name, type, room, count, value));
  return true;
}
