/* Calls in place, in a model whose tensors do not change: a write makes a new tensor of the memory, and values that are
   views of it are computed of that, by the calls that made them, when they are used next. A part is written to the
   places that the same calls give of the places of the whole: so sizes may depend on the inputs'.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/map.h"
#include "write.h"

enum { MOST_PLACES = 1 << 26 }; /* each is 8 bytes in the model */
enum { MOST_VIEWS = 64 };

static bool is_same_place(const situ__inferred *a, const situ__inferred *b) {
  if (a->offset != b->offset || a->size.ndim != b->size.ndim || a->dtype != b->dtype) return false;
  for (int d = 0; d < a->size.ndim; d++)
    if (a->size.dim[d] != b->size.dim[d] || a->other.dim[d] != b->other.dim[d] ||
        (a->size.dim[d] != 1 && a->stride.dim[d] != b->stride.dim[d]))
      return false;
  return true;
}

bool situ__onnx_find_memory(situ__onnx_writer *w) {
  const situ__program *p = w->program;
  situ__map places = { 0 }; /* of a storage: its place in the list, plus 1 */
  w->memories = situ__arena_take(&w->arena, (size_t)p->values + 1, sizeof *w->memories);
  if (!w->memories) return !(w->failed = true);
  for (int32_t v = 0; v < p->values; v++) w->maker[v] = -1;
  for (int32_t n = p->nodes - 1; n >= 0; n--)
    for (int32_t i = 0; i < p->node[n].outs; i++)
      if (p->node[n].out[i] >= 0) w->maker[p->node[n].out[i]] = n;
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

/* Elements of `flat`, a memory as one list, at the places of a view. */
const char *situ__onnx_gather_places(situ__onnx_writer *w, const char *flat, const situ__inferred *v) {
  int64_t count = 1, at[SITU_MAX_DIMS] = { 0 };
  for (int d = 0; d < v->size.ndim; d++) count *= v->size.dim[d];
  if (count > MOST_PLACES) return situ__onnx_lacks(w, "reads a part of more than 2^26 elements");
  int64_t *place = situ__alloc(((size_t)count + 1) * sizeof *place);
  if (!place) return w->failed = true, NULL;
  for (int64_t i = 0; i < count; i++) {
    place[i] = v->offset;
    for (int d = 0; d < v->size.ndim; d++) place[i] += at[d] * v->stride.dim[d];
    for (int d = v->size.ndim - 1; d >= 0 && ++at[d] == v->size.dim[d]; d--) at[d] = 0;
  }
  const char *name = situ__onnx_constant(w, SITU_I64, &v->size, place);
  situ__free(place);
  return situ__onnx_put2(w, "Gather", flat, name);
}

/* ---- views ---- */

/* The value that v is a view of; -1 after noting that there is none. */
static int32_t base_of(situ__onnx_writer *w, int32_t v) {
  const situ__program_node *n = w->maker[v] >= 0 ? &w->program->node[w->maker[v]] : NULL;
  const situ__arg *a = n ? &n->arg[0] : NULL;
  for (int32_t i = 0; a && a->kind == SITU__ARG_LIST && i < n->outs; i++)
    if (n->out[i] == v) a = i < a->count ? &a->list[i] : NULL;
  if (a && a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_TENSOR &&
      w->about[a->integer].storage == w->about[v].storage && w->about[a->integer].dtype == w->about[v].dtype)
    return (int32_t)a->integer;
  return situ__onnx_lacks(w, "has an operand that is a view without a form"), -1;
}

/* Places of v's elements in the memory's first value. */
static const char *places_of(situ__onnx_writer *w, int32_t v, int depth) {
  const situ__onnx_memory *m = &w->memories[w->memory[v]];
  if (w->place[v]) return w->place[v];
  if (v == m->root) {
    const char *x = situ__onnx_current(w, v), *sizes = situ__onnx_put1(w, "Shape", x);
    const char *zero = situ__onnx_scalar(w, 0, SITU_I64);
    const char *end = situ__onnx_put(w, "ReduceProd", SITU__ONNX_IN(sizes), "keepdims:i", (int64_t)0);
    const char *list = situ__onnx_put(w, "Range", SITU__ONNX_IN(zero, end, situ__onnx_scalar(w, 1, SITU_I64)), "");
    return w->place[v] = situ__onnx_put2(w, "Reshape", list, sizes);
  }
  const int32_t base = base_of(w, v);
  if (base < 0) return NULL;
  if (depth == MOST_VIEWS) return situ__onnx_lacks(w, "has views of views, too many");
  const char *of = places_of(w, base, depth + 1);
  return w->place[v] = of ? situ__onnx_write_view(w, v, base, of, SITU_I64) : NULL;
}

static const char *values_of(situ__onnx_writer *w, int32_t v, int depth) {
  const situ__inferred *about = &w->about[v];
  w->used[v] = true;
  if (!about->storage) return w->name[v];
  const situ__onnx_memory *m = &w->memories[w->memory[v]];
  w->used[m->root] = true; /* what is tied to it has its name */
  if (w->version[v] == m->version || v == m->root) return w->name[v];
  if (is_same_place(about, &w->about[m->root])) {
    w->version[v] = m->version;
    return w->name[v] = w->name[m->root];
  }
  const int32_t base = base_of(w, v);
  if (base < 0) return NULL;
  if (depth == MOST_VIEWS) return situ__onnx_lacks(w, "has views of views, too many");
  const char *of = values_of(w, base, depth + 1);
  w->name[v] = of ? situ__onnx_write_view(w, v, base, of, about->dtype) : NULL;
  w->version[v] = m->version;
  return w->name[v];
}
const char *situ__onnx_current(situ__onnx_writer *w, int32_t v) { return values_of(w, v, 0); }

/* ---- writes ---- */

/* What forward made, and situ_export keeps as a constant: each run begins with it. */
static bool is_lifted(const situ__program *p, int32_t part) {
  static const char prefix[] = "lifted_tensor_";
  return p->meta && strncmp(p->part[part].path, prefix, sizeof prefix - 1) == 0;
}

static void note_parts(situ__onnx_writer *w, const situ__onnx_memory *m) {
  const situ__program *p = w->program;
  for (int32_t i = 0; i < p->parts; i++)
    w->written[i] |= w->about[p->part[i].value].storage == m->storage && !is_lifted(p, i);
}

bool situ__onnx_overwrite(situ__onnx_writer *w, int32_t v, const char *name) {
  situ__onnx_memory *m = &w->memories[w->memory[v]];
  if (!name) return false;
  note_parts(w, m);
  if (!is_same_place(&w->about[v], &w->about[m->root])) {
    const char *whole = situ__onnx_current(w, m->root), *all = situ__onnx_reshape_to(w, whole, SITU_SHAPE(-1)),
               *part = situ__onnx_reshape_to(w, name, SITU_SHAPE(-1)),
               *places = situ__onnx_reshape_to(w, places_of(w, v, 0), SITU_SHAPE(-1));
    if (!all || !part || !places) return false;
    all = situ__onnx_put(w, "ScatterElements", SITU__ONNX_IN(all, places, part), "axis:i", (int64_t)0);
    w->name[m->root] = situ__onnx_put2(w, "Reshape", all, situ__onnx_put1(w, "Shape", whole));
  } else {
    w->name[m->root] = name;
  }
  m->version++;
  w->version[m->root] = w->version[v] = m->version;
  w->name[v] = name;
  return w->name[m->root] != NULL;
}
