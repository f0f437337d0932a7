/* Conversions between dtypes and lanes, compiled for every instruction set (isa/convert.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONVERT_H
#define SITU_BACKEND_CPU_CONVERT_H

#include "isa.h"

enum { SITU__LANES = 3 };

/* Strides are in bytes; the lane's side has no gaps. */
typedef struct situ__convert {
  void (*load[SITU_DTYPES][SITU__LANES])(const void *src, int64_t stride, int64_t count, void *dst);
  void (*store[SITU__LANES][SITU_DTYPES])(const void *src, int64_t count, void *dst,
                                          int64_t stride);
  /* How many values of a row of f16, bf16, f32 or f64 are infinite. */
  int64_t (*infinite[SITU_DTYPES])(const void *src, int64_t stride, int64_t count);
  /* A copy that goes past the caches; situ__stream_end() when all of them are made. */
  void (*stream)(void *dst, const void *src, int64_t bytes);
} situ__convert;

SITU__ISA_DECLARE(situ__convert, situ__convert);

/* y = cast(x), both rows without gaps; *lost, if lost is not NULL, grows by the number of finite values that became
   infinite (copy.c). */
void situ__cpu_cast(situ_dtype as, void *y, situ_dtype dtype, const void *x, int64_t count, int64_t *lost);

static inline const situ__convert *situ__cpu_convert(void) {
  return SITU__ISA_PICK(situ__cpu_isa(), situ__convert);
}

/* Stores past the caches are in no order with others: this puts them before all that follow. */
static inline void situ__stream_end(void) {
#ifdef __SSE__
  __builtin_ia32_sfence();
#endif
}

#endif
