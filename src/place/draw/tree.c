/* Moves trees to another device: tensors that share memory share it there, too.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "place/place.h"
#include "situ/sys/shape.h"

/* By storage: the first tensor on it, and a copy of the whole storage if several tensors share it. By tensor: its
   copy. */
typedef struct going {
  situ_device to;
  situ__map tensors; /* tensor -> its copy */
  situ__map seen;    /* storage -> the first tensor on it */
  situ__map shared;  /* storage -> a copy of all its elements, 1-D */
} going;

static bool stays(const going *g, const situ_tensor *t) { return situ_device_equal(situ_device_of(t), g->to); }

/* All elements of t's storage, 1-D. */
static situ_tensor *whole(situ_tensor *t) {
  const situ_storage *s = situ_desc(t)->storage;
  int64_t count = (int64_t)(s->bytes / situ_dtype_size(situ_dtype_of(t)));
  return situ_as_strided(t, SITU_SHAPE(count), SITU_SHAPE(1), 0);
}

/* First pass: copies storages that several tensors share as a whole. */
static situ_status find_shared(const char *path, situ_tensor *t, void *payload) {
  (void)path;
  going *g = payload;
  const situ_storage *s = situ_desc(t)->storage;
  if (stays(g, t)) return SITU_OK;
  situ_tensor *first = situ__map_get(&g->seen, s);
  if (!first) return situ__map_put(&g->seen, s, t) ? SITU_OK : situ__no_memory("tree_to", sizeof(void *));
  bool same = situ_dtype_of(first) == situ_dtype_of(t);
  if (first == t || !same || situ__map_get(&g->shared, s)) return SITU_OK;
  situ_tensor *copy = situ_to(whole(t), g->to);
  if (!copy) return situ_error();
  return situ__map_put(&g->shared, s, copy) ? SITU_OK : situ__no_memory("tree_to", sizeof(void *));
}

/* Second pass: copies tensors, or makes views of the copied storages. */
static situ_tensor *send(situ_tensor *t, void *payload) {
  going *g = payload;
  if (stays(g, t)) return t;
  situ_tensor *done = situ__map_get(&g->tensors, t), *all;
  if (done) return done;
  if ((all = situ__map_get(&g->shared, situ_desc(t)->storage)) && situ_dtype_of(all) == situ_dtype_of(t)) {
    situ_shape strides = situ_shape_of(t);
    for (int d = 0; d < strides.ndim; d++) strides.dim[d] = situ_stride(t, d);
    done = situ_as_strided(all, situ_shape_of(t), strides, situ_storage_offset(t));
  } else {
    done = situ_to(t, g->to);
  }
  if (done && !situ__map_put(&g->tensors, t, done)) return situ__no_memory("tree_to", sizeof(void *)), NULL;
  return done;
}

situ_tree *situ_tree_to(const situ_tree *tree, situ_device device) {
  if (!tree) return situ__null("tree_to", "tree"), NULL;
  going g = { .to = device.kind ? device : situ_get_default_device() };
  situ_scope scope;
  situ_scope_begin(&scope); /* the tree owns the copies */
  situ_tree *result = situ_tree_each(tree, find_shared, &g) == SITU_OK ? situ_tree_map(tree, send, &g) : NULL;
  situ_status status = situ_scope_end(&scope);
  situ__map_free(&g.tensors);
  situ__map_free(&g.seen);
  situ__map_free(&g.shared);
  if (status == SITU_OK) return result;
  situ_tree_free(result);
  return NULL;
}
