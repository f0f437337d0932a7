/* What a communicator costs beside the number of its ranks: the transfers that a pass looks at, and the memory of headers
   that have come early. One rank of many that is late or lost. What calls need not cost: more than headers for a barrier,
   copies of tensors. */
/* test-devices: cpu */
#include <pthread.h>

#include "distributed/comm/comm.h"
#include "situ/parallel.h"
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/heap.h"
#include "support/test.h"

/* ---- a pass ---- */

/* An engine whose transfers never end, but the header of one peer, once it has words. */
typedef struct quiet {
  int64_t tests;
  int speaker; /* -1: none */
  situ_comm_transfer heard[1024];
} quiet;

static situ_status begin_quietly(void *state, const situ_comm_transfer *t, void **request, situ_comm_report *report) {
  quiet *q = state;
  (void)report;
  const int at = t->op == SITU_COMM_RECEIVE ? t->peer : 0;
  if (t->op == SITU_COMM_RECEIVE) q->heard[at] = *t;
  *request = &q->heard[at];
  return SITU_OK;
}
static situ_status test_quietly(void *state, void *request, bool *done, situ_comm_report *report) {
  quiet *q = state;
  (void)report;
  q->tests++;
  *done = q->speaker > 0 && request == &q->heard[q->speaker];
  if (!*done) return SITU_OK;
  const situ__comm_header words = { .magic = SITU__COMM_MAGIC, .status = SITU_E_COMM, .text = "the roof is on fire" };
  memcpy(q->heard[q->speaker].receive, &words, sizeof words);
  return SITU_OK;
}
static bool abandon_quietly(void *state, void *request) { return (void)state, (void)request, true; }
static void release_quietly(void *state, bool failed) { (void)state, (void)failed; }
static const situ_comm_engine quiet_engine = {
  .name = "quiet", .begin = begin_quietly, .test = test_quietly, .abandon = abandon_quietly, .release = release_quietly
};

static void a_pass_costs_the_same_for_any_number_of_ranks(void **state) {
  (void)state;
  enum { PASSES = 200, TESTS = 8 + 2 }; /* some peers in turn, the header that is awaited and the one that is sent */
  static quiet q;
  for (int size = 16; size <= 1024; size *= 8) {
    q = (quiet){ .speaker = -1 };
    bool done = false;
    situ_comm_request *request;
    situ_comm *c = situ_comm_new(&quiet_engine, &q, 0, size, NULL);
    assert_int_equal(situ_comm_begin(c, &(situ_comm_call){ .op = SITU_COMM_BARRIER }, &request), SITU_OK);
    for (int i = 0; i < PASSES; i++) assert_int_equal(situ_comm_test(request, &done), SITU_OK);
    if (q.tests > PASSES * TESTS)
      fail_msg("%d ranks: %lld tests in %d passes, at most %d", size, (long long)q.tests, PASSES, PASSES * TESTS);
    assert_false(done);
    q.speaker = size - 2; /* no call waits for it: it is heard in its turn */
    for (int i = 0; i < size / 8 && !done; i++) assert_int_equal(situ_comm_test(request, &done), SITU_OK);
    assert_true(done);
    assert_int_equal(situ_comm_wait(request), SITU_E_COMM);
    expect_error(SITU_E_COMM, "comm_wait", "the roof is on fire");
    situ_comm_free(c);
  }
}

/* ---- memory ---- */

enum { CALLS = 400 };

/* Rank 1 is ahead by so many calls, whose headers wait on rank 0 until it comes to them. Returns the bytes that are in
   use afterwards and were not before: those of freed handles, whose addresses stay taken. */
static long long bytes_behind(situ_comm *const c[2], int ahead) {
  static situ_comm_request *sends[CALLS];
  static float sent[CALLS], got;
  const long long before = heap_begin();
  for (int i = 0, begun = 0; i < CALLS; i++) {
    for (; begun < CALLS && begun < i + ahead; begun++) {
      sent[begun] = (float)begun;
      const situ_comm_call send = { .op = SITU_COMM_SEND, .count = 1, .send = &sent[begun], .peer = 0 };
      assert_int_equal(situ_comm_begin(c[1], &send, &sends[begun]), SITU_OK);
    }
    situ_comm_request *r;
    const situ_comm_call receive = { .op = SITU_COMM_RECEIVE, .count = 1, .receive = &got, .peer = 1 };
    assert_int_equal(situ_comm_begin(c[0], &receive, &r), SITU_OK);
    for (bool done = false, left = false; !done || !left;) {
      assert_int_equal(situ_comm_test(r, &done), SITU_OK);
      assert_int_equal(situ_comm_test(sends[i], &left), SITU_OK);
    }
    assert_int_equal(situ_comm_wait(r), SITU_OK);
    assert_int_equal(situ_comm_wait(sends[i]), SITU_OK);
    assert_true(got == sent[i]); /* in order */
  }
  return atomic_load(&heap_bytes) - before;
}

