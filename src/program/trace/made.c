/* Tensors that forward makes, in sizes or of values that depend on the inputs' sizes: full and arange.
   SPDX-License-Identifier: MIT */
#include "sizes.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/fail.h"
#include "situ/sys/shape.h"
#include "situ/sys/tensor.h"

/* A constant in one run. */
typedef struct made {
  double *value; /* row-major */
  int64_t count;
  situ_shape shape;
  double first, step; /* value at the start, and how much it grows along the dimension in which it does */
} made;

/* ---- values ---- */

static bool read_made(const situ__trace *t, const situ__constant *c, made *out) {
  situ_scope scope;
  situ_scope_begin_no_grad(&scope);
  situ_tensor *x = situ__trace_constant(t, c);
  x = x ? situ_to_dtype(situ_to(x, (situ_device){ .kind = SITU_CPU }), SITU_F64) : NULL;
  if (x) {
    out->shape = situ_shape_of(x);
    out->count = situ_numel(x);
    out->value = situ__alloc(((size_t)out->count + 1) * sizeof *out->value);
    if (!out->value) situ__no_memory(t->op, (size_t)out->count * sizeof *out->value);
    else if (situ_copy_to_host(x, out->value, (size_t)out->count * sizeof *out->value) != SITU_OK) x = NULL;
  }
  return situ_scope_end(&scope) == SITU_OK && x && out->value;
}

static int64_t stride_of(const made *m, int dim) {
  int64_t stride = 1;
  for (int d = dim + 1; d < m->shape.ndim; d++) stride *= m->shape.dim[d];
  return stride;
}

/* Whether each value is first + step i, where i is the place along the dimension; -1: all are the first. */
static bool grows_along(made *m, int dim) {
  const int64_t stride = dim < 0 ? 1 : stride_of(m, dim), size = dim < 0 ? 1 : m->shape.dim[dim];
  m->first = m->count ? m->value[0] : 0;
  m->step = size > 1 && m->count ? m->value[stride] - m->first : 0;
  for (int64_t i = 0; i < m->count; i++)
    if (m->value[i] != m->first + m->step * (double)(i / stride % size)) return false;
  return true;
}

/* Whether the constant is the same in all runs. Returns false, too, after recording an error. */
static bool is_fixed(situ__trace_merge *m, int32_t i) {
  made first = { 0 };
  bool same = read_made(m->run[0], &m->run[0]->constant[i], &first);
  for (int k = 1; k < SITU__RUNS && same; k++) {
    made other = { 0 };
    const situ_shape shape = situ_shape_of(m->run[k]->constant[i].tensor);
    same = situ_shape_equal(&shape, &first.shape) && read_made(m->run[k], &m->run[k]->constant[i], &other) &&
           memcmp(other.value, first.value, (size_t)first.count * sizeof *first.value) == 0;
    situ__free(other.value);
  }
  situ__free(first.value);
  return same;
}

/* ---- calls ---- */

static situ__arg *args_of(situ__program_node *n) { return (situ__arg *)(uintptr_t)n->arg; }
static situ__arg tensor_arg(int32_t v) {
  return (situ__arg){ .kind = SITU__ARG_VALUE, .of = SITU__VALUE_TENSOR, .integer = v };
}

/* A number that the runs had: the same in all, or one that depends on the sizes. */
static bool number_arg(situ__trace_merge *m, const double value[SITU__RUNS], situ_dtype dtype, situ__arg *out) {
  int64_t integer[SITU__RUNS];
  bool same = true, whole = true;
  for (int k = 0; k < SITU__RUNS; k++) {
    same = same && value[k] == value[0];
    whole = whole && value[k] == floor(value[k]) && fabs(value[k]) < 0x1p53;
    integer[k] = whole ? (int64_t)value[k] : 0;
  }
  if (dtype == SITU_BOOL && same) return *out = (situ__arg){ .kind = SITU__ARG_BOOL, .integer = value[0] != 0 }, true;
  if (same && (situ_dtype_is_floating(dtype) || !whole))
    return *out = (situ__arg){ .kind = SITU__ARG_FLOAT, .real = value[0] }, true;
  return whole && situ__trace_merge_int(m, integer, out);
}

/* The sizes of the constant, but 1 in all dimensions but `only`, unless that is below 0. */
static bool sizes_arg(situ__trace_merge *m, const made run[SITU__RUNS], int only, situ__arg *out) {
  situ__arg *list = situ__arena_take(&m->run[0]->program->arena, (size_t)run->shape.ndim + 1, sizeof *list);
  int64_t value[SITU__RUNS];
  bool good = list != NULL;
  for (int d = 0; d < run->shape.ndim && good; d++) {
    for (int k = 0; k < SITU__RUNS; k++) value[k] = only < 0 || only == d ? run[k].shape.dim[d] : 1;
    good = situ__trace_merge_int(m, value, &list[d]);
  }
  *out = (situ__arg){ .kind = SITU__ARG_LIST, .count = run->shape.ndim, .list = list };
  return good;
}

/* What the file says of a result between: of the constant's sizes, or of those that sizes_arg gives, or of that of one
   dimension alone. */
