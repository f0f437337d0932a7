/* One mistake on purpose: its error message, and that nothing has changed.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "demo.h"
#include "situ/sys/sim.h"

/* Another device than the network's: the host, or a simulated one. */
static situ_device elsewhere(situ_device home) {
  if (home.kind != SITU_CPU) return situ_dev("cpu");
  if (situ_sim_create(1) != SITU_OK) return (situ_device){ 0 };
  return situ_dev("sim:0");
}

situ_status demo_mistake(situ_nn_module *net, const demo_digits *d) {
  char name[2][SITU_DEVICE_NAME_MAX];
  situ_device home = situ_nn_home(net), away = elsewhere(home);
  if (!away.kind) return situ_error();
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *batch = situ_set_name(situ_to(situ_narrow(d->test_x, 0, 0, 16), away), "batch");
  printf("\nand one mistake on purpose: the network is on %s, a batch of digits on %s\n\n",
         situ_device_name(home, name[0]), situ_device_name(away, name[1]));
  fflush(stdout);
  situ_error_policy policy = situ_error_mode(SITU_ERROR_QUIET); /* printed below */
  situ_tensor *scores = batch ? situ_nn_forward(situ_nn_eval(net), batch) : NULL;
  situ_error_mode(policy);
  situ_status status = scores ? SITU_E_STATE : SITU_OK; /* success would be a bug */
  if (!batch) status = situ_error();
  printf("%s\n", scores ? "it was NOT refused" : situ_error_message());
  if (batch) situ_error_clear();
  if (status == SITU_OK) { /* the line that it names */
    batch = situ_to(batch, home);
    scores = situ_nn_forward(net, batch);
    printf("\n%s\n", scores ? "with that line the digits are read; without it nothing was moved, nothing guessed, "
                              "and no number was made up"
                            : "that line does not help");
    status = scores ? SITU_OK : situ_error();
  }
  situ_status end = situ_scope_end(&s);
  return status == SITU_OK ? end : status;
}
