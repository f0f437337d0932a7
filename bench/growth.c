/* Cost of a layer in models of 100 to 100,000 layers, for calls that take a model: what grows faster than its model
   shows here. Of each size there are as many models as have 100,000 layers, so that all touch as much memory.
   Processor time of one thread, the least of three rounds.
     growth [--cold] [NAME+NAME.. [LAYERS]]   only jobs whose names contain a NAME; up to LAYERS layers; --cold: models
                                              of 1,000 layers with empty caches before each call, too
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "situ/sys/sim.h"
#include "support/measure.h"

enum { LEAST = 100, SIZES = 4, WIDTH = 4, ROUNDS = 3, COLD = 1 /* the size of which there are cold calls */ };
#define PATIENCE 60.0 /* seconds for a job at one size */

/* A model, and what jobs need beside it. */
typedef struct model {
  int size;
  situ_nn_module *net;
  situ_tensor *x; /* an input */
  situ_optim *optim;
  situ_tree *state, *inputs;
  void *made; /* by the job's `prepare` */
} model;

static char directory[64] = "/tmp/situ-growth-XXXXXX";

static const char *in_directory(const char *name) {
  static char path[512];
  (void)snprintf(path, sizeof path, "%s/%s", directory, name);
  return path;
}

static void remove_directory(void) {
  DIR *files = opendir(directory);
  for (struct dirent *file; files && (file = readdir(files));) (void)unlink(in_directory(file->d_name));
  if (files) (void)closedir(files);
  (void)rmdir(directory);
}

static situ_tensor *copy_tensor(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(t);
}

static situ_nn_module *make(int size) {
  situ_nn_module *net = situ_nn_sequential_of(0, NULL);
  for (int k = 0; k < size; k++)
    net = situ_nn_append(net, situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .no_bias = true }));
  need(situ_error());
  return net;
}

static void fill(model *m, int size) {
  *m = (model){ .size = size, .net = make(size), .x = situ_ones(SITU_SHAPE(1, WIDTH), NULL) };
  m->inputs = situ_tree_of(1, &m->x);
  m->optim = situ_optim_adamw(situ_nn_parameters(m->net), 1e-3, NULL);
  for (int64_t i = 0; i < size; i++)
    need(situ_set_grad(situ_optim_param(m->optim, i, NULL), situ_ones(SITU_SHAPE(WIDTH, WIDTH), NULL)));
  situ_tree *own = situ_nn_state_dict(m->net);
  m->state = situ_tree_map(own, copy_tensor, NULL);
  situ_tree_free(own);
  need(situ_error());
}

static void empty(model *m) {
  situ_tree_free(m->inputs);
  situ_tree_free(m->state);
  situ_optim_free(m->optim);
  situ_nn_free(m->net);
}

/* ---- jobs ---- */

static void make_and_free(model *m) { situ_nn_free(make(m->size)); }
static void clone_model(model *m) { situ_nn_free(situ_nn_clone(m->net)); }
static void list_parameters(model *m) { situ_tree_free(situ_nn_parameters(m->net)); }
static void count_parameters(model *m) { need(situ_nn_num_parameters(m->net) > 0 ? SITU_OK : situ_error()); }
static void state_dict(model *m) { situ_tree_free(situ_nn_state_dict(m->net)); }
static void load_state(model *m) { need(situ_nn_load_state_dict(m->net, m->state, NULL)); }
static void look_up(model *m) {
  char path[32];
  for (int k = 0; k < m->size; k++) {
    (void)snprintf(path, sizeof path, "%d.weight", k);
    need(situ_nn_get_tensor(m->net, path) ? SITU_OK : situ_error());
  }
}
static void switch_mode(model *m) { need(situ_nn_train(situ_nn_eval(m->net), true) ? SITU_OK : situ_error()); }
static void switch_gradients(model *m) {
  need(situ_nn_requires_grad_(situ_nn_requires_grad_(m->net, false), true) ? SITU_OK : situ_error());
}
static void print_model(model *m) { need(situ_nn_to_string(m->net, NULL, 0) > 0 ? SITU_OK : situ_error()); }
static void move_model(model *m) {
  need(situ_nn_to(m->net, situ_dev("sim:0")));
  need(situ_nn_to(m->net, situ_dev("cpu")));
}
static void move_by_map(model *m) {
  need(situ_nn_to_map(m->net, "1*=sim:0, *=cpu"));
  need(situ_nn_to(m->net, situ_dev("cpu")));
}
static void cast_model(model *m) {
  need(situ_nn_to_dtype(m->net, SITU_F64));
  need(situ_nn_to_dtype(m->net, SITU_F32));
}

