/* NCCL on its double: ranks are threads, each with a device of its own. Values, calls that do not match, every call failed
   once, transfers that hang or fail on schedule, and what is said where NCCL is missing.
   SPDX-License-Identifier: MIT */
/* test-links: situ_test_cuda */
#include "situ/nccl.h"

#include <time.h>

#include "backend/cuda/nccl.h"
#include "distributed/must.h"
#include "distributed/world.h" /* its ranks do not join by themselves here: SITU_TEST_DEVICE is the cpu */
#include "situ/situ.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"

/* What the module declares for itself is what NCCL's header says. */
#if __has_include(<nccl.h>)
#include <nccl.h>
_Static_assert(sizeof(ncclUniqueId) == sizeof(situ__nccl_id), "");
_Static_assert(offsetof(ncclConfig_t, magic) == offsetof(situ__nccl_config, magic), "");
_Static_assert(offsetof(ncclConfig_t, version) == offsetof(situ__nccl_config, version), "");
_Static_assert(offsetof(ncclConfig_t, blocking) == offsetof(situ__nccl_config, blocking), "");
_Static_assert(offsetof(ncclConfig_t, cgaClusterSize) == offsetof(situ__nccl_config, clusters), "");
_Static_assert(NCCL_CONFIG_UNDEF_INT == SITU__NCCL_UNSET && NCCL_VERSION(2, 14, 0) == SITU__NCCL_LEAST, "");
_Static_assert((int)ncclSuccess == SITU__NCCL_SUCCESS && (int)ncclInvalidUsage == SITU__NCCL_INVALID_USAGE &&
                   (int)ncclInProgress == SITU__NCCL_IN_PROGRESS,
               "");
_Static_assert((int)ncclSum == SITU__NCCL_SUM && (int)ncclMax == SITU__NCCL_MAX && (int)ncclMin == SITU__NCCL_MIN, "");
_Static_assert((int)ncclInt8 == SITU__NCCL_INT8 && (int)ncclUint8 == SITU__NCCL_UINT8 &&
                   (int)ncclInt32 == SITU__NCCL_INT32 && (int)ncclInt64 == SITU__NCCL_INT64 &&
                   (int)ncclFloat32 == SITU__NCCL_FLOAT32 && (int)ncclFloat64 == SITU__NCCL_FLOAT64,
               "");
#endif

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static situ_device own_device(const world_rank *self) { return (situ_device){ SITU_CUDA, (uint16_t)self->rank }; }
static situ_options on_device(const world_rank *self) { return (situ_options){ .device = own_device(self) }; }

/* ---- what is missing, each in a process of its own -------------------------------------------- */

