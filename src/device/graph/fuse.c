/* Element-wise work that follows each other runs tile by tile on the cpu: each piece's part of a tile, then the next
   tile, so what one piece writes is in L1 when the next one reads it. A tile is a range of the outermost dimension, and
   the kernels are those of the whole, so results have its bits. What only such a group reads lies in a few KiB on the
   stack of the thread that runs a tile.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/pool.h"
#include "base/size.h"
#include "device/graph/parts.h"

enum {
  MOST = 8,          /* pieces of a group */
  OPERANDS = 4,      /* of a piece */
  LEAST = 8192,      /* elements below which all operands stay in near caches anyway */
  TILE = 8192,       /* bytes of an operand's part of a tile, if its rows are not longer */
  GRAIN = 32768,     /* elements that a thread runs at least */
  LONGEST = 32768,   /* bytes of an operand's part of a tile whose rows are longer */
  ALIGNED = 16,      /* elements: tiles are cut where vectors end */
  SCRATCH = 4 * TILE /* bytes for what only the group uses */
};

/* ---- which work ---- */

/* Not in integers: a division by 0 is an error, which belongs to the thread that replays. */
static bool can_be_cut(const situ__graph_work *k) {
  const situ_work *w = &k->work;
  const bool moves = w->verb == SITU_VERB_COPY || w->verb == SITU_VERB_FILL;
  if (k->values || !(situ__graph_is_elementwise(w) || w->verb == SITU_VERB_FILL)) return false;
  return w->out[0]->numel >= LEAST && (moves || situ__dtype_is_floating(w->compute));
}

/* All elements are one. */
static bool is_uniform(const situ_view_desc *v) {
  for (int d = 0; d < v->ndim; d++)
    if (v->size[d] != 1 && v->stride[d] != 0) return false;
  return true;
}

/* Whether all operands can be cut like one row of elements. */
static bool is_flat(const situ__graph_work *k) {
  for (size_t i = 0; i < k->views; i++)
    if (!k->view[i].contiguous && !is_uniform(&k->view[i])) return false;
  return true;
}

/* The outermost dimension that has more than one element. */
static int outermost(const situ_view_desc *v) {
  int d = 0;
  while (d < v->ndim - 1 && v->size[d] == 1) d++;
  return d;
}

/* Elements of the result for each element of the outermost dimension; 1 for a flat one. */
static int64_t unit_of(const situ__graph_work *k) {
  const situ_view_desc *y = k->work.out[0];
  return is_flat(k) ? 1 : y->numel / y->size[outermost(y)];
}

/* Strides along which a tile's elements lie close together. */
static bool is_near(const situ_view_desc *v) {
  const int64_t last = v->stride[v->ndim - 1];
  return last == 0 || last == 1;
}

/* Element i of both is at one place, or will be after the same cut. */
static bool is_same_range(const situ_view_desc *a, const situ_view_desc *b) {
  if (a->offset != b->offset || a->dtype != b->dtype || a->numel != b->numel) return false;
  if (a->contiguous && b->contiguous) return true;
  const size_t bytes = a->ndim * sizeof *a->size;
  return a->ndim == b->ndim && !memcmp(a->size, b->size, bytes) && !memcmp(a->stride, b->stride, bytes);
}

/* Whether v, of a piece that writes y, may be used tile by tile beside what `earlier` does. */
static bool may_interleave(const situ__graph_work *earlier, const situ_view_desc *v, const situ_view_desc *y) {
  for (size_t i = 0; i < earlier->views; i++) {
    const situ_view_desc *other = &earlier->view[i];
    const bool written = v == y || other == earlier->work.out[0];
    if (written && other->storage == v->storage && !is_same_range(other, v)) return false;
  }
  return true;
}

/* Whether k can follow the pieces of the group that begins with `first`. */
static bool may_join(const situ__graph_work *first, const situ__graph_work *k, int64_t unit) {
  const situ_view_desc *y = k->work.out[0];
  if (!can_be_cut(k) || y->numel != first->work.out[0]->numel) return false;
  const int64_t own = unit_of(k);
  if (own != 1 && unit != 1 && own != unit) return false;
  for (size_t i = 0; i < k->views; i++) {
    const situ_view_desc *v = &k->view[i];
    if (!situ__graph_is_plain(v->storage) || (own != 1 && !is_near(v))) return false;
    for (const situ__graph_work *earlier = first; earlier != k; earlier = earlier->next)
      if (!may_interleave(earlier, v, y)) return false;
  }
  return true;
}

/* ---- groups ---- */

static int64_t common(int64_t a, int64_t b) { return b ? common(b, a % b) : a; }

/* Units of a tile. Whole vectors of a flat operand, so that elements meet the same instructions as in one row. */
static int64_t step_of(int64_t unit, int64_t size) {
  const int64_t multiple = ALIGNED / common(ALIGNED, unit), most = TILE / size / unit;
  return most > multiple ? most / multiple * multiple : multiple;
}

static int64_t widest(const situ__graph_work *first, size_t count) {
  int64_t size = 1;
  for (; count--; first = first->next)
    for (size_t i = 0; i < first->views; i++) size = situ__max_i64(size, situ__dtypes[first->view[i].dtype].size);
  return size;
}

/* Gives a place that only the group uses a part of the scratch: views of it have no storage then. */
static bool make_local(situ__graph_work *first, size_t count, const situ_storage *storage, size_t at) {
  situ__graph_work *k = first;
  for (size_t n = 0; n < count; n++, k = k->next)
    for (size_t i = 0; i < k->views; i++)
      if (k->view[i].storage == storage && !k->view[i].contiguous) return false;
  for (k = first; count--; k = k->next)
    for (size_t i = 0; i < k->views; i++)
      if (k->view[i].storage == storage) {
        k->view[i].storage = NULL;
        k->view[i].offset = (int64_t)at / situ__dtypes[k->view[i].dtype].size;
      }
  return true;
}

