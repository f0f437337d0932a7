/* A potential with the descriptors of Behler and Parrinello (Phys. Rev. Lett. 98, 2007) learns energies and forces of
   64 atoms: each atom's neighbours make its symmetry functions, a network of these is its energy, and the forces are
   -dE/dx. The loss contains the forces, so backward goes through a gradient (create_graph). The truth is a Morse
   potential.
   SPDX-License-Identifier: MIT */
/* test-slow: opencl:0 */
#include <math.h>
#include <stdio.h>

#include "device.h"
#include "situ/situ.h"
#include "start.h"

enum {
  SIDE = 4,
  ATOMS = SIDE * SIDE * SIDE,
  MOST_PAIRS = ATOMS * (ATOMS - 1) / 2,
  SHELLS = 8,
  FRAMES = 4,
  STEPS = 200
};

static const double PI = 3.14159265358979323846, CUTOFF = 2.2;

/* A frame: positions, its neighbour list, and the truth. */
typedef struct {
  situ_tensor *x, *from, *to;
  situ_tensor *energy, *forces;
} frame;

/* ---- frames ---- */

/* A cubic lattice, with each atom a little off its site. */
static void place_atoms(double (*x)[3], int number) {
  for (int i = 0; i < ATOMS; i++)
    for (int k = 0; k < 3; k++) {
      const int site = k == 0 ? i / (SIDE * SIDE) : k == 1 ? i / SIDE % SIDE : i % SIDE;
      x[i][k] = 1.1 * site + 0.12 * sin(1.7 * i + 2.3 * k + 0.9 * number);
    }
}

static int list_neighbours(double (*x)[3], int64_t *from, int64_t *to) {
  int count = 0;
  for (int i = 0; i < ATOMS; i++)
    for (int j = i + 1; j < ATOMS; j++) {
      const double a = x[i][0] - x[j][0], b = x[i][1] - x[j][1], c = x[i][2] - x[j][2];
      if (a * a + b * b + c * c >= CUTOFF * CUTOFF) continue;
      from[count] = i;
      to[count++] = j;
    }
  return count;
}

/* ---- energies ---- */

static situ_tensor *distances(const frame *f, situ_tensor *x) {
  situ_tensor *d = situ_sub(situ_index_select(x, 0, f->from), situ_index_select(x, 0, f->to));
  return situ_sqrt(situ_sum(situ_square(d), &(situ_reduce_options){ .dim = SITU_DIMS(1), .keepdim = true }));
}

/* [pairs, 1]: falls smoothly to 0 at CUTOFF. */
static situ_tensor *damping(situ_tensor *r) {
  return situ_mul_scalar(situ_add_scalar(situ_cos(situ_mul_scalar(r, PI / CUTOFF)), 1), 0.5);
}

static situ_tensor *morse(const frame *f, situ_tensor *x) {
  situ_tensor *r = distances(f, x);
  situ_tensor *well = situ_add_scalar(situ_exp(situ_mul_scalar(situ_add_scalar(r, -1.1), -2)), -1);
  return situ_sum(situ_mul(situ_add_scalar(situ_square(well), -1), damping(r)), NULL);
}

/* Radial symmetry functions [atoms, shells]: how many neighbours are about as far as each shell. */
static situ_tensor *descriptors(const frame *f, situ_tensor *x) {
  const situ_options o = { .dtype = SITU_F64 };
  situ_tensor *r = distances(f, x), *shell = situ_linspace(0.8, 2.0, SHELLS, &o);
  situ_tensor *near = situ_exp(situ_mul_scalar(situ_square(situ_sub(r, shell)), -12));
  situ_tensor *g = situ_mul(near, damping(r)), *none = situ_zeros(SITU_SHAPE(ATOMS, SHELLS), &o);
  return situ_index_add(situ_index_add(none, 0, f->from, g, 1), 0, f->to, g, 1);
}

static situ_tensor *learnt(situ_nn_module *net, const frame *f, situ_tensor *x) {
  return situ_sum(situ_nn_forward(net, descriptors(f, x)), NULL);
}

/* -dE/dx. */
static situ_tensor *forces(situ_tensor *energy, situ_tensor *x, bool create_graph) {
  situ_tensor *g = NULL;
  const situ_backward_options o = { .create_graph = create_graph };
  return situ_autograd_grad(energy, 1, &x, &g, &o) == SITU_OK ? situ_neg(g) : NULL;
}

static situ_tensor *variable(const frame *f) { return situ_requires_grad_(situ_detach(f->x), true); }

static frame make_frame(int number) {
  static double x[ATOMS][3];
  static int64_t from[MOST_PAIRS], to[MOST_PAIRS];
  place_atoms(x, number);
  const int64_t count = list_neighbours(x, from, to);
  const size_t bytes = (size_t)count * sizeof *from;
  const situ_options whole = { .dtype = SITU_I64 };
  frame f = { .x = situ_from_host(x, sizeof x, SITU_SHAPE(ATOMS, 3), &(situ_options){ .dtype = SITU_F64 }),
              .from = situ_from_host(from, bytes, SITU_SHAPE(count), &whole),
              .to = situ_from_host(to, bytes, SITU_SHAPE(count), &whole) };
  situ_tensor *at = variable(&f), *energy = morse(&f, at);
  f.forces = situ_detach(forces(energy, at, false));
  f.energy = situ_detach(energy);
  return f;
}

/* ---- training ---- */

static situ_tensor *loss_of(situ_nn_module *net, const frame *f) {
  situ_tensor *x = variable(f), *energy = learnt(net, f, x);
  situ_tensor *off = situ_div_scalar(situ_sub(energy, f->energy), ATOMS);
  return situ_add(situ_square(off), situ_mse_loss(forces(energy, x, true), f->forces, SITU_REDUCTION_MEAN));
}

int main(int argc, char **argv) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(1);
  if (situ_set_default_device(device_of(&argc, argv, "cpu")) != SITU_OK) return 1;
  frame frames[FRAMES];
  for (int i = 0; i < FRAMES; i++) frames[i] = make_frame(i);
  const situ_nn_linear_options f64 = { .dtype = SITU_F64 };
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(SHELLS, 24, &f64), situ_nn_tanh(),
                                           situ_nn_linear(24, 24, &f64), situ_nn_tanh(), situ_nn_linear(24, 1, &f64));
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 3e-3, NULL);
  if (save_start(argc, argv, net) != SITU_OK) return 1;

  for (int step = 0; step < STEPS; step++) {
    situ_scope inner;
    situ_scope_begin(&inner);
    double value;
    situ_tensor *loss = loss_of(net, &frames[step % FRAMES]);
    if (situ_optim_zero_grad(optim, true) != SITU_OK || situ_backward(loss, NULL) != SITU_OK ||
        situ_optim_step(optim) != SITU_OK || situ_item(loss, &value) != SITU_OK)
      return 1;
    if (step % 10 == 0 || step == STEPS - 1) printf("step %d  loss %.15g\n", step, value);
    if (situ_scope_end(&inner) != SITU_OK) return 1;
  }
  situ_optim_free(optim);
  situ_nn_free(net);
  return situ_scope_end(&s) != SITU_OK;
}
