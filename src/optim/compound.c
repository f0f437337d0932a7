/* SequentialLR and ChainedScheduler: schedules made of others, which they own.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "optim/schedule.h"

/* ---- taking parts ---- */

static bool is_usable(const situ__schedule *type, const situ_lr_scheduler *part, int64_t i, const situ_optim *o) {
  if (part->is_part)
    situ__fail(SITU_E_ARG, type->name, "schedulers[%" PRId64 "], %s, is part of a scheduler already", i,
               part->type->name);
  else if (part->o != o)
    situ__fail(SITU_E_ARG, type->name, "schedulers[%" PRId64 "], %s, is of another optimiser", i, part->type->name);
  else if (part->type->takes_metrics)
    situ__fail(SITU_E_ARG, type->name,
               "schedulers[%" PRId64 "] is ReduceLROnPlateau: step it by itself, it needs metrics", i);
  else return true;
  return false;
}

/* Makes the listed schedules parts of s, up to the first that cannot be one. */
static bool take_parts(situ_lr_scheduler *s, int64_t count, situ_lr_scheduler *const *schedulers) {
  s->parts = situ__calloc((size_t)count, sizeof *s->parts);
  if (!s->parts) return situ__no_memory(s->type->name, (size_t)count * sizeof *s->parts), false;
  for (int64_t i = 0; i < count; i++) {
    if (!situ__schedule_given(s->type->name, schedulers[i]) || !is_usable(s->type, schedulers[i], i, s->o))
      return false;
    s->parts[s->part_count++] = schedulers[i];
    schedulers[i]->is_part = true;
  }
  return true;
}

/* After a failure, frees the listed schedules that no other one owns. */
static void free_list(int64_t count, situ_lr_scheduler *const *schedulers) {
  for (int64_t i = 0; i < count; i++)
    if (situ__is(SITU__A_SCHEDULER, schedulers[i]) && !schedulers[i]->is_part) situ_lr_scheduler_free(schedulers[i]);
}

/* A schedule of the listed ones; on failure frees them and returns NULL. */
static void *make(const situ__schedule *type, situ_optim *o, int64_t count, situ_lr_scheduler *const *schedulers) {
  situ_lr_scheduler *s = situ__schedule_alloc(type, o);
  if (s && take_parts(s, count, schedulers)) return s;
  for (int64_t i = 0; s && i < s->part_count; i++) s->parts[i]->is_part = false;
  if (s) s->part_count = 0;
  situ_lr_scheduler_free(s);
  free_list(count, schedulers);
  return NULL;
}

static bool has_list(const situ__schedule *type, int64_t count, situ_lr_scheduler *const *schedulers) {
  if (count < 1) return situ__fail(SITU_E_ARG, type->name, "%" PRId64 " schedulers: at least 1", count), false;
  if (!schedulers) return situ__null(type->name, "schedulers"), false;
  return true;
}

static void commit_part(situ_lr_scheduler *part, int64_t epoch) {
  if (part->type->commit) part->type->commit(part, epoch);
  part->last_epoch = epoch;
}

/* ---- SequentialLR ---- */

typedef struct sequential {
  situ_lr_scheduler s;
  int64_t *milestones; /* first steps of the parts; that of the first one is 0 */
} sequential;

/* Index of the part in force at a step. */
static int64_t part_at(const sequential *m, int64_t epoch) {
  int64_t i = m->s.part_count - 1;
  while (i > 0 && epoch < m->milestones[i]) i--;
  return i;
}

static bool sequential_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  const sequential *m = (const sequential *)s;
  const int64_t i = part_at(m, epoch);
  const situ_lr_scheduler *part = s->parts[i];
  const bool begins = epoch == m->milestones[i];
  if (begins && i > 0 && part->type->restart) return part->type->restart(part, value, group);
  if (begins && !situ__schedule_base(i == 0 ? s : part, group, &value[SITU_OPTIM_LR])) return false;
  return part->type->advance(part, epoch - m->milestones[i], value, group);
}

static void sequential_commit(situ_lr_scheduler *s, int64_t epoch) {
  const sequential *m = (const sequential *)s;
  const int64_t i = part_at(m, epoch);
  commit_part(s->parts[i], epoch - m->milestones[i]);
}

static void sequential_release(situ_lr_scheduler *s) { situ__free(((sequential *)s)->milestones); }

static const situ__schedule sequential_type = { "lr_scheduler_sequential_lr", sizeof(sequential),
                                                .advance = sequential_advance, .commit = sequential_commit,
                                                .release = sequential_release };

static bool are_milestones(const int64_t *milestones, int64_t count) {
  if (count > 1 && !milestones) return situ__null(sequential_type.name, "milestones"), false;
  for (int64_t i = 0; i + 1 < count; i++) {
    const int64_t before = i == 0 ? 0 : milestones[i - 1];
    if (milestones[i] > before) continue;
    return situ__fail(SITU_E_ARG, sequential_type.name,
                      "milestones[%" PRId64 "] is %" PRId64 ": it must be above %" PRId64
                      ", where the part before begins",
                      i, milestones[i], before),
           false;
  }
  return true;
}

situ_lr_scheduler *situ_lr_scheduler_sequential_lr(situ_optim *o, int64_t count, situ_lr_scheduler *const *schedulers,
                                                   const int64_t *milestones) {
  if (!has_list(&sequential_type, count, schedulers)) return NULL;
  if (!are_milestones(milestones, count)) return free_list(count, schedulers), NULL;
  sequential *m = make(&sequential_type, o, count, schedulers);
  if (!m) return NULL;
  m->milestones = situ__calloc((size_t)count, sizeof *m->milestones);
  if (!m->milestones) {
    situ__no_memory(sequential_type.name, (size_t)count * sizeof *m->milestones);
    situ_lr_scheduler_free(&m->s);
    return NULL;
  }
  if (count > 1) memcpy(m->milestones + 1, milestones, (size_t)(count - 1) * sizeof *milestones);
  return situ__schedule_start(&m->s);
}

/* ---- ChainedScheduler ---- */

static int64_t epoch_of(const situ_lr_scheduler *s, int64_t part, int64_t epoch) {
  return s->parts[part]->last_epoch + (epoch - s->last_epoch);
}

/* In step 0 the parts have set their rates already, unless a SequentialLR begins with this schedule. */
static bool chained_advance(const situ_lr_scheduler *s, int64_t epoch, double *value, int group) {
  if (epoch == 0 && !s->is_part) return true;
  for (int64_t i = 0; i < s->part_count; i++)
    if (!s->parts[i]->type->advance(s->parts[i], epoch_of(s, i, epoch), value, group)) return false;
  return true;
}

static void chained_commit(situ_lr_scheduler *s, int64_t epoch) {
  for (int64_t i = 0; i < s->part_count; i++) commit_part(s->parts[i], epoch_of(s, i, epoch));
}

static const situ__schedule chained_type = { "lr_scheduler_chained_scheduler", sizeof(situ_lr_scheduler),
                                             .advance = chained_advance, .commit = chained_commit };

situ_lr_scheduler *situ_lr_scheduler_chained_scheduler(int64_t count, situ_lr_scheduler *const *schedulers) {
  if (!has_list(&chained_type, count, schedulers)) return NULL;
  if (!situ__schedule_given(chained_type.name, schedulers[0])) return free_list(count, schedulers), NULL;
  situ_lr_scheduler *s = make(&chained_type, schedulers[0]->o, count, schedulers);
  return s ? situ__schedule_start(s) : NULL;
}
