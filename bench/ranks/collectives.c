/* A barrier and all-reduces of several sizes over MPI, beside MPI's own on the same processes: batches of each take
   turns. Rank 0 prints a line for each: its name, bytes, and median microseconds of a call: MPI's in place, the
   engine's sum in place (situ_comm_all_reduce), MPI's from one buffer into another, and a sum with the same bits for
   any number of ranks in a new tensor (situ_dist_reduce_from). bench/torch/ranks.py builds it with mpicc.
   usage: collectives [ROUNDS]
   SPDX-License-Identifier: MIT */
#include "../support/measure.h"
#include "situ/mpi.h"
#include "situ/parallel.h"

enum { MOST = 201, WAYS = 4 };

typedef struct job {
  situ_comm *comm;
  situ_tensor *t;        /* NULL: a barrier */
  float *values, *other; /* as many as t has */
  int count;
} job;

static void call_mpi(const job *j) {
  if (j->t) MPI_Allreduce(MPI_IN_PLACE, j->values, j->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  else MPI_Barrier(MPI_COMM_WORLD);
}

static void call_mpi_apart(const job *j) {
  MPI_Allreduce(j->values, j->other, j->count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void call_engine(const job *j) {
  need(j->t ? situ_comm_all_reduce(j->comm, j->t, SITU_COMM_SUM, "t") : situ_comm_barrier(j->comm, "t"));
}

static void call_tree(const job *j) {
  (void)!situ_dist_reduce_from(j->t, j->comm, "t");
  need(situ_error());
}

/* Microseconds of one of `calls` calls; all ranks begin together. */
static double batch(void (*call)(const job *), const job *j, int calls) {
  MPI_Barrier(MPI_COMM_WORLD);
  const double begin = seconds();
  for (int k = 0; k < calls; k++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    call(j);
    need(situ_scope_end(&s));
  }
  return 1e6 * (seconds() - begin) / calls;
}

static void measure(const job *j, int rounds, int rank) {
  static void (*const ways[])(const job *) = { call_mpi, call_engine, call_mpi_apart, call_tree };
  static double took[WAYS][MOST];
  const int count = j->t ? WAYS : 2, calls = j->count < 1 << 14 ? 200 : j->count < 1 << 20 ? 10 : 2;
  for (int i = -1; i < rounds; i++)
    for (int w = 0; w < count; w++) {
      const double us = batch(ways[w], j, calls);
      if (i >= 0) took[w][i] = us;
    }
  if (rank != 0) return;
  printf("%s %zu", j->t ? "all_reduce" : "barrier", (size_t)j->count * sizeof(float));
  for (int w = 0; w < count; w++) printf(" %.2f", median(took[w], rounds));
  printf("\n");
}

int main(int argc, char **argv) {
  static const int sizes[] = { 1 << 10, 1 << 16, 1 << 20, 1 << 24 }; /* bytes */
  int provided;
  const int rounds = argc > 1 ? (int)strtol(argv[1], NULL, 10) : 15;
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS || rounds < 1 || rounds > MOST)
    return 2;
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, NULL);
  need(situ_error());
  job j = { .comm = comm };
  const int rank = situ_comm_rank(comm);
  measure(&j, rounds, rank);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    j.count = sizes[i] / (int)sizeof(float);
    j.values = calloc((size_t)j.count, sizeof *j.values);
    j.other = calloc((size_t)j.count, sizeof *j.other);
    j.t = situ_zeros(SITU_SHAPE(j.count), NULL);
    need(situ_error());
    if (!j.values || !j.other) return 2;
    measure(&j, rounds, rank);
    free(j.values);
    free(j.other);
    need(situ_scope_end(&s));
  }
  situ_comm_free(comm);
  return MPI_Finalize() == MPI_SUCCESS ? 0 : 1;
}
