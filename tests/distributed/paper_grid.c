/* Trainings of layers in parts in stages of a pipeline, on paper: headers, calls, bytes and time of a step, beside what
   they must be. `test_distributed_paper_grid PARTS STAGES` prints the first step of a model with 6.7e9 parameters.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_paper */
/* test-devices: cpu */
/* test-slow: cpu/sanitized */
#include <math.h>
#include <string.h>

#include "distributed/paper.h"
#include "situ/parallel.h"
#include "situ/sys/shape.h"

static const paper_model small = { 8, 256, 640, 320, 8 }, medium = { 8, 2048, 8192, 4096, 2048 };

/* parts x stages ranks: those of a stage follow each other. */
typedef struct training {
  paper_model m; /* tokens: of a micro-batch */
  int parts, stages, batches;
  int steps;         /* of which the last one is counted */
  paper_count *step; /* of each rank */
} training;

/* ---- the run ---- */

/* Pairs of factors: the first gives a part of its result, of which the second makes a whole one. */
typedef struct plan {
  situ_dist_parallel row[256];
  char path[256][8];
  int count;
} plan;

static void divide(plan *p, bool columns, bool replicate) {
  (void)snprintf(p->path[p->count], sizeof *p->path, "%d", p->count);
  p->row[p->count] =
      (situ_dist_parallel){ p->path[p->count], columns ? SITU_DIST_COLWISE : SITU_DIST_ROWWISE, replicate };
  p->count++;
}

static situ_nn_module *make(const training *t, int stage, plan *p) {
  const paper_model *m = &t->m;
  situ_nn_module *net = situ_nn_sequential_of(0, NULL);
  if (stage == 0) {
    divide(p, false, true);
    net = situ_nn_append(net, paper_linear(m->words, m->width));
  }
  for (int k = 0; k < m->layers / t->stages; k++) {
    for (int i = 0; i < 6; i++) divide(p, i % 2 == 0, false);
    net = paper_layer(net, m);
  }
  if (stage + 1 < t->stages) return net;
  divide(p, true, true);
  return situ_nn_append(net, paper_linear(m->width, m->words));
}

static situ_tensor *mean(situ_tensor *output, situ_tensor *target, void *payload) {
  (void)target, (void)payload;
  return situ_mean(output, NULL);
}

static void train(int rank, void *payload) {
  training *t = payload;
  const int stage = rank / t->parts, part = rank % t->parts;
  plan p = { .count = 0 };
  situ_nn_module *net = NULL;
  situ_dist_tp *tp = NULL;
  situ_dist_pipeline *pipeline = NULL;
  situ_optim *optim = NULL;
  situ_comm *beside = paper_comm(stage, part, t->parts), *behind = paper_comm(t->stages + part, stage, t->stages);
  MUST(beside && behind && (net = make(t, stage, &p)) && (tp = situ_dist_tp_new(net, beside, p.row, p.count)));
  const situ_dist_pipeline_options options = { .micro_batches = t->batches, .loss = mean };
  MUST(pipeline = situ_dist_pipeline_new(net, behind, &options));
  MUST(optim = situ_optim_adamw(situ_nn_parameters(net), 1e-3, NULL));
  for (int step = 0; step < t->steps; step++) {
    double loss;
    situ_scope s;
    situ_scope_begin(&s);
    const paper_count before = paper_now();
    situ_tensor *x = stage == 0 ? paper_zeros(t->batches * t->m.tokens, t->m.words) : NULL;
    MUST(situ_dist_pipeline_step(pipeline, x, NULL, &loss) == SITU_OK && situ_optim_step(optim) == SITU_OK);
    MUST(situ_optim_zero_grad(optim, true) == SITU_OK);
    MUST(situ_synchronize(situ_dev("cuda:0")) == SITU_OK && situ_scope_end(&s) == SITU_OK);
    t->step[rank] = difference(paper_now(), &before);
  }
out:
  situ_optim_free(optim);
  situ_dist_pipeline_free(pipeline);
  situ_dist_tp_free(tp);
  situ_nn_free(net);
  situ_comm_free(behind);
  situ_comm_free(beside);
}

/* ---- what a step must cost a rank ---- */

typedef struct cost {
  int64_t calls, elements; /* of bf16, between the ranks of a stage */
  double network;
  int64_t headers, values, value_bytes;
} cost;

static void add_call(cost *c, int size, int64_t blocks, int64_t part) {
  c->calls++;
  c->elements += blocks * part;
  c->network += (size - 1) * (costs.latency + 2 * (double)part / costs.bandwidth);
}

/* A sum over the ranks of a stage: parts go to all, and their sums come back. */
static void add_sums(cost *c, const training *t, int count) {
  const int64_t part = (t->m.tokens * t->m.width + t->parts - 1) / t->parts;
  for (int k = 0; k < count; k++) {
    add_call(c, t->parts, t->parts, part);
    add_call(c, t->parts, 1, part);
  }
}

/* A pair has a sum forward and one backward. The first factor has none backward; of the last one the result is
   gathered. An activation and its gradient are a header each way, and one before them tells the shape. */
