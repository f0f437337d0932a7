/* What a communicator costs beside the number of its ranks: the transfers that a pass looks at, and the memory of headers
   that have come early. */
/* test-devices: cpu */
#include "distributed/comm/comm.h"
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
  static situ_comm *c[SITU_COMM_SIM_MAX];
  static situ_comm_request *requests[SITU_COMM_SIM_MAX];
  static int64_t mine[SITU_COMM_SIM_MAX], all[SITU_COMM_SIM_MAX][SITU_COMM_SIM_MAX];
  for (int size = 4, rounds = 2; size <= SITU_COMM_SIM_MAX; size *= 8, rounds += 3) {
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

int main(void) {
  heap_count();
  const struct CMUnitTest tests[] = { TEST(a_pass_costs_the_same_for_any_number_of_ranks),
                                      TEST(headers_that_were_taken_leave_no_memory),
                                      TEST(a_call_has_log_2_headers_a_rank) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
