/* Learning-rate schedules: what all share. The formulas are in decay.c, cosine.c, one_cycle.c, cyclic.c, plateau.c and
   compound.c.
   SPDX-License-Identifier: MIT */
#include "optim/schedule.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/record.h"
#include "situ/sys/load.h"

void *situ__schedule_alloc(const situ__schedule *type, situ_optim *o) {
  if (!situ__optim_given(type->name, o)) return NULL;
  situ_lr_scheduler *s = situ__handle_new(SITU__A_SCHEDULER, type->size);
  double *base = situ__alloc((size_t)o->group_count * sizeof *base),
         (*next)[SITU_OPTIM_FIELDS] = situ__alloc((size_t)o->group_count * sizeof *next);
  if (!s || !base || !next) {
    situ__no_memory(type->name, type->size);
    situ__handle_free(s, type->size, type->name);
    situ__free(base);
    situ__free(next);
    return NULL;
  }
  s->type = type;
  s->o = o;
  s->base = base;
  s->next = next;
  s->capacity = s->count = o->group_count;
  __atomic_fetch_add(&o->refs, 1, __ATOMIC_RELAXED);
  for (int g = 0; g < s->count; g++) {
    const situ__group *group = &o->groups[g];
    base[g] = group->has_initial_lr ? group->initial_lr : group->value[SITU_OPTIM_LR];
  }
  return s;
}

static bool all_finite(const situ_lr_scheduler *s, int64_t epoch, int group) {
  for (int f = 0; f < SITU_OPTIM_FIELDS; f++) {
    if (isfinite(s->next[group][f])) continue;
    return situ__fail(SITU_E_ARG, s->type->name, "%s of group %d would be %g in step %" PRId64,
                      situ__optim_fields[f].name, group, s->next[group][f], epoch),
           false;
  }
  return true;
}

bool situ__schedule_base(const situ_lr_scheduler *s, int group, double *base) {
  if (group < s->count) return *base = s->base[group], true;
  return situ__fail(
             SITU_E_STATE, s->type->name,
             "group %d was added after this scheduler was made, which has no first rate for it: make the scheduler "
             "when all groups are added",
             group),
         false;
}

/* Computes values for all groups before it changes the first one. */
static bool set_rates(situ_lr_scheduler *s, int64_t epoch) {
  situ__group *groups = s->o->groups;
  const int count = s->o->group_count;
  if (!situ__grow(s->type->name, &s->next, &s->capacity, sizeof *s->next, count)) return false; /* of new groups too */
  for (int g = 0; g < count; g++) {
    memcpy(s->next[g], groups[g].value, sizeof s->next[g]);
    if (!s->type->advance(s, epoch, s->next[g], g) || !all_finite(s, epoch, g)) return false;
  }
  for (int g = 0; g < count; g++) memcpy(groups[g].value, s->next[g], sizeof s->next[g]);
  return true;
}

situ_lr_scheduler *situ__schedule_start(situ_lr_scheduler *s) {
  if (!set_rates(s, 0)) {
    situ_lr_scheduler_free(s);
    return NULL;
  }
  for (int g = 0; g < s->count; g++) {
    situ__group *group = &s->o->groups[g];
    if (!group->has_initial_lr || s->type->sets_initial_lr) group->initial_lr = s->base[g];
    group->has_initial_lr = true;
  }
  return s;
}

bool situ__schedule_can_cycle(situ_lr_scheduler *s) {
  if (situ__optim_has(s->o, situ__schedule_momentum(s->o))) return true;
  situ__fail(SITU_E_ARG, s->type->name, "%s has neither momentum nor beta1: set keep_momentum", situ__optim_op(s->o));
  situ_lr_scheduler_free(s);
  return false;
}

situ_status situ__schedule_step(const char *op, situ_lr_scheduler *s) {
  if (s->is_part) return situ__fail(SITU_E_STATE, op, "%s is part of another scheduler: step that one", s->type->name);
  SITU__CLAIM(claim);
  if (!situ__optim_change(op, s->o, &claim) || !set_rates(s, s->last_epoch + 1)) return situ_error();
  if (s->type->commit) s->type->commit(s, s->last_epoch + 1);
  s->last_epoch++;
  return SITU_OK;
}

