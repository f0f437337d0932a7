/* Stage 3 of ZeRO: the parameters of a bucket become whole, from the parts of all ranks.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "shards.h"
#include "situ/sys/plain.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* Where a part lies among what its rank sends of the bucket. */
static int64_t place_of(const situ_dist_ddp *d, const situ__dist_bucket *b, const situ__zero_part *p) {
  return d->items[p->item].offset + p->from - situ__dist_share_begin(d, b, p->rank);
}

/* Visits this rank's parts of the bucket. */
static bool each_own(const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request *r,
                     bool (*visit)(const situ_dist_zero *z, const situ__dist_bucket *b, const situ__zero_part *p,
                                   situ_comm_request *r)) {
  for (int64_t i = 0; i < b->count; i++)
    for (int64_t k = z->shards->parts[b->items[i]]; situ__zero_is_part_of(z, k, b->items[i]); k++)
      if (z->parts[k].rank == z->comm->rank && !visit(z, b, &z->parts[k], r)) return false;
  return true;
}

/* Until the request is closed nothing writes the part: the other ranks would compute with what it was. */
static bool fill_part(const situ_dist_zero *z, const situ__dist_bucket *b, const situ__zero_part *p,
                      situ_comm_request *r) {
  (void)__atomic_or_fetch(&situ_desc(p->values)->storage->flags, SITU_STORAGE_SENT, __ATOMIC_RELAXED);
  return situ__comm_put(r, place_of(z->ddp, b, p), p->values);
}

static bool free_part(const situ_dist_zero *z, const situ__dist_bucket *b, const situ__zero_part *p,
                      situ_comm_request *r) {
  (void)z, (void)b, (void)r;
  (void)__atomic_and_fetch(&situ_desc(p->values)->storage->flags, ~SITU_STORAGE_SENT, __ATOMIC_RELAXED);
  return true;
}

static void close_request(const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request *r) {
  situ__comm_close(r);
  SITU_IGNORE(!each_own(z, b, NULL, free_part));
}

/* Where part k begins in what has arrived: `each` elements of a rank. */
static int64_t arrival_of(const situ_dist_zero *z, const situ__dist_bucket *b, int64_t k, int64_t each) {
  return z->parts[k].rank * each + place_of(z->ddp, b, &z->parts[k]);
}

/* The parts of the item from k on, one behind the other, that are as long as k and as far apart as the first two. */
static int64_t count_alike(const situ_dist_zero *z, const situ__dist_bucket *b, int64_t k, int64_t each) {
  const situ__zero_part *p = &z->parts[k];
  int64_t n = 1, stride = 0;
  for (; situ__zero_is_part_of(z, k + n, p->item) && p[n].count == p->count && p[n].from == p->from + n * p->count;
       n++) {
    const int64_t apart = arrival_of(z, b, k + n, each) - arrival_of(z, b, k + n - 1, each);
    if (n > 1 && apart != stride) break;
    stride = apart;
  }
  return n;
}

/* A whole parameter of what has arrived. NULL after recording an error. */
static situ_tensor *join_parts(const situ_dist_zero *z, const situ__dist_bucket *b, int64_t item,
                               const situ_comm_request *arrived, int64_t each) {
  const situ__dist_item *at = &z->ddp->items[item];
  const situ_options like = { .dtype = b->dtype, .device = situ_device_of(at->tensor) };
  situ_tensor *whole = situ_empty(situ_shape_of(at->tensor), &like);
  for (int64_t k = z->shards->parts[item], n; whole && situ__zero_is_part_of(z, k, item); k += n) {
    const situ__zero_part *p = &z->parts[k];
    n = count_alike(z, b, k, each);
    situ_tensor *to = situ_reshape(situ__zero_elements(whole, p->from, n * p->count), SITU_SHAPE(n, p->count));
    const int64_t from = arrival_of(z, b, k, each), stride = n > 1 ? arrival_of(z, b, k + 1, each) - from : 0;
    if (!situ__comm_write_rows(arrived, from, stride, to)) return NULL;
  }
  return whole;
}

static bool use_arrivals(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b, situ_tensor **whole,
                         const situ_comm_request *arrived, int64_t each) {
  for (int64_t i = 0; i < b->count; i++)
    if (!(whole[i] = join_parts(z, b, b->items[i], arrived, each))) return false;
  for (int64_t i = 0; i < b->count; i++) {
    situ_tensor *t = z->ddp->items[b->items[i]].tensor;
    if (situ_return_memory(op, t, whole[i]) != SITU_OK) return false;
    z->shards->versions[b->items[i]] = situ_version_of(t);
  }
  return true;
}

static situ_comm_request *post_parts(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b) {
  const situ_dist_ddp *d = z->ddp;
  const situ_comm_call call = { SITU_COMM_ALL_GATHER, .dtype = b->dtype,
                                .count = situ__ceil_div(b->numel, z->comm->size), .name = d->items[b->items[0]].name,
                                .step = d->step };
  const situ_device device = situ_device_of(d->items[b->items[0]].tensor);
  situ_comm_request *r = situ__comm_open_for(op, z->comm, &call, situ__comm_way_on(z->comm, &call, device));
  if (r && situ__comm_clear(r) && each_own(z, b, r, fill_part)) {
    situ__comm_post(z->comm, r);
    return r;
  }
  situ__dist_give_up(d);
  close_request(z, b, r);
  return NULL;
}

situ_comm_request *situ__zero_begin_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b) {
  const situ__dist_item *first = &z->ddp->items[b->items[0]];
  if (situ_device_of(first->tensor).kind == SITU_META)
    return situ__fail(SITU_E_STATE, op,
                      "%.90s is on meta: load a checkpoint (situ_dist_checkpoint_load), or move the module to a device",
                      first->name),
           NULL;
  SITU__ALONE(in, &z->comm->alone, op, "this communicator");
  if (!in) return NULL;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_comm_request *r = post_parts(op, z, b);
  SITU_IGNORE(situ_scope_end(&s));
  return r;
}

bool situ__zero_await_gather(const char *op, const situ_dist_zero *z, situ_comm_request *r) {
  SITU__ALONE(in, &z->comm->alone, op, "this communicator");
  if (!in) return false;
  situ__comm_await_begun(z->comm, r);
  return !z->comm->failed || situ__comm_failure(op, z->comm) == SITU_OK;
}

bool situ__zero_end_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request **r) {
  SITU__ALONE(in, &z->comm->alone, op, "this communicator");
  if (!in) return false;
  situ_tensor **whole = situ__calloc((size_t)b->count, sizeof *whole);
  if (!whole) situ__no_memory(op, (size_t)b->count * sizeof *whole);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good =
      whole && situ__comm_finish(op, *r) && use_arrivals(op, z, b, whole, *r, situ__ceil_div(b->numel, z->comm->size));
  if (!good) situ__dist_give_up(z->ddp);
  const bool ended = situ_scope_end(&s) == SITU_OK;
  close_request(z, b, *r);
  *r = NULL;
  situ__free(whole);
  return good && ended;
}

bool situ__zero_drop_gather(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b,
                            situ_comm_request **r) {
  SITU__ALONE(in, &z->comm->alone, op, "this communicator");
  if (!in) return false;
  const bool good = situ__comm_finish(op, *r);
  close_request(z, b, *r);
  *r = NULL;
  return good;
}
