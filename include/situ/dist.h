/* Data parallel training (torch.nn.parallel.DistributedDataParallel), with the same bits for any number of ranks, and
   optimisers whose state is divided among the ranks (torch.distributed.optim.ZeroRedundancyOptimizer).
   Threads: a distributed module is used by the thread that trains (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_H
#define SITU_DIST_H

#include "amp.h"
#include "comm.h"
#include "dist/place.h"
#include "io.h"
#include "nn.h"
#include "optim.h"

SITU_BEGIN

/** A module whose gradients are averaged over all ranks. */
typedef struct situ_dist_ddp situ_dist_ddp;

typedef struct situ_dist_ddp_options {
  int64_t micro_batches; /**< of one step, over all ranks; 0: the number of ranks, as in torch. At least one a rank */
  bool fast;            /**< gradients are added in the engine's own order: the last bits depend on the number of ranks.
                              Only f32 and f64; other dtypes keep the fixed order */
  int64_t bucket_bytes; /**< gradients are transferred in pieces of about this size, whose number does not change a bit;
                              0: an eighth of all, from 64 KiB to 25 MiB */
  int64_t check_every;  /**< compare the parameters of all ranks at every so many steps; 0: never */
  bool no_broadcast;    /**< do not broadcast rank 0's values at the start: they must be the same on all ranks */
  uint64_t seed;        /**< unless 0: each micro-batch begins with the default generator at this seed plus its number
                              since the start, so that dropout has the same bits for any number of ranks */
  situ_dtype
      compress; /**< torch's bf16_compress_hook: SITU_BF16 has f32 and f64 gradients exchanged in 16 bits, half of
                             the bytes; 0: as they are. Each micro-batch's gradient, each node of the tree and the
                             average is rounded to bf16, also on one rank, so the bits do not depend on R. With .fast,
                             which engines do not do in bf16, the order stays fixed. Buffers are not compressed */
} situ_dist_ddp_options;

/** Makes `module` data parallel over `comm`. A collective call: all ranks make it at once. Compares the names, dtypes
    and shapes of all parameters and buffers (SITU_E_COMM names the first that differs, with both ranks), then gives
    every rank the values of rank 0.

    From then on the micro-batches of a step are numbered over all ranks: of M, rank r of R has those from r M / R on.
    Each situ_backward is one of them. After the rank's last one of a step, every parameter that any rank has used holds
    the average over the M micro-batches as its gradient; before, it has none. The M gradients are added in a fixed
    binary tree over their numbers, so the bits do not depend on R (unless .fast): node [lo, hi) is the sum of [lo, mid)
    and [mid, hi), where mid - lo is the largest power of 2 below hi - lo. A parameter that no rank has used keeps no
    gradient. Floating buffers (batch norm's running statistics) begin each micro-batch with the values of the start of
    the step, and end it with the average over all micro-batches, in the same tree; other buffers hold what the rank's
    first micro-batch has made of them. For modules with buffers, call this module itself, not its parts.

    A parameter that has a gradient when a step begins is refused (SITU_E_STATE): call situ_optim_zero_grad with
    set_to_none. On an error in the last backward of a step, on any rank, all ranks drop the gradients of the step, get
    their buffers back, and return SITU_E_COMM or SITU_E_TIMEOUT, unless they have finished the step; parameters and
    optimiser are as before the step.

    The module may change between two steps: parts unfrozen, replaced, added, removed, adapted (LoRA), parametrized,
    cast, moved, tied, the same on all ranks. The next forward in training mode takes it over, a collective call that
    compares names, dtypes and shapes again, and gives what is new the values of rank 0. In the middle of a step, and
    while an optimiser keeps gradients in parts (stages 2 and 3 of ZeRO), that forward is refused (SITU_E_STATE) with
    the name of the first tensor that has changed. Freezing needs none of this.

    The module and the communicator must outlive the result. NULL on error. */
SITU_API situ_dist_ddp *situ_dist_ddp_new(situ_nn_module *module, situ_comm *comm,
                                          const situ_dist_ddp_options *options);
/** Number of micro-batches that this rank has in each step; -1 on error. */
SITU_API int64_t situ_dist_ddp_micro_batches(const situ_dist_ddp *ddp);
/** The number, among all micro-batches of the step, of the one that the next backward ends: data is chosen by it; -1 on
    error. */
SITU_API int64_t situ_dist_ddp_micro_batch(const situ_dist_ddp *ddp);
/** Number of steps finished so far; -1 on error. */
SITU_API int64_t situ_dist_ddp_step(const situ_dist_ddp *ddp);
/** torch's no_sync(): while on, gradients of a backward are added to .grad as without ddp; the next micro-batch
    includes them. SITU_E_STATE in the middle of a step. */
