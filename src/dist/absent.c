/* For builds without SITU_DIST. No communicator can be made, so no function has a valid handle.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "situ/dist.h"
#include "situ/nccl.h"
#include "situ/parallel.h"
#include "situ/sys/comm_sim.h"

static situ_status refuse(const char *op) {
  return situ__fail(SITU_E_UNSUPPORTED, op, "this library was built without SITU_DIST");
}
static void *none(const char *op) { return (void)refuse(op), NULL; }

/* ---- situ/comm.h ---- */

const char *situ_comm_op_name(situ_comm_op op) { return (void)op, "?"; }
int situ_comm_rank(const situ_comm *comm) { return (void)comm, (void)refuse("comm_rank"), -1; }
int situ_comm_size(const situ_comm *comm) { return (void)comm, (void)refuse("comm_size"), -1; }
situ_status situ_comm_begin(situ_comm *comm, const situ_comm_call *call, situ_comm_request **request) {
  return (void)comm, (void)call, (void)request, refuse("comm_begin");
}
situ_status situ_comm_test(situ_comm_request *request, bool *done) {
  return (void)request, (void)done, refuse("comm_test");
}
situ_status situ_comm_wait(situ_comm_request *request) { return (void)request, refuse("comm_wait"); }
situ_status situ_comm_run(situ_comm *comm, const situ_comm_call *call) {
  return (void)comm, (void)call, refuse("comm_run");
}
situ_status situ_comm_all_reduce(situ_comm *comm, situ_tensor *t, situ_comm_reduction reduction, const char *name) {
  return (void)comm, (void)t, (void)reduction, (void)name, refuse("comm_all_reduce");
}
situ_status situ_comm_broadcast(situ_comm *comm, situ_tensor *t, int root, const char *name) {
  return (void)comm, (void)t, (void)root, (void)name, refuse("comm_broadcast");
}
situ_tensor *situ_comm_all_gather(situ_comm *comm, situ_tensor *t, const char *name) {
  return (void)comm, (void)t, (void)name, none("comm_all_gather");
}
situ_tensor *situ_comm_reduce_scatter(situ_comm *comm, situ_tensor *t, situ_comm_reduction reduction,
                                      const char *name) {
  return (void)comm, (void)t, (void)reduction, (void)name, none("comm_reduce_scatter");
}
situ_tensor *situ_comm_all_to_all(situ_comm *comm, situ_tensor *t, const char *name) {
  return (void)comm, (void)t, (void)name, none("comm_all_to_all");
}
situ_status situ_comm_send(situ_comm *comm, situ_tensor *t, int peer, const char *name) {
  return (void)comm, (void)t, (void)peer, (void)name, refuse("comm_send");
}
situ_status situ_comm_receive(situ_comm *comm, situ_tensor *t, int peer, const char *name) {
  return (void)comm, (void)t, (void)peer, (void)name, refuse("comm_receive");
}
situ_status situ_comm_barrier(situ_comm *comm, const char *name) {
  return (void)comm, (void)name, refuse("comm_barrier");
}
void situ_comm_abort(situ_comm *comm, const char *why) { (void)comm, (void)why, (void)refuse("comm_abort"); }
void situ_comm_free(situ_comm *comm) {
  if (comm) (void)refuse("comm_free");
}

/* ---- situ/nccl.h ---- */

situ_status situ_comm_use_nccl(situ_comm *comm, situ_device device) {
  return (void)comm, (void)device, refuse("comm_use_nccl");
}

/* ---- situ/dist/place.h ---- */

situ_snapshot *situ_dist_snapshot(situ_nn_module *m, situ_comm *comm) {
  return (void)m, (void)comm, none("dist_snapshot");
}
int64_t situ_dist_plan_to_string(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options,
                                 situ_place_plan *plans, char *buffer, size_t size) {
  (void)m, (void)comm, (void)options, (void)plans, (void)buffer, (void)size;
  return (void)refuse("dist_plan_to_string"), -1;
}
situ_status situ_dist_to(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options) {
  return (void)m, (void)comm, (void)options, refuse("dist_to");
}
situ_status situ_dist_check(situ_nn_module *m, const situ_tree *inputs, situ_comm *comm,
                            const situ_place_check_options *options, situ_place_report *report) {
  return (void)m, (void)inputs, (void)comm, (void)options, (void)report, refuse("dist_check");
}

/* ---- situ/sys/comm.h, situ/sys/comm_sim.h ---- */

