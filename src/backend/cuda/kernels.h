/* Begins every file of kernels: all that does not depend on a kernel's types. cmake/kernels.cmake generates the files.
   SPDX-License-Identifier: MIT */
#define GROUP_SIZE 256
#define ON_CPU 0
#include "kernels/dialect.h"
#include "kernels/half.h"
#include "kernels/convert.h"
#include "kernels/params.h"
#include "kernels/integer.h"
#include "kernels/random.h"
#include "kernels/blocks.h"

/* Follows each kernel; the generated file may define it. */
#ifndef ENTRY
#define ENTRY(symbol)
#endif
