/* The thread pool: one loop split in chunks that depend on the problem alone, so that results do
   too.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_POOL_H
#define SITU_BASE_POOL_H

#include "situ/api.h"

/* Work on [begin, end). It runs on threads that are not the caller's: an error must be carried out
   by hand. */
typedef void (*situ__range_fn)(int64_t begin, int64_t end, void *payload);

/* Calls fn for each chunk [k*grain, min((k+1)*grain, count)), on the pool's threads and this one,
   and waits. One chunk, one thread, a nested call or a fork's child: runs here, in order. Chunks
   never depend on the number of threads. Workers spin for a few microseconds, then sleep. Two
   threads that call at once: the second runs its own chunks itself rather than wait. */
void situ__parallel(int64_t count, int64_t grain, situ__range_fn fn, void *payload);

int situ__pool_threads(void);
/* 1..256; false out of range or inside a chunk. Default: SITU_NUM_THREADS, else the CPUs this
   process may use. Joins the old threads; new ones start with the next loop that wants them. */
bool situ__pool_set_threads(int count);

/* Called on every worker before it runs its first chunk after this, for libraries with state a
   thread: oneDNN's adapter gives a function that calls omp_set_num_threads(1), so that no worker
   starts an OpenMP team of its own. */
void situ__pool_on_worker_start(void (*start)(void));

#endif
