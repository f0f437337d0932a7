/* Graphs, for code whose captured work has host values that each replay must take anew.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_GRAPH_H
#define SITU_SYS_GRAPH_H

#include "../graph.h"
#include "backend.h"

SITU_BEGIN

/** Where captured work gets its host values at a replay: hyperparameters, step counts, factors. The functions run on
    the thread that replays; the program must not change what they read meanwhile. */
typedef struct situ_graph_values {
  void *payload; /**< for the functions; the graph owns it */
  /** Before anything of a replay runs, once for each piece of work: sets the values of the graph's copy of it. params
      and list are those of an optimiser's step, else NULL. Any result but SITU_OK, recorded, ends the replay. */
  situ_status (*refresh)(void *payload, situ_work *work, situ_optimizer_params *params, situ_optimizer_item *list);
  /** After a replay, and after one that ended before it ran all work: `ran` is false. NULL: nothing to do. */
  void (*ended)(void *payload, bool ran);
  /** Frees the payload. NULL: nothing to do. */
  void (*release)(void *payload);
} situ_graph_values;
/** While this thread captures a graph: work from now on until situ_graph_values_end gets its host values from these,
    which are copied. On error (SITU_E_STATE: nothing is captured, or other values have begun) the payload is
    released. */
SITU_API SITU_CHECKED situ_status situ_graph_values_begin(const situ_graph_values *values);
/** Ends situ_graph_values_begin; does nothing without it. */
SITU_API void situ_graph_values_end(void);

/** Work of this thread until situ_graph_resume runs and is not captured: what a first step makes, and no later one.
    Returns false, and does nothing, if no graph is captured, or if it is paused already. */
SITU_API bool situ_graph_pause(void);
/** Goes on with the capture after situ_graph_pause returned true. Else it does nothing. */
SITU_API void situ_graph_resume(void);

SITU_END
#endif
