/* Cross entropy with class indices.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* y = sum of n elements of scratch. */
static situ_status total(int index, situ_view_desc *from, const situ_view_desc *to) {
  situ_view_desc one = *to;
  one.ndim = 1;
  one.size[0] = one.stride[0] = 1;
  one.contiguous = true;
  return situ__lower_reduce(index, &(situ_work){ SITU_VERB_REDUCE, .op = SITU_REDUCE_SUM, .ins = 1, .outs = 1,
                                                 .compute = (situ_dtype)from->dtype, .in = { from }, .out = { &one } });
}

typedef struct plan {
  const situ_work *work;
  situ_dtype compute;
  uint8_t dtype; /* x's dtype */
  situ__call call;
  nlls n;
  row_layout layout;
  void *scratch[2];
} plan;

static void *take_scratch(plan *p, int k, int index, int64_t elements) {
  p->scratch[k] = situ__lower_scratch(index, "cross_entropy", (size_t)elements * 8);
  return p->scratch[k];
}

static void add_operand(plan *p, int k, const situ_view_desc *v) {
  /* Absent operands get x's dtype, so that no extra variant is compiled. */
  if (k >= 0) p->call.variant.dtype[k] = v ? v->dtype : p->dtype;
  situ__lower_buffer(&p->call, v);
}

/* Contiguous classes are a row. FLAG_LONG: the kernel need not keep the row in registers, so any length will do. */
static bool add_row_layout(plan *p, int index, const situ_view_desc *y, const situ_view_desc *x) {
  const situ_view_desc *const views[] = { y, x };
  if (p->n.inner != 1 || p->n.classes <= ROW_FEW ||
      !situ__lower_rows(index, &p->call, p->n.classes, &p->layout, 2, 2, views))
    return false;
  if (!(p->call.variant.flags & FLAG_WARP)) p->call.variant.flags |= FLAG_LONG;
  p->call.variant.flags &= ~FLAG_WEIGHT; /* one kernel for both cases */
  situ__lower_block(&p->call, &p->layout, sizeof p->layout);
  return true;
}

/* Adds up pairs of losses and weights: each of several pieces to a pair of y (FLAG_EACH), or all of them to y and
   total, of which a NULL is not wanted. */
static situ_status add_up(const plan *p, int index, void *each, pieces cut, uint32_t flags, const situ_view_desc *y,
                          const situ_view_desc *total) {
  nlls n = p->n;
  n.y = situ__lower_offset(y), n.total = situ__lower_offset(total);
  situ__call call = { .variant = { SITU__TEXT_nll, .op = 2, .compute = (uint8_t)p->compute,
                                   .dtype = { y ? y->dtype : p->dtype }, .flags = flags },
                      .op = "cross_entropy" };
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, total);
  call.buffer[call.buffers++] = each;
  situ__lower_block(&call, &n, sizeof n);
  situ__lower_block(&call, &cut, sizeof cut);
  return situ__lower_run_lines(index, &call, cut.count, cut.length, false);
}

/* Computes each position's loss and the weight that it used, then their sums. Many positions are added in pieces. */
static situ_status forward(plan *p, int index) {
  enum { LONG = 1 << 16, PIECES = 1024 };
  const situ_work *work = p->work;
  const situ_view_desc *y = work->out[0], *used = work->out[1];
  const bool each = work->integer[1] == SITU_REDUCTION_NONE, mean = work->integer[1] == SITU_REDUCTION_MEAN;
  const int64_t count = p->n.positions;
  if (!take_scratch(p, 0, index, 2 * count)) return SITU_E_NOMEM;
  add_operand(p, 0, y);
  if (!each) p->call.variant.dtype[0] = p->dtype; /* a later kernel writes y */
  add_operand(p, 1, work->in[0]);
  add_operand(p, -1, work->in[1]);
  add_operand(p, 3, work->in[2]);
  add_operand(p, -1, work->out[2]);
  p->call.buffer[p->call.buffers++] = p->scratch[0];
  if (each) p->call.variant.flags |= FLAG_EACH;
  situ__lower_block(&p->call, &p->n, sizeof p->n);
  situ__lower_scalars(&p->call, work->scalar);
  situ_status status = SITU_OK;
  if (count && work->integer[2] && add_row_layout(p, index, NULL, work->in[0]))
    status = situ__lower_run_rows(index, &p->call, count);
  else if (count) status = situ__lower_run(index, &p->call, count);
  if (status != SITU_OK || (each && !used)) return status;
  void *terms = p->scratch[0];
  pieces full = { 1, count, count };
  if (count >= LONG) {
    if (!take_scratch(p, 1, index, 2 * PIECES)) return SITU_E_NOMEM;
    const int64_t length = (count + PIECES - 1) / PIECES, parts = (count + length - 1) / length;
    situ_storage memory;
    const situ_view_desc sums = situ__lower_scratch_view(&memory, p->scratch[1], p->compute, 2 * parts);
    status = add_up(p, index, terms, (pieces){ parts, length, count }, FLAG_EACH, &sums, NULL);
    if (status != SITU_OK) return status;
    terms = p->scratch[1];
    full = (pieces){ 1, parts, parts };
  }
  return add_up(p, index, terms, full, mean ? FLAG_MEAN : 0, each ? NULL : y, used);
}

