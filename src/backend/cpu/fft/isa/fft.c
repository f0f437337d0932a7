/* Fourier transforms, compiled for each instruction set: f32 and f64 from one source.
   SPDX-License-Identifier: MIT */
#include "backend/cpu/fft/fft.h"
#include "backend/cpu/common/isa.h"
#include "backend/cpu/common/isa/loops.h"
#include "base/size.h"

#include <string.h>

enum { LANES = SITU__FFT_LANES, TILE = 16 /* numbers of a line that are loaded or stored at a time */ };

#define FN(name) SITU__ISA_NAME(name##_f32)
#define real float
#include "fft_radix.h"
#include "fft_compute.h"
#undef FN
#undef real

#define FN(name) SITU__ISA_NAME(name##_f64)
#define real double
#include "fft_radix.h"
#include "fft_compute.h"
