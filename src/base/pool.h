/* The thread pool: splits a loop into chunks that depend only on the problem, so results do not depend on the number
   of threads.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_POOL_H
#define SITU_BASE_POOL_H

#include "situ/api.h"

/* Works on [begin, end). Errors are thread-local and it runs on pool threads: carry errors out through payload. */
typedef void (*situ__range_fn)(int64_t begin, int64_t end, void *payload);

/* Calls fn for each chunk [k*grain, min((k+1)*grain, count)), on the pool's threads and this one, and waits. A single
   chunk, a single thread, a nested call and a forked child run here, in order. Chunks never depend on the number of
   threads. A thread begins with its share of neighbouring chunks, the same part of each loop, and then helps with those
   of others: chunks that cost alike should follow each other. Idle workers spin for some microseconds, then sleep. If
   two threads call at once, the second runs its own chunks itself instead of waiting. */
void situ__parallel(int64_t count, int64_t grain, situ__range_fn fn, void *payload);

int situ__pool_threads(void);
/* count is 1..256. Returns false if it is out of range or inside a chunk. Default: SITU_NUM_THREADS, else the CPUs
   that this process may use. Joins surplus threads; new ones start with the next loop that needs them. */
bool situ__pool_set_threads(int count);

/* Sets a function that each worker calls before its next chunk, for libraries with per-thread state: oneDNN's adapter
   calls omp_set_num_threads(1), so that workers do not start OpenMP teams of their own. */
void situ__pool_on_worker_start(void (*start)(void));

#endif
