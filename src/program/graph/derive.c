/* What a program keeps of its parameters.
   SPDX-License-Identifier: MIT */
#include "derive.h"

#include <string.h>

#include "base/alloc.h"
#include "base/mutex.h"
#include "build.h"
#include "situ/sys/op.h"
#include "situ/sys/plain.h"

/* ---- what lasts ---- */

typedef struct search {
  situ__program *program;
  bool *lasts, *part, *used; /* of each value: it lasts; it depends on a part; a node that does not last uses it */
} search;

/* Whether an argument lasts; *part turns true if it depends on a part. */
static bool arg_lasts(const search *s, const situ__arg *a, bool *part) {
  bool lasts = true;
  if (a->kind == SITU__ARG_LIST)
    for (int32_t i = 0; i < a->count && lasts; i++) lasts = arg_lasts(s, &a->list[i], part);
  if (a->kind != SITU__ARG_VALUE) return lasts;
  *part = *part || s->part[a->integer];
  return s->lasts[a->integer];
}

static void mark_arg(bool *mark, const situ__arg *a) {
  if (a->kind == SITU__ARG_VALUE) mark[a->integer] = true;
  if (a->kind == SITU__ARG_LIST)
    for (int32_t i = 0; i < a->count; i++) mark_arg(mark, &a->list[i]);
}

static void mark_node(const search *s, situ__program_node *n) {
  const int count = situ__op_row_args(n->row);
  bool part = false, lasts = n->row->folds && !n->counts && !n->guard;
  for (int k = 0; k < count && lasts; k++) lasts = arg_lasts(s, &n->arg[k], &part);
  n->lasting = lasts && part;
  for (int32_t i = 0; i < n->outs && n->lasting; i++)
    if (n->out[i] >= 0) s->lasts[n->out[i]] = s->part[n->out[i]] = true;
  for (int k = 0; k < count && !n->lasting; k++) mark_arg(s->used, &n->arg[k]);
  part = false;
  lasts = n->row->prepacked > 0;
  for (int k = 1; k <= n->row->prepacked && lasts; k++) lasts = arg_lasts(s, &n->arg[k], &part);
  if (lasts && part) n->prepacked = ++s->program->prepacked_nodes;
}

static bool writes_in_place(const situ__program *p) {
  for (int32_t i = 0; i < p->nodes; i++)
    if (p->node[i].row->in_place) return true;
  return false;
}

static void list_kept(search *s) {
  situ__program *p = s->program;
  int32_t *kept = situ__arena_take(&p->arena, (size_t)p->values + 1, sizeof *kept);
  int32_t *source = situ__arena_take(&p->arena, (size_t)p->parts + 1, sizeof *source);
  if (!kept || !source) return;
  for (int32_t i = 0; i < p->nodes; i++)
    for (int32_t k = 0; k < p->node[i].outs && p->node[i].lasting; k++)
      if (p->node[i].out[k] >= 0 && s->used[p->node[i].out[k]]) kept[p->kepts++] = p->node[i].out[k];
  p->kept = kept;
  memset(s->used, 0, (size_t)p->values);
  for (int32_t i = 0; i < p->nodes; i++) {
    const situ__program_node *n = &p->node[i];
    const int first = n->prepacked && !n->lasting, last = n->lasting     ? situ__op_row_args(n->row)
                                                          : n->prepacked ? n->row->prepacked + 1
                                                                         : 0;
    for (int k = first; k < last; k++) mark_arg(s->used, &n->arg[k]);
  }
  for (int32_t i = 0; i < p->parts; i++)
    if (s->used[p->part[i].value]) source[p->sources++] = i;
  p->source = source;
}

bool situ__program_find_lasting(situ__program *p) {
  const size_t count = (size_t)p->values + 1;
  bool *memory = situ__calloc(3 * count, sizeof *memory);
  if (!memory) return false;
  search s = { p, memory, memory + count, memory + 2 * count };
  for (int32_t i = 0; i < p->parts; i++) s.lasts[p->part[i].value] = s.part[p->part[i].value] = true;
  for (int32_t i = 0; i < p->constants; i++) s.lasts[p->constant[i].value] = true;
  for (int32_t i = 0; i < p->writes; i++) s.lasts[p->write[i].to] = false;
  /* A write in place could reach what is kept through a view. */
  const bool possible = !writes_in_place(p);
  for (int32_t i = 0; i < p->nodes && possible; i++) mark_node(&s, &p->node[i]);
  for (int32_t i = 0; i < p->outs; i++) mark_arg(s.used, &p->out[i].leaf);
  for (int32_t i = 0; i < p->writes; i++) s.used[p->write[i].from] = true;
  if (possible) list_kept(&s);
  situ__free(memory);
  return !possible || (p->kept && p->source);
}

/* ---- sources ---- */

/* What tells one value of a part from another. */
typedef struct situ__part_state {
  uint64_t serial;
  const void *data;
  uint32_t version;
  situ_view_desc view;
} source;

