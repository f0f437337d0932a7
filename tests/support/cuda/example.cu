// Kernels of an example, emulated. SPDX-License-Identifier: MIT
#include "../examples/cuda/18_advance.cu"
ENTRY(advance)
ENTRY(solve)
