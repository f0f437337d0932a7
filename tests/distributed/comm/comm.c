/* Communicators over simulated ranks: values, calls that do not match, losses, deadlines.
   SPDX-License-Identifier: MIT */
#include "situ/comm.h"

#include <math.h>
#include <pthread.h>
#include <time.h>

#include "distributed/world.h"
#include "situ/situ.h"
#include "situ/sys/comm.h"

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- values ---- */

/* Errors of a thread cannot be asserted in it: it records them, and the main thread looks. */
#define MUST(condition)    \
  if (!(condition)) {      \
    wrong(self, __LINE__); \
    return;                \
  }
static void wrong(world_rank *self, int line) {
  char text[64];
  (void)snprintf(text, sizeof text, "rank %d: line %d", self->rank, line);
  if (situ_error() == SITU_OK) (void)situ_comm_refuse(SITU_E_STATE, "test", text);
}

static bool values_are(situ_tensor *t, int64_t count, double (*want)(int64_t i, int rank, int size),
                       const world_rank *r) {
  double got[64];
  if (!t || situ_numel(t) != count) return false;
  test_read(t, got);
  for (int64_t i = 0; i < count; i++)
    if (got[i] != want(i, r->rank, r->size)) return false;
  return true;
}

static situ_tensor *mine(const world_rank *self, situ_shape shape) {
  return situ_add_scalar(situ_to_dtype(situ_arange(0, (double)situ_numel(situ_zeros(shape, NULL)), 1, NULL), SITU_F32),
                         100.0 * self->rank);
}
static double summed(int64_t i, int rank, int size) {
  (void)rank;
  return (double)(i * size) + 50.0 * size * (size - 1);
}
static double largest(int64_t i, int rank, int size) { return (double)i + 100.0 * (size - 1) + 0 * rank; }
static double last_rank(int64_t i, int rank, int size) { return largest(i, rank, size); }
static double gathered(int64_t i, int rank, int size) {
  return (double)(i % 3) + 100.0 * (double)(i / 3) + 0 * (rank + size);
}
static double scattered(int64_t i, int rank, int size) { return summed(i + 2 * rank, rank, size); }
static double exchanged(int64_t i, int rank, int size) {
  return (double)(i % 2 + 2 * rank) + 100.0 * (double)(i / 2) + 0 * size;
}
static double from_before(int64_t i, int rank, int size) { return (double)i + 100.0 * ((rank + size - 1) % size); }

static void use_every_op(world_rank *self) {
  situ_comm *c = self->comm;
  const int n = self->size;
  MUST(situ_comm_rank(c) == self->rank && situ_comm_size(c) == n);
  situ_tensor *t = mine(self, SITU_SHAPE(5));
  MUST(situ_comm_all_reduce(c, t, SITU_COMM_SUM, "sum") == SITU_OK && values_are(t, 5, summed, self));
  t = mine(self, SITU_SHAPE(5));
  MUST(situ_comm_all_reduce(c, t, SITU_COMM_MAX, "max") == SITU_OK && values_are(t, 5, largest, self));
  t = mine(self, SITU_SHAPE(5));
  MUST(situ_comm_broadcast(c, t, n - 1, NULL) == SITU_OK && values_are(t, 5, last_rank, self));
  MUST(values_are(situ_comm_all_gather(c, mine(self, SITU_SHAPE(3)), "gather"), 3 * n, gathered, self));
  t = situ_reshape(mine(self, SITU_SHAPE(n, 2)), SITU_SHAPE(n, 2));
  MUST(values_are(situ_comm_reduce_scatter(c, t, SITU_COMM_SUM, "scatter"), 2, scattered, self));
  t = situ_reshape(mine(self, SITU_SHAPE(n, 2)), SITU_SHAPE(n, 2));
  MUST(values_are(situ_comm_all_to_all(c, t, "exchange"), 2 * n, exchanged, self));
  MUST(situ_comm_barrier(c, "all") == SITU_OK);
  if (n == 1) return;
  /* Around a ring: the first rank sends before it receives. */
  const int after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
  t = situ_zeros(SITU_SHAPE(4), NULL);
  if (self->rank == 0) MUST(situ_comm_send(c, mine(self, SITU_SHAPE(4)), after, "ring") == SITU_OK);
  MUST(situ_comm_receive(c, t, before, "ring") == SITU_OK && values_are(t, 4, from_before, self));
  if (self->rank != 0) MUST(situ_comm_send(c, mine(self, SITU_SHAPE(4)), after, "ring") == SITU_OK);
}

