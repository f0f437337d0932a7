/* plan: devices of a profile. They have a size, dtypes and the cpu's verbs for dry runs; nothing is stored or computed.
   SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <stdlib.h>

#include "backend/plan/plan.h"
#include "base/fail.h"
#include "base/mutex.h"
#include "base/problem.h"
#include "situ/sys/plan.h"

static situ__mutex lock = SITU__MUTEX_INIT;
static situ__plan plan; /* guarded by lock */
static situ_backend backend;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int count(const char **reason) {
  situ__mutex_lock(&lock);
  const int there = plan.count;
  situ__mutex_unlock(&lock);
  *reason = there ? "planned by a profile, for preflight and fit"
                  : "none is planned (SITU_PLAN=\"2 x 24 GiB\" in the environment, or situ_plan_devices)";
  return there;
}

static situ_status info(int index, situ_device_properties *out) {
  situ__planned d = { 0 };
  situ__mutex_lock(&lock);
  const bool there = index < plan.count;
  if (there) d = plan.device[index];
  situ__mutex_unlock(&lock);
  *out = (situ_device_properties){ .memory_total = d.memory,
                                   .dtypes = ((1u << SITU_DTYPES) - 2) & ~d.missing,
                                   .copy_rate = d.copy_rate };
  (void)snprintf(out->name, sizeof out->name, "planned device");
  return there ? SITU_OK : SITU_E_ARG;
}

static situ_status refuse(const char *op, int index) {
  return situ__fail(SITU_E_UNSUPPORTED, op,
                    "plan:%d is planned, not here: it holds no tensor. situ_place_check and situ_place_fit run a model "
                    "for it; make the model on \"meta\" if it does not fit on this machine",
                    index);
}

static situ_status alloc(int index, size_t bytes, void **data) {
  (void)bytes;
  *data = NULL;
  return refuse("alloc", index);
}

/* No storage has memory, so that these are not called. */
static void release(int index, void *data, size_t bytes) { (void)index, (void)data, (void)bytes; }
static situ_status copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  (void)data, (void)at, (void)host, (void)bytes;
  return refuse("copy", index);
}
static situ_status copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  (void)data, (void)at, (void)host, (void)bytes;
  return refuse("copy", index);
}
static situ_status launch(int index, const situ_work *work) { return refuse(situ__verb_name(work->verb), index); }
static situ_status synchronize(int index) { return (void)index, SITU_OK; }

static void open_plan(void) {
  const char *profile = getenv("SITU_PLAN"), *at, *bad = profile ? situ__plan_read(profile, &plan, &at) : NULL;
  if (bad) {
    plan.count = 0;
    situ__log("SITU_PLAN=\"%.80s\" is ignored: at \"%.20s\": %s", profile, at, bad);
  }
  const situ_backend *cpu = situ__backend((situ_device){ SITU_CPU, 0 });
  backend = (situ_backend){ .abi = SITU_BACKEND_ABI,
                            .size = sizeof backend,
                            .kind = SITU_PLAN,
                            .name = "plan",
                            .count = count,
                            .info = info,
                            .alloc = alloc,
                            .free = release,
                            .copy_in = copy_in,
                            .copy_out = copy_out,
                            .synchronize = synchronize,
                            .offers = cpu->offers,
                            .addressable = true };
  for (int verb = 0; verb < SITU_VERBS; verb++)
    if (cpu->kernel[verb] && verb != SITU_VERB_PACK) backend.kernel[verb] = launch; /* as sim: peaks are the same */
}

const situ_backend *situ__plan_backend(void) {
  (void)pthread_once(&once, open_plan);
  return &backend;
}

situ_status situ_plan_devices(const char *profile) {
  static const char op[] = "plan_devices";
  situ__plan read;
  const char *at;
  if (!profile) return situ__null(op, "profile");
  (void)situ__plan_backend(); /* SITU_PLAN first */
  const char *bad = situ__plan_read(profile, &read, &at);
  if (bad) {
    char full[SITU__SHOWN_MAX], rest[SITU__SHOWN_MAX];
    return situ__fail(SITU_E_ARG, op, "\"%s\", at \"%s\": %s; a profile reads \"2 x 24 GiB, no f64, 12 GB/s\"",
                      situ__shown(profile, full), situ__shown(at, rest), bad);
  }
  situ__mutex_lock(&lock);
  plan = read;
  situ__mutex_unlock(&lock);
  return SITU_OK;
}
