/* Attention over blocks of keys: what its forward pass (forward.c) and its gradients (grad.c) share
   (parts.c). Scores exist for one block of queries and one of keys at a time, in f32 or f64.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_ATTENTION_H
#define SITU_BACKEND_CPU_ATTENTION_H

#include "backend/cpu/gemm/gemm.h"
#include "backend/cpu/common/choice.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/gemm/packed.h"

/* ---- rows of scores (isa/attention.c) ---- */

/* Scores [rows, columns] of the compute type, rows ld apart. Row r sees its first seen + r * step columns, as far as
   they exist; the others count as -infinity. ld is a multiple of ROUND, and has capacity for `columns` rounded up. */
enum { SITU__SCORES_ROUND = 64 };
typedef struct situ__scores {
  void *data;
  int64_t rows, columns, ld, seen, step;
} situ__scores;

typedef struct situ__attention_rows {
  /* Scores become exp(score - most[r]) with the largest score of the row until now, total[r] the sum of these until
     now; y [rows, width], what earlier blocks have added up, is scaled when most grows (Milakov and Gimelshein,
     arXiv:1805.02867). first: there is no earlier block. */
  void (*soften)(const situ__scores *s, bool first, void *most, void *total, void *y, int64_t width, int64_t y_ld);
  /* y[r] /= total[r]; most[r] becomes the logsumexp of the row, +infinity for a row without a key, whose y is 0. */
  void (*finish)(int64_t rows, void *most, const void *total, void *y, int64_t width, int64_t y_ld);
  /* Scores become exp(score - stats[r]). */
  void (*weigh)(const situ__scores *s, const void *stats);
  /* d [rows, columns], rows ld apart, becomes weight (d - delta[r]). */
  void (*slope)(const situ__scores *weights, void *d, const void *delta);
  /* scores += mask; choice: scores become -infinity where mask is 0. */
  void (*mask)(bool choice, const void *mask, int64_t count, void *scores);
  /* x becomes x / keep with probability keep, else 0; one word for each element. */
  void (*drop)(const uint32_t *words, double keep, int64_t count, void *x);
  /* y = scale x; y contiguous rows, y_ld apart. */
  void (*scaled)(int64_t rows, int64_t width, const void *x, int64_t x_row, int64_t x_col, double scale, void *y,
                 int64_t y_ld);
  /* y[r] = a[r] . b[r] */
  void (*dots)(int64_t rows, int64_t width, const void *a, int64_t a_ld, const void *b, int64_t b_ld, void *y);
} situ__attention_rows;
typedef struct situ__attention_kernels {
  situ__attention_rows by_compute[2];
} situ__attention_kernels;
SITU__ISA_DECLARE(situ__attention_kernels, situ__attention_kernels);

/* ---- the problem ---- */

/* A matrix of an operand; strides in elements of its dtype. */
typedef struct situ__matrix {
  char *data;
  int64_t columns, row, col;
  uint8_t dtype;
} situ__matrix;

/* heads: matrices of q; l queries, s keys, e and v features of a key and of a value. */
typedef struct situ__attention {
  const situ_work *work;
  const situ_view_desc *q, *k, *v, *mask;
  const situ__gemm_kernels *gemm;
  const situ__attention_rows *rows;
  situ__compute compute;
  int64_t elem, heads, l, s, e, v_width;
  double keep; /* 1: no dropout */
  bool causal;
} situ__attention;
situ__attention situ__attention_of(const situ_work *work, const situ_view_desc *mask);

/* Indices of a head in the dimensions before the last two, and its number. */
typedef struct situ__head {
  int64_t at[SITU_MAX_DIMS], number;
} situ__head;
situ__head situ__head_of(const situ__attention *p, int64_t number);
/* The head's matrix of an operand, whose sizes are the head's or 1. */
situ__matrix situ__matrix_of(const situ_view_desc *v, const situ__head *head);

/* Rows [first, first + count) of m in the compute type: where they are, or copied to `buffer`. padded: rows are
   contiguous and whole vectors, with zeros after the last column. */
situ__matrix situ__attention_stage(const situ__attention *p, const situ__matrix *m, int64_t first, int64_t count,
                                   bool padded, void *buffer);
/* `count` rows of m, transposed, in panels for situ__attention_product, of situ__panels_size elements. m has the
   compute type. */
void situ__attention_pack(const situ__attention *p, const situ__matrix *m, int64_t count, void *panels);
int64_t situ__panels_size(const situ__attention *p, int64_t columns, int64_t depth);
/* n columns rounded up to whole vectors. */
int64_t situ__full_vectors(const situ__attention *p, int64_t n);

/* So few queries do not pay for packed keys, if their features are many: dot products. */
enum { SITU__FEW_QUERIES = 4 };

/* A factor of a product: row and column strides, or row 0 and the number of columns that were packed into panels. */
typedef struct situ__factor {
  const void *data;
  int64_t row, col;
} situ__factor;
/* c [m, n] (+)= alpha a [m, k] b, with b in panels or of padded rows; n may be less than what was packed. */
void situ__attention_product(const situ__attention *p, int64_t m, int64_t n, int64_t k, situ__factor a, situ__factor b,
                             double alpha, bool add, void *c, int64_t c_row);

/* ---- products by tile registers ---- */

