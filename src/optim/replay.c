/* Steps in graphs: a replay reads the hyperparameters and counts the steps as a call would.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "optim/optim.h"
#include "situ/sys/graph.h"
#include "situ/sys/shape.h"

/* The captured step of one group. */
typedef struct captured {
  situ_optim *o; /* referenced */
  int group;
  double grad_scale;
  const double *live_scale; /* read instead, at each replay; NULL: it is a constant */
  int64_t count;
  struct {
    int64_t item;      /* in o->items */
    double mu_product; /* before this replay */
    bool counted;      /* by this replay */
  } of[];
} captured;

static bool is_same(const situ_tensor *now, const situ_view_desc *then) {
  return (now ? situ_desc(now)->storage : NULL) == (then ? then->storage : NULL);
}

/* Returns an error if the step has other state than when it was captured: a loaded one, or that of other
   hyperparameters. */
static situ_status check_state(const situ_optim *o, int64_t i, const situ_optimizer_item *kernel, unsigned needed) {
  const situ_optimizer_tensors *item = &o->items[i];
  bool same = is_same(item->master ? item->master : item->param, kernel->param);
  for (int k = 0; k < 3; k++)
    same = same && is_same(item->state[k], kernel->state[k]) && (kernel->state[k] || !(needed >> k & 1));
  return same ? SITU_OK
              : situ__fail(SITU_E_STATE, "graph_replay",
                           "the state of %s has changed since its optimiser's step was recorded: it was loaded, or "
                           "hyperparameters need another one; record the graph again",
                           o->names[i]);
}

static bool renew_master(situ_optimizer_tensors *item) {
  if (!item->master || item->version == situ_version_of(item->param)) return true;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  const bool good = situ__optim_renew_master(item);
  return situ_scope_end(&scope) == SITU_OK && good;
}

static situ_status refresh(void *payload, situ_work *work, situ_optimizer_params *params, situ_optimizer_item *list) {
  captured *c = payload;
  situ_optim *o = c->o;
  if (!list) return SITU_OK; /* a cast of masters */
  const situ__group *group = &o->groups[c->group];
  *params = situ__optim_params(group, c->live_scale ? *c->live_scale : c->grad_scale);
  const unsigned needed = situ_optimizer_states(o->rule, params);
  for (int64_t k = 0; k < work->list_count; k++) {
    const int64_t at = list[k].index, i = c->of[at].item;
    if (check_state(o, i, &list[k], needed) != SITU_OK || !renew_master(&o->items[i])) return situ_error();
    c->of[at].mu_product = o->items[i].mu_product;
    c->of[at].counted = true;
    situ__optim_count(o, group, &o->items[i]);
    list[k].step = o->items[i].step;
    list[k].mu_product = o->items[i].mu_product;
  }
  return SITU_OK;
}

static void ended(void *payload, situ_graph_outcome outcome) {
  captured *c = payload;
  for (int64_t k = 0; k < c->count; k++) {
    situ_optimizer_tensors *item = &c->o->items[c->of[k].item];
    if (outcome == SITU_GRAPH_RAN) item->version = situ_version_of(item->param);
    else if (c->of[k].counted) {
      item->step--;
      item->mu_product = c->of[k].mu_product;
    }
    c->of[k].counted = false;
  }
}

static void release(void *payload) {
  situ__optim_let_go(((captured *)payload)->o);
  situ__free(payload);
}

situ_status situ__optim_capture(situ_optim *o, int g, double grad_scale, const situ_optimizer_tensors *active) {
  const situ__group *group = &o->groups[g];
  captured *c = situ__calloc(1, sizeof *c + (size_t)group->active * sizeof *c->of);
  if (!c) return situ__no_memory("optim_step", (size_t)group->active * sizeof *c->of);
  *c = (captured){ .o = o, .group = g, .grad_scale = grad_scale, .live_scale = o->live_scale, .count = group->active };
  for (int64_t k = 0, i = group->first; k < c->count; i++)
    if (o->items[i].param == active[k].param) c->of[k++].item = i;
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  return situ_graph_values_begin(
      &(situ_graph_values){ .payload = c, .refresh = refresh, .ended = ended, .release = release });
}
