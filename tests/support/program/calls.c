/* The calls of random programs, a row each.
   SPDX-License-Identifier: MIT */
#include "support/program/runs.h"

#define RUN(id) static PROGRAM_RUN(id)

static int64_t within(int p, int64_t n) { return n > 0 ? p % n : 0; }

static situ_tensor *index_of(const program_call *c, int64_t count, int64_t bound, situ_shape shape) {
  int64_t at[PROGRAM_NUMEL];
  for (int64_t i = 0; i < count; i++) at[i] = (c->p[1] + i * c->p[2]) % bound;
  return situ_from_host(at, (size_t)count * sizeof *at, shape,
                        &(situ_options){ .dtype = SITU_I64, .device = test_device() });
}

static situ_tensor *mask_of(situ_tensor *x, const program_call *c) {
  uint8_t on[PROGRAM_NUMEL];
  const int64_t n = situ_numel(x);
  for (int64_t i = 0; i < n; i++) on[i] = (i + c->p[1]) % (2 + c->p[2] % 3) == 0;
  return situ_from_host(on, (size_t)n, situ_shape_of(x),
                        &(situ_options){ .dtype = SITU_BOOL, .device = test_device() });
}

/* ---- new values ---- */

RUN(run_zeros) {
  (void)in;
  NOTE("SITU_SHAPE(%d, %d)", 1 + c->p[0] % 3, 1 + c->p[1] % 3);
  return situ_zeros(SITU_SHAPE(1 + c->p[0] % 3, 1 + c->p[1] % 3),
                    &(situ_options){ .dtype = SITU_F64, .device = test_device() });
}
RUN(run_full) {
  (void)in;
  NOTE("SITU_SHAPE(%d), %g", 1 + c->p[0] % 3, c->a);
  return situ_full(SITU_SHAPE(1 + c->p[0] % 3), c->a, &(situ_options){ .dtype = SITU_F64, .device = test_device() });
}
RUN(run_zeros_like) { return (void)c, situ_zeros_like(in[0], NULL); }
RUN(run_clone) { return (void)c, situ_clone(in[0]); }
RUN(run_cast) { return (void)c, situ_to_dtype(situ_to_dtype(in[0], SITU_F32), SITU_F64); }
RUN(run_tanh) { return (void)c, situ_tanh(in[0]); }
RUN(run_sin) { return (void)c, situ_sin(in[0]); }
RUN(run_sigmoid) { return (void)c, situ_sigmoid(in[0]); }
RUN(run_exp_tanh) { return (void)c, situ_exp(situ_tanh(in[0])); }
RUN(run_mish) { return (void)c, situ_mish(in[0]); }
RUN(run_quick_gelu) { return (void)c, situ_quick_gelu(in[0]); }
RUN(run_softsign) { return (void)c, situ_softsign(in[0]); }
RUN(run_tanhshrink) { return (void)c, situ_tanhshrink(in[0]); }
RUN(run_logsigmoid) { return (void)c, situ_logsigmoid(in[0]); }
RUN(run_selu) { return (void)c, situ_selu(in[0]); }
RUN(run_hardswish) { return (void)c, situ_hardswish(in[0]); }
RUN(run_softshrink) { return (void)c, situ_softshrink(in[0], 0.5); }
RUN(run_atan) { return (void)c, situ_atan(in[0]); }
RUN(run_asinh) { return (void)c, situ_asinh(in[0]); }
RUN(run_erfc) { return (void)c, situ_erfc(in[0]); }
RUN(run_i0_tanh) { return (void)c, situ_i0(situ_tanh(in[0])); }
RUN(run_sinc) { return (void)c, situ_sinc(situ_add_scalar(situ_square(situ_tanh(in[0])), 0.3)); }
RUN(run_logit) { return (void)c, situ_logit(situ_sigmoid(situ_tanh(in[0])), 0); }
RUN(run_lgamma) { return (void)c, situ_lgamma(situ_add_scalar(situ_square(in[0]), 0.5)); }
RUN(run_atan_) { return (void)c, situ_atan_(in[0]); }
RUN(run_square) { return (void)c, situ_square(in[0]); }
RUN(run_neg) { return (void)c, situ_neg(in[0]); }
RUN(run_relu) { return (void)c, situ_relu(in[0]); }
RUN(run_abs) { return (void)c, situ_abs(in[0]); }
RUN(run_clamp) { return (void)c, situ_clamp(in[0], -1, 1); }
RUN(run_mul_scalar) {
  NOTE("%g", c->a);
  return situ_mul_scalar(in[0], c->a);
}
RUN(run_add) { return (void)c, situ_add(in[0], in[1]); }
RUN(run_sub) { return (void)c, situ_sub(in[0], in[1]); }
RUN(run_mul) { return (void)c, situ_mul(in[0], in[1]); }
RUN(run_div) { return (void)c, situ_div(in[0], situ_add_scalar(situ_square(in[1]), 1)); }
RUN(run_atan2) { return (void)c, situ_atan2(in[0], situ_add_scalar(situ_square(in[1]), 1)); }
RUN(run_hypot) { return (void)c, situ_hypot(in[0], situ_add_scalar(situ_square(in[1]), 1)); }
RUN(run_xlogy) { return (void)c, situ_xlogy(in[0], situ_add_scalar(situ_square(in[1]), 0.5)); }
RUN(run_logaddexp) { return (void)c, situ_logaddexp(in[0], in[1]); }
RUN(run_matmul) {
  return (void)c, situ_dim(in[0]) == 2 && situ_dim(in[1]) == 2
                      ? situ_matmul(in[0], size(in[0], 1) == size(in[1], 0) ? in[1] : situ_transpose(in[1], 0, 1))
                      : NULL;
}
RUN(run_sum) {
  if (!situ_dim(in[0])) return situ_sum(in[0], NULL);
  NOTE("dim %d, keepdim %d", dim(in[0], c->p[0]), c->p[1] % 2);
  return situ_sum(in[0], &(situ_reduce_options){ .dim = SITU_DIMS(dim(in[0], c->p[0])), .keepdim = c->p[1] % 2 });
}
RUN(run_glu) {
  if (!situ_dim(in[0]) || size(in[0], dim(in[0], c->p[0])) % 2) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_glu(in[0], dim(in[0], c->p[0]));
}
/* The slope is the mean of the other. */
RUN(run_prelu) { return (void)c, situ_prelu(in[0], situ_mean(in[1], NULL)); }
RUN(run_mse_loss) { return (void)c, situ_mse_loss(in[0], in[1], SITU_REDUCTION_MEAN); }
RUN(run_mean) { return (void)c, situ_mean(in[0], NULL); }
RUN(run_softmax) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_softmax(in[0], dim(in[0], c->p[0]));
}
RUN(run_interpolate) {
  const int64_t to = 1 + c->p[0] % 4;
  NOTE("reshape(1, 1, -1), LINEAR, size %d", (int)to);
  return situ_interpolate(situ_reshape(in[0], SITU_SHAPE(1, 1, -1)),
                          &(situ_interpolate_options){ .size = SITU_DIMS(to), .mode = SITU_INTERPOLATE_LINEAR });
}
RUN(run_cumsum) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_cumsum(in[0], dim(in[0], c->p[0]));
}
RUN(run_where) {
  NOTE("mask %d %d", c->p[1], c->p[2]);
  return situ_where(mask_of(in[0], c), in[0], in[1]);
}
RUN(run_masked_fill) {
  NOTE("mask %d %d, %g", c->p[1], c->p[2], c->a);
  return situ_masked_fill(in[0], mask_of(in[0], c), c->a);
}
RUN(run_cat) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_cat((situ_tensor *[]){ in[0], in[1], in[2] }, 3, dim(in[0], c->p[0]));
}
RUN(run_stack) {
  const int d = c->p[0] % (situ_dim(in[0]) + 1);
  NOTE("%d", d);
  return situ_stack((situ_tensor *[]){ in[0], in[1] }, 2, d);
}
RUN(run_flip) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d", dim(in[0], c->p[0]));
  return situ_flip(in[0], SITU_DIMS(dim(in[0], c->p[0])));
}
RUN(run_roll) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d, %d", c->p[1], dim(in[0], c->p[0]));
  return situ_roll(in[0], SITU_SHAPE(c->p[1]), SITU_DIMS(dim(in[0], c->p[0])));
}
RUN(run_diag_embed) {
  if (!situ_dim(in[0]) || situ_dim(in[0]) > 2 || situ_numel(in[0]) > 6) return NULL;
  NOTE("%d, 0, -1", c->p[0] % 2);
  return situ_diag_embed(in[0], c->p[0] % 2, 0, -1);
}
RUN(run_repeat_interleave) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("2, %d", dim(in[0], c->p[0]));
  return situ_repeat_interleave(in[0], 2, SITU_DIMS(dim(in[0], c->p[0])));
}
RUN(run_repeat_interleave_tensor) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  const int64_t n = size(in[0], d);
  NOTE("%d, repeats %d by %d modulo 3", d, c->p[1], c->p[2]);
  return situ_repeat_interleave_tensor(in[0], index_of(c, n, 3, SITU_SHAPE(n)), SITU_DIMS(d));
}
/* The gradient is that of what log_softmax is given. */
RUN(run_ctc_loss) {
  if (situ_dim(in[0]) != 2 || size(in[0], 0) < 2 || size(in[0], 1) < 2) return NULL;
  const situ_options whole = { .dtype = SITU_I64, .device = test_device() };
  NOTE("of log_softmax, target {1}");
  return situ_ctc_loss(situ_log_softmax(in[0], 1), situ_ones(SITU_SHAPE(1), &whole),
                       situ_full(SITU_SCALAR, (double)size(in[0], 0), &whole), situ_ones(SITU_SCALAR, &whole), NULL);
}
RUN(run_roi_align) {
  if (situ_dim(in[0]) != 2 || !situ_numel(in[0])) return NULL;
  static const double box[] = { 0, 0.1, -0.2, 1.7, 2.3 };
  situ_tensor *boxes =
      situ_from_host(box, sizeof box, SITU_SHAPE(1, 5), &(situ_options){ .dtype = SITU_F64, .device = test_device() });
  NOTE("{0, 0.1, -0.2, 1.7, 2.3}, 2 by 1 bins, sampling_ratio %d", c->p[0] % 3);
  return situ_roi_align(situ_reshape(in[0], SITU_SHAPE(1, 1, size(in[0], 0), size(in[0], 1))), boxes, SITU_DIMS(2, 1),
                        1, c->p[0] % 3, c->p[1] % 2);
}
RUN(run_einsum) {
  const bool outer = c->p[0] % 2;
  if (situ_dim(in[0]) != 2) return NULL;
  NOTE("\"%s\"", outer ? "ij,ij->j" : "ij,kj->ik");
  return situ_einsum(outer ? "ij,ij->j" : "ij,kj->ik", in, 2);
}
RUN(run_index_select) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]), n = 1 + c->p[3] % 3;
  NOTE("%d, %d indices from %d by %d", d, n, c->p[1], c->p[2]);
  return situ_index_select(in[0], d, index_of(c, n, size(in[0], d), SITU_SHAPE(n)));
}
/* Two bags: of what its first indices name, and of the others. */
RUN(run_embedding_bag) {
  if (situ_dim(in[0]) != 2) return NULL;
  const int n = 1 + c->p[3] % 3;
  const int64_t starts[2] = { 0, c->p[0] % (n + 1) };
  const situ_options whole = { .dtype = SITU_I64, .device = test_device() };
  NOTE("%d indices from %d by %d, the second bag from %d, mode %d", n, c->p[1], c->p[2], (int)starts[1], c->p[3] % 2);
  const situ_embedding_bag_options o =
      OPTIONS_OF(situ_embedding_bag, with.offsets = situ_from_host(starts, sizeof starts, SITU_SHAPE(2), &whole),
                 with.mode = (situ_embedding_bag_mode)(c->p[3] % 2));
  return situ_embedding_bag(index_of(c, n, size(in[0], 0), SITU_SHAPE(n)), in[0], &o);
}
RUN(run_gather) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  NOTE("%d, indices from %d by %d", d, c->p[1], c->p[2]);
  return situ_gather(in[0], d, index_of(c, situ_numel(in[0]), size(in[0], d), situ_shape_of(in[0])));
}
static situ_tensor *rows_into(situ_tensor *const *in, const program_call *c,
                              situ_tensor *(*op)(situ_tensor *, int, situ_tensor *, situ_tensor *, double)) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  NOTE("%d, indices from %d by %d, alpha %g", d, c->p[1], c->p[2], c->a);
  return op(in[0], d, index_of(c, size(in[1], d), size(in[0], d), SITU_SHAPE(size(in[1], d))), in[1], c->a);
}
static situ_tensor *elements_into(situ_tensor *const *in, const program_call *c, bool distinct,
                                  situ_tensor *(*op)(situ_tensor *, int, situ_tensor *, situ_tensor *)) {
  if (!situ_dim(in[0])) return NULL;
  program_call one = *c;
  if (distinct) one.p[1] = 0, one.p[2] = 1; /* rows by rows, so that no element is written twice */
  const int d = distinct ? 0 : dim(in[0], c->p[0]);
  int64_t count = situ_numel(in[0]), bound = size(in[0], d), at[PROGRAM_NUMEL];
  for (int64_t i = 0; i < count; i++)
    at[i] = distinct ? (i / (count / bound) + c->p[1]) % bound : (one.p[1] + i * one.p[2]) % bound;
  NOTE("%d, %s %d by %d", d, distinct ? "rows from" : "indices from", c->p[1], c->p[2]);
  return op(in[0], d,
            situ_from_host(at, (size_t)count * sizeof *at, situ_shape_of(in[0]),
                           &(situ_options){ .dtype = SITU_I64, .device = test_device() }),
            in[1]);
}
RUN(run_index_add) { return rows_into(in, c, situ_index_add); }
RUN(run_index) {
  if (situ_dim(in[0]) < 2) return NULL;
  const int n = 1 + c->p[3] % 3;
  NOTE("NULL and %d indices from %d by %d", n, c->p[1], c->p[2]);
  return situ_index(in[0], (situ_tensor *[]){ NULL, index_of(c, n, size(in[0], 1), SITU_SHAPE(n)) }, 2);
}
static situ_tensor *list_into(situ_tensor *const *in, const program_call *c,
                              situ_tensor *(*op)(situ_tensor *, situ_tensor *const *, int, situ_tensor *, bool)) {
  if (situ_dim(in[0]) < 2) return NULL;
  const int64_t n = size(in[0], 1);
  NOTE("NULL and indices from %d by %d", c->p[1], c->p[2]);
  return op(in[0], (situ_tensor *[]){ NULL, index_of(c, n, n, SITU_SHAPE(n)) }, 2, in[1], true);
}
RUN(run_index_put) { return list_into(in, c, situ_index_put); }
RUN(run_scatter) { return elements_into(in, c, true, situ_scatter); }
RUN(run_scatter_add) { return elements_into(in, c, false, situ_scatter_add); }
static situ_tensor *scatter_mean(situ_tensor *x, int d, situ_tensor *index, situ_tensor *src) {
  return situ_scatter_reduce(x, d, index, src, SITU_SCATTER_MEAN, true);
}
static situ_tensor *scatter_prod(situ_tensor *x, int d, situ_tensor *index, situ_tensor *src) {
  return situ_scatter_reduce(x, d, index, src, SITU_SCATTER_PROD, false);
}
RUN(run_scatter_mean) { return elements_into(in, c, false, scatter_mean); }
RUN(run_scatter_prod) { return elements_into(in, c, false, scatter_prod); }
RUN(run_masked_scatter) {
  NOTE("mask %d %d", c->p[1], c->p[2]);
  return situ_masked_scatter(in[0], mask_of(in[0], c), in[1]);
}
RUN(run_select_scatter) {
  if (!situ_numel(in[0]) || !situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  const int64_t at = within(c->p[1], size(in[0], d));
  NOTE("%g * select(%d, %d)", c->a, d, (int)at);
  return situ_select_scatter(in[0], situ_mul_scalar(situ_select(in[0], d, 0), c->a), d, at);
}
RUN(run_take) {
  if (!situ_numel(in[0])) return NULL;
  const int n = 1 + c->p[3] % 3;
  NOTE("%d indices from %d by %d", n, c->p[1], c->p[2]);
  return situ_take(in[0], index_of(c, n, situ_numel(in[0]), SITU_SHAPE(n)));
}

/* ---- views ---- */

RUN(run_view) {
  const int64_t n = situ_numel(in[0]), columns = n % 3 == 0 ? 3 : n % 2 == 0 ? 2 : 1;
  if (c->p[0] % 2) return situ_view(in[0], SITU_SHAPE(n));
  NOTE("SITU_SHAPE(%lld, %lld)", (long long)(n / columns), (long long)columns);
  return situ_view(in[0], SITU_SHAPE(n / columns, columns));
}
RUN(run_narrow) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  const int64_t start = within(c->p[1], size(in[0], d)), length = 1 + within(c->p[2], size(in[0], d) - start);
  NOTE("%d, %lld, %lld", d, (long long)start, (long long)length);
  return situ_narrow(in[0], d, start, length);
}
RUN(run_select) {
  if (!situ_dim(in[0])) return NULL;
  const int d = dim(in[0], c->p[0]);
  NOTE("%d, %lld", d, (long long)within(c->p[1], size(in[0], d)));
  return situ_select(in[0], d, within(c->p[1], size(in[0], d)));
}
RUN(run_slice) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d, %d, 9, %d", dim(in[0], c->p[0]), c->p[1] % 2, 1 + c->p[2] % 2);
  return situ_slice(in[0], dim(in[0], c->p[0]), c->p[1] % 2, 9, 1 + c->p[2] % 2);
}
RUN(run_transpose) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d, %d", dim(in[0], c->p[0]), dim(in[0], c->p[1]));
  return situ_transpose(in[0], dim(in[0], c->p[0]), dim(in[0], c->p[1]));
}
RUN(run_diagonal) {
  if (situ_dim(in[0]) < 2) return NULL;
  NOTE("%d, 1, 0", c->p[0] % 3 - 1);
  return situ_diagonal(in[0], c->p[0] % 3 - 1, 1, 0);
}
RUN(run_movedim) {
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d, %d", dim(in[0], c->p[0]), dim(in[0], c->p[1]));
  return situ_movedim(in[0], SITU_DIMS(dim(in[0], c->p[0])), SITU_DIMS(dim(in[0], c->p[1])));
}
RUN(run_unsqueeze) {
  const int d = c->p[0] % (situ_dim(in[0]) + 1);
  NOTE("%d", d);
  return situ_unsqueeze(in[0], d);
}
RUN(run_squeeze) { return (void)c, situ_squeeze(in[0], (situ_shape){ .ndim = 0 }); }
RUN(run_expand) {
  situ_shape s = situ_shape_of(in[0]);
  for (int d = 0; d < s.ndim; d++)
    if (s.dim[d] == 1) s.dim[d] = 2;
  if (s.ndim < 3 && c->p[0] % 2) {
    for (int d = s.ndim++; d > 0; d--) s.dim[d] = s.dim[d - 1];
    s.dim[0] = 2;
  }
  return situ_expand(in[0], s);
}
RUN(run_as_strided) {
  const int64_t n = situ_numel(in[0]);
  if (!situ_is_contiguous(in[0])) return NULL;
  NOTE("SITU_SHAPE(2, 2), strides %d %d", c->p[0] % 2, c->p[1] % 2);
  return n > 2 ? situ_as_strided(in[0], SITU_SHAPE(2, 2), SITU_SHAPE(c->p[0] % 2, c->p[1] % 2),
                                 situ_storage_offset(in[0]))
               : NULL;
}
static situ_tensor *piece(int64_t count, situ_tensor **out, int which) { return count > 0 ? out[which % count] : NULL; }
RUN(run_split) {
  situ_tensor *out[16];
  if (!situ_dim(in[0])) return NULL;
  NOTE("1, %d)[%d] (one of several", dim(in[0], c->p[0]), c->p[1]);
  return piece(situ_split(in[0], 1, dim(in[0], c->p[0]), out, 16), out, c->p[1]);
}
RUN(run_chunk) {
  situ_tensor *out[16];
  if (!situ_dim(in[0])) return NULL;
  NOTE("2, %d)[%d] (one of several", dim(in[0], c->p[0]), c->p[1]);
  return piece(situ_chunk(in[0], 2, dim(in[0], c->p[0]), out, 16), out, c->p[1]);
}
RUN(run_unbind) {
  situ_tensor *out[16];
  if (!situ_dim(in[0])) return NULL;
  NOTE("%d)[%d] (one of several", dim(in[0], c->p[0]), c->p[1]);
  return piece(situ_unbind(in[0], dim(in[0], c->p[0]), out, 16), out, c->p[1]);
}
RUN(run_detach) { return (void)c, situ_detach(in[0]); }

