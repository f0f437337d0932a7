/* The free sizes of situ_export_dynamic, and the runs at some of them.
   SPDX-License-Identifier: MIT */
#include "sizes.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/size.h"
#include "situ/tensor.h"

static const int64_t UNBOUNDED = INT64_MAX / 4;

/* ---- symbols ---- */

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/* torch takes a name that begins with u or z for something else than a size. */
static const char *identifier(situ__trace_sizes *s, const char *given) {
  char name[64];
  const bool plain = is_letter(*given) && !strchr("uUzZ", *given);
  (void)snprintf(name, sizeof name - 4, "%s%s", plain ? "" : "s_", given);
  for (char *c = name; *c; c++)
    if (!is_letter(*c) && !(*c >= '0' && *c <= '9')) *c = '_';
  const size_t length = strlen(name);
  int number = s->symbols;
  for (int32_t i = 0; i < s->symbols; i++) {
    if (strcmp(s->symbol[i].name, name) != 0) continue;
    (void)snprintf(name + length, sizeof name - length, "_%d", number++);
    i = -1;
  }
  return situ__arena_text(&s->arena, name, strlen(name));
}

/* Sizes of the runs: the example's, others around it, and the ends of a range that the caller gives, in an order of its
   own for each symbol, so that no symbol is a function of another one. Those below 2 are left out, as they have strides
   of their own, and broadcast. */
static void choose_sizes(situ__trace_symbol *s, int32_t number, int64_t example) {
  enum { LARGE = 1 << 16 };
  const int64_t least = situ__max_i64(s->least, 2), first = situ__max_i64(example, least), low = first / 3;
  const int64_t most = s->most < UNBOUNDED ? situ__min_i64(s->most, LARGE) : 3 * first + 61;
  const int64_t size[SITU__RUNS] = { first,      first + 1, first - 1,  first + 2,
                                     first + 3,  first + 5, first + 8,  s->least > 1 ? least : first - 2,
                                     first + 13, 2 * first, first + 21, first - low,
                                     most };
  for (int k = 0; k < SITU__RUNS; k++) {
    int64_t n = size[k * (number + 1) % SITU__RUNS];
    if (n < least) n = first + 7 * (first - n);
    if (n > s->most) n = least + (n - least) % (s->most - least + 1);
    s->value[k] = n;
  }
}

/* The caller's range in multiples. Returns false after recording an error. */
static bool read_range(const situ__trace_sizes *s, const situ_export_dim *d, const char *name, int64_t example,
                       situ__trace_symbol *out) {
  out->multiple = situ__max_i64(d->multiple, 1);
  out->least = situ__max_i64(d->least, 1);
  out->least = situ__ceil_div(out->least, out->multiple);
  out->most = d->most > 0 ? d->most / out->multiple : UNBOUNDED;
  if (example % out->multiple)
    return situ__fail(SITU_E_ARG, s->op, "'%s' is %" PRId64 " in inputs, and must be a multiple of %" PRId64, name,
                      example, out->multiple),
           false;
  example /= out->multiple;
  const int64_t start = situ__max_i64(out->least, 2), first = situ__max_i64(example, start);
  if (start == out->most)
    return situ__fail(SITU_E_ARG, s->op, "the range of '%s' has one size from 2 on, %" PRId64 ": leave it out of dims",
                      name, out->most * out->multiple),
           false;
  const bool fits = out->multiple <= INT32_MAX && first <= UNBOUNDED / 4 / out->multiple; /* the runs' sizes do */
  if (fits && out->most >= 2 && out->least <= out->most && example <= out->most &&
      (example < 2 || example >= out->least))
    return true;
  return situ__fail(SITU_E_ARG, s->op,
                    "'%s' is %" PRId64 " in inputs, and its range is %" PRId64 " to %" PRId64 " times %" PRId64, name,
                    example * out->multiple, out->least, out->most, out->multiple),
         false;
}

static bool add_symbol(situ__trace_sizes *s, const situ_export_dim *d, const char *name, int64_t example,
                       int32_t *out) {
  situ__trace_symbol n = { .given = situ__arena_text(&s->arena, name, strlen(name)) };
  if (!n.given || !(n.name = identifier(s, name))) return situ__no_memory(s->op, sizeof n), false;
  if (!read_range(s, d, name, example, &n)) return false;
  for (*out = 0; *out < s->symbols; ++*out) {
    const situ__trace_symbol *known = &s->symbol[*out];
    if (strcmp(known->given, name) != 0) continue;
    const int64_t first = situ__max_i64(example / n.multiple, situ__max_i64(n.least, 2));
    if (known->least == n.least && known->most == n.most && known->multiple == n.multiple && known->value[0] == first)
      return true;
    return situ__fail(SITU_E_ARG, s->op, "two dimensions named '%s' have different ranges, or sizes in inputs", name),
           false;
  }
  if (s->symbols == SITU__TRACE_SYMBOLS)
    return situ__fail(SITU_E_LIMIT, s->op, "more than %d names of sizes", SITU__TRACE_SYMBOLS), false;
  choose_sizes(&n, s->symbols, example / n.multiple);
  s->symbol[s->symbols++] = n;
  return true;
}

