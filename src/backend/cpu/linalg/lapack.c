/* Linear algebra by LAPACK.
   Matrices are row-major here and column-major there, so that the same memory is the transposed matrix: passes ask for
   that one's factors where it saves a copy.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/common/cpu.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/fail.h"
#include "base/mutex.h"
#include "base/pool.h"
#include "base/refs.h"
#include "base/size.h"
#include "lapack_library.h"
#include "backend/cpu/common/slots.h"

enum { NOT_FINITE = INT32_MIN /* beside LAPACK's answers */ };
enum { GRAIN = 1 << 15, TILE = 16, BLOCK = 64 /* columns that LAPACK takes at a time, for its workspace */ };

typedef struct job {
  const situ_work *work;
  int64_t count;       /* matrices */
  int64_t m, n, k;     /* in[0] is [.., m, n]; in[last] of a system of equations [.., n, k] */
  int64_t reals, ints; /* workspace for one matrix: numbers, then integers */
  situ__slots slots;
  uint32_t lock;  /* spins: on the stack, where no fork of another thread may look for it */
  int64_t failed; /* the first matrix that failed, or -1 */
  lapack_int why; /* what LAPACK said */
} job;

/* Of matrix number `item`: its offset in elements. Its own last `dims` dimensions are not counted. */
static int64_t offset_of(const situ_view_desc *v, int dims, int64_t item) {
  int64_t at = 0;
  for (int d = v->ndim - dims - 1; d >= 0; item /= v->size[d--]) at += item % v->size[d] * v->stride[d];
  return at;
}
static char *item_of(const situ_view_desc *v, int dims, int64_t item) {
  return situ__cpu_data(v) + offset_of(v, dims, item) * situ__cpu_size(v->dtype);
}
/* The integers in a pass's memory. */
static lapack_int *ints_of(const job *j, void *memory) {
  return (lapack_int *)(void *)((char *)memory + j->reals * situ__cpu_size(j->work->in[0]->dtype));
}
/* An argument of LAPACK: a pointer to a number, of a compound literal that lives as long as the block; the size of a
   workspace; a leading dimension. */
#define INT(number) (&(const lapack_int){ (lapack_int)(number) })
#define capacity_of(count) INT(situ__min_i64(count, INT32_MAX))
#define lead(size) INT(situ__max_i64(1, size))

static int64_t rows_of(const situ_view_desc *v) { return v->size[v->ndim - 2]; }
static int64_t columns_of(const situ_view_desc *v) { return v->size[v->ndim - 1]; }
static int64_t row_step(const situ_view_desc *v) { return v->stride[v->ndim - 2]; }
static int64_t column_step(const situ_view_desc *v) { return v->stride[v->ndim - 1]; }

/* The pivots of an LDL decomposition, which LAPACK takes for rows without a check: a row for a block of one, the same
   negative row twice for a block of two. Returns the number of the first that is not one, from 1; 0 if all are. */
static lapack_int read_pivots(const job *j, int64_t item, lapack_int *y) {
  const situ_view_desc *v = j->work->in[1];
  const char *x = item_of(v, 1, item);
  bool second = false;
  for (int64_t i = 0; i < j->n; i++) {
    const int64_t pivot =
        v->dtype == SITU_I64 ? ((const int64_t *)(const void *)x)[i] : ((const int32_t *)(const void *)x)[i];
    const bool good = second      ? pivot == y[i - 1]
                      : pivot > 0 ? pivot <= j->n
                                  : pivot < 0 && pivot >= -j->n && i + 1 < j->n;
    if (!good) return (lapack_int)(i + 1);
    y[i] = (lapack_int)pivot;
    second = pivot < 0 && !second;
  }
  return 0;
}

#define FN(name) name##_f32
#define real float
#define LAPACK situ__lapack_is.f32
#define LOG logf
#include "lapack_passes.h"
#undef LOG
#undef LAPACK
#undef real
#undef FN

#define FN(name) name##_f64
#define real double
#define LAPACK situ__lapack_is.f64
#define LOG log
#include "lapack_passes.h"
#undef LOG
#undef LAPACK
#undef real
#undef FN

/* ---- all matrices ---- */

typedef lapack_int (*pass)(const job *j, int64_t item, void *memory);
static const pass passes[SITU_LINALG_PASSES][2] = {
  [SITU_LINALG_CHOLESKY] = { cholesky_f32, cholesky_f64 },
  [SITU_LINALG_LU] = { lu_f32, lu_f64 },
  [SITU_LINALG_LU_SOLVE] = { lu_solve_f32, lu_solve_f64 },
  [SITU_LINALG_INV] = { inv_f32, inv_f64 },
  [SITU_LINALG_TRIANGULAR] = { triangular_f32, triangular_f64 },
  [SITU_LINALG_QR] = { qr_f32, qr_f64 },
  [SITU_LINALG_SVD] = { svd_f32, svd_f64 },
  [SITU_LINALG_EIGH] = { eigh_f32, eigh_f64 },
  [SITU_LINALG_LSTSQ] = { lstsq_f32, lstsq_f64 },
  [SITU_LINALG_EXP] = { exponential_f32, exponential_f64 },
  [SITU_LINALG_LDL] = { ldl_f32, ldl_f64 },
  [SITU_LINALG_LDL_SOLVE] = { ldl_solve_f32, ldl_solve_f64 },
};

/* Numbers in the workspace: matrices that a pass copies first, and what LAPACK's blocked algorithms like. A double, as
   sizes of an expanded operand may be anything. */