static situ_status backward(plan *p, int index) {
  const situ_work *work = p->work;
  const situ_view_desc *weight = work->in[3];
  situ_storage memory;
  situ_view_desc weight_sum = { .dtype = (uint8_t)p->compute };
  situ_status status = SITU_OK;
  if (weight) {
    if (!take_scratch(p, 0, index, 1)) return SITU_E_NOMEM;
    weight_sum = situ__lower_scratch_view(&memory, p->scratch[0], p->compute, 1);
    situ_view_desc from = *weight;
    status = total(index, &from, &weight_sum);
  }
  if (status != SITU_OK || !p->n.positions) return status;
  add_operand(p, 0, work->out[0]);
  add_operand(p, 1, work->in[1]);
  add_operand(p, -1, work->in[2]);
  add_operand(p, 3, weight);
  add_operand(p, -1, work->in[5]);
  add_operand(p, 2, work->in[0]);
  add_operand(p, 4, work->in[4]);
  if (!work->in[4]) p->call.variant.dtype[4] = (uint8_t)p->compute; /* the dtype that it would have */
  add_operand(p, -1, weight ? &weight_sum : NULL);
  if (work->integer[1] == SITU_REDUCTION_NONE) p->call.variant.flags |= FLAG_EACH;
  if (work->integer[1] == SITU_REDUCTION_MEAN && work->in[4]) p->call.variant.flags |= FLAG_MEAN;
  situ__lower_block(&p->call, &p->n, sizeof p->n);
  situ__lower_scalars(&p->call, work->scalar);
  return add_row_layout(p, index, work->out[0], work->in[1])
             ? situ__lower_run_rows(index, &p->call, p->n.positions)
             : situ__lower_run(index, &p->call, p->n.positions * p->n.classes);
}

situ_status situ__lower_nll(int index, const situ_work *work) {
  bool back = work->op == SITU_NLL_GRAD;
  const situ_view_desc *x = work->in[back], *target = work->in[back + 1], *weight = work->in[back + 2];
  const situ_view_desc *lse = back ? work->in[5] : work->out[2];
  plan p = { .work = work, .compute = situ__lower_compute_dtype((situ_dtype)x->dtype), .dtype = x->dtype };
  if (p.compute == SITU_I64) return SITU_E_UNSUPPORTED;
  p.n = (nlls){ .positions = target->numel,
                .classes = x->size[1],
                .inner = x->size[2],
                .ignore = work->integer[0],
                .verb = SITU_VERB_NLL,
                .y = work->out[0]->offset,
                .x = x->offset,
                .g = back ? work->in[0]->offset : 0,
                .target = target->offset,
                .weight = situ__lower_offset(weight),
                .lse = situ__lower_offset(lse),
                .total = back ? situ__lower_offset(work->in[4]) : 0 };
  p.call = (situ__call){ .variant = { SITU__TEXT_nll, .op = back, .compute = (uint8_t)p.compute,
                                      .flags = (weight ? FLAG_WEIGHT : 0) | (work->integer[2] ? FLAG_LOGITS : 0) },
                         .op = "cross_entropy",
                         .checks = true };
  situ_status status = back ? backward(&p, index) : forward(&p, index);
  for (int k = 0; k < 2; k++) situ__targets->release(index, p.scratch[k]);
  return status;
}
