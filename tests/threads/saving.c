/* Every way of saving beside every way of writing: a save is refused, or its file loads and has one moment's values. Each
   writer writes one value to all elements that belong together.
   SPDX-License-Identifier: MIT */
/* test-devices: cpu */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "situ/dist.h"
#include "situ/export.h"
#include "situ/situ.h"
#include "situ/sys/comm_sim.h"
#include "support/optim.h"
#include "support/test.h"

#if defined(__SANITIZE_THREAD__)
enum { UNDER_TSAN = true };
#else
enum { UNDER_TSAN = false };
#endif

enum { WIDTH = 192, BATCHES = 512 }; /* a weight has more bytes than are written at once */

static struct {
  situ_nn_module *net, *average, *program, *twin; /* twin: what a set of ranks is loaded into */
  situ_optim *optim, *twin_optim;
  situ_tree *model, *state;   /* dicts made before the threads began */
  situ_tree *zero, *other[2]; /* states to load */
  situ_tensor *x, *weight;
  situ_comm *comm, *own; /* own: of parts, which another thread steps */
  situ_dist_zero *parts;
  float mean[BATCHES], var[BATCHES]; /* running statistics after so many batches; they come to rest */
} w;

static situ_nn_module *make_net(void) {
  const situ_nn_linear_options o = { .no_bias = true };
  return situ_nn_sequential(situ_nn_linear(WIDTH, WIDTH, &o), situ_nn_batch_norm1d(WIDTH, NULL),
                            situ_nn_linear(WIDTH, WIDTH, &o));
}
static situ_optim *make_optim(situ_nn_module *net) {
  return situ_optim_sgd(situ_nn_parameters(net), 1, OPTIM_MOMENTUM(1));
}

/* ---- writers; an error is looked at by the thread ---- */

static bool no_weights(const char *name) { return strstr(name, "1.") != NULL; }

/* After n steps the weights are 1 + n (n + 1) / 2 and momentum_buffer -n: exact for longer than a test runs. */
static situ_status make_step(void) { return situ_optim_step(w.optim); }
static situ_status run_forward(void) { return situ_nn_forward(w.net, w.x) ? SITU_OK : situ_error(); }
static situ_status load_state(void) {
  static int turn;
  return situ_nn_load_state_dict(w.net, w.other[turn++ & 1], NULL);
}
static situ_status move_there(void) {
  static int turn;
  return situ_nn_to(w.net, situ_dev(turn++ & 1 ? "cpu" : "sim:0"));
}
static situ_status cast_there(void) {
  static int turn;
  return situ_nn_to_dtype(w.net, turn++ & 1 ? SITU_F32 : SITU_F64);
}
static situ_status update_average(void) { return situ_optim_update_parameters(w.average, w.net); }
static situ_status step_parts(void) { return situ_dist_zero_step(w.parts); }
static situ_status load_optim(void) { return situ_optim_load_state_dict(w.optim, w.zero); }
static situ_status add_in_place(void) {
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  SITU_IGNORE(situ_add_scalar_(w.weight, 1) == NULL);
  return situ_scope_end(&s);
}

static const struct writer {
  const char *name;
  situ_status (*write)(void);
  bool raced; /* the program's to lock: files load, but may be of several moments */
} writers[] = { { "optim_step", make_step, false },
                { "a batch norm's forward", run_forward, false },
                { "nn_load_state_dict", load_state, false },
                { "nn_to", move_there, false },
                { "nn_to_dtype", cast_there, false },
                { "optim_update_parameters", update_average, false },
                { "optim_load_state_dict", load_optim, false },
                { "dist_zero_step", step_parts, false },
                { "add_scalar_", add_in_place, true } };

/* ---- savers ---- */

static const situ_save_options quick = { .no_sync = true };

static situ_status save_dict(const char *path) { return situ_save(path, w.model, &quick); }
static situ_status save_state(const char *path) { return situ_save(path, w.state, &quick); }
static situ_status save_new_dict(const char *path) {
  situ_tree *dict = situ_nn_state_dict(w.net);
  const situ_status status = dict ? situ_save(path, dict, &quick) : situ_error();
  situ_tree_free(dict);
  return status;
}
static situ_status save_shards(const char *path) {
  return situ_save(path, w.model, &(situ_save_options){ .no_sync = true, .max_shard_bytes = 4 * WIDTH * WIDTH });
}
static situ_status save_checkpoint(const char *path) {
  return situ_checkpoint_save(path, &(situ_checkpoint){ .model = w.net, .optimizer = w.optim }, &quick);
}
static situ_status save_set(const char *path) {
  return situ_dist_checkpoint_save(path, w.comm, &(situ_dist_checkpoint){ .model = w.net, .optimizer = w.optim },
                                   &quick);
}
static situ_status save_average(const char *path) {
  return situ_checkpoint_save(path, &(situ_checkpoint){ .model = w.average }, &quick);
}
static situ_status save_npy(const char *path) { return situ_npy_save(path, w.weight, &quick); }
static situ_status save_program(const char *path) { return situ_export_save(w.program, path); }
static situ_status save_onnx(const char *path) { return situ_onnx_export(w.program, path, NULL); }

