/* Trainings of many ranks on paper: headers, calls, bytes, kernels and time of a step, beside what they must be.
   `test_distributed_paper RANKS [STAGE [NODE [NODE_SIZE]]]` prints the first step of a model with 6.7e9 parameters on as
   many, in nodes of so many (0: none), of which the library knows by .node_size.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_paper */
/* test-devices: cpu */
/* test-slow: cpu/sanitized */
#include <math.h>
#include <string.h>

#include "distributed/paper.h"
#include "situ/dist.h"

static const paper_model small = { 2, 250, 601, 300, 8 }, medium = { 3, 2048, 8192, 4000, 4096 };

typedef struct training {
  paper_model m;
  int size, stage;  /* of ZeRO; 0: ddp alone */
  int steps;        /* of which the last one is counted */
  int node;         /* ranks of a node; 0: all links are alike */
  int node_size;    /* what the library is told of it */
  paper_count step; /* of rank 0 */
} training;

static situ_nn_module *make(const paper_model *m) {
  situ_nn_module *net = situ_nn_sequential(paper_linear(m->words, m->width));
  for (int k = 0; k < m->layers; k++) net = paper_layer(net, m);
  return situ_nn_append(net, paper_linear(m->width, m->words));
}

static void train(int rank, void *payload) {
  training *t = payload;
  situ_dist_ddp *ddp = NULL;
  situ_dist_zero *zero = NULL;
  situ_optim *optim = NULL;
  situ_nn_module *net = NULL;
  situ_comm *comm = paper_comm_of(0, rank, t->size, t->node_size);
  MUST(comm);
  net = make(&t->m);
  MUST(net);
  ddp = situ_dist_ddp_new(net, comm, &(situ_dist_ddp_options){ .bucket_bytes = 1 });
  MUST(ddp);
  situ_tree *all = situ_nn_parameters(net);
  if (t->stage == 0) optim = situ_optim_adamw(all, 1e-3, NULL);
  if (t->stage == 1) zero = situ_dist_zero_new(all, comm, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 2) zero = situ_dist_zero2_new(all, ddp, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 3) zero = situ_dist_zero3_new(all, ddp, NULL, situ_optim_adamw, 1e-3, NULL);
  MUST(optim || zero);
  for (int step = 0; step < t->steps; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    const paper_count before = paper_now();
    situ_tensor *x = paper_zeros(t->m.tokens, t->m.words);
    MUST(situ_backward(situ_mean(situ_nn_forward(net, x), NULL), NULL) == SITU_OK);
    MUST((zero ? situ_dist_zero_step(zero) : situ_optim_step(optim)) == SITU_OK);
    MUST((zero ? situ_dist_zero_zero_grad(zero) : situ_optim_zero_grad(optim, true)) == SITU_OK);
    MUST(situ_synchronize(situ_dev("cuda:0")) == SITU_OK && situ_scope_end(&s) == SITU_OK);
    if (rank == 0) t->step = difference(paper_now(), &before);
  }
out:
  situ_dist_zero_free(zero);
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
  situ_nn_free(net);
  situ_comm_free(comm);
}

/* ---- what a step must cost ---- */

typedef struct cost {
  int64_t calls, elements; /* of bf16, that a rank gives to calls */
  int64_t barriers;        /* headers alone */
  int64_t own;             /* elements of a rank's shares, as long as the longest */
  double network, edge;    /* of device memory; by rings and by pairs, as in paper.h; edge: bytes to other nodes */
} cost;

/* Each rank has links to its node that are eight times as fast. */
static paper_costs costs_of(const training *t) {
  paper_costs with = costs;
  if ((with.node = t->node)) with.near_latency = costs.latency / 2, with.near_bandwidth = 8 * costs.bandwidth;
  return with;
}

static void add_call(cost *c, int64_t elements, double edge, double network) {
  c->calls++;
  c->elements += elements;
  c->edge += edge;
  c->network += network;
}

/* Rings, which share the links that leave a node. */
static void add_gather(cost *c, const training *t, double part) {
  const paper_costs with = costs_of(t);
  const double bytes = (t->size - 1) * 2 * part, edge = t->node ? bytes / t->node : bytes;
  const double inside = t->node ? bytes / with.near_bandwidth : 0;
  add_call(c, (int64_t)part, edge, (t->size - 1) * with.latency + fmax(inside, edge / with.bandwidth));
}

