/* ATen's linear algebra: products of vectors and matrices, factorisations, solutions, norms.
   SPDX-License-Identifier: MIT */
#include <math.h>
#include <string.h>

#include "program/graph/program.h"
#include "program/graph/rows.h"

/* ---- products ---- */

/* Arguments: self, two factors, beta, alpha. */
typedef situ_tensor *adding(situ_tensor *, situ_tensor *, situ_tensor *, const situ_addmm_options *);
static situ_tensor *add_product(situ__op_call *c, adding *fn) {
  const double beta = situ__arg_number(c, 3), alpha = situ__arg_number(c, 4);
  const situ_addmm_options o = { .size = sizeof o, .beta = beta, .alpha = alpha };
  return fn(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), &o);
}
static situ_tensor *run_addmm(situ__op_call *c) { return add_product(c, situ_addmm); }
static situ_tensor *run_baddbmm(situ__op_call *c) { return add_product(c, situ_baddbmm); }
static situ_tensor *run_addbmm(situ__op_call *c) { return add_product(c, situ_addbmm); }
static situ_tensor *run_addmv(situ__op_call *c) { return add_product(c, situ_addmv); }
static situ_tensor *run_addr(situ__op_call *c) { return add_product(c, situ_addr); }
static situ_tensor *run_bilinear(situ__op_call *c) {
  return situ_bilinear(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 3));
}
static situ_tensor *run_tensordot(situ__op_call *c) {
  return situ_tensordot(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dims(c, 2), situ__arg_dims(c, 3));
}
static situ_tensor *run_cross(situ__op_call *c) {
  return situ_linalg_cross(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dim(c, 2));
}
/* Without dim along the first dimension of 3 elements. */
static situ_tensor *run_cross_any(situ__op_call *c) {
  if (situ__arg_given(c, 2)) return run_cross(c);
  situ_tensor *x = situ__arg_tensor(c, 0);
  for (int d = 0; d < situ_dim(x); d++)
    if (situ_size(x, d) == 3) return situ_linalg_cross(x, situ__arg_tensor(c, 1), d);
  return situ__call_refuse(c, "has no dimension of 3 elements");
}
static situ_tensor *run_vecdot(situ__op_call *c) {
  return situ_linalg_vecdot(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dim(c, 2));
}
static situ_tensor *run_multi_dot(situ__op_call *c) {
  int count;
  situ_tensor **list = situ__arg_tensors(c, 0, &count);
  return situ_linalg_multi_dot(list, count);
}
static situ_tensor *run_vander(situ__op_call *c) {
  return situ_linalg_vander(situ__arg_tensor(c, 0), situ__arg_given(c, 1) ? situ__arg_int(c, 1) : 0);
}
static situ_tensor *run_matrix_power(situ__op_call *c) {
  return situ_linalg_matrix_power(situ__arg_tensor(c, 0), situ__arg_int(c, 1));
}

/* ---- factorisations ---- */

