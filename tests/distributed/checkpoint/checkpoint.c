/* Checkpoints of which each rank writes a part: another number of ranks trains on with the bits of training that was not
   interrupted, for divided and undivided optimisers. */
/* test-devices: cpu sim:0 */
#include <unistd.h>

#include "distributed/models.h"
#include "distributed/world.h"
#include "situ/dist.h"
#include "support/optim.h"

enum { MICRO_BATCHES = 4, HALF = 4, FULL = 8, RANKS = 4 };

typedef struct rule {
  const char *name;
  situ_dist_make_optim make;
  double lr;
  optim_change change[OPTIM_CHANGES];
  bool saver_divides, loader_divides;
  bool groups; /* vectors are a group of their own */
  bool shards; /* with 1, 2 and 4 ranks, dividing ones divide the parameters, too */
} rule;
static const rule rules[] = {
  { "SGD", situ_optim_sgd, 0.1, { { SITU_OPTIM_MOMENTUM, 0.9 } }, false, false, false, false },
  { "Adam", situ_optim_adam, 0.01, { { SITU_OPTIM_AMSGRAD, 1 } }, false, false, false, false },
  { "AdamW", situ_optim_adamw, 0.01, { { 0 } }, false, false, false, false },
  { "divided AdamW", situ_optim_adamw, 0.01, { { 0 } }, true, true, false, false },
  { "divided SGD", situ_optim_sgd, 0.1, { { SITU_OPTIM_MOMENTUM, 0.9 } }, true, true, false, false },
  { "divided NAdam", situ_optim_nadam, 0.01, { { 0 } }, true, true, false, false },
  { "Adam, divided before", situ_optim_adam, 0.01, { { 0 } }, true, false, false, false },
  { "Adam, divided after", situ_optim_adam, 0.01, { { 0 } }, false, true, false, false },
  { "divided AdamW of two groups", situ_optim_adamw, 0.01, { { 0 } }, true, true, true, false },
  { "AdamW of two groups, parameters divided", situ_optim_adamw, 0.01, { { 0 } }, true, true, true, true },
  { "AdamW, parameters divided before", situ_optim_adamw, 0.01, { { 0 } }, true, false, false, true },
  { "AdamW of two groups, divided before", situ_optim_adamw, 0.01, { { 0 } }, true, false, true, false },
};
enum { RULES = sizeof rules / sizeof *rules };

typedef struct run {
  const dist_kind *kind;
  const rule *rule;
  bool divided;
  const char *load, *save; /* directories; NULL: neither */
  int steps;
  situ_nn_module *model[RANKS];
  int64_t progress[RANKS][3]; /* epoch, step, and steps of ddp, as loaded */
  uint64_t drawn[RANKS];      /* offset of the program's generator at the end */
  double lr[RANKS];
} run;

static situ_nn_module *model_of(const dist_kind *kind, uint64_t seed) {
  situ_manual_seed(seed);
  situ_nn_module *m = kind->make();
  assert_int_equal(situ_nn_to(m, test_device()), SITU_OK);
  return m;
}

/* A number that the program's generator draws tells which data a step has. */
static situ_status train_step(const run *t, const situ_dist_checkpoint *c) {
  situ_scope s;
  int64_t draw = 0;
  situ_scope_begin(&s);
  situ_tensor *number = situ_randint(0, 1000, SITU_SHAPE(1), &(situ_options){ .generator = c->generator });
  situ_status status = situ_copy_to_host(number, &draw, sizeof draw);
  for (int64_t k = 0; k < situ_dist_ddp_micro_batches(c->ddp) && status == SITU_OK; k++)
    status =
        dist_micro_batch(t->kind, c->model, test_device(), draw * MICRO_BATCHES + situ_dist_ddp_micro_batch(c->ddp));
  if (status == SITU_OK) status = c->zero ? situ_dist_zero_step(c->zero) : situ_optim_step(c->optimizer);
  if (status == SITU_OK)
    status = c->zero ? situ_dist_zero_zero_grad(c->zero) : situ_optim_zero_grad(c->optimizer, true);
  if (status == SITU_OK) status = situ_lr_scheduler_step(c->scheduler);
  const situ_status ended = situ_scope_end(&s);
  return status == SITU_OK ? ended : status;
}

static situ_status train(run *t, situ_comm *comm, int rank, situ_dist_checkpoint *c) {
  if (t->load) SITU_TRY(situ_dist_checkpoint_load(t->load, comm, c, NULL));
  const int64_t progress[] = { c->epoch, c->step, situ_dist_ddp_step(c->ddp) };
  memcpy(t->progress[rank], progress, sizeof progress);
  for (int i = 0; i < t->steps; i++) SITU_TRY(train_step(t, c));
  c->epoch = 3;
  c->step += t->steps;
  t->drawn[rank] = c->generator->offset;
  t->lr[rank] = situ_optim_get(c->zero ? situ_dist_zero_optim(c->zero) : c->optimizer, 0, SITU_OPTIM_LR);
  return t->save ? situ_dist_checkpoint_save(t->save, comm, c, NULL) : SITU_OK;
}

