/* Sums of products of tensors whose dimensions have labels: for einsum and tensordot.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPS_CONTRACT_H
#define SITU_OPS_CONTRACT_H

#include "ops/ops.h"

/* A label is a number that a caller gives to dimensions, in one or more operands: a letter, or one of those behind. */
enum { SITU__LETTERS = 52, SITU__LABELS = SITU__LETTERS + SITU_MAX_DIMS };

/* A tensor, and the label of each of its dimensions. */
typedef struct situ__term {
  situ_tensor *x; /* NULL for the result */
  int ndim;
  int label[SITU_MAX_DIMS];
} situ__term;

/* The labels of one contraction: sizes, and how often operands have them. */
typedef struct situ__label_sizes {
  const char *op;
  bool keeps_dtype; /* sums over one operand's own labels keep its dtype; else integers give i64, as situ_sum's */
  int64_t of[SITU__LABELS];
  int seen[SITU__LABELS];
} situ__label_sizes;

/* The first dimension with this label; -1: none. */
static inline int situ__find_label(const situ__term *t, int label) {
  for (int d = 0; d < t->ndim; d++)
    if (t->label[d] == label) return d;
  return -1;
}

/* Adds an operand's sizes. Sizes of 1 broadcast, except within one operand. Returns the label whose sizes do not match,
   -1 if all do. */
int situ__note_sizes(situ__label_sizes *s, const situ__term *t);

/* Multiplies the terms from left to right, sums over labels that the result does not have, and puts the dimensions in
   its order. The terms are used up. Returns NULL after recording an error. */
situ_tensor *situ__contract(const situ__label_sizes *s, situ__term *t, int count, const situ__term *result);

#endif
