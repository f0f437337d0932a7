/* Placement: where modules are, checks of a model before it runs, and moves between devices.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_H
#define SITU_PLACE_H

#include "place/check.h"
#include "place/compare.h"
#include "place/draw.h"
#include "place/explain.h"
#include "place/fit.h"
#include "place/lint.h"
#include "place/mend.h"
#include "place/move.h"
#include "place/scratch.h"
#include "place/signature.h"
#include "sys/plan.h"

#endif
