/* A divided module as a whole: its state dict, and the norm of its gradients.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "distributed/comm/exact.h"
#include "tp.h"
#include "situ/sys/grad_scaler.h"
#include "situ/sys/shape.h"

/* ---- state ---- */

/* The blocks of all ranks' parts, in order. */
static situ_tensor *join_parts(situ_tensor *parts, const situ__tp_shard *s, int size) {
  situ_tensor **list = situ__alloc((size_t)(s->blocks * size) * sizeof *list), *whole = NULL;
  if (!list) return situ__no_memory("dist_tp_state_dict", (size_t)(s->blocks * size) * sizeof *list), NULL;
  const int64_t length = situ_size(s->part, s->dim) / s->blocks;
  for (int b = 0; b < s->blocks; b++)
    for (int r = 0; r < size; r++)
      list[b * size + r] = situ_narrow(situ_select(parts, 0, r), s->dim, b * length, length);
  whole = situ_cat(list, s->blocks * size, s->dim);
  situ__free(list);
  return whole;
}

static situ_tensor *whole_of(const situ_dist_tp *tp, const char *name, situ_tensor *t) {
  const situ__tp_shard *s = situ__tp_find(tp, t);
  t = situ_to(situ_detach(t), (situ_device){ SITU_CPU, 0 });
  if (!s || tp->comm->size == 1) return situ_clone(t);
  situ_tensor *parts = situ_comm_all_gather(tp->comm, t, name);
  return parts ? join_parts(parts, s, tp->comm->size) : NULL;
}

situ_tree *situ_dist_tp_state_dict(situ_dist_tp *tp, int to) {
  static const char op[] = "dist_tp_state_dict";
  if (!situ__tp_given(op, tp)) return NULL;
  if (to < 0 || to >= tp->comm->size)
    return situ__fail(SITU_E_ARG, op, "rank %d of %d ranks", to, tp->comm->size), NULL;
  situ_tree *own = situ_nn_state_dict(tp->module), *whole = own ? situ_tree_dict() : NULL;
  for (int64_t i = 0; whole && i < situ_tree_count(own); i++) {
    const char *name = situ_tree_key(own, i);
    situ_scope s;
    situ_scope_begin_no_grad(&s);
    situ_tensor *t = whole_of(tp, name, situ_tree_tensor_at(own, i));
    const bool good = t != NULL;
    if (good && tp->comm->rank == to) whole = situ_tree_put(whole, name, situ_tree_tensor(t));
    SITU_IGNORE(situ_scope_end(&s));
    if (!good) {
      situ_tree_free(whole);
      whole = NULL;
    }
  }
  if (own && !whole) situ_comm_abort(tp->comm, situ_error_message());
  situ_tree_free(own);
  return whole;
}

/* This rank's part of a tensor of the state, or the tensor itself: whole ones, and those whose shape the load refuses
   with its own words. */
static situ_tensor *part_for(const situ_dist_tp *tp, situ_tensor *own, situ_tensor *t) {
  const situ__tp_shard *s = situ__tp_find(tp, own);
  if (!s) return t;
  situ_shape shape = situ_shape_of(own), given = situ_shape_of(t);
  shape.dim[s->dim] *= tp->comm->size;
  return situ_shape_equal(&shape, &given) ? situ__tp_part_of(tp->comm, t, s->dim, s->blocks) : t;
}

typedef struct loading {
  const situ_dist_tp *tp;
  situ_tree *own, *parts; /* the module's tensors, and what they get */
} loading;

static situ_status take_part(const char *path, situ_tensor *t, void *payload) {
  loading *l = payload;
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  situ_tensor *part = situ_tree_find(l->own, path) ? part_for(l->tp, situ_tree_get(l->own, path), t) : t;
  if (part) l->parts = situ_tree_put(l->parts, path, situ_tree_tensor(part));
  const situ_status ended = situ_scope_end(&s);
  return part && l->parts ? ended : situ_error();
}

