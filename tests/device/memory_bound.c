/* What the library holds of a device: the sizes of blocks, the bound on the cache, the limit that a program sets.
   SPDX-License-Identifier: MIT */
/* test-devices: sim:0 */
#include <pthread.h>
#include <stdlib.h>

#include "device/block_cache.h"
#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/sys/sim.h"
#include "support/pairs.h"

static const situ_device cpu = { SITU_CPU, 0 }, sim = { SITU_SIM, 0 };

enum { MiB = 1 << 20 };

static int fresh(void **state) {
  (void)state;
  (void)situ_error_mode(SITU_ERROR_QUIET);
  situ_error_clear();
  return situ_sim_create(1) != SITU_OK || situ_sim_reset(0) != SITU_OK || situ_empty_cache(sim) != SITU_OK ||
         situ_empty_cache(cpu) != SITU_OK;
}

static int unlimited(void **state) {
  (void)state;
  return situ_set_memory_limit(cpu, 0) != SITU_OK || situ_set_memory_limit(sim, 0) != SITU_OK;
}

static void *take(situ_device device, size_t bytes) {
  void *data = NULL;
  assert_int_equal(situ__memory_alloc("test", device, bytes, &data), SITU_OK);
  return data;
}

static situ_device_properties of(situ_device device) {
  situ_device_properties p;
  expect_ok(situ_device_info(device, &p));
  return p;
}

/* ---- sizes ---- */

/* A block holds what is asked, wastes no more than is said, and is its own block's size. */
static void blocks(void **state) {
  (void)state;
  unsigned last = 0;
  for (size_t bytes = 1; bytes < (size_t)1 << 40; bytes += 1 + bytes / 1000) {
    size_t size, again;
    unsigned number = situ__block_number(bytes, &size);
    assert_true(size >= bytes && number >= last && number <= SITU__BLOCK_HUGE);
    size_t waste = bytes < 512 ? 63 : bytes <= 16 * MiB ? bytes / 8 : MiB - 1;
    assert_true(size - bytes <= waste);
    assert_int_equal(situ__block_number(size, &again), number);
    assert_int_equal(again, size);
    assert_int_equal(situ__memory_block(bytes), size);
    if (number < SITU__BLOCK_HUGE) assert_int_equal(situ__block_size(number), size);
    last = number;
  }
  assert_int_equal(situ__memory_block(0), 0);
  assert_int_equal(situ__memory_block(16810000), 17 * MiB);
}

/* placement: A15 */
static void reserved_counts_whole_blocks(void **state) {
  (void)state;
  uint64_t before = of(sim).memory_reserved;
  void *data = take(sim, 16810000);
  assert_int_equal(of(sim).memory_reserved - before, 17 * MiB);
  situ_sim_statistics st;
  expect_ok(situ_sim_stats(0, &st));
  assert_int_equal(st.used, of(sim).memory_reserved);
  situ__memory_free(sim, data, 16810000);
  assert_int_equal(of(sim).memory_reserved - before, 17 * MiB); /* cached */
  expect_ok(situ_empty_cache(sim));
  assert_int_equal(of(sim).memory_reserved, before);
}

/* ---- the bound ---- */

/* A model of it: what storages have, and had at most. The epochs that the allocator knows make its bound tighter, never wider. */
typedef struct model {
  situ_device device;
  int64_t live, most;
  double worst; /* held beyond 64 MiB, to the most that was alive */
} model;

static void look(model *m) {
  if (m->live > m->most) m->most = m->live;
  double held = (double)of(m->device).memory_reserved;
  assert_true(held <= 1.5 * (double)m->most + 64.0 * MiB);
  double over = (held - 64.0 * MiB) / (double)m->most;
  if (over > m->worst) m->worst = over;
}

typedef struct piece {
  void *data;
  size_t bytes;
} piece;

