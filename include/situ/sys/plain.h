/* For what keeps results of earlier calls: whether calls compute values only, and whether memory can change unseen.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_PLAIN_H
#define SITU_SYS_PLAIN_H

#include "../ops/nn.h"
#include "backend.h"

SITU_BEGIN

/** Further flags of a situ_storage. */
#define SITU_STORAGE_EXPOSED 32u /**< the host has its address (situ_data_ptr) and may write at any time, uncounted */
#define SITU_STORAGE_MAPPED 64u  /**< with FOREIGN: a file's values, which only the library writes */
#define SITU_STORAGE_LEASED 128u /**< others have its address (situ_data_lease, situ_to_dlpack): it stays where it is */
#define SITU_STORAGE_PINNED (1u << 20)    /**< with FOREIGN: host memory that a device copies directly */
#define SITU_STORAGE_LEFT (1u << 19)      /**< it was EXPOSED, and has moved since: that address is not its memory's */
#define SITU_STORAGE_UNSTATED (1u << 23)  /**< the program stated no device for it: it is on the default one */
#define SITU_STORAGE_READ_ONLY (1u << 17) /**< with FOREIGN: the memory's owner forbids writes */
#define SITU_STORAGE_SENT (1u << 24)      /**< its values are on their way to other ranks: nothing writes them */
#define SITU_STORAGE_NO_WRITES (SITU_STORAGE_READ_ONLY | SITU_STORAGE_HELD_READ | SITU_STORAGE_SENT)

/** Whether ops that this thread calls compute values now, and nothing else: gradients are off, and there are no
    tangents, samples of situ_func_vmap, autocast, dry run or graph that is being recorded. */
SITU_API bool situ_is_plain(void);

/** The weight [O, C, kh, kw] of many calls of situ_conv2d with these options (may be NULL), as its device multiplies it
    fastest, in *packed: u8, for as long as the weight keeps its values; NULL: as it is. Returns false after recording
    an error. */
SITU_API bool situ_conv2d_lay_out(situ_tensor *weight, const situ_conv_options *options, situ_tensor **packed);
/** situ_conv2d with what situ_conv2d_lay_out made of the weight, or NULL; it is used where situ_is_plain. max_pool:
    situ_max_pool2d of that with a kernel of 2, in the same pass where situ_is_plain and the device can; its sizes are
    those of the results, halved. */
SITU_API situ_tensor *situ_conv2d_by(situ_tensor *input, situ_tensor *weight, situ_tensor *bias,
                                     const situ_conv_options *options, situ_tensor *packed, bool max_pool);
/** The weight [out, in] of many calls of situ_linear on so many rows, as its device multiplies it fastest, in *packed:
    u8, for as long as the weight keeps its values; NULL: as it is. Returns false after recording an error. */
SITU_API bool situ_linear_lay_out(situ_tensor *weight, int64_t rows, situ_tensor **packed);
/** situ_linear with what situ_linear_lay_out made of the weight, or NULL: the same bits, for any number of rows. It is
    used where situ_is_plain. */
SITU_API situ_tensor *situ_linear_by(situ_tensor *input, situ_tensor *weight, situ_tensor *bias, situ_tensor *packed);

SITU_END
#endif
