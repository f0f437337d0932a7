/* The preflight: runs a clone of a module without values, forward and backward.
   SPDX-License-Identifier: MIT */
#include "place/draw/snapshot.h"
#include "place/preflight/check.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/busy.h"
#include "base/fail.h"
#include "base/handle.h"
#include "base/text.h"
#include "situ/place/move.h"
#include "situ/sys/layers.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static const char op[] = "place_check";

/* ---- inputs --------------------------------------------------------------------------------- */

typedef struct given {
  situ__preflight *p;
  situ_device meant; /* of those on meta */
  const situ__trial *trial;
  int64_t next; /* input */
} given;

/* A tensor like t without values, where the statements of the trial bring it. */
static situ_tensor *stand_in(situ_tensor *t, void *payload) {
  given *in = payload;
  const situ_device own = in->trial->inputs_on ? in->trial->inputs_on[in->next++] : situ_device_of(t);
  const situ_device device = own.kind == SITU_META ? in->meant : own;
  situ_tensor *copy = situ_zeros(
      situ_shape_of(t),
      &(situ_options){ .dtype = situ_dtype_of(t), .device = device, .requires_grad = situ_requires_grad(t) });
  for (int64_t i = 0; copy && i < in->trial->made.count; i++) {
    const situ__remedy *r = &in->trial->made.list[i];
    if (!situ__remedy_is_of(in->trial, r, t)) continue;
    in->p->making = true;
    copy = r->does.dtype ? situ_to_dtype(copy, r->does.dtype) : situ_to(copy, r->does.device);
    in->p->making = false;
  }
  if (!copy) return NULL;
  situ_stand_for(copy, t);
  situ__preflight_stand(in->p, situ_desc(copy)->storage, situ_desc(t)->storage);
  situ_set_role(copy, SITU_ROLE_INPUT);
  return situ_set_name(copy, situ_name(t));
}

/* ---- forward and backward ------------------------------------------------------------------- */

typedef struct results {
  situ__preflight *p;
  situ_tree *parameters;
  situ_tensor **parameter, **grad;
  bool *reached;
  int count;
  bool any, failed; /* a result has a gradient; its backward failed */
} results;

static situ_status take_parameter(const char *path, situ_tensor *t, void *payload) {
  results *r = payload;
  (void)path;
  if (situ_requires_grad(t)) r->parameter[r->count++] = t;
  return SITU_OK;
}

static bool take_parameters(results *r, situ_nn_module *m) {
  r->parameters = situ_nn_parameters(m);
  const size_t most = (size_t)situ_tree_count(r->parameters) + 1;
  r->parameter = situ__calloc(most, 2 * sizeof *r->parameter + sizeof *r->reached);
  if (!r->parameters || !r->parameter) {
    if (r->parameters) r->p->failed = true;
    return false;
  }
  r->grad = r->parameter + most;
  r->reached = (bool *)(r->grad + most);
  return situ_tree_each(r->parameters, take_parameter, r) == SITU_OK && r->count > 0;
}

/* Backward from one result: keeps the graph for the others. */
static situ_status back_from(const char *path, situ_tensor *t, void *payload) {
  results *r = payload;
  (void)path;
  if (!situ_requires_grad(t)) return SITU_OK;
  r->any = true;
  situ__preflight_pass(r->p);
  situ_tensor *sum = situ_sum(t, NULL);
  const situ_backward_options keep = { .retain_graph = true };
  if (!sum || situ_autograd_grad(sum, r->count, r->parameter, r->grad, &keep) != SITU_OK) {
    r->failed = true;
    situ_dry_tell(&r->p->dry);
    return SITU_OK;
  }
  for (int i = 0; i < r->count; i++) r->reached[i] |= r->grad[i] != NULL;
  return SITU_OK;
}

