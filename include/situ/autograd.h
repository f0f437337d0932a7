/* Autograd: reverse-mode differentiation over the graph that ops record.
   Threads: backward passes through shared leaves may run at once, and each .grad is the sum (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_H
#define SITU_AUTOGRAD_H

#include "tensor.h"

SITU_BEGIN

/** Whether ops on t are recorded for backward; false for NULL. */
SITU_API bool situ_requires_grad(const situ_tensor *t);
/** Sets whether a leaf gets a gradient; returns t, NULL on error. Floating dtypes only (SITU_E_DTYPE). */
SITU_API situ_tensor *situ_requires_grad_(situ_tensor *t, bool wanted);
/** Whether t was not computed by a recorded op; false for NULL. */
SITU_API bool situ_is_leaf(const situ_tensor *t);
/** The gradient accumulated by situ_backward; NULL if there is none yet. Borrowed: t owns it. Ops on it: see below. */
SITU_API situ_tensor *situ_grad(const situ_tensor *t);
/** Replaces the gradient; NULL drops it. Same shape, dtype and device as t. */
SITU_API SITU_CHECKED situ_status situ_set_grad(situ_tensor *t, situ_tensor *grad);
/** The same values without history: a new handle on the same storage that does not count as a view of t: in-place
    writes through one are not recorded in the history of the other. Makes a constant of a gradient. */
SITU_API SITU_CHECKED situ_tensor *situ_detach(situ_tensor *t);
/** Keeps the gradient of a non-leaf tensor too: backward accumulates into its .grad. */
SITU_API SITU_CHECKED situ_status situ_retain_grad(situ_tensor *t);

/** Whether this thread records ops for backward. */
SITU_API bool situ_is_grad_enabled(void);

typedef struct situ_backward_options {
  situ_tensor *gradient; /**< dL/dt, of t's shape; NULL for a one-element t: 1 */
  bool retain_graph;     /**< keep the saved tensors for another backward */
  bool create_graph;     /**< record the backward, so that gradients have a history and can be differentiated again;
                              retains the graph. An op or function without a second derivative is refused by name
                              (SITU_E_UNSUPPORTED) */
} situ_backward_options;
/** Adds dL/dx to the gradient of every leaf x that t depends on; on error no gradient changes. Frees the graph's saved
    tensors unless it is retained; after an error in the middle a graph that was not retained cannot be used again.
    Several threads may run backward through shared leaves at once: each .grad is the sum. They may share recorded calls
    as well if all of them retain the graph; else one of them is refused (SITU_E_STATE). Hooks and functions may call
    backward in turn, up to 60 deep (SITU_E_STATE): one that always goes backward on its own loss is refused. */
SITU_API SITU_CHECKED situ_status situ_backward(situ_tensor *t, const situ_backward_options *options);
/* Without create_graph, gradients (results of autograd_grad, .grad, arguments of hooks) have no history. A recorded op
   refuses them, and tensors computed from them while recording (SITU_E_UNSUPPORTED), because their own derivative would
   be lost; situ_detach makes a constant of them. With create_graph a .grad and the graph that it belongs to own each
   other: situ_set_grad(t, NULL), or an optimiser's zero_grad, frees both; situ_autograd_grad makes no such cycle. */

/** torch.autograd.grad: the gradients of t with respect to `count` inputs, written to grads[] (each owned by the
    innermost scope; NULL where t does not depend on the input; all NULL on error). grads must not overlap inputs
    (SITU_E_ALIAS, grads unchanged). No .grad changes. Runs, and frees, only the part of the graph that leads to the
    inputs, with the hooks of that part. */
SITU_API SITU_CHECKED situ_status situ_autograd_grad(situ_tensor *t, int count, situ_tensor *const *inputs,
                                                     situ_tensor **grads, const situ_backward_options *options);

/** Called with the gradient of a tensor when all its contributions have been summed; a result that is not NULL replaces
    it. */
typedef situ_tensor *(*situ_grad_hook)(situ_tensor *grad, void *payload);
/** Adds a hook to t, which must require a gradient; hooks run in the order of registration. */
SITU_API SITU_CHECKED situ_status situ_register_hook(situ_tensor *t, situ_grad_hook hook, void *payload);

/** torch.Tensor.register_post_accumulate_grad_hook: called with a leaf after a situ_backward has added to its .grad, in
    the thread of that call. */
typedef situ_status (*situ_post_accumulate_grad_hook)(situ_tensor *leaf, void *payload);
/** Adds such a hook to a leaf that requires a gradient; hooks run in the order of registration, those of all leaves
    when all gradients are in place. One that fails makes situ_backward fail, but the gradients stay added. */
SITU_API SITU_CHECKED situ_status situ_register_post_accumulate_grad_hook(situ_tensor *t,
                                                                          situ_post_accumulate_grad_hook hook,
                                                                          void *payload);

/** Called with a leaf and what its .grad is when the situ_backward succeeds, in the thread of that call: while backward
    still runs, as soon as nothing that remains of it adds to this gradient. For programs that send gradients away
    meanwhile, as PyTorch's DistributedDataParallel does. A leaf that has a .grad already, or post-accumulate hooks,
    which may change it, comes last: behind those hooks. */
