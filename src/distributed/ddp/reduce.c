/* The exchange of a step: the nodes of all ranks are added in the order of the tree. Each rank gets one part of every
   bucket from all others (all_to_all), adds it up, and gives the sum to all (all_gather): the bytes of a ring
   all-reduce. Of buckets in parts it keeps the sum. Where the ranks of a machine are a sub-tree, parts are added on the
   machine first, and its sums go to the others (across).
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "ddp.h"
#include "situ/sys/tensor.h"

/* One bucket on its way. */
typedef struct journey {
  situ_comm_request *parts; /* all_to_all, of the machine and then across; or in .fast all_reduce */
  situ_comm_request *whole; /* all_gather */
  char name[SITU__COMM_NAME];
} journey;

/* What all buckets share: how many nodes a rank sends, at most, and those of all ranks. */
typedef struct plan {
  int size;
  int local; /* ranks of a machine, whose parts are added there first; 1: there is one level */
  int most;
  int64_t (*nodes)[2]; /* of all ranks, in order */
  int *rank, *place;   /* of each: the rank that sends it, and its number there */
  int count;
} plan;

struct situ__dist_exchange {
  plan plan;
  journey *journeys;             /* one for each bucket */
  int64_t parts, across, wholes; /* buckets whose parts have been sent; whose machine's sums; whose sums */
};

/* ---- the nodes of all ranks ---- */

/* Whether each rank sends one node, and all are as large: then the tree above them is that of as many leaves. */
static bool is_even(const plan *p) {
  for (int k = 0; k < p->count; k++)
    if (p->nodes[k][1] - p->nodes[k][0] != p->nodes[0][1]) return false;
  return p->count == p->size && p->most == 1;
}

static bool make_plan(const char *op, const situ_dist_ddp *d, plan *p) {
  const size_t most = (size_t)situ__min_i64(d->total, d->comm->size * (int64_t)SITU__DIST_DEPTH);
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
  p->local = is_even(p) && d->comm->node < p->size ? d->comm->node : 1;
  return true;
}

static bool begin_exchange(const char *op, situ_dist_ddp *d) {
  if (d->exchange) return true;
  const size_t bytes = (size_t)(d->bucket_count + 1) * sizeof *d->exchange->journeys;
  if (!(d->exchange = situ__calloc(1, sizeof *d->exchange))) return situ__no_memory(op, sizeof *d->exchange), false;
  if (!(d->exchange->journeys = situ__calloc(1, bytes))) return situ__no_memory(op, bytes), false;
  return make_plan(op, d, &d->exchange->plan);
}

void situ__dist_end_exchange(situ_dist_ddp *d) {
  situ__dist_exchange *x = d->exchange;
  if (!x) return;
  for (int64_t i = 0; x->journeys && i < d->bucket_count; i++) {
    situ__comm_close(x->journeys[i].parts);
    situ__comm_close(x->journeys[i].whole);
  }
  situ__free(x->journeys);
  situ__free(x->plan.nodes);
  situ__free(x->plan.rank);
  situ__free(x);
  d->exchange = NULL;
}

int64_t situ__dist_begun(const situ_dist_ddp *d) { return d->exchange ? d->exchange->parts : 0; }

void situ__dist_give_up(const situ_dist_ddp *d) {
  SITU__ALONE(in, &d->comm->alone, "dist_give_up", "this communicator");
  if (!in) return;
  situ__comm_fail(d->comm, SITU_E_COMM, d->comm->rank, "rank %d gave up at step %lld: %.200s", d->comm->rank,
                  (long long)d->step, situ_error_message());
}

/* ---- parts ---- */

static int64_t part_length(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  return situ__ceil_div(b->numel, d->comm->size);
}

/* How many ranks from this one on have shares that are as long and go together: to the end of a machine, or whole
   machines. */
static int count_alike(const situ_dist_ddp *d, const situ__dist_bucket *b, int local, int rank) {
  const int64_t from = situ__dist_share_begin(d, b, rank), count = situ__dist_share_begin(d, b, rank + 1) - from;
  const int size = d->comm->size, left = local - rank % local;
  int n = 1;
  while (rank + n < size && situ__dist_share_begin(d, b, rank + n + 1) - from == (n + 1) * count) n++;
  return n < left ? n : left < local ? left : n / local * local;
}

/* Each rank's part of each node, in its place; parts may be short, or empty. most: nodes of a rank; local: ranks of a
   machine, of which each gets the parts of the ranks at its place of all machines. Those of neighbours that are as long
   go together. */
