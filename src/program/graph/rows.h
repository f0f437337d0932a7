/* How rows of plain functions are written.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_ROWS_H
#define SITU_PROGRAM_ROWS_H

#include "program.h"

#define UNARY(name) \
  { #name ".default", "t self", .unary = situ_##name }
#define PAIR(name, function) \
  { name, "t self, x other", .binary = function }

/* Rows with `.gradient_of`: grad_output, the sizes of the result and of the input, and the op's other arguments. */
situ_tensor *situ__run_resized_gradient(situ__op_call *call);
/* What attention's softmax is of: `query` is the argument before the key, `causal` is_causal, before the mask. */
situ_tensor *situ__attention_scores(const situ__op_call *call, int query, int causal, double scale);
double situ__attention_scale(const situ__op_call *call, int query, int scale);

#endif
