/* Moves a module: all of its tensors in one transaction.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "place/place.h"
#include "situ/sys/explain.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* ---- collecting requests: all memory is allocated before anything changes ---- */

static situ_status keep_home(situ__move_requests *w, situ_nn_module *m, situ_device device) {
  if (!situ__grow(w->op, &w->home, &w->home_capacity, sizeof *w->home, w->homes + 1)) return situ_error();
  w->home[w->homes++] = (struct situ__home){ .module = m,
                                             .device = device,
                                             .computes_on = m->computes_on,
                                             .computes_then = device.kind ? (situ_device){ 0 } : m->computes_on,
                                             .from = situ_nn_home(m) };
  return SITU_OK;
}

static situ_status keep_tensor(situ__move_requests *w, situ_tensor *t, situ_device to) {
  if (!situ__grow(w->op, &w->list, &w->capacity, sizeof *w->list, w->count + 1)) return situ_error();
  w->list[w->count++] = (situ_move_request){ t, to, w->options->dtype };
  return SITU_OK;
}

static situ_status gather(const situ_nn_visit *at, void *payload) {
  situ__move_requests *w = payload;
  situ_device to = w->options->device;
  if (w->options->map) {
    const situ__map_rule *rule = situ__device_map_find(&w->map, at->path);
    to = rule ? rule->device : (situ_device){ 0 };
  }
  return at->tensor ? keep_tensor(w, at->tensor, to) : keep_home(w, at->module, to);
}

situ_status situ__move_requests_of(situ__move_requests *w, const char *op, situ_nn_module *m,
                                   const situ_nn_to_options *options) {
  *w = (situ__move_requests){ .op = op, .options = options, .failed_hook = -1 };
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__given(op, "options", options)) return situ_error();
  if (options->map && options->device.kind)
    return situ__fail(SITU_E_ARG, op, "a device and a map are given: one of them");
  if (options->stream && options->agree)
    return situ__fail(SITU_E_ARG, op, "with .stream there is no moment at which .agree could be asked");
  if (options->map && !situ__device_map_parse(op, options->map, &w->map)) return situ_error();
  /* Shared tensors may be listed twice: the move itself processes each storage once. */
  unsigned which = SITU_NN_VISIT_TENSORS | (options->map ? 0 : SITU_NN_VISIT_UNNAMED);
  if (options->map || options->device.kind) which |= SITU_NN_VISIT_MODULES; /* to change their homes */
  situ_status status = situ_nn_walk(m, which, gather, w);
  return status == SITU_OK ? situ__device_map_used(op, &w->map, "module, parameter or buffer") : status;
}

void situ__move_requests_free(situ__move_requests *w) {
  situ__device_map_free(&w->map);
  situ__free(w->list);
  situ__free(w->home);
}

/* ---- hooks ---- */

/* Whether a shared module was listed before. */
static bool is_again(const situ__move_requests *w, int64_t i) {
  bool again = false;
  for (int64_t k = 0; k < i; k++) again = again || w->home[k].module == w->home[i].module;
  return again;
}

/* Offloading ends, or begins again, with the move: so hooks see it. Others are not written: calls look at them. */
static void set_offloads(const situ__move_requests *w, bool moved) {
  for (int64_t i = 0; i < w->homes; i++) {
    const struct situ__home *h = &w->home[i];
    if (!situ_device_equal(h->computes_then, h->computes_on))
      h->module->computes_on = moved ? h->computes_then : h->computes_on;
  }
}

/* Everything has moved. Returns false after a hook has recorded an error. */
static bool call_hooks(situ__move_requests *w) {
  for (int64_t i = 0; i < w->homes; i++) {
    struct situ__home *h = &w->home[i];
    h->to = h->from;
    if (!situ_nn_has_move_hooks(h->module) || is_again(w, i)) continue;
    h->to = situ_nn_home(h->module);
    if (!h->module->count && h->device.kind) h->to = h->device;
    if (situ_device_equal(h->from, h->to)) continue;
    w->failed_home = i;
    if (situ_nn_run_move_hooks(h->module, h->from, h->to, INT64_MAX, &w->failed_hook) != SITU_OK) return false;
  }
  return true;
}

static bool settle(void *payload) {
  set_offloads(payload, true);
  const bool good = call_hooks(payload);
  set_offloads(payload, good);
  return good;
}