static bool fill_parts(const situ_dist_ddp *d, const situ__dist_bucket *b, int most, int local, situ_comm_request *r) {
  const int64_t part = part_length(d, b), rows = d->comm->size / local;
  const int size = d->comm->size;
  const bool gaps = b->node_count < most || b->numel < part * size;
  if (gaps && !situ__comm_clear(r)) return false;
  for (int rank = 0, n; rank < size; rank += n) {
    n = count_alike(d, b, local, rank);
    const int64_t from = situ__dist_share_begin(d, b, rank), count = situ__dist_share_begin(d, b, rank + 1) - from;
    const int64_t at = rank % local * rows + rank / local, places = n < local ? n : local;
    for (int k = 0; count && k < b->node_count; k++) {
      situ_tensor *t = situ_narrow(b->nodes[k].sum, 0, from, n * count);
      t = situ_reshape(t, SITU_SHAPE(n / places, places, count));
      if (!situ__comm_put_strided(r, (at * most + k) * part, SITU_SHAPE(most * part, rows * most * part, 1), t))
        return false;
    }
  }
  return true;
}

static situ_device device_of(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  return situ_device_of(d->items[b->items[0]].tensor);
}

static bool is_fast(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  return d->options.fast && !b->of_buffers && (b->wire == SITU_F32 || b->wire == SITU_F64);
}

/* .fast: all nodes of this rank become one. */
static bool join_nodes(const situ_dist_ddp *d, situ__dist_bucket *b) {
  while (b->node_count > 1)
    if (!situ__dist_join_last(d, b)) return false;
  return true;
}

/* What this rank sends of a bucket. */
static situ_comm_op op_of(const situ_dist_ddp *d, const situ__dist_bucket *b) {
  if (!is_fast(d, b)) return SITU_COMM_ALL_TO_ALL;
  return situ__dist_in_parts(d, b) ? SITU_COMM_REDUCE_SCATTER : SITU_COMM_ALL_REDUCE;
}

static bool send_parts(const char *op, const situ_dist_ddp *d, situ__dist_bucket *b, const plan *p, journey *j) {
  const bool fast = is_fast(d, b);
  const int most = fast ? 1 : p->most, local = fast ? 1 : p->local;
  situ__dist_name_bucket(d, b, j->name);
  situ_comm_call call = { op_of(d, b), .dtype = b->wire, .name = j->name, .step = d->step };
  call.count = call.op == SITU_COMM_ALL_REDUCE ? b->numel : most * part_length(d, b);
  if (local > 1) call.count *= p->size / local;
  if (fast && !join_nodes(d, b)) return false;
  j->parts = situ__comm_open_among(op, d->comm, &call, situ__comm_way_on(d->comm, &call, device_of(d, b)),
                                   local > 1 ? SITU__COMM_NODE : SITU__COMM_ALL);
  if (!j->parts) return false;
  if (call.op == SITU_COMM_ALL_REDUCE ? !situ__comm_fill(j->parts, b->nodes[0].sum)
                                      : !fill_parts(d, b, most, local, j->parts))
    return false;
  situ__comm_post(d->comm, j->parts);
  situ__dist_drop_nodes(b);
  return true;
}

/* ---- sums ---- */

/* This rank's part of all nodes, as it has arrived. */
typedef struct arrived {
  const plan *p;
  const situ_comm_request *values;
  int64_t part;
  int next; /* the node that comes next in the order of the tree */
} arrived;

static situ_tensor *sum_node(arrived *a, int64_t lo, int64_t hi) {
  const plan *p = a->p;
  if (p->nodes[a->next][0] == lo && p->nodes[a->next][1] == hi) {
    const int64_t at = (int64_t)p->rank[a->next] * p->most + p->place[a->next];
    a->next++;
    return situ__comm_part(a->values, at * a->part, a->part);
  }
  const int64_t mid = situ__dist_split(lo, hi);
  situ_tensor *left = sum_node(a, lo, mid);
  return situ_add(left, sum_node(a, mid, hi));
}

/* A level of the tree over so many rows at a time; `last` is the sum of those that have no neighbour, behind all
   others. */
static situ_tensor *sum_levels(const situ_comm_request *values, int64_t count, int64_t part) {
  situ_tensor *last = NULL, *rows = situ_reshape(situ__comm_part(values, 0, count * part), SITU_SHAPE(count, part));
  for (;; count /= 2) {
    situ_tensor *row = count % 2 ? situ_select(rows, 0, count - 1) : NULL;
    if (row) last = last ? situ_add(row, last) : row;
    if (count == 1) return last;
    situ_tensor *pairs = situ_reshape(situ_narrow(rows, 0, 0, count / 2 * 2), SITU_SHAPE(count / 2, 2, part));
    if (!(rows = situ_add(situ_select(pairs, 1, 0), situ_select(pairs, 1, 1)))) return NULL;
  }
}

