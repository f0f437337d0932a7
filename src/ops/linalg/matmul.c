/* Matrix products: matmul and related functions.
   SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "base/fail.h"
#include "base/options.h"
#include "base/size.h"
#include "ops/ops.h"
#include "ops/samples.h"

/* ---- views for the verb ---- */

const situ_view_desc *situ__transposed(const situ_view_desc *v, situ_view_desc *desc) {
  const int m = v->ndim - 2, n = v->ndim - 1;
  memcpy(desc, v, offsetof(situ_view_desc, size));
  for (int d = 0; d < m; d++) {
    desc->size[d] = v->size[d];
    desc->stride[d] = v->stride[d];
  }
  desc->size[m] = v->size[n];
  desc->size[n] = v->size[m];
  desc->stride[m] = v->stride[n];
  desc->stride[n] = v->stride[m];
  desc->contiguous = false; /* false is always safe, as the product takes any strides */
  return desc;
}

/* v with the batch dimensions of y, and its own last two. */
static const situ_view_desc *batched(const situ_view_desc *v, const situ_view_desc *y, situ_view_desc *desc) {
  if (v->ndim == y->ndim && v->ndim == 2) return v;
  situ_view_desc to = *y;
  to.size[y->ndim - 2] = v->size[v->ndim - 2];
  to.size[y->ndim - 1] = v->size[v->ndim - 1];
  return situ_desc_expand(v, &to, desc);
}

/* The bias in y's sizes; the usual one is a vector that each row of a matrix gets. */
static inline const situ_view_desc *spread_bias(const situ_view_desc *bias, const situ_view_desc *y,
                                                situ_view_desc *desc) {
  if (y->ndim != 2 || bias->ndim != 1 || bias->size[0] != y->size[1]) return situ_desc_expand(bias, y, desc);
  memcpy(desc, y, offsetof(situ_view_desc, size));
  desc->storage = bias->storage;
  desc->offset = bias->offset;
  desc->dtype = bias->dtype;
  desc->contiguous = false; /* as for a transposed one */
  desc->size[0] = y->size[0];
  desc->size[1] = y->size[1];
  desc->stride[0] = 0;
  desc->stride[1] = bias->stride[0];
  return desc;
}

bool situ__product_by(const char *op, situ_device device, const situ_view_desc *a, const situ_view_desc *b,
                      const situ_tensor *packed, const situ_view_desc *bias, const situ_view_desc *y, double alpha,
                      double beta) {
  situ_view_desc desc_a, desc_b, desc_bias;
  return situ__launch(
      op, device,
      &(situ_work){ SITU_VERB_MATMUL, .compute = (situ_dtype)y->dtype, .ins = packed ? 4 : 3, .outs = 1,
                    .in = { batched(a, y, &desc_a), batched(b, y, &desc_b),
                            bias ? spread_bias(bias, y, &desc_bias) : NULL, packed ? situ_desc(packed) : NULL },
                    .out = { y }, .scalar = { alpha, beta } });
}
bool situ__product(const char *op, situ_device device, const situ_view_desc *a, const situ_view_desc *b,
                   const situ_view_desc *bias, const situ_view_desc *y, double alpha, double beta) {
  return situ__product_by(op, device, a, b, NULL, bias, y, alpha, beta);
}

bool situ__prepack(const char *op, situ_device device, situ_work *work, int64_t bytes, situ_tensor **packed) {
  bool offered;
  *packed = NULL;
  if (bytes == 0) return true;
  if (situ__offers(op, device, work, &offered) != SITU_OK) return false;
  if (!offered) return true;
  *packed = situ_empty(SITU_SHAPE(bytes), &(situ_options){ .dtype = SITU_U8, .device = device });
  if (!*packed) return false;
  work->outs = 1;
  work->out[0] = situ_desc(*packed);
  return situ_launch(op, device, work);
}
bool situ__is_prepacked(const char *op, const char *maker, const situ_tensor *packed, const situ_tensor *weight,
                        int64_t bytes) {
  if (!situ__need(op, "packed", packed)) return false;
  const situ_view_desc *f = situ_desc(packed);
  if (f->dtype == SITU_U8 && f->contiguous && f->ndim == 1 && bytes != 0 && f->numel == bytes &&
      situ_device_equal(situ_device_of(packed), situ_device_of(weight)))
    return true;
  return situ__fail(SITU_E_ARG, op, "packed is not what %s made of the weight", maker), false;
}
bool situ__prepack_b(const char *op, situ_device device, const situ_view_desc *b, int64_t rows, bool same,
                     situ_tensor **packed) {
  const int64_t most = 1 << 24; /* for more rows it is laid out as for so many */
  situ_work work = { SITU_VERB_PREPACK, .compute = (situ_dtype)b->dtype, .ins = 1, .in = { b },
                     .integer = { situ__min_i64(rows, most), same } };
  return situ__prepack(op, device, &work, situ_prepack_bytes(b->size[0], b->size[1]), packed);
}
static bool product(const situ_call *c, const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *bias,
                    const situ_view_desc *y, double alpha, double beta) {
  return situ__product(c->op->name, c->device, a, b, bias, y, alpha, beta);
}

