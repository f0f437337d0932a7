/* Indices that nobody has vouched for: all are checked before any is used.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_INDEX_H
#define SITU_BACKEND_CPU_INDEX_H

#include "fold.h"

/* SITU_OK if every element of index (i64 or i32, any strides) is in 0..bound-1 or equals `allowed` (-1: none is). Else
   SITU_E_INDEX, recorded under op with value, position and bound; `what` names what is indexed. */
situ_status situ__check_index(const char *op, const situ_view_desc *index, int64_t bound, const int64_t *allowed,
                              const char *what);

/* Copies count elements of size bytes; strides are in elements. */
void situ__copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size);

#endif
