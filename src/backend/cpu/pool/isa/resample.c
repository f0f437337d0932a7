/* Resampling with tables of weights, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/pool/resample.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/isa/loops.h"
#include "base/size.h"

#include <string.h>

#define FN(name) SITU__ISA_NAME(name##_f32)
#define real float
#include "resample_compute.h"
#undef FN
#undef real

#define FN(name) SITU__ISA_NAME(name##_f64)
#define real double
#include "resample_compute.h"
