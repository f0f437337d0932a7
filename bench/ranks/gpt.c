/* Steps of examples/06_char_gpt.c over MPI, a batch of 16 divided among the ranks. Rank 0 prints the median seconds of
   a step by the clock, and of the processor; one thread each (SITU_NUM_THREADS). bench/torch/ranks.py builds it with
   mpicc, behind that example (-include), whose main has another name.
   usage: gpt STEPS [plain]     (plain: one rank, without data parallel training)
   SPDX-License-Identifier: MIT */
#undef main
#include "../support/measure.h"
#include "situ/mpi.h"

enum { WARM = 5, MOST = 1000 };

typedef struct job {
  situ_tensor *all, *offsets;
  situ_nn_module *gpt;
  situ_optim *optim;
  situ_dist_ddp *ddp; /* NULL: plain */
  int64_t batch;      /* of this rank */
} job;

static situ_status bench_step(const job *j) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *at =
      situ_add(situ_randint(0, situ_numel(j->all) - CONTEXT - 1, SITU_SHAPE(j->batch, 1), NULL), j->offsets);
  situ_tensor *passage =
      situ_reshape(situ_index_select(j->all, 0, situ_reshape(at, SITU_SHAPE(-1))), SITU_SHAPE(j->batch, CONTEXT + 1));
  situ_tensor *scores = situ_nn_forward(j->gpt, situ_narrow(passage, 1, 0, CONTEXT));
  situ_tensor *next = situ_reshape(situ_narrow(passage, 1, 1, CONTEXT), SITU_SHAPE(-1));
  SITU_TRY(situ_optim_zero_grad(j->optim, true));
  SITU_TRY(situ_backward(situ_cross_entropy(situ_flatten(scores, 0, 1), next, NULL), NULL));
  SITU_TRY(situ_optim_clip_grad_norm_(j->optim, 1, 2, NULL));
  SITU_TRY(situ_optim_step(j->optim));
  return situ_scope_end(&s);
}

static void measure(const job *j, int steps, int rank) {
  static double clock[MOST], processor[MOST];
  for (int i = -WARM; i < steps; i++) {
    const double begin = seconds(), used = processor_seconds();
    need(bench_step(j));
    if (i < 0) continue;
    clock[i] = seconds() - begin;
    processor[i] = processor_seconds() - used;
  }
  if (rank == 0) printf("%.9f %.9f\n", median(clock, steps), median(processor, steps));
}

int main(int argc, char **argv) {
  int provided;
  text t = { 0 };
  const int steps = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 0;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 2;
  if (steps < 1 || steps > MOST || !text_read(&t, "/usr/share/common-licenses/GPL-3", CONTEXT + 1)) return 2;
  situ_scope s;
  situ_scope_begin(&s);
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
  const int rank = situ_comm_rank(comm);
  situ_manual_seed(6 + (uint64_t)rank);
  job j = { .batch = BATCH / situ_comm_size(comm),
            .gpt = char_gpt_new(t.symbols),
            .offsets = situ_arange(0, CONTEXT + 1, 1, NULL) };
  j.all = situ_from_host(t.symbol, (size_t)t.length * sizeof *t.symbol, SITU_SHAPE(t.length),
                         &(situ_options){ .dtype = SITU_I64 });
  j.optim = situ_optim_adamw(situ_nn_parameters(j.gpt), &(situ_optim_options){ .lr = 3e-3 });
  j.ddp = argc > 2 ? NULL : situ_dist_ddp_new(j.gpt, comm, NULL);
  need(situ_error());
  measure(&j, steps, rank);
  situ_dist_ddp_free(j.ddp);
  situ_optim_free(j.optim);
  situ_nn_free(j.gpt);
  situ_comm_free(comm);
  free(t.symbol);
  need(situ_scope_end(&s));
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
