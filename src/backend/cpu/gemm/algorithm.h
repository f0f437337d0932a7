/* The table of the algorithms of products.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_GEMM_ALGORITHM_H
#define SITU_BACKEND_CPU_GEMM_ALGORITHM_H

#include "matmul.h"
#include "backend/cpu/common/choice.h"

/* No algorithm calls another. The first that suits runs; if values do not suit it, the next one. */
typedef struct situ__matmul_algorithm {
  const char *name;                     /* in profiles, and for SITU_CPU_MATMUL */
  bool (*suits)(const situ__matmul *p); /* by sizes, strides, dtype and processor alone */
  situ_status (*run)(situ__matmul *p);  /* SITU_E_UNSUPPORTED: its values do not suit */
  situ__isa least;                      /* the lowest instruction set that has it */
} situ__matmul_algorithm;
extern const situ__matmul_algorithm *const situ__matmul_rows[];
extern situ__algorithm_choice situ__matmul_choice; /* tests force each row */

#endif
