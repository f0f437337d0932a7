/* Gradients: reverse-mode differentiation over the tape that ops record.
   Threads: passes through shared leaves may run at once, and each .grad is the sum (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_H
#define SITU_AUTOGRAD_H

#include "tensor.h"

SITU_BEGIN

SITU_API bool situ_requires_grad(const situ_tensor *t);
/** Sets whether gradients of a leaf are wanted; returns t. Only floating dtypes can have one. */
SITU_API situ_tensor *situ_requires_grad_(situ_tensor *t, bool wanted);
SITU_API bool situ_is_leaf(const situ_tensor *t);
/** The gradient accumulated by situ_backward; NULL if there is none yet. Borrowed: t owns it. Not a constant: see below. */
SITU_API situ_tensor *situ_grad(const situ_tensor *t);
/** Replaces the gradient; NULL drops it. Same shape, dtype and device as t. */
SITU_API SITU_CHECKED situ_status situ_set_grad(situ_tensor *t, situ_tensor *grad);
/** The same values without history: a new handle on the same storage, and no view of t: what is written in place through the
    one is not in the history of the other. Of a gradient: one that may be used as a constant. */
SITU_API SITU_CHECKED situ_tensor *situ_detach(situ_tensor *t);
/** Keeps the gradient of a non-leaf too: backward adds to it. */
SITU_API SITU_CHECKED situ_status situ_retain_grad(situ_tensor *t);

/** Is this thread recording? */
SITU_API bool situ_is_grad_enabled(void);

typedef struct situ_backward_options {
  situ_tensor *gradient; /**< dL/dt, of t's shape; NULL for a one-element t: 1 */
  bool retain_graph;     /**< keep the graph for another backward */
  bool create_graph;     /**< refused (SITU_E_UNSUPPORTED): second derivatives are not there yet */
} situ_backward_options;
/** Adds dL/dx to the gradient of every leaf x that t depends on, of all of them or, on an error, of none. Frees what the graph has
    saved unless it is retained; after an error in the middle a graph that was not retained cannot be used again. Several threads
    may go backward through shared leaves at once: each .grad is the sum. They may share calls as well if all of them retain
    the graph; else one of them is refused (SITU_E_STATE). */
SITU_API SITU_CHECKED situ_status situ_backward(situ_tensor *t, const situ_backward_options *options);
/* Gradients (what autograd_grad returns, .grad, what hooks are shown) have no history, for second derivatives are not there yet.
   A recorded op refuses them, and what was computed from them while gradients were recorded (SITU_E_UNSUPPORTED), since their own
   derivative would be dropped; situ_detach makes a constant of them. */

/** torch.autograd.grad: the gradients of t for `count` inputs, into grads[] (each owned by the innermost
    scope; NULL where t does not depend on the input, and all of them on an error). No .grad is touched. Runs, and frees, only
    what leads to the inputs; hooks run of the inputs and of what lies between. */
SITU_API SITU_CHECKED situ_status situ_autograd_grad(situ_tensor *t, int count, situ_tensor *const *inputs,
                                                     situ_tensor **grads, const situ_backward_options *options);

/** Called with the gradient of t as soon as it is whole; what it returns replaces it (NULL: unchanged). */
typedef situ_tensor *(*situ_grad_hook)(situ_tensor *grad, void *payload);
SITU_API SITU_CHECKED situ_status situ_register_hook(situ_tensor *t, situ_grad_hook hook, void *payload);

/** A function of one's own (torch.autograd.Function): forward runs without recording; backward gets
    the gradients of the outputs (NULL where none came) and fills those of the inputs. */
typedef struct situ_function {
  const char *name;
  situ_status (*forward)(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload);
  situ_status (*backward)(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                          situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload);
  void (*release)(void *payload); /**< called once, when the call's record is freed; may be NULL */
} situ_function;
SITU_API SITU_CHECKED situ_status situ_function_apply(const situ_function *function, situ_tensor *const *in,
                                                      int count_in, situ_tensor **out, int count_out, void *payload);

SITU_END
#endif
