/* Derivatives of functions (torch.func): products with the Jacobian from both sides, whole Jacobians, Hessians.
   Threads: all state is the calling thread's.
   SPDX-License-Identifier: MIT */
#ifndef SITU_FUNC_H
#define SITU_FUNC_H

#include <limits.h>

#include "autograd.h"
#include "nn.h"
#include "tree.h"

SITU_BEGIN

/** torch.func.jvp: the function's result at the primals, and in *tangent (may be NULL) its derivative along the
    tangents, of the result's shape: the Jacobian times them. tangents[i] has the shape, dtype and device of primals[i];
    NULL: zeros. One pass in which values and derivatives are computed side by side (forward mode); no graph is kept.
    Where gradients are recorded and a primal requires one, both results can be differentiated again. A situ_func_vmap
    inside maps tangents, too. Refused by name (SITU_E_UNSUPPORTED) are ops without a recorded backward, custom
    functions, gradients and a further situ_func_jvp inside the function. */
SITU_API SITU_CHECKED situ_tensor *situ_func_jvp(situ_func function, void *payload, int count,
                                                 situ_tensor *const *primals, situ_tensor *const *tangents,
                                                 situ_tensor **tangent);

/** torch.func.vjp: the function's result at the primals, and in grads[count] the cotangent times the Jacobian, which is
    the gradient of sum(cotangent * result) by each primal (zeros where the result does not depend on it). cotangent:
    of the result's shape; NULL for a result of one element: 1. With create_graph the gradients can be differentiated
    again. grads must not overlap primals (SITU_E_ALIAS). */
SITU_API SITU_CHECKED situ_tensor *situ_func_vjp(situ_func function, void *payload, int count,
                                                 situ_tensor *const *primals, situ_tensor *cotangent, bool create_graph,
                                                 situ_tensor **grads);

/** torch.func.jacrev: the Jacobian by primals[argnum], of the result's shape followed by the primal's. Backward
    runs once for up to 1,024 elements of the result together, by situ_func_vmap. */
SITU_API SITU_CHECKED situ_tensor *situ_func_jacrev(situ_func function, void *payload, int count,
                                                    situ_tensor *const *primals, int argnum);
/** torch.func.jacfwd: the same by forward mode, which runs once for up to 1,024 elements of primals[argnum]
    together. */
SITU_API SITU_CHECKED situ_tensor *situ_func_jacfwd(situ_func function, void *payload, int count,
                                                    situ_tensor *const *primals, int argnum);
/** torch.autograd.functional.hvp: of a function with one element, the Hessian by primals[argnum] times v, which has the
    primal's shape: the gradient of the derivative along v. */
SITU_API SITU_CHECKED situ_tensor *situ_func_hvp(situ_func function, void *payload, int count,
                                                 situ_tensor *const *primals, int argnum, situ_tensor *v);
/** torch.func.hessian: of a function with one element, [primal's shape, primal's shape]: situ_func_hvp in all
    directions, up to 1,024 together. */
SITU_API SITU_CHECKED situ_tensor *situ_func_hessian(situ_func function, void *payload, int count,
                                                     situ_tensor *const *primals, int argnum);

/* ---- many samples ---- */

/** In in_dims of situ_func_vmap: the operand is the same for all samples (torch's None). */
#define SITU_FUNC_WHOLE INT_MIN

/** torch.func.vmap: runs a function of one sample once, for all samples. Dimension in_dims[i] of in[i] counts them
    (in_dims NULL: dimension 0 of each; SITU_FUNC_WHOLE: in[i] is the same for all); the function gets tensors without
    it, and the result has it as dimension out_dim. Inside, situ_func_vjp, situ_autograd_grad, situ_func_jvp and a
    further situ_func_vmap give each sample its own: gradients of a loss by parameters are those of each sample. Ops
    without a rule for many samples (situ_op.batched) run once for each. Random numbers differ between samples where an
    operand does. Refused by name: reading a sample's values on the host, situ_backward to a leaf that is the same for
    all, writing in place to what is visible outside. NULL after recording an error; the innermost scope owns the
    result. */