static void place_text(model *m) { need(situ_place_to_string(m->net, NULL, NULL, 0) > 0 ? SITU_OK : situ_error()); }
static void place_json(model *m) { need(situ_place_json(m->net, NULL, 0) > 0 ? SITU_OK : situ_error()); }
static void place_svg(model *m) { need(situ_place_svg(m->net, in_directory("net.svg"), NULL)); }
static void lock_write(model *m) { need(situ_place_lock_write(m->net, in_directory("net.lock"))); }
static void lock_check(model *m) { need(situ_place_lock_check(m->net, in_directory("net.lock"))); }
static void place_plan(model *m) {
  const situ_nn_to_options o = { .device = situ_dev("sim:0") };
  need(situ_place_plan_to_string(m->net, &o, NULL, NULL, 0) > 0 ? SITU_OK : situ_error());
}
static void place_diff(model *m) {
  situ_snapshot *s = situ_place_snapshot(m->net);
  need(situ_place_diff(s, s, NULL, 0) >= 0 ? SITU_OK : situ_error());
  situ_snapshot_free(s);
}
static void place_lint(model *m) {
  situ_optim *const optims[] = { m->optim };
  need(situ_place_lint(m->net, &(situ_lint_options){ .optims = optims, .optim_count = 1 }));
}
static void place_check(model *m) {
  situ_place_report report;
  need(situ_place_check(m->net, m->inputs, NULL, &report));
  situ_place_report_free(&report);
}

static void make_optimizer(model *m) { situ_optim_free(situ_optim_adamw(situ_nn_parameters(m->net), 1e-3, NULL)); }
static void step(model *m) { need(situ_optim_step(m->optim)); }
static void clip(model *m) { need(situ_optim_clip_grad_norm_(m->optim, 1, 2, NULL)); }
static void zero_grad(model *m) { need(situ_optim_zero_grad(m->optim, false)); }
static void optimizer_state(model *m) {
  situ_tree *state = situ_optim_state_dict(m->optim);
  need(situ_optim_load_state_dict(m->optim, state));
  situ_tree_free(state);
}
static void average(model *m) {
  situ_nn_module *averaged = situ_optim_averaged_model(m->net, NULL);
  need(situ_optim_update_parameters(averaged, m->net));
  situ_nn_free(averaged);
}

static void forward(model *m) { need(situ_nn_forward(m->net, m->x) ? SITU_OK : situ_error()); }
static void train(model *m) {
  need(situ_backward(situ_sum(situ_nn_forward(m->net, m->x), NULL), NULL));
  need(situ_optim_step(m->optim));
}
static void gradients(model *m) {
  situ_tensor **list = malloc((size_t)m->size * 2 * sizeof *list),
              *loss = situ_sum(situ_nn_forward(m->net, m->x), NULL);
  for (int k = 0; k < m->size; k++) list[k] = situ_optim_param(m->optim, k, NULL);
  need(situ_autograd_grad(loss, m->size, list, list + m->size, NULL));
  free(list);
}
static void capture_by(model *m, void (*work)(model *)) {
  situ_scope s;
  need(situ_graph_capture_begin(situ_dev("cpu")));
  situ_scope_begin(&s);
  work(m);
  need(situ_scope_end(&s));
  situ_graph_free(situ_graph_capture_end());
  need(situ_error());
}
static void capture(model *m) { capture_by(m, forward); }
static void capture_step(model *m) { capture_by(m, train); }

static void export_model(model *m) { situ_nn_free(situ_export(m->net, m->inputs)); }
static void prepare_program(model *m) { m->made = situ_export(m->net, m->inputs); }
static void drop_program(model *m) { situ_nn_free(m->made); }
static void save_program(model *m) { need(situ_export_save(m->made, in_directory("net.pt2"))); }
static void save_onnx(model *m) { need(situ_onnx_export(m->made, in_directory("net.onnx"), NULL)); }
static void run_program(model *m) { need(situ_nn_forward(m->made, m->x) ? SITU_OK : situ_error()); }
static void prepare_pt2(model *m) {
  prepare_program(m);
  save_program(m);
  drop_program(m);
}
static void prepare_onnx(model *m) {
  prepare_program(m);
  save_onnx(m);
  drop_program(m);
}
static void load_pt2(model *m) {
  situ_nn_free(situ_export_load(in_directory("net.pt2"), NULL));
  (void)m;
}
static void load_onnx(model *m) {
  situ_nn_free(situ_export_load(in_directory("net.onnx"), NULL));
  (void)m;
}

