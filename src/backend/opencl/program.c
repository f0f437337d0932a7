/* Programs: compiled from a kernel's source on first use, cached in memory and on disk, and queued.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "backend/opencl/opencl.h"
#include "base/hash.h"

static const char *const text_name[] = {
#define ROW(name) #name,
  SITU__TEXTS(ROW)
#undef ROW
};

/* ---- source --------------------------------------------------------------------------------- */

const char *situ__cl_dtype_name(int dtype) {
  static const char *const name[SITU_DTYPES] = { "",    "bool", "u8",   "i8",  "i16", "i32",
                                                 "i64", "f16",  "bf16", "f32", "f64" };
  return name[dtype];
}

/* Definitions before a source: its types, its op and its device. */
static void prologue(const situ__cl_device *d, const situ__call *call, char *out, size_t size) {
  static const char *const compute[] = {
    "#define T float\n#define TYPE float\n#define WIDE 16\n#define TNAME f32\n#define FLOATING 1\n",
    "#define T double\n#define TYPE double\n#define WIDE 8\n#define TNAME f64\n#define FLOATING 1\n",
    "#define T I64\n#define TYPE long\n#define WIDE 8\n#define TNAME i64\n#define FLOATING 0\n"
  };
  const situ__variant *v = &call->variant;
  int used = snprintf(out, size,
                      "#define GROUP_SIZE %zu\n#define ON_CPU %d\n#define OP %d\n#define FLAGS "
                      "%u\n#define NAME %s\n%s",
                      d->target.group, d->target.cpu, v->op, v->flags, call->name ? call->name : "none",
                      v->compute ? compute[situ__lower_compute_of((situ_dtype)v->compute)] : "");
  for (int k = 0; k < SITU__CALL_DTYPES; k++)
    if (v->dtype[k])
      used += snprintf(out + used, size - (size_t)used, "#define D%d %s\n", k, situ__cl_dtype_name(v->dtype[k]));
  (void)snprintf(out + used, size - (size_t)used, "#line 1 \"%s\"\n", text_name[v->text]);
}

/* Key of a program on disk: a hash of everything that determines how it compiles. */
static void program_key(const situ__cl_device *d, const char *head, const char *text, char key[33]) {
  uint64_t half[2] = { SITU__HASH, 0x9ae16a3b2f90404fu };
  for (int k = 0; k < 2; k++) {
    half[k] = situ__hash(half[k], &d->identity, sizeof d->identity);
    half[k] = situ__hash(half[k], head, strlen(head) + 1);
    half[k] = situ__hash(half[k], text, strlen(text));
  }
  (void)snprintf(key, 33, "%016llx%016llx", (unsigned long long)half[0], (unsigned long long)half[1]);
}

/* ---- building ------------------------------------------------------------------------------- */

/* Before the options where the declarations of OpenCL's functions are ours. */
#define OURS "-D_OPENCL_H_ "

/* Sets the compiler options, behind OURS, and the hash of this driver. Returns false when out of memory. */
static bool identify(situ__cl_device *d) {
  char version[256] = "";
  (void)clGetDeviceInfo(d->id, CL_DEVICE_VERSION, sizeof version - 1, version, NULL);
  const char *options =
      d->exact_division ? OURS "-cl-std=CL1.2 -w -cl-fp32-correctly-rounded-divide-sqrt " : OURS "-cl-std=CL1.2 -w ";
  const char *given = secure_getenv("SITU_OPENCL_OPTIONS");
  if (!given) given = "";
  const size_t bytes = strlen(options) + strlen(given) + 1;
  d->build = situ__host->alloc(bytes);
  if (!d->build) return false;
  (void)snprintf(d->build, bytes, "%s%s", options, given);
  const char *const all[] = { d->build, d->known.name, d->known.driver, version };
  d->identity = SITU__HASH;
  for (size_t k = 0; k < sizeof all / sizeof *all; k++)
    d->identity = situ__hash(d->identity, all[k], strlen(all[k]) + 1);
  return true;
}