static double reals_of(const job *j) {
  const double m = (double)j->m, n = (double)j->n, k = (double)j->k, least = fmin(m, n), blocks = BLOCK * (m + n + 1);
  switch ((situ_linalg_pass)j->work->op) {
  case SITU_LINALG_INV: return BLOCK * n;
  case SITU_LINALG_TRIANGULAR: return m * n;
  case SITU_LINALG_QR: return m * n + least + blocks;
  case SITU_LINALG_SVD: return m * n + 4 * least * least + 7 * least + 4 * (m + n) + blocks;
  case SITU_LINALG_EIGH: return 3 * n * n + 6 * n + 1 + blocks;
  case SITU_LINALG_LSTSQ: return m * n + fmax(1, fmax(m, n)) * k + 3 * (least + n) + blocks + BLOCK * k;
  case SITU_LINALG_EXP: return 6 * n * n;
  case SITU_LINALG_LDL: return fmax(1, BLOCK * n);
  case SITU_LINALG_LDL_SOLVE: return 1; /* the pivots are integers */
  default: return 0;
  }
}

static void note(job *j, int64_t item, lapack_int why) {
  situ__spin_lock(&j->lock);
  if (j->failed < 0 || item < j->failed) j->failed = item, j->why = why;
  situ__spin_unlock(&j->lock);
}

static situ__mutex turn = SITU__MUTEX_INIT;

static void run(int64_t begin, int64_t end, void *payload) {
  job *j = payload;
  const pass one = passes[j->work->op][j->work->in[0]->dtype == SITU_F64];
  const bool alone = situ__lapack_is.alone;
  void *memory = situ__slots_take(&j->slots);
  if (alone) situ__mutex_lock(&turn);
  for (int64_t item = begin; item < end; item++) {
    const lapack_int why = one(j, item, memory);
    if (why) note(j, item, why);
  }
  if (alone) situ__mutex_unlock(&turn);
  situ__slots_give(&j->slots, memory);
}

static situ_status report(const job *j) {
  char batch[64] = "";
  if (j->work->in[0]->ndim > 2)
    (void)snprintf(batch, sizeof batch, "(matrix %lld of the batch) ", (long long)j->failed);
  if (j->why < 0 && j->why != NOT_FINITE)
    return situ__fail(
        SITU_E_UNSUPPORTED, "linalg",
        "%sLAPACK refuses argument %d of its function: the library is not a usual one; name another by %s", batch,
        -(int)j->why, situ__lapack_library.variable);
  switch ((situ_linalg_pass)j->work->op) {
  case SITU_LINALG_SVD:
  case SITU_LINALG_EIGH:
  case SITU_LINALG_LSTSQ:
    if (j->why == NOT_FINITE) return situ__fail(SITU_E_ARG, "linalg", "%sthe matrix has NaN or infinity", batch);
    return situ__fail(SITU_E_ARG, "linalg", "%sno convergence (LAPACK's answer: %d)", batch, (int)j->why);
  case SITU_LINALG_CHOLESKY:
    return situ__fail(SITU_E_ARG, "linalg",
                      "%sinput is not positive definite: its leading minor of order %d is not positive", batch,
                      (int)j->why);
  case SITU_LINALG_LDL:
    return situ__fail(SITU_E_ARG, "linalg", "%sthe matrix is singular: element %d of D's diagonal is 0", batch,
                      (int)j->why);
  case SITU_LINALG_LDL_SOLVE:
    return situ__fail(SITU_E_INDEX, "linalg",
                      "%spivots[%d] is not a pivot: 1 to %lld, or a pair of equal ones from -%lld to -1", batch,
                      (int)j->why - 1, (long long)j->n, (long long)j->n);
  default:
    return situ__fail(SITU_E_ARG, "linalg", "%sthe matrix is singular: element %d of U's diagonal is 0", batch,
                      (int)j->why);
  }
}

situ_status situ__cpu_offers_linalg(void) {
  situ__problem problem;
  if (situ__library_need(&situ__lapack_library, &problem)) return SITU_OK;
  return situ__fail(problem.status, "linalg", "%s", problem.text);
}

situ_status situ__cpu_linalg(int index, const situ_work *work) {
  (void)index;
  const situ_status there = situ__cpu_offers_linalg();
  if (there != SITU_OK) return there;
  const situ_view_desc *a = work->in[0], *last = work->in[work->ins - 1];
  job j = { .work = work, .count = 1, .m = rows_of(a), .n = columns_of(a), .k = columns_of(last), .failed = -1 };
  for (int d = 0; d < a->ndim - 2; d++) j.count *= a->size[d];
  const double reals = reals_of(&j),
               steps = (double)j.m * (double)j.n * fmax(fmin((double)j.m, (double)j.n), (double)j.k);
  if (reals > 0x1p50) return situ__no_memory("linalg", SIZE_MAX);
  j.reals = (int64_t)reals, j.ints = reals > 0 ? 8 * (j.m + j.n) + 3 : 0;
  const int64_t grain = (int64_t)fmax(1, GRAIN / fmax(1, steps));
  const size_t bytes = (size_t)(j.reals * situ__cpu_size(a->dtype)) + (size_t)j.ints * sizeof(lapack_int);
  const situ_status status = situ__slots_open(&j.slots, "linalg", bytes, situ__ceil_div(j.count, grain));
  if (status != SITU_OK) return status;
  situ__parallel(j.count, grain, run, &j);
  situ__slots_close(&j.slots);
  return j.failed < 0 ? SITU_OK : report(&j);
}