SITU_API SITU_CHECKED situ_tensor *situ_func_vmap(situ_func function, void *payload, int count, situ_tensor *const *in,
                                                  const int *in_dims, int out_dim);
/** A function of `count` tensors with several results, which it writes to out[outs]. */
typedef situ_status (*situ_func_many)(situ_tensor *const *in, int count, situ_tensor **out, int outs, void *payload);
/** The same with several results; out must not overlap in (SITU_E_ALIAS). */
SITU_API SITU_CHECKED situ_status situ_func_vmap_many(situ_func_many function, void *payload, int count,
                                                      situ_tensor *const *in, const int *in_dims, int out_dim, int outs,
                                                      situ_tensor **out);

/* ---- a module as a function of its tensors --------------------------------------------------- */

typedef struct situ_functional_call_options {
  bool untie_weights; /**< torch's tie_weights=False: a value given for one of several names of a tensor is not the
                           others' too */
  bool strict;        /**< every parameter and buffer must be given */
} situ_functional_call_options;
/** torch.func.functional_call: situ_nn_forward(m, x) with other tensors in the place of m's parameters and buffers, by
    their paths ("fc.weight"); those that are not given are m's own. Gradients flow to the given tensors, which may have
    a history; a buffer that the call writes (running statistics) is the given one. m is as before afterwards, also on
    error. SITU_E_ARG with the names that m does not have (torch: only with strict) or, with strict, that are missing,
    and if two values are given for one tied tensor. Calls of m by several threads at once are refused (SITU_E_STATE).
    A stretch of m under situ_recompute would read m's own tensors in backward, which refuses it. The result belongs to
    the caller's scope; NULL on error. */
SITU_API SITU_CHECKED situ_tensor *situ_func_functional_call(situ_nn_module *m, const situ_tree *tensors,
                                                             situ_tensor *x,
                                                             const situ_functional_call_options *options);
/** The same for any number of inputs, as situ_nn_call; the caller frees the tree. */
SITU_API SITU_CHECKED situ_tree *situ_func_functional_call_tree(situ_nn_module *m, const situ_tree *tensors,
                                                                const situ_tree *inputs,
                                                                const situ_functional_call_options *options);

/* ---- checking gradients, for ops and functions of one's own ---- */

typedef struct situ_gradcheck_options {
  size_t size;           /**< of this struct; from situ_gradcheck_defaults(), as the other defaults */
  double eps;            /**< the step of central differences, above 0; torch's default is 1e-6 */
  double atol, rtol;     /**< |backward - difference| <= atol + rtol |difference|; torch's defaults are 1e-5, 1e-3 */
  bool check_forward_ad; /**< compare forward mode (situ_func_jvp) with the differences, too */
} situ_gradcheck_options;
/** torch's defaults. */
static inline situ_gradcheck_options situ_gradcheck_defaults(void) {
  situ_gradcheck_options o = SITU_ZERO_;
  o.size = sizeof o;
  o.eps = 1e-6;
  o.atol = 1e-5;
  o.rtol = 1e-3;
  return o;
}
/** torch.autograd.gradcheck: compares the gradients of the result's elements, weighed with fixed random numbers, by
    those inputs that require a gradient, with central differences. Inputs should be f64: differences of f32 are too
    coarse (SITU_E_DTYPE). SITU_E_STATE if one differs, with the input, the element and both values. Values and
    gradients of the inputs stay as they are. */
SITU_API SITU_CHECKED situ_status situ_autograd_gradcheck(situ_func function, void *payload, int count,
                                                          situ_tensor *const *inputs,
                                                          const situ_gradcheck_options *options);
/** torch.autograd.gradgradcheck: the same for the gradients of these gradients, by the inputs and by the incoming
    gradient. */
SITU_API SITU_CHECKED situ_status situ_autograd_gradgradcheck(situ_func function, void *payload, int count,
                                                              situ_tensor *const *inputs,
                                                              const situ_gradcheck_options *options);

SITU_END
#endif