static void save_with(model *m, const char *name, int64_t shard) {
  need(situ_save(in_directory(name), m->state, &(situ_save_options){ .no_sync = true, .max_shard_bytes = shard }));
}
static void save(model *m) { save_with(m, "net.safetensors", 0); }
static void save_shards(model *m) { save_with(m, "net.safetensors.index.json", 1 << 20); }
static void load(model *m) {
  situ_tree_free(situ_load(in_directory("net.safetensors"), NULL));
  (void)m;
}
static void load_shards(model *m) {
  situ_tree_free(situ_load(in_directory("net.safetensors.index.json"), NULL));
  (void)m;
}
static situ_checkpoint checkpoint_of(const model *m) {
  return (situ_checkpoint){ .model = m->net, .optimizer = m->optim };
}
static void save_checkpoint(model *m) {
  const situ_checkpoint c = checkpoint_of(m);
  need(situ_checkpoint_save(in_directory("check.safetensors"), &c, &(situ_save_options){ .no_sync = true }));
}
static void load_checkpoint(model *m) {
  situ_checkpoint c = checkpoint_of(m);
  need(situ_checkpoint_load(in_directory("check.safetensors"), &c, NULL));
}

static const struct job {
  const char *name;
  void (*call)(model *m), (*prepare)(model *m), (*finish)(model *m); /* the last two: not timed; NULL: nothing */
  bool recorded;
} jobs[] = {
  { .name = "make and free", .call = make_and_free },
  { .name = "clone", .call = clone_model },
  { .name = "list of parameters", .call = list_parameters },
  { .name = "number of parameters", .call = count_parameters },
  { .name = "state_dict", .call = state_dict },
  { .name = "load_state_dict", .call = load_state },
  { .name = "get_tensor", .call = look_up },
  { .name = "eval and train", .call = switch_mode },
  { .name = "requires_grad_", .call = switch_gradients },
  { .name = "print", .call = print_model },
  { .name = "to sim:0 and back", .call = move_model },
  { .name = "to a map and back", .call = move_by_map },
  { .name = "to f64 and back", .call = cast_model },
  { .name = "place: text", .call = place_text },
  { .name = "place: JSON", .call = place_json },
  { .name = "place: picture", .call = place_svg },
  { .name = "place: lock", .call = lock_write },
  { .name = "place: lock_check", .call = lock_check, .prepare = lock_write },
  { .name = "place: plan", .call = place_plan },
  { .name = "place: diff", .call = place_diff },
  { .name = "place: lint", .call = place_lint },
  { .name = "place: check", .call = place_check, .recorded = true },
  { .name = "make AdamW", .call = make_optimizer },
  { .name = "step of AdamW", .call = step },
  { .name = "clip_grad_norm_", .call = clip },
  { .name = "zero_grad", .call = zero_grad },
  { .name = "optimiser's state_dict and load", .call = optimizer_state },
  { .name = "average of models", .call = average },
  { .name = "forward", .call = forward },
  { .name = "forward, backward, step", .call = train, .recorded = true },
  { .name = "autograd_grad", .call = gradients, .recorded = true },
  { .name = "capture of forward", .call = capture },
  { .name = "capture of a training step", .call = capture_step, .recorded = true },
  { .name = "export", .call = export_model },
  { .name = "save .pt2", .call = save_program, .prepare = prepare_program, .finish = drop_program },
  { .name = "load .pt2", .call = load_pt2, .prepare = prepare_pt2 },
  { .name = "forward of a program", .call = run_program, .prepare = prepare_program, .finish = drop_program },
  { .name = "save .onnx", .call = save_onnx, .prepare = prepare_program, .finish = drop_program },
  { .name = "load .onnx", .call = load_onnx, .prepare = prepare_onnx },
  { .name = "save .safetensors", .call = save },
  { .name = "load .safetensors", .call = load, .prepare = save },
  { .name = "save shards", .call = save_shards },
  { .name = "load shards", .call = load_shards, .prepare = save_shards },
  { .name = "save checkpoint", .call = save_checkpoint },
  { .name = "load checkpoint", .call = load_checkpoint, .prepare = save_checkpoint }
};

