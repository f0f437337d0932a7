/* Every pair of operations on an object of each public kind, on eight threads: each call is right, or refused as
   docs/threads.md says. SITU_TEST_SECONDS: that long; else 4, or 600 with SITU_TEST_ALL. A pair that hangs is named. */
/* test-devices: cpu */
/* test-limit: 7200 */
/* test-options: -DSITU_TEST_THREADS */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "situ/situ.h"
#include "support/optim.h"
#include "support/test.h"

enum { THREADS = 8, SAMPLES = 40 };

/* What all threads share. Parameters are ones and stay so: steps have a rate of 0, loads load the same, moves keep values. */
static struct world {
  situ_nn_module *net, *norm, *curve, *program;
  situ_optim *optim, *lbfgs; /* of net, of curve */
  situ_lr_scheduler *scheduler;
  situ_grad_scaler *scaler;
  situ_tree *saved, *saved_lbfgs, *saved_scheduler, *saved_scaler;
  situ_tensor *x, *leaf;
  situ_dataset *set;
  situ_data_loader *loader, *workers;
  situ_graph *graph;
  situ_safetensors *file;
} w;
static char program_path[512];
static double program_sum; /* of its result for ones */

static atomic_long calls, refused, backwards, leaf_backwards, norms;
static atomic_bool stop;
static _Atomic(const char *) wrong; /* the first operation that gave something else than what it should */

/* ---- operations: false if a result is wrong; an error is looked at by the caller ---- */

typedef bool operation(unsigned *seed);

static situ_device some_device(unsigned *seed) { return situ_dev(rand_r(seed) & 1 ? "sim:0" : "cpu"); }
static bool is(situ_tensor *t, double want) {
  double got;
  return !t || situ_item(t, &got) != SITU_OK || got == want;
}
static situ_tensor *ones_for_net(unsigned *seed) {
  return situ_ones(SITU_SHAPE(2, 8), &(situ_options){ .device = some_device(seed) });
}
/* Busy (STATE), or not where or of what dtype another thread has just made it. */
static bool is_refusal(situ_status status) {
  return status == SITU_E_STATE || status == SITU_E_DEVICE || status == SITU_E_DTYPE;
}

/* Whatever it gives: its error is looked at by the caller. */
static bool any(uintptr_t result) { return result != UINTPTR_MAX; }
#define QUIETLY(call) any((uintptr_t)(call))
#define DO(name, ...)                \
  static bool name(unsigned *seed) { \
    (void)seed;                      \
    __VA_ARGS__                      \
  }

/* of a tensor */
DO(tensor_sum, return is(situ_sum(w.x, NULL), 64);)
DO(tensor_view, return is(situ_sum(situ_narrow(situ_transpose(w.x, 0, 1), 0, 1, 2), NULL), 16);)
DO(tensor_retain, return situ_retain(w.x) == w.x && (situ_release(w.x), true);)
DO(tensor_clone, return is(situ_sum(situ_add_(situ_clone(w.x), w.x), NULL), 128);)
DO(tensor_detach, return is(situ_max(situ_detach(w.x)), 1);)
DO(tensor_to, return is(situ_sum(situ_to(situ_to(w.x, situ_dev("sim:0")), situ_dev("cpu")), NULL), 64);)
DO(tensor_print, char text[64]; return situ_to_string(w.x, text, sizeof text) > 0 && strstr(text, "1");)
DO(tensor_read, float v[64]; return situ_copy_to_host(w.x, v, sizeof v) == SITU_OK && v[63] == 1;)
DO(tensor_backward, bool good = situ_backward(situ_sum(situ_mul(w.x, w.leaf), NULL), NULL) == SITU_OK;
   leaf_backwards += good; return good;)

