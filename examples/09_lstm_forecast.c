/* An LSTM learns the cycle of the sun's spots, from 1700 to 1957, and forecasts the years after: each from the years
   before it, then 22 in a row from its own forecasts, with the layer's states carried along.
   usage: 09_lstm_forecast [STEPS]
   SPDX-License-Identifier: MIT */
/* test-args: 100 */
/* test-slow: cpu/sanitized opencl:0 */
#include <stdio.h>
#include <stdlib.h>

#include "device.h"
#include "situ/situ.h"
#include "start.h"

enum { YEARS = 309, LEARNT = 258, WINDOW = 40, WINDOWS = LEARNT - WINDOW, WIDTH = 32 };

/* class Forecaster(nn.Module): the next value after each of [N, L, 1] */
typedef struct {
  situ_nn_module base;
  situ_nn_module *lstm, *head;
} forecaster;

/* hx: the states before, and after; NULL: zeros before. They belong to the caller's scope, as the result does. */
static situ_tensor *forecaster_go_on(const forecaster *m, situ_tensor *x, situ_nn_hx *hx) {
  return situ_nn_forward(m->head, situ_nn_recur(m->lstm, x, hx));
}
static situ_tensor *forecaster_forward(situ_nn_module *self, situ_tensor *x) {
  return forecaster_go_on((forecaster *)self, x, NULL);
}
static const situ_nn_type forecaster_type = { .name = "Forecaster",
                                              .size = sizeof(forecaster),
                                              .forward = forecaster_forward };

static situ_nn_module *forecaster_new(void) {
  forecaster *m = situ_nn_alloc(&forecaster_type);
  situ_nn_child(m, lstm, situ_nn_lstm(1, WIDTH, &(situ_nn_rnn_options){ .batch_first = true }));
  situ_nn_child(m, head, situ_nn_linear(WIDTH, 1, NULL));
  return situ_nn_done(m);
}

static situ_status train_step(situ_nn_module *net, situ_optim *optim, situ_tensor *x, situ_tensor *y,
                              double *loss_out) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *loss = situ_mse_loss(situ_nn_forward(net, x), y, SITU_REDUCTION_MEAN);
  SITU_TRY(situ_optim_zero_grad(optim, true));
  SITU_TRY(situ_backward(loss, NULL));
  SITU_TRY(situ_optim_step(optim));
  SITU_TRY(situ_item(loss, loss_out));
  return situ_scope_end(&s);
}

/* Root mean square of a - b, in spots. */
static situ_status distance(situ_tensor *a, situ_tensor *b, double *out) {
  return situ_item(situ_mul_scalar(situ_sqrt(situ_mse_loss(a, b, SITU_REDUCTION_MEAN)), 100), out);
}

/* The years after LEARNT: each from all before it, beside "as last year"; then from the forecasts alone. */
static situ_status forecast(situ_nn_module *net, situ_tensor *spots) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  int64_t rest = YEARS - LEARNT;
  situ_tensor *all = situ_reshape(spots, SITU_SHAPE(1, YEARS, 1)), *later = situ_narrow(all, 1, LEARNT, rest);
  situ_tensor *said = situ_nn_forward(net, situ_narrow(all, 1, 0, YEARS - 1));
  double error, last_year;
  SITU_TRY(distance(situ_narrow(said, 1, LEARNT - 1, rest), later, &error));
  SITU_TRY(distance(situ_narrow(all, 1, LEARNT - 1, rest), later, &last_year));
  printf("1958 to 2008, a year ahead: off by %.1f spots; \"as last year\" by %.1f\n\n", error, last_year);

  situ_nn_hx states = { 0 };
  situ_tensor *next = forecaster_go_on((forecaster *)net, situ_narrow(all, 1, 0, LEARNT), &states);
  next = situ_narrow(next, 1, LEARNT - 1, 1);
  printf("year  forecast  was      (from its own forecasts since 1957)\n");
  for (int year = 1958; year < 1980; year++) {
    double said_now, was;
    SITU_TRY(situ_item(next, &said_now));
    SITU_TRY(situ_item(situ_select(later, 1, year - 1958), &was));
    printf("%d  %8.0f  %3.0f\n", year, 100 * said_now, 100 * was);
    next = forecaster_go_on((forecaster *)net, next, &states);
  }
  return situ_scope_end(&s);
}

int main(int argc, char **argv) {
  situ_device device = device_of(&argc, argv, "cpu");
  long steps = argc > 1 && argv[1][0] != '-' ? strtol(argv[1], NULL, 10) : 300;
  situ_scope s;
  situ_scope_begin(&s);
  situ_manual_seed(9);
  if (situ_set_default_device(device) != SITU_OK) return 1;

  situ_tensor *table =
      situ_csv_load(SITU_EXAMPLE_DATA "/sunspots.csv", &(situ_csv_options){ .skip_lines = 1, .device = device });
  situ_tensor *spots = situ_div_scalar(situ_select(table, 1, 1), 100); /* [YEARS], 0 to about 2 */
  /* Every window of the learnt years, and the same a year later: two views. */
  situ_tensor *x = situ_as_strided(spots, SITU_DIMS(WINDOWS, WINDOW, 1), SITU_DIMS(1, 1, 1), 0);
  situ_tensor *y = situ_as_strided(spots, SITU_DIMS(WINDOWS, WINDOW, 1), SITU_DIMS(1, 1, 1), 1);
  situ_nn_module *net = forecaster_new();
  situ_optim *optim = situ_optim_adam(situ_nn_parameters(net), 1e-2, NULL);

  situ_status status = net && optim ? save_start(argc, argv, net) : SITU_E_STATE;
  double loss = 0;
  for (long step = 0; status == SITU_OK && step <= steps; step++) {
    status = train_step(net, optim, x, y, &loss);
    if (status == SITU_OK && step % 50 == 0) printf("step %ld  loss %.6f\n", step, loss);
  }
  if (status == SITU_OK) status = forecast(net, spots);
  situ_optim_free(optim);
  situ_nn_free(net);
  situ_status end = situ_scope_end(&s);
  return status != SITU_OK || end != SITU_OK;
}
