/* Gather and scatter by index.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* Stride of the index along dimension d of the gathered elements: whole slices have one index each, elements one of
   their own. */
static int64_t index_step(const situ_work *work, const situ_view_desc *index, int d) {
  bool elements = work->op & SITU_INDEX_ELEMENTS;
  if (elements) return index->ndim ? index->stride[d] : 0;
  return d == work->integer[0] && index->ndim ? index->stride[0] : 0;
}

situ_status situ__lower_gather(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *at = work->in[1], *y = work->out[0];
  const int dim = (int)work->integer[0];
  picks p = {
    .bound = x->ndim ? x->size[dim] : 1, .dim = dim, .verb = SITU_VERB_GATHER, .along = x->ndim ? x->stride[dim] : 0
  };
  walk w = { .numel = y->numel, .offset = { y->offset, x->offset, at->offset } };
  for (int d = 0; d < y->ndim; d++) {
    int64_t by[] = { y->stride[d], d == dim ? 0 : x->stride[d], index_step(work, at, d) };
    situ__lower_walk_add(&w, 3, y->size[d], by);
  }
  uint8_t moved = (uint8_t)situ__lower_integer_dtype(y->dtype);
  situ__call call = { .variant = { SITU__TEXT_index, .dtype = { moved, 0, at->dtype } },
                      .op = "gather",
                      .checks = true };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, x);
  situ__lower_buffer(&call, at);
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&call, &p, sizeof p);
  return situ__lower_run(index, &call, w.numel);
}

/* Checks that all indices are in range; else sets *bad to 1. */
static situ_status check_indices(situ__target *d, const situ_view_desc *at, void *bad, const picks *p) {
  walk w;
  (void)situ__lower_walk(&w, 1, &at);
  situ__call call = { .variant = { SITU__TEXT_index, .op = 2, .dtype = { 0, 0, at->dtype } },
                      .op = "scatter",
                      .checks = true };
  situ__lower_buffer(&call, at);
  call.buffer[call.buffers++] = bad;
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&call, p, sizeof *p);
  situ_status status = situ__targets->clear(d, call.op, bad, sizeof(int64_t));
  return status == SITU_OK ? situ__lower_items(d, &call, w.numel) : status;
}

/* Scatters into y, whose dtype must be one that sums are kept in. */
static situ_status scatter(int index, const situ_work *work, const situ_view_desc *y) {
  const situ_view_desc *at = work->in[0], *src = work->in[1], *shape = work->op & SITU_INDEX_ELEMENTS ? at : src;
  const int dim = (int)work->integer[0];
  picks p = { .bound = y->ndim ? y->size[dim] : 1,
              .dim = dim,
              .verb = SITU_VERB_SCATTER,
              .along = y->ndim ? y->stride[dim] : 0,
              .count = shape->ndim ? shape->size[dim] : 1 };
  if (shape->ndim) p.src_step = src->stride[dim], p.index_step = index_step(work, at, dim);
  walk w = { .numel = 1, .offset = { y->offset, src->offset, at->offset } };
  for (int d = 0; d < shape->ndim; d++) {
    if (d == dim) continue;
    int64_t by[] = { y->stride[d], src->stride[d], index_step(work, at, d) };
    situ__lower_walk_add(&w, 3, shape->size[d], by);
    w.numel *= shape->size[d];
  }
  if (!w.numel || !p.count) return SITU_OK;
  bool add = work->op & SITU_INDEX_ADD;
  situ__call call = { .variant = { SITU__TEXT_index, .op = 1,
                                   .compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)y->dtype),
                                   .dtype = { y->dtype, src->dtype, at->dtype }, .flags = add ? FLAG_ADD : 0 },
                      .op = "scatter" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, src);
  situ__lower_buffer(&call, at);
  situ_status status;
  situ__target *d = situ__targets->enter(index, call.op, &status);
  if (!d) return status;
  void *bad = situ__targets->scratch(d, call.op, sizeof(int64_t));
  call.buffer[call.buffers++] = bad;
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&call, &p, sizeof p);
  situ__lower_scalars(&call, work->scalar);
  status = bad ? check_indices(d, at, bad, &p) : SITU_E_NOMEM;
  if (status == SITU_OK) status = situ__lower_items(d, &call, w.numel);
  situ__targets->release(index, bad);
  return situ__targets->leave(d, status);
}

/* Sums of f16 and bf16 are kept in f32 and rounded once. */
situ_status situ__lower_scatter(int index, const situ_work *work) {
  const situ_view_desc *y = work->out[0];
  situ_dtype compute = situ__lower_compute_dtype((situ_dtype)y->dtype);
  if (compute == y->dtype || compute == SITU_I64 || !(work->op & SITU_INDEX_ADD)) return scatter(index, work, y);
  void *memory = situ__lower_scratch(index, "scatter", (size_t)y->numel * situ__lower_size(compute));
  if (!memory) return SITU_E_NOMEM;
  situ_storage storage;
  situ_view_desc wide = situ__lower_scratch_view(&storage, memory, compute, y->numel);
  wide.ndim = y->ndim;
  for (int64_t d = y->ndim - 1, step = 1; d >= 0; step *= y->size[d--])
    wide.size[d] = y->size[d], wide.stride[d] = step;
  situ_status status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { y }, .out = { &wide } });
  if (status == SITU_OK) status = scatter(index, work, &wide);
  if (status == SITU_OK)
    status = situ__lower_copy(index, &(situ_work){ .ins = 1, .outs = 1, .in = { &wide }, .out = { y } });
  situ__targets->release(index, memory);
  return status;
}
