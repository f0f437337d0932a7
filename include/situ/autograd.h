/* Gradients: reverse-mode differentiation over the tape that ops record.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_H
#define SITU_AUTOGRAD_H

#include "tensor.h"

SITU_BEGIN

SITU_API bool situ_requires_grad(const situ_tensor *t);
/** Sets whether gradients of a leaf are wanted; returns t. Only floating dtypes can have one. */
SITU_API situ_tensor *situ_requires_grad_(situ_tensor *t, bool wanted);
SITU_API bool situ_is_leaf(const situ_tensor *t);
/** The gradient accumulated by situ_backward; NULL if there is none yet. Borrowed: t owns it. */
SITU_API situ_tensor *situ_grad(const situ_tensor *t);
/** Replaces the gradient; NULL drops it. Same shape, dtype and device as t. */
SITU_API SITU_CHECKED situ_status situ_set_grad(situ_tensor *t, situ_tensor *grad);
/** The same values without history: a new handle on the same storage. */
SITU_API SITU_CHECKED situ_tensor *situ_detach(situ_tensor *t);
/** Keeps the gradient of a tensor that is no leaf too. */
SITU_API SITU_CHECKED situ_status situ_retain_grad(situ_tensor *t);

/** Is this thread recording? */
SITU_API bool situ_is_grad_enabled(void);

typedef struct situ_backward_options {
  situ_tensor *gradient;      /**< dL/dt, of t's shape; NULL for a one-element t: 1 */
  bool         retain_graph;  /**< keep the graph for another backward */
} situ_backward_options;
/** Adds dL/dx to the gradient of every leaf x that t depends on. */
SITU_API SITU_CHECKED situ_status situ_backward(situ_tensor *t, const situ_backward_options *options);
/** torch.autograd.grad: the gradients of t for `count` inputs, into grads[] (each owned by the innermost
    scope; NULL where t does not depend on the input). No .grad is touched. */
SITU_API SITU_CHECKED situ_status situ_autograd_grad(situ_tensor *t, int count,
                                                     situ_tensor *const *inputs, situ_tensor **grads,
                                                     const situ_backward_options *options);

/** Called with the gradient of t as soon as it is whole; what it returns replaces it (NULL: unchanged). */
typedef situ_tensor *(*situ_grad_hook)(situ_tensor *grad, void *payload);
SITU_API SITU_CHECKED situ_status situ_register_hook(situ_tensor *t, situ_grad_hook hook,
                                                     void *payload);

/** A function of one's own (torch.autograd.Function): forward runs without recording; backward gets
    the gradients of the outputs (NULL where none came) and fills those of the inputs. */
typedef struct situ_function {
  const char *name;
  situ_status (*forward)(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out,
                         void *payload);
  situ_status (*backward)(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                          situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload);
  void (*release)(void *payload);  /**< called once, when the call's record is freed; may be NULL */
} situ_function;
SITU_API SITU_CHECKED situ_status situ_function_apply(const situ_function *function,
                                                      situ_tensor *const *in, int count_in,
                                                      situ_tensor **out, int count_out, void *payload);

SITU_END
#endif