/* of a module */
static situ_tensor *through_net(situ_tensor *const *in, int count, void *payload) {
  (void)count, (void)payload;
  return situ_nn_forward(w.net, in[0]);
}
static bool module_forward(unsigned *seed) {
  return is(situ_sum(situ_nn_forward(w.net, ones_for_net(seed)), NULL), 2 * 2 * 8 * 4);
}
static bool module_backward(unsigned *seed) {
  if (situ_backward(situ_sum(situ_nn_forward(w.net, ones_for_net(seed)), NULL), NULL) == SITU_OK) backwards++;
  return true;
}
static bool module_grad(unsigned *seed) {
  situ_tensor *x = situ_requires_grad_(ones_for_net(seed), true), *grad = NULL;
  return situ_autograd_grad(situ_sum(situ_nn_forward(w.net, x), NULL), 1, &x, &grad, NULL) != SITU_OK ||
         is(situ_min(grad), 8);
}
static bool module_recompute(unsigned *seed) {
  situ_tensor *x = ones_for_net(seed);
  if (situ_backward(situ_sum(situ_recompute(through_net, NULL, 1, &x), NULL), NULL) == SITU_OK) backwards++;
  return true;
}
static bool module_norm(unsigned *seed) {
  (void)seed;
  situ_tensor *y = situ_nn_forward(w.norm, w.x);
  norms += y != NULL;
  return y != NULL;
}
DO(module_parameters, situ_tree *t = situ_nn_parameters(w.net); bool good = !t || situ_tree_count(t) == 4;
   situ_tree_free(t); return good;)
DO(module_state_dict, situ_tree *t = situ_nn_state_dict(w.net); bool good = !t || situ_tree_count(t) == 4;
   situ_tree_free(t); return good;)
DO(module_print, char text[64]; return QUIETLY(situ_nn_to_string(w.net, text, sizeof text));)
DO(module_place, situ_placement p; return QUIETLY(situ_place_of(w.net, &p));)
DO(module_plan, situ_nn_to_options o = { .device = situ_dev("sim:1") };
   return QUIETLY(situ_place_plan_to_string(w.net, &o, NULL, NULL, 0));)
DO(module_lint, char text[64]; return QUIETLY(situ_place_lint_to_string(w.net, NULL, text, sizeof text));)
DO(module_count, int64_t n = situ_nn_num_parameters(w.net); return n == 8 * 4 + 4 + 4 * 2 + 2 || n < 0;)
DO(module_clone, situ_nn_module *copy = situ_nn_clone(w.net);
   bool good = !copy || situ_nn_num_parameters(copy) == 8 * 4 + 4 + 4 * 2 + 2; situ_nn_free(copy); return good;)
DO(module_to, return QUIETLY(situ_nn_to(w.net, some_device(seed)));)
DO(module_part_to, return QUIETLY(situ_nn_to(situ_nn_at(w.net, 0), some_device(seed)));)
DO(module_tensor_to, return QUIETLY(situ_to_(situ_nn_get_tensor(w.net, "0.weight"), some_device(seed)));)
DO(module_to_dtype, return QUIETLY(situ_nn_to_dtype(w.net, rand_r(seed) & 1 ? SITU_F64 : SITU_F32));)
DO(module_load, return QUIETLY(situ_nn_load_state_dict(w.net, w.saved, NULL));)
DO(module_train, return QUIETLY(situ_nn_train(w.net, rand_r(seed) & 1));)
DO(module_requires_grad, return QUIETLY(situ_nn_requires_grad_(w.net, true));)
DO(module_zero_grad, situ_nn_zero_grad(w.net); return true;)
static situ_status nothing(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)m, (void)inputs, (void)output, (void)payload;
  return SITU_OK;
}
DO(
    module_hook, int64_t hook; if (situ_nn_register_forward_hook(w.net, nothing, NULL, &hook) != SITU_OK) return true;
    for (int i = 0; i < 10000 && !situ_error(); i++) {
      situ_nn_remove_hook(w.net, hook);
      if (!situ_error()) break;
      situ_error_clear(); /* in use: it is still there */
      usleep(50);
    } return true;)
DO(module_retain, situ_nn_free(situ_nn_retain(w.net)); return true;)
static bool module_own(unsigned *seed) {
  situ_nn_module *mine = situ_nn_sequential(situ_nn_linear(8, 3, NULL), situ_nn_batch_norm1d(3, NULL));
  situ_optim *o = situ_optim_adam(situ_nn_parameters(mine), 1e-3, NULL);
  situ_device device = some_device(seed);
  situ_tensor *x = situ_ones(SITU_SHAPE(4, 8), &(situ_options){ .device = device });
  bool good = situ_nn_to(mine, device) == SITU_OK &&
              situ_backward(situ_sum(situ_nn_forward(mine, x), NULL), NULL) == SITU_OK && situ_optim_step(o) == SITU_OK;
  situ_optim_free(o);
  situ_nn_free(mine);
  return good;
}