/* ---- dims of inputs ---- */

typedef struct search {
  const char *path;
  int32_t at, found; /* -1: not found */
  situ_shape shape;
} search;

static situ_status find_leaf(const char *path, situ_tensor *tensor, void *payload) {
  search *f = payload;
  if (f->found < 0 && (!f->path || strcmp(path, f->path) == 0)) {
    f->found = f->at;
    f->shape = situ_shape_of(tensor);
  }
  f->at++;
  return SITU_OK;
}

static bool add_dim(situ__trace_sizes *s, const situ_tree *inputs, const situ_export_dim *d) {
  search f = { .path = d->input, .found = -1 };
  if (situ_tree_each(inputs, find_leaf, &f) != SITU_OK) return false;
  const int dim = d->dim < 0 ? d->dim + f.shape.ndim : d->dim;
  if (f.found < 0 || dim < 0 || dim >= f.shape.ndim)
    return situ__fail(SITU_E_ARG, s->op, "the inputs have no dimension %d of '%s'", d->dim,
                      d->input ? d->input : "the first"),
           false;
  for (int64_t i = 0; i < s->dims; i++)
    if (s->dim[i].input == f.found && s->dim[i].dim == dim)
      return situ__fail(SITU_E_ARG, s->op, "dimension %d of '%s' is given twice", d->dim,
                        d->input ? d->input : "the first"),
             false;
  situ__trace_dim *n = &s->dim[s->dims++];
  *n = (situ__trace_dim){ .input = f.found, .dim = dim };
  char own[32];
  (void)snprintf(own, sizeof own, "size_%d_%d", (int)f.found, dim);
  return add_symbol(s, d, d->name && *d->name ? d->name : own, f.shape.dim[dim], &n->symbol);
}

bool situ__trace_sizes_begin(situ__trace_sizes *s, const char *op, const situ_tree *inputs, const situ_export_dim *dims,
                             int64_t count) {
  *s = (situ__trace_sizes){ .op = op };
  s->dim = situ__arena_take(&s->arena, (size_t)situ__max_i64(count, 0) + 1, sizeof *s->dim);
  if (!s->dim) return situ__no_memory(op, sizeof *s->dim), false;
  for (int64_t i = 0; i < count; i++)
    if (!add_dim(s, inputs, &dims[i])) return false;
  return true;
}

void situ__trace_sizes_end(situ__trace_sizes *s) { situ__arena_free(&s->arena); }

/* ---- a run ---- */

typedef struct resizing {
  const situ__trace_sizes *sizes;
  int32_t at;
} resizing;

static situ_tensor *resize(situ_tensor *tensor, void *payload) {
  resizing *r = payload;
  situ_shape shape = situ_shape_of(tensor);
  for (int64_t i = 0; i < r->sizes->dims; i++) {
    const situ__trace_dim *d = &r->sizes->dim[i];
    const situ__trace_symbol *n = &r->sizes->symbol[d->symbol];
    if (d->input == r->at) shape.dim[d->dim] = n->multiple * n->value[r->sizes->run];
  }
  r->at++;
  const situ_options like = { .dtype = situ_dtype_of(tensor),
                              .device = situ_device_of(tensor),
                              .requires_grad = situ_requires_grad(tensor) };
  return situ_set_name(situ_empty(shape, &like), situ_name(tensor));
}

situ_tree *situ__trace_sized_inputs(const situ__trace_sizes *s, const situ_tree *inputs) {
  return situ_tree_map(inputs, resize, &(resizing){ .sizes = s });
}

void situ__trace_sizes_text(const situ__trace_sizes *s, char *out, size_t size) {
  *out = 0;
  for (int32_t i = 0; s && i < s->symbols; i++) {
    const size_t length = strlen(out);
    (void)snprintf(out + length, size - length, "%s%s = %" PRId64, i ? ", " : " at ", s->symbol[i].given,
                   s->symbol[i].multiple * s->symbol[i].value[s->run]);
  }
}