static void run(void (*body)(void *)) { assert_int_equal(in_child(body, NULL), 0); }
#define IN_CHILD(name)             \
  static void name(void **state) { \
    (void)state;                   \
    run(name##_body);              \
  }

static situ_status join_alone(void) {
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_comm *comm = situ_comm_sim_rank(world, 0, &(situ_comm_options){ .deadline = 5 });
  situ_comm_sim_free(world);
  (void)situ_error_mode(SITU_ERROR_QUIET);
  const situ_status status = situ_comm_use_nccl(comm, situ_dev("cuda:0"));
  if (status == SITU_E_UNSUPPORTED) { /* as before, without it */
    char why[1024];
    (void)snprintf(why, sizeof why, "%s", situ_error_message());
    *strchrnul(why, '\n') = 0;
    situ_error_clear();
    CHECK(situ_comm_barrier(comm, "it still works") == SITU_OK);
    CHECK(situ_comm_use_nccl(comm, situ_dev("cuda:0")) == SITU_E_UNSUPPORTED);
    CHECK(strncmp(why, situ_error_message(), strlen(why)) == 0);
  }
  situ_comm_free(comm);
  return status;
}

/* The runtime of the double, and this file as NCCL. */
static void runtime_and(const char *library) {
  char to[4096];
  runtime_alone();
  (void)snprintf(to, sizeof to, "%s/libnccl.so.2", getenv("SITU_CUDA_PATH"));
  (void)unlink(to);
  CHECK(symlink(library, to) == 0);
}

static void no_library_body(void *payload) {
  (void)payload;
  runtime_and("/nowhere/libnccl.so.2");
  CHECK(join_alone() == SITU_E_UNSUPPORTED);
  CHECK_ERROR(SITU_E_UNSUPPORTED, "NCCL cannot be used: /");
  CHECK(join_alone() == SITU_E_UNSUPPORTED);
  CHECK_ERROR(SITU_E_UNSUPPORTED, "/runtime/libnccl.so.2: cannot open shared object file");
}
static void no_symbol_body(void *payload) {
  char empty[4096];
  (void)payload;
  (void)snprintf(empty, sizeof empty, "%s/../empty/libcudart.so.13", getenv("SITU_CUDA_PATH"));
  runtime_and(empty);
  CHECK(join_alone() == SITU_E_UNSUPPORTED);
  CHECK_ERROR(SITU_E_UNSUPPORTED, "libnccl.so.2 has no ncclGetVersion");
}
/* The real library has all functions and a version; without a GPU it says that it cannot start, in its own words. */
static void the_real_library_body(void *payload) {
  (void)payload;
  if (!*SITU_TEST_NCCL || access("/dev/nvidiactl", F_OK) == 0) return;
  runtime_and(SITU_TEST_NCCL);
  const situ_status status = join_alone();
  (void)printf("%s\n", situ_error_message());
  CHECK(status == SITU_E_COMM);
  CHECK_ERROR(SITU_E_COMM, "cuda:0: nccl");
}
static void old_version_body(void *payload) {
  (void)payload;
  cuda_double_state()->nccl_version = 2804;
  CHECK(join_alone() == SITU_E_UNSUPPORTED);
  CHECK_ERROR(SITU_E_UNSUPPORTED, "version code 2804 is older than that of 2.14 (21400)");
}
IN_CHILD(no_library)
IN_CHILD(no_symbol)
IN_CHILD(the_real_library)
IN_CHILD(old_version)

/* ---- values ----------------------------------------------------------------------------------- */

static bool has(situ_tensor *t, int64_t count, double (*want)(int64_t i, int rank, int size), const world_rank *r) {
  double got[64];
  if (!t || situ_numel(t) != count || situ_device_of(t).kind != SITU_CUDA) return false;
  test_read(t, got);
  for (int64_t i = 0; i < count; i++)
    if (got[i] != want(i, r->rank, r->size)) return false;
  return true;
}
static situ_tensor *mine(const world_rank *self, situ_dtype dtype, int64_t rows, int64_t columns) {
  const situ_options options = on_device(self);
  situ_tensor *t = situ_add_scalar(situ_arange(0, (double)(rows * columns), 1, &options), 10.0 * self->rank);
  return situ_reshape(situ_to_dtype(t, dtype), SITU_SHAPE(rows, columns));
}
static double summed(int64_t i, int rank, int size) { return (double)(i * size) + 5.0 * size * (size - 1) + 0 * rank; }
static double largest(int64_t i, int rank, int size) { return (double)i + 10.0 * (size - 1) + 0 * rank; }
static double smallest(int64_t i, int rank, int size) { return (double)i + 0 * (rank + size); }
static double gathered(int64_t i, int rank, int size) {
  return (double)(i % 3) + 10.0 * (double)(i / 3) + 0 * (rank + size);
}
static double scattered(int64_t i, int rank, int size) { return summed(i + 2 * rank, rank, size); }
static double exchanged(int64_t i, int rank, int size) {
  return (double)(i % 2 + 2 * rank) + 10.0 * (double)(i / 2) + 0 * size;
}
static double from_before(int64_t i, int rank, int size) { return (double)i + 10.0 * ((rank + size - 1) % size); }

static void use_every_op(world_rank *self) {
  static const situ_dtype all[] = { SITU_F32, SITU_F64, SITU_I32, SITU_I64, SITU_U8, SITU_I8, SITU_BF16 };
  situ_comm *c = self->comm;
  const int n = self->size, after = (self->rank + 1) % n, before = (self->rank + n - 1) % n;
  situ_ledger ledger;
  MUST(situ_comm_use_nccl(c, own_device(self)) == SITU_OK);
  for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
    situ_tensor *sum = mine(self, all[k], 1, 5), *most = mine(self, all[k], 1, 5), *least = mine(self, all[k], 1, 5);
    situ_tensor *given = mine(self, all[k], 1, 5), *stack = mine(self, all[k], n, 2), *ring = mine(self, all[k], 1, 4);
    situ_tensor *part = NULL;
    const bool adds = all[k] != SITU_BF16;
    situ_ledger_begin_none(&ledger);
    if (adds) MUST(situ_comm_all_reduce(c, sum, SITU_COMM_SUM, "sum") == SITU_OK);
    if (adds) MUST(situ_comm_all_reduce(c, most, SITU_COMM_MAX, "max") == SITU_OK);
    if (adds) MUST(situ_comm_all_reduce(c, least, SITU_COMM_MIN, "min") == SITU_OK);
    if (adds) MUST((part = situ_comm_reduce_scatter(c, stack, SITU_COMM_SUM, "scatter")) != NULL);
    MUST(situ_comm_broadcast(c, given, n - 1, NULL) == SITU_OK);
    situ_tensor *rows = situ_comm_all_gather(c, situ_narrow(mine(self, all[k], 1, 5), 1, 0, 3), "gather");
    situ_tensor *swapped = situ_comm_all_to_all(c, stack, "exchange");
    if (n > 1 && self->rank == 0) MUST(situ_comm_send(c, mine(self, all[k], 1, 4), after, "ring") == SITU_OK);
    if (n > 1) MUST(situ_comm_receive(c, ring, before, "ring") == SITU_OK);
    if (n > 1 && self->rank) MUST(situ_comm_send(c, mine(self, all[k], 1, 4), after, "ring") == SITU_OK);
    MUST(situ_ledger_end(&ledger) == SITU_OK);
    MUST(!adds || (has(sum, 5, summed, self) && has(most, 5, largest, self) && has(least, 5, smallest, self)));
    MUST(!adds || has(part, 2, scattered, self));
    MUST(has(given, 5, largest, self) && has(rows, 3 * n, gathered, self) && has(swapped, 2 * n, exchanged, self));
    MUST(n == 1 || has(ring, 4, from_before, self));
  }
  MUST(situ_comm_barrier(c, "all") == SITU_OK);
out:;
}

