/* Numbers in text, row by row: from bytes to checked values, with no file in sight.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_CSV_TEXT_H
#define SITU_DATA_CSV_TEXT_H

#include "base/problem.h"
#include "situ/tensor.h"

typedef struct situ__csv {
  const char *text; /* with a NUL behind its end */
  size_t length;
  char delimiter;
  int64_t skip_lines;
  int64_t rows, columns; /* situ__csv_measure fills these in */
} situ__csv;

/* Counts rows and columns; every row must have as many fields as the first. */
bool situ__csv_measure(situ__csv *csv, situ__problem *problem);
/* Reads rows * columns values: doubles for f64, floats for any other floating dtype (whose range is
   checked all the same), else the dtype's own. */
bool situ__csv_read(const situ__csv *csv, situ_dtype dtype, void *out, situ__problem *problem);

#endif
