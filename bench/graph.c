/* A small network's forward and backward pass as calls, and as a graph's replay, on $SITU_BENCH_DEVICE (default: cpu).
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

enum { ROUNDS = 41, STEPS = 50, ROWS = 32, IN = 64, WIDE = 64, CLASSES = 10 };

static situ_device device;
static situ_nn_module *model;
static situ_tensor *x, *classes;

static void forward_and_back(void) {
  situ_nn_zero_grad(model);
  need(situ_backward(situ_cross_entropy(situ_nn_forward(model, x), classes, NULL), NULL));
}

/* Seconds a step, all done. */
static double time_of(situ_graph *graph) {
  double begin = seconds();
  for (int k = 0; k < STEPS; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    if (graph) need(situ_graph_replay(graph));
    else forward_and_back();
    need(situ_scope_end(&s));
  }
  need(situ_synchronize(device));
  return (seconds() - begin) / STEPS;
}

int main(void) {
  situ_device_properties p;
  device = bench_device(&p);
  if (strstr(p.name, "no GPU")) {
    printf("SKIPPED: %s: its figures would be the host's\n", p.name);
    return 0;
  }
  need(situ_set_default_device(device));
  model = situ_nn_sequential(situ_nn_linear(IN, WIDE, NULL), situ_nn_relu(), situ_nn_linear(WIDE, WIDE, NULL),
                             situ_nn_relu(), situ_nn_linear(WIDE, CLASSES, NULL));
  x = situ_randn(SITU_SHAPE(ROWS, IN), NULL);
  classes = situ_zeros(SITU_SHAPE(ROWS), &(situ_options){ .dtype = SITU_I64 });
  need(situ_error());
  forward_and_back();
  need(situ_graph_capture_begin(device));
  forward_and_back();
  situ_graph *graph = situ_graph_capture_end();
  need(graph ? SITU_OK : situ_error());
  double calls[ROUNDS], replays[ROUNDS], ratio[ROUNDS];
  (void)time_of(NULL);
  (void)time_of(graph);
  for (int r = 0; r < ROUNDS; r++) {
    calls[r] = time_of(NULL);
    replays[r] = time_of(graph);
    ratio[r] = calls[r] / replays[r];
  }
  char ours[32], theirs[32];
  (void)snprintf(ours, sizeof ours, "%.1f us", 1e6 * median(replays, ROUNDS));
  (void)snprintf(theirs, sizeof theirs, "calls %.1f us", 1e6 * median(calls, ROUNDS));
  if (device.kind == SITU_CUDA) tell("cuda", "MLP, a step by a graph", ours, theirs, median(ratio, ROUNDS), 3, false);
  else printf("     MLP, a step by a graph: %s, %s: %.2f\n", ours, theirs, median(ratio, ROUNDS));
  situ_graph_free(graph);
  situ_nn_free(model);
  return 0;
}
