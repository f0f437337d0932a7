/* Trials: a small piece of work of the requested family of kernels, computed by the device and by the host.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_OPENCL_TRIAL_H
#define SITU_BACKEND_OPENCL_TRIAL_H

#include "backend/opencl/opencl.h"

enum { TRIAL_BYTES = 8192, TRIAL_STATES = 5 };

/* Values of an operand before the kernel runs. */
typedef enum trial_values {
  TRIAL_SIGNED, /* floats between -4 and 4; integers other than 0 */
  TRIAL_GENTLE, /* floats between 0.5 and 1.6, so that long sums and products stay finite */
  TRIAL_CHANCE, /* floats between 0 and 1 */
  TRIAL_INDEX,  /* i64 below `below`; neighbours differ */
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
  situ_work work; /* of the same family, with sizes of its own; operands are filled in when it runs */
  situ_window window;
  situ_optimizer_item item;
  trial_operand in[SITU_WORK_MAX], out[SITU_WORK_MAX], state[TRIAL_STATES];
} trial;

/* Fills a zeroed trial from work. Returns false if this file does not know work's shape. */
bool situ__cl_trial_shape(trial *t, const situ_work *work);
/* Writes the host's values, the same on each call. */
void situ__cl_trial_fill(trial_operand *o, int seed);
/* Relative error that rounding explains: that of the operand with the fewest digits. */
double situ__cl_trial_tolerance(const trial *t);
/* Compares an operand with the device's result. Returns false with the first element that differs in *where and the two
   values. */
bool situ__cl_trial_same(const trial_operand *o, const unsigned char *got, double tolerance, int64_t *where, double *is,
                         double *should);

#endif
