/* Copies elements of one size, whatever their dtype.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BACKEND_CPU_MOVE_H
#define SITU_BACKEND_CPU_MOVE_H

#include <stdint.h>

/* Copies n elements of 1, 2, 4 or 8 bytes from x to y; strides are in bytes, and may be 0 or negative. */
void situ__cpu_move(int64_t size, char *y, int64_t y_step, const char *x, int64_t x_step, int64_t n);

#endif