static void every_op_has_its_values(void **state) {
  (void)state;
  for (int size = 1; size <= 4; size++)
    for (uint64_t seed = 0; seed < 3; seed++) {
      world_rank ranks[WORLD_MOST];
      world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = seed, .max_delay = seed ? 2e-4 : 0 }), ranks,
                size, use_every_op, NULL, 20);
      for (int i = 0; i < size; i++) expect_rank_ok(&ranks[i]);
    }
}

/* Several calls at once, ended in another order than they began; one of them between two ranks alone. */
static void overlap_calls(world_rank *self) {
  enum { CALLS = 6 };
  situ_comm_request *request[CALLS], *pair = NULL;
  int64_t in[CALLS][4], out[CALLS][4 * WORLD_MOST], word = 7 + self->rank;
  for (int k = 0; k < CALLS; k++) {
    for (int i = 0; i < 4; i++) in[k][i] = 1000 * k + 10 * self->rank + i;
    const situ_comm_call call = { .op = SITU_COMM_ALL_GATHER,
                                  .dtype = SITU_I64,
                                  .count = 4,
                                  .send = in[k],
                                  .receive = out[k],
                                  .name = "many",
                                  .step = k };
    MUST(situ_comm_begin(self->comm, &call, &request[k]) == SITU_OK);
    memset(in[k], 0xff, sizeof in[k]); /* it was copied */
    if (k == 2 && self->rank < 2) {
      const situ_comm_call two = { .op = self->rank ? SITU_COMM_RECEIVE : SITU_COMM_SEND,
                                   .dtype = SITU_I64,
                                   .count = 1,
                                   .send = &word,
                                   .receive = &word,
                                   .peer = 1 - self->rank,
                                   .name = "word" };
      MUST(situ_comm_begin(self->comm, &two, &pair) == SITU_OK);
    }
  }
  bool done = false;
  while (!done) MUST(situ_comm_test(request[3], &done) == SITU_OK);
  for (int k = CALLS - 1; k >= 0; k--) {
    MUST(situ_comm_wait(request[k]) == SITU_OK);
    for (int i = 0; i < 4 * self->size; i++) MUST(out[k][i] == 1000 * k + 10 * (i / 4) + i % 4);
  }
  if (pair) MUST(situ_comm_wait(pair) == SITU_OK && word == (self->rank ? 7 : 7));
}

static void schedules_of_delays_change_nothing(void **state) {
  (void)state;
  for (uint64_t seed = 1; seed <= 60; seed++) {
    world_rank ranks[WORLD_MOST];
    const int size = 2 + (int)(seed % 3);
    world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = seed, .max_delay = 5e-4 }), ranks, size,
              overlap_calls, NULL, 20);
    for (int i = 0; i < size; i++) expect_rank_ok(&ranks[i]);
  }
}

/* ---- calls that have ended elsewhere ---- */

/* One thread steps three ranks. Rank 1 ends a call that rank 2 has not looked at since it heard of one of the others,
   and gives up: rank 2 finds the words behind the header, and ends that call before it fails. The next call ends
   nowhere. */
