/* Drills: something happens to one rank in the middle of training; every other rank ends in time, with a message that
   tells the step, and with the model of the last step that it finished. What happens, to whom and when, is drawn.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <time.h>

#include "distributed/training.h"
#include "situ/sys/alloc.h"

enum { STEPS = 4, FEW = 54, MANY = 200 };
#define DEADLINE 0.3 /* seconds, where ranks must wait for it; else they must not */

typedef enum what {
  DIES,      /* at one of its transfers */
  STOPS,     /* its transfers never end */
  LOSES,     /* a transfer of it is lost */
  HANGS,     /* in a forward, for longer than the deadline */
  FAILS,     /* in a forward, and leaves */
  BACKWARD,  /* a hook fails in a backward */
  MEMORY,    /* an allocation fails */
  ELSEWHERE, /* it is in another call */
  DIVERGES,  /* its weights change behind the library's back */
  WHATS
} what;
static const char *const what_text[WHATS] = { "dies",     "stops",  "loses a message", "hangs",   "fails in a forward",
                                              "backward", "memory", "elsewhere",       "diverges" };

typedef struct drill {
  training t;
  what what;
  int size, rank, step;
  uint64_t nth; /* of its transfers, or allocations */
} drill;

static uint64_t next(uint64_t *state) { /* splitmix64 */
  uint64_t x = *state += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

/* ---- what happens ---- */

static situ_tensor *fail_in_hook(situ_tensor *grad, void *payload) {
  (void)payload;
  (void)situ_comm_refuse(SITU_E_STATE, "test", "a hook fails");
  return grad;
}

static situ_status diverge(situ_tensor *weight) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = situ_mul_scalar_(weight, 1.001) != NULL;
  const situ_status end = situ_scope_end(&s);
  return good ? end : situ_error();
}

static situ_status happen(drill *d, const world_rank *self, situ_tensor *weight) {
  switch (d->what) {
  case DIES: return situ_comm_sim_fail(self->world, self->rank, SITU_COMM_SIM_DIE, (int64_t)d->nth);
  case STOPS: return situ_comm_sim_fail(self->world, self->rank, SITU_COMM_SIM_STOP, (int64_t)d->nth);
  case LOSES: return situ_comm_sim_fail(self->world, self->rank, SITU_COMM_SIM_LOSE, (int64_t)d->nth);
  case HANGS: (void)nanosleep(&(struct timespec){ .tv_nsec = (long)(2.5 * DEADLINE * 1e9) }, NULL); return SITU_OK;
  case FAILS:
    return situ_nn_forward(d->t.model[self->rank], situ_zeros(SITU_SHAPE(1, 1), NULL)) ? SITU_OK : situ_error();
  case BACKWARD: return situ_register_hook(weight, fail_in_hook, d);
  case MEMORY: situ_fail_allocation(d->nth, false); return SITU_OK;
  case ELSEWHERE: return situ_comm_barrier(self->comm, "elsewhere");
  case DIVERGES: return diverge(weight);
  case WHATS: break;
  }
  return SITU_E_STATE;
}

static void train_through(world_rank *self) {
  drill *d = self->payload;
  training *t = &d->t;
  situ_nn_module *m = t->model[self->rank];
  situ_tree *parameters = situ_nn_parameters(m);
  situ_tensor *weight = situ_tree_tensor_at(parameters, 0);
  situ_dist_ddp *ddp = situ_dist_ddp_new(m, self->comm, &t->options);
  for (int step = 0; ddp && step < STEPS; step++) {
    if (self->rank == d->rank && step == d->step && happen(d, self, weight) != SITU_OK) break;
    if (train_step(t, m, t->optim[self->rank], ddp) != SITU_OK) break;
    t->done[self->rank]++;
  }
  situ_remove_hooks(weight, d);
  situ_tree_free(parameters);
  situ_dist_ddp_free(ddp);
}

/* ---- what the others see ---- */