/* Averages are divided, and rounded, in the dtype of the exchange. */
static situ_tensor *own_dtype(const situ__dist_bucket *b, situ_tensor *average) {
  return b->wire == b->dtype ? average : situ_to_dtype(average, b->dtype);
}

/* This rank's part of the average, of part_length elements. */
static situ_tensor *average_part(const situ_dist_ddp *d, const situ__dist_bucket *b, const plan *p, const journey *j) {
  arrived a = { .p = p, .values = j->parts, .part = part_length(d, b) };
  situ_tensor *sum = is_fast(d, b) ? situ__comm_part(j->parts, 0, a.part)
                     : is_even(p)  ? sum_levels(j->parts, p->size / p->local, a.part)
                                   : sum_node(&a, 0, d->total);
  return situ_div_scalar(sum, (double)d->total);
}

/* Keeps this rank's part of the average. */
static bool keep_share(const situ_dist_ddp *d, situ__dist_bucket *b, situ_tensor *average) {
  const int rank = d->comm->rank;
  const int64_t from = situ__dist_share_begin(d, b, rank), to = situ__dist_share_begin(d, b, rank + 1);
  situ_tensor *share = situ_to(situ_narrow(average, 0, 0, to - from), device_of(d, b));
  share = own_dtype(b, share);
  if (share) situ_set_role(share, SITU_ROLE_GRADIENT);
  return situ_set(&b->share, share);
}

/* Begins to give this rank's part of the average to all. */
static bool send_sum(const char *op, const situ_dist_ddp *d, const situ__dist_bucket *b, situ_tensor *average,
                     journey *j) {
  const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = b->wire, .count = part_length(d, b), .name = j->name,
                                .step = d->step };
  j->whole = situ__comm_open_for(op, d->comm, &call, j->parts->way);
  if (!j->whole || !situ__comm_fill(j->whole, average)) return false;
  situ__comm_post(d->comm, j->whole);
  return true;
}

/* The parts of a bucket have arrived from the machine: gives their sums to the ranks that add those of all machines. */
static bool send_across(const char *op, const situ_dist_ddp *d, const situ__dist_bucket *b, const plan *p, journey *j) {
  const int64_t part = part_length(d, b);
  const situ_comm_call call = { SITU_COMM_ALL_TO_ALL, .dtype = b->wire, .count = part, .name = j->name,
                                .step = d->step };
  situ_comm_request *r = situ__comm_open_among(op, d->comm, &call, j->parts->way, SITU__COMM_ACROSS);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *sum = r ? sum_levels(j->parts, p->local, p->size / p->local * part) : NULL;
  const bool good = sum && situ__comm_fill(r, sum);
  SITU_IGNORE(situ_scope_end(&s));
  if (good) situ__comm_post(d->comm, r);
  situ__comm_close(j->parts);
  j->parts = r;
  return good;
}

/* The parts of a bucket have arrived: adds them up. The engine's own sums are whole already. */
static bool use_parts(const char *op, const situ_dist_ddp *d, situ__dist_bucket *b, const plan *p, journey *j) {
  const bool keeps = situ__dist_in_parts(d, b);
  if (is_fast(d, b) && !keeps) return true;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *average = average_part(d, b, p, j);
  const bool good = average && (keeps ? keep_share(d, b, average) : send_sum(op, d, b, average, j));
  SITU_IGNORE(situ_scope_end(&s));
  if (!good) return false;
  situ__comm_close(j->parts);
  j->parts = NULL;
  return true;
}

bool situ__dist_take_shares(situ_dist_ddp *d) {
  bool good = true;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  for (int64_t i = 0; good && !d->exchange && i < d->bucket_count; i++) {
    situ__dist_bucket *b = &d->buckets[i];
    good = !situ__dist_in_parts(d, b) || keep_share(d, b, situ_div_scalar(b->nodes[0].sum, (double)d->total));
  }
  return situ_scope_end(&s) == SITU_OK && good;
}

situ_tensor *situ__dist_mean(const situ_dist_ddp *d, const situ__dist_item *item) {
  const situ__dist_bucket *b = &d->buckets[item->bucket];
  const situ_shape shape = situ_shape_of(item->tensor);
  if (!d->exchange) { /* one rank: all micro-batches are here, and the tree has become one node */
    situ_tensor *sum = situ_reshape(situ_narrow(b->nodes[0].sum, 0, item->offset, item->numel), shape);
    return own_dtype(b, situ_div_scalar(sum, (double)d->total));
  }
  const journey *j = &d->exchange->journeys[item->bucket];
  situ_tensor *t = situ__comm_result(j->whole ? j->whole : j->parts, item->offset, shape, situ_device_of(item->tensor));
  return own_dtype(b, j->whole ? t : situ_div_scalar(t, (double)d->total));
}

