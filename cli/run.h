/* Internals of situ run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CLI_RUN_H
#define SITU_CLI_RUN_H

#include "cli.h"

/* Bytes of the name of a result's file. */
enum { NAME_SIZE = 160 };

typedef struct run_costs {
  situ_device device;
  double load, run; /* seconds */
} run_costs;

/* Seconds of a clock that only goes forward. (time.c) */
double run_seconds(void);
/* Runs the program once. Returns the seconds until its results are computed; negative on error. (time.c) */
double run_timed(situ_nn_module *program, const situ_tree *inputs, situ_device device);
/* Measures and prints the latency of calls, after a warm-up. Returns an exit code. (bench.c) */
int run_bench(situ_nn_module *program, const situ_tree *inputs, situ_device device, bool json);
/* Runs the program once more, and prints or writes where the time goes. Returns an exit code. (profile.c) */
int run_profile(situ_nn_module *program, const situ_tree *inputs, situ_device device, const cli_options *options);

#endif
