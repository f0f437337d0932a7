/* What an input of the op fuzzer says: calls, one after the other, whose operands are made or are results of earlier ones.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_FUZZ_OPS_INPUT_H
#define SITU_TESTS_FUZZ_OPS_INPUT_H

#include <stdbool.h>
#include <stdint.h>

#include "situ/tensor.h"
#include "support/calls.h"

/* The numbers of a call, from the input. */
typedef struct op_numbers {
  int64_t i[4];
  double d[2];
  situ_shape s[3];
  situ_device on; /* where factories make their result */
} op_numbers;

/* A call whose numbers are fuzzed. */
typedef struct op_call {
  const char *name, *operands; /* letters of parity_shape */
  bool narrow;                 /* its values depend on the dtype: not compared with f64 */
  situ_tensor *(*call)(situ_tensor **t, situ_tensor **also, const op_numbers *n);
} op_call;

typedef struct source {
  const uint8_t *data;
  size_t left;
} source;

typedef enum layout { ROWS, COLUMNS, STEPS, OFFSET, EXPANDED, SAME_AS_FIRST, LAYOUTS } layout;

enum { MADE = -1, CALLS = 8 /* of an input, at most */, RESULTS = 2 * CALLS };

typedef struct operand {
  char letter;
  situ_dtype dtype;
  situ_shape shape; /* as the call sees it */
  int from;         /* MADE, or the number of an earlier result */
  layout layout;
  bool special; /* values: NaN, infinities, large and tiny ones too */
  bool grad;
  uint32_t seed;
} operand;

typedef struct call {
  const char *name;
  const op_call *fuzzed; /* one of the two */
  const parity_row *fixed;
  bool narrow; /* f64 has other values by nature */
  bool last;   /* no call follows: nothing is retained */
  int count;
  operand operand[PARITY_OPERANDS];
  op_numbers numbers;
  unsigned failing; /* which allocation fails; 0: none */
} call;

/* The next call. `results`: those of the calls before, NULL where there is none; their shapes and dtypes decide about this one's. */
void read_call(source *s, call *c, situ_tensor *const *results, bool first);
void describe(const call *c, int number);

int64_t numel_of(const situ_shape *s);
/* How many products go into one element of its result, about; 1 where it is not a sum of products. */
int64_t sum_length(const call *c);

#endif
