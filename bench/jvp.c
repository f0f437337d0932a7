/* situ_func_jvp beside the forward alone, without a tape: a tanh MLP, a small convolution net and a layer of an
   encoder; processor time, one thread, f32; medians of interleaved rounds. Values and tangents together are twice the
   products of the forward; the goal: at most 2.5 times its time.
   SPDX-License-Identifier: MIT */
#include "support/measure.h"

#include "situ/func.h"

enum { ROUNDS = 21 };

static situ_tensor *run_module(situ_tensor *const *in, int count, void *module) {
  (void)count;
  return situ_nn_forward(module, in[0]);
}

static double run(situ_nn_module *m, situ_tensor *x, situ_tensor *along, bool forward_mode, int repeat) {
  const double begin = processor_seconds();
  for (int k = 0; k < repeat; k++) {
    situ_scope s;
    situ_tensor *tangent;
    situ_scope_begin_no_grad(&s);
    if (forward_mode) (void)!situ_func_jvp(run_module, m, 1, &x, &along, &tangent);
    else (void)!situ_nn_forward(m, x);
    need(situ_scope_end(&s));
  }
  return (processor_seconds() - begin) / repeat;
}

static void measure(const char *name, situ_nn_module *m, situ_shape shape) {
  double time[2][ROUNDS];
  situ_tensor *x = situ_randn(shape, NULL), *along = situ_randn(shape, NULL);
  need(situ_error());
  situ_nn_eval(m);
  const int repeat = 1 + (int)(0.01 / run(m, x, along, false, 1));
  for (int round = -1; round < ROUNDS; round++)
    for (int way = 0; way < 2; way++) time[way][round < 0 ? 0 : round] = run(m, x, along, way, repeat);
  const double forward = median(time[0], ROUNDS), both = median(time[1], ROUNDS);
  char ours[32], theirs[32];
  (void)snprintf(ours, sizeof ours, "%.1f us", 1e6 * both);
  (void)snprintf(theirs, sizeof theirs, "%.1f us", 1e6 * forward);
  tell("jvp", name, ours, theirs, both / forward, 2.5, true);
  situ_nn_free(m);
}

int main(void) {
  need(situ_set_num_threads(1));
  measure("MLP 64-256-256-64, 32 rows",
          situ_nn_sequential(situ_nn_linear(64, 256, NULL), situ_nn_tanh(), situ_nn_linear(256, 256, NULL),
                             situ_nn_tanh(), situ_nn_linear(256, 64, NULL)),
          SITU_SHAPE(32, 64));
  measure("CNN 8x3x32x32",
          situ_nn_sequential(situ_nn_conv2d(3, 16, SITU_DIMS(3), NULL), situ_nn_relu(),
                             situ_nn_max_pool2d(SITU_DIMS(2), NULL), situ_nn_conv2d(16, 32, SITU_DIMS(3), NULL),
                             situ_nn_relu(), situ_nn_flatten(1, -1), situ_nn_linear(32 * 13 * 13, 10, NULL)),
          SITU_SHAPE(8, 3, 32, 32));
  situ_nn_transformer_options block = situ_nn_transformer_defaults();
  block.dim_feedforward = 1024;
  block.batch_first = true;
  measure("encoder layer 256, 8x128", situ_nn_transformer_encoder_layer(256, 4, &block), SITU_SHAPE(8, 128, 256));
  return 0;
}
