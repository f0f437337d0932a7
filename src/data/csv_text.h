/* Parses numbers in text, row by row, into checked values, without access to the file.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DATA_CSV_TEXT_H
#define SITU_DATA_CSV_TEXT_H

#include "base/problem.h"
#include "situ/tensor.h"

typedef struct situ__csv {
  const char *text; /* followed by a NUL */
  size_t length;
  char delimiter;
  int64_t skip_lines;
  int64_t rows, columns; /* set by situ__csv_measure */
} situ__csv;

/* Counts rows and columns; each row must have as many fields as the first one. */
bool situ__csv_measure(situ__csv *csv, situ__problem *problem);
/* Reads rows * columns values: doubles for f64, floats for any other floating dtype (checked against that dtype's
   range), else values of the dtype. */
bool situ__csv_read(const situ__csv *csv, situ_dtype dtype, void *out, situ__problem *problem);

#endif
