/* Trials: a small piece of work of the same family as one that is asked for, computed by the device and by the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_OPENCL_TRIAL_H
#define SITU_BACKEND_OPENCL_TRIAL_H

#include "backend/opencl/opencl.h"

enum { TRIAL_BYTES = 8192, TRIAL_STATES = 5 };

/* What an operand holds before the kernel runs. */
typedef enum trial_values {
  TRIAL_SIGNED, /* floats between -4 and 4; whole numbers that are not 0 */
  TRIAL_GENTLE, /* floats between 0.5 and 1.6, so that long sums and products stay finite */
  TRIAL_CHANCE, /* floats between 0 and 1 */
  TRIAL_INDEX,  /* i64 below `below`, no two beside each other alike */
  TRIAL_ZERO
} trial_values;

/* One operand, on the host and on the device. */
typedef struct trial_operand {
  bool there;
  trial_values values;
  int64_t below;
  situ_view_desc on_host, on_device;
  situ_storage host, device;
  union {
    unsigned char bytes[TRIAL_BYTES];
    double align;
  };
} trial_operand;

typedef struct trial {
  situ_work work; /* the family's, with sizes of its own; operands are filled in when it runs */
  situ_window window;
  situ_optimizer_item item;
  trial_operand in[SITU_WORK_MAX], out[SITU_WORK_MAX], state[TRIAL_STATES];
} trial;

/* Fills a cleared trial from work. False: work is not of a shape that this file knows. */
bool situ__cl_trial_shape(trial *t, const situ_work *work);
/* Writes the host's values, the same on each call. */
void situ__cl_trial_fill(trial_operand *o, int seed);
/* Relative error that rounding explains: that of the operand with the fewest digits. */
double situ__cl_trial_tolerance(const trial *t);
/* Compares an operand with what the device has; false: *where and the two values are the first element that differs. */
bool situ__cl_trial_same(const trial_operand *o, const unsigned char *got, double tolerance, int64_t *where, double *is,
                         double *should);

#endif
