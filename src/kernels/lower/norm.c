/* Layer norm, RMS norm and batch norm, and their gradients.
   SPDX-License-Identifier: MIT */
#include "kernels/lower/lower.h"

/* Sets the dtype of one operand of the text; NULL is as the lane. */
static void set_dtype(situ__call *call, int k, const situ_view_desc *view) {
  call->variant.dtype[k] = view ? view->dtype : call->variant.compute;
}

/* The sums over rows that are the gradients of weight and bias. */
static situ_status columns(int index, situ__call call, const norms *n,
                           const situ_view_desc *const *v) {
  call.variant.flags = FLAG_COLUMNS | (v[0] ? FLAG_WEIGHT : 0) | (v[1] ? FLAG_BIAS : 0);
  set_dtype(&call, 3, v[0]);
  set_dtype(&call, 4, v[1]);
  call.variant.dtype[0] = 0;
  for (int k = 0; k < 6; k++) situ__lower_buffer(&call, v[k]);
  situ__lower_block(&call, n, sizeof *n);
  return situ__lower_run(index, &call, n->width);
}

situ_status situ__lower_norm(int index, const situ_work *work) {
  bool back = work->op == SITU_LAYER_NORM_GRAD || work->op == SITU_RMS_NORM_GRAD,
       centred = work->op < SITU_RMS_NORM;
  const situ_view_desc *x = work->in[back], *g = back ? work->in[0] : NULL, *y = work->out[0];
  /* Where each operand stands differs: see situ_norm_pass. */
  const situ_view_desc *const *of = back ? work->in : work->out;
  const situ_view_desc *mean = centred ? of[back ? 2 : 1] : NULL,
                       *rstd = of[(back ? 2 : 1) + centred];
  const situ_view_desc *weight = work->in[!back     ? 1
                                          : centred ? 4
                                                    : 3],
                       *bias = !back && centred ? work->in[2] : NULL;
  const situ_view_desc *dweight = back ? work->out[1] : NULL,
                       *dbias = back && centred ? work->out[2] : NULL;
  situ_dtype lane = situ__lower_lane_dtype((situ_dtype)x->dtype);
  if (lane == SITU_I64) return SITU_E_UNSUPPORTED;
  norms n = { x->size[0],
              x->size[1],
              situ__lower_offset(y),
              x->offset,
              situ__lower_offset(g),
              situ__lower_offset(mean),
              situ__lower_offset(rstd),
              situ__lower_offset(weight),
              situ__lower_offset(bias),
              situ__lower_offset(dweight),
              situ__lower_offset(dbias) };
  situ__call call = { .variant = { .text = SITU__TEXT_norm,
                                   .op = (uint8_t)work->op,
                                   .compute = (uint8_t)lane,
                                   .flags = (weight ? FLAG_WEIGHT : 0) | (bias ? FLAG_BIAS : 0) },
                      .op = "norm" };
  set_dtype(&call, 1, x);
  set_dtype(&call, 2, g);
  situ__call sums = call;
  situ_status status = SITU_OK;
  if (y && n.rows) {
    set_dtype(&call, 0, y);
    set_dtype(&call, 3, weight);
    set_dtype(&call, 4, bias);
    situ__lower_buffer(&call, y);
    situ__lower_buffer(&call, x);
    if (back) situ__lower_buffer(&call, g);
    situ__lower_buffer(&call, mean);
    situ__lower_buffer(&call, rstd);
    if (weight) situ__lower_buffer(&call, weight);
    if (bias) situ__lower_buffer(&call, bias);
    situ__lower_block(&call, &n, sizeof n);
    situ__lower_scalars(&call, work->scalar);
    status = situ__lower_run_lines(index, &call, n.rows, n.width, false);
  }
  if (status != SITU_OK || !(dweight || dbias)) return status;
  const situ_view_desc *v[] = { dweight, dbias, x, g, mean, rstd };
  return columns(index, sums, &n, v);
}

/* ---- batch norm ----------------------------------------------------------------------------- */

