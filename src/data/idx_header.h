/* The header of an IDX file: parses bytes into a checked shape.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_IDX_HEADER_H
#define SITU_DATA_IDX_HEADER_H

#include "base/problem.h"
#include "situ/tensor.h"

typedef struct situ__idx {
  situ_dtype dtype;
  situ_shape shape;
  size_t start, bytes; /* of the values, which are big-endian */
} situ__idx;

/* Parses the header; data is the whole file. */
bool situ__idx_parse(const unsigned char *data, size_t length, situ__idx *out, situ__problem *problem);

#endif