/* Bytes of panels of so many lanes, of which all but the last are whole. */
int64_t situ__tiles_bytes(const situ__panels *tiles, int64_t lanes, int64_t k);

/* Scores that become weights a few at a time, in rows and in panels of a: `soften` of situ__attention_rows in f32, but
   that a row's centre, which its weights are relative to, need not be the largest score until now. */
typedef struct situ__weighing {
  situ__scores s; /* up to a panel's rows */
  char *panels;
  float *centre, *total, *y; /* of the first row, as in soften */
  int64_t width, y_ld;
  bool first;
  /* What the kernels keep: the next row; of all weights until now. */
  int64_t row;
  bool split;
  _Alignas(64) float least[16];
} situ__weighing;

/* Lanes that are packed a few at a time: `pack_a` of situ__panels. lane or step is 1. */
typedef struct situ__side_packing {
  char *to;
  const float *from;
  int64_t lane, step, lanes, k;
  int64_t square; /* the next one; the kernels keep it, and the magnitudes until now */
  _Alignas(64) uint32_t least[16], most[16];
} situ__side_packing;

/* Products by tile registers, between which vectors weigh scores, or pack lanes. begin is called before. multiply is
   that of situ__panels with panels of a, and does a part of the work, finish the rest of it; this returns false if
   panels do not hold all numbers: some are not finite, or not 0 and so small that they have no three parts. */
typedef struct situ__attention_weigher {
  void (*begin)(situ__weighing *w);
  void (*multiply)(const situ__tile *t, int64_t rows, situ__weighing *w);
  bool (*finish)(situ__weighing *w);
} situ__attention_weigher;
typedef struct situ__attention_packer {
  void (*begin)(situ__side_packing *p);
  void (*multiply)(const situ__tile *t, int64_t rows, situ__side_packing *p);
  bool (*finish)(situ__side_packing *p);
} situ__attention_packer;

/* The kernels that go with situ__panels_of_tiles. */
const situ__attention_weigher *situ__attention_weigher_of_tiles(void);
const situ__attention_packer *situ__attention_packer_of_tiles(void);

/* Work beside a product: one of these, or none. */
typedef struct situ__beside {
  situ__weighing *weigh;
  situ__side_packing *pack;
} situ__beside;

/* c [rows, n] (+)= a b, of panels; those of b were packed with b_k elements of a lane. c has whole squares. Called
   between situ__panels_begin and situ__panels_end. */
void situ__attention_multiply(const situ__panels *tiles, int64_t rows, int64_t n, int64_t k, int64_t b_k, const char *a,
                              const char *b, bool add, void *c, int64_t c_row, situ__beside beside);

/* ---- scores ---- */

/* The matrix from row `first` on. */
static inline situ__matrix situ__attention_rows_from(const situ__attention *p, const situ__matrix *m, int64_t first) {
  situ__matrix from = *m;
  from.data += first * m->row * p->elem;
  return from;
}
/* Packs n keys for situ__attention_score, where that pays. */
void situ__attention_pack_keys(const situ__attention *p, const situ__matrix *k, int64_t n, void *panels);
/* s = scale q k^T, from the first row of q and of k; n: keys in panels. Where dot products do, q is contiguous. */
void situ__attention_score(const situ__attention *p, const situ__scores *s, const situ__matrix *q,
                           const situ__matrix *k, int64_t n, const void *panels);

/* Rows of scores of a block: query `i` and key `j` are its first. */
typedef struct situ__scores_place {
  const situ__head *head;
  int64_t i, j;
  void *row;       /* buffer for a row of the mask */
  uint32_t *words; /* buffer for the words of a row */
} situ__scores_place;
void situ__attention_mask(const situ__attention *p, const situ__scores *s, const situ__scores_place *at);
/* Dropout of x, which has the layout of s. */
void situ__attention_drop(const situ__attention *p, const situ__scores *s, const situ__scores_place *at, void *x);

/* Takes part of a scratch block, 64-byte aligned; with memory NULL only counts its bytes. */
void *situ__carve(char *memory, size_t *used, int64_t bytes);

/* Runs units 0 to count - 1 on the thread pool, each with `bytes` of scratch; cost: multiply-adds of one. */
typedef void (*situ__attention_unit_fn)(const void *plan, char *memory, int64_t unit);
situ_status situ__attention_run(const void *plan, situ__attention_unit_fn run, int64_t count, double cost,
                                size_t bytes);

/* ---- the table ---- */

/* No algorithm calls another. The first that suits runs, forward and for the gradient. */
typedef struct situ__attention_algorithm {
  const char *name;                        /* in profiles, and for SITU_CPU_ATTENTION */
  bool (*suits)(const situ__attention *p); /* by sizes, dtype and processor alone */
  situ_status (*forward)(const situ__attention *p);
  situ_status (*grad)(const situ__attention *p);
  situ__isa least; /* the lowest instruction set that has it */
} situ__attention_algorithm;
extern const situ__attention_algorithm situ__attention_algorithms[];
extern situ__algorithm_choice situ__attention_choice; /* tests force each row */

/* tiles: for products by tile registers; NULL: by vectors. */
situ_status situ__attention_forward(const situ__attention *p, const situ__panels *tiles);
situ_status situ__attention_grad(const situ__attention *p, const situ__panels *tiles);

#endif
