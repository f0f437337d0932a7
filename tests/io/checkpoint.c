/* Checkpoints: a resumed run gives the bits of one that never stopped.
   SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "situ/io.h"
#include "situ/random.h"
#include "situ/sys/alloc.h"
#include "support/optim.h"
#include "support/scope.h"

/* A training run: a network with running statistics and dropout, so that buffers and random numbers
   matter. */
typedef struct run {
  situ_nn_module *model;
  situ_optim *optimizer;
  situ_lr_scheduler *scheduler;
  situ_generator generator; /* of the data */
} run;

enum { OPTIMIZERS = 5, SCHEDULERS = 4 };

static situ_optim *make_optimizer(int which, situ_nn_module *model) {
  situ_tree *parameters = situ_nn_parameters(model);
  switch (which) {
  case 0: return situ_optim_sgd(parameters, 0.1, NULL);
  case 1:
    return situ_optim_sgd(parameters, 0.1,
                          OPTIM_OPTIONS(situ_optim_sgd, { SITU_OPTIM_MOMENTUM, 0.9 }, { SITU_OPTIM_NESTEROV, 1 }));
  case 2: return situ_optim_adam(parameters, 0.01, OPTIM_OPTIONS(situ_optim_adam, { SITU_OPTIM_AMSGRAD, 1 }));
  case 3: return situ_optim_adamw(parameters, 0.01, NULL);
  default:
    return situ_optim_rmsprop(
        parameters, 0.01, OPTIM_OPTIONS(situ_optim_rmsprop, { SITU_OPTIM_MOMENTUM, 0.5 }, { SITU_OPTIM_CENTERED, 1 }));
  }
}

static double halve(int64_t step, void *payload) {
  (void)payload;
  return 1.0 / (double)(1 + step);
}

static situ_lr_scheduler *make_scheduler(int which, situ_optim *o) {
  switch (which) {
  case 0: return situ_lr_scheduler_step_lr(o, 2, 0.5);
  case 1: return situ_lr_scheduler_cosine_annealing_lr(o, 8, 0.001);
  case 2: return situ_lr_scheduler_lambda_lr(o, halve, NULL);
  default: {
    situ_one_cycle_options options = situ_one_cycle_defaults();
    options.keep_momentum = true;
    return situ_lr_scheduler_one_cycle_lr(o, 0.1, 10, &options);
  }
  }
}

static run start(int optimizer, int scheduler, uint64_t seed, int64_t width) {
  run r = { .generator = situ_generator_seeded(seed + 1) };
  situ_manual_seed(seed);
  r.model = situ_nn_sequential(situ_nn_linear(4, width, NULL), situ_nn_batch_norm1d(width, NULL), situ_nn_relu(),
                               situ_nn_dropout(0.3), situ_nn_linear(width, 2, NULL));
  assert_non_null(r.model);
  r.optimizer = make_optimizer(optimizer, r.model);
  assert_non_null(r.optimizer);
  r.scheduler = make_scheduler(scheduler, r.optimizer);
  assert_non_null(r.scheduler);
  return r;
}

static void end(run *r) {
  situ_lr_scheduler_free(r->scheduler);
  situ_optim_free(r->optimizer);
  situ_nn_free(r->model);
}

static void train(run *r, int steps) {
  for (int i = 0; i < steps; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *x = situ_randn(SITU_SHAPE(8, 4), &(situ_options){ .generator = &r->generator });
    situ_tensor *loss = situ_mean(situ_square(situ_nn_forward(r->model, x)), NULL);
    assert_int_equal(situ_optim_zero_grad(r->optimizer, true), SITU_OK);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(r->optimizer), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(r->scheduler), SITU_OK);
    if (situ_scope_end(&scope) != SITU_OK) fail_msg("%s", situ_error_message());
  }
}