static void headers_that_were_taken_leave_no_memory(void **state) {
  (void)state;
  situ_comm_sim *world = situ_comm_sim_new(2, NULL);
  situ_comm *c[] = { situ_comm_sim_rank(world, 0, NULL), situ_comm_sim_rank(world, 1, NULL) };
  const long long in_turn = bytes_behind(c, 1), ahead = bytes_behind(c, CALLS);
  if (ahead > in_turn + (32 << 10)) fail_msg("%d headers that came early leave %lld bytes", CALLS, ahead - in_turn);
  situ_comm_free(c[0]);
  situ_comm_free(c[1]);
  situ_comm_sim_free(world);
}

/* ---- messages ---- */

/* All ranks take turns in one thread. */
static void end_all(situ_comm_request *const *requests, int size) {
  for (int left = size; left > 0;) {
    left = 0;
    for (int r = 0; r < size; r++) {
      bool done = false;
      assert_int_equal(situ_comm_test(requests[r], &done), SITU_OK);
      left += !done;
    }
  }
  for (int r = 0; r < size; r++) assert_int_equal(situ_comm_wait(requests[r]), SITU_OK);
}

static void a_call_has_log_2_headers_a_rank(void **state) {
  (void)state;
  enum { CALLS_OF_ALL = 3 };
  enum { MOST = 256 };
  static situ_comm *c[MOST];
  static situ_comm_request *requests[MOST];
  static int64_t mine[MOST], all[MOST][MOST];
  for (int size = 4, rounds = 2; size <= MOST; size *= 8, rounds += 3) {
    situ_comm_sim *world = situ_comm_sim_new(size, NULL);
    for (int r = 0; r < size; r++) assert_non_null(c[r] = situ_comm_sim_rank(world, r, NULL));
    for (int k = 0; k < CALLS_OF_ALL; k++) {
      for (int r = 0; r < size; r++) {
        mine[r] = 1000 * k + r;
        const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = SITU_I64, .count = 1,
                                      .send = &mine[r],     .receive = all[r], .step = k };
        assert_int_equal(situ_comm_begin(c[r], &call, &requests[r]), SITU_OK);
      }
      end_all(requests, size);
      for (int r = 0; r < size; r++)
        for (int i = 0; i < size; i++) assert_int_equal(all[r][i], 1000 * k + i);
    }
    for (int r = 0; r < size; r++) assert_int_equal(situ_comm_sim_messages(world, r), CALLS_OF_ALL * rounds);
    for (int r = 0; r < size; r++) situ_comm_free(c[r]);
    situ_comm_sim_free(world);
  }
}

/* An all-reduce and a barrier. */
static void worlds_are_large(void **state) {
  (void)state;
  enum { SIZE = 512 };
  static situ_comm *c[SIZE];
  static situ_comm_request *requests[SIZE];
  static int64_t mine[SIZE], sum[SIZE];
  situ_comm_sim *world = situ_comm_sim_new(SIZE, NULL);
  for (int r = 0; r < SIZE; r++) assert_non_null(c[r] = situ_comm_sim_rank(world, r, NULL));
  for (int k = 0; k < 2; k++) {
    for (int r = 0; r < SIZE; r++) {
      mine[r] = r;
      const situ_comm_call call = { k ? SITU_COMM_BARRIER : SITU_COMM_ALL_REDUCE, .dtype = SITU_I64, .count = !k,
                                    .send = &mine[r], .receive = &sum[r] };
      assert_int_equal(situ_comm_begin(c[r], &call, &requests[r]), SITU_OK);
    }
    end_all(requests, SIZE);
    for (int r = 0; r < SIZE; r++) assert_int_equal(sum[r], SIZE * (SIZE - 1) / 2);
  }
  for (int r = 0; r < SIZE; r++) situ_comm_free(c[r]);
  situ_comm_sim_free(world);
  assert_null(situ_comm_sim_new(SITU_COMM_SIM_MAX + 1, NULL));
  expect_error(SITU_E_ARG, "comm_sim_new", "1..4096 ranks");
}