/* ---- shapes ---- */

static bool differ(const situ_call *c, const situ_view_desc *a, const situ_view_desc *b, int64_t x, int64_t y) {
  situ_shape left = situ__shape(a), right = situ__shape(b);
  char l[SITU_SHAPE_TEXT], r[SITU_SHAPE_TEXT];
  return situ_refuse(c, SITU_E_SHAPE, "%s x %s: %lld and %lld differ", situ_shape_text(&left, l),
                     situ_shape_text(&right, r), (long long)x, (long long)y);
}

static bool ranks(const situ_call *c, int want_a, int want_b) {
  int a = situ__desc(c->in[0])->ndim, b = situ__desc(c->in[1])->ndim;
  if (a == want_a && b == want_b) return true;
  return situ_refuse(c, SITU_E_SHAPE, "needs operands of %d and %d dimensions, got %d and %d", want_a, want_b, a, b);
}

/* [.., m, k] x [.., k, n]: batch dimensions broadcast. */
static bool product_infer(situ_call *c) {
  const situ_view_desc *a = situ__desc(c->in[0]), *b = situ__desc(c->in[1]);
  if (a->ndim < 2 || b->ndim < 2)
    return situ_refuse(c, SITU_E_SHAPE, "needs operands of at least 2 dimensions, got %d and %d", a->ndim, b->ndim);
  if (a->size[a->ndim - 1] != b->size[b->ndim - 2]) return differ(c, a, b, a->size[a->ndim - 1], b->size[b->ndim - 2]);
  situ_shape *y = &c->shape[0], other = situ__shape(b);
  *y = situ__shape(a);
  y->ndim -= 2;
  other.ndim -= 2;
  if (y->ndim + other.ndim > 0 && !situ_shape_broadcast(c->op->name, y, &other)) return false;
  y->dim[y->ndim++] = a->size[a->ndim - 2];
  y->dim[y->ndim++] = b->size[b->ndim - 1];
  c->dtype[0] = (situ_dtype)a->dtype;
  return true;
}
static bool mm_infer(situ_call *c) { return ranks(c, 2, 2) && product_infer(c); }
static bool bmm_infer(situ_call *c) {
  if (!ranks(c, 3, 3) || !product_infer(c)) return false;
  int64_t a = situ__desc(c->in[0])->size[0], b = situ__desc(c->in[1])->size[0];
  return a == b || differ(c, situ__desc(c->in[0]), situ__desc(c->in[1]), a, b);
}

/* For a dry run: assumes that the first matrix's rows are as long as the second's columns. */
static bool product_mend(situ_call *c) {
  const situ_view_desc *a = situ__desc(c->in[0]), *b = situ__desc(c->in[1]);
  return a->ndim >= 2 && b->ndim >= 2 && situ_mend_size(c, 0, a->ndim - 1, b->size[b->ndim - 2]);
}

/* ---- matmul, mm, bmm ---- */

static bool product_forward(situ_call *c) {
  return product(c, situ__desc(c->in[0]), situ__desc(c->in[1]), NULL, situ__desc(c->out[0]), 1, 0);
}

/* up x b^T. */
static situ_tensor *grad_left(situ_tensor *up, situ_tensor *b) { return situ_matmul(up, situ_transpose(b, -2, -1)); }

/* a^T x up; if b has no batch dimensions, the batch of a is more rows of one product. */
static situ_tensor *grad_right(situ_tensor *a, situ_tensor *up, int b_ndim) {
  if (b_ndim == 2 && situ_dim(a) > 2) {
    a = situ_flatten(a, 0, -2);
    up = situ_flatten(up, 0, -2);
  }
  return situ_matmul(situ_transpose(a, -2, -1), up);
}

