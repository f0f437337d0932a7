/* One run of a comparison: a copy of the module on one device, with hooks that see what its calls take and give.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "place/compare/compare.h"
#include "situ/amp.h"
#include "situ/ops.h"
#include "situ/place/move.h"
#include "situ/random.h"
#include "situ/sys/layers.h"
#include "situ/sys/tensor.h"

static const char op[] = "place_compare";
enum { WEIGHTS = 17 }; /* seed of the numbers that results are multiplied with */

/* ---- tensors of a call ---- */

/* A's value for B, in t's place. */
static situ_tensor *given(situ_tensor *value, const situ_tensor *t) {
  situ_tensor *y = situ_to_dtype(situ_to(value, situ_device_of(t)), situ_dtype_of(t));
  return y == value ? situ_clone(value) : y; /* the run may write it */
}

static situ_tensor *see_gradient(situ_tensor *grad, void *payload) {
  situ__seen *s = payload;
  const situ__compare_pass pass = s->run->pass;
  s->again = pass != SITU__PASS_A;
  situ_tensor *host = situ__on_host(grad);
  if (!host) return NULL;
  if (pass == SITU__PASS_A) {
    situ_release(s->grad);
    s->grad = host;
    return NULL;
  }
  const bool good = !s->grad || situ__distance_add(&s->event->grad, s->grad, host);
  if (!s->grad) s->event->grad.absolute = INFINITY;
  situ_release(host);
  return good && s->grad && pass == SITU__PASS_GRADIENTS_GIVEN ? given(s->grad, grad) : NULL;
}

typedef struct meeting {
  situ__comparing *c;
  situ__call_event *event;
  int64_t at;
} meeting;

/* Returns what the run goes on with: a view, so that its gradient is that of this call alone. */
static situ_tensor *see(situ_tensor *t, void *payload) {
  meeting *x = payload;
  if (x->at == x->event->count) return t;
  situ__seen *s = &x->event->seen[x->at++];
  situ_tensor *host = situ__on_host(t);
  if (!host) return NULL;
  if (x->c->pass == SITU__PASS_A) {
    *s = (situ__seen){ .run = x->c, .event = x->event, .value = host };
  } else {
    const bool good = situ__distance_add(&x->event->value, s->value, host);
    situ_release(host);
    if (!good) return NULL;
  }
  if (x->c->pass == SITU__PASS_VALUES_GIVEN) return given(s->value, t);
  if (!situ_requires_grad(t) || !situ_is_grad_enabled()) return t;
  situ_tensor *view = situ_view(t, situ_shape_of(t));
  return view && situ_register_hook(view, see_gradient, s) == SITU_OK ? view : NULL;
}

/* ---- calls ---- */

static situ_status count_tensor(const char *path, situ_tensor *t, void *payload) {
  (void)path;
  (void)t;
  ++*(int64_t *)payload;
  return SITU_OK;
}

static situ__call_event *add_event(situ__comparing *c, const char *path, int64_t count) {
  if (!situ__grow(op, &c->event, &c->capacity, sizeof *c->event, c->count + 1)) return NULL;
  situ__call_event *e = situ__calloc(1, sizeof *e + (size_t)count * sizeof *e->seen);
  if (e) e->path = situ__strdup(path);
  if (!e || !e->path) return situ__free(e), situ__no_memory(op, sizeof *e), NULL;
  e->count = count;
  return c->event[c->count++] = e;
}

/* The event of A at this place; NULL: B goes another way. */
static situ__call_event *same_event(situ__comparing *c, const char *path, bool begins, int64_t count) {
  situ__call_event *e = c->next < c->count && c->strayed < 0 ? c->event[c->next] : NULL;
  if (e && count == e->count && (e->begin == c->next) == begins && strcmp(e->path, path) == 0) return e;
  if (c->strayed < 0) c->strayed = c->next;
  return NULL;
}

/* The next event of the run, in the module that runs. *status: why there is none. */
static situ__call_event *next_event(situ__comparing *c, bool begins, int64_t count, situ_status *status) {
  char path[512];
  (void)situ_nn_running(path, sizeof path);
  const bool first = c->pass == SITU__PASS_A;
  situ__call_event *e = first ? add_event(c, path, count) : same_event(c, path, begins, count);
  *status = e || !first ? SITU_OK : situ_error();
  if (!e) return NULL;
  const int64_t index = c->next++;
  if (first && begins) {
    e->caller = c->current;
    e->begin = e->end = index;
  } else if (first) {
    e->begin = c->current;
    e->end = c->event[c->current]->end = index;
    e->caller = c->event[c->current]->caller;
  }
  return e;
}

