/* Golden cases: what PyTorch computes, read from a .gold file (tests/golden/README.md has the layout).
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_GOLD_H
#define SITU_TESTS_SUPPORT_GOLD_H

#include <situ/autograd.h>
#include <situ/ops.h>

#include "support/api/invoke.h"

#define GOLD_MAX_INPUTS INVOKE_TENSORS
#define GOLD_MAX_ATTRS 24
#define GOLD_MAX_OUTPUTS INVOKE_RESULTS
#define GOLD_MAX_LIST INVOKE_LIST

enum { GOLD_SHAPE_ONLY = 1, GOLD_SIGNED_ZERO = 2 }; /* a case's flags */

typedef struct gold_tensor {
  const char *name;
  situ_dtype dtype;
  situ_shape size, stride; /* stride.ndim is 0 for a contiguous tensor */
  int64_t stored;          /* elements in data: more than size says, or fewer, if strided */
  const void *data;
} gold_tensor;

typedef invoke_value gold_attr;

typedef struct gold_case {
  const char *op, *variant;
  unsigned flags;
  int inputs, attrs, outputs, grads;
  gold_tensor input[GOLD_MAX_INPUTS];
  gold_attr attr[GOLD_MAX_ATTRS];
  gold_tensor output[GOLD_MAX_OUTPUTS];
  bool has_seed[GOLD_MAX_OUTPUTS];
  gold_tensor seed[GOLD_MAX_OUTPUTS]; /* dL/d output */
  gold_tensor grad[GOLD_MAX_INPUTS];  /* dL/d the input of the same name */
} gold_case;

typedef struct gold_file {
  unsigned char *bytes;
  size_t size, pool, pool_size, at;
  int cases;
  bool broken; /* it ends too early, or holds more than the arrays above */
} gold_file;

bool gold_open(gold_file *file, const char *path);
/* The next case; false at the end or if the file is broken. */
bool gold_next(gold_file *file, gold_case *out);
void gold_rewind(gold_file *file);
void gold_close(gold_file *file);

/* The attribute of that name; NULL if the call left it out. */
const gold_attr *gold_find(const gold_case *c, const char *name);
/* Element i as a double; integers up to 2^53 are exact, which the generator keeps to. */
double gold_value(situ_dtype dtype, const void *data, int64_t i);

#endif