static const situ_op matmul_op, mm_op;

static bool product_backward(situ_grad_call *g) {
  return GRAD(g, 0, grad_left(g->grad[0], g->in[1])) && GRAD(g, 1, grad_right(g->in[0], g->grad[0], g->shape[1].ndim));
}

/* Rows of all samples are rows of one product; else as batch dimensions, which only matmul takes. */
static bool product_batched(situ_batch_call *c) {
  situ_batch_call general = *c;
  general.op = &matmul_op;
  if (c->batched[1] || situ_dim(c->in[1]) > 2 || !situ_numel(c->in[0])) return situ_batch_broadcast(&general);
  situ_tensor *rows = situ_flatten(c->in[0], 0, -2);
  situ_tensor *y = rows && situ__is_identity(rows) ? situ_clone(c->in[1]) : situ_op_run2(&mm_op, rows, c->in[1], NULL);
  return y && (c->out[0] = situ__batch_result(c, y, 0)) != NULL;
}

enum { NUMBERS = SITU_FLOATING | SITU_INTEGRAL | SITU_SAME };
static bool product_traced(const situ_call *c, situ_export_trace *t) { return situ_export_operands(t, c, "default"); }

#define PRODUCT(id, left, right, rule)                                       \
  SITU_OP(id##_op) = { .name = #id,                                          \
                       .operand = { { left, NUMBERS }, { right, NUMBERS } }, \
                       .flags = SITU_OP_PRODUCT | SITU_OP_BILINEAR,          \
                       .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },         \
                       .save = SITU_SAVE(0) | SITU_SAVE(1),                  \
                       .infer = rule,                                        \
                       .forward = product_forward,                           \
                       .batched = product_batched,                           \
                       .traced = product_traced,                             \
                       .mend = product_mend,                                 \
                       .backward = product_backward,                         \
                       .backward_recorded = product_backward };
PRODUCT(matmul, "input", "other", product_infer)
PRODUCT(mm, "input", "mat2", mm_infer)
PRODUCT(bmm, "input", "mat2", bmm_infer)

/* Two matrices with values on the processor, whose kernels refuse no floating dtype: an error that shows the operands
   is for the general path. */
static inline bool are_plain(const situ_tensor *a, const situ_tensor *b) {
  if (!situ__alive(a) || !situ__alive(b)) return false;
  const situ_view_desc *x = &a->view, *y = &b->view;
  if (x->ndim != 2 || y->ndim != 2 || x->dtype != y->dtype || x->dtype < SITU_F16 || x->size[1] != y->size[0] ||
      !x->numel || !y->numel)
    return false;
  const uint32_t flags = situ__storage_flags(x->storage) | situ__storage_flags(y->storage),
                 odd = flags & (SITU_STORAGE_UNWRITTEN | SITU__STORAGE_NOWHERE);
  return !odd && x->storage->device.kind == SITU_CPU && !situ__setting.autocast && !situ__is_dry() &&
         situ__plain_two(a, b);
}

static inline situ_tensor *run_matrices(const situ_op *op, situ_tensor *a, situ_tensor *b) {
  if (!are_plain(a, b)) return situ_op_run2(op, a, b, NULL);
  const situ_view_desc *x = &a->view, *y = &b->view;
  const situ_shape shape = SITU_SHAPE(x->size[0], y->size[1]);
  const situ_device device = x->storage->device;
  situ_tensor *c = situ__tensor_new(op->name, &shape, (situ_dtype)x->dtype, device);
  return c && situ__product(op->name, device, x, y, NULL, &c->view, 1, 0) ? c : NULL;
}

situ_tensor *situ_mm(situ_tensor *input, situ_tensor *mat2) { return run_matrices(&mm_op, input, mat2); }
situ_tensor *situ_bmm(situ_tensor *input, situ_tensor *mat2) { return situ_op_run2(&bmm_op, input, mat2, NULL); }

