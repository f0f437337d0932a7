/* A program of several ranks over MPI: trains small models, and can lose a rank on the way. Each rank writes what it saw
   to result.<rank>. Built by tests/distributed/mpi.sh with the mpicc under test.
   SPDX-License-Identifier: MIT */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "distributed/models.h"
#include "situ/mpi.h"
#include "situ/sys/comm_sim.h"

enum { STEPS = 200, MICRO_BATCHES = 4 };

static FILE *result;

/* Random numbers, too, depend on the micro-batch and not on the rank. */
static situ_nn_module *with_dropout(void) {
  return situ_nn_sequential(situ_nn_linear(6, 16, NULL), situ_nn_dropout(0.3), situ_nn_linear(16, 3, NULL));
}
static const dist_kind dropout_kind = { "dropout", with_dropout, { 2, { DIST_BATCH, 6 } } };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- training ---- */

static situ_status hash_tensor(const situ_nn_visit *at, void *payload) {
  uint64_t *hash = payload;
  const size_t bytes = (size_t)situ_numel(at->tensor) * situ_dtype_size(situ_dtype_of(at->tensor));
  unsigned char *values = malloc(bytes + 1);
  const situ_status status = values ? situ_copy_to_host(at->tensor, values, bytes) : SITU_E_NOMEM;
  for (size_t i = 0; status == SITU_OK && i < bytes; i++) *hash = (*hash ^ values[i]) * 0x100000001B3u;
  free(values);
  return status;
}
static uint64_t hash_of(situ_nn_module *m) {
  uint64_t hash = 0xCBF29CE484222325u;
  if (situ_nn_walk(m, SITU_NN_VISIT_TENSORS, hash_tensor, &hash) != SITU_OK) exit(1);
  return hash;
}

typedef struct training {
  const dist_kind *kind;
  situ_nn_module *model;
  situ_optim *optim;
  situ_dist_ddp *ddp;
  situ_dist_zero *zero; /* in place of optim, where the state is divided */
  int stage;            /* of ZeRO */
} training;

/* Rank 0's first values are the same in every world. stage: of ZeRO; 0: every rank has an optimiser of all
   parameters. */
static bool begin_training(training *t, const dist_kind *kind, situ_comm *comm, int stage) {
  situ_manual_seed(77 + (uint64_t)situ_comm_rank(comm));
  t->kind = kind;
  t->stage = stage;
  t->model = kind->make();
  t->optim = situ_optim_adamw(situ_nn_parameters(t->model), 1e-3, NULL);
  const situ_dist_ddp_options options = { .micro_batches = MICRO_BATCHES,
                                          .bucket_bytes = 600,
                                          .seed = 9,
                                          .compress = kind == &dist_kinds[2] ? SITU_BF16 : SITU_DTYPE_DEFAULT };
  t->ddp = situ_dist_ddp_new(t->model, comm, &options);
  situ_tree *parameters = t->ddp && stage ? situ_nn_parameters(t->model) : NULL;
  t->zero = !parameters  ? NULL
            : stage == 1 ? situ_dist_zero_new(parameters, comm, situ_optim_adamw, 1e-3, NULL)
            : stage == 2 ? situ_dist_zero2_new(parameters, t->ddp, situ_optim_adamw, 1e-3, NULL)
                         : situ_dist_zero3_new(parameters, t->ddp, NULL, situ_optim_adamw, 1e-3, NULL);
  return t->ddp && t->optim && (t->zero || !stage);
}

static void end_training(training *t) {
  situ_dist_zero_free(t->zero);
  situ_dist_ddp_free(t->ddp);
  situ_optim_free(t->optim);
  situ_nn_free(t->model);
}

static situ_status train_step(training *t) {
  for (int64_t k = 0; k < situ_dist_ddp_micro_batches(t->ddp); k++) {
    const int64_t number = situ_dist_ddp_step(t->ddp) * MICRO_BATCHES + situ_dist_ddp_micro_batch(t->ddp);
    SITU_TRY(dist_micro_batch(t->kind, t->model, (situ_device){ 0 }, number));
  }
  SITU_TRY(t->zero ? situ_dist_zero_step(t->zero) : situ_optim_step(t->optim));
  return t->zero ? situ_dist_zero_zero_grad(t->zero) : situ_optim_zero_grad(t->optim, true);
}

