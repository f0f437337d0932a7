/* Products of several matrices, systems of tensors, and matrices made of vectors.
   SPDX-License-Identifier: MIT */
#include "base/size.h"
#include "lapack.h"

/* ---- multi_dot: T. Cormen et al., "Introduction to Algorithms" (2009), 15.2 ---- */

enum { CHAIN = 64 };

typedef struct chain {
  situ_tensor *const *matrix;
  double size[CHAIN + 1]; /* matrix i is [size[i], size[i + 1]] */
  double cost[CHAIN][CHAIN];
  int split[CHAIN][CHAIN];
} chain;

static void plan(chain *c, int count) {
  for (int length = 1; length < count; length++)
    for (int first = 0; first + length < count; first++) {
      const int last = first + length;
      double *best = &c->cost[first][last];
      *best = -1;
      for (int k = first; k < last; k++) {
        const double cost =
            c->cost[first][k] + c->cost[k + 1][last] + c->size[first] * c->size[k + 1] * c->size[last + 1];
        if (*best >= 0 && cost >= *best) continue;
        *best = cost;
        c->split[first][last] = k;
      }
    }
}

static situ_tensor *product(const chain *c, int first, int last) {
  if (first == last) return c->matrix[first];
  const int k = c->split[first][last];
  situ_tensor *left = product(c, first, k);
  return left ? situ_matmul(left, product(c, k + 1, last)) : NULL;
}

static bool are_chained(const char *op, situ_tensor *const *tensors, int count, chain *c) {
  const situ_op schema = { .name = op,
                           .flags = SITU_OP_VARIADIC,
                           .operand = { { "tensors", SITU_SAME | SITU_FLOATING | SITU_INTEGRAL } } };
  if (count < 2 || count > CHAIN) return situ__fail(SITU_E_ARG, op, "%d tensors: 2 to %d", count, CHAIN), false;
  if (!situ__some(op, tensors, count) || !situ__together(&schema, tensors, count)) return false;
  for (int i = 0; i < count; i++) {
    const situ_view_desc *v = &tensors[i]->view;
    const bool end = i == 0 || i == count - 1, vector = end && v->ndim == 1;
    const int64_t rows = vector && i == 0 ? 1 : v->size[0];
    if ((v->ndim != 2 && !vector) || (i && (double)rows != c->size[i])) {
      const situ_shape shape = situ__shape(v);
      char text[SITU_SHAPE_TEXT];
      return situ__fail(SITU_E_SHAPE, op, "tensors[%d] is %s, must be a matrix%s%s", i, situ_shape_text(&shape, text),
                        end ? " or a vector" : "", i ? " with as many rows as the one before has columns" : ""),
             false;
    }
    c->size[i] = (double)rows;
    c->size[i + 1] = vector && i ? 1 : (double)v->size[v->ndim - 1];
  }
  return true;
}

situ_tensor *situ_linalg_multi_dot(situ_tensor *const *tensors, int count) {
  const char *op = "linalg_multi_dot";
  SITU__MADE_OF_OPS(op);
  chain c = { .matrix = tensors };
  if (!are_chained(op, tensors, count, &c)) return NULL;
  plan(&c, count);
  return product(&c, 0, count - 1);
}

/* ---- systems of tensors: the dimensions of either side as one ---- */

static int64_t numel_of(const situ_shape *s, int first, int last) {
  int64_t n = 1;
  for (int d = first; d < last; d++)
    if (!situ__mul_i64(n, s->dim[d], &n)) return -1;
  return n;
}
static situ_shape part_of(const situ_shape *s, int first, int last) {
  situ_shape part = { .ndim = last - first };
  for (int d = first; d < last; d++) part.dim[d - first] = s->dim[d];
  return part;
}

static bool halves_fit(const char *op, const situ_shape *s, int first, int64_t rows, int64_t columns) {
  if (rows >= 0 && rows == columns) return true;
  char text[SITU_SHAPE_TEXT];
  return situ__fail(SITU_E_SHAPE, op, "A is %s: its first %d dimensions must have as many elements as the others",
                    situ_shape_text(s, text), first),
         false;
}

situ_tensor *situ_linalg_tensorsolve(situ_tensor *A, situ_tensor *B, situ_shape dims) {
  const char *op = "linalg_tensorsolve";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = {
    .name = "linalg_tensorsolve", .operand = { { "A", SITU_FLOATING | SITU_SAME }, { "B", SITU_FLOATING | SITU_SAME } }
  };
  if (!situ__together(&schema, (situ_tensor *[]){ A, B }, 2)) return NULL;
  situ_shape last = { .ndim = dims.ndim };
  for (int k = 0; k < dims.ndim && k < SITU_MAX_DIMS; k++) last.dim[k] = k - dims.ndim;
  situ_tensor *a = dims.ndim ? situ_movedim(A, dims, last) : A;
  if (!a) return NULL;
  const situ_shape shape = situ__shape(&a->view);
  const int first = B->view.ndim;
  if (first > shape.ndim)
    return situ__fail(SITU_E_SHAPE, op, "B has %d dimensions, A %d: at most as many", first, shape.ndim), NULL;
  const int64_t columns = numel_of(&shape, first, shape.ndim);
  if (!halves_fit(op, &shape, first, B->view.numel, columns)) return NULL;
  situ_tensor *x =
      situ_linalg_solve(situ_reshape(a, SITU_SHAPE(columns, columns)), situ_reshape(B, SITU_SHAPE(columns)), true);
  return x ? situ_reshape(x, part_of(&shape, first, shape.ndim)) : NULL;
}