/* Returns false for a part that may change unseen. */
static bool read_source(situ_tensor *t, source *out) {
  const situ_view_desc *d = situ_desc(t);
  if (!d) return false;
  const situ_storage *s = d->storage;
  const uint32_t flags = __atomic_load_n(&s->flags, __ATOMIC_RELAXED);
  const bool foreign = flags & SITU_STORAGE_FOREIGN && !(flags & SITU_STORAGE_MAPPED);
  if (foreign || flags & (SITU_STORAGE_EXPOSED | SITU_STORAGE_LEASED | SITU_STORAGE_SLICE | SITU_STORAGE_SAMPLE |
                          SITU_STORAGE_AWAY))
    return false;
  *out = (source){ s->serial, s->data, __atomic_load_n(&s->version, __ATOMIC_RELAXED), *d };
  return s->device.kind != SITU_META;
}

static bool is_same(const source *a, const source *b) {
  bool same = a->serial == b->serial && a->data == b->data && a->version == b->version &&
              a->view.offset == b->view.offset && a->view.dtype == b->view.dtype && a->view.ndim == b->view.ndim;
  for (int d = 0; d < a->view.ndim && same; d++)
    same = a->view.size[d] == b->view.size[d] && a->view.stride[d] == b->view.stride[d];
  return same;
}

/* ---- what a module keeps ---- */

struct situ__derived {
  situ__mutex lock;
  int32_t tensors; /* 0: nothing is kept */
  situ_tensor **tensor;
  source *source;
};

static int32_t count_tensors(const situ__program *p) { return p->kepts + p->prepacked_nodes * SITU__PREPACKED_MOST; }

static void drop_tensors(situ_tensor **tensor, int32_t count) {
  for (int32_t i = 0; i < count && tensor; i++) situ_drop(&tensor[i]);
  situ__free(tensor);
}

situ__derived *situ__derived_new(void) {
  situ__derived *d = situ__calloc(1, sizeof *d);
  if (d) situ__mutex_init(&d->lock);
  return d;
}

void situ__derived_free(situ__derived *d) {
  if (!d) return;
  drop_tensors(d->tensor, d->tensors);
  situ__free(d->source);
  situ__mutex_destroy(&d->lock);
  situ__free(d);
}

/* ---- a run ---- */

static void take_kept(situ__deriving *r, situ__value *value) {
  const situ__program *p = r->program;
  situ__derived *d = r->derived;
  situ__mutex_lock(&d->lock);
  bool hit = d->tensors > 0;
  for (int32_t i = 0; i < p->sources && hit; i++) hit = is_same(&d->source[i], &r->source[i]);
  for (int32_t i = 0; i < d->tensors && hit; i++)
    if (d->tensor[i]) hit = situ_set(&r->tensor[i], d->tensor[i]);
  situ__mutex_unlock(&d->lock);
  for (int32_t i = 0; i < p->kepts && hit; i++) hit = situ_set(&value[p->kept[i]].tensor, r->tensor[i]);
  r->hit = hit;
}

void situ__deriving_begin(situ__deriving *r, const situ__program *p, situ__derived *d, situ__value *value) {
  *r = (situ__deriving){ .program = p };
  const int32_t count = count_tensors(p);
  if (!d || !count || !situ_is_plain()) return;
  r->source = situ__calloc((size_t)p->sources + 1, sizeof *r->source);
  r->tensor = situ__calloc((size_t)count, sizeof *r->tensor);
  bool good = r->source && r->tensor;
  for (int32_t i = 0; i < p->sources && good; i++)
    good = read_source(value[p->part[p->source[i]].value].tensor, &r->source[i]);
  if (good) {
    r->derived = d;
    take_kept(r, value);
    return;
  }
  situ__free(r->source);
  situ__free(r->tensor);
}

void situ__deriving_note(situ__deriving *r, const situ__program_node *n, const situ__value *value) {
  const situ__program *p = r->program;
  for (int32_t k = 0; k < n->outs; k++)
    if (r->noted < p->kepts && p->kept[r->noted] == n->out[k])
      (void)situ_set(&r->tensor[r->noted++], value[n->out[k]].tensor);
}

/* Whether no source has changed since the run began. */
static bool is_current(const situ__deriving *r, situ_nn_module *root) {
  const situ__program *p = r->program;
  source now;
  for (int32_t i = 0; i < p->sources; i++)
    if (!read_source(situ_nn_get_tensor(root, p->part[p->source[i]].path), &now) || !is_same(&now, &r->source[i]))
      return false;
  return true;
}

void situ__deriving_end(situ__deriving *r, situ_nn_module *root, bool good) {
  if (!r->derived) return;
  situ__derived *d = r->derived;
  const int32_t count = count_tensors(r->program);
  for (int32_t i = 0; i < r->program->kepts && good; i++) good = r->tensor[i] != NULL;
  situ_tensor **old = r->tensor;
  int32_t olds = count;
  source *old_source = r->source;
  if (good && !r->hit && is_current(r, root)) {
    situ__mutex_lock(&d->lock);
    old = d->tensor, olds = d->tensors, old_source = d->source;
    d->tensor = r->tensor, d->tensors = count, d->source = r->source;
    situ__mutex_unlock(&d->lock);
  }
  drop_tensors(old, olds);
  situ__free(old_source);
}
