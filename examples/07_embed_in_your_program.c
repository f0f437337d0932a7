/* situ inside a program that owns its data: a simulation's arrays become tensors without a copy, errors go to the host
   program's log, and nothing is left behind.
   SPDX-License-Identifier: MIT */
/* test-slow: cpu/sanitized */
#include <math.h>
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"

/* The host program: a pendulum, its states in the program's own array, row by row (angle, velocity). */
enum { STATES = 2000 };
typedef struct {
  float angle, velocity;
} state;
static state trajectory[STATES];

static void simulate(void) {
  state now = { 1.2f, 0 };
  for (int i = 0; i < STATES; i++) {
    trajectory[i] = now;
    now.velocity -= 0.02f * sinf(now.angle); /* a step of 0.02 s, velocity first: the symplectic way */
    now.angle += 0.02f * now.velocity;
  }
}

/* Errors arrive in the host's own log. */
static void host_log(const char *message, void *payload) { fprintf((FILE *)payload, "[simulator] %s\n", message); }

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  situ_error_log(host_log, stderr);
  simulate();

  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(5);
  /* No copies: tensors on the array. now = states 0..n-2, next = states 1..n-1: two views of one block. */
  situ_tensor *all = situ_view_host(trajectory, sizeof trajectory, SITU_SHAPE(STATES, 2), NULL);
  situ_tensor *now = situ_narrow(all, 0, 0, STATES - 1), *next = situ_narrow(all, 0, 1, STATES - 1);
  printf("same memory: %s\n", situ_data_ptr(all) == (void *)trajectory ? "yes" : "no");

  /* Learn the step: next - now from now. On another device than the host's, only this copies values. */
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(2, 32, NULL), situ_nn_tanh(), situ_nn_linear(32, 2, NULL));
  if (situ_nn_to(net, device) != SITU_OK) return 1;
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 1e-2, NULL);
  situ_tensor *x = situ_to(now, device), *change = situ_to(situ_mul_scalar(situ_sub(next, now), 50), device);
  double first = 0, last = 0;
  for (int step = 0; step < 300; step++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    situ_tensor *loss = situ_mse_loss(situ_nn_forward(net, x), change, SITU_REDUCTION_MEAN);
    if (situ_optim_zero_grad(optim, true) != SITU_OK || situ_backward(loss, NULL) != SITU_OK ||
        situ_optim_step(optim) != SITU_OK || situ_item(loss, step ? &last : &first) != SITU_OK ||
        situ_scope_end(&inner) != SITU_OK)
      return 1;
  }
  printf("error of the learned step: %.4f before, %.6f after\n", first, last);

  /* The other direction: the network's result goes directly into the program's array. */
  state forecast[100] = { { 1.2f, 0 } };
  situ_scope quiet;
  situ_scope_begin_no_grad(&quiet);
  for (int i = 1; i < 100; i++) {
    situ_tensor *from = situ_to(situ_view_host(&forecast[i - 1], sizeof *forecast, SITU_SHAPE(1, 2), NULL), device);
    situ_tensor *to = situ_add(from, situ_div_scalar(situ_nn_forward(net, from), 50));
    if (situ_copy_to_host(to, &forecast[i], sizeof *forecast) != SITU_OK) return 1;
  }
  if (situ_scope_end(&quiet) != SITU_OK) return 1;
  printf("after 99 steps: simulated angle %.3f, learned angle %.3f\n", (double)trajectory[99].angle,
         (double)forecast[99].angle);

  situ_optim_free(optim);
  situ_nn_free(net);
  situ_status status = situ_scope_end(&s);
  printf("tensors left: %lld\n", (long long)situ_live_tensors());
  return status != SITU_OK;
}
