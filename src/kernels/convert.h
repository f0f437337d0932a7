/* Converts floats to integers: truncates, maps NaN to 0, and saturates values out of range.
   SPDX-License-Identifier: MIT */
#ifndef SITU_KERNELS_CONVERT_H
#define SITU_KERNELS_CONVERT_H

#define SATURATE(name, T, F, low, high, limit) \
  DEVICE T name(F x) { return (T)(x != x ? 0 : x <= (F)(low) ? (low) : x >= (F)(limit) ? (high) : (T)x); }
#define LEAST_I32 (-2147483647 - 1)
#define LEAST_I64 ((I64)-0x7fffffffffffffff - 1)
#define MOST_I64 ((I64)0x7fffffffffffffff)
SATURATE(f32_to_u8, unsigned char, float, 0, 255, 255)
SATURATE(f32_to_i8, signed char, float, -128, 127, 127)
SATURATE(f32_to_i16, short, float, -32768, 32767, 32767)
SATURATE(f32_to_i32, int, float, LEAST_I32, 2147483647, 0x1p31f)
SATURATE(f32_to_i64, I64, float, LEAST_I64, MOST_I64, 0x1p63f)
#ifdef DIALECT_F64
SATURATE(f64_to_u8, unsigned char, double, 0, 255, 255)
SATURATE(f64_to_i8, signed char, double, -128, 127, 127)
SATURATE(f64_to_i16, short, double, -32768, 32767, 32767)
SATURATE(f64_to_i32, int, double, LEAST_I32, 2147483647, 0x1p31)
SATURATE(f64_to_i64, I64, double, LEAST_I64, MOST_I64, 0x1p63)
#endif
#undef SATURATE

#endif