static void a_call_that_has_ended_on_a_rank_ends_on_all(void **state) {
  (void)state;
  enum { SIZE = 3, CALLS = 2 };
  situ_comm_sim *world = situ_comm_sim_new(SIZE, NULL);
  situ_comm *comm[SIZE];
  situ_comm_request *request[SIZE][CALLS];
  int64_t value[SIZE][CALLS];
  bool done = false;
  for (int r = 0; r < SIZE; r++) assert_non_null(comm[r] = situ_comm_sim_rank(world, r, NULL));
  for (int k = 0; k < CALLS; k++)
    for (int r = 0; r < SIZE; r++) {
      value[r][k] = 10 * r + k + 5;
      const situ_comm_call call = { .op = SITU_COMM_BROADCAST,
                                    .dtype = SITU_I64,
                                    .count = 1,
                                    .send = &value[r][k],
                                    .receive = &value[r][k],
                                    .peer = k ? 2 : 0,
                                    .name = k ? "second" : "first" };
      assert_int_equal(situ_comm_begin(comm[r], &call, &request[r][k]), SITU_OK);
    }
  assert_int_equal(situ_comm_test(request[2][0], &done), SITU_OK);
  assert_false(done);
  for (int turn = 0; turn < 3; turn++)
    for (int r = 0; r < 2; r++) assert_int_equal(situ_comm_test(request[r][0], &done), SITU_OK);
  assert_true(done);
  situ_comm_abort(comm[1], "it has had enough");
  assert_int_equal(situ_comm_wait(request[2][0]), SITU_OK);
  assert_int_equal(value[2][0], 5);
  assert_int_equal(situ_comm_wait(request[0][0]), SITU_OK);
  for (int r = 0; r < SIZE; r++) {
    assert_int_equal(situ_comm_wait(request[r][1]), SITU_E_COMM);
    expect_error(SITU_E_COMM, "comm_wait", "rank 1 gave up: it has had enough");
    assert_int_equal(value[r][1], 10 * r + 6);
    situ_comm_free(comm[r]);
  }
  assert_int_equal(situ_comm_wait(request[1][0]), SITU_OK);
  situ_comm_sim_free(world);
}

/* The root ends a broadcast that rank 0 has come to, and which rank 2 has not heard of because rank 0 does nothing more:
   rank 2 hears from the root that all had come. */
static void a_rank_that_gives_up_holds_up_no_call_that_has_ended(void **state) {
  (void)state;
  enum { SIZE = 4 };
  situ_comm_sim *world = situ_comm_sim_new(SIZE, NULL);
  situ_comm *comm[SIZE];
  situ_comm_request *request[SIZE];
  int64_t value[SIZE];
  bool done = false;
  for (int r = 0; r < SIZE; r++) {
    assert_non_null(comm[r] = situ_comm_sim_rank(world, r, &(situ_comm_options){ .deadline = 2 }));
    value[r] = r;
    const situ_comm_call call = { .op = SITU_COMM_BROADCAST,
                                  .dtype = SITU_I64,
                                  .count = 1,
                                  .send = &value[r],
                                  .receive = &value[r],
                                  .peer = 3,
                                  .name = "rods" };
    assert_int_equal(situ_comm_begin(comm[r], &call, &request[r]), SITU_OK);
  }
  for (int turn = 0; turn < 3; turn++) assert_int_equal(situ_comm_test(request[turn ? 3 : 1], &done), SITU_OK);
  assert_true(done);
  situ_comm_abort(comm[0], "it has had enough");
  situ_comm_abort(comm[3], "so have I");
  for (int r = 1; r < SIZE; r++) {
    assert_int_equal(situ_comm_wait(request[r]), SITU_OK);
    assert_int_equal(value[r], 3);
  }
  assert_int_equal(situ_comm_wait(request[0]), SITU_E_COMM);
  situ_error_clear();
  for (int r = 0; r < SIZE; r++) situ_comm_free(comm[r]);
  situ_comm_sim_free(world);
}

/* ---- calls that do not match ---- */