/* Whether parts of parameters, called "0.weight[0:48]", are those of the model. */
static bool parts_are(const situ_optim *parts, situ_nn_module *whole) {
  bool same = true;
  for (int64_t i = 0; same && i < situ_optim_count(parts); i++) {
    const char *name;
    char path[96];
    int64_t from = 0;
    situ_tensor *part = situ_optim_param(parts, i, &name);
    const char *range = strrchr(name, '[');
    (void)snprintf(path, sizeof path, "%.*s", (int)(range - name), name);
    from = strtoll(range + 1, NULL, 10);
    situ_tensor *t = situ_detach(situ_nn_get_tensor(whole, path));
    t = situ_narrow(situ_reshape(t, SITU_SHAPE(situ_numel(t))), 0, from, situ_numel(part));
    same = situ_equal(situ_detach(part), t, &same) == SITU_OK && same;
  }
  return same;
}

/* parts: NULL, or the optimiser of this rank's parts, which must be those of the model at the end; else the hash
   is 0. */
static uint64_t train(const dist_kind *kind, situ_comm *comm, int steps, int stage, const situ_optim *parts) {
  training t;
  bool good = begin_training(&t, kind, comm, stage);
  for (int i = 0; good && i < steps; i++) good = train_step(&t) == SITU_OK;
  if (good && t.zero) good = situ_dist_zero_unshard(t.zero) == SITU_OK;
  if (good && parts) good = parts_are(parts, t.model);
  const uint64_t hash = good ? hash_of(t.model) : 0;
  end_training(&t);
  return hash;
}

/* Without MPI, on one rank. */
static uint64_t train_alone(const dist_kind *kind, int steps, const situ_optim *parts) {
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, NULL);
  const uint64_t hash = train(kind, comm, steps, 0, parts);
  situ_comm_free(comm);
  situ_comm_sim_free(world);
  return hash;
}

static bool train_all(situ_comm *comm) {
  static const struct {
    const dist_kind *kind;
    int stage;
  } runs[] = { { &dist_kinds[0], 1 }, { &dist_kinds[1], 2 }, { &dist_kinds[2], 0 },
               { &dropout_kind, 2 },  { &dropout_kind, 3 },  { &dist_kinds[2], 3 } };
  bool good = true;
  for (size_t k = 0; k < sizeof runs / sizeof *runs; k++) {
    const dist_kind *kind = runs[k].kind;
    const uint64_t got = train(kind, comm, STEPS, runs[k].stage, NULL), want = train_alone(kind, STEPS, NULL);
    good = good && got && got == want;
    fprintf(result, "%s %d %016llx%s\n", kind->name, runs[k].stage, (unsigned long long)got,
            got == want ? "" : ": other bits");
  }
  return good;
}

/* ---- checkpoints ---- */

/* The first half of a training, which it saves; or the second half from there, by another number of ranks. Dropout's
   random numbers go on where they were. */
static bool train_half(situ_comm *comm, bool first) {
  training t;
  bool good = begin_training(&t, &dropout_kind, comm, first ? 2 : 1);
  situ_dist_checkpoint state = { .model = t.model, .zero = t.zero, .ddp = t.ddp };
  good = good && (first || situ_dist_checkpoint_load("checkpoint", comm, &state, NULL) == SITU_OK);
  for (int i = 0; good && i < STEPS / 2; i++) good = train_step(&t) == SITU_OK;
  if (first) good = good && situ_dist_checkpoint_save("checkpoint", comm, &state, NULL) == SITU_OK;
  else good = good && hash_of(t.model) == train_alone(&dropout_kind, STEPS, NULL);
  if (!good) fprintf(result, "%s\n", situ_error_message());
  end_training(&t);
  return good;
}

/* ---- calls ---- */