/* Are all values of two trees the same, bit for bit? Frees both. */
static bool same_trees(situ_tree *a, situ_tree *b) {
  situ_tree *x = situ_tree_flatten(a), *y = situ_tree_flatten(b);
  bool same = situ_tree_count(x) == situ_tree_count(y);
  for (int64_t i = 0; same && i < situ_tree_count(x); i++) {
    unsigned char u[4096], v[4096];
    situ_tensor *s = situ_tree_tensor_at(x, i), *t = situ_tree_get(y, situ_tree_key(x, i));
    size_t bytes = (size_t)situ_numel(s) * situ_dtype_size(situ_dtype_of(s));
    assert_true(bytes <= sizeof u && situ_numel(t) == situ_numel(s) && situ_dtype_of(t) == situ_dtype_of(s));
    assert_int_equal(situ_copy_to_host(s, u, bytes), SITU_OK);
    assert_int_equal(situ_copy_to_host(t, v, bytes), SITU_OK);
    same = memcmp(u, v, bytes) == 0;
  }
  situ_tree_free(x);
  situ_tree_free(y);
  situ_tree_free(a);
  situ_tree_free(b);
  return same;
}

static bool same_runs(const run *a, const run *b) {
  return same_trees(situ_nn_state_dict(a->model), situ_nn_state_dict(b->model)) &&
         same_trees(situ_optim_state_dict(a->optimizer), situ_optim_state_dict(b->optimizer)) &&
         same_trees(situ_lr_scheduler_state_dict(a->scheduler), situ_lr_scheduler_state_dict(b->scheduler)) &&
         a->generator.seed == b->generator.seed && a->generator.offset == b->generator.offset;
}

static situ_checkpoint checkpoint_of(run *r) {
  return (situ_checkpoint){
    .model = r->model, .optimizer = r->optimizer, .scheduler = r->scheduler, .generator = &r->generator
  };
}

static const char path[] = "run.safetensors";

/* placement: E3 */
static void resumes_bit_for_bit(void **state) {
  (void)state;
  for (int o = 0; o < OPTIMIZERS; o++)
    for (int s = 0; s < SCHEDULERS; s++) {
      run whole = start(o, s, 5, 16);
      train(&whole, 8);
      situ_generator random = situ_get_rng_state();

      run first = start(o, s, 5, 16);
      train(&first, 4);
      situ_checkpoint saved = checkpoint_of(&first);
      saved.epoch = 3;
      saved.step = 1234567890123;
      assert_int_equal(situ_checkpoint_save(path, &saved, NULL), SITU_OK);
      end(&first);

      /* Nothing of it is left but the file: other weights, other random numbers. */
      run second = start(o, s, 99, 16);
      train(&second, 1);
      situ_checkpoint loaded = checkpoint_of(&second);
      if (situ_checkpoint_load(path, &loaded, NULL) != SITU_OK) fail_msg("%d, %d: %s", o, s, situ_error_message());
      assert_int_equal(loaded.epoch, 3);
      assert_true(loaded.step == 1234567890123);
      train(&second, 4);
      if (!same_runs(&whole, &second)) fail_msg("optimiser %d with schedule %d differs", o, s);
      situ_generator now = situ_get_rng_state();
      assert_true(random.seed == now.seed && random.offset == now.offset);
      end(&second);
      end(&whole);
    }
}

/* The comparison above must be able to fail: without the schedule, and without the random numbers,
   it does. */
static void resuming_needs_all_parts(void **state) {
  (void)state;
  for (int left_out = 0; left_out < 4; left_out++) {
    run whole = start(3, 0, 5, 16), first = start(3, 0, 5, 16);
    situ_manual_seed(7);
    train(&first, 4);
    situ_checkpoint saved = checkpoint_of(&first);
    assert_int_equal(situ_checkpoint_save(path, &saved, NULL), SITU_OK);
    situ_manual_seed(7);
    train(&whole, 8);
    run second = start(3, 0, 99, 16);
    train(&second, 1);
    situ_checkpoint loaded = checkpoint_of(&second);
    if (left_out == 1) loaded.scheduler = NULL;
    if (left_out == 2) loaded.optimizer = NULL;
    if (left_out == 3) loaded.generator = NULL;
    assert_int_equal(situ_checkpoint_load(path, &loaded, NULL), SITU_OK);
    train(&second, 4);
    assert_int_equal(same_runs(&whole, &second), left_out == 0);
    end(&whole);
    end(&first);
    end(&second);
  }
}

