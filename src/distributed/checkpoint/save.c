/* What a rank writes of the state of a training run: its share of the elements of what all ranks have alike, and what
   it alone has.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/size.h"
#include "base/text.h"
#include "checkpoint.h"
#include "situ/blocks.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

static situ_tree *integers(const int64_t *values, int64_t count) {
  const situ_options options = { .dtype = SITU_I64, .device = { .kind = SITU_CPU } };
  return situ_tree_tensor(situ_from_host(values, (size_t)count * sizeof *values, SITU_SHAPE(count), &options));
}

/* ---- what all ranks have alike ---- */

/* own: the state of a divided optimiser, or NULL. */
static situ_tree *common_state(const situ_dist_checkpoint *c, const situ_tree *own) {
  const int64_t progress[] = { c->epoch, c->step, c->ddp ? c->ddp->step : -1 };
  situ_tree *all =
      situ_tree_put(situ_tree_dict(), "run", situ_tree_put(situ_tree_dict(), "progress", integers(progress, 3)));
  if (c->model) all = situ_tree_put(all, "model", situ_nn_state_dict(c->model));
  if (c->scheduler) all = situ_tree_put(all, "scheduler", situ_lr_scheduler_state_dict(c->scheduler));
  if (c->optimizer) all = situ_tree_put(all, "optimizer", situ_optim_state_dict(c->optimizer));
  if (!own) return all;
  return situ_tree_put(all, "optimizer",
                       situ_tree_put(situ_tree_dict(), "param_groups", situ__zero_groups(c->zero, own)));
}

/* Sets the number of elements of whole tensors, and a hash of the layout of all. Returns false after recording an
   error. */
static bool measure(const char *op, const situ_tree *flat, int64_t *total, uint64_t *layout) {
  situ__text text = { 0 };
  bool good = true;
  *total = 0;
  for (int64_t i = 0; good && i < situ_tree_count(flat); i++) {
    situ_tensor *t = situ_tree_tensor_at(flat, i);
    const situ_shape shape = situ_shape_of(t);
    situ__text_add(&text, "%s %d", situ_tree_key(flat, i), (int)situ_dtype_of(t));
    situ__text_dims(&text, shape.dim, shape.ndim);
    if (situ_block_type_of(t))
      good = (situ__fail(SITU_E_UNSUPPORTED, op, "%.200s has quantised blocks, whose elements cannot be divided",
                         situ_tree_key(flat, i)),
              false);
    if (!situ_memory_is_away(t)) *total += situ_numel(t);
  }
  if (good && text.failed) good = (situ__no_memory(op, text.length), false);
  *layout = good ? situ__dist_hash(text.data, text.length) : 0;
  situ__text_free(&text);
  return good;
}

bool situ__dist_map_parts(const char *op, const situ_dist_zero *z, situ__map *places) {
  for (int64_t i = 0; i < situ_tree_count(z->parameters); i++)
    if (z->places[i].deal >= 0 &&
        !situ__map_put(places, situ_desc(situ_tree_tensor_at(z->parameters, i))->storage, &z->places[i]))
      return situ__no_memory(op, (size_t)situ_tree_count(z->parameters) * sizeof *places->entries), false;
  return true;
}

/* A parameter in parts: this rank's is a piece. */
static bool put_shard(const situ_dist_zero *z, const char *name, const situ_tensor *t, const situ__zero_place *at,
                      situ_tree **file) {
  const situ__zero_part *p = at ? situ__zero_own_part(z, at - z->places) : NULL;
  return !p || situ__piece_put(file, name, situ_shape_of(t), p->from, situ__zero_elements(p->values, 0, p->count));
}

/* Of the elements of all whole tensors in order, each rank has its share; empty tensors are rank 0's. zero: may be
   NULL. */