/* Several sums at once, of odd numbers of elements; those of two ranks are added in halves, by tags of their own. */
static bool all_sums(situ_comm *comm) {
  enum { SUMS = 5, MOST = 999 };
  static float in[SUMS][MOST], out[SUMS][MOST];
  const int n = situ_comm_size(comm), rank = situ_comm_rank(comm);
  situ_comm_request *requests[SUMS];
  bool good = true;
  for (int k = 0; k < SUMS; k++) {
    for (int i = 0; i < MOST; i++) in[k][i] = 0.1f * (float)(i + k) + (float)rank;
    const situ_comm_call call = { .op = SITU_COMM_ALL_REDUCE,
                                  .reduction = k == 1 ? SITU_COMM_MAX : SITU_COMM_SUM,
                                  .count = k == 2 ? 1 : MOST - k,
                                  .send = in[k],
                                  .receive = out[k] };
    good = good && situ_comm_begin(comm, &call, &requests[k]) == SITU_OK;
  }
  for (int k = SUMS - 1; good && k >= 0; k--) {
    good = situ_comm_wait(requests[k]) == SITU_OK;
    for (int i = 0; i < (k == 2 ? 1 : MOST - k); i++) {
      const float x = 0.1f * (float)(i + k), sum = n == 1 ? x : x + (x + 1); /* of more ranks MPI chooses the order */
      good = good && (k == 1 ? out[k][i] == x + (float)(n - 1) : n > 2 || out[k][i] == sum);
    }
  }
  return good;
}

static bool all_ops(situ_comm *comm) {
  const int n = situ_comm_size(comm), rank = situ_comm_rank(comm);
  int64_t in[64], out[64];
  bool good = true;
  for (int op = SITU_COMM_ALL_REDUCE; op <= SITU_COMM_BARRIER; op++) {
    situ_comm_call call = { .op = (situ_comm_op)op, .dtype = SITU_I64, .count = 3, .send = in, .receive = out };
    for (int i = 0; i < 64; i++) in[i] = 100 * rank + i;
    if (op == SITU_COMM_SEND || op == SITU_COMM_RECEIVE) {
      if (rank > 1 || n < 2) continue;
      call.peer = 1 - rank;
      call.op = (op == SITU_COMM_SEND) == (rank == 0) ? SITU_COMM_SEND : SITU_COMM_RECEIVE;
    }
    const bool blocks = op == SITU_COMM_REDUCE_SCATTER || op == SITU_COMM_ALL_GATHER || op == SITU_COMM_ALL_TO_ALL;
    if (blocks && call.count > SITU_MPI_MOST) { /* mpi.sh builds it with a limit of 2, too: others go in pieces */
      good = good && situ_comm_run(comm, &call) == SITU_E_LIMIT;
      situ_error_clear();
      continue;
    }
    good = good && situ_comm_run(comm, &call) == SITU_OK;
    const int sum = 100 * n * (n - 1) / 2;
    if (op == SITU_COMM_ALL_REDUCE) good = good && out[2] == sum + 2 * n;
    if (op == SITU_COMM_REDUCE_SCATTER) good = good && out[1] == sum + (3 * rank + 1) * n;
    if (op == SITU_COMM_ALL_GATHER) good = good && out[3 * (n - 1) + 1] == 100 * (n - 1) + 1;
    if (op == SITU_COMM_BROADCAST) good = good && out[2] == 2;
    if (op == SITU_COMM_ALL_TO_ALL) good = good && out[3 * (n - 1)] == 100 * (n - 1) + 3 * rank;
    if (call.op == SITU_COMM_RECEIVE) good = good && out[2] == 100 * (1 - rank) + 2;
  }
  return good;
}

/* ---- drills ---- */

/* What happens to rank 1 in the step `at`. A child ends it later, so that no stopped process is left. */
static void lose_rank(const char *how, double deadline) {
  const pid_t self = getpid();
  if (strcmp(how, "stop") == 0 && fork() == 0) {
    (void)usleep((useconds_t)((deadline + 4) * 1e6));
    (void)kill(self, SIGKILL);
    _Exit(0);
  }
  (void)raise(strcmp(how, "stop") == 0 ? SIGSTOP : SIGKILL);
}

