/* Lints values: missing ones, ones that are or were shared, and ones that will not be saved.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "base/hash.h"
#include "place/lint/lint.h"
#include "situ/sys/explain.h"
#include "situ/sys/plain.h"
#include "situ/sys/tensor.h"

static bool is_meta(const situ_tensor *t) { return situ_device_of(t).kind == SITU_META; }

static bool is_parameter(const situ__part *p) { return p->slot->kind == SITU_NN_PARAMETER; }

static bool unwritten(const situ_tensor *t) { return !situ_has_values(t); }

/* ---- missing values ---- */

static bool no_values(situ__lint *l, const situ__part *p, const situ__part *real) {
  if (is_meta(p->tensor) && real) {
    char name[SITU_DEVICE_NAME_MAX];
    return situ__lint_add(l, SITU_LINT_VALUES, SITU_LINT_ERROR, p, NULL, p->tensor,
                          "it is on meta and has no values, while %s has: it was never loaded or "
                          "materialised",
                          real->path) &&
           situ__lint_fix(l, "if (situ_nn_to(m, situ_dev(\"%s\")) != SITU_OK) ...",
                          situ__lint_device(situ_device_of(real->tensor), name));
  }
  if (is_meta(p->tensor) || !unwritten(p->tensor) || situ_numel(p->tensor) == 0 || situ_memory_is_away(p->tensor))
    return true;
  return situ__lint_add(l, SITU_LINT_VALUES, SITU_LINT_ERROR, p, NULL, p->tensor,
                        situ__lint_storage(p->tensor)->written
                            ? "a part of it was never written: its values are whatever was in memory"
                            : "nothing was ever written to it: its values are whatever was in memory") &&
         situ__lint_fix(l, "situ_zero_(m->%s);   /* or load them */", p->slot->name);
}

static bool lazy(situ__lint *l, const situ__part *p) {
  if (!p->module->pending) return true;
  return situ__lint_add(l, SITU_LINT_LAZY, SITU_LINT_WARNING, p, NULL, NULL,
                        "it has seen no input yet, so it has no parameters: an optimiser made now "
                        "would not train it, a file would not have it") &&
         situ__lint_fix(l, "situ_nn_forward(model, sample);   /* before the optimiser is made */");
}

static bool left_address(situ__lint *l, const situ__part *p) {
  situ_facts f;
  if (!(situ__lint_storage(p->tensor)->flags & SITU_STORAGE_LEFT) || p->again) return true;
  if (!situ_facts_of(l->op, p->tensor, &f)) return false;
  return situ__lint_add(l, SITU_LINT_DANGLING, SITU_LINT_WARNING, p, NULL, p->tensor,
                        "situ_data_ptr gave its address, and then situ_%s moved it%s%s: that address is of memory that "
                        "was freed",
                        f.moved_by ? f.moved_by : "to", *f.moved ? " at " : "", f.moved) &&
         situ__lint_fix(l, "situ_data_lease(m->%s, ...);   /* refuses moves until situ_data_release */", p->slot->name);
}

static bool graph(situ__lint *l, const situ__part *p) {
  if (situ_is_leaf(p->tensor)) return true;
  if (is_parameter(p))
    return situ__lint_add(l, SITU_LINT_GRAPH, SITU_LINT_ERROR, p, NULL, p->tensor,
                          "it is the result of an op: gradients go through it to what it was made of, "
                          "and no optimiser can have it") &&
           situ__lint_fix(l, "situ_nn_param(m, %s, situ_detach(...));", p->slot->name);
  return situ__lint_add(l, SITU_LINT_GRAPH, SITU_LINT_WARNING, p, NULL, p->tensor,
                        "it is the result of a recorded op, and keeps the whole graph behind it alive") &&
         situ__lint_fix(l, "situ_nn_buffer(m, %s, situ_detach(...));", p->slot->name);
}

static bool unsaved(situ__lint *l, const situ__part *p) {
  if (p->slot->kind != SITU_NN_TRANSIENT) return true;
  return situ__lint_add(l, SITU_LINT_UNSAVED, SITU_LINT_NOTE, p, NULL, p->tensor,
                        "it is a transient buffer: a state dict does not have it") &&
         situ__lint_fix(l, "situ_nn_buffer(m, %s, ...);   /* if it cannot be made anew */", p->slot->name);
}

/* ---- values that should be shared ---- */

/* A tensor was registered in place of one that another part still uses. */
static bool tie(situ__lint *l, const situ__part *p) {
  const situ__part *other = p->slot->was ? situ__lint_on(l, p->slot->was) : NULL;
  if (!other || situ__lint_storage(other->tensor) == situ__lint_storage(p->tensor)) return true;
  return situ__lint_add(l, SITU_LINT_TIE, SITU_LINT_WARNING, p, NULL, p->tensor,
                        "it was tied to %s, until another tensor was registered in its place: now "
                        "they are two",
                        other->path) &&
         situ__lint_fix(l, "situ_nn_%s(m, %s, other->%s);", is_parameter(p) ? "param" : "buffer", p->slot->name,
                        other->slot->name);
}

enum { SAMPLE = 16, CHUNK = 1 << 14 };

/* Elements from `at` on as bytes, at most CHUNK. */
static bool read(situ_tensor *t, int64_t at, int64_t count, void *out) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *part = situ_narrow(situ_reshape(situ_detach(t), SITU_SHAPE(-1)), 0, at, count);
  size_t bytes = (size_t)count * situ_dtype_size(situ_dtype_of(t));
  bool good = part && situ_copy_to_host(part, out, bytes) == SITU_OK;
  return situ_scope_end(&scope) == SITU_OK && good;
}