/* of an optimiser and what goes with it */
DO(optim_step, return QUIETLY(situ_optim_step(w.optim));)
DO(optim_zero_grad, return QUIETLY(situ_optim_zero_grad(w.optim, rand_r(seed) & 1));)
DO(optim_clip, double norm; return QUIETLY(situ_optim_clip_grad_norm_(w.optim, 1, 2, &norm));)
DO(optim_set, return QUIETLY(situ_optim_set(w.optim, 0, SITU_OPTIM_MOMENTUM, 0.5));)
DO(optim_state, situ_tree_free(situ_optim_state_dict(w.optim)); return true;)
static void load_optim(situ_optim *o) {
  situ_tree *state = situ_optim_state_dict(w.optim);
  if (state) SITU_IGNORE(situ_optim_load_state_dict(o, state));
  situ_tree_free(state); /* perhaps the last owner of what w.optim had */
}
DO(optim_load, load_optim(w.optim); return true;)
/* Its states follow the shared parameters, and go with it. */
DO(
    optim_own, situ_optim *o = situ_optim_sgd(situ_nn_parameters(w.net), 1e-3, NULL); if (o) load_optim(o);
    const bool good = !situ_error() || is_refusal(situ_error()); do {
      situ_error_clear();
      situ_optim_free(o);
    } while (situ_error() == SITU_E_STATE); /* in use: it is still there */
    return good;)
DO(scheduler_step, return QUIETLY(situ_lr_scheduler_step(w.scheduler));)
DO(scheduler_state, situ_tree_free(situ_lr_scheduler_state_dict(w.scheduler)); return true;)
DO(scheduler_load, return QUIETLY(situ_lr_scheduler_load_state_dict(w.scheduler, w.saved_scheduler));)
DO(scaler_scale, return QUIETLY(situ_grad_scaler_scale(w.scaler, w.x));)
DO(scaler_unscale, return QUIETLY(situ_grad_scaler_unscale_(w.scaler, w.optim));)
DO(scaler_step, bool stepped; return QUIETLY(situ_grad_scaler_step(w.scaler, w.optim, &stepped));)
DO(scaler_update, return QUIETLY(situ_grad_scaler_update(w.scaler, 0));)
DO(scaler_state, situ_tree_free(situ_grad_scaler_state_dict(w.scaler)); return true;)
DO(scaler_load, return QUIETLY(situ_grad_scaler_load_state_dict(w.scaler, w.saved_scaler));)

/* of an optimiser that evaluates the loss itself; with a rate of 0 all points that it tries are the same */
static situ_tensor *net_loss(void *payload) {
  situ_tensor *loss = situ_sum(situ_nn_forward(w.net, ones_for_net(payload)), NULL);
  return situ_backward(loss, NULL) == SITU_OK ? loss : NULL;
}
static situ_tensor *curve_loss(void *payload) {
  (void)payload;
  situ_tensor *loss = situ_sum(situ_nn_forward(w.curve, w.x), NULL);
  return situ_optim_zero_grad(w.lbfgs, true) == SITU_OK && situ_backward(loss, NULL) == SITU_OK ? loss : NULL;
}
DO(optim_step_closure, double loss;
   return situ_optim_step_closure(w.optim, net_loss, seed, &loss) != SITU_OK || loss == 2 * 2 * 8 * 4;)
DO(lbfgs_step_closure, double loss;
   return situ_optim_step_closure(w.lbfgs, curve_loss, NULL, &loss) != SITU_OK || loss == 64;)
DO(lbfgs_forward, return is(situ_sum(situ_nn_forward(w.curve, w.x), NULL), 64);)
DO(lbfgs_backward, return QUIETLY(situ_backward(situ_sum(situ_nn_forward(w.curve, w.x), NULL), NULL));)
DO(lbfgs_state, situ_tree_free(situ_optim_state_dict(w.lbfgs)); return true;)
DO(lbfgs_load, return QUIETLY(situ_optim_load_state_dict(w.lbfgs, w.saved_lbfgs));)
DO(lbfgs_set, return QUIETLY(situ_optim_set(w.lbfgs, 0, SITU_OPTIM_LINE_SEARCH_FN, rand_r(seed) & 1));)
DO(lbfgs_to, return QUIETLY(situ_optim_to(w.lbfgs, some_device(seed)));)