/* Ends the rank: MPI itself cannot be ended in order any more. */
static void report_drill(const training *t, const char *how, int step, double seconds, double deadline) {
  const situ_status status = situ_error();
  const bool named = strstr(situ_error_message(), "step") != NULL;
  const bool in_parts = t->stage == 3;
  const uint64_t want = train_alone(t->kind, step, in_parts ? situ_dist_zero_optim(t->zero) : NULL);
  const bool kept = in_parts ? want != 0 : hash_of(t->model) == want;
  const bool at_once = strcmp(how, "forward") == 0;
  const bool good =
      (status == SITU_E_COMM || (status == SITU_E_TIMEOUT && !at_once)) && named && kept && seconds < deadline + 3;
  fprintf(result, "%s: %s in %.2f s, model %s: %s\n", good ? "ok" : "bad", situ_status_name(status), seconds,
          kept ? "as before the step" : "changed", situ_error_message());
  (void)fclose(result);
  _Exit(0);
}

/* Rank 1's forward fails, and its program ends: the others must not wait for their deadline. */
static void fail_in_forward(training *t, double deadline) {
  if (situ_nn_forward(t->model, situ_zeros(SITU_SHAPE(1, 1), NULL))) exit(1);
  end_training(t);
  (void)usleep((useconds_t)((deadline + 4) * 1e6));
  _Exit(0);
}

static void drill(situ_comm *comm, const char *how, int at, int stage, double deadline) {
  training t;
  if (!begin_training(&t, &dist_kinds[at % DIST_KINDS], comm, stage)) exit(1);
  for (int step = 0; step < at + 3; step++) {
    const bool mine = situ_comm_rank(comm) == 1 && step == at;
    const double begin = now();
    if (mine && strcmp(how, "mismatch") == 0) {
      situ_tensor *x = situ_zeros(SITU_SHAPE(2), NULL);
      if (situ_comm_all_reduce(comm, x, SITU_COMM_SUM, "not this one (step)") != SITU_OK)
        report_drill(&t, how, step, now() - begin, deadline);
    }
    if (mine && strcmp(how, "abort") == 0) situ_comm_abort(comm, "no memory for the batch of this step");
    if (mine && strcmp(how, "forward") == 0) fail_in_forward(&t, deadline);
    if (mine && (strcmp(how, "stop") == 0 || strcmp(how, "kill") == 0)) lose_rank(how, deadline);
    if (train_step(&t) != SITU_OK) report_drill(&t, how, step, now() - begin, deadline);
  }
  fprintf(result, "bad: every step succeeded\n");
  (void)fclose(result);
  _Exit(1);
}

/* usage: train ops | train | save | load | kill STEP STAGE | stop | mismatch | abort | forward ... */
int main(int argc, char **argv) {
  int provided;
  const double deadline = 1;
  if (argc < 2) return 2;
  /* MPICH's launcher signals to the others when a rank has died. */
  const struct sigaction ignore = { .sa_handler = SIG_IGN };
  (void)sigaction(SIGUSR1, &ignore, NULL);
  situ_error_mode(SITU_ERROR_QUIET);
  if (situ_comm_mpi(MPI_COMM_WORLD, NULL)) return 3; /* before MPI_Init it is refused, not started */
  situ_error_clear();
  if (MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided) != MPI_SUCCESS) return 4;
  const char *node_size = getenv("NODE_SIZE");
  situ_comm *comm = situ_comm_mpi(MPI_COMM_WORLD, &(situ_comm_options){ .deadline = argc > 2 ? deadline : 60,
                                                                        .node_size = node_size ? atoi(node_size) : 0 });
  if (!comm) return 5;
  char name[64];
  (void)snprintf(name, sizeof name, "result.%d", situ_comm_rank(comm));
  if (!(result = fopen(name, "w"))) return 6;
  if (argc > 3) drill(comm, argv[1], atoi(argv[2]), atoi(argv[3]), deadline);
  const bool save = strcmp(argv[1], "save") == 0, load = strcmp(argv[1], "load") == 0;
  const bool good = strcmp(argv[1], "ops") == 0 ? all_ops(comm) && all_sums(comm)
                    : save || load              ? train_half(comm, save)
                                                : train_all(comm);
  fprintf(result, "%s\n", good ? "ok" : "bad");
  if (!good) fprintf(result, "%s\n", situ_error_message());
  (void)fclose(result);
  situ_comm_free(comm);
  (void)MPI_Finalize();
  return !good;
}
