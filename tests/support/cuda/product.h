/* A matrix product of the cuda backend's, as views of memory, and the same with plain loops.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_PRODUCT_H
#define SITU_CUDA_PRODUCT_H

#include <string.h>

#include "device/launch/launch.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"

__extension__ typedef _Float16 half;
enum { SPACE = 8192, A = 0, B, BIAS, Y, OPERANDS };

/* ---- a product, as views of memory ----------------------------------------------------------- */

typedef struct spot {
  int64_t at, first, second, row, column; /* elements */
} spot;

typedef struct product {
  const char *name;
  int64_t batch[2], m, n, k;
  spot of[OPERANDS];
  double alpha, beta; /* beta 0: without a bias */
  int products;       /* calls of cuBLASLt; 0: made by kernels of situ's own */
  bool copied;        /* the bias is laid into y first */
} product;

static inline size_t size_of(situ_dtype d) { return d == SITU_F64 ? 8 : d == SITU_F32 || d == SITU_I32 ? 4 : 2; }

/* Numbers that every dtype has, and whose sums it has. */
static inline void put(situ_dtype dtype, void *base, int64_t at, double value) {
  const float narrow = (float)value;
  uint32_t bits;
  memcpy(&bits, &narrow, sizeof bits);
  switch (dtype) {
  case SITU_F16: ((half *)base)[at] = (half)narrow; break;
  case SITU_BF16: ((uint16_t *)base)[at] = (uint16_t)(bits >> 16); break;
  case SITU_F32: ((float *)base)[at] = narrow; break;
  case SITU_F64: ((double *)base)[at] = value; break;
  default: ((int32_t *)base)[at] = (int32_t)value; break;
  }
}
static inline double get(situ_dtype dtype, const void *base, int64_t at) {
  uint32_t bits;
  float narrow;
  switch (dtype) {
  case SITU_F16: return (double)(float)((const half *)base)[at];
  case SITU_F32: return (double)((const float *)base)[at];
  case SITU_F64: return ((const double *)base)[at];
  case SITU_BF16:
    bits = (uint32_t)((const uint16_t *)base)[at] << 16;
    memcpy(&narrow, &bits, sizeof narrow);
    return (double)narrow;
  default: return (double)((const int32_t *)base)[at];
  }
}
static inline double number(int operand, int64_t at) {
  return operand == Y ? 99 : (double)((at * 7 + at / 5 + operand * 3) % 5 - 2);
}

static int64_t place(const spot *s, int64_t i, int64_t j, int64_t r, int64_t c) {
  return s->at + i * s->first + j * s->second + r * s->row + c * s->column;
}

static inline double expected(const product *p, const double *const *in, int64_t i, int64_t j, int64_t r, int64_t c) {
  double sum = 0;
  for (int64_t k = 0; k < p->k; k++) sum += in[A][place(&p->of[A], i, j, r, k)] * in[B][place(&p->of[B], i, j, k, c)];
  sum *= p->alpha;
  return p->beta == 0 ? sum : sum + p->beta * in[BIAS][place(&p->of[BIAS], i, j, r, c)];
}

static inline situ_view_desc view(const product *p, int operand, situ_storage *storage, situ_dtype dtype) {
  const spot *s = &p->of[operand];
  const int64_t rows = operand == B ? p->k : p->m, columns = operand == A ? p->k : p->n;
  situ_view_desc v = { .storage = storage,
                       .dtype = (uint8_t)dtype,
                       .ndim = 4,
                       .offset = s->at,
                       .numel = p->batch[0] * p->batch[1] * rows * columns };
  const int64_t size[] = { p->batch[0], p->batch[1], rows, columns },
                stride[] = { s->first, s->second, s->row, s->column };
  for (int d = 0; d < 4; d++) v.size[d] = size[d], v.stride[d] = stride[d];
  return v;
}

/* Runs it on a device, with storages of `dtype`; b's may be another. Values, all of y's memory, are written to `out`. */
static inline situ_status launch(const product *p, const char *device, situ_dtype dtype, situ_dtype of_b, double *out) {
  situ_storage *store[OPERANDS] = { NULL };
  situ_view_desc v[OPERANDS];
  void *memory = malloc(SPACE * sizeof(double));
  situ_status status = SITU_OK;
  CHECK(memory != NULL);
  for (int k = 0; k < OPERANDS && status == SITU_OK; k++) {
    const situ_dtype own = k == B ? of_b : dtype;
    for (int64_t at = 0; at < SPACE; at++) put(own, memory, at, number(k, at));
    store[k] = situ__storage_new("test", situ_dev(device), SPACE * size_of(own));
    status = !store[k] ? situ_error()
                       : situ__copy_from_host("test", store[k], 0, memory, SPACE * size_of(own), SITU__COPY_USER);
    v[k] = view(p, k, store[k], own);
  }
  if (status == SITU_OK)
    status = situ__run("matmul", situ_dev(device),
                       &(situ_work){ .verb = SITU_VERB_MATMUL,
                                     .ins = 3,
                                     .outs = 1,
                                     .compute = dtype,
                                     .in = { &v[A], &v[B], p->beta == 0 ? NULL : &v[BIAS] },
                                     .out = { &v[Y] },
                                     .scalar = { p->alpha, p->beta } });
  if (status == SITU_OK)
    status = situ__copy_to_host("test", store[Y], 0, memory, SPACE * size_of(dtype), SITU__COPY_USER);
  for (int64_t at = 0; at < SPACE && status == SITU_OK; at++) out[at] = get(dtype, memory, at);
  for (int k = 0; k < OPERANDS; k++) situ__storage_release(store[k]);
  free(memory);
  return status;
}

/* y is right, and what lies between and around its elements is as it was. */
static inline void look_at(const product *p, const double *got) {
  static double in[OPERANDS][SPACE], want[SPACE];
  const double *const from[] = { in[A], in[B], in[BIAS] };
  for (int k = 0; k < OPERANDS; k++)
    for (int64_t at = 0; at < SPACE; at++) in[k][at] = number(k, at);
  memcpy(want, in[Y], sizeof want);
  for (int64_t i = 0; i < p->batch[0]; i++)
    for (int64_t j = 0; j < p->batch[1]; j++)
      for (int64_t r = 0; r < p->m; r++)
        for (int64_t c = 0; c < p->n; c++) want[place(&p->of[Y], i, j, r, c)] = expected(p, from, i, j, r, c);
  for (int64_t at = 0; at < SPACE; at++) {
    if (got[at] != want[at])
      (void)fprintf(stderr, "%s: y[%lld] is %g, not %g\n", p->name, (long long)at, got[at], want[at]);
    CHECK(got[at] == want[at]);
  }
}

/* Mixtures of dtypes that no op asks for have no kernel: that is said then, and is no other error. */
static inline bool without_kernels(situ_status status) {
  if (status != SITU_E_UNSUPPORTED) return false;
  CHECK_ERROR(SITU_E_UNSUPPORTED, "this build of situ has no CUDA kernel");
  return true;
}

#endif
