/* Names for a profiler's time line (NVTX): one range for each kernel that is queued, called as its op. Without a tool attached
   a call is a load and a branch; without the toolkit's headers it is nothing.
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
