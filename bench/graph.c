/* Training steps as calls, and as a graph's replay, on $SITU_BENCH_DEVICE (default: cpu): forward, backward, clipping,
   dropout and the optimiser's step; and a chain of element-wise calls. Both take turns, on the cpu in processor time of
   one thread; the time of each step on the clock is kept, so that percentiles can be told. The memory of the graph is
   beside the most that the calls need at a time.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "situ/sys/backend.h"
#include "support/gpt2.h"
#include "support/measure.h"
#include "support/rounds.h"

enum { STEPS_MAX = 400 };

typedef struct job {
  const char *name;
  situ_nn_module *(*model)(void);
  situ_tensor *(*loss)(const struct job *j);
  situ_optim *(*optim)(situ_tree *, double, const situ_optim_options *);
  double must, must_cuda; /* least speed of a replay, beside the calls */
  int steps;              /* in a round */
  bool clip;
  int64_t rows, in;
  situ_nn_module *net;
  situ_tensor *x, *target;
  situ_optim *o;
} job;

/* ---- the jobs ---- */

static situ_nn_module *tiny_mlp(void) {
  return situ_nn_sequential(situ_nn_linear(10, 16, NULL), situ_nn_relu(), situ_nn_linear(16, 1, NULL));
}
static situ_tensor *squares(const job *j) {
  return situ_mse_loss(situ_nn_forward(j->net, j->x), j->target, SITU_REDUCTION_MEAN);
}

static situ_nn_module *mlp(void) {
  return situ_nn_sequential(situ_nn_linear(64, 64, NULL), situ_nn_relu(), situ_nn_dropout(0.1),
                            situ_nn_linear(64, 64, NULL), situ_nn_relu(), situ_nn_linear(64, 10, NULL));
}
static situ_tensor *classes(const job *j) { return situ_cross_entropy(situ_nn_forward(j->net, j->x), j->target, NULL); }

static const gpt2_config characters = { .vocabulary = 96, .context = 64, .width = 64, .heads = 4, .layers = 2 };
static situ_nn_module *char_gpt(void) { return gpt2_new(&characters); }
static situ_tensor *next_characters(const job *j) {
  situ_tensor *scores = situ_nn_forward(j->net, j->x);
  return situ_cross_entropy(situ_reshape(scores, SITU_SHAPE(-1, characters.vocabulary)), j->target, NULL);
}

/* Fourteen operands and results of 4 MiB call by call, three tile by tile. */
static situ_tensor *chain(const job *j) {
  situ_tensor *d = situ_sub(j->x, j->target);
  return situ_add(situ_mul(d, d), situ_mul_scalar(situ_abs(d), 0.5));
}

static job jobs[] = {
  { .name = "tiny MLP (10-16-1), SGD",
    .model = tiny_mlp,
    .loss = squares,
    .optim = situ_optim_sgd,
    .must = 3,
    .must_cuda = 3,
    .steps = STEPS_MAX,
    .rows = 8,
    .in = 10 },
  { .name = "MLP (3 layers of 64), AdamW",
    .model = mlp,
    .loss = classes,
    .optim = situ_optim_adamw,
    .must = 1.15,
    .must_cuda = 3,
    .steps = 100,
    .rows = 32,
    .in = 64 },
  { .name = "char-GPT (2 x 64), AdamW",
    .model = char_gpt,
    .loss = next_characters,
    .optim = situ_optim_adamw,
    .must = 1,
    .must_cuda = 1.5,
    .steps = 5,
    .clip = true,
    .rows = 16,
    .in = 64 },
  { .name = "5 functions of 1 Mi elements",
    .loss = chain,
    .must = 2,
    .must_cuda = 1,
    .steps = 10,
    .rows = 1024,
    .in = 1024 },
};

static void prepare(job *j) {
  const situ_options whole = { .dtype = SITU_I64 };
  if (!j->model) {
    j->x = situ_randn(SITU_SHAPE(j->rows, j->in), NULL);
    j->target = situ_randn(SITU_SHAPE(j->rows, j->in), NULL);
    need(situ_error());
    return;
  }
  j->net = j->model();
  need(situ_error());
  j->o = j->optim(situ_nn_parameters(j->net), 1e-3, NULL);
  const bool text = j->loss == next_characters;
  j->x = text ? situ_randint(0, characters.vocabulary, SITU_SHAPE(j->rows, j->in), &whole)
              : situ_randn(SITU_SHAPE(j->rows, j->in), NULL);
  j->target = j->loss == squares ? situ_zeros(SITU_SHAPE(j->rows, 1), NULL)
              : text             ? situ_randint(0, characters.vocabulary, SITU_SHAPE(j->rows * j->in), &whole)
                                 : situ_zeros(SITU_SHAPE(j->rows), &whole);
  need(situ_error());
}

static void take_step(const job *j) {
  situ_scope s;
  if (!j->model) {
    static situ_tensor *result;
    situ_scope_begin_no_grad(&s);
    need(situ_set(&result, j->loss(j)) ? SITU_OK : situ_error());
    need(situ_scope_end(&s));
    return;
  }
  situ_scope_begin(&s);
  need(situ_optim_zero_grad(j->o, true));
  need(situ_backward(j->loss(j), NULL));
  if (j->clip) need(situ_optim_clip_grad_norm_(j->o, 1, 2, NULL));
  need(situ_optim_step(j->o));
  need(situ_scope_end(&s));
}