static void every_op_has_its_values(void **state) {
  (void)state;
  for (int size = 1; size <= CUDA_DOUBLE_DEVICES; size++) {
    world_rank ranks[WORLD_MOST];
    world_run(situ_comm_sim_new(size, &(situ_comm_sim_options){ .seed = 7, .max_delay = size == 3 ? 2e-4 : 0 }), ranks,
              size, use_every_op, NULL, 20);
    for (int i = 0; i < size; i++) expect_rank_ok(&ranks[i]);
    assert_int_equal(cuda_double_state()->ranks, 0);
  }
}

/* ---- calls that do not match ------------------------------------------------------------------ */

static const struct {
  int64_t count; /* rank 1's */
  bool broadcasts;
  const char *name, *says;
} mismatches[] = { { 3, false, "loss", "3 x f32" },
                   { 2, false, "accuracy", "\"accuracy\"" },
                   { 2, true, "loss", "broadcast \"loss\"" } };

static void disagree(world_rank *self) {
  const size_t kind = self->rank == 1 ? *(const size_t *)self->payload : SIZE_MAX;
  const situ_options options = on_device(self);
  MUST(situ_comm_use_nccl(self->comm, own_device(self)) == SITU_OK);
  situ_tensor *t = situ_ones(SITU_SHAPE(self->rank == 1 ? mismatches[kind].count : 2), &options);
  const char *name = self->rank == 1 ? mismatches[kind].name : "loss";
  if (self->rank == 1 && mismatches[kind].broadcasts) MUST(situ_comm_broadcast(self->comm, t, 0, name) != SITU_OK);
  else MUST(situ_comm_all_reduce(self->comm, t, SITU_COMM_SUM, name) != SITU_OK);
  double got[3];
  char text[1024];
  (void)snprintf(text, sizeof text, "%s", situ_error_message());
  situ_error_clear();
  test_read(t, got);
  (void)situ_comm_refuse(got[0] == 1 && got[1] == 1 ? SITU_E_COMM : SITU_E_STATE, "test", text);
out:;
}

