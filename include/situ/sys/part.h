/* Tensors that ranks have in parts: what this rank has. For code that distributes training over ranks.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_PART_H
#define SITU_SYS_PART_H

#include "../tensor.h"

SITU_BEGIN

/** Elements [from, to) of a tensor: of all, in order (dim -1), or along a dimension, of each of its `blocks` equal
    blocks. */
typedef struct situ_part {
  situ_shape whole;
  int dim, blocks;
  int64_t from, to;
} situ_part;

/** Notes which part of a tensor this rank has, for what shows and moves it: t is the part itself (dim not -1), or is
    whole, and a follower of it (situ_follow) has the elements. Then t moves while its memory is away
    (situ_release_memory), without memory. part NULL: it is whole again. */
SITU_API SITU_CHECKED situ_status situ_set_part(situ_tensor *t, const situ_part *part);
/** Whether this rank has a part of t; then *out (may be NULL) is it. */
SITU_API bool situ_part_of(const situ_tensor *t, situ_part *out);

SITU_END
#endif
