/* An audio plugin's block: a network that has learnt an amplifier runs in the callback of a real-time thread, where
   nothing may be allocated, locked or waited for. The call is captured once; each block replays it, for both channels.

   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "device.h"
#include "situ/situ.h"

/* Samples of a block, and those before it that the network looks back at. */
enum { BLOCK = 64, PAST = 15, WINDOW = PAST + BLOCK, CHANNELS = 2, STEPS = 300 };

typedef struct plugin {
  situ_device device;
  situ_nn_module *net;
  situ_tensor *in[CHANNELS], *out[CHANNELS];
  situ_graph *graph; /* from in[0] to out[0] */
  float past[CHANNELS][WINDOW];
} plugin;

/* The amplifier: a short filter into a tube. `at` has PAST samples before it. */
static float amplifier(const float *at) { return tanhf(2 * (0.7f * at[0] + 0.4f * at[-1] - 0.3f * at[-5])); }
static float note(int i) { return 0.6f * sinf(0.05f * (float)i) + 0.3f * sinf(0.131f * (float)i + 1); }

/* Learns from a recording of both sides of the amplifier. */
static bool learn(plugin *p) {
  enum { LENGTH = 1024 };
  float dry[PAST + LENGTH], wet[LENGTH];
  for (int i = 0; i < PAST + LENGTH; i++) dry[i] = note(i) * (0.3f + 0.7f * (float)i / LENGTH);
  for (int i = 0; i < LENGTH; i++) wet[i] = amplifier(dry + PAST + i);
  const situ_options there = { .device = p->device };
  situ_tensor *x = situ_from_host(dry, sizeof dry, SITU_SHAPE(1, 1, PAST + LENGTH), &there);
  situ_tensor *y = situ_from_host(wet, sizeof wet, SITU_SHAPE(1, 1, LENGTH), &there);
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(p->net), 1e-2, NULL);
  double first = 0, last = 0;
  bool good = optim != NULL;
  for (int step = 0; step < STEPS && good; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *loss = situ_mse_loss(situ_nn_forward(p->net, x), y, SITU_REDUCTION_MEAN);
    good = situ_optim_zero_grad(optim, true) == SITU_OK && situ_backward(loss, NULL) == SITU_OK &&
           situ_optim_step(optim) == SITU_OK && situ_item(loss, step ? &last : &first) == SITU_OK;
    good = situ_scope_end(&s) == SITU_OK && good;
  }
  situ_optim_free(optim);
  if (good) printf("error of the learnt amplifier: %.4f before, %.6f after\n", first, last);
  return good && last < first / 50;
}

/* All that allocates is here. */
static bool plugin_open(plugin *p, situ_device device) {
  const situ_options there = { .device = device };
  *p = (plugin){ .device = device };
  situ_manual_seed(3);
  p->net = situ_nn_sequential(situ_nn_conv1d(1, 8, PAST + 1, NULL), situ_nn_tanh(), situ_nn_conv1d(8, 1, 1, NULL));
  if (situ_nn_to(p->net, device) != SITU_OK || !learn(p)) return false;
  for (int c = 0; c < CHANNELS; c++) {
    p->in[c] = situ_retain(situ_zeros(SITU_SHAPE(1, 1, WINDOW), &there));
    p->out[c] = situ_retain(situ_zeros(SITU_SHAPE(1, 1, BLOCK), &there));
  }
  if (situ_graph_capture_begin(device) != SITU_OK || situ_nn_forward_into(p->net, p->in[0], p->out[0]) != SITU_OK ||
      !(p->graph = situ_graph_capture_end()))
    return false;
  for (int c = CHANNELS - 1; c >= 0; c--) /* the first time for a tensor allocates */
    if (situ_graph_rebind(p->graph, (situ_tensor *[]){ p->in[0], p->out[0] }, (situ_tensor *[]){ p->in[c], p->out[c] },
                          2) != SITU_OK)
      return false;
  return situ_graph_replay(p->graph) == SITU_OK;
}

static void plugin_close(plugin *p) {
  situ_graph_free(p->graph);
  situ_nn_free(p->net);
  for (int c = 0; c < CHANNELS; c++) situ_release(p->in[c]), situ_release(p->out[c]);
}

/* The callback of the host. On the cpu it neither allocates nor locks; a device copies and waits for each block. */
static bool plugin_process(plugin *p, float *const samples[CHANNELS]) {
  situ_tensor *captured[] = { p->in[0], p->out[0] };
  for (int c = 0; c < CHANNELS; c++) {
    situ_tensor *bound[] = { p->in[c], p->out[c] };
    memmove(p->past[c], p->past[c] + BLOCK, PAST * sizeof(float));
    memcpy(p->past[c] + PAST, samples[c], BLOCK * sizeof(float));
    if (situ_copy_from_host(p->in[c], p->past[c], sizeof p->past[c]) != SITU_OK ||
        situ_graph_rebind(p->graph, captured, bound, 2) != SITU_OK || situ_graph_replay(p->graph) != SITU_OK ||
        situ_copy_to_host(p->out[c], samples[c], BLOCK * sizeof(float)) != SITU_OK)
      return false;
  }
  return true;
}

int main(int argc, char **argv) {
  enum { BLOCKS = 50 };
  plugin p;
  situ_scope s;
  situ_scope_begin(&s);
  bool good = plugin_open(&p, device_of(&argc, argv, "cpu"));
  float worst = 0, left[BLOCK], right[BLOCK];
  for (int block = 0; block < BLOCKS && good; block++) {
    for (int i = 0; i < BLOCK; i++) left[i] = note(block * BLOCK + i), right[i] = note(block * BLOCK + i + 7) * 0.5f;
    good = plugin_process(&p, (float *[]){ left, right });
    for (int i = 0; i < BLOCK && block; i++) worst = fmaxf(worst, fabsf(right[i] - amplifier(p.past[1] + PAST + i)));
  }
  if (good) printf("%d blocks of %d samples, largest error %.3f\n", BLOCKS, BLOCK, (double)worst);
  plugin_close(&p);
  if (situ_scope_end(&s) != SITU_OK || !good) return 1;
  return worst < 0.2f ? 0 : 1;
}