/* The result of an op that reports failures in a tensor: here they are errors, and it is 0. `k`: its number. */
static situ_tensor *with_info(situ__op_call *c, situ_tensor *y, int k) {
  situ_tensor **info = situ__call_result(c, k);
  if (!y || !info) return y;
  situ_shape batch = situ_shape_of(situ__arg_tensor(c, 0));
  batch.ndim -= 2;
  *info = situ_new_zeros(y, batch, &(situ_options){ .dtype = SITU_I32 });
  return *info ? y : NULL;
}
static situ_tensor *run_cholesky(situ__op_call *c) {
  return with_info(c, situ_linalg_cholesky(situ__arg_tensor(c, 0), situ__arg_flag(c, 1)), 1);
}
static situ_tensor *run_qr(situ__op_call *c) {
  const char mode = *situ__arg_text(c, 1);
  return situ_linalg_qr(situ__arg_tensor(c, 0),
                        mode == 'c'                                   ? SITU_LINALG_QR_COMPLETE
                        : mode == 'r' && situ__arg_text(c, 1)[1] == 0 ? SITU_LINALG_QR_R
                                                                      : SITU_LINALG_QR_REDUCED,
                        situ__call_result(c, 1));
}
static situ_tensor *run_svd(situ__op_call *c) {
  return situ_linalg_svd(situ__arg_tensor(c, 0), situ__arg_flag(c, 1), situ__call_result(c, 1),
                         situ__call_result(c, 2));
}
/* The older op gives V, not its transpose. */
static situ_tensor *run_older_svd(situ__op_call *c) {
  if (!situ__arg_flag(c, 2)) return situ__call_refuse(c, "computes no vectors: call torch.linalg.svdvals");
  situ_tensor *vh = NULL, **v = situ__call_result(c, 2);
  situ_tensor *u = situ_linalg_svd(situ__arg_tensor(c, 0), !situ__arg_flag(c, 1), situ__call_result(c, 1), &vh);
  if (u && v) *v = situ_transpose(vh, -2, -1);
  return u;
}
static bool is_upper(const situ__op_call *c, int k) { return *situ__arg_text(c, k) == 'U'; }
static situ_tensor *run_eigh(situ__op_call *c) {
  return situ_linalg_eigh(situ__arg_tensor(c, 0), is_upper(c, 1), situ__call_result(c, 1));
}
static situ_tensor *run_eigvalsh(situ__op_call *c) {
  return situ_linalg_eigvalsh(situ__arg_tensor(c, 0), is_upper(c, 1));
}
static situ_tensor *run_lu_factor(situ__op_call *c) {
  if (!situ__arg_flag(c, 1)) return situ__call_refuse(c, "factors without pivots, which situ lacks");
  return with_info(c, situ_linalg_lu_factor(situ__arg_tensor(c, 0), situ__call_result(c, 1)), 2);
}
static situ_tensor *run_lu(situ__op_call *c) {
  if (!situ__arg_flag(c, 1)) return situ__call_refuse(c, "factors without pivots, which situ lacks");
  return situ_linalg_lu(situ__arg_tensor(c, 0), situ__call_result(c, 1), situ__call_result(c, 2));
}
static situ_tensor *run_ldl_factor(situ__op_call *c) {
  return with_info(c, situ_linalg_ldl_factor(situ__arg_tensor(c, 0), situ__call_result(c, 1)), 2);
}

/* ---- solutions ---- */

static situ_tensor *run_inv(situ__op_call *c) { return with_info(c, situ_linalg_inv(situ__arg_tensor(c, 0)), 1); }
static situ_tensor *run_solve(situ__op_call *c) {
  return with_info(c, situ_linalg_solve(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_flag(c, 2)), 1);
}
static situ_tensor *run_solve_triangular(situ__op_call *c) {
  return situ_linalg_solve_triangular(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_flag(c, 2),
                                      situ__arg_flag(c, 3), situ__arg_flag(c, 4));
}
static situ_tensor *run_lu_solve(situ__op_call *c) {
  return situ_linalg_lu_solve(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2),
                              situ__arg_flag(c, 3), situ__arg_flag(c, 4));
}
static situ_tensor *run_older_lu_solve(situ__op_call *c) {
  return situ_linalg_lu_solve(situ__arg_tensor(c, 1), situ__arg_tensor(c, 2), situ__arg_tensor(c, 0), true, false);
}
static situ_tensor *run_ldl_solve(situ__op_call *c) {
  return situ_linalg_ldl_solve(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_tensor(c, 2));
}
static situ_tensor *run_cholesky_solve(situ__op_call *c) {
  return situ_cholesky_solve(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_flag(c, 2));
}
static situ_tensor *run_cholesky_inverse(situ__op_call *c) {
  return situ_cholesky_inverse(situ__arg_tensor(c, 0), situ__arg_flag(c, 1));
}
static situ_tensor *run_tensorsolve(situ__op_call *c) {
  return situ_linalg_tensorsolve(situ__arg_tensor(c, 0), situ__arg_tensor(c, 1), situ__arg_dims(c, 2));
}
static situ_tensor *run_tensorinv(situ__op_call *c) {
  return situ_linalg_tensorinv(situ__arg_tensor(c, 0), situ__arg_dim(c, 1));
}
static situ_tensor *run_slogdet(situ__op_call *c) {
  return situ_linalg_slogdet(situ__arg_tensor(c, 0), situ__call_result(c, 1));
}

/* Arguments: A, atol, rtol, hermitian. */
typedef situ_tensor *ranked(situ_tensor *, const situ_linalg_tolerance *);
static situ_tensor *rank(situ__op_call *c, ranked *fn) {
  double tolerance[2] = { 0, SITU_NONE };
  for (int k = 0; k < 2; k++)
    if (situ__arg_given(c, k + 1) && !situ__arg_host_number(c, k + 1, &tolerance[k], "has a tolerance without a value"))
      return NULL;
  const situ_linalg_tolerance o = {
    .size = sizeof o, .atol = tolerance[0], .rtol = tolerance[1], .hermitian = situ__arg_flag(c, 3)
  };
  return fn(situ__arg_tensor(c, 0), &o);
}
static situ_tensor *run_pinv(situ__op_call *c) { return rank(c, situ_linalg_pinv); }
static situ_tensor *run_matrix_rank(situ__op_call *c) { return rank(c, situ_linalg_matrix_rank); }

