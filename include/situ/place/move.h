/* Moving modules: to another device, dtype or both, whole or not at all; and what that would come to.
   Threads: a move of what another thread is using is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_MOVE_H
#define SITU_PLACE_MOVE_H

#include "../nn.h"

SITU_BEGIN

/* Storages move, not tensors: tied weights stay tied, and views, gradients, an optimiser's state and
   the caller's own handles are where their values are, always. A move is made whole or not at all: on
   failure, of whatever kind, everything is where it was, bit for bit. While it is made, the old and
   the new memory are both there, and on a device that casts or packs a buffer of 4 MiB, if it has room for one. */

/** Moves every parameter and buffer of a module to a device, in place. */
SITU_API SITU_CHECKED situ_status situ_nn_to(situ_nn_module *m, situ_device device);
/** Casts every floating parameter and buffer; whole numbers and bools stay what they are. Refused,
    with the names (SITU_E_OVERFLOW), where a finite value would become infinite. */
SITU_API SITU_CHECKED situ_status situ_nn_to_dtype(situ_nn_module *m, situ_dtype dtype);

typedef struct situ_nn_to_options {
  situ_device device; /**< {0}: each tensor stays where it is */
  situ_dtype dtype;   /**< of floating tensors; 0: each stays what it is */
  /** Instead of `device`, a device by path: "encoder.*=cuda:0, head=cpu". A pattern is the path of a
      tensor or of a module, which stands for all in it; `*` is any text. The first that matches
      counts; what none matches stays. A pattern that matches nothing is refused. */
  const char *map;
  bool lossy; /**< finite values may become infinite */
} situ_nn_to_options;
/** Both at once: values travel in the smaller of the two dtypes. */
SITU_API SITU_CHECKED situ_status situ_nn_to_with(situ_nn_module *m, const situ_nn_to_options *options);
/** situ_nn_to_with for a map alone. */
SITU_API SITU_CHECKED situ_status situ_nn_to_map(situ_nn_module *m, const char *map);

/** Moves one tensor in place, with all that looks at its storage; situ_to gives a copy instead. */
SITU_API SITU_CHECKED situ_status situ_to_(situ_tensor *t, situ_device device);
/** A tree of the same form whose tensors are on the device, to be freed: copies, or the tensors
    themselves where they are there already. Tensors that are one stay one, and those that share
    their memory share it there. */
SITU_API SITU_CHECKED situ_tree *situ_tree_to(const situ_tree *tree, situ_device device);

/** What a move would come to. Nothing moves. */
typedef struct situ_place_plan {
  int64_t storages;   /**< that would move, gradients and followers included */
  int64_t handles;    /**< tensors that look at them, and would follow */
  int64_t stay;       /**< storages that are there already, or that no wish concerns */
  uint64_t bytes;     /**< of the storages that would move, as they are */
  uint64_t after;     /**< of the same, as they would be */
  uint64_t peak;      /**< the most memory beyond today's while it is made, to the byte: of each device in whole blocks
                           (memory_reserved of situ_device_info), summed up */
  situ_status status; /**< could it be made? else why not; the text says more */
} situ_place_plan;
/** Fills *out (may be NULL), and writes to buffer (may be NULL if size is 0) a table of what would
    move from where to where, how large it is, who shares it, and what stays and why; as snprintf
    does: returns the length of the whole text; negative on error. */
SITU_API int64_t situ_place_plan_to_string(situ_nn_module *m, const situ_nn_to_options *options, situ_place_plan *out,
                                           char *buffer, size_t size);
/** Prints it to stdout. */
SITU_API SITU_CHECKED situ_status situ_place_plan_print(situ_nn_module *m, const situ_nn_to_options *options);

SITU_END
#endif
