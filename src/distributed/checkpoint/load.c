/* Reads the state of a training run from the pieces that another number of ranks may have written.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "checkpoint.h"

#define OPTIMIZER "optimizer."

static bool report_missing(const situ__set *set, const char *what) {
  return situ__fail(SITU_E_FORMAT, set->op, "the checkpoint has no %s", what), false;
}

/* ---- the parts of a divided optimiser ---- */

typedef struct part_of {
  const situ_dist_zero *zero;
  const situ__zero_part *part;
} part_of;

static situ_tensor *read_state(const situ__set *set, int64_t i, const char *name, void *payload) {
  const part_of *of = payload;
  const situ__zero_part *p = of->part;
  if (!situ__zero_fits(set->op, of->zero, p, name, set->pieces[i].shape)) return NULL;
  return situ__zero_is_number(name) ? situ__set_whole(set, i, name, NULL)
                                    : situ__set_elements(set, i, p->from, p->count);
}

/* The state of a part's parameter, of which it reads the part's elements alone. */
static situ_tree *read_part(const situ_dist_zero *z, const situ__zero_part *p, const void *payload) {
  char prefix[48];
  const size_t cut = (size_t)snprintf(prefix, sizeof prefix, OPTIMIZER "state.%" PRId64 ".", p->parameter);
  return situ__set_section(payload, prefix, cut, read_state, &(part_of){ z, p });
}

static situ_tree *optimizer_state(const situ__set *set, const situ_dist_checkpoint *c) {
  if (!situ__set_has(set, situ__set_find(set, OPTIMIZER), OPTIMIZER)) return report_missing(set, "optimizer"), NULL;
  if (c->optimizer) return situ__set_section(set, OPTIMIZER, strlen(OPTIMIZER), situ__set_whole, NULL);
  situ_tree *groups = situ__set_section(set, OPTIMIZER "param_groups.", strlen(OPTIMIZER), situ__set_whole, NULL);
  situ_tree *own = groups ? situ__zero_own_state(c->zero, groups, read_part, set) : NULL;
  situ_tree_free(groups);
  return own;
}

/* ---- small parts ---- */

/* Reads "run.<key>", and no other piece. */
static bool read_integers(const situ__set *set, const char *key, int64_t *out, int64_t count) {
  char name[64];
  const int length = snprintf(name, sizeof name, "run.%s", key);
  const int64_t i = situ__set_find(set, name);
  const situ__piece *p = &set->pieces[i];
  if (!situ__set_has(set, i, name) || p->name_length != (size_t)length || p->dtype != SITU_I64 || p->numel != count)
    return report_missing(set, key);
  situ_tensor *t = situ__set_elements(set, i, 0, count);
  return t && situ_copy_to_host(t, out, (size_t)count * sizeof *out) == SITU_OK;
}

/* Of N ranks that have saved, this one gets the generator of its number modulo N. */
static bool read_generator(const situ__set *set, const situ_comm *comm, const char *name, situ_generator *out) {
  char key[48];
  int64_t values[2];
  (void)snprintf(key, sizeof key, "%s.%d", name, comm->rank % (int)set->id.ranks);
  if (!read_integers(set, key, values, 2)) return false;
  *out = (situ_generator){ .seed = (uint64_t)values[0], .offset = (uint64_t)values[1] };
  return true;
}

static bool read_run(situ__dist_loading *l, const situ__set *set, const situ_comm *comm,
                     const situ_dist_checkpoint *c) {
  int64_t progress[3] = { 0 };
  const bool good = read_integers(set, "progress", progress, 3) &&
                    read_generator(set, comm, "default_generator", &l->by_default) &&
                    (!c->generator || read_generator(set, comm, "generator", &l->generator)) &&
                    (!c->ddp || progress[2] >= 0 || report_missing(set, "ddp"));
  l->epoch = progress[0];
  l->step = progress[1];
  l->ddp_step = progress[2];
  return good;
}

/* ---- all of it ---- */

static bool prepare_model(situ__dist_loading *l, const situ__set *set, const situ_dist_checkpoint *c) {
  l->model = situ__dist_read_model(l, set, c);
  return l->model && situ_nn_load_check(c->model, l->model, NULL) == SITU_OK;
}

static bool prepare_optimizer(situ__dist_loading *l, const situ__set *set, const situ_dist_checkpoint *c) {
  situ_tree *state = optimizer_state(set, c);
  if (state) l->optimizer = situ_optim_load_prepare(c->zero ? c->zero->optim : c->optimizer, state);
  situ_tree_free(state);
  return l->optimizer != NULL;
}

static bool prepare_scheduler(situ__dist_loading *l, const situ__set *set, const situ_dist_checkpoint *c) {
  situ_tree *state = situ__set_section(set, "scheduler.", strlen("scheduler."), situ__set_whole, NULL);
  if (state && !situ_tree_count(state)) report_missing(set, "scheduler");
  else if (state) l->scheduler = situ_lr_scheduler_load_prepare(c->scheduler, state);
  situ_tree_free(state);
  return l->scheduler != NULL;
}

bool situ__dist_load_prepare(situ__dist_loading *l, const situ__set *set, const situ_comm *comm,
                             const situ_dist_checkpoint *c) {
  return read_run(l, set, comm, c) && (!c->model || prepare_model(l, set, c)) &&
         ((!c->optimizer && !c->zero) || prepare_optimizer(l, set, c)) &&
         (!c->scheduler || prepare_scheduler(l, set, c));
}

void situ__dist_load_end(situ__dist_loading *l, situ_dist_checkpoint *c, bool commit) {
  situ_optim_load_end(l->optimizer, commit);
  if (c) situ__dist_end_shards(l, c->zero, commit);
  situ_lr_scheduler_load_end(l->scheduler, commit);
  situ_tree_free(l->model);
  if (!commit) return;
  situ_set_rng_state(l->by_default);
  if (c->generator) *c->generator = l->generator;
  if (c->ddp) c->ddp->step = l->ddp_step;
  c->epoch = l->epoch;
  c->step = l->step;
}