/* ---- norms ---- */

/* Arguments: A, ord, dim, keepdim, dtype. */
static situ_reduce_options norm_options(const situ__op_call *c) {
  return (situ_reduce_options){ .dim = situ__arg_dims(c, 2),
                                .keepdim = situ__arg_flag(c, 3),
                                .dtype = situ__arg_dtype(c, 4) };
}
static situ_tensor *run_matrix_norm(situ__op_call *c) {
  static const struct {
    double ord;
    situ_matrix_norm norm;
  } norms[] = { { 2, SITU_MATRIX_NORM_2 },          { -2, SITU_MATRIX_NORM_MINUS_2 },
                { 1, SITU_MATRIX_NORM_1 },          { -1, SITU_MATRIX_NORM_MINUS_1 },
                { INFINITY, SITU_MATRIX_NORM_INF }, { -INFINITY, SITU_MATRIX_NORM_MINUS_INF } };
  const situ_reduce_options o = norm_options(c);
  for (size_t k = 0; k < sizeof norms / sizeof *norms; k++)
    if (situ__arg_number(c, 1) == norms[k].ord)
      return situ_linalg_matrix_norm(situ__arg_tensor(c, 0), norms[k].norm, &o);
  return situ__call_refuse(c, "has an order that matrices have no norm of");
}
static situ_tensor *run_named_norm(situ__op_call *c) {
  const situ_reduce_options o = norm_options(c);
  return situ_linalg_matrix_norm(situ__arg_tensor(c, 0),
                                 *situ__arg_text(c, 1) == 'n' ? SITU_MATRIX_NORM_NUC : SITU_MATRIX_NORM_FRO, &o);
}
/* That of a vector, or with an order of matrices, of which there are two dimensions. */
static situ_tensor *run_norm(situ__op_call *c) {
  situ_tensor *x = situ__arg_tensor(c, 0);
  const situ_reduce_options o = norm_options(c);
  const int dims = situ__arg_given(c, 2) ? o.dim.ndim : situ_dim(x);
  if (situ__arg_given(c, 1) && dims == 2) return run_matrix_norm(c);
  return situ_linalg_vector_norm(x, situ__arg_given(c, 1) ? situ__arg_number(c, 1) : 2, &o);
}

#define ADDING(first, second) "t self, t " first ", t " second ", *n beta=1, *n alpha=1"
#define TOLERANCE "t self, *h? atol, *h? rtol, *b hermitian=0"
#define NORM(ord) "t self, " ord ", I? dim, b keepdim=0, *d? dtype"

