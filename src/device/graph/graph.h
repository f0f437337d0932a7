/* The recording of a graph, as used by the code that launches kernels, copies and draws random numbers.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_GRAPH_H
#define SITU_DEVICE_GRAPH_H

#include "base/thread.h"
#include "device/device.h"
#include "situ/graph.h"

/* The graph that this thread records; NULL: none, or it is paused. */
extern SITU__THREAD_LOCAL situ_graph *situ__graph_recording;

/* Copies a piece of work that is about to run. Returns NULL after recording an error of op: then it must not run. */
typedef struct situ__graph_work situ__graph_work;
situ__graph_work *situ__graph_take(const char *op, situ_device device, const situ_work *work);
/* Adds the work to the graph after it ran. Cannot fail. */
void situ__graph_keep(situ__graph_work *kept);
/* Frees the copy of work that failed. */
void situ__graph_drop(situ__graph_work *kept);

/* Whether recorded work made the storage: each replay sets it anew. */
bool situ__graph_made(const situ_storage *storage) SITU_COLD;

/* The storage is that of a .grad now. */
void situ__graph_note_gradient(const situ_storage *storage) SITU_COLD;

/* Records an error: a replay does not repeat copies between memories. */
situ_status situ__graph_refuse_copy(const char *op) SITU_COLD;
/* Records an error: a replay could not repeat `what`; instead: what to do. */
SITU_COLD situ_status situ__graph_refuse(const char *op, const char *what, const char *instead);

/* situ_graph_rebind; view: the i-th tensor of the capture, or the one to stand in for it, which has its dtype, shape,
   strides and device. */
situ_status situ__graph_rebind(const char *op, situ_graph *g, int64_t count,
                               const situ_view_desc *(*view)(void *payload, int64_t i, bool bound), void *payload);

/* This thread drew from a generator (NULL: the default one), which was in this state. A replay draws anew for the work
   that gets these numbers. Call only while a graph is recorded. */
void situ__graph_drew(situ_generator *generator, situ_generator drawn) SITU_COLD;

#endif
