/* situ_nn_offload of an MLP on a device (the argument; sim:0): wall time of a training step with weights on the device
   and with weights on the host, medians of interleaved rounds; the copies alone; and the part of the shorter of copies
   and step that is hidden behind the other: 0 on a device with one queue.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/ledger.h"
#include "situ/sys/sim.h"
#include "situ/sys/tensor.h"
#include "support/measure.h"

enum { LAYERS = 8, WIDTH = 1024, BATCH = 256, ROUNDS = 7 };

static double step(situ_nn_module *m, situ_tensor *x) {
  situ_scope s;
  const situ_device device = situ_device_of(x);
  const double begin = seconds();
  situ_scope_begin(&s);
  need(situ_backward(situ_mean(situ_square(situ_nn_forward(m, x)), NULL), NULL));
  need(situ_synchronize(device));
  need(situ_scope_end(&s));
  return seconds() - begin;
}

/* About what a step copies: each weight for forward and for backward, and each gradient. */
static double copies(situ_nn_module *m, situ_device device) {
  situ_tree *list = situ_nn_parameters(m);
  const double begin = seconds();
  for (int pass = 0; pass < 2; pass++)
    for (int64_t i = 0; i < situ_tree_count(list); i++) {
      situ_scope s;
      situ_scope_begin_no_grad(&s);
      situ_tensor *t = situ_fetch(situ_tree_tensor_at(list, i), device);
      if (pass) t = situ_fetch(t, situ_dev("cpu"));
      need(t ? SITU_OK : situ_error());
      need(situ_scope_end(&s));
    }
  need(situ_synchronize(device));
  const double time = seconds() - begin;
  situ_tree_free(list);
  return time;
}

int main(int argc, char **argv) {
  const char *name = argc > 1 ? argv[1] : "sim:0";
  if (strncmp(name, "sim", 3) == 0) need(situ_sim_create(1));
  const situ_device device = situ_dev(name);
  situ_nn_module *home = situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, NULL));
  for (int k = 1; k < LAYERS; k++)
    home = situ_nn_append(situ_nn_append(home, situ_nn_relu()), situ_nn_linear(WIDTH, WIDTH, NULL));
  situ_nn_module *there = situ_nn_clone(home);
  need(situ_nn_to(there, device));
  need(situ_nn_offload(home, device));
  situ_tensor *x = situ_randn(SITU_SHAPE(BATCH, WIDTH), &(situ_options){ .device = device });
  need(situ_error());
  double time[3][ROUNDS];
  situ_ledger ledger;
  situ_ledger_begin(&ledger);
  (void)step(home, x);
  const double bytes = (double)situ_ledger_total(&ledger).bytes;
  need(situ_ledger_end(&ledger));
  (void)step(there, x);
  for (int round = 0; round < ROUNDS; round++) {
    time[0][round] = step(there, x);
    time[1][round] = step(home, x);
    time[2][round] = copies(home, device);
  }
  const double on = median(time[0], ROUNDS), off = median(time[1], ROUNDS), copy = median(time[2], ROUNDS);
  printf("%s: a step of %d layers of %d: %.4f s on the device, %.4f s offloaded (x %.2f, %.1f MB copied); copies alone "
         "%.4f s, hidden %.0f %%\n",
         name, LAYERS, WIDTH, on, off, off / on, bytes / 1e6, copy, 100 * (on + copy - off) / (copy < on ? copy : on));
  situ_nn_free(home);
  situ_nn_free(there);
  return 0;
}