situ_comm *situ_comm_new(const situ_comm_engine *engine, void *state, int rank, int size,
                         const situ_comm_options *options) {
  (void)rank, (void)size, (void)options;
  if (engine && engine->release) engine->release(state, false);
  return none("comm_new");
}
situ_comm *situ_comm_refuse(situ_status status, const char *engine, const char *why) {
  return (void)status, (void)engine, (void)why, none("comm_new");
}
situ_comm_sim *situ_comm_sim_new(int size, const situ_comm_sim_options *options) {
  return (void)size, (void)options, none("comm_sim_new");
}
situ_comm *situ_comm_sim_rank(situ_comm_sim *world, int rank, const situ_comm_options *options) {
  return (void)world, (void)rank, (void)options, none("comm_sim_rank");
}
situ_status situ_comm_sim_fail(situ_comm_sim *world, int rank, situ_comm_sim_fault fault, int64_t nth) {
  return (void)world, (void)rank, (void)fault, (void)nth, refuse("comm_sim_fail");
}
int64_t situ_comm_sim_transfers(situ_comm_sim *world, int rank) {
  return (void)world, (void)rank, (void)refuse("comm_sim_transfers"), -1;
}
int64_t situ_comm_sim_bytes(situ_comm_sim *world, int rank) {
  return (void)world, (void)rank, (void)refuse("comm_sim_bytes"), -1;
}
void situ_comm_sim_free(situ_comm_sim *world) {
  if (world) (void)refuse("comm_sim_free");
}

/* ---- situ/dist.h ---- */

situ_dist_ddp *situ_dist_ddp_new(situ_nn_module *module, situ_comm *comm, const situ_dist_ddp_options *options) {
  return (void)module, (void)comm, (void)options, none("dist_ddp_new");
}
int64_t situ_dist_ddp_micro_batches(const situ_dist_ddp *ddp) {
  return (void)ddp, (void)refuse("dist_ddp_micro_batches"), -1;
}
int64_t situ_dist_ddp_micro_batch(const situ_dist_ddp *ddp) {
  return (void)ddp, (void)refuse("dist_ddp_micro_batch"), -1;
}
int64_t situ_dist_ddp_step(const situ_dist_ddp *ddp) { return (void)ddp, (void)refuse("dist_ddp_step"), -1; }
situ_status situ_dist_ddp_no_sync(situ_dist_ddp *ddp, bool on) {
  return (void)ddp, (void)on, refuse("dist_ddp_no_sync");
}
situ_status situ_dist_ddp_check(situ_dist_ddp *ddp) { return (void)ddp, refuse("dist_ddp_check"); }
void situ_dist_ddp_free(situ_dist_ddp *ddp) {
  if (ddp) (void)refuse("dist_ddp_free");
}
situ_nn_module *situ_nn_sync_batch_norm(int64_t num_features, situ_comm *comm,
                                        const situ_nn_batch_norm_options *options) {
  return (void)num_features, (void)comm, (void)options, none("nn_sync_batch_norm");
}
situ_nn_module *situ_nn_convert_sync_batchnorm(situ_nn_module *module, situ_comm *comm) {
  return (void)module, (void)comm, none("nn_convert_sync_batchnorm");
}
situ_dist_zero *situ_dist_zero_new(situ_tree *parameters, situ_comm *comm, situ_dist_make_optim make,
                                   const situ_optim_options *options) {
  (void)comm, (void)make, (void)options;
  situ_tree_free(parameters);
  return none("dist_zero_new");
}
situ_dist_zero *situ_dist_zero2_new(situ_tree *parameters, situ_dist_ddp *ddp, situ_dist_make_optim make,
                                    const situ_optim_options *options) {
  (void)ddp, (void)make, (void)options;
  situ_tree_free(parameters);
  return none("dist_zero2_new");
}
situ_dist_zero *situ_dist_zero3_new(situ_tree *parameters, situ_dist_ddp *ddp, const situ_dist_zero3_options *units,
                                    situ_dist_make_optim make, const situ_optim_options *options) {
  (void)ddp, (void)units, (void)make, (void)options;
  situ_tree_free(parameters);
  return none("dist_zero3_new");
}
situ_status situ_dist_zero_unshard(situ_dist_zero *zero) { return (void)zero, refuse("dist_zero_unshard"); }
situ_status situ_dist_zero_reshard(situ_dist_zero *zero) { return (void)zero, refuse("dist_zero_reshard"); }
situ_status situ_dist_zero_add_param_group(situ_dist_zero *zero, situ_tree *parameters,
                                           const situ_optim_options *options) {
  (void)zero, (void)options;
  situ_tree_free(parameters);
  return refuse("dist_zero_add_param_group");
}
situ_status situ_dist_zero_step(situ_dist_zero *zero) { return (void)zero, refuse("dist_zero_step"); }
situ_status situ_dist_zero_clip_grad_norm_(situ_dist_zero *zero, double max_norm, double p, double *total) {
  return (void)zero, (void)max_norm, (void)p, (void)total, refuse("dist_zero_clip_grad_norm_");
}
situ_status situ_dist_zero_unscale_(situ_dist_zero *zero, situ_grad_scaler *scaler) {
  return (void)zero, (void)scaler, refuse("dist_zero_unscale_");
}
situ_status situ_dist_zero_scaler_step(situ_dist_zero *zero, situ_grad_scaler *scaler, bool *stepped) {
  return (void)zero, (void)scaler, (void)stepped, refuse("dist_zero_scaler_step");
}
situ_status situ_dist_zero_zero_grad(situ_dist_zero *zero) { return (void)zero, refuse("dist_zero_zero_grad"); }
situ_optim *situ_dist_zero_optim(const situ_dist_zero *zero) { return (void)zero, none("dist_zero_optim"); }
situ_tree *situ_dist_zero_state_dict(situ_dist_zero *zero, int to) {
  return (void)zero, (void)to, none("dist_zero_state_dict");
}
situ_status situ_dist_zero_load_state_dict(situ_dist_zero *zero, const situ_tree *state) {
  return (void)zero, (void)state, refuse("dist_zero_load_state_dict");
}
void situ_dist_zero_free(situ_dist_zero *zero) {
  if (zero) (void)refuse("dist_zero_free");
}
situ_status situ_dist_checkpoint_save(const char *directory, situ_comm *comm, const situ_dist_checkpoint *checkpoint,
                                      const situ_save_options *options) {
  return (void)directory, (void)comm, (void)checkpoint, (void)options, refuse("dist_checkpoint_save");
}
situ_status situ_dist_checkpoint_load(const char *directory, situ_comm *comm, situ_dist_checkpoint *checkpoint,
                                      const situ_load_options *options) {
  return (void)directory, (void)comm, (void)checkpoint, (void)options, refuse("dist_checkpoint_load");
}

