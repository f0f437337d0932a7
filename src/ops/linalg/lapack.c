/* What the ops of LAPACK share: their operands, and how they run on a device that has no LAPACK.
   SPDX-License-Identifier: MIT */
#include "lapack.h"

#include <string.h>

#include "situ/policy.h"

/* ---- on a device without LAPACK ---- */

/* True if all operands are on one device that lacks the verb. */
static bool must_leave(situ_tensor *const *in, int ins, situ_device *home) {
  for (int i = 0; i < ins; i++) {
    if (!situ__alive(in[i])) return false;
    const situ_device own = in[i]->view.storage->device;
    if (i && !situ__same_device(own, *home)) return false;
    *home = own;
  }
  return !situ_device_has(*home, SITU_VERB_LINALG);
}

static const situ_device cpu = { SITU_CPU, 0 };

/* False, after its backend recorded why, where no LAPACK can be opened on the machine: an error of this call, also on a
   device that computes later. */
static bool has_lapack(const char *op, situ_device where) {
  SITU__MADE_OF_OPS(op);
  const uint64_t before = situ__error_count();
  bool there;
  return situ__offers(op, where, &(situ_work){ .verb = SITU_VERB_LINALG }, &there) == SITU_OK &&
         (there || situ__error_count() == before);
}

static bool may_leave(const char *op, situ_device home) {
  const situ_policy policy = situ_get_policy();
  const int rule = policy.device_to_host < policy.host_to_device ? policy.device_to_host : policy.host_to_device;
  char name[SITU_DEVICE_NAME_MAX];
  situ_device_name(home, name);
  if (policy.fallback) return true;
  if (rule == SITU_POLICY_EXPLICIT)
    return situ__fail(
               SITU_E_UNSUPPORTED, op,
               "%s has no LAPACK, but the cpu has: copy the operands there (situ_to), or let this thread copy them and "
               "the results (situ_policy_begin with .fallback)",
               name),
           false;
  if (rule == SITU_POLICY_WARN && situ__is_new_here(SITU__WARN_LAPACK, op))
    situ__log("%s: %s has no LAPACK: copied to the cpu and back, as this thread's policy allows; this line is not "
              "warned of again",
              op, name);
  return true;
}

static bool copy_all(const char *op, situ_tensor *const *from, int count, situ_device to, situ_tensor **copies) {
  for (int i = 0; i < count; i++)
    if (from[i] && !(copies[i] = situ__copy_operand(op, from[i], to))) return false;
  return true;
}

static bool run_on_cpu(const situ_op *op, situ_tensor *const *in, int ins, const void *params, situ_device home,
                       situ_tensor **outs, int wanted) {
  situ_tensor *there[SITU_OPERANDS] = { NULL }, *results[SITU_RESULTS] = { NULL };
  return may_leave(op->name, home) && copy_all(op->name, in, ins, cpu, there) &&
         situ_op_run(op, there, ins, params, results) && copy_all(op->name, results, wanted, home, outs);
}

static bool run_here(const situ_op *op, situ_tensor *const *in, int ins, const void *params, situ_tensor **outs,
                     int wanted) {
  if (wanted == 1) return (outs[0] = situ_op_run(op, in, ins, params, NULL)) != NULL;
  situ_tensor *results[SITU_RESULTS] = { NULL };
  if (!situ_op_run(op, in, ins, params, results)) return false;
  memcpy(outs, results, (size_t)wanted * sizeof *outs);
  return true;
}

situ_tensor *situ__lapack_run(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                              situ_tensor **outs, int wanted) {
  situ_device home = cpu;
  situ_scope s;
  situ_scope_begin(&s);
  const bool leave = must_leave(in, ins, &home);
  bool good = has_lapack(op->name, leave ? cpu : home) && (leave ? run_on_cpu(op, in, ins, params, home, outs, wanted)
                                                                 : run_here(op, in, ins, params, outs, wanted));
  for (int k = 0; good && k < wanted; k++)
    if (outs[k]) good = situ_escape(&s, outs[k]) != NULL;
  SITU_IGNORE(situ_scope_end(&s));
  for (int k = 0; !good && k < wanted; k++) outs[k] = NULL;
  return outs[0];
}

