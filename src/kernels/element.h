/* Loads one element of any dtype as the compute type T and stores it back. Every kernel source begins with this file.
   SPDX-License-Identifier: MIT

   The including source gets D0, D1, ...: names of dtypes (f32, bf16, ...), D0 that of the result; T, TNAME and
   FLOATING, the compute type: float, double or I64; FLAGS, OP, NAME, GROUP_SIZE. */
#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/convert.h"
#include "kernels/params.h"

/* C type of a dtype in memory. */
#define MEMORY_bool unsigned char
#define MEMORY_u8 unsigned char
#define MEMORY_i8 signed char
#define MEMORY_i16 short
#define MEMORY_i32 int
#define MEMORY_i64 I64
#define MEMORY_f16 unsigned short
#define MEMORY_bf16 unsigned short
#define MEMORY_f32 float
#define MEMORY_f64 double
#define MEMORY(dtype) PASTE(MEMORY, dtype)
#define SIZE_bool 1
#define SIZE_u8 1
#define SIZE_i8 1
#define SIZE_i16 2
#define SIZE_i32 4
#define SIZE_i64 8
#define SIZE_f16 2
#define SIZE_bf16 2
#define SIZE_f32 4
#define SIZE_f64 8
#define SIZE(dtype) PASTE(SIZE, dtype)

/* Value of an element in memory. */
#define VALUE_bool(v) ((v) != 0)
#define VALUE_u8(v) (v)
#define VALUE_i8(v) (v)
#define VALUE_i16(v) (v)
#define VALUE_i32(v) (v)
#define VALUE_i64(v) (v)
#define VALUE_f16(v) situ__f16_to_f32(v)
#define VALUE_bf16(v) situ__bf16_to_f32(v)
#define VALUE_f32(v) (v)
#define VALUE_f64(v) (v)

/* The compute type that represents all values of a dtype. */
#define KIND_bool i64
#define KIND_u8 i64
#define KIND_i8 i64
#define KIND_i16 i64
#define KIND_i32 i64
#define KIND_i64 i64
#define KIND_f16 f32
#define KIND_bf16 f32
#define KIND_f32 f32
#define KIND_f64 f64

/* Converts from one compute type to another. */
#define CAST_f32_to_f32(v) (v)
#define CAST_f64_to_f32(v) ((float)(v))
#define CAST_i64_to_f32(v) ((float)(v))
#define CAST_f32_to_f64(v) ((double)(v))
#define CAST_f64_to_f64(v) (v)
#define CAST_i64_to_f64(v) ((double)(v))
#define CAST_f32_to_i64(v) f32_to_i64(v)
#define CAST_f64_to_i64(v) f64_to_i64(v)
#define CAST_i64_to_i64(v) ((I64)(v))
#define CAST__(from, to) CAST_##from##_to_##to
#define CAST_(from, to) CAST__(from, to)
#define CAST(from, to, v) CAST_(from, to)(v)

/* Converts from a compute type to a dtype's memory: integers wrap, floats saturate. */
#define STORE_f32_bool(v) ((v) != 0)
#define STORE_f64_bool(v) ((v) != 0)
#define STORE_i64_bool(v) ((v) != 0)
#define STORE_f32_u8(v) f32_to_u8(v)
#define STORE_f64_u8(v) f64_to_u8(v)
#define STORE_i64_u8(v) ((unsigned char)(v))
#define STORE_f32_i8(v) f32_to_i8(v)
#define STORE_f64_i8(v) f64_to_i8(v)
#define STORE_i64_i8(v) ((signed char)(v))
#define STORE_f32_i16(v) f32_to_i16(v)
#define STORE_f64_i16(v) f64_to_i16(v)
#define STORE_i64_i16(v) ((short)(v))
#define STORE_f32_i32(v) f32_to_i32(v)
#define STORE_f64_i32(v) f64_to_i32(v)
#define STORE_i64_i32(v) ((int)(v))
#define STORE_f32_i64(v) f32_to_i64(v)
#define STORE_f64_i64(v) f64_to_i64(v)
#define STORE_i64_i64(v) (v)
#define STORE_f32_f16(v) situ__f32_to_f16(v)
#define STORE_f64_f16(v) situ__f32_to_f16((float)(v))
#define STORE_i64_f16(v) situ__f32_to_f16((float)(v))
#define STORE_f32_bf16(v) situ__f32_to_bf16(v)
#define STORE_f64_bf16(v) situ__f32_to_bf16((float)(v))
#define STORE_i64_bf16(v) situ__f32_to_bf16((float)(v))
#define STORE_f32_f32(v) (v)
#define STORE_f64_f32(v) ((float)(v))
#define STORE_i64_f32(v) ((float)(v))
#define STORE_f32_f64(v) ((double)(v))
#define STORE_f64_f64(v) (v)
#define STORE_i64_f64(v) ((double)(v))
#define STORE__(from, to) STORE_##from##_##to
#define STORE_(from, to) STORE__(from, to)

/* Loads memory of a dtype as T, and stores T as memory of a dtype. */
#define LOAD(dtype, v) CAST(PASTE(KIND, dtype), TNAME, PASTE(VALUE, dtype)(v))
#define STORE(dtype, v) STORE_(TNAME, dtype)(v)
/* Two f32 values as a word of two halves (CUDA). */
#define PAIR_f16(a, b) situ__f32_to_f16_pair(a, b)
#define PAIR_bf16(a, b) situ__f32_to_bf16_pair(a, b)
#define STORE_PAIR(dtype, a, b) PASTE(PAIR, dtype)(a, b)

/* i / size, for i >= 0. A 64-bit division takes about a hundred instructions on a GPU; operands that fit into 31 bits
   are multiplied by the size's magic number (backend/lower/walk.c) instead. */
NOINLINE I64 long_quotient(I64 i, I64 size) { return i / size; }
DEVICE I64 quotient(I64 i, I64 size, I64 magic) {
  if (magic == 0 || i >> 31) return long_quotient(i, size);
  const U32 n = (U32)i, high = (U32)((U64)n * (U32)magic >> 32);
  return (I64)((high + n) >> (U32)(magic >> 32));
}

/* Offset of element i in operand k. */
NOINLINE I64 walk_at(const walk *w, int k, I64 i) {
  I64 at = w->offset[k];
  for (I64 d = w->ndim - 1; d > 0; d--) {
    I64 outer = quotient(i, w->size[d], w->magic[d]);
    at += (i - outer * w->size[d]) * w->stride[k][d];
    i = outer;
  }
  return w->ndim ? at + i * w->stride[k][0] : at;
}
/* Number of elements from i on along the last dimension, at most up to `end`. */
DEVICE I64 walk_run(const walk *w, I64 i, I64 end) {
  const I64 left = w->size[w->ndim - 1] - i % w->size[w->ndim - 1];
  return left < end - i ? left : end - i;
}
