/* A photo editor's tiles on its own OpenCL queue, as in examples/opencl/17_tiles.c: how long the queue is empty between
   two commands of a frame, by OpenCL's profiling events, and what a call costs that has nothing to do. This program has
   the functions that queue commands: the module's calls come here first and get an event.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#ifndef SITU_MODULES
int main(void) { return puts("SKIPPED: this build has no OpenCL module"), 77; }
#else
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <dlfcn.h>
#include <stdlib.h>

#include "situ/graph.h"
#include "situ/interop.h"
#include "situ/situ.h"
#include "support/measure.h"

enum { MOST = 1 << 14, ROUNDS = 15, EDGE = 2, CALLS = 100 };

/* ---- what is queued ---------------------------------------------------------------------------- */

static cl_event events[MOST];
static int queued = -1; /* -1: nothing is recorded */

static void *find(const char *name) {
  void *found = dlsym(RTLD_NEXT, name);
  if (found) return found;
  (void)fprintf(stderr, "no %s\n", name);
  exit(1);
}

static cl_event *event_of(cl_event *given) {
  return queued >= 0 && queued < MOST && !given ? &events[queued++] : given;
}

/* Tells the compiler the type of a function that dlsym has found. */
#define REAL(name)                               \
  static __typeof__(&name) real;                 \
  void *const found = real ? NULL : find(#name); \
  if (found) memcpy(&real, &found, sizeof real)

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims, const size_t *offset,
                              const size_t *global, const size_t *local, cl_uint n, const cl_event *wait,
                              cl_event *event) {
  REAL(clEnqueueNDRangeKernel);
  return real(queue, kernel, dims, offset, global, local, n, wait, event_of(event));
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem from, cl_mem to, size_t from_at, size_t to_at, size_t bytes,
                           cl_uint n, const cl_event *wait, cl_event *event) {
  REAL(clEnqueueCopyBuffer);
  return real(queue, from, to, from_at, to_at, bytes, n, wait, event_of(event));
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem to, const void *pattern, size_t size, size_t at, size_t bytes,
                           cl_uint n, const cl_event *wait, cl_event *event) {
  REAL(clEnqueueFillBuffer);
  return real(queue, to, pattern, size, at, bytes, n, wait, event_of(event));
}

static cl_ulong time_of(cl_event event, cl_profiling_info what) {
  cl_ulong time = 0;
  (void)clGetEventProfilingInfo(event, what, sizeof time, &time, NULL);
  return time;
}

/* Of the commands since `queued` was 0: the part of the time from the first to the last in which none ran. */
static double count_gaps(double *frame) {
  cl_ulong busy = 0;
  const cl_ulong first = time_of(events[0], CL_PROFILING_COMMAND_START),
                 last = time_of(events[queued - 1], CL_PROFILING_COMMAND_END);
  for (int k = 0; k < queued; k++) {
    busy += time_of(events[k], CL_PROFILING_COMMAND_END) - time_of(events[k], CL_PROFILING_COMMAND_START);
    (void)clReleaseEvent(events[k]);
  }
  *frame = 1e-9 * (double)(last - first);
  return 1 - (double)busy / (double)(last - first);
}

/* ---- the editor -------------------------------------------------------------------------------- */

typedef struct editor {
  cl_context context;
  cl_command_queue queue;
  cl_kernel own;
  cl_mem raw, shown;
  int side, tile; /* of the picture and its tiles */
  situ_device device;
  situ_nn_module *net;
} editor;

static void open_editor(editor *e) {
  static const char *text = "kernel void own(global float *x, float a) { x[get_global_id(0)] *= a; }";
  cl_platform_id platform;
  cl_device_id id;
  cl_int error;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &id, NULL) != CL_SUCCESS)
    exit((puts("SKIPPED: no OpenCL device"), 77));
  e->context = clCreateContext(NULL, 1, &id, NULL, NULL, &error);
  e->queue = clCreateCommandQueue(e->context, id, CL_QUEUE_PROFILING_ENABLE, &error);
  cl_program program = clCreateProgramWithSource(e->context, 1, &text, NULL, &error);
  (void)clBuildProgram(program, 1, &id, "", NULL, NULL);
  e->own = clCreateKernel(program, "own", &error);
  need(situ_device_adopt(&(situ_foreign){ .kind = SITU_OPENCL, .queue = e->queue }, &e->device));
}

