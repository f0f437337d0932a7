/* What the derivatives of functions share (func.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_FUNC_FUNCTION_H
#define SITU_FUNC_FUNCTION_H

#include "situ/func.h"
#include "tensor/tensor.h"

enum { SITU__PRIMALS = 64 };

/* All return false or NULL after recording an error. */

/* Checks the arguments that all have; that primals[argnum] is floating. */
bool situ__func_given(const char *op, situ_func function, int count, situ_tensor *const *primals);
bool situ__func_floating(const char *op, int count, situ_tensor *const *primals, int argnum);
/* Leaves at the primals: integers stay constants. With create_graph, stand-ins that keep the primals' history. */
bool situ__func_leaves(const char *op, int count, situ_tensor *const *primals, bool create_graph, situ_tensor **own);
/* The function's result. */
situ_tensor *situ__func_value(const char *op, situ_func function, void *payload, int count, situ_tensor *const *own);
/* The same, and in *tangent (may be NULL) the derivative along the tangents, by forward mode. */
situ_tensor *situ__func_forward(const char *op, situ_func function, void *payload, int count,
                                situ_tensor *const *primals, situ_tensor *const *tangents, situ_tensor **tangent);
/* The gradients of y by leaves; zeros where it does not depend on one, NULL for integers. keep: retain the graph. */
bool situ__func_gradients(situ_tensor *y, situ_tensor *cotangent, bool keep, bool create_graph, int count,
                          situ_tensor *const *own, situ_tensor **grads);

#endif
