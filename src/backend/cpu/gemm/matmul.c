/* The matmul verb: reduces batches, strides and dtypes to plain products, and takes the first algorithm that suits.
   SPDX-License-Identifier: MIT */
#include "algorithm.h"
#include "backend/cpu/common/operand.h"
#include "packed.h"

#include "base/fail.h"
#include "base/pool.h"
#include "base/size.h"
#include "device/profile/profile.h"

#include <string.h>

/* ---- describing the problem ---- */

static bool follows(const situ__steps *outer, const situ__steps *inner) {
  return outer->a == inner->a * inner->count && outer->b == inner->b * inner->count &&
         outer->c == inner->c * inner->count && outer->bias == inner->bias * inner->count;
}

/* Appends a dimension, outermost first; merges contiguous neighbours. */
static void add_dim(situ__matmul *p, situ__steps s) {
  p->items *= s.count;
  if (s.count == 1) return;
  if (p->dims > 0 && follows(&p->batch[p->dims - 1], &s)) {
    s.count *= p->batch[p->dims - 1].count;
    p->dims--;
  }
  p->batch[p->dims++] = s;
}

/* A batch that shares b is one product with more rows. */
static void fold_rows(situ__matmul *p) {
  if (p->dims == 0) return;
  const situ__steps *last = &p->batch[p->dims - 1];
  const bool bias_fits = !p->bias || last->bias == p->bias_row * p->g.m;
  if (last->b != 0 || last->a != p->g.a_row * p->g.m || last->c != p->g.c_row * p->g.m || !bias_fits) return;
  p->g.m *= last->count;
  p->items /= last->count;
  p->dims--;
}

/* c's columns must be contiguous: if its rows are, computes c^T = b^T a^T. */
static bool wants_transpose(const situ_view_desc *y) {
  const int64_t row = y->stride[y->ndim - 2], col = y->stride[y->ndim - 1];
  return row == 1 && (col != 1 || y->size[y->ndim - 1] == 1);
}

/* The operands of the product that is computed, c = a b or c^T = b^T a^T, and the dimensions that are its rows and its
   columns. */
typedef struct sides {
  const situ_view_desc *a, *b, *bias, *y;
  int row, col;
} sides;

static inline sides sides_of(const situ_view_desc *a, const situ_view_desc *b, const situ_view_desc *bias,
                             const situ_view_desc *y) {
  const int r = y->ndim - 2, c = y->ndim - 1;
  return wants_transpose(y) ? (sides){ b, a, bias, y, c, r } : (sides){ a, b, bias, y, r, c };
}

/* The product of the first item of the batch. */
static inline void set_gemm(situ__gemm *g, const situ_work *w, const sides *s) {
  const situ_view_desc *a = s->a, *b = s->b, *y = s->y;
  g->dtype = (situ_dtype)y->dtype;
  g->m = y->size[s->row];
  g->n = y->size[s->col];
  g->k = a->size[s->col];
  g->a = situ__cpu_data(a);
  g->b = situ__cpu_data(b);
  g->c = situ__cpu_data(y);
  g->a_row = a->stride[s->row];
  g->a_col = a->stride[s->col];
  g->b_row = b->stride[s->row];
  g->b_col = b->stride[s->col];
  g->c_row = y->stride[s->row];
  g->alpha = w->scalar[0];
  g->add = s->bias != NULL;
  g->from = NULL;
  g->from_row = 0;
}

static void describe(situ__matmul *p, const situ_work *w, const sides *s) {
  const situ_view_desc *bias = s->bias;
  memset(p, 0, offsetof(situ__matmul, batch));
  set_gemm(&p->g, w, s);
  p->elem = situ__cpu_size(s->y->dtype);
  p->beta = w->scalar[1];
  p->items = 1;
  if (bias) {
    p->bias = situ__cpu_data(bias);
    p->bias_row = bias->stride[s->row];
    p->bias_col = bias->stride[s->col];
  }
  for (int d = 0; d < s->y->ndim - 2; d++)
    add_dim(p, (situ__steps){ s->y->size[d], s->a->stride[d], s->b->stride[d], s->y->stride[d],
                              bias ? bias->stride[d] : 0 });
  fold_rows(p);
}

/* ---- integers: exact, wrapping as their dtype does ---- */

