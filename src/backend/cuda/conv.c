/* Convolution by cuDNN, if it is installed and supports the problem; else by situ's own kernels (backend/lower/conv.c).
   SPDX-License-Identifier: MIT */
#include "backend/cuda/dnn.h"

/* A convolution's tensors by their uids. BETWEEN is y before the bias is added; it is not in memory. */
enum { X, W, Y, BIAS, BETWEEN };

/* A convolution's sums (more): they are the result; the bias is added first; they stay f32. */
enum { PLAIN, WITH_BIAS, WIDE };

/* Descriptor and attributes of a pass. cuDNN names operands by their role in the forward pass, as this does. */
typedef struct pass {
  cudnnBackendDescriptorType_t type;
  cudnnBackendAttributeName_t alpha, beta, window, operand[3];
  int result;
} pass;

#define NAME(pass, part) CUDNN_ATTR_OPERATION_CONVOLUTION_##pass##_##part
static const pass passes[] = {
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
    NAME(FORWARD, ALPHA),
    NAME(FORWARD, BETA),
    NAME(FORWARD, CONV_DESC),
    { NAME(FORWARD, X), NAME(FORWARD, W), NAME(FORWARD, Y) },
    Y },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
    NAME(BWD_DATA, ALPHA),
    NAME(BWD_DATA, BETA),
    NAME(BWD_DATA, CONV_DESC),
    { NAME(BWD_DATA, DX), NAME(BWD_DATA, W), NAME(BWD_DATA, DY) },
    X },
  { CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
    NAME(BWD_FILTER, ALPHA),
    NAME(BWD_FILTER, BETA),
    NAME(BWD_FILTER, CONV_DESC),
    { NAME(BWD_FILTER, X), NAME(BWD_FILTER, DW), NAME(BWD_FILTER, DY) },
    W },
};

/* ---- the graph ------------------------------------------------------------------------------- */

static cudnnBackendDescriptor_t describe_window(situ__dnn_graph *g, const situ__dnn_problem *p) {
  cudnnBackendDescriptor_t c = situ__dnn_make(g, CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  const cudnnDataType_t sums = p->dtype == SITU_F64 ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
  const cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  const int64_t dims = 2;
  const cudnnBackendAttributeType_t i64 = CUDNN_TYPE_INT64;
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_CONV_MODE, CUDNN_TYPE_CONVOLUTION_MODE, 1, &mode);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, i64, 1, &dims);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, i64, 2, &p->window[0]);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, i64, 2, &p->window[2]);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, i64, 2, &p->window[2]);
  situ__dnn_set(g, c, CUDNN_ATTR_CONVOLUTION_DILATIONS, i64, 2, &p->window[4]);
  situ__dnn_finalize(g, c);
  return c;
}

/* The bias of the result's channels, broadcast over images and positions. */
static situ__dnn_tensor vector(const situ__dnn_tensor *of) {
  const int64_t channels = of->size[1];
  return (situ__dnn_tensor){ { 1, channels, 1, 1 }, { channels, 1, 1, 1 } };
}

