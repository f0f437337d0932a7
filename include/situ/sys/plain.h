/* For what keeps results of earlier calls: whether calls compute values only, and whether memory can change unseen.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_PLAIN_H
#define SITU_SYS_PLAIN_H

#include "backend.h"

SITU_BEGIN

/** Further flags of a situ_storage. */
#define SITU_STORAGE_EXPOSED 32u /**< the host has its address (situ_data_ptr) and may write at any time, uncounted */
#define SITU_STORAGE_MAPPED 64u  /**< with FOREIGN: a file's values, which only the library writes */

/** Whether ops that this thread calls compute values now, and nothing else: gradients are off, and there are no
    tangents, samples of situ_func_vmap, autocast, dry run or graph that is being recorded. */
SITU_API bool situ_is_plain(void);

SITU_END
#endif
