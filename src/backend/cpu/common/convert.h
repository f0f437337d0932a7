/* Conversions between dtypes and compute types, compiled for every instruction set (isa/convert.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONVERT_H
#define SITU_BACKEND_CPU_CONVERT_H

#include "isa.h"

enum { SITU__COMPUTES = 3 };

/* Strides are in bytes; the compute type's side is contiguous. */
typedef struct situ__convert {
  void (*load[SITU_DTYPES][SITU__COMPUTES])(const void *src, int64_t stride, int64_t count, void *dst);
  void (*store[SITU__COMPUTES][SITU_DTYPES])(const void *src, int64_t count, void *dst, int64_t stride);
  /* Counts the infinite values of a row of f16, bf16, f32 or f64. */
  int64_t (*infinite[SITU_DTYPES])(const void *src, int64_t stride, int64_t count);
  /* Casts a contiguous row. Returns true if values of it are infinite then. */
  bool (*f16_of_f32)(const void *src, int64_t count, void *dst);
  /* Copies with non-temporal stores; call situ__stream_end() after the last. */
  void (*stream)(void *dst, const void *src, int64_t bytes);
  /* Copies rows of `bytes`, which do not overlap, between any two distances. */
  void (*copy_rows)(char *dst, int64_t dst_step, const char *src, int64_t src_step, int64_t rows, int64_t bytes);
} situ__convert;

SITU__ISA_DECLARE(situ__convert, situ__convert);

#ifdef SITU_HAVE_ISA_BF16
/* situ__convert_v4, but for the one function that AVX512_BF16 makes faster (isa_bf16/convert.c). */
extern const situ__convert situ__convert_bf16;
void situ__store_f32_as_bf16(const void *src, int64_t count, void *dst, int64_t stride);
#endif

static inline const situ__convert *situ__cpu_convert(void) {
  const situ__isa isa = situ__cpu_isa();
#ifdef SITU_HAVE_ISA_BF16
  if (isa >= SITU__ISA_BF16) return &situ__convert_bf16;
#endif
  return SITU__ISA_PICK(isa, situ__convert);
}

/* A cast from one dtype to another (copy.c). */
typedef struct situ__cast {
  const situ__convert *convert;
  uint8_t x, y;
  situ__compute compute;
  bool plain_x, plain_y; /* the dtype is the compute type itself */
  int64_t *lost;         /* counter of finite values that become infinite; may be NULL */
} situ__cast;
situ__cast situ__cpu_cast_of(situ_dtype x, situ_dtype y, int64_t *lost);
/* A situ__loop_fn: data[0] = cast(data[1]). payload: a situ__cast. */
void situ__cpu_cast_row(char *const *data, const int64_t *stride, int64_t count, void *payload);

#endif
