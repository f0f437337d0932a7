/* A host with GNU's OpenMP, whose idle threads spin: between two jobs of situ its own threads sleep. */
#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "situ/situ.h"
#include "support/test.h"

enum { JOBS = 200, WORKERS = 3, MANY = 1 << 20 };
static const struct timespec pause_between = { .tv_nsec = 200000 }; /* a fifth of what a thread spins elsewhere */

/* How often the threads of this process but the first have slept. */
static long count_sleeps(void) {
  long sleeps = 0;
  DIR *tasks = opendir("/proc/self/task");
  assert_non_null(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    char path[300], line[128];
    (void)snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *file = strtol(task->d_name, NULL, 10) == (long)getpid() ? NULL : fopen(path, "r");
    while (file && fgets(line, sizeof line, file))
      if (strncmp(line, "voluntary_ctxt_switches:", 24) == 0) sleeps += strtol(line + 24, NULL, 10);
    if (file) (void)fclose(file);
  }
  (void)closedir(tasks);
  return sleeps;
}

static void threads_sleep_between_jobs(void **state) {
  (void)state;
  situ_tensor *x = situ_ones(SITU_SHAPE(MANY), NULL);
  assert_int_equal(situ_set_num_threads(WORKERS + 1), SITU_OK);
  assert_non_null(situ_mul_scalar_(x, 1.5));
  const long before = count_sleeps();
  for (int k = 0; k < JOBS; k++) {
    assert_non_null(situ_mul_scalar_(x, k % 2 ? 2 : 0.5));
    (void)nanosleep(&pause_between, NULL);
  }
  /* Each thread sleeps once a job, but where the scheduler lets it run too late for that; threads that spin sleep hardly ever. */
  assert_in_range(count_sleeps() - before, WORKERS * JOBS / 2, 100 * WORKERS * JOBS);
}

int main(void) {
  if (!dlopen("libgomp.so.1", RTLD_NOW | RTLD_GLOBAL)) {
    puts("SKIPPED: there is no libgomp");
    return 77;
  }
  const struct CMUnitTest tests[] = { TEST(threads_sleep_between_jobs) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
