/* Fused optimiser steps: the rules, compiled for every instruction set (isa/optimizer.c).
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_OPTIMIZER_H
#define SITU_BACKEND_CPU_OPTIMIZER_H

#include "isa.h"

#include "kernels/adam.h"

/* Constants of one step: the hyperparameters, and values derived from them and the step count. */
typedef struct situ__step {
  situ_optimizer_rule rule;
  const situ_optimizer_params *params;
  double grad_scale; /* negative if the optimiser maximises */
  situ__step_constants constants;
  bool decoupled; /* weight decay */
  bool first;     /* the parameter's first step */
} situ__step;

/* n elements of parameter, gradient and states, in the compute type; states that the rule does not use are not
   touched. */
typedef struct situ__rules {
  void (*apply[2])(const situ__step *step, int64_t n, void *param, const void *grad, void *const *state);
} situ__rules;

SITU__ISA_DECLARE(situ__rules, situ__rules);

#endif