static const char *options_of(const situ__cl_device *d, bool ours) { return d->build + (ours ? 0 : strlen(OURS)); }

uint64_t situ__cl_identity(situ__cl_device *d) {
  if (!d->build && !identify(d)) return 0;
  uint64_t hash = situ__hash(d->identity, SITU_VERSION_STRING, sizeof SITU_VERSION_STRING);
  for (int k = 0; k < SITU__TEXT_COUNT; k++) {
    const char *text = situ__cl_text_of((situ__kernel_text)k);
    hash = situ__hash(hash, text, strlen(text));
  }
  return hash;
}

static situ_status does_not_compile(const situ__cl_device *d, const situ__call *call, cl_program program) {
  char *log = situ__host->alloc(1 << 16);
  size_t length = 0;
  if (log && clGetProgramBuildInfo(program, d->id, CL_PROGRAM_BUILD_LOG, (1 << 16) - 1, log, &length) != CL_SUCCESS)
    length = 0;
  if (log) log[length < 3000 ? length : 3000] = 0;
  situ_status status = situ__host->fail(
      SITU_E_UNSUPPORTED, call->op, "opencl:%d does not compile the kernel %s%s%s:\n%s", d->target.index,
      text_name[call->variant.text], call->name ? " for " : "", call->name ? call->name : "", log ? log : "");
  situ__host->free(log);
  return status;
}

static void store(cl_program program, const char *key) {
  size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, NULL) != CL_SUCCESS || !bytes) return;
  unsigned char *binary = situ__host->alloc(bytes);
  if (binary && clGetProgramInfo(program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL) == CL_SUCCESS)
    situ__cl_disk_write(key, binary, bytes);
  situ__host->free(binary);
}

static cl_program from_disk(const situ__cl_device *d, const char *key) {
  size_t bytes;
  unsigned char *binary = situ__cl_disk_read(key, &bytes);
  if (!binary) return NULL;
  cl_int error, loaded;
  const unsigned char *list[] = { binary };
  cl_program program = clCreateProgramWithBinary(d->context, 1, &d->id, &bytes, list, &loaded, &error);
  if (program &&
      (loaded != CL_SUCCESS || clBuildProgram(program, 1, &d->id, options_of(d, false), NULL, NULL) != CL_SUCCESS)) {
    (void)clReleaseProgram(program);
    program = NULL;
  }
  situ__host->free(binary);
  return program;
}

/* One attempt, with our declarations of OpenCL's functions or with the driver's. The call that failed is in *tried, and
   the program is kept for its log. */
static cl_int compile(const situ__cl_device *d, const char *head, const char *text, bool ours, const char **tried,
                      cl_program *out) {
  const char *parts[] = { ours ? situ__cl_builtins() : "", head, text };
  cl_int error;
  *tried = "clCreateProgramWithSource";
  *out = clCreateProgramWithSource(d->context, 3, parts, NULL, &error);
  if (!*out) return error;
  *tried = "clBuildProgram";
  return clBuildProgram(*out, 1, &d->id, options_of(d, ours), NULL, NULL);
}

static situ_status from_source(situ__cl_device *d, const situ__call *call, const char *head, const char *text,
                               cl_program *out) {
  const char *tried;
  bool ours = strstr(d->known.driver, "Portable Computing Language");
  cl_program program;
  cl_int error = compile(d, head, text, ours, &tried, &program);
  if (error == CL_BUILD_PROGRAM_FAILURE && ours) { /* a PoCL version that does not accept them */
    (void)clReleaseProgram(program);
    error = compile(d, head, text, false, &tried, &program);
  }
  if (error == CL_SUCCESS) {
    *out = program;
    return SITU_OK;
  }
  situ_status status = error == CL_BUILD_PROGRAM_FAILURE ? does_not_compile(d, call, program)
                                                         : situ__cl_fail(d, call->op, tried, error, false);
  if (program) (void)clReleaseProgram(program);
  return status;
}

