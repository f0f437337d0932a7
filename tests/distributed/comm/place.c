/* Placement over several ranks: snapshots and lock files of all, plans and checks of all, moves that all make or none.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
#include <string.h>
#include <unistd.h>

#include "situ/dist.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"

#include "distributed/must.h"
#include "distributed/world.h"

enum { RANKS = 3, TEXT = 1 << 14 };

/* What each rank has and does; its results. */
typedef struct job {
  situ_nn_module *model[RANKS];
  situ_nn_to_options to[RANKS];
  situ_tree *inputs[RANKS];
  situ_place_report report[RANKS];
  situ_place_plan plans[RANKS][RANKS];
  situ_snapshot *snapshot[RANKS];
  char text[RANKS][TEXT];
  const char *path;
  uint64_t nth; /* the allocation, of any rank, that fails */
} job;

static situ_nn_module *make_model(void) {
  situ_nn_module *m = situ_nn_sequential(situ_nn_linear(6, 8, NULL), situ_nn_relu(), situ_nn_linear(8, 3, NULL));
  assert_non_null(m);
  return m;
}

static void begin(job *j) {
  *j = (job){ .path = "place.lock" };
  for (int r = 0; r < RANKS; r++) {
    situ_manual_seed(7);
    j->model[r] = make_model();
    j->to[r] = (situ_nn_to_options){ .device = situ_dev("sim:0") };
  }
  /* rank 1 keeps its last layer elsewhere */
  assert_int_equal(situ_nn_to_map(j->model[1], "2=sim:1"), SITU_OK);
}

static void end(job *j) {
  for (int r = 0; r < RANKS; r++) {
    situ_nn_free(j->model[r]);
    situ_tree_free(j->inputs[r]);
    situ_snapshot_free(j->snapshot[r]);
    situ_place_report_free(&j->report[r]);
  }
}

static void run(job *j, world_rank ranks[RANKS], void (*fn)(world_rank *)) {
  world_run(situ_comm_sim_new(RANKS, &(situ_comm_sim_options){ .seed = 3, .max_delay = 1e-4 }), ranks, RANKS, fn, j,
            20);
}

/* ---- snapshots ---- */

static void take(world_rank *self) {
  job *j = self->payload;
  j->snapshot[self->rank] = situ_dist_snapshot(j->model[self->rank], self->comm);
}

static void expect_text(const char *text, const char *part) {
  if (!strstr(text, part)) fail_msg("lacks \"%s\":\n%s", part, text);
}

static void all_ranks_see_all(void **state) {
  (void)state;
  job j;
  world_rank ranks[RANKS];
  char text[TEXT], json[TEXT];
  begin(&j);
  run(&j, ranks, take);
  for (int r = 0; r < RANKS; r++) {
    expect_rank_ok(&ranks[r]);
    assert_int_equal(situ_place_diff(j.snapshot[0], j.snapshot[r], text, sizeof text), 0);
  }
  /* a root, and for each rank a root, three layers and four tensors */
  assert_int_equal(situ_snapshot_count(j.snapshot[2]), 1 + RANKS * (1 + 3 + 4));
  const situ_place_entry *e = situ_snapshot_at(j.snapshot[2], 1 + (1 + 3 + 4) + 6);
  assert_string_equal(e->path, "rank 1.2.weight");
  assert_int_equal(e->rank, 1);
  assert_true(situ_device_equal(e->device, situ_dev("sim:1")));

  assert_in_range(
      situ_snapshot_to_string(j.snapshot[0], &(situ_place_print_options){ .ascii = true }, text, sizeof text), 1,
      sizeof text - 1);
  expect_text(text, "rank 1: Sequential");
  expect_text(text, "mixed (rank 1, cpu 224 B; rank 1, sim:1 108 B)");
  expect_text(text, "total      996 B in 12 tensors on 4 devices");
  expect_text(text, "\nrank 1, sim:1         108 B  10.8 %");
  assert_in_range(situ_snapshot_json(j.snapshot[0], json, sizeof json), 1, sizeof json - 1);
  expect_text(json, "{\"rank\": 1, \"device\": \"sim:1\", \"bytes\": 108, \"tensors\": 2}");
  expect_text(json, "{\"path\": \"rank 2.0.bias\", \"role\": \"parameter\", \"rank\": 2, \"device\": \"cpu\"");
  assert_int_equal(situ_snapshot_svg(j.snapshot[0], "ranks.svg", NULL), SITU_OK);
  end(&j);
}

