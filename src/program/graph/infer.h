/* What the values of a program are, found by a run without values.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_INFER_H
#define SITU_PROGRAM_INFER_H

#include "program.h"

typedef struct situ__inferred {
  situ_dtype dtype;         /* SITU_DTYPE_DEFAULT: an absent result, or not a tensor */
  situ_shape size, stride;  /* of the first run; a size that differs in the second one is -1 in `size` */
  situ_shape other;         /* sizes in the second run */
  int64_t offset, elements; /* in its storage; length of the storage */
  uint64_t storage;         /* equal for values that share memory */
  int64_t integer;          /* of an int or a bool */
  bool varies;              /* a size, or the integer, depends on the sizes of inputs */
} situ__inferred;

/* Fills out[] (zeroed, one for each value). A program with symbolic sizes runs twice, with different ones. Returns
   false after recording an error under op. */
bool situ__program_infer(const char *op, const situ__program *p, situ_nn_module *root, situ__inferred *out);

#endif