/* ---- measuring ---- */

/* Of the cpu's work alone, so that other programs on the machine count less. */
static double time_of(situ_device device) { return device.kind == SITU_CPU ? processor_seconds() : seconds(); }

/* Seconds of each step, the device waited for only at the end; what they took together is returned. */
static double time_steps(const job *j, situ_graph *graph, situ_device device, double *each) {
  const double begin = time_of(device);
  for (int k = 0; k < j->steps; k++) {
    const double before = seconds();
    if (graph) need(situ_graph_replay(graph));
    else take_step(j);
    each[k] = seconds() - before;
  }
  need(situ_synchronize(device));
  return (time_of(device) - begin) / j->steps;
}

static void tell_percentiles(const char *what, double *each, int count) {
  qsort(each, (size_t)count, sizeof *each, by_value);
  printf("     %-8s p50 %.2f  p90 %.2f  p99 %.2f  most %.2f us\n", what, 1e6 * each[count / 2],
         1e6 * each[count * 9 / 10], 1e6 * each[count * 99 / 100], 1e6 * each[count - 1]);
}

/* ---- the most memory at a time: each allocation of the library comes by here (-Wl,--wrap) ---- */

static int64_t memory_used(situ_device device) {
  situ_device_properties p;
  need(situ_device_info(device, &p));
  return (int64_t)p.memory_used;
}

static int64_t most;
static bool counts;
static void note_memory(situ_device device) {
  if (counts && memory_used(device) > most) most = memory_used(device);
}

situ_status __real_situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data);
situ_status __wrap_situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data);
situ_status __wrap_situ__memory_alloc(const char *op, situ_device device, size_t bytes, void **data) {
  const situ_status status = __real_situ__memory_alloc(op, device, bytes, data);
  note_memory(device);
  return status;
}
situ_storage *__real_situ__memory_reuse(situ_device device, size_t bytes);
situ_storage *__wrap_situ__memory_reuse(situ_device device, size_t bytes);
situ_storage *__wrap_situ__memory_reuse(situ_device device, size_t bytes) {
  situ_storage *storage = __real_situ__memory_reuse(device, bytes);
  note_memory(device);
  return storage;
}

static void zero_grad(const job *j) {
  if (j->model) need(situ_optim_zero_grad(j->o, true));
}

static void measure(job *j, situ_device device) {
  static double calls[ROUNDS_MAX * STEPS_MAX], replays[ROUNDS_MAX * STEPS_MAX]; /* seconds of each */
  double of_calls[ROUNDS_MAX], of_replays[ROUNDS_MAX], ratio[ROUNDS_MAX];
  prepare(j);
  take_step(j);
  zero_grad(j);
  const int64_t before = memory_used(device);
  most = 0;
  counts = true;
  take_step(j);
  counts = false;
  const int64_t calls_need = most - before;
  zero_grad(j);
  need(situ_graph_capture_begin(device));
  take_step(j);
  situ_graph *graph = situ_graph_capture_end();
  need(graph ? SITU_OK : situ_error());
  const double held = (double)(memory_used(device) - before);
  printf("     %s: %zu pieces of work, %.1f KiB of memory, the calls %.1f KiB\n", j->name, situ_graph_length(graph),
         held / 1024, (double)calls_need / 1024);
  (void)time_steps(j, NULL, device, calls);
  (void)time_steps(j, graph, device, replays);
  rounds r = { .wanted = 21, .threads = device.kind == SITU_CPU };
  while (next_round(&r)) {
    of_calls[r.now] = time_steps(j, NULL, device, calls + r.now * j->steps);
    of_replays[r.now] = time_steps(j, graph, device, replays + r.now * j->steps);
    ratio[r.now] = of_calls[r.now] / of_replays[r.now];
  }
  char ours[32], theirs[32], what[64];
  (void)snprintf(ours, sizeof ours, "%.1f us", 1e6 * median(of_replays, keep_quiet(&r, of_replays)));
  (void)snprintf(theirs, sizeof theirs, "calls %.1f us", 1e6 * median(of_calls, keep_quiet(&r, of_calls)));
  tell_rounds(device.kind == SITU_CUDA ? "cuda" : "H8", j->name, ours, theirs, ratio, keep_quiet(&r, ratio),
              was_disturbed(&r), device.kind == SITU_CUDA ? j->must_cuda : j->must, false);
  (void)snprintf(what, sizeof what, "%s, memory", j->name);
  if (device.kind == SITU_CPU) tell("H8", what, "", "", held / (double)calls_need, 0.7, true);
  tell_percentiles("calls", calls, r.count * j->steps);
  tell_percentiles("replays", replays, r.count * j->steps);
  situ_graph_free(graph);
  if (!j->model) return;
  situ_optim_free(j->o);
  situ_nn_free(j->net);
}

int main(void) {
  situ_device_properties p;
  const situ_device device = bench_device(&p);
  if (strstr(p.name, "no GPU")) {
    printf("SKIPPED: %s: its figures would be the host's\n", p.name);
    return 0;
  }
  need(situ_set_default_device(device));
  need(situ_set_num_threads(1));
  for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    measure(&jobs[i], device);
    need(situ_scope_end(&s));
  }
  return 0;
}
