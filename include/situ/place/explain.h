/* Explains a tensor's placement: its properties, the calls that made and moved it, and the tensors that move with it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_EXPLAIN_H
#define SITU_PLACE_EXPLAIN_H

#include "../nn.h"

SITU_BEGIN

/** Writes, one line each: name or module path, role, dtype, shape and bytes; the device, and the call that made or
    moved it there; the other tensors on its storage, the storages that follow it and the one that it follows
    (situ_follow); whether it has values, and how often they were written. Written as snprintf does: to buffer
    (truncated at size, always terminated; may be NULL if size is 0); returns the length of the whole text, negative on
    error. */
SITU_API int64_t situ_explain_to_string(situ_tensor *t, char *buffer, size_t size);
/** Prints the text of situ_explain_to_string to stdout. */
SITU_API void situ_explain(situ_tensor *t);

SITU_END
#endif
