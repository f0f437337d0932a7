/* What a preflight says of a rank is what its step needs, and what it sends and receives: models under ddp and the stages of ZeRO,
   on a simulated device for each rank, of which some are in nodes. SITU_TABLE=1 prints the table. */
/* test-devices: sim:0 */
#include <stdlib.h>

#include "device/block_cache.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/situ.h"
#include "situ/sys/sim.h"

enum { STEPS = 3, RANKS = 4 };

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(96, 200, NULL), situ_nn_relu(), situ_nn_linear(200, 120, NULL),
                            situ_nn_tanh(), situ_nn_linear(120, 10, NULL));
}
static situ_nn_module *cnn(void) {
  return situ_nn_sequential(situ_nn_conv2d(1, 8, SITU_DIMS(3), NULL), situ_nn_batch_norm2d(8, NULL), situ_nn_relu(),
                            situ_nn_flatten(1, -1), situ_nn_linear(8 * 14 * 14, 30, NULL), situ_nn_relu(),
                            situ_nn_linear(30, 3, NULL));
}
static situ_nn_module *encoder(void) {
  situ_nn_transformer_options o = situ_nn_transformer_defaults();
  o.dim_feedforward = 96;
  o.batch_first = true;
  return situ_nn_sequential(situ_nn_transformer_encoder_layer(48, 4, &o), situ_nn_transformer_encoder_layer(48, 4, &o),
                            situ_nn_linear(48, 7, NULL));
}

static const struct subject {
  const char *name;
  situ_nn_module *(*make)(void);
  situ_shape in;
} subjects[] = { { "MLP", mlp, { 2, { 32, 96 } } },
                 { "CNN", cnn, { 4, { 6, 1, 16, 16 } } },
                 { "encoder", encoder, { 3, { 3, 20, 48 } } } };
enum { SUBJECTS = sizeof subjects / sizeof *subjects };

static const struct rule {
  const char *name;
  situ_dist_make_optim make;
} rules[] = { { "SGD", situ_optim_sgd }, { "Adam", situ_optim_adam }, { "RMSprop", situ_optim_rmsprop } };
enum { RULES = sizeof rules / sizeof *rules };

typedef enum wrapper { DDP, ZERO1, ZERO2, ZERO3, TENSOR_PARALLEL, PIPELINE, SYNC_BN, WRAPPERS } wrapper;
static const char *const names[] = { "ddp",      "ZeRO-1",         "ZeRO-2", "ZeRO-3", "tensor parallel",
                                     "pipeline", "sync batch norm" };

typedef struct run {
  const struct subject *subject;
  const struct rule *rule;
  wrapper kind;
  int64_t micro_batches, bucket_bytes;
  _Atomic int64_t findings;
  situ_comm_sim *layers; /* over which layers talk meanwhile */
  uint64_t said[RANKS], most[RANKS];
  uint64_t sent[RANKS][2], received[RANKS][2]; /* in a step: as said, as counted */
} run;

/* ---- a rank ---- */

typedef struct trained {
  situ_nn_module *model;
  situ_tree *in;
  situ_tensor *batch; /* of a step of a pipeline; NULL: another rank's, or there is no pipeline */
  situ_comm *layers;
  situ_dist_ddp *ddp;
  situ_dist_zero *zero;
  situ_dist_tp *tp;
  situ_dist_pipeline *pipeline;
  situ_optim *optim;
} trained;

static situ_device sim(int index) { return (situ_device){ SITU_SIM, (uint16_t)index }; }
static situ_tree *parameters(const trained *t) { return situ_nn_parameters(t->model); }

static situ_tensor *sum_of(situ_tensor *output, situ_tensor *target, void *payload) {
  (void)target, (void)payload;
  return situ_sum(output, NULL);
}

/* The part of a rank: a stage of a pipeline, else the whole model. */
static situ_nn_module *make_part(const run *w, int rank, int size) {
  if (w->kind != PIPELINE) return w->subject->make();
  if (!rank) return situ_nn_sequential(situ_nn_linear(96, 200, NULL), situ_nn_relu());
  return situ_nn_sequential(situ_nn_linear(200, rank == size - 1 ? 10 : 200, NULL), situ_nn_tanh());
}

/* Of a micro-batch: a step of a pipeline gets others, and none but on the first rank. */
static situ_tensor *make_input(const run *w, int rank) {
  const situ_shape shape = w->kind == PIPELINE && rank ? SITU_SHAPE(32, 200) : w->subject->in;
  return situ_ones(shape, &(situ_options){ .device = w->kind == PIPELINE ? situ_dev("meta") : sim(rank) });
}

