/* Sorting, and indices of nonzero elements.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* The same struct as in flat/sort.h. */
typedef struct sorts {
  int64_t outer, size, inner, k, run, x, values, indices;
} sorts;

static situ_status count_places(situ__target *d, situ__call call, const sorts *s, void *to, int64_t all) {
  call.variant.op = 0;
  call.buffer[call.buffers++] = to;
  situ__lower_block(&call, s, sizeof *s);
  return situ__lower_items(d, &call, all);
}

static situ_status merge(situ__target *d, situ__call call, const sorts *s, const situ_work *work, void *from, void *to,
                         int64_t all) {
  call.variant.op = 1;
  call.variant.dtype[1] = work->in[0]->dtype;
  call.variant.compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)work->in[0]->dtype);
  call.variant.flags = work->op ? FLAG_SERIAL : 0;
  call.buffer[call.buffers++] = from;
  call.buffer[call.buffers++] = to;
  situ__lower_buffer(&call, work->in[0]);
  situ__lower_block(&call, s, sizeof *s);
  return situ__lower_items(d, &call, all);
}

static situ_status read_out(situ__target *d, situ__call call, const sorts *s, const situ_work *work, void *places) {
  call.variant.op = 2;
  call.variant.dtype[0] = (uint8_t)situ__lower_integer_dtype(work->in[0]->dtype);
  call.variant.flags = (work->out[0] ? FLAG_EACH : 0) | (work->out[1] ? FLAG_STATISTICS : 0);
  call.buffer[call.buffers++] = places;
  situ__lower_buffer(&call, work->out[0]);
  situ__lower_buffer(&call, work->out[1]);
  situ__lower_buffer(&call, work->in[0]);
  situ__lower_block(&call, s, sizeof *s);
  return situ__lower_items(d, &call, s->outer * s->inner * s->k);
}

situ_status situ__lower_sort(int index, const situ_work *work) {
  const situ_view_desc *x = work->in[0], *out = work->out[0] ? work->out[0] : work->out[1], *view[] = { x };
  lines w = situ__lower_lines(x, work->integer[0], 1, view);
  sorts s = { w.outer,
              w.size,
              w.inner,
              out->ndim ? out->size[work->integer[0]] : 1,
              1,
              x->offset,
              situ__lower_offset(work->out[0]),
              situ__lower_offset(work->out[1]) };
  int64_t all = w.outer * w.inner * w.size;
  situ__call call = { .variant = { .text = SITU__TEXT_sort }, .op = "sort" };
  situ_status status;
  situ__target *d = situ__targets->enter(index, call.op, &status);
  if (!d) return status;
  void *places[2] = { situ__targets->scratch(d, call.op, (size_t)all * 8),
                      situ__targets->scratch(d, call.op, (size_t)all * 8) };
  status = places[0] && places[1] ? count_places(d, call, &s, places[0], all) : SITU_E_NOMEM;
  int now = 0;
  for (; status == SITU_OK && s.run < s.size; s.run *= 2, now ^= 1)
    status = merge(d, call, &s, work, places[now], places[!now], all);
  if (status == SITU_OK) status = read_out(d, call, &s, work, places[now]);
  for (int k = 0; k < 2; k++) situ__targets->release(index, places[k]);
  return situ__targets->leave(d, status);
}

situ_status situ__lower_nonzero(int index, const situ_work *work) {
  enum { PIECE = 256 }; /* the same as in flat/nonzero.h */
  const situ_view_desc *x = work->in[0], *y = work->out[0];
  walk w = { .numel = x->numel, .ndim = x->ndim, .offset = { x->offset } };
  for (int d = 0; d < x->ndim; d++) w.size[d] = x->size[d];
  int64_t counted = (x->numel + PIECE - 1) / PIECE, offset = y->offset, capacity = y->ndim ? y->size[0] : 0;
  situ__call call = { .variant = { SITU__TEXT_nonzero,
                                   .compute = (uint8_t)situ__lower_compute_dtype((situ_dtype)x->dtype),
                                   .dtype = { 0, x->dtype } },
                      .op = "nonzero" };
  situ_status status;
  situ__target *d = situ__targets->enter(index, call.op, &status);
  if (!d) return status;
  void *counts = situ__targets->scratch(d, call.op, (size_t)counted * 8);
  call.buffer[call.buffers++] = counts;
  situ__call add = call;
  add.variant = (situ__variant){ .text = SITU__TEXT_nonzero, .op = 1 };
  situ__lower_buffer(&call, x);
  situ__lower_block(&call, &w, sizeof w);
  situ__lower_block(&add, &w, sizeof w);
  status = counts ? situ__lower_items(d, &call, counted) : SITU_E_NOMEM;
  if (status == SITU_OK) status = situ__lower_items(d, &add, 1);
  call.variant.op = 2;
  situ__lower_buffer(&call, y);
  situ__lower_block(&call, &offset, sizeof offset);
  situ__lower_block(&call, &capacity, sizeof capacity);
  if (status == SITU_OK) status = situ__lower_items(d, &call, counted);
  situ__targets->release(index, counts);
  return situ__targets->leave(d, status);
}