static void without_gradient(results *r) {
  for (int64_t i = 0, k = 0; i < situ_tree_count(r->parameters); i++) {
    situ_tensor *t = situ_tree_tensor_at(r->parameters, i);
    if (k == r->count || t != r->parameter[k]) continue;
    if (r->reached[k++]) continue;
    const char *path = situ_tree_key(r->parameters, i);
    char text[512];
    (void)snprintf(text, sizeof text, "no result depends on %.400s: it gets no gradient", path);
    situ__preflight_add(
        r->p, &(situ_place_finding){
                  .problem = SITU_PLACE_GRADIENT, .note = true, .backward = true, .tensor = path, .text = text });
  }
}

static void backward(situ__preflight *p, situ_nn_module *m, const situ_tree *outputs) {
  results r = { .p = p };
  p->backward = true;
  if (take_parameters(&r, m)) {
    if (situ_tree_each(outputs, back_from, &r) != SITU_OK) p->failed = true;
    if (!r.any) {
      situ__preflight_add(p, &(situ_place_finding){ .problem = SITU_PLACE_GRADIENT,
                                                    .note = true,
                                                    .backward = true,
                                                    .text = "no result has a gradient: nothing can be trained" });
    } else if (!r.failed) {
      without_gradient(&r);
    }
    p->report.differentiated = r.any && !r.failed;
  }
  situ_dry_tell(&p->dry);
  situ__free(r.parameter);
  situ_tree_free(r.parameters);
  p->backward = false;
}

/* ---- results of the run --------------------------------------------------------------------- */

typedef struct naming {
  situ__preflight *p;
  situ_nn_module *original;
} naming;

static situ_status name_part(const situ_nn_visit *at, void *payload) {
  const naming *n = payload;
  const situ_storage *copy = situ_desc(at->tensor)->storage;
  const situ_tensor *original = situ_nn_get_tensor(n->original, at->path);
  situ__preflight_name(n->p, copy, at->path);
  if (original) situ__preflight_stand(n->p, copy, situ_desc(original)->storage);
  if (original) situ__preflight_present(n->p, situ_grad(original));
  return SITU_OK;
}

static situ_status stand_itself(const situ_nn_visit *at, void *payload) {
  situ__preflight_stand(payload, NULL, situ_desc(at->tensor)->storage);
  return SITU_OK;
}

static situ_status weigh(const situ_nn_visit *at, void *payload) {
  situ_place_load *load = situ__preflight_load(payload, situ_device_of(at->tensor));
  const uint64_t bytes = (uint64_t)situ_numel(at->tensor) * situ_dtype_size(situ_dtype_of(at->tensor));
  if (!load) return SITU_OK;
  if (at->slot->kind == SITU_NN_PARAMETER) load->parameters += bytes;
  else load->buffers += bytes;
  return SITU_OK;
}

/* Of what the ranks have in parts, this one has its own. */
static situ_status weigh_part(const situ_nn_visit *at, void *payload) {
  const uint64_t whole = (uint64_t)situ_numel(at->tensor) * situ_dtype_size(situ_dtype_of(at->tensor));
  if (!situ_memory_is_away(at->tensor)) return SITU_OK;
  situ_place_load *load = situ__preflight_load(payload, situ_device_of(at->tensor));
  const uint64_t others = whole - situ__place_bytes(at->tensor);
  if (load && load->parameters >= others) load->parameters -= others;
  return SITU_OK;
}

static situ_status is_lazy(const situ_nn_visit *at, void *payload) {
  if (!at->module->pending) return SITU_OK;
  char text[256];
  (void)snprintf(text, sizeof text,
                 "a lazy %.64s cannot be checked: a module here cannot be cloned, and it must not "
                 "make its parameters now",
                 at->module->type->name);
  situ__preflight_add(
      payload, &(situ_place_finding){
                   .problem = SITU_PLACE_OTHER, .status = SITU_E_UNSUPPORTED, .module = at->path, .text = text });
  return SITU_OK;
}

/* ---- the run -------------------------------------------------------------------------------- */

