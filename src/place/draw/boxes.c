/* Lays out the module tree as nested boxes, and groups parts that are too small to draw.
   SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "place/draw/picture.h"

enum { HEADER = 18, PADDING = 3 };

/* A candidate for a box: a part of a module, or a group of small ones. */
typedef struct part {
  double weight; /* square pixels */
  situ__box box;
} part;

static int by_weight(const void *a, const void *b) {
  const part *x = a, *y = b;
  if (x->weight != y->weight) return x->weight > y->weight ? -1 : 1;
  return (x->box.node > y->box.node) - (x->box.node < y->box.node);
}

static int64_t add_box(situ__picture *p, const situ__box *box) {
  if (!situ__grow(p->op, &p->box, &p->capacity, sizeof *p->box, p->count + 1)) return -1;
  p->box[p->count] = *box;
  return p->count++;
}

/* Maps an entry and all of its parts to one box. */
static void show_by(situ__picture *p, int64_t node, int64_t box) {
  for (int64_t i = node; i < p->s->node[node].end; i++) p->box_of[i] = box;
}

/* Smaller parts of an area are grouped, in one box for each device. A group has at least this size: visible, and in a
   large area large enough for a name. */
static double least_part(situ__rect area) {
  double side = area.w < area.h ? area.w : area.h, strip = 0.032 * side;
  if (strip < 3) strip = 3;
  if (strip > 18) strip = 18;
  return side * strip;
}

/* ---- the parts of one module ----------------------------------------------------------------- */

/* The group for small parts on a device; adds one if there is none yet. */
static part *gathering(part *list, int64_t *count, int64_t node, int device) {
  for (int64_t i = 0; i < *count; i++)
    if (list[i].box.parts && list[i].box.device == device) return &list[i];
  list[*count] = (part){ .box = { .node = node, .device = device } };
  return &list[(*count)++];
}

/* Lists the parts of a module that get boxes; scale: square pixels for each byte; least: minimum area of a box. Returns
   their number. */
static int64_t list_parts(situ__picture *p, int64_t module, double scale, double least, part *list) {
  const situ_snapshot *s = p->s;
  int64_t count = 0;
  /* Small parts first, so that groups are at the front of the list. */
  for (int small = 1; small >= 0; small--) {
    for (int64_t k = module + 1; k < s->node[module].end; k = s->node[k].end) {
      uint64_t bytes = s->node[k].entry.bytes;
      double weight = (double)bytes * scale;
      if (!bytes || (weight < least) != small) continue;
      situ__place_sum sum[SITU__PLACES];
      int first = s->node[k].device, devices = first >= 0 ? 1 : situ__place_spread(s, k, sum, &first);
      if (!small) {
        list[count++] = (part){ weight, { .node = k, .bytes = bytes, .device = devices > 1 ? -1 : first } };
        continue;
      }
      for (int d = first; d < s->devices; d++) {
        uint64_t here = devices == 1 ? (d == first ? bytes : 0) : sum[d].bytes;
        if (!here) continue;
        part *g = gathering(list, &count, k, d);
        g->box.bytes += here;
        g->box.parts++;
      }
    }
  }
  for (int64_t i = 0; i < count && list[i].box.parts; i++) {
    list[i].weight = (double)list[i].box.bytes * scale;
    if (list[i].weight < least) {
      list[i].weight = least;
      p->enlarged = true;
    }
    /* A group of one part is that part. */
    if (list[i].box.parts == 1 && list[i].box.bytes == s->node[list[i].box.node].entry.bytes) list[i].box.parts = 0;
  }
  qsort(list, (size_t)count, sizeof *list, by_weight);
  return count;
}

/* ---- boxes in boxes -------------------------------------------------------------------------- */

static bool cut(situ__picture *p, int64_t module, situ__rect area);

/* Lays out a module's box: its frame, its header if that fits, and its parts. */
static bool fill(situ__picture *p, int64_t number) {
  situ__box *box = &p->box[number];
  situ__rect in = box->at;
  bool has_header = in.w > 56 && in.h > 40;
  double padding = in.w > 20 && in.h > 20 ? PADDING : 1;
  /* A box too small for a header, and on one device, gets a name instead of parts. */
  if (!has_header && box->device >= 0) return true;
  box->container = true;
  box->header = has_header ? HEADER : 0;
  double top = has_header ? HEADER : padding;
  in = (situ__rect){ in.x + padding, in.y + top, in.w - 2 * padding, in.h - top - padding };
  if (in.w < 2 || in.h < 2) {
    box->container = false;
    return true;
  }
  return cut(p, box->node, in);
}

static bool place(situ__picture *p, const part *list, int64_t count, const situ__rect *at) {
  for (int64_t i = 0; i < count; i++) {
    const situ__snapshot_node *node = &p->s->node[list[i].box.node];
    int64_t number = add_box(p, &list[i].box);
    if (number < 0) return false;
    situ__box *box = &p->box[number];
    box->at = at[i];
    p->dashed |= node->entry.role == SITU_PLACE_BUFFER || node->entry.role == SITU_PLACE_TRANSIENT;
    if (box->parts) continue;
    show_by(p, box->node, number);
    if (node->device < 0 && !fill(p, number)) return false;
  }
  return true;
}

/* Maps each entry without a box to the group on its device, and a module to its first part's group. */
static void assign_small(situ__picture *p, int64_t module, int64_t first_box, int64_t own) {
  const situ_snapshot *s = p->s;
  for (int64_t k = s->node[module].end - 1; k > module; k--) {
    if (p->box_of[k] != own) continue;
    if (s->node[k].device < 0 && s->node[k].end > k + 1) p->box_of[k] = p->box_of[k + 1];
    for (int64_t b = first_box; b < p->count && s->node[k].device >= 0; b++)
      if (p->box[b].parts && p->box[b].device == s->node[k].device) p->box_of[k] = b;
  }
}

static bool cut(situ__picture *p, int64_t module, situ__rect area) {
  const situ_snapshot *s = p->s;
  int64_t children = 0, own = p->box_of[module], first = p->count;
  for (int64_t k = module + 1; k < s->node[module].end; k = s->node[k].end) children++;
  size_t capacity = (size_t)children + (size_t)s->devices;
  part *list = situ__calloc(capacity, sizeof *list);
  situ__rect *at = situ__calloc(capacity, sizeof *at);
  double *weight = situ__calloc(capacity, sizeof *weight);
  bool fine = list && at && weight;
  if (!fine) situ__no_memory(p->op, capacity * (sizeof *list + sizeof *at + sizeof *weight));
  if (fine && s->node[module].entry.bytes) {
    double scale = area.w * area.h / (double)s->node[module].entry.bytes;
    int64_t count = list_parts(p, module, scale, least_part(area), list);
    for (int64_t i = 0; i < count; i++) weight[i] = list[i].weight;
    situ__squarify(weight, count, area, at);
    fine = place(p, list, count, at);
    assign_small(p, module, first, own);
  }
  situ__free(list);
  situ__free(at);
  situ__free(weight);
  return fine;
}

bool situ__boxes(situ__picture *p, situ__rect area) {
  size_t bytes = ((size_t)p->s->count + 1) * sizeof *p->box_of;
  p->box_of = situ__alloc(bytes);
  if (!p->box_of) return situ__no_memory(p->op, bytes), false;
  for (int64_t i = 0; i < p->s->count; i++) p->box_of[i] = -1; /* the whole model */
  return p->s->count == 0 || cut(p, 0, area);
}