/* What the group uses lives at least until its end: a tile runs through all pieces before the next one begins. */
static void settle_places(situ_graph *g, situ__graph_work *first, size_t from, size_t to) {
  const situ__graph_tiles *t = &first->tiles;
  size_t used = 0;
  situ__graph_work *k = first;
  for (size_t n = 0; n < t->count; n++, k = k->next) {
    k->scratch.bytes = 0;
    for (size_t i = 0; i < k->views; i++) {
      situ_view_desc *v = &k->view[i];
      if (!v->storage) continue;
      situ__graph_place *p = &g->place[situ__graph_find(g, v->storage)];
      const size_t bytes = (size_t)(t->step * t->unit * situ__dtypes[v->dtype].size + 63) / 64 * 64;
      const bool own = p->temporary && p->first >= from && p->last <= to && used + bytes <= SCRATCH;
      if (own && make_local(first, t->count, p->storage, used)) {
        used += bytes;
        p->local = true;
      } else if (p->last < to) {
        p->last = to;
      }
    }
  }
}

static void drop_local_places(situ_graph *g) {
  size_t kept = 0;
  for (size_t i = 0; i < g->places; i++) {
    if (g->place[i].local) situ__storage_release(g->place[i].storage);
    else g->place[kept++] = g->place[i];
  }
  g->places = kept;
}

static void cut_into_tiles(situ_graph *g, situ__graph_work *first, size_t count, int64_t unit, size_t last) {
  const int64_t size = widest(first, count), step = step_of(unit, size), units = first->work.out[0]->numel / unit;
  if (step * unit * size > LONGEST || 2 * step > units) return;
  first->tiles = (situ__graph_tiles){ count, units, unit, step };
  settle_places(g, first, first->number, last);
}

void situ__graph_fuse(situ_graph *g) {
  if (g->device.kind != SITU_CPU) return;
  for (situ__graph_work *first = g->first; first;) {
    situ__graph_work *k = first, *last = first;
    int64_t unit = 1;
    size_t count = 0;
    for (; k && count < MOST && may_join(first, k, unit); last = k, k = k->next, count++)
      unit = situ__max_i64(unit, unit_of(k));
    if (count > 1) cut_into_tiles(g, first, count, unit, last->number);
    first = count > 1 ? k : first->next;
  }
  drop_local_places(g);
}

/* ---- running ---- */

/* A piece's part of a tile. */
typedef struct part {
  const situ__graph_work *of;
  bool flat;
  situ_work work;
  situ_view_desc view[OPERANDS];
} part;

typedef struct group {
  const situ__graph_work *first;
  const situ_backend *backend;
  situ_status status;
} group;

/* Units [begin, begin + count) of v. */
static void cut(const situ_view_desc *v, bool flat, int64_t unit, int64_t begin, int64_t count, situ_view_desc *to) {
  to->numel = count * unit;
  if (!v->storage) begin = 0;
  if (flat) {
    to->size[0] = to->numel;
    to->offset = v->offset + begin * unit * to->stride[0];
  } else {
    const int d = outermost(v);
    to->size[d] = count;
    to->offset = v->offset + begin * v->stride[d];
  }
}

/* The views that are cut for each tile, with operands in `work` that point to them. */
static void open_part(part *p, const situ__graph_work *k, situ_storage *scratch) {
  p->of = k;
  p->flat = is_flat(k);
  p->work = k->work;
  for (size_t i = 0; i < k->views; i++) {
    situ_view_desc *v = &p->view[i];
    *v = k->view[i];
    if (!v->storage) v->storage = scratch;
    if (!p->flat) continue;
    v->ndim = 1;
    v->stride[0] = v->contiguous;
  }
  for (int i = 0; i < k->work.ins; i++)
    if (k->work.in[i]) p->work.in[i] = p->view + (k->work.in[i] - k->view);
  p->work.out[0] = p->view + (k->work.out[0] - k->view);
}

static void run_tiles(int64_t begin, int64_t end, void *payload) {
  group *all = payload;
  const situ__graph_tiles *t = &all->first->tiles;
  _Alignas(64) char memory[SCRATCH];
  situ_storage scratch = { .data = memory, .bytes = sizeof memory, .device = { .kind = SITU_CPU } };
  part parts[MOST];
  const situ__graph_work *k = all->first;
  for (size_t n = 0; n < t->count; n++, k = k->next) open_part(&parts[n], k, &scratch);
  for (int64_t at = begin, units; at < end; at += units) {
    units = situ__min_i64(t->step, end - at);
    for (part *p = parts; p < parts + t->count; p++) {
      for (size_t i = 0; i < p->of->views; i++) cut(&p->of->view[i], p->flat, t->unit, at, units, &p->view[i]);
      const situ_status status = all->backend->kernel[p->work.verb](0, &p->work);
      if (status != SITU_OK) __atomic_store_n(&all->status, status, __ATOMIC_RELAXED);
    }
  }
}

situ_status situ__graph_run_group(const situ__graph_work *first, const situ_backend *backend) {
  const situ__graph_tiles *t = &first->tiles;
  group all = { first, backend, SITU_OK };
  situ__parallel(t->units, situ__ceil_div(GRAIN, t->unit * t->step) * t->step, run_tiles, &all);
  return all.status;
}