static void run_own(const editor *e, cl_mem x, size_t count, float a) {
  (void)clSetKernelArg(e->own, 0, sizeof x, &x);
  (void)clSetKernelArg(e->own, 1, sizeof a, &a);
  (void)clEnqueueNDRangeKernel(e->queue, e->own, 1, NULL, &count, NULL, 0, NULL, NULL);
}

static situ_tensor *part_of(const editor *e, cl_mem buffer, int x, int y, int row, int size) {
  const int64_t strides[] = { 1, 1, row, 1 };
  const situ_memory memory = { .handle = buffer, .offset = (size_t)(y * row + x) * sizeof(float), .strides = strides };
  return situ_from_memory(&memory, SITU_SHAPE(1, 1, size, size), &(situ_options){ .device = e->device });
}

static void run_tile(const editor *e, situ_tensor *from, situ_tensor *to, situ_graph *graph,
                     situ_tensor *const *captured) {
  if (!graph) {
    need(situ_nn_forward_into(e->net, from, to));
    return;
  }
  situ_tensor *bound[] = { from, to };
  need(situ_graph_rebind(graph, captured, bound, 2));
  need(situ_graph_replay(graph));
}

/* One frame, without a copy and without a wait. */
static void draw_frame(const editor *e, situ_graph *graph, situ_tensor *const *captured) {
  const int row = e->side + 2 * EDGE;
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  run_own(e, e->raw, (size_t)row * (size_t)row, 1);
  for (int y = 0; y < e->side; y += e->tile)
    for (int x = 0; x < e->side; x += e->tile) {
      situ_scope s;
      situ_scope_begin_no_grad(&s);
      run_tile(e, part_of(e, e->raw, x, y, row, e->tile + 2 * EDGE), part_of(e, e->shown, x, y, e->side, e->tile),
               graph, captured);
      need(situ_scope_end(&s));
    }
  run_own(e, e->shown, (size_t)e->side * (size_t)e->side, 1);
  need(situ_ledger_end(&ledger));
  (void)clFlush(e->queue);
}

static void measure_frames(const editor *e, const char *how, situ_graph *graph, situ_tensor *const *captured) {
  double gap[ROUNDS], frame[ROUNDS], host[ROUNDS];
  int commands = 1;
  for (int k = -2; k < ROUNDS; k++) { /* kernels are compiled and tried in the first */
    queued = k < 0 ? -1 : 0;
    const double begin = seconds();
    draw_frame(e, graph, captured);
    const double took = seconds() - begin;
    (void)clFinish(e->queue);
    if (k < 0) continue;
    host[k] = took;
    gap[k] = count_gaps(&frame[k]);
    commands = queued;
  }
  queued = -1;
  const double gaps = median(gap, ROUNDS), length = median(frame, ROUNDS);
  (void)printf("| %4d | %3d | %-8s | %4d | %8.2f | %8.2f | %5.2f %% | %4.1f |\n", e->side, e->tile, how, commands,
               1e3 * length, 1e3 * median(host, ROUNDS), 100 * gaps, 1e6 * gaps * length / commands);
}

