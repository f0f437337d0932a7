/* Layer norm, RMS norm and batch norm, and their gradients.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* The dtype that all parameter vectors share; `otherwise` if there are none; SITU_DTYPES if they differ, as kernels are
   not compiled for each combination. */
static uint8_t vector_dtype(const situ_view_desc *const *v, int count, uint8_t otherwise) {
  uint8_t dtype = 0;
  for (int k = 0; k < count; k++)
    if (v[k]) dtype = dtype && dtype != v[k]->dtype ? SITU_DTYPES : v[k]->dtype;
  return dtype ? dtype : otherwise;
}

typedef struct norm_operands {
  const situ_view_desc *x, *g, *y, *mean, *rstd, *weight, *bias, *dweight, *dbias; /* NULL: absent */
} norm_operands;

/* Operands have different positions forward and backward: see situ_norm_pass. */
static norm_operands norm_operands_of(const situ_work *work) {
  const bool centred = work->op < SITU_RMS_NORM;
  if (work->op == SITU_LAYER_NORM_GRAD || work->op == SITU_RMS_NORM_GRAD)
    return (norm_operands){ .g = work->in[0],
                            .x = work->in[1],
                            .mean = centred ? work->in[2] : NULL,
                            .rstd = work->in[2 + centred],
                            .weight = work->in[3 + centred],
                            .y = work->out[0],
                            .dweight = work->out[1],
                            .dbias = centred ? work->out[2] : NULL };
  return (norm_operands){ .x = work->in[0],
                          .weight = work->in[1],
                          .bias = centred ? work->in[2] : NULL,
                          .y = work->out[0],
                          .mean = centred ? work->out[1] : NULL,
                          .rstd = work->out[1 + centred] };
}

static norms offsets_of(const norm_operands *o) {
  return (norms){ .rows = o->x->size[0],
                  .width = o->x->size[1],
                  .y = situ__lower_offset(o->y),
                  .x = o->x->offset,
                  .g = situ__lower_offset(o->g),
                  .mean = situ__lower_offset(o->mean),
                  .rstd = situ__lower_offset(o->rstd),
                  .weight = situ__lower_offset(o->weight),
                  .bias = situ__lower_offset(o->bias),
                  .dweight = situ__lower_offset(o->dweight),
                  .dbias = situ__lower_offset(o->dbias) };
}

/* y, or dx. */
static situ_status norm_rows(int index, situ__call call, const norm_operands *o, const norms *n, const double *scalar) {
  const situ_view_desc *const views[] = { o->y, o->x, o->g, o->weight, o->bias };
  row_layout layout;
  const bool rows = situ__lower_rows(index, &call, n->width, &layout, 5, 3, views);
  if (!rows) call.variant.flags |= (o->weight ? FLAG_WEIGHT : 0) | (o->bias ? FLAG_BIAS : 0);
  situ__lower_buffer(&call, o->y);
  situ__lower_buffer(&call, o->x);
  if (o->g) situ__lower_buffer(&call, o->g);
  situ__lower_buffer(&call, o->mean);
  situ__lower_buffer(&call, o->rstd);
  situ__lower_buffer(&call, o->weight);
  situ__lower_buffer(&call, o->bias);
  situ__lower_block(&call, n, sizeof *n);
  situ__lower_scalars(&call, scalar);
  if (!rows) return situ__lower_run_lines(index, &call, n->rows, n->width, false);
  situ__lower_block(&call, &layout, sizeof layout);
  return situ__lower_run_rows(index, &call, n->rows);
}

/* The gradients of weight and bias: sums over rows. */
static situ_status norm_columns(int index, situ__call call, const norm_operands *o, const norms *n) {
  situ_status status;
  if (situ__lower_columns(index, o->mean ? 1 : 2,
                          (column_sums){ .rows = n->rows, .width = n->width, .row = n->width, .divisor = 1 }, o->x,
                          o->g, o->mean, o->rstd, o->dweight, o->dbias, &status))
    return status;
  call.variant.flags = FLAG_COLUMNS | (o->dweight ? FLAG_WEIGHT : 0) | (o->dbias ? FLAG_BIAS : 0);
  const situ_view_desc *const views[] = { o->dweight, o->dbias, o->x, o->g, o->mean, o->rstd };
  for (int k = 0; k < 6; k++) situ__lower_buffer(&call, views[k]);
  situ__lower_block(&call, n, sizeof *n);
  return situ__lower_run(index, &call, n->width);
}

