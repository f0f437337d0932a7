/* What attention's forward pass and its gradients are made of: matrices of a head, blocks of rows, products by vectors,
   masks and dropout.
   SPDX-License-Identifier: MIT */
#include "attention.h"
#include "backend/cpu/common/convert.h"
#include "backend/cpu/reduce/fold.h"
#include "backend/cpu/elementwise/random.h"
#include "backend/cpu/common/slots.h"

#include "base/pool.h"
#include "base/size.h"

#include <string.h>

enum {
  LONG = 32,      /* features from which few queries are multiplied by dot products */
  CHUNK = 1 << 20 /* multiply-adds: below it, waking a thread costs more than it saves */
};

int64_t situ__full_vectors(const situ__attention *p, int64_t n) { return situ__round_up(n, p->gemm->lanes); }
int64_t situ__panels_size(const situ__attention *p, int64_t columns, int64_t depth) {
  return situ__full_vectors(p, columns) * depth;
}

situ__attention situ__attention_of(const situ_work *work, const situ_view_desc *mask) {
  const situ_view_desc *q = work->in[0], *k = work->in[1], *v = work->in[2];
  const int n = q->ndim;
  situ__attention p = { .work = work, .q = q, .k = k, .v = v, .mask = mask, .heads = 1 };
  p.compute = situ__cpu_compute((situ_dtype)q->dtype);
  p.elem = (int64_t)situ__compute_size(p.compute);
  p.gemm = situ__gemm_kernels_for(p.compute == SITU__F64 ? SITU_F64 : SITU_F32);
  p.rows = &SITU__ISA_PICK(situ__cpu_isa(), situ__attention_kernels)->by_compute[p.compute];
  for (int d = 0; d < n - 2; d++) p.heads *= q->size[d];
  p.l = q->size[n - 2], p.s = k->size[n - 2], p.e = q->size[n - 1], p.v_width = v->size[n - 1];
  p.keep = 1 - work->scalar[1];
  p.causal = work->integer[0] != 0;
  return p;
}

situ__head situ__head_of(const situ__attention *p, int64_t number) {
  situ__head head = { .number = number };
  for (int d = p->q->ndim - 3; d >= 0; number /= p->q->size[d--]) head.at[d] = number % p->q->size[d];
  return head;
}

situ__matrix situ__matrix_of(const situ_view_desc *v, const situ__head *head) {
  const int n = v->ndim;
  int64_t at = 0;
  for (int d = 0; d < n - 2; d++) at += v->size[d] == 1 ? 0 : head->at[d] * v->stride[d];
  return (situ__matrix){ .data = situ__cpu_data(v) + at * situ__cpu_size(v->dtype),
                         .columns = v->size[n - 1],
                         .row = v->stride[n - 2],
                         .col = v->stride[n - 1],
                         .dtype = v->dtype };
}

situ__matrix situ__attention_stage(const situ__attention *p, const situ__matrix *m, int64_t first, int64_t count,
                                   bool padded, void *buffer) {
  const int64_t size = situ__cpu_size(m->dtype), ld = situ__full_vectors(p, m->columns);
  situ__matrix from = *m;
  from.data += first * m->row * size;
  if (situ__cpu_native((situ_dtype)m->dtype, p->compute) && (!padded || (m->col == 1 && m->columns == ld))) return from;
  char *to = buffer;
  for (int64_t r = 0; r < count; r++, to += ld * p->elem) {
    situ__cpu_convert()->load[m->dtype][p->compute](from.data + r * m->row * size, m->col * size, m->columns, to);
    memset(to + m->columns * p->elem, 0, (size_t)((ld - m->columns) * p->elem));
  }
  from.data = buffer, from.row = ld, from.col = 1;
  return from;
}

void situ__attention_pack(const situ__attention *p, const situ__matrix *m, int64_t count, void *panels) {
  const int64_t widest = p->gemm->wide * p->gemm->lanes;
  for (int64_t j = 0; j < count; j += widest) {
    const int64_t columns = situ__min_i64(widest, count - j);
    p->gemm->pack((char *)panels + j * m->columns * p->elem, situ__full_vectors(p, columns),
                  m->data + j * m->row * p->elem, m->row, m->col, columns, m->columns);
  }
}

void situ__attention_product(const situ__attention *p, int64_t m, int64_t n, int64_t k, situ__factor a, situ__factor b,
                             double alpha, bool add, void *c, int64_t c_row) {
  const int64_t widest = p->gemm->wide * p->gemm->lanes;
  for (int64_t j = 0, width; j < n; j += width) {
    width = situ__min_i64(widest, situ__full_vectors(p, n - j));
    const situ__tile t = { .k = k,
                           .columns = situ__min_i64(width, n - j),
                           .a = a.data,
                           .b = (const char *)b.data + j * (b.row ? 1 : k) * p->elem,
                           .c = (char *)c + j * p->elem,
                           .a_row = a.row,
                           .a_col = a.col,
                           .b_row = b.row ? b.row : situ__min_i64(widest, situ__full_vectors(p, b.col - j)),
                           .c_row = c_row,
                           .alpha = alpha,
                           .add = add };
    situ__gemm_panel(p->gemm, t, m, width, (size_t)p->elem);
  }
}

