/* Programs with one mistake each, for `situ doctor`: planted NAME runs one; planted without a name lists them with what a
   report must say, "-" for one without a mistake. Those named by numbers are the examples of the seeds.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "situ/situ.h"

typedef struct net {
  situ_nn_module base;
  situ_nn_module *fc1, *fc2, **list;
  situ_tensor *weight, *offset;
} net;
typedef situ_tensor *forward(situ_nn_module *self, situ_tensor *x);

static situ_device far;
static situ_options on(situ_device device) { return (situ_options){ .device = device }; }
static situ_nn_module *layer(void) { return situ_nn_linear(4, 4, NULL); }
static situ_tensor *input(situ_device device) {
  const situ_options options = on(device);
  return situ_set_name(situ_randn(SITU_SHAPE(3, 4), &options), "x");
}
static situ_tensor *mark(situ_tensor *t) { /* it lives as long as the program */
  return situ_retain(t);
}

/* A net of two layers, still open. */
static net *begin(forward *run) {
  static situ_nn_type type = { .name = "Net", .size = sizeof(net) };
  type.forward = run;
  net *m = situ_nn_alloc(&type);
  situ_nn_child(m, fc1, layer());
  situ_nn_child(m, fc2, layer());
  return m;
}

static situ_nn_module *finish(net *m) {
  situ_nn_module *model = situ_nn_done(m);
  SITU_IGNORE(situ_nn_to(model, far));
  return model;
}

/* As many calls as a mistake needs that repeats. */
static void call(situ_nn_module *model, situ_device device) {
  for (int i = 0; i < 8; i++) {
    situ_scope scope;
    situ_scope_begin_no_grad(&scope);
    (void)situ_nn_forward(model, input(device));
    SITU_IGNORE(situ_scope_end(&scope));
  }
}

static void train(situ_nn_module *model, situ_optim *optim) {
  for (int i = 0; i < 4; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    SITU_IGNORE(situ_optim_zero_grad(optim, true));
    SITU_IGNORE(situ_backward(situ_mean(situ_nn_forward(model, input(far)), NULL), NULL));
    SITU_IGNORE(situ_optim_step(optim));
    SITU_IGNORE(situ_scope_end(&scope));
  }
}

static void run_and_free(net *m) {
  situ_nn_module *model = finish(m);
  call(model, far);
  situ_nn_free(model);
}

static void train_and_free(situ_nn_module *model) {
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(model), 0.1, NULL);
  train(model, optim);
  situ_optim_free(optim);
  situ_nn_free(model);
}

static situ_tensor *both(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  return situ_nn_forward(m->fc2, situ_relu(situ_nn_forward(m->fc1, x)));
}

/* ---- the seeds' examples ---- */

static situ_tensor *made_in_forward(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  const situ_nn_linear_options there = { .device = { .kind = SITU_CPU } };
  if (!m->list) {
    m->list = calloc(1, sizeof *m->list);
    m->list[0] = situ_nn_linear(4, 4, &there);
  }
  return situ_nn_forward(m->list[0], x);
}
static void seed_000_1(void) { run_and_free(begin(made_in_forward)); }
static void clean(void) { run_and_free(begin(both)); }

static situ_tensor *add_offset(situ_nn_module *self, situ_tensor *x) {
  return situ_add(both(self, x), ((net *)self)->offset);
}
static void seed_000_3(void) {
  net *m = begin(add_offset);
  const situ_options there = on(far);
  m->offset = situ_set_name(mark(situ_randn(SITU_SHAPE(4), &there)), "some_tensor");
  run_and_free(m);
}

static void input_elsewhere(void) {
  situ_nn_module *model = finish(begin(both));
  call(model, situ_dev("cpu"));
  situ_nn_free(model);
}

static situ_tensor *split(situ_nn_module *self, situ_tensor *x) { return situ_narrow(both(self, x), 1, 0, 2); }
static void seed_001_3(void) { run_and_free(begin(split)); }

static void seed_001_4(void) {
  situ_scope scope;
  situ_scope_begin(&scope);
  situ_tree *data = SITU_TREE(input(situ_dev("cpu")), input(situ_dev("cpu")));
  situ_tree_free(situ_tree_to(data, far));
  situ_tree_free(data);
  SITU_IGNORE(situ_scope_end(&scope));
}

static situ_tensor *add_noise(situ_nn_module *self, situ_tensor *x) {
  x = both(self, x);
  const situ_options host = on(situ_dev("cpu"));
  return situ_add(x, situ_to(situ_randn(situ_shape_of(x), &host), situ_device_of(x)));
}
static void seed_002_2(void) { run_and_free(begin(add_noise)); }

