/* A move that fails, at each of its steps: every allocation, every copy, every piece of queued work, the device lost. The old
   placement must be there bit for bit, and nothing may leak. */
/* test-devices: sim:0 sim:1 */
#include "situ/nn.h"
#include "situ/optim.h"
#include "situ/sys/alloc.h"
#include "support/pairs.h"

enum { KEPT = 64 };

/* A model with all that a move must mind: small and large storages, a tie, a buffer of whole numbers, gradients, an
   optimiser's state, and a view that somebody holds. */
typedef struct world {
  situ_nn_module *net;
  situ_optim *optim;
  situ_tensor *view;
  situ_tensor *all[KEPT];
  char *bytes[KEPT];
  situ_device device[KEPT];
  situ_dtype dtype[KEPT];
  int count;
} world;

static void keep(world *w, situ_tensor *t) {
  assert_non_null(t);
  assert_true(w->count < KEPT);
  w->all[w->count++] = t;
}

static size_t size_of(const situ_tensor *t) { return (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t)); }

static void build(world *w) {
  *w = (world){ .count = 0 };
  situ_nn_module *shared = situ_nn_linear(8, 8, NULL);
  w->net = situ_nn_sequential(situ_nn_linear(4, 8, NULL), shared, situ_nn_batch_norm1d(8, NULL), situ_nn_retain(shared),
                              situ_nn_linear(8, 4096, NULL));
  w->optim = situ_optim_adamw(situ_nn_parameters(w->net), 1e-3, NULL);
  situ_tensor *x = situ_randn(SITU_SHAPE(16, 4), NULL);
  expect_ok(situ_backward(situ_mean(situ_nn_forward(w->net, x), NULL), NULL));
  expect_ok(situ_optim_step(w->optim));
  w->view = situ_detach(situ_transpose(situ_nn_get_tensor(w->net, "0.weight"), 0, 1));
  static const char *const buffers[] = { "2.running_mean", "2.running_var", "2.num_batches_tracked" };
  for (int i = 0; i < 3; i++) keep(w, situ_nn_get_tensor(w->net, buffers[i]));
  for (int64_t i = 0; i < situ_optim_count(w->optim); i++) {
    situ_tensor *p = situ_optim_param(w->optim, i, NULL);
    keep(w, p);
    keep(w, situ_grad(p));
    for (int k = 0; k < 2; k++) keep(w, situ_optim_state(w->optim, i, k, NULL));
  }
  for (int i = 0; i < w->count; i++) {
    w->bytes[i] = test_malloc(size_of(w->all[i]));
    w->device[i] = situ_device_of(w->all[i]);
    w->dtype[i] = situ_dtype_of(w->all[i]);
    expect_ok(situ_copy_to_host(w->all[i], w->bytes[i], size_of(w->all[i])));
  }
}

static void tear_down(world *w) {
  for (int i = 0; i < w->count; i++) test_free(w->bytes[i]);
  situ_optim_free(w->optim);
  situ_nn_free(w->net);
}

/* Nothing has changed. values: they can still be read. */
static void is_as_before(const world *w, bool values) {
  for (int i = 0; i < w->count; i++) {
    situ_tensor *t = w->all[i];
    assert_true(situ_device_equal(situ_device_of(t), w->device[i]));
    assert_int_equal(situ_dtype_of(t), w->dtype[i]);
    if (!values) continue;
    char *now = test_malloc(size_of(t));
    expect_ok(situ_copy_to_host(t, now, size_of(t)));
    assert_memory_equal(now, w->bytes[i], size_of(t));
    test_free(now);
  }
  assert_true(situ_shares_storage(w->view, situ_nn_get_tensor(w->net, "0.weight")));
  assert_true(situ_device_equal(situ_device_of(w->view), situ_device_of(situ_nn_get_tensor(w->net, "0.weight"))));
}

/* ---- the kinds of failure ---- */

enum { HOST_MEMORY, DEVICE_MEMORY, COPY, QUEUED, LOST, SOURCE_LOST, WAYS };
static const char *const way_name[WAYS] = { "host allocation", "device allocation", "copy",
                                            "queued work",     "device lost",       "source lost" };

/* The n-th of that kind fails from now on. False: there is no such device to fail. */
static bool break_it(int way, uint64_t nth) {
  static const situ_sim_fault fault[WAYS] = { [DEVICE_MEMORY] = SITU_SIM_ALLOC,
                                              [COPY] = SITU_SIM_COPY,
                                              [QUEUED] = SITU_SIM_LATE,
                                              [LOST] = SITU_SIM_LOST,
                                              [SOURCE_LOST] = SITU_SIM_LOST };
  situ_device victim = way == SOURCE_LOST ? here() : there();
  if (way == HOST_MEMORY) return situ_fail_allocation(nth, false), true;
  if (victim.kind != SITU_SIM) return false;
  expect_ok(situ_empty_cache(victim)); /* else the cache serves, and no allocation is asked for */
  expect_ok(situ_sim_fail(victim.index, fault[way], nth, true));
  return true;
}

static void mend_it(int way) {
  if (way == HOST_MEMORY) {
    situ_fail_allocation(0, false);
    return;
  }
  situ_device victim = way == SOURCE_LOST ? here() : there();
  expect_ok(situ_sim_reset(victim.index));
}

/* Fails the move at its n-th step for all n; returns how many steps there were. */
static int fail_at_each(int way, const situ_nn_to_options *options) {
  int points = 0;
  for (uint64_t nth = 1;; nth++) {
    world w;
    situ_scope scope;
    situ_scope_begin(&scope);
    build(&w);
    int64_t bytes = situ_live_bytes(), tensors = situ_live_tensors();
    bool broken = break_it(way, nth);
    situ_status status = broken ? situ_nn_to_with(w.net, options) : SITU_OK;
    if (broken) mend_it(way);
    bool made = status == SITU_OK;
    if (!made) {
      points++;
      assert_int_equal(situ_error(), status);
      assert_true(strlen(situ_error_message()) > 10);
      situ_error_clear();
      is_as_before(&w, way != SOURCE_LOST);
      assert_int_equal(situ_live_bytes(), bytes);
      assert_int_equal(situ_live_tensors(), tensors);
      if (way != SOURCE_LOST) { /* and it is no worse for it: the same move succeeds now */
        expect_ok(situ_nn_to_with(w.net, options));
        expect_on(w.view, options->device.kind ? options->device : here());
      }
    }
    tear_down(&w);
    expect_ok(situ_scope_end(&scope));
    if (made) return points;
    assert_true(nth < 2000);
  }
}

/* placement: B10 */
static void a_move_that_fails_anywhere_changes_nothing(void **state) {
  (void)state;
  const situ_nn_to_options moves[] = { { .device = there() },
                                       { .device = there(), .dtype = SITU_F64 },
                                       { .device = there(), .dtype = SITU_F16 },
                                       { .dtype = SITU_F64 } };
  static const char *const name[] = { "to", "to and widen", "to and narrow", "widen in place" };
  int total = 0;
  for (int k = 0; k < 4; k++)
    for (int way = 0; way < WAYS; way++) {
      int points = fail_at_each(way, &moves[k]);
      if (points > 0)
        print_message("%-14s %-18s failed at each of %d places: as before each time\n", name[k], way_name[way], points);
      total += points > 0 ? points : 0;
    }
  print_message("%d failures in all\n", total);
  assert_true(total > 50);
}

int main(void) {
  const struct CMUnitTest tests[] = { PAIR_TEST(a_move_that_fails_anywhere_changes_nothing) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
