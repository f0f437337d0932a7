/* A field of options that is read only beside its has_ field.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_PAIR_H
#define SITU_BASE_PAIR_H

#include "base/fail.h"

/* Returns false after recording that the field is given without its has_ field. */
static inline bool situ__check_pair(const char *op, const char *field, bool has, int64_t value) {
  if (has || value == 0) return true;
  return situ__fail(SITU_E_ARG, op, "options.%s is %lld, but has_%s is false: set has_%s too, or leave both out", field,
                    (long long)value, field, field),
         false;
}

#endif
