/* A multilayer perceptron learns two spirals apart: modules, a loss, an optimiser.
   SPDX-License-Identifier: MIT */
/* test-slow: cpu/sanitized */
#include <math.h>
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

enum { POINTS = 400 };

/* Two arms, each turning once and a half; the class is the arm. */
static void spirals(float (*xy)[2], int64_t *arm) {
  for (int i = 0; i < POINTS; i++) {
    double t = (double)(i / 2) / (POINTS / 2), angle = 3 * 3.14159265 * t + 3.14159265 * (i % 2);
    xy[i][0] = (float)(t * cos(angle));
    xy[i][1] = (float)(t * sin(angle));
    arm[i] = i % 2;
  }
}

int main(int argc, char **argv) {
  static float xy[POINTS][2];
  static int64_t arm[POINTS];
  spirals(xy, arm);

  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  if (situ_set_default_device(device_of(&argc, argv, "cpu")) != SITU_OK) return 1;

  situ_tensor *x = situ_from_host(xy, sizeof xy, SITU_SHAPE(POINTS, 2), NULL);
  situ_tensor *y = situ_from_host(arm, sizeof arm, SITU_SHAPE(POINTS), &(situ_options){ .dtype = SITU_I64 });
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 64, NULL), situ_nn_tanh(), situ_nn_linear(64, 64, NULL),
                                           situ_nn_tanh(), situ_nn_linear(64, 2, NULL));
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 5e-3, NULL);
  situ_nn_print(net);

  for (int step = 0; step <= 600; step++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_tensor *scores = situ_nn_forward(net, x);
    situ_tensor *loss = situ_cross_entropy(scores, y, NULL);
    if (situ_optim_zero_grad(optim, true) != SITU_OK || situ_backward(loss, NULL) != SITU_OK ||
        situ_optim_step(optim) != SITU_OK)
      return 1;
    if (step % 150 == 0) {
      double value, right;
      situ_tensor *said = situ_argmax(scores, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
      situ_tensor *hit = situ_to_dtype(situ_eq(said, y), SITU_F32);
      if (situ_item(loss, &value) != SITU_OK || situ_item(situ_mean(hit, NULL), &right) != SITU_OK) return 1;
      printf("step %3d  loss %.4f  right %.1f %%\n", step, value, 100 * right);
    }
    if (situ_scope_end(&inner) != SITU_OK) return 1;
  }
  situ_optim_free(optim);
  situ_nn_free(net);
  return situ_scope_end(&s) != SITU_OK;
}