static const situ_comm_call agreed = {
  .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F32, .count = 2, .name = "loss", .step = 7
};
static const struct {
  situ_comm_call other; /* one rank's */
  const char *says;
} mismatches[] = {
  { { .op = SITU_COMM_ALL_GATHER, .dtype = SITU_F32, .count = 2, .name = "loss", .step = 7 }, "all_gather \"loss\"" },
  { { .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F64, .count = 2, .name = "loss", .step = 7 }, "2 x f64" },
  { { .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F32, .count = 1, .name = "loss", .step = 7 }, "1 x f32" },
  { { .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F32, .count = 2, .name = "accuracy", .step = 7 }, "\"accuracy\"" },
  { { .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F32, .count = 2, .name = "loss", .step = 8 }, "step 8" },
  { { .op = SITU_COMM_ALL_REDUCE,
      .reduction = SITU_COMM_MAX,
      .dtype = SITU_F32,
      .count = 2,
      .name = "loss",
      .step = 7 },
    "max" },
  { { .op = SITU_COMM_SEND, .dtype = SITU_F32, .count = 2, .name = "loss", .step = 7 }, "send \"loss\"" },
};

typedef struct stray {
  size_t kind;
  int rank;
} stray;

static void disagree(world_rank *self) {
  const stray *t = self->payload;
  double in[8] = { 1 }, out[32] = { 5 };
  situ_comm_call call = self->rank == t->rank ? mismatches[t->kind].other : agreed;
  if (call.op == SITU_COMM_SEND && self->rank == 0) call.peer = 2;
  call.send = in;
  call.receive = out;
  MUST(situ_comm_run(self->comm, &call) != SITU_OK);
  MUST(out[0] == 5);
}

/* On seven ranks most have not heard of the one that differs by themselves. */
static void expect_refusals(int size, stray t) {
  world_rank ranks[WORLD_MOST];
  char who[32];
  const double begin = now();
  (void)snprintf(who, sizeof who, "rank %d in ", t.rank);
  world_run(situ_comm_sim_new(size, NULL), ranks, size, disagree, &t, 20);
  assert_true(now() - begin < 5); /* at once, not at the deadline */
  for (int i = 0; i < size; i++) {
    assert_int_equal(ranks[i].status, SITU_E_COMM);
    if (!strstr(ranks[i].message, mismatches[t.kind].says) || !strstr(ranks[i].message, who) ||
        !strstr(ranks[i].message, "step 7"))
      fail_msg("case %zu, rank %d of %d: %s", t.kind, i, size, ranks[i].message);
  }
}
static void mismatches_are_refused_on_every_rank(void **state) {
  (void)state;
  for (size_t k = 0; k < sizeof mismatches / sizeof *mismatches; k++) {
    expect_refusals(3, (stray){ k, 1 });
    for (int rank = 0; rank < 7; rank++) expect_refusals(7, (stray){ k, rank });
  }
}

/* ---- losses ---- */

typedef struct failing {
  int calls; /* that each rank tries */
} failing;

static void reduce_often(world_rank *self) {
  const failing *f = self->payload;
  for (int k = 0; k < f->calls; k++) {
    double in[3] = { 1, 2, 3 }, out[3];
    const situ_comm_call call = { .op = SITU_COMM_ALL_REDUCE,
                                  .dtype = SITU_F64,
                                  .count = 3,
                                  .send = in,
                                  .receive = out,
                                  .name = "gradient",
                                  .step = k };
    if (situ_comm_run(self->comm, &call) != SITU_OK) return;
    MUST(out[0] == self->size && out[2] == 3.0 * self->size);
  }
}

/* Rank 1 of 3 fails at its nth transfer from now. */
enum { TRIED = 3, TRIALS = 14, AT_ONCE = 7 };
typedef struct trial {
  int nth, misled; /* misled: the rank that says what it should not, or -1 */
  world_rank ranks[TRIED];
} trial;

