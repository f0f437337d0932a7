/* The only path to a kernel: check, infer, launch, record.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_DISPATCH_H
#define SITU_DISPATCH_DISPATCH_H

#include "autograd/tape.h"
#include "situ/sys/op.h"
#include "tensor/tensor.h"

/* check.c: checks that handles are live, devices equal, and dtypes as the schema says, and sets call->device. Returns
   false after recording an explained error. */
bool situ__check(situ_call *call);
/* The same, except that operands on several devices are not explained yet (SITU__MIXED). */
typedef enum situ__verdict { SITU__REFUSED, SITU__GOOD, SITU__MIXED } situ__verdict;
situ__verdict situ__examine(situ_call *call);
/* Whether every operand is there that cannot be left out. */
bool situ__has_operands(const situ_call *call);
/* Returns true if an operand's schema accepts the dtype, ignoring that it must equal the others'. */
bool situ__accepts(unsigned accept, situ_dtype dtype);
/* Records the mismatch of a mixed call. Returns false. */
bool situ__explain_devices(const situ_call *call) SITU_COLD;

/* policy.c: handles a mixed call as this thread's policy says: records an error, or runs it with copies of the
   operands that are elsewhere. */
bool situ__mixed(situ_call *call, bool (*run)(situ_call *call)) SITU_COLD;
/* What this floor needs from the ops; src/wiring.c fills it in. */
typedef struct situ__dispatch_upcalls {
  /* Copies x to another device, or casts it, with an op, so that it is differentiable. */
  situ_tensor *(*copy_operand)(const char *op, situ_tensor *x, situ_device to);
  situ_tensor *(*cast_operand)(situ_tensor *x, situ_dtype to);
  situ_tensor *(*dequantize)(situ_tensor *x);
  /* Sums x over the dimensions in which it was broadcast from `shape`, with an op. */
  situ_tensor *(*sum_to)(situ_tensor *x, const situ_shape *shape);
  situ_tensor *(*zeros)(situ_shape shape, const situ_options *options);
  /* In forward mode: runs a call, and computes the tangents of its results. */
  bool (*run_dual)(situ_call *call, bool (*run)(situ_call *call));
  /* In situ_func_vmap: runs a call whose shape rule has run, some of whose operands are samples. */
  bool (*run_samples)(situ_call *call);
  /* The same for a function without an op: calls run once for each sample, and joins its results. out[k] stays NULL
     where run gives none. */
  bool (*each_sample)(const char *op, situ_tensor *const *in, int ins, situ_tensor **out, int outs,
                      bool (*run)(situ_tensor *const *in, situ_tensor **out, const void *context), const void *context);
} situ__dispatch_upcalls;
extern const situ__dispatch_upcalls situ__dispatch_up;

/* autocast.c: runs a call with its operands cast as its op's schema and the thread's autocast scopes say. Autocast is
   off inside. */
bool situ__autocast_run(situ_call *c, bool (*run)(situ_call *call)) SITU_COLD;
/* Only the casts, in place, for a function made of other ops. Returns false after recording an error. */
bool situ__autocast_operands(const situ_op *schema, situ_tensor **in, int ins) SITU_COLD;
static inline bool situ__autocast(const situ_op *schema, situ_tensor **in, int ins) {
  return !situ__setting.autocast || situ__autocast_operands(schema, in, ins);
}
/* Upcalls of the floors below (fail.h, device.h, tape.h). */
void situ__forget_casts(void);
void situ__swap_casts(situ__map *other);
bool situ__explain_error(situ_status status, const char *op, const char *text);
situ_status situ__explain_incapable(const char *op, situ_dtype lacking, const char *text);
void situ__explain_module(char *buffer, size_t size);
void situ__explain_tensor(const situ_tensor *t, char *buffer, size_t size);
situ_status situ__blame(situ_status status, const char *op, const situ_blamed *list, int count, const char *text);

/* The fast paths, for the commonest small calls: two floating tensors of equal dtype and device, with nothing to
   record. They test all conditions in one step; any doubt takes the general path. In the header so that bench/check.c
   times this code. This is the part that they share. */
static inline bool situ__plain_two(const situ_tensor *a, const situ_tensor *b) {
  const situ_device here = a->view.storage->device, there = b->view.storage->device;
  if (here.kind != there.kind || here.index != there.index || here.kind == SITU_META) return false;
  if (situ__forward_mode & 1 || situ__sampling) return false; /* ON, or TRACED */
  return !(a->requires_grad | b->requires_grad | a->first_order | b->first_order) || !situ__recording();
}
/* An element-wise op and operands of equal sizes. */
static inline bool situ__plain_pair(const situ_op *op, const situ_tensor *a, const situ_tensor *b) {
  if (!(op->flags & SITU_OP_PAIR) || !situ__alive(a) || !situ__alive(b)) return false;
  const situ_view_desc *x = &a->view, *y = &b->view;
  if (x->dtype != y->dtype || x->dtype < SITU_F16 || !x->contiguous || !y->contiguous || !x->numel ||
      !situ__same_sizes(x, y))
    return false;
  return situ__plain_two(a, b);
}
/* call.c: situ_op_run2 by that path where it can be taken. */
situ_tensor *situ__run_two(const situ_op *op, situ_tensor *a, situ_tensor *b);

/* infer.c: gives the results of a call of element-wise work, whose shape is inferred, the order of strides that torch
   gives them. Operands that are all contiguous give contiguous results, without this. */
void situ__order_results(situ_call *call) SITU_COLD;
static inline void situ__keep_order(situ_call *c) {
  if (!c->in[0]->view.contiguous) situ__order_results(c);
}
/* The same, where the result has dimensions of stride 0 that the first operand has, too. */
void situ__keep_strides(situ_call *call);
/* The same by a memory format; row-major if the result has another rank. */
void situ__format_results(situ_call *call, situ_memory_format format) SITU_COLD;

/* The same by the first operand's, for SITU_OP_FORMAT. */
void situ__follow_format(situ_call *call);

/* call.c: to = from, of the same sizes and device, any strides, without recording. Returns false after recording an
   error. */
bool situ__copy_values(const char *op, const situ_view_desc *from, const situ_view_desc *to);
/* call.c: result k of a call whose shape is inferred, in the order of strides that infer has chosen: other results than
   those of call->view's sizes are row-major. */
situ_tensor *situ__result_new(const situ_call *call, int k);

/* The type behind situ_grad_call.node; none: a backward outside of a pass. */
typedef struct situ__place {
  situ__pass *pass;
  const situ__node *node;
} situ__place;
extern const situ__place situ__no_place;

/* recorded.c: the backward of a call whose gradients are differentiated again. */
bool situ__recorded_backward(situ_grad_call *call);

/* call.c: returns the node of a call whose results exist already; NULL after recording an error. */
situ__node *situ__op_node(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                          situ_tensor *const *out);

/* explain.c: records a mismatch of operands, with a table of all of them. refused: those that the schema does not
   accept are at fault; else those that differ from the majority. */
bool situ__explain(const situ_call *call, situ_status status, bool refused, const char *fmt, ...)
    SITU_PRINTF(4, 5) SITU_COLD;

/* fit.c: returns a gradient in its operand's shape and dtype: broadcast dimensions summed, cast back. The scope owns
   it; NULL after recording an error. */
situ_tensor *situ__fit_gradient(const char *op, situ_tensor *grad, const situ_shape *shape, situ_dtype dtype);

/* dry.c: a call in a dry run. Its errors are reported, and it continues if its results can be inferred or guessed. */
bool situ__dry_call(situ_call *call, bool (*run)(situ_call *call));

#endif
