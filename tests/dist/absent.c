/* A build without SITU_DIST: every way to a communicator says so, and arguments that a call owns are freed. */
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/test.h"

static void expect_absent(const char *op) { expect_error(SITU_E_UNSUPPORTED, op, "without SITU_DIST"); }

static int releases;
static void count_release(void *state, bool failed) {
  if (!state && !failed) releases++;
}

static void ranks_are_refused(void **state) {
  (void)state;
  const situ_comm_engine engine = { .name = "none", .release = count_release };
  assert_null(situ_comm_sim_new(2, NULL));
  expect_absent("comm_sim_new");
  assert_null(situ_comm_new(&engine, NULL, 0, 1, NULL));
  expect_absent("comm_new");
  assert_int_equal(releases, 1);
  situ_nn_module *m = situ_nn_linear(2, 2, NULL);
  assert_null(situ_dist_ddp_new(m, NULL, NULL));
  expect_absent("dist_ddp_new");
  assert_null(situ_dist_zero_new(situ_nn_parameters(m), NULL, situ_optim_sgd, NULL));
  expect_absent("dist_zero_new");
  assert_null(situ_dist_zero2_new(situ_nn_parameters(m), NULL, situ_optim_sgd, NULL));
  expect_absent("dist_zero2_new");
  assert_null(situ_dist_zero3_new(situ_nn_parameters(m), NULL, NULL, situ_optim_sgd, NULL));
  expect_absent("dist_zero3_new");
  assert_int_equal(situ_dist_zero_add_param_group(NULL, situ_nn_parameters(m), NULL), SITU_E_UNSUPPORTED);
  expect_absent("dist_zero_add_param_group");
  assert_int_equal(situ_dist_checkpoint_save("x", NULL, &(situ_dist_checkpoint){ .model = m }, NULL),
                   SITU_E_UNSUPPORTED);
  expect_absent("dist_checkpoint_save");
  assert_null(situ_nn_sync_batch_norm(2, NULL, NULL));
  expect_absent("nn_sync_batch_norm");
  assert_null(situ_dist_tp_new(m, NULL, &(situ_dist_parallel){ .path = "x" }, 1));
  expect_absent("dist_tp_new");
  situ_dist_tp_free(NULL);
  situ_comm_free(NULL);
  situ_dist_ddp_free(NULL);
  situ_dist_zero_free(NULL);
  situ_nn_free(m);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(ranks_are_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
