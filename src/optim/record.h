/* Numbers in a state tree: small cpu tensors, exact.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_RECORD_H
#define SITU_OPTIM_RECORD_H

#include "situ/tree.h"

situ_tree *situ__record_number(double value);                         /* f64, 0-dim */
situ_tree *situ__record_numbers(const double *values, int64_t count); /* f64 */
situ_tree *situ__record_integer(int64_t value);                       /* i64, 0-dim */
situ_tree *situ__record_range(int64_t first, int64_t count);          /* i64: first, first + 1, ... */

/* The tensor at a path of a flat tree. Returns NULL without an error if there is none. */
situ_tensor *situ__record_find(const situ_tree *flat, const char *path);
/* Reads exactly count numbers at a path, of any dtype and device. Returns false after recording an error. */
bool situ__record_read(const situ_tree *flat, const char *path, double *out, int64_t count);

#endif