/* ---- failures ---- */

enum { AWAY = 5, SECONDS_MOST = 8 };
static const double patience = 0.2;

/* The waits of all ranks but that one. */
static void expect_words(situ_comm_request *const *requests, int size, const char *words) {
  for (int i = 1; i < size; i++) {
    const int r = (AWAY + i) % size;
    if (situ_comm_wait(requests[r]) == SITU_OK || !strstr(situ_error_message(), words))
      fail_msg("rank %d: %s", r, situ_error_message());
    situ_error_clear();
  }
}

/* One of 256 ranks comes when the others have given up, or dies when it comes. One thread waits for all of them, one
   after the other: the first one for the deadline, all others not at all. */
static void expect_named(bool lost, const char *words) {
  enum { SIZE = 256 };
  static situ_comm *c[SIZE];
  static situ_comm_request *requests[SIZE];
  static int64_t mine[SIZE], sum[SIZE];
  situ_comm_sim *world = situ_comm_sim_new(SIZE, NULL);
  for (int r = 0; r < SIZE; r++)
    assert_non_null(c[r] = situ_comm_sim_rank(world, r, &(situ_comm_options){ .deadline = patience }));
  if (lost) assert_int_equal(situ_comm_sim_fail(world, AWAY, SITU_COMM_SIM_DIE, 1), SITU_OK);
  const time_t begin = time(NULL);
  for (int k = 1; k <= SIZE; k++) {
    const int r = (AWAY + k) % SIZE; /* it comes last */
    if (r == AWAY && !lost) expect_words(requests, SIZE, words);
    mine[r] = sum[r] = r;
    const situ_comm_call call = { SITU_COMM_ALL_REDUCE, .dtype = SITU_I64, .count = 1, .send = &mine[r],
                                  .receive = &sum[r],   .name = "x",       .step = 9 };
    const bool begun = situ_comm_begin(c[r], &call, &requests[r]) == SITU_OK;
    assert_true(r == AWAY ? !begun || situ_comm_wait(requests[r]) != SITU_OK : begun);
    situ_error_clear();
  }
  if (lost) expect_words(requests, SIZE, words);
  if (time(NULL) - begin > SECONDS_MOST) fail_msg("%d ranks have waited for each other", SIZE);
  for (int r = 0; r < SIZE; r++) {
    assert_int_equal(sum[r], r);
    assert_true(situ_comm_barrier(c[r], NULL) != SITU_OK);
    situ_error_clear();
    situ_comm_free(c[r]);
  }
  situ_comm_sim_free(world);
}

static void a_rank_that_is_late_is_named_by_all(void **state) {
  (void)state;
  expect_named(false, "rank 5 did not come to it within 0.2 s");
}

static void a_rank_that_is_lost_is_named_by_all(void **state) {
  (void)state;
  expect_named(true, "rank 5 has died");
}

/* ---- what need not be ---- */

/* One rank's call of two. */
typedef struct pair_call {
  situ_comm *comm;
  situ_dtype dtype; /* SITU_DTYPE_DEFAULT: a barrier */
  situ_status status;
} pair_call;

static void *make_call(void *payload) {
  pair_call *p = payload;
  situ_scope s;
  situ_scope_begin(&s);
  if (p->dtype)
    (void)!situ_dist_reduce_from(situ_ones(SITU_SHAPE(3), &(situ_options){ .dtype = p->dtype }), p->comm, "x");
  else SITU_IGNORE(situ_comm_barrier(p->comm, "x"));
  p->status = situ_error();
  situ_error_clear();
  SITU_IGNORE(situ_scope_end(&s));
  return NULL;
}

/* Headers that rank 0 sends, and all that it begins, with the receives of headers. */
static void expect_transfers(situ_dtype dtype, int64_t headers, int64_t transfers) {
  situ_comm_sim *world = situ_comm_sim_new(2, NULL);
  pair_call calls[2];
  pthread_t other;
  for (int r = 0; r < 2; r++) calls[r] = (pair_call){ situ_comm_sim_rank(world, r, NULL), dtype, SITU_OK };
  const int64_t before = situ_comm_sim_transfers(world, 0);
  assert_int_equal(pthread_create(&other, NULL, make_call, &calls[1]), 0);
  make_call(&calls[0]);
  pthread_join(other, NULL);
  for (int r = 0; r < 2; r++) assert_int_equal(calls[r].status, SITU_OK);
  assert_int_equal(situ_comm_sim_messages(world, 0), headers);
  assert_int_equal(situ_comm_sim_transfers(world, 0) - before, transfers);
  for (int r = 0; r < 2; r++) situ_comm_free(calls[r].comm);
  situ_comm_sim_free(world);
}