/* The vectors of C elements are of one dtype, or the kernel would have to be many: SITU_DTYPES says that they are not. */
static uint8_t vector_dtype(const situ_view_desc *const *v, int count, uint8_t otherwise) {
  uint8_t dtype = 0;
  for (int k = 0; k < count; k++)
    if (v[k]) dtype = dtype && dtype != v[k]->dtype ? SITU_DTYPES : v[k]->dtype;
  return dtype ? dtype : otherwise;
}

situ_status situ__lower_batch_norm(int index, const situ_work *work) {
  bool back = work->op == SITU_BATCH_NORM_GRAD;
  const situ_view_desc *x = work->in[back], *g = back ? work->in[0] : NULL, *y = work->out[0];
  const situ_view_desc *mean = back ? work->in[2] : work->out[1],
                       *rstd = back ? work->in[3] : work->out[2], *weight = work->in[back ? 4 : 1];
  const situ_view_desc *dweight = back ? work->out[1] : NULL, *dbias = back ? work->out[2] : NULL,
                       *bias = back ? NULL : work->in[2];
  const situ_view_desc *old_mean = back ? NULL : work->in[3], *old_var = back ? NULL : work->in[4];
  const situ_view_desc *new_mean = back ? NULL : work->out[3],
                       *new_var = back ? NULL : work->out[4];
  const situ_view_desc *vectors[] = { weight,   bias,    old_mean, old_var,
                                      new_mean, new_var, dweight,  dbias };
  situ_dtype lane = situ__lower_lane_dtype((situ_dtype)x->dtype);
  if (lane == SITU_I64) return SITU_E_UNSUPPORTED;
  if (!back && work->integer[0] && !x->numel)
    return situ__host->fail(SITU_E_ARG, "batch_norm", "no elements have no statistics");
  batch_norms n = { x->size[0],
                    x->size[1],
                    x->size[2],
                    situ__lower_offset(y),
                    x->offset,
                    situ__lower_offset(g),
                    situ__lower_offset(mean),
                    situ__lower_offset(rstd),
                    situ__lower_offset(weight),
                    situ__lower_offset(bias),
                    situ__lower_offset(old_mean),
                    situ__lower_offset(old_var),
                    situ__lower_offset(new_mean),
                    situ__lower_offset(new_var),
                    situ__lower_offset(dweight),
                    situ__lower_offset(dbias) };
  situ__call call = {
    .variant = { .text = SITU__TEXT_batch_norm, .op = (uint8_t)work->op, .compute = (uint8_t)lane },
    .op = "batch_norm"
  };
  call.variant.flags = (work->integer[0] ? FLAG_TRAINING : 0) | (weight ? FLAG_WEIGHT : 0) |
                       (bias ? FLAG_BIAS : 0) | (old_mean ? FLAG_MEAN : 0) |
                       (old_var ? FLAG_VAR : 0) | (mean && !back ? FLAG_STATISTICS : 0) |
                       (new_mean ? FLAG_UPDATE : 0) | (back && y ? FLAG_DX : 0) |
                       (dweight ? FLAG_DWEIGHT : 0) | (dbias ? FLAG_DBIAS : 0);
  set_dtype(&call, 0, y);
  set_dtype(&call, 1, x);
  set_dtype(&call, 2, g);
  call.variant.dtype[3] = vector_dtype(vectors, 8, (uint8_t)lane);
  if (call.variant.dtype[3] == SITU_DTYPES) return SITU_E_UNSUPPORTED;
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  if (back) situ__lower_buffer(&call, g);
  situ__lower_buffer(&call, mean);
  situ__lower_buffer(&call, rstd);
  situ__lower_buffer(&call, weight);
  if (!back)
    for (int k = 1; k < 6; k++) situ__lower_buffer(&call, vectors[k]);
  else
    for (int k = 6; k < 8; k++) situ__lower_buffer(&call, vectors[k]);
  situ__lower_block(&call, &n, sizeof n);
  if (!back) situ__lower_scalars(&call, work->scalar);
  return situ__lower_run_groups(index, &call, n.channels);
}