SITU_API SITU_CHECKED situ_status situ_dist_ddp_no_sync(situ_dist_ddp *ddp, bool on);
/** Compares the names, dtypes, shapes and values of all parameters and buffers that the module has now across ranks, by
    a hash of each. A collective call. SITU_E_COMM names the first that differs, and a rank. */
SITU_API SITU_CHECKED situ_status situ_dist_ddp_check(situ_dist_ddp *ddp);
/** Removes the hooks from the module, which stays as it is. In the middle of a step, on a thread whose error has not
    been cleared, it also tells the other ranks that this one gives up, with that error. NULL is fine. */
SITU_API void situ_dist_ddp_free(situ_dist_ddp *ddp);

/** torch.nn.SyncBatchNorm on [N, C, ...]: while it trains, mean and variance are those of the batches that all ranks of
    `comm` have in this call, forward and backward; else it is batch norm. A collective call in forward and in backward,
    in the same order on all ranks. Batches may differ in size, and be empty. All ranks get the same bits, with any
    engine; but which batches are normalised together, and so the result, depends on the number of ranks: of a step of
    M micro-batches each R that run at the same time. On one rank it is batch norm.

    `comm` is borrowed, and must not be that of a ddp, which is in use during its backward (SITU_E_STATE): make another
    one over the same ranks. SITU_E_COMM, SITU_E_TIMEOUT: as situ_comm_wait, with the layer's path; running statistics
    are as before the call. A second derivative is SITU_E_UNSUPPORTED. NULL on error. */
SITU_API situ_nn_module *situ_nn_sync_batch_norm(int64_t num_features, situ_comm *comm,
                                                 const situ_nn_batch_norm_options *options);
/** torch's SyncBatchNorm.convert_sync_batchnorm, in place: every batch norm in `module`, or itself, becomes a
    situ_nn_sync_batch_norm with the same parameters, buffers and options. Returns module; NULL on error. */
SITU_API situ_nn_module *situ_nn_convert_sync_batchnorm(situ_nn_module *module, situ_comm *comm);

/** An optimiser of which each rank keeps a part of the state: stage 1 of ZeRO (Rajbhandari et al., arXiv:1910.02054).
 */
typedef struct situ_dist_zero situ_dist_zero;
/** situ_optim_adamw, or another one of its kind. */
typedef situ_optim *(*situ_dist_make_optim)(situ_tree *parameters, double lr, const situ_optim_options *options);

/** torch's ZeroRedundancyOptimizer(parameters, optimizer_class, **options): situ_dist_zero_new(situ_nn_parameters(net),
    comm, situ_optim_adamw, lr, &options). A collective call. parameters: a tree of tensors, the same on all ranks,
    owned by the result from now on (freed if the call fails). Elements are dealt out to all ranks, in order: those of
    each parameter, of small ones of a dtype together those of as many as 25 MiB hold; `make` makes a rank's optimiser
    over its own, views of the parameters, whole or parts of them. So each rank has 1 / R of the state, to an element.
    SITU_E_UNSUPPORTED: parameters that are not contiguous; Adafactor, Muon and LBFGS, whose update of an element
    depends on others. SITU_E_ARG: fewer elements than ranks. SITU_E_COMM: the ranks' parameters differ. The
    communicator must outlive the result. NULL on error. */
SITU_API situ_dist_zero *situ_dist_zero_new(situ_tree *parameters, situ_comm *comm, situ_dist_make_optim make,
                                            double lr, const situ_optim_options *options);
/** Stage 2 of ZeRO: situ_dist_zero_new over the communicator of `ddp`, which from now on leaves each rank the averages
    of the elements that the rank's optimiser owns, and no others. For a model whose gradients do not fit beside it, and
    to send less: the averages stay where they are added. Bits are those of situ_dist_zero_new.

    `parameters` are of the module of `ddp`; those that are in no group keep whole gradients. A rank owns its share of
    each bucket: 1 / R of all elements of a group, to an element. After the last backward of a step situ_grad of such a
    parameter is NULL, and situ_optim_step, situ_nn_utils_clip_grad_norm_ and situ_grad_scaler_step of it are refused
    (SITU_E_STATE, with its name); the parameters of situ_dist_zero_optim have the rank's own part, until
    situ_dist_zero_zero_grad. A whole gradient that the program sets is used as in stage 1.

    SITU_E_ARG: a parameter that is not ddp's. SITU_E_STATE: in the middle of a step, or ddp has such an optimiser: add
    a group to it. When either is freed, ddp gives whole gradients again. A module that has changed since, but for
    freezing, is refused by its forward: free the optimiser, and make it anew. */