static void measure_picture(editor *e, int side, int tile) {
  cl_int error;
  const size_t row = (size_t)side + 2 * EDGE;
  const float none = 0;
  situ_scope s;
  e->side = side;
  e->tile = tile;
  e->raw = clCreateBuffer(e->context, CL_MEM_READ_WRITE, row * row * sizeof none, NULL, &error);
  e->shown = clCreateBuffer(e->context, CL_MEM_READ_WRITE, row * row * sizeof none, NULL, &error);
  (void)clEnqueueFillBuffer(e->queue, e->raw, &none, sizeof none, 0, row * row * sizeof none, 0, NULL, NULL);
  situ_scope_begin_no_grad(&s);
  measure_frames(e, "calls", NULL, NULL);
  situ_tensor *captured[] = { part_of(e, e->raw, 0, 0, (int)row, tile + 2 * EDGE),
                              part_of(e, e->shown, 0, 0, side, tile) };
  need(situ_graph_capture_begin(e->device));
  need(situ_nn_forward_into(e->net, captured[0], captured[1]));
  situ_graph *graph = situ_graph_capture_end();
  if (!graph) need(situ_error());
  measure_frames(e, "replays", graph, captured);
  situ_graph_free(graph);
  need(situ_scope_end(&s));
  (void)clReleaseMemObject(e->raw);
  (void)clReleaseMemObject(e->shown);
}

/* The driver's part: so many of the editor's own small kernels, and nothing of situ's. */
static void measure_own(const editor *e) {
  double gap[ROUNDS], frame[ROUNDS];
  cl_int error;
  const size_t count = 1 << 16;
  cl_mem memory = clCreateBuffer(e->context, CL_MEM_READ_WRITE, count * sizeof(float), NULL, &error);
  for (int k = 0; k < ROUNDS; k++) {
    queued = 0;
    for (int i = 0; i < CALLS; i++) run_own(e, memory, count, 1);
    (void)clFinish(e->queue);
    gap[k] = count_gaps(&frame[k]);
    gap[k] *= frame[k] / CALLS;
  }
  queued = -1;
  (void)clReleaseMemObject(memory);
  (void)printf("\nbetween two of the editor's own kernels: %.1f us\n", 1e6 * median(gap, ROUNDS));
}

/* Microseconds of the host for a call on 16 elements, the least of many: the editor's own kernel, and situ's. */
static void measure_calls(const editor *e) {
  cl_int error;
  double least[2] = { 1, 1 };
  cl_mem memory = clCreateBuffer(e->context, CL_MEM_READ_WRITE, 64, NULL, &error);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const situ_memory m = { .handle = memory };
  situ_tensor *x = situ_from_memory(&m, SITU_SHAPE(16), &(situ_options){ .device = e->device });
  for (int k = 0; k < 100 * ROUNDS; k++) {
    const bool own = k % 2 == 0;
    const double begin = seconds();
    for (int i = 0; i < CALLS; i++)
      if (own) run_own(e, memory, 16, 1);
      else (void)situ_mul_scalar_(x, 1);
    const double took = (seconds() - begin) / CALLS;
    if (took < least[!own]) least[!own] = took;
    (void)clFinish(e->queue);
  }
  need(situ_scope_end(&s));
  (void)clReleaseMemObject(memory);
  (void)printf("a call on 16 elements: %.2f us, the editor's own %.2f us\n", 1e6 * least[1], 1e6 * least[0]);
}

int main(void) {
  (void)setenv("SITU_MODULE_DIR", SITU_MODULES, 0);
  editor e = { 0 };
  open_editor(&e);
  situ_manual_seed(1);
  e.net = situ_nn_sequential(situ_nn_conv2d(1, 8, SITU_DIMS(3), NULL), situ_nn_relu(),
                             situ_nn_conv2d(8, 1, SITU_DIMS(3), NULL));
  need(situ_nn_to(e.net, e.device));
  (void)puts("| side | tile | tiles by | commands | frame ms | host ms | gaps | us each |");
  (void)puts("|---|---|---|---|---|---|---|---|");
  measure_picture(&e, 256, 64);
  measure_picture(&e, 1024, 256);
  measure_picture(&e, 2048, 512);
  measure_own(&e);
  measure_calls(&e);
  situ_nn_free(e.net);
  need(situ_device_abandon(e.device));
  (void)clReleaseKernel(e.own);
  (void)clReleaseCommandQueue(e.queue);
  (void)clReleaseContext(e.context);
  return 0;
}
#endif
