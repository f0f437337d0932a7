/* Training steps of an offloaded model, beside those of the same model on the device.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_OFFLOAD_STEPS_H
#define SITU_TEST_OFFLOAD_STEPS_H

#include "device/block_cache.h"
#include "place/offload/offload.h"
#include "support/optim.h"

static situ_tensor *loss_of(situ_nn_module *m, const struct kind *k, situ_tensor *x) {
  situ_tensor *y = situ_nn_forward(m, x);
  if (k->loss == ENTROPY) return situ_cross_entropy(situ_flatten(y, 0, 1), situ_flatten(x, 0, 1), NULL);
  return k->loss == MEAN ? situ_mean(situ_square(y), NULL) : situ_sum(y, NULL);
}

/* From a fixed seed, whatever was drawn before. Returns the last loss, on the host. */
static float train(situ_nn_module *m, situ_optim *o, const struct kind *k, int steps) {
  const situ_options on = { .device = there() };
  float loss = 0;
  situ_manual_seed(7);
  for (int i = 0; i < steps; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *x = k->tokens ? situ_randint(0, k->tokens, k->in, &on) : situ_randn(k->in, &on);
    situ_tensor *l = loss_of(m, k, x);
    expect_ok(situ_optim_zero_grad(o, i % 2));
    expect_ok(situ_backward(l, NULL));
    expect_ok(situ_optim_step(o));
    expect_ok(situ_copy_to_host(l, &loss, sizeof loss));
    expect_ok(situ_scope_end(&scope));
  }
  return loss;
}

/* A tree on the cpu; frees the one that it is made of. */
static situ_tree *at_home(situ_tree *t) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tree *copy = situ_tree_to(t, situ_dev("cpu"));
  situ_tree_free(t);
  expect_ok(situ_scope_end(&s));
  return copy;
}

/* Of a parameter of several modules the sum is one of theirs, and its rounding another than in one module. */
static bool is_as(situ_tensor *a, situ_tensor *b, const struct kind *k) {
  if (k->make == ties) return expect_same(a, b, 1e-5, 1e-5), true;
  return test_same_bits(a, b);
}

/* Frees both. */
static void expect_same_bits(situ_tree *got, situ_tree *want, const struct kind *k) {
  situ_tree *x = situ_tree_flatten(got), *y = situ_tree_flatten(want);
  assert_int_equal(situ_tree_count(x), situ_tree_count(y));
  for (int64_t i = 0; i < situ_tree_count(x); i++)
    if (!is_as(situ_tree_tensor_at(x, i), situ_tree_tensor_at(y, i), k))
      fail_msg("%s: other bits in %s", k->name, situ_tree_key(x, i));
  situ_tree_free(x);
  situ_tree_free(y);
  situ_tree_free(got);
  situ_tree_free(want);
}

static void expect_all_at_home(situ_nn_module *m) {
  situ_tree *state = situ_nn_state_dict(m);
  for (int64_t i = 0; i < situ_tree_count(state); i++) {
    const situ_tensor *t = situ_tree_tensor_at(state, i);
    expect_on(t, situ_dev("cpu"));
    if (situ_grad(t)) expect_on(situ_grad(t), situ_dev("cpu"));
  }
  situ_tree_free(state);
}

typedef situ_optim *optimiser(situ_nn_module *m);
static situ_optim *momentum(situ_nn_module *m) {
  return situ_optim_sgd(situ_nn_parameters(m), .01, OPTIM_MOMENTUM(.9));
}
static situ_optim *adamw(situ_nn_module *m) { return situ_optim_adamw(situ_nn_parameters(m), .001, NULL); }

/* From now on the host's own memory is what is in use behind the move, and so many bytes. */
static void limit_host(situ_nn_module *m, const char *path, uint64_t bytes) {
  situ_device_properties host;
  expect_ok(situ_nn_to_scratch(m, path, NULL));
  expect_ok(situ_empty_cache(situ_dev("cpu")));
  expect_ok(situ_device_info(situ_dev("cpu"), &host));
  expect_ok(situ_set_memory_limit(situ_dev("cpu"), (int64_t)(host.memory_reserved + bytes)));
}

/* Trains m with all of it on the device, and again from the same values offloaded, with `budget` bytes there (0: any
   number) and, if `path`, all that is written in a file there and at most so many bytes on the host: everything has the
   same bits. Returns the most bytes in blocks of the second run. */
static uint64_t compare(situ_nn_module *m, const struct kind *k, optimiser *make, int steps, uint64_t budget,
                        const char *path, uint64_t on_host) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_nn_module *twin = situ_nn_clone(m);
  expect_ok(situ_nn_to(twin, there()));
  situ_optim *o = make(twin);
  const float want = train(twin, o, k, steps);
  situ_tree *values = at_home(situ_nn_state_dict(twin)), *states = at_home(situ_optim_state_dict(o));
  situ_optim_free(o);
  situ_nn_free(twin);
  expect_ok(situ_scope_end(&scope));
  expect_ok(situ_empty_cache(there()));
  if (budget) expect_ok(situ_sim_budget(there().index, budget));
  expect_ok(situ_nn_offload(m, there()));
  if (path) limit_host(m, path, on_host);
  o = make(m);
  const float got = train(m, o, k, steps);
  expect_ok(situ_set_memory_limit(situ_dev("cpu"), 0));
  if (memcmp(&want, &got, sizeof got) != 0 && k->make != ties)
    fail_msg("%s: loss %g, wanted %g", k->name, (double)got, (double)want);
  expect_all_at_home(m);
  expect_same_bits(situ_nn_state_dict(m), values, k);
  expect_same_bits(situ_optim_state_dict(o), states, k);
  situ_optim_free(o);
  const situ__block_cache *cache = situ__block_cache_of(there());
  const uint64_t most = cache->highest > cache->before ? cache->highest : cache->before;
  expect_ok(situ_sim_reset(there().index));
  return most;
}

#endif
