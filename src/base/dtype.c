/* Dtypes: names, sizes, ranges.
   SPDX-License-Identifier: MIT */
#include "base/dtype.h"

#include <float.h>

const situ__dtype_facts situ__dtypes[SITU_DTYPES] = {
  /* clang-format off */
  /* Every number fits, because creating the tensor reports the invalid dtype. */
  [SITU_DTYPE_DEFAULT] = { "?", 0, 0, SITU__KIND_BOOL, -0x1p63, 0x1p63, 0x1p63 },
  [SITU_BOOL] = { "bool", 1, 0, SITU__KIND_BOOL, 0, 1, 1 },
  [SITU_U8] = { "u8", 1, 0, SITU__KIND_INTEGER, 0, UINT8_MAX, UINT8_MAX },
  [SITU_I8] = { "i8", 1, 0, SITU__KIND_INTEGER, INT8_MIN, INT8_MAX, INT8_MAX },
  [SITU_I16] = { "i16", 2, 1, SITU__KIND_INTEGER, INT16_MIN, INT16_MAX, INT16_MAX },
  [SITU_I32] = { "i32", 4, 2, SITU__KIND_INTEGER, INT32_MIN, INT32_MAX, INT32_MAX },
  [SITU_I64] = { "i64", 8, 3, SITU__KIND_INTEGER, -0x1p63, 0x1p63, 0x1p63 },
  [SITU_F16] = { "f16", 2, 1, SITU__KIND_FLOAT, -65504, 65504, 0x1p11 },
  [SITU_BF16] = { "bf16", 2, 1, SITU__KIND_FLOAT, -0x1.FEp127, 0x1.FEp127, 0x1p8 },
  [SITU_F32] = { "f32", 4, 2, SITU__KIND_FLOAT, -FLT_MAX, FLT_MAX, 0x1p24 },
  [SITU_F64] = { "f64", 8, 3, SITU__KIND_FLOAT, -DBL_MAX, DBL_MAX, 0x1p53 },
  /* clang-format on */
};
