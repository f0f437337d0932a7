/* Products made of others: inner, addr, addmv, addbmm, bilinear, linalg.cross, linalg.vecdot; trace.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/options.h"
#include "ops/ops.h"

enum { NUMBERS = SITU_SAME | SITU_FLOATING | SITU_INTEGRAL };

static bool agree(const char *op, const char *const names[3], unsigned accept, situ_tensor *const *in, int count) {
  situ_op schema = { .name = op };
  for (int k = 0; k < count; k++) schema.operand[k] = (situ_operand){ names[k], accept };
  return situ__together(&schema, in, count);
}

situ_tensor *situ_inner(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("inner");
  static const char *const names[3] = { "input", "other" };
  if (!agree("inner", names, NUMBERS, (situ_tensor *[]){ input, other }, 2)) return NULL;
  if (!input->view.ndim || !other->view.ndim) return situ_mul(input, other);
  return situ_tensordot(input, other, SITU_DIMS(input->view.ndim - 1), SITU_DIMS(other->view.ndim - 1));
}

/* ---- beta * input + alpha * product: by addmm ---- */

static bool is_vector(const char *op, const char *name, const situ_tensor *x) {
  if (x->view.ndim == 1) return true;
  return situ__fail(SITU_E_SHAPE, op, "%s has %d dimensions, must have 1", name, x->view.ndim), false;
}

/* Of truth values, [n, m] in pairs: beta and input, or alpha and the pair. */
static situ_tensor *addr_of_bool(situ_tensor *input, situ_tensor *pairs, const situ_addmm_options *options) {
  situ_addmm_options o = situ_addmm_defaults();
  if (!situ__options_read("addr", "situ_addmm_defaults", options, &o, sizeof o)) return NULL;
  if (!situ__is_integer(o.beta) || !situ__is_integer(o.alpha))
    return situ__fail(SITU_E_ARG, "addr", "beta is %g and alpha %g: for bool both must be whole", o.beta, o.alpha),
           NULL;
  if (o.beta == 0 && input) input = situ_zeros_like(input, NULL);
  if (o.alpha == 0 && pairs) pairs = situ_zeros_like(pairs, NULL);
  return pairs ? situ_logical_or(situ_expand(input, situ_shape_of(pairs)), pairs) : NULL;
}
situ_tensor *situ_addr(situ_tensor *input, situ_tensor *vec1, situ_tensor *vec2, const situ_addmm_options *options) {
  SITU__MADE_OF_OPS("addr");
  static const char *const names[3] = { "input", "vec1", "vec2" };
  if (!agree("addr", names, NUMBERS | SITU_BOOLEAN, (situ_tensor *[]){ input, vec1, vec2 }, 3)) return NULL;
  if (!is_vector("addr", "vec1", vec1) || !is_vector("addr", "vec2", vec2)) return NULL;
  vec1 = situ_unsqueeze(vec1, 1), vec2 = situ_unsqueeze(vec2, 0);
  if (input->view.dtype == SITU_BOOL) return addr_of_bool(input, situ_logical_and(vec1, vec2), options);
  return situ_addmm(input, vec1, vec2, options);
}
situ_tensor *situ_addmv(situ_tensor *input, situ_tensor *mat, situ_tensor *vec, const situ_addmm_options *options) {
  SITU__MADE_OF_OPS("addmv");
  static const char *const names[3] = { "input", "mat", "vec" };
  if (!agree("addmv", names, NUMBERS, (situ_tensor *[]){ input, mat, vec }, 3)) return NULL;
  if (!is_vector("addmv", "vec", vec) || (input->view.ndim && !is_vector("addmv", "input", input))) return NULL;
  return situ_squeeze(situ_addmm(situ_unsqueeze(input, -1), mat, situ_unsqueeze(vec, 1), options), SITU_DIMS(1));
}

/* One product of [n, b k] and [b k, m]. */
situ_tensor *situ_addbmm(situ_tensor *input, situ_tensor *batch1, situ_tensor *batch2,
                         const situ_addmm_options *options) {
  SITU__MADE_OF_OPS("addbmm");
  static const char *const names[3] = { "input", "batch1", "batch2" };
  if (!agree("addbmm", names, NUMBERS, (situ_tensor *[]){ input, batch1, batch2 }, 3)) return NULL;
  const situ_view_desc *a = &batch1->view, *b = &batch2->view;
  if (a->ndim != 3 || b->ndim != 3 || a->size[0] != b->size[0] || a->size[2] != b->size[1]) {
    situ_shape x = situ__shape(a), y = situ__shape(b);
    char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "addbmm", "batch1 is %s, batch2 %s: [b, n, k] and [b, k, m]",
                      situ_shape_text(&x, s), situ_shape_text(&y, t)),
           NULL;
  }
  const int64_t sum = a->size[0] * a->size[2];
  situ_tensor *left = situ_reshape(situ_permute(batch1, SITU_DIMS(1, 0, 2)), SITU_SHAPE(a->size[1], sum));
  return situ_addmm(input, left, situ_reshape(batch2, SITU_SHAPE(sum, b->size[2])), options);
}

/* ---- bilinear: x W[o] y for each output, rows of both together ---- */

