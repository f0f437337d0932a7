/* Finding, describing and opening OpenCL devices, and what a failure means.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/opencl/opencl.h"

enum { DEVICES = 64, PLATFORMS = 16 };

static situ__cl_device devices[DEVICES];
static int found;
static char why[256];
static pid_t
    owner; /* a fork's child must not use the driver's threads, which stayed in the parent */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static bool has(cl_device_id id, const char *extension) {
  char text[8192] = "";
  (void)clGetDeviceInfo(id, CL_DEVICE_EXTENSIONS, sizeof text - 1, text, NULL);
  return strstr(text, extension) != NULL;
}

/* Enough to describe it; nothing is started yet. */
static void add(cl_platform_id platform, cl_device_id id) {
  situ__cl_device *d = &devices[found];
  cl_bool usable = CL_FALSE, compiler = CL_FALSE;
  (void)clGetDeviceInfo(id, CL_DEVICE_AVAILABLE, sizeof usable, &usable, NULL);
  (void)clGetDeviceInfo(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, NULL);
  if (!usable || !compiler) return;
  cl_device_type type = 0;
  cl_ulong total = 0, largest = 0;
  cl_device_fp_config config = 0;
  size_t most = 1;
  (void)clGetDeviceInfo(id, CL_DEVICE_TYPE, sizeof type, &type, NULL);
  (void)clGetDeviceInfo(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, NULL);
  (void)clGetDeviceInfo(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, NULL);
  (void)clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, NULL);
  (void)clGetDeviceInfo(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, NULL);
  *d = (situ__cl_device){
    .target = { .index = found, .cpu = type & CL_DEVICE_TYPE_CPU, .fp64 = has(id, "cl_khr_fp64") },
    .platform = platform,
    .id = id,
    .budget = total,
    .largest = largest
  };
  d->exact_division = config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  for (d->target.group = 256; d->target.group > most;) d->target.group /= 2;
  (void)pthread_mutex_init(&d->lock, NULL);
  found++;
}

static void find(void) {
  cl_platform_id platforms[PLATFORMS];
  cl_uint count = 0;
  owner = getpid();
  cl_int error = clGetPlatformIDs(PLATFORMS, platforms, &count);
  if (error != CL_SUCCESS || count == 0) {
    (void)snprintf(why, sizeof why,
                   "no OpenCL platform is installed (clGetPlatformIDs: %d; Debian: pocl-opencl-icd "
                   "runs on any processor)",
                   (int)error);
    return;
  }
  if (count > PLATFORMS) count = PLATFORMS;
  for (cl_uint p = 0; p < count; p++) {
    cl_device_id ids[DEVICES];
    cl_uint many = 0;
    error = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES, ids, &many);
    for (cl_uint k = 0; error == CL_SUCCESS && k < many && found < DEVICES; k++)
      add(platforms[p], ids[k]);
  }
  if (found)
    (void)snprintf(why, sizeof why, "%d device%s, through %u platform%s", found,
                   found == 1 ? "" : "s", count, count == 1 ? "" : "s");
  else
    (void)snprintf(why, sizeof why, "%u OpenCL platform%s, but no device that can be used", count,
                   count == 1 ? "" : "s");
}

int situ__cl_count(const char **reason) {
  (void)pthread_once(&once, find);
  *reason = why;
  return found;
}

situ_status situ__cl_info(int index, situ_device_properties *out) {
  const situ__cl_device *d = &devices[index];
  char version[96] = "";
  *out = (situ_device_properties){ .memory_total = d->budget };
  (void)clGetDeviceInfo(d->id, CL_DEVICE_NAME, sizeof out->name - 1, out->name, NULL);
  (void)clGetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof out->driver / 2, out->driver, NULL);
  (void)clGetDeviceInfo(d->id, CL_DRIVER_VERSION, sizeof version - 1, version, NULL);
  size_t used = strlen(out->driver);
  (void)snprintf(out->driver + used, sizeof out->driver - used, " %s", version);
  out->dtypes = ((1u << SITU_DTYPES) - 1) & ~(1u << SITU_DTYPE_DEFAULT);
  if (!d->target.fp64) out->dtypes &= ~(1u << SITU_F64);
  return SITU_OK;
}

/* ---- failures ------------------------------------------------------------------------------- */

static const char *error_name(cl_int error) {
  switch (error) {
  case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
  case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "no device memory";
  case CL_OUT_OF_RESOURCES: return "out of resources";
  case CL_OUT_OF_HOST_MEMORY: return "no host memory";
  case CL_BUILD_PROGRAM_FAILURE: return "a program does not compile";
  case CL_INVALID_BUFFER_SIZE: return "larger than the device allows";
  case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: return "earlier work failed";
  default: return "error";
  }
}

situ_status situ__cl_fail(const situ__cl_device *device, const char *op, const char *call,
                          cl_int error) {
  situ_status status;
  switch (error) {
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_OUT_OF_HOST_MEMORY:
  case CL_INVALID_BUFFER_SIZE: status = SITU_E_NOMEM; break;
  default: status = SITU_E_LOST; break;
  }
  return situ__host->fail(status, op, "opencl:%d: %s: %s (%d)%s", device->target.index, call,
                          error_name(error), (int)error,
                          status == SITU_E_LOST ? "; the device is lost" : "");
}

/* ---- opening -------------------------------------------------------------------------------- */

static situ_status open_device(situ__cl_device *d, const char *op) {
  if (getpid() != owner)
    return situ__host->fail(
        SITU_E_STATE, op,
        "OpenCL was started before this process was forked; its devices stayed in the parent");
  situ__host->fork_guard();
  cl_int error;
  const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM,
                                               (cl_context_properties)d->platform, 0 };
  cl_context context = clCreateContext(properties, 1, &d->id, NULL, NULL, &error);
  if (!context) return situ__cl_fail(d, op, "clCreateContext", error);
  cl_command_queue queue = clCreateCommandQueue(context, d->id, 0, &error);
  if (!queue) {
    (void)clReleaseContext(context);
    return situ__cl_fail(d, op, "clCreateCommandQueue", error);
  }
  const fault none = { 0 };
  d->fault = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof none,
                            (void *)(uintptr_t)&none, &error);
  if (!d->fault) {
    (void)clReleaseCommandQueue(queue);
    (void)clReleaseContext(context);
    return situ__cl_fail(d, op, "clCreateBuffer", error);
  }
  d->context = context;
  d->queue = queue;
  d->open = true;
  return SITU_OK;
}

situ__cl_device *situ__cl_enter(int index, const char *op, situ_status *status) {
  situ__cl_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  *status = d->open ? SITU_OK : open_device(d, op);
  if (*status == SITU_OK) return d;
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

situ_status situ__cl_leave(situ__cl_device *device, situ_status status) {
  pthread_mutex_unlock(&device->lock);
  return status;
}

situ__target *situ__target_enter(int index, const char *op, situ_status *status) {
  return (situ__target *)situ__cl_enter(index, op, status);
}

situ_status situ__target_leave(situ__target *target, situ_status status) {
  return situ__cl_leave((situ__cl_device *)target, status);
}

bool situ__target_fp64(int index) { return devices[index].target.fp64; }
