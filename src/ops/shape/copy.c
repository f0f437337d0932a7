/* Copies: clone, contiguous, casts, memory formats, copy_, and transfers between devices.
   SPDX-License-Identifier: MIT */
#include "base/alloc.h"
#include "base/fail.h"
#include "base/fork.h"
#include "device/profile/profile.h"
#include "ops/ops.h"
#include "situ/sys/plain.h"

/* ---- clone, to_dtype: a copy in a given dtype and memory format ---- */

typedef struct cast_params {
  situ_dtype dtype;
  situ_memory_format format; /* DEFAULT: preserve */
} cast_params;

static bool cast_infer(situ_call *c) {
  situ_infer_like(c);
  const cast_params *p = c->params;
  if (!situ_dtype_size(p->dtype)) return situ_refuse(c, SITU_E_DTYPE, "%d is not a dtype", (int)p->dtype);
  c->dtype[0] = p->dtype;
  if (p->format >= SITU_CHANNELS_LAST) situ__format_results(c, p->format);
  else if (p->format != SITU_CONTIGUOUS_FORMAT) situ__keep_alike(c);
  return true;
}

static bool copy_forward(situ_call *c) {
  return situ__launch_elementwise(c->op->name, c->device,
                                  &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1,
                                                .in = { situ__desc(c->in[c->ins - 1]) },
                                                .out = { situ__desc(c->out[0]) } });
}

/* The tape casts the gradient back to the operand's dtype. */
static bool identity_backward(situ_grad_call *g) { return (g->dx[0] = g->grad[0]) != NULL; }

/* A program does not follow memory formats other than the row-major one. */
static bool clone_traced(const situ_call *c, situ_export_trace *t) {
  const bool rows = ((const cast_params *)c->params)->format == SITU_CONTIGUOUS_FORMAT;
  return situ_export_call(t, rows ? "contiguous.default" : "clone.default", "t", c->in[0]);
}
static bool cast_traced(const situ_call *c, situ_export_trace *t) {
  return situ_export_call(t, "to.dtype", "td", c->in[0], ((const cast_params *)c->params)->dtype);
}
static bool copy_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "default"); }

SITU_OP(clone_op) = { .name = "clone",
                      .traced = clone_traced,
                      .operand = { { "input", SITU_BLOCKS } },
                      .params_size = sizeof(cast_params),
                      .flags = SITU_OP_LINEAR,
                      .infer = cast_infer,
                      .forward = copy_forward,
                      .batched = situ_batch_broadcast,
                      .backward = identity_backward,
                      .backward_recorded = identity_backward };
SITU_OP(to_dtype_op) = { .name = "to_dtype",
                         .traced = cast_traced,
                         .operand = { { "input", 0 } },
                         .params_size = sizeof(cast_params),
                         .flags = SITU_OP_LINEAR,
                         .infer = cast_infer,
                         .forward = copy_forward,
                         .batched = situ_batch_broadcast,
                         .backward = identity_backward,
                         .backward_recorded = identity_backward };

static situ_tensor *clone_as(situ_tensor *x, situ_memory_format format) {
  return situ_op_run1(&clone_op, x, &(cast_params){ (situ_dtype)x->view.dtype, format });
}
static bool may_have(const char *op, const situ_tensor *x, situ_memory_format format) {
  return situ__need(op, "input", x) && situ__format_check(op, format, x->view.ndim);
}

situ_tensor *situ_clone(situ_tensor *input) {
  return situ__need("clone", "input", input) ? clone_as(input, SITU_PRESERVE_FORMAT) : NULL;
}

/* Whether a copy is no more than new memory and a few bytes of the host, beside which the call of an op takes long. */
static bool is_plainly_copied(const situ_tensor *t) {
  enum { MOST = 64 << 10 };
  const uint32_t odd = SITU_STORAGE_UNWRITTEN | SITU__STORAGE_NOWHERE | SITU_STORAGE_BLOCKS;
  const situ_storage *s = t->view.storage;
  return situ_is_plain() && !situ__is_profiled() && !situ__forked() && s->device.kind == SITU_CPU && s->bytes <= MOST &&
         t->view.numel && t->view.contiguous && !(situ__storage_flags(s) & odd);
}

static situ_tensor *copy_plainly(const char *op, const situ_view_desc *v) {
  situ_tensor *copy = situ__tensor_apart(op, v, (situ_dtype)v->dtype);
  if (!copy) return NULL;
  situ_storage *to = copy->view.storage;
  memcpy(to->data, (const char *)v->storage->data + (size_t)v->offset * situ_dtype_size((situ_dtype)v->dtype),
         to->bytes);
  situ__storage_wrote(to);
  return copy;
}

situ_tensor *situ_duplicate(situ_tensor *t) {
  if (!situ__need("clone", "input", t)) return NULL;
  __builtin_prefetch(t->name, 1); /* its owners are counted there at the end */
  situ_tensor *copy = is_plainly_copied(t) ? copy_plainly("clone", &t->view) : situ_retain(situ_clone(t));
  if (!copy) return NULL;
  copy->name = situ__share_text(t->name);
  copy->role = t->role;
  copy->requires_grad = t->requires_grad;
  return copy;
}

