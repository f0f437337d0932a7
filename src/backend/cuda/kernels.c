/* The compiled kernels, embedded in the module: a fatbin for each source (cmake/kernels.cmake), with code for all
   architectures of the build.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/cuda.h"

#define ROW(name)                                                                                       \
  __asm__(".section .rodata\n.balign 16\nsitu__cuda_" #name ":\n.incbin \"" SITU_CUDA_KERNELS "/" #name \
          ".fatbin\"\n.text\n");                                                                        \
  extern __attribute__((visibility("hidden"))) const char situ__cuda_##name[];
SITU__TEXTS(ROW)
#undef ROW

const void *situ__cuda_kernels(situ__kernel_text text) {
  static const void *const kernels[] = {
#define ROW(name) situ__cuda_##name,
    SITU__TEXTS(ROW)
#undef ROW
  };
  return kernels[text];
}
