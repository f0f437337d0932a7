/* Opens NCCL when a communicator first asks for it, once per process.
   SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "backend/cuda/nccl.h"

static situ__nccl_table table;
static bool loaded;
static char why[640];

static void load(void) {
  static const char *const name[] = {
#define ROW(result, name, parameters) "nccl" #name,
    SITU__NCCL(ROW)
#undef ROW
  };
  enum { COUNT = sizeof name / sizeof *name };
  situ__nccl_table found;
  _Static_assert(sizeof name == sizeof found, "a row is a pointer");
  int version = 0;
  loaded = situ__cuda_bind("libnccl.so.2", name, COUNT, &found, why, sizeof why);
  if (!loaded) return;
  const int result = found.GetVersion(&version);
  loaded = result == SITU__NCCL_SUCCESS && version >= SITU__NCCL_LEAST;
  if (loaded) table = found;
  else if (result != SITU__NCCL_SUCCESS)
    (void)snprintf(why, sizeof why, "ncclGetVersion: %s", found.GetErrorString(result));
  else /* its versions are numbered in another way before 2.9: 2804 */
    (void)snprintf(why, sizeof why, "version code %d is older than that of 2.14 (%d)", version, SITU__NCCL_LEAST);
}

const situ__nccl_table *situ__nccl_open(const char *op) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  (void)pthread_once(&once, load);
  if (loaded) return &table;
  (void)situ__host->fail(SITU_E_UNSUPPORTED, op,
                         "NCCL cannot be used: %s (install libnccl.so.2, 2.14 or later, where the loader finds it; "
                         "with SITU_CUDA_PATH set, in that directory)",
                         why);
  return NULL;
}