/* of functions: all state is the thread's, but the module in them is shared */
DO(func_vmap, return is(situ_sum(situ_func_vmap(through_net, NULL, 1, &w.x, NULL, 0), NULL), 8 * 2 * 8 * 4);)
DO(func_jvp, situ_tensor *tangent = NULL, *y = situ_func_jvp(through_net, NULL, 1, &w.x, &w.x, &tangent);
   return is(situ_sum(y, NULL), 8 * 2 * 8 * 4) && (!y || is(situ_sum(tangent, NULL), 8 * 2 * 8 * 4));)
DO(func_vjp, situ_tensor *g = NULL,
   *y = situ_func_vjp(through_net, NULL, 1, &w.x, situ_ones(SITU_SHAPE(8, 2), NULL), false, &g);
   return !y || is(situ_min(g), 8);)
DO(func_jacfwd, situ_tensor *x = situ_select(w.x, 0, 0);
   return is(situ_sum(situ_func_jacfwd(through_net, NULL, 1, &x, 0), NULL), 2 * 8 * 4);)
DO(func_functional_call,
   return is(situ_sum(situ_func_functional_call(w.net, w.saved, w.x, NULL), NULL), 8 * 2 * 8 * 4);)

/* of a program of PyTorch, which is a module; where the build has none there is nothing to do */
static situ_tensor *ones_for_program(unsigned *seed) {
  return situ_ones(SITU_SHAPE(2, 6), &(situ_options){ .device = some_device(seed) });
}
DO(program_forward,
   return !w.program || is(situ_sum(situ_nn_forward(w.program, ones_for_program(seed)), NULL), program_sum);)
DO(program_backward,
   return !w.program ||
          QUIETLY(situ_backward(situ_sum(situ_nn_forward(w.program, ones_for_program(seed)), NULL), NULL));)
DO(program_state_dict, if (w.program) situ_tree_free(situ_nn_state_dict(w.program)); return true;)
DO(program_to, return !w.program || QUIETLY(situ_nn_to(w.program, some_device(seed)));)
DO(program_train, return !w.program || QUIETLY(situ_nn_train(w.program, rand_r(seed) & 1));)
DO(program_print, char text[64]; return !w.program || QUIETLY(situ_nn_to_string(w.program, text, sizeof text));)
DO(program_clone, if (w.program) situ_nn_free(situ_nn_clone(w.program)); return true;)
DO(program_load, if (!w.program) return true; situ_nn_module *m = situ_export_load(program_path, NULL);
   bool good = m && is(situ_sum(situ_nn_forward(m, situ_ones(SITU_SHAPE(2, 6), NULL)), NULL), program_sum);
   situ_nn_free(m); return good;)

/* of data, graphs, trees, files */
DO(loader_next, return QUIETLY(situ_data_loader_next(w.loader));)
DO(loader_workers_next, return QUIETLY(situ_data_loader_next(w.workers));)
DO(loader_own,
   situ_data_loader *l = situ_data_loader_new(w.set, &(situ_data_loader_options){ .batch_size = 16, .shuffle = true });
   int64_t batches = 0; while (situ_data_loader_next(l)) batches++; situ_data_loader_free(l); return batches == 3;)
DO(dataset_get, situ_tree *t = situ_dataset_get(w.set, 7); bool good = t != NULL; situ_tree_free(t); return good;)
DO(graph_replay, return QUIETLY(situ_graph_replay(w.graph));)
DO(graph_own, situ_tensor *x = situ_ones(SITU_SHAPE(4), NULL);
   if (situ_graph_capture_begin(situ_dev("cpu")) != SITU_OK) return false; situ_tensor *y = situ_add(x, x);
   situ_graph *g = situ_graph_capture_end();
   bool good = g && situ_graph_replay(g) == SITU_OK && is(situ_sum(y, NULL), 8); situ_graph_free(g); return good;)
DO(tree_flatten, situ_tree *t = situ_tree_flatten(w.saved); bool good = situ_tree_count(t) == 4; situ_tree_free(t);
   return good;)
DO(tree_copy, situ_tree *t = situ_tree_copy(w.saved); bool good = situ_tree_find(t, "0.weight") != NULL;
   situ_tree_free(t); return good;)
