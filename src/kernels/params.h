/* Blocks of parameters that the host fills and kernels read: one declaration for both sides. All members are eight bytes
   wide, so that no compiler pads.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_PARAMS_H
#define SITU_KERNELS_PARAMS_H

#if !defined(__OPENCL_C_VERSION__) && !defined(__CUDACC__)
#include <stdint.h>
typedef int64_t I64;
#endif

/* Where element i of each operand lies: i is counted through size[], each operand has steps of its own. Unused dimensions
   are not read. */
enum { WALK_OPERANDS = 4, WALK_DIMS = 8 };
typedef struct walk {
  I64 numel, ndim, size[WALK_DIMS];
  I64 offset[WALK_OPERANDS], stride[WALK_OPERANDS][WALK_DIMS];
} walk;

/* FLAGS of elementwise.h: are there strides or gaps; which operands are rounded to COMPUTE first. */
#define FLAG_STRIDED 1u
#define FLAG_ROUND_1 2u
#define FLAG_ROUND_2 4u
#define FLAG_ROUND_3 8u
#define FLAG_DIVIDES 16u /* whole numbers: a divisor of 0 is a fault */

/* What a kernel says of an index that it met outside: the first one wins. */
typedef struct fault {
  I64 raised, verb, value, bound, dim, at; /* verb: a situ_verb, or FAULT_DIVISION */
} fault;
#define FAULT_DIVISION -1

#endif
