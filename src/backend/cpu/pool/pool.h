/* Pooling of one plane in one compute type; pool.c converts other dtypes.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_POOL_H
#define SITU_BACKEND_CPU_POOL_H

#include "backend/cpu/common/cpu.h"

typedef struct situ__plane {
  const situ_window *window;
  int64_t height, width, out_height, out_width;
  /* Max pooling: length of rows that hold all windows, the plane's width if its rows do; 0: one too long to copy. */
  int64_t line;
  void *scratch; /* for out_width values of the compute type, or for `height` such rows */
} situ__plane;

/* small: the result, [out_height, out_width]; large: the plane. Gradients overwrite the large one. */
typedef struct situ__pool_kernels {
  void (*max)(const situ__plane *p, const void *large, void *small, int64_t *index); /* index may be NULL */
  bool (*max_grad)(const situ__plane *p, const void *small, const int64_t *index,
                   void *large); /* returns false if an index is out of range */
  void (*avg)(const situ__plane *p, const void *large, void *small);
  void (*avg_grad)(const situ__plane *p, const void *small, void *large);
  void (*adaptive)(const situ__plane *p, const void *large, void *small);
  void (*adaptive_grad)(const situ__plane *p, const void *small, void *large);
} situ__pool_kernels;

#endif
