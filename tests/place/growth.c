/* Calls that take a model do as much for a layer of a large one as of a small one: counted are the blocks of the
   library's code for models that run, in models of 500 and of 5,000 layers. Ten times as many are right, and some more
   where something is sorted; a look at all layers for each would be a hundred times as many. What libc does is not
   counted.
   SPDX-License-Identifier: MIT */
/* test-links: situ_counted */
#include <stdio.h>
#include <stdlib.h>

#include "situ/situ.h"
#include "support/pairs.h"

enum { FEW = 500, MANY = 5000, WIDTH = 4 };
#define MOST 14.0 /* 10 for each layer as much; n log n is 13.4 */

static _Thread_local uint64_t blocks;

/* Called by each block (support/counted). */
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void) { blocks++; }

typedef struct model {
  int size;
  situ_nn_module *net, *program, *loose;
  situ_tensor *x;
  situ_tree *inputs, *state;
  situ_optim *optim;
} model;

static situ_nn_module *make(int size) {
  situ_nn_module *net = situ_nn_sequential_of(0, NULL);
  for (int k = 0; k < size; k++)
    net = situ_nn_append(net, situ_nn_linear(WIDTH, WIDTH, &(situ_nn_linear_options){ .no_bias = true }));
  assert_non_null(net);
  return net;
}

/* A layer with a second one in a field, as an average has it, that is not registered. */
typedef struct unit {
  situ_nn_module base;
  situ_nn_module *layer, *average;
} unit;
static void unit_release(situ_nn_module *self) { situ_nn_free(((unit *)self)->average); }
static const situ_nn_type unit_type = { .name = "Unit", .size = sizeof(unit), .release = unit_release };

static situ_nn_module *make_loose(int size) {
  situ_nn_module *net = situ_nn_sequential_of(0, NULL);
  for (int k = 0; k < size; k++) {
    unit *m = situ_nn_alloc(&unit_type);
    situ_nn_child(m, layer, situ_nn_linear(WIDTH, WIDTH, NULL));
    m->average = situ_nn_linear(WIDTH, WIDTH, NULL);
    situ_set_name(situ_nn_get_tensor(m->average, "weight"), "average.weight");
    net = situ_nn_append(net, situ_nn_done(m));
  }
  assert_non_null(net);
  return net;
}

/* ---- calls ---- */

static void make_model(model *m) { situ_nn_free(make(m->size)); }
static void clone_model(model *m) { situ_nn_free(situ_nn_clone(m->net)); }
static void load_state(model *m) { expect_ok(situ_nn_load_state_dict(m->net, m->state, NULL)); }
static void look_up(model *m) {
  char path[32];
  for (int k = 0; k < m->size; k++) {
    (void)snprintf(path, sizeof path, "%d.weight", k);
    assert_non_null(situ_nn_get_tensor(m->net, path));
  }
}
static void switch_mode(model *m) { assert_non_null(situ_nn_train(situ_nn_eval(m->net), true)); }
static void move_model(model *m) {
  expect_ok(situ_nn_to(m->net, situ_dev("sim:0")));
  expect_ok(situ_nn_to(m->net, situ_dev("cpu")));
}
static void move_by_map(model *m) {
  expect_ok(situ_nn_to_map(m->net, "1*=sim:0, *=cpu"));
  expect_ok(situ_nn_to(m->net, situ_dev("cpu")));
}
static void cast_model(model *m) {
  expect_ok(situ_nn_to_dtype(m->net, SITU_F64));
  expect_ok(situ_nn_to_dtype(m->net, SITU_F32));
}
static void lint(model *m) {
  situ_optim *const optims[] = { m->optim };
  expect_ok(situ_place_lint(m->net, &(situ_lint_options){ .optims = optims, .optim_count = 1 }));
}
static void lint_loose(model *m) {
  assert_int_equal(situ_place_lint(m->loose, NULL), SITU_E_STATE);
  situ_error_clear();
}
static void check(model *m) { expect_ok(situ_place_check(m->net, m->inputs, NULL, NULL)); }
static void compare(model *m) {
  expect_ok(situ_place_compare(m->net, m->inputs, situ_dev("cpu"), situ_dev("sim:0"), NULL, NULL));
}
static void plan(model *m) {
  const situ_nn_to_options o = { .device = situ_dev("sim:0") };
  assert_true(situ_place_plan_to_string(m->net, &o, NULL, NULL, 0) > 0);
}
static void write_text(model *m) { assert_true(situ_place_to_string(m->net, NULL, NULL, 0) > 0); }
static void diff(model *m) {
  situ_snapshot *s = situ_place_snapshot(m->net);
  assert_int_equal(situ_place_diff(s, s, NULL, 0), 0);
  situ_snapshot_free(s);
}
static void draw(model *m) { expect_ok(situ_place_svg(m->net, "net.svg", NULL)); }
static void lock(model *m) {
  expect_ok(situ_place_lock_write(m->net, "net.lock"));
  expect_ok(situ_place_lock_check(m->net, "net.lock"));
}
static void train(model *m) {
  expect_ok(situ_backward(situ_sum(situ_nn_forward(m->net, m->x), NULL), NULL));
  expect_ok(situ_optim_step(m->optim));
}
static void clip(model *m) { expect_ok(situ_optim_clip_grad_norm_(m->optim, 1, 2, NULL)); }
static void forward(model *m) { assert_non_null(situ_nn_forward(m->net, m->x)); }
static void gradients(model *m) {
  situ_tensor **list = malloc((size_t)m->size * 2 * sizeof *list);
  assert_non_null(list);
  for (int k = 0; k < m->size; k++) list[k] = situ_optim_param(m->optim, k, NULL);
  situ_tensor *loss = situ_sum(situ_nn_forward(m->net, m->x), NULL);
  expect_ok(situ_autograd_grad(loss, m->size, list, list + m->size, NULL));
  free(list);
}
static void capture_by(model *m, void (*work)(model *)) {
  situ_scope s;
  expect_ok(situ_graph_capture_begin(situ_dev("cpu")));
  situ_scope_begin(&s);
  work(m);
  expect_ok(situ_scope_end(&s));
  situ_graph *graph = situ_graph_capture_end();
  assert_non_null(graph);
  situ_graph_free(graph);
}
static void capture(model *m) { capture_by(m, forward); }
static void capture_step(model *m) { capture_by(m, train); }
static void state_of_optimizer(model *m) {
  situ_tree *state = situ_optim_state_dict(m->optim);
  expect_ok(situ_optim_load_state_dict(m->optim, state));
  situ_tree_free(state);
}
static void save(model *m) { expect_ok(situ_save("net.safetensors", m->state, NULL)); }
static void load(model *m) {
  (void)m;
  situ_tree *state = situ_load("net.safetensors", NULL);
  assert_non_null(state);
  situ_tree_free(state);
}
static void export_model(model *m) { assert_non_null(m->program = situ_export(m->net, m->inputs)); }
static void run_program(model *m) { assert_non_null(situ_nn_forward(m->program, m->x)); }
static void save_program(model *m) { expect_ok(situ_export_save(m->program, "net.pt2")); }
static void load_program(model *m) {
  situ_nn_free(m->program);
  assert_non_null(m->program = situ_export_load("net.pt2", NULL));
}
static void save_onnx(model *m) { expect_ok(situ_onnx_export(m->program, "net.onnx", NULL)); }
static void load_onnx(model *m) {
  situ_nn_free(m->program);
  assert_non_null(m->program = situ_export_load("net.onnx", NULL));
}

