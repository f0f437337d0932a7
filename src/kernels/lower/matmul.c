/* Matrix products: batches, strides and a bias.
   SPDX-License-Identifier: MIT */
#include "kernels/lower/lower.h"

/* The step of dimension d of y in an operand that is broadcast to it. */
static int64_t step(const situ_view_desc *v, const situ_view_desc *y, int d) {
  int own = d - (y->ndim - v->ndim);
  return own < 0 || v->size[own] == 1 ? 0 : v->stride[own];
}

static int64_t tiles(const products *s) {
  return (s->m + s->tile_rows - 1) / s->tile_rows *
         ((s->n + s->tile_columns - 1) / s->tile_columns);
}

/* The tiles of group/matmul.h. A processor's may be smaller than the largest, of whole panels: every core is to have several,
   but none that is hardly worth a call. */
static void choose_tile(products *s, const situ__target *d, int64_t panel, int64_t batch) {
  enum { ENOUGH = 16, LEAST_ROWS = 12, LEAST_WORK = 1 << 18 };
  if (!d->cpu) {
    s->tile_rows = s->tile_columns = d->group >= 256 ? 64 : 32;
    return;
  }
  s->tile_rows = MATMUL_ROWS, s->tile_columns = MATMUL_COLUMNS;
  while (batch * tiles(s) < ENOUGH && s->tile_rows * s->tile_columns * s->k > LEAST_WORK) {
    if (s->tile_columns > panel && s->tile_columns > s->tile_rows)
      s->tile_columns /= 2;
    else if (s->tile_rows > LEAST_ROWS)
      s->tile_rows /= 2;
    else
      break;
  }
}

situ_status situ__lower_matmul(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0], *a = work->in[0], *b = work->in[1];
  const situ_view_desc *bias = work->ins > 2 ? work->in[2] : NULL;
  if (work->scalar[1] == 0) bias = NULL; /* not even its NaN */
  const int row = y->ndim - 2, column = y->ndim - 1;
  walk batch = { .numel = 1,
                 .offset = { y->offset, a->offset, b->offset, situ__lower_offset(bias) } };
  for (int d = 0; d < row; d++) {
    int64_t by[] = { y->stride[d], step(a, y, d), step(b, y, d), bias ? step(bias, y, d) : 0 };
    situ__lower_walk_add(&batch, 4, y->size[d], by);
    batch.numel *= y->size[d];
  }
  products s = { .m = y->size[row],
                 .n = y->size[column],
                 .k = a->size[a->ndim - 1],
                 .a_row = a->stride[a->ndim - 2],
                 .a_col = a->stride[a->ndim - 1],
                 .b_row = b->stride[b->ndim - 2],
                 .b_col = b->stride[b->ndim - 1],
                 .y_row = y->stride[row],
                 .y_col = y->stride[column] };
  if (bias) s.bias_row = step(bias, y, row), s.bias_col = step(bias, y, column);
  situ_dtype compute = work->compute ? work->compute : (situ_dtype)y->dtype;
  situ__call call = { .variant = { .text = SITU__TEXT_matmul,
                                   .compute = (uint8_t)situ__lower_lane_dtype(compute) },
                      .op = "matmul" };
  const situ_view_desc *view[] = { y, a, b, bias };
  for (int k = 0; k < (bias ? 4 : 3); k++) {
    call.variant.dtype[k] = view[k]->dtype;
    situ__lower_buffer(&call, view[k]);
  }
  situ__lower_block(&call, &batch, sizeof batch);
  situ__lower_block(&call, &s, sizeof s);
  situ__lower_scalars(&call, work->scalar);
  situ_status status;
  situ__target *d = situ__target_enter(index, call.op, &status);
  if (!d) return status;
  if (!d->product || !d->product(d, work, &batch, &s, &status)) {
    choose_tile(&s, d, call.variant.compute == SITU_F32 ? 32 : 16, batch.numel);
    call.alone = d->cpu;
    status = situ__target_launch(d, &call, batch.numel * tiles(&s));
  }
  return situ__target_leave(d, status);
}
