/* Profiles: each launch, copy and replay of a thread, with its time.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/fail.h"
#include "base/format.h"
#include "base/handle.h"
#include "base/mutex.h"
#include "base/names.h"
#include "device/device.h"
#include "device/profile/profile.h"

SITU__THREAD_LOCAL situ_profile *situ__profiling;

/* ---- texts ----
   Names of ops and paths of modules have numbers. Nodes of the tape keep them, and may outlive a profile, so texts stay
   for the rest of the process; there are as many as there are ops and modules. */

enum { TEXTS = 65535 };
static situ__mutex lock = SITU__MUTEX_INIT;
static situ__names numbers;
static char **texts; /* texts[number - 1] */
static int32_t text_count;
static int64_t text_capacity;

static int32_t add_text(const char *text) {
  if (text_count == TEXTS || !situ__grow(NULL, &texts, &text_capacity, sizeof *texts, text_count + 1)) return 0;
  char *copy = situ__strdup(text);
  if (!copy) return 0;
  if (!situ__names_put(&numbers, copy, text_count + 1)) {
    situ__free(copy);
    return 0;
  }
  texts[text_count] = copy;
  return ++text_count;
}

/* Returns 0 for "", and if the text has no place, which fails the profile. */
static uint16_t number_of(situ_profile *p, const char *text) {
  if (!*text) return 0;
  situ__mutex_lock(&lock);
  int32_t number = situ__names_get(&numbers, text);
  if (number < 0) number = add_text(text);
  situ__mutex_unlock(&lock);
  if (number <= 0) p->failed = true;
  return number > 0 ? (uint16_t)number : 0;
}

const char *situ__profile_text(uint16_t number) {
  situ__mutex_lock(&lock);
  const char *text = number ? texts[number - 1] : "";
  situ__mutex_unlock(&lock);
  return text;
}

/* ---- events ---- */

/* The name that an error of op would carry, and with the algorithm. */
static void set_names(situ_profile *p, const char *op, situ__event *e) {
  char name[SITU__OP_NAME], row[2 * SITU__OP_NAME];
  const char *of = situ__error_name(op, name);
  e->name = e->row = number_of(p, of);
  if (!e->algorithm) return;
  (void)situ__format(row, sizeof row, "%s (%s)", of, e->algorithm);
  e->row = number_of(p, row);
}

static situ__event *new_event(situ_profile *p) {
  if (!situ__grow(NULL, &p->event, &p->capacity, sizeof *p->event, p->count + 1)) return p->failed = true, NULL;
  return &p->event[p->count++];
}

uint16_t situ__profile_module(void) {
  char path[256] = "";
  situ__device_up.running_module(path, sizeof path);
  const uint16_t running = number_of(situ__profiling, path);
  return running ? running : situ__profiling->within;
}

uint16_t situ__profile_enter(uint16_t module) {
  const uint16_t before = situ__profiling->within;
  situ__profiling->within = module;
  return before;
}

void situ__profile_start(void) {
  situ__profiling->algorithm = NULL;
  situ__profiling->start = situ__seconds();
}

static situ_status wait_for(situ_device device) {
  const situ_backend *backend = situ__backend(device);
  return situ__profiling->queued || !backend->synchronize ? SITU_OK : backend->synchronize(device.index);
}

/* Ends the event that situ__profile_start began. */
static situ_status end_event(const char *op, situ__event e) {
  situ_profile *p = situ__profiling;
  const situ_status status = wait_for(e.device);
  e.begin = p->start - p->began, e.end = situ__seconds() - p->began;
  situ__event *kept = status == SITU_OK ? new_event(p) : NULL;
  if (!kept) return status;
  int64_t used, cached;
  situ__memory_stats(e.device, &used, &cached);
  e.used = used > 0 ? (uint64_t)used : 0;
  e.module = situ__profile_module();
  set_names(p, op, &e);
  *kept = e;
  return SITU_OK;
}

situ_status situ__profile_work(const char *op, situ_device device, const situ_work *work) {
  return end_event(op, (situ__event){ .device = device,
                                      .from = device,
                                      .algorithm = device.kind == SITU_CPU ? situ__profiling->algorithm : NULL,
                                      .verb = (uint8_t)work->verb,
                                      .bytes = situ__work_bytes(work),
                                      .operations = situ__work_operations(work) });
}

situ_status situ__profile_transfer(const char *op, situ_device from, situ_device to, uint64_t bytes) {
  return end_event(op, (situ__event){ .device = to, .from = from, .verb = SITU__EVENT_TRANSFER, .bytes = bytes });
}

situ_status situ__profile_replay(const char *op, situ_device device, uint64_t bytes, double operations) {
  return end_event(
      op, (situ__event){
              .device = device, .from = device, .verb = SITU__EVENT_REPLAY, .bytes = bytes, .operations = operations });
}

/* ---- a profile ---- */

bool situ__profile_given(const char *op, const situ_profile *p) {
  return situ__valid(op, "profile", p, SITU__A_PROFILE);
}

situ_status situ_profile_begin(const situ_profile_options *options) {
  const char *op = "profile_begin";
  if (situ__profiling) return situ__fail(SITU_E_STATE, op, "this thread records a profile already; end it first");
  situ_profile *p = situ__handle_new(SITU__A_PROFILE, sizeof *p);
  if (!p) return situ__no_memory(op, sizeof *p);
  p->queued = options && options->queued;
  p->began = situ__seconds();
  situ__profiling = p;
  return SITU_OK;
}

situ_profile *situ_profile_end(void) {
  const char *op = "profile_end";
  situ_profile *p = situ__profiling;
  if (!p) return situ__fail(SITU_E_STATE, op, "this thread records no profile"), NULL;
  situ__profiling = NULL;
  p->ended = situ__seconds();
  if (!p->failed) return p;
  situ__no_memory(op, (size_t)p->count * sizeof *p->event);
  situ_profile_free(p);
  return NULL;
}

void situ_profile_free(situ_profile *profile) {
  if (!profile || !situ__profile_given("profile_free", profile)) return;
  situ__free(profile->event);
  situ__handle_free(profile, sizeof *profile, NULL);
}
