/* A cuda:0 that computes with the cpu's kernels and lowers every work as a GPU does, but launches nothing: work that
   asks for a kernel which situ_kernels does not list fails and names it. So any test can tell whether the list is
   complete, on a machine without a GPU, a toolkit or a compiler for it.
   SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend/lower/list/list.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;

static void make_list(void) {
  situ__list_all();
  situ__list_close();
}

static int count(const char **reason) {
  *reason = "the list of kernels, computed by the cpu";
  return 1;
}

static situ_status info(int index, situ_device_properties *out) {
  (void)index;
  *out = (situ_device_properties){ .dtypes = (1u << SITU_DTYPES) - 2, .memory_total = UINT64_C(1) << 34 };
  (void)snprintf(out->name, sizeof out->name, "the list of kernels");
  return SITU_OK;
}

static situ_status allocate(int index, size_t bytes, void **data) {
  (void)index;
  *data = aligned_alloc(64, (bytes + 63) / 64 * 64);
  return *data ? SITU_OK : SITU_E_NOMEM;
}

static void release(int index, void *data, size_t bytes) {
  (void)index, (void)bytes;
  free(data);
}

static situ_status copy_in(int index, void *data, size_t at, const void *host, size_t bytes) {
  (void)index;
  memcpy((char *)data + at, host, bytes);
  return SITU_OK;
}

static situ_status copy_out(int index, const void *data, size_t at, void *host, size_t bytes) {
  (void)index;
  memcpy(host, (const char *)data + at, bytes);
  return SITU_OK;
}

static situ_status synchronize(int index) {
  (void)index;
  return SITU_OK;
}

static situ_status lower_and_compute(situ_status (*lower)(int, const situ_work *), const situ_work *work) {
  (void)pthread_once(&once, make_list);
  const situ_status status = lower(0, work);
  return status == SITU_OK ? situ__host->reference(work) : status;
}

#define KERNEL(verb, name)                                          \
  static situ_status run_##name(int index, const situ_work *work) { \
    (void)index;                                                    \
    return lower_and_compute(situ__lower_##name, work);             \
  }
SITU__LOWERED_VERBS(KERNEL)

bool situ_module_start(const situ_host *host) { return situ__lower_start(host, &situ__list_targets); }

#define SLOT(verb, name) [SITU_VERB_##verb] = run_##name,
const situ_backend situ_module_backend = {
  .abi = SITU_BACKEND_ABI,
  .size = sizeof situ_module_backend,
  .kind = SITU_CUDA,
  .name = "cuda",
  .count = count,
  .info = info,
  .alloc = allocate,
  .free = release,
  .copy_in = copy_in,
  .copy_out = copy_out,
  .synchronize = synchronize,
  .kernel = { SITU__LOWERED_VERBS(SLOT) },
  .offers = situ__lower_offers,
  .addressable = true,
};
