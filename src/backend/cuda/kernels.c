/* The compiled kernels that the module carries.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

const void *situ__cuda_kernels(void) { return NULL; }

void situ__cuda_kernel_name(const situ__call *call, char name[128]) {
  (void)call;
  name[0] = 0;
}
