/* Calls in place, in a model whose tensors do not change: a write makes a new tensor of the memory, and
   values that are views of it are computed of that when they are used next.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "write.h"

enum { MOST_PLACES = 1 << 26 }; /* each is 8 bytes in the model */

static bool is_whole(const situ__inferred *v) {
  int64_t step = 1;
  for (int d = v->size.ndim - 1; d >= 0; d--) {
    if (v->size.dim[d] != 1 && v->stride.dim[d] != step) return false;
    step *= v->size.dim[d];
  }
  return v->offset == 0 && step == v->elements;
}

static bool is_same_place(const situ__inferred *a, const situ__inferred *b) {
  if (a->offset != b->offset || a->size.ndim != b->size.ndim || a->dtype != b->dtype) return false;
  for (int d = 0; d < a->size.ndim; d++)
    if (a->size.dim[d] != b->size.dim[d] || (a->size.dim[d] != 1 && a->stride.dim[d] != b->stride.dim[d])) return false;
  return true;
}

bool situ__onnx_find_memory(situ__onnx_writer *w) {
  const situ__program *p = w->program;
  situ__map places = { 0 }; /* of a storage: its place in the list, plus 1 */
  w->memories = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *w->memories);
  if (!w->memories) return !(w->failed = true);
  for (int32_t v = 0; v < p->values; v++) {
    const uint64_t storage = w->about[v].storage;
    if (!storage) continue;
    const void *key = (const void *)(uintptr_t)storage;
    int32_t m = (int32_t)(intptr_t)situ__map_get(&places, key) - 1;
    if (m < 0) {
      w->memories[m = w->memory_count++] = (situ__onnx_memory){ .storage = storage, .root = v };
      w->failed |= !situ__map_put(&places, key, (void *)(intptr_t)(m + 1));
    }
    w->memory[v] = m;
  }
  situ__map_free(&places);
  return !w->failed;
}

/* Place in the storage of each element of v; NULL after an error. */
static const char *put_places(situ__onnx_writer *w, const situ__inferred *v, bool flat) {
  int64_t count = 1, at[SITU_MAX_DIMS] = { 0 };
  for (int d = 0; d < v->size.ndim; d++) count *= v->size.dim[d];
  if (count > MOST_PLACES) return situ__onnx_lacks(w, "writes or reads a part of more than 2^26 elements");
  int64_t *place = situ__alloc(((size_t)count + 1) * sizeof *place);
  if (!place) return w->failed = true, NULL;
  for (int64_t i = 0; i < count; i++) {
    place[i] = v->offset;
    for (int d = 0; d < v->size.ndim; d++) place[i] += at[d] * v->stride.dim[d];
    for (int d = v->size.ndim - 1; d >= 0 && ++at[d] == v->size.dim[d]; d--) at[d] = 0;
  }
  const char *name = situ__onnx_constant(w, SITU_I64, flat ? &SITU_SHAPE(count) : &v->size, place);
  situ__free(place);
  return name;
}

const char *situ__onnx_gather_places(situ__onnx_writer *w, const char *flat, const situ__inferred *view) {
  return situ__onnx_put2(w, "Gather", flat, put_places(w, view, false));
}

const char *situ__onnx_current(situ__onnx_writer *w, int32_t v) {
  const situ__inferred *about = &w->about[v];
  w->used[v] = true;
  if (!about->storage) return w->name[v];
  const situ__onnx_memory *m = &w->memories[w->memory[v]];
  w->used[m->root] = true; /* what is tied to it has its name */
  if (w->version[v] == m->version || v == m->root) return w->name[v];
  w->version[v] = m->version;
  if (is_same_place(about, &w->about[m->root])) return w->name[v] = w->name[m->root];
  if (!situ__onnx_is_fixed(w, about)) return NULL;
  return w->name[v] = situ__onnx_gather_places(w, situ__onnx_reshape_to(w, w->name[m->root], SITU_SHAPE(-1)), about);
}

/* What forward made, and situ_export keeps as a constant: each run begins with it. */
static bool is_lifted(const situ__program *p, int32_t part) {
  static const char prefix[] = "lifted_tensor_";
  return p->meta && strncmp(p->part[part].path, prefix, sizeof prefix - 1) == 0;
}

/* Notes that a parameter or buffer is written: the next run of a model would begin with what is stored. */
static bool is_part(situ__onnx_writer *w, const situ__onnx_memory *m) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->parts; i++)
    if (w->about[p->part[i].value].storage == m->storage && !is_lifted(p, i))
      return situ__onnx_lacks(w, "writes a buffer, which a model cannot keep for its next run"), true;
  return false;
}

bool situ__onnx_overwrite(situ__onnx_writer *w, int32_t v, const char *name) {
  const situ__inferred *about = &w->about[v];
  situ__onnx_memory *m = &w->memories[w->memory[v]];
  const situ__inferred *root = &w->about[m->root];
  if (!name || is_part(w, m)) return false;
  if (!is_same_place(about, root)) {
    if (!is_whole(root)) return situ__onnx_lacks(w, "writes a part of memory that is not in row-major order"), false;
    if (!situ__onnx_is_fixed(w, about) || !situ__onnx_is_fixed(w, root)) return false;
    const char *all = situ__onnx_reshape_to(w, situ__onnx_current(w, m->root), SITU_SHAPE(-1)),
               *part = situ__onnx_reshape_to(w, name, SITU_SHAPE(-1)), *places = put_places(w, about, true);
    if (!all || !part || !places) return false;
    all = situ__onnx_put(w, "ScatterElements", SITU__ONNX_IN(all, places, part), "axis:i", (int64_t)0);
    w->name[m->root] = situ__onnx_reshape_to(w, all, root->size);
  } else {
    w->name[m->root] = name;
  }
  m->version++;
  w->version[m->root] = w->version[v] = m->version;
  w->name[v] = name;
  return w->name[m->root] != NULL;
}