/* placement: H7 */
static void a_lock_file_has_all_ranks(void **state) {
  (void)state;
  job j;
  world_rank ranks[RANKS];
  begin(&j);
  run(&j, ranks, take);
  assert_int_equal(situ_snapshot_lock_write(j.snapshot[0], j.path), SITU_OK);
  assert_int_equal(situ_snapshot_lock_check(j.snapshot[2], j.path), SITU_OK);
  for (int r = 0; r < RANKS; r++) situ_snapshot_free(j.snapshot[r]);
  assert_int_equal(situ_nn_to(j.model[1], situ_dev("cpu")), SITU_OK);
  run(&j, ranks, take);
  assert_int_equal(situ_snapshot_lock_check(j.snapshot[0], j.path), SITU_E_STATE);
  expect_text(situ_error_message(), "2 tensors are not as place.lock says:\nrank 1.2.bias: sim:1 -> cpu\n");
  situ_error_clear();
  end(&j);
}

/* ---- moves ---- */

static void move(world_rank *self) {
  job *j = self->payload;
  if (self->rank == 1) situ_fail_allocation(j->nth, false);
  SITU_IGNORE(situ_dist_to(j->model[self->rank], self->comm, &j->to[self->rank]));
  if (self->rank == 1) situ_fail_allocation(0, false);
}

/* Every module is where begin() put it, with its bits. */
static void expect_unmoved(const job *j, const char *when) {
  situ_manual_seed(7);
  situ_nn_module *want = make_model();
  for (int r = 0; r < RANKS; r++) {
    expect_equal_models(j->model[r], want, when, RANKS);
    const situ_device first = situ_device_of(situ_nn_get_tensor(j->model[r], "0.weight")),
                      last = situ_device_of(situ_nn_get_tensor(j->model[r], "2.weight"));
    if (!situ_device_equal(first, situ_dev("cpu")) || !situ_device_equal(last, situ_dev(r == 1 ? "sim:1" : "cpu")))
      fail_msg("%s: a tensor of rank %d has moved", when, r);
  }
  situ_nn_free(want);
}

static void expect_refused_by(const world_rank ranks[RANKS], int rank, situ_status status, const char *part) {
  char heard[64];
  (void)snprintf(heard, sizeof heard, "rank %d: ", rank);
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(ranks[r].status, r == rank ? status : SITU_E_COMM);
    expect_text(ranks[r].message, part);
    if (r != rank) expect_text(ranks[r].message, heard);
  }
}

static void all_move_or_none(void **state) {
  (void)state;
  job j;
  world_rank ranks[RANKS];
  begin(&j);
  j.to[2] = (situ_nn_to_options){ .map = "9=sim:0" };
  run(&j, ranks, move);
  expect_refused_by(ranks, 2, SITU_E_ARG, "\"9\" matches no module");
  expect_unmoved(&j, "a map that matches nothing");

  /* found while the copies are made: rank 0 casts a value that does not fit */
  j.to[2] = (situ_nn_to_options){ .device = situ_dev("sim:1") };
  j.to[0] = (situ_nn_to_options){ .device = situ_dev("sim:0"), .dtype = SITU_F16 };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *bias = situ_nn_get_tensor(j.model[0], "2.bias"), *kept = situ_clone(bias);
  assert_non_null(situ_fill_(bias, 1e30));
  run(&j, ranks, move);
  expect_refused_by(ranks, 0, SITU_E_OVERFLOW, "finite values would become infinite");
  assert_non_null(situ_copy_(bias, kept));
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  expect_unmoved(&j, "a value that does not fit");

  run(&j, ranks, move);
  for (int r = 0; r < RANKS; r++) {
    expect_rank_ok(&ranks[r]);
    situ_placement where;
    assert_int_equal(situ_place_of(j.model[r], &where), SITU_OK);
    assert_true(!where.mixed && situ_device_equal(where.device, situ_dev(r == 2 ? "sim:1" : "sim:0")));
  }
  end(&j);
}

