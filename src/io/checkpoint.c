/* Checkpoints: the state of a whole training run as one tree of tensors.
   SPDX-License-Identifier: MIT */
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "situ/io.h"
#include "situ/random.h"
#include "situ/sys/load.h"

/* Sections of the tree. */
#define MODEL "model"
#define OPTIMIZER "optimizer"
#define SCHEDULER "scheduler"
#define RUN "run"

/* ---- saving ---------------------------------------------------------------------------------- */

static situ_tree *numbers(int64_t a, int64_t b) {
  const int64_t values[2] = { a, b };
  const situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  return situ_tree_tensor(situ_from_host(values, sizeof values, SITU_SHAPE(2), &options));
}

static situ_tree *generator_tree(situ_generator g) { return numbers((int64_t)g.seed, (int64_t)g.offset); }

/* Checks handles before anything is read or written. */
static bool good_parts(const char *by, const situ_checkpoint *c) {
  return situ__given(by, "checkpoint", c) && (!c->model || situ__valid(by, "model", c->model, SITU__A_MODULE)) &&
         (!c->optimizer || situ__valid(by, "optimizer", c->optimizer, SITU__AN_OPTIMISER)) &&
         (!c->scheduler || situ__valid(by, "scheduler", c->scheduler, SITU__A_SCHEDULER));
}

static situ_tree *gather_state(const situ_checkpoint *c) {
  situ_tree *run = situ_tree_put(situ_tree_dict(), "progress", numbers(c->epoch, c->step));
  run = situ_tree_put(run, "default_generator", generator_tree(situ_get_rng_state()));
  if (c->generator) run = situ_tree_put(run, "generator", generator_tree(*c->generator));
  situ_tree *all = situ_tree_put(situ_tree_dict(), RUN, run);
  if (c->model) all = situ_tree_put(all, MODEL, situ_nn_state_dict(c->model));
  if (c->optimizer) all = situ_tree_put(all, OPTIMIZER, situ_optim_state_dict(c->optimizer));
  if (c->scheduler) all = situ_tree_put(all, SCHEDULER, situ_lr_scheduler_state_dict(c->scheduler));
  return all;
}

/* No step comes between the counts of steps and the values, which are read later. */
static bool part_marks(const void *object, situ__mark_visitor *visit) {
  const situ_checkpoint *c = object;
  return (!c->model || situ__module_marks(c->model, visit)) &&
         (!c->optimizer || situ__optim_marks(c->optimizer, visit));
}

situ_status situ_checkpoint_save(const char *path, const situ_checkpoint *checkpoint,
                                 const situ_save_options *options) {
  if (!good_parts("checkpoint_save", checkpoint)) return situ_error();
  situ_scope scope;
  situ__use use;
  if (!situ__use_begin(&use, part_marks, checkpoint))
    return situ__busy("checkpoint_save", "the model or its optimizer"), situ_error();
  situ_scope_begin_no_grad(&scope);
  situ_tree *all = gather_state(checkpoint);
  situ_status status = all ? situ_save(path, all, options) : situ_error();
  situ_tree_free(all);
  situ_status ended = situ_scope_end(&scope);
  situ__use_end();
  return status != SITU_OK ? status : ended;
}

/* ---- loading --------------------------------------------------------------------------------- */

static const char op[] = "checkpoint_load";

static situ_status report_missing(const char *path, const char *what) {
  return situ__fail(SITU_E_FORMAT, op, "%s: is a checkpoint without %s, or none", path, what);
}

/* Reads the two numbers of an entry under RUN. */
static situ_status read_numbers(const char *path, const situ_tree *all, const char *key, int64_t out[2]) {
  situ_tensor *t = situ_tree_value(situ_tree_find(all, key));
  if (!t || situ_dtype_of(t) != SITU_I64 || situ_numel(t) != 2) return report_missing(path, key);
  return situ_copy_to_host(t, out, 2 * sizeof *out);
}

static situ_status read_generator(const char *path, const situ_tree *all, const char *key, situ_generator *out) {
  int64_t values[2];
  situ_status status = read_numbers(path, all, key, values);
  if (status == SITU_OK) *out = (situ_generator){ .seed = (uint64_t)values[0], .offset = (uint64_t)values[1] };
  return status;
}

/* Returns a section of the file, which must not be empty; NULL after recording an error. */
static situ_tree *read_section(const char *path, const situ_tree *all, const char *name) {
  situ_tree *part = situ_tree_section(all, name);
  if (!part || situ_tree_count(part) > 0) return part;
  situ_tree_free(part);
  report_missing(path, name);
  return NULL;
}

/* Loading the model either succeeds as a whole or changes nothing, and is the only step that can fail on a device. So
   it runs after the other parts are prepared and before they are committed, which cannot fail. It is checked first,
   because its error says most. */
static situ_status load_parts(const char *path, const situ_tree *all, const situ_checkpoint *c) {
  situ_tree *model = c->model ? situ_tree_section(all, MODEL) : NULL;
  situ_tree *optimizer = c->optimizer ? read_section(path, all, OPTIMIZER) : NULL;
  situ_tree *scheduler = c->scheduler ? read_section(path, all, SCHEDULER) : NULL;
  bool good = (!c->model || model) && (!c->optimizer || optimizer) && (!c->scheduler || scheduler);
  good = good && (!model || situ_nn_load_check(c->model, model, NULL) == SITU_OK);
  situ_optim_loading *o = good && optimizer ? situ_optim_load_prepare(c->optimizer, optimizer) : NULL;
  good = good && (!optimizer || o);
  situ_lr_scheduler_loading *s = good && scheduler ? situ_lr_scheduler_load_prepare(c->scheduler, scheduler) : NULL;
  good = good && (!scheduler || s);
  good = good && (!model || situ_nn_load_state_dict(c->model, model, NULL) == SITU_OK);
  situ_optim_load_end(o, good);
  situ_lr_scheduler_load_end(s, good);
  situ_tree_free(model);
  situ_tree_free(optimizer);
  situ_tree_free(scheduler);
  return good ? SITU_OK : situ_error();
}

static situ_status load_checkpoint(const char *path, const situ_tree *all, situ_checkpoint *c) {
  int64_t progress[2];
  situ_generator by_default, own;
  situ_status status = read_numbers(path, all, RUN ".progress", progress);
  if (status == SITU_OK) status = read_generator(path, all, RUN ".default_generator", &by_default);
  if (status == SITU_OK && c->generator) status = read_generator(path, all, RUN ".generator", &own);
  if (status == SITU_OK) status = load_parts(path, all, c);
  if (status != SITU_OK) return status;
  situ_set_rng_state(by_default);
  if (c->generator) *c->generator = own;
  c->epoch = progress[0];
  c->step = progress[1];
  return SITU_OK;
}

situ_status situ_checkpoint_load(const char *path, situ_checkpoint *checkpoint, const situ_load_options *options) {
  if (!good_parts(op, checkpoint)) return situ_error();
  situ_tree *all = situ_load(path, options);
  if (!all) return situ_error();
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_status status = load_checkpoint(path, all, checkpoint);
  situ_status ended = situ_scope_end(&scope);
  situ_tree_free(all);
  return status != SITU_OK ? status : ended;
}
