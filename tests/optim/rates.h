/* Shared by the tests of schedules.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_OPTIM_RATES_H
#define SITU_TESTS_OPTIM_RATES_H

#include <math.h>

#include "situ/optim.h"
#include "support/optim.h"
#include "support/test.h"

#define COUNT(list) (int)(sizeof list / sizeof *list)

static inline situ_tensor *leaf(void) {
  situ_tensor *p = situ_requires_grad_(T32(SITU_SHAPE(1), 0), true);
  assert_int_equal(situ_set_grad(p, T32(SITU_SHAPE(1), 0)), SITU_OK);
  return p;
}
static inline situ_tree *one(void) { return situ_tree_put(situ_tree_dict(), "p", situ_tree_tensor(leaf())); }
static inline situ_optim *sgd(void) { return situ_optim_sgd(one(), 0.1, OPTIM_MOMENTUM(0.9)); }

static inline double not_a_number(int64_t step, void *payload) { return step == *(int64_t *)payload ? (double)NAN : 1; }

#endif
