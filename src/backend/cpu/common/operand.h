/* Operands whose dtype differs from a kernel's compute type: a copy in that type, made before and written back after.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_OPERAND_H
#define SITU_BACKEND_CPU_OPERAND_H

#include "cpu.h"

/* `view` is what the kernel uses: the operand itself, or `copy`. */
typedef struct situ__cpu_operand {
  const situ_view_desc *view, *original;
  situ_view_desc copy;
  situ_storage storage;
} situ__cpu_operand;

/* dtype's compute type as a dtype: F32, F64 or I64. */
situ_dtype situ__cpu_compute_dtype(situ_dtype dtype);

/* Prepares an input in `dtype`, which must be a compute type; broadcast dimensions (stride 0) are not materialised.
   NULL stays NULL. On failure records an error under op; then there is nothing to close. */
situ_status situ__operand_in(situ__cpu_operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype);
/* Allocates a result in `dtype`, or uses the result itself if it has that dtype and `direct` is true. */
situ_status situ__operand_out(situ__cpu_operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype,
                              bool direct);
/* Copies a result that was computed in scratch to its operand. */
void situ__operand_write(const situ__cpu_operand *o);
/* Frees the copy; a zeroed operand is allowed. */
void situ__operand_close(situ__cpu_operand *o);

#endif
