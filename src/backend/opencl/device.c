/* Finds, describes and opens OpenCL devices, and maps errors to statuses.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/opencl/opencl.h"

enum { DEVICES = 64, PLATFORMS = 16 };

static situ__cl_device devices[DEVICES];
static int found;
static char why[256];
static pid_t owner; /* a forked child must not use the driver's threads, which exist only in the parent */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- failures ------------------------------------------------------------------------------- */

/* Maps an error to a status. waited: the call waited for work, so the error may belong to any work before it. */
static situ_status meaning(cl_int error, bool waited) {
  switch (error) {
  case CL_MEM_OBJECT_ALLOCATION_FAILURE:
  case CL_OUT_OF_HOST_MEMORY: return SITU_E_NOMEM;
  case CL_OUT_OF_RESOURCES: return waited ? SITU_E_LOST : SITU_E_NOMEM;
  case CL_COMPILER_NOT_AVAILABLE:
  case CL_BUILD_PROGRAM_FAILURE:
  case CL_INVALID_BUILD_OPTIONS:
  case CL_INVALID_BUFFER_SIZE:
  case CL_INVALID_WORK_GROUP_SIZE:
  case CL_INVALID_WORK_ITEM_SIZE:
  case CL_INVALID_GLOBAL_WORK_SIZE: return SITU_E_UNSUPPORTED;
  /* These were valid when they were created. */
  case CL_INVALID_DEVICE:
  case CL_INVALID_CONTEXT:
  case CL_INVALID_COMMAND_QUEUE: return SITU_E_LOST;
  default: return error <= CL_INVALID_VALUE && error > -1000 ? SITU_E_ARG : SITU_E_LOST;
  }
}

static const char *error_name(cl_int error) {
  switch (error) {
  case CL_SUCCESS: return "none";
  case CL_DEVICE_NOT_FOUND: return "it has no device";
  case CL_DEVICE_NOT_AVAILABLE: return "the device is not available";
  case CL_COMPILER_NOT_AVAILABLE: return "its driver has no compiler";
  case CL_MEM_OBJECT_ALLOCATION_FAILURE: return "no device memory";
  case CL_OUT_OF_RESOURCES: return "out of resources";
  case CL_OUT_OF_HOST_MEMORY: return "no host memory";
  case CL_BUILD_PROGRAM_FAILURE: return "a program does not compile";
  case CL_INVALID_BUILD_OPTIONS: return "options that its compiler does not accept; see $SITU_OPENCL_OPTIONS";
  case CL_INVALID_BUFFER_SIZE:
  case CL_INVALID_WORK_GROUP_SIZE:
  case CL_INVALID_WORK_ITEM_SIZE:
  case CL_INVALID_GLOBAL_WORK_SIZE: return "larger than the device allows";
  case CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST: return "earlier work failed";
  default:
    return meaning(error, false) == SITU_E_ARG ? "not accepted, which is a mistake of situ's or of the driver's"
                                               : "error";
  }
}

situ_status situ__cl_fail(situ__cl_device *device, const char *op, const char *call, cl_int error, bool waited) {
  situ_status status = meaning(error, waited);
  if (status == SITU_E_LOST && !*device->lost)
    (void)snprintf(device->lost, sizeof device->lost, "%s: %s (%d)", call, error_name(error), (int)error);
  return situ__host->fail(status, op, "opencl:%d: %s: %s (%d)%s", device->target.index, call, error_name(error),
                          (int)error, status == SITU_E_LOST ? "; the device is lost" : "");
}

const char *situ__cl_lost(int index) {
  situ__cl_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  const char *why_lost = *d->lost ? d->lost : NULL;
  pthread_mutex_unlock(&d->lock);
  return why_lost;
}

/* ---- finding devices ----------------------------------------------------------------------- */

/* Queries one property; does nothing after an earlier failure. */
static void ask(cl_device_id id, cl_device_info what, size_t size, void *to, cl_int *error) {
  if (*error == CL_SUCCESS) *error = clGetDeviceInfo(id, what, size, to, NULL);
}

/* Asks for what not all drivers know, by numbers that not all headers have. */
static void identify(situ__cl_device *d, const char *extensions, cl_int *error) {
  unsigned char uuid[16] = { 0 };
  cl_uint pci[4] = { 0 };
  if (strstr(extensions, "cl_khr_device_uuid")) ask(d->id, 0x106A, sizeof uuid, uuid, error);
  if (strstr(extensions, "cl_khr_pci_bus_info")) ask(d->id, 0x410F, sizeof pci, pci, error);
  situ__lower_identify(&d->known, uuid, pci);
}

