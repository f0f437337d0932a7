/* Graphs with other memory: what a graph does with the memory of a tensor of its capture, a slot, it does with that of
   another tensor.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/handle.h"
#include "device/dry.h"
#include "device/graph/parts.h"
#include "device/view.h"
#include "situ/sys/plain.h"

/* Bytes of memory, from the lowest to the highest element of a view. `base` is the memory where a
   backend's data are not addresses. */
typedef struct range {
  const void *base;
  int64_t low, high;
} range;

static range range_of_bytes(const situ_storage *s, int64_t low, int64_t high) {
  const bool plain = situ__backend(s->device)->addressable;
  const int64_t from = plain ? (int64_t)(uintptr_t)s->data : 0;
  return (range){ plain ? NULL : s->data, from + low, from + high };
}

/* The range of v if its elements lay `delta` further, in `storage`; an empty one meets nothing. */
static range range_in(const situ_view_desc *v, const situ_storage *storage, int64_t delta) {
  const int64_t item = situ__dtypes[v->dtype].size;
  int64_t first, last;
  const bool any = situ__desc_range(v, &first, &last);
  return range_of_bytes(storage, (first + delta) * item, (last + any + delta) * item);
}

static range range_of_storage(const situ_storage *s) { return range_of_bytes(s, 0, (int64_t)s->bytes); }

static bool meet(range a, range b) { return a.base == b.base && a.low < b.high && b.low < a.high; }

/* ---- which views of the graph are a tensor's ---- */

/* Dimensions with more than one element, the largest stride first; neighbours that follow each other are one. */
typedef struct grid {
  int ndim;
  int64_t size[SITU_MAX_DIMS], stride[SITU_MAX_DIMS];
} grid;

static grid grid_of(const situ_view_desc *v) {
  grid g = { 0 };
  for (int d = 0; d < v->ndim; d++) {
    const int64_t size = v->size[d], stride = llabs(v->stride[d]);
    int at = g.ndim;
    if (size == 1 || stride == 0) continue;
    for (; at > 0 && g.stride[at - 1] < stride; at--) g.size[at] = g.size[at - 1], g.stride[at] = g.stride[at - 1];
    g.size[at] = size, g.stride[at] = stride;
    g.ndim++;
  }
  int kept = 0;
  for (int d = 1; d < g.ndim; d++) {
    if (g.stride[kept] == g.stride[d] * g.size[d]) g.size[kept] *= g.size[d], g.stride[kept] = g.stride[d];
    else kept++, g.size[kept] = g.size[d], g.stride[kept] = g.stride[d];
  }
  g.ndim = g.ndim ? kept + 1 : 0;
  return g;
}

/* Adds `times` steps of a distance to the indices of g. Returns false if the distance is not one of indices. */
static bool add_steps(const grid *g, int64_t distance, int64_t times, int64_t *index) {
  for (int d = 0; d < g->ndim; d++) {
    index[d] += distance / g->stride[d] * times;
    distance %= g->stride[d];
  }
  return distance == 0;
}

/* Whether each element of v is one of `whole`. */
static bool is_inside(const situ_view_desc *v, const situ_view_desc *whole) {
  const grid g = grid_of(whole);
  int64_t low[2], last;
  (void)situ__desc_range(v, &low[0], &last);
  (void)situ__desc_range(whole, &low[1], &last);
  const int64_t from = low[0] - low[1];
  int64_t index[SITU_MAX_DIMS] = { 0 };
  if (situ__dtypes[v->dtype].size != situ__dtypes[whole->dtype].size || from < 0) return false;
  bool good = add_steps(&g, from, 1, index);
  for (int d = 0; d < v->ndim && good; d++) good = add_steps(&g, llabs(v->stride[d]), v->size[d] - 1, index);
  for (int d = 0; d < g.ndim && good; d++) good = index[d] < g.size[d];
  return good;
}

/* ---- slots ---- */