static void swap_piece(model *m, piece *p, size_t bytes) {
  if (p->data) situ__memory_free(m->device, p->data, p->bytes);
  m->live -= (int64_t)p->bytes;
  look(m);
  *p = (piece){ bytes ? take(m->device, bytes) : NULL, bytes };
  m->live += (int64_t)bytes;
  look(m);
}

/* Sizes from lo to hi, taken and freed in random order, with phases in which few are alive. */
static void random_sizes(situ_device device, size_t lo, size_t hi, int pieces, int rounds) {
  if (test_is_slow()) rounds /= 4;
  piece *list = test_malloc((size_t)pieces * sizeof *list);
  memset(list, 0, (size_t)pieces * sizeof *list);
  unsigned seed = 1;
  expect_ok(situ_empty_cache(device));
  const int64_t base = (int64_t)of(device).memory_reserved;
  model m = { .device = device, .live = base, .most = base };
  for (int k = 0; k < rounds; k++) {
    const bool few = k / (rounds / 8) % 2;
    const size_t bytes = few && rand_r(&seed) % 4 ? 0 : lo + (size_t)((double)(hi - lo) * rand_r(&seed) / RAND_MAX);
    swap_piece(&m, &list[rand_r(&seed) % pieces], bytes);
  }
  for (int i = 0; i < pieces; i++) swap_piece(&m, &list[i], 0);
  print_message("%zu to %zu bytes x %d: at most %lld alive, held: 64 MiB and %.2f times that\n", lo, hi, pieces,
                (long long)m.most, m.worst);
  test_free(list);
}

static void bound_of_random_sizes(void **state) {
  (void)state;
  random_sizes(sim, 1000000, 50000000, 12, 4000);
  random_sizes(sim, 100000000, 120000000, 6, 400); /* hardly one of these sizes comes twice */
  random_sizes(sim, 1, 1 << 20, 400, 40000);
  random_sizes(cpu, 1, 1 << 20, 800, 40000);
  random_sizes(cpu, 1000000, 50000000, 12, 2000);
}

/* When what is alive stays small, what a large phase left is given back without being asked for. */
static void given_back_by_itself(void **state) {
  (void)state;
  piece large[8] = { { NULL, 0 } };
  model m = { .device = sim };
  for (size_t i = 0; i < 8; i++) swap_piece(&m, &large[i], 60000000 + i * 3000000);
  for (size_t i = 0; i < 8; i++) swap_piece(&m, &large[i], 0);
  assert_true(of(sim).memory_reserved > 400u * MiB); /* a loop would want it again */
  for (int i = 0; i < 3000; i++) situ__memory_free(sim, take(sim, 5 * MiB), 5 * MiB);
  assert_true(of(sim).memory_reserved < 64u * MiB);
}

/* The smallest blocks are given back as well. */
static void a_limit_counts_the_smallest(void **state) {
  (void)state;
  enum { COUNT = 400, SIZE = 64, LIMIT = 100 * SIZE };
  void *data[COUNT];
  for (int i = 0; i < COUNT; i++) data[i] = take(sim, SIZE);
  for (int i = 0; i < COUNT; i++) situ__memory_free(sim, data[i], SIZE);
  assert_true(of(sim).memory_reserved >= COUNT * SIZE);
  expect_ok(situ_set_memory_limit(sim, LIMIT));
  assert_true(of(sim).memory_reserved <= LIMIT);
}

/* A loop whose steps take the same again asks the device for nothing after the first ones, at sizes that fill the bound. */
static void steady_loop_hits_the_cache(void **state) {
  (void)state;
  situ_sim_statistics st;
  uint64_t before = 0;
  enum { DEEP = 30 };
  void *data[DEEP];
  for (int step = 0; step < 400; step++) {
    for (size_t i = 0; i < DEEP; i++) data[i] = take(sim, 100000 + i * 700000);
    for (size_t i = DEEP; i-- > 0;) situ__memory_free(sim, data[i], 100000 + i * 700000);
    expect_ok(situ_sim_stats(0, &st));
    if (step == 3) before = st.allocations;
  }
  assert_int_equal(st.allocations, before);
}

