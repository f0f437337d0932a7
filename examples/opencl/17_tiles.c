/* A photo editor's pipeline in OpenCL, with a network in its middle: its own kernel makes a noisy picture, situ's
   network takes tiles of that very buffer and writes into a part of the next one, and its own kernel prepares the
   display. One queue, no copy, no wait; the memory of the network is that of one tile.

     cc -std=c17 -g examples/opencl/17_tiles.c -o 17_tiles $(pkg-config --cflags --libs situ OpenCL) -lm && ./17_tiles

   SPDX-License-Identifier: MIT */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/situ.h"

/* The picture, a tile of it, and what the network needs around a tile. */
enum { WIDTH = 256, HEIGHT = 192, TILE = 64, EDGE = 2, ROW = WIDTH + 2 * EDGE, ROWS = HEIGHT + 2 * EDGE };

static const char *source =
    "float scene(int x, int y) { return 0.5f + 0.25f * sin(x * 0.11f) + 0.25f * cos(y * 0.07f); }\n"
    "kernel void render(global float *raw, int row, float noise) {\n"
    "  int x = get_global_id(0), y = get_global_id(1);\n"
    "  uint h = (x * 73856093u) ^ (y * 19349663u); h ^= h >> 13; h *= 1274126177u; h ^= h >> 16;\n"
    "  raw[y * row + x] = scene(x, y) + noise * ((h & 0xffff) / 32768.0f - 1);\n"
    "}\n"
    "kernel void display(global float *x) { size_t i = get_global_id(0); x[i] = clamp(x[i], 0.0f, 1.0f); }\n";

typedef struct editor {
  cl_device_id id;
  cl_context context;
  cl_command_queue queue;
  cl_kernel render, display;
  cl_mem raw, clean, shown;
} editor;

static bool open_editor(editor *e) {
  cl_platform_id platform;
  cl_int error = CL_SUCCESS;
  if (clGetPlatformIDs(1, &platform, NULL) != CL_SUCCESS ||
      clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &e->id, NULL) != CL_SUCCESS)
    return false;
  e->context = clCreateContext(NULL, 1, &e->id, NULL, NULL, &error);
  e->queue = clCreateCommandQueue(e->context, e->id, 0, &error);
  cl_program program = clCreateProgramWithSource(e->context, 1, &source, NULL, &error);
  if (clBuildProgram(program, 1, &e->id, "", NULL, NULL) != CL_SUCCESS) return false;
  e->render = clCreateKernel(program, "render", &error);
  e->display = clCreateKernel(program, "display", &error);
  e->raw = clCreateBuffer(e->context, CL_MEM_READ_WRITE, ROW * ROWS * sizeof(float), NULL, &error);
  e->clean = clCreateBuffer(e->context, CL_MEM_READ_WRITE, ROW * ROWS * sizeof(float), NULL, &error);
  e->shown = clCreateBuffer(e->context, CL_MEM_READ_WRITE, WIDTH * HEIGHT * sizeof(float), NULL, &error);
  (void)clReleaseProgram(program);
  return error == CL_SUCCESS;
}

static void close_editor(editor *e) {
  (void)clReleaseMemObject(e->raw), (void)clReleaseMemObject(e->clean), (void)clReleaseMemObject(e->shown);
  (void)clReleaseKernel(e->render), (void)clReleaseKernel(e->display);
  (void)clReleaseCommandQueue(e->queue), (void)clReleaseContext(e->context);
}

static void render(const editor *e, cl_mem to, float noise) {
  const size_t size[] = { ROW, ROWS };
  const cl_int row = ROW;
  (void)clSetKernelArg(e->render, 0, sizeof to, &to);
  (void)clSetKernelArg(e->render, 1, sizeof row, &row);
  (void)clSetKernelArg(e->render, 2, sizeof noise, &noise);
  (void)clEnqueueNDRangeKernel(e->queue, e->render, 2, NULL, size, NULL, 0, NULL, NULL);
}

static void display(const editor *e) {
  const size_t size = WIDTH * HEIGHT;
  (void)clSetKernelArg(e->display, 0, sizeof e->shown, &e->shown);
  (void)clEnqueueNDRangeKernel(e->queue, e->display, 1, NULL, &size, NULL, 0, NULL, NULL);
}

