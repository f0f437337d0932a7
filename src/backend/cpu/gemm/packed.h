/* Packed products: both factors are copied once, by all threads, into panels that every tile of the result reads.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_PACKED_H
#define SITU_BACKEND_CPU_PACKED_H

#include "matmul.h"

/* Kernels for one dtype and one instruction set. A panel holds `rows` rows of a, or `columns` columns of b, of one
   block of k; lanes are the rows of a or the columns of b. */
typedef struct situ__panels {
  situ_dtype dtype;  /* of the factors that are packed; those of 16 bits are converted to F32 before, if it is F32 */
  int rows, columns; /* of a tile of c: the lanes of a panel of a and of b */
  int unit, depth;   /* elements along k: panels are filled up to whole units with zeros; the most in a block */
  int shallow;       /* blocks of so many, whose panels stay in the L1 cache, are faster where two suffice; 0: never */
  int bytes;         /* of an element in a panel */
  situ__tiling tiling;
  double least;                      /* of f32 and f64: cost (situ__matmul_cost) that must be won for packing to pay, */
  int64_t least_m, least_n, least_k; /* and sizes */
  int in_place; /* contiguous rows of a are not packed if m and k are multiples of this; 0: never */
  bool finite;  /* factors must be finite: packing returns false for others */
  bool rounds;  /* `multiply` can write bf16 (situ__tile.rounded) */
  int full;     /* c is f32, written in squares of so many rows and columns; 0: of any size, in the dtype of the sums */
  double gain;  /* with `full`: multiply-adds in the time of one of vectors, in products of this size */
  /* Packs `lanes` lanes into panels that follow each other. lane and step: between lanes and along k, in elements. */
  bool (*pack_a)(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k);
  bool (*pack_b)(void *dst, const void *src, int64_t lane, int64_t step, int64_t lanes, int64_t k);
  /* Multiplies panels of a (a_row is 1, a_col the rows of a panel) or its rows in place (a_col is 1), `rows` rows
     together, with one panel of b. For factors of 16 bits c is f32, and whole tiles of it are written. */
  void (*multiply)(const situ__tile *t, int64_t rows);
  /* Around calls of multiply, on their thread: tile registers are set up and given up, which takes as long as some
     products. NULL: there is nothing to do. */
  void (*begin)(void), (*end)(void);
} situ__panels;

static inline void situ__panels_begin(const situ__panels *panels) {
  if (panels->begin) panels->begin();
}
static inline void situ__panels_end(const situ__panels *panels) {
  if (panels->end) panels->end();
}

/* Those of f32 for tile registers; NULL where the processor has none. */
const situ__panels *situ__panels_of_tiles(void);
/* Those of f32 for vectors. */
const situ__panels *situ__panels_of_vectors(void);

/* b alone, whose product's sizes p has, laid out for products by panels (SITU_VERB_PREPACK): whether that pays, and
   into situ_prepack_bytes. A factor that these kernels cannot multiply is marked so. */
bool situ__packed_offers_prepack(const situ__matmul *p);
situ_status situ__packed_prepack(situ__matmul *p, void *to);

#endif
