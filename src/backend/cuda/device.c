/* Finding, describing and opening CUDA devices.
   SPDX-License-Identifier: MIT */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "backend/cuda/cuda.h"

static situ__cuda_device devices[SITU__CUDA_DEVICES];
static int own, found; /* devices that situ found, and all */
static int driver, runtime;
static char why[512];
static const char *_Atomic told = why;
static pid_t owner; /* a forked child cannot use the context: the driver's threads exist only in the parent */
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- finding -------------------------------------------------------------------------------- */

static int attribute(int index, enum cudaDeviceAttr what) {
  int value = 0;
  return situ__cuda.DeviceGetAttribute(&value, what, index) == cudaSuccess ? value : 0;
}

cudaError_t situ__cuda_query(situ__cuda_device *d, int ordinal) {
  struct cudaDeviceProp p;
  memset(&p, 0, sizeof p);
  cudaError_t error = situ__cuda.GetDeviceProperties(&p, ordinal);
  if (error != cudaSuccess) return error;
  d->ordinal = ordinal;
  d->pools = attribute(ordinal, cudaDevAttrMemoryPoolsSupported);
  d->properties.memory_total = p.totalGlobalMem;
  d->properties.dtypes = ((1u << SITU_DTYPES) - 1) & ~(1u << SITU_DTYPE_DEFAULT);
  (void)snprintf(d->properties.name, sizeof d->properties.name, "%.100s", p.name);
  const unsigned pci[4] = { (unsigned)p.pciDomainID, (unsigned)p.pciBusID, (unsigned)p.pciDeviceID, 0 };
  situ__lower_identify(&d->properties, (const unsigned char *)p.uuid.bytes, pci);
  char versions[128]; /* larger than any numbers need, else the compiler warns */
  (void)snprintf(versions, sizeof versions, "compute %d.%d, driver %d.%d, runtime %d.%d", p.major, p.minor,
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  (void)snprintf(d->properties.driver, sizeof d->properties.driver, "%.63s", versions);
  return cudaSuccess;
}

static void make_locks(void) {
  pthread_mutexattr_t recursive;
  (void)pthread_mutexattr_init(&recursive);
  (void)pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  for (int k = 0; k < SITU__CUDA_DEVICES; k++) {
    devices[k].target = (situ__target)SITU__AHEAD_TARGET;
    devices[k].target.index = k;
    (void)pthread_mutex_init(&devices[k].lock, &recursive);
  }
  (void)pthread_mutexattr_destroy(&recursive);
}

/* The runtime reports the same error for an absent driver and for one that is too old: the version distinguishes
   them. */
static void explain(cudaError_t error) {
  if (error == cudaErrorInsufficientDriver && driver == 0)
    (void)snprintf(why, sizeof why, "the CUDA runtime %d.%d is there, but no NVIDIA driver (libcuda.so.1)",
                   runtime / 1000, runtime % 1000 / 10);
  else if (error == cudaErrorInsufficientDriver)
    (void)snprintf(why, sizeof why,
                   "the NVIDIA driver is too old: it knows CUDA %d.%d, the runtime is %d.%d (install "
                   "a newer driver)",
                   driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
  else if (error == cudaSuccess || error == cudaErrorNoDevice)
    (void)snprintf(why, sizeof why,
                   "the NVIDIA driver is there (CUDA %d.%d), but no device that it gives out (is "
                   "CUDA_VISIBLE_DEVICES set?)",
                   driver / 1000, driver % 1000 / 10);
  else
    (void)snprintf(why, sizeof why, "the devices cannot be counted: %s (%s, %d)", situ__cuda.GetErrorString(error),
                   situ__cuda.GetErrorName(error), (int)error);
}

static void find_devices(void) {
  owner = getpid();
  make_locks();
  if (!situ__cuda_open(why, sizeof why)) return;
  int count = 0; /* keeps its value if there is no driver */
  cudaError_t error = situ__cuda.RuntimeGetVersion(&runtime);
  if (error == cudaSuccess && runtime / 1000 != CUDART_VERSION / 1000) {
    (void)snprintf(why, sizeof why, "the CUDA runtime is %d.%d, and this module was built for %d", runtime / 1000,
                   runtime % 1000 / 10, CUDART_VERSION / 1000);
    return;
  }
  if (error == cudaSuccess) error = situ__cuda.DriverGetVersion(&driver);
  if (error == cudaSuccess) error = situ__cuda.GetDeviceCount(&count);
  if (error != cudaSuccess) count = 0;
  if (count > SITU__CUDA_DEVICES) count = SITU__CUDA_DEVICES;
  for (int k = 0; k < count && error == cudaSuccess; k++) error = situ__cuda_query(&devices[k], k);
  if (error != cudaSuccess || count == 0) {
    explain(error);
    return;
  }
  own = found = count;
  (void)snprintf(why, sizeof why, "%d device%s, driver %d.%d, runtime %d.%d", found, found == 1 ? "" : "s",
                 driver / 1000, driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10);
}

int situ__cuda_count(const char **reason) {
  (void)pthread_once(&once, find_devices);
  *reason = atomic_load(&told);
  return __atomic_load_n(&found, __ATOMIC_ACQUIRE);
}

int situ__cuda_ordinals(void) { return own; }

void situ__cuda_grow(int count) { situ__lower_grow(&found, count); }

/* Callers may keep the text they got, so a longer one goes to another buffer. */
void situ__cuda_note(const char *note) {
  enum { NOTES = 8 };
  static char text[NOTES][1024];
  static int count;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  if (count < NOTES) {
    (void)snprintf(text[count], sizeof *text, "%s; %s", atomic_load(&told), note);
    atomic_store(&told, text[count++]);
  }
  pthread_mutex_unlock(&lock);
}

situ_status situ__cuda_info(int index, situ_device_properties *out) {
  *out = devices[index].properties;
  return SITU_OK;
}

const char *situ__cuda_why_lost(int index) {
  situ__cuda_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  const char *why_lost = d->lost ? d->cause : NULL;
  pthread_mutex_unlock(&d->lock);
  return why_lost;
}

/* ---- opening -------------------------------------------------------------------------------- */

/* Our own pool, which never returns memory by itself, as the library caches freed memory anyway; the program's use of
   the device's default pool is not affected. */
static cudaError_t make_pool(situ__cuda_device *d) {
  const struct cudaMemPoolProps props = { .allocType = cudaMemAllocationTypePinned,
                                          .location = { .type = cudaMemLocationTypeDevice, .id = d->ordinal } };
  uint64_t all = UINT64_MAX;
  cudaError_t error = situ__cuda.MemPoolCreate(&d->pool, &props);
  if (error != cudaSuccess) return error;
  return situ__cuda.MemPoolSetAttribute(d->pool, cudaMemPoolAttrReleaseThreshold, &all);
}

/* The thread's current device is left as it was found: enter_current and leave_current pair. */
static cudaError_t enter_current(situ__cuda_device *d) {
  if (d->depth++ == 0 && situ__cuda.GetDevice(&d->before) != cudaSuccess) d->before = d->ordinal;
  return situ__cuda.SetDevice(d->ordinal);
}

static void leave_current(situ__cuda_device *d) {
  if (d->depth && --d->depth == 0 && d->before != d->ordinal) (void)situ__cuda.SetDevice(d->before);
}

/* non-blocking: neither waits for the program's work on the default stream nor delays it */
static cudaError_t make_streams(situ__cuda_device *d, const char **call) {
  *call = "cudaStreamCreateWithFlags";
  cudaError_t error = situ__cuda.StreamCreateWithFlags(&d->stream, cudaStreamNonBlocking);
  if (error != cudaSuccess) return error;
  *call = "opening streams for copies";
  return situ__cuda_open_order(d);
}

static cudaError_t open_parts(situ__cuda_device *d, const char **call) {
  cudaError_t error = enter_current(d);
  *call = "cudaSetDevice";
  if (error == cudaSuccess && !d->adopted) error = make_streams(d, call);
  if (error != cudaSuccess) return error;
  *call = "cudaEventCreateWithFlags";
  error = situ__cuda.EventCreateWithFlags(&d->here, cudaEventDisableTiming);
  if (error != cudaSuccess) return error;
  *call = "cudaHostAlloc";
  error = situ__cuda.HostAlloc((void **)&d->fault, sizeof *d->fault, cudaHostAllocMapped | cudaHostAllocPortable);
  if (error != cudaSuccess) return error;
  *d->fault = (fault){ 0 };
  *call = "cudaMemPoolCreate";
  return d->pools ? make_pool(d) : cudaSuccess;
}

void situ__cuda_close(situ__cuda_device *d) {
  if (d->pool) (void)situ__cuda.MemPoolDestroy(d->pool);
  if (d->fault) (void)situ__cuda.FreeHost(d->fault);
  situ__cuda_close_order(d);
  if (d->here) (void)situ__cuda.EventDestroy(d->here);
  if (d->stream && (!d->adopted || d->opened)) (void)situ__cuda.StreamDestroy(d->stream);
  d->pool = NULL;
  d->fault = NULL;
  d->here = NULL;
  d->stream = NULL;
  d->program = (situ_foreign){ 0 };
  d->open = d->adopted = d->opened = false;
}

static situ_status open_device(situ__cuda_device *d, const char *op) {
  if (getpid() != owner)
    return situ__host->fail(SITU_E_STATE, op,
                            "CUDA was started before this process was forked; its devices stayed in the parent");
  situ__host->fork_guard();
  const char *call;
  cudaError_t error = open_parts(d, &call);
  if (error != cudaSuccess) {
    situ__cuda_close(d);
    return situ__cuda_fail(d, op, call, error);
  }
  d->open = true;
  return SITU_OK;
}

situ__cuda_device *situ__cuda_enter(int index, const char *op, situ_status *status) {
  situ__cuda_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  const bool was_lost = d->lost;
  if (was_lost) *status = situ__cuda_lost(d, op);
  else if (!d->open) *status = open_device(d, op);
  else {
    cudaError_t error = enter_current(d);
    *status = error == cudaSuccess ? SITU_OK : situ__cuda_fail(d, op, "cudaSetDevice", error);
  }
  if (*status == SITU_OK) return d;
  if (!was_lost) leave_current(d);
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

situ__cuda_device *situ__cuda_adopting(int index, const char *op, int ordinal, const situ_foreign *foreign,
                                       situ_status *status) {
  situ__cuda_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  d->lost = false; /* of an attempt before */
  d->queued = d->good = 0;
  d->stream = foreign->queue ? foreign->queue : cudaStreamLegacy;
  d->program = *foreign;
  d->adopted = true;
  const cudaError_t error = situ__cuda_query(d, ordinal);
  d->pools = d->pools && !foreign->alloc;
  if (error != cudaSuccess) *status = situ__cuda_fail(d, op, "cudaGetDeviceProperties", error);
  else *status = open_device(d, op);
  if (*status == SITU_OK) return d;
  situ__cuda_close(d);
  (void)situ__cuda_leave(d, *status);
  return NULL;
}

situ__cuda_device *situ__cuda_enter_to_close(int index) {
  situ__cuda_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  (void)enter_current(d);
  return d;
}

situ__cuda_device *situ__cuda_entered(int index) { return &devices[index]; }

situ__cuda_device *situ__cuda_enter_open(int index) {
  situ__cuda_device *d = &devices[index];
  pthread_mutex_lock(&d->lock);
  if (d->open && !d->lost) {
    cudaError_t error = enter_current(d);
    if (error == cudaSuccess) return d;
    situ__cuda_lose(d, "cudaSetDevice", error);
    leave_current(d);
  }
  pthread_mutex_unlock(&d->lock);
  return NULL;
}

situ_status situ__cuda_leave(situ__cuda_device *device, situ_status status) {
  leave_current(device);
  pthread_mutex_unlock(&device->lock);
  return status;
}
