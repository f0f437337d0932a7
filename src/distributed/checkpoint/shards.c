/* Loads parameters that ranks have in parts: each rank reads its own elements alone, and no parameter becomes whole.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "checkpoint.h"
#include "situ/sys/move.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static bool on_meta(const situ_tensor *t) { return situ_device_of(t).kind == SITU_META; }

/* ---- reading ---- */

typedef struct reading {
  situ__dist_loading *loading;
  const situ_dist_zero *zero;
  const situ_tree *own; /* the module's tensors */
  situ__map places;     /* of their storages in parts */
} reading;

static bool add_shard(const char *op, situ__dist_loading *l, situ__dist_shard shard) {
  if (!situ__grow(op, &l->shards, &l->shard_capacity, sizeof *l->shards, l->shard_count + 1)) return false;
  situ_retain(shard.values);
  l->shards[l->shard_count++] = shard;
  return true;
}

/* Memory of its own on the part's device, or on its future one. A part on meta has no values to lose: it takes them at
   once, so that the optimiser's state can follow it. */
static bool keep_values(situ__dist_loading *l, const situ__set *set, const situ__zero_part *p, situ_tensor *read) {
  const situ_device device = on_meta(p->values) ? l->home : situ_device_of(p->values);
  situ_tensor *values = situ_to_dtype(situ_to(read, device), situ_dtype_of(p->values));
  if (values && values == read && set->options.map) values = situ_clone(values); /* not the file's */
  const situ__dist_shard shard = { p->parameter, values, false };
  if (!values || situ_synchronize(device) != SITU_OK || !add_shard(set->op, l, shard)) return false;
  if (!on_meta(p->values)) return true;
  return l->shards[l->shard_count - 1].taken = situ_take_memory(set->op, p->values, values) == SITU_OK;
}

static bool read_part(const reading *r, const situ__set *set, int64_t i, int64_t parameter) {
  const situ_dist_zero *z = r->zero;
  const situ__dist_shard whole = { .parameter = parameter };
  const situ__zero_part *p = situ__zero_own_part(z, parameter);
  if (on_meta(situ_tree_tensor_at(z->parameters, parameter)) && !add_shard(set->op, r->loading, whole)) return false;
  if (!p) return true;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = keep_values(r->loading, set, p, situ__set_elements(set, i, p->from, p->count));
  return situ_scope_end(&s) == SITU_OK && good;
}

/* Of a parameter in parts the model is told the shape. */
static situ_tensor *read_tensor(const situ__set *set, int64_t i, const char *key, void *payload) {
  const reading *r = payload;
  const situ__piece *piece = &set->pieces[i];
  const situ_tree *found = situ_tree_find(r->own, key);
  situ_tensor *t = found ? situ_tree_value(found) : NULL;
  const situ__zero_place *at = t && situ_memory_is_away(t) ? situ__map_get(&r->places, situ_desc(t)->storage) : NULL;
  if (!at) return situ__set_whole(set, i, key, NULL);
  if (piece->numel == situ_numel(t) && !read_part(r, set, i, at - r->zero->places))
    return NULL; /* else the model refuses it */
  return situ_empty(piece->shape, &(situ_options){ .dtype = piece->dtype, .device = { SITU_META, 0 } });
}

situ_tree *situ__dist_read_model(situ__dist_loading *l, const situ__set *set, const situ_dist_checkpoint *c) {
  static const char section[] = "model.";
  if (!c->zero || !c->zero->shards) return situ__set_section(set, section, strlen(section), situ__set_whole, NULL);
  reading r = { .loading = l, .zero = c->zero };
  situ_tree *own = situ_nn_state_dict(c->model), *model = NULL;
  r.own = own;
  if (own && situ__dist_map_parts(set->op, c->zero, &r.places))
    model = situ__set_section(set, section, strlen(section), read_tensor, &r);
  situ__map_free(&r.places);
  situ_tree_free(own);
  return model;
}

/* ---- the end ---- */

bool situ__dist_bring_wholes(const situ__dist_loading *l, const situ_dist_zero *z, bool (*rest)(void *payload),
                             void *payload) {
  static const char op[] = "dist_checkpoint_load";
  if (!l->shard_count) return rest(payload);
  situ_move_request *list = situ__alloc((size_t)l->shard_count * sizeof *list);
  if (!list) return situ__no_memory(op, (size_t)l->shard_count * sizeof *list), false;
  int64_t count = 0;
  for (int64_t k = 0; k < l->shard_count; k++)
    if (!l->shards[k].values)
      list[count++] =
          (situ_move_request){ .tensor = situ_tree_tensor_at(z->parameters, l->shards[k].parameter), .to = l->home };
  situ_move_plan *plan = situ_move_plan_new(op, list, count);
  const bool good = plan && situ_move_plan_run_agreed(plan, false, rest, payload) == SITU_OK;
  situ_move_plan_free(plan);
  situ__free(list);
  return good;
}

bool situ__dist_commit_shards(const situ__dist_loading *l, const situ_dist_zero *z) {
  for (int64_t k = 0; k < l->shard_count; k++) {
    const situ__dist_shard *s = &l->shards[k];
    if (!s->values) continue;
    situ_tensor *own = situ__zero_own_part(z, s->parameter)->values;
    if (!s->taken && situ_swap_memory("dist_checkpoint_load", own, s->values) != SITU_OK) return false;
    __atomic_fetch_add(&situ_desc(own)->storage->version, 1, __ATOMIC_RELAXED);
  }
  if (l->shard_count) situ__zero_note_step(z);
  return true;
}

void situ__dist_end_shards(situ__dist_loading *l, const situ_dist_zero *z, bool commit) {
  while (l->shard_count) {
    situ__dist_shard *s = &l->shards[--l->shard_count];
    if (s->taken && !commit)
      SITU_IGNORE(situ_take_memory("dist_checkpoint_load", s->values, situ__zero_own_part(z, s->parameter)->values));
    situ_drop(&s->values);
  }
  situ__free(l->shards);
  l->shards = NULL;
}
