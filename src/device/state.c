/* The state of devices: which were lost, and how a failure of a backend becomes an error.
   SPDX-License-Identifier: MIT */
#include "base/fail.h"
#include "base/fork.h"
#include "device/device.h"

bool situ__some_lost;
static bool lost[SITU_DEVICE_KINDS][SITU__DEVICES_MAX];

static bool *lost_flag(situ_device device) {
  return device.kind < SITU_DEVICE_KINDS && device.index < SITU__DEVICES_MAX ? &lost[device.kind][device.index] : NULL;
}

bool situ__device_lost(situ_device device) {
  const bool *flag = lost_flag(device);
  return flag && __atomic_load_n(flag, __ATOMIC_RELAXED);
}

void situ__device_found(situ_device device) {
  bool *flag = lost_flag(device);
  if (flag) __atomic_store_n(flag, false, __ATOMIC_RELAXED);
}

static SITU_COLD situ_status refuse_unusable(const char *op, situ_device device) {
  char name[SITU_DEVICE_NAME_MAX];
  if (situ__forked())
    return situ__fail(SITU_E_STATE, op,
                      "this process is the child of a fork; situ's threads and devices stayed in the "
                      "parent (exec, or fork before the first use of situ)");
  const situ_backend *backend = situ__backend(device);
  const char *why = backend->lost ? backend->lost(device.index) : NULL;
  return situ__fail(SITU_E_LOST, op, "%s is lost%s%s; its tensors can only be freed", situ_device_name(device, name),
                    why ? ": " : "", why ? why : "");
}

situ_status situ__check_usable(const char *op, situ_device device) {
  return situ__forked() || situ__device_lost(device) ? refuse_unusable(op, device) : SITU_OK;
}

situ_status situ__device_failed(const char *op, situ_device device, situ_status status, uint64_t before,
                                const char *what) {
  if (status == SITU_E_LOST) {
    bool *flag = lost_flag(device);
    if (flag) __atomic_store_n(flag, true, __ATOMIC_RELAXED);
    __atomic_store_n(&situ__some_lost, true, __ATOMIC_RELEASE);
  }
  if (situ__error_count() != before) return status; /* the backend has recorded the details */
  if (status == SITU_E_LOST) return refuse_unusable(op, device);
  char name[SITU_DEVICE_NAME_MAX];
  return situ__fail(status, op, "%s on %s failed: %s", what, situ_device_name(device, name), situ_status_name(status));
}

const char *situ__verb_name(situ_verb verb) {
  static const char *const name[SITU_VERBS] = {
    [SITU_VERB_COPY] = "copy",
    [SITU_VERB_FILL] = "fill",
    [SITU_VERB_RANGE] = "range",
    [SITU_VERB_RANDOM] = "random",
    [SITU_VERB_TRIANGLE] = "triangle",
    [SITU_VERB_UNARY] = "unary",
    [SITU_VERB_UNARY_GRAD] = "unary gradient",
    [SITU_VERB_BINARY] = "binary",
    [SITU_VERB_TERNARY] = "ternary",
    [SITU_VERB_REDUCE] = "reduce",
    [SITU_VERB_ARG_REDUCE] = "arg reduce",
    [SITU_VERB_SCAN] = "scan",
    [SITU_VERB_SORT] = "sort",
    [SITU_VERB_GATHER] = "gather",
    [SITU_VERB_SCATTER] = "scatter",
    [SITU_VERB_NONZERO] = "nonzero",
    [SITU_VERB_MATMUL] = "matmul",
    [SITU_VERB_PREPACK] = "prepack",
    [SITU_VERB_CONV] = "convolution",
    [SITU_VERB_POOL] = "pool",
    [SITU_VERB_RESAMPLE] = "resample",
    [SITU_VERB_FFT] = "fft",
    [SITU_VERB_LINALG] = "linear algebra",
    [SITU_VERB_SOFTMAX] = "softmax",
    [SITU_VERB_NORM] = "norm",
    [SITU_VERB_BATCH_NORM] = "batch norm",
    [SITU_VERB_GROUP_NORM] = "group norm",
    [SITU_VERB_NLL] = "nll",
    [SITU_VERB_CELL] = "cell",
    [SITU_VERB_LINEAR] = "linear",
    [SITU_VERB_ATTENTION] = "attention",
    [SITU_VERB_BLOCKS] = "blocks",
    [SITU_VERB_INTEGER] = "integer",
    [SITU_VERB_PACK] = "pack",
    [SITU_VERB_OPTIMIZER] = "optimizer",
  };
  return (unsigned)verb < SITU_VERBS && name[verb] ? name[verb] : "?";
}
