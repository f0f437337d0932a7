/* Forward mode: calls with operands that have tangents.
   SPDX-License-Identifier: MIT */
#ifndef SITU_FUNC_DUAL_H
#define SITU_FUNC_DUAL_H

#include "dispatch/dispatch.h"

/* Runs a call, and sets the tangents of its results. An upcall of dispatch. */
bool situ__dual_run(situ_call *c, bool (*run)(situ_call *call));
/* Returns t's tangent, also of a view whose base has one; NULL: it is a constant. *good turns false after recording an
   error. */
situ_tensor *situ__dual_tangent(situ_tensor *t, bool *good);

#endif