situ_status situ_lr_scheduler_step(situ_lr_scheduler *s) {
  static const char op[] = "lr_scheduler_step";
  if (!situ__schedule_given(op, s)) return situ_error();
  SITU__ALONE(in, &s->alone, op, "this scheduler");
  if (!in) return situ_error();
  if (s->type->takes_metrics)
    return situ__fail(SITU_E_ARG, op, "%s needs the metrics of the epoch: situ_lr_scheduler_step_metrics(s, metrics)",
                      s->type->name);
  static bool said;
  if (s->last_epoch == 0 && !__atomic_load_n(&s->o->stepped, __ATOMIC_RELAXED) &&
      !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED))
    situ__log("%s: %s is stepped before its optimiser, so that the first rate is not used: call situ_optim_step first; "
              "this line is not warned of again",
              op, s->type->name);
  return situ__schedule_step(op, s);
}

int64_t situ_lr_scheduler_last_epoch(const situ_lr_scheduler *s) {
  return s && situ__schedule_given("lr_scheduler_last_epoch", s) ? s->last_epoch : 0;
}

void situ_lr_scheduler_free(situ_lr_scheduler *s) {
  if (!s || !situ__schedule_given("lr_scheduler_free", s)) return;
  if (s->is_part) {
    situ__fail(SITU_E_STATE, "lr_scheduler_free", "%s is part of another scheduler: free that one", s->type->name);
    return;
  }
  /* The claim is never released: no other thread can enter from here on. */
  if (!situ__alone_begin(&s->alone, "lr_scheduler_free", "this scheduler")) return;
  for (int64_t i = 0; i < s->part_count; i++) {
    s->parts[i]->is_part = false;
    situ_lr_scheduler_free(s->parts[i]);
  }
  if (s->type->release) s->type->release(s);
  situ__optim_let_go(s->o);
  situ__free(s->parts);
  situ__free(s->base);
  situ__free(s->next);
  situ__handle_free(s, s->type->size, s->type->name);
}

/* ---- state ---- */

/* The numbers that a schedule saves besides last_epoch and base_lrs. */
static double *saved_numbers(const situ_lr_scheduler *s) {
  return (double *)(void *)((char *)(uintptr_t)s + s->type->saved_at);
}

static situ_tree *save(const situ_lr_scheduler *s) {
  situ_tree *dict = situ_tree_put(situ_tree_dict(), "last_epoch", situ__record_integer(s->last_epoch));
  dict = situ_tree_put(dict, "base_lrs", situ__record_numbers(s->base, s->count));
  for (int i = 0; s->type->saved && s->type->saved[i]; i++)
    dict = situ_tree_put(dict, s->type->saved[i], situ__record_number(saved_numbers(s)[i]));
  if (s->part_count == 0) return dict;
  situ_tree *parts = situ_tree_list();
  for (int64_t i = 0; i < s->part_count && parts; i++) parts = situ_tree_append(parts, save(s->parts[i]));
  return situ_tree_put(dict, "_schedulers", parts);
}

situ_tree *situ_lr_scheduler_state_dict(const situ_lr_scheduler *s) {
  if (!situ__schedule_given("lr_scheduler_state_dict", s)) return NULL;
  SITU__ALONE(in, (situ__alone *)(uintptr_t)&s->alone, "lr_scheduler_state_dict", "this scheduler");
  if (!in) return NULL;
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tree *dict = save(s);
  SITU_IGNORE(situ_scope_end(&scope));
  return dict;
}

static bool are_rates(double epoch, const double *base, int count) {
  bool good = epoch >= 0 && epoch < 0x1p53 && epoch == trunc(epoch);
  for (int g = 0; g < count; g++) good = good && isfinite(base[g]);
  if (!good)
    situ__fail(SITU_E_ARG, "lr_scheduler_load_state_dict",
               "last_epoch is %g and base_lrs[0] %g: the first must be a whole number of at least "
               "0, rates finite",
               epoch, base[0]);
  return good;
}

