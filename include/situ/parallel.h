/* One model over several ranks: layers in parts (torch.distributed.tensor.parallel), and parts of a model one after
   another (torch.distributed.pipelining).
   Threads: a divided model is used by the thread that trains (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_PARALLEL_H
#define SITU_PARALLEL_H

#include "amp.h"
#include "comm.h"
#include "nn.h"
#include "optim.h"

SITU_BEGIN

/* ---- collectives with a derivative (Shoeybi et al., arXiv:1909.08053) ----------------------- */

/* Collective calls in forward, or in backward, or in both, which all ranks make in the same order. `comm` is borrowed
   until the graph is freed, and is not that of a ddp. name: for messages; may be NULL. Sums are added in a tree over
   ranks, in f32 if x is f16 or bf16: all ranks have the same bits, with any engine. On one rank they return x. The
   innermost scope owns the result; NULL on error. */

/** x, which is the same on all ranks and of which each computes with a part of a layer. Backward: the sum of all ranks'
    gradients. */
SITU_API SITU_CHECKED situ_tensor *situ_dist_copy_to(situ_tensor *x, situ_comm *comm, const char *name);
/** The sum of all ranks' x, with which all go on in the same way. Backward: the gradient as it is. */
SITU_API SITU_CHECKED situ_tensor *situ_dist_reduce_from(situ_tensor *x, situ_comm *comm, const char *name);
/** This rank's part of x, which is the same on all ranks: of R equal parts along dimension `dim` (SITU_E_SHAPE).
    Backward: situ_dist_gather_from. */
SITU_API SITU_CHECKED situ_tensor *situ_dist_scatter_to(situ_tensor *x, int dim, situ_comm *comm, const char *name);
/** The parts of all ranks, in their order along dimension `dim`; of equal shapes. Backward: situ_dist_scatter_to. */
SITU_API SITU_CHECKED situ_tensor *situ_dist_gather_from(situ_tensor *x, int dim, situ_comm *comm, const char *name);

/* ---- layers in parts ---------------------------------------------------------------------- */

typedef enum situ_dist_style {
  /** torch's ColwiseParallel. Linear: this rank's out_features; Embedding: its columns. The input is whole, the result
      a part of the last dimension. */
  SITU_DIST_COLWISE = 0,
  /** torch's RowwiseParallel. Linear: this rank's in_features, of which the input is a part; Embedding: its rows, with
      a whole input. The result is whole, and so is bias. */
  SITU_DIST_ROWWISE,
  /** MultiheadAttention: this rank's heads, with out_proj as ROWWISE. Inputs and result are whole. */
  SITU_DIST_HEADWISE
} situ_dist_style;

/** A row of torch's parallelize_plan. */
typedef struct situ_dist_parallel {
  const char *path; /**< of a layer in the module; '*' is any one part of it: "layers.*.linear1" */
  situ_dist_style style;
  bool replicate; /**< COLWISE: the result is gathered (output_layouts=Replicate()); ROWWISE Linear: the input is whole
                       (input_layouts=Replicate()) */
} situ_dist_parallel;

/** A module some of whose layers are divided among ranks. */
typedef struct situ_dist_tp situ_dist_tp;

/** torch's parallelize_module(module, comm, plan): divides the layers that the plan names. A collective call; compares
    names, dtypes and shapes of all tensors, and gives all ranks the values of rank 0 first (situ_dist_ddp_new). Linear
    and Embedding are replaced by layers of the same parameter names, so make optimisers, and hooks on layers,
    afterwards. Results are those of the whole module but for the order of sums; parameters that are not divided keep
    the same bits on all ranks, if these get the same inputs. Tensors that layers share stay shared, if the plan divides
    them alike. With dropout in a divided part seed each rank in its own way.

    `comm` is borrowed, and is not for ddp, ZeRO or checkpoints, which are over ranks that have the same (SITU_E_STATE):
    with both, make a communicator of the ranks that share a part, and one of those that share a model. SITU_E_ARG: a
    row that names no layer, or one that another row names; a root. SITU_E_SHAPE: sizes or heads that R ranks do not
    divide. SITU_E_UNSUPPORTED: a layer of another type, with hooks, parametrized, or quantised; ROWWISE with an
    activation; an Embedding with max_norm or, ROWWISE, scale_grad_by_freq. On an error the module is whole, with the
    values of rank 0 perhaps. NULL on error. */
SITU_API situ_dist_tp *situ_dist_tp_new(situ_nn_module *module, situ_comm *comm, const situ_dist_parallel *plan,
                                        int64_t count);
/** The state dict of the whole module, on the cpu, on rank `to`; on other ranks an empty dict. A collective call. The
    caller frees the tree; NULL on error. */
