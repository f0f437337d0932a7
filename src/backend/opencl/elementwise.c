/* Element-wise verbs: copies, and functions of one, two or three operands.
   SPDX-License-Identifier: MIT */
#include "backend/opencl/opencl.h"
#include "kernels/dialect.h"

/* What is known of each row besides its formulas. */
typedef struct trait {
  const char *name, *gradient; /* in the text; NULL: none */
  bool whole, floating;        /* which lanes have it */
  uint8_t uses;                /* what its gradient reads */
} trait;
static const trait unary[SITU_UNARIES] = {
#define FLOAT(id, y, dx, u) [SITU_UNARY_##id] = { "unary_" #id, "unary_grad_" #id, false, true, u },
#define BOTH(id, y, w, dx, u) [SITU_UNARY_##id] = { "unary_" #id, "unary_grad_" #id, true, true, u },
#define MATH BOTH
#define WHOLE(id, w) [SITU_UNARY_##id] = { "unary_" #id, NULL, true, false, 0 },
#define TEST(id, y, w) [SITU_UNARY_##id] = { "unary_" #id, NULL, true, true, 0 },
#include "kernels/unary.h"
};
static const trait binary[SITU_BINARIES] = {
#define FLOAT(id, y) [SITU_BINARY_##id] = { "binary_" #id, NULL, false, true, 0 },
#define BOTH(id, y, w) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, true, 0 },
#define MATH BOTH
#define WHOLE(id, w) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, false, 0 },
#define TEST(id, y) [SITU_BINARY_##id] = { "binary_" #id, NULL, true, true, 0 },
#include "kernels/binary.h"
};
static const trait ternary[SITU_TERNARIES] = {
#define FLOAT(id, y) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, false, true, 0 },
#define BOTH(id, y, w) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, true, true, 0 },
#define SELECT(id, y) [SITU_TERNARY_##id] = { "ternary_" #id, NULL, true, true, 0 },
#include "kernels/ternary.h"
};

static bool divides(int op) {
  return op == SITU_BINARY_div_trunc || op == SITU_BINARY_div_floor || op == SITU_BINARY_fmod || op == SITU_BINARY_remainder;
}

/* view[0] is y; operands follow. */
static situ_status run(int index, const situ_work *work, int family, const char *name, situ_dtype compute, int ins,
                       const situ_view_desc *const *view) {
  static const uint32_t rounds[] = { 0, FLAG_ROUND_1, FLAG_ROUND_2, FLAG_ROUND_3 };
  situ__cl_lane lane = situ__cl_lane_of(compute);
  situ__cl_call call = { .variant = { .text = SITU__CL_elementwise, .op = (uint8_t)work->op, .compute = (uint8_t)compute },
                         .name = name, .op = situ__cl_host->verb_name(work->verb) };
  call.variant.pad[0] = (uint8_t)family; /* rows of different tables have the same numbers */
  bool plain = compute == SITU_F32 || compute == SITU_F64 || compute == SITU_I64;
  for (int k = 0; k <= ins; k++) {
    situ__cl_buffer(&call, view[k]);
    call.variant.dtype[k] = view[k]->dtype;
    if (k && !plain && view[k]->dtype != compute && view[k]->dtype != SITU_BOOL) call.variant.flags |= rounds[k];
  }
  walk w;
  if (!situ__cl_walk(&w, 1 + ins, view)) call.variant.flags |= FLAG_STRIDED;
  situ__cl_block(&call, &w, sizeof w);
  situ__cl_scalars(&call, work->scalar);
  if (family == 3 && lane == SITU__CL_I64 && divides(work->op)) {
    call.checks = true;
    call.variant.flags |= FLAG_DIVIDES;
  }
  return situ__cl_run(index, &call, w.numel);
}

static bool has(const trait *row, situ_dtype compute) {
  return situ__cl_lane_of(compute) == SITU__CL_I64 ? row->whole : row->floating;
}

/* A copy within a dtype moves bytes: a whole dtype of the same size keeps every bit of a NaN. */
situ_status situ__cl_copy(int index, const situ_work *work) {
  situ_view_desc y = *work->out[0], x = *work->in[0];
  situ_dtype compute = (situ_dtype)x.dtype;
  if (x.dtype == y.dtype) compute = x.dtype = y.dtype = (uint8_t)situ__cl_whole(x.dtype);
  const situ_view_desc *view[] = { &y, &x };
  /* Every value of x fits its lane. */
  situ_dtype lane = situ__cl_lane_dtype(compute);
  return run(index, work, 0, "copy", lane, 1, view);
}

situ_status situ__cl_unary(int index, const situ_work *work) {
  const trait *row = &unary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  bool divides = work->op == SITU_UNARY_fmod_scalar || work->op == SITU_UNARY_remainder_scalar;
  if (situ__cl_lane_of(work->compute) == SITU__CL_I64 && divides && work->scalar[0] == 0)
    return situ__cl_host->fail(SITU_E_ARG, work->op == SITU_UNARY_fmod_scalar ? "fmod" : "remainder", "division by zero");
  const situ_view_desc *view[] = { work->out[0], work->in[0] };
  return run(index, work, 1, row->name, work->compute, 1, view);
}

situ_status situ__cl_unary_grad(int index, const situ_work *work) {
  const trait *row = &unary[work->op];
  if (!row->gradient || situ__cl_lane_of(work->compute) == SITU__CL_I64) return SITU_E_UNSUPPORTED;
  const situ_view_desc *x = work->in[0], *y = work->in[1], *g = work->in[2];
  if ((row->uses == USES_X && !x) || (row->uses == USES_Y && !y))
    return situ__cl_host->fail(SITU_E_ARG, "backward", "a gradient needs the %s of its function", x ? "result" : "operand");
  /* A formula does not look at what it does not use: g stands in for it. */
  const situ_view_desc *view[] = { work->out[0], row->uses == USES_X ? x : g, row->uses == USES_Y ? y : g, g };
  return run(index, work, 2, row->gradient, work->compute, 3, view);
}

situ_status situ__cl_binary(int index, const situ_work *work) {
  const trait *row = &binary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1] };
  return run(index, work, 3, row->name, work->compute, 2, view);
}

situ_status situ__cl_ternary(int index, const situ_work *work) {
  const trait *row = &ternary[work->op];
  if (!has(row, work->compute)) return SITU_E_UNSUPPORTED;
  const situ_view_desc *view[] = { work->out[0], work->in[0], work->in[1], work->in[2] };
  return run(index, work, 4, row->name, work->compute, 3, view);
}
