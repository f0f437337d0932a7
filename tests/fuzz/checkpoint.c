/* Fuzzes the loading of checkpoints: what is refused has changed nothing, and a run that was filled in can go on.
   SPDX-License-Identifier: MIT */
#include "memory_file.h"
#include "situ/io.h"
#include "situ/nn.h"
#include "situ/ops.h"
#include "situ/optim.h"
#include "situ/random.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STATES = 4, BYTES = 6 * sizeof(float) };

/* All that a load fills in. */
typedef struct snapshot {
  int64_t epoch, step;
  situ_generator generator, general;
  int64_t last_epoch;
  float value[STATES][6];
} snapshot;

static snapshot look(const situ_checkpoint *c) {
  snapshot s = { .epoch = c->epoch,
                 .step = c->step,
                 .generator = *c->generator,
                 .general = situ_get_rng_state(),
                 .last_epoch = situ_lr_scheduler_last_epoch(c->scheduler) };
  situ_tensor *w = situ_optim_param(c->optimizer, 0, NULL), *b = situ_optim_param(c->optimizer, 1, NULL);
  situ_tensor *all[STATES] = { w, b, situ_optim_state(c->optimizer, 0, 0, NULL),
                               situ_optim_state(c->optimizer, 1, 1, NULL) };
  for (int i = 0; i < STATES; i++)
    if (all[i] && situ_copy_to_host(all[i], s.value[i], (size_t)situ_numel(all[i]) * sizeof(float)) != SITU_OK) abort();
  return s;
}

static situ_status train(const situ_checkpoint *c) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_status status = situ_optim_zero_grad(c->optimizer, true);
  situ_tensor *x = situ_ones(SITU_SHAPE(4, 3), NULL);
  if (status == SITU_OK) status = situ_backward(situ_mean(situ_nn_forward(c->model, x), NULL), NULL);
  if (status == SITU_OK) status = situ_optim_step(c->optimizer);
  if (status == SITU_OK) status = situ_lr_scheduler_step(c->scheduler);
  situ_status ended = situ_scope_end(&scope);
  return status ? status : ended;
}

static void load(const situ_load_options *options) {
  situ_generator generator = situ_generator_seeded(7);
  situ_nn_module *model = situ_nn_linear(3, 2, NULL);
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(model), 1e-3, NULL);
  situ_checkpoint c = { .model = model,
                        .optimizer = optim,
                        .scheduler = situ_lr_scheduler_step_lr(optim, 5, 0.5),
                        .generator = &generator,
                        .epoch = 3,
                        .step = 9 };
  if (train(&c) != SITU_OK) abort();
  const snapshot before = look(&c);
  situ_status status = situ_checkpoint_load("f", &c, options);
  if ((status == SITU_OK) != (situ_error() == SITU_OK)) abort();
  situ_error_clear();
  const snapshot after = look(&c);
  if (status != SITU_OK && memcmp(&before, &after, sizeof before) != 0) abort();
  if (status == SITU_OK) SITU_IGNORE(train(&c)); /* numbers of the file may be such that it is refused */
  situ_error_clear();
  situ_lr_scheduler_free(c.scheduler);
  situ_optim_free(optim);
  situ_nn_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  (void)situ_error_mode(SITU_ERROR_QUIET);
  memory_files(NULL, 0, data, size);
  for (int variant = 0; variant < 2; variant++) {
    situ_scope scope;
    int64_t live = situ_live_tensors();
    situ_scope_begin(&scope);
    load(&(situ_load_options){ .map = variant == 1, .verify = SITU_VERIFY_NEVER });
    if (situ_scope_end(&scope) != SITU_OK) abort();
    if (situ_live_tensors() != live) abort();
  }
  return 0;
}
