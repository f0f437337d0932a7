/* Valid numbers and shapes for parameters, by their names.
   SPDX-License-Identifier: MIT */
#include "support/api/numbers.h"

#include <string.h>

#include "situ/blocks.h"
#include "situ/nn.h"
#include "support/api/files.h"
#include "support/test.h"

double api_number(const api_world *w, const char *name) {
  if (api_is(api_name(w), "arange") && api_is(name, "end")) return 2;
  if (api_is(api_name(w), "arange linspace") && api_is(name, "start")) return 0;
  if (api_is(name, "step norm p correction max max_val max_norm high end std exponent base"))
    return api_is(api_name(w), "dropout bernoulli_") ? 0.5 : 1;
  if (api_is(name, "min min_val low")) return -1;
  return 0.5;
}

int64_t api_integer(const api_world *w, const char *name) {
  if (api_is(name, "dim start index diagonal offset storage_offset low i group k start_dim handle argnum out_dim"))
    return api_is(api_name(w), "topk kthvalue") && *name == 'k' ? 1 : 0;
  if (api_is(api_name(w), "transpose swapaxes")) return api_is(name, "dim1 axis1");
  if (api_is(api_name(w), "diagonal diag_embed diagonal_scatter")) return strcmp(name, "dim2") == 0;
  if (api_is(
          api_name(w),
          "function_apply autograd_grad func_jvp func_vjp func_jacrev func_jacfwd func_hvp func_hessian func_vmap func_vmap_many recompute autograd_gradcheck autograd_gradgradcheck snapshot_of snapshot_dot move_plan_new optimizer_step optimizer_check tree_of nn_sequential_of nn_module_list_of default_collate subset subset_random_sampler weighted_random_sampler random_split place_fit"))
    if (api_is(name, "count count_in count_out limit_count")) return 1;
  if (api_is(api_name(w), "flatten") && strcmp(name, "end_dim") == 0) return 1;
  if (api_is(api_name(w), "nn_flatten")) return api_is(name, "end_dim") ? -1 : 1;
  if (strcmp(name, "bytes") == 0 && api_is(api_name(w), "from_host view_host copy_to_host copy_from_host"))
    return 4 * (int64_t)sizeof(float);
  if (strcmp(name, "bytes") == 0 && api_is(api_name(w), "blocks_from_host"))
    return 2 * situ_block_bytes(SITU_BLOCK_Q8_0);
  if (api_is(api_name(w), "nn_block_linear nn_block_embedding")) return 32;
  if (api_is(api_name(w), "decode_image")) return API_PNG;
  if (api_is(api_name(w), "wav_save") && strcmp(name, "bits") == 0) return 0;
  if (api_is(api_name(w), "op_run op_run_") && strcmp(name, "ins") == 0) return 1;
  if (api_is(api_name(w), "sim_budget")) return 1 << 30;
  if (api_is(api_name(w), "sim_fail fail_allocation")) return 0;
  if (api_is(api_name(w), "sim_without")) return 0;
  if (api_is(api_name(w), "nn_walk") && strcmp(name, "which") == 0)
    return SITU_NN_VISIT_TENSORS | SITU_NN_VISIT_MODULES;
  if (api_is(name, "rank root peer") || api_is(api_name(w), "dist_zero_state_dict dist_tp_state_dict")) return 0;
  if (api_is(api_name(w), "comm_new comm_sim_new") && strcmp(name, "size") == 0) return 1;
  if (strcmp(name, "size") == 0) return api_is(api_name(w), "split mend_size") ? 1 : 4096;
  if (strcmp(name, "operand") == 0) return 0;
  if (strcmp(name, "capacity") == 0 &&
      api_is(api_name(w), "split split_sizes tensor_split chunk unbind sampler_draw nn_utils_rnn_unpad_sequence"))
    return 2;
  if (strcmp(name, "capacity") == 0 && api_is(api_name(w), "tensor_split_indices")) return 3;
  if (api_is(
          name,
          "num_heads nhead chunks num_groups length in_channels num_channels out_channels kernel_size a k step num_threads total threshold capacity n size_step step_size t_max t_0 t_mult patience total_iters anneal_epochs num_samples epoch ind count"))
    return api_is(
               api_name(w),
               "linalg_multi_dot column_stack broadcast_tensors cat stack hstack vstack dstack block_diag meshgrid einsum cartesian_prod nn_utils_rnn_pad_sequence eye randperm")
               ? 2
               : 1;
  return 2;
}

situ_shape api_shape(const api_world *w, const char *name) {
  if (api_is(api_name(w), "permute")) return SITU_DIMS(1, 0);
  if (api_is(api_name(w), "rot90")) return SITU_DIMS(0, 1);
  if (api_is(api_name(w), "unflatten")) return SITU_DIMS(1, 2);
  if (api_is(name, "dims dim dims_self dims_other source destination")) return SITU_DIMS(0);
  if (api_is(api_name(w), "fold")) return SITU_SHAPE(strcmp(name, "output_size") == 0 ? 2 : 1);
  if (api_is(api_name(w), "affine_grid")) return SITU_SHAPE(1, 1, 2, 2);
  if (strstr(api_name(w), "max_unpool") && strcmp(name, "output_size") == 0) return (situ_shape){ 0 };
  if (strstr(api_name(w), "pool")) return SITU_DIMS(strcmp(name, "padding") != 0);
  if (api_is(name, "shifts normalized_shape kernel_size output_size"))
    return api_is(name, "shifts kernel_size output_size") ? SITU_DIMS(1) : SITU_DIMS(2);
  if (api_is(name, "repeats split_sizes pad")) return SITU_DIMS(1, 1);
  if (api_is(api_name(w), "as_strided") && api_is(name, "stride")) return SITU_DIMS(2, 1);
  return SITU_SHAPE(2, 2);
}