/* Properties that are shown to users. */
static void describe(situ__cl_device *d, cl_int *error) {
  situ_device_properties *known = &d->known;
  char version[96] = "";
  ask(d->id, CL_DEVICE_NAME, sizeof known->name - 1, known->name, error);
  ask(d->id, CL_DRIVER_VERSION, sizeof version - 1, version, error);
  if (*error == CL_SUCCESS)
    *error = clGetPlatformInfo(d->platform, CL_PLATFORM_NAME, sizeof known->driver / 2, known->driver, NULL);
  size_t used = strlen(known->driver);
  (void)snprintf(known->driver + used, sizeof known->driver - used, " %s", version);
  known->memory_total = d->budget;
  known->dtypes = ((1u << SITU_DTYPES) - 1) & ~(1u << SITU_DTYPE_DEFAULT);
  if (!d->target.fp64) known->dtypes &= ~(1u << SITU_F64);
}

cl_int situ__cl_query(situ__cl_device *d, cl_platform_id platform, cl_device_id id) {
  cl_int error = CL_SUCCESS;
  cl_bool usable = CL_FALSE, compiler = CL_FALSE;
  cl_device_type type = 0;
  cl_ulong total = 0, largest = 0;
  cl_device_fp_config config = 0;
  size_t most = 1;
  char extensions[8192] = "";
  ask(id, CL_DEVICE_AVAILABLE, sizeof usable, &usable, &error);
  ask(id, CL_DEVICE_COMPILER_AVAILABLE, sizeof compiler, &compiler, &error);
  ask(id, CL_DEVICE_TYPE, sizeof type, &type, &error);
  ask(id, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof total, &total, &error);
  ask(id, CL_DEVICE_MAX_MEM_ALLOC_SIZE, sizeof largest, &largest, &error);
  ask(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, &error);
  ask(id, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof most, &most, &error);
  ask(id, CL_DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, &error);
  d->target.cpu = type & CL_DEVICE_TYPE_CPU;
  d->target.fp64 = strstr(extensions, "cl_khr_fp64") != NULL;
  d->platform = platform;
  d->id = id;
  d->budget = total;
  d->largest = largest;
  d->known = (situ_device_properties){ 0 };
  describe(d, &error);
  identify(d, extensions, &error);
  if (error != CL_SUCCESS) return error;
  if (!usable) return CL_DEVICE_NOT_AVAILABLE;
  if (!compiler) return CL_COMPILER_NOT_AVAILABLE;
  d->exact_division = config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT;
  for (d->target.group = 256; d->target.group > most;) d->target.group /= 2;
  return CL_SUCCESS;
}

static cl_int add_device(cl_platform_id platform, cl_device_id id) {
  const cl_int error = situ__cl_query(&devices[found], platform, id);
  if (error == CL_SUCCESS) found++;
  return error;
}

/* Recursive: the holder may ask the library for scratch, which may allocate here. */
static void make_locks(void) {
  pthread_mutexattr_t kind;
  (void)pthread_mutexattr_init(&kind);
  (void)pthread_mutexattr_settype(&kind, PTHREAD_MUTEX_RECURSIVE);
  for (int i = 0; i < DEVICES; i++) {
    devices[i].target.index = i;
    (void)pthread_mutex_init(&devices[i].lock, &kind);
  }
  (void)pthread_mutexattr_destroy(&kind);
}

static void find_devices(void) {
  cl_platform_id platforms[PLATFORMS];
  cl_uint count = 0;
  owner = getpid();
  make_locks();
  cl_int error = clGetPlatformIDs(PLATFORMS, platforms, &count);
  if (error != CL_SUCCESS || count == 0) {
    (void)snprintf(why, sizeof why,
                   "no OpenCL platform is installed (clGetPlatformIDs: %d; Debian: pocl-opencl-icd "
                   "runs on any processor)",
                   (int)error);
    return;
  }
  if (count > PLATFORMS) count = PLATFORMS;
  cl_int last = CL_SUCCESS;
  for (cl_uint p = 0; p < count; p++) {
    cl_device_id ids[DEVICES];
    cl_uint many = 0;
    error = clGetDeviceIDs(platforms[p], CL_DEVICE_TYPE_ALL, DEVICES, ids, &many);
    if (error != CL_SUCCESS) last = error;
    for (cl_uint k = 0; error == CL_SUCCESS && k < many && found < DEVICES; k++) {
      cl_int refused = add_device(platforms[p], ids[k]);
      if (refused != CL_SUCCESS) last = refused;
    }
  }
  if (found)
    (void)snprintf(why, sizeof why, "%d device%s, through %u platform%s", found, found == 1 ? "" : "s", count,
                   count == 1 ? "" : "s");
  else
    (void)snprintf(why, sizeof why, "%u OpenCL platform%s, but no device that can be used (%s: %d); clinfo lists them",
                   count, count == 1 ? "" : "s", error_name(last), (int)last);
}