static void begin_trial(trial *t, situ_comm_sim_fault fault, double deadline) {
  static failing f = { .calls = 3 };
  situ_comm_sim *world = situ_comm_sim_new(TRIED, NULL);
  assert_non_null(world);
  /* Each rank begins with a receive from each other. */
  assert_int_equal(situ_comm_sim_fail(world, 1, fault, 2 + t->nth), SITU_OK);
  world_start(world, t->ranks, TRIED, reduce_often, &f, &(situ_comm_options){ .deadline = deadline });
}

/* Returns how many ranks did not end well. */
static int end_trial(trial *t, situ_comm_sim_fault fault) {
  static const char *const words[] = { "died", "rank 1", "" };
  int failed = 0;
  world_end(t->ranks);
  t->misled = -1;
  for (int i = 0; i < TRIED; i++) {
    const world_rank *r = &t->ranks[i];
    if (r->status == SITU_OK) continue;
    failed++;
    const bool known = r->status == SITU_E_COMM || r->status == SITU_E_TIMEOUT;
    const bool named = i == 1 || strstr(r->message, words[fault]);
    if (!known || !named || !strstr(r->message, "gradient")) t->misled = i;
  }
  return failed;
}

/* Some worlds at once: most of the time their ranks wait. On a busy machine a rank may be late before rank 1 fails, and
   is named rightly: then once more, with time. */
static void try_all(trial *list, situ_comm_sim_fault fault) {
  int left = AT_ONCE;
  for (double deadline = 0.15; left && deadline < 2; deadline *= 10) {
    const double begin = now();
    left = 0;
    for (int k = 0; k < AT_ONCE; k++)
      if (list[k].misled >= 0) begin_trial(&list[k], fault, deadline);
    for (int k = 0; k < AT_ONCE; k++) {
      trial *t = &list[k];
      if (t->misled < 0) continue;
      const int failed = end_trial(t, fault);
      left += t->misled >= 0;
      if (t->misled >= 0) continue;
      assert_true(failed != 1 || t->ranks[1].status != SITU_OK); /* not one other rank alone */
      if (t->nth <= 4) assert_true(failed == TRIED || fault == SITU_COMM_SIM_LOSE);
    }
    assert_true(now() - begin < deadline + 3);
  }
}

/* Every place at which rank 1 of 3 can die, stop or lose a transfer. */
static void a_failure_ends_every_rank_in_time(void **state) {
  (void)state;
  for (int fault = 0; fault < SITU_COMM_SIM_FAULTS; fault++) {
    static trial list[TRIALS];
    for (int k = 0; k < TRIALS; k++) list[k] = (trial){ .nth = k + 1 };
    for (int k = 0; k < TRIALS; k += AT_ONCE) try_all(&list[k], (situ_comm_sim_fault)fault);
    for (int k = 0; k < TRIALS; k++)
      if (list[k].misled >= 0)
        fail_msg("fault %d at %d, rank %d: %s", fault, k + 1, list[k].misled, list[k].ranks[list[k].misled].message);
  }
}

static void give_up_at_once(world_rank *self) {
  double out = 5;
  if (self->rank == 2) situ_comm_abort(self->comm, "the reactor is too hot");
  MUST(situ_comm_run(self->comm, &(situ_comm_call){ .op = SITU_COMM_BROADCAST,
                                                    .dtype = SITU_F64,
                                                    .count = 1,
                                                    .send = &out,
                                                    .receive = &out,
                                                    .name = "rods",
                                                    .step = 3 }) == SITU_E_COMM);
}

static void an_abort_is_heard(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  const double begin = now();
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, give_up_at_once, NULL, 20);
  assert_true(now() - begin < 5);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(ranks[i].status, SITU_E_COMM);
    assert_non_null(strstr(ranks[i].message, "rank 2 gave up: the reactor is too hot"));
  }
}

