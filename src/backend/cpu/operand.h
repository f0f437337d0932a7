/* Operands of another dtype than a kernel computes with: a copy in that dtype, made before and written back after.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_OPERAND_H
#define SITU_BACKEND_CPU_OPERAND_H

#include "cpu.h"

/* `view` is what the kernel uses: the operand itself, or `copy`. */
typedef struct situ__operand {
  const situ_view_desc *view, *original;
  situ_view_desc copy;
  situ_storage storage;
} situ__operand;

/* The dtype that a lane has: F32, F64 or I64. */
situ_dtype situ__cpu_lane_dtype(situ_dtype dtype);

/* An input in `dtype`, which is a lane's; dimensions that repeat (stride 0) are not multiplied out. NULL stays NULL.
   Failure is recorded under op and leaves nothing to close. */
situ_status situ__operand_in(situ__operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype);
/* Room for a result in `dtype`, or the result itself if it has that dtype and `direct` is true. */
situ_status situ__operand_out(situ__operand *o, const char *op, const situ_view_desc *view, situ_dtype dtype,
                              bool direct);
/* The result that was computed beside its place goes there. */
void situ__operand_write(const situ__operand *o);
/* A zeroed one is fine. */
void situ__operand_close(situ__operand *o);

#endif
