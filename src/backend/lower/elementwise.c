/* Element-wise verbs: copies, and functions of one, two or three operands.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"
#include "kernels/dialect.h"

/* Properties of each row of the tables. */
typedef struct trait {
  const char *name, *gradient; /* names in the kernel source; NULL: none */
  bool integer, floating;      /* compute types that support it */
  bool test;                   /* the result is bool */
  uint8_t uses;                /* what its gradient reads */
  bool wide;                   /* 16 bits are cast to f32 */
} trait;
static const trait unary[SITU_UNARIES] = {
#define FLOAT(id, y, dx, u) [SITU_UNARY_##id] = { "unary_" #id, "unary_grad_" #id, false, true, false, u, false },
#define WIDE(id, y, dx, u) [SITU_UNARY_##id] = { "unary_" #id, "unary_grad_" #id, false, true, false, u, true },
#define BOTH(id, y, w, dx, u) [SITU_UNARY_##id] = { "unary_" #id, "unary_grad_" #id, true, true, false, u, false },
#define MATH BOTH
#define INTEGER(id, w) [SITU_UNARY_##id] = { "unary_" #id, NULL, true, false, false, 0, false },
#define TEST(id, y, w) [SITU_UNARY_##id] = { "unary_" #id, NULL, true, true, true, 0, false },
#include "kernels/unary.h"
};
static const trait binary[SITU_BINARIES] = {
#define FLOAT(id, y) [SITU_BINARY_##id] = { "binary_" #id, NULL, false, true, false, 0, false },
#define WIDE(id, y) [SITU_BINARY_##id] = { "binary_" #id, NULL, false, true, false, 0, true },
#define BOTH(id, y, w) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, true, false, 0, false },
#define MATH BOTH
#define INTEGER(id, w) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, false, false, 0, false },
#define TEST(id, y) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, true, true, 0, false },
#include "kernels/binary.h"
};
static const trait ternary[SITU_TERNARIES] = {
#define FLOAT(id, y) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, false, true, false, 0, false },
#define BOTH(id, y, w) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, true, true, false, 0, false },
#define SELECT(id, y) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, true, true, false, 0, false },
#include "kernels/ternary.h"
};

static bool divides(int op) {
  return op == SITU_BINARY_div_trunc || op == SITU_BINARY_div_floor || op == SITU_BINARY_fmod ||
         op == SITU_BINARY_remainder;
}

/* view[0] is y; operands follow. */
static situ_status launch(int index, const situ_work *work, int family, const char *name, situ_dtype compute, int ins,
                          const situ_view_desc *const *view) {
  situ__lower_compute type = situ__lower_compute_of(compute);
  situ__call call = { .variant = { SITU__TEXT_elementwise, .op = (uint8_t)work->op, .family = (uint8_t)family,
                                   .compute = (uint8_t)situ__lower_compute_dtype(compute) },
                      .name = name,
                      .op = situ__host->verb_name(work->verb) };
  for (int k = 0; k <= ins; k++) {
    situ__lower_buffer(&call, view[k]);
    call.variant.dtype[k] = view[k]->dtype;
  }
  walk w;
  const bool dense = situ__lower_walk(&w, 1 + ins, view);
  situ__lower_block(&call, &w, sizeof w);
  const bool faults = family == 3 && type == SITU__COMPUTE_I64 && divides(work->op);
  /* A division by 0 is reported with the op that caused it; functions of two operands have no scalar parameters of
     their own. */
  situ__lower_scalars(&call, faults ? (double[4]){ work->op } : work->scalar);
  if (family == 0 && work->outs > 1 && work->out[1] &&
      situ__lower_compute_of((situ_dtype)view[0]->dtype) != SITU__COMPUTE_I64) {
    int64_t at = work->out[1]->offset;
    call.variant.flags |= FLAG_COUNTS;
    situ__lower_buffer(&call, work->out[1]);
    situ__lower_block(&call, &at, sizeof at);
    return situ__lower_run_walk(index, &call, &w, dense, 1 + ins, view);
  }
  if (faults) {
    call.checks = true;
    call.variant.flags |= FLAG_DIVIDES;
  }
  return situ__lower_run_walk(index, &call, &w, dense, 1 + ins, view);
}

/* ---- operands of other dtypes ---------------------------------------------------------------- */

situ_status situ__lower_stand_in(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                                 situ_storage *storage) {
  situ_view_desc own = *v;
  own.numel = 1;
  for (int d = v->ndim - 1; d >= 0; d--) {
    own.size[d] = v->stride[d] == 0 ? 1 : v->size[d];
    own.stride[d] = own.numel;
    own.numel *= own.size[d];
  }
  void *memory = situ__lower_scratch(index, "cast", (size_t)own.numel * situ__lower_size(dtype));
  if (!memory) return SITU_E_NOMEM;
  *to = situ__lower_scratch_view(storage, memory, dtype, own.numel);
  to->ndim = own.ndim;
  for (int d = 0; d < own.ndim; d++) to->size[d] = own.size[d], to->stride[d] = own.stride[d];
  return SITU_OK;
}

