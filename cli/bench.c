/* situ run --bench: the latency of a program's calls.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <situ/progress.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "run.h"

/* Calls are repeated for this many seconds, but at least LEAST times and at most MOST times. */
#define WARM_UP 0.3
#define MEASURED 2.0
enum { LEAST = 10, MOST = 100000 };

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, *y = b;
  return (x > *y) - (x < *y);
}

/* The value that a fraction of the sorted ones does not exceed (nearest rank). */
static double percentile(const double *sorted, int count, double fraction) {
  const int rank = (int)ceil(fraction * count);
  return sorted[rank < 1 ? 0 : rank - 1];
}

static void print_times(const double *sorted, int count, bool json) {
  static const struct {
    const char *name;
    double fraction;
  } shown[] = { { "p10", 0.1 }, { "p50", 0.5 }, { "p90", 0.9 }, { "p99", 0.99 } };
  printf(json ? ",\n \"bench\": {\"calls\": %d" : "latency of %d calls in ms: ", count);
  printf(json ? ", \"min_ms\": %.4f" : "min %.4f", 1e3 * sorted[0]);
  for (size_t i = 0; i < sizeof shown / sizeof *shown; i++)
    printf(json ? ", \"%s_ms\": %.4f" : ", %s %.4f", shown[i].name, 1e3 * percentile(sorted, count, shown[i].fraction));
  printf(json ? "}" : "\n");
}

int run_bench(situ_nn_module *program, const situ_tree *inputs, situ_device device, bool json) {
  double *seconds = malloc(MOST * sizeof *seconds);
  if (!seconds) return cli_no_memory();
  situ_progress bar;
  situ_progress_begin(&bar, "measuring", 0, &(situ_progress_options){ .unit = "call", .quiet = !isatty(2) });
  int count = 0;
  double last = 0;
  for (double began = run_seconds(); last >= 0 && (count < 3 || run_seconds() - began < WARM_UP); count++)
    last = run_timed(program, inputs, device);
  count = 0;
  for (double began = run_seconds(); last >= 0 && count < MOST && (count < LEAST || run_seconds() - began < MEASURED);
       count++) {
    last = seconds[count] = run_timed(program, inputs, device);
    situ_progress_add(&bar, 1);
  }
  situ_progress_end(&bar);
  if (last >= 0) {
    qsort(seconds, (size_t)count, sizeof *seconds, by_value);
    print_times(seconds, count, json);
  }
  free(seconds);
  return last >= 0 ? CLI_OK : cli_failed();
}
