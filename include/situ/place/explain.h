/* Why is a tensor where it is? What it is, who made it, who moved it, and what would go with it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_EXPLAIN_H
#define SITU_PLACE_EXPLAIN_H

#include "../nn.h"

SITU_BEGIN

/** Writes in words, a line each: name or module path, role, dtype, shape and bytes; the device, and
    the call that made or moved it there; which other handles share its storage, what it follows and
    what follows it (situ_follow); whether it holds values, and how often they were written. Written
    as snprintf does: to buffer (cut at size, always ended; may be NULL if size is 0); returns the
    length of the whole text, negative on error. */
SITU_API int64_t situ_explain_to_string(situ_tensor *t, char *buffer, size_t size);
/** Prints it to stdout. */
SITU_API void situ_explain(situ_tensor *t);

SITU_END
#endif