/* ---- operands ---- */

bool situ__lapack_matrix(const situ_call *c, int operand, bool square) {
  const situ_view_desc *v = situ__desc(c->in[operand]);
  const char *name = c->op->operand[operand].name;
  const situ_shape shape = situ__shape(v);
  char text[SITU_SHAPE_TEXT];
  if (v->dtype != SITU_F32 && v->dtype != SITU_F64)
    return situ_refuse(c, SITU_E_DTYPE, "%s is %s: LAPACK computes in f32 and f64; cast it first", name,
                       situ_dtype_name((situ_dtype)v->dtype));
  if (v->ndim < 2)
    return situ_refuse(c, SITU_E_SHAPE, "%s is %s: matrices are the last two dimensions, it needs at least 2", name,
                       situ_shape_text(&shape, text));
  const int64_t rows = v->size[v->ndim - 2], columns = v->size[v->ndim - 1];
  if (square && rows != columns)
    return situ_refuse(c, SITU_E_SHAPE, "%s is %s: its matrices must be square", name, situ_shape_text(&shape, text));
  if (rows > INT32_MAX || columns > INT32_MAX)
    return situ_refuse(c, SITU_E_LIMIT, "%s is %s: LAPACK's sizes end at 2^31 - 1", name,
                       situ_shape_text(&shape, text));
  return true;
}

situ_shape situ__lapack_shape(const situ_call *c, int operand, int64_t rows, int64_t columns) {
  situ_shape shape = situ__shape(situ__desc(c->in[operand]));
  shape.ndim -= 2;
  if (rows >= 0) shape.dim[shape.ndim++] = rows;
  if (columns >= 0) shape.dim[shape.ndim++] = columns;
  return shape;
}

bool situ__lapack_system(situ_call *c, bool square) {
  if (!situ__lapack_matrix(c, 0, square) || !situ__lapack_matrix(c, 1, false)) return false;
  const situ_view_desc *a = situ__desc(c->in[0]), *b = situ__desc(c->in[1]);
  const int64_t m = a->size[a->ndim - 2], n = a->size[a->ndim - 1], k = b->size[b->ndim - 1];
  const situ_shape left = situ__shape(a), right = situ__shape(b);
  char l[SITU_SHAPE_TEXT], r[SITU_SHAPE_TEXT];
  if (b->size[b->ndim - 2] != m)
    return situ_refuse(c, SITU_E_SHAPE, "%s is %s and %s %s: they need the same number of rows", c->op->operand[0].name,
                       situ_shape_text(&left, l), c->op->operand[1].name, situ_shape_text(&right, r));
  situ_shape batch = situ__lapack_shape(c, 0, -1, -1), other = situ__lapack_shape(c, 1, -1, -1);
  if (!situ_shape_broadcast(c->op->name, &batch, &other)) return false;
  batch.dim[batch.ndim++] = k;
  batch.dim[batch.ndim++] = n;
  c->shape[0] = batch;
  c->dtype[0] = (situ_dtype)a->dtype;
  return true;
}

const situ_view_desc *situ__lapack_batched(const situ_view_desc *v, const situ_view_desc *y, int dims,
                                           situ_view_desc *desc) {
  situ_view_desc to = *y;
  to.ndim = (uint8_t)(y->ndim - 2 + dims);
  for (int d = 0; d < dims; d++) to.size[y->ndim - 2 + d] = v->size[v->ndim - dims + d];
  return situ_desc_expand(v, &to, desc);
}

bool situ__is_vectors(const situ_view_desc *a, const situ_view_desc *b) {
  if (b->ndim == 1) return true;
  bool same = b->ndim == a->ndim - 1;
  for (int d = 0; same && d < b->ndim; d++) same = a->size[d] == b->size[d];
  return same;
}