/* Numbers that a schedule and its parts save, in the order of read(). */
static size_t count_numbers(const situ_lr_scheduler *s) {
  size_t count = 1 + (size_t)s->count;
  for (int i = 0; s->type->saved && s->type->saved[i]; i++) count++;
  for (int64_t i = 0; i < s->part_count; i++) count += count_numbers(s->parts[i]);
  return count;
}

/* Reads the numbers of s, whose names begin with `prefix`, to *at, and moves *at behind them. */
static bool read(const situ_lr_scheduler *s, const situ_tree *flat, const char *prefix, double **at) {
  char path[256];
  double *epoch = (*at)++, *base = *at;
  *at += s->count;
  snprintf(path, sizeof path, "%slast_epoch", prefix);
  if (!situ__record_read(flat, path, epoch, 1)) return false;
  snprintf(path, sizeof path, "%sbase_lrs", prefix);
  if (!situ__record_read(flat, path, base, s->count) || !are_rates(*epoch, base, s->count)) return false;
  for (int i = 0; s->type->saved && s->type->saved[i]; i++) {
    snprintf(path, sizeof path, "%s%s", prefix, s->type->saved[i]);
    if (!situ__record_read(flat, path, *at, 1)) return false;
    if (isnan(*(*at)++)) return situ__fail(SITU_E_ARG, "lr_scheduler_load_state_dict", "%s is NaN", path), false;
  }
  for (int64_t i = 0; i < s->part_count; i++) {
    snprintf(path, sizeof path, "%s_schedulers.%" PRId64 ".", prefix, i);
    if (!read(s->parts[i], flat, path, at)) return false;
  }
  return true;
}

/* Stores the numbers that read() collected. */
static void restore(situ_lr_scheduler *s, const double **at) {
  s->last_epoch = (int64_t) * (*at)++;
  memcpy(s->base, *at, (size_t)s->count * sizeof **at);
  *at += s->count;
  for (int i = 0; s->type->saved && s->type->saved[i]; i++) saved_numbers(s)[i] = *(*at)++;
  for (int64_t i = 0; i < s->part_count; i++) restore(s->parts[i], at);
}

struct situ_lr_scheduler_loading {
  uint32_t head;
  situ_lr_scheduler *s;
  situ__alone *in;
  size_t bytes;
  double number[];
};

situ_lr_scheduler_loading *situ_lr_scheduler_load_prepare(situ_lr_scheduler *s, const situ_tree *state) {
  const char *op = "lr_scheduler_load_state_dict";
  if (!situ__schedule_given(op, s) || !situ__valid(op, "state", state, SITU__A_TREE)) return NULL;
  const size_t bytes = sizeof(situ_lr_scheduler_loading) + count_numbers(s) * sizeof(double);
  situ_lr_scheduler_loading *l = situ__handle_new(SITU__A_SCHEDULER_STATE, bytes);
  if (!l) return situ__no_memory(op, bytes), NULL;
  l->s = s;
  l->bytes = bytes;
  l->in = situ__alone_begin(&s->alone, op, "this scheduler");
  situ_tree *flat = situ_tree_flatten(state);
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  double *at = l->number;
  bool ok = flat && l->in && read(s, flat, "", &at);
  SITU_IGNORE(situ_scope_end(&scope));
  situ_tree_free(flat);
  if (ok) return l;
  situ_lr_scheduler_load_end(l, false);
  return NULL;
}

void situ_lr_scheduler_load_end(situ_lr_scheduler_loading *l, bool commit) {
  const char *op = "lr_scheduler_load_end";
  if (!l || !situ__valid(op, "loading", l, SITU__A_SCHEDULER_STATE)) return;
  const double *at = l->number;
  if (commit && situ__schedule_given(op, l->s)) restore(l->s, &at);
  if (situ__is(SITU__A_SCHEDULER, l->s)) situ__alone_end(&l->in);
  situ__handle_free(l, l->bytes, NULL);
}

situ_status situ_lr_scheduler_load_state_dict(situ_lr_scheduler *s, const situ_tree *state) {
  situ_lr_scheduler_loading *l = situ_lr_scheduler_load_prepare(s, state);
  if (!l) return situ_error();
  situ_lr_scheduler_load_end(l, true);
  return SITU_OK;
}