static void a_model_alone(void **state) {
  (void)state;
  run a = start(2, 1, 5, 16), b = start(2, 1, 6, 16);
  train(&a, 2);
  situ_checkpoint all = checkpoint_of(&a), model = { .model = b.model };
  assert_int_equal(situ_checkpoint_save(path, &all, NULL), SITU_OK);
  assert_int_equal(situ_checkpoint_load(path, &model, NULL), SITU_OK);
  assert_true(same_trees(situ_nn_state_dict(a.model), situ_nn_state_dict(b.model)));
  /* Its tensors are those of any file. */
  situ_safetensors *f = situ_safetensors_open(path, NULL);
  assert_non_null(situ_safetensors_find(f, "model.0.weight"));
  assert_non_null(situ_safetensors_find(f, "model.1.running_mean"));
  situ_safetensors_close(f);
  end(&a);
  end(&b);
}

/* What does not fit is refused with nothing changed: neither the parts that would have fitted, nor
   the generators. */
static void what_does_not_fit_changes_nothing(void **state) {
  (void)state;
  run saved = start(3, 0, 5, 16);
  train(&saved, 3);
  situ_checkpoint good = checkpoint_of(&saved);
  assert_int_equal(situ_checkpoint_save(path, &good, NULL), SITU_OK);
  for (int variant = 0; variant < 4; variant++) {
    /* Another width, another optimiser, both; a file without an optimiser. */
    int64_t width = variant == 0 || variant == 2 ? 17 : 16;
    int optimizer = variant == 1 || variant == 2 ? 1 : 3;
    if (variant == 3) {
      situ_checkpoint only = { .model = saved.model, .generator = &saved.generator };
      assert_int_equal(situ_checkpoint_save(path, &only, NULL), SITU_OK);
    }
    run mine = start(optimizer, 0, 42, width), twin = start(optimizer, 0, 42, width);
    train(&mine, 2);
    situ_manual_seed(42);
    twin.generator = situ_generator_seeded(43);
    end(&twin);
    twin = start(optimizer, 0, 42, width);
    train(&twin, 2);
    situ_manual_seed(77);
    situ_checkpoint loaded = checkpoint_of(&mine);
    loaded.epoch = 11;
    assert_int_not_equal(situ_checkpoint_load(path, &loaded, NULL), SITU_OK);
    const char *const says = variant == 0 ? "0.weight" : variant == 3 ? "is a checkpoint without optimizer" : "";
    if (!strstr(situ_error_message(), says)) fail_msg("%s", situ_error_message());
    situ_error_clear();
    assert_true(same_runs(&mine, &twin));
    assert_int_equal(loaded.epoch, 11);
    assert_int_equal(situ_get_rng_state().seed, 77);
    end(&mine);
    end(&twin);
  }
  end(&saved);
}

static void refuses_other_files(void **state) {
  (void)state;
  situ_tree *tree = situ_tree_put(situ_tree_dict(), "w", situ_tree_tensor(situ_ones(SITU_SHAPE(2), NULL)));
  assert_int_equal(situ_save("other.safetensors", tree, NULL), SITU_OK);
  situ_tree_free(tree);
  situ_checkpoint none = { 0 };
  assert_int_equal(situ_checkpoint_load("other.safetensors", &none, NULL), SITU_E_FORMAT);
  situ_error_clear();
  assert_int_equal(situ_checkpoint_load("no-such-file", &none, NULL), SITU_E_IO);
  situ_error_clear();
  assert_int_equal(situ_checkpoint_load(path, NULL, NULL), SITU_E_ARG);
  situ_error_clear();
  assert_int_equal(situ_checkpoint_save(path, NULL, NULL), SITU_E_ARG);
  situ_error_clear();
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, open_scope, close_scope)
    T(resumes_bit_for_bit), T(resuming_needs_all_parts), T(a_model_alone), T(what_does_not_fit_changes_nothing),
    T(refuses_other_files),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
