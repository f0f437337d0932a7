/* See shim.h. Each function asks first whether it is to fail, and then calls the real one.
   SPDX-License-Identifier: MIT */
#define CL_TARGET_OPENCL_VERSION 120
#include "support/opencl/shim.h"

#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *library;
static bool gpu, no_fp64, known_chip;
static size_t group; /* 0: the device's own */

static const char *only, *failed;
static long left;
static int code;
static bool on;
static long alive[SHIM_OBJECTS];
static const char *damage, *spoiled;
static int spoiled_argument;

/* How often something with this name was met. */
typedef struct tally {
  char name[48];
  long count;
} tally;
enum { NAMES = 64, OBJECTS = 1 << 13 };
static tally calls[NAMES], launches[NAMES];

/* Programs and kernels whose source was seen, and which text it is of; of kernels also their first buffers. */
typedef struct seen {
  const void *object;
  tally *text;
  cl_mem buffer[3];
} seen;
static seen known[OBJECTS];

__attribute__((constructor)) static void open_library(void) {
  const char *words = getenv("SITU_SHIM");
  library = dlsym(RTLD_NEXT, "clFinish")
                ? RTLD_NEXT
                : dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL); /* Oclgrind's is preloaded */
  gpu = words && strstr(words, "gpu");
  known_chip = words && strstr(words, "ids");
  no_fp64 = words && strstr(words, "nofp64");
  const char *largest = words ? strstr(words, "group=") : NULL;
  group = largest ? strtoul(largest + strlen("group="), NULL, 10) : 0;
}

void shim_fail(const char *name, long nth, int with, bool from_then_on) {
  pthread_mutex_lock(&lock);
  only = name, failed = NULL, left = nth, code = with, on = from_then_on;
  pthread_mutex_unlock(&lock);
}

const char *shim_failed(void) { return failed; }

/* The tally of a name; the lock is held. */
static tally *of_name(tally *list, const char *name, size_t length) {
  tally *at = list;
  while (at < list + NAMES - 1 && *at->name && (strncmp(at->name, name, length) != 0 || at->name[length])) at++;
  if (!*at->name && length < sizeof at->name) memcpy(at->name, name, length);
  return at;
}

static long count_of(tally *list, const char *name) {
  pthread_mutex_lock(&lock);
  long count = of_name(list, name, strlen(name))->count;
  pthread_mutex_unlock(&lock);
  return count;
}

long shim_calls(const char *name) { return count_of(calls, name); }
long shim_launches(const char *text) { return count_of(launches, text); }
void shim_damage(const char *source) { damage = source; }
void shim_spoil(const char *text, int argument) { spoiled = text, spoiled_argument = argument; }

/* What is known of an object, or a place to keep it; NULL: neither. */
static seen *seen_of(const void *object) {
  for (int k = 0; k < OBJECTS; k++) {
    if (!known[k].object) known[k].object = object;
    if (known[k].object == object) return &known[k];
  }
  return NULL;
}

static void know(const void *object, tally *text) {
  pthread_mutex_lock(&lock);
  seen *at = object ? seen_of(object) : NULL;
  if (at) at->text = text;
  pthread_mutex_unlock(&lock);
}

static tally *known_text(const void *object) {
  pthread_mutex_lock(&lock);
  const seen *at = seen_of(object);
  tally *text = at ? at->text : NULL;
  pthread_mutex_unlock(&lock);
  return text;
}

/* Sources say where a text begins: #line 1 "name". */
static tally *text_in(cl_uint n, const char **parts) {
  static const char begin[] = "#line 1 \"";
  tally *text = NULL;
  for (cl_uint k = 0; k < n && !text; k++) {
    const char *at = strstr(parts[k], begin);
    if (!at) continue;
    at += strlen(begin);
    pthread_mutex_lock(&lock);
    text = of_name(launches, at, strcspn(at, "\""));
    pthread_mutex_unlock(&lock);
  }
  return text;
}

long shim_alive(shim_object of) { return __atomic_load_n(&alive[of], __ATOMIC_RELAXED); }

