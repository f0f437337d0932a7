/* Norms over gradients of which ranks have parts: the sum of powers is exact until its last rounding, so that it does
   not depend on which rank has which elements.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_EXACT_H
#define SITU_DIST_EXACT_H

#include "comm.h"

/* A sum of doubles that are not negative: for each exponent the sum of the 53 bits of mantissas, in three whole numbers
   that cannot overflow below 2^45 terms. The numbers do not depend on the order, nor on which rank adds a term. */
enum { SITU__EXPONENTS = 2048 };
typedef struct situ__exact {
  int64_t sum[3][SITU__EXPONENTS];
  double largest[2]; /* of the terms, NaN left out; and whether one is NaN */
} situ__exact;

/* Adds |element|^p of all elements. Returns false after recording an error. */
bool situ__exact_add(situ__exact *x, situ_tensor *grad, double p);
/* Adds those of all ranks. A collective call. Returns false after recording an error. */
bool situ__exact_reduce(const char *op, situ_comm *comm, situ__exact *x, double p);
double situ__exact_norm(const situ__exact *x, double p);

#endif