/* The order of the calls must be the same on all ranks, however soon buckets fill and messages arrive: the parts of so
   many buckets are sent ahead of the first one's sum. */
enum { AHEAD = 2 };

/* Moves the gradients of a full bucket into it. */
static bool add_arrivals(const char *op, const situ_dist_ddp *d, situ__dist_bucket *b) {
  if (!situ__dist_add_leaf(op, d, b)) return false;
  for (int64_t i = 0; i < b->count; i++) {
    d->items[b->items[i]].used = true;
    situ_drop(&d->items[b->items[i]].arrived);
  }
  return true;
}

/* In a dry run other ranks are as late as they can be: then this one needs the most memory. */
static bool has_arrived(const situ_dist_ddp *d, const situ_comm_request *r) {
  return r->stage >= SITU__COMM_DONE && !d->comm->rehearses;
}

/* Whether the host is ahead of its device, and waits for the parts of a bucket: the next one is full already, and what
   is queued meanwhile would hold up the sum of this one. */
static bool is_ahead(const situ_dist_ddp *d, const situ__dist_exchange *x, const journey *j) {
  const situ__dist_bucket *next = &d->buckets[x->parts];
  return situ__comm_is_direct(j->parts) && x->parts < d->bucket_count && next->arrived == next->count;
}

/* Begins calls in this order, until one would have to wait: for its bucket to fill, or for a bucket's parts. */
static bool begin_calls(const char *op, situ_dist_ddp *d, bool wait) {
  situ__dist_exchange *x = d->exchange;
  while (x->wholes < d->bucket_count) {
    const int64_t used = x->plan.local > 1 ? x->across : x->wholes;
    const bool sends_parts = x->parts < d->bucket_count && x->parts - used < AHEAD;
    const bool crosses = !sends_parts && x->plan.local > 1 && x->across == x->wholes;
    situ__dist_bucket *b = &d->buckets[sends_parts ? x->parts : x->wholes];
    journey *j = &x->journeys[b - d->buckets];
    if (sends_parts) {
      if (!wait && b->arrived < b->count) break;
      if ((!wait && !add_arrivals(op, d, b)) || !send_parts(op, d, b, &x->plan, j)) return false;
      x->parts++;
      continue;
    }
    if (!crosses || !is_fast(d, b)) {
      if (!wait && !d->lockstep && !has_arrived(d, j->parts) && !is_ahead(d, x, j)) break;
      if (!situ__comm_finish(op, j->parts)) return false;
      if (crosses ? !send_across(op, d, b, &x->plan, j) : !use_parts(op, d, b, &x->plan, j)) return false;
    }
    *(crosses ? &x->across : &x->wholes) += 1;
  }
  return true;
}

bool situ__dist_advance(const char *op, situ_dist_ddp *d) {
  const situ__dist_bucket *first = &d->buckets[0];
  if (!d->exchange && first->arrived < first->count) return true;
  if (!begin_exchange(op, d)) return false;
  situ__comm_progress(d->comm);
  if (d->comm->failed) return situ__comm_failure(op, d->comm), false;
  return begin_calls(op, d, false);
}

bool situ__dist_reduce(const char *op, situ_dist_ddp *d) {
  if (d->comm->size == 1) return true;
  bool good = begin_exchange(op, d) && begin_calls(op, d, true);
  for (int64_t i = 0; good && i < d->bucket_count; i++) {
    const journey *j = &d->exchange->journeys[i];
    good = !j->whole || situ__comm_finish(op, j->whole);
  }
  return good;
}

bool situ__dist_agree(const char *op, situ_dist_ddp *d) {
  if (d->comm->size == 1) return true;
  const situ_comm_call call = { SITU_COMM_ALL_REDUCE,   .reduction = SITU_COMM_MAX, .dtype = SITU_U8,
                                .count = d->item_count, .name = "end of the step",  .step = d->step };
  situ_comm_request *r = situ__comm_open(op, d->comm, &call);
  if (!r) return situ__dist_give_up(d), false;
  unsigned char *mine = situ__comm_outgoing(r);
  for (int64_t i = 0; i < d->item_count; i++) mine[i] = d->items[i].used;
  situ__comm_post(d->comm, r);
  const bool good = situ__comm_finish(op, r);
  const unsigned char *any = d->comm->rehearses ? mine : situ__comm_arrived(r); /* all ranks are alike */
  for (int64_t i = 0; good && i < d->item_count; i++) d->items[i].used = any[i];
  situ__comm_close(r);
  return good;
}