static const situ__op_row rows[] = {
  { "addmm.default", ADDING("mat1", "mat2"), .run = run_addmm },
  { "baddbmm.default", ADDING("batch1", "batch2"), .run = run_baddbmm },
  { "addbmm.default", ADDING("batch1", "batch2"), .run = run_addbmm },
  { "addmv.default", ADDING("mat", "vec"), .run = run_addmv },
  { "addr.default", ADDING("vec1", "vec2"), .run = run_addr },
  { "outer.default", "t self, t vec2", .binary = situ_outer },
  { "inner.default", "t self, t other", .binary = situ_inner },
  { "kron.default", "t self, t other", .binary = situ_kron },
  { "vdot.default", "t self, t other", .binary = situ_dot },
  { "linalg_matmul.default", "t self, t other", .binary = situ_matmul },
  { "bilinear.default", "t input1, t input2, t weight, t? bias", .run = run_bilinear },
  { "tensordot.default", "t self, t other, I dims_self, I dims_other", .run = run_tensordot },
  { "cross.default", "t self, t other, i? dim", .run = run_cross_any },
  { "linalg_cross.default", "t self, t other, *i dim=-1", .run = run_cross },
  { "linalg_vecdot.default", "t x, t y, *i dim=-1", .run = run_vecdot },
  { "linalg_multi_dot.default", "T tensors", .run = run_multi_dot },
  { "chain_matmul.default", "T matrices", .run = run_multi_dot },
  { "linalg_vander.default", "t x, *i? N", .run = run_vander },
  { "linalg_matrix_power.default", "t self, i n", .run = run_matrix_power },
  { "linalg_matrix_exp.default", "t self", .unary = situ_linalg_matrix_exp },
  UNARY(trace),

  { "linalg_cholesky.default", "t self, *b upper=0", .run = run_cholesky },
  { "linalg_cholesky_ex.default", "t self, *b upper=0, _ check_errors", .results = 2, .run = run_cholesky },
  { "cholesky.default", "t self, b upper=0", .run = run_cholesky },
  { "linalg_qr.default", "t A, s? mode", .results = 2, .run = run_qr },
  { "linalg_svd.default", "t A, b full_matrices=1, _ driver", .results = 3, .run = run_svd },
  { "svd.default", "t self, b some=1, b compute_uv=1", .results = 3, .run = run_older_svd },
  { "linalg_svdvals.default", "t A, _ driver", .unary = situ_linalg_svdvals },
  { "linalg_eigh.default", "t self, s? UPLO", .results = 2, .run = run_eigh },
  { "linalg_eigvalsh.default", "t self, s? UPLO", .run = run_eigvalsh },
  { "linalg_lu_factor.default", "t A, *b pivot=1", .results = 2, .run = run_lu_factor },
  { "linalg_lu_factor_ex.default", "t A, *b pivot=1, _ check_errors", .results = 3, .run = run_lu_factor },
  { "_lu_with_info.default", "t self, b pivot=1, _ check_errors", .results = 3, .run = run_lu_factor },
  { "linalg_lu.default", "t A, *b pivot=1", .results = 3, .run = run_lu },
  { "linalg_ldl_factor.default", "t self, _ hermitian", .results = 2, .run = run_ldl_factor },
  { "linalg_ldl_factor_ex.default", "t self, _ hermitian, _ check_errors", .results = 3, .run = run_ldl_factor },
  { "linalg_householder_product.default", "t input, t tau", .binary = situ_linalg_householder_product },

  { "linalg_inv.default", "t A", .run = run_inv },
  { "linalg_inv_ex.default", "t A, _ check_errors", .results = 2, .run = run_inv },
  { "inverse.default", "t self", .run = run_inv },
  { "linalg_solve.default", "t A, t B, *b left=1", .run = run_solve },
  { "linalg_solve_ex.default", "t A, t B, *b left=1, _ check_errors", .results = 2, .run = run_solve },
  { "linalg_solve_triangular.default", "t self, t B, *b upper, *b left=1, *b unitriangular=0",
    .run = run_solve_triangular },
  { "linalg_lu_solve.default", "t LU, t pivots, t B, *b left=1, *b adjoint=0", .run = run_lu_solve },
  { "lu_solve.default", "t self, t LU_data, t LU_pivots", .run = run_older_lu_solve },
  { "linalg_ldl_solve.default", "t LD, t pivots, t B, _ hermitian", .run = run_ldl_solve },
  { "cholesky_solve.default", "t self, t input2, b upper=0", .run = run_cholesky_solve },
  { "cholesky_inverse.default", "t self, b upper=0", .run = run_cholesky_inverse },
  { "linalg_tensorsolve.default", "t self, t other, I? dims", .run = run_tensorsolve },
  { "linalg_tensorinv.default", "t self, i ind=2", .run = run_tensorinv },
  { "linalg_det.default", "t A", .unary = situ_linalg_det },
  { "det.default", "t self", .unary = situ_linalg_det },
  UNARY(logdet),
  { "linalg_slogdet.default", "t A", .results = 2, .run = run_slogdet },
  { "slogdet.default", "t self", .results = 2, .run = run_slogdet },
  { "linalg_pinv.atol_rtol_float", TOLERANCE, .run = run_pinv },
  { "linalg_pinv.atol_rtol_tensor", TOLERANCE, .run = run_pinv },
  { "linalg_matrix_rank.atol_rtol_float", TOLERANCE, .run = run_matrix_rank },
  { "linalg_matrix_rank.atol_rtol_tensor", "t input, *h? atol, *h? rtol, *b hermitian=0", .run = run_matrix_rank },

  { "linalg_matrix_norm.default", NORM("n ord"), .run = run_matrix_norm },
  { "linalg_matrix_norm.str_ord", NORM("s? ord"), .run = run_named_norm },
  { "linalg_norm.default", NORM("n? ord"), .run = run_norm },
  { "linalg_norm.ord_str", NORM("s ord"), .run = run_named_norm },
};
const situ__op_family situ__linalg_family = { rows, sizeof rows / sizeof *rows };
