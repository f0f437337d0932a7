/* Modules as the library's other parts see them: those that compute a part of a layer, or run a module without values.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_LAYERS_H
#define SITU_SYS_LAYERS_H

#include "../nn.h"

SITU_BEGIN

/** What a batch norm layer asks for in training mode. */
typedef struct situ_nn_normalise_call {
  situ_tensor *input;                      /**< [N, C, ...] */
  situ_tensor *running_mean, *running_var; /**< [C], to be updated in place; NULL: not tracked */
  situ_tensor *weight, *bias;              /**< [C]; NULL: no affine part */
  double momentum, eps;
} situ_nn_normalise_call;
/** Returns the result of situ_batch_norm in training mode, with statistics of its own; NULL after recording an error.
    Must refuse a second thread that trains the same layer. */
typedef situ_tensor *(*situ_nn_normaliser)(const situ_nn_normalise_call *call, void *payload);

/** Turns a batch norm layer into a SyncBatchNorm on [N, C, ...], which normalises by this function while it trains and
    keeps its parameters, buffers and options. payload is borrowed. Returns false if m is not a batch norm, or after
    recording an error. */
SITU_API bool situ_nn_batch_norm_through(situ_nn_module *m, situ_nn_normaliser normalise, void *payload);

/** Whether m is a Linear; *options gets those that it was made with. */
SITU_API bool situ_nn_linear_read(const situ_nn_module *m, situ_nn_linear_options *options);
/** Whether m is an Embedding; *options gets its options, with a padding_idx that is not negative. */
SITU_API bool situ_nn_embedding_read(const situ_nn_module *m, situ_embedding_options *options);
/** Whether m is a MultiheadAttention; *num_heads gets the number of heads that its parameters are for. */
SITU_API bool situ_nn_multihead_attention_read(const situ_nn_module *m, int64_t *num_heads);
/** Tells a MultiheadAttention that its projections are, or are about to be, those of so many heads, of the width that
    its heads have. Its out_proj gets their results, and it gives no attention weights unless these are all heads.
    Returns false if m is not one, or after recording an error. */
SITU_API bool situ_nn_multihead_attention_keep(situ_nn_module *m, int64_t num_heads);

/** Adds a hook before or after forward, as situ_nn_register_forward_pre_hook and situ_nn_register_forward_hook do, of
    an object that is bound to m itself, such as one that averages its gradients. situ_nn_clone does not copy it, and a
    dry run does not call it. payload is borrowed. */
SITU_API SITU_CHECKED situ_status situ_nn_register_wrapper_hook(situ_nn_module *m, bool before, situ_nn_hook hook,
                                                                void *payload, int64_t *handle);
/** Has a hook of the library's own called both before and after m's calls, with a copy of `text` as its payload; a
    clone has it too. The one with the same function is replaced; text NULL: it ends. */
SITU_API SITU_CHECKED situ_status situ_nn_set_own_hook(const char *op, situ_nn_module *m, situ_nn_hook hook,
                                                       const char *text);
/** Whether m has such a hook with that function. */
SITU_API bool situ_nn_has_own_hook(const situ_nn_module *m, situ_nn_hook hook);
/** Calls those of m's hooks on moves (situ_nn_on_move) whose handles are below `end`, up to the first one that fails,
    whose handle *failed (may be NULL) is then. */
SITU_API SITU_CHECKED situ_status situ_nn_run_move_hooks(situ_nn_module *m, situ_device from, situ_device to,
                                                         int64_t end, int64_t *failed);
/** Whether m has such hooks that this thread's moves call: in a dry run none. */
SITU_API bool situ_nn_has_move_hooks(const situ_nn_module *m);
/** Registers a tensor that another module has, as situ_nn_add_tensor does without a field: but its own name, role,
    device and requires_grad stay as they are. */
SITU_API situ_tensor *situ_nn_share_tensor(situ_nn_module *m, const char *name, situ_tensor *tensor, situ_nn_kind kind);

/** Tells whose calls follow, for a running module whose own code is that of several modules, as a program's is: `path`
    is below the running module ("encoder.fc1"; NULL: its own). What asks for the running module is told this path. The
    text is borrowed until the next such call or the end of the module's. */
SITU_API void situ_nn_running_part(const char *path);
/** Told by such a module: a result of a call of that part. Returns what this thread's watcher does, else SITU_OK. */
SITU_API SITU_CHECKED situ_status situ_nn_part_result(situ_tensor *result);
/** Has watch(result, payload) called for each such result on this thread from now on; NULL: nothing. */
SITU_API void situ_nn_watch_parts(situ_status (*watch)(situ_tensor *result, void *payload), void *payload);

/** Lists the modules that were made while another one was built, and that no module holds: at most `capacity`, which
    other threads may free. Returns their number. */
SITU_API int64_t situ_nn_unheld(const situ_nn_module **list, int64_t capacity);

/** Calls run(payload), which makes a dry run of m in a scope of its own, and leaves the unregistered fields of m and
    its parts as they were: it holds the tensors and trees that they point to, and releases what the run has put there.
    Memory of the program's own that a field points to is not looked at, but for arrays of tensors. own: m is the
    program's module; else it is a copy, of which fields that a type's .copy made are left out. inputs: the program's
    tensors that the run gets; NULL: none. Returns false after recording an error; then nothing was run. */
SITU_API bool situ_nn_keep_fields(situ_nn_module *m, bool own, const situ_tree *inputs, void (*run)(void *payload),
                                  void *payload);

SITU_END
#endif
