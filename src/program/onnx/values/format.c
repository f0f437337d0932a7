/* The values of formats: each float format has at most 256, which are listed, so that rounding is a search.
   Sources: https://onnx.ai/onnx/technical/float8.html, float4.html, int4.html.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "base/fail.h"
#include "format.h"
#include "situ/ops/binary.h"
#include "situ/ops/create.h"
#include "situ/ops/index.h"
#include "situ/ops/reduce.h"
#include "situ/ops/shape.h"
#include "situ/ops/unary.h"
#include "situ/sys/dry.h"

enum { CODES = 256 };

static const situ__onnx_format formats[] = {
  [4] = { "UINT16", SITU_I32, 16, false, 0, 0, 0, 0 },
  [12] = { "UINT32", SITU_I64, 32, false, 0, 0, 0, 0 },
  [13] = { "UINT64", SITU_I64, 64, false, 0, 0, 0, 0 },
  [17] = { "FLOAT8E4M3FN", SITU_F32, 8, true, 4, 3, 7, SITU__FORMAT_NAN },
  [18] = { "FLOAT8E4M3FNUZ", SITU_F32, 8, true, 4, 3, 8, SITU__FORMAT_NAN_AS_ZERO },
  [19] = { "FLOAT8E5M2", SITU_F32, 8, true, 5, 2, 15, SITU__FORMAT_INF },
  [20] = { "FLOAT8E5M2FNUZ", SITU_F32, 8, true, 5, 2, 16, SITU__FORMAT_NAN_AS_ZERO },
  [21] = { "UINT4", SITU_U8, 4, false, 0, 0, 0, 0 },
  [22] = { "INT4", SITU_I8, 4, true, 0, 0, 0, 0 },
  [23] = { "FLOAT4E2M1", SITU_F32, 4, true, 2, 1, 1, SITU__FORMAT_FINITE },
  [24] = { "FLOAT8E8M0", SITU_F32, 8, false, 8, 0, 127, SITU__FORMAT_NAN },
  [25] = { "UINT2", SITU_U8, 2, false, 0, 0, 0, 0 },
  [26] = { "INT2", SITU_I8, 2, true, 0, 0, 0, 0 },
};

const situ__onnx_format *situ__onnx_format_of(uint64_t number) {
  const bool listed = number < sizeof formats / sizeof *formats && formats[number].name;
  return listed ? &formats[number] : NULL;
}

static bool is_whole(const situ__onnx_format *f) { return f->exponent == 0; }

/* ---- floats ---- */

/* The number of a code without its sign, as if no code had another meaning. */
static double magnitude_of(const situ__onnx_format *f, int code) {
  const int exponent = code >> f->mantissa, fraction = code - (exponent << f->mantissa), one = 1 << f->mantissa;
  if (f->mantissa == 0) return ldexp(1, exponent - f->bias);
  return exponent ? ldexp(one + fraction, exponent - f->bias - f->mantissa)
                  : ldexp(fraction, 1 - f->bias - f->mantissa);
}

/* Codes without a sign that are numbers: they ascend. */
static int count_numbers(const situ__onnx_format *f) {
  const int codes = 1 << (f->bits - f->is_signed);
  return f->end == SITU__FORMAT_NAN ? codes - 1 : f->end == SITU__FORMAT_INF ? codes - (1 << f->mantissa) : codes;
}

static float value_of(const situ__onnx_format *f, int code) {
  const int sign = f->is_signed ? code >> (f->bits - 1) : 0, rest = code - (sign << (f->bits - 1));
  const int past = rest - count_numbers(f);
  if (past >= 0) return past == 0 && f->end == SITU__FORMAT_INF ? (sign ? -INFINITY : INFINITY) : NAN;
  if (sign && rest == 0 && f->end == SITU__FORMAT_NAN_AS_ZERO) return NAN;
  return (float)(sign ? -magnitude_of(f, rest) : magnitude_of(f, rest));
}

/* The largest f32 that becomes the number of `code`, and not the next one. Formats of powers of 2 have no even codes:
   of two that are equally near the larger one is taken. */
static float edge_after(const situ__onnx_format *f, int code, situ__onnx_format_rounding rounding) {
  const double here = magnitude_of(f, code), next = magnitude_of(f, code + 1), middle = (here + next) / 2;
  if (rounding == SITU__FORMAT_UP) return (float)here;
  if (rounding == SITU__FORMAT_DOWN) return nextafterf((float)next, 0);
  return code % 2 || f->mantissa == 0 ? nextafterf((float)middle, 0) : (float)middle;
}

/* A list of f32 where o says. */
static situ_tensor *put_list(const float *list, int count, const situ_options *o) {
  const situ_options f32 = { .dtype = SITU_F32, .device = o->device };
  if (o->device.kind == SITU_META) return situ_empty(SITU_SHAPE(count), &f32);
  return situ_from_host(list, (size_t)count * sizeof *list, SITU_SHAPE(count), &f32);
}

