/* The recording of a graph, as the ways to a kernel and to a copy see it.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_GRAPH_H
#define SITU_DEVICE_GRAPH_H

#include "base/thread.h"
#include "device/device.h"
#include "situ/graph.h"

/* What this thread records; NULL: nothing. */
extern SITU__THREAD_LOCAL situ_graph *situ__recording;

/* A piece of work that is about to run, to be kept once it has. NULL: recorded as an error of op; it must not run. */
typedef struct situ__kept situ__kept;
situ__kept *situ__graph_take(const char *op, situ_device device, const situ_work *work);
/* It ran. Cannot fail. */
void situ__graph_keep(situ__kept *kept);
/* It did not. */
void situ__graph_drop(situ__kept *kept);

/* Values would pass between memories, which a replay does not repeat. */
situ_status situ__graph_refuse_copy(const char *op) SITU_COLD;

#endif
