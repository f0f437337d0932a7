/* Named ranges for profilers (NVTX): one for each kernel that is queued, named as its op. Without a profiler attached a
   call costs a load and a branch; without the toolkit's headers it compiles to nothing.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CUDA_RANGE_H
#define SITU_BACKEND_CUDA_RANGE_H

#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>
static inline void situ__cuda_range_begin(const char *op) { (void)nvtxRangePushA(op); }
static inline void situ__cuda_range_end(void) { (void)nvtxRangePop(); }
#else
static inline void situ__cuda_range_begin(const char *op) { (void)op; }
static inline void situ__cuda_range_end(void) {}
#endif

#endif
