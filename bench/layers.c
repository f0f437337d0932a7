/* Layers that bench/torch/layers.py has beside PyTorch's, f32, one thread. A line of input is a job's name, 1 (with
   gradients) or 0, and a number of calls; the answer is the processor time of one, in seconds.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "support/measure.h"

static situ_tensor *operand[8];
static situ_nn_module *net;
static situ_optim *optim;

static situ_tensor *kept(situ_tensor *x) {
  need(situ_error());
  return situ_retain(x);
}
static situ_tensor *values(situ_shape shape, bool learns) {
  return kept(situ_randn(shape, &(situ_options){ .requires_grad = learns }));
}
static situ_tensor *indices(int64_t below, int64_t count) {
  return kept(situ_randint(0, below, SITU_SHAPE(count), &(situ_options){ .dtype = SITU_I64 }));
}

/* ---- a recurrent layer and what it learns ---- */

static void make_lstm(int64_t batch, int64_t steps, int64_t width, int64_t hidden) {
  net = situ_nn_lstm(width, hidden, &(situ_nn_rnn_options){ .batch_first = true });
  need(situ_error());
  optim = situ_optim_adam(situ_nn_parameters(net), NULL);
  need(situ_error());
  operand[0] = values(SITU_SHAPE(batch, steps, width), false);
  operand[1] = values(SITU_SHAPE(batch, steps, hidden), false);
}
static void make_small_lstm(void) { make_lstm(64, 40, 1, 32); }
static void make_large_lstm(void) { make_lstm(32, 64, 128, 256); }
static situ_tensor *lstm(void) { return situ_nn_forward(net, operand[0]); }
static void lstm_step(void) {
  situ_tensor *loss = situ_mse_loss(lstm(), operand[1], SITU_REDUCTION_MEAN);
  need(situ_optim_zero_grad(optim, true));
  need(situ_backward(loss, NULL));
  need(situ_optim_step(optim));
}

/* ---- ops of operand[0], with the gradient operand[7] of their result ---- */

static void make_depthwise(int64_t k) {
  operand[0] = values(SITU_SHAPE(8, 64, 56, 56), true);
  operand[1] = values(SITU_SHAPE(64, 1, k, k), true);
  operand[7] = values(SITU_SHAPE(8, 64, 56, 56), false);
}
static void make_depthwise_3(void) { make_depthwise(3); }
static void make_depthwise_5(void) { make_depthwise(5); }
static void make_depthwise_7(void) { make_depthwise(7); }
static situ_tensor *depthwise(void) {
  return situ_conv2d(operand[0], operand[1], NULL, &(situ_conv_options){ .groups = 64, .same = true });
}

static void make_group_norm(void) {
  make_depthwise(1);
  operand[1] = values(SITU_SHAPE(64), true);
  operand[2] = values(SITU_SHAPE(64), true);
}
static situ_tensor *group_norm(void) { return situ_group_norm(operand[0], 32, operand[1], operand[2], 0); }

static void make_interpolate(void) {
  operand[0] = values(SITU_SHAPE(8, 64, 28, 28), true);
  operand[7] = values(SITU_SHAPE(8, 64, 56, 56), false);
}
static situ_tensor *twice(situ_interpolate_mode mode) {
  return situ_interpolate(operand[0], &(situ_interpolate_options){ .scale_factor = { 2 }, .mode = mode });
}
static situ_tensor *nearest(void) { return twice(SITU_INTERPOLATE_NEAREST); }
static situ_tensor *bilinear(void) { return twice(SITU_INTERPOLATE_BILINEAR); }
static situ_tensor *bicubic(void) { return twice(SITU_INTERPOLATE_BICUBIC); }

static void make_index(void) {
  operand[0] = values(SITU_SHAPE(10000, 64), true);
  operand[1] = indices(10000, 20000);
  operand[2] = indices(64, 20000);
  operand[3] = values(SITU_SHAPE(20000, 64), false);
  operand[4] = kept(situ_gt_scalar(values(SITU_SHAPE(10000, 64), false), 0));
  operand[7] = operand[3];
}
static void make_index_into(void) {
  make_index();
  operand[7] = values(SITU_SHAPE(10000, 64), false);
}
static void make_index_pairs(void) {
  make_index();
  operand[7] = values(SITU_SHAPE(20000), false);
}
static situ_tensor *index_rows(void) { return situ_index(operand[0], operand + 1, 1); }
static situ_tensor *index_pairs(void) { return situ_index(operand[0], operand + 1, 2); }
static situ_tensor *index_mask(void) { return situ_index(operand[0], operand + 4, 1); }
static situ_tensor *index_put(void) { return situ_index_put(operand[0], operand + 1, 1, operand[3], false); }
static situ_tensor *index_add(void) { return situ_index_put(operand[0], operand + 1, 1, operand[3], true); }

static const struct job {
  const char *name;
  void (*make)(void);
  situ_tensor *(*run)(void);
  void (*step)(void);
} jobs[] = {
  { "lstm_small", make_small_lstm, lstm, lstm_step },
  { "lstm_large", make_large_lstm, lstm, lstm_step },
  { "depthwise_3", make_depthwise_3, depthwise, NULL },
  { "depthwise_5", make_depthwise_5, depthwise, NULL },
  { "depthwise_7", make_depthwise_7, depthwise, NULL },
  { "group_norm", make_group_norm, group_norm, NULL },
  { "interpolate_nearest", make_interpolate, nearest, NULL },
  { "interpolate_bilinear", make_interpolate, bilinear, NULL },
  { "interpolate_bicubic", make_interpolate, bicubic, NULL },
  { "index_rows", make_index, index_rows, NULL },
  { "index_pairs", make_index_pairs, index_pairs, NULL },
  { "index_mask", make_index, index_mask, NULL },
  { "index_put", make_index_into, index_put, NULL },
  { "index_add", make_index_into, index_add, NULL },
};

static void run_once(const struct job *job, bool backward) {
  situ_scope s;
  if (backward) situ_scope_begin(&s);
  else situ_scope_begin_no_grad(&s);
  if (backward && job->step) {
    job->step();
  } else {
    situ_tensor *y = job->run();
    need(situ_error());
    if (backward) need(situ_backward(y, &(situ_backward_options){ .gradient = operand[7] }));
  }
  need(situ_scope_end(&s));
  for (int k = 0; backward && !job->step && k < 3; k++)
    if (operand[k] && situ_requires_grad(operand[k])) need(situ_set_grad(operand[k], NULL));
}

int main(void) {
  char name[64];
  int backward, calls;
  const struct job *now = NULL;
  need(situ_set_num_threads(1));
  while (scanf("%63s %d %d", name, &backward, &calls) == 3) {
    const struct job *job = jobs;
    while (job < jobs + sizeof jobs / sizeof *jobs && strcmp(job->name, name) != 0) job++;
    if (job == jobs + sizeof jobs / sizeof *jobs) return 1;
    if (job != now) {
      memset(operand, 0, sizeof operand);
      job->make();
      now = job;
    }
    const double begin = processor_seconds();
    for (int k = 0; k < calls; k++) run_once(job, backward != 0);
    printf("%.9f\n", (processor_seconds() - begin) / calls);
    (void)fflush(stdout);
  }
  return 0;
}
