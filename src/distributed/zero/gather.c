/* Stage 3 of ZeRO: the parameters of a bucket become whole, from the parts of all ranks.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/size.h"
#include "shards.h"
#include "situ/sys/plain.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* Of a bucket each rank sends its share, as long as the longest. */
static situ__zero_slice slice_of(const situ_dist_zero *z, const situ__dist_bucket *b) {
  const int64_t each = situ__ceil_div(b->numel, z->comm->size);
  return (situ__zero_slice){ .end = b->numel, .count = each, .block = each };
}

static bool fill_own(const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request *r) {
  const situ__zero_slice s = slice_of(z, b);
  bool good = situ__comm_clear(r);
  for (int64_t i = 0; good && i < b->count; i++)
    good = situ__zero_put_slice(z, z->shards->parameters[b->items[i]], &s, r);
  return good;
}

/* From the post of a request until it is closed nothing writes this rank's parts of the bucket: the other ranks would
   compute with what they were. */
static void mark_own(const situ_dist_zero *z, const situ__dist_bucket *b, bool sent) {
  for (int64_t i = 0; i < b->count; i++) {
    const situ__zero_part *p = situ__zero_own_part(z, z->shards->parameters[b->items[i]]);
    if (!p) continue;
    uint32_t *flags = &situ_desc(p->values)->storage->flags;
    if (sent) (void)__atomic_or_fetch(flags, SITU_STORAGE_SENT, __ATOMIC_RELAXED);
    else (void)__atomic_and_fetch(flags, ~SITU_STORAGE_SENT, __ATOMIC_RELAXED);
  }
}

static void close_request(const situ_dist_zero *z, const situ__dist_bucket *b, situ_comm_request *r) {
  situ__comm_close(r);
  mark_own(z, b, false);
}

/* A whole parameter of what has arrived. NULL after recording an error. */
static situ_tensor *join_parts(const situ_dist_zero *z, const situ__dist_bucket *b, int64_t item,
                               const situ_comm_request *arrived) {
  situ_tensor *t = z->ddp->items[item].tensor;
  const situ__zero_slice s = slice_of(z, b);
  situ_tensor *whole = situ_empty(situ_shape_of(t), &(situ_options){ .dtype = b->dtype, .device = situ_device_of(t) });
  return whole && situ__zero_write_slice(z, z->shards->parameters[item], whole, &s, arrived, -1) ? whole : NULL;
}

static bool use_arrivals(const char *op, const situ_dist_zero *z, const situ__dist_bucket *b, situ_tensor **whole,
                         const situ_comm_request *arrived) {
  for (int64_t i = 0; i < b->count; i++)
    if (!(whole[i] = join_parts(z, b, b->items[i], arrived))) return false;
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
  if (r && fill_own(z, b, r)) {
    mark_own(z, b, true);
    situ__comm_post(z->comm, r);
    return r;
  }
  situ__dist_give_up(d);
  situ__comm_close(r);
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
  const bool good = whole && situ__comm_finish(op, *r) && use_arrivals(op, z, b, whole, *r);
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
