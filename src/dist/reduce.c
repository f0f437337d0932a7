/* The end of a step: the nodes of all ranks are added in the order of the tree. Each rank gets one part of every bucket
   from all others (all_to_all), adds it up, and gives the sum to all (all_gather): the bytes of a ring all-reduce.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "base/alloc.h"
#include "base/size.h"
#include "dist/ddp.h"

/* One bucket on its way. */
typedef struct journey {
  situ_comm_request *parts; /* all_to_all, or in .fast all_reduce */
  situ_comm_request *whole; /* all_gather */
  char name[SITU__COMM_NAME];
} journey;

/* What all buckets share: how many nodes a rank sends, at most, and those of all ranks. */
typedef struct plan {
  int size;
  int most;
  int64_t (*nodes)[2]; /* of all ranks, in order */
  int *rank, *place;   /* of each: the rank that sends it, and its number there */
  int count;
} plan;

/* ---- the nodes of all ranks ---- */

static bool make_plan(const char *op, const situ_dist_ddp *d, plan *p) {
  const size_t most = (size_t)d->comm->size * SITU__DIST_DEPTH;
  *p = (plan){ .size = d->comm->size,
               .nodes = situ__alloc(most * sizeof *p->nodes),
               .rank = situ__alloc(2 * most * sizeof *p->rank) };
  if (!p->nodes || !p->rank) return situ__no_memory(op, most * (sizeof *p->nodes + 2 * sizeof *p->rank)), false;
  p->place = p->rank + most;
  for (int r = 0; r < p->size; r++) {
    const int n = situ__dist_cover(d->total, situ__dist_first(d->total, r, p->size),
                                   situ__dist_first(d->total, r + 1, p->size), p->nodes + p->count);
    for (int k = 0; k < n; k++) {
      p->rank[p->count + k] = r;
      p->place[p->count + k] = k;
    }
    p->count += n;
    if (n > p->most) p->most = n;
  }
  return true;
}

static void free_plan(plan *p) {
  situ__free(p->nodes);
  situ__free(p->rank);
}

/* ---- parts ---- */

static int64_t part_length(const situ__dist_bucket *b, const plan *p) { return situ__ceil_div(b->numel, p->size); }

/* Node k's values, each rank's part in its place; parts at the end may be short, or empty. */
static void spread(const char *values, char *out, const situ__dist_bucket *b, const plan *p, int k) {
  const int64_t part = part_length(b, p);
  const size_t size = situ_dtype_size(b->dtype);
  for (int r = 0; r < p->size; r++) {
    const int64_t from = situ__min_i64(r * part, b->numel), to = situ__min_i64(from + part, b->numel);
    memcpy(out + ((size_t)r * (size_t)p->most + (size_t)k) * (size_t)part * size, values + (size_t)from * size,
           (size_t)(to - from) * size);
  }
}

static bool fill_parts(const char *op, const situ_dist_ddp *d, int64_t bucket, const plan *p, situ_comm_request *r) {
  const situ__dist_bucket *b = &d->buckets[bucket];
  const size_t bytes = (size_t)b->numel * situ_dtype_size(b->dtype);
  char *values = situ__alloc(bytes);
  if (!values) return situ__no_memory(op, bytes), false;
  memset(situ__comm_outgoing(r), 0, r->sent);
  bool good = true;
  for (int k = 0; good && k < d->node_count; k++) {
    good = situ_copy_to_host(d->nodes[k].sums[bucket], values, bytes) == SITU_OK;
    if (good) spread(values, situ__comm_outgoing(r), b, p, k);
  }
  situ__free(values);
  return good;
}

static bool is_fast(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  return d->options.fast && !b->of_buffers && (b->dtype == SITU_F32 || b->dtype == SITU_F64);
}

/* .fast: the sum of this rank's nodes. */
static bool fill_sum(const situ_dist_ddp *d, int64_t bucket, situ_comm_request *r) {
  situ_tensor *sum = d->nodes[0].sums[bucket];
  for (int k = 1; k < d->node_count; k++) sum = situ_add(sum, d->nodes[k].sums[bucket]);
  return sum && situ_copy_to_host(sum, situ__comm_outgoing(r), r->sent) == SITU_OK;
}

static bool send_parts(const char *op, const situ_dist_ddp *d, int64_t bucket, const plan *p, journey *j) {
  const situ__dist_bucket *b = &d->buckets[bucket];
  const situ__dist_item *first = &d->items[b->items[0]];
  if (b->count == 1) (void)snprintf(j->name, sizeof j->name, "%.60s", first->name);
  else (void)snprintf(j->name, sizeof j->name, "%.30s and %lld more", first->name, (long long)b->count - 1);
  const bool fast = is_fast(d, b);
  situ_comm_call call = { .op = fast ? SITU_COMM_ALL_REDUCE : SITU_COMM_ALL_TO_ALL,
                          .dtype = b->dtype,
                          .name = j->name,
                          .step = d->step,
                          .count = fast ? b->numel : p->most * part_length(b, p) };
  j->parts = situ__comm_open(op, d->comm, &call);
  if (!j->parts || !(fast ? fill_sum(d, bucket, j->parts) : fill_parts(op, d, bucket, p, j->parts))) return false;
  situ__comm_post(d->comm, j->parts);
  return true;
}

/* ---- sums ---- */

