/* Buckets: gradients and buffers of a distributed module, flat, and their sums over this rank's micro-batches.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/size.h"
#include "ddp.h"
#include "situ/sys/tensor.h"

/* ---- which tensor is where ---- */

/* Several buckets are needed for an exchange while backward runs; each costs a few messages. */
static int64_t bucket_limit(const situ_dist_ddp *d) {
  if (d->options.bucket_bytes) return d->options.bucket_bytes;
  int64_t all = 0;
  for (int64_t i = 0; i < d->item_count; i++)
    if (d->items[i].in_bucket) all += d->items[i].numel * (int64_t)situ_dtype_size(situ_dtype_of(d->items[i].tensor));
  return situ__max_i64(64 << 10, situ__min_i64(all / 8, 25 << 20));
}

static bool has_space(const situ__dist_bucket *b, const situ_dist_ddp *d, const situ__dist_item *item, int64_t limit) {
  const situ_tensor *first = d->items[b->items[0]].tensor;
  const int64_t size = (int64_t)situ_dtype_size(b->dtype);
  return b->of_buffers == item->is_buffer && b->group == item->group && b->unit == item->unit &&
         b->dtype == situ_dtype_of(item->tensor) &&
         situ_device_equal(situ_device_of(first), situ_device_of(item->tensor)) &&
         (b->numel + item->numel) * size <= limit;
}

/* last: the number behind that of the last bucket of the item's unit. */
static situ__dist_bucket *add_bucket(situ_dist_ddp *d, const situ__dist_item *item, int64_t *last) {
  if (!situ__grow(NULL, &d->buckets, &d->bucket_capacity, sizeof *d->buckets, d->bucket_count + 1)) return NULL;
  situ__dist_bucket *b = &d->buckets[d->bucket_count];
  *b = (situ__dist_bucket){ .dtype = situ_dtype_of(item->tensor),
                            .of_buffers = item->is_buffer,
                            .group = item->group,
                            .unit = item->unit,
                            .previous = *last };
  const bool compressed = d->options.compress && !item->is_buffer && situ_dtype_size(b->dtype) > 2;
  b->wire = compressed ? d->options.compress : b->dtype;
  *last = ++d->bucket_count;
  return b;
}

/* The bucket that items of this kind are put into now, or a new one. */
static situ__dist_bucket *bucket_for(situ_dist_ddp *d, const situ__dist_item *item, int64_t limit, int64_t *last) {
  for (int64_t i = *last; i > 0; i = d->buckets[i - 1].previous)
    if (has_space(&d->buckets[i - 1], d, item, limit)) return &d->buckets[i - 1];
  return add_bucket(d, item, last);
}

void situ__dist_free_buckets(situ_dist_ddp *d) {
  for (int64_t b = 0; b < d->bucket_count; b++) {
    situ__free(d->buckets[b].items);
    situ__free(d->buckets[b].nodes);
  }
  situ__free(d->buckets);
  d->buckets = NULL;
  d->bucket_count = d->bucket_capacity = 0;
}

static void count_before(const situ_dist_ddp *d) {
  for (int64_t i = 0; i < d->bucket_count; i++) {
    int64_t k = i - 1;
    while (k >= 0 && d->buckets[k].group != d->buckets[i].group) k--;
    if (k >= 0) d->buckets[i].before = d->buckets[k].before + d->buckets[k].numel;
  }
}

int64_t situ__dist_share_begin(const situ_dist_ddp *d, const situ__dist_bucket *b, int rank) {
  const int size = d->comm->size;
  if (situ__dist_in_parts(d, b)) return situ__dist_dealt(b->before, b->numel, rank, size);
  return situ__min_i64(rank * situ__ceil_div(b->numel, size), b->numel);
}

static bool put_in_bucket(situ_dist_ddp *d, int64_t i, int64_t limit, int64_t *last) {
  situ__dist_item *item = &d->items[i];
  situ__dist_bucket *b = bucket_for(d, item, limit, last);
  if (!b || !situ__grow(NULL, &b->items, &b->capacity, sizeof *b->items, b->count + 1)) return false;
  item->bucket = b - d->buckets;
  item->offset = b->numel;
  b->items[b->count++] = i;
  b->numel += item->numel;
  return true;
}

static bool fill_buckets(const char *op, situ_dist_ddp *d) {
  const int64_t limit = bucket_limit(d);
  int units = 0;
  for (int64_t i = 0; i < d->item_count; i++)
    if (d->items[i].unit >= units) units = d->items[i].unit + 1;
  int64_t *last = situ__calloc((size_t)units + 1, sizeof *last); /* per unit, from -1 on: see add_bucket */
  bool good = last != NULL;
  for (int64_t i = 0; good && i < d->item_count; i++)
    if (d->items[i].in_bucket && d->items[i].numel) good = put_in_bucket(d, i, limit, &last[d->items[i].unit + 1]);
  situ__free(last);
  if (!good) return situ__no_memory(op, (size_t)d->item_count * sizeof *last), false;
  count_before(d);
  return true;
}

