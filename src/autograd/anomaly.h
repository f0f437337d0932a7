/* Which recorded call's gradient is NaN.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_ANOMALY_H
#define SITU_AUTOGRAD_ANOMALY_H

#include "autograd/tape.h"

typedef struct situ__anomaly_mode {
  bool detects, checks_nan;
} situ__anomaly_mode;
extern SITU__THREAD_LOCAL situ__anomaly_mode situ__anomaly;

/* Where the call that is recorded now was made. NULL after recording an error. */
struct situ__origin_of_call *situ__anomaly_origin(const char *op);
/* Returns false after recording an error: a gradient that n's backward has computed is NaN. */
bool situ__anomaly_check(const char *op, const situ__node *n, situ_tensor *const *dx);

#endif
