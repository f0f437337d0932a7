/* One call on the host and the same call on another device: equal shapes and dtypes, values within a stated tolerance.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_SUPPORT_PARITY_H
#define SITU_TESTS_SUPPORT_PARITY_H

#include "support/calls.h"
#include "support/test.h"

/* Whether only the CPU computes the row's op, by a library that this build lacks. */
bool parity_is_missing(const parity_row *row);
/* Whether the row's op takes whole numbers only. */
bool parity_is_integer(const parity_row *row);

/* Runs a row for every shape and each of these dtypes (bits), on the host and on the device; there every second shape of f32
   and i64 twice, with SITU_TEST_ALL each call. fewer: every second shape of other dtypes; gaps: also with operands that are
   not row-major. Prints what it found.
   Returns how many shapes were computed (of the dtype that had most), -1 if anything differs. */
int parity_run(const parity_row *row, situ_device device, unsigned dtypes, bool fewer, bool gaps);

/* Runs a row on the device with operands of the same values in several orders of memory, row-major ones first: the
   results must be the same, to the row's tolerance. Returns how many shapes were computed, -1 if anything differs. */
int parity_layouts(const parity_row *row, situ_device device, situ_dtype dtype);

/* A floating-point environment of the thread that calls. */
typedef struct parity_environment {
  const char *name;
  void (*begin)(void);
  bool (*is_set)(void);
} parity_environment;
/* Runs a row for each shape in the default environment, and so that its calls are made in each other one: the bits must
   be the same, and the environment afterwards what it was. Returns how many shapes were computed, -1 if anything
   differs. */
int parity_in(const parity_row *row, situ_device device, situ_dtype dtype, const parity_environment *environments,
              int count);

#endif
