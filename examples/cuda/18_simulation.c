/* A simulation in CUDA with a network in each step: its own kernel advances a field, which flattens waves, and situ's
   network puts back what is lost, in the same memory and stream. No copy and no wait between the steps.

     nvcc -fatbin -o 18_advance.fatbin examples/cuda/18_advance.cu
     cc -std=c17 -g examples/cuda/18_simulation.c -o 18_simulation $(pkg-config --cflags --libs situ cudart-13.0) -lm &&
       ./18_simulation 18_advance.fatbin

   SPDX-License-Identifier: MIT */
#include <cuda_runtime_api.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "situ/situ.h"

enum { CELLS = 64, EDGE = 2, ALL = CELLS + 2 * EDGE, STEPS = 60, TRAINING = 150 };
static const float speed = 0.5f;

typedef struct simulation {
  cudaStream_t stream;
  cudaKernel_t advance, solve;
  float *field, *next, *wanted; /* on the device, with edges */
} simulation;

static bool load_kernels(simulation *s, const char *path) {
  static char code[1 << 20];
  cudaLibrary_t library;
  FILE *file = fopen(path, "rb");
  const size_t bytes = file ? fread(code, 1, sizeof code, file) : 0;
  if (file) (void)fclose(file);
  return bytes && cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0) == cudaSuccess &&
         cudaLibraryGetKernel(&s->advance, library, "advance") == cudaSuccess &&
         cudaLibraryGetKernel(&s->solve, library, "solve") == cudaSuccess;
}

static bool open_simulation(simulation *s, const char *path) {
  const size_t bytes = ALL * sizeof(float);
  return cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking) == cudaSuccess && load_kernels(s, path) &&
         cudaMalloc((void **)&s->field, bytes) == cudaSuccess && cudaMalloc((void **)&s->next, bytes) == cudaSuccess &&
         cudaMalloc((void **)&s->wanted, bytes) == cudaSuccess;
}

static void close_simulation(simulation *s) {
  (void)cudaFree(s->field), (void)cudaFree(s->next), (void)cudaFree(s->wanted);
  (void)cudaStreamDestroy(s->stream);
}

static void launch(const simulation *s, cudaKernel_t kernel, void **arguments) {
  const struct dim3 groups = { (ALL + 63) / 64, 1, 1 }, lanes = { 64, 1, 1 };
  (void)cudaLaunchKernel((const void *)kernel, groups, lanes, arguments, 0, s->stream);
}

static void solve(const simulation *s, float *to, float distance) {
  int n = CELLS;
  launch(s, s->solve, (void *[]){ (void *)&to, &n, &distance });
}

static void advance(const simulation *s) {
  int n = CELLS;
  float by = speed;
  launch(s, s->advance, (void *[]){ (void *)(uintptr_t)&s->next, (void *)(uintptr_t)&s->field, &n, &by });
}

/* Memory of the simulation as a tensor, in place: with its edges, or without. */
static situ_tensor *whole(float *memory, situ_device device) {
  const situ_memory m = { .handle = memory };
  return situ_from_memory(&m, SITU_SHAPE(1, 1, ALL), &(situ_options){ .device = device });
}
static situ_tensor *inside(float *memory, situ_device device) {
  const situ_memory m = { .handle = memory, .offset = EDGE * sizeof *memory };
  return situ_from_memory(&m, SITU_SHAPE(1, 1, CELLS), &(situ_options){ .device = device });
}

/* Learns what a step loses, from steps of the exact solution. */
static situ_status train(const simulation *s, situ_nn_module *net, situ_device device) {
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 1e-2, NULL);
  situ_status status = SITU_OK;
  for (int step = 0; step < TRAINING && status == SITU_OK; step++) {
    situ_scope scope;
    solve(s, s->field, (float)step * 0.7f);
    advance(s);
    solve(s, s->wanted, (float)step * 0.7f + speed);
    situ_scope_begin(&scope);
    situ_tensor *lost = situ_sub(inside(s->wanted, device), inside(s->next, device));
    situ_tensor *guess = situ_nn_forward(net, whole(s->next, device));
    situ_tensor *loss = situ_mse_loss(guess, lost, SITU_REDUCTION_MEAN);
    if (situ_optim_zero_grad(optim, true) == SITU_OK && situ_backward(loss, NULL) == SITU_OK)
      SITU_IGNORE(situ_optim_step(optim));
    status = situ_scope_end(&scope);
  }
  situ_optim_free(optim);
  return status;
}

/* All steps, with the network's correction or without. The ledger fails at any copy of the host's and at any wait. */
static situ_status simulate(simulation *s, situ_nn_module *net, situ_device device) {
  situ_ledger ledger;
  solve(s, s->field, 0);
  situ_ledger_begin_none(&ledger);
  for (int step = 0; step < STEPS; step++) {
    advance(s);
    if (net) {
      situ_scope scope;
      situ_scope_begin_no_grad(&scope);
      situ_add_(inside(s->next, device), situ_nn_forward(net, whole(s->next, device)));
      if (situ_scope_end(&scope) != SITU_OK) break;
    }
    float *old = s->field;
    s->field = s->next;
    s->next = old;
  }
  const situ_status status = situ_ledger_end(&ledger);
  return status == SITU_OK ? situ_error() : status;
}

/* The largest error of the field, which the simulation itself reads. */
static double measure(const simulation *s) {
  float field[ALL], wanted[ALL];
  double most = 0;
  solve(s, s->wanted, STEPS * speed);
  (void)cudaMemcpyAsync(field, s->field, sizeof field, cudaMemcpyDeviceToHost, s->stream);
  (void)cudaMemcpyAsync(wanted, s->wanted, sizeof wanted, cudaMemcpyDeviceToHost, s->stream);
  (void)cudaStreamSynchronize(s->stream);
  for (int i = EDGE; i < EDGE + CELLS; i++) most = fmax(most, fabs((double)field[i] - (double)wanted[i]));
  return most;
}

int main(int argc, char **argv) {
  simulation s = { 0 };
  if (argc < 2 || !open_simulation(&s, argv[1]))
    return printf("SKIPPED: no CUDA device, or no 18_advance.fatbin\n"), 77;
  const situ_foreign foreign = { .kind = SITU_CUDA, .queue = s.stream };
  situ_device device;
  if (situ_device_adopt(&foreign, &device) != SITU_OK) return situ_error() == SITU_E_UNSUPPORTED ? 77 : 1;
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_manual_seed(1);
  situ_nn_module *net =
      situ_nn_sequential(situ_nn_conv1d(1, 4, 2 * EDGE + 1, NULL), situ_nn_tanh(), situ_nn_conv1d(4, 1, 1, NULL));
  if (situ_nn_to(net, device) != SITU_OK || simulate(&s, NULL, device) != SITU_OK) return 1;
  const double without = measure(&s);
  if (train(&s, net, device) != SITU_OK || simulate(&s, net, device) != SITU_OK) return 1;
  const double with = measure(&s);
  printf("largest error after %d steps: %.3f without the network, %.3f with it\n", STEPS, without, with);
  situ_nn_free(net);
  if (situ_scope_end(&scope) != SITU_OK || situ_device_abandon(device) != SITU_OK) return 1;
  close_simulation(&s);
  return with < without / 2 ? 0 : 1;
}