/* A rank that does not come is named, with the call, the step and the deadline. */
static void stay_away(world_rank *self) {
  if (self->rank == 1) {
    (void)nanosleep(&(struct timespec){ .tv_nsec = 600000000 }, NULL);
    return;
  }
  MUST(situ_comm_run(self->comm, &(situ_comm_call){ .op = SITU_COMM_BARRIER, .name = "door", .step = 12 }) ==
       SITU_E_TIMEOUT);
}
static void who_is_late_is_named(void **state) {
  (void)state;
  for (int size = 3; size <= 7; size += 4) {
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(size, NULL), ranks, size, stay_away, NULL, 0.2);
    expect_rank_ok(&ranks[1]);
    for (int i = 0; i < size; i++) {
      if (i == 1) continue;
      assert_int_equal(ranks[i].status, SITU_E_TIMEOUT);
      if (!strstr(ranks[i].message, "barrier \"door\" (call 1, step 12): rank 1 did not come to it within 0.2 s"))
        fail_msg("%s", ranks[i].message);
    }
  }
}

/* ---- an engine from elsewhere ---- */

/* Whose transfers never end; one that fails waits until another thread has tried to use the communicator. */
typedef struct engine_state {
  pthread_barrier_t inside, go_on;
  situ_comm *comm;
  situ_status status;
  bool fails;
  int released;
} engine_state;

static situ_status begin_or_fail(void *state, const situ_comm_transfer *transfer, void **request,
                                 situ_comm_report *report) {
  engine_state *e = state;
  (void)transfer;
  *request = state;
  if (!e->fails) return SITU_OK;
  e->fails = false;
  pthread_barrier_wait(&e->inside);
  pthread_barrier_wait(&e->go_on);
  *report = (situ_comm_report){ .rank = 1, .text = "the cable is out" };
  return SITU_E_COMM;
}
static situ_status never_done(void *state, void *request, bool *done, situ_comm_report *report) {
  (void)state, (void)request, (void)report;
  *done = false;
  return SITU_OK;
}
static bool abandon_nothing(void *state, void *request) { return (void)state, (void)request, true; }
static void note_release(void *state, bool failed) {
  (void)failed;
  ((engine_state *)state)->released++;
}
static const situ_comm_engine broken = {
  .name = "broken", .begin = begin_or_fail, .test = never_done, .abandon = abandon_nothing, .release = note_release
};
static const situ_comm_call only_barrier = { .op = SITU_COMM_BARRIER, .name = "door" };

static void *use_engine(void *payload) {
  engine_state *e = payload;
  e->status = situ_comm_run(e->comm, &only_barrier);
  return NULL;
}

static void one_thread_at_a_time(void **state) {
  (void)state;
  engine_state e = { .status = SITU_OK };
  pthread_t thread;
  pthread_barrier_init(&e.inside, NULL, 2);
  pthread_barrier_init(&e.go_on, NULL, 2);
  e.comm = situ_comm_new(&broken, &e, 0, 2, &(situ_comm_options){ .deadline = 2 });
  e.fails = true;
  assert_int_equal(pthread_create(&thread, NULL, use_engine, &e), 0);
  pthread_barrier_wait(&e.inside);
  assert_int_equal(situ_comm_run(e.comm, &only_barrier), SITU_E_STATE);
  expect_error(SITU_E_STATE, "comm_run", "this communicator");
  pthread_barrier_wait(&e.go_on);
  pthread_join(thread, NULL);
  assert_int_equal(e.status, SITU_E_COMM);
  situ_comm_free(e.comm);
  assert_int_equal(e.released, 1);
  pthread_barrier_destroy(&e.inside);
  pthread_barrier_destroy(&e.go_on);
}