/* This rank's part of all nodes, as it has arrived. */
typedef struct arrived {
  const plan *p;
  char *values;
  int64_t part;
  situ_dtype dtype;
  int next; /* the node that comes next in the order of the tree */
} arrived;

static situ_tensor *sum_node(arrived *a, int64_t lo, int64_t hi) {
  const plan *p = a->p;
  if (p->nodes[a->next][0] == lo && p->nodes[a->next][1] == hi) {
    const size_t bytes = (size_t)a->part * situ_dtype_size(a->dtype);
    const size_t at = (size_t)p->rank[a->next] * (size_t)p->most + (size_t)p->place[a->next];
    a->next++;
    return situ_view_host(a->values + at * bytes, bytes, SITU_SHAPE(a->part), &(situ_options){ .dtype = a->dtype });
  }
  const int64_t mid = situ__dist_split(lo, hi);
  situ_tensor *left = sum_node(a, lo, mid);
  return situ_add(left, sum_node(a, mid, hi));
}

/* Adds up this rank's part, and begins to give it to all. */
static bool send_sum(const char *op, const situ_dist_ddp *d, const situ__dist_bucket *b, const plan *p, journey *j) {
  arrived a = { .p = p, .values = situ__comm_arrived(j->parts), .part = part_length(b, p), .dtype = b->dtype };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *sum = sum_node(&a, 0, d->total);
  j->whole =
      sum ? situ__comm_open(
                op, d->comm,
                &(situ_comm_call){
                    .op = SITU_COMM_ALL_GATHER, .dtype = b->dtype, .count = a.part, .name = j->name, .step = d->step })
          : NULL;
  const bool good = j->whole && situ_copy_to_host(sum, situ__comm_outgoing(j->whole), j->whole->sent) == SITU_OK;
  SITU_IGNORE(situ_scope_end(&s));
  if (good) situ__comm_post(d->comm, j->whole);
  return good;
}

static situ_tensor *take_sum(const situ_dist_ddp *d, const situ__dist_bucket *b, const journey *j) {
  situ_comm_request *r = j->whole ? j->whole : j->parts;
  return situ_from_host(situ__comm_arrived(r), (size_t)b->numel * situ_dtype_size(b->dtype), SITU_SHAPE(b->numel),
                        &(situ_options){ .dtype = b->dtype, .device = situ_device_of(d->items[b->items[0]].tensor) });
}

static bool carry_buckets(const char *op, const situ_dist_ddp *d, const plan *p, journey *journeys,
                          situ_tensor **sums) {
  for (int64_t i = 0; i < d->bucket_count; i++)
    if (!send_parts(op, d, i, p, &journeys[i])) return false;
  for (int64_t i = 0; i < d->bucket_count; i++) {
    const situ__dist_bucket *b = &d->buckets[i];
    if (!situ__comm_finish(op, journeys[i].parts)) return false;
    if (!is_fast(d, b) && !send_sum(op, d, b, p, &journeys[i])) return false;
  }
  for (int64_t i = 0; i < d->bucket_count; i++) {
    if (journeys[i].whole && !situ__comm_finish(op, journeys[i].whole)) return false;
    if (!(sums[i] = take_sum(d, &d->buckets[i], &journeys[i]))) return false;
  }
  return true;
}

/* Calls that are on their way must end before their memory can be freed. */
static void give_up(const situ_dist_ddp *d) {
  situ__comm_fail(d->comm, SITU_E_COMM, d->comm->rank, "rank %d gave up at step %lld: %.200s", d->comm->rank,
                  (long long)d->step, situ_error_message());
}

bool situ__dist_reduce(const char *op, situ_dist_ddp *d, situ_tensor **sums) {
  if (d->comm->size == 1) { /* all micro-batches are here: the tree has become one node */
    for (int64_t i = 0; i < d->bucket_count; i++) sums[i] = d->nodes[0].sums[i];
    return true;
  }
  plan p = { 0 };
  journey *journeys = situ__calloc((size_t)(d->bucket_count + 1), sizeof *journeys);
  if (!journeys) situ__no_memory(op, (size_t)(d->bucket_count + 1) * sizeof *journeys);
  const bool good = journeys && make_plan(op, d, &p) && carry_buckets(op, d, &p, journeys, sums);
  if (!good) give_up(d);
  for (int64_t i = 0; journeys && i < d->bucket_count; i++) {
    situ__comm_close(journeys[i].parts);
    situ__comm_close(journeys[i].whole);
  }
  situ__free(journeys);
  free_plan(&p);
  return good;
}

bool situ__dist_agree(const char *op, situ_dist_ddp *d) {
  if (d->comm->size == 1) return true;
  const situ_comm_call call = {
    .op = SITU_COMM_ALL_GATHER, .dtype = SITU_U8, .count = d->item_count, .name = "end of the step", .step = d->step
  };
  situ_comm_request *r = situ__comm_open(op, d->comm, &call);
  if (!r) return give_up(d), false;
  unsigned char *mine = situ__comm_outgoing(r);
  for (int64_t i = 0; i < d->item_count; i++) mine[i] = d->items[i].used;
  situ__comm_post(d->comm, r);
  const bool good = situ__comm_finish(op, r);
  const unsigned char *all = situ__comm_arrived(r);
  for (int64_t i = 0; good && i < d->item_count * d->comm->size; i++) d->items[i % d->item_count].used |= all[i];
  situ__comm_close(r);
  return good;
}
