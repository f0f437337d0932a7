/* An OpenCL device ($SITU_BENCH_DEVICE, or the first) beside the cpu backend, the arithmetic's peak and CLBlast: both
   sides of each line in turn, so that a slow moment of the machine hits both; medians of many rounds.
   SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "situ/situ.h"
#include "support/measure.h"
#include "support/peers.h"

enum { ROUNDS = 31, SLOW_ROUNDS = 7, SIDE = 4096 }; /* SIDE * SIDE: 16 Mi elements */

static const char *device_name = "opencl:0";

/* ---- ops at 16 Mi elements, beside the cpu backend ------------------------------------------- */

typedef situ_tensor *(*op_fn)(situ_tensor *const *x);
static situ_tensor *add(situ_tensor *const *x) { return situ_add(x[0], x[1]); }
static situ_tensor *mul(situ_tensor *const *x) { return situ_mul(x[0], x[1]); }
static situ_tensor *relu(situ_tensor *const *x) { return situ_relu(x[0]); }
static situ_tensor *exponential(situ_tensor *const *x) { return situ_exp(x[0]); }
static situ_tensor *copied(situ_tensor *const *x) { return situ_clone(x[0]); }
static situ_tensor *sigmoid(situ_tensor *const *x) { return situ_sigmoid(x[0]); }
static situ_tensor *tangent(situ_tensor *const *x) { return situ_tanh(x[0]); }
static situ_tensor *gelu(situ_tensor *const *x) { return situ_gelu(x[0], SITU_GELU_NONE); }
static situ_tensor *to_f16(situ_tensor *const *x) { return situ_to_dtype(x[0], SITU_F16); }
static situ_tensor *to_bf16(situ_tensor *const *x) { return situ_to_dtype(x[0], SITU_BF16); }
static situ_tensor *to_f32(situ_tensor *const *x) { return situ_to_dtype(x[0], SITU_F32); }
static situ_tensor *turned(situ_tensor *const *x) { return situ_add(situ_transpose(x[0], 0, 1), x[1]); }
static situ_tensor *broadcast(situ_tensor *const *x) { return situ_add(x[0], situ_narrow(x[1], 0, 0, 1)); }
static situ_tensor *sum(situ_tensor *const *x) { return situ_sum(x[0], NULL); }
static situ_tensor *sum_rows(situ_tensor *const *x) {
  return situ_sum(x[0], &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
static situ_tensor *sum_columns(situ_tensor *const *x) {
  return situ_sum(x[0], &(situ_reduce_options){ .dim = SITU_DIMS(0) });
}
static situ_tensor *largest(situ_tensor *const *x) {
  return situ_amax(x[0], &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
static situ_tensor *variance(situ_tensor *const *x) {
  return situ_var(x[0], 1, &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
static situ_tensor *logsumexp(situ_tensor *const *x) {
  return situ_logsumexp(x[0], &(situ_reduce_options){ .dim = SITU_DIMS(1) });
}
static situ_tensor *softmax(situ_tensor *const *x) { return situ_softmax(x[0], 1); }
static situ_tensor *layer_norm(situ_tensor *const *x) {
  return situ_layer_norm(x[0], SITU_SHAPE(SIDE), NULL, NULL, 1e-5);
}

static const struct row {
  const char *goal, *name;
  op_fn op;
  situ_dtype dtype;
  double must;
} rows[] = {
  { "G26", "a + b", add, SITU_F32, 0.85 },
  { "G26", "a * b", mul, SITU_F32, 0.85 },
  { "G26", "relu", relu, SITU_F32, 0.85 },
  { "G26", "exp", exponential, SITU_F32, 0.85 },
  { "G26", "clone", copied, SITU_F32, 0.85 },
  { "", "sigmoid", sigmoid, SITU_F32, 0.5 },
  { "", "tanh", tangent, SITU_F32, 0.5 },
  { "", "gelu", gelu, SITU_F32, 0.5 },
  { "", "a + b, bf16", add, SITU_BF16, 0.5 },
  { "", "f32 to f16", to_f16, SITU_F32, 0.5 },
  { "", "f16 to f32", to_f32, SITU_F16, 0.5 },
  { "", "f32 to bf16", to_bf16, SITU_F32, 0.5 },
  { "", "bf16 to f32", to_f32, SITU_BF16, 0.5 },
  { "", "transposed a + b", turned, SITU_F32, 0.5 },
  { "", "a + row", broadcast, SITU_F32, 0.5 },
  { "", "sum", sum, SITU_F32, 0.5 },
  { "", "sum of rows", sum_rows, SITU_F32, 0.5 },
  { "", "sum of columns", sum_columns, SITU_F32, 0.5 },
  { "", "largest of rows", largest, SITU_F32, 0.5 },
  { "", "variance of rows", variance, SITU_F32, 0.5 },
  { "", "logsumexp of rows", logsumexp, SITU_F32, 0.5 },
  { "", "softmax of rows", softmax, SITU_F32, 0.5 },
  { "", "layer norm of rows", layer_norm, SITU_F32, 0.5 },
};

static double time_of(op_fn op, situ_tensor *const *x) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  double begin = seconds();
  situ_tensor *y = op(x);
  need(y ? situ_synchronize(situ_device_of(y)) : situ_error());
  double taken = seconds() - begin;
  need(situ_scope_end(&s));
  return taken;
}

static void measure_row(const struct row *row) {
  double cpu[ROUNDS], opencl[ROUNDS], ratio[ROUNDS];
  char ours[32], theirs[32];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *x[2], *on_opencl[2];
  for (int k = 0; k < 2; k++) {
    x[k] = situ_to_dtype(situ_randn(SITU_SHAPE(SIDE, SIDE), NULL), row->dtype);
    on_opencl[k] = situ_to(x[k], situ_dev(device_name));
  }
  need(situ_error());
  (void)time_of(row->op, x);
  (void)time_of(row->op, on_opencl);
  for (int r = 0; r < ROUNDS; r++) {
    cpu[r] = time_of(row->op, x);
    opencl[r] = time_of(row->op, on_opencl);
    ratio[r] = cpu[r] / opencl[r];
  }
  (void)snprintf(ours, sizeof ours, "%.2f ms", 1e3 * median(opencl, ROUNDS));
  (void)snprintf(theirs, sizeof theirs, "cpu %.2f ms", 1e3 * median(cpu, ROUNDS));
  tell(row->goal, row->name, ours, theirs, median(ratio, ROUNDS), row->must, false);
  need(situ_scope_end(&s));
}

/* ---- sgemm, beside what two threads could do at best, and CLBlast ---------------------------- */

static situ_tensor *product(situ_tensor *const *x) { return situ_matmul(x[0], x[1]); }

static void measure_sgemm(int64_t n) {
  double share[ROUNDS], speed[ROUNDS], peak[ROUNDS], other[ROUNDS], ratio[ROUNDS];
  char what[32], ours[32], theirs[32];
  const double work = 2.0 * (double)n * (double)n * (double)n;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const situ_options there = { .device = situ_dev(device_name) };
  situ_tensor *x[] = { situ_randn(SITU_SHAPE(n, n), &there), situ_randn(SITU_SHAPE(n, n), &there) };
  need(situ_error());
  (void)time_of(product, x);
  for (int r = 0; r < ROUNDS; r++) {
    peak[r] = peak_of_two_threads(seconds);
    speed[r] = work / time_of(product, x);
    share[r] = speed[r] / peak[r];
  }
  (void)snprintf(what, sizeof what, "sgemm %d / FMA peak", (int)n);
  (void)snprintf(ours, sizeof ours, "%.1f GF/s", 1e-9 * median(speed, ROUNDS));
  (void)snprintf(theirs, sizeof theirs, "%.1f GF/s", 1e-9 * median(peak, ROUNDS));
  tell("G27", what, ours, theirs, median(share, ROUNDS), 0.65, false);
  clblast_job *job = clblast_begin((size_t)n);
  for (int r = 0; job && r < SLOW_ROUNDS; r++) {
    speed[r] = work / time_of(product, x);
    other[r] = work / clblast_time(job, seconds);
    ratio[r] = speed[r] / other[r];
  }
  if (job) {
    (void)snprintf(what, sizeof what, "sgemm %d / CLBlast", (int)n);
    (void)snprintf(ours, sizeof ours, "%.1f GF/s", 1e-9 * median(speed, SLOW_ROUNDS));
    (void)snprintf(theirs, sizeof theirs, "%.1f GF/s", 1e-9 * median(other, SLOW_ROUNDS));
    tell("G27", what, ours, theirs, median(ratio, SLOW_ROUNDS), 5, false);
  }
  clblast_end(job);
  need(situ_scope_end(&s));
}

/* ---- the demo, whole --------------------------------------------------------------------------- */

extern char **environ;

static double time_of_demo(const char *program, const char *device) {
  char *arguments[] = { (char *)program, "--device", (char *)device, "--out", SITU_DEMO_OUT, NULL };
  posix_spawn_file_actions_t actions;
  pid_t child;
  int status = -1;
  double begin = seconds();
  if (posix_spawn_file_actions_init(&actions) ||
      posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ||
      posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO) ||
      posix_spawn(&child, program, &actions, NULL, arguments, environ) || waitpid(child, &status, 0) != child ||
      status) {
    (void)fprintf(stderr, "%s --device %s did not end well\n", program, device);
    exit(1);
  }
  double taken = seconds() - begin;
  (void)posix_spawn_file_actions_destroy(&actions);
  return taken;
}

static void measure_demo(const char *program) {
  enum { RUNS = 3 };
  double cpu[RUNS], opencl[RUNS], ratio[RUNS];
  char ours[32], theirs[32];
  (void)time_of_demo(program, device_name); /* compiles its kernels, or finds them compiled */
  for (int r = 0; r < RUNS; r++) {
    cpu[r] = time_of_demo(program, "cpu");
    opencl[r] = time_of_demo(program, device_name);
    ratio[r] = opencl[r] / cpu[r];
  }
  (void)snprintf(ours, sizeof ours, "%.2f s", median(opencl, RUNS));
  (void)snprintf(theirs, sizeof theirs, "cpu %.2f s", median(cpu, RUNS));
  tell("", "digits demo", ours, theirs, median(ratio, RUNS), 3, true);
}

/* Arguments: what to measure (ops, sgemm, queue, demo), or all. */
static bool wanted(int count, char **names, const char *name) {
  for (int k = 1; k < count; k++)
    if (strcmp(names[k], name) == 0) return true;
  return count == 1;
}

int main(int count, char **names) {
#ifdef SITU_MODULES
  (void)setenv("SITU_MODULE_DIR", SITU_MODULES, 0); /* those of this build */
#endif
  if (getenv("SITU_BENCH_DEVICE")) device_name = getenv("SITU_BENCH_DEVICE");
  situ_tensor *probe = situ_ones(SITU_SHAPE(1), &(situ_options){ .device = situ_dev(device_name) });
  if (!probe) {
    printf("SKIPPED: %s\n", situ_device_status("opencl"));
    return 0;
  }
  need(situ_set_num_threads(2));
  printf("%-4s %-30s %14s %14s %8s\n", "goal", "what", device_name, "beside", "ratio");
  if (wanted(count, names, "queue")) measure_enqueue("G26", situ_dev(device_name));
  for (int64_t n = 512; n <= 1024; n += 256)
    if (wanted(count, names, "sgemm")) measure_sgemm(n);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    if (wanted(count, names, "ops") || (count > 1 && wanted(count, names, rows[k].name))) measure_row(&rows[k]);
  if (wanted(count, names, "demo")) measure_demo(SITU_DEMO);
  situ_drop(&probe);
  return 0;
}
