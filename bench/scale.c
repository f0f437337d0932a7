/* Cost of a parameter in a module of 20,000 of them beside 200 modules of 100, which touch as much memory: what grows
   faster than its module shows here. Processor time of one thread, medians of rounds on a quiet core.
   H12.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/sys/sim.h"
#include "support/measure.h"
#include "support/rounds.h"

enum { FEW = 100, MANY = 20000, MODULES = MANY / FEW, WIDTH = 4 };

/* `count` modules of `size` parameters each, with an optimiser and a copy of the state. */
typedef struct sample {
  int count, size;
  situ_nn_module *net[MODULES];
  situ_optim *optim[MODULES];
  situ_tree *state[MODULES];
} sample;

static situ_tensor *copy_tensor(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(t);
}

static situ_nn_module *make(int size) {
  situ_nn_module *net = situ_nn_module_list_of(0, NULL);
  for (int k = 0; k < size; k++)
    situ_nn_append(net, situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .no_bias = true }));
  need(situ_error());
  return net;
}

/* Not timed: a gradient for each parameter. */
static void set_gradients(sample *s) {
  for (int k = 0; k < s->count; k++)
    for (int64_t i = 0; i < situ_optim_count(s->optim[k]); i++)
      need(situ_set_grad(situ_optim_param(s->optim[k], i, NULL), situ_ones(SITU_SHAPE(WIDTH, WIDTH), NULL)));
}

static void make_and_free(sample *s, int k) {
  situ_nn_free(make(s->size));
  (void)k;
}
static void zero_grad(sample *s, int k) { need(situ_optim_zero_grad(s->optim[k], true)); }
static void step(sample *s, int k) { need(situ_optim_step(s->optim[k])); }
static void state_dict(sample *s, int k) { situ_tree_free(situ_nn_state_dict(s->net[k])); }
static void load(sample *s, int k) { need(situ_nn_load_state_dict(s->net[k], s->state[k], NULL)); }
static void move(sample *s, int k) {
  need(situ_nn_to(s->net[k], situ_dev("sim:0")));
  need(situ_nn_to(s->net[k], situ_dev("cpu")));
}
static void cast(sample *s, int k) {
  need(situ_nn_to_dtype(s->net[k], SITU_F64));
  need(situ_nn_to_dtype(s->net[k], SITU_F32));
}

static const struct job {
  const char *name;
  void (*call)(sample *s, int k);
} jobs[] = { { "make and free", make_and_free }, { "step of AdamW", step }, { "zero_grad", zero_grad },
             { "state_dict", state_dict },       { "load", load },          { "move to sim:0 and back", move },
             { "cast to f64 and back", cast } };

/* Seconds of a parameter. */
static double time_of(const struct job *job, sample *s) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  if (job->call == zero_grad || job->call == step) set_gradients(s);
  const double begin = processor_seconds();
  for (int k = 0; k < s->count; k++) job->call(s, k);
  const double taken = processor_seconds() - begin;
  need(situ_scope_end(&scope));
  return taken / (s->count * s->size);
}

static void fill(sample *s) {
  for (int k = 0; k < s->count; k++) {
    s->net[k] = make(s->size);
    s->optim[k] = situ_optim_adamw(situ_nn_parameters(s->net[k]), 1e-3, NULL);
    situ_tree *own = situ_nn_state_dict(s->net[k]);
    s->state[k] = situ_tree_map(own, copy_tensor, NULL);
    situ_tree_free(own);
    need(situ_error());
  }
}

int main(void) {
  static sample few = { .count = MODULES, .size = FEW }, many = { .count = 1, .size = MANY };
  situ_scope s;
  need(situ_set_num_threads(1));
  need(situ_sim_create(1));
  situ_scope_begin(&s);
  fill(&few);
  fill(&many);
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
    double ratio[ROUNDS_MAX], of_few[ROUNDS_MAX], of_many[ROUNDS_MAX];
    char ours[32], theirs[32];
    (void)time_of(&jobs[j], &few);
    (void)time_of(&jobs[j], &many);
    rounds r = { .wanted = 15, .threads = 1 };
    while (next_round(&r)) {
      of_few[r.now] = time_of(&jobs[j], &few);
      of_many[r.now] = time_of(&jobs[j], &many);
      ratio[r.now] = of_many[r.now] / of_few[r.now];
    }
    (void)snprintf(ours, sizeof ours, "%.1f ns", 1e9 * median(of_many, keep_quiet(&r, of_many)));
    (void)snprintf(theirs, sizeof theirs, "%.1f ns", 1e9 * median(of_few, keep_quiet(&r, of_few)));
    tell_rounds("H12", jobs[j].name, ours, theirs, ratio, keep_quiet(&r, ratio), was_disturbed(&r), 1.5, true);
  }
  return situ_scope_end(&s) != SITU_OK;
}
