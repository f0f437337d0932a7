/* A checkpoint that is not loaded changes nothing: each allocation, each read and each device operation of a load fails
   in turn; model, optimiser, scheduler, generators and progress are then what they were, bit for bit.
   SPDX-License-Identifier: MIT */
#include "../support/test.h"

#include <stdio.h>
#include <errno.h>
#include <string.h>

#include "base/file.h"
#include "situ/io.h"
#include "situ/place.h"
#include "situ/sys/alloc.h"
#include "situ/sys/sim.h"
#include "support/optim.h"

static const char path[] = "faults.ckpt";

typedef struct run {
  situ_nn_module *model;
  situ_optim *optimizer;
  situ_lr_scheduler *scheduler;
  situ_generator generator;
} run;

/* `count_dtype`: of a buffer that the program's versions count in with different dtypes. */
static run start(situ_device device, bool adam, situ_dtype count_dtype, uint64_t seed) {
  run r = { .generator = situ_generator_seeded(seed + 1) };
  situ_manual_seed(seed);
  r.model = situ_nn_sequential(situ_nn_linear(4, 6, NULL), situ_nn_batch_norm1d(6, NULL), situ_nn_linear(6, 2, NULL));
  assert_non_null(situ_nn_add_tensor(
      r.model, "seen", NULL, situ_zeros(SITU_SHAPE(1), &(situ_options){ .dtype = count_dtype }), SITU_NN_BUFFER));
  assert_int_equal(situ_nn_to(r.model, device), SITU_OK);
  situ_tree *parameters = situ_nn_parameters(r.model);
  r.optimizer = adam ? situ_optim_adamw(parameters, 1e-3, NULL) : situ_optim_sgd(parameters, 1, OPTIM_MOMENTUM(0.9));
  r.scheduler = situ_lr_scheduler_step_lr(r.optimizer, 2, 0.5);
  assert_non_null(r.scheduler);
  return r;
}

static void train(run *r, int steps) {
  for (int i = 0; i < steps; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    situ_tensor *x =
        situ_randn(SITU_SHAPE(8, 4), &(situ_options){ .generator = &r->generator, .device = situ_nn_home(r->model) });
    situ_tensor *loss = situ_mean(situ_square(situ_nn_forward(r->model, x)), NULL);
    assert_int_equal(situ_optim_zero_grad(r->optimizer, true), SITU_OK);
    assert_int_equal(situ_backward(loss, NULL), SITU_OK);
    assert_int_equal(situ_optim_step(r->optimizer), SITU_OK);
    assert_int_equal(situ_lr_scheduler_step(r->scheduler), SITU_OK);
    assert_int_equal(situ_scope_end(&scope), SITU_OK);
  }
}

static void end(run *r) {
  situ_lr_scheduler_free(r->scheduler);
  situ_optim_free(r->optimizer);
  situ_nn_free(r->model);
}

/* ---- all that a load may change, as bytes ---- */

typedef struct picture {
  unsigned char data[8192];
  size_t bytes;
} picture;

static void add_tree(picture *p, situ_tree *tree) {
  situ_tree *flat = situ_tree_flatten(tree);
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    situ_tensor *t = situ_tree_tensor_at(flat, i);
    size_t bytes = (size_t)situ_numel(t) * situ_dtype_size(situ_dtype_of(t));
    assert_true(p->bytes + bytes <= sizeof p->data);
    assert_int_equal(situ_copy_to_host(t, p->data + p->bytes, bytes), SITU_OK);
    p->bytes += bytes;
  }
  situ_tree_free(flat);
  situ_tree_free(tree);
}

static void add_bytes(picture *p, const void *from, size_t bytes) {
  assert_true(p->bytes + bytes <= sizeof p->data);
  memcpy(p->data + p->bytes, from, bytes);
  p->bytes += bytes;
}

static void take_picture(picture *p, const situ_checkpoint *c) {
  memset(p, 0, sizeof *p);
  situ_scope scope;
  situ_scope_begin(&scope);
  add_tree(p, situ_nn_state_dict(c->model));
  add_tree(p, situ_optim_state_dict(c->optimizer));
  add_tree(p, situ_lr_scheduler_state_dict(c->scheduler));
  const situ_generator now = situ_get_rng_state();
  const uint64_t numbers[] = { now.seed,           now.offset,       c->generator->seed, c->generator->offset,
                               (uint64_t)c->epoch, (uint64_t)c->step };
  add_bytes(p, numbers, sizeof numbers);
  assert_int_equal(situ_scope_end(&scope), SITU_OK);
}

static bool same(const picture *a, const picture *b) {
  return a->bytes == b->bytes && memcmp(a->data, b->data, a->bytes) == 0;
}

