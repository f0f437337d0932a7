/* Matrix products by cuBLASLt, if it is installed and supports the problem; else by situ's own kernels
   (backend/lower/matmul.c). cuBLASLt is column-major: a row-major y is computed as the transposed product of the
   transposed factors.
   SPDX-License-Identifier: MIT */
#include "backend/cuda/lt.h"

/* ---- the problem ---------------------------------------------------------------------------- */

/* Indices of the operands in the walk of a batch. */
enum { Y, A, B, BIAS };

typedef struct product {
  const situ_work *work;
  const walk *batch;
  const products *s;
  const situ_view_desc *bias; /* NULL: absent, or scaled by 0, when not even its NaN counts */
  situ__lt_problem problem;
  int source[SITU__LT_OPERANDS]; /* the operand that is A, B, C and D */
  int inner;                     /* dimension of the batch that goes into one call; -1: none */
} product;

static const situ_view_desc *view_of(const product *p, int operand) {
  return operand == Y ? p->work->out[0] : p->work->in[operand - 1];
}

/* True if the matrix is column-major. */
static bool lies(int64_t rows, int64_t columns, int64_t row, int64_t column, int64_t *ld) {
  if ((rows > 1 && row != 1) || (columns > 1 && column < rows)) return false;
  *ld = columns > 1 ? column : rows;
  return true;
}

static bool factor(situ__lt_problem *q, int k, int64_t rows, int64_t columns, int64_t row, int64_t column) {
  q->turned[k] = !lies(rows, columns, row, column, &q->ld[k]);
  return !q->turned[k] || lies(columns, rows, column, row, &q->ld[k]);
}

/* y and its factors, swapped and transposed if y is row-major. */
static bool set_matrices(product *p) {
  situ__lt_problem *q = &p->problem;
  const products *s = p->s;
  q->k = s->k;
  if (lies(s->n, s->m, s->y_col, s->y_row, &q->ld[SITU__LT_D])) {
    q->m = s->n, q->n = s->m;
    p->source[SITU__LT_A] = B, p->source[SITU__LT_B] = A;
    return factor(q, SITU__LT_A, q->m, q->k, s->b_col, s->b_row) &&
           factor(q, SITU__LT_B, q->k, q->n, s->a_col, s->a_row);
  }
  q->m = s->m, q->n = s->n;
  p->source[SITU__LT_A] = A, p->source[SITU__LT_B] = B;
  return lies(s->m, s->n, s->y_row, s->y_col, &q->ld[SITU__LT_D]) &&
         factor(q, SITU__LT_A, q->m, q->k, s->a_row, s->a_col) && factor(q, SITU__LT_B, q->k, q->n, s->b_row, s->b_col);
}

/* One call computes the largest dimension of the batch; the others take a call for each item. */
static bool set_batch(product *p) {
  enum { CALLS = 64 }; /* more calls cost more than one kernel for all */
  const walk *w = p->batch;
  p->inner = (int)w->ndim - 1;
  for (int d = 0; d < w->ndim; d++)
    if (w->size[d] > w->size[p->inner]) p->inner = d;
  const int64_t size = p->inner < 0 ? 1 : w->size[p->inner];
  p->problem.batch = (int32_t)size;
  bool forward = true;
  for (int k = Y; p->inner >= 0 && k <= BIAS; k++) forward = forward && w->stride[k][p->inner] >= 0;
  return forward && size <= INT32_MAX && w->numel / size <= CALLS;
}

/* Without a bias matrix: C is D, multiplied by 0. */
static void set_sum(product *p, int operand, int64_t ld) {
  p->source[SITU__LT_C] = operand, p->source[SITU__LT_D] = Y;
  p->problem.ld[SITU__LT_C] = ld;
}

/* Supported: floating, one dtype, no empty sizes. A factor of 0 turns NaN into 0 in cuBLASLt, but must keep it here. */
static bool of_its_kind(const product *p) {
  const situ_work *w = p->work;
  const situ_dtype dtype = (situ_dtype)w->out[0]->dtype;
  const situ_dtype compute = w->compute ? w->compute : dtype;
  return dtype >= SITU_F16 && w->in[0]->dtype == dtype && w->in[1]->dtype == dtype &&
         situ__lower_compute_of(compute) == situ__lower_compute_of(dtype) && w->scalar[0] != 0 && p->s->k > 0;
}

/* ---- layout of operands ---------------------------------------------------------------------- */

static char *address(const product *p, int operand, int64_t call) {
  const situ_view_desc *v = view_of(p, operand);
  int64_t at = p->batch->offset[operand];
  for (int d = (int)p->batch->ndim - 1; d >= 0; d--) {
    if (d == p->inner) continue;
    at += call % p->batch->size[d] * p->batch->stride[operand][d];
    call /= p->batch->size[d];
  }
  return (char *)v->storage->data + at * (int64_t)situ__lower_size(v->dtype);
}

/* The power of 2 that all of the operand's matrices are aligned to; cuBLASLt uses no more than 256 bytes. */
static uint8_t alignment(const product *p, int operand) {
  enum { MOST = 256 };
  uintptr_t bits = MOST | (uintptr_t)address(p, operand, 0);
  for (int d = 0; d < p->batch->ndim; d++)
    bits |= (uintptr_t)p->batch->stride[operand][d] * situ__lower_size(view_of(p, operand)->dtype);
  return (uint8_t)__builtin_ctzll(bits);
}

static void set_places(product *p, bool vector) {
  situ__lt_problem *q = &p->problem;
  for (int k = 0; k < SITU__LT_OPERANDS; k++) {
    q->apart[k] = p->inner < 0 ? 0 : p->batch->stride[p->source[k]][p->inner];
    q->aligned[k] = alignment(p, p->source[k]);
  }
  q->epilogue = vector ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  q->aligned[SITU__LT_OPERANDS] = vector ? alignment(p, BIAS) : 0;
}