static void add_bias(situ__dnn_graph *g, const situ__dnn_problem *p, cudnnBackendDescriptor_t from,
                     cudnnBackendDescriptor_t to) {
  const situ__dnn_tensor shape = vector(&p->of[passes[p->kind].result]);
  cudnnBackendDescriptor_t bias =
      situ__dnn_describe(g, BIAS, situ__dnn_type((situ_dtype)p->dtype), &shape, p->aligned[BIAS], SITU__DNN_THERE);
  cudnnBackendDescriptor_t add = situ__dnn_make(g, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  const cudnnPointwiseMode_t mode = CUDNN_POINTWISE_ADD;
  const cudnnDataType_t sums = CUDNN_DATA_FLOAT;
  situ__dnn_set(g, add, CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, 1, &mode);
  situ__dnn_set(g, add, CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, 1, &sums);
  situ__dnn_finalize(g, add);
  cudnnBackendDescriptor_t o = situ__dnn_make(g, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  situ__dnn_refer(g, o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, add);
  situ__dnn_refer(g, o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC, from);
  situ__dnn_refer(g, o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC, bias);
  situ__dnn_refer(g, o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC, to);
  situ__dnn_operation(g, o);
}

/* With a bias, sums stay f32 until it is added. */
static void describe(situ__dnn_graph *g, const situ__dnn_problem *p) {
  const pass *of = &passes[p->kind];
  const situ_dtype dtype = (situ_dtype)p->dtype;
  const bool wide = dtype == SITU_F64;
  const double factors[] = { 1, 0 };
  const float narrow[] = { 1, 0 };
  cudnnBackendDescriptor_t window = describe_window(g, p), between, tensor[3];
  for (int k = X; k <= Y; k++) {
    const cudnnDataType_t type = k == of->result && p->more == WIDE ? CUDNN_DATA_FLOAT : situ__dnn_type(dtype);
    tensor[k] = situ__dnn_describe(g, k, type, &p->of[k], p->aligned[k], SITU__DNN_THERE);
  }
  between = tensor[of->result];
  if (p->more == WITH_BIAS)
    between = situ__dnn_describe(g, BETWEEN, CUDNN_DATA_FLOAT, &p->of[of->result], 4, SITU__DNN_NOWHERE);
  cudnnBackendDescriptor_t o = situ__dnn_make(g, of->type);
  const cudnnBackendAttributeType_t factor = wide ? CUDNN_TYPE_DOUBLE : CUDNN_TYPE_FLOAT;
  situ__dnn_set(g, o, of->alpha, factor, 1, wide ? (const void *)&factors[0] : &narrow[0]);
  situ__dnn_set(g, o, of->beta, factor, 1, wide ? (const void *)&factors[1] : &narrow[1]);
  situ__dnn_refer(g, o, of->window, window);
  for (int k = X; k <= Y; k++) situ__dnn_refer(g, o, of->operand[k], k == of->result ? between : tensor[k]);
  situ__dnn_operation(g, o);
  if (p->more == WITH_BIAS) add_bias(g, p, between, tensor[of->result]);
}

/* ---- the problem ----------------------------------------------------------------------------- */

typedef struct convolution {
  int pass;
  const situ_view_desc *of[4];
  situ__dnn_problem problem;
} convolution;

static uint8_t alignment(const situ_view_desc *v) {
  enum { MOST = 16 }; /* more alignment gains nothing */
  return (uint8_t)__builtin_ctzll(MOST | (uintptr_t)situ__cuda_address(v));
}

/* Supported: floating, one dtype, nothing empty. Operands are contiguous by the verb's contract. */
static bool set_problem(convolution *c, const situ_work *work) {
  const situ_view_desc *result = work->out[0], *a = work->in[0], *b = work->in[1];
  const situ_view_desc *of[][3] = { { a, b, result }, { result, b, a }, { a, result, b } };
  const situ_dtype dtype = (situ_dtype)result->dtype, compute = work->compute ? work->compute : dtype;
  situ__dnn_problem *p = &c->problem;
  c->pass = work->op;
  p->kind = (uint8_t)work->op, p->dtype = (uint8_t)dtype;
  if (dtype == SITU_F32) p->precision = (uint8_t)situ__host->matmul_precision();
  bool good = dtype >= SITU_F16 && situ__lower_compute_of(compute) == situ__lower_compute_of(dtype);
  for (int k = X; k <= Y; k++) {
    const situ_view_desc *v = c->of[k] = of[work->op][k];
    good = good && v->dtype == dtype && v->numel > 0;
    int64_t step = 1;
    for (int d = 3; d >= 0; step *= v->size[d], d--) p->of[k].size[d] = v->size[d], p->of[k].stride[d] = step;
    p->aligned[k] = alignment(v);
  }
  if (work->op != SITU_CONV_GRAD_WEIGHT && work->ins > 2) c->of[BIAS] = work->in[2];
  if (c->of[BIAS]) good = good && c->of[BIAS]->dtype == dtype;
  const situ_window *w = work->window;
  for (int k = 0; k < 2; k++) {
    p->window[k] = w->stride[k], p->window[2 + k] = w->padding[k];
    p->window[4 + k] = w->dilation[k] ? w->dilation[k] : 1;
  }
  return good;
}

/* y = a + bias, in y's dtype. */
static situ_status add(const situ__cuda_device *d, situ_view_desc *a, situ_view_desc bias, situ_view_desc *y) {
  bias.ndim = 4, bias.numel = y->numel, bias.contiguous = false;
  for (int k = 0; k < 4; k++) bias.size[k] = y->size[k], bias.stride[k] = k == 1;
  return situ__lower_binary(d->target.index,
                            &(situ_work){ SITU_VERB_BINARY, .op = SITU_BINARY_add, .compute = (situ_dtype)y->dtype,
                                          .ins = 2, .outs = 1, .in = { a, &bias }, .out = { y } });
}

/* to = from, in to's dtype. */
static situ_status convert(const situ__cuda_device *d, const situ_view_desc *from, situ_view_desc *to) {
  return situ__lower_copy(d->target.index, &(situ_work){ SITU_VERB_COPY, .compute = SITU_F32, .ins = 1, .outs = 1,
                                                         .in = { from }, .out = { to } });
}

static situ_status solve(situ__cuda_device *d, convolution *c, uint8_t more, void *result, bool *done) {
  static const int64_t uid[] = { X, W, Y, BIAS };
  const int to = passes[c->pass].result;
  void *data[4];
  for (int k = X; k <= BIAS; k++) data[k] = c->of[k] ? situ__cuda_address(c->of[k]) : NULL;
  data[to] = result;
  situ__dnn_problem p = c->problem;
  p.more = more;
  p.aligned[BIAS] = more == WITH_BIAS ? alignment(c->of[BIAS]) : 0;
  if (more == WIDE) p.aligned[to] = 4;
  situ_status status;
  situ__dnn_plan *plan = situ__dnn_find(d, "conv", &p, describe, &status);
  return plan ? situ__dnn_run(d, "conv", plan, more == WITH_BIAS ? 4 : 3, uid, data, done) : status;
}

/* Where no engine adds the bias: sums of 16-bit operands stay f32 until it is added, as they would otherwise be rounded
   twice. */
static situ_status solve_wide(situ__cuda_device *d, convolution *c, bool *done) {
  const int index = d->target.index;
  situ_view_desc y = *c->of[passes[c->pass].result];
  const int64_t channels = y.size[1];
  float *sums = situ__lower_scratch(index, "conv", (size_t)(y.numel + channels) * sizeof *sums);
  if (!sums) return d->lost ? SITU_E_LOST : SITU_E_NOMEM;
  situ_storage memory[2];
  situ_view_desc bias = situ__lower_scratch_view(&memory[1], sums + y.numel, SITU_F32, channels), wide = y;
  wide.storage = situ__lower_scratch_view(&memory[0], sums, SITU_F32, y.numel).storage;
  wide.dtype = SITU_F32, wide.offset = 0;
  situ_status status = solve(d, c, WIDE, sums, done);
  if (status == SITU_OK && *done) status = convert(d, c->of[BIAS], &bias);
  if (status == SITU_OK && *done) status = add(d, &wide, bias, &wide);
  if (status == SITU_OK && *done) status = convert(d, &wide, &y);
  situ__targets->release(index, sums);
  return status;
}

static situ_status convolve(situ__cuda_device *d, convolution *c, bool *done) {
  situ_view_desc y = *c->of[passes[c->pass].result];
  void *result = situ__cuda_address(&y);
  const situ_view_desc *bias = c->of[BIAS];
  situ_status status = SITU_OK;
  if (bias && c->problem.dtype != SITU_F64) /* no engine adds the bias for f64 */
    status = solve(d, c, WITH_BIAS, result, done);
  if (status != SITU_OK || *done) return status;
  if (bias && c->problem.dtype < SITU_F32) return solve_wide(d, c, done);
  status = solve(d, c, PLAIN, result, done);
  return status == SITU_OK && *done && bias ? add(d, &y, *bias, &y) : status;
}

bool situ__cuda_convolve(situ__target *target, const situ_work *work, situ_status *status) {
  situ__cuda_device *d = (situ__cuda_device *)target;
  convolution c = { .pass = 0 };
  if (!set_problem(&c, work)) return false;
  bool done = false;
  if (situ__dnn_open(d, "conv", status)) *status = convolve(d, &c, &done);
  return done || *status != SITU_OK;
}
