/* Makes the calls of the op fuzzer at a place, and keeps what came of them.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_OPS_RUN_H
#define SITU_TESTS_FUZZ_OPS_RUN_H

#include "ops/input.h"

/* Where a chain of calls runs, and its results there. */
typedef struct place {
  situ_device device;
  bool wide;   /* floating operands are f64 */
  bool retain; /* backward keeps the graph */
  situ_tensor *result[RESULTS];
  situ_tensor *leaf[RESULTS]; /* the first leaf that a result comes from */
} place;

/* One call's operands at a place. */
typedef struct operands {
  situ_tensor *t[PARITY_OPERANDS], *leaf[PARITY_OPERANDS];
} operands;

/* Results, operands, gradients. */
enum { OPERAND = 2, GRADIENT = OPERAND + PARITY_OPERANDS, TENSORS = GRADIENT + PARITY_OPERANDS };
enum {
  MOST_KEPT = 1 << 16,    /* elements; a larger tensor is not read, nor differentiated */
  MOST_CHAINED = 1 << 12, /* elements, also of a dimension; no call goes on from a larger result */
  MOST_MEMORY = 1 << 26   /* bytes of one call, so that what takes more is SITU_E_NOMEM */
};

/* A tensor read out; data is NULL where there was none, or where it is too large. */
typedef struct kept {
  situ_dtype dtype;
  situ_shape shape;
  int64_t count;
  void *data;
} kept;

typedef struct outcome {
  situ_status status;  /* of the call, or of backward */
  situ_tensor *result; /* NULL: the call was refused */
  bool late; /* refused by the queue, after the host had gone on: what it writes in place may have its history */
  kept kept[TENSORS];
} outcome;

/* Says what is wrong with the calls so far, and aborts. */
void wrong(const char *what);

/* The elements that the call reads and writes, times the length of its sums; found on meta, without computing. */
int64_t estimated_work(const call *c);

operands make_operands(const call *c, const place *p);
/* `number`: where its results go in the place. */
outcome run_call(const call *c, place *p, const operands *with, int number, unsigned failing);
/* After a backward that failed. */
void run_backward_again(const call *c, const place *p, const operands *with, outcome *o);
/* Operands and gradients as they are. */
void keep_operands(const call *c, const operands *with, outcome *o);
void forget(outcome *o);

#endif
