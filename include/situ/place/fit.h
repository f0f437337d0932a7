/* Finds a map over devices with limits of memory: what situ_nn_to_map takes, verified in a dry run.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_FIT_H
#define SITU_PLACE_FIT_H

#include "check.h"
#include "move.h"

SITU_BEGIN

/** A device, and the memory that a run may have there. */
typedef struct situ_place_limit {
  situ_device device; /**< two that are one chip (situ_device_same_chip) are refused */
  uint64_t bytes;     /**< in whole blocks of the allocator; 0, or more than there is: all that is free there */
} situ_place_limit;

typedef struct situ_place_fit_options {
  /** The run that must fit: with .optims and .loss, training. If .device is {0}, inputs and parameters on meta are
      taken to be on the first device. .map must be NULL. */
  situ_place_check_options run;
  /** Modules that are not divided, each by its path or by the name of its type ("TransformerEncoderLayer"). One that
      the model does not have is SITU_E_ARG. */
  const char *const *whole;
  int64_t whole_count;
} situ_place_fit_options;

/** A map, and what a dry run with it has found. */
typedef struct situ_place_layout {
  const char *map;         /**< for situ_nn_to_map: "embed=cuda:0, layers.0=cuda:0, head=cpu" */
  uint64_t bytes;          /**< copied between devices in one forward, and backward if it is checked */
  bool best;               /**< the search ended by itself: no map is left that copies fewer bytes, and whose parts were
                                not seen to need more than a device may have */
  int64_t runs;            /**< dry runs that were made */
  situ_place_report check; /**< of the run with the map: .loads has the peak of each device, .edges each
                                copy; situ_place_report_print shows it */
} situ_place_layout;

/** Finds a map of the module over devices, in the order of preference, such that no device exceeds its limit at any
    time of the run, and the fewest bytes are copied between devices. The parts are modules with parameters or buffers
    of their own (neighbours are joined if there are more than 64); tensors that share memory stay together. Peaks are
    those of situ_place_check, so they include activations, gradients and states of optimisers; the map that is
    returned was checked.

    The run copies operands between devices, so it needs the policy for that (situ_policy_begin with SITU_POLICY_COPY),
    unless forward does it itself (situ_to with situ_nn_home); each copy counts, two of one tensor twice. Inputs are
    where they are. Nothing changes, as in a check; the program's hooks are called in each dry run.

    SITU_OK: free *layout with situ_place_layout_free. SITU_E_NOMEM: no map was found; the message has the nearest one,
    how many bytes it lacks, and the largest tensors. SITU_E_STATE: the model has other mistakes, which the message
    lists. options may be NULL. */
SITU_API SITU_CHECKED situ_status situ_place_fit(situ_nn_module *m, const situ_tree *inputs,
                                                 const situ_place_limit *limits, int64_t limit_count,
                                                 const situ_place_fit_options *options, situ_place_layout *layout);
/** Frees the parts of a layout, and clears it. NULL is fine. */
SITU_API void situ_place_layout_free(situ_place_layout *layout);
/** Seconds that the copies of a forward and backward take with the map, one after the other. The speed between two
    devices is measured at the first call that needs it, by copies of up to 8 MiB, and kept; a ledger that is open sees
    these copies. That of a planned device is what its profile says; without it SITU_E_ARG. Fills *seconds. */
SITU_API SITU_CHECKED situ_status situ_place_layout_seconds(const situ_place_layout *layout, double *seconds);
/** Seconds that a move takes, from the same measurements; gradients and followers included. Fills *seconds; 0 if
    nothing would be copied between devices. */
SITU_API SITU_CHECKED situ_status situ_place_plan_seconds(situ_nn_module *m, const situ_nn_to_options *options,
                                                          double *seconds);

SITU_END
#endif
