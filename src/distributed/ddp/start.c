/* The start of data parallel training: all ranks have the same model, and get the same values.
   SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>

#include "base/alloc.h"
#include "distributed/ddp/ddp.h"
#include "situ/sys/shape.h"

enum { TEXT = 192 };

/* FNV-1a: Fowler, Noll and Vo; a word at a time where there are eight bytes. */
uint64_t situ__dist_hash(const void *data, size_t bytes) {
  const unsigned char *p = data;
  uint64_t hash = 0xCBF29CE484222325u, word;
  for (; bytes >= 8; bytes -= 8, p += 8) {
    memcpy(&word, p, 8);
    hash = (hash ^ word) * 0x100000001B3u;
    hash ^= hash >> 32;
  }
  while (bytes--) hash = (hash ^ *p++) * 0x100000001B3u;
  return hash ^ hash >> 29;
}

static bool on_meta(const situ__dist_item *item) { return situ_device_of(item->tensor).kind == SITU_META; }

static void describe_item(const situ__dist_item *item, char text[TEXT]) {
  const situ_shape shape = situ_shape_of(item->tensor);
  char size[SITU_SHAPE_TEXT];
  (void)snprintf(text, TEXT, "%s %.90s %s %.60s%s", item->is_buffer ? "buffer" : "parameter", item->name,
                 situ_dtype_name(situ_dtype_of(item->tensor)), situ_shape_text(&shape, size),
                 on_meta(item) ? " on meta" : "");
}

/* The first rank whose hash is not that of rank 0. */
static bool find_rank(const char *op, situ_dist_ddp *d, uint64_t mine, int *rank) {
  uint64_t *all = situ__alloc((size_t)d->comm->size * sizeof *all);
  if (!all) return situ__no_memory(op, (size_t)d->comm->size * sizeof *all), false;
  const bool good = situ__comm_gather(op, d->comm, "which rank differs", d->step, &mine, all, sizeof mine);
  for (*rank = 1; good && *rank < d->comm->size - 1 && all[*rank] == all[0];) ++*rank;
  situ__free(all);
  return good;
}

/* Compares a hash of each item across ranks: the largest hash, and that of its complement, are those of all ranks or of
   different ones. Sets the first item whose hash is not that of rank 0 on some rank; -1: none. */
static bool find_difference(const char *op, situ_dist_ddp *d, const char *name, const uint64_t *mine, int64_t *item,
                            int *rank) {
  const int64_t count = d->item_count;
  int64_t *both = situ__alloc((size_t)(2 * count + 1) * sizeof *both);
  if (!both) return situ__no_memory(op, (size_t)(2 * count) * sizeof *both), false;
  for (int64_t i = 0; i < count; i++) both[count + i] = ~(both[i] = (int64_t)mine[i]);
  const situ_comm_call call = { SITU_COMM_ALL_REDUCE, .reduction = SITU_COMM_MAX,
                                .dtype = SITU_I64,    .count = 2 * count,
                                .send = both,         .receive = both,
                                .name = name,         .step = d->step };
  const bool good = situ__comm_call(op, d->comm, &call) == SITU_OK;
  *item = 0;
  while (good && *item < count && both[*item] == ~both[count + *item]) ++*item;
  if (*item == count) *item = -1;
  situ__free(both);
  return good && (*item < 0 || find_rank(op, d, mine[*item], rank));
}

static bool same_count(const char *op, situ_dist_ddp *d) {
  int64_t *all = situ__alloc((size_t)d->comm->size * sizeof *all);
  if (!all) return situ__no_memory(op, (size_t)d->comm->size * sizeof *all), false;
  bool good = situ__comm_gather(op, d->comm, "number of tensors", d->step, &d->item_count, all, sizeof *all);
  for (int r = 1; good && r < d->comm->size; r++)
    if (all[r] != all[0])
      good = (situ__fail(SITU_E_COMM, op,
                         "the module has %" PRId64 " parameters and buffers on rank 0, %" PRId64 " on rank %d", all[0],
                         all[r], r),
              false);
  situ__free(all);
  return good;
}

static bool report_layout(const char *op, situ_dist_ddp *d, int64_t item, int rank) {
  char mine[TEXT], *all = situ__alloc((size_t)d->comm->size * TEXT);
  if (!all) return situ__no_memory(op, (size_t)d->comm->size * TEXT), false;
  memset(mine, 0, sizeof mine);
  describe_item(&d->items[item], mine);
  if (situ__comm_gather(op, d->comm, "what differs", d->step, mine, all, TEXT))
    situ__fail(SITU_E_COMM, op, "the modules of the ranks differ: rank 0 has %.191s, rank %d %.191s", all, rank,
               all + (size_t)rank * TEXT);
  situ__free(all);
  return false;
}

bool situ__dist_compare_layout(const char *op, situ_dist_ddp *d) {
  if (!same_count(op, d)) return false;
  uint64_t *hashes = situ__alloc((size_t)(d->item_count + 1) * sizeof *hashes);
  if (!hashes) return situ__no_memory(op, (size_t)(d->item_count + 1) * sizeof *hashes), false;
  char text[TEXT];
  for (int64_t i = 0; i < d->item_count; i++) {
    describe_item(&d->items[i], text);
    hashes[i] = situ__dist_hash(text, strlen(text));
  }
  int64_t item;
  int rank = 0;
  const bool good = find_difference(op, d, "names and shapes", hashes, &item, &rank);
  situ__free(hashes);
  return good && (item < 0 || report_layout(op, d, item, rank));
}