/* Everything has moved back: the hooks that did not refuse hear of it, the last one first. */
static void unsettle(const situ__move_requests *w) {
  situ__errors own;
  situ__errors_aside(&own);
  for (int64_t i = w->failed_home; i >= 0; i--) {
    const struct situ__home *h = &w->home[i];
    if (situ_device_equal(h->from, h->to)) continue;
    SITU_IGNORE(
        situ_nn_run_move_hooks(h->module, h->to, h->from, i == w->failed_home ? w->failed_hook : INT64_MAX, NULL));
  }
  SITU_IGNORE(situ__errors_back(&own, NULL, 0));
}

static bool is_hooked(const situ__move_requests *w) {
  bool hooked = false;
  for (int64_t i = 0; i < w->homes; i++) hooked = hooked || situ_nn_has_move_hooks(w->home[i].module);
  return hooked;
}

situ_move_plan *situ__move_requests_plan(situ__move_requests *w) {
  situ_move_plan *m = situ_move_plan_new(w->op, w->list, w->count);
  if (m && is_hooked(w)) situ_move_plan_settle(m, settle, w);
  return m;
}

/* ---- moving ---- */

static SITU__THREAD_LOCAL int64_t moved; /* storages, by the last move */

int64_t situ_place_moved(void) { return moved; }

static void count_moved(const situ_move_plan *moving) {
  int64_t count;
  const situ_move_unit *unit = situ_move_plan_units(moving, &count);
  moved = 0; /* a move within `agree` counted its own */
  for (int64_t i = 0; i < count; i++) moved += unit[i].moves;
}

/* Each request is a transaction: what a failure leaves is a module whose tensors are whole. */
static situ_status move_one_by_one(const situ__move_requests *w) {
  int64_t total = 0;
  situ_status status = SITU_OK;
  for (int64_t i = 0; status == SITU_OK && i < w->count; i++) {
    situ_move_plan *one = situ_move_plan_new(w->op, &w->list[i], 1);
    status = one ? situ_move_plan_run(one, w->options->lossy) : situ_error();
    if (status == SITU_OK) count_moved(one);
    total += status == SITU_OK ? moved : 0;
    situ_move_plan_free(one);
  }
  moved = total;
  return status;
}

static SITU_COLD situ_status refuse_hooks(const char *op) {
  return situ__fail(SITU_E_ARG, op,
                    "with .stream a move is not undone when a hook refuses it (situ_nn_on_move), and the "
                    "module has hooks: move it without .stream");
}

situ_status situ__move_module(const char *op, situ_nn_module *m, const situ_nn_to_options *options,
                              const situ__move_file *file) {
  SITU__CLAIM(claim);
  moved = 0;
  if (situ__is(SITU__A_MODULE, m) && !situ__claim_begin(&claim, situ__module_marks, m))
    return situ__busy(op, m->type->name), situ_error();
  situ__move_requests w;
  situ_status status = situ__move_requests_of(&w, op, m, options);
  for (int64_t i = 0; file && i < w.homes; i++) w.home[i].computes_then = w.home[i].computes_on;
  situ_move_plan *moving = status == SITU_OK ? situ__move_requests_plan(&w) : NULL;
  if (file && moving) situ_move_plan_to_file(moving, file->path, file->keep);
  if (status == SITU_OK && moving && options->stream) {
    status = is_hooked(&w) ? refuse_hooks(op) : move_one_by_one(&w);
  } else if (status == SITU_OK) {
    status =
        moving ? situ_move_plan_run_agreed(moving, options->lossy, options->agree, options->payload) : situ_error();
    if (status == SITU_OK) count_moved(moving);
    else if (w.failed_hook >= 0) unsettle(&w);
  }
  if (status == SITU_OK) set_offloads(&w, true);
  /* A module without tensors has a home, too: tensors that its forward creates or materialises are created there. */
  for (int64_t i = 0; status == SITU_OK && i < w.homes; i++) {
    if (w.home[i].device.kind) w.home[i].module->home = w.home[i].device;
    w.home[i].module->late = false; /* a module that the map leaves out stays there intentionally */
  }
  situ_move_plan_free(moving);
  situ__move_requests_free(&w);
  return status;
}

static situ_status move(const char *op, situ_nn_module *m, const situ_nn_to_options *options) {
  return situ__move_module(op, m, options, NULL);
}

