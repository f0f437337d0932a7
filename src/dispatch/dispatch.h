/* Floor 4: the one way to a kernel: check, infer, launch, record.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DISPATCH_DISPATCH_H
#define SITU_DISPATCH_DISPATCH_H

#include "autograd/tape.h"
#include "tensor/tensor.h"

/* check.c: handles alive, one device, dtypes as the schema says. Sets call->device. False: recorded, explained. */
bool situ__check(situ_call *call);
/* The same, but that operands on several devices are not explained yet. */
typedef enum situ__verdict { SITU__REFUSED, SITU__GOOD, SITU__MIXED } situ__verdict;
situ__verdict situ__examine(situ_call *call);
/* Does an operand's schema accept the dtype, but for being equal to the others'? */
bool situ__accepts(unsigned accept, situ_dtype dtype);
/* Records the mismatch of a mixed call; always false. */
bool situ__explain_devices(const situ_call *call) SITU_COLD;

/* policy.c: a mixed call: refused, or run with copies of what is elsewhere, as this thread's policy has it. */
bool situ__mixed(situ_call *call, bool (*run)(situ_call *call)) SITU_COLD;
/* True once for each address: whoever warns, and once is enough. */
bool situ__is_new(const void *about) SITU_COLD;
/* What this floor asks of the ops; src/wiring.c fills it in. */
typedef struct situ__dispatch_upcalls {
  /* Copies x to another device, or casts it, by an op, so that its gradient comes back. */
  situ_tensor *(*copy_operand)(const char *op, situ_tensor *x, situ_device to);
  situ_tensor *(*cast_operand)(situ_tensor *x, situ_dtype to);
} situ__dispatch_upcalls;
extern const situ__dispatch_upcalls situ__dispatch_up;

/* autocast.c: runs a call with its operands cast as its op's schema and the thread's autocast scopes say; what it runs sees
   no scope. */
bool situ__autocast_run(situ_call *c, bool (*run)(situ_call *call)) SITU_COLD;
/* The casts alone, in place, for a function that is made of other ops. False: recorded. */
bool situ__autocast_operands(const situ_op *schema, situ_tensor **in, int ins) SITU_COLD;
static inline bool situ__autocast(const situ_op *schema, situ_tensor **in, int ins) {
  return !situ__setting.autocast || situ__autocast_operands(schema, in, ins);
}
/* For the floors below (fail.h, device.h, tape.h). */
void situ__forget_casts(void);
bool situ__explain_error(situ_status status, const char *op, const char *text);
situ_status situ__blame(situ_status status, const char *op, const situ_blamed *list, int count, const char *text);

/* The plainest call of all, and the commonest of small ones: two floating tensors alike, on one device, nothing to
   record. All that the check asks, and the rest that must be known, is then seen in one step; the slightest doubt
   goes the long way. Here, so that bench/check.c times the very same. */
static inline bool situ__plain_pair(const situ_op *op, situ_tensor *const *in) {
  const situ_tensor *a = in[0], *b = in[1];
  if (!(op->flags & SITU_OP_PAIR) || !situ__alive(a) || !situ__alive(b)) return false;
  const situ_view_desc *x = &a->view, *y = &b->view;
  if (x->dtype != y->dtype || x->dtype < SITU_F16 || !x->contiguous || !y->contiguous || !x->numel ||
      !situ__same_sizes(x, y))
    return false;
  const situ_device here = x->storage->device, there = y->storage->device;
  if (here.kind != there.kind || here.index != there.index || here.kind == SITU_META) return false;
  return !(a->requires_grad | b->requires_grad | a->first_order | b->first_order) || !situ__recording();
}

/* call.c: the node of a call of op that is not run: its results are there already. NULL: recorded. */
situ__node *situ__op_node(const situ_op *op, situ_tensor *const *in, int ins, const void *params,
                          situ_tensor *const *out);

/* explain.c: records a mismatch of operands, with the table of all of them; odd: bit mask of those at fault, 0: those that
   have not what most have. */
bool situ__explain(const situ_call *call, situ_status status, unsigned odd, const char *fmt, ...)
    SITU_PRINTF(4, 5) SITU_COLD;

/* fit.c: a gradient in its operand's shape and dtype: broadcast dimensions summed, cast back. Owned by the scope;
   NULL: recorded. */
situ_tensor *situ__fit_gradient(const char *op, situ_tensor *grad, const situ_shape *shape, situ_dtype dtype);

/* dry.c: a call in a dry run. What is wrong with it is told, and it goes on if its results can be guessed. */
bool situ__dry_call(situ_call *call, bool (*run)(situ_call *call));

#endif
