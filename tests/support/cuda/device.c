/* The double's devices, errors that were asked for, and errors that stick.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "support/cuda/double.h"

static cuda_double state = {
  .devices = 2,
  .driver = CUDART_VERSION,
  .runtime = CUDART_VERSION,
  .pools = true,
  .budget = (size_t)1 << 30,
  .nccl_version = 22809,
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cudaError_t stuck[CUDA_DOUBLE_DEVICES];
static _Thread_local int current;
static _Thread_local cudaError_t last;

/* For tests that do not know the double. */
__attribute__((constructor)) static void read_settings(void) {
  const char *devices = getenv("SITU_CUDA_DOUBLE_DEVICES");
  if (devices) state.devices = atoi(devices);
}

cuda_double *cuda_double_state(void) { return &state; }
int double_device(void) { return current; }
void double_stick(int device, cudaError_t error) {
  if (!stuck[device]) stuck[device] = error;
}
cudaError_t double_stuck(int device) { return stuck[device]; }

static bool is_meant(const char *name) {
  const size_t length = state.fail_name ? strlen(state.fail_name) : 0;
  if (length && state.fail_name[length - 1] == '*') return strncmp(state.fail_name, name, length - 1) == 0;
  return !state.fail_name || strcmp(state.fail_name, name) == 0;
}

cudaError_t double_begin(const char *name) {
  pthread_mutex_lock(&lock);
  state.calls++;
  if (state.fail_nth > 0 && is_meant(name) && --state.fail_nth == 0) {
    state.failed++;
    if (state.fail_sticky) double_stick(current, state.fail_error);
    return state.fail_error;
  }
  return cudaSuccess;
}

cudaError_t double_end(cudaError_t error) {
  if (error) last = error;
  pthread_mutex_unlock(&lock);
  return error;
}

void double_pause(void) {
  pthread_mutex_unlock(&lock);
  (void)nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
  pthread_mutex_lock(&lock);
}

/* ---- devices -------------------------------------------------------------------------------- */

static cudaError_t no_driver(void) {
  if (state.driver < CUDART_VERSION / 1000 * 1000) return cudaErrorInsufficientDriver;
  return state.devices > 0 ? cudaSuccess : cudaErrorNoDevice;
}

static cudaError_t no_device(int device) {
  return device < 0 || device >= state.devices ? cudaErrorInvalidDevice : cudaSuccess;
}

CUDA_DOUBLE_API cudaError_t cudaRuntimeGetVersion(int *version) {
  BEGIN("cudaRuntimeGetVersion");
  *version = state.runtime;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaDriverGetVersion(int *version) {
  BEGIN("cudaDriverGetVersion");
  *version = state.driver;
  return double_end(cudaSuccess);
}

/* As the real one does, it leaves *count alone where there is no driver. */
CUDA_DOUBLE_API cudaError_t cudaGetDeviceCount(int *count) {
  BEGIN("cudaGetDeviceCount");
  cudaError_t error = no_driver();
  if (error != cudaErrorInsufficientDriver) *count = state.devices;
  return double_end(error);
}

CUDA_DOUBLE_API cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *out, int device) {
  BEGIN("cudaGetDeviceProperties");
  if (no_device(device)) return double_end(cudaErrorInvalidDevice);
  memset(out, 0, sizeof *out);
  (void)snprintf(out->name, sizeof out->name, "double, no GPU");
  out->totalGlobalMem = state.budget;
  out->major = 9;
  for (int i = 0; i < 16; i++) out->uuid.bytes[i] = (char)(i == 0 ? 0xd0 : i < 15 ? i : device);
  out->pciDomainID = 1;
  out->pciBusID = 0x65 + device;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr what, int device) {
  BEGIN("cudaDeviceGetAttribute");
  if (no_device(device)) return double_end(cudaErrorInvalidDevice);
  *value = what == cudaDevAttrMemoryPoolsSupported ? state.pools : 0;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaGetDevice(int *device) {
  BEGIN_ANYWHERE("cudaGetDevice");
  *device = current;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaSetDevice(int device) {
  BEGIN_ANYWHERE("cudaSetDevice");
  if (no_device(device)) return double_end(cudaErrorInvalidDevice);
  current = device;
  return double_end(stuck[device]);
}

CUDA_DOUBLE_API cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  BEGIN("cudaDeviceCanAccessPeer");
  if (no_device(device) || no_device(peer)) return double_end(cudaErrorInvalidDevice);
  *can = device != peer && state.peers != CUDA_DOUBLE_PEERS_NONE;
  return double_end(cudaSuccess);
}

CUDA_DOUBLE_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  BEGIN("cudaDeviceEnablePeerAccess");
  static bool enabled[CUDA_DOUBLE_DEVICES][CUDA_DOUBLE_DEVICES];
  (void)flags;
  if (no_device(peer)) return double_end(cudaErrorInvalidDevice);
  bool already = enabled[current][peer];
  enabled[current][peer] = true;
  return double_end(already ? cudaErrorPeerAccessAlreadyEnabled : cudaSuccess);
}

/* ---- errors: these cannot fail, and are not counted ----------------------------------------- */

CUDA_DOUBLE_API cudaError_t cudaGetLastError(void) {
  cudaError_t error = last;
  last = cudaSuccess;
  return error;
}

CUDA_DOUBLE_API const char *cudaGetErrorName(cudaError_t error) {
  switch (error) {
  case cudaSuccess: return "cudaSuccess";
  case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
  case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
  case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
  case cudaErrorInvalidDeviceFunction: return "cudaErrorInvalidDeviceFunction";
  case cudaErrorNoDevice: return "cudaErrorNoDevice";
  case cudaErrorInvalidDevice: return "cudaErrorInvalidDevice";
  case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
  case cudaErrorLaunchFailure: return "cudaErrorLaunchFailure";
  case cudaErrorSymbolNotFound: return "cudaErrorSymbolNotFound";
  default: return "cudaErrorOfTheDouble";
  }
}

CUDA_DOUBLE_API const char *cudaGetErrorString(cudaError_t error) {
  switch (error) {
  case cudaErrorMemoryAllocation: return "out of memory";
  case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
  case cudaErrorLaunchFailure: return "unspecified launch failure";
  default: return "an error of the double's";
  }
}
