/* The table of convolution's algorithms.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_CONV_ALGORITHM_H
#define SITU_BACKEND_CPU_CONV_ALGORITHM_H

#include "conv.h"
#include "backend/cpu/common/choice.h"

/* No algorithm calls another: what they share stands in files of its own. */
typedef struct situ__conv_algorithm {
  bool (*suits)(const situ__conv *g);      /* by geometry, dtype and processor alone; NULL: not in this build */
  situ_status (*run)(const situ__conv *g); /* SITU_E_UNSUPPORTED: its values do not suit */
} situ__conv_algorithm;

/* The first row that suits runs; if values do not suit it, the next one. */
typedef struct situ__conv_row {
  const char *name; /* in profiles, and for SITU_CPU_CONV */
  const situ__conv_algorithm *algorithm;
  situ__isa least; /* the lowest instruction set that has it */
  bool flipped;    /* it computes the data's gradient: gets that as a forward pass by flipped weights (flip.c) */
} situ__conv_row;
extern const situ__conv_row situ__conv_rows[];
extern situ__algorithm_choice situ__conv_choice; /* tests force each row */

/* Whether the data's gradient, all but the weights, is a forward pass for a flipped row. */
bool situ__conv_suits_flipped(const situ__conv *g, situ_window *window, situ__conv *flipped);
/* Flips the weights for it, and runs it. */
situ_status situ__conv_run_flipped(const situ__conv *g, const situ__conv_algorithm *algorithm);

#endif
