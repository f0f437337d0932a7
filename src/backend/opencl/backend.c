/* opencl: the slots of the backend, and the module's two exported symbols.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

const situ_host *situ__host;

bool situ_module_start(const situ_host *host) {
  situ__host = host;
  return host->abi == SITU_BACKEND_ABI && host->size == sizeof *host;
}

const situ_backend situ_module_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof situ_module_backend,
  .kind = SITU_OPENCL,
  .name = "opencl",
  .count = situ__cl_count,
  .info = situ__cl_info,
  .lost = situ__cl_lost,
  .alloc = situ__cl_alloc,
  .free = situ__cl_free,
  .copy_in = situ__cl_copy_in,
  .copy_out = situ__cl_copy_out,
  .copy_peer = situ__cl_copy_peer,
  .synchronize = situ__cl_synchronize,
  .kernel = {
    [SITU_VERB_COPY] = situ__lower_copy,
    [SITU_VERB_FILL] = situ__lower_fill,
    [SITU_VERB_RANGE] = situ__lower_range,
    [SITU_VERB_RANDOM] = situ__lower_random,
    [SITU_VERB_TRIANGLE] = situ__lower_triangle,
    [SITU_VERB_UNARY] = situ__lower_unary,
    [SITU_VERB_UNARY_GRAD] = situ__lower_unary_grad,
    [SITU_VERB_BINARY] = situ__lower_binary,
    [SITU_VERB_TERNARY] = situ__lower_ternary,
    [SITU_VERB_REDUCE] = situ__lower_reduce,
    [SITU_VERB_ARG_REDUCE] = situ__lower_arg_reduce,
    [SITU_VERB_SCAN] = situ__lower_scan,
    [SITU_VERB_SORT] = situ__lower_sort,
    [SITU_VERB_GATHER] = situ__lower_gather,
    [SITU_VERB_SCATTER] = situ__lower_scatter,
    [SITU_VERB_NONZERO] = situ__lower_nonzero,
    [SITU_VERB_MATMUL] = situ__lower_matmul,
    [SITU_VERB_CONV] = situ__lower_conv,
    [SITU_VERB_POOL] = situ__lower_pool,
    [SITU_VERB_SOFTMAX] = situ__lower_softmax,
    [SITU_VERB_NORM] = situ__lower_norm,
    [SITU_VERB_BATCH_NORM] = situ__lower_batch_norm,
    [SITU_VERB_NLL] = situ__lower_nll,
    [SITU_VERB_OPTIMIZER] = situ__lower_optimizer,
  },
};
