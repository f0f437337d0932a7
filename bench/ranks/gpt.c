/* Steps of examples/06_char_gpt.c over MPI, a batch of 16 divided among the ranks. Rank 0 prints the median seconds of
   a step by the clock, and of the processor; one thread each (SITU_NUM_THREADS). bench/torch/ranks.py builds it with
   mpicc, behind that example (-include), whose main has another name.
   usage: gpt STEPS [plain | ddp | zero2 | zero3 | layers]     (plain: one rank, without data parallel training; zero2,
   zero3: gradients, and parameters, in parts; layers: attentions and Linear pairs of the blocks in parts)
   SPDX-License-Identifier: MIT */
#undef main
#include "../support/measure.h"
#include "situ/mpi.h"
#include "situ/parallel.h"

enum { WARM = 5, MOST = 1000 };

typedef struct job {
  situ_tensor *all, *offsets;
  situ_nn_module *gpt;
  situ_optim *optim; /* NULL: zero */
  situ_dist_zero *zero;
  situ_dist_ddp *ddp; /* NULL: plain, or tp */
  situ_dist_tp *tp;   /* NULL: layers are whole */
  int64_t batch;      /* of this rank */
} job;

static situ_status clip_and_step(const job *j) {
  if (j->zero) {
    SITU_TRY(situ_dist_zero_clip_grad_norm_(j->zero, 1, 2, NULL));
    SITU_TRY(situ_dist_zero_step(j->zero));
    return situ_dist_zero_zero_grad(j->zero);
  }
  SITU_TRY(j->tp ? situ_dist_tp_clip_grad_norm_(j->tp, 1, 2, NULL) : situ_optim_clip_grad_norm_(j->optim, 1, 2, NULL));
  SITU_TRY(situ_optim_step(j->optim));
  return situ_optim_zero_grad(j->optim, true);
}

static situ_status bench_step(const job *j) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *at =
      situ_add(situ_randint(0, situ_numel(j->all) - CONTEXT - 1, SITU_SHAPE(j->batch, 1), NULL), j->offsets);
  situ_tensor *passage =
      situ_reshape(situ_index_select(j->all, 0, situ_reshape(at, SITU_SHAPE(-1))), SITU_SHAPE(j->batch, CONTEXT + 1));
  situ_tensor *scores = situ_nn_forward(j->gpt, situ_narrow(passage, 1, 0, CONTEXT));
  situ_tensor *next = situ_reshape(situ_narrow(passage, 1, 1, CONTEXT), SITU_SHAPE(-1));
  SITU_TRY(situ_backward(situ_cross_entropy(situ_flatten(scores, 0, 1), next, NULL), NULL));
  SITU_TRY(clip_and_step(j));
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

static const situ_dist_parallel halves[] = { { "blocks.*.self_attn", SITU_DIST_HEADWISE, false },
                                             { "blocks.*.linear1", SITU_DIST_COLWISE, false },
                                             { "blocks.*.linear2", SITU_DIST_ROWWISE, false } };

static void divide(job *j, situ_comm *comm, const char *how) {
  const double lr = 3e-3;
  if (strcmp(how, "layers") == 0) j->tp = situ_dist_tp_new(j->gpt, comm, halves, 3);
  else if (strcmp(how, "plain") != 0) j->ddp = situ_dist_ddp_new(j->gpt, comm, NULL);
  need(situ_error());
  if (strcmp(how, "zero2") == 0)
    j->zero = situ_dist_zero2_new(situ_nn_parameters(j->gpt), j->ddp, situ_optim_adamw, lr, NULL);
  else if (strcmp(how, "zero3") == 0)
    j->zero = situ_dist_zero3_new(situ_nn_parameters(j->gpt), j->ddp, NULL, situ_optim_adamw, lr, NULL);
  else j->optim = situ_optim_adamw(situ_nn_parameters(j->gpt), lr, NULL);
  need(situ_error());
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
  const char *how = argc > 2 ? argv[2] : "ddp";
  const bool same_batch = strcmp(how, "layers") == 0;
  situ_manual_seed(6 + (same_batch ? 0 : (uint64_t)rank));
  job j = { .batch = BATCH / (same_batch ? 1 : situ_comm_size(comm)),
            .gpt = char_gpt_new(t.symbols),
            .offsets = situ_arange(0, CONTEXT + 1, 1, NULL) };
  j.all = situ_from_host(t.symbol, (size_t)t.length * sizeof *t.symbol, SITU_SHAPE(t.length),
                         &(situ_options){ .dtype = SITU_I64 });
  divide(&j, comm, how);
  measure(&j, steps, rank);
  situ_dist_zero_free(j.zero);
  situ_dist_ddp_free(j.ddp);
  situ_dist_tp_free(j.tp);
  situ_optim_free(j.optim);
  situ_nn_free(j.gpt);
  situ_comm_free(comm);
  free(t.symbol);
  need(situ_scope_end(&s));
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