static bool describe(situ__trace_merge *m, int32_t v, situ_dtype dtype, const made run[SITU__RUNS], int only,
                     bool line) {
  situ__program *p = m->run[0]->program;
  situ_shape size = { .ndim = line ? 1 : run->shape.ndim }, stride = size;
  const char **text = situ__arena_take(&p->arena, 2 * (size_t)size.ndim + 1, sizeof *text);
  int64_t value[SITU__RUNS], step = 1;
  bool good = text != NULL;
  for (int d = size.ndim - 1; d >= 0 && good; d--) {
    for (int k = 0; k < SITU__RUNS; k++) value[k] = line || d == only ? run[k].shape.dim[only] : 1;
    size.dim[d] = value[0];
    stride.dim[d] = step;
    step *= value[0];
    good = situ__trace_merge_size(m, value, &text[d]);
  }
  p->meta[v] = (situ__value_meta){ .dtype = dtype, .size = size, .stride = stride, .text = text };
  return good;
}

static bool add_full(situ__trace_merge *m, const made run[SITU__RUNS], int32_t out, situ_dtype dtype) {
  double value[SITU__RUNS];
  situ__arg size, fill;
  for (int k = 0; k < SITU__RUNS; k++) value[k] = run[k].first;
  if (!sizes_arg(m, run, -1, &size) || !number_arg(m, value, dtype, &fill)) return false;
  situ__program_node *n = situ__trace_merge_node(m, "full.default", SITU__VALUE_TENSOR, out);
  if (!n) return false;
  args_of(n)[0] = size;
  args_of(n)[1] = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = dtype };
  args_of(n)[2] = fill;
  return true;
}

/* arange, as a view whose other sizes are 1, expanded. */
static bool add_ramp(situ__trace_merge *m, const made run[SITU__RUNS], int dim, int32_t out, situ_dtype dtype) {
  double first[SITU__RUNS], end[SITU__RUNS], step[SITU__RUNS];
  situ__arg bound[3], sizes[2];
  for (int k = 0; k < SITU__RUNS; k++) {
    first[k] = run[k].first, step[k] = run[k].step;
    end[k] = first[k] + step[k] * (double)run[k].shape.dim[dim];
  }
  const bool whole = number_arg(m, first, SITU_I64, &bound[0]) && number_arg(m, end, SITU_I64, &bound[1]) &&
                     number_arg(m, step, SITU_I64, &bound[2]) && step[0] != 0;
  if (!whole || !sizes_arg(m, run, dim, &sizes[0]) || !sizes_arg(m, run, -1, &sizes[1])) return false;
  situ__program_node *n = situ__trace_merge_node(m, "arange.start_step", SITU__VALUE_TENSOR, -1);
  if (!n) return false;
  memcpy(args_of(n), bound, sizeof bound);
  args_of(n)[3] = (situ__arg){ .kind = SITU__ARG_DTYPE, .integer = dtype };
  int32_t v = n->out[0];
  if (!describe(m, v, dtype, run, dim, true)) return false;
  if (!(n = situ__trace_merge_node(m, "view.default", SITU__VALUE_TENSOR, -1))) return false;
  args_of(n)[0] = tensor_arg(v), args_of(n)[1] = sizes[0];
  v = n->out[0];
  if (!describe(m, v, dtype, run, dim, false)) return false;
  if (!(n = situ__trace_merge_node(m, "expand.default", SITU__VALUE_TENSOR, out))) return false;
  args_of(n)[0] = tensor_arg(v), args_of(n)[1] = sizes[1];
  return true;
}

/* ---- constants ---- */

static bool add_call(situ__trace_merge *m, made run[SITU__RUNS], int32_t value, situ_dtype dtype) {
  for (int dim = -1; dim < run->shape.ndim; dim++) {
    bool fits = true;
    for (int k = 0; k < SITU__RUNS && fits; k++)
      fits = run[k].shape.ndim == run->shape.ndim && grows_along(&run[k], dim);
    if (fits) return dim < 0 ? add_full(m, run, value, dtype) : add_ramp(m, run, dim, value, dtype);
  }
  return false;
}

/* Sets *calls to whether a call makes the constant now. Returns false after recording an error. */
static bool merge_constant(situ__trace_merge *m, int32_t i, bool *calls) {
  situ__trace *t = m->run[0];
  const situ__constant *c = &t->constant[i];
  const situ_dtype dtype = t->program->meta[c->value].dtype;
  made run[SITU__RUNS] = { 0 };
  *calls = false;
  if (is_fixed(m, i)) return true;
  bool good = true;
  for (int k = 0; k < SITU__RUNS && good; k++) good = read_made(m->run[k], &m->run[k]->constant[i], &run[k]);
  *calls = good;
  situ__text_free(&m->detail);
  if (good && !add_call(m, run, c->value, dtype) && !t->failed) {
    situ__fail(SITU_E_UNSUPPORTED, t->op,
               "forward makes a tensor (%s, of %d dimensions) that depends on the inputs' sizes: %s; compute it of "
               "tensors, or register it as a buffer",
               situ_dtype_name(dtype), run->shape.ndim,
               m->detail.data ? m->detail.data : "its values are neither one number nor steps along one dimension");
    good = false;
  }
  for (int k = 0; k < SITU__RUNS; k++) situ__free(run[k].value);
  return good && !t->failed && (!*calls || situ__trace_merge_meta(m, c->value));
}

bool situ__trace_merge_constants(situ__trace_merge *m) {
  situ__trace *t = m->run[0];
  int32_t kept = 0;
  bool good = true;
  for (int k = 1; k < SITU__RUNS; k++)
    if (m->run[k]->constants != t->constants) return !(t->failed = true);
  for (int32_t i = 0; i < t->constants; i++) {
    bool calls = false;
    good = good && merge_constant(m, i, &calls);
    if (calls) situ_drop(&t->constant[i].tensor);
    else t->constant[kept++] = t->constant[i];
  }
  t->constants = kept;
  return good;
}
