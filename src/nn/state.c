/* Loads a state dict: compares everything first, then copies (load.c).
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/text.h"
#include "nn/nn.h"
#include "situ/blocks.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char op[] = "nn_load_state_dict";

enum { PAIRS = 6 };

typedef struct loading {
  const situ_nn_load_options *options;
  const situ_tree *state; /* a flat dict */
  situ__nn_wait wait;
  situ__nn_part *list; /* the module's tensors */
  int64_t count, capacity;
  int64_t next;        /* entry of the state that is likely the next tensor's: both usually have one order */
  int64_t found;       /* entries of the state that the module has */
  bool meta;           /* some tensors are on meta */
  bool valueless;      /* a tensor of the state has no values, or one that it lacks has none that are known */
  situ_device adopted; /* of a state's tensor whose memory is taken over; {0}: none */
  struct woken *woken; /* lazy modules that the load has woken */
  situ__text missing, unexpected, mismatch;
  situ_blamed pair[2 * PAIRS]; /* the first mismatches: the module's tensor, the state's */
  char *path[PAIRS];           /* of each pair: the walk's own text ends with it */
  int pairs;
} loading;

static void report(loading *l, situ_nn_load_problem problem, const char *path, const char *detail) {
  static const char *const title[] = { "missing: ", "unexpected: ", "mismatch: " };
  situ__text *list[] = { &l->missing, &l->unexpected, &l->mismatch };
  situ__text_add(list[problem], "%s%s%s", list[problem]->length ? ", " : title[problem], path, detail);
  if (l->options->report) l->options->report(problem, path, l->options->payload);
}

static int kind_of(situ_dtype dtype) {
  return situ_dtype_is_floating(dtype) ? 2 : situ_dtype_is_integer(dtype) ? 1 : 0;
}

static const char *format_of(const situ_tensor *t) {
  const situ_block_type blocks = situ_block_type_of(t);
  return blocks ? situ_block_name(blocks) : situ_dtype_name(situ_dtype_of(t));
}

static void compare_tensors(loading *l, const char *path, const situ_tensor *to, const situ_tensor *from) {
  situ_shape a = situ_shape_of(to), b = situ_shape_of(from);
  char has[SITU_SHAPE_TEXT], needs[SITU_SHAPE_TEXT], detail[2 * SITU_SHAPE_TEXT + 64];
  const bool number = a.ndim == 0 && b.ndim == 1 && b.dim[0] == 1; /* torch accepts this as a number */
  const bool kinds = kind_of(situ_dtype_of(from)) <= kind_of(situ_dtype_of(to)),
             blocks = situ_block_type_of(from) == situ_block_type_of(to);
  if ((number || situ_shape_equal(&a, &b)) && kinds && blocks) return;
  snprintf(detail, sizeof detail, " (%s %s in the state, %s %s in the module)", situ_shape_text(&b, has),
           format_of(from), situ_shape_text(&a, needs), format_of(to));
  report(l, SITU_NN_LOAD_MISMATCH, path, detail);
  if (l->pairs == PAIRS) return;
  const char *kept = l->path[l->pairs] = situ__strdup(path);
  l->pair[2 * l->pairs] = (situ_blamed){ .operand = "module", .tensor = to, .name = kept };
  l->pair[2 * l->pairs + 1] = (situ_blamed){ .operand = "state", .tensor = from, .name = kept, .odd = true };
  l->pairs++;
}

static bool adopts(const loading *l, const situ_tensor *from) {
  const situ_nn_load_options *o = l->options;
  return o->assign && (!o->device.kind || situ_device_equal(o->device, situ_device_of(from)));
}

/* The tensor of the state at a path; NULL: none. */
static situ_tensor *find_value(loading *l, const char *path) {
  const situ_tree *from;
  if (l->next < situ_tree_count(l->state) && strcmp(situ_tree_key(l->state, l->next), path) == 0)
    from = situ_tree_at(l->state, l->next++);
  else from = situ_tree_find(l->state, path);
  l->found += from != NULL;
  return from ? situ_tree_value(from) : NULL;
}

/* What .place says of a path. Returns false after recording an error. */
static bool is_placed(const loading *l, const char *path, situ_device *device) {
  *device = l->options->place ? l->options->place(path, l->options->payload) : (situ_device){ 0 };
  if (device->kind != SITU_META) return true;
  return situ__fail(SITU_E_DEVICE, op, "%s is placed on meta", path), false;
}

static situ_status add_part(loading *l, const situ__nn_part *part) {
  if (!situ__grow(op, &l->list, &l->capacity, sizeof *l->list, l->count + 1)) return situ_error();
  l->list[l->count++] = *part;
  return SITU_OK;
}

