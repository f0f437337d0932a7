/* Every call of CUDA's and NCCL's that a rank makes is failed once, on the doubles: each failure is reported, or made good;
   no tensor that an error has left is wrong, nothing leaks, and the device is well or lost.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include "situ/nccl.h"
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/cuda/faults.h"

static bool is_whole(situ_tensor *t) {
  int64_t got[64];
  if (situ_copy_to_host(t, got, sizeof got) != SITU_OK) return true; /* the device is lost */
  for (int i = 0; i < 64; i++)
    if (got[i] != i) return false;
  return true;
}

static situ_status use(situ_comm *comm, situ_tensor *t) {
  SITU_TRY(situ_comm_use_nccl(comm, situ_dev("cuda:0")));
  SITU_TRY(situ_comm_all_reduce(comm, t, SITU_COMM_SUM, "sum"));
  situ_tensor *all = situ_comm_all_gather(comm, t, "gather");
  situ_tensor *swapped = situ_comm_all_to_all(comm, all, "exchange");
  if (!swapped) return situ_error();
  CHECK(is_whole(all) && is_whole(swapped));
  SITU_TRY(situ_error());
  SITU_TRY(situ_comm_broadcast(comm, t, 0, "values"));
  return situ_comm_reduce_scatter(comm, all, SITU_COMM_MAX, "scatter") ? SITU_OK : situ_error();
}

/* A failure ends a communicator; a tensor on the device has all of its values, or the old ones. */
static situ_status scenario(void) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, &(situ_comm_options){ .deadline = 5 });
  situ_comm_sim_free(world);
  situ_tensor *t = situ_arange(0, 64, 1, &(situ_options){ .device = situ_dev("cuda:0") });
  situ_status status = t && comm ? use(comm, t) : situ_error();
  const situ_status first = situ_error();
  CHECK(status == first);
  situ_error_clear();
  CHECK(!t || is_whole(t));
  situ_error_clear();
  situ_comm_free(comm);
  CHECK(cuda_double_state()->ranks == 0);
  SITU_IGNORE(situ_scope_end(&s));
  situ_error_clear();
  return status;
}

static void failing_body(void *payload) {
  faults *f = payload;
  CHECK(situ_device_count("cuda") == 2); /* what fails before is backend/cuda/faults' */
  faults_arm(f);
  const situ_status first = scenario();
  faults_disarm(f, first);
  const situ_status second = scenario();
  if (second == SITU_E_UNSUPPORTED) CHECK(f->hit && first == second); /* NCCL is opened once */
  else faults_look(f, second, situ_dev("cuda:0"));
  situ_error_clear();
  faults_count(f);
}

static void a_call_without_memory_is_reported_or_made_good(void **state) {
  (void)state;
  assert_true(faults_walk(failing_body, cudaErrorMemoryAllocation, false) > 50);
}
static void a_broken_device_is_lost(void **state) {
  (void)state;
  assert_true(faults_walk(failing_body, cudaErrorLaunchFailure, false) > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_call_without_memory_is_reported_or_made_good),
                                      TEST(a_broken_device_is_lost) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