/* Each of so many others in the node, and beyond it, gets a part. */
static void add_pairs(cost *c, const training *t, int near, int far, double part) {
  const paper_costs with = costs_of(t);
  const double inside = near ? near * (with.near_latency + 2 * part / with.near_bandwidth) : 0;
  add_call(c, (near + far + 1) * (int64_t)part, far * 2 * part,
           fmax(inside, far * (with.latency + 2 * part / with.bandwidth)));
}

/* A bucket's parts go to all ranks and its sums come back, but in stages 2 and 3, where a rank keeps its own. In nodes
   they go to the node's ranks, and its sums to those at the same place of the others. Stage 3 gathers each unit before
   forward and backward; 1 and 2 exchange what each rank has stepped, 25 MiB at a time. Here each factor is a bucket, and
   a unit; where factors are small, stage 1 deals out several together. */
static void add_factor(cost *c, const training *t, int64_t in, int64_t out) {
  const double part = (double)((in * out + t->size - 1) / t->size);
  c->own += (int64_t)part;
  const int near = t->node ? t->node - 1 : 0, nodes = t->node_size ? t->size / t->node_size : 1;
  if (nodes == 1) add_pairs(c, t, near, t->size - 1 - near, part);
  else {
    add_pairs(c, t, near, 0, nodes * part);
    add_pairs(c, t, 0, nodes - 1, part);
  }
  for (int k = t->stage == 3 ? 2 : t->stage == 2 ? 0 : 1; k > 0; k--) add_gather(c, t, part);
}

static int64_t elements_of(const paper_model *m) {
  return 2 * m->words * m->width + m->layers * (4 * m->width * m->width + 2 * m->width * m->inner);
}
static int64_t factors_of(const paper_model *m) { return 2 + 6 * (int64_t)m->layers; }

static cost cost_of(const training *t) {
  const paper_model *m = &t->m;
  cost c = { 0 };
  for (int k = 0; k < 2; k++) add_factor(&c, t, m->words, m->width);
  for (int k = 0; k < 4 * m->layers; k++) add_factor(&c, t, m->width, m->width);
  for (int k = 0; k < 2 * m->layers; k++) add_factor(&c, t, m->inner, m->width);
  const int64_t most = (25 << 20) / (2 * t->size), all = elements_of(m);
  const int64_t own = t->stage == 1 && 2 * all <= 25 << 20 ? (all + t->size - 1) / t->size : c.own;
  for (int64_t at = 0; (t->stage == 1 || t->stage == 2) && at < own; at += most)
    add_gather(&c, t, (double)(own - at < most ? own - at : most));
  c.calls++;                                   /* which gradients there are */
  c.barriers = t->stage == 1 || t->stage == 2; /* the end of the exchange */
  return c;
}

static void expect_cost(const training *t) {
  const cost must = cost_of(t);
  const paper_count *c = &t->step;
  const int64_t bytes = 2 * must.elements + factors_of(&t->m),
                headers = (must.calls + must.barriers) * rounds_of(t->size);
  if (c->calls != must.calls || c->headers != headers || c->call_bytes != bytes || c->edge_bytes != must.edge ||
      fabs(c->transferring - must.network) > 1e-9 * must.network)
    fail_msg(
        "stage %d, %d ranks in nodes of %d: %lld calls, must be %lld; %lld headers, must be %lld; %lld bytes, must be "
        "%lld; %.3f to other nodes, must be %.3f; %.9f s, must be %.9f",
        t->stage, t->size, t->node, (long long)c->calls, (long long)must.calls, (long long)c->headers,
        (long long)headers, (long long)c->call_bytes, (long long)bytes, c->edge_bytes, must.edge, c->transferring,
        must.network);
}

static void run(training *t) {
  const paper_costs with = costs_of(t);
  paper_ranks_at(&with, t->size, train, t);
}

static void a_step_costs_what_it_must(void **state) {
  (void)state;
  for (int stage = 0; stage <= 3; stage++)
    for (int size = 4; size <= 64; size *= 4) {
      training t = { .m = small, .size = size, .stage = stage, .steps = 2 };
      run(&t);
      expect_cost(&t);
    }
}