situ_status situ__lower_norm(int index, const situ_work *work) {
  const norm_operands o = norm_operands_of(work);
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)o.x->dtype);
  const uint8_t vectors =
      vector_dtype((const situ_view_desc *[]){ o.weight, o.bias, o.dweight, o.dbias }, 4, o.x->dtype);
  if (compute == SITU_I64 || vectors == SITU_DTYPES) return SITU_E_UNSUPPORTED;
  const norms n = offsets_of(&o);
  /* Absent operands get x's dtype, so that no extra variant is compiled. */
  const situ__call call = { .variant = { SITU__TEXT_norm, .op = (uint8_t)work->op, .compute = (uint8_t)compute,
                                         .dtype = { o.y ? o.y->dtype : o.x->dtype, o.x->dtype,
                                                    o.g ? o.g->dtype : o.x->dtype, vectors, vectors } },
                            .op = "norm" };
  situ_status status = o.y && n.rows ? norm_rows(index, call, &o, &n, work->scalar) : SITU_OK;
  return status == SITU_OK && (o.dweight || o.dbias) ? norm_columns(index, call, &o, &n) : status;
}

/* ---- batch norm ----------------------------------------------------------------------------- */

/* All vectors must have one dtype. */
static situ_status batch_norm(int index, const situ_work *work) {
  bool back = work->op == SITU_BATCH_NORM_GRAD;
  const situ_view_desc *x = work->in[back], *g = back ? work->in[0] : NULL, *y = work->out[0];
  const situ_view_desc *mean = back ? work->in[2] : work->out[1], *rstd = back ? work->in[3] : work->out[2],
                       *weight = work->in[back ? 4 : 1];
  const situ_view_desc *dweight = back ? work->out[1] : NULL, *dbias = back ? work->out[2] : NULL,
                       *bias = back ? NULL : work->in[2];
  const situ_view_desc *old_mean = back ? NULL : work->in[3], *old_var = back ? NULL : work->in[4];
  const situ_view_desc *new_mean = back ? NULL : work->out[3], *new_var = back ? NULL : work->out[4];
  const situ_view_desc *vectors[] = { weight, bias, old_mean, old_var, new_mean, new_var, dweight, dbias };
  situ_dtype compute = situ__lower_compute_dtype((situ_dtype)x->dtype);
  if (compute == SITU_I64) return SITU_E_UNSUPPORTED;
  if (!back && work->integer[0] && !x->numel)
    return situ__host->fail(SITU_E_ARG, "batch_norm", "no elements have no statistics");
  const int64_t flags = (work->integer[0] ? FLAG_TRAINING : 0) | (weight ? FLAG_WEIGHT : 0) | (bias ? FLAG_BIAS : 0) |
                        (old_mean ? FLAG_MEAN : 0) | (old_var ? FLAG_VAR : 0) | (mean && !back ? FLAG_STATISTICS : 0) |
                        (new_mean ? FLAG_UPDATE : 0) | (back && y ? FLAG_DX : 0) | (dweight ? FLAG_DWEIGHT : 0) |
                        (dbias ? FLAG_DBIAS : 0);
  batch_norms n = { flags,
                    x->size[0],
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
  situ__call call = { .variant = { SITU__TEXT_batch_norm, .op = (uint8_t)work->op, .compute = (uint8_t)compute,
                                   .dtype = { y ? y->dtype : x->dtype, x->dtype, g ? g->dtype : x->dtype,
                                              vector_dtype(vectors, 8, x->dtype) } },
                      .op = "batch_norm" };
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
  situ_status status;
  situ__target *target = situ__targets->enter(index, call.op, &status);
  if (!target) return status;
  call.alone = target->cpu;
  if (target->cpu) call.variant.flags |= FLAG_SERIAL;
  return situ__targets->leave(target, situ__targets->launch(target, &call, n.channels));
}

/* Vectors of different dtypes are cast to the compute type first; results are cast back last. */
situ_status situ__lower_batch_norm(int index, const situ_work *given) {
  enum { MOST = 6 };
  bool back = given->op == SITU_BATCH_NORM_GRAD;
  situ_work work = *given;
  const situ_view_desc **forward[] = { &work.in[1], &work.in[2], &work.in[3], &work.in[4], &work.out[3], &work.out[4] },
                       **backward[] = { &work.in[4], &work.out[1], &work.out[2] }, ***slot = back ? backward : forward;
  const int count = back ? 3 : MOST, written = back ? 1 : 4; /* index of the first vector that is written */
  const situ_view_desc *vector[MOST] = { NULL };
  for (int k = 0; k < count; k++) vector[k] = *slot[k];
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)work.in[back]->dtype);
  if (vector_dtype(vector, count, 0) != SITU_DTYPES) return batch_norm(index, given);
  situ_view_desc own[MOST];
  situ_storage memory[MOST] = { 0 };
  situ_status status = SITU_OK;
  for (int k = 0; k < count && status == SITU_OK; k++) {
    if (!vector[k] || vector[k]->dtype == compute) continue;
    status = k < written ? situ__lower_cast(index, vector[k], compute, &own[k], &memory[k])
                         : situ__lower_stand_in(index, vector[k], compute, &own[k], &memory[k]);
    *slot[k] = &own[k];
  }
  if (status == SITU_OK) status = batch_norm(index, &work);
  for (int k = written; k < count && status == SITU_OK; k++)
    if (*slot[k] != vector[k])
      status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { &own[k] }, .out = { vector[k] } });
  for (int k = 0; k < count; k++) situ__targets->release(index, memory[k].data);
  return status;
}