SITU_API situ_dist_zero *situ_dist_zero2_new(situ_tree *parameters, situ_dist_ddp *ddp, situ_dist_make_optim make,
                                             double lr, const situ_optim_options *options);
/** The units of stage 3: modules whose parameters are gathered together. */
typedef struct situ_dist_zero3_options {
  /** Paths of modules in ddp's, in which '*' is any one part of a path: "layers.*". Each is gathered with all of its
      parts, as torch's fully_shard of it; a module in no unit is one by itself, with the parameters that it owns. NULL:
      every module that owns parameters. */
  const char *const *units;
  int64_t unit_count;
} situ_dist_zero3_options;
/** Stage 3 of ZeRO (torch's fully_shard, reshard_after_forward=True): situ_dist_zero2_new, and of the parameters, too,
    a rank keeps what its optimiser owns, and no more. For a model that does not fit on a rank: a rank has 1 / R of
    parameters, gradients and state, and whole parameters of the units that compute. Bits are those of one rank.

    All ranks gather a unit's parameters before its forward, free them behind it, gather them again before its backward,
    and free them when its gradients are complete. So forward and backward are collective calls: all ranks run the same
    modules in the same order, in evaluation, too, and use the same parameters in the last micro-batch of a step. Each
    has as many micro-batches: their number must be a multiple of R (SITU_E_ARG). A forward that fails cannot be
    repeated, because other ranks are further: situ_dist_ddp_free, or situ_comm_abort, tells them.

    A parameter that no unit holds has its shape, dtype and device, and no memory: all reads, writes and moves of it are
    refused (SITU_E_STATE, with its name), as when a module uses parameters of a part that it does not call: make it a
    unit. situ_dist_zero_unshard makes them whole. From the second pass on the unit that comes next is gathered while
    one computes: until it comes this rank's own elements of it cannot be written (SITU_E_STATE, with their name),
    unless all ranks call situ_dist_zero_reshard. A module on meta stays there until situ_dist_checkpoint_load or
    situ_nn_to gives this rank's parts memory, and no others. A parameter that shares its memory with others is
    SITU_E_UNSUPPORTED, so is a ddp with .check_every. units may be NULL. Other errors as of situ_dist_zero2_new. Free
    it behind situ_dist_zero_unshard, or the parameters stay without memory. */
SITU_API situ_dist_zero *situ_dist_zero3_new(situ_tree *parameters, situ_dist_ddp *ddp,
                                             const situ_dist_zero3_options *units, situ_dist_make_optim make, double lr,
                                             const situ_optim_options *options);
/** torch's FSDPModule.unshard(): gathers all parameters of stage 3, which stay whole until situ_dist_zero_reshard or
    the next step. A collective call. For state dicts, and to write parameters: what has been written by then, the same
    on all ranks, is kept (torch's summon_full_params). In other stages parameters are whole. SITU_E_STATE: the ddp has
    been freed. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_unshard(situ_dist_zero *zero);
/** torch's FSDPModule.reshard(): parameters are in parts again, and none is on its way for a unit that comes next. All
    ranks call it; they wait for each other only where one is. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_reshard(situ_dist_zero *zero);
/** torch's add_param_group: a group with its own hyperparameters: begin with
    situ_optim_group_options(situ_dist_zero_optim(zero), 0); NULL: those of situ_dist_zero_new. A collective call; takes
    ownership of the tree. Each group is divided among the ranks by itself. Errors as of
    situ_dist_zero_new; SITU_E_ARG: a parameter that a group has. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_add_param_group(situ_dist_zero *zero, situ_tree *parameters,
                                                                 const situ_optim_options *options);
/** A step of all parameters that have a gradient, which must be the same on all ranks (situ_dist_ddp_new): this rank
    steps its elements, then each rank sends its own to all. Parameters have the bits of `make`'s optimiser over all of
    them, for any number of ranks. A collective call; in stage 3 nothing is sent. On an error of this rank's step
    nothing has changed here, and the other ranks return SITU_E_COMM; their own elements and state may be those after
    the step: load a checkpoint. SITU_E_STATE while another thread uses a parameter, as for a save: nothing has changed,
    and the other ranks wait until this one calls again. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_step(situ_dist_zero *zero);
/** situ_nn_utils_clip_grad_norm_ of all parameters, where ranks have parts of the gradients or the whole ones. A
    collective call. The powers of all elements are added exactly, and rounded at the end: the norm and the clipped
    gradients have the same bits for any number of ranks and both stages. (situ_nn_utils_clip_grad_norm_ rounds each
    addition, so its last bits may differ.) p above 0 (torch: 2; INFINITY: the largest element); *total, which may be
    NULL, gets the norm before clipping. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_clip_grad_norm_(situ_dist_zero *zero, double max_norm, double p,
                                                                 double *total);
/** situ_grad_scaler_unscale_ of an optimiser in parts. A collective call. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_unscale_(situ_dist_zero *zero, situ_grad_scaler *scaler);
/** situ_grad_scaler_step of an optimiser in parts, as situ_dist_zero_step. A collective call: an Inf or NaN of any rank
    has all of them leave out the step, and *stepped (may be NULL) is the same on all. situ_grad_scaler_update, behind
    it, is not a collective call. SITU_E_COMM: another rank could not look at its gradients. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_scaler_step(situ_dist_zero *zero, situ_grad_scaler *scaler,
                                                             bool *stepped);
/** Drops the gradients of all parameters (torch's zero_grad(set_to_none=True)). */
SITU_API SITU_CHECKED situ_status situ_dist_zero_zero_grad(situ_dist_zero *zero);
/** This rank's optimiser, for schedules and hyperparameters, which must be the same on all ranks; borrowed. Step it by
    situ_dist_zero_step alone. Its parameters have gradients within a step only, of situ_dist_zero2_new from the last
    backward on. NULL on error. */
