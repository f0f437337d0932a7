/* situ_recompute (torch.utils.checkpoint) of each layer of an encoder of 12: processor time and peak memory of a
   training step with it and without, one thread, f32; medians of interleaved rounds. The goal: at least 40 % less peak
   for at most 35 % more time. Computing all layers' forward once more is a third of forward and backward.
   SPDX-License-Identifier: MIT */
#include "support/measure.h"

enum { LAYERS = 12, WIDTH = 256, HEADS = 4, TOKENS = 128, BATCH = 8, ROUNDS = 9 };

static situ_tensor *run_layer(situ_tensor *const *in, int count, void *layer) {
  (void)count;
  return situ_nn_forward(layer, in[0]);
}

/* Processor time. *peak: what the step adds to the resident memory that was there before it, if it begins with an
   empty cache, which costs time. */
static double step(situ_nn_module *const *layer, situ_tensor *x, bool recompute, double *peak) {
  situ_scope s;
  if (peak) need(situ_empty_cache(situ_dev("cpu")));
  forget_peak();
  const double before = resident("VmRSS"), begin = processor_seconds();
  situ_scope_begin(&s);
  situ_tensor *y = x;
  for (int k = 0; k < LAYERS; k++)
    y = recompute ? situ_recompute(run_layer, layer[k], 1, &y) : run_layer(&y, 1, layer[k]);
  need(situ_backward(situ_mean(situ_square(y), NULL), NULL));
  need(situ_scope_end(&s));
  const double time = processor_seconds() - begin;
  if (peak) *peak = resident("VmHWM") - before;
  return time;
}

int main(void) {
  situ_nn_module *layer[LAYERS];
  double time[2][ROUNDS], peak[2];
  need(situ_set_num_threads(1));
  situ_nn_transformer_options block = situ_nn_transformer_defaults();
  block.dim_feedforward = 4 * WIDTH;
  block.batch_first = true;
  for (int k = 0; k < LAYERS; k++) layer[k] = situ_nn_transformer_encoder_layer(WIDTH, HEADS, &block);
  situ_tensor *x = situ_randn(SITU_SHAPE(BATCH, TOKENS, WIDTH), NULL);
  need(situ_error());
  for (int round = -2; round < ROUNDS; round++) /* the first makes gradients, the second empties the cache */
    for (int with = 0; with < 2; with++)
      time[with][round < 0 ? 0 : round] = step(layer, x, with, round == -1 ? &peak[with] : NULL);
  const double plain = median(time[0], ROUNDS), again = median(time[1], ROUNDS);
  printf("12 layers, plain: %.3f s, %.1f MB; recomputed: %.3f s (%+.1f %%), %.1f MB (%+.1f %%)\n", plain, peak[0] / 1e6,
         again, 100 * (again / plain - 1), peak[1] / 1e6, 100 * (peak[1] / peak[0] - 1));
  for (int k = 0; k < LAYERS; k++) situ_nn_free(layer[k]);
  return 0;
}