static situ_status meet(situ__comparing *c, situ_nn_module *m, bool begins, situ_tree **tree) {
  int64_t count = 0;
  situ_status status = situ_tree_each(*tree, count_tensor, &count);
  situ__call_event *e = status == SITU_OK ? next_event(c, begins, count, &status) : NULL;
  if (!e) return status;
  if (c->pass == SITU__PASS_A && begins && !situ__map_get(&c->first, m) &&
      !situ__map_put(&c->first, m, (void *)(uintptr_t)(e->begin + 1)))
    return situ__no_memory(op, sizeof(void *));
  c->current = begins ? e->begin : e->caller;
  meeting x = { .c = c, .event = e };
  situ_tree *seen = situ_tree_map(*tree, see, &x);
  return situ_tree_set(tree, seen) ? SITU_OK : situ_error();
}

/* A result of a program's part: only its value, as who uses it is not known. */
static situ_status meet_part(situ_tensor *result, void *payload) {
  situ__comparing *c = payload;
  situ_status status;
  if (!situ_has_values(result)) return SITU_OK;
  situ__call_event *e = next_event(c, true, 1, &status);
  if (!e) return status;
  e->part = true;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  meeting x = { .c = c, .event = e };
  situ_tensor *goes_on = see(result, &x);
  /* In place, as other values may be views of it; one with repeated elements is a view that is right by now. */
  bool good = goes_on != NULL;
  if (good && goes_on != result && e->value.absolute > 0) good = situ_copy_(result, goes_on) != NULL;
  SITU_IGNORE(situ_scope_end(&scope));
  return good ? SITU_OK : situ_error();
}

static situ_status begin_call(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)output;
  return meet(payload, m, true, inputs);
}
static situ_status end_call(situ_nn_module *m, situ_tree **inputs, situ_tree **output, void *payload) {
  (void)inputs;
  return meet(payload, m, false, output);
}

static situ_status watch_module(const situ_nn_visit *at, void *payload) {
  const situ_status status = situ_nn_register_forward_pre_hook(at->module, begin_call, payload, NULL);
  return status == SITU_OK ? situ_nn_register_forward_hook(at->module, end_call, payload, NULL) : status;
}

/* ---- gradients of parameters ---- */

static situ_status own_gradient(const situ_nn_visit *at, void *payload) {
  situ__comparing *c = payload;
  situ_tensor *grad = situ_grad(at->tensor), *host = grad ? situ__on_host(grad) : NULL;
  if (grad && !host) return situ_error();
  if (c->pass == SITU__PASS_A) {
    const situ_nn_module *m = at->module;
    while (m && !situ__map_get(&c->first, m)) m = m->holder;
    const int64_t event = m ? (int64_t)(uintptr_t)situ__map_get(&c->first, m) - 1 : 0;
    char *path = situ__strdup(at->path);
    if (path && situ__grow(op, &c->owned, &c->owned_capacity, sizeof *c->owned, c->owned_count + 1)) {
      c->owned[c->owned_count++] = (situ__owned){ path, host, event };
      return SITU_OK;
    }
    situ__free(path);
    situ_release(host);
    return path ? situ_error() : situ__no_memory(op, sizeof *c->owned);
  }
  const situ__owned *o = &c->owned[c->next_owned++];
  situ__call_event *e = c->event[o->event];
  const double before = e->own.absolute;
  bool good = true;
  if (o->grad) good = situ__distance_add(&e->own, o->grad, host);
  else if (host) e->own.absolute = INFINITY;
  if (e->own.absolute > before) e->parameter = o->path;
  situ_release(host);
  return good ? SITU_OK : situ_error();
}

/* ---- the run ---- */

typedef struct weighted {
  situ_tensor *sum;
  situ_generator generator; /* of the weights: the default one is the program's, of its other threads too */
} weighted;

static situ_status add_result(const char *path, situ_tensor *t, void *payload) {
  weighted *w = payload;
  (void)path;
  if (!situ_requires_grad(t)) return SITU_OK;
  situ_tensor *weights =
      situ_randn(situ_shape_of(t), &(situ_options){ .device = { SITU_CPU, 0 }, .generator = &w->generator });
  weights = situ_to(situ_to_dtype(weights, situ_dtype_of(t)), situ_device_of(t));
  situ_tensor *part = situ_to_dtype(situ_sum(situ_mul(t, weights), NULL), SITU_F32);
  if (part && w->sum) part = situ_to(part, situ_device_of(w->sum));
  w->sum = part && w->sum ? situ_add(w->sum, part) : part;
  return w->sum ? SITU_OK : situ_error();
}