static const struct call {
  const char *name;
  void (*run)(model *m);
} calls[] = { { "make and free", make_model },
              { "clone", clone_model },
              { "load_state_dict", load_state },
              { "get_tensor", look_up },
              { "eval and train", switch_mode },
              { "to sim:0 and back", move_model },
              { "to a map and back", move_by_map },
              { "to f64 and back", cast_model },
              { "place_lint", lint },
              { "place_lint of loose layers", lint_loose },
              { "place_check", check },
              { "place_compare", compare },
              { "place_plan", plan },
              { "place_to_string", write_text },
              { "place_diff", diff },
              { "place_svg", draw },
              { "place_lock", lock },
              { "forward", forward },
              { "a training step", train },
              { "clip_grad_norm_", clip },
              { "autograd_grad", gradients },
              { "capture of forward", capture },
              { "capture of a training step", capture_step },
              { "optimiser's state", state_of_optimizer },
              { "save", save },
              { "load", load },
              { "export", export_model },
              { "forward of a program", run_program },
              { "export_save", save_program },
              { "export_load", load_program },
              { "onnx_export", save_onnx },
              { "export_load of .onnx", load_onnx } };
enum { CALLS = sizeof calls / sizeof *calls };

static void count_blocks(int size, uint64_t counts[CALLS]) {
  model m = { .size = size, .net = make(size), .x = situ_ones(SITU_SHAPE(1, WIDTH), NULL) };
  m.inputs = situ_tree_of(1, &m.x);
  m.loose = make_loose(size);
  m.state = situ_nn_state_dict(m.net);
  m.optim = situ_optim_sgd(situ_nn_parameters(m.net), 1e-3, NULL);
  for (int k = 0; k < CALLS; k++) {
    situ_scope s;
    situ_scope_begin(&s);
    blocks = 0;
    calls[k].run(&m);
    counts[k] = blocks;
    expect_ok(situ_scope_end(&s));
  }
  situ_optim_free(m.optim);
  situ_tree_free(m.state);
  situ_tree_free(m.inputs);
  situ_nn_free(m.program);
  situ_nn_free(m.loose);
  situ_nn_free(m.net);
}

static void a_layer_costs_as_much_in_a_large_model(void **state) {
  (void)state;
  uint64_t few[CALLS], many[CALLS];
  bool good = true;
  expect_ok(situ_set_num_threads(1));
  count_blocks(FEW, few);
  count_blocks(MANY, many);
  for (int k = 0; k < CALLS; k++) {
    const double growth = (double)many[k] / (double)few[k];
    printf("%-28s %8.0f %8.0f blocks a layer, %.1f times as many in all\n", calls[k].name, (double)few[k] / FEW,
           (double)many[k] / MANY, growth);
    good = good && few[k] && growth <= MOST;
  }
  assert_true(good);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(a_layer_costs_as_much_in_a_large_model) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