SITU_API SITU_CHECKED situ_tree *situ_dist_tp_state_dict(situ_dist_tp *tp, int to);
/** situ_nn_load_state_dict of such a state, of which this rank copies its part; not a collective call. On error nothing
    has changed here. */
SITU_API SITU_CHECKED situ_status situ_dist_tp_load_state_dict(situ_dist_tp *tp, const situ_tree *state,
                                                               const situ_nn_load_options *options);
/** situ_nn_utils_clip_grad_norm_ of all parameters of the module. A collective call. The powers of all elements are
    added exactly, as by situ_dist_zero_clip_grad_norm_, whose arguments these are. */
SITU_API SITU_CHECKED situ_status situ_dist_tp_clip_grad_norm_(situ_dist_tp *tp, double max_norm, double p,
                                                               double *total);
/** The module stays divided, and needs its communicator. NULL is fine. */
SITU_API void situ_dist_tp_free(situ_dist_tp *tp);

/* ---- parts of a model one after another --------------------------------------------------- */

/** The loss of a micro-batch: a tensor of one element; NULL after recording an error. target: that of
    situ_dist_pipeline_step, its part; may be NULL. */
typedef situ_tensor *(*situ_dist_loss)(situ_tensor *output, situ_tensor *target, void *payload);

/** A pipeline: rank r of R has stage r of a model, and the batch of a step goes through in micro-batches. */
typedef struct situ_dist_pipeline situ_dist_pipeline;

typedef struct situ_dist_pipeline_options {
  int64_t micro_batches; /**< torch's n_microbatches; 0: the number of ranks */
  situ_dist_loss loss;   /**< torch's loss_fn, on the last rank */
  void *payload;         /**< its own */
  bool no_scale_grads; /**< torch's scale_grads=False: gradients are not divided by the number of micro-batches, as for
                              a stage that is a ddp's as well, which averages them */
} situ_dist_pipeline_options;

/** torch's Schedule1F1B(PipelineStage(stage, rank, size), n_microbatches, loss_fn). A collective call: the options are
    compared. The stage takes one tensor and gives one, floating unless it is the last stage's; both have the rows of a
    micro-batch, and one shape for all micro-batches of a step. It is retained, `comm` is borrowed. A rank's optimiser
    is over its own stage. NULL on error. */
SITU_API situ_dist_pipeline *situ_dist_pipeline_new(situ_nn_module *stage, situ_comm *comm,
                                                    const situ_dist_pipeline_options *options);
/** Forward and backward of a batch. A collective call. input: on the first rank; target: on the last one, or NULL; both
    are divided into micro-batches along dimension 0 (SITU_E_SHAPE). Adds to the gradients of the stage's parameters
    those of the mean loss over micro-batches, which *loss (may be NULL) gets on all ranks. A stage runs its forwards
    and its backwards in the order of the micro-batches, so gradients have the bits of one rank that does, for any
    number of stages. Stage r holds the activations of at most R - r micro-batches.

    On an error of any rank all ranks drop the gradients of their stages, get their buffers back, and return SITU_E_COMM
    or SITU_E_TIMEOUT with the rank, the micro-batch and the step, unless they have finished the step; the communicator
    refuses further calls. */
SITU_API SITU_CHECKED situ_status situ_dist_pipeline_step(situ_dist_pipeline *pipeline, situ_tensor *input,
                                                          situ_tensor *target, double *loss);
/** Forward alone, without gradients (torch's schedule.eval). A collective call. *output is the result of the batch on
    the last rank, where the innermost scope owns it; NULL on others. */
SITU_API SITU_CHECKED situ_status situ_dist_pipeline_forward(situ_dist_pipeline *pipeline, situ_tensor *input,
                                                             situ_tensor **output);
/** Number of steps finished so far; -1 on error. */
SITU_API int64_t situ_dist_pipeline_steps(const situ_dist_pipeline *pipeline);
/** The stage stays as it is. NULL is fine. */
SITU_API void situ_dist_pipeline_free(situ_dist_pipeline *pipeline);

/* ---- gradient scaling --------------------------------------------------------------------- */

/** situ_grad_scaler_unscale_ where the ranks of `comm` have different gradients: of parts of layers, or of stages. A
    collective call. */
SITU_API SITU_CHECKED situ_status situ_dist_scaler_unscale_(situ_optim *optim, situ_comm *comm,
                                                            situ_grad_scaler *scaler);
/** situ_grad_scaler_step there. A collective call: an Inf or NaN of any rank has all of them leave out the step, and
    *stepped (may be NULL) is the same on all. SITU_E_COMM: another rank could not look at its gradients. */
SITU_API SITU_CHECKED situ_status situ_dist_scaler_step(situ_optim *optim, situ_comm *comm, situ_grad_scaler *scaler,
                                                        bool *stepped);

SITU_END
#endif
