/* What each floor asks of those above it. A floor calls upward through its table alone, which stands here.
   SPDX-License-Identifier: MIT */
#include "autograd/tape.h"
#include "base/fail.h"
#include "device/launch/launch.h"
#include "dispatch/dispatch.h"
#include "func/dual.h"
#include "nn/nn.h"
#include "ops/ops.h"
#include "ops/samples.h"
#include "situ/autograd.h"
#include "situ/blocks.h"
#include "tensor/tensor.h"

const situ__base_upcalls situ__base_up = {
  .explain_error = situ__explain_error,
  .call_site = situ__call_site,
  .own_code = situ__own_code,
  .site_text = situ__site_text,
  .describe_dead_tensor = situ__describe_dead_tensor,
  .error_in_scope = situ__error_in_scope,
};

const situ__device_upcalls situ__device_up = {
  .describe_storage = situ__describe_storage,
  .storage_subject = situ__storage_subject,
  .running_module = situ__nn_running_path,
  .forget_casts = situ__forget_casts,
  .swap_casts = situ__swap_casts,
  .advance_generator = situ__generator_advance,
  .refuse_work = situ__explain_incapable,
  .cpu = &situ__cpu_backend,
  .meta = &situ__meta_backend,
  .sim = situ__sim_backend,
  .plan = situ__plan_backend,
  .finish_arrivals = situ__finish_arrivals,
  .release_recipe = situ__recipe_release,
  .let_go = situ__nn_free_windows,
};

const situ__tensor_upcalls situ__tensor_up = {
  .release_history = situ__release_history,
  .set_requires_grad = situ_requires_grad_,
};

const situ__autograd_upcalls situ__autograd_up = {
  .blame = situ__blame,
  .node_of_view = situ__strided_node_of_view,
  .node_of_part = situ__strided_node_of_part,
  .add = situ_add,
  .clone = situ_clone_memory_format,
  .has_nan = situ__has_nan,
  .module_path = situ__explain_module,
  .tensor_path = situ__explain_tensor,
};

const situ__dispatch_upcalls situ__dispatch_up = {
  .copy_operand = situ__copy_operand,
  .cast_operand = situ_to_dtype,
  .dequantize = situ_dequantize,
  .sum_to = situ__sum_to,
  .zeros = situ_zeros,
  .run_dual = situ__dual_run,
  .run_samples = situ__run_samples,
  .each_sample = situ__each_sample,
};
