/* Attention over blocks of keys, and its gradients: one kernel for the result, one for dq, one for dk and dv.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

/* Heads that share a matrix of keys; 0 if they are not adjacent, which the kernels need. */
static int64_t count_shared(const situ_view_desc *q, const situ_view_desc *k) {
  int64_t shared = 1;
  for (int d = 0; d < q->ndim - 2; d++) {
    if (q->size[d] == k->size[d] && q->size[d] != 1 && shared != 1) return 0;
    if (q->size[d] != k->size[d]) shared *= q->size[d];
  }
  return shared;
}

static const situ_view_desc *mask_of(const situ_work *work) {
  const int at = work->op == SITU_ATTENTION_GRAD ? 6 : 3;
  return at < work->ins ? work->in[at] : NULL;
}

/* Stride of dimension `from_end`, counted from the last, 0 where there is one element. */
static int64_t step(const situ_view_desc *v, int from_end) {
  const int d = v->ndim - from_end;
  return v->size[d] == 1 ? 0 : v->stride[d];
}

/* ---- one problem ------------------------------------------------------------------------------ */

typedef struct problem {
  const situ_work *work;
  const situ_view_desc *mask; /* bool or the compute type */
  walk places;                /* q, k, v, mask: their matrices by head */
  attentions w;
  double scalar[4];
} problem;

static problem problem_of(const situ_work *work, const situ_view_desc *mask) {
  const situ_view_desc *q = work->in[0], *k = work->in[1], *v = work->in[2], *of[] = { q, k, v, mask };
  const double keep = 1 - work->scalar[1];
  problem p = { .work = work, .mask = mask, .places = { .numel = 1 } };
  const int operands = mask ? 4 : 3;
  for (int n = 0; n < operands; n++) p.places.offset[n] = of[n]->offset;
  for (int d = 0; d < q->ndim - 2; d++) {
    int64_t by[WALK_OPERANDS] = { 0 };
    for (int n = 0; n < operands; n++) by[n] = step(of[n], q->ndim - d);
    situ__lower_walk_add(&p.places, WALK_OPERANDS, q->size[d], by);
    p.places.numel *= q->size[d];
  }
  p.w = (attentions){ .shared = count_shared(q, k),
                      .l = q->size[q->ndim - 2],
                      .s = k->size[k->ndim - 2],
                      .e = q->size[q->ndim - 1],
                      .v = v->size[v->ndim - 1],
                      .causal = work->integer[0] != 0,
                      .choice = mask && mask->dtype == SITU_BOOL,
                      .drops = keep != 1,
                      .q_row = step(q, 2),
                      .q_col = step(q, 1),
                      .k_row = step(k, 2),
                      .k_col = step(k, 1),
                      .v_row = step(v, 2),
                      .v_col = step(v, 1),
                      .mask_row = mask ? step(mask, 2) : 0,
                      .mask_col = mask ? step(mask, 1) : 0,
                      .seed = (int64_t)work->seed,
                      .draw = (int64_t)work->offset };
  p.scalar[0] = work->scalar[0], p.scalar[1] = keep, p.scalar[2] = keep > 0 ? 1 / keep : 0;
  return p;
}

typedef enum pass { FORWARD, QUERIES, KEYS } pass; /* OP of the kernel */

static situ__call call_of(const problem *p, pass op) {
  const situ_dtype dtype = (situ_dtype)p->work->in[0]->dtype;
  return (situ__call){ .variant = { SITU__TEXT_attention, .op = (uint8_t)op,
                                    .compute = (uint8_t)situ__lower_compute_dtype(dtype),
                                    .dtype = { (uint8_t)dtype, p->mask ? p->mask->dtype : (uint8_t)0 } },
                       .op = "attention" };
}

static void add_operands(situ__call *call, const problem *p) {
  for (int n = 0; n < 3; n++) situ__lower_buffer(call, p->work->in[n]);
}

/* Queues a kernel whose work-groups have blocks of `rows` queries or keys of `units` matrices, and `features`. */
static situ_status launch(int index, situ__call *call, problem *p, int64_t units, int64_t rows, int64_t features) {
  situ_status status;
  if (p->mask) situ__lower_buffer(call, p->mask);
  situ__target *target = situ__targets->enter(index, call->op, &status);
  if (!target) return status;
  const int64_t bytes = (int64_t)situ__lower_size(call->variant.compute), block = ATTENTION_BLOCK(target->cpu, bytes),
                width = ATTENTION_WIDTH(target->cpu, bytes);
  p->w.blocks = (rows + block - 1) / block, p->w.chunks = (features + width - 1) / width;
  situ__lower_block(call, &p->places, sizeof p->places);
  situ__lower_block(call, &p->w, sizeof p->w);
  situ__lower_scalars(call, p->scalar);
  call->alone = target->cpu;
  const int64_t groups = units * p->w.blocks * p->w.chunks;
  return situ__targets->leave(target, groups > 0 ? situ__targets->launch(target, call, groups) : SITU_OK);
}