/* Moves a clone by the map. Returns false, with p->unmade, if a device has no memory for the parameters alone. */
static bool moves(situ__preflight *p, situ_nn_module *clone) {
  const char *map = p->trial->map ? p->trial->map : p->trial->options->map;
  if (!map || situ_nn_to_map(clone, map) == SITU_OK) return true;
  const situ_status status = situ_error();
  if (p->trial->options->map && (status == SITU_E_NOMEM || status == SITU_E_UNSUPPORTED))
    situ__preflight_add(
        p, &(situ_place_finding){ .problem = status == SITU_E_NOMEM ? SITU_PLACE_MEMORY : SITU_PLACE_UNSUPPORTED,
                                  .status = status,
                                  .text = situ_error_message() });
  else if (p->trial->options->map) situ_dry_tell(&p->dry);
  situ_error_clear();
  p->unmade = true;
  return false;
}

/* The module to run: a clone; or the module itself, if it cannot be cloned and has no lazy parts. The caller frees
   it. */
static situ_nn_module *runnable(situ__preflight *p, situ_nn_module *m) {
  situ_nn_module *clone = situ_nn_clone(m);
  if (clone) {
    naming n = { p, m };
    if (!moves(p, clone)) {
      situ_nn_free(clone);
      return NULL;
    }
    if (situ_nn_set_name(clone, situ_nn_name(m)) &&
        situ_nn_walk(clone, SITU_NN_VISIT_TENSORS, name_part, &n) == SITU_OK)
      return clone;
    situ_nn_free(clone);
    p->failed = true;
    return NULL;
  }
  if (situ_error() == SITU_E_STATE) return p->refused = true, NULL; /* another thread is in the way */
  if (situ_error() != SITU_E_UNSUPPORTED) {
    situ_dry_tell(&p->dry);
    return NULL;
  }
  if (p->trial->options->map) return p->refused = true, NULL;
  situ_error_clear();
  p->itself = true;
  const int64_t before = p->report.finding_count;
  if (situ_nn_walk(m, SITU_NN_VISIT_MODULES, is_lazy, p) != SITU_OK ||
      situ_nn_walk(m, SITU_NN_VISIT_TENSORS, stand_itself, p) != SITU_OK)
    p->failed = true;
  return p->report.finding_count > before || p->failed ? NULL : situ_nn_retain(m);
}

typedef struct call {
  situ__preflight *p;
  situ_nn_module *module;
  const situ__trial *trial;
} call;

/* The tree alone keeps them. */
static situ_tree *make_inputs(given *at) {
  situ_scope scope;
  situ_scope_begin(&scope);
  at->next = 0;
  situ_tree *in = situ_tree_map(at->trial->inputs, stand_in, at);
  SITU_IGNORE(situ_scope_end(&scope));
  return in;
}

/* In a scope of its own: what forward keeps is alive behind it. */
static void run_module(void *payload) {
  const call *c = payload;
  situ__preflight *p = c->p;
  situ_nn_module *m = c->module;
  situ_scope scope;
  situ_scope_begin(&scope);
  given at = { p, c->trial->options->map ? (situ_device){ 0 } : c->trial->options->device, c->trial, 0 };
  if (!at.meant.kind) at.meant = situ_nn_home(m);
  if (!at.meant.kind) at.meant = situ_get_default_device();
  situ_tree *in = make_inputs(&at);
  situ__preflight_forget_peaks(p);
  situ_scope once;
  situ_scope_begin(&once);
  p->counting = p->hears = true;
  situ_tree *out = in ? situ_nn_call(m, in) : NULL;
  situ_dry_tell(&p->dry);
  p->report.finished = out != NULL;
  if (out && c->trial->results && !c->trial->results(out, c->trial->payload)) p->failed = true;
  if (out && situ__preflight_goes_back(m, c->trial->options)) backward(p, m, out);
  p->counting = p->hears = false;
  situ_tree_free(out);
  SITU_IGNORE(situ_scope_end(&once));
  /* The statements of a trial are made once, for one forward. */
  const bool trains = p->report.differentiated && !p->report.mistakes && !c->trial->made.count;
  if (trains) situ__preflight_train(p, m, c->trial, &in);
  situ_tree_free(in);
  SITU_IGNORE(situ_scope_end(&scope));
}

