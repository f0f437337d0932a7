/* A program of several ranks over MPI: SyncBatchNorm, layers in parts and stages compute what one rank computes alone.
   Each rank writes what it saw to result.<rank>. Built by tests/distributed/mpi.sh with the mpicc under test.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "situ/mpi.h"
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/options.h"

enum { ROWS = 3, WIDTH = 8, HEADS = 4, LENGTH = 5, STEPS = 20 };

static FILE *result;

/* The same values on all ranks. */
static situ_tensor *drawn(situ_shape shape, uint64_t seed) {
  situ_generator g = situ_generator_seeded(seed);
  return situ_randn(shape, &(situ_options){ .generator = &g, .dtype = SITU_F64 });
}

/* The largest difference of two tensors; what is not there differs. */
static double distance(situ_tensor *a, situ_tensor *b) {
  double most = INFINITY;
  situ_tensor *d = a && b ? situ_max(situ_abs(situ_sub(situ_detach(a), situ_detach(b)))) : NULL;
  return d && situ_item(d, &most) == SITU_OK ? most : INFINITY;
}

static bool close_enough(const char *what, double difference, double most) {
  fprintf(result, "%s %.1e%s\n", what, difference, difference <= most ? "" : ": too far");
  return difference <= most;
}

/* ---- SyncBatchNorm ---- */

static situ_nn_module *make_norm(void) {
  return situ_nn_batch_norm1d(WIDTH, OPTIONS_AT(situ_nn_batch_norm, with.dtype = SITU_F64));
}

static bool norms_agree(situ_comm *comm) {
  const int n = situ_comm_size(comm), rank = situ_comm_rank(comm);
  situ_nn_module *whole = make_norm(), *part = situ_nn_convert_sync_batchnorm(make_norm(), comm);
  situ_tensor *all = situ_requires_grad_(drawn(SITU_SHAPE(n * ROWS, WIDTH), 1), true);
  situ_tensor *own = situ_requires_grad_(situ_clone(situ_narrow(situ_detach(all), 0, rank * ROWS, ROWS)), true);
  situ_tensor *y = situ_nn_forward(whole, all), *z = situ_nn_forward(part, own);
  const bool good = situ_backward(situ_sum(situ_sin(y), NULL), NULL) == SITU_OK &&
                    situ_backward(situ_sum(situ_sin(z), NULL), NULL) == SITU_OK;
  situ_tensor *dy = good ? situ_narrow(situ_detach(situ_grad(all)), 0, rank * ROWS, ROWS) : NULL;
  const double far = fmax(distance(situ_narrow(y, 0, rank * ROWS, ROWS), z), distance(dy, situ_grad(own)));
  const bool close = close_enough("SyncBatchNorm", far, 1e-11);
  situ_nn_free(whole);
  situ_nn_free(part);
  return good && close;
}

/* ---- layers in parts ---- */

static situ_nn_module *make_layer(void) {
  situ_manual_seed(4);
  return situ_nn_transformer_encoder_layer(WIDTH, HEADS,
                                           OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 16,
                                                      with.batch_first = true, with.dropout = 0,
                                                      with.dtype = SITU_F64));
}

static bool train_layer(situ_nn_module *m, situ_dist_tp *tp) {
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  bool good = optim != NULL;
  for (int i = 0; good && i < STEPS; i++) {
    situ_tensor *y = situ_nn_forward(m, drawn(SITU_SHAPE(ROWS, LENGTH, WIDTH), 60 + (uint64_t)i));
    good = situ_backward(situ_mean(situ_square(y), NULL), NULL) == SITU_OK;
    good = good && (!tp || situ_dist_tp_clip_grad_norm_(tp, 1e3, 2, NULL) == SITU_OK);
    good = good && situ_optim_step(optim) == SITU_OK && situ_optim_zero_grad(optim, true) == SITU_OK;
  }
  situ_optim_free(optim);
  return good;
}

