/* Models that compute on sim:0 while their tensors stay on the cpu: the bits of the same run with all on the device, a
   device of a quarter of the weights, failures, hooks, threads. */
/* test-devices: sim:0 */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>

#include "place/offload/steps.h"
#include "situ/amp.h"

static void every_layer_has_the_same_bits(void **state) {
  (void)state;
  for (const struct kind *k = kinds; k < kinds + KINDS; k++) {
    if (!test_takes((size_t)(k - kinds), 5)) continue; /* not all of one optimiser */
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_nn_module *m = k->make();
    (void)compare(m, k, (k - kinds) % 2 ? adamw : momentum, 3, 0, NULL, 0);
    situ_nn_free(m);
    expect_ok(situ_scope_end(&scope));
  }
}

/* ---- a device of a quarter of the weights ---- */

/* placement: A18 */
static void four_times_the_memory_of_the_device(void **state) {
  (void)state;
  optimiser *const make[] = { momentum, adamw };
  for (int i = 0; i < 2; i++) {
    situ_nn_module *m = large();
    const uint64_t budget = bytes_of(m) / 4,
                   most = compare(m, &large_kind, make[i], test_is_slow() ? 5 : 20, budget, NULL, 0);
    assert_true(most <= budget);
    situ_nn_free(m);
  }
}

/* ---- failures ---- */

static void a_full_device_names_the_tensor_and_loses_nothing(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(large());
  situ_tensor *x = input_of(&large_kind);
  expect_ok(situ_empty_cache(there()));
  expect_ok(situ_sim_budget(there().index, 200 << 10));
  expect_refused(situ_nn_forward(m, x), SITU_E_NOMEM, "nn_offload", "net.2.weight could not be copied to sim:0: ");
  expect_ok(situ_sim_reset(there().index));
  expect_all_at_home(m);
  situ_tensor *y = situ_nn_forward(m, x);
  expect_ok(situ_empty_cache(there()));
  expect_ok(situ_sim_budget(there().index, 200 << 10));
  assert_int_equal(situ_backward(situ_sum(y, NULL), NULL), SITU_E_NOMEM);
  situ_error_clear();
  expect_ok(situ_sim_reset(there().index));
  assert_null(situ_grad(situ_nn_get_tensor(m, "0.weight")));
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m, x), NULL), NULL));
  expect_all_at_home(m);
  situ_nn_free(m);
}

/* Returns whether the step was made. Its draws are those of a step that was not disturbed. */
static bool step(situ_nn_module *m, situ_optim *o, const struct kind *k, int number) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_manual_seed((uint64_t)number);
  situ_tensor *x = input_of(k), *l = x ? loss_of(m, k, x) : NULL;
  bool good = l && situ_optim_zero_grad(o, true) == SITU_OK && situ_backward(l, NULL) == SITU_OK &&
              situ_synchronize(there()) == SITU_OK && situ_optim_step(o) == SITU_OK;
  good = situ_scope_end(&scope) == SITU_OK && good;
  return good;
}

static void steps_that_failed_are_made_again(void **state) {
  (void)state;
  const struct kind *k = kinds;
  situ_nn_module *m = offloaded(k->make()), *twin = situ_nn_clone(m);
  situ_optim *o = adamw(m), *p = adamw(twin);
  int failures = 0;
  for (int i = 0; i < 30; i++) {
    if (!test_takes((size_t)i, 5)) continue;
    assert_true(step(twin, p, k, i));
    expect_ok(situ_sim_fail(there().index, (situ_sim_fault)(i % SITU_SIM_LOST), (uint64_t)(1 + i / 2), i % 4 == 0));
    if (i % 2) expect_ok(situ_empty_cache(there()));
    while (!step(m, o, k, i)) {
      failures++;
      situ_error_clear();
      expect_ok(situ_sim_reset(there().index));
    }
    expect_ok(situ_sim_reset(there().index));
  }
  assert_true(failures > (test_is_slow() ? 2 : 10));
  expect_all_at_home(m);
  expect_same_bits(situ_nn_state_dict(m), situ_nn_state_dict(twin), k);
  expect_same_bits(situ_optim_state_dict(o), situ_optim_state_dict(p), k);
  situ_optim_free(o);
  situ_optim_free(p);
  situ_nn_free(m);
  situ_nn_free(twin);
}

static void a_weight_that_changed_before_backward(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 32), LIN(32, 4)));
  situ_tensor *y = situ_sum(situ_nn_forward(m, input_of(&large_kind)), NULL);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  assert_non_null(situ_mul_scalar_(situ_nn_get_tensor(m, "1.weight"), 2));
  expect_ok(situ_scope_end(&s));
  assert_int_equal(situ_backward(y, NULL), SITU_E_STATE);
  expect_error(SITU_E_STATE, "nn_offload", "backward needs net.1.weight, which was changed in place");
  situ_nn_free(m);
}

/* The program's hooks get what the module does not keep itself; a gradient of a gradient; autocast. */
static void with_hooks_second_gradients_and_autocast(void **state) {
  (void)state;
  situ_nn_module *m = SEQ(LIN(32, 64), situ_nn_tanh(), LIN(64, 4)), *twin = situ_nn_clone(m), *both[] = { m, twin };
  offloaded(m);
  expect_ok(situ_nn_to(twin, there()));
  situ_tensor *x = input_of(&large_kind), *first[2], *second[2];
  situ_requires_grad_(x, true);
  for (int i = 0; i < 2; i++) {
    situ_setting before;
    expect_ok(situ_autograd_graph_save_on(situ_dev("cpu")));
    situ_tensor *y = situ_sum(situ_square(situ_nn_forward(both[i], x)), NULL);
    expect_ok(situ_autograd_graph_saved_tensors_hooks_end());
    expect_ok(situ_autograd_grad(y, 1, &x, &first[i], &(situ_backward_options){ .create_graph = true }));
    expect_ok(situ_backward(situ_sum(situ_square(first[i]), NULL), NULL));
    second[i] = situ_clone(situ_detach(situ_grad(situ_nn_get_tensor(both[i], "0.weight"))));
    situ_nn_zero_grad(both[i]);
    expect_ok(situ_set_grad(x, NULL));
    expect_ok(situ_autocast_begin(&before, there(), NULL));
    situ_tensor *low = situ_nn_forward(both[i], x);
    situ_autocast_end(&before);
    expect_ok(situ_backward(situ_sum(low, NULL), NULL));
  }
  assert_true(test_same_bits(first[0], first[1]));
  assert_true(test_same_bits(second[0], second[1]));
  situ_nn_free(m);
  situ_nn_free(twin);
}

