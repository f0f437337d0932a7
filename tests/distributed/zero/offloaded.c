/* Training over ranks of modules that compute on sim:0 while their tensors are on the host, also in a file: by ddp and in
   each stage of ZeRO the bits of one process with all on the device. */
/* test-devices: sim:0 */
#include <stdlib.h>
#include <unistd.h>

#include "distributed/divided.h"

static situ_nn_module *offloaded(const dist_kind *kind, int rank, bool file) {
  char path[64];
  (void)snprintf(path, sizeof path, "/tmp/situ-ranks-%d-%d", (int)getpid(), rank);
  situ_nn_module *m = model_of(kind);
  assert_int_equal(situ_nn_to(m, situ_dev("cpu")), SITU_OK);
  assert_int_equal(situ_nn_offload(m, test_device()), SITU_OK);
  if (file) assert_int_equal(situ_nn_to_scratch(m, path, NULL), SITU_OK);
  return m;
}

static divided training_of(int kind, int stage) {
  static const optim_change none[OPTIM_CHANGES] = { { 0 } };
  return (divided){ .kind = &dist_kinds[kind],
                    .make = situ_optim_adamw,
                    .lr = 0.01,
                    .change = none,
                    .parts = stage == 2,
                    .shards = stage == 3,
                    .to = 3 };
}

static void train_offloaded(int kind, int stage, bool file) {
  divided t = training_of(kind, stage);
  situ_tree *want;
  int64_t bytes;
  situ_nn_module *alone = train_alone(&t, &want, &bytes);
  for (int r = 0; r < 2; r++) t.model[r] = offloaded(t.kind, r, file);
  run_world(&t, 2);
  for (int r = 0; r < 2; r++) {
    assert_true(situ_device_equal(situ_nn_offloaded_to(t.model[r]), test_device()));
    expect_equal_models(t.model[r], alone, t.kind->name, 2);
    situ_nn_free(t.model[r]);
  }
  situ_tree_free(want);
  situ_tree_free(t.end);
  situ_nn_free(alone);
}

static void offloaded_modules_train_over_ranks(void **state) {
  (void)state;
  for (int k = 0; k < DIST_KINDS; k++)
    for (int stage = 1; stage < 4; stage++) train_offloaded(k, stage, false);
  for (int stage = 1; stage < 3; stage++) train_offloaded(0, stage, true);
}

/* Stage 3 gives memory up that is not in use, and that of a file stays. */
static void parameters_in_a_file_are_not_divided(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  divided t = training_of(0, 3);
  for (int r = 0; r < 2; r++) t.model[r] = offloaded(t.kind, r, true);
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, train_rank, &t, 20);
  for (int r = 0; r < 2; r++) {
    assert_int_not_equal(ranks[r].status, SITU_OK);
    assert_non_null(strstr(ranks[r].message, "memory for itself alone, but a file's: bring its module back"));
    situ_nn_free(t.model[r]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(offloaded_modules_train_over_ranks),
                                      TEST(parameters_in_a_file_are_not_divided) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
