/* Moves trees to other devices: tensors that share memory share it there, too.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/map.h"
#include "place/place.h"
#include "situ/sys/shape.h"

typedef struct going {
  const char *op;
  situ_device to;
  situ__device_map map;    /* instead of `to` */
  situ__map rules;         /* storage -> its rule, or `none` */
  situ__map tensors;       /* tensor -> its copy; itself: it is listed */
  situ__map seen;          /* storage -> the first tensor on it */
  situ__map shared;        /* storage that several tensors share -> all its elements, 1-D */
  situ_move_request *list; /* of each tensor that is copied */
  int64_t count, capacity;
} going;

static const situ__map_rule none; /* of what matches no pattern */

static situ_device target_of(const going *g, const situ_tensor *t) {
  const situ__map_rule *rule = g->map.count ? situ__map_get(&g->rules, situ_desc(t)->storage) : NULL;
  return g->map.count ? rule->device : g->to;
}

static bool stays(const going *g, const situ_tensor *t) {
  const situ_device to = target_of(g, t);
  return !to.kind || situ_device_equal(situ_device_of(t), to);
}

/* Chooses the rule of a tensor's storage. Returns false after recording an error. */
static bool choose(going *g, const char *path, const situ_tensor *t) {
  const situ_storage *s = situ_desc(t)->storage;
  const situ__map_rule *found = situ__device_map_find(&g->map, path), *old = situ__map_get(&g->rules, s);
  char name[2][SITU_DEVICE_NAME_MAX];
  if (!found) found = &none;
  if (!old && situ__map_put(&g->rules, s, (void *)(uintptr_t)found)) return true;
  if (!old) return situ__no_memory(g->op, sizeof s), false;
  if (situ_device_equal(old->device, found->device)) return true;
  const situ_device a = old->device.kind ? old->device : s->device, b = found->device.kind ? found->device : s->device;
  return situ__fail(SITU_E_ARG, g->op, "%s shares its memory with a tensor before it: they cannot be on %s and %s",
                    path, situ_device_name(b, name[0]), situ_device_name(a, name[1])),
         false;
}

/* All elements of t's storage, 1-D. */
static situ_tensor *whole(situ_tensor *t) {
  const situ_storage *s = situ_desc(t)->storage;
  int64_t count = (int64_t)(s->bytes / situ_dtype_size(situ_dtype_of(t)));
  return situ_as_strided(t, SITU_SHAPE(count), SITU_SHAPE(1), 0);
}

static bool put(const going *g, situ__map *map, const void *key, void *value) {
  if (situ__map_put(map, key, value)) return true;
  return situ__no_memory(g->op, sizeof(void *)), false;
}

/* First pass: finds storages that several tensors share. */
static situ_status find_shared(const char *path, situ_tensor *t, void *payload) {
  going *g = payload;
  const situ_storage *s = situ_desc(t)->storage;
  if (g->map.count && !choose(g, path, t)) return situ_error();
  if (stays(g, t)) return SITU_OK;
  situ_tensor *first = situ__map_get(&g->seen, s), *all;
  if (!first) return put(g, &g->seen, s, t) ? SITU_OK : situ_error();
  /* Gradients flow through each tensor by itself. */
  const bool records = situ_is_grad_enabled() && (situ_requires_grad(first) || situ_requires_grad(t));
  bool same = situ_dtype_of(first) == situ_dtype_of(t) && !records;
  if (first == t || !same || situ__map_get(&g->shared, s)) return SITU_OK;
  return (all = whole(t)) && put(g, &g->shared, s, all) ? SITU_OK : situ_error();
}

/* The tensor whose copy serves t: itself, or its shared storage. */
static situ_tensor *source_of(const going *g, situ_tensor *t) {
  situ_tensor *all = situ__map_get(&g->shared, situ_desc(t)->storage);
  const bool records = situ_is_grad_enabled() && situ_requires_grad(t);
  return all && !records && situ_dtype_of(all) == situ_dtype_of(t) ? all : t;
}

/* Second pass: lists what is copied, once. */
static situ_status list_source(const char *path, situ_tensor *t, void *payload) {
  going *g = payload;
  situ_tensor *source = source_of(g, t);
  (void)path;
  if (stays(g, t) || situ__map_get(&g->tensors, source)) return SITU_OK;
  if (!situ__grow(g->op, &g->list, &g->capacity, sizeof *g->list, g->count + 1)) return situ_error();
  g->list[g->count++] = (situ_move_request){ .tensor = source, .to = target_of(g, t) };
  return put(g, &g->tensors, source, source) ? SITU_OK : situ_error();
}

static bool copy_listed(going *g) {
  situ_tensor **copies = situ__alloc((size_t)g->count * sizeof(void *) + 1);
  if (!copies) return situ__no_memory(g->op, (size_t)g->count * sizeof(void *)), false;
  bool good = situ_copy_together(g->op, g->list, g->count, copies) == SITU_OK;
  for (int64_t i = 0; good && i < g->count; i++) {
    situ_tensor *copy = copies[i] ? copies[i] : situ_to(g->list[i].tensor, g->list[i].to);
    good = copy && put(g, &g->tensors, g->list[i].tensor, copy);
  }
  situ__free(copies);
  return good;
}

/* Third pass: each tensor's copy, or the view of its storage's copy. */
static situ_tensor *send(situ_tensor *t, void *payload) {
  going *g = payload;
  if (stays(g, t)) return t;
  situ_tensor *done = situ__map_get(&g->tensors, t);
  if (done) return done;
  situ_shape strides = situ_shape_of(t);
  for (int d = 0; d < strides.ndim; d++) strides.dim[d] = situ_stride(t, d);
  done =
      situ_as_strided(situ__map_get(&g->tensors, source_of(g, t)), situ_shape_of(t), strides, situ_storage_offset(t));
  return done && put(g, &g->tensors, t, done) ? done : NULL;
}

static situ_tree *send_all(const situ_tree *tree, going *g) {
  situ_scope scope;
  situ_scope_begin(&scope); /* the tree owns the copies */
  const bool good = situ_tree_each(tree, find_shared, g) == SITU_OK &&
                    situ__device_map_used(g->op, &g->map, "tensor") == SITU_OK &&
                    situ_tree_each(tree, list_source, g) == SITU_OK;
  situ_tree *result = good && copy_listed(g) ? situ_tree_map(tree, send, g) : NULL;
  situ_status status = situ_scope_end(&scope);
  situ__free(g->list);
  situ__map_free(&g->tensors);
  situ__map_free(&g->seen);
  situ__map_free(&g->shared);
  situ__map_free(&g->rules);
  if (status == SITU_OK) return result;
  situ_tree_free(result);
  return NULL;
}

situ_tree *situ_tree_to(const situ_tree *tree, situ_device device) {
  if (!tree) return situ__null("tree_to", "tree"), NULL;
  return send_all(tree, &(going){ .op = "tree_to", .to = device.kind ? device : situ_get_default_device() });
}

situ_tree *situ_tree_to_map(const situ_tree *tree, const char *map) {
  going g = { .op = "tree_to_map" };
  if (!tree) return situ__null(g.op, "tree"), NULL;
  if (!map) return situ__null(g.op, "map"), NULL;
  situ_tree *result = situ__device_map_parse(g.op, map, &g.map) ? send_all(tree, &g) : NULL;
  situ__device_map_free(&g.map);
  return result;
}