/* What this call is to fail with. */
static cl_int told(const char *name) {
  cl_int error = CL_SUCCESS;
  pthread_mutex_lock(&lock);
  of_name(calls, name, strlen(name))->count++;
  if (failed && on) {
    error = code;
  } else if (left && (!only || strcmp(only, name) == 0) && --left == 0) {
    failed = name;
    error = code;
  }
  pthread_mutex_unlock(&lock);
  return error;
}

typedef void function(void);
static function *find(const char *name) {
  union {
    void *data;
    function *code;
  } at = { dlsym(library, name) };
  return at.code;
}
#define REAL(name) ((__typeof__(&name))find(#name))

static void count(shim_object of, const void *made, long change) {
  if (made) (void)__atomic_add_fetch(&alive[of], change, __ATOMIC_RELAXED);
}

/* ---- what there is -------------------------------------------------------------------------- */

cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *ids, cl_uint *many) {
  cl_int error = told(__func__);
  return error ? error : REAL(clGetPlatformIDs)(n, ids, many);
}

cl_int clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t size, void *to, size_t *used) {
  cl_int error = told(__func__);
  return error ? error : REAL(clGetPlatformInfo)(id, what, size, to, used);
}

cl_int clGetDeviceIDs(cl_platform_id of, cl_device_type type, cl_uint n, cl_device_id *ids, cl_uint *many) {
  cl_int error = told(__func__);
  return error ? error : REAL(clGetDeviceIDs)(of, type, n, ids, many);
}

cl_int clGetDeviceInfo(cl_device_id id, cl_device_info what, size_t size, void *to, size_t *used) {
  static const unsigned char uuid[16] = { 0xd0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 0 };
  static const cl_uint pci[4] = { 1, 0x65, 0, 0 };
  cl_int error = told(__func__);
  if (!error && known_chip && (what == CL_DEVICE_UUID_KHR || what == CL_DEVICE_PCI_BUS_INFO_KHR))
    return memcpy(to, what == CL_DEVICE_UUID_KHR ? (const void *)uuid : pci, size), CL_SUCCESS;
  if (!error) error = REAL(clGetDeviceInfo)(id, what, size, to, used);
  if (error || !to) return error;
  if (group && what == CL_DEVICE_MAX_WORK_GROUP_SIZE) *(size_t *)to = group;
  if (gpu && what == CL_DEVICE_TYPE) *(cl_device_type *)to = CL_DEVICE_TYPE_GPU;
  char *fp64 = no_fp64 && what == CL_DEVICE_EXTENSIONS ? strstr(to, "cl_khr_fp64") : NULL;
  if (known_chip && what == CL_DEVICE_EXTENSIONS) strcat(to, " cl_khr_device_uuid cl_khr_pci_bus_info");
  if (fp64) memcpy(fp64, "cl_no_fp64_", strlen("cl_no_fp64_"));
  return CL_SUCCESS;
}

/* ---- objects -------------------------------------------------------------------------------- */

cl_context clCreateContext(const cl_context_properties *properties, cl_uint n, const cl_device_id *ids,
                           void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                           cl_int *error) {
  cl_context made = (*error = told(__func__)) ? NULL : REAL(clCreateContext)(properties, n, ids, notify, user, error);
  count(SHIM_CONTEXT, made, 1);
  return made;
}

cl_command_queue clCreateCommandQueue(cl_context context, cl_device_id id, cl_command_queue_properties properties,
                                      cl_int *error) {
  cl_command_queue made = (*error = told(__func__)) ? NULL : REAL(clCreateCommandQueue)(context, id, properties, error);
  count(SHIM_QUEUE, made, 1);
  return made;
}

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host, cl_int *error) {
  cl_mem made = (*error = told(__func__)) ? NULL : REAL(clCreateBuffer)(context, flags, size, host, error);
  count(SHIM_BUFFER, made, 1);
  return made;
}

