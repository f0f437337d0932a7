/* The kernel sources, joined by CMake with the headers that they include, and embedded in the module.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"

#define ROW(name)                                                                                                      \
  __asm__(".section .rodata\nsitu__cl_text_" #name ":\n.incbin \"" SITU_CL_TEXTS "/" #name ".cl\"\n.byte 0\n.text\n"); \
  extern __attribute__((visibility("hidden"))) const char situ__cl_text_##name[];
SITU__TEXTS(ROW)
ROW(builtins)
#undef ROW

const char *situ__cl_text_of(situ__kernel_text text) {
  static const char *const texts[] = {
#define ROW(name) situ__cl_text_##name,
    SITU__TEXTS(ROW)
#undef ROW
  };
  return texts[text];
}

const char *situ__cl_builtins(void) { return situ__cl_text_builtins; }
