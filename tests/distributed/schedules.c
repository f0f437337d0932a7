/* Schedules: when messages arrive and ranks come to their calls is drawn, with the number of ranks, the buckets, the
   stage of ZeRO, compression and nodes. No schedule hangs, and none changes a bit. 10,000 with SITU_TEST_ALL. */
/* test-devices: cpu */
/* test-limit: 7200 */
#include <stdlib.h>
#include <time.h>

#include "distributed/models.h"
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/dist.h"

enum { FEW = 300, MANY = 10000, STEPS = 3, LEAST = 4, TOTALS = 4 /* micro-batches of a step: 4 to 7 */ };

static uint64_t next(uint64_t *state) { /* splitmix64 */
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/* What decides the bits, and what must not. */
typedef struct schedule {
  const dist_kind *kind;
  bool clips;
  situ_dist_ddp_options ddp; /* .micro_batches and .compress */
  int size, stage;           /* 0: every rank has an optimiser of all parameters */
  uint64_t seed;             /* of the pauses of ranks */
  situ_comm_sim_options messages;
  situ_nn_module *model[WORLD_MOST];
} schedule;

static void pause_sometimes(uint64_t *random) {
  const uint64_t drawn = next(random);
  if (drawn % 4 == 0) (void)nanosleep(&(struct timespec){ .tv_nsec = (long)(drawn >> 32) % 300000 }, NULL);
}

static situ_status step_once(const schedule *t, situ_optim *optim, situ_dist_zero *zero) {
  if (!zero) {
    SITU_TRY(situ_optim_step(optim));
    return situ_optim_zero_grad(optim, true);
  }
  if (t->clips) SITU_TRY(situ_dist_zero_clip_grad_norm_(zero, 0.5, 2, NULL));
  SITU_TRY(situ_dist_zero_step(zero));
  return situ_dist_zero_zero_grad(zero);
}

static void train_by_schedule(world_rank *self) {
  const schedule *t = self->payload;
  uint64_t random = t->seed + (uint64_t)self->rank;
  situ_nn_module *m = t->model[self->rank];
  situ_optim *optim = NULL;
  situ_dist_zero *zero = NULL;
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->ddp);
  MUST(ddp);
  if (t->stage == 0) optim = situ_optim_adamw(situ_nn_parameters(m), 1e-3, NULL);
  if (t->stage == 1) zero = situ_dist_zero_new(situ_nn_parameters(m), self->comm, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 2) zero = situ_dist_zero2_new(situ_nn_parameters(m), ddp, situ_optim_adamw, 1e-3, NULL);
  if (t->stage == 3) zero = situ_dist_zero3_new(situ_nn_parameters(m), ddp, NULL, situ_optim_adamw, 1e-3, NULL);
  MUST(optim || zero);
  for (int64_t step = 0; step < STEPS; step++) {
    for (int64_t k = situ_dist_ddp_micro_batches(ddp); k > 0; k--) {
      pause_sometimes(&random);
      MUST(dist_micro_batch(t->kind, m, test_device(), 10 * step + situ_dist_ddp_micro_batch(ddp)) == SITU_OK);
    }
    pause_sometimes(&random);
    MUST(step_once(t, optim, zero) == SITU_OK);
  }
  MUST(!zero || situ_dist_zero_unshard(zero) == SITU_OK);
out:
  situ_dist_zero_free(zero);
  situ_optim_free(optim);
  situ_dist_ddp_free(ddp);
}

static void run_schedule(schedule *t, int number) {
  world_rank ranks[WORLD_MOST];
  for (int r = 0; r < t->size; r++) {
    situ_manual_seed(77 + (uint64_t)r);
    t->model[r] = t->kind->make();
  }
  const situ_comm_options options = { .deadline = 60, .node_size = t->size == 4 && t->seed % 2 ? 2 : 0 };
  world_run_with(situ_comm_sim_new(t->size, &t->messages), ranks, t->size, train_by_schedule, t, &options);
  for (int r = 0; r < t->size; r++)
    if (ranks[r].status != SITU_OK) fail_msg("schedule %d, rank %d of %d: %s", number, r, t->size, ranks[r].message);
}

static schedule draw_schedule(uint64_t *random) {
  schedule t = { .kind = &dist_kinds[next(random) % DIST_KINDS], .size = 2 + (int)(next(random) % 3) };
  t.stage = (int)(next(random) % 4);
  t.clips = t.stage > 0 && next(random) % 2;
  t.ddp.micro_batches = LEAST + (int64_t)(next(random) % TOTALS);
  if (t.stage == 3) t.ddp.micro_batches = t.size == 3 ? 6 : 4; /* each rank has as many */
  t.ddp.compress = next(random) % 3 == 0 ? SITU_BF16 : SITU_DTYPE_DEFAULT;
  t.ddp.bucket_bytes = 1 + (int64_t)(next(random) % 2000);
  t.ddp.check_every = next(random) % 2 && t.stage < 3;
  t.seed = next(random);
  t.messages = (situ_comm_sim_options){ .seed = next(random), .max_delay = 1e-6 * (double)(next(random) % 300) };
  return t;
}

/* The model that one rank trains without delays; made when it is first needed. */
typedef situ_nn_module *references[DIST_KINDS][TOTALS][2][2];
static situ_nn_module *find_reference(references all, const schedule *t) {
  situ_nn_module **at = &all[t->kind - dist_kinds][t->ddp.micro_batches - LEAST][t->ddp.compress != 0][t->clips];
  if (*at) return *at;
  schedule one = { .kind = t->kind, .clips = t->clips, .size = 1, .stage = t->clips };
  one.ddp = (situ_dist_ddp_options){ .micro_batches = t->ddp.micro_batches, .compress = t->ddp.compress };
  run_schedule(&one, -1);
  return *at = one.model[0];
}

static void no_schedule_hangs_or_changes_a_bit(void **state) {
  (void)state;
  references all = { 0 };
  uint64_t random = 2026;
  const int count = getenv("SITU_TEST_ALL") ? MANY : FEW;
  for (int i = 0; i < count; i++) {
    schedule t = draw_schedule(&random);
    situ_nn_module *want = find_reference(all, &t);
    run_schedule(&t, i);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    for (int r = 0; r < t.size; r++) {
      expect_equal_models(t.model[r], want, t.kind->name, t.size);
      situ_nn_free(t.model[r]);
    }
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
  print_message("%d schedules: the same bits, none hangs\n", count);
  situ_nn_module **each = &all[0][0][0][0];
  for (size_t i = 0; i < sizeof all / sizeof *each; i++) situ_nn_free(each[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(no_schedule_hangs_or_changes_a_bit) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