typedef situ_status (*situ_grad_ready_hook)(situ_tensor *leaf, situ_tensor *grad, void *payload);
/** Adds such a hook to a leaf that requires a gradient; hooks run in the order of registration. One that fails makes
    situ_backward fail. */
SITU_API SITU_CHECKED situ_status situ_register_grad_ready_hook(situ_tensor *t, situ_grad_ready_hook hook,
                                                                void *payload);

/** The handle.remove() of torch: removes the hooks of t, of all kinds, that were registered with this payload. Not to
    be called by a hook of t. */
SITU_API void situ_remove_hooks(situ_tensor *t, const void *payload);
/** Called at the end of a backward pass. Any result but SITU_OK makes situ_backward fail; the gradients stay added. */
typedef situ_status (*situ_backward_callback)(void *payload);
/** torch's Variable._execution_engine.queue_callback: from a post-accumulate or grad ready hook, has a function called
    once when all such hooks of this situ_backward have run, also if it fails. SITU_E_STATE outside of such a hook. */
SITU_API SITU_CHECKED situ_status situ_autograd_queue_callback(situ_backward_callback callback, void *payload);

/** torch.autograd.set_detect_anomaly, for this thread: recorded calls remember their line and module. With check_nan a
    backward that computes a NaN fails (SITU_E_STATE) and names the call whose gradient it is. Slow: every gradient is
    read. */
SITU_API void situ_autograd_set_detect_anomaly(bool mode, bool check_nan);
/** Whether this thread detects anomalies. */
SITU_API bool situ_is_anomaly_enabled(void);

/** How values that recorded calls save for backward are kept (torch.autograd.graph.saved_tensors_hooks): compressed, on
    another device, in a file. Leaves that require a gradient are not packed. */
typedef struct situ_saved_tensors_hooks {
  /** Returns what is kept instead of t, owned by the graph; NULL: t itself. After an error the recorded call fails; one
      in place has written by then. */
  void *(*pack)(situ_tensor *t, void *payload);
  /** Returns the values again, owned by the scope: same shape, dtype and device. */
  situ_tensor *(*unpack)(void *packed, void *payload);
  void (*release)(void *packed, void *payload); /**< frees what pack returned; may be NULL */
  void *payload;                                /**< must stay valid until the graph is freed */
} situ_saved_tensors_hooks;
/** From now until ..._end, calls that this thread records save through these hooks, which are copied; scopes nest, and
    the innermost counts. */
SITU_API SITU_CHECKED situ_status situ_autograd_graph_saved_tensors_hooks_begin(const situ_saved_tensors_hooks *hooks);
/** Ends the innermost such scope of this thread; SITU_E_STATE: there is none. */
SITU_API situ_status situ_autograd_graph_saved_tensors_hooks_end(void);
/** torch.autograd.graph.save_on_cpu, for any device: saved tensors are copied there, and back for backward. Ended by
    situ_autograd_graph_saved_tensors_hooks_end. */
SITU_API SITU_CHECKED situ_status situ_autograd_graph_save_on(situ_device device);

/** A custom function (torch.autograd.Function): forward runs without recording; backward gets the gradients of the
    outputs (NULL where there is none) and fills those of the inputs. */
typedef struct situ_function {
  const char *name;
  situ_status (*forward)(situ_tensor *const *in, int count_in, situ_tensor **out, int count_out, void *payload);
  situ_status (*backward)(situ_tensor *const *in, int count_in, situ_tensor *const *out, int count_out,
                          situ_tensor *const *grad_out, situ_tensor **grad_in, void *payload);
  void (*release)(void *payload); /**< called once, when the recorded call is freed; may be NULL */
} situ_function;
/** Runs forward on in[] and records the call; out[], which must not overlap in[] (SITU_E_ALIAS), gets the results,
    owned by the innermost scope. */
SITU_API SITU_CHECKED situ_status situ_function_apply(const situ_function *function, situ_tensor *const *in,
                                                      int count_in, situ_tensor **out, int count_out, void *payload);

/** A function of `count` tensors: returns its result, which the innermost scope owns; NULL after recording an error. It
    must not depend on anything that it changes. Its operands are handles of their own on the given values. */
typedef situ_tensor *(*situ_func)(situ_tensor *const *in, int count, void *payload);

/** torch.utils.checkpoint: the function's result, without what backward needs of its inside: backward runs the function
    again, with the same random numbers (of the default generator) and settings, so that its gradients have the same
    bits (in autocast: those of calls that share no cast of a weight, .no_cache). Saves memory for one more forward.
    What the function reads besides in[], such as a module's parameters, gets gradients as always; other tensors with a
    history must be in in[] (SITU_E_ARG). payload must stay valid until the graph is freed. Values that it writes
    (running statistics) are written twice. Backward is refused by name if in[] or a parameter has changed or moved
    since, or if the result has another shape. Where nothing is recorded it just runs. NULL after recording an error;
    the innermost scope owns the result. */
SITU_API SITU_CHECKED situ_tensor *situ_recompute(situ_func function, void *payload, int count, situ_tensor *const *in);

SITU_END
#endif
