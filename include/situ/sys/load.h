/* Loading in two phases, so that several objects load all or none: prepare does everything that can fail, then commit.
   situ_checkpoint_load is built on it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_LOAD_H
#define SITU_SYS_LOAD_H

#include "../nn.h"
#include "../optim.h"

SITU_BEGIN

/** The checks of situ_nn_load_state_dict on names, shapes and dtypes, with the same errors; changes nothing. */
SITU_API SITU_CHECKED situ_status situ_nn_load_check(situ_nn_module *m, const situ_tree *state,
                                                     const situ_nn_load_options *options);

/** Called by situ_nn_load_when. Any result but SITU_OK stops the load, which then changes nothing. */
typedef situ_status (*situ_nn_load_ready)(void *payload);
/** situ_nn_load_state_dict that calls `ready` once, on this thread, when all is checked and copied to the devices, and
    before the first tensor changes: other loads can be waited for there. Later only a device that fails in the last
    copies can refuse it. Of a tensor whose memory is away (situ_release_memory), and that the state has on meta, shapes
    and dtypes are compared alone: its parts are the caller's to load. */
SITU_API SITU_CHECKED situ_status situ_nn_load_when(situ_nn_module *m, const situ_tree *state,
                                                    const situ_nn_load_options *options, situ_nn_load_ready ready,
                                                    void *payload);

/** An optimiser's state that was read, checked and copied, and is not in use yet. */
typedef struct situ_optim_loading situ_optim_loading;

/** The first half of situ_optim_load_state_dict: allocates everything, changes nothing. The optimiser must outlive the
    result. Returns NULL after recording an error. */
SITU_API situ_optim_loading *situ_optim_load_prepare(situ_optim *o, const situ_tree *state);
/** The second half: with `commit` the optimiser takes the state, without it stays unchanged. Cannot fail. Frees l; NULL
    is fine. */
SITU_API void situ_optim_load_end(situ_optim_loading *l, bool commit);

/** A scheduler's state that was read and checked, and is not in use yet. */
typedef struct situ_lr_scheduler_loading situ_lr_scheduler_loading;

/** The first half of situ_lr_scheduler_load_state_dict; as situ_optim_load_prepare. */
SITU_API situ_lr_scheduler_loading *situ_lr_scheduler_load_prepare(situ_lr_scheduler *s, const situ_tree *state);
/** The second half; as situ_optim_load_end. */
SITU_API void situ_lr_scheduler_load_end(situ_lr_scheduler_loading *l, bool commit);

SITU_END
#endif