static void integer_rows(int64_t begin, int64_t end, void *payload) {
  const situ__matmul *p = payload;
  const uint64_t alpha = (uint64_t)(int64_t)p->g.alpha, beta = (uint64_t)(int64_t)p->beta;
  for (int64_t row = begin; row < end; row++) {
    const int64_t i = row % p->g.m;
    int64_t item = row / p->g.m, a = i * p->g.a_row, b = 0, c = i * p->g.c_row, bias = i * p->bias_row;
    for (int d = p->dims - 1; d >= 0; item /= p->batch[d--].count) {
      const int64_t at = item % p->batch[d].count;
      a += at * p->batch[d].a, b += at * p->batch[d].b, c += at * p->batch[d].c, bias += at * p->batch[d].bias;
    }
    const uint64_t *x = (const uint64_t *)p->g.a, *y = (const uint64_t *)p->g.b,
                   *from = (const uint64_t *)(const void *)p->bias;
    uint64_t *to = (uint64_t *)p->g.c + c;
    for (int64_t j = 0; j < p->g.n; j++) to[j] = from ? beta * from[bias + j * p->bias_col] : 0;
    for (int64_t q = 0; q < p->g.k; q++) {
      const uint64_t factor = alpha * x[a + q * p->g.a_col];
      for (int64_t j = 0; j < p->g.n; j++) to[j] += factor * y[b + q * p->g.b_row + j * p->g.b_col];
    }
  }
}

static bool suits_integer(const situ__matmul *p) { return p->g.dtype == SITU_I64; }
static situ_status run_integer(situ__matmul *p) {
  const int64_t rows = situ__max_i64(1, SITU__MATMUL_SMALL / (p->g.n * p->g.k + 1));
  situ__parallel(p->items * p->g.m, rows, integer_rows, p);
  return SITU_OK;
}

/* ---- the table ---- */

/* A small product is done before other threads would wake. */
static bool suits_small(const situ__matmul *p) {
  return situ__matmul_is_real(p) && p->items == 1 &&
         situ__matmul_cost((double)p->g.m, (double)p->g.n, (double)p->g.k) <= SITU__MATMUL_SMALL &&
         situ__gemm_is_small(&p->g);
}
static situ_status run_small(situ__matmul *p) {
  if (p->bias) situ__matmul_start_from(p, p->bias, &p->g);
  return situ__gemm_small(&p->g) ? SITU_OK : SITU_E_UNSUPPORTED;
}

static const situ__matmul_algorithm small = { "small", suits_small, run_small, SITU__ISA_BASE },
                                    integer = { "integer", suits_integer, run_integer, SITU__ISA_BASE },
                                    tiles = { "tiles", situ__matmul_is_real, situ__matmul_by_tiles, SITU__ISA_BASE };
extern const situ__matmul_algorithm situ__matmul_gemv, situ__matmul_split_k, situ__matmul_amx, situ__matmul_bf16_dot,
    situ__matmul_packed;

enum { SMALL, ROWS = 8 };
const situ__matmul_algorithm *const situ__matmul_rows[ROWS] = {
  [SMALL] = &small,     &integer, &situ__matmul_gemv, &situ__matmul_split_k, &situ__matmul_amx, &situ__matmul_bf16_dot,
  &situ__matmul_packed, &tiles,
};

static const char *name_of(int row) { return row < ROWS ? situ__matmul_rows[row]->name : NULL; }
situ__algorithm_choice situ__matmul_choice = { .variable = "SITU_CPU_MATMUL", .name_of = name_of };

/* The rows that suit: a bit for each. */
static uint32_t suiting(const situ__matmul *p) {
  uint32_t bits = 0;
  for (int i = 0; i < ROWS; i++) bits |= (uint32_t)situ__matmul_rows[i]->suits(p) << i;
  return bits;
}

/* Returns SITU_E_UNSUPPORTED if no row suits that may run. */
static situ_status run_rows(situ__matmul *p) {
  const int choice = situ__choice_of(&situ__matmul_choice);
  situ_status status = SITU_E_UNSUPPORTED;
  for (int i = 0; i < ROWS && status == SITU_E_UNSUPPORTED; i++) {
    if (situ__choice_allows(choice, i) && situ__matmul_rows[i]->suits(p)) status = situ__matmul_rows[i]->run(p);
    if (status != SITU_E_UNSUPPORTED) situ__profile_algorithm(situ__matmul_rows[i]->name);
  }
  return status;
}

/* ---- the verb ---- */

/* Operands of 16 bits are packed, and converted only then if they must be; SITU_E_UNSUPPORTED: that is not faster. */
static situ_status run_direct(const situ_work *w, const situ_view_desc *a, const situ_view_desc *b,
                              const situ_view_desc *bias, const situ_view_desc *y) {
  const sides s = sides_of(a, b, bias, y);
  situ__matmul p;
  describe(&p, w, &s);
  if (p.elem != 2 && w->ins > 3 && w->in[3] && p.items == 1 && p.g.b == situ__cpu_data(b))
    p.packed_b = situ__cpu_data(w->in[3]);
  const situ_status status = run_rows(&p);
  return status == SITU_E_UNSUPPORTED && p.elem != 2 ? situ__choice_refuse(&situ__matmul_choice, "matmul", suiting(&p))
                                                     : status;
}