/* Saved tensors get values from the state; a buffer that is not saved, and is on meta, from its recipe. */
static situ_status compare_one(const situ_nn_visit *at, void *payload) {
  loading *l = payload;
  situ_tensor *to = at->tensor;
  if (!to) return situ__nn_has_parameters(op, at);
  const bool on_meta = situ_device_of(to).kind == SITU_META;
  situ_device home = { 0 };
  if (on_meta && !is_placed(l, at->path, &home)) return situ_error();
  if (at->slot->kind == SITU_NN_TRANSIENT) {
    if (!on_meta) return SITU_OK;
    l->meta |= situ_has_values(to);
    l->valueless |= !situ_has_values(to) && !l->options->not_strict;
    return situ_has_values(to) ? add_part(l, &(situ__nn_part){ .to = to, .from = to, .home = home }) : SITU_OK;
  }
  situ_tensor *from = find_value(l, at->path);
  if (!from) return report(l, SITU_NN_LOAD_MISSING, at->path, ""), SITU_OK;
  compare_tensors(l, at->path, to, from);
  const bool adopt = adopts(l, from) && (!home.kind || situ_device_equal(home, situ_device_of(from)));
  if (adopt) l->adopted = situ_device_of(from);
  l->meta |= on_meta;
  /* The caller of situ_nn_load_when loads the parts of it. */
  if (l->wait.ready && situ_device_of(from).kind == SITU_META && situ_memory_is_away(to)) return SITU_OK;
  l->valueless |= !situ_has_values(from);
  return add_part(l, &(situ__nn_part){ .to = to, .from = from, .home = home, .adopts = adopt });
}

/* What the state has and the module has not. */
static bool compare_rest(loading *l, situ_nn_module *m) {
  if (l->found == situ_tree_count(l->state)) return true;
  situ_tree *own = situ_nn_state_dict(m);
  for (int64_t i = 0; own && i < situ_tree_count(l->state); i++) {
    const char *path = situ_tree_key(l->state, i);
    if (!situ_tree_find(own, path)) report(l, SITU_NN_LOAD_UNEXPECTED, path, "");
  }
  situ_tree_free(own);
  return own != NULL;
}

static situ_status refuse(const loading *l, const situ_nn_module *m) {
  bool names = !l->options->not_strict && (l->missing.length || l->unexpected.length);
  if (l->missing.failed || l->unexpected.failed || l->mismatch.failed) return situ__no_memory(op, 1);
  if (!names && !l->mismatch.length) return SITU_OK;
  const char *part[3] = { "", "", "" };
  int count = 0;
  if (names && l->missing.length) part[count++] = l->missing.data;
  if (names && l->unexpected.length) part[count++] = l->unexpected.data;
  if (l->mismatch.length) part[count++] = l->mismatch.data;
  const char *first = *part[1] ? "\n  " : "", *second = *part[2] ? "\n  " : "";
  if (!l->pairs)
    return situ__fail(SITU_E_ARG, op, "the state does not fit %s\n  %s%s%s%s%s", m->type->name, part[0], first, part[1],
                      second, part[2]);
  return situ_fail_blamed(names ? SITU_E_ARG : SITU_E_SHAPE, op, l->pair, 2 * l->pairs, NULL,
                          "the state does not fit %s\n  %s%s%s%s%s", m->type->name, part[0], first, part[1], second,
                          part[2]);
}

/* ---- the device for tensors on meta ---- */

static bool real(situ_device d) { return d.kind != SITU_DEVICE_DEFAULT && d.kind != SITU_META; }

/* The caller's choice, else the device of memory that is taken over, else the module's home, else the default device.
   Returns false after recording an error. */
static bool find_home(const loading *l, const situ_nn_module *m, situ_device adopted, situ_device *home) {
  bool wanted = l->options->device.kind != SITU_DEVICE_DEFAULT;
  *home = wanted ? l->options->device : real(adopted) ? adopted : real(m->home) ? m->home : situ_get_default_device();
  if (real(*home)) return true;
  return situ__fail(SITU_E_DEVICE, op,
                    "the module is on meta, where there are no values, and no other device is said: "
                    "nn_load_state_dict(m, state, &(situ_nn_load_options){ .device = ... })"),
         false;
}

typedef struct settling {
  const loading *load;
  situ_device home;
  struct {
    situ_nn_module *module;
    situ_device home;
  } * before;
  int64_t count, capacity;
} settling;

static situ_status settle_home(const situ_nn_visit *at, void *payload) {
  settling *s = payload;
  if (!situ__grow(op, &s->before, &s->capacity, sizeof *s->before, s->count + 1)) return situ_error();
  s->before[s->count].module = at->module;
  s->before[s->count++].home = at->module->home;
  const situ_nn_load_options *o = s->load->options;
  const situ_device placed = o->place ? o->place(at->path, o->payload) : (situ_device){ 0 };
  if (at->module->home.kind == SITU_META || placed.kind) at->module->home = placed.kind ? placed : s->home;
  return SITU_OK;
}

/* ---- lazy modules: they create their parameters with the state's shapes ---- */

typedef struct woken {
  situ_nn_module *module;
  const situ_nn_type *type;
  struct woken *next;
} woken;