static void mismatches_are_refused(void **state) {
  (void)state;
  for (size_t kind = 0; kind < sizeof mismatches / sizeof *mismatches; kind++) {
    world_rank ranks[WORLD_MOST];
    const double begin = now();
    world_run(situ_comm_sim_new(3, NULL), ranks, 3, disagree, &kind, 20);
    assert_true(now() - begin < 10);
    for (int i = 0; i < 3; i++)
      if (ranks[i].status != SITU_E_COMM || !strstr(ranks[i].message, "do not match") ||
          !strstr(ranks[i].message, mismatches[kind].says))
        fail_msg("kind %zu, rank %d: %s", kind, i, ranks[i].message);
    assert_int_equal(cuda_double_state()->ranks, 0);
  }
}

/* ---- tensors elsewhere ------------------------------------------------------------------------ */

/* Rank 1's tensor is on the host, so that all ranks' values go through it: the others' ledgers count them. */
static void give_one_from_the_host(world_rank *self) {
  const situ_options on_host = { .device = situ_dev("cpu") }, own = on_device(self);
  const bool elsewhere = self->rank == 1;
  const int n = self->size;
  situ_ledger ledger;
  MUST(situ_comm_use_nccl(self->comm, own_device(self)) == SITU_OK);
  for (int k = 0; k < 3; k++) { /* between calls that stay on the devices */
    const bool mixed = k == 1;
    situ_tensor *t = situ_full(SITU_SHAPE(4), self->rank + k, mixed && elsewhere ? &on_host : &own);
    double got[4];
    situ_ledger_begin(&ledger);
    MUST(situ_comm_all_reduce(self->comm, t, SITU_COMM_SUM, "somewhere") == SITU_OK);
    MUST(situ_ledger_total(&ledger).bytes == (mixed && !elsewhere ? 32 : 0));
    MUST(situ_ledger_end(&ledger) == SITU_OK);
    test_read(t, got);
    MUST(got[0] == n * (n - 1) / 2 + k * n && got[3] == got[0]);
  }
  situ_tensor *t = situ_full(SITU_SHAPE(4), 7, &own), *into = situ_empty(SITU_SHAPE(4), elsewhere ? &on_host : &own);
  double got[4];
  if (self->rank == 0) MUST(situ_comm_send(self->comm, t, 1, "pair") == SITU_OK);
  if (self->rank == 1) MUST(situ_comm_receive(self->comm, into, 0, "pair") == SITU_OK);
  if (self->rank == 1) test_read(into, got);
  MUST(!elsewhere || (got[0] == 7 && got[3] == 7));
out:;
}
static void a_tensor_elsewhere_is_staged(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, give_one_from_the_host, NULL, 20);
  for (int i = 0; i < 3; i++) expect_rank_ok(&ranks[i]);
}

/* ---- failures --------------------------------------------------------------------------------- */

static void reduce_often(world_rank *self) {
  const situ_options options = on_device(self);
  MUST(situ_comm_use_nccl(self->comm, own_device(self)) == SITU_OK);
  for (int k = 0; k < 4; k++) {
    situ_tensor *t = situ_ones(SITU_SHAPE(3), &options);
    MUST(situ_comm_all_reduce(self->comm, t, SITU_COMM_SUM, "gradient") == SITU_OK);
  }
out:;
}