/* ---- threads ---- */

typedef struct runner {
  situ_nn_module *module;
  const float *x, *want;
  bool trains;
  int wrong;
} runner;

static void *run(void *payload) {
  runner *r = payload;
  float got[32];
  for (int i = 0; i < 40; i++) {
    situ_scope s;
    if (r->trains) situ_scope_begin(&s);
    else situ_scope_begin_no_grad(&s);
    situ_tensor *x =
        situ_from_host(r->x, 8 * 32 * sizeof(float), SITU_SHAPE(8, 32), &(situ_options){ .device = there() });
    situ_tensor *y = situ_nn_forward(r->module, x);
    r->wrong += !y || situ_copy_to_host(y, got, sizeof got) != SITU_OK || memcmp(got, r->want, sizeof got) != 0;
    if (y && r->trains) {
      situ_tensor *w = situ_nn_get_tensor(r->module, "0.weight"), *g;
      r->wrong += situ_autograd_grad(situ_sum(y, NULL), 1, &w, &g, NULL) != SITU_OK;
    }
    r->wrong += situ_scope_end(&s) != SITU_OK;
  }
  return NULL;
}

static void several_threads(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(SEQ(LIN(32, 64), situ_nn_tanh(), LIN(64, 4)));
  situ_tensor *x = input_of(&large_kind);
  float in[8 * 32], want[8 * 4];
  expect_ok(situ_copy_to_host(x, in, sizeof in));
  expect_ok(situ_copy_to_host(situ_nn_forward(m, x), want, sizeof want));
  runner r[4];
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) {
    r[i] = (runner){ m, in, want, i % 2, 0 };
    assert_int_equal(pthread_create(&thread[i], NULL, run, &r[i]), 0);
  }
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  for (int i = 0; i < 4; i++) assert_int_equal(r[i].wrong, 0);
  situ_nn_free(m);
}

typedef struct counter {
  situ_nn_module base;
  situ_tensor *count, *own;
} counter;
/* `own` is the module's own tensor: a write to it is one that another thread makes meanwhile. */
static situ_tensor *count_calls(situ_nn_module *self, situ_tensor *x) {
  counter *m = (counter *)self;
  if (!situ_add_scalar_(m->count, 1) || (m->own && !situ_add_scalar_(m->own, 1))) return NULL;
  return situ_add(x, m->count);
}
static const situ_nn_type counter_type = { .name = "Counter", .size = sizeof(counter), .forward = count_calls };

static void a_buffer_comes_back_unless_another_thread_has_written_it(void **state) {
  (void)state;
  counter *m = situ_nn_alloc(&counter_type);
  situ_nn_buffer(m, count, situ_zeros(SITU_SHAPE(1), NULL));
  offloaded(situ_nn_done(m));
  situ_tensor *x = situ_zeros(SITU_SHAPE(1), &(situ_options){ .device = there() });
  for (int i = 1; i < 4; i++) expect_exact(situ_nn_forward(&m->base, x), SITU_SHAPE(1), i);
  expect_exact(m->count, SITU_SHAPE(1), 3);
  m->own = m->count;
  expect_refused(situ_nn_forward(&m->base, x), SITU_E_STATE, "nn_offload", "another thread has written net.count");
  m->own = NULL;
  expect_exact(m->count, SITU_SHAPE(1), 4);
  situ_nn_free(&m->base);
}

/* Not some of them: a batch would count in the mean and not in the variance. */
static void all_buffers_come_back_or_none(void **state) {
  (void)state;
  situ_nn_module *m = offloaded(situ_nn_batch_norm1d(32, NULL)), *twin = situ_nn_clone(m);
  situ_tensor *x = situ_randn(SITU_SHAPE(8, 32), &(situ_options){ .device = there() });
  bool good = false;
  for (uint64_t nth = 1; !good; nth++) {
    expect_ok(situ_sim_fail(there().index, SITU_SIM_COPY, nth, false));
    good = situ_nn_forward(m, x) != NULL;
    expect_ok(situ_sim_reset(there().index));
    situ_error_clear();
    if (!good) expect_same_bits(situ_nn_state_dict(m), situ_nn_state_dict(twin), &large_kind);
    else assert_true(nth > 8); /* 5 to the device, 3 back */
  }
  situ_nn_free(m);
  situ_nn_free(twin);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    PAIR_TEST(every_layer_has_the_same_bits),
    PAIR_TEST(four_times_the_memory_of_the_device),
    PAIR_TEST(a_full_device_names_the_tensor_and_loses_nothing),
    PAIR_TEST(steps_that_failed_are_made_again),
    PAIR_TEST(a_weight_that_changed_before_backward),
    PAIR_TEST(with_hooks_second_gradients_and_autocast),
    PAIR_TEST(several_threads),
    PAIR_TEST(a_buffer_comes_back_unless_another_thread_has_written_it),
    PAIR_TEST(all_buffers_come_back_or_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
