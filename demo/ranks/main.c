/* The demo on several ranks: each trains on its share of every batch, and all get the same network, bit for bit. Built
   by demo/ranks/run.sh with the mpicc of this machine.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../demo.h"
#include "situ/mpi.h"

enum { BATCH = 64, MICRO_BATCHES = 8 };

typedef struct trainer {
  situ_nn_module *net;
  situ_optim *optim;
  situ_lr_scheduler *schedule;
  situ_dist_ddp *ddp;
} trainer;

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Forward and backward of one micro-batch, whose number chooses the digits: so they do not depend on the rank. */
static situ_status micro_batch(const trainer *t, const demo_digits *d, situ_tensor *order, int64_t batch) {
  situ_scope s;
  situ_scope_begin(&s);
  const int64_t from = batch * BATCH + situ_dist_ddp_micro_batch(t->ddp) * (BATCH / MICRO_BATCHES);
  situ_tensor *which = situ_narrow(order, 0, from, BATCH / MICRO_BATCHES);
  situ_tensor *x = situ_index_select(d->train_x, 0, which), *y = situ_index_select(d->train_y, 0, which);
  const situ_status status = situ_backward(situ_cross_entropy(situ_nn_forward(t->net, x), y, NULL), NULL);
  const situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}

static situ_status epoch(const trainer *t, const demo_digits *d, int e) {
  situ_scope s;
  situ_scope_begin(&s);
  const int64_t count = situ_size(d->train_x, 0);
  situ_generator generator = situ_generator_seeded(7 + (uint64_t)e);
  situ_tensor *order = situ_randperm(count, &(situ_options){ .generator = &generator });
  situ_nn_train(t->net, true);
  for (int64_t batch = 0; batch < count / BATCH; batch++) {
    for (int64_t k = situ_dist_ddp_micro_batches(t->ddp); k > 0; k--) SITU_TRY(micro_batch(t, d, order, batch));
    SITU_TRY(situ_optim_step(t->optim));
    SITU_TRY(situ_optim_zero_grad(t->optim, true));
    SITU_TRY(situ_lr_scheduler_step(t->schedule));
  }
  return situ_scope_end(&s);
}

/* FNV-1a over the bytes of all parameters and buffers. */
static situ_status hash_tensor(const situ_nn_visit *at, void *payload) {
  uint64_t *hash = payload;
  const size_t bytes = (size_t)situ_numel(at->tensor) * situ_dtype_size(situ_dtype_of(at->tensor));
  unsigned char *values = malloc(bytes + 1);
  const situ_status status = values ? situ_copy_to_host(at->tensor, values, bytes) : SITU_E_NOMEM;
  for (size_t i = 0; status == SITU_OK && i < bytes; i++) *hash = (*hash ^ values[i]) * 0x100000001B3u;
  free(values);
  return status;
}

/* Gathers the hashes of all ranks; rank 0 prints them. */
static situ_status report(const trainer *t, situ_comm *comm, const demo_digits *d, double time) {
  const int size = situ_comm_size(comm);
  int64_t mine, *all = calloc((size_t)size, sizeof *all);
  uint64_t hash = 0xCBF29CE484222325u;
  double accuracy = 0;
  situ_status status = all ? situ_nn_walk(t->net, SITU_NN_VISIT_TENSORS, hash_tensor, &hash) : SITU_E_NOMEM;
  if (status == SITU_OK) status = demo_accuracy(demo_scores(t->net, d->test_x), d->test_y, &accuracy);
  memcpy(&mine, &hash, sizeof mine);
  const situ_comm_call gather = { .op = SITU_COMM_ALL_GATHER,
                                  .dtype = SITU_I64,
                                  .count = 1,
                                  .send = &mine,
                                  .receive = all,
                                  .name = "hash of the weights" };
  if (status == SITU_OK) status = situ_comm_run(comm, &gather);
  if (status == SITU_OK && situ_comm_rank(comm) == 0) {
    printf("%d rank%s: accuracy on held-back digits: %.1f %%, after %.1f s of training\n", size, size > 1 ? "s" : "",
           100 * accuracy, time);
    for (int r = 0; r < size; r++) printf("weights %016" PRIx64 " on rank %d of %d\n", (uint64_t)all[r], r, size);
  }
  free(all);
  return status;
}

static situ_status train(trainer *t, situ_comm *comm, const demo_digits *d, int epochs) {
  situ_manual_seed(2026 + (uint64_t)situ_comm_rank(comm)); /* ddp gives all ranks the weights of rank 0 */
  t->net = demo_network();
  t->optim = situ_optim_adamw(situ_nn_parameters(t->net), 1e-3, NULL);
  t->schedule = situ_lr_scheduler_one_cycle_lr(t->optim, 5e-3, epochs * (situ_size(d->train_x, 0) / BATCH) + 1, NULL);
  t->ddp = situ_dist_ddp_new(t->net, comm, &(situ_dist_ddp_options){ .micro_batches = MICRO_BATCHES, .seed = 7 });
  if (!t->schedule || !t->ddp) return situ_error();
  const double begin = seconds();
  for (int e = 0; e < epochs; e++) SITU_TRY(epoch(t, d, e));
  return report(t, comm, d, seconds() - begin);
}

static situ_status run(situ_comm *comm, int epochs, const char *data) {
  trainer t = { 0 };
  demo_digits digits = { 0 };
  situ_scope s;
  situ_scope_begin(&s);
  situ_status status = demo_digits_load(&digits, data);
  if (status == SITU_OK) status = train(&t, comm, &digits, epochs);
  situ_dist_ddp_free(t.ddp);
  situ_lr_scheduler_free(t.schedule);
  situ_optim_free(t.optim);
  situ_nn_free(t.net);
  demo_digits_free(&digits);
  const situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}

/* usage: situ-demo-ranks EPOCHS DIGITS */
int main(int argc, char **argv) {
  int provided;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || argc != 3) return 2;
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
  const situ_status status = comm ? run(comm, (int)strtol(argv[1], NULL, 10), argv[2]) : situ_error();
  if (status != SITU_OK) { /* MPI_Finalize may wait for a rank that is lost */
    if (comm) situ_comm_abort(comm, situ_error_message());
    _Exit(1);
  }
  situ_comm_free(comm);
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