static bool put_elements(const situ_comm *comm, const situ_dist_zero *zero, const situ_tree *flat, int64_t total,
                         const situ__map *parts, situ_tree **file) {
  int64_t begin = 0;
  const int64_t first = situ__dist_first(total, comm->rank, comm->size),
                last = situ__dist_first(total, comm->rank + 1, comm->size);
  for (int64_t i = 0; i < situ_tree_count(flat); i++) {
    situ_tensor *t = situ_tree_tensor_at(flat, i);
    if (zero && zero->shards && situ_memory_is_away(t)) {
      if (!put_shard(zero, situ_tree_key(flat, i), t, situ__map_get(parts, situ_desc(t)->storage), file)) return false;
      continue;
    }
    const int64_t end = begin + situ_numel(t), from = situ__max_i64(begin, first), to = situ__min_i64(end, last);
    const bool mine = begin == end ? comm->rank == 0 : from < to;
    const int64_t at = begin == end ? 0 : from - begin, count = begin == end ? 0 : to - from;
    if (mine && !situ__piece_put(file, situ_tree_key(flat, i), situ_shape_of(t), at, situ__zero_elements(t, at, count)))
      return false;
    begin = end;
  }
  return true;
}

static bool put_common(const char *op, const situ_comm *comm, const situ_dist_zero *zero, const situ_tree *flat,
                       situ_tree **file, uint64_t *layout) {
  int64_t total;
  situ__map parts = { 0 };
  const bool good = measure(op, flat, &total, layout) &&
                    (!zero || !zero->shards || situ__dist_map_parts(op, zero, &parts)) &&
                    put_elements(comm, zero, flat, total, &parts, file);
  situ__map_free(&parts);
  return good;
}

/* ---- what this rank alone has ---- */

static bool put_generator(const situ_comm *comm, const char *name, situ_generator g, situ_tree **file) {
  const int64_t values[] = { (int64_t)g.seed, (int64_t)g.offset };
  char key[48];
  (void)snprintf(key, sizeof key, "run.%s.%d", name, comm->rank);
  situ_tree *leaf = integers(values, 2);
  const bool good = leaf && situ__piece_put(file, key, SITU_SHAPE(2), 0, situ_tree_value(leaf));
  situ_tree_free(leaf);
  return good;
}

static bool put_part(const situ_dist_zero *z, const situ__zero_part *p, const situ_tree *dict, situ_tree **file) {
  const situ_shape whole = situ_shape_of(situ_tree_tensor_at(z->parameters, p->parameter));
  for (int64_t i = 0; i < situ_tree_count(dict); i++) {
    situ_tensor *t = situ_tree_tensor_at(dict, i);
    char name[96];
    (void)snprintf(name, sizeof name, "optimizer.state.%" PRId64 ".%.40s", p->parameter, situ_tree_key(dict, i));
    const bool number = situ_dim(t) == 0;
    if (number && p->from > 0) continue; /* the rank with the first element writes it */
    if (!situ__piece_put(file, name, number ? SITU_SCALAR : whole, p->from, situ__zero_elements(t, 0, situ_numel(t))))
      return false;
  }
  return true;
}

/* own: the state of this rank's optimiser. */
static bool put_parts(const situ_dist_zero *z, const situ_tree *own, situ_tree **file) {
  const situ_tree *state = situ_tree_find(own, "state");
  for (int64_t k = 0; k < z->part_count; k++) {
    const situ__zero_part *p = &z->parts[k];
    char key[24];
    (void)snprintf(key, sizeof key, "%" PRId64, k);
    const situ_tree *dict = situ_tree_find(state, key);
    if (dict && !put_part(z, p, dict, file)) return false;
  }
  return true;
}

situ_tree *situ__dist_own_pieces(const char *op, const situ_comm *comm, const situ_dist_checkpoint *c,
                                 uint64_t *layout) {
  if (c->zero && c->zero->shards && !situ__zero_scatter(op, c->zero, false)) return NULL;
  situ_tree *own = c->zero ? situ_optim_state_dict(c->zero->optim) : NULL;
  situ_tree *all = !c->zero || own ? common_state(c, own) : NULL, *flat = all ? situ_tree_flatten(all) : NULL;
  situ_tree *file = flat ? situ_tree_dict() : NULL;
  const bool good = file && put_common(op, comm, c->zero, flat, &file, layout) &&
                    put_generator(comm, "default_generator", situ_get_rng_state(), &file) &&
                    (!c->generator || put_generator(comm, "generator", *c->generator, &file)) &&
                    (!own || put_parts(c->zero, own, &file));
  situ_tree_free(flat);
  situ_tree_free(all);
  situ_tree_free(own);
  if (good) return file;
  situ_tree_free(file);
  return NULL;
}