static bool equal_bits(situ_tensor *a, situ_tensor *b, char *left, char *right, bool *equal) {
  size_t size = situ_dtype_size(situ_dtype_of(a));
  *equal = true;
  for (int64_t at = 0, n = situ_numel(a); at < n && *equal; at += CHUNK) {
    int64_t count = n - at < CHUNK ? n - at : CHUNK;
    if (!read(a, at, count, left) || !read(b, at, count, right)) return false;
    *equal = memcmp(left, right, (size_t)count * size) == 0;
  }
  return true;
}

/* A hash of a parameter's name, shape, dtype and first elements; 0: cannot have a twin. Constant values, such as zeros
   and ones, are common initial values and do not count as twins. */
static bool fingerprint(const situ__part *p, char *buffer, uint64_t *print) {
  *print = 0;
  if (!p->tensor || p->again || !is_parameter(p)) return true;
  const situ_tensor *t = p->tensor;
  int64_t n = situ_numel(t) < SAMPLE ? situ_numel(t) : SAMPLE;
  size_t size = situ_dtype_size(situ_dtype_of(t));
  if (n < 2 || is_meta(t) || !situ_is_contiguous(t) || unwritten(t)) return true;
  if (!read(p->tensor, 0, n, buffer)) return false;
  if (memcmp(buffer, buffer + size, (size_t)(n - 1) * size) == 0) return true;
  const situ_shape shape = situ_shape_of(t);
  const situ_dtype dtype = situ_dtype_of(t);
  uint64_t hash = situ__hash(SITU__HASH, buffer, (size_t)n * size);
  hash = situ__hash(hash, shape.dim, (size_t)shape.ndim * sizeof *shape.dim);
  hash = situ__hash(hash, &dtype, sizeof dtype);
  *print = situ__hash(hash, p->slot->name, strlen(p->slot->name)) | 1;
  return true;
}

static bool alike(const situ__part *a, const situ__part *b) {
  situ_shape s = situ_shape_of(a->tensor), t = situ_shape_of(b->tensor);
  return strcmp(a->slot->name, b->slot->name) == 0 && situ_shape_equal(&s, &t) &&
         situ_dtype_of(a->tensor) == situ_dtype_of(b->tensor) && !situ_shares_storage(a->tensor, b->tensor);
}

/* Links each part to the next one of its fingerprint: numbers of parts from 1, 0 at the end. `first` has the first part
   of each fingerprint. */
static bool link_prints(situ__lint *l, situ__map *first, uint64_t *print, int64_t *next, char *buffer) {
  for (int64_t i = l->count - 1; i >= 0; i--) {
    if (!fingerprint(&l->parts[i], buffer, &print[i])) return false;
    const void *key = (const void *)(uintptr_t)print[i];
    if (!key) continue;
    next[i] = (int64_t)(uintptr_t)situ__map_get(first, key);
    if (!situ__map_put(first, key, (void *)(uintptr_t)(i + 1))) return situ__no_memory(l->op, sizeof key), false;
  }
  return true;
}

static bool find_twins(situ__lint *l, const situ__map *first, const uint64_t *print, const int64_t *next, char *left,
                       char *right) {
  bool good = true, equal;
  for (int64_t i = 0; i < l->count && good; i++) {
    const situ__part *p = &l->parts[i];
    int64_t k = print[i] ? (int64_t)(uintptr_t)situ__map_get(first, (const void *)(uintptr_t)print[i]) - 1 : i;
    for (; k < i && good; k = next[k] - 1) {
      const situ__part *q = &l->parts[k];
      if (!alike(p, q)) continue;
      good = equal_bits(p->tensor, q->tensor, left, right, &equal);
      if (!good || !equal) continue;
      good = situ__lint_add(l, SITU_LINT_TWINS, SITU_LINT_NOTE, p, NULL, p->tensor,
                            "it equals %s bit by bit, in memory of its own: a copy, where a tie "
                            "may have been meant",
                            q->path) &&
             situ__lint_fix(l, "situ_nn_param(m, %s, other->%s);   /* to tie them */", p->slot->name, q->slot->name);
      break;
    }
  }
  return good;
}

static bool twins(situ__lint *l) {
  situ__map first = { 0 };
  uint64_t *print = situ__alloc((size_t)(l->count + 1) * sizeof *print);
  int64_t *next = situ__alloc((size_t)(l->count + 1) * sizeof *next);
  char *buffer = situ__alloc(2 * CHUNK * sizeof(double));
  bool good = print && next && buffer;
  if (!good) situ__no_memory(l->op, 2 * CHUNK * sizeof(double));
  good = good && link_prints(l, &first, print, next, buffer) &&
         find_twins(l, &first, print, next, buffer, buffer + CHUNK * sizeof(double));
  situ__map_free(&first);
  situ__free(print);
  situ__free(next);
  situ__free(buffer);
  return good;
}

bool situ__lint_values(situ__lint *l) {
  const situ__part *real = NULL;
  bool good = true;
  for (int64_t i = 0; i < l->count && !real; i++)
    if (l->parts[i].tensor && !is_meta(l->parts[i].tensor)) real = &l->parts[i];
  for (int64_t i = 0; i < l->count && good; i++) {
    const situ__part *p = &l->parts[i];
    if (p->again) continue;
    good = p->tensor ? no_values(l, p, real) && left_address(l, p) && graph(l, p) && unsaved(l, p) && tie(l, p)
                     : lazy(l, p);
  }
  return good && (l->options->ignore >> SITU_LINT_TWINS & 1 || twins(l));
}
