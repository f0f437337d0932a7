/* Lints optimisers: they should train exactly the module's parameters.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "place/lint/lint.h"
#include "situ/sys/part.h"
#include "situ/sys/tensor.h"

#define DEVICE(device) situ__lint_device((device), (char[SITU_DEVICE_NAME_MAX]){ 0 })

/* One parameter of one optimiser. */
typedef struct entry {
  const situ_optim *optim;
  int64_t i;
  situ_tensor *tensor;
  const char *name;
  const situ__part *part; /* the module's part with the same memory; NULL: none */
} entry;

static bool add_finding(situ__lint *l, const entry *e, situ_lint_kind kind, situ_lint_severity severity,
                        const char *text, const char *fix) {
  char what[SITU__LINT_TEXT];
  return situ__lint_add(l, kind, severity, e->part, e->name, e->tensor, "%s (%s)", text,
                        situ__lint_tensor(e->tensor, what)) &&
         (!*fix || situ__lint_fix(l, "%s", fix));
}

static void find_leader(situ_relation how, const situ_tensor *other, void *payload) {
  if (how == SITU_FOLLOWS) *(const situ_tensor **)payload = other;
}

/* The part that is this tensor, shares its memory, or is in parts on the ranks, of which this follows it. */
static const situ__part *part_of(const situ__lint *l, const situ_tensor *t) {
  const situ__part *known = situ__lint_known(l, t);
  if (!known) known = situ__lint_on(l, situ__lint_storage(t)->serial);
  if (known) return known;
  const situ_tensor *whole = NULL;
  situ_each_relative(t, find_leader, &whole);
  return whole && situ_part_of(whole, NULL) ? situ__lint_known(l, whole) : NULL;
}

/* Whether the module has a tensor under this path. Returns false after recording that memory is not available. */
static bool find_path(situ__lint *l, const char *path, bool *found) {
  for (int64_t i = l->paths.count ? l->count : 0; i < l->count; i++) {
    const char *own = l->parts[i].path;
    if (!l->parts[i].tensor || situ__names_get(&l->paths, own) >= 0) continue;
    if (!situ__names_put(&l->paths, own, 0)) return situ__no_memory(l->op, sizeof own), false;
  }
  *found = situ__names_get(&l->paths, path) >= 0;
  return true;
}

static bool owned(situ__lint *l, const entry *e) {
  static const char again[] = "situ_optim *o = situ_optim_adamw(situ_nn_parameters(m), lr, &options);";
  bool replaced;
  if (e->part) return true;
  if (situ_owners(e->tensor) == 1 && __atomic_load_n(&situ__lint_storage(e->tensor)->refs, __ATOMIC_RELAXED) == 1)
    return add_finding(l, e, SITU_LINT_ORPHAN, SITU_LINT_ERROR,
                       "only the optimiser holds it: its module was freed, or has another one now", again);
  if (!find_path(l, e->name, &replaced)) return false;
  if (replaced)
    return add_finding(l, e, SITU_LINT_FOREIGN, SITU_LINT_ERROR,
                       "the optimiser trains a tensor that the module had under this name before another was "
                       "registered there",
                       again);
  return add_finding(l, e, SITU_LINT_FOREIGN, SITU_LINT_WARNING, "the optimiser has it, and this module has not", "");
}

static bool state(situ__lint *l, const entry *e) {
  for (int k = 0; k < SITU_OPTIM_STATES; k++) {
    const char *name;
    const situ_tensor *s = situ_optim_state(e->optim, e->i, k, &name);
    if (!s) continue;
    situ_device here = situ_device_of(e->tensor), there = situ_device_of(s);
    if (situ_device_equal(here, there) && situ_numel(s) == situ_numel(e->tensor)) continue;
    return situ__lint_add(l, SITU_LINT_STATE, SITU_LINT_ERROR, e->part, e->name, e->tensor,
                          "its %s is on %s with %lld elements, and the parameter on %s with %lld", name, DEVICE(there),
                          (long long)situ_numel(s), DEVICE(here), (long long)situ_numel(e->tensor)) &&
           situ__lint_fix(l, "if (situ_nn_to(m, situ_dev(\"%s\")) != SITU_OK) ...", DEVICE(there));
  }
  return true;
}

/* True if they share an element. Disjoint slices of one storage do not. */
static bool overlap(const situ_tensor *a, const situ_tensor *b) {
  const situ_view_desc *v = situ_desc(a), *w = situ_desc(b);
  return v->storage == w->storage && v->offset < w->offset + w->numel && w->offset < v->offset + v->numel;
}

static bool once(situ__lint *l, situ__map *seen, const entry *e) {
  const situ_storage *storage = situ__lint_storage(e->tensor);
  const situ_tensor *before = situ__map_get(seen, storage);
  char what[SITU__LINT_TEXT];
  if (before == e->tensor)
    return add_finding(l, e, SITU_LINT_TWICE, SITU_LINT_WARNING, "two optimisers have it: both change it at each step",
                       "");
  if (before && overlap(before, e->tensor)) {
    const situ__part *other = situ__lint_known(l, before);
    return situ__lint_add(l, SITU_LINT_TWICE, SITU_LINT_WARNING, e->part, e->name, e->tensor,
                          "the optimisers have its memory twice, as %s too: each step changes it "
                          "twice (%s)",
                          other ? other->path : situ_name(before), situ__lint_tensor(e->tensor, what)) &&
           situ__lint_fix(l, "situ_nn_param(m, field, other->field);   /* one tensor, not two */");
  }
  if (situ__map_put(seen, storage, e->tensor)) return true;
  return situ__no_memory(l->op, sizeof(void *)), false;
}

static bool all_trained(situ__lint *l, const situ__map *trained) {
  for (int64_t i = 0; i < l->count; i++) {
    const situ__part *p = &l->parts[i];
    if (!p->tensor || p->again || p->slot->kind != SITU_NN_PARAMETER) continue;
    if (!situ_requires_grad(p->tensor) || situ__map_get(trained, situ__lint_storage(p->tensor))) continue;
    if (!situ__lint_add(l, SITU_LINT_UNTRAINED, SITU_LINT_WARNING, p, NULL, p->tensor,
                        "no optimiser has it: it was registered after they were made, or forgotten") ||
        !situ__lint_fix(l, "situ_optim_add_param_group(o, situ_nn_parameters(m->...), NULL);"))
      return false;
  }
  return true;
}

bool situ__lint_optims(situ__lint *l) {
  situ__map seen = { 0 };
  bool good = true, divided = false;
  if (!l->options->optim_count) return true;
  for (int64_t o = 0; o < l->options->optim_count && good; o++) {
    const situ_optim *optim = l->options->optims[o];
    for (int64_t i = 0, n = situ_optim_count(optim); i < n && good; i++) {
      entry e = { .optim = optim, .i = i };
      e.tensor = situ_optim_param(optim, i, &e.name);
      e.part = part_of(l, e.tensor);
      good = owned(l, &e) && state(l, &e) && once(l, &seen, &e);
      divided = divided || (e.part && e.part->tensor != e.tensor);
      if (good && !situ_requires_grad(e.part ? e.part->tensor : e.tensor))
        good = add_finding(l, &e, SITU_LINT_FROZEN, SITU_LINT_WARNING,
                           "an optimiser has it, and it wants no gradient: it will not change",
                           "situ_requires_grad_(parameter, true);");
    }
  }
  good = good && (divided || all_trained(l, &seen)); /* other ranks' optimisers have other parts */
  situ__map_free(&seen);
  return good;
}