/* What a field of a clone points to is registered in it, as a copy on the device that the moves of the program bring it
   to: further ones follow. */
static bool register_field(situ_nn_module *part, const situ_place_statement *s) {
  void **field = (void **)((char *)part + s->field);
  const situ_device home = part->home.kind ? part->home : s->device;
  char name[48];
  (void)snprintf(name, sizeof name, SITU__REGISTERED "%zu", s->field);
  if (s->action == SITU_FIX_CHILD) {
    situ_nn_module *copy = situ_nn_is_module(*field) ? situ_nn_clone(*field) : NULL;
    if (copy && situ_nn_to(copy, home) == SITU_OK) return situ_nn_add_child(part, name, (void *)field, copy) != NULL;
    situ_nn_free(copy);
    return false;
  }
  if (!situ_is_tensor(*field)) return false; /* forward has set it */
  const situ_options like = { .dtype = situ_dtype_of(*field), .device = home };
  situ_tensor *copy = situ_zeros(situ_shape_of(*field), &like);
  return copy && situ_nn_add_tensor(part, name, (void *)field, copy, SITU_NN_BUFFER);
}

static bool change_part(situ_nn_module *part, const situ_place_statement *s) {
  if (s->action == SITU_FIX_NN_TO) return situ_nn_to(part, s->device) == SITU_OK;
  if (s->action == SITU_FIX_NN_TO_DTYPE) return situ_nn_to_dtype(part, s->dtype) == SITU_OK;
  return register_field(part, s);
}

/* Only a clone can change: a dry run changes nothing else. A part is registered where the module is made, before it
   moves. Returns false after recording an error. */
static bool change_parts(situ_nn_module *clone, const situ__trial *t) {
  for (int moves = 0; moves < 2; moves++)
    for (int64_t i = 0; i < t->made.count; i++) {
      const situ__remedy *r = &t->made.list[i];
      const char *below = situ__remedy_below(t, r);
      if (!below || moves == (r->does.field != 0)) continue;
      situ_nn_module *part = clone == t->module ? NULL : situ_nn_get_submodule(clone, below);
      if (!part || !change_part(part, &r->does)) return false;
    }
  return true;
}

static void run_dry(situ__preflight *p, const situ__trial *t) {
  situ_nn_module *clone = runnable(p, t->module);
  p->copied = true;
  if (!clone) return;
  call c = { p, clone, t };
  p->making = true;
  const bool made = change_parts(clone, t);
  p->making = false;
  if (!made) p->unmade = true;
  else if (!situ_nn_keep_fields(clone, clone == t->module, NULL, run_module, &c)) p->failed = true;
  if (situ_nn_walk(clone, SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_ONCE, weigh, p) != SITU_OK ||
      situ_nn_walk(t->module, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE, weigh_part, p) != SITU_OK)
    p->failed = true;
  situ_nn_free(clone);
}

static void note_kept(situ__preflight *p, int64_t kept) {
  char text[256];
  if (!kept) return;
  (void)snprintf(text, sizeof text, "%lld tensors that forward made are kept after it; they are on meta now",
                 (long long)kept);
  situ__preflight_add(p, &(situ_place_finding){ .problem = SITU_PLACE_KEPT, .note = true, .text = text });
}

/* Records the findings as an error. */
static situ_status refuse(const situ_place_report *r) {
  char text[3500];
  if (!r->mistakes) return SITU_OK;
  if (situ_place_report_to_string(r, text, sizeof text) < 0) return situ_error();
  return situ__fail(SITU_E_STATE, op, "%s", text);
}