static bool same_place(const situ_view_desc *a, const situ_view_desc *b) {
  const size_t bytes = a->ndim * sizeof *a->size;
  return a->storage == b->storage && a->offset == b->offset && a->dtype == b->dtype && a->ndim == b->ndim &&
         !memcmp(a->size, b->size, bytes) && !memcmp(a->stride, b->stride, bytes);
}

static bool in_slot(const situ_graph *g, const situ_view_desc *v) {
  for (const situ__graph_slot *s = g->slots; s; s = s->next)
    for (size_t i = 0; i < s->count; i++)
      if (s->use[i].view == v) return true;
  return false;
}

static SITU_COLD situ_status refuse_shared(const char *op, const situ_view_desc *v) {
  situ__described d = { "the tensor", "" };
  situ__device_up.describe_storage(v->storage, &d);
  return situ__fail(SITU_E_ALIAS, op,
                    "the graph uses %s%s together with other elements of the same memory; capture it with tensors that "
                    "have memory of their own",
                    d.what, d.where);
}

/* Returns how many views of the graph, of those in no slot, are in the tensor's memory, and lists them in `to` if that
   is given; -1 after recording that one is there in part. */
static int64_t collect_uses(const char *op, const situ_graph *g, const situ_view_desc *of, situ__graph_slot *to) {
  int64_t count = 0;
  for (situ__graph_work *k = g->first; k; k = k->next)
    for (size_t i = 0; i < k->views; i++) {
      situ_view_desc *v = &k->view[i];
      if (v->storage != of->storage || in_slot(g, v)) continue;
      if (!is_inside(v, of)) {
        if (meet(range_in(v, v->storage, 0), range_in(of, of->storage, 0))) return refuse_shared(op, of), -1;
        continue;
      }
      if (to) {
        to->use[count].view = v;
        to->use[count].offset = v->offset;
        to->written = to->written || situ__graph_writes(k, v);
      }
      count++;
    }
  return count;
}

static situ__graph_slot *make_slot(const char *op, situ_graph *g, const situ_view_desc *of) {
  situ__described d = { "the tensor", "" };
  for (const situ__graph_slot *s = g->slots; s; s = s->next)
    if (s->of.storage == of->storage && meet(range_in(&s->of, of->storage, 0), range_in(of, of->storage, 0)))
      return refuse_shared(op, of), NULL;
  const int64_t count = collect_uses(op, g, of, NULL);
  if (count < 0) return NULL;
  if (count == 0) {
    situ__device_up.describe_storage(of->storage, &d);
    return situ__fail(SITU_E_ARG, op, "the graph does not use %s%s: pass a tensor that its capture read or wrote",
                      d.what, d.where),
           NULL;
  }
  const size_t bytes = sizeof(situ__graph_slot) + (size_t)count * sizeof(situ__graph_use);
  situ__graph_slot *s = situ__alloc(bytes);
  if (!s) return situ__no_memory(op, bytes), NULL;
  *s = (situ__graph_slot){ .of = *of, .storage = of->storage, .data = of->storage->data, .count = (size_t)count };
  collect_uses(op, g, of, s);
  situ__storage_retain(s->storage);
  s->next = g->slots;
  return g->slots = s;
}

static situ__graph_slot *find_slot(const char *op, situ_graph *g, const situ_view_desc *of) {
  for (situ__graph_slot *s = g->slots; s; s = s->next)
    if (same_place(&s->of, of)) return s;
  return make_slot(op, g, of);
}

/* ---- what the memory may be ---- */

static range range_of_slot(const situ__graph_slot *s) {
  return s->wanted ? range_in(s->wanted, s->wanted->storage, 0) : range_in(&s->of, s->storage, s->delta);
}

static SITU_COLD situ_status refuse_overlap(const char *op, const situ__graph_slot *s, const char *what) {
  situ__described d = { "the tensor", "" };
  situ__device_up.describe_storage(s->wanted->storage, &d);
  return situ__fail(SITU_E_ALIAS, op, "%s%s is on memory that %s; pass one on memory of its own", d.what, d.where,
                    what);
}