static situ_status wake(const situ_nn_visit *at, void *payload) {
  loading *l = payload;
  situ_nn_module *m = at->module;
  if (!m->pending || !m->type->wake) return SITU_OK;
  woken *w = situ__alloc(sizeof *w);
  if (!w) return situ__no_memory(op, sizeof *w);
  *w = (woken){ m, m->type, l->woken };
  l->woken = w;
  return m->type->wake(m, l->state, at->path);
}

/* Empties the list; if the load failed, makes the modules lazy again. */
static void settle_woken(loading *l, bool failed) {
  while (l->woken) {
    woken *w = l->woken;
    if (failed) situ__nn_forget(w->module, w->type);
    l->woken = w->next;
    situ__free(w);
  }
}

/* ---- the whole load ---- */

/* Refuses the first tensor without values. */
static situ_status find_valueless(const situ_nn_visit *at, void *payload) {
  const loading *l = payload;
  if (at->slot->kind == SITU_NN_TRANSIENT) {
    if (situ_device_of(at->tensor).kind != SITU_META || situ_has_values(at->tensor) || l->options->not_strict)
      return SITU_OK;
    return situ__fail(
        SITU_E_STATE, op,
        "%s is on meta, is not saved, and its values are unknown: make it on a device, or with its values", at->path);
  }
  const situ_tree *from = situ_tree_find(l->state, at->path);
  if (!from || situ_has_values(situ_tree_value(from))) return SITU_OK;
  return situ__fail(SITU_E_STATE, op, "%s: the state's holds no values", at->path);
}

static situ_status load(loading *l, situ_nn_module *m) {
  situ_device home = { 0 };
  if (l->valueless && situ_nn_walk(m, SITU_NN_VISIT_TENSORS, find_valueless, l) != SITU_OK) return situ_error();
  if (l->meta && !find_home(l, m, l->adopted, &home)) return situ_error();
  settling s = { .load = l, .home = home };
  const bool good = (!l->meta || situ_nn_walk(m, SITU_NN_VISIT_MODULES, settle_home, &s) == SITU_OK) &&
                    situ__nn_write(l->list, l->count, home, l->options->assign, l->wait);
  for (; !good && s.count; s.count--) s.before[s.count - 1].module->home = s.before[s.count - 1].home;
  situ__free(s.before);
  return good ? SITU_OK : situ_error();
}

/* Whether the state is a dict of tensors, which need not be flattened. */
static bool is_flat(const situ_tree *state) {
  bool flat = situ_tree_kind_of(state) == SITU_TREE_DICT;
  for (int64_t i = 0; flat && i < situ_tree_count(state); i++)
    flat = situ_tree_kind_of(situ_tree_at(state, i)) == SITU_TREE_TENSOR;
  return flat;
}

/* Compares the module with the state; with `write` also copies the values. */
static situ_status compare_and_load(situ_nn_module *m, const situ_tree *state, const situ_nn_load_options *options,
                                    bool write, situ__nn_wait wait) {
  static const situ_nn_load_options strict;
  SITU__MADE_OF_OPS(op);
  SITU__CLAIM(claim); /* also without writing: lazy modules are woken to be compared */
  if (!situ__nn_given(op, "module", m) || !situ__valid(op, "state", state, SITU__A_TREE)) return situ_error();
  if (!situ__nn_claim(op, m, &claim)) return situ_error();
  options = options ? options : &strict;
  const bool as_it_is = !options->rename_count && is_flat(state);
  situ_tree *flat = as_it_is ? NULL : situ__nn_rename(situ_tree_flatten(state), options);
  loading l = { .options = options, .state = as_it_is ? state : flat, .wait = wait };
  situ_status status = l.state ? situ_nn_walk(m, SITU_NN_VISIT_MODULES, wake, &l) : situ_error();
  if (status == SITU_OK) status = situ_nn_walk(m, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_TENSORS, compare_one, &l);
  if (status == SITU_OK && !compare_rest(&l, m)) status = situ_error();
  if (status == SITU_OK) status = refuse(&l, m);
  if (status == SITU_OK && write) status = load(&l, m);
  settle_woken(&l, status != SITU_OK || !write);
  situ__text_free(&l.missing);
  situ__text_free(&l.unexpected);
  situ__text_free(&l.mismatch);
  for (int i = 0; i < l.pairs; i++) situ__free(l.path[i]);
  situ_tree_free(flat);
  situ__free(l.list);
  return status;
}

situ_status situ_nn_load_check(situ_nn_module *m, const situ_tree *state, const situ_nn_load_options *options) {
  return compare_and_load(m, state, options, false, (situ__nn_wait){ 0 });
}

situ_status situ_nn_load_state_dict(situ_nn_module *m, const situ_tree *state, const situ_nn_load_options *options) {
  return compare_and_load(m, state, options, true, (situ__nn_wait){ 0 });
}

situ_status situ_nn_load_when(situ_nn_module *m, const situ_tree *state, const situ_nn_load_options *options,
                              situ_nn_load_ready ready, void *payload) {
  if (!situ__given("nn_load_when", "ready", (const void *)(uintptr_t)ready)) return situ_error();
  return compare_and_load(m, state, options, true, (situ__nn_wait){ ready, payload });
}