static void bad_engines(void **state) {
  (void)state;
  engine_state e = { .status = SITU_OK };
  situ_comm_engine part = broken;
  part.abandon = NULL;
  expect_refused(situ_comm_new(NULL, &e, 0, 1, NULL), SITU_E_ARG, "comm_new", "engine");
  expect_refused(situ_comm_new(&part, &e, 0, 1, NULL), SITU_E_ARG, "comm_new", "lacks a name or a function");
  assert_int_equal(e.released, 0);
  expect_refused(situ_comm_new(&broken, &e, 2, 2, NULL), SITU_E_ARG, "comm_new", "rank 2 of 2 ranks");
  expect_refused(situ_comm_new(&broken, &e, -1, 2, NULL), SITU_E_ARG, "comm_new", "rank -1 of 2 ranks");
  expect_refused(situ_comm_new(&broken, &e, 0, 0, NULL), SITU_E_ARG, "comm_new", "rank 0 of 0 ranks");
  assert_int_equal(e.released, 3);
}

/* ---- arguments ---- */

static void bad_arguments(void **state) {
  (void)state;
  expect_refused(situ_comm_sim_new(0, NULL), SITU_E_ARG, "comm_sim_new", "size 0");
  expect_refused(situ_comm_sim_new(2, &(situ_comm_sim_options){ .max_delay = NAN }), SITU_E_ARG, "comm_sim_new", "");
  situ_comm_sim *w = situ_comm_sim_new(2, NULL);
  expect_refused(situ_comm_sim_rank(w, 2, NULL), SITU_E_ARG, "comm_sim_rank", "rank 2");
  expect_refused(situ_comm_sim_rank(w, 0, &(situ_comm_options){ .deadline = -1 }), SITU_E_ARG, "comm_new", "deadline");
  expect_refused(situ_comm_sim_rank(w, 0, NULL), SITU_E_STATE, "comm_sim_rank", "another world");
  situ_comm *c = situ_comm_sim_rank(w, 1, NULL);
  situ_comm_sim_free(w);
  double x[2] = { 0 };
  assert_int_equal(situ_comm_run(c, &(situ_comm_call){ .op = SITU_COMM_ALL_REDUCE, .count = 2, .receive = x }),
                   SITU_E_ARG);
  expect_error(SITU_E_ARG, "comm_run", "without memory for what it sends");
  assert_int_equal(situ_comm_run(c, &(situ_comm_call){ .op = SITU_COMM_SEND, .count = 1, .send = x, .peer = 1 }),
                   SITU_E_ARG);
  expect_error(SITU_E_ARG, "comm_run", "rank 1 of 2 has peer 1");
  assert_int_equal(situ_comm_run(c, &(situ_comm_call){ .count = INT64_MAX, .send = x, .receive = x }), SITU_E_OVERFLOW);
  expect_error(SITU_E_OVERFLOW, "comm_run", "all_reduce");
  assert_int_equal(situ_comm_run(c, &(situ_comm_call){ .dtype = SITU_BF16, .count = 1, .send = x, .receive = x }),
                   SITU_E_UNSUPPORTED);
  expect_error(SITU_E_UNSUPPORTED, "comm_run", "all_reduce of bf16");
  expect_refused(situ_comm_all_to_all(c, T32(SITU_SHAPE(3), 1, 2, 3), NULL), SITU_E_SHAPE, "comm_all_to_all", "3 rows");
  assert_string_equal(situ_comm_op_name(SITU_COMM_ALL_TO_ALL), "all_to_all");
  assert_string_equal(situ_comm_op_name((situ_comm_op)99), "?");
  situ_comm_free(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(every_op_has_its_values),
    TEST(schedules_of_delays_change_nothing),
    TEST(a_call_that_has_ended_on_a_rank_ends_on_all),
    TEST(a_rank_that_gives_up_holds_up_no_call_that_has_ended),
    TEST(mismatches_are_refused_on_every_rank),
    TEST(a_failure_ends_every_rank_in_time),
    TEST(an_abort_is_heard),
    TEST(who_is_late_is_named),
    TEST(one_thread_at_a_time),
    TEST(bad_engines),
    TEST(bad_arguments),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