/* A loop that changes its sizes gets to keep the new ones: the old ones make room. */
static void sizes_that_are_gone_make_room(void **state) {
  (void)state;
  situ_sim_statistics st;
  uint64_t before = 0;
  void *data[4];
  for (int phase = 0; phase < 2; phase++)
    for (int step = 0; step < 200; step++) {
      size_t bytes = phase ? 30 * MiB : 40 * MiB;
      for (int i = 0; i < 4; i++) data[i] = take(sim, bytes);
      for (int i = 0; i < 4; i++) situ__memory_free(sim, data[i], bytes);
      expect_ok(situ_sim_stats(0, &st));
      if (step == 100) before = st.allocations;
      if (step > 100) assert_int_equal(st.allocations, before);
    }
}

/* ---- a transformer ---- */

static void bound_of_random_lengths(void **state) {
  (void)state;
  situ_manual_seed(1);
  situ_nn_module *net = situ_nn_transformer_encoder_layer(
      64, 4, OPTIONS_AT(situ_nn_transformer, with.dim_feedforward = 256, with.batch_first = true));
  expect_ok(situ_nn_to(net, here()));
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(net), 1e-3, NULL);
  unsigned seed = 5;
  uint64_t most = 0, held = 0;
  for (int step = 0; step < 120; step++) {
    situ_scope s;
    situ_scope_begin(&s);
    int64_t batch = 1 + rand_r(&seed) % 16, length = 1 + rand_r(&seed) % 96;
    situ_tensor *x = situ_randn(SITU_SHAPE(batch, length, 64), &(situ_options){ .device = here() });
    situ_tensor *loss = situ_mean(situ_square(situ_nn_forward(net, x)), NULL);
    if (of(here()).memory_used > most) most = of(here()).memory_used;
    expect_ok(situ_optim_zero_grad(optim, true));
    expect_ok(situ_backward(loss, NULL));
    expect_ok(situ_optim_step(optim));
    if (of(here()).memory_reserved > held) held = of(here()).memory_reserved;
    expect_ok(situ_scope_end(&s));
    if (of(here()).memory_reserved > held) held = of(here()).memory_reserved;
  }
  print_message("at most %llu bytes seen alive, %llu held\n", (unsigned long long)most, (unsigned long long)held);
  assert_true((double)held <= 1.5 * (double)most + 64.0 * MiB);
  situ_optim_free(optim);
  situ_nn_free(net);
}

/* ---- threads' lists ---- */

enum { THREADS = 8 };
static pthread_barrier_t together;

static void *fill_lists(void *failed) {
  enum { COUNT = 400, BYTES = 100000 };
  static SITU__THREAD_LOCAL void *data[COUNT];
  bool good = true;
  for (int i = 0; i < COUNT; i++) good = situ__memory_alloc("test", cpu, BYTES, &data[i]) == SITU_OK && good;
  (void)pthread_barrier_wait(&together);
  (void)pthread_barrier_wait(&together); /* it was seen how much is alive */
  for (int i = 0; i < COUNT; i++) situ__memory_free(cpu, data[i], BYTES);
  if (!good) __atomic_store_n((bool *)failed, true, __ATOMIC_RELAXED);
  (void)pthread_barrier_wait(&together); /* all lists are as full as they get */
  (void)pthread_barrier_wait(&together);
  return NULL;
}

static void bound_of_all_lists(void **state) {
  (void)state;
  pthread_t thread[THREADS];
  bool failed = false;
  assert_int_equal(pthread_barrier_init(&together, NULL, THREADS + 1), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, fill_lists, &failed), 0);
  (void)pthread_barrier_wait(&together);
  int64_t most = (int64_t)of(cpu).memory_used;
  (void)pthread_barrier_wait(&together);
  (void)pthread_barrier_wait(&together);
  assert_true((double)of(cpu).memory_reserved <= 1.5 * (double)most + 64.0 * MiB);
  expect_ok(situ_empty_cache(cpu));
  assert_true(of(cpu).memory_cached <= 24u * MiB); /* what only their owners can give back */
  (void)pthread_barrier_wait(&together);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  assert_false(failed);
  (void)pthread_barrier_destroy(&together);
}

