/* What OpenCL's products are measured against.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BENCH_PEERS_H
#define SITU_BENCH_PEERS_H

#include <stddef.h>

/* f32 operations a second of two threads that do nothing but multiply and add; 0: not known how on this processor. */
double peak_of_two_threads(double (*clock)(void));

/* CLBlast's product of two n x n matrices on the first OpenCL device, after a warm-up. NULL: not available. */
typedef struct clblast_job clblast_job;
clblast_job *clblast_begin(size_t n);
/* Seconds of one; 0 where it failed. */
double clblast_time(clblast_job *job, double (*clock)(void));
void clblast_end(clblast_job *job);

#endif