static situ_tensor *cast_float(const situ__onnx_format *f, situ_tensor *x, bool saturate,
                               situ__onnx_format_rounding rounding) {
  float value[CODES], edge[CODES];
  const int count = count_numbers(f);
  const situ_options there = { .device = situ_device_of(x) };
  for (int code = 0; code < count; code++) {
    value[code] = (float)magnitude_of(f, code);
    edge[code] = edge_after(f, code, rounding);
  }
  const bool ends = saturate || f->end == SITU__FORMAT_FINITE;
  value[count] = ends ? value[count - 1] : f->end == SITU__FORMAT_INF ? INFINITY : NAN;
  x = situ_to_dtype(x, SITU_F32);
  situ_tensor *at = situ_bucketize(situ_abs(x), put_list(edge, count, &there), false);
  situ_tensor *y = situ_take(put_list(value, count + 1, &there), at);
  if (f->is_signed) y = situ_copysign(y, x);
  if (f->end == SITU__FORMAT_NAN_AS_ZERO) y = situ_add_scalar(y, 0); /* which makes -0 to 0 */
  return situ_where(situ_isnan(x), f->end == SITU__FORMAT_FINITE ? situ_zeros_like(x, NULL) : x, y);
}

/* ---- whole numbers ---- */

static situ_tensor *refuse_wide(void) {
  return situ__fail(SITU_E_UNSUPPORTED, "export_load", "has a value of UINT64 that i64 does not hold"), NULL;
}

static situ_tensor *cast_whole(const situ__onnx_format *f, situ_tensor *x) {
  situ_tensor *y = situ_to_dtype(x, SITU_I64);
  if (f->bits == 64) {
    int64_t least = 0;
    if (situ_is_dry() || situ_device_of(y).kind == SITU_META || situ_numel(y) == 0) return y;
    if (situ_item_i64(situ_amin(y, &(situ_reduce_options){ .keepdim = false }), &least) != SITU_OK) return NULL;
    return least < 0 ? refuse_wide() : y;
  }
  const double codes = ldexp(1, f->bits), half = codes / 2;
  y = situ_remainder_scalar(y, codes);
  if (f->is_signed) y = situ_sub_scalar(situ_remainder_scalar(situ_add_scalar(y, half), codes), half);
  return situ_to_dtype(y, f->wide);
}

situ_tensor *situ__onnx_format_cast(const situ__onnx_format *f, situ_tensor *x, bool saturate,
                                    situ__onnx_format_rounding rounding) {
  return is_whole(f) ? cast_whole(f, x) : cast_float(f, x, saturate, rounding);
}

situ_tensor *situ__onnx_format_quantize(const situ__onnx_format *f, situ_tensor *x, bool saturate) {
  if (!is_whole(f)) return cast_float(f, x, saturate, SITU__FORMAT_NEAREST);
  const double codes = ldexp(1, f->bits), least = f->is_signed ? -codes / 2 : 0;
  return situ_to_dtype(situ_clamp(x, least, least + codes - 1), f->wide);
}

/* ---- files ---- */

situ_dtype situ__onnx_format_carrier(const situ__onnx_format *f) {
  return f->bits <= 8 ? SITU_U8 : f->bits == 16 ? SITU_I16 : f->bits == 32 ? SITU_I32 : SITU_I64;
}

/* The bits of code i, which begin with the lowest ones of a byte; processors here are little-endian. */
static uint64_t code_at(const situ__onnx_format *f, const unsigned char *bytes, int64_t i) {
  uint64_t code = 0;
  if (f->bits >= 8) return memcpy(&code, bytes + i * (f->bits / 8), (size_t)f->bits / 8), code;
  const int each = 8 / f->bits, shift = (int)(i % each) * f->bits;
  return (uint64_t)(bytes[i / each] >> shift) & ((UINT64_C(1) << f->bits) - 1);
}

situ_tensor *situ__onnx_format_unpack(const situ__onnx_format *f, situ_tensor *bytes, situ_shape shape) {
  situ_tensor *out = situ_empty(shape, &(situ_options){ .dtype = f->wide, .device = { .kind = SITU_CPU } });
  const int64_t count = out ? situ_numel(out) : 0;
  const size_t size = situ_dtype_size(f->wide);
  if (!count) return out;
  const unsigned char *from = situ_data_ptr(bytes);
  unsigned char *to = situ_data_ptr(out);
  for (int64_t i = 0; i < count; i++) {
    const uint64_t code = code_at(f, from, i), sign = f->is_signed ? UINT64_C(1) << (f->bits - 1) : 0;
    const uint64_t whole = (code ^ sign) - sign;
    const float real = is_whole(f) ? 0 : value_of(f, (int)code);
    if (f->bits == 64 && code >> 63) return refuse_wide();
    memcpy(to + (size_t)i * size, is_whole(f) ? (const void *)&whole : &real, size);
  }
  return out;
}