static cost cost_of(const training *t, int stage) {
  const bool first = stage == 0, last = stage + 1 == t->stages;
  const int64_t batches = t->batches, ends = !first + !last;
  cost c = { 0 };
  for (int k = 0; k < t->batches && t->parts > 1; k++) {
    add_sums(&c, t, 2 * 3 * t->m.layers / t->stages + first + last);
    if (last) add_call(&c, t->parts, 1, t->m.tokens * t->m.words / t->parts);
  }
  c.headers = c.calls * rounds_of(t->parts) + rounds_of(t->stages) + ends * (2 * batches + 1);
  c.values = ends * batches + !last;
  c.value_bytes =
      ends * batches * 2 * t->m.tokens * t->m.width + !last * (2 + SITU_MAX_DIMS) * (int64_t)sizeof(int64_t);
  return c;
}

/* What a stage does with one batch, one thing behind the other: it computes, transfers and tells the other ranks, and
   since it waits for each transfer, launches the first kernel behind it; the others it launches while that one runs. */
static double work_of(const training *t, int stage) {
  const paper_count *c = &t->step[stage * t->parts];
  const double host = (double)c->calls * costs.launch + (double)c->headers * (costs.launch + costs.latency);
  return (c->computing + c->transferring + host) / t->batches;
}

/* A batch goes through all stages and back, and the others follow at the pace of the slowest one: what it sends leaves,
   and what it needs has come, while it works. */
static double time_of(const training *t) {
  const double hop = costs.latency + 2 * (double)(t->m.tokens * t->m.width) / costs.bandwidth;
  double sum = 0, most = 0;
  for (int stage = 0; stage < t->stages; stage++) {
    sum += work_of(t, stage);
    most = fmax(most, work_of(t, stage));
  }
  return sum + 2 * (t->stages - 1) * hop + (t->batches - 1) * most;
}

static void expect_costs(const training *t) {
  for (int rank = 0; rank < t->parts * t->stages; rank++) {
    const int stage = rank / t->parts;
    const cost must = cost_of(t, stage);
    const paper_count *c = &t->step[rank];
    const int64_t bytes = 2 * must.elements + (stage + 1 == t->stages ? (int64_t)sizeof(double) : 0);
    if (c->calls != must.calls + 1 || c->headers != must.headers || c->values != must.values || /* 1: the loss */
        c->call_bytes != bytes || c->value_bytes != must.value_bytes ||
        fabs(c->transferring - must.network) > 1e-9 * must.network)
      fail_msg(
          "%d x %d ranks, rank %d: %lld calls, must be %lld; %lld headers, must be %lld; %lld values, must be %lld; "
          "%lld and %lld bytes, must be %lld and %lld; %.9f s, must be %.9f",
          t->parts, t->stages, rank, (long long)c->calls, (long long)must.calls + 1, (long long)c->headers,
          (long long)must.headers, (long long)c->values, (long long)must.values, (long long)c->call_bytes,
          (long long)c->value_bytes, (long long)bytes, (long long)must.value_bytes, c->transferring, must.network);
  }
}

static void run_grid(training *t) {
  t->step = calloc((size_t)(t->parts * t->stages), sizeof *t->step);
  paper_ranks(t->parts * t->stages, train, t);
}

static void a_step_costs_what_it_must(void **state) {
  (void)state;
  for (int side = 2; side <= 8; side *= 2) {
    training t = { .m = small, .parts = side, .stages = side, .batches = 3, .steps = 2 };
    run_grid(&t);
    expect_costs(&t);
    free(t.step);
  }
}

static void a_step_takes_what_it_must(void **state) {
  (void)state;
  static const int grid[][2] = { { 4, 4 }, { 4, 8 }, { 1, 8 } };
  for (unsigned i = 0; i < sizeof grid / sizeof *grid; i++) {
    training t = { .m = medium, .parts = grid[i][0], .stages = grid[i][1], .batches = 2 * grid[i][1], .steps = 2 };
    run_grid(&t);
    expect_costs(&t);
    const double must = time_of(&t), took = t.step[0].time;
    if (fabs(took - must) > 0.1 * must) fail_msg("%d x %d: %g s, must be %g s", t.parts, t.stages, took, must);
    free(t.step);
  }
}

static void show(training *t) {
  run_grid(t);
  for (int stage = 0; stage<t->stages; stage += t->stages> 1 ? t->stages - 1 : 1) {
    const paper_count *c = &t->step[stage * t->parts];
    printf("stage %d of %d, %d parts: %lld headers, %lld calls, %.6f GB; %lld values, %.6f GB; %lld kernels; %.4f s, "
           "computing %.4f, network %.4f\n",
           stage, t->stages, t->parts, (long long)c->headers, (long long)c->calls, (double)c->call_bytes * 1e-9,
           (long long)c->values, (double)c->value_bytes * 1e-9, (long long)c->kernels, c->time, c->computing,
           c->transferring);
  }
  printf("must take %.4f s\n", time_of(t));
  expect_costs(t);
  free(t->step);
}

int main(int count, char **arguments) {
  if (count > 2) {
    training t = { .m = paper_large, .parts = atoi(arguments[1]), .stages = atoi(arguments[2]), .steps = 1 };
    t.batches = 2 * t.stages;
    show(&t);
    return 0;
  }
  const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_costs_what_it_must),
                                      cmocka_unit_test(a_step_takes_what_it_must) };
  return cmocka_run_group_tests_name("distributed/paper_grid", tests, NULL, NULL);
}
