/* Copies elements of one size, whatever their dtype.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_MOVE_H
#define SITU_BACKEND_CPU_MOVE_H

#include "backend/cpu/common/loop.h"

/* Copies n elements of 1, 2, 4 or 8 bytes from x to y; strides are in bytes, and may be 0 or negative. */
void situ__cpu_move(int64_t size, char *y, int64_t y_step, const char *x, int64_t x_step, int64_t n);

/* Copies data[1] to data[0], of `size` bytes an element, if y's rows are contiguous and x is contiguous along another
   dimension (transpose.c). Returns false otherwise, and for rows of one number each, as in the gradient of a sum over
   rows: unless they are short, they are filled as fast. */
bool situ__cpu_transpose(const situ__loop *loop, int64_t size);

#endif