/* A part of a buffer whose rows are `row` floats apart, in place. */
static situ_tensor *part_of(cl_mem buffer, int x, int y, int row, int size, situ_device device) {
  const int64_t strides[] = { 1, 1, row, 1 };
  const situ_memory memory = { .handle = buffer, .offset = (size_t)(y * row + x) * sizeof(float), .strides = strides };
  return situ_from_memory(&memory, SITU_SHAPE(1, 1, size, size), &(situ_options){ .device = device });
}

/* Learns to remove the noise, from one tile and what it is without noise: both in the editor's buffers. */
static situ_status train(const editor *e, situ_nn_module *net, situ_device device, int steps) {
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 1e-2, NULL);
  situ_tensor *x = part_of(e->raw, 0, 0, ROW, TILE + 2 * EDGE, device);
  situ_tensor *want = part_of(e->clean, EDGE, EDGE, ROW, TILE, device);
  situ_status status = SITU_OK;
  for (int step = 0; step < steps && status == SITU_OK; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *loss = situ_mse_loss(situ_nn_forward(net, x), want, SITU_REDUCTION_MEAN);
    if (situ_optim_zero_grad(optim, true) == SITU_OK && situ_backward(loss, NULL) == SITU_OK)
      SITU_IGNORE(situ_optim_step(optim));
    status = situ_scope_end(&s);
  }
  situ_optim_free(optim);
  return status;
}

/* One frame. The ledger fails at any copy between host and device. */
static situ_status draw_frame(const editor *e, situ_nn_module *net, situ_device device) {
  situ_ledger ledger;
  situ_ledger_begin_none(&ledger);
  render(e, e->raw, 0.3f);
  for (int y = 0; y < HEIGHT; y += TILE)
    for (int x = 0; x < WIDTH; x += TILE) {
      situ_scope s;
      situ_scope_begin_no_grad(&s);
      situ_tensor *tile = part_of(e->raw, x, y, ROW, TILE + 2 * EDGE, device);
      situ_copy_(part_of(e->shown, x, y, WIDTH, TILE, device), situ_nn_forward(net, tile));
      if (situ_scope_end(&s) != SITU_OK) break;
    }
  display(e);
  const situ_status status = situ_ledger_end(&ledger);
  return status == SITU_OK ? situ_error() : status;
}

/* Root of the mean square between what is shown and the picture without noise. The only read, by the editor itself. */
static double measure(const editor *e) {
  static float shown[WIDTH * HEIGHT], clean[ROW * ROWS];
  double sum = 0;
  (void)clEnqueueReadBuffer(e->queue, e->shown, CL_TRUE, 0, sizeof shown, shown, 0, NULL, NULL);
  (void)clEnqueueReadBuffer(e->queue, e->clean, CL_TRUE, 0, sizeof clean, clean, 0, NULL, NULL);
  for (int i = 0; i < WIDTH * HEIGHT; i++) {
    const double d = (double)shown[i] - (double)clean[(i / WIDTH + EDGE) * ROW + i % WIDTH + EDGE];
    sum += d * d;
  }
  return sqrt(sum / (WIDTH * HEIGHT));
}

int main(int argc, char **argv) {
  const int steps = argc > 2 && strcmp(argv[1], "--steps") == 0 ? atoi(argv[2]) : 200;
  editor e = { 0 };
  if (!open_editor(&e)) return printf("SKIPPED: no OpenCL device\n"), 77;
  const situ_foreign foreign = { .kind = SITU_OPENCL, .queue = e.queue };
  situ_device device;
  if (situ_device_adopt(&foreign, &device) != SITU_OK) return situ_error() == SITU_E_UNSUPPORTED ? 77 : 1;
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  situ_nn_module *net = situ_nn_sequential(situ_nn_conv2d(1, 8, SITU_DIMS(3), NULL), situ_nn_relu(),
                                           situ_nn_conv2d(8, 1, SITU_DIMS(3), NULL));
  if (situ_nn_to(net, device) != SITU_OK) return 1;
  render(&e, e.raw, 0.3f);
  render(&e, e.clean, 0);
  if (train(&e, net, device, steps) != SITU_OK || draw_frame(&e, net, device) != SITU_OK) return 1;
  const double left = measure(&e);
  printf("noise of %.3f became an error of %.3f\n", 0.3 / sqrt(3), left);
  situ_nn_free(net);
  if (situ_scope_end(&s) != SITU_OK || situ_device_abandon(device) != SITU_OK) return 1;
  close_editor(&e);
  return left < 0.15 ? 0 : 1;
}
