/* The tensors that a distributed module averages, and how it follows a module that changes: its layers are unfrozen,
   replaced, added, cast.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>

#include "base/alloc.h"
#include "base/map.h"
#include "ddp.h"

static void add_item(situ_dist_ddp *d, const situ_tree *from, int64_t i, bool is_buffer) {
  situ_tensor *t = situ_tree_tensor_at(from, i);
  const bool summed = is_buffer ? situ_dtype_is_floating(situ_dtype_of(t)) : situ_requires_grad(t);
  d->items[d->item_count++] = (situ__dist_item){ .ddp = d,
                                                 .tensor = situ_retain(t),
                                                 .name = situ_tree_key(from, i),
                                                 .is_buffer = is_buffer,
                                                 .is_new = true,
                                                 .in_bucket = summed,
                                                 .group = -1,
                                                 .bucket = -1,
                                                 .numel = situ_numel(t),
                                                 .dtype = situ_dtype_of(t),
                                                 .device = situ_device_of(t),
                                                 .version = situ_version_of(t) };
}

/* ---- has the module changed? ---- */

static situ_status hash_tensor(const situ_nn_visit *at, void *payload) {
  uint64_t *hash = payload;
  const situ_device device = situ_device_of(at->tensor);
  const uint64_t about[] = { *hash, (uintptr_t)at->tensor, (uint64_t)situ_requires_grad(at->tensor),
                             (uint64_t)situ_dtype_of(at->tensor),
                             (uint64_t)device.kind << 32 | (uint32_t)device.index };
  *hash = situ__dist_hash(about, sizeof about);
  return SITU_OK;
}

/* The items own their tensors, so that a new one never has the address of an old one. */
static bool hash_module(const situ_dist_ddp *d, uint64_t *hash) {
  const unsigned which = SITU_NN_PARAMETER | SITU_NN_VISIT_BUFFERS | SITU_NN_VISIT_UNNAMED;
  *hash = 0;
  return situ_nn_walk(d->module, which, hash_tensor, hash) == SITU_OK;
}

/* Parameters in the order in which backward reaches them, nearly: the reverse of the module's. */
bool situ__dist_list_items(const char *op, situ_dist_ddp *d) {
  d->names = situ_nn_parameters(d->module);
  d->buffer_names = d->names ? situ_nn_buffers(d->module) : NULL;
  if (!d->buffer_names || !hash_module(d, &d->seen)) return false;
  const int64_t buffers = situ_tree_count(d->buffer_names);
  d->parameter_count = situ_tree_count(d->names);
  const size_t count = (size_t)(d->parameter_count + buffers);
  if (!(d->items = situ__calloc(count + 1, sizeof *d->items)))
    return situ__no_memory(op, (count + 1) * sizeof *d->items), false;
  for (int64_t i = d->parameter_count; i-- > 0;) add_item(d, d->names, i, false);
  for (int64_t i = 0; i < buffers; i++) add_item(d, d->buffer_names, i, true);
  return true;
}

void situ__dist_free_items(situ_dist_ddp *d) {
  for (int64_t i = 0; d->items && i < d->item_count; i++) {
    situ__dist_item *item = &d->items[i];
    if (!item->is_buffer) situ_remove_hooks(item->tensor, item);
    situ_tensor **const owned[] = { &item->tensor, &item->arrived, &item->before, &item->after, &item->gradient };
    for (size_t k = 0; k < sizeof owned / sizeof *owned; k++) situ_drop(owned[k]);
  }
  situ__dist_free_buckets(d);
  situ__free(d->items);
  situ_tree_free(d->names);
  situ_tree_free(d->buffer_names);
}

/* How an item differs from what ddp knows of it, in words; NULL: in nothing that matters. For a forward a parameter
   that is frozen may stay where it is, without a gradient. */
static const char *find_change(const situ__dist_item *was, const situ__dist_item *is, bool exact) {
  if (!was) return "was added";
  if (was->dtype != is->dtype) return "was cast";
  if (!situ_device_equal(was->device, is->device)) return "was moved";
  if (is->in_bucket && !was->in_bucket) return "was unfrozen";
  return exact && was->in_bucket && !is->in_bucket ? "was frozen" : NULL;
}

/* It was on meta, and has values now, which may differ among the ranks. */
static bool got_values(const situ__dist_item *was, const situ__dist_item *is) {
  return was->device.kind == SITU_META && is->device.kind != SITU_META;
}

/* Notes which items of `now` are new. Sets the first item that has changed, and how; NULL: none has. Returns false
   after recording an error. */
static bool compare_items(const char *op, const situ_dist_ddp *d, situ_dist_ddp *now, bool exact,
                          const situ__dist_item **item, const char **how) {
  situ__map known = { 0 }, left = { 0 };
  bool good = true;
  *item = NULL;
  for (int64_t i = 0; good && i < d->item_count; i++) good = situ__map_put(&known, d->items[i].tensor, &d->items[i]);
  for (int64_t i = 0; good && i < now->item_count; i++) {
    situ__dist_item *is = &now->items[i];
    const situ__dist_item *was = situ__map_get(&known, is->tensor);
    const char *change = find_change(was, is, exact);
    is->is_new = !was || got_values(was, is);
    if (change && !*item) *item = is, *how = change;
    good = situ__map_put(&left, is->tensor, is);
  }
  for (int64_t i = 0; good && !*item && i < d->item_count; i++)
    if (!situ__map_get(&left, d->items[i].tensor)) *item = &d->items[i], *how = "was removed";
  if (!good) situ__no_memory(op, (size_t)d->item_count * 2 * sizeof *known.entries);
  situ__map_free(&known);
  situ__map_free(&left);
  return good;
}

