/* What every file of kernels begins with: what does not depend on the types that a kernel is for. The files are made by
   cmake/kernels.cmake.
   SPDX-License-Identifier: MIT */
#define GROUP_SIZE 256
#define ON_CPU 0
#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/convert.h"
#include "kernels/params.h"
#include "kernels/whole.h"
#include "kernels/random.h"

/* Follows each kernel: what else there should be of it. */
#ifndef ENTRY
#define ENTRY(symbol)
#endif