DO(file_save, return situ_save("stress.safetensors", w.saved, &(situ_save_options){ .no_sync = true }) == SITU_OK;)
DO(file_part, return is(situ_sum(situ_safetensors_load(w.file, "0.weight"), NULL), 32) &&
                     situ_safetensors_find(w.file, "0.bias") && situ_safetensors_count(w.file) == 4;)
DO(file_sound, int64_t rate; return is(situ_sum(situ_wav_load("stress.wav", NULL, &rate), NULL), 64) && rate == 8000;)
DO(file_load, situ_tree *t = situ_load("stress.safetensors", NULL); bool good = situ_tree_count(t) == 4;
   situ_tree_free(t); return good;)

/* of a thread and of the process */
DO(scope_nest, situ_scope a; situ_scope b; situ_scope_begin(&a); situ_scope_begin_no_grad(&b);
   situ_tensor *y = situ_escape(&b, situ_add(w.x, w.x)); if (situ_scope_end(&b) != SITU_OK) return false;
   bool good = is(situ_sum(y, NULL), 128); return situ_scope_end(&a) == SITU_OK && good;)
DO(random_draw, return situ_randn(SITU_SHAPE(20), NULL) && situ_dropout(w.x, 0.5, true, NULL);)
DO(random_seed, situ_manual_seed(rand_r(seed)); return true;)
DO(random_state, situ_set_rng_state(situ_get_rng_state()); return true;)
DO(device_stats, situ_device_properties p; return situ_device_info(situ_dev("sim:0"), &p) == SITU_OK &&
                                                  situ_live_tensors() > 0 && situ_live_bytes() > 0 &&
                                                  situ_nn_live_modules() > 0;)
DO(device_synchronize, return situ_synchronize(some_device(seed)) == SITU_OK;)
DO(device_empty_cache, return situ_empty_cache(some_device(seed)) == SITU_OK;)
DO(ledger_count, situ_ledger l; situ_ledger_begin_with(&l, &(situ_ledger_options){ .all_threads = rand_r(seed) & 1 });
   bool good = situ_to(situ_to(w.x, situ_dev("sim:0")), situ_dev("cpu")) != NULL; char text[256];
   (void)situ_ledger_to_string(&l, text, sizeof text); return situ_ledger_end(&l) == SITU_OK && good;)
DO(error_own, char size[24]; const int n = 100 + rand_r(seed) % 1000; (void)snprintf(size, sizeof size, "size %d", n);
   bool good = !situ_select(situ_ones(SITU_SHAPE(n), NULL), 0, 5000) && strstr(situ_error_message(), size);
   situ_error_clear(); return good;)