static void transfers_that_hang_or_fail(void **state) {
  (void)state;
  cuda_double *d = cuda_double_state();
  for (int fault = CUDA_DOUBLE_NCCL_HANGS; fault <= CUDA_DOUBLE_NCCL_FAILS; fault++)
    for (long nth = 1; nth <= 5; nth++) {
      world_rank ranks[WORLD_MOST];
      d->nccl_device = 1;
      d->nccl_nth = nth;
      d->nccl_fault = (cuda_double_nccl)fault;
      const double begin = now(), deadline = 0.3;
      world_run(situ_comm_sim_new(3, NULL), ranks, 3, reduce_often, NULL, deadline);
      assert_true(now() - begin < deadline + 3);
      assert_int_equal(d->nccl_nth, 0);
      assert_int_equal(d->ranks, 0);
      for (int i = 0; i < 3; i++) {
        const char *call = nth == 1 ? "trial of NCCL" : "all_reduce \"gradient\"";
        if (ranks[i].status != (fault == CUDA_DOUBLE_NCCL_HANGS ? SITU_E_TIMEOUT : SITU_E_COMM) ||
            !strstr(ranks[i].message, call) ||
            (fault == CUDA_DOUBLE_NCCL_FAILS && !strstr(ranks[i].message, "rank 1, cuda:1: ncclCommGetAsyncError")))
          fail_msg("fault %d at %ld, rank %d: %s", fault, nth, i, ranks[i].message);
      }
    }
}

/* A rank that dies, by the other engine. */
static void a_rank_is_lost(void **state) {
  (void)state;
  for (int nth = 14; nth <= 40; nth += 2) {
    world_rank ranks[WORLD_MOST];
    situ_comm_sim *world = situ_comm_sim_new(3, NULL);
    assert_int_equal(situ_comm_sim_fail(world, 1, SITU_COMM_SIM_DIE, nth), SITU_OK);
    const double begin = now();
    world_run(world, ranks, 3, reduce_often, NULL, 0.3);
    assert_true(now() - begin < 3.3);
    for (int i = 0; i < 3; i++)
      if (ranks[i].status != SITU_OK && ranks[i].status != SITU_E_COMM && ranks[i].status != SITU_E_TIMEOUT)
        fail_msg("rank %d: %s", i, ranks[i].message);
    assert_int_equal(cuda_double_state()->ranks, 0);
  }
}

/* Ranks of one device: NCCL refuses it, and says so. */
static void share_a_device(world_rank *self) {
  MUST(situ_comm_use_nccl(self->comm, situ_dev("cuda:0")) == SITU_OK);
out:;
}
static void two_ranks_on_one_device(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(2, NULL), ranks, 2, share_a_device, NULL, 5);
  for (int i = 0; i < 2; i++)
    if (ranks[i].status != SITU_E_COMM || !strstr(ranks[i].message, "Duplicate GPU detected"))
      fail_msg("rank %d: %s", i, ranks[i].message);
}

/* One rank alone cannot: the others are told, and go on without. */
static void without_one(world_rank *self) {
  const situ_device device = self->rank == 1 ? situ_dev("sim:0") : own_device(self);
  MUST(situ_comm_use_nccl(self->comm, device) == (self->rank == 1 ? SITU_E_UNSUPPORTED : SITU_E_COMM));
  MUST(strstr(situ_error_message(), "no engine carries memory of sim:0"));
  MUST(self->rank == 1 || strstr(situ_error_message(), "rank 1: "));
  situ_error_clear();
  const situ_options options = on_device(self);
  situ_tensor *t = situ_ones(SITU_SHAPE(3), &options);
  MUST(situ_comm_all_reduce(self->comm, t, SITU_COMM_SUM, "staged") == SITU_OK);
  double got[3];
  test_read(t, got);
  MUST(got[0] == 3 && got[2] == 3);
out:;
}
static void a_rank_that_cannot(void **state) {
  (void)state;
  world_rank ranks[WORLD_MOST];
  world_run(situ_comm_sim_new(3, NULL), ranks, 3, without_one, NULL, 5);
  for (int i = 0; i < 3; i++) expect_rank_ok(&ranks[i]);
}

static int all_devices(void **state) {
  (void)state;
  cuda_double_state()->devices = CUDA_DOUBLE_DEVICES;
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
    /* first, because a child cannot use devices that its parent has used */
    TEST(no_library),
    TEST(no_symbol),
    TEST(the_real_library),
    TEST(old_version),
    TEST(every_op_has_its_values),
    TEST(mismatches_are_refused),
    TEST(a_tensor_elsewhere_is_staged),
    TEST(transfers_that_hang_or_fail),
    TEST(a_rank_is_lost),
    TEST(two_ranks_on_one_device),
    TEST(a_rank_that_cannot),
  };
  return cmocka_run_group_tests(tests, all_devices, NULL);
}
