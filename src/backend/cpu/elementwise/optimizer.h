/* Fused optimiser steps: the rules, compiled for every instruction set (isa/optimizer.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_OPTIMIZER_H
#define SITU_BACKEND_CPU_OPTIMIZER_H

#include "backend/cpu/common/isa.h"

#include "kernels/adam.h"

/* One step: the hyperparameters, and what is derived from them and the step count. */
typedef struct situ__step {
  situ_optimizer_rule rule;
  const situ_optimizer_params *params;
  double grad_scale; /* negative if the optimiser maximises */
  situ__step_constants constants;
  bool decoupled; /* weight decay */
  bool first;     /* the parameter's first step */
  /* Steps n elements of parameter, gradient and states, in the compute type; states that the rule does not use are not
     touched. prepare sets it and what it reads, once for all parameters of a dtype and a number of steps. */
  void (*loop)(const struct situ__step *step, int64_t n, void *param, const void *grad, void *const *state);
  char of_loop[24 * sizeof(double)];
} situ__step;

typedef struct situ__rules {
  void (*prepare[2])(situ__step *step);
} situ__rules;

SITU__ISA_DECLARE(situ__rules, situ__rules);

#endif