int situ__cl_count(const char **reason) {
  (void)pthread_once(&once, find_devices);
  *reason = why;
  return __atomic_load_n(&found, __ATOMIC_ACQUIRE);
}

void situ__cl_grow(int count) { situ__lower_grow(&found, count); }

situ_status situ__cl_info(int index, situ_device_properties *out) {
  *out = devices[index].known;
  return SITU_OK;
}

/* ---- the end of the process ----------------------------------------------------------------- */

/* If the process ends while a driver's threads still compile or compute for us, they use destroyed objects: PoCL
   crashes. So the thread that ends it waits first. */
static void wait_for_all(void *unused) {
  (void)unused;
  for (int i = 0; i < found && getpid() == owner; i++) {
    pthread_mutex_lock(&devices[i].lock);
    const situ__cl_device *d = &devices[i];
    if (d->open && !d->aside && !*d->lost) (void)clFinish(d->queue); /* the program waits for its own queues */
    pthread_mutex_unlock(&devices[i].lock);
  }
}

/* Registers a C++ thread-local destructor. exit() runs these before all atexit functions and destructors of static
   objects, including those that drivers register late. */
extern int __cxa_thread_atexit_impl(void (*)(void *), void *, void *) __attribute__((weak));
extern void *__dso_handle;

static void wait_at_exit(void) {
  static _Thread_local bool will;
  if (will) return;
  will = true;
  if (__cxa_thread_atexit_impl) (void)__cxa_thread_atexit_impl(wait_for_all, NULL, &__dso_handle);
}

/* ---- opening -------------------------------------------------------------------------------- */

situ_status situ__cl_open(situ__cl_device *d, const char *op, cl_context context, cl_command_queue queue) {
  const fault none = { 0 };
  cl_int error;
  d->fault =
      clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof none, (void *)(uintptr_t)&none, &error);
  if (!d->fault) return situ__cl_fail(d, op, "clCreateBuffer", error, false);
  d->context = context;
  d->queue = queue;
  d->open = true;
  return SITU_OK;
}

bool situ__cl_may_open(const char *op) {
  situ__host->fork_guard();
  if (getpid() == owner) return true;
  return situ__host->fail(SITU_E_STATE, op,
                          "OpenCL was started before this process was forked; its devices stayed in the parent"),
         false;
}

static situ_status open_device(situ__cl_device *d, const char *op) {
  if (!situ__cl_may_open(op)) return SITU_E_STATE;
  cl_int error;
  const cl_context_properties properties[] = { CL_CONTEXT_PLATFORM, (cl_context_properties)d->platform, 0 };
  cl_context context = clCreateContext(properties, 1, &d->id, NULL, NULL, &error);
  if (!context) return situ__cl_fail(d, op, "clCreateContext", error, false);
  cl_command_queue queue = clCreateCommandQueue(context, d->id, 0, &error);
  if (!queue) {
    (void)clReleaseContext(context);
    return situ__cl_fail(d, op, "clCreateCommandQueue", error, false);
  }
  const situ_status status = situ__cl_open(d, op, context, queue);
  if (status == SITU_OK) return SITU_OK;
  (void)clReleaseCommandQueue(queue);
  (void)clReleaseContext(context);
  return status;
}

situ__cl_device *situ__cl_enter(int index, const char *op, situ_status *status) {
  situ__cl_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  wait_at_exit();
  *status = *d->lost  ? situ__host->fail(SITU_E_LOST, op, "opencl:%d is lost: %s", index, d->lost)
            : d->open ? SITU_OK
                      : open_device(d, op);
  if (*status == SITU_OK) return d;
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

situ_status situ__cl_leave(situ__cl_device *device, situ_status status) {
  pthread_mutex_unlock(&device->lock);
  return status;
}

situ__cl_device *situ__cl_enter_to_free(int index) {
  pthread_mutex_lock(&devices[index].lock);
  return &devices[index];
}

const situ__target *situ__cl_target_of(int index) { return &devices[index].target; }