situ_tensor *situ_clone_memory_format(situ_tensor *input, situ_memory_format memory_format) {
  SITU__MADE_OF_OPS("clone_memory_format");
  return may_have("clone_memory_format", input, memory_format) ? clone_as(input, memory_format) : NULL;
}

situ_tensor *situ_contiguous(situ_tensor *input) {
  SITU__MADE_OF_OPS("contiguous");
  if (!situ__need("contiguous", "input", input)) return NULL;
  return input->view.contiguous ? input : clone_as(input, SITU_CONTIGUOUS_FORMAT);
}
situ_tensor *situ_contiguous_memory_format(situ_tensor *input, situ_memory_format memory_format) {
  SITU__MADE_OF_OPS("contiguous_memory_format");
  const char *op = "contiguous_memory_format";
  if (!may_have(op, input, memory_format)) return NULL;
  if (memory_format == SITU_PRESERVE_FORMAT)
    return situ__fail(SITU_E_ARG, op, "preserve is not a format to copy into"), NULL;
  return situ__is_format(&input->view, memory_format)
             ? input
             : clone_as(input, memory_format ? memory_format : SITU_CONTIGUOUS_FORMAT);
}

situ_tensor *situ_to_dtype(situ_tensor *input, situ_dtype dtype) {
  if (!situ__need("to_dtype", "input", input)) return NULL;
  if (situ__watches_casts() && !situ__check_cast("to_dtype", input, dtype)) return NULL;
  return (situ_dtype)input->view.dtype == dtype ? input
                                                : situ_op_run1(&to_dtype_op, input, &(cast_params){ .dtype = dtype });
}
/* As in torch, strides with gaps have the format that they are nearest to. */
situ_tensor *situ_to_memory_format(situ_tensor *input, situ_memory_format memory_format) {
  SITU__MADE_OF_OPS("to_memory_format");
  if (!may_have("to_memory_format", input, memory_format)) return NULL;
  const bool as_is = memory_format <= SITU_PRESERVE_FORMAT && memory_format != SITU_CONTIGUOUS_FORMAT;
  return as_is || situ__suggest_format(&input->view) == memory_format ? input : clone_as(input, memory_format);
}

/* ---- copy_: src, broadcast and cast, into x ---- */

static bool copy_infer(situ_call *c) {
  const situ_block_type to = situ__blocks_of(situ__desc(c->in[0])), from = situ__blocks_of(situ__desc(c->in[1]));
  if (to != from)
    return situ_refuse(c, SITU_E_DTYPE, "input holds %s, src holds %s: they must be equal", situ_block_name(to),
                       situ_block_name(from));
  situ_shape own = situ__shape(&c->in[0]->view), both = own, src = situ__shape(&c->in[1]->view);
  if (!situ_shape_broadcast(c->op->name, &both, &src)) return false;
  c->shape[0] = both;
  c->dtype[0] = (situ_dtype)c->in[0]->view.dtype; /* copy_ casts any dtype */
  return true;
}

static bool copy_into_forward(situ_call *c) {
  situ_view_desc desc;
  return situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_COPY, .ins = 1, .outs = 1,
                                   .in = { situ_desc_expand(situ__desc(c->in[1]), situ__desc(c->out[0]), &desc) },
                                   .out = { situ__desc(c->out[0]) } });
}

static bool copy_into_backward(situ_grad_call *g) {
  if (g->wants[0] && !(g->dx[0] = situ_zeros_like(g->grad[0], NULL))) return false;
  g->dx[1] = g->grad[0];
  return true;
}

SITU_OP(copy_op) = { .name = "copy_",
                     .traced = copy_traced,
                     .operand = { { "input", SITU_BLOCKS }, { "src", SITU_BLOCKS } },
                     .infer = copy_infer,
                     .forward = copy_into_forward,
                     .batched = situ_batch_broadcast,
                     .backward = copy_into_backward,
                     .backward_recorded = copy_into_backward };

situ_tensor *situ_copy_(situ_tensor *input, situ_tensor *src) {
  situ_tensor *in[2] = { input, src };
  if (situ__watches_casts() && situ__alive(input) && situ__alive(src) &&
      !situ__check_cast("copy_", src, (situ_dtype)input->view.dtype))
    return NULL;
  return situ_op_run_(&copy_op, in, 2, NULL);
}

/* ---- to: the same values on another device ---- */

/* Target and source device, the latter for backward; which module needs the copy, and why. */
typedef struct to_params {
  situ_device to, from;
  const char *op;
  situ__copy_reason why;
  bool non_blocking;
} to_params;