/* ---- in place ---- */

RUN(run_add_) { return (void)c, situ_add_(in[0], in[1]); }
RUN(run_sub_) { return (void)c, situ_sub_(in[0], in[1]); }
RUN(run_mul_) { return (void)c, situ_mul_(in[0], in[1]); }
RUN(run_copy_) { return (void)c, situ_copy_(in[0], in[1]); }
RUN(run_addcmul_) {
  NOTE("%g", c->a);
  return situ_addcmul_(in[0], in[1], in[2], c->a);
}
RUN(run_mul_scalar_) {
  NOTE("%g", c->a);
  return situ_mul_scalar_(in[0], c->a);
}
RUN(run_add_scalar_) {
  NOTE("%g", c->a);
  return situ_add_scalar_(in[0], c->a);
}
RUN(run_fill_) {
  NOTE("%g", c->a);
  return situ_fill_(in[0], c->a);
}
RUN(run_zero_) { return (void)c, situ_zero_(in[0]); }
RUN(run_atan2_) { return (void)c, situ_atan2_(in[0], situ_exp(in[1])); }
RUN(run_tanh_) { return (void)c, situ_tanh_(in[0]); }
RUN(run_mish_) { return (void)c, situ_mish_(in[0]); }
RUN(run_sin_) { return (void)c, situ_sin_(in[0]); }
RUN(run_square_) { return (void)c, situ_square_(in[0]); }
RUN(run_relu_) { return (void)c, situ_relu_(in[0]); }
RUN(run_masked_fill_) {
  NOTE("mask %d %d, %g", c->p[1], c->p[2], c->a);
  return situ_masked_fill_(in[0], mask_of(in[0], c), c->a);
}
RUN(run_index_add_) { return rows_into(in, c, situ_index_add_); }
RUN(run_index_put_) { return list_into(in, c, situ_index_put_); }
RUN(run_scatter_) { return elements_into(in, c, true, situ_scatter_); }
RUN(run_scatter_add_) { return elements_into(in, c, false, situ_scatter_add_); }
RUN(run_masked_scatter_) {
  NOTE("mask %d %d", c->p[1], c->p[2]);
  return situ_masked_scatter_(in[0], mask_of(in[0], c), in[1]);
}

