/* Gradients: a curve fitted by gradient descent, and a custom function with its own gradient.
   SPDX-License-Identifier: MIT */
/* test-slow: opencl:0 */
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

/* sign(x) with the straight-through estimator: the incoming gradient is passed on where |x| <= 1. */
static situ_status sign_forward(situ_tensor *const *in, int ins, situ_tensor **out, int outs, void *payload) {
  (void)ins, (void)outs, (void)payload;
  out[0] = situ_sign(in[0]);
  return out[0] ? SITU_OK : situ_error();
}
static situ_status sign_backward(situ_tensor *const *in, int ins, situ_tensor *const *out, int outs,
                                 situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload) {
  (void)ins, (void)out, (void)outs, (void)payload;
  grad_in[0] = situ_masked_fill(grad_out[0], situ_gt_scalar(situ_abs(in[0]), 1), 0);
  return grad_in[0] ? SITU_OK : situ_error();
}
static const situ_function straight_through = { .name = "straight_through",
                                                .forward = sign_forward,
                                                .backward = sign_backward };

int main(int argc, char **argv) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(0);
  if (situ_set_default_device(device_of(&argc, argv, "cpu")) != SITU_OK) return 1;

  /* y = 3x^2 - 2x + 1, with noise: what are the coefficients? */
  situ_tensor *x = situ_linspace(-1, 1, 200, NULL);
  situ_tensor *powers = situ_stack((situ_tensor *[]){ situ_square(x), x, situ_ones_like(x, NULL) }, 3, 1);
  situ_tensor *truth = situ_from_host((const float[]){ 3, -2, 1 }, 12, SITU_SHAPE(3), NULL);
  situ_tensor *y = situ_add(situ_mv(powers, truth), situ_mul_scalar(situ_randn_like(x, NULL), 0.1));
  situ_tensor *w = situ_zeros(SITU_SHAPE(3), &(situ_options){ .requires_grad = true });

  for (int step = 0; step <= 300; step++) {
    situ_scope inner; /* tensors made in a step are freed at its end */
    situ_scope_begin(&inner);
    situ_tensor *loss = situ_mse_loss(situ_mv(powers, w), y, SITU_REDUCTION_MEAN);
    if (situ_backward(loss, NULL) != SITU_OK) return 1;

    situ_scope update;
    situ_scope_begin_no_grad(&update);
    situ_add_alpha_(w, situ_grad(w), -0.3);
    if (situ_scope_end(&update) != SITU_OK || situ_set_grad(w, NULL) != SITU_OK) return 1;

    double value;
    if (step % 100 == 0 && situ_item(loss, &value) == SITU_OK) printf("step %3d  loss %.4f\n", step, value);
    if (situ_scope_end(&inner) != SITU_OK) return 1;
  }
  bool found;
  if (situ_allclose(w, truth, 0, 0.1, false, &found) != SITU_OK) return 1;
  printf("\ncoefficients (3, -2, 1 were meant%s): ", found ? ", within 0.1" : "");
  situ_print(situ_detach(w));

  situ_tensor *z = situ_from_host((const float[]){ -2, -0.5, 0.5, 2 }, 16, SITU_SHAPE(4),
                                  &(situ_options){ .requires_grad = true }),
              *out;
  if (situ_function_apply(&straight_through, &z, 1, &out, 1, NULL) != SITU_OK ||
      situ_backward(situ_sum(out, NULL), NULL) != SITU_OK)
    return 1;
  printf("\nsign(z)            ");
  situ_print(situ_detach(out));
  printf("its gradient, ours ");
  situ_print(situ_grad(z));
  return situ_scope_end(&s) != SITU_OK;
}
