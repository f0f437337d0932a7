/* Graphs, for code whose captured work has host values that each replay must take anew.
   SPDX-License-Identifier: MIT */
#ifndef SITU_SYS_GRAPH_H
#define SITU_SYS_GRAPH_H

#include "../graph.h"
#include "backend.h"

SITU_BEGIN

/** How a replay went for some work. */
typedef enum situ_graph_outcome {
  SITU_GRAPH_RAN,
  SITU_GRAPH_SKIPPED, /**< decide said so, of these values or of those around them */
  SITU_GRAPH_FAILED   /**< the replay ended before it had run all work */
} situ_graph_outcome;

/** Where captured work gets its host values at a replay: hyperparameters, step counts, factors. The functions run on
    the thread that replays, and may be NULL, but not both refresh and decide and ended; the program must not change
    what they read meanwhile. Any result of refresh and decide but SITU_OK, recorded, ends the replay. */
typedef struct situ_graph_values {
  void *payload; /**< for the functions; the graph owns it */
  /** Sets the values of the graph's copy of a piece of work; params and list are those of an optimiser's step, else
      NULL. Called before anything of a replay runs, within `decide` when that has not skipped the work. */
  situ_status (*refresh)(void *payload, situ_work *work, situ_optimizer_params *params, situ_optimizer_item *list);
  /** When the work's turn comes: whether a replay leaves it out, with all that has its values from others within. */
  situ_status (*decide)(void *payload, bool *skip);
  void (*ended)(void *payload, situ_graph_outcome outcome); /**< after each replay */
  void (*release)(void *payload);                           /**< frees the payload */
} situ_graph_values;
/** While this thread captures a graph: work from now on until situ_graph_values_end gets its host values from these,
    which are copied. Those of others may begin within, but not a second `decide`. On error (SITU_E_STATE: nothing is
    captured) the payload is released. */
SITU_API SITU_CHECKED situ_status situ_graph_values_begin(const situ_graph_values *values);
/** Ends the innermost situ_graph_values_begin; does nothing without one. */
SITU_API void situ_graph_values_end(void);

/** Work of this thread until situ_graph_resume runs and is not captured: what a first step makes, and no later one.
    Returns false, and does nothing, if no graph is captured, or if it is paused already. */
SITU_API bool situ_graph_pause(void);
/** Goes on with the capture after situ_graph_pause returned true. Else it does nothing. */
SITU_API void situ_graph_resume(void);

SITU_END
#endif