/* ---- taking over ---- */

/* The lists of `now`, which all ranks have made, take the place of d's. */
static bool replace_items(const char *op, situ_dist_ddp *d, situ_dist_ddp *now) {
  if (!situ__dist_fill_buckets(op, now) || !situ__dist_compare_layout(op, now)) return false;
  if (!(d->options.no_broadcast ? situ__dist_compare_values(op, now) : situ__dist_broadcast(op, now))) return false;
  for (int64_t i = 0; i < now->item_count; i++) {
    now->items[i].ddp = d;
    if (now->items[i].is_buffer) now->items[i].version = situ_version_of(now->items[i].tensor);
  }
  if (!situ__dist_watch(now)) return false;
  const situ_dist_ddp before = *d;
  d->names = now->names;
  d->buffer_names = now->buffer_names;
  d->items = now->items;
  d->item_count = now->item_count;
  d->parameter_count = now->parameter_count;
  d->buckets = now->buckets;
  d->bucket_count = now->bucket_count;
  d->bucket_capacity = now->bucket_capacity;
  d->seen = now->seen;
  d->found = 0;
  *now = before; /* to be freed */
  return true;
}

static bool exchange_items(const char *op, situ_dist_ddp *d, situ_dist_ddp *now) {
  SITU__ALONE(in, &d->comm->alone, op, "this communicator");
  if (!in) return false;
  if (replace_items(op, d, now)) return true;
  situ__dist_give_up(d); /* the other ranks would wait */
  return false;
}

static bool refuse_change(const char *op, const situ_dist_ddp *d, const situ__dist_item *item, const char *how) {
  const char *kind = item->is_buffer ? "buffer" : "parameter";
  if (d->zero)
    situ__fail(SITU_E_STATE, op,
               "%s %.120s %s, and an optimiser keeps the gradients of the module in parts: free it with "
               "situ_dist_zero_free, and make it anew",
               kind, item->name, how);
  else
    situ__fail(SITU_E_STATE, op,
               "%s %.120s %s in the middle of a step, of which %" PRId64 " of %" PRId64
               " micro-batches have ended: change the module behind the step",
               kind, item->name, how, d->position, d->count);
  return false;
}

/* If tensors were moved, nothing else has changed, and all of a bucket are still on one device, ddp goes on: its sums
   of this step have gone along, and other ranks need not hear of it. */
static bool accept_moves(situ_dist_ddp *d, const situ_dist_ddp *now, bool exact) {
  if (now->item_count != d->item_count || now->parameter_count != d->parameter_count) return false;
  for (int64_t i = 0; i < d->item_count; i++) {
    const situ__dist_item *was = &d->items[i];
    situ__dist_item is = now->items[i];
    const situ__dist_bucket *b = was->bucket >= 0 ? &d->buckets[was->bucket] : NULL;
    if (was->tensor != is.tensor || (b && !situ_device_equal(is.device, now->items[b->items[0]].device)) ||
        (got_values(was, &is) && !d->lockstep)) /* else each rank has its own parts */
      return false;
    is.device = was->device;
    if (find_change(was, &is, exact)) return false;
  }
  for (int64_t i = 0; i < d->item_count; i++) d->items[i].device = now->items[i].device;
  d->seen = now->seen;
  return true;
}

static bool take_over(const char *op, situ_dist_ddp *d, situ_dist_ddp *now, bool exact) {
  const situ__dist_item *item;
  const char *how;
  if (!situ__dist_list_items(op, now) || !compare_items(op, d, now, exact, &item, &how)) return false;
  if (!item) return d->seen = now->seen, true;
  if (accept_moves(d, now, exact)) return true;
  if (d->position || d->begun || d->zero) return refuse_change(op, d, item, how);
  return exchange_items(op, d, now);
}

bool situ__dist_is_known(const char *op, situ_dist_ddp *d) {
  uint64_t hash;
  if (!hash_module(d, &hash)) return false;
  if (hash == d->seen) return true;
  situ_dist_ddp now = { .module = d->module };
  const situ__dist_item *item = NULL;
  const char *how;
  bool good = situ__dist_list_items(op, &now) && compare_items(op, d, &now, false, &item, &how);
  if (good && item && !accept_moves(d, &now, false))
    good = (situ__fail(SITU_E_STATE, op,
                       "%s %.120s %s, and ddp does not know: call the module that situ_dist_ddp_new got, in training "
                       "mode, not its parts",
                       item->is_buffer ? "buffer" : "parameter", item->name, how),
            false);
  situ__dist_free_items(&now);
  return good;
}

bool situ__dist_keep_up(const char *op, situ_dist_ddp *d, bool exact) {
  uint64_t hash;
  if (!hash_module(d, &hash)) return false;
  if (hash == d->seen && !exact) return true;
  situ_dist_ddp now = { .module = d->module, .comm = d->comm, .options = d->options, .step = d->step };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = take_over(op, d, &now, exact);
  situ__dist_free_items(&now);
  return situ_scope_end(&s) == SITU_OK && good;
}