/* The module's sources are strings that end by themselves: it gives no sizes. */
cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **parts, const size_t *sizes,
                                     cl_int *error) {
  const char *more[8] = { no_fp64 ? "#undef cl_khr_fp64\n" : "" };
  cl_uint all = 1;
  for (cl_uint k = 0; k < n && all < 7; k++) more[all++] = parts[k];
  if (damage) more[all++] = damage;
  (void)sizes;
  if ((*error = told(__func__))) return NULL;
  cl_program made = REAL(clCreateProgramWithSource)(context, all, more, NULL, error);
  count(SHIM_PROGRAM, made, 1);
  know(made, text_in(n, parts));
  return made;
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *ids, const size_t *sizes,
                                     const unsigned char **binaries, cl_int *loaded, cl_int *error) {
  cl_program made = (*error = told(__func__))
                        ? NULL
                        : REAL(clCreateProgramWithBinary)(context, n, ids, sizes, binaries, loaded, error);
  count(SHIM_PROGRAM, made, 1);
  know(made, NULL);
  return made;
}

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *error) {
  cl_kernel made = (*error = told(__func__)) ? NULL : REAL(clCreateKernel)(program, name, error);
  count(SHIM_KERNEL, made, 1);
  know(made, known_text(program));
  return made;
}

cl_int clRetainContext(cl_context context) {
  count(SHIM_CONTEXT, context, 1);
  return REAL(clRetainContext)(context);
}

cl_int clRetainCommandQueue(cl_command_queue queue) {
  count(SHIM_QUEUE, queue, 1);
  return REAL(clRetainCommandQueue)(queue);
}

cl_int clRetainMemObject(cl_mem memory) {
  count(SHIM_BUFFER, memory, 1);
  return REAL(clRetainMemObject)(memory);
}

cl_int clReleaseContext(cl_context context) {
  count(SHIM_CONTEXT, context, -1);
  return REAL(clReleaseContext)(context);
}

cl_int clReleaseCommandQueue(cl_command_queue queue) {
  count(SHIM_QUEUE, queue, -1);
  return REAL(clReleaseCommandQueue)(queue);
}

cl_int clReleaseMemObject(cl_mem memory) {
  count(SHIM_BUFFER, memory, -1);
  return REAL(clReleaseMemObject)(memory);
}

cl_int clReleaseProgram(cl_program program) {
  count(SHIM_PROGRAM, program, -1);
  return REAL(clReleaseProgram)(program);
}

cl_int clReleaseKernel(cl_kernel kernel) {
  count(SHIM_KERNEL, kernel, -1);
  return REAL(clReleaseKernel)(kernel);
}

/* ---- programs ------------------------------------------------------------------------------- */

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *ids, const char *options,
                      void(CL_CALLBACK *notify)(cl_program, void *), void *user) {
  cl_int error = told(__func__);
  return error ? error : REAL(clBuildProgram)(program, n, ids, options, notify, user);
}

cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t size, void *to, size_t *used) {
  cl_int error = told(__func__);
  return error ? error : REAL(clGetProgramInfo)(program, what, size, to, used);
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id id, cl_program_build_info what, size_t size, void *to,
                             size_t *used) {
  cl_int error = told(__func__);
  return error ? error : REAL(clGetProgramBuildInfo)(program, id, what, size, to, used);
}

cl_int clSetKernelArg(cl_kernel kernel, cl_uint at, size_t size, const void *value) {
  cl_int error = told(__func__);
  if (at < 3 && size == sizeof(cl_mem)) {
    pthread_mutex_lock(&lock);
    seen *at_kernel = seen_of(kernel);
    if (at_kernel) memcpy(&at_kernel->buffer[at], value, size);
    pthread_mutex_unlock(&lock);
  }
  return error ? error : REAL(clSetKernelArg)(kernel, at, size, value);
}

/* ---- kernels that stand still ----------------------------------------------------------------- */

enum { WRITES = 64 };
static bool holding;
static cl_event gate; /* that they wait for; NULL: none was queued */
static struct {
  cl_event event;
  size_t bytes;
} written[WRITES];
static int writes;

void shim_hold(void) { holding = true; }

void shim_let_go(void) {
  holding = false;
  if (gate) (void)REAL(clSetUserEventStatus)(gate, CL_COMPLETE), (void)REAL(clReleaseEvent)(gate);
  gate = NULL;
  for (; writes; writes--) (void)REAL(clReleaseEvent)(written[writes - 1].event);
}