/* ---- values ---- */

static bool hash_item(const char *op, const situ__dist_item *item, uint64_t *hash) {
  const size_t bytes = (size_t)item->numel * situ_dtype_size(situ_dtype_of(item->tensor));
  void *values = situ__alloc(bytes + 1);
  if (!values) return situ__no_memory(op, bytes), false;
  const bool good = situ_copy_to_host(item->tensor, values, bytes) == SITU_OK;
  if (good) *hash = situ__dist_hash(values, bytes);
  situ__free(values);
  return good;
}

bool situ__dist_compare_values(const char *op, situ_dist_ddp *d) {
  uint64_t *hashes = situ__calloc((size_t)(d->item_count + 1), sizeof *hashes);
  if (!hashes) return situ__no_memory(op, (size_t)(d->item_count + 1) * sizeof *hashes), false;
  bool good = true;
  for (int64_t i = 0; good && i < d->item_count; i++)
    good = on_meta(&d->items[i]) || hash_item(op, &d->items[i], &hashes[i]);
  int64_t item = -1;
  int rank = 0;
  good = good && find_difference(op, d, "hashes of the values", hashes, &item, &rank);
  situ__free(hashes);
  if (!good || item < 0) return good;
  return situ__fail(SITU_E_COMM, op, "the values of %s %s differ between rank 0 and rank %d (step %" PRId64 ")",
                    d->items[item].is_buffer ? "buffer" : "parameter", d->items[item].name, rank, d->step),
         false;
}

/* Buckets on their way at once. */
enum { IN_FLIGHT = 2 };

/* Puts the tensors that are new into buckets of their own. Returns false after recording an error. */
static bool load_buckets(const char *op, const situ_dist_ddp *d, situ_dist_ddp *load) {
  const size_t bytes = (size_t)(d->item_count + 1) * sizeof *d->items;
  *load = (situ_dist_ddp){ .comm = d->comm, .item_count = d->item_count };
  load->options.bucket_bytes = d->options.bucket_bytes;
  if (!(load->items = situ__alloc(bytes))) return situ__no_memory(op, bytes), false;
  for (int64_t i = 0; i < d->item_count; i++) {
    load->items[i] = d->items[i];
    load->items[i].in_bucket = d->items[i].is_new && !on_meta(&d->items[i]);
    load->items[i].is_buffer = false;
  }
  return situ__dist_fill_buckets(op, load);
}

static bool send_bucket(const char *op, const situ_dist_ddp *load, const situ__dist_bucket *b,
                        situ_comm_request **request) {
  char name[SITU__COMM_NAME];
  situ__dist_name_bucket(load, b, name);
  const situ_comm_call call = { SITU_COMM_BROADCAST, .dtype = b->dtype, .count = b->numel, .name = name };
  const situ_device device = situ_device_of(load->items[b->items[0]].tensor);
  situ_comm_request *r = *request =
      situ__comm_open_for(op, load->comm, &call, situ__comm_way_on(load->comm, &call, device));
  if (!r) return false;
  for (int64_t k = 0; k < b->count && r->sent; k++) {
    const situ__dist_item *item = &load->items[b->items[k]];
    if (!situ__comm_put(r, item->offset, item->tensor)) return false;
  }
  situ__comm_post(load->comm, r);
  return true;
}

static bool write_bucket(const situ_dist_ddp *load, const situ__dist_bucket *b, const situ_comm_request *r) {
  for (int64_t k = 0; k < b->count; k++) {
    const situ__dist_item *item = &load->items[b->items[k]];
    if (!situ__comm_write(r, item->offset, item->tensor)) return false;
  }
  return true;
}

static bool end_bucket(const char *op, const situ_dist_ddp *load, const situ__dist_bucket *b,
                       situ_comm_request **request) {
  const bool good = situ__comm_finish(op, *request) && (load->comm->rank == 0 || write_bucket(load, b, *request));
  situ__comm_close(*request);
  *request = NULL;
  return good;
}

/* Values are written as they arrive: beside the model a rank has the buckets that are on their way. */
static bool carry_values(const char *op, const situ_dist_ddp *load, situ_comm_request *requests[IN_FLIGHT]) {
  for (int64_t i = 0; i < load->bucket_count + IN_FLIGHT; i++) {
    situ_comm_request **r = &requests[i % IN_FLIGHT];
    if (i >= IN_FLIGHT && *r && !end_bucket(op, load, &load->buckets[i - IN_FLIGHT], r)) return false;
    if (i < load->bucket_count && !send_bucket(op, load, &load->buckets[i], r)) return false;
  }
  return true;
}

bool situ__dist_broadcast(const char *op, situ_dist_ddp *d) {
  situ_dist_ddp load;
  situ_comm_request *requests[IN_FLIGHT] = { NULL };
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = load_buckets(op, d, &load) && carry_values(op, &load, requests);
  if (!good)
    situ__comm_fail(d->comm, SITU_E_COMM, d->comm->rank, "rank %d gave up in the broadcast of the module: %.200s",
                    d->comm->rank, situ_error_message());
  SITU_IGNORE(situ_scope_end(&s));
  for (int i = 0; i < IN_FLIGHT; i++) situ__comm_close(requests[i]);
  situ__dist_free_buckets(&load);
  situ__free(load.items);
  return good;
}
