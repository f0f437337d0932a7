/* Collective calls of a program's own hook in a check, which one rank alone makes: shapes, and the refusals of the real
   calls; nothing is sent, and calls on their way stay there.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu sim:0 */
#include "distributed/must.h"
#include "distributed/world.h"
#include "situ/comm.h"
#include "situ/place.h"

typedef struct caller {
  world_rank *self;
  situ_comm_request *begun; /* outside of the check */
  int calls;
  bool good;
} caller;

static bool has_shape(const situ_tensor *t, situ_shape want) {
  const situ_shape got = t ? situ_shape_of(t) : (situ_shape){ .ndim = -1 };
  return got.ndim == want.ndim && memcmp(got.dim, want.dim, (size_t)want.ndim * sizeof *want.dim) == 0;
}

/* Refused with these words, and reported as a finding. */
static bool is_refused(situ_status status, const char *words) {
  const bool is = status != SITU_OK && strstr(situ_error_message(), words);
  situ_error_clear();
  return is;
}

static bool call_on_tensors(situ_comm *comm, situ_tensor *x) {
  const situ_options like = { .device = situ_device_of(x) };
  situ_tensor *flags = situ_zeros(SITU_SHAPE(2), &(situ_options){ .dtype = SITU_BOOL });
  situ_tensor *rows = situ_zeros(SITU_SHAPE(2, 3), &like), *row = situ_zeros(SITU_SHAPE(3), &like);
  return has_shape(situ_comm_all_gather(comm, row, "a"), SITU_SHAPE(2, 3)) &&
         has_shape(situ_comm_all_to_all(comm, rows, "b"), SITU_SHAPE(2, 3)) &&
         has_shape(situ_comm_reduce_scatter(comm, rows, SITU_COMM_SUM, "c"), SITU_SHAPE(3)) &&
         situ_comm_all_reduce(comm, row, SITU_COMM_SUM, "d") == SITU_OK &&
         situ_comm_broadcast(comm, row, 1, "e") == SITU_OK && situ_comm_send(comm, row, 1, "f") == SITU_OK &&
         situ_comm_receive(comm, row, 1, "g") == SITU_OK && situ_comm_barrier(comm, "h") == SITU_OK &&
         is_refused(situ_comm_send(comm, row, 0, "i"), "peer") &&
         is_refused(situ_comm_all_reduce(comm, flags, SITU_COMM_SUM, "j"), "convert it");
}

static bool call_on_host(situ_comm *comm) {
  double mine = 1, sum = 7;
  bool done = false;
  situ_comm_request *r;
  const situ_comm_call add = {
    .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F64, .count = 1, .send = &mine, .receive = &sum, .name = "k"
  };
  const situ_comm_call meet = { .op = SITU_COMM_BARRIER, .name = "l" };
  return is_refused(situ_comm_run(comm, &add), "no values") && sum == 7 && situ_comm_run(comm, &meet) == SITU_OK &&
         situ_comm_begin(comm, &add, &r) == SITU_OK && situ_comm_test(r, &done) == SITU_OK && done &&
         is_refused(situ_comm_wait(r), "no values") && sum == 7;
}

static situ_status make_calls(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  caller *c = payload;
  bool done = true;
  (void)m, (void)output;
  c->calls++;
  c->good = call_on_tensors(c->self->comm, situ_tree_tensor_at(*inputs, 0)) && call_on_host(c->self->comm) &&
            situ_comm_test(c->begun, &done) == SITU_OK && is_refused(situ_comm_wait(c->begun), "no values");
  situ_comm_abort(c->self->comm, "not in a check");
  return SITU_OK;
}

static void check_on_one_rank(world_rank *self) {
  caller c = { .self = self };
  double mine = self->rank + 1, sum = 0;
  const situ_comm_call add = {
    .op = SITU_COMM_ALL_REDUCE, .dtype = SITU_F64, .count = 1, .send = &mine, .receive = &sum, .name = "real"
  };
  situ_nn_module *m = at_home(situ_nn_linear(3, 3, NULL));
  situ_tree *in = SITU_TREE(situ_ones(SITU_SHAPE(2, 3), &(situ_options){ .device = test_device() }));
  situ_place_report report;
  if (self->rank == 0) {
    MUST(situ_comm_begin(self->comm, &add, &c.begun) == SITU_OK);
    MUST(situ_nn_register_forward_pre_hook(m, make_calls, &c, NULL) == SITU_OK);
    const int64_t sent = situ_comm_sim_transfers(self->world, 0);
    MUST(situ_place_check(m, in, NULL, &report) == SITU_OK);
    const bool finished = report.finished;
    situ_place_report_free(&report);
    MUST(finished && c.calls == 1 && c.good && situ_comm_sim_transfers(self->world, 0) == sent);
    MUST(situ_comm_wait(c.begun) == SITU_OK);
  } else {
    MUST(situ_comm_run(self->comm, &add) == SITU_OK);
  }
  MUST(sum == 3);
  MUST(situ_comm_barrier(self->comm, "end") == SITU_OK);
out:
  situ_tree_free(in);
  situ_nn_free(m);
}

static void calls_of_a_hook(void **state) {
  world_rank ranks[WORLD_MOST];
  (void)state;
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, check_on_one_rank, NULL, 20);
  for (int r = 0; r < 2; r++) expect_rank_ok(&ranks[r]);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(calls_of_a_hook) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