int shim_arrived(size_t bytes) {
  int arrived = 0;
  for (int i = 0; i < writes; i++) {
    cl_int state = CL_QUEUED;
    (void)REAL(clGetEventInfo)(written[i].event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL);
    arrived += state == CL_COMPLETE && written[i].bytes >= bytes;
  }
  return arrived;
}

static void note_write(cl_event event, size_t bytes) {
  if (!holding || writes == WRITES) return;
  (void)REAL(clRetainEvent)(event);
  written[writes].event = event;
  written[writes++].bytes = bytes;
}

static bool is_held(cl_command_queue queue) {
  cl_context context = NULL;
  cl_int error;
  if (!holding) return false;
  (void)REAL(clGetCommandQueueInfo)(queue, CL_QUEUE_CONTEXT, sizeof context, &context, NULL);
  if (!gate) gate = REAL(clCreateUserEvent)(context, &error);
  return gate;
}

/* ---- what is queued ------------------------------------------------------------------------- */

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                              cl_event *event) {
  cl_int error = told(__func__);
  tally *text = error ? NULL : known_text(kernel);
  if (text) (void)__atomic_add_fetch(&text->count, 1, __ATOMIC_RELAXED);
  const bool held = is_held(queue);
  if (!error)
    error = REAL(clEnqueueNDRangeKernel)(queue, kernel, dims, offset, global, local, held ? 1 : n, held ? &gate : wait,
                                         event);
  if (error || !text || !spoiled || strcmp(text->name, spoiled) != 0) return error;
  size_t bytes = 12; /* zeros: what reads them as an index stays inside */
  const cl_mem buffer = seen_of(kernel)->buffer[spoiled_argument];
  size_t all = 0;
  if (!buffer) return CL_SUCCESS;
  (void)REAL(clGetMemObjectInfo)(buffer, CL_MEM_SIZE, sizeof all, &all, NULL);
  if (all < bytes) bytes = all;
  return REAL(clEnqueueFillBuffer)(queue, buffer, "", 1, 0, bytes, 0, NULL, NULL);
}

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem from, cl_bool blocks, size_t at, size_t bytes, void *to,
                           cl_uint n, const cl_event *wait, cl_event *event) {
  cl_int error = told(__func__);
  return error ? error : REAL(clEnqueueReadBuffer)(queue, from, blocks, at, bytes, to, n, wait, event);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem to, cl_bool blocks, size_t at, size_t bytes,
                            const void *from, cl_uint n, const cl_event *wait, cl_event *event) {
  cl_int error = told(__func__);
  if (!error) error = REAL(clEnqueueWriteBuffer)(queue, to, blocks, at, bytes, from, n, wait, event);
  if (!error && event) note_write(*event, bytes);
  return error;
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t bytes,
                           cl_uint n, const cl_event *wait, cl_event *event) {
  cl_int error = told(__func__);
  return error ? error : REAL(clEnqueueCopyBuffer)(queue, from, to, from_at, to_at, bytes, n, wait, event);
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem to, const void *pattern, size_t size, size_t at, size_t bytes,
                           cl_uint n, const cl_event *wait, cl_event *event) {
  cl_int error = told(__func__);
  return error ? error : REAL(clEnqueueFillBuffer)(queue, to, pattern, size, at, bytes, n, wait, event);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem of, cl_bool blocks, cl_map_flags flags, size_t at, size_t bytes,
                         cl_uint n, const cl_event *wait, cl_event *event, cl_int *error) {
  *error = told(__func__);
  return *error ? NULL : REAL(clEnqueueMapBuffer)(queue, of, blocks, flags, at, bytes, n, wait, event, error);
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem of, void *at, cl_uint n, const cl_event *wait,
                               cl_event *event) {
  cl_int error = told(__func__);
  return error ? error : REAL(clEnqueueUnmapMemObject)(queue, of, at, n, wait, event);
}

cl_int clFinish(cl_command_queue queue) {
  cl_int error = told(__func__);
  return error ? error : REAL(clFinish)(queue);
}
