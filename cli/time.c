/* situ run: a clock, and one run of a program by it.
   SPDX-License-Identifier: MIT */
#include <time.h>

#include "run.h"

double run_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

double run_timed(situ_nn_module *program, const situ_tree *inputs, situ_device device) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const double began = run_seconds();
  situ_tree *out = situ_nn_call(program, inputs);
  const bool fine = out && situ_synchronize(device) == SITU_OK;
  const double seconds = run_seconds() - began;
  situ_tree_free(out);
  return situ_scope_end(&scope) == SITU_OK && fine ? seconds : -1;
}