static bool wrap(trained *t, const run *w, situ_comm *comm) {
  static const situ_dist_parallel layers[] = { { "0", SITU_DIST_COLWISE, true }, { "2", SITU_DIST_ROWWISE, true } };
  const situ_dist_ddp_options o = { .micro_batches = w->micro_batches, .bucket_bytes = w->bucket_bytes };
  const situ_dist_pipeline_options p = { .micro_batches = w->micro_batches, .loss = sum_of };
  if (w->kind == SYNC_BN && !situ_nn_convert_sync_batchnorm(t->model, t->layers)) return false;
  if (w->kind == TENSOR_PARALLEL) t->tp = situ_dist_tp_new(t->model, comm, layers, 2);
  else if (w->kind == PIPELINE) t->pipeline = situ_dist_pipeline_new(t->model, comm, &p);
  else t->ddp = situ_dist_ddp_new(t->model, comm, &o);
  if (!t->tp && !t->pipeline && !t->ddp) return false;
  if (w->kind == ZERO1) t->zero = situ_dist_zero_new(parameters(t), comm, w->rule->make, .01, NULL);
  if (w->kind == ZERO2) t->zero = situ_dist_zero2_new(parameters(t), t->ddp, w->rule->make, .01, NULL);
  if (w->kind == ZERO3) t->zero = situ_dist_zero3_new(parameters(t), t->ddp, NULL, w->rule->make, .01, NULL);
  t->optim = t->zero ? situ_dist_zero_optim(t->zero) : w->rule->make(parameters(t), .01, NULL);
  return t->optim;
}

static void unwrap(trained *t) {
  if (t->zero) situ_dist_zero_free(t->zero);
  else situ_optim_free(t->optim);
  situ_dist_ddp_free(t->ddp);
  situ_dist_tp_free(t->tp);
  situ_dist_pipeline_free(t->pipeline);
  situ_tree_free(t->in);
  situ_nn_free(t->model);
  situ_comm_free(t->layers);
}

/* Bytes that a rank has sent and received so far. */
static situ_status count_traffic(const trained *t, const situ_comm *comm, uint64_t out[2]) {
  uint64_t layers[2];
  SITU_TRY(situ_comm_traffic(comm, &out[0], &out[1]));
  SITU_TRY(situ_comm_traffic(t->layers, &layers[0], &layers[1]));
  for (int i = 0; i < 2; i++) out[i] += layers[i];
  return SITU_OK;
}

static situ_status run_batch(const trained *t) {
  situ_scope s;
  situ_scope_begin(&s);
  const situ_status status =
      situ_backward(situ_sum(situ_nn_forward(t->model, situ_tree_tensor_at(t->in, 0)), NULL), NULL);
  return situ_scope_end(&s) == SITU_OK ? status : situ_error();
}

static situ_status step(const trained *t) {
  if (t->pipeline) SITU_TRY(situ_dist_pipeline_step(t->pipeline, t->batch, NULL, NULL));
  for (int64_t k = t->ddp ? situ_dist_ddp_micro_batches(t->ddp) : t->tp ? 1 : 0; k > 0; k--) SITU_TRY(run_batch(t));
  SITU_TRY(t->zero ? situ_dist_zero_step(t->zero) : situ_optim_step(t->optim));
  SITU_TRY(t->zero ? situ_dist_zero_zero_grad(t->zero) : situ_optim_zero_grad(t->optim, true));
  return situ_synchronize(situ_nn_home(t->model));
}

static situ_status look(const trained *t, run *w, int r) {
  situ_place_report report;
  const situ_place_check_options o = { .optims = &t->optim, .optim_count = 1 };
  SITU_TRY(situ_place_check(t->model, t->in, &o, &report));
  w->findings += report.finding_count;
  for (int64_t i = 0; i < report.load_count; i++)
    if (situ_device_equal(report.loads[i].device, sim(r))) w->said[r] = report.loads[i].peak;
  w->sent[r][0] = w->received[r][0] = 0;
  for (int64_t i = 0; i < report.exchange_count; i++) {
    w->sent[r][0] += report.exchanges[i].sent;
    w->received[r][0] += report.exchanges[i].received;
  }
  situ_place_report_free(&report);
  return SITU_OK;
}