static bool storage_mark(const void *tensor, situ__mark_visitor *visit) {
  return visit(&situ_desc(tensor)->storage->busy);
}

situ_status situ_nn_to(situ_nn_module *m, situ_device device) {
  return move("nn_to", m, &(situ_nn_to_options){ .device = device.kind ? device : situ_get_default_device() });
}

situ_status situ_nn_to_dtype(situ_nn_module *m, situ_dtype dtype) {
  if (!dtype) return situ__fail(SITU_E_DTYPE, "nn_to_dtype", "no dtype is given");
  return move("nn_to_dtype", m, &(situ_nn_to_options){ .dtype = dtype });
}

static situ_status keep_with_gradient(const situ_nn_visit *at, void *payload) {
  situ__move_requests *w = payload;
  situ_tensor *grad = situ_grad(at->tensor);
  const situ_status status = keep_tensor(w, at->tensor, (situ_device){ 0 });
  return status == SITU_OK && grad ? keep_tensor(w, grad, (situ_device){ 0 }) : status;
}

situ_status situ_nn_to_memory_format(situ_nn_module *m, situ_memory_format memory_format) {
  const char *op = "nn_to_memory_format";
  SITU__CLAIM(claim);
  if (!situ__valid(op, "module", m, SITU__A_MODULE)) return situ_error();
  if (!situ__claim_begin(&claim, situ__module_marks, m)) return situ__busy(op, m->type->name), situ_error();
  const situ_nn_to_options none = { .lossy = false };
  situ__move_requests w = { .op = op, .options = &none };
  situ_status status = situ_nn_walk(m, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_UNNAMED, keep_with_gradient, &w);
  const size_t bytes = (size_t)(w.count + 1) * sizeof(situ_tensor *);
  situ_tensor **list = status == SITU_OK ? situ__alloc(bytes) : NULL;
  if (status == SITU_OK && !list) status = situ__no_memory(op, bytes);
  for (int64_t i = 0; list && i < w.count; i++) list[i] = w.list[i].tensor;
  if (status == SITU_OK) status = situ_relayout(op, list, w.count, memory_format);
  situ__free(list);
  situ__move_requests_free(&w);
  return status;
}

situ_status situ_nn_to_with(situ_nn_module *m, const situ_nn_to_options *options) {
  return move("nn_to_with", m, options);
}

situ_status situ_nn_to_map(situ_nn_module *m, const char *map) {
  if (!map) return situ__null("nn_to_map", "map");
  return move("nn_to_map", m, &(situ_nn_to_options){ .map = map });
}

/* ---- there and back ---- */

/* Keeps a reference to all that a move to `options` would move, and where it is now. Release it in any case. */
static situ_status remember(situ__move_requests *w, const char *op, situ_nn_module *m,
                            const situ_nn_to_options *options) {
  SITU__CLAIM(claim);
  *w = (situ__move_requests){ .op = op };
  if (situ__is(SITU__A_MODULE, m) && !situ__claim_begin(&claim, situ__module_marks, m))
    return situ__busy(op, m->type->name), situ_error();
  const situ_status status = situ__move_requests_of(w, op, m, options);
  for (int64_t i = 0; i < w->count; i++) w->list[i].to = situ_device_of(situ_retain(w->list[i].tensor));
  for (int64_t i = 0; i < w->homes; i++) w->home[i].device = situ_nn_retain(w->home[i].module)->home;
  return status;
}

static void release(situ__move_requests *w) {
  for (int64_t i = 0; i < w->count; i++) situ_release(w->list[i].tensor);
  for (int64_t i = 0; i < w->homes; i++) situ_nn_free(w->home[i].module);
  situ__move_requests_free(w);
}

static situ_status go_back(situ__move_requests *w) {
  for (int64_t i = 0; i < w->homes; i++) {
    struct situ__home *h = &w->home[i];
    h->computes_then = h->computes_on;
    h->computes_on = h->module->computes_on;
    h->from = situ_nn_home(h->module);
  }
  situ_move_plan *moving = situ__move_requests_plan(w);
  const situ_status status = moving ? situ_move_plan_run(moving, false) : situ_error();
  if (status != SITU_OK && w->failed_hook >= 0) unsettle(w);
  for (int64_t i = 0; status == SITU_OK && i < w->homes; i++) w->home[i].module->home = w->home[i].device;
  if (status == SITU_OK) set_offloads(w, true);
  situ_move_plan_free(moving);
  return status;
}

