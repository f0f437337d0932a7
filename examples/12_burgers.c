/* A physics-informed network (Raissi, Perdikaris and Karniadakis, J. Comput. Phys. 378, 2019) for Burgers' equation:
   u_t + u u_x = 0.01 / pi u_xx, with u(x, 0) = -sin(pi x) and u(-1, t) = u(1, t) = 0. The loss contains derivatives of
   the network by its inputs, which have a history (create_graph); Adam trains first, then LBFGS.
   SPDX-License-Identifier: MIT */
/* test-slow: cpu/sanitized opencl:0 */
#include <math.h>
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"
#include "start.h"

enum { INSIDE = 256, EDGE = 96, WIDTH = 20, ADAM_STEPS = 170, LBFGS_STEPS = 30 };

static const double PI = 3.14159265358979323846;

typedef struct {
  situ_nn_module *net;
  situ_tensor *inside, *edge, *value; /* points (x, t); those on the edge, and the solution there */
  situ_optim *optim;
} pinn;

/* ---- points ---- */

static double fraction(double x) { return x - floor(x); }

/* Inside, a sequence that fills the square evenly; on the edge, a third at t = 0 and at each end of x. */
static void choose_points(double (*inside)[2], double (*edge)[2], double *value) {
  for (int i = 0; i < INSIDE; i++) {
    inside[i][0] = 2 * fraction(0.5 + i * 0.7548776662466927) - 1;
    inside[i][1] = fraction(0.5 + i * 0.5698402909980532);
  }
  for (int i = 0; i < EDGE; i++) {
    const double at = (i / 3 + 0.5) * 3 / EDGE;
    edge[i][0] = i % 3 == 0 ? 2 * at - 1 : i % 3 == 1 ? -1 : 1;
    edge[i][1] = i % 3 == 0 ? 0 : at;
    value[i] = i % 3 == 0 ? -sin(PI * edge[i][0]) : 0;
  }
}

/* ---- the loss ---- */

/* The derivatives of each y by its row of x, which can be differentiated again. */
static situ_tensor *derivatives(situ_tensor *y, situ_tensor *x) {
  situ_tensor *g = NULL;
  const situ_backward_options o = { .create_graph = true };
  return situ_autograd_grad(situ_sum(y, NULL), 1, &x, &g, &o) == SITU_OK ? g : NULL;
}

static situ_tensor *column(situ_tensor *x, int64_t i) { return situ_narrow(x, 1, i, 1); }

static situ_tensor *loss_of(const pinn *p) {
  situ_tensor *xt = situ_requires_grad_(situ_detach(p->inside), true);
  situ_tensor *u = situ_nn_forward(p->net, xt), *du = derivatives(u, xt);
  situ_tensor *u_xx = column(derivatives(column(du, 0), xt), 0);
  situ_tensor *change = situ_add(column(du, 1), situ_mul(u, column(du, 0)));
  situ_tensor *residual = situ_sub(change, situ_mul_scalar(u_xx, 0.01 / PI));
  situ_tensor *at_edge = situ_mse_loss(situ_nn_forward(p->net, p->edge), p->value, SITU_REDUCTION_MEAN);
  return situ_add(situ_mean(situ_square(residual), NULL), at_edge);
}

/* What the optimisers call: gradients and the loss. */
static situ_tensor *closure(void *payload) {
  const pinn *p = payload;
  situ_tensor *loss = loss_of(p);
  if (situ_optim_zero_grad(p->optim, true) != SITU_OK || situ_backward(loss, NULL) != SITU_OK) return NULL;
  return loss;
}

/* ---- training ---- */

static situ_status train(pinn *p, int first, int steps) {
  for (int step = first; step < first + steps; step++) {
    double loss;
    SITU_TRY(situ_optim_step_closure(p->optim, closure, p, &loss));
    if (step % 10 == 0 || step == ADAM_STEPS + LBFGS_STEPS - 1) printf("step %d  loss %.15g\n", step, loss);
  }
  return SITU_OK;
}

static situ_tensor *matrix(double (*rows)[2], int64_t count) {
  return situ_from_host(rows, (size_t)count * sizeof *rows, SITU_SHAPE(count, 2), &(situ_options){ .dtype = SITU_F64 });
}

int main(int argc, char **argv) {
  static double inside[INSIDE][2], edge[EDGE][2], value[EDGE];
  choose_points(inside, edge, value);

  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  if (situ_set_default_device(device_of(&argc, argv, "cpu")) != SITU_OK) return 1;
  const situ_nn_linear_options f64 = { .dtype = SITU_F64 };
  pinn p = { .net = situ_nn_sequential(
                 situ_nn_linear(2, WIDTH, &f64), situ_nn_tanh(), situ_nn_linear(WIDTH, WIDTH, &f64), situ_nn_tanh(),
                 situ_nn_linear(WIDTH, WIDTH, &f64), situ_nn_tanh(), situ_nn_linear(WIDTH, 1, &f64)),
             .inside = matrix(inside, INSIDE),
             .edge = matrix(edge, EDGE),
             .value = situ_from_host(value, sizeof value, SITU_SHAPE(EDGE, 1), &(situ_options){ .dtype = SITU_F64 }) };
  if (save_start(argc, argv, p.net) != SITU_OK) return 1;

  p.optim = situ_optim_adam(situ_nn_parameters(p.net), 5e-3, NULL);
  if (train(&p, 0, ADAM_STEPS) != SITU_OK) return 1;
  situ_optim_free(p.optim);
  situ_optim_options wolfe = situ_optim_lbfgs_defaults();
  wolfe.max_iter = 1;
  wolfe.max_eval = 10;
  wolfe.line_search_fn = SITU_LINE_SEARCH_STRONG_WOLFE;
  p.optim = situ_optim_lbfgs(situ_nn_parameters(p.net), 1, &wolfe);
  if (train(&p, ADAM_STEPS, LBFGS_STEPS) != SITU_OK) return 1;
  situ_optim_free(p.optim);
  situ_nn_free(p.net);
  return situ_scope_end(&s) != SITU_OK;
}