/* By writing twice as much as the largest cache of usual processors holds. */
static void empty_caches(void) {
  enum { LINE = 64, LINES = (64 << 20) / LINE };
  static volatile char memory[LINES][LINE];
  for (int i = 0; i < LINES; i++) memory[i][0]++;
}

/* Seconds of a layer. */
static double time_of(const struct job *job, model *list, int count, bool cold) {
  situ_scope scope;
  double taken = 0;
  for (int k = 0; k < count; k++) {
    if (job->recorded) situ_scope_begin(&scope);
    else situ_scope_begin_no_grad(&scope);
    if (job->prepare) job->prepare(&list[k]);
    if (cold) empty_caches();
    const double begin = processor_seconds();
    job->call(&list[k]);
    taken += processor_seconds() - begin;
    if (job->finish) job->finish(&list[k]);
    need(situ_scope_end(&scope));
  }
  return taken / count / list->size;
}

/* Microseconds of a layer at each size; -1: it would take too long. */
static void measure(const struct job *job, model *const models[SIZES], const int counts[SIZES], double us[SIZES]) {
  double growth = 1;
  for (int s = 0; s < SIZES; s++) us[s] = -1;
  for (int s = 0; s < SIZES && counts[s]; s++) {
    const double layers = (double)counts[s] * models[s]->size;
    if (s > 0 && 1e-6 * us[s - 1] * growth * layers > PATIENCE) break;
    for (int r = 0; r < ROUNDS && (r == 0 || 1e-6 * us[s] * layers < PATIENCE / ROUNDS); r++) {
      const double now = 1e6 * time_of(job, models[s], counts[s], false);
      us[s] = r ? fmin(us[s], now) : now;
    }
    if (s > 0) growth = fmax(1, us[s] / us[s - 1]);
  }
}

static double measure_cold(const struct job *job, model *const models[SIZES], const int counts[SIZES]) {
  enum { FEW = 20 };
  const int count = counts[COLD] < FEW ? counts[COLD] : FEW;
  double us = INFINITY;
  for (int r = 0; r < ROUNDS && count; r++) us = fmin(us, 1e6 * time_of(job, models[COLD], count, true));
  return us;
}

/* Whether a name has one of these parts, which '+' separates. */
static bool is_named(const char *name, const char *parts) {
  char part[64];
  for (int length; sscanf(parts, "%63[^+]%n", part, &length) == 1; parts += length + (parts[length] == '+'))
    if (strstr(name, part)) return true;
  return false;
}

int main(int argc, char **argv) {
  const bool cold = argc > 1 && strcmp(argv[1], "--cold") == 0;
  argc -= cold;
  argv += cold;
  const int most = argc > 2 ? atoi(argv[2]) : 100000;
  model *models[SIZES] = { NULL };
  int counts[SIZES] = { 0 };
  situ_scope s;
  need(situ_set_num_threads(1));
  need(situ_sim_create(1));
  situ_scope_begin(&s);
  if (!mkdtemp(directory)) return 1;
  for (int k = 0, size = LEAST; k < SIZES && size <= most; k++, size *= 10) {
    counts[k] = most / size;
    models[k] = calloc((size_t)counts[k], sizeof *models[k]);
    for (int i = 0; models[k] && i < counts[k]; i++) fill(&models[k][i], size);
  }
  printf("%-34s %9s %9s %9s %9s  microseconds a layer, and 100,000 / 1,000%s\n", "layers", "100", "1,000", "10,000",
         "100,000", cold ? "; 1,000 cold" : "");
  for (size_t j = 0; j < sizeof jobs / sizeof *jobs; j++) {
    double us[SIZES];
    if (argc > 1 && !is_named(jobs[j].name, argv[1])) continue;
    measure(&jobs[j], models, counts, us);
    printf("%-34s", jobs[j].name);
    for (int k = 0; k < SIZES; k++) us[k] < 0 ? printf(" %9s", "-") : printf(" %9.3f", us[k]);
    if (us[3] >= 0) printf("  %5.2f", us[3] / us[1]);
    if (cold) printf(" %9.3f", measure_cold(&jobs[j], models, counts));
    printf("\n");
    (void)fflush(stdout);
  }
  for (int k = 0; k < SIZES; k++) {
    for (int i = 0; i < counts[k]; i++) empty(&models[k][i]);
    free(models[k]);
  }
  remove_directory();
  return situ_scope_end(&s) != SITU_OK;
}
