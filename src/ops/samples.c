/* Samples and their wholes. See samples.h.
   SPDX-License-Identifier: MIT */
#include "ops/samples.h"

#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/size.h"
#include "ops/ops.h"

/* What a sample's storage knows. */
typedef struct situ__samples_part {
  situ_storage *storage;
  situ__samples *level; /* NULL: it has ended */
  situ_tensor *whole;   /* owned */
  int64_t stride;       /* elements between samples; 0: all are the same */
  struct situ__samples_part *next, **link;
} situ__samples_part;

static situ__samples_part *part_of(const situ_tensor *t) {
  return situ__is_sample(t) ? t->view.storage->payload : NULL;
}

void situ__samples_begin(situ__samples *s, int64_t count) {
  *s = (situ__samples){
    .outer = situ__sampling, .count = count, .begin = situ__storage_newest(), .records = situ__recording()
  };
  situ__sampling = s;
}

/* ---- parts ---- */

static void unlink_part(situ__samples_part *p) {
  if (!p->level) return;
  *p->link = p->next;
  if (p->next) p->next->link = p->link;
  p->level = NULL;
}

static void release_part(void *payload) {
  situ__samples_part *p = payload;
  unlink_part(p);
  situ_release(p->whole);
  situ__free(p);
}

void situ__samples_end(situ__samples *s) {
  situ__sampling = s->outer;
  while (s->parts) {
    situ__samples_part *p = s->parts;
    unlink_part(p);
    p->storage->device = (situ_device){ SITU_META, 0 };
    situ_drop(&p->whole);
  }
}

static situ__samples_part *new_part(const char *op, situ__samples *s, situ_tensor *whole, int64_t stride) {
  situ__samples_part *p = situ__alloc(sizeof *p);
  if (!p) return situ__no_memory(op, sizeof *p), NULL;
  *p = (situ__samples_part){
    .level = s, .whole = situ_retain(whole), .stride = stride, .next = s->parts, .link = &s->parts
  };
  if (p->next) p->next->link = &p->next;
  s->parts = p;
  return p;
}

situ_tensor *situ__sample_of(const char *op, situ__samples *s, situ_tensor *whole) {
  const situ_storage *memory = whole->view.storage;
  situ__samples_part *p = new_part(op, s, whole, whole->view.stride[0]);
  situ_storage *storage = p ? situ__storage_sample(op, memory->device, memory->bytes) : NULL;
  if (!storage) {
    if (p) release_part(p);
    return NULL;
  }
  storage->release = release_part;
  storage->payload = p;
  p->storage = storage;
  situ_view_desc v = whole->view;
  v.storage = storage;
  v.ndim--;
  memmove(v.size, v.size + 1, sizeof v.size - sizeof *v.size);
  memmove(v.stride, v.stride + 1, sizeof v.stride - sizeof *v.stride);
  situ_desc_refresh(&v);
  situ_tensor *t = situ__tensor_view(op, &v);
  situ__storage_release(storage);
  return t;
}

bool situ__samples_shape(const char *op, const situ_shape *shape, int64_t count, situ_shape *out) {
  if (shape->ndim >= SITU_MAX_DIMS)
    return situ__fail(SITU_E_LIMIT, op, "%d dimensions and that of situ_func_vmap: a tensor has at most %d",
                      shape->ndim, SITU_MAX_DIMS),
           false;
  *out = (situ_shape){ .ndim = shape->ndim + 1, .dim = { count } };
  memcpy(out->dim + 1, shape->dim, sizeof *shape->dim * (size_t)shape->ndim);
  return true;
}

situ_tensor *situ__samples_repeat(const char *op, situ_tensor *t, int64_t count) {
  if (!t) return NULL;
  const situ_shape one = situ__shape(&t->view);
  situ_shape shape;
  return situ__samples_shape(op, &one, count, &shape) ? situ_expand(t, shape) : NULL;
}

situ_tensor *situ__sample_constant(const char *op, situ_tensor *t) {
  situ__samples *s = situ__sampling;
  if (!s || (part_of(t) && part_of(t)->level == s)) return t;
  situ__sampling = s->outer;
  situ_tensor *whole = situ__samples_repeat(op, situ_detach(t), s->count);
  situ__sampling = s;
  return whole ? situ__sample_of(op, s, whole) : NULL;
}

/* ---- wholes ---- */

/* Whether a view of the whole's elements, at v's place in each sample, is inside of the whole's memory. */
static bool is_inside(const situ_view_desc *v) {
  int64_t first, last;
  const int64_t held = (int64_t)(v->storage->bytes / situ_dtype_size((situ_dtype)v->dtype));
  return !situ__desc_range(v, &first, &last) || (first >= 0 && last < held) || v->storage->device.kind == SITU_META;
}