/* ---- situ/parallel.h ---- */

situ_tensor *situ_dist_copy_to(situ_tensor *x, situ_comm *comm, const char *name) {
  return (void)x, (void)comm, (void)name, none("dist_copy_to");
}
situ_tensor *situ_dist_reduce_from(situ_tensor *x, situ_comm *comm, const char *name) {
  return (void)x, (void)comm, (void)name, none("dist_reduce_from");
}
situ_tensor *situ_dist_scatter_to(situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  return (void)x, (void)dim, (void)comm, (void)name, none("dist_scatter_to");
}
situ_tensor *situ_dist_gather_from(situ_tensor *x, int dim, situ_comm *comm, const char *name) {
  return (void)x, (void)dim, (void)comm, (void)name, none("dist_gather_from");
}
situ_dist_tp *situ_dist_tp_new(situ_nn_module *module, situ_comm *comm, const situ_dist_parallel *plan, int64_t count) {
  return (void)module, (void)comm, (void)plan, (void)count, none("dist_tp_new");
}
situ_tree *situ_dist_tp_state_dict(situ_dist_tp *tp, int to) { return (void)tp, (void)to, none("dist_tp_state_dict"); }
situ_status situ_dist_tp_load_state_dict(situ_dist_tp *tp, const situ_tree *state,
                                         const situ_nn_load_options *options) {
  return (void)tp, (void)state, (void)options, refuse("dist_tp_load_state_dict");
}
situ_status situ_dist_tp_clip_grad_norm_(situ_dist_tp *tp, double max_norm, double p, double *total) {
  return (void)tp, (void)max_norm, (void)p, (void)total, refuse("dist_tp_clip_grad_norm_");
}
void situ_dist_tp_free(situ_dist_tp *tp) {
  if (tp) (void)refuse("dist_tp_free");
}
situ_dist_pipeline *situ_dist_pipeline_new(situ_nn_module *stage, situ_comm *comm,
                                           const situ_dist_pipeline_options *options) {
  return (void)stage, (void)comm, (void)options, none("dist_pipeline_new");
}
situ_status situ_dist_pipeline_step(situ_dist_pipeline *pipeline, situ_tensor *input, situ_tensor *target,
                                    double *loss) {
  return (void)pipeline, (void)input, (void)target, (void)loss, refuse("dist_pipeline_step");
}
situ_status situ_dist_pipeline_forward(situ_dist_pipeline *pipeline, situ_tensor *input, situ_tensor **output) {
  return (void)pipeline, (void)input, (void)output, refuse("dist_pipeline_forward");
}
int64_t situ_dist_pipeline_steps(const situ_dist_pipeline *pipeline) {
  return (void)pipeline, (void)refuse("dist_pipeline_steps"), -1;
}
void situ_dist_pipeline_free(situ_dist_pipeline *pipeline) {
  if (pipeline) (void)refuse("dist_pipeline_free");
}
situ_status situ_dist_scaler_unscale_(situ_optim *optim, situ_comm *comm, situ_grad_scaler *scaler) {
  return (void)optim, (void)comm, (void)scaler, refuse("dist_scaler_unscale_");
}
situ_status situ_dist_scaler_step(situ_optim *optim, situ_comm *comm, situ_grad_scaler *scaler, bool *stepped) {
  return (void)optim, (void)comm, (void)scaler, (void)stepped, refuse("dist_scaler_step");
}