SITU_API situ_optim *situ_dist_zero_optim(const situ_dist_zero *zero);
/** torch's consolidate_state_dict(to) and state_dict(): on rank `to` the state of all parameters as that of `make`'s
    optimiser over all of them (situ_optim_state_dict), on the cpu; on other ranks an empty dict. Any number of ranks
    can load it, and so can one optimiser. A collective call. The caller frees the tree; NULL on error. */
SITU_API SITU_CHECKED situ_tree *situ_dist_zero_state_dict(situ_dist_zero *zero, int to);
/** Restores such a state, of which this rank copies its part; not a collective call. On error nothing has changed. */
SITU_API SITU_CHECKED situ_status situ_dist_zero_load_state_dict(situ_dist_zero *zero, const situ_tree *state);
/** NULL is fine. */
SITU_API void situ_dist_zero_free(situ_dist_zero *zero);

/* ---- sharded checkpoints ------------------------------------------------------------------ */

/** The state of a training run over several ranks. Fields may be NULL. */
typedef struct situ_dist_checkpoint {
  situ_nn_module *model; /**< the same on all ranks, as the scheduler and an undivided optimizer */
  situ_optim *optimizer; /**< an undivided one; else zero */
  situ_dist_zero *zero;  /**< its state is saved as that of one optimizer, and either can load it */
  situ_dist_ddp *ddp;    /**< its count of steps, from which .seed draws */
  situ_lr_scheduler *scheduler;
  situ_generator *generator; /**< of the program, such as a sampler's; the default one is saved too */
  int64_t epoch, step;       /**< progress, by the program's own count */
} situ_dist_checkpoint;

/** torch.distributed.checkpoint.save: saves a checkpoint as files in `directory`, which all ranks see; makes it if it
    does not exist. A collective call. Each rank writes one safetensors file: 1 / R of the elements of what all ranks
    have alike, its part of `zero` (in stage 3 of the parameters, too, which are in parts again), and its generators.
    Then rank 0 replaces "manifest.safetensors", which names these files, and deletes those of the set before. A reader
    has the old set or the new one, whole, wherever the ranks stop. On an error of any rank all ranks return it, with
    the rank and the file, and the old set is as it was. SITU_E_COMM: the ranks' names, dtypes or shapes differ.
    SITU_E_STATE: in the middle of a step of `ddp`. SITU_E_UNSUPPORTED: quantised blocks. options: metadata goes into
    the manifest; max_shard_bytes must be 0 (SITU_E_ARG); *replaced is set on all ranks. */
SITU_API SITU_CHECKED situ_status situ_dist_checkpoint_save(const char *directory, situ_comm *comm,
                                                            const situ_dist_checkpoint *checkpoint,
                                                            const situ_save_options *options);
/** torch.distributed.checkpoint.load: restores the objects that `checkpoint` points to, the default generator, epoch
    and step, on any number of ranks; of N ranks that saved, rank r gets the generators of rank r modulo N. A collective
    call. NULL fields are skipped; a part that the checkpoint lacks is SITU_E_FORMAT. Each rank reads what it needs from
    the files of all, and everything is checked before anything changes: on an error of any rank all ranks return it,
    with the rank and the file, and nothing has changed. Of parameters in parts (stage 3) and states in parts a rank
    reads its own elements. options.device: where tensors go that are on meta, {0}: the default device. (If a device
    fails in the last copies, that rank alone has not changed; the communicator then refuses further calls.) */
SITU_API SITU_CHECKED situ_status situ_dist_checkpoint_load(const char *directory, situ_comm *comm,
                                                            situ_dist_checkpoint *checkpoint,
                                                            const situ_load_options *options);

SITU_END
#endif