situ_status situ_nn_to_during(situ_nn_module *m, situ_device device, situ_status (*work)(void *payload),
                              void *payload) {
  static const char op[] = "nn_to_during";
  const situ_nn_to_options there = { .device = device.kind ? device : situ_get_default_device() };
  if (!work) return situ__null(op, "work");
  situ__move_requests w;
  situ_status status = remember(&w, op, m, &there);
  if (status == SITU_OK) status = move(op, m, &there);
  if (status == SITU_OK) {
    status = work(payload);
    if (status != SITU_OK && situ_error() == SITU_OK) situ__fail(status, op, "the work failed");
    const situ_status back = go_back(&w);
    if (status == SITU_OK) status = back;
  }
  release(&w);
  return status;
}

/* ---- one tensor ---- */

/* Whose part a storage is. */
typedef struct kin {
  const situ_tensor *gradient, *leader;
} kin;

static void meet(situ_relation how, const situ_tensor *other, void *payload) {
  kin *k = payload;
  if (how == SITU_FOLLOWS) k->leader = other;
  if (how == SITU_SHARES && situ_role_of(other) == SITU_ROLE_GRADIENT) k->gradient = other;
}

/* Refuses a move that would take a storage away from its owner. Returns false after recording an error. */
static bool may_go(const char *op, const situ_tensor *t, situ_device device) {
  kin k = { .gradient = situ_role_of(t) == SITU_ROLE_GRADIENT ? t : NULL };
  char name[SITU_DEVICE_NAME_MAX];
  if (situ_device_equal(situ_device_of(t), device)) return true;
  situ_each_relative(t, meet, &k);
  if (!k.gradient && (!k.leader || situ_accompanies(t))) return true;
  situ_explained owner = { .tensor = k.gradient ? k.gradient : k.leader, .of_gradient = k.gradient };
  situ_explain_look(&(situ_explanation){ .operand = &owner, .count = 1 });
  if (k.leader) owner.goes_to = situ_device_of(k.leader);
  if (situ_device_equal(owner.goes_to, device)) return true; /* back to it */
  const char *what = *owner.path ? owner.path : k.leader && *situ_name(k.leader) ? situ_name(k.leader) : "a tensor";
  if (k.gradient)
    return situ__fail(SITU_E_DEVICE, op,
                      "the gradient of %s cannot be moved alone: move that (situ_nn_to, situ_to_), and it goes along; "
                      "or copy it (situ_to)",
                      what),
           false;
  return situ__fail(
             SITU_E_DEVICE, op,
             "%s follows %s, which is on %s, and cannot be moved alone: move that (situ_nn_to, situ_to_), or all "
             "that an optimiser has (situ_optim_to)",
             *situ_name(t) ? situ_name(t) : "the tensor", what, situ_device_name(owner.goes_to, name)),
         false;
}

situ_status situ_to_(situ_tensor *t, situ_device device) {
  static const char op[] = "to_";
  const situ_move_request request = { t, device.kind ? device : situ_get_default_device(), SITU_DTYPE_DEFAULT };
  SITU__CLAIM(claim);
  moved = 0;
  if (!situ__valid(op, "tensor", t, SITU__A_TENSOR)) return situ_error();
  if (!situ__claim_begin(&claim, storage_mark, t)) return situ__busy(op, situ_name(t)), situ_error();
  if (!may_go(op, t, request.to)) return situ_error();
  situ_move_plan *moving = situ_move_plan_new(op, &request, 1);
  situ_status status = moving ? situ_move_plan_run(moving, false) : situ_error();
  if (status == SITU_OK) count_moved(moving);
  situ_move_plan_free(moving);
  return status;
}

bool situ_to_would_alias(situ_tensor *t, situ_device device) {
  const situ_move_request request = { t, device.kind ? device : situ_get_default_device(), SITU_DTYPE_DEFAULT };
  situ_move_plan *moving = situ_move_plan_new("to_would_alias", &request, 1);
  int64_t count;
  const bool alias = moving && !situ_move_plan_units(moving, &count)->moves;
  situ_move_plan_free(moving);
  return alias;
}
