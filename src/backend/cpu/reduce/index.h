/* Indices from the caller: all are checked before any is used.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_INDEX_H
#define SITU_BACKEND_CPU_INDEX_H

#include <stdatomic.h>

#include "fold.h"

/* Pointer to elements [first, + count) of index (i64 or i32, any strides): in place, or converted into buffer. */
const int64_t *situ__index_block(const situ_view_desc *index, int64_t first, int64_t count, int64_t *buffer);

/* situ__index_block; if one of them is outside 0..bound-1, sets *bad and returns NULL. */
const int64_t *situ__index_checked(const situ_view_desc *index, int64_t first, int64_t count, int64_t bound,
                                   atomic_bool *bad, int64_t *buffer);

/* Returns SITU_OK if every element of index is in 0..bound-1 or equals *allowed (NULL: no exception). Else records
   SITU_E_INDEX under op with value, position and bound, and returns it; `what` names what is indexed. */
situ_status situ__check_index(const char *op, const situ_view_desc *index, int64_t bound, const int64_t *allowed,
                              const char *what);
/* Records and returns that error; call it if an index is known to be out of range. */
situ_status situ__refuse_index(const char *op, const situ_view_desc *index, int64_t bound, const int64_t *allowed,
                               const char *what) SITU_COLD;

/* Copies count elements of size bytes; strides are in elements. */
void situ__copy_elements(char *to, int64_t to_step, const char *from, int64_t from_step, int64_t count, size_t size);

#endif