bool situ__preflight_run(situ__preflight *p, const situ__trial *trial) {
  p->trial = trial;
  p->root = situ__trial_root(trial);
  p->dry.meta_is = trial->options->device;
  if (trial->options->map && !p->dry.meta_is.kind) p->dry.meta_is = (situ_device){ SITU_CPU, 0 };
  situ__preflight_watch(p);
  if (situ_dry_begin(&p->dry) != SITU_OK) return false;
  situ__errors own;
  situ_scope scope;
  char text[1024];
  situ__errors_apart(&own);
  const situ_device before = situ_get_default_device();
  situ_scope_begin(&scope);
  run_dry(p, trial);
  SITU_IGNORE(situ_scope_end(&scope));
  SITU_IGNORE(situ_set_default_device(before));
  note_kept(p, situ_dry_end(&p->dry));
  situ__preflight_fits(p);
  const situ_status status = situ__errors_back(&own, text, sizeof text);
  if (!p->refused) return true;
  char *site = strstr(text, "\n  at "); /* this call's, which the new error has too */
  if (site) *site = '\0';
  return situ__fail(status, op, status == SITU_E_STATE ? "%s" : "options.map: %s", text), false;
}

void situ__preflight_free(situ__preflight *p) {
  situ__map_free(&p->findings);
  situ__map_free(&p->edges);
  situ__map_free(&p->present);
  situ__remedies_free(&p->remedies);
  situ__free(p->held);
  situ__free(p->trips);
  situ_place_report_free(&p->report);
}

bool situ__preflight_goes_back(const situ_nn_module *m, const situ_place_check_options *options) {
  const situ_place_backward when = options->backward;
  const bool wanted = when == SITU_PLACE_BACKWARD_IN_TRAINING ? m->training : when == SITU_PLACE_BACKWARD_ALWAYS;
  return wanted && situ_is_grad_enabled();
}

bool situ__preflight_options(const char *caller, const situ_place_check_options *options) {
  if (options->backward > SITU_PLACE_BACKWARD_ALWAYS)
    return situ__fail(SITU_E_ARG, caller, "options.backward: %d is not a situ_place_backward", (int)options->backward),
           false;
  if (options->optim_count && !options->optims) return situ__null(caller, "optims"), false;
  for (int64_t i = 0; i < options->optim_count; i++)
    if (!situ__valid(caller, "optims[i]", options->optims[i], SITU__AN_OPTIMISER)) return false;
  if (!options->device.kind || situ_device_is_available(options->device)) return true;
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(SITU_E_ARG, caller, "options.device %s is not there", situ_device_name(options->device, name)),
         false;
}

situ_status situ_place_check(situ_nn_module *m, const situ_tree *inputs, const situ_place_check_options *options,
                             situ_place_report *report) {
  static const situ_place_check_options plain;
  if (!options) options = &plain;
  const situ__trial trial = { .module = m, .inputs = inputs, .options = options };
  SITU__USE(use);
  if (!situ__valid(op, "module", m, SITU__A_MODULE) || !situ__valid(op, "inputs", inputs, SITU__A_TREE) ||
      !situ__module_use(op, m, &use))
    return situ_error();
  if (report) *report = (situ_place_report){ 0 };
  if (!situ__preflight_options(op, trial.options)) return situ_error();
  situ__preflight p = { .backward = false };
  if (!situ__preflight_run(&p, &trial)) return situ__preflight_free(&p), situ_error();
  situ__preflight_agree(&p, &trial);
  situ_status status = p.failed ? situ__no_memory(op, sizeof p) : SITU_OK;
  if (status == SITU_OK && report) {
    *report = p.report;
    p.report = (situ_place_report){ 0 };
  } else if (status == SITU_OK) {
    status = refuse(&p.report);
  }
  situ__preflight_free(&p);
  return status;
}