situ_status situ_dist_tp_load_state_dict(situ_dist_tp *tp, const situ_tree *state,
                                         const situ_nn_load_options *options) {
  static const char op[] = "dist_tp_load_state_dict";
  if (!situ__tp_given(op, tp) || !situ__valid(op, "state", state, SITU__A_TREE)) return situ_error();
  if (options && options->rename_count)
    return situ__fail(SITU_E_UNSUPPORTED, op, "options.rename: rename the state's entries first");
  loading l = { tp, situ_nn_state_dict(tp->module), situ_tree_dict() };
  const bool good = l.own && l.parts && situ_tree_each(state, take_part, &l) == SITU_OK;
  const situ_status status = good ? situ_nn_load_state_dict(tp->module, l.parts, options) : situ_error();
  situ_tree_free(l.own);
  situ_tree_free(l.parts);
  return status;
}

/* ---- the norm of all gradients ---- */

/* Whole gradients are the same on all ranks: rank 0's count. */
static bool add_gradients(const situ_dist_tp *tp, const situ_tree *parameters, situ__exact *x, double p) {
  for (int64_t i = 0; i < situ_tree_count(parameters); i++) {
    situ_tensor *t = situ_tree_tensor_at(parameters, i), *grad = situ_grad(t);
    const bool counts = situ__tp_find(tp, t) || tp->comm->rank == 0;
    if (grad && counts && !situ__exact_add(x, situ_reshape(situ_detach(grad), SITU_SHAPE(situ_numel(grad))), p))
      return false;
  }
  return true;
}

static bool scale_gradients(const situ_tree *parameters, double norm, double max_norm) {
  const int64_t most = situ_tree_count(parameters);
  situ_tensor **grad = situ__alloc((size_t)(most + 1) * sizeof *grad);
  if (!grad) return situ__no_memory("dist_tp_clip_grad_norm_", (size_t)(most + 1) * sizeof *grad), false;
  int64_t count = 0;
  bool wide = false;
  for (int64_t i = 0; i < most; i++) {
    situ_tensor *t = situ_tree_tensor_at(parameters, i);
    wide = wide || situ_dtype_of(t) == SITU_F64;
    if ((grad[count] = situ_grad(t))) count++;
  }
  situ_tensor *total =
      situ_full(SITU_SCALAR, norm, &(situ_options){ .dtype = wide ? SITU_F64 : SITU_F32, .device = { SITU_CPU, 0 } });
  const bool good = total && situ_clip_by_norm_(grad, count, total, max_norm) == SITU_OK;
  situ__free(grad);
  return good;
}

static bool clip(const char *op, const situ_dist_tp *tp, situ__exact *x, double max_norm, double p, double *total) {
  situ_tree *parameters = situ_nn_parameters(tp->module);
  bool good = parameters && add_gradients(tp, parameters, x, p) && situ__exact_reduce(op, tp->comm, x, p);
  if (good) {
    const double norm = situ__exact_norm(x, p);
    if (total) *total = norm;
    good = scale_gradients(parameters, norm, max_norm);
  }
  situ_tree_free(parameters);
  return good;
}

situ_status situ_dist_tp_clip_grad_norm_(situ_dist_tp *tp, double max_norm, double p, double *total) {
  static const char op[] = "dist_tp_clip_grad_norm_";
  if (total) *total = 0;
  if (!situ__tp_given(op, tp)) return situ_error();
  if (!(max_norm >= 0) || !(p > 0))
    return situ__fail(SITU_E_ARG, op, "max_norm %g, p %g: at least 0, and above 0", max_norm, p);
  situ__exact *x = situ__calloc(1, sizeof *x);
  situ_scope s;
  situ_scope_begin_no_grad(&s);
  const bool good = x ? clip(op, tp, x, max_norm, p, total) : (situ__no_memory(op, sizeof *x), false);
  if (!good) situ_comm_abort(tp->comm, situ_error_message());
  const situ_status ended = situ_scope_end(&s);
  situ__free(x);
  return good ? ended : situ_error();
}