static situ_status run_forward(int index, problem *p) {
  situ__call call = call_of(p, FORWARD);
  const situ_view_desc *y = p->work->out[0], *stats = p->work->out[1];
  p->w.y = y->offset, p->w.stats = stats->offset;
  situ__lower_buffer(&call, y);
  situ__lower_buffer(&call, stats);
  add_operands(&call, p);
  return launch(index, &call, p, p->places.numel, p->w.l, p->w.v);
}

/* dq's kernel leaves delta, one number for each query, for the kernel of dk and dv. */
static situ_status run_gradients(int index, problem *p) {
  const situ_work *work = p->work;
  const situ_view_desc *y = work->in[3], *stats = work->in[4], *g = work->in[5], *dq = work->out[0], *dk = work->out[1],
                       *dv = work->out[2];
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)work->in[0]->dtype);
  situ_storage storage;
  void *memory = situ__lower_scratch(index, "attention", (size_t)(stats->numel + 1) * situ__lower_size(compute));
  if (!memory) return SITU_E_NOMEM;
  const situ_view_desc deltas = situ__lower_scratch_view(&storage, memory, compute, stats->numel);
  situ__call queries = call_of(p, QUERIES), keys = call_of(p, KEYS);
  p->w.y = y->offset, p->w.stats = stats->offset, p->w.g = g->offset, p->w.out = dq->offset;
  situ__lower_buffer(&queries, dq);
  situ__lower_buffer(&queries, &deltas);
  add_operands(&queries, p);
  situ__lower_buffer(&queries, g);
  situ__lower_buffer(&queries, stats);
  situ__lower_buffer(&queries, y);
  situ_status status = launch(index, &queries, p, p->places.numel, p->w.l, p->w.e);
  p->w.out = dk->offset, p->w.out2 = dv->offset;
  situ__lower_buffer(&keys, dk);
  situ__lower_buffer(&keys, dv);
  add_operands(&keys, p);
  situ__lower_buffer(&keys, g);
  situ__lower_buffer(&keys, stats);
  situ__lower_buffer(&keys, &deltas);
  const int64_t units = p->places.numel / p->w.shared, widest = p->w.e > p->w.v ? p->w.e : p->w.v;
  if (status == SITU_OK) status = launch(index, &keys, p, units, p->w.s, widest);
  situ__targets->release(index, memory);
  return status;
}

/* ---- the verb --------------------------------------------------------------------------------- */

/* On a CPU the weights of so few keys, which are as small as the operands, are cheaper to keep. */
situ_status situ__lower_offers_attention(int index, const situ_work *work) {
  enum { FEW = 64 };
  const situ_view_desc *q = work->in[0], *k = work->in[1];
  const bool few = situ__targets->of(index)->cpu && k->size[k->ndim - 2] <= FEW;
  return count_shared(q, k) && !few ? SITU_OK : SITU_E_UNSUPPORTED;
}

/* A library's attention. Returns false if it did not take the work. */
static bool ask_library(int index, const situ_work *work, situ_status *status) {
  if (!situ__targets->attend) return false;
  situ__target *target = situ__targets->enter(index, "attention", status);
  if (!target) return true;
  const bool taken = situ__targets->attend(target, work, status);
  *status = situ__targets->leave(target, taken ? *status : SITU_OK);
  return taken || *status != SITU_OK;
}

situ_status situ__lower_attention(int index, const situ_work *work) {
  const situ_view_desc *mask = mask_of(work);
  const situ_dtype compute = situ__lower_compute_dtype((situ_dtype)work->in[0]->dtype);
  situ_view_desc cast;
  situ_storage storage = { .data = NULL };
  situ_status status = SITU_OK;
  if (!count_shared(work->in[0], work->in[1])) return SITU_E_UNSUPPORTED;
  if (ask_library(index, work, &status)) return status;
  if (mask && mask->dtype != SITU_BOOL && mask->dtype != compute) {
    status = situ__lower_cast(index, mask, compute, &cast, &storage);
    mask = &cast;
  }
  if (status == SITU_OK) {
    problem p = problem_of(work, mask);
    status = work->op == SITU_ATTENTION_GRAD ? run_gradients(index, &p) : run_forward(index, &p);
  }
  situ__targets->release(index, storage.data);
  return status;
}