/* ---- the limit ---- */

static void limit(void **state) {
  (void)state;
  const situ_device both[] = { sim, cpu };
  for (int k = 0; k < 2; k++) {
    situ_device device = both[k];
    expect_ok(situ_empty_cache(device));
    uint64_t base = of(device).memory_reserved;
    expect_ok(situ_set_memory_limit(device, (int64_t)base + 10 * MiB));
    assert_int_equal(of(device).memory_total, base + 10 * MiB);
    void *six = take(device, 6 * MiB);
    situ__memory_free(device, six, 6 * MiB);
    void *five = take(device, 5 * MiB); /* no room beside the cached six */
    assert_int_equal(of(device).memory_reserved, base + 5 * MiB);
    void *last = take(device, 5 * MiB), *none = &none;
    assert_int_equal(situ__memory_alloc("zeros", device, 1, &none), SITU_E_NOMEM);
    assert_null(none);
    assert_non_null(strstr(situ_error_message(), "of a limit of "));
    assert_int_equal(of(device).memory_reserved, base + 10 * MiB);
    situ__memory_free(device, last, 5 * MiB);
    expect_ok(situ_set_memory_limit(device, (int64_t)base + 1)); /* the cache goes, storages stay */
    assert_int_equal(of(device).memory_reserved, base + 5 * MiB);
    expect_ok(situ_set_memory_limit(device, 0));
    situ_error_clear();
    situ__memory_free(device, take(device, 100), 100);
    situ__memory_free(device, five, 5 * MiB);
  }
}

static void limits_that_make_no_sense(void **state) {
  (void)state;
  assert_int_equal(situ_set_memory_limit(cpu, -1), SITU_E_ARG);
  assert_int_equal(situ_set_memory_limit((situ_device){ SITU_META, 0 }, 1), SITU_E_ARG);
  assert_int_equal(situ_set_memory_limit((situ_device){ SITU_SIM, 60 }, 1), situ_error());
  assert_true(situ_error() != SITU_OK);
}

/* A size that no device has must not widen the bound. */
static void refused_sizes_count_for_nothing(void **state) {
  (void)state;
  void *none;
  assert_int_equal(situ__memory_alloc("zeros", sim, (size_t)1 << 60, &none), SITU_E_NOMEM);
  random_sizes(sim, 1000000, 50000000, 6, 400);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(blocks, fresh, unlimited),
    cmocka_unit_test_setup_teardown(reserved_counts_whole_blocks, fresh, unlimited),
    cmocka_unit_test_setup_teardown(a_limit_counts_the_smallest, fresh, unlimited),
    cmocka_unit_test_setup_teardown(bound_of_random_sizes, fresh, unlimited),
    cmocka_unit_test_setup_teardown(given_back_by_itself, fresh, unlimited),
    cmocka_unit_test_setup_teardown(steady_loop_hits_the_cache, fresh, unlimited),
    cmocka_unit_test_setup_teardown(sizes_that_are_gone_make_room, fresh, unlimited),
    cmocka_unit_test_setup_teardown(bound_of_random_lengths, fresh, unlimited),
    cmocka_unit_test_setup_teardown(bound_of_all_lists, fresh, unlimited),
    cmocka_unit_test_setup_teardown(limit, fresh, unlimited),
    cmocka_unit_test_setup_teardown(limits_that_make_no_sense, fresh, unlimited),
    cmocka_unit_test_setup_teardown(refused_sizes_count_for_nothing, fresh, unlimited),
  };
  return cmocka_run_group_tests_name("device/memory_bound", tests, NULL, NULL);
}
