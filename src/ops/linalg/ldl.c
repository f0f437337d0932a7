/* LDL decomposition of symmetric matrices by Bunch's and Kaufman's pivots, and systems that are solved by it. As in
   PyTorch, neither has a gradient.
   SPDX-License-Identifier: MIT */
#include "lapack.h"

/* ---- the factors in one matrix ---- */

enum { LDT, PIVOTS, INFO }; /* LDT: transposed, as the verb gives it */

typedef struct factor_params {
  bool check;
} factor_params;

static bool factor_infer(situ_call *c) {
  if (!situ__lapack_matrix(c, 0, true) || !situ_infer_like(c)) return false;
  c->shape[PIVOTS] = situ__lapack_shape(c, 0, situ__desc(c->in[0])->size[c->shape[0].ndim - 1], -1);
  c->shape[INFO] = situ__lapack_shape(c, 0, -1, -1);
  c->dtype[PIVOTS] = c->dtype[INFO] = SITU_I32;
  return true;
}

static bool factor_forward(situ_call *c) {
  return situ_launch(
      c->op->name, c->device,
      &(situ_work){ SITU_VERB_LINALG, .op = SITU_LINALG_LDL, .compute = c->dtype[LDT], .ins = 1, .outs = 3,
                    .in = { situ__desc(c->in[0]) },
                    .out = { situ__desc(c->out[LDT]), situ__desc(c->out[PIVOTS]), situ__desc(c->out[INFO]) },
                    .integer = { ((const factor_params *)c->params)->check } });
}

SITU_OP(ldl_factor_op) = { .name = "linalg_ldl_factor",
                           .operand = { { "A", SITU_FLOATING } },
                           .outs = 3,
                           .flags = SITU_OP_COMPOSED,
                           .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
                           .params_size = sizeof(factor_params),
                           .infer = factor_infer,
                           .forward = factor_forward };

static situ_tensor *factor(const char *op, situ_tensor *A, bool check, situ_tensor **pivots, situ_tensor **info) {
  situ_tensor *outs[3] = { NULL, NULL, NULL };
  if (situ__need(op, "A", A)) situ__lapack_run(&ldl_factor_op, &A, 1, &(factor_params){ check }, outs, 3);
  if (pivots) *pivots = outs[PIVOTS];
  if (info) *info = outs[INFO];
  return situ__mt(outs[LDT]);
}

situ_tensor *situ_linalg_ldl_factor(situ_tensor *A, situ_tensor **pivots) {
  SITU__MADE_OF_OPS("linalg_ldl_factor");
  return factor("linalg_ldl_factor", A, true, pivots, NULL);
}

situ_tensor *situ_linalg_ldl_factor_ex(situ_tensor *A, bool check_errors, situ_tensor **pivots, situ_tensor **info) {
  SITU__MADE_OF_OPS("linalg_ldl_factor_ex");
  return factor("linalg_ldl_factor_ex", A, check_errors, pivots, info);
}

/* ---- systems ---- */

enum { FACTORS, SWAPPED, RIGHT };

static bool solve_infer(situ_call *c) {
  if (!situ__lapack_matrix(c, FACTORS, true) || !situ__lapack_matrix(c, RIGHT, false)) return false;
  const situ_shape ld = situ__shape(situ__desc(c->in[FACTORS])), pivots = situ__shape(situ__desc(c->in[SWAPPED])),
                   b = situ__shape(situ__desc(c->in[RIGHT])),
                   rows = situ__lapack_shape(c, FACTORS, ld.dim[ld.ndim - 1], -1);
  if (!situ_shape_equal(&pivots, &rows) || b.dim[b.ndim - 2] != ld.dim[ld.ndim - 1]) {
    char text[3][SITU_SHAPE_TEXT];
    return situ_refuse(c, SITU_E_SHAPE, "LD is %s, pivots %s, B %s: [..., n, n], [..., n] and matrices [..., n, k]",
                       situ_shape_text(&ld, text[0]), situ_shape_text(&pivots, text[1]), situ_shape_text(&b, text[2]));
  }
  situ_shape batch = situ__lapack_shape(c, FACTORS, -1, -1), other = situ__lapack_shape(c, RIGHT, -1, -1);
  if (!situ_shape_broadcast(c->op->name, &batch, &other)) return false;
  batch.dim[batch.ndim++] = b.dim[b.ndim - 1];
  batch.dim[batch.ndim++] = ld.dim[ld.ndim - 1];
  c->shape[0] = batch, c->dtype[0] = (situ_dtype)situ__desc(c->in[FACTORS])->dtype;
  return true;
}

/* LAPACK reads LD by columns: those of what situ_linalg_ldl_factor gave lie so. */
static bool solve_forward(situ_call *c) {
  situ_tensor *ldt = situ_contiguous(situ__mt(c->in[FACTORS])), *pivots = situ_contiguous(c->in[SWAPPED]);
  const situ_view_desc *x = situ__desc(c->out[0]);
  situ_view_desc wide[3];
  return ldt && pivots &&
         situ_launch(c->op->name, c->device,
                     &(situ_work){ SITU_VERB_LINALG, .op = SITU_LINALG_LDL_SOLVE, .compute = c->dtype[0], .ins = 3,
                                   .outs = 1,
                                   .in = { situ__lapack_batched(situ__desc(ldt), x, 2, &wide[0]),
                                           situ__lapack_batched(situ__desc(pivots), x, 1, &wide[1]),
                                           situ__lapack_batched(situ__desc(c->in[RIGHT]), x, 2, &wide[2]) },
                                   .out = { x } });
}

SITU_OP(ldl_solve_op) = {
  .name = "linalg_ldl_solve",
  .operand = { { "LD", SITU_FLOATING | SITU_SAME }, { "pivots", SITU_INDEX }, { "B", SITU_FLOATING | SITU_SAME } },
  .flags = SITU_OP_COMPOSED,
  .autocast = { SITU_CAST_F32, SITU_CAST_F32 },
  .infer = solve_infer,
  .forward = solve_forward
};

situ_tensor *situ_linalg_ldl_solve(situ_tensor *LD, situ_tensor *pivots, situ_tensor *B) {
  const char *op = ldl_solve_op.name;
  SITU__MADE_OF_OPS(op);
  if (!situ__need(op, "LD", LD) || !situ__need(op, "pivots", pivots) || !situ__need(op, "B", B)) return NULL;
  situ_tensor *y = NULL;
  situ__lapack_run(&ldl_solve_op, (situ_tensor *[]){ LD, pivots, B }, 3, NULL, &y, 1);
  return situ__mt(y);
}