situ_status situ__lower_cast(int index, const situ_view_desc *v, situ_dtype dtype, situ_view_desc *to,
                             situ_storage *storage) {
  situ_status status = situ__lower_stand_in(index, v, dtype, to, storage);
  if (status != SITU_OK) return status;
  situ_view_desc from = *v;
  from.numel = to->numel;
  from.contiguous = v->contiguous && from.numel == v->numel;
  for (int d = 0; d < v->ndim; d++) from.size[d] = to->size[d];
  status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { &from }, .out = { to } });
  for (int d = 0; d < v->ndim; d++) {
    if (v->stride[d] == 0) to->stride[d] = 0;
    to->size[d] = v->size[d];
  }
  to->contiguous = to->numel == v->numel;
  to->numel = v->numel;
  return status;
}

/* Casts operands whose dtype differs from `compute` first, and the result last: there is a kernel for each dtype, not
   for each combination. */
static situ_status run_with_casts(int index, const situ_work *work, int family, const char *name, bool test, int ins,
                                  const situ_view_desc *const *given) {
  const situ_view_desc *view[4] = { given[0] };
  situ_view_desc own[4];
  situ_storage storage[4] = { 0 };
  situ_status status = SITU_OK;
  const situ_dtype compute = work->compute, result = test ? SITU_BOOL : compute;
  if (given[0]->dtype != result) {
    status = situ__lower_stand_in(index, given[0], result, &own[0], &storage[0]);
    view[0] = &own[0];
  }
  for (int k = 1; k <= ins && status == SITU_OK; k++) {
    view[k] = given[k];
    bool condition = family == 4 && work->op == SITU_TERNARY_WHERE && k == 1;
    if (given[k]->dtype == compute || condition) continue;
    status = situ__lower_cast(index, given[k], compute, &own[k], &storage[k]);
    view[k] = &own[k];
  }
  if (status == SITU_OK) status = launch(index, work, family, name, compute, ins, view);
  if (status == SITU_OK && view[0] != given[0])
    status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { view[0] }, .out = { given[0] } });
  for (int k = 0; k <= ins; k++) situ__targets->release(index, storage[k].data);
  return status;
}

static bool has(const trait *row, situ_dtype compute) {
  if (row->wide && (compute == SITU_F16 || compute == SITU_BF16)) return false;
  return situ__lower_compute_of(compute) == SITU__COMPUTE_I64 ? row->integer : row->floating;
}

/* A copy within a dtype moves bytes, as an integer dtype of the same size: every bit of a NaN is kept. */
situ_status situ__lower_copy(int index, const situ_work *work) {
  situ_view_desc y = *work->out[0], x = *work->in[0];
  situ_dtype compute = (situ_dtype)x.dtype;
  if (x.dtype == y.dtype) compute = x.dtype = y.dtype = (uint8_t)situ__lower_integer_dtype(x.dtype);
  const situ_view_desc *view[] = { &y, &x };
  return launch(index, work, 0, "copy", compute, 1, view);
}

situ_status situ__lower_unary(int index, const situ_work *work) {
  const trait *row = &unary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  bool divides = work->op == SITU_UNARY_fmod_scalar || work->op == SITU_UNARY_remainder_scalar;
  if (situ__lower_compute_of(work->compute) == SITU__COMPUTE_I64 && divides && work->scalar[0] == 0)
    return situ__host->fail(SITU_E_ARG, work->op == SITU_UNARY_fmod_scalar ? "fmod" : "remainder", "division by zero");
  const situ_view_desc *view[] = { work->out[0], work->in[0] };
  return run_with_casts(index, work, 1, row->name, row->test, 1, view);
}

situ_status situ__lower_unary_grad(int index, const situ_work *work) {
  const trait *row = &unary[work->op];
  if (!row->gradient || situ__lower_compute_of(work->compute) == SITU__COMPUTE_I64 || !has(row, work->compute))
    return SITU_E_UNSUPPORTED;
  const situ_view_desc *x = work->in[0], *y = work->in[1], *g = work->in[2];
  const bool uses_x = row->uses & USES_X, uses_y = row->uses & USES_Y;
  if ((uses_x && !x) || (uses_y && !y))
    return situ__host->fail(SITU_E_ARG, "backward", "a gradient needs the %s of its function",
                            x ? "result" : "operand");
  /* A formula does not read operands that it does not use: g stands in for them. */
  const situ_view_desc *view[] = { work->out[0], uses_x ? x : g, uses_y ? y : g, g };
  return run_with_casts(index, work, 2, row->gradient, false, 3, view);
}

situ_status situ__lower_binary(int index, const situ_work *work) {
  const trait *row = &binary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1] };
  return run_with_casts(index, work, 3, row->name, row->test, 2, view);
}

situ_status situ__lower_ternary(int index, const situ_work *work) {
  const trait *row = &ternary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1], work->in[2] };
  return run_with_casts(index, work, 4, row->name, false, 3, view);
}
