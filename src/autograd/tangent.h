/* Tangents, the derivatives of values along a direction, in forward mode. They live with a tensor's gradient
   and hooks, until situ_func_jvp ends.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_TANGENT_H
#define SITU_AUTOGRAD_TANGENT_H

#include "autograd/tape.h"

/* Begins forward mode on this thread; false after recording an error: it has begun already. */
bool situ__tangents_begin(const char *op);
/* Ends it, and releases all tangents. */
void situ__tangents_end(void);

/* Returns t's own tangent; NULL: it has none, and is a constant, or a view whose base has one. Borrowed. */
situ_tensor *situ__tangent(const situ_tensor *t);
/* Sets t's tangent, which is retained. Returns false after recording an error. */
bool situ__tangent_set(const char *op, situ_tensor *t, situ_tensor *tangent);
/* Returns true unless t has a tangent, which op would lose; else false after recording an error. */
bool situ__tangent_refuse(const char *op, const situ_tensor *t);

#endif