static situ_tensor *times_weight(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  x = situ_nn_forward(m->fc1, x);
  return situ_add(x, situ_matmul(x, situ_to(m->weight, situ_device_of(x))));
}
static void times(int64_t columns, bool moved) {
  net *m = begin(times_weight);
  situ_nn_param(m, weight, situ_randn(SITU_SHAPE(4, columns), NULL));
  situ_nn_module *model = finish(m);
  if (!moved) SITU_IGNORE(situ_to_(situ_nn_get_tensor(model, "weight"), situ_dev("cpu")));
  call(model, far);
  situ_nn_free(model);
}
static void seed_002_3(void) { times(3, true); }
static void weight_copied(void) { times(4, false); }

/* ---- parts ---- */

static void module_attribute(void) {
  net *m = begin(both);
  m->list = (situ_nn_module **)(void *)layer(); /* not an array: a module in a field */
  run_and_free(m);
}

static void heap_list(void) {
  net *m = begin(both);
  m->list = calloc(2, sizeof *m->list);
  for (int i = 0; i < 2; i++) m->list[i] = layer();
  run_and_free(m);
}

static void parameter_alone(void) {
  situ_nn_module *model = finish(begin(both));
  SITU_IGNORE(situ_to_(situ_nn_get_tensor(model, "fc2.bias"), situ_dev("cpu")));
  call(model, far);
  situ_nn_free(model);
}

static void layer_alone(void) {
  situ_nn_module *model = finish(begin(both));
  SITU_IGNORE(situ_nn_to(situ_nn_get_submodule(model, "fc2"), situ_dev("cpu")));
  call(model, far);
  situ_nn_free(model);
}

static void half_cast(void) {
  net *m = begin(add_offset);
  const situ_options f64 = { .dtype = SITU_F64 };
  situ_nn_param(m, weight, situ_zeros(SITU_SHAPE(4), &f64));
  situ_nn_param(m, offset, situ_zeros(SITU_SHAPE(4), NULL));
  run_and_free(m);
}

static void tied_by_copying(void) {
  situ_nn_module *model = finish(begin(both));
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  (void)situ_copy_(situ_nn_get_tensor(model, "fc2.weight"), situ_nn_get_tensor(model, "fc1.weight"));
  SITU_IGNORE(situ_scope_end(&scope));
  call(model, far);
  situ_nn_free(model);
}

static void buffer_not_written(void) {
  net *m = begin(add_offset);
  situ_nn_buffer(m, offset, situ_empty(SITU_SHAPE(4), NULL));
  run_and_free(m);
}

/* ---- calls ---- */

static situ_tensor *host_tensor(situ_nn_module *self, situ_tensor *x) {
  const situ_options host = on(situ_dev("cpu"));
  x = both(self, x);
  return situ_add(x, situ_randn(situ_shape_of(x), &host));
}
static void tensor_made_in_forward(void) { run_and_free(begin(host_tensor)); }

static void wrong_dtype(void) {
  situ_nn_module *model = finish(begin(both));
  const situ_options f64 = { .device = far, .dtype = SITU_F64 };
  (void)situ_nn_forward(model, situ_zeros(SITU_SHAPE(3, 4), &f64));
  situ_nn_free(model);
}

static void no_module(void) {
  const situ_options there = on(far);
  SITU_IGNORE(situ_add(situ_ones(SITU_SHAPE(4), NULL), situ_ones(SITU_SHAPE(4), &there)));
}

/* ---- copies ---- */

static void copied_by_policy(void) {
  situ_nn_module *model = finish(begin(both));
  situ_setting before;
  situ_policy_begin(&before, (situ_policy){ .host_to_device = SITU_POLICY_COPY });
  call(model, situ_dev("cpu"));
  situ_policy_end(&before);
  situ_nn_free(model);
}

static void constant_sent_again(void) {
  situ_tensor *table = mark(situ_randn(SITU_SHAPE(64, 4), NULL));
  for (int i = 0; i < 8; i++) {
    situ_scope scope;
    situ_scope_begin(&scope);
    SITU_IGNORE(situ_add(situ_to(table, far), situ_to(table, far)));
    SITU_IGNORE(situ_scope_end(&scope));
  }
  situ_release(table);
}

static void constant_read_again(void) {
  const situ_options there = on(far);
  situ_tensor *rate = mark(situ_ones(SITU_SCALAR, &there));
  double value;
  for (int i = 0; i < 8; i++) SITU_IGNORE(situ_item(rate, &value));
  situ_release(rate);
}

/* ---- memory, optimisers ---- */

static void never_written(void) {
  const situ_options there = on(far);
  situ_tensor *scratch = situ_set_name(mark(situ_empty(SITU_SHAPE(256, 1024), &there)), "scratch");
  clean();
  situ_release(scratch);
}

static situ_tensor *first_alone(situ_nn_module *self, situ_tensor *x) { return situ_nn_forward(((net *)self)->fc1, x); }
static void layer_without_use(void) { train_and_free(finish(begin(first_alone))); }

