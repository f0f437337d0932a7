/* Rounds of a measurement, of which those count in which the cores were quiet: shared machines have cores whose other
   hyperthread belongs to another program, which no count of processes shows. In C and C++; bench/torch/support/turns.py
   does the same in Python. With two threads each core is asked while the one before it works, too: a hypervisor may run
   two cores as the hyperthreads of one.

     rounds r = { .wanted = 21, .threads = 1 };
     while (next_round(&r)) ratio[r.now] = ...;
     const int kept = keep_quiet(&r, ratio);

   SPDX-License-Identifier: MIT */
#ifndef SITU_BENCH_ROUNDS_H
#define SITU_BENCH_ROUNDS_H

#include <stdbool.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { ROUNDS_MAX = 128 };

typedef struct rounds {
  int wanted;    /* quiet ones, at most ROUNDS_MAX */
  int threads;   /* 1: each round runs on the core that is quieter then; 2: all cores must be quiet; 0: none is asked */
  int now;       /* number of this round, from 0 on */
  double waited; /* set by the caller in a round: the share of its time in which threads had no core */
  int count, quiet;
  double before, end;      /* slowness before this round; when to give up, in seconds */
  double slow[ROUNDS_MAX]; /* of each round: time of a short loop / the least time that it ever took */
} rounds;

/* Ends the round before and begins another. Returns false after the last one: `wanted` were quiet, or it took too long.
   When the process ends, it prints how many rounds there were, and how many were quiet. */
bool next_round(rounds *r);

/* Moves the values of the quiet rounds to the front, in their order, and returns their number: of the quietest seven
   where fewer were quiet. */
int keep_quiet(const rounds *r, double *values);

/* Whether fewer than seven were quiet: what such rounds say is marked so. */
bool was_disturbed(const rounds *r);

#ifdef __cplusplus
}
#endif
#endif
