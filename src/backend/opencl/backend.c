/* opencl: the slots of the backend.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

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
  .kernel = { SITU__LOWERED, [SITU_VERB_PACK] = situ__cl_pack },
};
