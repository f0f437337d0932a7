/* Calls of more elements than the engine carries in one transfer go in pieces, or are refused before anything is sent. */
/* test-devices: cpu */
#include "distributed/comm/sim.h"
#include "distributed/comm/comm.h"
#include "distributed/must.h"
#include "distributed/world.h"

enum { RANKS = 3, MOST = 7, LONG = 20, SHORT = 3, ROUNDS = 4 };

static situ_comm_engine small;

typedef struct seen {
  double got[RANKS][ROUNDS][2][LONG], from[RANKS][ROUNDS][LONG], last[RANKS][ROUNDS];
  int64_t transfers[RANKS];
} seen;

/* What element i of a rank is in a round. */
static double value(int rank, int round, int i) { return 1000 * round + 100 * rank + i; }

/* Several calls at once, long ones before short ones; they end in any order. */
static void carry(world_rank *self) {
  seen *s = self->payload;
  const int r = self->rank, next = (r + 1) % RANKS, before = (r + RANKS - 1) % RANKS;
  const int64_t begun = situ_comm_sim_transfers(self->world, r);
  self->comm->host.engine = &small;
  for (int round = 0; round < ROUNDS; round++) {
    double mine[LONG], one = value(r, round, 0);
    for (int i = 0; i < LONG; i++) mine[i] = value(r, round, i);
    const situ_comm_call calls[] = {
      { SITU_COMM_BROADCAST, .dtype = SITU_F64, .count = LONG, .peer = 1, .send = mine,
        .receive = s->got[r][round][0] },
      { SITU_COMM_ALL_REDUCE, .dtype = SITU_F64, .count = LONG, .send = mine, .receive = s->got[r][round][1] },
      { SITU_COMM_ALL_REDUCE, .dtype = SITU_F64, .count = 1, .send = &one, .receive = &s->last[r][round] },
      { SITU_COMM_SEND, .dtype = SITU_F64, .count = LONG, .peer = next, .send = mine },
      { SITU_COMM_SEND, .dtype = SITU_F64, .count = SHORT, .peer = next, .send = mine },
      { SITU_COMM_RECEIVE, .dtype = SITU_F64, .count = LONG, .peer = before, .receive = s->from[r][round] },
      { SITU_COMM_RECEIVE, .dtype = SITU_F64, .count = SHORT, .peer = before, .receive = s->from[r][round] },
    };
    enum { CALLS = sizeof calls / sizeof *calls };
    situ_comm_request *requests[CALLS];
    for (int k = 0; k < CALLS; k++) MUST(situ_comm_begin(self->comm, &calls[k], &requests[k]) == SITU_OK);
    MUST(situ_comm_wait(requests[6]) == SITU_OK); /* what it brings is overwritten by the longer one before it */
    for (int k = 0; k < 6; k++) MUST(situ_comm_wait(requests[k]) == SITU_OK);
  }
  const situ_comm_call blocks = { SITU_COMM_ALL_GATHER, .dtype = SITU_F64, .count = MOST + 1, .send = s, .receive = s };
  MUST(situ_comm_run(self->comm, &blocks) == SITU_E_LIMIT);
  MUST(strstr(situ_error_message(), "all_gather of 8 elements a rank, and sim carries at most 7"));
  situ_error_clear();
  MUST(situ_comm_barrier(self->comm, "behind it") == SITU_OK);
  s->transfers[r] = situ_comm_sim_transfers(self->world, r) - begun;
out:;
}

static void long_calls_go_in_pieces(void **state) {
  (void)state;
  small = situ__comm_sim_engine;
  small.most = MOST;
  for (int delays = 0; delays < 8; delays++) {
    static seen s;
    world_rank ranks[WORLD_MOST];
    s = (seen){ .transfers = { 0 } };
    const situ_comm_sim_options options = { .seed = (uint64_t)delays, .max_delay = delays ? 2e-3 : 0 };
    world_run(situ_comm_sim_new(RANKS, &options), ranks, RANKS, carry, &s, 60);
    for (int r = 0; r < RANKS; r++) {
      expect_rank_ok(&ranks[r]);
      /* A round has two headers of each collective, one of each SEND and RECEIVE, and the receives of those that come;
         then three pieces of each long call, and one of each short one. At the end there is a barrier, which is its
         headers. */
      assert_int_equal(s.transfers[r], ROUNDS * (2 * (3 * 2 + 4) + 4 * 3 + 3) + 2 * 2);
      for (int round = 0; round < ROUNDS; round++) {
        assert_true(s.last[r][round] == 3 * value(1, round, 0));
        for (int i = 0; i < LONG; i++) {
          assert_true(s.got[r][round][0][i] == value(1, round, i));
          assert_true(s.got[r][round][1][i] == 3 * value(1, round, i));
          assert_true(s.from[r][round][i] == value((r + RANKS - 1) % RANKS, round, i));
        }
      }
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(long_calls_go_in_pieces) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