static bool to_infer(situ_call *c) {
  const to_params *p = c->params;
  const situ_view_desc *x = situ__desc(c->in[0]);
  situ_infer_like(c);
  if (p->to.kind != SITU_META && situ__first_unwritten(x) >= 0) return situ__refuse_unwritten(c->op->name, x), false;
  if (c->device.kind == SITU_META && x->numel && !situ__recipe_has(x->storage))
    return situ_refuse(
        c, SITU_E_STATE,
        "input has no values: what it was computed from is not known on meta; make it on the other device instead");
  if (c->device.kind == SITU_META) situ__keep_order(c); /* a recipe gives each element */
  else situ__keep_strides(c);
  c->device = p->to;
  return true;
}

/* x, or a copy of it, in y's order of strides, which is dense. */
static situ_tensor *in_order(situ_tensor *x, const situ_view_desc *y) {
  return situ__same_order(y, &x->view) ? x : situ_clone(x);
}

/* Creates a tensor with a recipe on the other device directly, with the values that the recipe gives there. */
static bool follow_recipe(situ_call *c) {
  const situ_view_desc *y = situ__desc(c->out[0]), *x = situ__desc(c->in[0]);
  situ_tensor *from = x->storage->bytes == y->storage->bytes ? in_order(c->in[0], y) : situ_clone(c->in[0]);
  if (from && !situ__recipe_has(situ_desc(from)->storage))
    return situ_refuse(c, SITU_E_LIMIT,
                       "its values take too many steps to repeat; make it on the other device instead");
  return from && situ__recipe_replay(c->op->name, situ_desc(from)->storage, y->storage);
}

static bool to_forward(situ_call *c) {
  const to_params *p = c->params;
  if (situ__desc(c->in[0])->storage->device.kind == SITU_META) return follow_recipe(c);
  const situ_view_desc *given = situ__desc(c->in[0]), *y = situ__desc(c->out[0]), each = situ__unexpanded(given),
                       to = situ__unexpanded(y);
  situ_tensor *from = situ__is_expanded(given) ? situ__tensor_view(c->op->name, &each) : c->in[0];
  if (!from || !(from = in_order(from, &to))) return false;
  const situ_view_desc *x = situ_desc(from);
  const size_t item = situ_dtype_size((situ_dtype)x->dtype), from_at = (size_t)x->offset * item,
               at = (size_t)given->offset * item, bytes = (size_t)x->numel * item;
  const situ_status status =
      p->non_blocking
          ? situ__copy_storage_later(p->op, y->storage, x->storage, from_at, bytes, p->why, given->storage, at)
          : situ__copy_storage_of(p->op, y->storage, 0, x->storage, from_at, bytes, p->why, given->storage, at);
  return status == SITU_OK;
}

static const situ_op to_op;

static situ_tensor *copy_to(situ_tensor *x, const to_params *p) {
  return situ__same_device(p->from, p->to) ? x : situ_op_run1(&to_op, x, p);
}

static bool to_backward(situ_grad_call *g) {
  const to_params *p = g->params;
  const to_params back = { p->from, situ_device_of(g->grad[0]), p->op, p->why, p->why == SITU__COPY_OFFLOAD };
  return (g->dx[0] = copy_to(g->grad[0], &back)) != NULL;
}

SITU_OP(to_op) = { .name = "to",
                   .operand = { { "input", SITU_BLOCKS } },
                   .flags = SITU_OP_MOVES | SITU_OP_COMPOSED,
                   .params_size = sizeof(to_params),
                   .infer = to_infer,
                   .forward = to_forward,
                   .backward = to_backward,
                   .backward_recorded = to_backward };

situ_tensor *situ_to(situ_tensor *input, situ_device device) {
  if (!situ__need("to", "input", input) || !situ__device_resolve("to", device, &device)) return NULL;
  return copy_to(input, &(to_params){ device, situ_device_of(input), "to", SITU__COPY_USER, false });
}
situ_tensor *situ_to_non_blocking(situ_tensor *input, situ_device device) {
  SITU__MADE_OF_OPS("to_non_blocking");
  const char *op = "to_non_blocking";
  if (!situ__need(op, "input", input) || !situ__device_resolve(op, device, &device)) return NULL;
  return copy_to(input, &(to_params){ device, situ_device_of(input), op, SITU__COPY_USER, true });
}

situ_tensor *situ_fetch(situ_tensor *input, situ_device device) {
  if (!situ__need("fetch", "input", input) || !situ__device_resolve("fetch", device, &device)) return NULL;
  const bool to_host = situ__backend(device)->host_memory; /* its values may be read at once */
  return copy_to(input, &(to_params){ device, situ_device_of(input), "nn_offload", SITU__COPY_OFFLOAD, !to_host });
}
situ_tensor *situ_bring(situ_tensor *input, situ_device device) {
  static const char op[] = "nn_bring_inputs";
  if (!situ__need(op, "input", input) || !situ__device_resolve(op, device, &device)) return NULL;
  return copy_to(input, &(to_params){ device, situ_device_of(input), op, SITU__COPY_INPUT, false });
}

situ_tensor *situ__copy_operand(const char *op, situ_tensor *x, situ_device device) {
  return copy_to(x, &(to_params){ device, situ_device_of(x), op, SITU__COPY_POLICY, false });
}
