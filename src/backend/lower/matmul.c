/* Matrix products: batches, strides and a bias.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* Stride of y's dimension d in an operand that is broadcast to y. */
static int64_t step(const situ_view_desc *v, const situ_view_desc *y, int d) {
  int own = d - (y->ndim - v->ndim);
  return own < 0 || v->size[own] == 1 ? 0 : v->stride[own];
}

static int64_t tiles(const products *s) {
  return (s->m + s->tile_rows - 1) / s->tile_rows * ((s->n + s->tile_columns - 1) / s->tile_columns);
}

/* Chooses the tile size of group/matmul.h. On a CPU tiles are smaller than the largest, in whole panels, so that every
   core has several, but not so small that the call costs more than the work. */
static void choose_tile(products *s, const situ__target *d, int64_t panel, int64_t batch) {
  enum { ENOUGH = 16, LEAST_ROWS = 24, LEAST_WORK = 1 << 18 };
  if (!d->cpu) {
    int64_t side = 16;
    while (side * side > (int64_t)d->group && side > 1) side /= 2;
    s->tile_rows = s->tile_columns = 4 * side;
    return;
  }
  s->tile_rows = MATMUL_ROWS, s->tile_columns = MATMUL_COLUMNS;
  while (batch * tiles(s) < ENOUGH && s->tile_rows * s->tile_columns * s->k > LEAST_WORK) {
    if (s->tile_columns > panel && s->tile_columns > s->tile_rows) s->tile_columns /= 2;
    else if (s->tile_rows > LEAST_ROWS) s->tile_rows /= 2;
    else break;
  }
}

/* If all items of a batch share a and bias, they are one product with the columns of all items. */
static void merge(products *s, walk *batch) {
  for (int d = 0; d < (int)batch->ndim; d++) {
    if (batch->stride[1][d] || batch->stride[3][d]) continue;
    s->b_n = batch->stride[2][d], s->y_n = batch->stride[0][d];
    s->n *= batch->size[d];
    batch->numel /= batch->size[d];
    for (batch->ndim--; d < (int)batch->ndim; d++) {
      batch->size[d] = batch->size[d + 1];
      for (int k = 0; k < 4; k++) batch->stride[k][d] = batch->stride[k][d + 1];
    }
    return;
  }
}

situ_status situ__lower_matmul(int index, const situ_work *work) { return situ__lower_matmul_sums(index, work, 1); }

situ_status situ__lower_matmul_sums(int index, const situ_work *work, int64_t together) {
  const situ_view_desc *y = work->out[0], *a = work->in[0], *b = work->in[1];
  const situ_view_desc *bias = work->ins > 2 ? work->in[2] : NULL;
  if (work->scalar[1] == 0) bias = NULL; /* NaN in bias must not count then */
  const int row = y->ndim - 2, column = y->ndim - 1;
  walk batch = { .numel = 1, .offset = { y->offset, a->offset, b->offset, situ__lower_offset(bias) } };
  for (int d = 0; d < row; d++) {
    const int64_t items = d ? 1 : together;
    int64_t by[] = { y->stride[d], step(a, y, d) * items, step(b, y, d) * items, bias ? step(bias, y, d) : 0 };
    situ__lower_walk_add(&batch, 4, y->size[d], by);
    batch.numel *= y->size[d];
  }
  products s = { .m = y->size[row],
                 .n = y->size[column],
                 .k = a->size[a->ndim - 1] * together,
                 .a_row = a->stride[a->ndim - 2],
                 .a_col = a->stride[a->ndim - 1],
                 .b_row = b->stride[b->ndim - 2],
                 .b_col = b->stride[b->ndim - 1],
                 .y_row = y->stride[row],
                 .y_col = y->stride[column],
                 .n_piece = y->size[column],
                 .k_piece = a->size[a->ndim - 1],
                 .a_k = a->stride[0],
                 .b_k = b->stride[0] };
  if (bias) s.bias_row = step(bias, y, row), s.bias_col = step(bias, y, column);
  situ_dtype compute = work->compute ? work->compute : (situ_dtype)y->dtype;
  situ__call call = { .variant = { SITU__TEXT_matmul, .compute = (uint8_t)situ__lower_compute_dtype(compute) },
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
  situ__target *d = situ__targets->enter(index, call.op, &status);
  if (!d) return status;
  if (!situ__targets->product || !situ__targets->product(d, work, &batch, &s, &status)) {
    if (d->cpu) merge(&s, &batch);
    choose_tile(&s, d, call.variant.compute == SITU_F32 ? 32 : 16, batch.numel);
    call.alone = d->cpu;
    status = situ__targets->launch(d, &call, batch.numel * tiles(&s));
  }
  return situ__targets->leave(d, status);
}