/* Gradients leave a node once for all of its ranks, if the library knows of it; what is gathered does in any case. */
static void a_node_sends_its_sum_alone(void **state) {
  (void)state;
  for (int stage = 0; stage <= 3; stage++) {
    double edge[2];
    for (int k = 0; k < 2; k++) {
      training t = { .m = small, .size = 64, .stage = stage, .steps = 2, .node = 8, .node_size = k ? 8 : 0 };
      run(&t);
      expect_cost(&t);
      edge[k] = t.step.edge_bytes;
    }
    print_message("stage %d, 64 ranks in nodes of 8: %.0f bytes a rank leave the node, %.0f without .node_size\n",
                  stage, edge[1], edge[0]);
  }
}

/* Gradients are exchanged while the backward of other factors runs, which has two products for each. Nothing else of a
   step of stages 0 to 2 overlaps. In stage 3 a unit is gathered while the one before computes, too: nothing of the shorter
   one of both is seen. */
static double time_of(const training *t) {
  const double backward = 4 * (double)t->m.tokens * (double)elements_of(&t->m) / costs.flops;
  const double beside = t->stage < 3 ? backward : t->step.computing;
  return t->step.computing + t->step.transferring - fmin(beside, t->step.transferring);
}

static void a_step_takes_what_it_must(void **state) {
  (void)state;
  for (int stage = 0; stage <= 3; stage++) {
    training t = { .m = medium, .size = 8, .stage = stage, .steps = 2 };
    run(&t);
    expect_cost(&t);
    const double must = time_of(&t);
    if (fabs(t.step.time - must) > 0.1 * must) fail_msg("stage %d: %g s, must be %g s", stage, t.step.time, must);
  }
}

/* Of kernels, the tree in which a bucket's parts are added has one more for each level; all others are as many at any
   number of ranks. */
static void kernels_are_those_of_few_ranks(void **state) {
  (void)state;
  for (int stage = 0; stage <= 3; stage++) {
    training few = { .m = medium, .size = 8, .stage = stage, .steps = 2 }, many = few;
    many.size = 32;
    paper_ranks(few.size, train, &few);
    paper_ranks(many.size, train, &many);
    const int64_t levels = rounds_of(many.size) - rounds_of(few.size),
                  must = few.step.kernels + levels * factors_of(&few.m);
    if (many.step.kernels != must)
      fail_msg("stage %d: %lld kernels on %d ranks, must be %lld", stage, (long long)many.step.kernels, many.size,
               (long long)must);
  }
}

static void show(const training *t) {
  const paper_count *c = &t->step;
  const cost must = cost_of(t);
  printf(
      "stage %d, %d ranks: %lld headers, %lld calls (%lld), %.6f GB (%.6f), %.6f to other nodes (%.6f), %lld kernels; "
      "%.4f s (%.4f), computing %.4f, network %.4f (%.4f)\n",
      t->stage, t->size, (long long)c->headers, (long long)c->calls, (long long)must.calls,
      (double)c->call_bytes * 1e-9, (double)(2 * must.elements + factors_of(&t->m)) * 1e-9, c->edge_bytes * 1e-9,
      must.edge * 1e-9, (long long)c->kernels, c->time, time_of(t), c->computing, c->transferring, must.network);
  expect_cost(t);
}

int main(int count, char **arguments) {
  for (int stage = 0; count > 1 && stage <= 3; stage++) {
    /* The first step of stage 3 learns in which order units come. */
    training t = { .m = paper_large, .size = atoi(arguments[1]), .stage = stage, .steps = stage < 3 ? 1 : 2 };
    if (count > 2 && atoi(arguments[2]) != stage) continue;
    if (count > 3) t.node = atoi(arguments[3]);
    if (count > 4) t.node_size = atoi(arguments[4]);
    run(&t);
    show(&t);
  }
  if (count > 1) return 0;
  const struct CMUnitTest tests[] = { cmocka_unit_test(a_step_costs_what_it_must),
                                      cmocka_unit_test(a_node_sends_its_sum_alone),
                                      cmocka_unit_test(a_step_takes_what_it_must),
                                      cmocka_unit_test(kernels_are_those_of_few_ranks) };
  return cmocka_run_group_tests_name("distributed/paper", tests, NULL, NULL);
}