bool situ__dist_fill_buckets(const char *op, situ_dist_ddp *d) {
  const size_t bytes = (size_t)(d->item_count + 1) * sizeof *d->items;
  situ__dist_item *items = situ__alloc(bytes);
  if (!items) return situ__no_memory(op, bytes), false;
  memcpy(items, d->items, bytes);
  situ_dist_ddp before = *d;
  d->buckets = NULL;
  d->bucket_count = d->bucket_capacity = 0;
  const bool good = fill_buckets(op, d);
  if (good) situ__dist_free_buckets(&before);
  else {
    situ__dist_free_buckets(d);
    memcpy(d->items, items, bytes);
    d->buckets = before.buckets;
    d->bucket_count = before.bucket_count;
    d->bucket_capacity = before.bucket_capacity;
  }
  situ__free(items);
  return good;
}

void situ__dist_name_bucket(const situ_dist_ddp *d, const situ__dist_bucket *b, char name[SITU__COMM_NAME]) {
  const char *first = d->items[b->items[0]].name;
  if (b->count == 1) (void)snprintf(name, SITU__COMM_NAME, "%.60s", first);
  else (void)snprintf(name, SITU__COMM_NAME, "%.30s and %lld more", first, (long long)b->count - 1);
}

/* ---- one micro-batch ---- */

/* A parameter that this micro-batch has not used has gradient 0 in it. */
static situ_tensor *flat_part(const situ__dist_item *item) {
  situ_tensor *t = item->is_buffer ? situ_detach(item->tensor)
                   : item->arrived ? item->arrived
                                   : situ_grad(item->tensor);
  if (t) return situ_reshape(t, SITU_SHAPE(item->numel));
  const situ_options like = { .dtype = situ_dtype_of(item->tensor), .device = situ_device_of(item->tensor) };
  return situ_zeros(SITU_SHAPE(item->numel), &like);
}

static situ_tensor *flat_bucket(const char *op, const situ_dist_ddp *d, const situ__dist_bucket *b) {
  situ_tensor **parts = situ__alloc((size_t)b->count * sizeof *parts), *flat = NULL;
  if (!parts) return situ__no_memory(op, (size_t)b->count * sizeof *parts), NULL;
  bool good = true;
  for (int64_t i = 0; good && i < b->count; i++) good = (parts[i] = flat_part(&d->items[b->items[i]])) != NULL;
  if (good) flat = b->count == 1 ? parts[0] : situ_cat(parts, (int)b->count, 0);
  if (b->wire != b->dtype) flat = situ_to_dtype(flat, b->wire);
  else if (b->count == 1) flat = situ_clone(flat);
  situ__free(parts);
  return flat;
}

void situ__dist_drop_nodes(situ__dist_bucket *b) {
  while (b->node_count) situ_drop(&b->nodes[--b->node_count].sum);
}

/* A sum goes along with a move of its bucket. */
static bool keep_sum(const situ_dist_ddp *d, const situ__dist_bucket *b, situ__dist_node *n, situ_tensor *sum) {
  return sum && situ_follow(sum, d->items[b->items[0]].tensor) == SITU_OK && situ_set(&n->sum, sum);
}

bool situ__dist_join_last(const situ_dist_ddp *d, situ__dist_bucket *b) {
  situ__dist_node *left = &b->nodes[b->node_count - 2], *right = &b->nodes[b->node_count - 1];
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = keep_sum(d, b, left, situ_add(left->sum, right->sum));
  SITU_IGNORE(situ_scope_end(&s));
  left->hi = right->hi;
  situ_drop(&right->sum);
  b->node_count--;
  return good;
}

bool situ__dist_add_leaf(const char *op, const situ_dist_ddp *d, situ__dist_bucket *b) {
  if (!situ__grow(op, &b->nodes, &b->node_capacity, sizeof *b->nodes, b->node_count + 1)) return false;
  situ__dist_node *n = &b->nodes[b->node_count++];
  *n = (situ__dist_node){ .lo = d->first + d->position, .hi = d->first + d->position + 1 };
  if (!keep_sum(d, b, n, flat_bucket(op, d, b))) return false;
  while (b->node_count >= 2) {
    const situ__dist_node *left = &b->nodes[b->node_count - 2], *right = &b->nodes[b->node_count - 1];
    if (!situ__dist_are_siblings(d->total, left->lo, left->hi, right->hi)) break;
    if (!situ__dist_join_last(d, b)) return false;
  }
  return true;
}