static situ_checkpoint checkpoint_of(run *r) {
  return (situ_checkpoint){
    .model = r->model, .optimizer = r->optimizer, .scheduler = r->scheduler, .generator = &r->generator
  };
}

static void save_one(situ_dtype count_dtype) {
  run saved = start((situ_device){ SITU_CPU, 0 }, true, count_dtype, 5);
  train(&saved, 3);
  situ_checkpoint c = checkpoint_of(&saved);
  c.epoch = 3;
  c.step = 12;
  assert_int_equal(situ_checkpoint_save(path, &c, &(situ_save_options){ .no_sync = true }), SITU_OK);
  end(&saved);
}

/* ---- refused for one part ---- */

static void an_optimiser_that_does_not_fit(void **state) {
  (void)state;
  const situ_dtype counts[] = { SITU_F32, SITU_I32 };
  for (int k = 0; k < 2; k++) {
    save_one(counts[k]);
    run mine = start((situ_device){ SITU_CPU, 0 }, false, SITU_F32, 9);
    train(&mine, 1);
    situ_checkpoint c = checkpoint_of(&mine);
    picture before, after;
    take_picture(&before, &c);
    assert_int_not_equal(situ_checkpoint_load(path, &c, NULL), SITU_OK);
    situ_error_clear();
    take_picture(&after, &c);
    assert_true(same(&before, &after));
    end(&mine);
  }
}

/* ---- failing everything in turn ---- */

static int64_t reads, fail_read;
static ssize_t (*real_pread)(int fd, void *data, size_t bytes, off_t offset);
static ssize_t counted_pread(int fd, void *data, size_t bytes, off_t offset) {
  if (++reads == fail_read) return errno = EIO, -1;
  return real_pread(fd, data, bytes, offset);
}

typedef enum source { ALLOCATION, READ, SIM_ALLOC, SIM_COPY, SIM_LATE, SIM_LOST, SOURCES } source;

static void arm(source which, uint64_t nth) {
  if (which == ALLOCATION) situ_fail_allocation(nth, false);
  reads = 0;
  fail_read = which == READ ? (int64_t)nth : 0;
  if (which >= SIM_ALLOC)
    assert_int_equal(situ_sim_fail(0, (situ_sim_fault)(which - SIM_ALLOC), nth, which == SIM_ALLOC), SITU_OK);
}

static void disarm(source which) {
  situ_fail_allocation(0, false);
  fail_read = 0;
  if (which >= SIM_ALLOC) assert_int_equal(situ_sim_reset(0), SITU_OK);
}

/* Fails the nth until a load gets by; returns how many did not. */
static int fail_each(situ_device device, source which, situ_dtype count_dtype) {
  int refused = 0;
  for (uint64_t nth = 1;; nth++) {
    run mine = start(device, true, SITU_F32, 9);
    train(&mine, 1);
    situ_checkpoint c = checkpoint_of(&mine);
    c.epoch = 1;
    picture before, after;
    take_picture(&before, &c);
    if (which == SIM_ALLOC) assert_int_equal(situ_empty_cache(device), SITU_OK);
    arm(which, nth);
    const situ_status status = situ_checkpoint_load(path, &c, &(situ_load_options){ .device = device });
    disarm(which);
    if (status == SITU_OK && situ_error() != SITU_OK)
      fail_msg("fault %d, number %d: OK, and an error: %s", which, (int)nth, situ_error_message());
    situ_error_clear();
    take_picture(&after, &c);
    if (status == SITU_OK) assert_int_equal(c.step, 12);
    else if (!same(&before, &after))
      fail_msg("fault %d, number %d (%s; count %s): a refused load has changed something", which, (int)nth,
               situ_status_name(status), situ_dtype_name(count_dtype));
    end(&mine);
    if (status == SITU_OK) return refused;
    refused++;
    assert_true(nth < 5000);
  }
}

static void every_failure_changes_nothing(void **state) {
  (void)state;
  real_pread = situ__sys.pread;
  situ__sys.pread = counted_pread;
  const situ_dtype counts[] = { SITU_F32, SITU_I32 };
  int total = 0;
  for (int k = 0; k < 2; k++) {
    save_one(counts[k]);
    for (source which = ALLOCATION; which < SOURCES; which++) {
      for (int d = 0; d < 2; d++) {
        const situ_device device = { d ? SITU_SIM : SITU_CPU, 0 };
        if (!d && which >= SIM_ALLOC) continue;
        const int refused = fail_each(device, which, counts[k]);
        assert_true(refused > 0);
        total += refused;
      }
    }
  }
  situ__sys.pread = real_pread;
  printf("%d loads failed, each in another place\n", total);
}

int main(void) {
  if (situ_sim_create(1) != SITU_OK) return 1;
  const struct CMUnitTest tests[] = { TEST(an_optimiser_that_does_not_fit), TEST(every_failure_changes_nothing) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
