/* Linear layers by cuBLASLt: epilogues of its calls add bias and activation to the product, and compute the bias
   gradient with the weight's. Problems that cuBLASLt does not support are not offered; the op composes them.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/lt.h"

typedef struct layer {
  situ__lt_problem problem;
  situ__lt_places places;
} layer;

static char *address(const situ_view_desc *v) {
  return v && v->storage ? (char *)v->storage->data + v->offset * (int64_t)situ__lower_size(v->dtype) : NULL;
}

/* Results that are not allocated yet will be 256-byte aligned. */
static uint8_t alignment(const void *data) {
  enum { MOST = 256 };
  return (uint8_t)__builtin_ctzll(MOST | (uintptr_t)data);
}

/* A matrix whose rows are cuBLASLt's columns. */
static bool set_operand(layer *l, int k, const situ_view_desc *v) {
  situ__lt_problem *q = &l->problem;
  if (v->ndim != 2 || v->dtype != q->dtype || (v->size[1] > 1 && v->stride[1] != 1)) return false;
  q->ld[k] = v->size[0] > 1 ? v->stride[0] : v->size[1];
  l->places.of[k] = address(v);
  q->aligned[k] = alignment(l->places.of[k]);
  return v->numel > 0 && q->ld[k] >= v->size[1];
}

static bool set_vector(layer *l, const situ_view_desc *v, int64_t size) {
  l->places.vector = address(v);
  l->problem.aligned[SITU__LT_OPERANDS] = alignment(l->places.vector);
  return v->dtype == l->problem.dtype && v->numel == size && (size == 1 || v->stride[0] == 1);
}

/* y^T = w x^T. cuBLASLt has relu and gelu's tanh formula, the latter by a tanh that is not exact in f32. GELU's input,
   which it stores, needs a leading dimension in steps of 8 elements and 16 bytes. */
static bool set_forward(layer *l, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *w = work->in[1], *bias = work->in[2], *y = work->out[0], *kept = work->out[1];
  situ__lt_problem *q = &l->problem;
  const bool gelu = work->integer[0] == SITU_UNARY_gelu_tanh;
  if (!gelu && work->integer[0] != SITU_UNARY_relu) return false;
  if (gelu && q->dtype == SITU_F32 && q->precision == SITU_PRECISION_HIGHEST) return false;
  q->m = w->size[0], q->n = x->size[0], q->k = x->size[1];
  q->turned[SITU__LT_A] = true;
  q->epilogue = gelu ? kept ? CUBLASLT_EPILOGUE_GELU_AUX : CUBLASLT_EPILOGUE_GELU : CUBLASLT_EPILOGUE_RELU;
  if (bias) q->epilogue |= CUBLASLT_EPILOGUE_BIAS;
  l->places.kept = address(kept);
  if (kept && (kept->dtype != q->dtype || kept->stride[1] != 1 || kept->stride[0] != y->stride[0] || y->stride[0] % 8 ||
               (uintptr_t)l->places.kept % 16))
    return false;
  return set_operand(l, SITU__LT_A, w) && set_operand(l, SITU__LT_B, x) && set_operand(l, SITU__LT_D, y) &&
         (!bias || set_vector(l, bias, q->m));
}

/* dw^T = x^T g, and the sums of g over its rows. */
static bool set_back(layer *l, const situ_work *work) {
  const situ_view_desc *g = work->in[0], *x = work->in[1];
  situ__lt_problem *q = &l->problem;
  q->m = x->size[1], q->n = g->size[1], q->k = g->size[0];
  q->turned[SITU__LT_B] = true;
  q->epilogue = CUBLASLT_EPILOGUE_BGRADB;
  return set_operand(l, SITU__LT_A, x) && set_operand(l, SITU__LT_B, g) && set_operand(l, SITU__LT_D, work->out[0]) &&
         set_vector(l, work->out[1], q->n);
}

/* Supported: 16- and 32-bit dtypes, the same for all operands. */
static bool set_problem(layer *l, const situ_work *work) {
  const situ_dtype dtype = (situ_dtype)work->out[0]->dtype;
  situ__lt_problem *q = &l->problem;
  *l = (layer){ .places = { .alpha = 1 } };
  q->batch = 1;
  q->dtype = (uint8_t)dtype;
  if (dtype == SITU_F32) q->precision = (uint8_t)situ__host->matmul_precision();
  if (dtype != SITU_F16 && dtype != SITU_BF16 && dtype != SITU_F32) return false;
  if (!(work->op == SITU_LINEAR ? set_forward(l, work) : set_back(l, work))) return false;
  q->ld[SITU__LT_C] = q->ld[SITU__LT_D];
  q->aligned[SITU__LT_C] = q->aligned[SITU__LT_D];
  l->places.of[SITU__LT_C] = l->places.of[SITU__LT_D];
  return true;
}

static situ__lt_plan *find_plan(situ__cuda_device *d, const layer *l, situ_status *status) {
  return situ__lt_open(d, status) ? situ__lt_find(d, &l->problem, &l->places, status) : NULL;
}

situ_status situ__cuda_offers_linear(int index, const situ_work *work) {
  layer l;
  situ_status status = SITU_E_UNSUPPORTED;
  situ__cuda_device *d = set_problem(&l, work) ? situ__cuda_enter(index, "linear", &status) : NULL;
  if (!d) return status;
  const bool offered = find_plan(d, &l, &status) != NULL;
  return situ__cuda_leave(d, offered || status != SITU_OK ? status : SITU_E_UNSUPPORTED);
}

situ_status situ__cuda_linear(int index, const situ_work *work) {
  layer l;
  situ_status status = SITU_E_UNSUPPORTED;
  if (!set_problem(&l, work)) return status;
  situ__cuda_device *d = situ__cuda_enter(index, "linear", &status);
  if (!d) return status;
  situ__lt_plan *plan = find_plan(d, &l, &status);
  bool done = false;
  if (plan) status = situ__lt_run(d, plan, &l.places, &done);
  if (status == SITU_OK && !done) status = SITU_E_UNSUPPORTED;
  if (done) {
    void *const used[] = { l.places.of[SITU__LT_A], l.places.of[SITU__LT_B], l.places.of[SITU__LT_D], l.places.vector,
                           l.places.kept };
    for (int k = 0; k < 5; k++)
      if (used[k]) situ__cuda_used(d, used[k], 1);
    situ__cuda_queued(d, "linear");
    status = situ__cuda_step(d, "linear");
  }
  return situ__cuda_leave(d, status);
}