enum { CHANGES_GRADS = 1 }; /* how many backwards have added to them is not known then */
typedef struct entry {
  const char *kind, *name;
  operation *run;
  unsigned flags;
} entry;
#define OP(kind, name) \
  { #kind, #name, kind##_##name, 0 }
static const entry entries[] = {
  OP(tensor, sum),
  OP(tensor, view),
  OP(tensor, retain),
  OP(tensor, clone),
  OP(tensor, detach),
  OP(tensor, to),
  OP(tensor, print),
  OP(tensor, read),
  OP(tensor, backward),
  OP(module, forward),
  OP(module, backward),
  OP(module, recompute),
  OP(module, grad),
  OP(module, norm),
  OP(module, parameters),
  OP(module, state_dict),
  OP(module, print),
  OP(module, place),
  OP(module, plan),
  OP(module, lint),
  OP(module, count),
  OP(module, clone),
  OP(module, to),
  OP(module, part_to),
  OP(module, tensor_to),
  OP(module, to_dtype),
  OP(module, load),
  OP(module, train),
  OP(module, requires_grad),
  { "module", "zero_grad", module_zero_grad, CHANGES_GRADS },
  OP(module, hook),
  OP(module, retain),
  OP(module, own),
  { "optim", "forward", module_forward, 0 },
  { "optim", "backward", module_backward, 0 },
  { "optim", "move", module_to, 0 },
  OP(optim, step),
  { "optim", "step_closure", optim_step_closure, CHANGES_GRADS },
  { "optim", "zero_grad", optim_zero_grad, CHANGES_GRADS },
  { "optim", "clip", optim_clip, CHANGES_GRADS },
  OP(optim, set),
  OP(optim, state),
  OP(optim, load),
  OP(optim, own),
  { "optim", "scheduler_step", scheduler_step, 0 },
  { "optim", "scheduler_state", scheduler_state, 0 },
  { "optim", "scheduler_load", scheduler_load, 0 },
  { "optim", "scaler_scale", scaler_scale, 0 },
  { "optim", "scaler_unscale", scaler_unscale, CHANGES_GRADS },
  { "optim", "scaler_step", scaler_step, 0 },
  { "optim", "scaler_update", scaler_update, 0 },
  { "optim", "scaler_state", scaler_state, 0 },
  { "optim", "scaler_load", scaler_load, 0 },
  OP(lbfgs, step_closure),
  OP(lbfgs, forward),
  OP(lbfgs, backward),
  OP(lbfgs, state),
  OP(lbfgs, load),
  OP(lbfgs, set),
  OP(lbfgs, to),
  OP(func, vmap),
  OP(func, jvp),
  OP(func, vjp),
  OP(func, jacfwd),
  OP(func, functional_call),
  { "func", "forward", module_forward, 0 },
  { "func", "backward", module_backward, 0 },
  { "func", "move", module_to, 0 },
  { "func", "step", optim_step, 0 },
  OP(program, forward),
  OP(program, backward),
  OP(program, state_dict),
  OP(program, to),
  OP(program, train),
  OP(program, print),
  OP(program, clone),
  OP(program, load),
  OP(loader, next),
  OP(loader, workers_next),
  OP(loader, own),
  { "loader", "dataset", dataset_get, 0 },
  OP(graph, replay),
  OP(graph, own),
  { "file", "flatten", tree_flatten, 0 },
  { "file", "copy", tree_copy, 0 },
  OP(file, save),
  OP(file, part),
  OP(file, sound),
  OP(file, load),
  { "process", "scope", scope_nest, 0 },
  { "process", "draw", random_draw, 0 },
  { "process", "seed", random_seed, 0 },
  { "process", "rng_state", random_state, 0 },
  { "process", "stats", device_stats, 0 },
  { "process", "synchronize", device_synchronize, 0 },
  { "process", "empty_cache", device_empty_cache, 0 },
  { "process", "ledger", ledger_count, 0 },
  { "process", "error", error_own, 0 },
};
enum { ENTRIES = sizeof entries / sizeof *entries };

/* ---- the threads ---- */

static struct pair {
  const entry *a, *b;
  double seconds;
} now;

static double clock_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void *runs(void *number) {
  const entry *e = (uintptr_t)number & 1 ? now.a : now.b;
  unsigned seed = (unsigned)(uintptr_t)number;
  while (!stop && !wrong) {
    situ_scope s;
    situ_scope_begin(&s);
    bool good = e->run(&seed);
    const situ_status status = situ_error();
    calls++;
    refused += status != SITU_OK;
    if (status != SITU_OK && is_refusal(status)) good = true;
    else if (status != SITU_OK) good = false;
    if (!good && !wrong) {
      wrong = e->name;
      print_error("%s: %s\n", e->name, status ? situ_error_message() : "a wrong result");
    }
    situ_error_clear();
    SITU_IGNORE(situ_scope_end(&s));
    situ_error_clear();
  }
  return NULL;
}

/* ---- the shared objects ---- */

static int64_t set_length(situ_dataset *s) { return (void)s, SAMPLES; }
static situ_tree *set_get(situ_dataset *s, int64_t i) {
  (void)s;
  return situ_tree_tensor(situ_full(SITU_SHAPE(3), (double)i, NULL));
}
static const situ_dataset_type set_type = {
  .name = "numbers", .size = sizeof(situ_dataset), .length = set_length, .get = set_get
};

static situ_status fill_with_ones(const situ_nn_visit *at, void *payload) {
  (void)payload;
  const bool bias = strstr(at->path, "bias");
  return situ_fill_(at->tensor, !bias) ? SITU_OK : situ_error();
}

static situ_tensor *cloned(situ_tensor *t, void *payload) {
  (void)payload;
  return situ_clone(t);
}

static void make_graph(void) {
  assert_int_equal(situ_graph_capture_begin(situ_dev("cpu")), SITU_OK);
  assert_non_null(situ_add(w.x, w.x));
  w.graph = situ_graph_capture_end();
  assert_non_null(w.graph);
}

/* The program of tests/program/data, and what it gives for ones. */
static void load_program(void) {
  const char *root = getenv("SITU_TEST_ROOT");
  (void)snprintf(program_path, sizeof program_path, "%s/program/data/mlp.pt2", root ? root : ".");
  w.program = situ_export_load(program_path, NULL);
  if (!w.program) assert_int_equal(situ_error(), SITU_E_UNSUPPORTED);
  situ_error_clear();
  if (w.program)
    assert_int_equal(
        situ_item(situ_sum(situ_nn_forward(w.program, situ_ones(SITU_SHAPE(2, 6), NULL)), NULL), &program_sum),
        SITU_OK);
}

static void make_world(void) {
  situ_scope s;
  w.net = situ_nn_sequential(situ_nn_linear(8, 4, NULL), situ_nn_relu(), situ_nn_linear(4, 2, NULL));
  w.norm = situ_nn_batch_norm1d(8, NULL);
  w.curve = situ_nn_linear(8, 1, NULL);
  situ_scope_begin_no_grad(&s);
  assert_int_equal(situ_nn_walk(w.net, SITU_NN_PARAMETER, fill_with_ones, NULL), SITU_OK);
  assert_int_equal(situ_nn_walk(w.curve, SITU_NN_PARAMETER, fill_with_ones, NULL), SITU_OK);
  assert_int_equal(situ_scope_end(&s), SITU_OK);
  w.optim = situ_optim_sgd(situ_nn_parameters(w.net), 0, OPTIM_MOMENTUM(0.5));
  w.lbfgs =
      situ_optim_lbfgs(situ_nn_parameters(w.curve), 0, OPTIM_OPTIONS(situ_optim_lbfgs, { SITU_OPTIM_MAX_ITER, 2 }));
  w.scheduler = situ_lr_scheduler_step_lr(w.optim, 1000, 0.5);
  w.scaler = situ_grad_scaler_new(NULL);
  situ_tree *state = situ_nn_state_dict(w.net);
  w.saved = situ_tree_map(state, cloned, NULL);
  situ_tree_free(state);
  w.saved_lbfgs = situ_optim_state_dict(w.lbfgs);
  w.saved_scheduler = situ_lr_scheduler_state_dict(w.scheduler);
  w.saved_scaler = situ_grad_scaler_state_dict(w.scaler);
  situ_set(&w.x, situ_ones(SITU_SHAPE(8, 8), NULL));
  situ_set(&w.leaf, situ_requires_grad_(situ_ones(SITU_SHAPE(8, 8), NULL), true));
  w.set = situ_dataset_alloc(&set_type);
  w.loader = situ_data_loader_new(w.set, &(situ_data_loader_options){ .batch_size = 4 });
  w.workers = situ_data_loader_new(w.set, &(situ_data_loader_options){ .batch_size = 4, .num_workers = 2 });
  make_graph();
  assert_int_equal(situ_save("stress.safetensors", w.saved, NULL), SITU_OK);
  assert_int_equal(situ_save("part.safetensors", w.saved, NULL), SITU_OK);
  w.file = situ_safetensors_open("part.safetensors", NULL);
  assert_int_equal(situ_wav_save("stress.wav", w.x, 8000, 0), SITU_OK);
  load_program();
}

static void free_world(void) {
  situ_graph_free(w.graph);
  situ_data_loader_free(w.workers);
  situ_data_loader_free(w.loader);
  situ_dataset_free(w.set);
  situ_safetensors_close(w.file);
  situ_nn_free(w.program);
  situ_tree *trees[] = { w.saved, w.saved_lbfgs, w.saved_scheduler, w.saved_scaler };
  for (int i = 0; i < 4; i++) situ_tree_free(trees[i]);
  situ_grad_scaler_free(w.scaler);
  situ_lr_scheduler_free(w.scheduler);
  situ_optim_free(w.lbfgs);
  situ_optim_free(w.optim);
  situ_nn_free(w.curve);
  situ_nn_free(w.norm);
  situ_nn_free(w.net);
  situ_drop(&w.leaf);
  situ_drop(&w.x);
}

/* All that the pair has left behind: parameters are ones, each backward was counted once, nothing is marked as busy. */
static void check_world(void) {
  situ_scope s;
  double least, most;
  situ_scope_begin(&s);
  assert_int_equal(situ_nn_to(w.net, situ_dev("cpu")), SITU_OK);
  assert_int_equal(situ_nn_to_dtype(w.net, SITU_F32), SITU_OK);
  assert_non_null(situ_nn_requires_grad_(w.net, true));
  situ_tensor *weight = situ_nn_get_tensor(w.net, "0.weight");
  assert_int_equal(situ_item(situ_min(weight), &least), SITU_OK);
  assert_int_equal(situ_item(situ_max(weight), &most), SITU_OK);
  assert_true(least == 1 && most == 1);
  situ_tensor *weights = situ_nn_get_tensor(w.curve, "weight");
  assert_int_equal(situ_item(situ_min(weights), &least), SITU_OK);
  assert_int_equal(situ_item(situ_max(weights), &most), SITU_OK);
  assert_true(least == 1 && most == 1);
  if (w.program) assert_int_equal(situ_nn_to(w.program, situ_dev("cpu")), SITU_OK);
  assert_int_equal(situ_optim_to(w.lbfgs, situ_dev("cpu")), SITU_OK);
  if (!((now.a->flags | now.b->flags) & CHANGES_GRADS) && backwards) {
    assert_int_equal(situ_item(situ_min(situ_grad(weight)), &least), SITU_OK);
    assert_int_equal(situ_item(situ_max(situ_grad(weight)), &most), SITU_OK);
    if (least != most || least != 4. * (double)backwards)
      fail_msg("%ld backwards of 4 each: gradients of %g to %g", (long)backwards, least, most);
  }
  if (leaf_backwards) {
    assert_int_equal(situ_item(situ_min(situ_grad(w.leaf)), &least), SITU_OK);
    if (least != (double)leaf_backwards)
      fail_msg("%ld backwards of 1 each: a gradient of %g", (long)leaf_backwards, least);
  }
  int64_t counted;
  assert_int_equal(situ_item_i64(situ_nn_get_tensor(w.norm, "num_batches_tracked"), &counted), SITU_OK);
  assert_int_equal(counted, norms);
  assert_int_equal(situ_optim_zero_grad(w.optim, true), SITU_OK);
  assert_int_equal(situ_set_grad(w.leaf, NULL), SITU_OK);
  backwards = leaf_backwards = 0;
  assert_int_equal(situ_scope_end(&s), SITU_OK);
}

static void hangs(int number) {
  (void)number;
  char text[160];
  int length = snprintf(text, sizeof text, "hangs: %s: %s and %s\n", now.a->kind, now.a->name, now.b->name);
  if (write(2, text, (size_t)length) < 0) _exit(2);
  _exit(1);
}

static void run_pair(const entry *a, const entry *b) {
  pthread_t thread[THREADS];
  now.a = a;
  now.b = b;
  stop = false;
  alarm(60 + (unsigned)now.seconds);
  for (uintptr_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, runs, (void *)(i + 1)), 0);
  const double end = clock_now() + now.seconds;
  while (clock_now() < end && !wrong) usleep(1000);
  stop = true;
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  if (wrong) fail_msg("%s: %s beside %s: %s was wrong", a->kind, a->name, b->name, wrong);
  check_world();
  alarm(0);
}

static bool beside(const entry *a, const entry *b) { return strcmp(a->kind, b->kind) == 0; }

static void every_pair_is_right_or_refused(void **state) {
  (void)state;
  int pairs = 0;
  for (int i = 0; i < ENTRIES; i++)
    for (int k = i; k < ENTRIES; k++) pairs += beside(&entries[i], &entries[k]);
  const char *seconds = getenv("SITU_TEST_SECONDS");
  now.seconds = (seconds ? atof(seconds) : getenv("SITU_TEST_ALL") ? 600 : 4) / pairs;
  (void)signal(SIGALRM, hangs);
  make_world();
  for (int i = 0; i < ENTRIES; i++)
    for (int k = i; k < ENTRIES; k++)
      if (beside(&entries[i], &entries[k])) run_pair(&entries[i], &entries[k]);
  free_world();
  print_message("%d pairs of %d operations on %d threads: %ld calls, %ld of them refused\n", pairs, (int)ENTRIES,
                THREADS, (long)calls, (long)refused);
}

int main(void) {
  const struct CMUnitTest tests[] = { TEST(every_pair_is_right_or_refused) };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