static void train(world_rank *self) {
  run *w = self->payload;
  const int r = self->rank;
  const situ_device own = sim(r);
  const situ__block_cache *cache = situ__block_cache_of(own);
  uint64_t before[2], after[2], first;
  situ_manual_seed(7);
  trained t = { .model = make_part(w, r, self->size), .in = SITU_TREE(make_input(w, r)) };
  if (w->kind == PIPELINE && !r)
    t.batch = situ_ones(SITU_SHAPE(w->micro_batches * 32, 96), &(situ_options){ .device = own });
  t.layers = situ_comm_sim_rank(w->layers, r, NULL);
  MUST(t.model && t.in && t.layers && situ_nn_to(t.model, own) == SITU_OK && wrap(&t, w, self->comm));
  MUST(look(&t, w, r) == SITU_OK && situ_empty_cache(own) == SITU_OK);
  first = w->said[r];
  for (int k = 0; k < STEPS; k++) {
    MUST(count_traffic(&t, self->comm, before) == SITU_OK && step(&t) == SITU_OK);
    MUST(count_traffic(&t, self->comm, after) == SITU_OK);
  }
  w->sent[r][1] = after[0] - before[0];
  w->received[r][1] = after[1] - before[1];
  w->most[r] = cache->highest > cache->before ? cache->highest : cache->before;
  MUST(look(&t, w, r) == SITU_OK && situ_empty_cache(own) == SITU_OK);
  MUST(w->said[r] == first && situ_sim_budget(r, first) == SITU_OK);
  for (int k = 0; k < STEPS; k++) MUST(step(&t) == SITU_OK);
out:
  unwrap(&t);
  SITU_IGNORE(situ_sim_reset(r));
}

/* ---- all ranks ---- */

/* Runs all ranks, with messages that are late by up to so many seconds. Returns whether the most that a rank has needed is near
   what was said: where others are fast, it is less. */
static bool run_ranks(run *w, int size, double late) {
  world_rank ranks[WORLD_MOST];
  bool near = true;
  const bool table = getenv("SITU_TABLE");
  w->layers = situ_comm_sim_new(size, NULL);
  const situ_comm_options options = { .deadline = 30, .node_size = w->micro_batches == RANKS ? 2 : 0 };
  world_run_with(situ_comm_sim_new(size, &(situ_comm_sim_options){ .max_delay = late }), ranks, size, train, w,
                 &options);
  situ_comm_sim_free(w->layers);
  for (int r = 0; r < size; r++) {
    char what[200];
    const double ratio = (double)w->said[r] / (double)w->most[r];
    (void)snprintf(what, sizeof what, "%-8s %-15s %-7s %2d batches, rank %d of %d: %8llu B, %8llu B needed, %.4f",
                   w->subject->name, names[w->kind], w->rule->name, (int)w->micro_batches, r, size,
                   (unsigned long long)w->said[r], (unsigned long long)w->most[r], ratio);
    if (table) print_message("%s, sends %llu B\n", what, (unsigned long long)w->sent[r][1]);
    if (ranks[r].status != SITU_OK || ratio < 1) fail_msg("%s: %s", what, ranks[r].message);
    assert_int_equal(w->sent[r][0], w->sent[r][1]);
    assert_int_equal(w->received[r][0], w->received[r][1]);
    near = near && ratio <= 1.05;
  }
  assert_int_equal(w->findings, 0);
  return near;
}

static void expect_account(run *w, int size) {
  if (!run_ranks(w, size, 0) && !run_ranks(w, size, .002) && !run_ranks(w, size, .05))
    fail_msg("%s, %s: less was needed than was said", w->subject->name, names[w->kind]);
}

static void expect_accounts(int size) {
  int turn = size;
  for (wrapper kind = 0; kind < WRAPPERS; kind++)
    for (const struct subject *s = subjects; s < subjects + SUBJECTS; s++, turn++) {
      run w = { .subject = s, .rule = &rules[turn % RULES], .kind = kind };
      w.micro_batches = turn % 2 ? size : 3 * size;
      w.bucket_bytes = (turn + kind) % 3 ? 0 : 20000;
      const bool fits = kind < TENSOR_PARALLEL || (kind == SYNC_BN ? s->make == cnn : s->make == mlp);
      if (fits) expect_account(&w, size);
    }
}

/* placement: I3 */
static void two_ranks_need_and_send_what_was_said(void **state) {
  (void)state;
  expect_accounts(2);
}

/* placement: I3 */
static void four_ranks_need_and_send_what_was_said(void **state) {
  (void)state;
  expect_accounts(4);
}

static int begin(void **state) {
  const int failed = test_begin(state);
  return failed | (situ_sim_create(RANKS) != SITU_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(two_ranks_need_and_send_what_was_said, begin, test_end),
    cmocka_unit_test_setup_teardown(four_ranks_need_and_send_what_was_said, begin, test_end)
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