static bool parts_agree(situ_comm *comm) {
  static const situ_dist_parallel plan[] = { { "self_attn", SITU_DIST_HEADWISE, false },
                                             { "linear1", SITU_DIST_COLWISE, false },
                                             { "linear2", SITU_DIST_ROWWISE, false } };
  situ_nn_module *whole = make_layer(), *part = make_layer();
  situ_dist_tp *tp = situ_dist_tp_new(part, comm, plan, 3);
  bool good = tp && train_layer(whole, NULL) && train_layer(part, tp);
  situ_tree *state = good ? situ_dist_tp_state_dict(tp, 0) : NULL, *want = situ_nn_state_dict(whole);
  double far = good && state ? 0 : INFINITY;
  for (int64_t i = 0; state && situ_comm_rank(comm) == 0 && i < situ_tree_count(want); i++)
    far = fmax(far, distance(situ_tree_get(state, situ_tree_key(want, i)), situ_tree_tensor_at(want, i)));
  good = close_enough("layers in parts", far, 1e-9) && good;
  situ_tree_free(state);
  situ_tree_free(want);
  situ_dist_tp_free(tp);
  situ_nn_free(whole);
  situ_nn_free(part);
  return good;
}

/* ---- stages ---- */

static situ_tensor *square_loss(situ_tensor *output, situ_tensor *target, void *payload) {
  (void)payload;
  return situ_mse_loss(output, target, SITU_REDUCTION_MEAN);
}

/* Layers [from, to) of four. */
static situ_nn_module *make_stage(int from, int to) {
  situ_nn_module *m = situ_nn_sequential_of(0, NULL);
  for (int i = from; i < to; i++) {
    char name[16];
    (void)snprintf(name, sizeof name, "%d", i);
    situ_manual_seed(80 + (uint64_t)i);
    situ_nn_module *layer = situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .dtype = SITU_F64 });
    m = situ_nn_put(m, name, situ_nn_sequential(layer, situ_nn_tanh()));
  }
  return m;
}

static bool train_stage(situ_nn_module *m, situ_comm *comm, double *loss) {
  const situ_dist_pipeline_options options = { .micro_batches = 6, .loss = square_loss };
  situ_dist_pipeline *pipeline = situ_dist_pipeline_new(m, comm, &options);
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  bool good = pipeline && optim;
  for (int i = 0; good && i < STEPS; i++) {
    situ_tensor *x = drawn(SITU_SHAPE(12, WIDTH), 90 + (uint64_t)i), *y = situ_sin(x);
    good = situ_dist_pipeline_step(pipeline, x, y, loss) == SITU_OK && situ_optim_step(optim) == SITU_OK &&
           situ_optim_zero_grad(optim, true) == SITU_OK;
  }
  situ_optim_free(optim);
  situ_dist_pipeline_free(pipeline);
  return good;
}

/* To the bit. */
static bool stages_agree(situ_comm *comm) {
  const int n = situ_comm_size(comm), rank = situ_comm_rank(comm);
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *alone = situ_comm_sim_rank(world, 0, NULL);
  situ_nn_module *whole = make_stage(0, 4), *stage = make_stage(4 * rank / n, 4 * (rank + 1) / n);
  double want = 0, got = -1, far = 0;
  bool good = train_stage(whole, alone, &want) && train_stage(stage, comm, &got) && got == want;
  situ_tree *state = situ_nn_state_dict(stage);
  for (int64_t i = 0; i < situ_tree_count(state); i++)
    far = fmax(far, distance(situ_tree_tensor_at(state, i), situ_nn_get_tensor(whole, situ_tree_key(state, i))));
  good = close_enough("stages", far, 0) && good;
  situ_tree_free(state);
  situ_nn_free(whole);
  situ_nn_free(stage);
  situ_comm_free(alone);
  situ_comm_sim_free(world);
  return good;
}

int main(int argc, char **argv) {
  int provided;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 4;
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
  if (!comm) return 5;
  char name[64];
  (void)snprintf(name, sizeof name, "result.%d", situ_comm_rank(comm));
  if (!(result = fopen(name, "w"))) return 6;
  situ_scope s;
  situ_scope_begin(&s);
  const bool good = norms_agree(comm) && parts_agree(comm) && stages_agree(comm);
  if (!good) fprintf(result, "%s\n", situ_error_message());
  fprintf(result, "%s\n", situ_scope_end(&s) == SITU_OK && good ? "ok" : "bad");
  (void)fclose(result);
  situ_comm_free(comm);
  (void)MPI_Finalize();
  return !good;
}