/* A small product of two matrices is done before it would be described. Returns false for others, which have at most
   been started. */
static inline bool run_at_once(const situ_work *w, const situ_view_desc *bias) {
  const sides s = sides_of(w->in[0], w->in[1], bias, w->out[0]);
  situ__gemm g;
  set_gemm(&g, w, &s);
  if (situ__matmul_cost((double)g.m, (double)g.n, (double)g.k) > SITU__MATMUL_SMALL) return false;
  if (bias)
    situ__matmul_start_at(
        &(situ__matmul_start){ situ__cpu_data(bias), bias->stride[s.row], bias->stride[s.col], w->scalar[1] }, &g);
  return situ__gemm_small(&g);
}

/* Copies operands whose dtype or layout the product cannot use, then runs it. */
static SITU_COLD situ_status run_copies(const situ_work *w, const situ_view_desc *bias, situ_dtype dtype,
                                        bool ordered) {
  const char *op = "matmul";
  situ__cpu_operand a = { 0 }, b = { 0 }, x = { 0 }, y = { 0 };
  situ_status status = situ__operand_in(&a, op, w->in[0], dtype);
  if (status == SITU_OK) status = situ__operand_in(&b, op, w->in[1], dtype);
  if (status == SITU_OK) status = situ__operand_in(&x, op, bias, dtype);
  if (status == SITU_OK) status = situ__operand_out(&y, op, w->out[0], dtype, ordered);
  if (status == SITU_OK) status = run_direct(w, a.view, b.view, x.view, y.view);
  if (status == SITU_OK) situ__operand_write(&y);
  situ__operand_close(&a);
  situ__operand_close(&b);
  situ__operand_close(&x);
  situ__operand_close(&y);
  return status;
}

situ_status situ__cpu_matmul(int index, const situ_work *w) {
  (void)index;
  if (w->compute == SITU_BOOL) return SITU_E_UNSUPPORTED;
  const situ_dtype dtype = situ__cpu_compute_dtype(w->compute);
  const situ_view_desc *bias = w->ins > 2 && w->scalar[1] != 0 ? w->in[2] : NULL, *y = w->out[0];
  const bool ordered = y->stride[y->ndim - 1] == 1 || wants_transpose(y);
  const bool same =
      w->in[0]->dtype == dtype && w->in[1]->dtype == dtype && y->dtype == dtype && (!bias || bias->dtype == dtype);
  if (same && ordered && y->ndim == 2 && dtype != SITU_I64 &&
      situ__choice_allows(situ__choice_of(&situ__matmul_choice), SMALL) && run_at_once(w, bias)) {
    situ__profile_algorithm(small.name);
    return SITU_OK;
  }
  const bool halves = (w->compute == SITU_BF16 || w->compute == SITU_F16) && w->in[0]->dtype == w->compute &&
                      w->in[1]->dtype == w->compute && y->dtype == w->compute && (!bias || bias->dtype == w->compute);
  if (ordered && (same || halves)) {
    const situ_status status = run_direct(w, w->in[0], w->in[1], bias, y);
    if (same || status != SITU_E_UNSUPPORTED) return status;
  }
  return run_copies(w, bias, dtype, ordered);
}

/* ---- weights that are prepacked ---- */

/* The first factor's columns follow each other, as those of activations do. */
static situ__matmul prepack_of(const situ_work *w) {
  const situ_view_desc *b = w->in[0];
  return (situ__matmul){ .elem = situ__cpu_size(b->dtype),
                         .items = 1,
                         .same = w->integer[1] != 0,
                         .g = { .dtype = (situ_dtype)b->dtype,
                                .m = w->integer[0],
                                .n = b->size[1],
                                .k = b->size[0],
                                .a_row = b->size[0],
                                .a_col = 1,
                                .b = b->storage ? situ__cpu_data(b) : NULL,
                                .b_row = b->stride[0],
                                .b_col = b->stride[1] } };
}

situ_status situ__cpu_offers_matmul_prepack(const situ_work *w) {
  const situ__matmul p = prepack_of(w);
  return situ__packed_offers_prepack(&p) ? SITU_OK : SITU_E_UNSUPPORTED;
}

situ_status situ__cpu_matmul_prepack(const situ_work *w) {
  situ__matmul p = prepack_of(w);
  return situ__packed_prepack(&p, situ__cpu_data(w->out[0]));
}
