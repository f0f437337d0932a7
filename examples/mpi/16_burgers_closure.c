/* A simulation over MPI that trains its closure while it runs. Burgers' equation, u_t + (u^2 / 2)_x = 0.01 u_xx, is
   solved on a fine grid, of which each rank has a part. What fluxes lack on a grid eight times as coarse is known
   there, so a small network learns it in every step, from the simulation's own memory. From half of the time on a
   coarse solution uses the network, and is compared with one that does not.

     mpicc -std=c17 -O2 examples/mpi/16_burgers_closure.c -o burgers_closure $(pkg-config --cflags --libs situ) -lm
     mpirun -n 2 ./burgers_closure

   The network learns from four blocks of the domain, whichever rank has them: 1, 2 and 4 ranks print the same.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <mpi.h>
#include <situ/mpi.h>
#include <situ/situ.h>

enum { FINE = 512, RATIO = 8, COARSE = FINE / RATIO, BLOCKS = 4, BLOCK = COARSE / BLOCKS, STENCIL = 4, STEPS = 1000 };
static const double LENGTH = 6.28318530717958648, VISCOSITY = 0.01, TIME_STEP = 0.0025;
static int rank, size;

static void check(bool good) {
  if (good) return;
  fprintf(stderr, "rank %d: %s\n", rank, situ_error_message());
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* ---- the simulation: n cells of a rank, with `halo` cells of its neighbours on each side ---- */

static void exchange(double *f, int n, int halo) {
  const int left = (rank + size - 1) % size, right = (rank + 1) % size;
  const MPI_Comm all = MPI_COMM_WORLD;
  MPI_Sendrecv(f + halo, halo, MPI_DOUBLE, left, 0, f + halo + n, halo, MPI_DOUBLE, right, 0, all, MPI_STATUS_IGNORE);
  MPI_Sendrecv(f + n, halo, MPI_DOUBLE, right, 1, f, halo, MPI_DOUBLE, left, 1, all, MPI_STATUS_IGNORE);
}

/* g[i + 1] is the flux on the right of cell i, whose value is f[i + 2]: Rusanov's, and diffusion. */
static void find_fluxes(double *f, double *g, int n, double dx) {
  exchange(f, n, 2);
  for (int i = 0; i < n; i++) {
    const double l = f[i + 2], r = f[i + 3], speed = fmax(fabs(l), fabs(r));
    g[i + 1] = (l * l + r * r) / 4 - speed * (r - l) / 2 - VISCOSITY * (r - l) / dx;
  }
}

static void advance(double *f, double *g, int n, double dx) {
  exchange(g, n, 1);
  for (int i = 0; i < n; i++) f[i + 2] -= TIME_STEP / dx * (g[i + 1] - g[i]);
}

static void average_cells(const double *fine, double *coarse, int n) {
  for (int i = 0; i < n; i++) coarse[i + 2] = 0;
  for (int i = 0; i < RATIO * n; i++) coarse[i / RATIO + 2] += fine[i + 2] / RATIO;
}

/* ---- the closure: from two cells on each side of a face, the flux that is missing there ---- */

static double stencil[COARSE * STENCIL], missing[COARSE];
static situ_tensor *in[BLOCKS], *want[BLOCKS]; /* the same memory, as tensors of a block each */

/* A viscosity by the network, times the step at the face: nothing is missing where u is constant. */
static situ_tensor *closure_of(situ_nn_module *net, int block, const double *f, int n) {
  for (int i = 0; block == 0 && i < n; i++)
    for (int k = 0; k < STENCIL; k++) stencil[i * STENCIL + k] = f[i + 1 + k];
  situ_tensor *step = situ_sub(situ_narrow(in[block], 1, 2, 1), situ_narrow(in[block], 1, 1, 1));
  return situ_mul(situ_nn_forward(net, in[block]), step);
}

/* A step of the optimiser; returns the mean loss of all blocks. */
static double learn(situ_nn_module *net, situ_optim *optim, const double *f, int n) {
  double own[BLOCKS], all[BLOCKS], mean = 0;
  for (int b = 0; b < BLOCKS / size; b++) {
    situ_scope s;
    situ_scope_begin(&s);
    situ_tensor *loss = situ_mse_loss(closure_of(net, b, f, n), want[b], SITU_REDUCTION_MEAN);
    check(situ_item(loss, &own[b]) == SITU_OK && situ_backward(loss, NULL) == SITU_OK);
    check(situ_scope_end(&s) == SITU_OK);
  }
  check(situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK);
  MPI_Allgather(own, BLOCKS / size, MPI_DOUBLE, all, BLOCKS / size, MPI_DOUBLE, MPI_COMM_WORLD);
  for (int b = 0; b < BLOCKS; b++) mean += all[b] / BLOCKS;
  return mean;
}