/* The only status that another rank may return; SITU_OK: it depends on the time. */
static situ_status must_be(what w) {
  return w == HANGS ? SITU_E_TIMEOUT : w >= FAILS && w != MEMORY ? SITU_E_COMM : SITU_OK;
}

static void expect_end(const drill *d, const world_rank *r, const bits *want, int number) {
  const int done = d->t.done[r->rank];
  const situ_status must = must_be(d->what);
  const bool in_memory = d->what == MEMORY && r->status == SITU_E_NOMEM;
  if (r->status == SITU_OK ? done < STEPS || must != SITU_OK : done == STEPS)
    fail_msg("drill %d, %s: rank %d made %d steps: %s", number, what_text[d->what], r->rank, done, r->message);
  if (r->status != SITU_OK && !in_memory &&
      ((must != SITU_OK ? r->status != must : r->status != SITU_E_COMM && r->status != SITU_E_TIMEOUT) ||
       !strstr(r->message, "step ")))
    fail_msg("drill %d, %s: rank %d: %s", number, what_text[d->what], r->rank, r->message);
  bits got = bits_of(d->t.model[r->rank]);
  expect_bits(want[done], got, what_text[d->what], d->size);
  free(got.data);
}

static void run_drill(uint64_t *random, const bits (*want)[STEPS + 1], int number, int *ended) {
  drill d = { .t = { .options = { .bucket_bytes = 300, .check_every = 1 } }, .what = (what)(number % WHATS) };
  world_rank ranks[WORLD_MOST];
  d.size = 2 + (int)(next(random) % 3);
  d.rank = (int)(next(random) % (uint64_t)d.size);
  d.step = 1 + (int)(next(random) % (STEPS - 1)); /* all have got the first values by then */
  d.nth = 1 + next(random) % (d.what == MEMORY ? 600 : 40);
  const size_t kind =
      d.what == MEMORY ? 0 : next(random) % DIST_KINDS; /* an optimiser that fails leaves new statistics */
  begin_training(&d.t, &dist_kinds[kind], d.size);
  const situ_comm_options options = { .deadline = must_be(d.what) == SITU_E_COMM ? 600 : DEADLINE,
                                      .node_size = d.size == 4 && d.nth % 2 ? 2 : 0 };
  world_run_with(situ_comm_sim_new(d.size, NULL), ranks, d.size, train_through, &d, &options);
  situ_fail_allocation(0, false);
  for (int r = 0; r < d.size; r++) {
    if (r == d.rank && d.what != MEMORY) continue;
    expect_end(&d, &ranks[r], want[kind], number);
    ended[d.what] += ranks[r].status != SITU_OK;
  }
  end_training(&d.t, d.size);
}

static void whatever_happens_to_one_rank(void **state) {
  (void)state;
  bits want[DIST_KINDS][STEPS + 1];
  world_rank one[WORLD_MOST];
  for (size_t k = 0; k < DIST_KINDS; k++)
    for (int steps = 0; steps <= STEPS; steps++) { /* the bits are those of one rank */
      training t = { .steps = steps };
      begin_training(&t, &dist_kinds[k], 1);
      world_run(situ_comm_sim_new(1, NULL), one, 1, train_rank, &t, 60);
      want[k][steps] = bits_of(t.model[0]);
      end_training(&t, 1);
    }
  const int drills = getenv("SITU_TEST_ALL") ? MANY : FEW;
  int ended[WHATS] = { 0 };
  uint64_t random = 2026;
  for (int i = 0; i < drills; i++) run_drill(&random, (const bits(*)[STEPS + 1]) want, i, ended);
  for (int w = 0; w < WHATS; w++) {
    print_message("%s: %d ranks ended\n", what_text[w], ended[w]);
    assert_true(ended[w] >= drills / WHATS / 2);
  }
  for (size_t k = 0; k < DIST_KINDS; k++)
    for (int steps = 0; steps <= STEPS; steps++) free(want[k][steps].data);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(whatever_happens_to_one_rank) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