static situ_status build(situ__cl_device *d, const situ__call *call, cl_program *out) {
  char head[1024], key[33];
  const char *text = situ__cl_text_of((situ__kernel_text)call->variant.text);
  if (!d->build && !identify(d)) return situ__cl_fail(d, call->op, "building", CL_OUT_OF_HOST_MEMORY, false);
  prologue(d, call, head, sizeof head);
  program_key(d, head, text, key);
  if (d->trials && d->listed < (int)(sizeof d->list / sizeof *d->list)) memcpy(d->list[d->listed++], key, sizeof key);
  situ_status status = SITU_OK;
  const int lock = situ__cl_disk_lock(key);
  *out = from_disk(d, key);
  if (!*out) {
    status = from_source(d, call, head, text, out);
    if (status == SITU_OK) store(*out, key);
  }
  situ__cl_disk_unlock(lock, key);
  return status;
}

/* ---- kernels -------------------------------------------------------------------------------- */

/* f64 values can be stored on any device, but a compiler without double would only fail with its own message. */
static bool needs_f64(const situ__variant *v) {
  bool needed = v->compute == SITU_F64;
  for (int k = 0; k < SITU__CALL_DTYPES; k++) needed = needed || v->dtype[k] == SITU_F64;
  return needed;
}

static situ_status make(situ__cl_device *d, const situ__call *call, cl_kernel *out) {
  if (!d->target.fp64 && needs_f64(&call->variant)) return SITU_E_UNSUPPORTED;
  cl_program program;
  situ_status status = build(d, call, &program);
  if (status != SITU_OK) return status;
  cl_int error;
  cl_kernel kernel = clCreateKernel(program, "run", &error);
  (void)clReleaseProgram(program); /* the kernel holds a reference */
  if (!kernel) return situ__cl_fail(d, call->op, "clCreateKernel", error, false);
  if (!situ__table_add(&d->kernels, &call->variant, kernel)) {
    (void)clReleaseKernel(kernel);
    return situ__cl_fail(d, call->op, "building", CL_OUT_OF_HOST_MEMORY, false);
  }
  *out = kernel;
  return SITU_OK;
}

/* ---- queueing ------------------------------------------------------------------------------- */

situ_status situ__cl_target_launch(situ__target *target, const situ__call *call, int64_t groups) {
  situ__cl_device *d = (situ__cl_device *)target;
  cl_kernel kernel = situ__table_find(&d->kernels, &call->variant);
  situ_status status = kernel ? SITU_OK : make(d, call, &kernel);
  if (status != SITU_OK) return status;
  cl_int error = CL_SUCCESS;
  cl_uint at = 0;
  for (int k = 0; k < call->buffers && error == CL_SUCCESS; k++)
    error = clSetKernelArg(kernel, at++, sizeof(cl_mem), &call->buffer[k]);
  for (int k = 0; k < call->blocks && error == CL_SUCCESS; k++)
    error = clSetKernelArg(kernel, at++, call->block[k].bytes, call->block[k].data);
  if (call->checks && error == CL_SUCCESS) error = clSetKernelArg(kernel, at++, sizeof(cl_mem), &d->fault);
  if (error != CL_SUCCESS) return situ__cl_fail(d, call->op, "clSetKernelArg", error, false);
  const size_t local = call->alone ? 1 : d->target.group, global = (size_t)groups * local;
  error = clEnqueueNDRangeKernel(d->queue, kernel, 1, NULL, &global, &local, 0, NULL, NULL);
  if (error != CL_SUCCESS) return situ__cl_fail(d, call->op, "clEnqueueNDRangeKernel", error, false);
  situ__cl_used(d, call->buffers, call->buffer);
  d->unchecked = d->unchecked || call->checks;
  return SITU_OK;
}