static void a_barrier_is_its_headers(void **state) {
  (void)state;
  expect_transfers(SITU_DTYPE_DEFAULT, 1, 2);
}

/* Two terms have one order, so the engine may add them; it cannot add f16. */
static void two_ranks_add_in_one_call(void **state) {
  (void)state;
  expect_transfers(SITU_F32, 1, 3);
  expect_transfers(SITU_F16, 2, 6);
}

/* ---- memory that is lent ---- */

/* The other rank is a mirror: its headers are this one's. Values never end, and may be read for ever. */
typedef struct mirror {
  situ_comm_transfer receive, send, values;
  unsigned char header[512]; /* as the sender's memory may be freed before it is received */
  bool came;
} mirror;

static situ_status begin_mirrored(void *state, const situ_comm_transfer *t, void **request, situ_comm_report *report) {
  mirror *m = state;
  situ_comm_transfer *to = t->op == SITU_COMM_RECEIVE ? &m->receive : t->op == SITU_COMM_SEND ? &m->send : &m->values;
  (void)report;
  if (t->op == SITU_COMM_SEND && (m->came = (size_t)t->count <= sizeof m->header))
    memcpy(m->header, t->send, (size_t)t->count);
  *to = *t;
  *request = to;
  return SITU_OK;
}
static situ_status test_mirrored(void *state, void *request, bool *done, situ_comm_report *report) {
  mirror *m = state;
  (void)report;
  *done = request == &m->send || (request == &m->receive && m->came);
  if (request == &m->receive && *done) {
    memcpy(m->receive.receive, m->header, (size_t)m->send.count);
    m->came = false;
  }
  return SITU_OK;
}
static bool abandon_mirrored(void *state, void *request) { return request != &((mirror *)state)->values; }
static const situ_comm_engine mirror_engine = { .name = "mirror",
                                                .begin = begin_mirrored,
                                                .test = test_mirrored,
                                                .abandon = abandon_mirrored,
                                                .release = release_quietly };

/* Of LeakSanitizer, where it is there. */
void __lsan_disable(void) __attribute__((weak));
void __lsan_enable(void) __attribute__((weak));

static situ_tensor *filled(double value) {
  enum { COUNT = 1 << 14 };
  return situ_full(SITU_SHAPE(COUNT), value, NULL);
}

static void what_an_engine_may_still_read_stays(void **state) {
  (void)state;
  static mirror m;
  situ_scope s;
  situ_comm *c = situ_comm_new(&mirror_engine, &m, 0, 2, &(situ_comm_options){ .deadline = 0.05 });
  situ_scope_begin(&s);
  if (__lsan_disable) __lsan_disable();
  situ_tensor *t = filled(3);
  assert_int_equal(situ_comm_all_reduce(c, t, SITU_COMM_SUM, "t"), SITU_E_TIMEOUT);
  if (__lsan_enable) __lsan_enable();
  situ_error_clear();
  assert_ptr_equal(m.values.send, situ_data_ptr(t)); /* it was not copied */
  SITU_IGNORE(situ_scope_end(&s));
  situ_scope_begin(&s);
  for (int i = 0; i < 4; i++) assert_non_null(filled(4)); /* what was freed is used again */
  for (int i = 0; i < m.values.count; i++) assert_true(((const float *)m.values.send)[i] == 3);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  situ_comm_free(c);
}

int main(void) {
  heap_count();
  const struct CMUnitTest tests[] = { TEST(a_pass_costs_the_same_for_any_number_of_ranks),
                                      TEST(headers_that_were_taken_leave_no_memory),
                                      TEST(a_call_has_log_2_headers_a_rank),
                                      TEST(worlds_are_large),
                                      TEST(a_rank_that_is_late_is_named_by_all),
                                      TEST(a_rank_that_is_lost_is_named_by_all),
                                      TEST(a_barrier_is_its_headers),
                                      TEST(two_ranks_add_in_one_call),
                                      cmocka_unit_test(what_an_engine_may_still_read_stays) /* which is a leak */ };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
