/* Products of quantised values in whole numbers, of files that have them: one kernel where the device has
   SITU_VERB_INTEGER, and products in f64, which hold the sums exactly, elsewhere.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_QUANTIZED_H
#define SITU_PROGRAM_QUANTIZED_H

#include "situ/ops/nn.h"

/* The operands of SITU_VERB_INTEGER. Those after b may be NULL. */
typedef struct situ__quantized {
  situ_tensor *a, *b;           /* u8 or i8 */
  situ_tensor *zero_a, *zero_b; /* one element, or one for each row of a, or column of b (output of a convolution) */
  situ_tensor *bias;            /* i32, of each column */
  situ_tensor *scale;           /* f32, one element or of each column, or [.., 1] of each row: NULL: sums, i32 */
  situ_tensor *zero;            /* of the result, u8 or i8: NULL: f32 */
  situ_tensor *packed;          /* situ__quantized_lay_out of b */
} situ__quantized;

/* a [.., m, k] times b [.., k, n]. */
situ_tensor *situ__quantized_matmul(const situ__quantized *q);
/* A convolution of 1 to 3 dimensions; padding before and after, in place of o->padding. */
situ_tensor *situ__quantized_conv(const situ__quantized *q, const situ_conv_options *o, const int64_t *before,
                                  const int64_t *after);
/* b, the second factor of many products (o NULL) or the weight of many convolutions, as its device multiplies it
   fastest; *packed NULL: as it is. Returns false after recording an error. */
bool situ__quantized_lay_out(situ_tensor *b, const situ_conv_options *o, situ_tensor **packed);

/* A scale or zero point (NULL stays) in a dtype: a number, or one for each size of the dimension before the last
   `after`. */
situ_tensor *situ__quantized_spread(situ_tensor *t, situ_dtype dtype, int after);
/* x of f32, rounded to the nearest even, plus the zero point (NULL: 0), within the dtype, u8, i8 or i16. */
situ_tensor *situ__quantized_saturate(situ_tensor *x, situ_tensor *zero, situ_dtype dtype);

#endif