#define MAKES(name, operands, flags) \
  { #name, operands, PROGRAM_MAKES, flags, run_##name, { 0 }, 0 }
#define VIEW(name, flags) \
  { #name, 1, PROGRAM_VIEWS, flags, run_##name, { 0 }, 0 }
#define WRITES(name, operands, flags) \
  { #name, operands, PROGRAM_WRITES, (flags) | PROGRAM_ALIKE, run_##name, { 0 }, 0 }
#define TWO (PROGRAM_ALIKE | PROGRAM_SAVES)

const program_kind program_kinds[] = {
  MAKES(zeros, 0, 0),
  MAKES(full, 0, 0),
  MAKES(zeros_like, 1, PROGRAM_FORGETS),
  MAKES(zeros_like, 1, PROGRAM_FORGETS),
  MAKES(zeros_like, 1, PROGRAM_FORGETS),
  MAKES(clone, 1, 0),
  MAKES(cast, 1, PROGRAM_ROUNDS),
  MAKES(tanh, 1, PROGRAM_SAVES),
  MAKES(sin, 1, PROGRAM_SAVES),
  MAKES(sigmoid, 1, PROGRAM_SAVES),
  MAKES(exp_tanh, 1, PROGRAM_SAVES),
  MAKES(atan, 1, PROGRAM_SAVES),
  MAKES(asinh, 1, PROGRAM_SAVES),
  MAKES(erfc, 1, PROGRAM_SAVES),
  MAKES(i0_tanh, 1, PROGRAM_SAVES),
  MAKES(sinc, 1, PROGRAM_SAVES),
  MAKES(logit, 1, PROGRAM_SAVES),
  MAKES(lgamma, 1, PROGRAM_SAVES),
  MAKES(mish, 1, PROGRAM_SAVES),
  MAKES(quick_gelu, 1, PROGRAM_SAVES),
  MAKES(tanhshrink, 1, PROGRAM_SAVES),
  MAKES(logsigmoid, 1, PROGRAM_SAVES),
  MAKES(glu, 1, PROGRAM_SAVES),
  MAKES(square, 1, PROGRAM_SAVES),
  MAKES(neg, 1, 0),
  MAKES(mul_scalar, 1, 0),
  MAKES(add, 2, 0),
  MAKES(sub, 2, 0),
  MAKES(mul, 2, PROGRAM_SAVES),
  MAKES(div, 2, PROGRAM_SAVES),
  MAKES(atan2, 2, PROGRAM_SAVES),
  MAKES(hypot, 2, PROGRAM_SAVES),
  MAKES(xlogy, 2, PROGRAM_SAVES),
  MAKES(logaddexp, 2, PROGRAM_SAVES),
  MAKES(matmul, 2, PROGRAM_SAVES),
  MAKES(lu, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(lu_solve, 2, TWO | PROGRAM_PART),
  MAKES(tensorsolve, 2, TWO | PROGRAM_PART),
  MAKES(tensorinv, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(multi_dot, 2, TWO),
  MAKES(householder_product, 2, TWO),
  MAKES(vander, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(cov, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(dist, 2, TWO),
  MAKES(bilinear, 2, TWO | PROGRAM_PART),
  MAKES(linear_activation, 2, TWO),
  MAKES(combinations, 1, 0),
  MAKES(mvlgamma, 1, PROGRAM_SAVES),
  MAKES(special_ndtr, 1, PROGRAM_SAVES),
  MAKES(inner, 2, TWO | PROGRAM_PART),
  MAKES(linalg_vecdot, 2, TWO),
  MAKES(linalg_matrix_norm, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(sum, 1, 0),
  MAKES(mean, 1, 0),
  MAKES(mse_loss, 2, PROGRAM_SAVES),
  MAKES(softmax, 1, PROGRAM_SAVES),
  MAKES(cumsum, 1, 0),
  MAKES(logcumsumexp, 1, PROGRAM_SAVES),
  MAKES(trapezoid, 1, 0),
  MAKES(cumulative_trapezoid, 2, TWO),
  MAKES(interpolate, 1, 0),
  MAKES(conv3d, 2, TWO | PROGRAM_PART),
  MAKES(conv_transpose3d, 2, TWO | PROGRAM_PART),
  MAKES(max_unpool2d, 1, PROGRAM_PART),
  MAKES(grid_sample, 1, PROGRAM_PART),
  MAKES(affine_grid, 1, PROGRAM_PART),
  MAKES(deform_conv2d, 2, TWO | PROGRAM_PART),
  MAKES(cholesky, 1, PROGRAM_SAVES),
  MAKES(inv, 1, PROGRAM_SAVES),
  MAKES(det, 1, PROGRAM_SAVES),
  MAKES(solve, 2, TWO | PROGRAM_PART),
  MAKES(qr, 1, PROGRAM_SAVES),
  MAKES(matrix_exp, 1, PROGRAM_SAVES),
  MAKES(lstsq, 2, TWO | PROGRAM_PART),
  MAKES(rfft, 1, PROGRAM_PART),
  MAKES(fft, 2, PROGRAM_ALIKE | PROGRAM_PART),
  MAKES(irfft, 2, PROGRAM_ALIKE),
  MAKES(stft, 1, 0),
  MAKES(where, 2, PROGRAM_ALIKE),
  MAKES(masked_fill, 1, 0),
  MAKES(cat, 3, PROGRAM_ALIKE),
  MAKES(stack, 2, PROGRAM_ALIKE),
  MAKES(flip, 1, 0),
  MAKES(roll, 1, 0),
  MAKES(diag_embed, 1, 0),
  MAKES(repeat_interleave, 1, 0),
  MAKES(repeat_interleave_tensor, 1, 0),
  MAKES(ctc_loss, 1, PROGRAM_SAVES | PROGRAM_PART),
  MAKES(roi_align, 1, PROGRAM_PART),
  MAKES(einsum, 2, TWO | PROGRAM_PART),
  MAKES(index_select, 1, 0),
  MAKES(gather, 1, 0),
  MAKES(embedding_bag, 1, 0),
  MAKES(index_add, 2, PROGRAM_ALIKE),
  MAKES(index, 1, 0),
  MAKES(index_put, 2, PROGRAM_ALIKE),
  MAKES(scatter, 2, PROGRAM_ALIKE),
  MAKES(scatter_add, 2, PROGRAM_ALIKE),
  MAKES(scatter_mean, 2, PROGRAM_ALIKE | PROGRAM_SAVES),
  MAKES(scatter_prod, 2, PROGRAM_ALIKE | PROGRAM_SAVES),
  MAKES(masked_scatter, 2, PROGRAM_ALIKE),
  MAKES(select_scatter, 1, 0),
  MAKES(take, 1, 0),
  { "relu", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_relu, { 0 }, 1 },
  { "prelu", 2, PROGRAM_MAKES, PROGRAM_SAVES, run_prelu, { 0 }, 1 },
  { "softsign", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_softsign, { 0 }, 1 }, /* its curvature jumps */
  { "selu", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_selu, { 0 }, 1 },
  { "hardswish", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_hardswish, { -3, 3 }, 2 },
  { "softshrink(0.5)", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_softshrink, { -0.5, 0.5 }, 2 },
  { "abs", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_abs, { 0 }, 1 },
  { "clamp(-1, 1)", 1, PROGRAM_MAKES, PROGRAM_SAVES, run_clamp, { -1, 1 }, 2 },

  VIEW(view, 0),
  VIEW(narrow, 0),
  VIEW(narrow, 0),
  VIEW(select, 0),
  VIEW(select, 0),
  VIEW(slice, 0),
  VIEW(transpose, 0),
  VIEW(diagonal, 0),
  VIEW(movedim, 0),
  VIEW(unsqueeze, 0),
  VIEW(squeeze, 0),
  VIEW(expand, PROGRAM_SPREADS),
  VIEW(as_strided, PROGRAM_SPREADS),
  VIEW(split, PROGRAM_ONE_OF),
  VIEW(chunk, PROGRAM_ONE_OF),
  VIEW(unbind, PROGRAM_ONE_OF),
  { "detach", 1, PROGRAM_DETACHES, 0, run_detach, { 0 }, 0 },

  WRITES(add_, 2, 0),
  WRITES(sub_, 2, 0),
  WRITES(mul_, 2, PROGRAM_SAVES),
  WRITES(copy_, 2, 0),
  WRITES(copy_, 2, 0),
  WRITES(atan2_, 2, PROGRAM_SAVES),
  WRITES(addcmul_, 3, PROGRAM_SAVES),
  WRITES(mul_scalar_, 1, 0),
  WRITES(add_scalar_, 1, 0),
  WRITES(fill_, 1, 0),
  WRITES(zero_, 1, 0),
  WRITES(tanh_, 1, PROGRAM_SAVES),
  WRITES(sin_, 1, 0),
  WRITES(mish_, 1, 0),
  WRITES(atan_, 1, 0),
  WRITES(square_, 1, 0),
  WRITES(masked_fill_, 1, 0),
  WRITES(index_add_, 2, 0),
  WRITES(index_put_, 2, 0),
  WRITES(scatter_, 2, 0),
  WRITES(scatter_add_, 2, 0),
  WRITES(masked_scatter_, 2, 0),
  { "relu_", 1, PROGRAM_WRITES, PROGRAM_SAVES, run_relu_, { 0 }, 1 },

  { "backward", 1, PROGRAM_BACKWARD, 0, NULL, { 0 }, 0 },
  { "autograd_grad", 1, PROGRAM_GRAD, 0, NULL, { 0 }, 0 },
  { "hook", 1, PROGRAM_HOOK, 0, NULL, { 0 }, 0 },
  { "hook", 1, PROGRAM_HOOK, 0, NULL, { 0 }, 0 },
  { "retain_grad", 1, PROGRAM_RETAIN, 0, NULL, { 0 }, 0 },
  { NULL, 0, PROGRAM_MAKES, 0, NULL, { 0 }, 0 },
};
