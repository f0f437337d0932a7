/* Errors that kernels met, with the CPU backend's messages.
   SPDX-License-Identifier: MIT */
#include "backend/lower/lower.h"

situ_status situ__lower_tell(const char *kind, int index, const fault *seen) {
  if (seen->verb == FAULT_DIVISION) {
    const char *op = seen->value == SITU_BINARY_fmod        ? "fmod"
                     : seen->value == SITU_BINARY_remainder ? "remainder"
                                                            : "div";
    return situ__host->fail(SITU_E_ARG, "binary", "was queued on %s:%d and failed there: %s: division by zero", kind,
                            index, op);
  }
  if (seen->verb == FAULT_CHANCE)
    return situ__host->fail(SITU_E_ARG, "random",
                            "was queued on %s:%d and failed there: the probability of element %lld "
                            "is not in 0..1",
                            kind, index, (long long)seen->at);
  const char *verb = situ__host->verb_name((situ_verb)seen->verb);
  long long value = seen->value, at = seen->at, bound = seen->bound;
  if (seen->verb == SITU_VERB_NLL)
    return situ__host->fail(SITU_E_INDEX, verb,
                            "was queued on %s:%d and failed there: index %lld at [%lld] is outside "
                            "0..%lld of %lld classes",
                            kind, index, value, at, bound - 1, bound);
  if (seen->verb == SITU_VERB_POOL)
    return situ__host->fail(SITU_E_INDEX, verb,
                            "was queued on %s:%d and failed there: an index of a maximum lies "
                            "outside of the plane",
                            kind, index);
  return situ__host->fail(SITU_E_INDEX, verb,
                          "was queued on %s:%d and failed there: index %lld at [%lld] is outside "
                          "0..%lld of dimension %lld, whose size is %lld",
                          kind, index, value, at, bound - 1, (long long)seen->dim, bound);
}