static situ_tensor *detached(situ_nn_module *self, situ_tensor *x) {
  net *m = (net *)self;
  return situ_nn_forward(m->fc2, situ_detach(situ_nn_forward(m->fc1, x)));
}
static void gradient_goes_nowhere(void) { train_and_free(finish(begin(detached))); }

static void clean_training(void) { train_and_free(finish(begin(both))); }

static void left_out(void) {
  situ_nn_module *model = finish(begin(both));
  situ_optim *optim = situ_optim_sgd(situ_nn_parameters(situ_nn_get_submodule(model, "fc1")), 0.1, NULL);
  train(model, optim);
  situ_optim_free(optim);
  situ_nn_free(model);
}

static void frozen(void) {
  situ_nn_module *model = finish(begin(both));
  SITU_IGNORE(situ_requires_grad_(situ_nn_get_tensor(model, "fc1.bias"), false));
  train_and_free(model);
}

static void two_optimisers(void) {
  situ_nn_module *model = finish(begin(both));
  situ_optim *other = situ_optim_sgd(situ_nn_parameters(model), 0.1, NULL);
  train_and_free(model);
  situ_optim_free(other);
}

/* ---- threads: of one model, each of one of its own ---- */

static situ_nn_module *shared;
static void *call_shared(void *payload) {
  call(shared, far);
  return payload;
}
static void *train_own(void *payload) {
  clean_training();
  return payload;
}
static void run_threads(void *(*work)(void *)) {
  pthread_t thread[8];
  for (int i = 0; i < 8; i++)
    if (pthread_create(&thread[i], NULL, work, NULL) != 0) exit(1);
  for (int i = 0; i < 8; i++) (void)pthread_join(thread[i], NULL);
}
static void threads(void) {
  shared = finish(begin(both));
  run_threads(call_shared);
  situ_nn_free(shared);
  run_threads(train_own);
}

/* ---- ends ---- */

static void crash(void) {
  seed_000_3();
  (void)raise(SIGSEGV);
}
static void killed(void) {
  seed_000_3();
  sleep(1);
  (void)raise(SIGKILL);
}
static void forks(void) {
  fflush(NULL);
  const pid_t child = fork();
  if (child == 0) exit(0);
  (void)waitpid(child, NULL, 0);
}

static const struct {
  const char *name, *words;
  void (*run)(void);
} cases[] = {
  { "000-1", "device mismatch in linear", seed_000_1 },
  { "000-2", "-", clean },
  { "000-3", "unregistered tensor", seed_000_3 },
  { "001-1", "x = situ_to(x", input_elsewhere },
  { "001-2", "-", clean },
  { "001-3", "-", seed_001_3 },
  { "001-4", "-", seed_001_4 },
  { "002-1", "-", clean },
  { "002-2", "in each call, copied by to", seed_002_2 },
  { "002-3", "4 and 3 differ", seed_002_3 },
  { "weight-copied", "parameter weight: cpu -> sim:0", weight_copied },
  { "module-attribute", "unregistered module", module_attribute },
  { "heap-list", "unregistered array", heap_list },
  { "parameter-alone", "module on several devices", parameter_alone },
  { "layer-alone", "odd ones out: weight, bias", layer_alone },
  { "half-cast", "mixed dtypes", half_cast },
  { "tied-by-copying", "equal but not tied", tied_by_copying },
  { "buffer-not-written", "no values", buffer_not_written },
  { "tensor-in-forward", "device mismatch in add", tensor_made_in_forward },
  { "wrong-dtype", "dtype", wrong_dtype },
  { "no-module", "device mismatch in add", no_module },
  { "policy", "hidden copies", copied_by_policy },
  { "constant-sent", "copied again", constant_sent_again },
  { "constant-read", "copied again", constant_read_again },
  { "never-written", "nothing was ever written", never_written },
  { "layer-without-use", "no result depends on fc2.weight", layer_without_use },
  { "gradient-nowhere", "no result depends on fc1.weight", gradient_goes_nowhere },
  { "training", "-", clean_training },
  { "left-out", "untrained parameter", left_out },
  { "frozen", "frozen parameter", frozen },
  { "two-optimisers", "optimised twice", two_optimisers },
  { "threads", "-", threads },
  { "crash", "was ended by signal 11", crash },
  { "killed", "its last moments are missing", killed },
  { "forks", "1 process was forked", forks },
};

int main(int argc, char **argv) {
  situ_error_mode(SITU_ERROR_QUIET);
  far = situ_dev("sim:0");
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (argc < 2) printf("%s\t%s\n", cases[i].name, cases[i].words);
    else if (strcmp(argv[1], cases[i].name) == 0) return cases[i].run(), 0;
  return argc > 1;
}