/* A step of the coarse solution; net NULL: without a closure. */
static void advance_coarse(double *f, int n, situ_nn_module *net) {
  double g[COARSE + 2], more[BLOCK];
  find_fluxes(f, g, n, LENGTH / COARSE);
  for (int b = 0; net && b < BLOCKS / size; b++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    check(situ_copy_to_host(closure_of(net, b, f, n), more, sizeof more) == SITU_OK);
    check(situ_scope_end(&s) == SITU_OK);
    for (int i = 0; i < BLOCK; i++) g[b * BLOCK + i + 1] += more[i];
  }
  advance(f, g, n, LENGTH / COARSE);
}

static double distance(const double *a, const double *b, int n) {
  double own = 0, all = 0;
  for (int i = 0; i < n; i++) own += (a[i + 2] - b[i + 2]) * (a[i + 2] - b[i + 2]) / COARSE;
  MPI_Allreduce(&own, &all, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  return sqrt(all);
}

int main(int argc, char **argv) {
  static double u[FINE + 4], g[FINE + 2], mean[COARSE + 4], with[COARSE + 4], without[COARSE + 4], flux[COARSE + 2];
  const situ_nn_linear_options f64 = { .dtype = SITU_F64 };
  int provided;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  situ_scope s;
  situ_scope_begin(&s);
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
  situ_nn_module *net = situ_nn_sequential(situ_nn_linear(STENCIL, 16, &f64), situ_nn_tanh(),
                                           situ_nn_linear(16, 16, &f64), situ_nn_tanh(), situ_nn_linear(16, 1, &f64));
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 3e-3, NULL);
  situ_dist_ddp *ddp = situ_dist_ddp_new(net, comm, &(situ_dist_ddp_options){ .micro_batches = BLOCKS });
  check(ddp && optim && BLOCKS % size == 0);
  const situ_options host = { .dtype = SITU_F64 };
  const size_t row = BLOCK * sizeof(double);
  for (int b = 0; b < BLOCKS / size; b++) {
    in[b] = situ_view_host(stencil + b * BLOCK * STENCIL, row * STENCIL, SITU_SHAPE(BLOCK, STENCIL), &host);
    check((want[b] = situ_view_host(missing + b * BLOCK, row, SITU_SHAPE(BLOCK, 1), &host)));
  }
  const int fine = FINE / size, coarse = COARSE / size;
  const double dx = LENGTH / FINE;
  for (int i = 0; i < fine; i++) u[i + 2] = sin((rank * fine + i) * dx) + 0.5 * sin(2 * (rank * fine + i) * dx + 1);
  for (int step = 0; step < STEPS; step++) {
    find_fluxes(u, g, fine, dx);
    average_cells(u, mean, coarse);
    for (int i = 0; step == STEPS / 2 && i < coarse; i++) with[i + 2] = without[i + 2] = mean[i + 2];
    find_fluxes(mean, flux, coarse, RATIO * dx);
    for (int i = 0; i < coarse; i++) missing[i] = g[RATIO * (i + 1)] - flux[i + 1];
    const double loss = learn(net, optim, mean, coarse);
    if (rank == 0 && step % 100 == 0) printf("step %3d  loss %.6e\n", step, loss);
    advance(u, g, fine, dx);
    if (step >= STEPS / 2) advance_coarse(with, coarse, net);
    if (step >= STEPS / 2) advance_coarse(without, coarse, NULL);
  }
  average_cells(u, mean, coarse);
  const double learned = distance(with, mean, coarse), plain = distance(without, mean, coarse);
  if (rank == 0) printf("distance from the fine solution %.6e, without the closure %.6e\n", learned, plain);
  situ_dist_ddp_free(ddp);
  situ_optim_free(optim);
  situ_nn_free(net);
  situ_comm_free(comm);
  check(situ_scope_end(&s) == SITU_OK);
  MPI_Finalize();
  return !(learned < plain / 2);
}