/* Vectors become matrices of one row or one column. */
situ_tensor *situ_matmul(situ_tensor *input, situ_tensor *other) {
  SITU__MADE_OF_OPS("matmul");
  if (!situ__need("matmul", "input", input) || !situ__need("matmul", "other", other)) return NULL;
  int left = input->view.ndim, right = other->view.ndim;
  situ_tensor *in[2] = { input, other };
  if ((left == 1 || right == 1) && !situ__autocast(&matmul_op, in, 2)) return NULL;
  input = in[0], other = in[1];
  if (left == 1 && right == 1) return situ_dot(input, other);
  if (left == 1) return situ_squeeze(situ_matmul(situ_unsqueeze(input, 0), other), SITU_DIMS(-2));
  if (right == 1) return situ_squeeze(situ_matmul(input, situ_unsqueeze(other, 1)), SITU_DIMS(-1));
  return run_matrices(&matmul_op, input, other);
}

/* ---- mv, dot, outer ---- */

static bool mv_infer(situ_call *c) {
  const situ_view_desc *a = situ__desc(c->in[0]), *x = situ__desc(c->in[1]);
  if (!ranks(c, 2, 1)) return false;
  if (a->size[1] != x->size[0]) return differ(c, a, x, a->size[1], x->size[0]);
  c->shape[0] = SITU_SHAPE(a->size[0]);
  c->dtype[0] = (situ_dtype)a->dtype;
  return true;
}

/* A vector as a matrix of one column. */
static situ_view_desc column(const situ_view_desc *v) {
  situ_view_desc m = *v;
  m.ndim = 2;
  m.size[0] = v->numel;
  m.stride[0] = v->ndim ? v->stride[0] : 1;
  m.size[1] = m.stride[1] = 1;
  situ_desc_refresh(&m);
  return m;
}

static bool mv_forward(situ_call *c) {
  situ_view_desc x = column(situ__desc(c->in[1])), y = column(situ__desc(c->out[0]));
  return product(c, situ__desc(c->in[0]), &x, NULL, &y, 1, 0);
}
static bool mv_backward(situ_grad_call *g) {
  return GRAD(g, 0, situ_outer(g->grad[0], g->in[1])) &&
         GRAD(g, 1, situ_mv(situ_transpose(g->in[0], 0, 1), g->grad[0]));
}
SITU_OP(mv_op) = { .name = "mv",
                   .traced = product_traced,
                   .operand = { { "input", NUMBERS }, { "vec", NUMBERS } },
                   .flags = SITU_OP_PRODUCT,
                   .autocast = { SITU_CAST_WIDEST, SITU_CAST_LOW },
                   .save = SITU_SAVE(0) | SITU_SAVE(1),
                   .infer = mv_infer,
                   .forward = mv_forward,
                   .backward = mv_backward,
                   .backward_recorded = mv_backward };
situ_tensor *situ_mv(situ_tensor *input, situ_tensor *vec) { return situ_op_run2(&mv_op, input, vec, NULL); }

static bool dot_infer(situ_call *c) {
  const situ_view_desc *a = situ__desc(c->in[0]), *b = situ__desc(c->in[1]);
  if (!ranks(c, 1, 1)) return false;
  if (a->size[0] != b->size[0]) return differ(c, a, b, a->size[0], b->size[0]);
  c->shape[0] = SITU_SCALAR;
  c->dtype[0] = (situ_dtype)a->dtype;
  return true;
}
static bool dot_forward(situ_call *c) {
  situ_view_desc a = column(situ__desc(c->in[0])), b = column(situ__desc(c->in[1])), y = column(situ__desc(c->out[0]));
  situ_view_desc row;
  return product(c, situ__transposed(&a, &row), &b, NULL, &y, 1, 0);
}
SITU_OP(dot_op) = { .name = "dot",
                    .traced = product_traced,
                    .operand = { { "input", NUMBERS }, { "tensor", NUMBERS } },
                    .flags = SITU_OP_PRODUCT,
                    .autocast = { SITU_CAST_WIDEST, SITU_CAST_WIDEST },
                    .save = SITU_SAVE(0) | SITU_SAVE(1),
                    .infer = dot_infer,
                    .forward = dot_forward,
                    .backward = situ__mul_backward,
                    .backward_recorded = situ__mul_backward };
situ_tensor *situ_dot(situ_tensor *input, situ_tensor *tensor) { return situ_op_run2(&dot_op, input, tensor, NULL); }

