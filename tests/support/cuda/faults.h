/* A scenario on the double in which one call of CUDA's fails, and then another, until none is left: each in a process of its
   own. What fails is reported or made good; nothing is alive afterwards that would not be without the failure.
   SPDX-License-Identifier: MIT */
#ifndef SITU_CUDA_FAULTS_H
#define SITU_CUDA_FAULTS_H

#include <string.h>
#include <sys/mman.h>

#include "device/launch/launch.h"
#include "support/cuda/child.h"
#include "support/cuda/double.h"
#include "support/test.h"

enum { FAULTS_ALIVE = 7 };

/* Which call fails, and what came of it; shared with the child. */
typedef struct faults {
  long nth;
  cudaError_t error;
  bool sticky;
  bool hit, reported, lost, none; /* lost: a device is; none: no device was found */
  long calls, alive[FAULTS_ALIVE];
} faults;

/* In the child: from here on the nth call fails. */
static inline void faults_arm(const faults *f) {
  cuda_double *d = cuda_double_state();
  (void)situ_error_mode(SITU_ERROR_QUIET);
  d->fail_nth = f->nth;
  d->fail_error = f->error;
  d->fail_sticky = f->sticky;
}
/* No more. status: what the scenario ended with. */
static inline void faults_disarm(faults *f, situ_status status) {
  cuda_double *d = cuda_double_state();
  f->hit = d->failed == 1;
  f->reported = status != SITU_OK;
  f->calls = d->calls;
  CHECK(f->hit || status == SITU_OK);
  situ_error_clear();
  d->fail_nth = 0;
}
/* At the end: what is still there; of cuDNN what no plan needs, since what was refused may be done in another way, with more
   plans. Kernels' code is not counted, of which a failure may ask for more, nor the graphs of a device
   that is lost, which are gone with it. */
static inline void faults_count(faults *f) {
  const cuda_double *d = cuda_double_state();
  const long alive[FAULTS_ALIVE] = { d->streams,
                                     d->events,
                                     d->pinned,
                                     d->pools_open,
                                     d->orphans ? d->orphans() : d->described,
                                     d->orphans ? d->handles : d->started,
                                     f->lost ? 0 : d->graphs };
  memcpy(f->alive, alive, sizeof alive);
}

/* The scenario once more, without a failure: all is well, or the device is lost for good. */
static inline void faults_look(faults *f, situ_status status, situ_device device) {
  f->lost = status == SITU_E_LOST;
  CHECK(f->lost ? f->hit && situ__device_lost(device) : status == SITU_OK);
  situ_error_clear();
}

static inline bool faults_run(void (*body)(void *), faults *f, const faults *clean) {
  *f = (faults){ .nth = f->nth, .error = f->error, .sticky = f->sticky };
  if (in_child(body, f) != 0) fail_msg("call %ld failed with error %d", f->nth, (int)f->error);
  for (int k = 0; clean && k < FAULTS_ALIVE; k++)
    if (f->alive[k] > clean->alive[k])
      fail_msg("call %ld failed with error %d: %ld of kind %d are alive, not %ld", f->nth, (int)f->error, f->alive[k],
               k, clean->alive[k]);
  return f->hit;
}

/* Fails each call once, or one of a few (test_next_fault); returns how many there were at least. body is given a `faults`. */
static inline long faults_walk(void (*body)(void *), cudaError_t error, bool sticky) {
  faults clean, *f = mmap(NULL, sizeof *f, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  assert_true(f != MAP_FAILED);
  *f = (faults){ .error = error, .sticky = sticky };
  assert_false(faults_run(body, f, NULL));
  clean = *f;
  assert_false(clean.reported || clean.lost || clean.none);
  long failed = 0, made_good = 0, lost = 0, none = 0;
  long last = 0;
  for (f->nth = 1; faults_run(body, f, &clean); f->nth = test_next_fault(f->nth)) {
    failed++;
    last = f->nth;
    made_good += !f->reported;
    lost += f->lost;
    none += f->none;
  }
  print_message("error %d%s: %ld calls failed once: %ld reported (%ld: no device, %ld: device lost), "
                "%ld made good; 0 silent, 0 leaks\n",
                (int)error, sticky ? " (sticky)" : "", failed, failed - made_good, none, lost, made_good);
  (void)munmap(f, sizeof *f);
  return last;
}

#endif
