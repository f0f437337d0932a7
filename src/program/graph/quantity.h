/* Sizes that depend on the inputs', as expressions of symbols: found by their values in several runs.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_QUANTITY_H
#define SITU_PROGRAM_QUANTITY_H

#include "program.h"

enum { SITU__RUNS = 13 }; /* a prime: trace_sizes.c */

typedef enum situ__quantity_kind {
  SITU__QUANTITY_SYMBOL,
  SITU__QUANTITY_SUM,     /* factor[0] x + factor[1] y + term; y -1: without it */
  SITU__QUANTITY_PRODUCT, /* x y */
  SITU__QUANTITY_QUOTIENT /* floor((x + term) / factor[0]) */
} situ__quantity_kind;

typedef struct situ__quantity {
  int64_t value[SITU__RUNS];
  situ__quantity_kind kind;
  int32_t x, y; /* places in the list */
  int64_t factor[2], term;
  const char *text; /* as SymPy writes it: "Mul(Integer(2), Symbol('s', positive=True, integer=True))" */
  int32_t number;   /* of its value in the program, from 1 on; 0: none yet */
} situ__quantity;

typedef struct situ__quantities {
  situ__arena *arena;
  situ__quantity *list; /* each is made of earlier ones; the symbols come first */
  int32_t count, symbols;
  int64_t capacity;
  bool failed; /* no memory */
} situ__quantities;

/* Adds a symbol with its values. Returns false when memory runs out. */
bool situ__quantity_add_symbol(situ__quantities *q, const char *name, const int64_t value[SITU__RUNS]);
/* The quantity that had these values in the runs; it is added if sums, products and quotients of those that are there
   give it. -1: none does. Each form has at most three unknown numbers, which must fit all runs. */
int32_t situ__quantity_find(situ__quantities *q, const int64_t value[SITU__RUNS]);

#endif