#ifdef SITU_HAVE_ISA_AMX
extern const situ__attention_weigher situ__attention_weigher_amx;
extern const situ__attention_packer situ__attention_packer_amx;
const situ__attention_weigher *situ__attention_weigher_of_tiles(void) { return &situ__attention_weigher_amx; }
const situ__attention_packer *situ__attention_packer_of_tiles(void) { return &situ__attention_packer_amx; }
#else
const situ__attention_weigher *situ__attention_weigher_of_tiles(void) { return NULL; }
const situ__attention_packer *situ__attention_packer_of_tiles(void) { return NULL; }
#endif

int64_t situ__tiles_bytes(const situ__panels *tiles, int64_t lanes, int64_t k) {
  return situ__round_up(lanes, tiles->rows) * situ__round_up(k, tiles->unit) * tiles->bytes;
}

void situ__attention_multiply(const situ__panels *tiles, int64_t rows, int64_t n, int64_t k, int64_t b_k, const char *a,
                              const char *b, bool add, void *c, int64_t c_row, situ__beside beside) {
  const int64_t wide = tiles->columns;
  for (int64_t j = 0; j < n; j += wide) {
    const situ__tile t = { .k = k,
                           .columns = situ__min_i64(wide, n - j),
                           .a = a,
                           .b = b + situ__tiles_bytes(tiles, j, b_k),
                           .c = (float *)c + j,
                           .a_row = 1,
                           .a_col = tiles->rows,
                           .c_row = c_row,
                           .alpha = 1,
                           .add = add };
    if (beside.weigh) situ__attention_weigher_of_tiles()->multiply(&t, rows, beside.weigh);
    else if (beside.pack) situ__attention_packer_of_tiles()->multiply(&t, rows, beside.pack);
    else tiles->multiply(&t, rows);
  }
}

/* So few queries do not pay for packed keys. Forward and backward agree, so that weights add up to 1 in both. */
static bool by_dots(const situ__attention *p, const situ__matrix *k) {
  return p->l <= SITU__FEW_QUERIES && p->e >= LONG && k->col == 1;
}

void situ__attention_pack_keys(const situ__attention *p, const situ__matrix *k, int64_t n, void *panels) {
  if (!by_dots(p, k)) situ__attention_pack(p, k, n, panels);
}

void situ__attention_score(const situ__attention *p, const situ__scores *s, const situ__matrix *q,
                           const situ__matrix *k, int64_t n, const void *panels) {
  const double scale = p->work->scalar[0];
  if (!by_dots(p, k)) {
    situ__attention_product(p, s->rows, s->columns, p->e, (situ__factor){ q->data, q->row, q->col },
                            (situ__factor){ panels, 0, n }, scale, false, s->data, s->ld);
    return;
  }
  p->gemm->dots(&(situ__gemm){ .m = s->rows,
                               .n = s->columns,
                               .k = p->e,
                               .a = q->data,
                               .b = k->data,
                               .c = s->data,
                               .a_row = q->row,
                               .a_col = 1,
                               .b_row = 1,
                               .b_col = k->row,
                               .c_row = s->ld,
                               .alpha = scale });
}

void situ__attention_mask(const situ__attention *p, const situ__scores *s, const situ__scores_place *at) {
  if (!p->mask) return;
  situ__matrix m = situ__matrix_of(p->mask, at->head);
  const int64_t size = situ__cpu_size(m.dtype);
  const bool direct = situ__cpu_native((situ_dtype)m.dtype, p->compute) && m.col == 1;
  for (int64_t r = 0; r < s->rows; r++) {
    const char *from = m.data + ((at->i + r) * m.row + at->j * m.col) * size;
    if (!direct) situ__cpu_convert()->load[m.dtype][p->compute](from, m.col * size, s->columns, at->row);
    p->rows->mask(m.dtype == SITU_BOOL, direct ? from : at->row, s->columns, (char *)s->data + r * s->ld * p->elem);
  }
}

void situ__attention_drop(const situ__attention *p, const situ__scores *s, const situ__scores_place *at, void *x) {
  if (p->keep == 1) return;
  const situ__random_rows *random = SITU__ISA_PICK(situ__cpu_isa(), situ__random_rows);
  for (int64_t r = 0; r < s->rows; r++) {
    const int64_t first = (at->head->number * p->l + at->i + r) * p->s + at->j, skip = first % 4;
    random->words(at->words, first / 4, situ__ceil_div(skip + s->columns, 4), p->work->seed, p->work->offset);
    p->rows->drop(at->words + skip, p->keep, s->columns, (char *)x + r * s->ld * p->elem);
  }
}

void *situ__carve(char *memory, size_t *used, int64_t bytes) {
  void *part = memory ? memory + *used : NULL;
  *used += (size_t)situ__round_up(bytes, 64);
  return part;
}

typedef struct units {
  const void *plan;
  situ__attention_unit_fn run;
  situ__slots slots;
} units;

static void run_range(int64_t begin, int64_t end, void *payload) {
  units *u = payload;
  char *memory = situ__slots_take(&u->slots);
  for (int64_t k = begin; k < end; k++) u->run(u->plan, memory, k);
  situ__slots_give(&u->slots, memory);
}

situ_status situ__attention_run(const void *plan, situ__attention_unit_fn run, int64_t count, double cost,
                                size_t bytes) {
  units u = { .plan = plan, .run = run };
  const int64_t grain = cost < CHUNK ? (int64_t)(CHUNK / (cost + 1)) + 1 : 1;
  const situ_status status = situ__slots_open(&u.slots, "attention", bytes, situ__ceil_div(count, grain));
  if (status != SITU_OK) return status;
  situ__parallel(count, grain, run_range, &u);
  situ__slots_close(&u.slots);
  return SITU_OK;
}