/* The view of p's whole that shows what `t` shows, in each sample. */
static situ_tensor *view_of_whole(const char *op, const situ__samples_part *p, const situ_tensor *t, int64_t count) {
  situ_tensor *whole = p->whole;
  const situ_shape one = situ__shape(&t->view);
  situ_view_desc v = t->view;
  situ_shape shape;
  if (!p->stride) {
    if (!(whole = situ_select(whole, 0, 0))) return NULL;
  } else if (situ__samples_shape(op, &one, count, &shape)) {
    memcpy(v.size, shape.dim, sizeof v.size);
    memmove(v.stride + 1, v.stride, sizeof v.stride - sizeof *v.stride);
    v.stride[0] = p->stride;
    v.ndim = (uint8_t)shape.ndim;
    situ_desc_refresh(&v);
  } else {
    return NULL;
  }
  v.storage = whole->view.storage;
  if (situ__same_place(&v, &whole->view)) return whole;
  if (v.dtype != whole->view.dtype || !is_inside(&v))
    return situ__fail(SITU_E_UNSUPPORTED, op, "a view of a sample as another dtype, or beyond the sample"), NULL;
  if (!p->level->records) return situ__tensor_view(op, &v);
  situ_shape strides = { .ndim = v.ndim };
  memcpy(strides.dim, v.stride, sizeof strides.dim);
  return situ_as_strided(whole, situ__shape(&v), strides, v.offset);
}

bool situ__sample_differs(const situ__samples *s, const situ_tensor *t) {
  const situ__samples_part *p = part_of(t);
  return p && p->level == s && p->stride != 0;
}

situ_tensor *situ__whole_of(const char *op, situ__samples *s, situ_tensor *t, bool *batched) {
  const situ__samples_part *p = part_of(t);
  *batched = situ__sample_differs(s, t);
  return p && p->level == s ? view_of_whole(op, p, t, s->count) : t;
}

/* All elements of t's storage, or of the one that holds t's samples, as a vector. */
static situ_tensor *all_elements(const char *op, const situ_tensor *t, situ_storage *memory) {
  situ_view_desc v = { .storage = memory, .dtype = t->view.dtype };
  const situ_shape shape = SITU_SHAPE((int64_t)(memory->bytes / situ_dtype_size((situ_dtype)t->view.dtype)));
  return situ__desc_rows(op, &shape, &v) ? situ__tensor_view(op, &v) : NULL;
}

/* Copies of the memory, one for each sample. */
static situ_tensor *copies_of(const char *op, const situ__samples *s, const situ_tensor *t, situ_storage *memory) {
  if (situ__holds_some(memory)) situ__fill(memory); /* which parts is not known of each sample */
  const bool written = situ__is_filled(memory);
  situ_tensor *flat = all_elements(op, t, memory);
  if (!flat || !(flat = situ__samples_repeat(op, flat, s->count))) return NULL;
  if (written) return situ_clone(flat);
  const situ_shape shape = situ__shape(&flat->view);
  return situ__tensor_new(op, &shape, (situ_dtype)t->view.dtype, memory->device);
}

bool situ__sample_split(const char *op, situ__samples *s, situ_tensor *t) {
  situ_storage *storage = t->view.storage;
  situ__samples_part *p = part_of(t);
  const situ_tensor *owner = t->base ? t->base : t;
  situ_storage *memory = p ? p->whole->view.storage : storage;
  if (!situ__storage_since(p ? memory : storage, s->begin) || (s->records && owner->requires_grad && !p) ||
      storage->links || storage->slots || memory->flags & (SITU_STORAGE_FOREIGN | SITU_STORAGE_SLICE)) {
    const char *name = situ_name(t);
    return situ__fail(
               SITU_E_UNSUPPORTED, op,
               "%s is the same for all samples of situ_func_vmap, and cannot be written in place with one sample's "
               "values; use the call that is not in place",
               *name ? name : "the tensor"),
           false;
  }
  situ_scope scope;
  situ__samples *inner = situ__sampling;
  situ__sampling = s->outer;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *whole = copies_of(op, s, t, memory);
  const int64_t stride = whole ? whole->view.stride[0] : 0;
  bool good = whole != NULL;
  if (good && p) {
    good = situ_set(&p->whole, whole);
    p->stride = stride;
  } else if (good && (p = new_part(op, s, whole, stride))) {
    p->storage = storage;
    situ__storage_become_sample(storage, release_part, p);
  }
  good = situ_scope_end(&scope) == SITU_OK && good && p;
  situ__sampling = inner;
  return good;
}

SITU__THREAD_LOCAL situ__units situ__directions;

bool situ__is_identity(const situ_tensor *t) {
  const situ_view_desc *v = &t->view;
  const situ__units *units = &situ__directions;
  return v->storage == units->storage && v->ndim == 2 && v->size[0] == v->size[1] && v->contiguous && !v->offset &&
         !t->requires_grad && __atomic_load_n(&v->storage->version, __ATOMIC_RELAXED) == units->version;
}

situ__samples *situ__samples_level(situ_tensor *const *in, int ins) {
  for (situ__samples *s = situ__sampling; s; s = s->outer)
    for (int i = 0; i < ins; i++)
      if (part_of(in[i]) && part_of(in[i])->level == s) return s;
  return NULL;
}

situ_tensor *situ__all_samples(const char *op, situ_tensor *t) {
  bool batched;
  while (t && situ__is_sample(t)) {
    situ__samples *s = situ__samples_level(&t, 1);
    if (!s) return (void)situ__refuse_sample(op, t->view.storage), NULL;
    t = situ__whole_of(op, s, t, &batched);
  }
  return t;
}
