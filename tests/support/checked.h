/* Looks at every public call of every test: CMake has each include this file and the macros of tools/api_table, which stand for
   the functions. An error was recorded in the call if and only if its result says so, and on an error no operand has changed.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_CHECKED_H
#define SITU_TEST_CHECKED_H

#include "support/api/api.h"

enum { CHECKED_OPERANDS = 6 };

typedef struct checked_call {
  const char *name;
  uint64_t errors; /* of this thread so far */
  bool failing;    /* an error was recorded before: the call may hand it on */
  int count;
  struct {
    const char *name;
    const situ_tensor *tensor;
    uint64_t values;
  } operand[CHECKED_OPERANDS];
} checked_call;

void checked_begin(checked_call *call, const char *name);
/* An operand whose values must be the same after an error. */
void checked_keep(checked_call *call, const char *name, const situ_tensor *tensor);
void checked_end(checked_call *call, api_result kind, const void *result);

/* How many calls broke one of the rules since it was last asked. */
int checked_complaints(void);

#ifdef SITU_TEST_THREADS /* other threads make and release tensors meanwhile */
#define checked_keep(call, name, tensor) ((void)0)
#endif

#endif