/* Whether the graph's own use of a place, outside of slots, meets the memory that the slot would get. */
static bool meets_views(const situ_graph *g, const situ__graph_slot *s, const situ_storage *storage) {
  for (const situ__graph_work *k = g->first; k; k = k->next)
    for (size_t i = 0; i < k->views; i++) {
      const situ_view_desc *v = &k->view[i];
      const bool other = v->storage == storage && (s->written || situ__graph_writes(k, v)) && !in_slot(g, v);
      if (other && meet(range_in(v, storage, 0), range_of_slot(s))) return true;
    }
  return false;
}

static situ_status check_memory(const char *op, const situ_graph *g, const situ__graph_slot *s) {
  const situ_storage *to = s->wanted->storage;
  situ__described d = { "the tensor", "" };
  if (to->flags & SITU_STORAGE_READ_ONLY && s->written) {
    situ__device_up.describe_storage(s->wanted->storage, &d);
    return situ__fail(SITU_E_STATE, op, "%s%s is read-only memory, which the graph would write", d.what, d.where);
  }
  for (const situ__graph_slot *t = g->slots; t; t = t->next)
    if (t != s && (s->written || t->written) && meet(range_of_slot(s), range_of_slot(t)))
      return refuse_overlap(op, s, "another tensor of the graph has, one of which is written");
  const bool home = to == s->of.storage && s->wanted->offset == s->of.offset;
  for (size_t i = 0; i < g->shared && !home; i++) {
    const situ__graph_place *p = &g->place[i];
    if (!meet(range_of_slot(s), range_of_storage(p->storage))) continue;
    if (p->made && p->set) return refuse_overlap(op, s, "the graph made, and keeps other values in meanwhile");
    if (meets_views(g, s, p->storage))
      return refuse_overlap(op, s, "the graph uses as another tensor, one of which is written");
  }
  return SITU_OK;
}

static situ_status want(const char *op, situ_graph *g, const situ_view_desc *captured, const situ_view_desc *bound) {
  if (captured->numel == 0) return SITU_OK;
  situ__graph_slot *s = find_slot(op, g, captured);
  if (!s) return situ_error();
  if (s->wanted) return situ__fail(SITU_E_ARG, op, "captured has one tensor twice");
  s->wanted = bound;
  return SITU_OK;
}

static void rebind(situ_graph *g, situ__graph_slot *s) {
  situ_storage *old = s->storage;
  s->storage = s->wanted->storage;
  s->delta = s->wanted->offset - s->of.offset;
  s->data = s->storage->data;
  situ__storage_retain(s->storage);
  for (size_t i = 0; i < s->count; i++) {
    s->use[i].view->storage = s->storage;
    s->use[i].view->offset = s->use[i].offset + s->delta;
  }
  situ__storage_release(old);
  for (situ__graph_span *span = g->span; span < g->span + g->spans; span++) span->stale = span->made != NULL;
}

situ_status situ__graph_rebind(const char *op, situ_graph *g, int64_t count,
                               const situ_view_desc *(*view)(void *payload, int64_t i, bool bound), void *payload) {
  if (!situ__valid(op, "graph", g, SITU__A_GRAPH)) return situ_error();
  SITU__ALONE(in, &g->alone, op, "this graph");
  if (!in) return situ_error();
  if (situ__is_dry()) return situ__dry_blind(op);
  if (situ__graph_recording) return situ__graph_refuse(op, "another graph's memory", "do it before or after");
  situ_status status = SITU_OK;
  for (int64_t i = 0; i < count && status == SITU_OK; i++)
    status = want(op, g, view(payload, i, false), view(payload, i, true));
  for (situ__graph_slot *s = g->slots; s && status == SITU_OK; s = s->next)
    if (s->wanted) status = check_memory(op, g, s);
  for (situ__graph_slot *s = g->slots; s; s = s->next) {
    if (s->wanted && status == SITU_OK) rebind(g, s);
    s->wanted = NULL;
  }
  return status;
}

void situ__graph_free_slots(situ_graph *g) {
  while (g->slots) {
    situ__graph_slot *next = g->slots->next;
    situ__storage_release(g->slots->storage);
    situ__free(g->slots);
    g->slots = next;
  }
}
