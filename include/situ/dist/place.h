/* Placement over several ranks: where all of them have a module, and moves that all of them make or none.
   All calls are collective: every rank makes them at once, each with its own module and options. They use the
   communicator between them (SITU_E_STATE while a backward exchanges gradients over it).
   SPDX-License-Identifier: MIT */
#ifndef SITU_DIST_PLACE_H
#define SITU_DIST_PLACE_H

#include "../comm.h"
#include "../place.h"

SITU_BEGIN

/** The placement of the modules of all ranks, on every rank: a snapshot whose modules "rank 0", "rank 1", ... are
    theirs, and whose devices are "rank 1, sim:0". It is printed, drawn, written as JSON, compared and locked as any
    other (situ/place/draw.h); "cpu" of two ranks is two devices there. At most 256 devices in all (SITU_E_LIMIT). The
    caller frees it; NULL on error. */
SITU_API situ_snapshot *situ_dist_snapshot(situ_nn_module *m, situ_comm *comm);

/** What situ_dist_to would do, without doing it: a line for each rank, with its storages, their bytes before and after,
    the peak of additional memory, and whether the rank can move. The same text on every rank, written as snprintf does:
    to buffer (truncated at size, always terminated; may be NULL if size is 0); returns the length of the whole text;
    negative on error. plans: NULL, or an array with an element for each rank; plans[r].status is SITU_OK if rank r can
    move. */
SITU_API int64_t situ_dist_plan_to_string(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options,
                                          situ_place_plan *plans, char *buffer, size_t size);

/** situ_nn_to_with on every rank, all or none: each rank makes its copies, and no module changes before all ranks have
    told that theirs are made. On an error of any rank every module is where it was, bit for bit; the other ranks return
    SITU_E_COMM, with the rank and its error. A rank that is lost after it has told so may leave others moved and others
    not, each of them whole. */
SITU_API SITU_CHECKED situ_status situ_dist_to(situ_nn_module *m, situ_comm *comm, const situ_nn_to_options *options);

/** situ_place_check on every rank; then they tell each other what they found. SITU_E_STATE on all of them if any rank
    found a mistake, with that rank; *report has the own findings, also then (free it with situ_place_report_free; may
    be NULL). */
SITU_API SITU_CHECKED situ_status situ_dist_check(situ_nn_module *m, const situ_tree *inputs, situ_comm *comm,
                                                  const situ_place_check_options *options, situ_place_report *report);

SITU_END
#endif
