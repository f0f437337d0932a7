/* Arguments of a program's call, as tensors of a written ONNX model.
   SPDX-License-Identifier: MIT */
#include "write.h"

static const situ__inferred none;

static bool is_tensor(const situ__arg *a) { return a->kind == SITU__ARG_VALUE && a->of == SITU__VALUE_TENSOR; }

static const situ__arg *item_of(const situ__onnx_writer *w, int k, int i) {
  const situ__arg *a = &w->node->arg[k];
  return a->kind == SITU__ARG_LIST && i < a->count ? &a->list[i] : NULL;
}

const char *situ__onnx_arg(situ__onnx_writer *w, int k) {
  const situ__arg *a = &w->node->arg[k];
  return is_tensor(a) ? situ__onnx_current(w, (int32_t)a->integer) : NULL;
}

const situ__inferred *situ__onnx_about(const situ__onnx_writer *w, int k) {
  const situ__arg *a = &w->node->arg[k];
  return is_tensor(a) ? &w->about[a->integer] : &none;
}

int situ__onnx_items(const situ__onnx_writer *w, int k) {
  return w->node->arg[k].kind == SITU__ARG_LIST ? w->node->arg[k].count : 0;
}

const char *situ__onnx_item(situ__onnx_writer *w, int k, int i) {
  const situ__arg *a = item_of(w, k, i);
  return a && is_tensor(a) ? situ__onnx_current(w, (int32_t)a->integer) : NULL;
}

const situ__inferred *situ__onnx_item_about(const situ__onnx_writer *w, int k, int i) {
  const situ__arg *a = item_of(w, k, i);
  return a && is_tensor(a) ? &w->about[a->integer] : &none;
}

bool situ__onnx_is_fixed(situ__onnx_writer *w, const situ__inferred *about) {
  for (int d = 0; d < about->size.ndim; d++)
    if (about->size.dim[d] < 0) return situ__onnx_lacks(w, "needs sizes that do not depend on the inputs'"), false;
  return true;
}

int situ__onnx_dim(int64_t dim, int rank) { return (int)(dim < 0 ? dim + (rank ? rank : 1) : dim); }

/* ---- sizes ---- */

/* A size that varies is a 1-D tensor of one element. */
static const char *one_size(situ__onnx_writer *w, const situ__arg *a) {
  if (a->kind == SITU__ARG_VALUE) {
    if (w->about[a->integer].varies) return w->name[a->integer];
    return situ__onnx_int(w, w->about[a->integer].integer);
  }
  return situ__onnx_int(w, a->integer);
}

static bool varies(const situ__onnx_writer *w, const situ__arg *a) {
  return a->kind == SITU__ARG_VALUE && a->of != SITU__VALUE_TENSOR && w->about[a->integer].varies;
}

const char *situ__onnx_sizes_or(situ__onnx_writer *w, int k, int64_t otherwise) {
  const situ__arg *a = &w->node->arg[k];
  if (a->kind != SITU__ARG_LIST) return one_size(w, a);
  bool known = true;
  for (int i = 0; i < a->count; i++) known = known && !varies(w, &a->list[i]);
  situ_shape sizes = situ__arg_dims(&w->call, k);
  for (int i = 0; i < sizes.ndim; i++)
    if (!varies(w, &a->list[i]) && sizes.dim[i] == -1) sizes.dim[i] = otherwise;
  if (known) return situ__onnx_ints(w, &sizes);
  const char *in[SITU_MAX_DIMS + 1] = { NULL };
  for (int i = 0; i < a->count && i < SITU_MAX_DIMS; i++)
    if (!(in[i] = varies(w, &a->list[i]) ? one_size(w, &a->list[i]) : situ__onnx_int(w, sizes.dim[i]))) return NULL;
  return situ__onnx_put(w, "Concat", in, "axis:i", (int64_t)0);
}
const char *situ__onnx_sizes(situ__onnx_writer *w, int k) { return situ__onnx_sizes_or(w, k, -1); }

const char *situ__onnx_arg_as(situ__onnx_writer *w, int k, situ_dtype dtype) {
  const situ__arg *a = &w->node->arg[k];
  if (is_tensor(a)) return situ__onnx_cast(w, situ__onnx_arg(w, k), situ__onnx_about(w, k)->dtype, dtype);
  if (!varies(w, a) && situ__arg_is_wide(&w->call, k)) {
    const int64_t integer = situ__arg_int(&w->call, k);
    return situ__onnx_cast(w, situ__onnx_constant(w, SITU_I64, &SITU_SCALAR, &integer), SITU_I64, dtype);
  }
  if (!varies(w, a)) return situ__onnx_scalar(w, situ__arg_number(&w->call, k), dtype);
  return situ__onnx_cast(w, situ__onnx_reshape_to(w, one_size(w, a), SITU_SCALAR), SITU_I64, dtype);
}

const char *situ__onnx_reshape_to(situ__onnx_writer *w, const char *x, situ_shape shape) {
  bool zero = false;
  for (int d = 0; d < shape.ndim; d++) zero |= shape.dim[d] == 0;
  if (!x) return NULL;
  return situ__onnx_put(w, "Reshape", SITU__ONNX_IN(x, situ__onnx_ints(w, &shape)), zero ? "allowzero:i" : "",
                        (int64_t)1);
}

/* A size that varies is copied if the sizes before it are those of both; ONNX computes one more (-1). */
const char *situ__onnx_reshape(situ__onnx_writer *w, const char *x, const situ__inferred *from,
                               const situ__inferred *to) {
  situ_shape shape = to->size;
  bool leads = true, zero = false, rest = false;
  for (int d = 0; d < shape.ndim; d++) zero |= shape.dim[d] == 0;
  for (int d = 0; d < shape.ndim; d++) {
    leads =
        leads && d < from->size.ndim && from->size.dim[d] == to->size.dim[d] && from->other.dim[d] == to->other.dim[d];
    if (shape.dim[d] >= 0) continue;
    if (zero) return situ__onnx_lacks(w, "has no element, and a size that depends on the inputs'");
    if (leads) {
      shape.dim[d] = 0;
    } else if (!rest) {
      rest = true;
    } else {
      return situ__onnx_lacks(w, "has several sizes that depend on the inputs'");
    }
  }
  if (!x) return NULL;
  return situ__onnx_put(w, "Reshape", SITU__ONNX_IN(x, situ__onnx_ints(w, &shape)), zero ? "allowzero:i" : "",
                        (int64_t)1);
}
