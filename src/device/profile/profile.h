/* What a profile records. The public interface is situ/profile.h.
   SPDX-License-Identifier: MIT */
#ifndef SITU_DEVICE_PROFILE_H
#define SITU_DEVICE_PROFILE_H

#include "base/text.h"
#include "base/thread.h"
#include "situ/profile.h"
#include "situ/sys/backend.h"

/* The profile that this thread records; NULL: none. */
extern SITU__THREAD_LOCAL situ_profile *situ__profiling;
static inline bool situ__is_profiled(void) { return __builtin_expect(situ__profiling != NULL, 0); }

/* ---- recording: only if situ__is_profiled ---- */

/* The next event begins now. */
void situ__profile_start(void);
/* They end the event: wait for the device, unless the profile leaves its queue alone, and return what it reports. */
situ_status situ__profile_work(const char *op, situ_device device, const situ_work *work);
situ_status situ__profile_transfer(const char *op, situ_device from, situ_device to, uint64_t bytes);
situ_status situ__profile_replay(const char *op, situ_device device, uint64_t bytes, double operations);

/* Number of the running module's path, for a node of the tape; 0: none. */
uint16_t situ__profile_module(void);
/* From now on work outside of modules belongs to this one, as its backward. Returns the one before. */
uint16_t situ__profile_enter(uint16_t module);

/* ---- costs (cost.c), as situ_profile_event defines them ---- */

uint64_t situ__work_bytes(const situ_work *work);
double situ__work_operations(const situ_work *work);

/* ---- what was recorded ---- */

typedef struct situ__event {
  double begin, end;    /* seconds since the profile began */
  uint64_t bytes, used; /* used: on the device, at its end */
  double operations;
  const char *algorithm; /* or NULL */
  situ_device device, from;
  uint16_t name, module, row; /* numbers of texts; row: the name with the algorithm, where there is one */
  uint8_t verb;               /* a situ_verb, or: */
} situ__event;
enum { SITU__EVENT_TRANSFER = SITU_VERBS, SITU__EVENT_REPLAY, SITU__EVENT_VERBS };

struct situ_profile {
  uint32_t head;
  bool queued, failed;        /* failed: an event was lost for lack of memory */
  uint16_t within;            /* the module whose backward runs */
  double began, ended, start; /* on the clock of situ__seconds */
  const char *algorithm;      /* of the event that has begun */
  situ__event *event;
  int64_t count, capacity;
};

/* For kernels: by which algorithm they do their work. Static text. */
static inline void situ__profile_algorithm(const char *name) {
  if (situ__is_profiled()) situ__profiling->algorithm = name;
}

/* Returns false after recording an error. */
bool situ__profile_given(const char *op, const situ_profile *profile);
/* The text of a number: valid for ever. */
const char *situ__profile_text(uint16_t number);
const char *situ__event_verb(const situ__event *event);
static inline double situ__event_seconds(const situ__event *event) { return event->end - event->begin; }

#endif
