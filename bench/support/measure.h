/* What every benchmark measures and says with.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BENCH_MEASURE_H
#define SITU_BENCH_MEASURE_H

#include <dirent.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "situ/situ.h"

static inline double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Of this process: others on the machine do not count. */
static inline double processor_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for which threads of this process were ready and had no core: what other programs add to the time on the
   clock. 0 where Linux does not tell. */
static inline double waited_seconds(void) {
  DIR *tasks = opendir("/proc/self/task");
  double nanoseconds = 0;
  for (struct dirent *task; tasks && (task = readdir(tasks));) {
    char path[300], line[128];
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/schedstat", task->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    if (fgets(line, sizeof line, file)) nanoseconds += strtod(line + strcspn(line, " "), NULL);
    (void)fclose(file);
  }
  if (tasks) (void)closedir(tasks);
  return 1e-9 * nanoseconds;
}

/* Resident bytes of this process: "VmRSS" are those of now, "VmHWM" the most since forget_peak. */
static inline double resident(const char *what) {
  FILE *file = fopen("/proc/self/status", "r");
  char line[256];
  double kib = 0;
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, what, strlen(what)) == 0) kib = strtod(strpbrk(line, "0123456789"), NULL);
  if (file) (void)fclose(file);
  return 1024 * kib;
}

static inline void forget_peak(void) {
  FILE *file = fopen("/proc/self/clear_refs", "w");
  if (!file) return;
  (void)fputs("5", file);
  (void)fclose(file);
}

static inline int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

static inline double median(double *list, int count) {
  qsort(list, (size_t)count, sizeof *list, by_value);
  return list[count / 2];
}

/* Ends the program where there is nothing to measure: a benchmark without its subject says so. */
static inline void need(situ_status status) {
  if (status == SITU_OK) return;
  (void)fprintf(stderr, "%s\n", situ_error_message());
  exit(1);
}

/* $SITU_BENCH_DEVICE, or the host, and what it is; where it is not there, there is nothing to measure. */
static inline situ_device bench_device(situ_device_properties *p) {
#ifdef SITU_MODULES
  (void)setenv("SITU_MODULE_DIR", SITU_MODULES, 0);
#endif
  const char *name = getenv("SITU_BENCH_DEVICE");
  const situ_device device = situ_dev(name ? name : "cpu");
  if (!situ_device_is_available(device)) {
    printf("SKIPPED: there is no %s\n", name);
    exit(0);
  }
  need(situ_device_info(device, p));
  return device;
}

/* The median and quartiles of `count` ratios, which are sorted; disturbed: of rounds.h; at_most: less is better. */
static inline void tell_rounds(const char *goal, const char *what, const char *ours, const char *theirs, double *ratios,
                               int count, bool disturbed, double must, bool at_most) {
  const double ratio = median(ratios, count);
  printf("%-4s %-42s %14s %14s %8.2f  must %s %-5g %s\n", goal, what, ours, theirs, ratio, at_most ? "<=" : ">=", must,
         (at_most ? ratio <= must : ratio >= must) ? "met" : "NOT MET");
  printf("{\"goal\": \"%s\", \"what\": \"%s\", \"ratio\": %.3f, \"low\": %.3f, \"high\": %.3f, \"must\": %g, "
         "\"at_most\": %s%s}\n",
         goal, what, ratio, ratios[count / 4], ratios[3 * count / 4], must, at_most ? "true" : "false",
         disturbed ? ", \"disturbed\": true" : "");
  (void)fflush(stdout);
}

/* One ratio. */
static inline void tell(const char *goal, const char *what, const char *ours, const char *theirs, double ratio,
                        double must, bool at_most) {
  tell_rounds(goal, what, ours, theirs, &ratio, 1, false, must, at_most);
}

/* The host's cost of an op: only the calls are timed, without waiting, and the queue is drained between rounds. */
static inline void measure_enqueue(const char *goal, situ_device device) {
  enum { TIMES = 31, CALLS = 256 };
  double each[TIMES];
  char ours[32];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x = situ_ones(SITU_SHAPE(64), &(situ_options){ .device = device });
  need(situ_error());
  for (int r = -1; r < TIMES; r++) {
    double begin = seconds();
    for (int k = 0; k < CALLS; k++) (void)!situ_mul_scalar_(x, 0.5);
    if (r >= 0) each[r] = 1e6 * (seconds() - begin) / CALLS;
    need(situ_synchronize(device));
  }
  double cost = median(each, TIMES);
  (void)snprintf(ours, sizeof ours, "%.2f us", cost);
  tell(goal, "queueing x *= 0.5", ours, "", cost, 4, true);
  need(situ_scope_end(&s));
}

#endif