static situ_tree *read_file(const char *path) { return situ_load(path, NULL); }
static situ_tree *read_npy(const char *path) {
  return situ_tree_put(situ_tree_dict(), "0.weight", situ_tree_tensor(situ_npy_load(path, NULL)));
}
static situ_tree *read_program(const char *path) {
  situ_nn_module *m = situ_export_load(path, NULL);
  situ_tree *dict = m ? situ_nn_state_dict(m) : NULL;
  situ_nn_free(m);
  return dict;
}
static situ_tree *read_set(const char *path) {
  situ_dist_checkpoint c = { .model = w.twin, .optimizer = w.twin_optim };
  if (situ_dist_checkpoint_load(path, w.comm, &c, NULL) != SITU_OK) return NULL;
  situ_tree *all = situ_tree_put(situ_tree_dict(), "model", situ_nn_state_dict(w.twin));
  return situ_tree_put(all, "optimizer", situ_optim_state_dict(w.twin_optim));
}

static const struct saver {
  const char *name, *path;
  situ_status (*save)(const char *path);
  situ_tree *(*read)(const char *path);
} savers[] = { { "save of a dict made before", "saving.dict.safetensors", save_dict, read_file },
               { "save of an optimiser's dict", "saving.state.safetensors", save_state, read_file },
               { "save of a new dict", "saving.new.safetensors", save_new_dict, read_file },
               { "save in shards", "saving.index.json", save_shards, read_file },
               { "checkpoint_save", "saving.ckpt", save_checkpoint, read_file },
               { "dist_checkpoint_save", "saving.set", save_set, read_set },
               { "save of an average", "saving.average", save_average, read_file },
               { "npy_save", "saving.npy", save_npy, read_npy },
               { "export_save", "saving.pt2", save_program, read_program },
               { "onnx_export", "saving.onnx", save_onnx, read_program } };

/* ---- what a file must have ---- */

/* The value of all elements; fails if there are several. */
static double one_value(const char *what, const char *name, situ_tensor *t) {
  static double v[WIDTH * WIDTH];
  const int64_t n = situ_numel(t);
  assert_true(n > 0 && n <= WIDTH * WIDTH);
  assert_int_equal(situ_copy_to_host(situ_to_dtype(t, SITU_F64), v, (size_t)n * sizeof *v), SITU_OK);
  for (int64_t i = 1; i < n; i++)
    if (v[i] != v[0]) fail_msg("%s: %s has %g and, from element %d on, %g", what, name, v[0], (int)i, v[i]);
  return v[0];
}

/* Sets *value to that of the tensor whose name ends with `end`; false: there is none. */
static bool find(const char *what, const situ_tree *flat, const char *end, double *value) {
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    const char *name = situ_tree_key(flat, i);
    const size_t length = strlen(name), own = strlen(end);
    if (length < own || strcmp(name + length - own, end) != 0) continue;
    *value = one_value(what, name, situ_tree_tensor_at(flat, i));
    return true;
  }
  return false;
}

static void expect_one_moment(const char *what, const situ_tree *flat, bool stepped) {
  double a, b, n, mean, var, steps;
  for (int64_t i = 0; i < situ_tree_count(flat); i++)
    if (strstr(situ_tree_key(flat, i), "weight") || no_weights(situ_tree_key(flat, i)))
      (void)one_value(what, situ_tree_key(flat, i), situ_tree_tensor_at(flat, i));
  const bool weighs = find(what, flat, "0.weight", &a) && find(what, flat, "2.weight", &b);
  if (weighs && a != b) fail_msg("%s: one weight is %g, the other %g", what, a, b);
  if (stepped && weighs && find(what, flat, "state.0.momentum_buffer", &steps)) {
    if (a != 1 + steps * (steps - 1) / 2) fail_msg("%s: weight %g, after %g steps", what, a, -steps);
  }
  if (find(what, flat, "num_batches_tracked", &n) && find(what, flat, "running_mean", &mean) &&
      find(what, flat, "running_var", &var)) {
    const int at = n < BATCHES ? (int)n : BATCHES - 1;
    if ((float)mean != w.mean[at] || (float)var != w.var[at])
      fail_msg("%s: running_mean %g, running_var %g after %g batches", what, mean, var, n);
  }
}