static situ_status run_backward(const situ_tree *outputs, const situ__comparing *c, situ_nn_module *copy) {
  weighted w = { .generator = situ_generator_seeded(WEIGHTS) };
  situ_status status = situ_tree_each(outputs, add_result, &w);
  if (status != SITU_OK || !w.sum) return status;
  status = situ_backward(w.sum, NULL);
  return status == SITU_OK ? situ_nn_walk(copy, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE, own_gradient, (void *)c)
                           : status;
}

static situ_tensor *input_there(situ_tensor *t, void *payload) {
  situ_tensor *y = situ_to(situ_detach(t), *(situ_device *)payload);
  if (y && situ_shares_storage(y, t)) y = situ_clone(y);
  if (y && situ_requires_grad(t)) y = situ_requires_grad_(y, true);
  return situ_set_name(y, situ_name(t));
}

static situ_status drop_gradient(const situ_nn_visit *at, void *payload) {
  (void)payload;
  return situ_set_grad(at->tensor, NULL);
}

static situ_status run_copy(situ__comparing *c, situ_nn_module *copy, situ_device device) {
  if (!situ_nn_set_name(copy, situ_nn_name(c->module))) return situ_error();
  situ_status status = situ_nn_walk(copy, SITU_NN_PARAMETER | SITU_NN_VISIT_ONCE, drop_gradient, NULL);
  if (status == SITU_OK) status = situ_nn_to(copy, device);
  if (status == SITU_OK)
    status = situ_nn_walk(copy, SITU_NN_VISIT_MODULES | SITU_NN_VISIT_ONCE | SITU_NN_VISIT_UNNAMED, watch_module, c);
  if (status != SITU_OK) return status;
  situ_tree *in = situ_tree_map(c->inputs, input_there, &device);
  const bool casts = c->pass != SITU__PASS_A && c->options->autocast;
  situ_setting before;
  situ_set_rng_state(c->random);
  if (in && casts)
    status = situ_autocast_begin(&before, device, &(situ_autocast_options){ .dtype = c->options->autocast });
  situ_nn_watch_parts(meet_part, c);
  situ_tree *out = in && status == SITU_OK ? situ_nn_call(copy, in) : NULL;
  situ_nn_watch_parts(NULL, NULL);
  if (in && casts && status == SITU_OK) situ_autocast_end(&before);
  if (!out) status = situ_error();
  else if (!c->options->forward_only && c->pass != SITU__PASS_VALUES_GIVEN) status = run_backward(out, c, copy);
  situ_tree_free(out);
  situ_tree_free(in);
  return status;
}

/* A gradient that A has and B has not. */
static void miss_gradients(situ__comparing *c) {
  for (int64_t i = 0; i < c->count; i++)
    for (int64_t k = 0; k < c->event[i]->count; k++) {
      situ__seen *s = &c->event[i]->seen[k];
      if (s->grad && !s->again) c->event[i]->grad.absolute = INFINITY;
      s->again = false;
    }
}

bool situ__compare_run(situ__comparing *c, situ_device device) {
  c->next = c->next_owned = 0;
  c->current = c->strayed = -1;
  for (int64_t i = 0; i < c->count; i++)
    c->event[i]->value = c->event[i]->grad = c->event[i]->own = (situ__distance){ .absolute = 0 };
  situ_nn_module *copy = situ_nn_clone(c->module);
  if (!copy) return false;
  situ_scope scope;
  situ_scope_begin(&scope);
  const situ_status status = run_copy(c, copy, device);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_nn_free(copy);
  if (status != SITU_OK) return false;
  if (c->pass != SITU__PASS_A && c->strayed < 0 && c->next < c->count) c->strayed = c->next;
  if (c->pass == SITU__PASS_B || c->pass == SITU__PASS_GRADIENTS_GIVEN) miss_gradients(c);
  return true;
}

void situ__comparing_free(situ__comparing *c) {
  for (int64_t i = 0; i < c->count; i++) {
    for (int64_t k = 0; k < c->event[i]->count; k++) {
      situ_release(c->event[i]->seen[k].value);
      situ_release(c->event[i]->seen[k].grad);
    }
    situ__free(c->event[i]->path);
    situ__free(c->event[i]);
  }
  for (int64_t i = 0; i < c->owned_count; i++) {
    situ__free(c->owned[i].path);
    situ_release(c->owned[i].grad);
  }
  situ__free(c->event);
  situ__free(c->owned);
  situ__map_free(&c->first);
}