static bool fits_bilinear(situ_tensor *a, situ_tensor *b, situ_tensor *w, situ_tensor *bias) {
  const situ_shape x = situ__shape(&a->view), y = situ__shape(&b->view), m = situ__shape(&w->view);
  bool good =
      x.ndim && x.ndim == y.ndim && m.ndim == 3 && m.dim[1] == x.dim[x.ndim - 1] && m.dim[2] == y.dim[y.ndim - 1];
  for (int d = 0; good && d < x.ndim - 1; d++) good = x.dim[d] == y.dim[d];
  if (good && bias) good = bias->view.ndim == 1 && bias->view.size[0] == m.dim[0];
  if (good) return true;
  char text[3][SITU_SHAPE_TEXT];
  return situ__fail(
             SITU_E_SHAPE, "bilinear",
             "input1 is %s, input2 %s, weight %s: [..., in1], [..., in2] and [out, in1, in2], with a bias of [out]",
             situ_shape_text(&x, text[0]), situ_shape_text(&y, text[1]), situ_shape_text(&m, text[2])),
         false;
}

situ_tensor *situ_bilinear(situ_tensor *input1, situ_tensor *input2, situ_tensor *weight, situ_tensor *bias) {
  SITU__MADE_OF_OPS("bilinear");
  static const situ_op schema = { .name = "bilinear",
                                  .operand = { { "input1", NUMBERS },
                                               { "input2", NUMBERS },
                                               { "weight", NUMBERS },
                                               { "bias", NUMBERS | SITU_OPTIONAL } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input1, input2, weight, bias }, 4) ||
      !fits_bilinear(input1, input2, weight, bias))
    return NULL;
  situ_shape shape = situ__shape(&input1->view);
  const int64_t out = situ_size(weight, 0), in1 = situ_size(weight, 1), in2 = situ_size(weight, 2);
  int64_t rows = 1;
  for (int d = 0; d < shape.ndim - 1; d++) rows *= shape.dim[d];
  situ_tensor *w = situ_reshape(situ_permute(weight, SITU_DIMS(1, 0, 2)), SITU_SHAPE(in1, out * in2));
  situ_tensor *left = situ_matmul(situ_reshape(input1, SITU_SHAPE(rows, in1)), w);
  if (!left) return NULL;
  situ_tensor *y =
      situ_matmul(situ_reshape(left, SITU_SHAPE(rows, out, in2)), situ_reshape(input2, SITU_SHAPE(rows, in2, 1)));
  shape.dim[shape.ndim - 1] = out;
  y = y ? situ_reshape(y, shape) : NULL;
  return y && bias ? situ_add(y, bias) : y;
}

/* ---- torch.linalg ---- */

static situ_tensor *turned(situ_tensor *x, int dim, int by) { return situ_roll(x, SITU_SHAPE(-by), SITU_DIMS(dim)); }

situ_tensor *situ_linalg_cross(situ_tensor *input, situ_tensor *other, int dim) {
  SITU__MADE_OF_OPS("linalg_cross");
  static const char *const names[3] = { "input", "other" };
  int d;
  if (!agree("linalg_cross", names, NUMBERS, (situ_tensor *[]){ input, other }, 2) ||
      !situ_wrap_dim("linalg_cross", dim, input->view.ndim, &d))
    return NULL;
  if (input->view.ndim != other->view.ndim || !input->view.ndim || input->view.size[d] != 3 ||
      other->view.size[d] != 3) {
    situ_shape x = situ__shape(&input->view), y = situ__shape(&other->view);
    char s[SITU_SHAPE_TEXT], t[SITU_SHAPE_TEXT];
    return situ__fail(SITU_E_SHAPE, "linalg_cross",
                      "input is %s, other %s: of equal rank, with 3 elements along dimension %d",
                      situ_shape_text(&x, s), situ_shape_text(&y, t), d),
           NULL;
  }
  return situ_sub(situ_mul(turned(input, d, 1), turned(other, d, 2)),
                  situ_mul(turned(input, d, 2), turned(other, d, 1)));
}

situ_tensor *situ_linalg_vecdot(situ_tensor *x, situ_tensor *y, int dim) {
  SITU__MADE_OF_OPS("linalg_vecdot");
  static const char *const names[3] = { "x", "y" };
  if (!agree("linalg_vecdot", names, SITU_SAME | SITU_FLOATING, (situ_tensor *[]){ x, y }, 2)) return NULL;
  return situ_sum(situ_mul(x, y), &(situ_reduce_options){ .dim = SITU_DIMS(dim) });
}

/* ---- trace ---- */

situ_tensor *situ_trace(situ_tensor *input) {
  SITU__MADE_OF_OPS("trace");
  if (!situ__need("trace", "input", input)) return NULL;
  if (input->view.ndim != 2)
    return situ__fail(SITU_E_SHAPE, "trace", "needs a matrix, got %d dimensions", input->view.ndim), NULL;
  if (input->view.dtype == SITU_BOOL)
    return situ__fail(SITU_E_DTYPE, "trace", "input is bool, which has no sum here; cast it"), NULL;
  return situ_sum(situ_diagonal(input, 0, 0, 1), NULL);
}