situ_tensor *situ_outer(situ_tensor *input, situ_tensor *vec2) {
  SITU__MADE_OF_OPS("outer");
  static const situ_op schema = { .name = "outer", .operand = { { "input", 0 }, { "vec2", 0 } } };
  if (!situ__together(&schema, (situ_tensor *[]){ input, vec2 }, 2)) return NULL;
  if (input->view.ndim != 1 || vec2->view.ndim != 1)
    return situ__fail(SITU_E_SHAPE, "outer", "needs two vectors, got tensors of %d and %d dimensions", input->view.ndim,
                      vec2->view.ndim),
           NULL;
  return situ_mul(situ_unsqueeze(input, 1), vec2);
}

/* ---- addmm, baddbmm: beta x + alpha a b ---- */

typedef struct addmm_params {
  double beta, alpha;
} addmm_params;

static bool addmm_shape(situ_call *c, int rank) {
  situ_call inner = *c; /* the product's own shape rule, for the last two operands */
  inner.in = c->in + 1;
  inner.ins = 2;
  if (!(rank == 2 ? mm_infer(&inner) : bmm_infer(&inner))) return false;
  situ_shape whole = inner.shape[0], x = situ__shape(situ__desc(c->in[0]));
  if (!situ_shape_broadcast(c->op->name, &whole, &x)) return false;
  char a[SITU_SHAPE_TEXT], b[SITU_SHAPE_TEXT];
  if (!situ_shape_equal(&whole, &inner.shape[0]))
    return situ_refuse(c, SITU_E_SHAPE, "input %s does not broadcast to the product %s", situ_shape_text(&x, a),
                       situ_shape_text(&inner.shape[0], b));
  c->shape[0] = whole;
  c->dtype[0] = inner.dtype[0];
  const addmm_params *p = c->params;
  return situ__check_factor(c, "beta", p->beta) && situ__check_factor(c, "alpha", p->alpha);
}
static bool addmm_infer(situ_call *c) { return addmm_shape(c, 2); }
static bool baddbmm_infer(situ_call *c) { return addmm_shape(c, 3); }

static bool addmm_forward(situ_call *c) {
  const addmm_params *p = c->params;
  return product(c, situ__desc(c->in[1]), situ__desc(c->in[2]), situ__desc(c->in[0]), situ__desc(c->out[0]), p->alpha,
                 p->beta);
}
static bool addmm_backward(situ_grad_call *g) {
  const addmm_params *p = g->params;
  situ_tensor *up = g->grad[0];
  return GRAD(g, 0, p->beta == 1 ? up : situ_mul_scalar(up, p->beta)) &&
         GRAD(g, 1, situ_mul_scalar(grad_left(up, g->in[2]), p->alpha)) &&
         GRAD(g, 2, situ_mul_scalar(grad_right(g->in[1], up, g->shape[2].ndim), p->alpha));
}

static bool addmm_traced(const situ_call *c, situ_export_trace *t) {
  const addmm_params *p = c->params;
  return situ_export_call(t, "*.default", "tttnn", c->in[0], c->in[1], c->in[2], p->beta, p->alpha);
}

#define ADDMM(id, left, right)                                                                     \
  SITU_OP(id##_op) = { .name = #id,                                                                \
                       .operand = { { "input", NUMBERS }, { left, NUMBERS }, { right, NUMBERS } }, \
                       .autocast = { SITU_CAST_LOW, SITU_CAST_LOW },                               \
                       .save = SITU_SAVE(1) | SITU_SAVE(2),                                        \
                       .params_size = sizeof(addmm_params),                                        \
                       .infer = id##_infer,                                                        \
                       .forward = addmm_forward,                                                   \
                       .traced = addmm_traced,                                                     \
                       .backward = addmm_backward,                                                 \
                       .backward_recorded = addmm_backward };                                      \
  situ_tensor *situ_##id(situ_tensor *input, situ_tensor *first, situ_tensor *second,              \
                         const situ_addmm_options *options) {                                      \
    addmm_params p;                                                                                \
    if (!read_factors(#id, options, &p)) return NULL;                                              \
    return situ_op_run3(&id##_op, input, first, second, &p);                                       \
  }
static bool read_factors(const char *op, const situ_addmm_options *options, addmm_params *p) {
  situ_addmm_options o = situ_addmm_defaults();
  if (!situ__options_read(op, "situ_addmm_defaults", options, &o, sizeof o)) return false;
  *p = (addmm_params){ o.beta, o.alpha };
  return true;
}
ADDMM(addmm, "mat1", "mat2")
ADDMM(baddbmm, "batch1", "batch2")