/* ---- the bias ------------------------------------------------------------------------------- */

/* True if it is one vector along cuBLASLt's columns, for the whole batch. */
static bool is_vector(const product *p) {
  const products *s = p->s;
  const bool turned = p->source[SITU__LT_A] == B;
  const int64_t along = turned ? s->bias_col : s->bias_row, across = turned ? s->bias_row : s->bias_col;
  bool one = (along == 1 || p->problem.m == 1) && (across == 0 || p->problem.n == 1);
  for (int d = 0; d < p->batch->ndim; d++) one = one && p->batch->stride[BIAS][d] == 0;
  return one && p->work->scalar[1] == 1 && p->bias->dtype == p->problem.dtype;
}

static bool is_matrix(const product *p, int64_t *ld) {
  const products *s = p->s;
  if (p->bias->dtype != p->problem.dtype) return false;
  return p->source[SITU__LT_A] == B ? lies(s->n, s->m, s->bias_col, s->bias_row, ld)
                                    : lies(s->m, s->n, s->bias_row, s->bias_col, ld);
}

/* An operand as a view of y's sizes. */
static situ_view_desc full_view(const product *p, int operand, int64_t row, int64_t column) {
  const walk *w = p->batch;
  situ_view_desc v = *view_of(p, operand);
  v.ndim = (uint8_t)(w->ndim + 2);
  v.numel = w->numel * p->s->m * p->s->n;
  v.contiguous = false;
  for (int d = 0; d < w->ndim; d++) v.size[d] = w->size[d], v.stride[d] = w->stride[operand][d];
  v.size[w->ndim] = p->s->m, v.stride[w->ndim] = row;
  v.size[w->ndim + 1] = p->s->n, v.stride[w->ndim + 1] = column;
  return v;
}

/* y = bias; the product is added to it then. */
static situ_status lay_bias(situ__cuda_device *d, const product *p) {
  situ_view_desc from = full_view(p, BIAS, p->s->bias_row, p->s->bias_col),
                 to = full_view(p, Y, p->s->y_row, p->s->y_col);
  return situ__lower_copy(d->target.index, &(situ_work){ SITU_VERB_COPY, .compute = (situ_dtype)to.dtype, .ins = 1,
                                                         .outs = 1, .in = { &from }, .out = { &to } });
}

/* ---- the call ------------------------------------------------------------------------------- */

static situ__lt_places places_of(const product *p, int64_t call) {
  const bool vector = p->problem.epilogue == CUBLASLT_EPILOGUE_BIAS, added = p->bias && !vector;
  situ__lt_places at = { .vector = vector ? address(p, BIAS, call) : NULL,
                         .alpha = p->work->scalar[0],
                         .beta = added ? p->work->scalar[1] : 0 };
  for (int k = 0; k < SITU__LT_OPERANDS; k++) at.of[k] = address(p, p->source[k], call);
  return at;
}

/* SITU_OK without *done: cuBLASLt refused it, and y may have been overwritten. */
static situ_status run_plan(situ__cuda_device *d, const product *p, situ__lt_plan *plan, bool *done) {
  const int64_t calls = p->batch->numel / p->problem.batch;
  for (int64_t call = 0; call < calls; call++) {
    const situ__lt_places at = places_of(p, call);
    *done = false;
    const situ_status status = situ__lt_run(d, plan, &at, done);
    if (!*done) return status;
  }
  for (int k = 0; k < (p->bias ? 4 : 3); k++) situ__cuda_used(d, view_of(p, k)->storage->data, 1);
  situ__cuda_queued(d, "matmul");
  return situ__cuda_step(d, "matmul");
}

static situ__lt_plan *find_plan(situ__cuda_device *d, const product *p, situ_status *status) {
  const situ__lt_places at = places_of(p, 0);
  return situ__lt_find(d, &p->problem, &at, status);
}

/* Passes the bias as an epilogue's vector if it is one and cuBLASLt supports that; else as matrix C, which is y itself
   if the bias must be broadcast first. */
static situ_status multiply(situ__cuda_device *d, product *p, bool *done) {
  situ_status status;
  situ__lt_problem *q = &p->problem;
  set_sum(p, Y, q->ld[SITU__LT_D]);
  const bool vector = p->bias && is_vector(p);
  set_places(p, vector);
  situ__lt_plan *plan = find_plan(d, p, &status);
  if (status != SITU_OK || !p->bias || (vector && plan)) return plan ? run_plan(d, p, plan, done) : status;
  int64_t ld;
  const bool matrix = is_matrix(p, &ld);
  if (matrix) set_sum(p, BIAS, ld);
  set_places(p, false);
  plan = find_plan(d, p, &status);
  if (plan && !matrix) status = lay_bias(d, p);
  return plan && status == SITU_OK ? run_plan(d, p, plan, done) : status;
}

bool situ__cuda_product(situ__target *target, const situ_work *work, const walk *batch, const products *s,
                        situ_status *status) {
  situ__cuda_device *d = (situ__cuda_device *)target;
  product p = { .work = work, .batch = batch, .s = s };
  if (work->ins > 2 && work->scalar[1] != 0) p.bias = work->in[BIAS - 1];
  if (!of_its_kind(&p) || !set_matrices(&p) || !set_batch(&p)) return false;
  p.problem.dtype = (uint8_t)work->out[0]->dtype;
  if (p.problem.dtype == SITU_F32) p.problem.precision = (uint8_t)situ__host->matmul_precision();
  bool done = false;
  if (situ__lt_open(d, status)) *status = multiply(d, &p, &done);
  return done || *status != SITU_OK;
}
