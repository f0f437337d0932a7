/* The network and its training.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <time.h>

#include "demo.h"

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static situ_nn_module *block(int64_t in, int64_t out) {
  return situ_nn_sequential(
      situ_nn_conv2d(in, out, SITU_DIMS(3), &(situ_nn_conv_options){ .padding = SITU_DIMS(1), .no_bias = true }),
      situ_nn_batch_norm2d(out, NULL), situ_nn_relu());
}

situ_nn_module *demo_network(void) {
  return situ_nn_sequential(block(1, 16), block(16, 32), situ_nn_max_pool2d(SITU_DIMS(2), NULL), block(32, 32),
                            situ_nn_flatten(1, -1), situ_nn_dropout(0.25), situ_nn_linear(32 * 4 * 4, 10, NULL));
}

situ_tensor *demo_scores(situ_nn_module *net, situ_tensor *pictures) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  return situ_scope_return(&s, situ_nn_forward(situ_nn_eval(net), situ_to(pictures, situ_nn_home(net))));
}

situ_status demo_accuracy(situ_tensor *scores, situ_tensor *labels, double *out) {
  situ_tensor *best = situ_argmax(scores, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
  situ_tensor *right = situ_eq(best, situ_to(labels, situ_device_of(scores)));
  return situ_item(situ_mean(situ_to_dtype(right, SITU_F64), NULL), out);
}

/* One batch: forward, backward, step. */
static situ_status step(situ_nn_module *net, situ_optim *optim, const situ_tree *batch, double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *scores = situ_nn_forward(net, situ_tree_tensor_at(batch, 0));
  situ_tensor *loss = situ_cross_entropy(scores, situ_tree_tensor_at(batch, 1), NULL);
  SITU_TRY(situ_optim_zero_grad(optim, true));
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_step(optim));
  SITU_TRY(situ_item(loss, loss_out));
  return situ_scope_end(&s);
}

static situ_status evaluate(situ_nn_module *net, const demo_digits *d, double *loss, double *accuracy) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *scores = demo_scores(net, d->test_x);
  SITU_TRY(demo_accuracy(scores, d->test_y, accuracy));
  SITU_TRY(situ_item(situ_cross_entropy(scores, situ_to(d->test_y, situ_nn_home(net)), NULL), loss));
  return situ_scope_end(&s);
}

static situ_status epoch(situ_nn_module *net, situ_optim *optim, situ_lr_scheduler *schedule, situ_data_loader *loader,
                         const demo_digits *d, int e, demo_history *h) {
  char label[32];
  snprintf(label, sizeof label, "epoch %2d/%d", e + 1, h->epochs);
  situ_progress bar;
  situ_progress_begin(&bar, label, situ_data_loader_length(loader), &(situ_progress_options){ .unit = "batch" });
  double sum = 0, loss = 0;
  int64_t batches = 0;
  situ_status status = SITU_OK;
  const situ_tree *batch;
  situ_nn_train(net, true);
  while (status == SITU_OK && (batch = situ_data_loader_next(loader))) {
    status = step(net, optim, batch, &loss);
    if (status == SITU_OK) status = situ_lr_scheduler_step(schedule);
    sum += loss;
    situ_progress_note(&bar, "loss %.3f", sum / (double)++batches);
    situ_progress_add(&bar, 1);
  }
  if (status == SITU_OK) status = situ_error();
  if (status == SITU_OK) status = evaluate(net, d, &h->test_loss[e], &h->accuracy[e]);
  h->loss[e] = sum / (double)(batches ? batches : 1);
  situ_progress_note(&bar, "loss %.3f, held-back loss %.3f, accuracy %.1f %%", h->loss[e], h->test_loss[e],
                     100 * h->accuracy[e]);
  situ_progress_end(&bar);
  return status;
}

situ_status demo_train(situ_nn_module *net, const demo_digits *d, int epochs, demo_history *h) {
  double begin = seconds();
  *h = (demo_history){ .epochs = epochs };
  situ_generator generator = situ_generator_seeded(7);
  situ_dataset *set = situ_tensor_dataset(SITU_TREE(d->train_x, d->train_y));
  situ_data_loader *loader = situ_data_loader_new(
      set,
      &(situ_data_loader_options){
          .batch_size = 64, .shuffle = true, .drop_last = true, .generator = &generator, .device = situ_nn_home(net) });
  situ_optim *optim = situ_optim_adamw(situ_nn_parameters(net), 1e-3, NULL);
  situ_lr_scheduler *schedule =
      situ_lr_scheduler_one_cycle_lr(optim, 5e-3, epochs * situ_data_loader_length(loader) + 1, NULL);
  situ_status status = schedule && loader ? SITU_OK : situ_error();
  for (int e = 0; status == SITU_OK && e < epochs; e++) status = epoch(net, optim, schedule, loader, d, e, h);
  situ_lr_scheduler_free(schedule);
  situ_optim_free(optim);
  situ_data_loader_free(loader);
  situ_dataset_free(set);
  h->seconds = seconds() - begin;
  return status;
}