situ_tensor *situ_linalg_tensorinv(situ_tensor *A, int ind) {
  const char *op = "linalg_tensorinv";
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "A", A)) return NULL;
  const situ_shape shape = situ__shape(&A->view);
  if (ind < 1 || ind > shape.ndim)
    return situ__fail(SITU_E_ARG, op, "ind is %d, must be 1 to %d, A's dimensions", ind, shape.ndim), NULL;
  const int64_t rows = numel_of(&shape, 0, ind), columns = numel_of(&shape, ind, shape.ndim);
  if (!halves_fit(op, &shape, ind, rows, columns)) return NULL;
  situ_tensor *inverse = situ_linalg_inv(situ_reshape(A, SITU_SHAPE(rows, columns)));
  situ_shape turned = part_of(&shape, ind, shape.ndim);
  for (int d = 0; d < ind; d++) turned.dim[turned.ndim++] = shape.dim[d];
  return inverse ? situ_reshape(inverse, turned) : NULL;
}

/* ---- vander: powers 0, 1, 2, ... ---- */

situ_tensor *situ_linalg_vander(situ_tensor *x, int64_t N) {
  const char *op = "linalg_vander";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "linalg_vander", .operand = { { "x", SITU_FLOATING | SITU_INTEGRAL } } };
  if (!situ__together(&schema, &x, 1)) return NULL;
  if (!x->view.ndim && !(x = situ_unsqueeze(x, 0))) return NULL;
  situ_shape shape = situ__shape(&x->view);
  const int64_t columns = N ? N : shape.dim[shape.ndim - 1];
  if (columns < 2) return situ__fail(SITU_E_ARG, op, "N is %lld, must be at least 2", (long long)columns), NULL;
  if (shape.ndim == SITU_MAX_DIMS) return situ_unsqueeze(x, -1); /* refused there */
  shape.dim[shape.ndim++] = columns - 1;
  situ_tensor *powers = situ_cumprod(situ_expand(situ_unsqueeze(x, -1), shape), -1);
  situ_tensor *first =
      situ_ones_like(situ_unsqueeze(x, -1), powers ? &(situ_options){ .dtype = situ_dtype_of(powers) } : NULL);
  return situ_cat((situ_tensor *[]){ first, powers }, 2, -1);
}

/* ---- householder_product: reflections, from the last to the first ---- */

situ_tensor *situ_linalg_householder_product(situ_tensor *A, situ_tensor *tau) {
  const char *op = "linalg_householder_product";
  SITU__MADE_OF_OPS(op);
  static const situ_op schema = { .name = "linalg_householder_product",
                                  .operand = { { "A", SITU_FLOATING | SITU_SAME },
                                               { "tau", SITU_FLOATING | SITU_SAME } } };
  if (!situ__together(&schema, (situ_tensor *[]){ A, tau }, 2)) return NULL;
  const situ_shape a = situ__shape(&A->view), t = situ__shape(&tau->view);
  bool good = a.ndim >= 2 && t.ndim == a.ndim - 1 && a.dim[a.ndim - 1] <= a.dim[a.ndim - 2];
  for (int d = 0; good && d < t.ndim; d++)
    good = d == t.ndim - 1 ? t.dim[d] <= a.dim[a.ndim - 1] : t.dim[d] == a.dim[d];
  if (!good) {
    char l[SITU_SHAPE_TEXT], r[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, op, "A is %s, tau %s: [..., m, n] and [..., k], with k <= n <= m",
                      situ_shape_text(&a, l), situ_shape_text(&t, r)),
           NULL;
  }
  const int64_t m = a.dim[a.ndim - 2], n = a.dim[a.ndim - 1], k = t.dim[t.ndim - 1];
  situ_scope s;
  situ_scope_begin(&s);
  situ_tensor *eye = situ_eye(m, n, &(situ_options){ .dtype = situ_dtype_of(A), .device = situ_device_of(A) });
  situ_tensor *v = situ_add(situ_tril(A, -1), eye), *q = situ_clone(situ_expand(eye, a));
  for (int64_t i = k - 1; q && i >= 0; i--) {
    situ_tensor *column = situ_narrow(v, -1, i, 1), *scale = situ_unsqueeze(situ_narrow(tau, -1, i, 1), -1);
    situ_tensor *along = situ_mul(situ_matmul(situ__mt(column), q), scale);
    q = situ_sub(q, situ_matmul(column, along));
  }
  return situ_scope_return(&s, q);
}