static void run_rank(world_rank *self) {
  run *t = self->payload;
  situ_generator generator = situ_generator_seeded(t->load ? 99 : 5);
  situ_dist_checkpoint c = { .model = t->model[self->rank], .generator = &generator };
  c.ddp = situ_dist_ddp_new(c.model, self->comm, &(situ_dist_ddp_options){ .micro_batches = MICRO_BATCHES });
  const situ_optim_options options = optim_options(t->rule->make, t->rule->change);
  const bool groups = t->rule->groups;
  situ_tree *parameters = groups ? dist_group(c.model, false) : situ_nn_parameters(c.model);
  const bool shards = t->rule->shards && MICRO_BATCHES % self->size == 0;
  if (t->divided && shards) c.zero = situ_dist_zero3_new(parameters, c.ddp, NULL, t->rule->make, t->rule->lr, &options);
  else if (t->divided) c.zero = situ_dist_zero_new(parameters, self->comm, t->rule->make, t->rule->lr, &options);
  else c.optimizer = t->rule->make(parameters, t->rule->lr, &options);
  if (groups) {
    const situ_optim_options vectors = dist_vectors(c.zero ? situ_dist_zero_optim(c.zero) : c.optimizer);
    SITU_IGNORE(c.zero ? situ_dist_zero_add_param_group(c.zero, dist_group(c.model, true), &vectors)
                       : situ_optim_add_param_group(c.optimizer, dist_group(c.model, true), &vectors));
  }
  c.scheduler = situ_lr_scheduler_step_lr(c.zero ? situ_dist_zero_optim(c.zero) : c.optimizer, 3, 0.5);
  if (c.scheduler) SITU_IGNORE(train(t, self->comm, self->rank, &c));
  if (c.zero) SITU_IGNORE(situ_dist_zero_unshard(c.zero));
  situ_lr_scheduler_free(c.scheduler);
  situ_dist_zero_free(c.zero);
  situ_optim_free(c.optimizer);
  situ_dist_ddp_free(c.ddp);
}

/* Every rank begins with other values: all that it has later is rank 0's, or the checkpoint's. */
static void run_world(run *t, int size) {
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < size; r++) t->model[r] = model_of(t->kind, (t->load ? 500 : 77) + (uint64_t)r);
  world_run(situ_comm_sim_new(size, NULL), ranks, size, run_rank, t, 60);
  for (int r = 0; r < size; r++) expect_rank_ok(&ranks[r]);
}

static void free_models(run *t, int size) {
  for (int r = 0; r < size; r++) situ_nn_free(t->model[r]);
}

static void expect_same_run(const run *got, const run *want, int saved, int loaded) {
  for (int r = 0; r < loaded; r++) {
    char what[96];
    (void)snprintf(what, sizeof what, "%s, saved by %d ranks, rank %d", got->rule->name, saved, r);
    expect_equal_models(got->model[r], want->model[0], what, loaded);
    const int64_t progress[] = { 3, HALF, HALF };
    assert_memory_equal(got->progress[r], progress, sizeof progress);
    assert_true(got->drawn[r] == want->drawn[0] && got->lr[r] == want->lr[0]);
  }
}

/* For each number of ranks that saves, and each that loads. */
static void any_number_of_ranks_goes_on(void **state) {
  (void)state;
  for (size_t k = 0; k < RULES; k++) {
    const rule *rule = &rules[k];
    run whole = { .kind = &dist_kinds[k % DIST_KINDS], .rule = rule, .steps = FULL };
    run_world(&whole, 1);
    for (int saved = 1; saved <= RANKS; saved++) {
      char directory[32];
      (void)snprintf(directory, sizeof directory, "set-%d-%d", (int)k, saved);
      run first = {
        .kind = whole.kind, .rule = rule, .divided = rule->saver_divides, .steps = HALF, .save = directory
      };
      run_world(&first, saved);
      free_models(&first, saved);
      for (int loaded = 1; loaded <= RANKS; loaded++) {
        if (!test_takes(k + (size_t)saved + (size_t)loaded, 4)) continue;
        run second = {
          .kind = whole.kind, .rule = rule, .divided = rule->loader_divides, .steps = HALF, .load = directory
        };
        run_world(&second, loaded);
        expect_same_run(&second, &whole, saved, loaded);
        free_models(&second, loaded);
      }
    }
    free_models(&whole, 1);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(any_number_of_ranks_goes_on) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
