/* Formats: ONNX's dtypes that situ does not have. A program has their values in a wider dtype, which holds each one.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ONNX_FORMAT_H
#define SITU_PROGRAM_ONNX_FORMAT_H

#include <stdint.h>

#include "situ/tensor.h"

/* How a float's largest codes are read. */
typedef enum situ__onnx_format_end {
  SITU__FORMAT_FINITE = 0, /* as numbers */
  SITU__FORMAT_NAN,        /* the last one is NaN */
  SITU__FORMAT_INF,        /* the last exponent has infinity and NaN, as in IEEE 754 */
  SITU__FORMAT_NAN_AS_ZERO /* as numbers, and the code of -0 is NaN */
} situ__onnx_format_end;

typedef struct situ__onnx_format {
  const char *name;
  situ_dtype wide;        /* of its values in a program */
  int bits;               /* of a code */
  bool is_signed;         /* of whole numbers, and of floats */
  int exponent, mantissa; /* bits of them; both 0: whole numbers */
  int bias;
  situ__onnx_format_end end;
} situ__onnx_format;

/* Of ONNX's number of a dtype; NULL: it is not a format. */
const situ__onnx_format *situ__onnx_format_of(uint64_t number);

/* The dtype in which a file's bytes of the format are read: u8, also where several codes share a byte. */
situ_dtype situ__onnx_format_carrier(const situ__onnx_format *format);
/* Values of codes: bytes has the carrier's dtype and lies on the host. NULL after recording an error. */
situ_tensor *situ__onnx_format_unpack(const situ__onnx_format *format, situ_tensor *bytes, situ_shape shape);

typedef enum situ__onnx_format_rounding {
  SITU__FORMAT_NEAREST = 0, /* of two: the one with an even code */
  SITU__FORMAT_UP,
  SITU__FORMAT_DOWN
} situ__onnx_format_rounding;
/* x as values of the format, as ONNX's Cast makes them. Floats that are too large become the largest (saturate) or
   infinite or NaN; whole numbers lose their upper bits. */
situ_tensor *situ__onnx_format_cast(const situ__onnx_format *format, situ_tensor *x, bool saturate,
                                    situ__onnx_format_rounding rounding);
/* The same of a quotient to which its zero point was added: whole numbers stay within the range. */
situ_tensor *situ__onnx_format_quantize(const situ__onnx_format *format, situ_tensor *x, bool saturate);

#endif
