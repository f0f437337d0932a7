/* linalg.vector_norm and linalg.matrix_norm, made of reductions and singular values.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "ops/ops.h"

situ_tensor *situ_linalg_vector_norm(situ_tensor *x, double ord, const situ_reduce_options *options) {
  SITU__MADE_OF_OPS("linalg_vector_norm");
  return situ_norm(x, ord, options);
}

static const char op[] = "linalg_matrix_norm";

typedef situ_tensor *reduction(situ_tensor *, const situ_reduce_options *);

static situ_tensor *along(reduction *reduce, situ_tensor *x, int dim) {
  return reduce(x, &(situ_reduce_options){ .dim = SITU_DIMS(dim) });
}

/* Along the last dimension; of nothing 0, as no norm is less. */
static situ_tensor *largest(situ_tensor *x) { return x ? along(situ_size(x, -1) ? situ_amax : situ_sum, x, -1) : NULL; }

/* Of the last two dimensions. */
static situ_tensor *norm_of(situ_tensor *a, situ_matrix_norm ord) {
  switch (ord) {
  case SITU_MATRIX_NORM_FRO: return situ_norm(a, 2, &(situ_reduce_options){ .dim = SITU_DIMS(-2, -1) });
  case SITU_MATRIX_NORM_NUC: return along(situ_sum, situ_linalg_svdvals(a), -1);
  case SITU_MATRIX_NORM_2: return largest(situ_linalg_svdvals(a));
  case SITU_MATRIX_NORM_MINUS_2: return along(situ_amin, situ_linalg_svdvals(a), -1);
  case SITU_MATRIX_NORM_1: return largest(along(situ_sum, situ_abs(a), -2));
  case SITU_MATRIX_NORM_MINUS_1: return along(situ_amin, along(situ_sum, situ_abs(a), -2), -1);
  case SITU_MATRIX_NORM_INF: return largest(along(situ_sum, situ_abs(a), -1));
  case SITU_MATRIX_NORM_MINUS_INF: return along(situ_amin, along(situ_sum, situ_abs(a), -1), -1);
  }
  return situ__fail(SITU_E_ARG, op, "%d is not a norm", (int)ord), NULL;
}

/* Rows and columns: the listed dimensions, or the last two. */
static bool two_dims(const situ_tensor *x, const situ_shape *listed, int dim[2]) {
  if (x->view.ndim < 2 || (listed->ndim && listed->ndim != 2))
    return situ__fail(SITU_E_ARG, op, "%d dimensions listed of a tensor of %d: matrices have 2", listed->ndim,
                      x->view.ndim),
           false;
  for (int k = 0; k < 2; k++)
    if (!situ_wrap_dim(op, listed->ndim ? listed->dim[k] : k - 2, x->view.ndim, &dim[k])) return false;
  if (dim[0] == dim[1]) return situ__fail(SITU_E_ARG, op, "dimension %d is listed twice", dim[0]), false;
  return true;
}

situ_tensor *situ_linalg_matrix_norm(situ_tensor *A, situ_matrix_norm ord, const situ_reduce_options *options) {
  SITU__MADE_OF_OPS(op);
  const situ_reduce_options o = options ? *options : (situ_reduce_options){ 0 };
  int dim[2];
  if (!situ__need(op, "A", A) || !two_dims(A, &o.dim, dim)) return NULL;
  situ_tensor *a = o.dtype ? situ_to_dtype(A, o.dtype) : A;
  if (a && !situ_dtype_is_floating((situ_dtype)a->view.dtype))
    return situ__fail(SITU_E_DTYPE, op, "A is %s, must be floating", situ_dtype_name((situ_dtype)a->view.dtype)), NULL;
  situ_tensor *y = a ? norm_of(situ_movedim(a, SITU_DIMS(dim[0], dim[1]), SITU_DIMS(-2, -1)), ord) : NULL;
  if (!y || !o.keepdim) return y;
  const int first = dim[0] < dim[1] ? dim[0] : dim[1];
  return situ_unsqueeze(situ_unsqueeze(y, first), dim[0] + dim[1] - first);
}
