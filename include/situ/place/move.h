/* Moving modules to another device or dtype, all or nothing; and a plan of such a move.
   Threads: moving a module that another thread is using is refused (docs/threads.md).
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_MOVE_H
#define SITU_PLACE_MOVE_H

#include "../nn.h"

SITU_BEGIN

/* Storages move, not tensors: tied weights stay tied, and views, gradients, an optimiser's state and the caller's own
   handles move with their storage. A move is all or nothing: on any failure everything is where it was, bit for bit.
   During a move both the old and the new memory exist, and on a device that casts or packs a buffer of 4 MiB if it
   fits. */

/** Moves every parameter and buffer of a module to a device, in place. */
SITU_API SITU_CHECKED situ_status situ_nn_to(situ_nn_module *m, situ_device device);
/** Casts every floating parameter and buffer; integer and bool ones keep their dtypes. SITU_E_OVERFLOW, with the names,
    where a finite value would become infinite. */
SITU_API SITU_CHECKED situ_status situ_nn_to_dtype(situ_nn_module *m, situ_dtype dtype);

/** m.to(memory_format=): gives parameters and buffers of 4 dimensions (channels_last_3d: of 5; contiguous: all;
    preserve: none), and their gradients, another memory format, in place. Results of convolutions and of what follows
    them then have it. All or none: SITU_E_ALIAS, with the name, for a tensor of which there are views. */
SITU_API SITU_CHECKED situ_status situ_nn_to_memory_format(situ_nn_module *m, situ_memory_format memory_format);

typedef struct situ_nn_to_options {
  situ_device device; /**< {0}: each tensor stays on its device */
  situ_dtype dtype;   /**< of floating tensors; 0: each keeps its dtype */
  /** Instead of `device`, devices by path: "encoder.*=cuda:0, head=cpu". A pattern is the path of a tensor, or of a
      module for all of its tensors; `*` matches any text. The first match counts; tensors without a match stay. A
      pattern that matches nothing is SITU_E_ARG. */
  const char *map;
  bool lossy; /**< allow finite values to become infinite */
  /** Each storage, with its gradient and what follows it, is a move of its own, whose old memory is free for the next:
      old and new memory never exist for more than one of them. So the move is not all or nothing. After an error those
      before it have moved (situ_place_moved: how many), and the same call moves the others. Not with agree, and not
      for a plan (SITU_E_UNSUPPORTED). */
  bool stream;
  /** NULL, or asked when everything is copied and nothing has changed: if it returns false nothing moves (the error
      that it has recorded, else SITU_E_STATE). What follows cannot fail, so moves of several models, or of several
      processes (situ_dist_to), become one. A plan does not ask. */
  bool (*agree)(void *payload);
  void *payload; /**< of agree */
} situ_nn_to_options;
/** Moves and casts in one step: values are copied in the smaller of the two dtypes. */
SITU_API SITU_CHECKED situ_status situ_nn_to_with(situ_nn_module *m, const situ_nn_to_options *options);
/** situ_nn_to_with with only a map. */
SITU_API SITU_CHECKED situ_status situ_nn_to_map(situ_nn_module *m, const char *map);

/** situ_nn_load_state_dict with the devices of tensors on meta by path, as in situ_nn_to_options.map: a module that was
    made on meta gets each value on its own device, and no other memory is made. Patterns that match nothing are
    SITU_E_ARG. options may be NULL; its .place is not used. */
SITU_API SITU_CHECKED situ_status situ_nn_load_map(situ_nn_module *m, const situ_tree *state, const char *map,
                                                   const situ_nn_load_options *options);

/** Moves a module to a device, calls work, and moves each parameter and buffer back to the device that it had, with its
    gradient and followers, also where work fails: then its status is returned. A part that work adds stays where it is.
    Without memory for the move back (SITU_E_NOMEM), the module stays whole on the device; situ_nn_to moves it. */
SITU_API SITU_CHECKED situ_status situ_nn_to_during(situ_nn_module *m, situ_device device,
                                                    situ_status (*work)(void *payload), void *payload);

/** Moves one tensor in place, with all tensors on its storage; situ_to makes a copy instead. A gradient, and what
    follows another tensor (an optimiser's state), goes where its owner goes: alone it is SITU_E_DEVICE. */
SITU_API SITU_CHECKED situ_status situ_to_(situ_tensor *t, situ_device device);
/** Whether situ_to would give t itself instead of a copy. False after recording an error. */
SITU_API bool situ_to_would_alias(situ_tensor *t, situ_device device);
/** Number of storages that this thread's last situ_nn_to, situ_nn_to_dtype, _with, _map or situ_to_ has moved or cast,
    gradients and followers included. 0: there was nothing to move, which is not an error (an empty module, one that is
    there already), or the move was refused (with .stream: its first storage was). */
SITU_API int64_t situ_place_moved(void);
/** For tests: SITU_OK if all parameters and buffers of a module, their gradients and what follows them (an optimiser's
    state) are on the device; else SITU_E_DEVICE, with the names of those that are not. */
SITU_API SITU_CHECKED situ_status situ_place_expect_on(situ_nn_module *m, situ_device device);
/** A tree of the same structure whose tensors are on the device; the caller frees it. Tensors are copied unless they
    are there already. A tensor that occurs twice stays one tensor, and shared memory stays shared, but of tensors that
    require a gradient while gradients are recorded: each is copied by itself. */
SITU_API SITU_CHECKED situ_tree *situ_tree_to(const situ_tree *tree, situ_device device);
/** The same with devices by path, as in situ_nn_to_options.map: "images=cuda:0, labels.*=cpu". Tensors without a match
    stay as they are. Tensors that share memory go to one device, else it is SITU_E_ARG, with a path. */
SITU_API SITU_CHECKED situ_tree *situ_tree_to_map(const situ_tree *tree, const char *map);

/** The plan of a move, which is not made. */
typedef struct situ_place_plan {
  int64_t storages;   /**< storages that would move, gradients and followers included */
  int64_t handles;    /**< tensors on them, which would move along */
  int64_t stay;       /**< storages that are there already, or were not requested to move */
  uint64_t bytes;     /**< of the storages that would move, before */
  uint64_t after;     /**< of the same, after */
  uint64_t peak;      /**< exact peak of additional memory during the move: of each device in whole blocks
                           (memory_reserved of situ_device_info), summed */
  situ_status status; /**< SITU_OK if the move would succeed, else its error; the text has details */
} situ_place_plan;
/** Fills *out (may be NULL), and writes to buffer (may be NULL if size is 0) a table of the storages that would move,
    their sizes and sharing, and of those that stay and why; as snprintf does: returns the length of the whole text;
    negative on error. */
SITU_API int64_t situ_place_plan_to_string(situ_nn_module *m, const situ_nn_to_options *options, situ_place_plan *out,
                                           char *buffer, size_t size);
/** Prints the text of situ_place_plan_to_string to stdout. */
SITU_API SITU_CHECKED situ_status situ_place_plan_print(situ_nn_module *m, const situ_nn_to_options *options);

SITU_END
#endif
