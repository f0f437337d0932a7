/* ONNX's products, convolutions and pooling.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/program.h"

/* ---- products ---- */

/* alpha A B + beta C, with A and B transposed if asked for. */
static situ_tensor *run_gemm(situ__op_call *c) {
  situ_tensor *a = situ__arg_tensor(c, 0), *b = situ__arg_tensor(c, 1), *bias = situ__arg_tensor(c, 2);
  const double alpha = situ__arg_number(c, 3), beta = situ__arg_number(c, 4);
  const bool linear = alpha == 1 && beta == 1 && situ__arg_flag(c, 6) && (!bias || situ_dim(bias) == 1);
  if (situ__arg_flag(c, 5)) a = situ_transpose(a, 0, 1);
  if (linear && (!bias || situ_numel(bias) == situ_size(b, 0))) return situ_linear(a, b, bias);
  if (situ__arg_flag(c, 6)) b = situ_transpose(b, 0, 1);
  situ_tensor *y = situ_matmul(a, b);
  if (alpha != 1) y = situ_mul_scalar(y, alpha);
  if (!bias || beta == 0) return y;
  return situ_add(y, beta == 1 ? bias : situ_mul_scalar(bias, beta));
}

static const situ__op_row rows[] = {
  { .target = "Gemm",
    .parameters = "t A, t B, t? C, n alpha=1, n beta=1, i transA=0, i transB=0",
    .inputs = 3,
    .run = run_gemm },
  { .target = "MatMul", .parameters = "t A, t B", .inputs = 2, .binary = situ_matmul },
};
const situ__op_family situ__onnx_layers_family = { rows, sizeof rows / sizeof *rows };