static void expect_loads(const char *what, const struct saver *saver, const struct writer *writer) {
  situ_scope s;
  situ_scope_begin(&s);
  situ_tree *tree = saver->read(saver->path), *flat = tree ? situ_tree_flatten(tree) : NULL;
  if (!flat) fail_msg("%s: %s", what, situ_error_message());
  if (!writer->raced) expect_one_moment(what, flat, writer->write == make_step);
  situ_tree_free(flat);
  situ_tree_free(tree);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

/* ---- a pair ---- */

static atomic_bool stop;
static atomic_long writes;
static char wrong[256];

static void *keep_writing(void *payload) {
  const struct writer *writer = payload;
  while (!stop) {
    situ_scope s;
    situ_scope_begin(&s);
    const situ_status status = writer->write();
    if (status == SITU_OK) writes++;
    else if (status != SITU_E_STATE) snprintf(wrong, sizeof wrong, "%.200s", situ_error_message());
    situ_error_clear();
    SITU_IGNORE(situ_scope_end(&s));
  }
  return NULL;
}

static situ_tensor *cloned(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(t);
}
static void tree_put_fill(situ_tree **dict, const situ_tree *like, double value) {
  for (int64_t i = 0; i < situ_tree_count(like); i++) {
    situ_tensor *t = situ_clone(situ_detach(situ_tree_tensor_at(like, i)));
    if (!no_weights(situ_tree_key(like, i)) || strstr(situ_tree_key(like, i), "weight")) t = situ_fill_(t, value);
    *dict = situ_tree_put(*dict, situ_tree_key(like, i), situ_tree_tensor(t));
  }
}

/* Sets all that writers write to what it is after no step and no batch. */
static void reset(void) {
  assert_int_equal(situ_nn_to_dtype(w.net, SITU_F32), SITU_OK);
  assert_int_equal(situ_nn_to(w.net, situ_dev("cpu")), SITU_OK);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tree *all[] = { situ_nn_parameters(w.net), situ_nn_buffers(w.net) };
  for (int k = 0; k < 2; k++)
    for (int64_t i = 0; i < situ_tree_count(all[k]); i++) {
      situ_tensor *t = situ_tree_tensor_at(all[k], i);
      assert_non_null(situ_fill_(t, k == 0 || strstr(situ_tree_key(all[k], i), "running_var") ? 1 : 0));
      if (k == 0) assert_int_equal(situ_set_grad(t, situ_full(situ_shape_of(t), -1, NULL)), SITU_OK);
    }
  assert_int_equal(situ_optim_load_state_dict(w.optim, w.zero), SITU_OK);
  situ_tree_free(w.state);
  assert_non_null(w.state = situ_optim_state_dict(w.optim));
  for (int k = 0; k < 2; k++) situ_tree_free(all[k]);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

/* A program has got another dtype or device than its input. */
static bool is_unsuited(situ_status status) { return status == SITU_E_DTYPE || status == SITU_E_DEVICE; }
/* Or busy, or written meanwhile. */
static bool is_refusal(situ_status status) { return status == SITU_E_STATE || is_unsuited(status); }

/* Saves after each of two writes, which go there and back, on this thread alone. */
static void run_in_turn(const char *what, const struct saver *saver, const struct writer *writer) {
  for (int i = 0; i < 2; i++) {
    situ_scope s;
    situ_scope_begin(&s);
    if (writer->write() != SITU_OK) fail_msg("%s: %s", what, situ_error_message());
    assert_int_equal(situ_scope_end(&s), SITU_OK);
    if (saver->save(saver->path) != SITU_OK && !is_unsuited(situ_error()))
      fail_msg("%s, in turn: %s", what, situ_error_message());
    situ_error_clear();
    expect_loads(what, saver, writer);
  }
}

static void run_pair(const struct saver *saver, const struct writer *writer, int count) {
  pthread_t thread;
  int saved = 0, refused = 0;
  char what[160];
  snprintf(what, sizeof what, "%s beside %s", saver->name, writer->name);
  reset();
  if (saver->save(saver->path) != SITU_OK) fail_msg("%s: alone: %s", what, situ_error_message());
  run_in_turn(what, saver, writer);
  stop = false;
  writes = 0;
  assert_int_equal(pthread_create(&thread, NULL, keep_writing, (void *)(uintptr_t)writer), 0);
  while (!writes) sched_yield();
  for (int i = 0; i < count; i++) {
    const long before = writes;
    const situ_status status = saver->save(saver->path);
    if (status == SITU_OK) saved++;
    else if (is_refusal(status)) refused++;
    else fail_msg("%s: %s", what, situ_error_message());
    situ_error_clear();
    expect_loads(what, saver, writer);
    while (writes == before) sched_yield(); /* else this thread could save alone */
  }
  stop = true;
  assert_int_equal(pthread_join(thread, NULL), 0);
  if (*wrong) fail_msg("%s: %s", what, wrong);
  assert_int_equal(saved + refused, count);
}

/* ---- the world ---- */

static void record_statistics(void) {
  for (int n = 1; n < BATCHES; n++) {
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    assert_non_null(situ_nn_forward(w.net, w.x));
    double v[WIDTH];
    test_read(situ_nn_get_tensor(w.net, "1.running_mean"), v);
    w.mean[n] = (float)v[0];
    test_read(situ_nn_get_tensor(w.net, "1.running_var"), v);
    w.var[n] = (float)v[0];
    assert_int_equal(situ_scope_end(&s), SITU_OK);
  }
}

/* A step makes momentum_buffer. */
static void make_zero_state(void) {
  situ_tree *all = situ_nn_parameters(w.net);
  for (int64_t i = 0; i < situ_tree_count(all); i++) {
    situ_tensor *t = situ_tree_tensor_at(all, i);
    assert_int_equal(situ_set_grad(t, situ_zeros(situ_shape_of(t), NULL)), SITU_OK);
  }
  assert_int_equal(situ_optim_step(w.optim), SITU_OK);
  situ_tree *state = situ_optim_state_dict(w.optim);
  assert_non_null(w.zero = situ_tree_map(state, cloned, NULL));
  situ_tree_free(state);
  situ_tree_free(all);
}

static void every_saver_beside_every_writer(void **state) {
  (void)state;
  situ_comm_sim *world = situ_comm_sim_new(1, NULL);
  situ_tensor *rows = situ_arange(0, 4, 1, &(situ_options){ .dtype = SITU_F32 });
  situ_comm_sim *second = situ_comm_sim_new(1, NULL);
  w.comm = situ_comm_sim_rank(world, 0, NULL);
  w.own = situ_comm_sim_rank(second, 0, NULL);
  w.net = make_net();
  w.twin = make_net();
  w.optim = make_optim(w.net);
  w.twin_optim = make_optim(w.twin);
  w.x = situ_contiguous(situ_expand(situ_unsqueeze(rows, 1), SITU_SHAPE(4, WIDTH)));
  w.weight = situ_detach(situ_nn_get_tensor(w.net, "0.weight"));
  w.model = situ_nn_state_dict(w.net);
  make_zero_state();
  assert_non_null(w.parts = situ_dist_zero_new(situ_nn_parameters(w.net), w.own, situ_optim_sgd, 1, NULL));
  for (int k = 0; k < 2; k++) {
    w.other[k] = situ_tree_dict();
    tree_put_fill(&w.other[k], w.model, k + 1);
  }
  situ_nn_eval(w.net);
  situ_tree *inputs = SITU_TREE(w.x);
  assert_non_null(w.program = situ_export(w.net, inputs));
  situ_tree_free(inputs);
  situ_nn_train(w.net, true);
  assert_non_null(w.average = situ_optim_averaged_model(w.net, NULL));
  reset();
  w.mean[0] = 0, w.var[0] = 1;
  record_statistics();
  const int count = getenv("SITU_TEST_ALL") ? 30 : 3;
  situ_error_mode(SITU_ERROR_QUIET);
  for (size_t i = 0; i < sizeof savers / sizeof *savers; i++)
    for (size_t k = 0; k < sizeof writers / sizeof *writers; k++)
      if (!writers[k].raced || !UNDER_TSAN) run_pair(&savers[i], &writers[k], count);
  for (int k = 0; k < 2; k++) situ_tree_free(w.other[k]);
  situ_tree_free(w.model);
  situ_tree_free(w.state);
  situ_tree_free(w.zero);
  situ_nn_module *all[] = { w.program, w.average, w.net, w.twin };
  situ_dist_zero_free(w.parts);
  situ_optim_free(w.optim);
  situ_optim_free(w.twin_optim);
  for (int k = 0; k < 4; k++) situ_nn_free(all[k]);
  situ_comm_free(w.comm);
  situ_comm_sim_free(world);
  situ_comm_free(w.own);
  situ_comm_sim_free(second);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_saver_beside_every_writer) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
