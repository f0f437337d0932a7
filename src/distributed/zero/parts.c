/* Stage 2 of ZeRO: each rank keeps the gradients of its own elements. The parts of the parameters are the ranks' shares
   of the buckets, so that what a rank adds up of a bucket is what its optimiser needs.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "zero.h"
#include "situ/sys/grad.h"

static bool is_idle(const char *op, const situ_dist_ddp *d) {
  if (!d->position && !d->queued && !d->exchange) return true;
  return situ__fail(SITU_E_STATE, op,
                    "in the middle of a step of ddp: %" PRId64 " of %" PRId64 " micro-batches have ended", d->position,
                    d->count),
         false;
}

bool situ__zero_can_join(const char *op, const situ_dist_ddp *d) {
  if (!d->zero) return true;
  return situ__fail(SITU_E_STATE, op,
                    "another optimiser keeps gradients of this ddp in parts: add a parameter group to it"),
         false;
}

/* ---- dividing ---- */

/* Begins where the last search ended: optimisers list parameters in the module's order, which is the reverse of the
   items', so that a search of all of them looks at each item once. */
int64_t situ__zero_find_item(situ_dist_ddp *d, const situ_tensor *parameter) {
  for (int64_t n = 1; n <= d->parameter_count; n++) {
    const int64_t i = (d->found - n + d->parameter_count) % d->parameter_count;
    if (d->items[i].tensor == parameter) return d->found = i;
  }
  return -1;
}

bool situ__zero_knows(const char *op, const situ_dist_zero *z, const situ_tree *group) {
  if (!z->parts_gradients) return true;
  if (!z->ddp) return situ__fail(SITU_E_STATE, op, "the ddp that averages the gradients has been freed"), false;
  for (int64_t i = 0; i < situ_tree_count(group); i++)
    if (situ__zero_find_item(z->ddp, situ_tree_tensor_at(group, i)) < 0)
      return situ__fail(SITU_E_ARG, op, "%.90s is not a parameter of the module whose gradients ddp averages",
                        situ_tree_key(group, i)),
             false;
  return is_idle(op, z->ddp);
}

bool situ__zero_is_divided(const situ_dist_zero *z, const situ_tensor *parameter) {
  if (!z->ddp) return true;
  const int64_t item = situ__zero_find_item(z->ddp, parameter);
  return item >= 0 && z->ddp->items[item].in_bucket;
}

/* Has buckets of their own made for the parameters from `first` on. */
static bool group_items(const char *op, const situ_dist_zero *z, int64_t first) {
  situ_dist_ddp *d = z->ddp;
  for (int64_t i = 0; i < d->item_count; i++)
    if (d->items[i].group >= z->group_count) d->items[i].group = -1; /* of a group that was refused */
  for (int64_t i = first; i < situ_tree_count(z->parameters); i++)
    d->items[situ__zero_find_item(d, situ_tree_tensor_at(z->parameters, i))].group = z->group_count;
  return situ__dist_fill_buckets(op, d);
}

/* Buckets are deals, with their parameters in the same order. One that does not require a gradient is in none. */
static bool deal_buckets(const char *op, situ_dist_zero *z, int64_t first) {
  const situ_dist_ddp *d = z->ddp;
  const size_t bytes = (size_t)(d->item_count + 1) * sizeof(int64_t);
  int64_t *parameter = situ__alloc(bytes); /* of each item of the group */
  if (!parameter) return situ__no_memory(op, bytes), false;
  for (int64_t i = first; i < situ_tree_count(z->parameters); i++) {
    const int64_t item = situ__zero_find_item(z->ddp, situ_tree_tensor_at(z->parameters, i));
    z->places[i] = (situ__zero_place){ .deal = -1, .next = -1, .part = -1, .item = item };
    parameter[item] = i;
  }
  bool good = true;
  for (int64_t i = 0; good && i < d->bucket_count; i++) {
    const situ__dist_bucket *b = &d->buckets[i];
    const int64_t deal = z->deal_count;
    for (int64_t k = 0; good && b->group == z->group_count && k < b->count; k++)
      good = situ__zero_place_in(z, parameter[b->items[k]], deal);
  }
  situ__free(parameter);
  return good;
}

/* ---- gradients ---- */

static const situ__dist_item *item_of(const situ_dist_zero *z, const situ__zero_part *p) {
  return &z->ddp->items[z->places[p->parameter].item];
}

static bool prepare_gradients(const situ_dist_zero *z) {
  const situ_dist_ddp *d = z->ddp;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  bool good = true;
  for (int64_t k = 0; good && k < z->part_count; k++) {
    const situ__zero_part *p = &z->parts[k];
    const situ__dist_item *item = item_of(z, p);
    const situ__dist_bucket *b = &d->buckets[item->bucket];
    situ_tensor *grad =
        situ_narrow(b->share, 0, item->offset + p->from - situ__dist_share_begin(d, b, z->comm->rank), p->count);
    good = grad && situ_set_grad(p->values, grad) == SITU_OK;
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

static bool commit_gradients(const situ_dist_zero *z) {
  const situ_dist_ddp *d = z->ddp;
  for (int64_t k = 0; k < z->part_count; k++)
    if (!item_of(z, &z->parts[k])->used) SITU_IGNORE(situ_set_grad(z->parts[k].values, NULL));
  for (int64_t i = 0; i < d->parameter_count; i++) {
    const situ__dist_item *item = &d->items[i];
    if (item->used && item->bucket >= 0 && situ__dist_in_parts(d, &d->buckets[item->bucket]) &&
        situ_set_grad_in_parts(item->tensor) != SITU_OK)
      return false;
  }
  return true;
}

void situ__zero_drop_gradients(const situ_dist_zero *z) {
  for (int64_t k = 0; k < z->part_count; k++) SITU_IGNORE(situ_set_grad(z->parts[k].values, NULL));
}

static void forget_ddp(situ_dist_zero *z) {
  situ__zero_end_shards(z);
  z->ddp = NULL;
}

static const situ__dist_parts in_parts = { prepare_gradients, commit_gradients, situ__zero_drop_gradients, forget_ddp };

/* ---- the parts of a group ---- */

bool situ__zero_divide_buckets(const char *op, situ_dist_zero *z, int64_t first) {
  if (!group_items(op, z, first)) return false;
  z->ddp->zero = z;
  z->ddp->parts = &in_parts;
  z->ddp->parted_groups = z->group_count + 1;
  return deal_buckets(op, z, first);
}

void situ__zero_undo_divide(const situ_dist_zero *z) {
  if (!z->ddp) return;
  z->ddp->parted_groups = z->group_count;
  if (!z->group_count) z->ddp->zero = NULL;
}

static void leave_ddp(situ_dist_ddp *d) {
  if (d->exchange)
    situ__comm_fail(d->comm, SITU_E_COMM, d->comm->rank, "rank %d freed its optimiser while it exchanged gradients",
                    d->comm->rank);
  d->zero = NULL;
  d->parted_groups = 0;
  d->lockstep = false;
}

void situ__zero_forget_parts(situ_dist_zero *z) {
  situ__zero_end_shards(z);
  if (z->ddp && z->ddp->zero == z) leave_ddp(z->ddp);
  situ__zero_drop_gradients(z);
  for (int64_t i = 0; z->parameters && i < situ_tree_count(z->parameters); i++) {
    situ_tensor *whole = situ_tree_tensor_at(z->parameters, i);
    if (situ_grad_is_in_parts(whole)) SITU_IGNORE(situ_set_grad(whole, NULL));
  }
}