/* Each allocation fails in turn, of whichever rank: nothing moves anywhere, or all of it. */
static void memory_fails(void **state) {
  (void)state;
  int moved = 0;
  for (uint64_t nth = 1; !moved; nth++) {
    job j;
    world_rank ranks[RANKS];
    begin(&j);
    j.nth = nth;
    run(&j, ranks, move);
    int good = 0;
    for (int r = 0; r < RANKS; r++) good += ranks[r].status == SITU_OK;
    if (good == 0) expect_unmoved(&j, "an allocation fails");
    else if (good == RANKS) moved++;
    else fail_msg("allocation %d: %d of %d ranks have moved: %s", (int)nth, good, RANKS, ranks[1].message);
    assert_true(nth < 500);
    end(&j);
  }
}

/* ---- plans and checks ---- */

static void plan(world_rank *self) {
  job *j = self->payload;
  const int r = self->rank;
  const int64_t length =
      situ_dist_plan_to_string(j->model[r], self->comm, &j->to[r], j->plans[r], j->text[r], sizeof j->text[r]);
  if (length >= 0) MUST(length == (int64_t)strlen(j->text[r]));
out:;
}

static void plans_are_those_of_all_ranks(void **state) {
  (void)state;
  job j;
  world_rank ranks[RANKS];
  begin(&j);
  assert_int_equal(situ_sim_budget(1, 256), SITU_OK);
  j.to[2] = (situ_nn_to_options){ .device = situ_dev("sim:1") };
  run(&j, ranks, plan);
  for (int r = 0; r < RANKS; r++) {
    expect_rank_ok(&ranks[r]);
    assert_string_equal(j.text[r], j.text[0]);
    assert_memory_equal(j.plans[r], j.plans[0], sizeof j.plans[0]);
    situ_place_plan own;
    assert_true(situ_place_plan_to_string(j.model[r], &j.to[r], &own, NULL, 0) > 0);
    assert_int_equal(own.bytes, j.plans[0][r].bytes);
    assert_int_equal(own.peak, j.plans[0][r].peak);
    assert_int_equal(own.status, j.plans[0][r].status);
  }
  expect_text(j.text[0], "it can be made\n");
  expect_text(j.text[0], "it would be refused: ");
  assert_int_equal(j.plans[0][2].status, SITU_E_NOMEM);
  run(&j, ranks, move);
  expect_refused_by(ranks, 2, SITU_E_NOMEM, "sim:1");
  expect_unmoved(&j, "a device that is full");
  assert_int_equal(situ_sim_budget(1, UINT64_C(1) << 30), SITU_OK);
  end(&j);
}

static void check(world_rank *self) {
  job *j = self->payload;
  const int r = self->rank;
  SITU_IGNORE(situ_dist_check(j->model[r], j->inputs[r], self->comm, NULL, &j->report[r]));
}

static void a_mistake_of_one_rank_is_told_to_all(void **state) {
  (void)state;
  job j;
  world_rank ranks[RANKS];
  begin(&j);
  for (int r = 0; r < RANKS; r++) j.inputs[r] = situ_tree_tensor(situ_ones(SITU_SHAPE(2, 6), NULL));
  run(&j, ranks, check); /* rank 1's layers are on two devices */
  for (int r = 0; r < RANKS; r++) {
    assert_int_equal(ranks[r].status, SITU_E_STATE);
    expect_text(ranks[r].message, "rank 1: ");
    assert_int_equal(j.report[r].mistakes, r == 1);
    situ_place_report_free(&j.report[r]);
  }
  assert_int_equal(situ_nn_to(j.model[1], situ_dev("cpu")), SITU_OK);
  run(&j, ranks, check);
  for (int r = 0; r < RANKS; r++) {
    expect_rank_ok(&ranks[r]);
    assert_true(j.report[r].finished);
  }
  end(&j);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(all_ranks_see_all), TEST(a_lock_file_has_all_ranks),    TEST(all_move_or_none),
    TEST(memory_fails),      TEST(plans_are_those_of_all_ranks), TEST(a_mistake_of_one_rank_is_told_to_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
