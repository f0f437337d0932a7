/* Binds the named arguments of a call to the parameters of its row.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_BIND_H
#define SITU_PROGRAM_BIND_H

#include "base/text.h"
#include "program.h"

typedef struct situ__named_arg {
  const char *name;
  situ__arg arg;
} situ__named_arg;

/* Checks the arguments and sets *out to one for each parameter. Returns false with the reason in problem. */
bool situ__bind_args(situ__arena *arena, const situ__op_row *row, const situ__named_arg *given, int count,
                     const situ__arg **out, situ__text *problem);

int situ__op_parameters(const situ__op_row *row); /* their number, without the `out` that comes last */
/* The type of parameter k of a row, and its name, which does not end with a NUL; 0: there is none. */
char situ__op_parameter(const situ__op_row *row, int k, const char **name, int *length);
/* Whether ATen takes it by name only. */
bool situ__op_by_name_only(const situ__op_row *row, int k);

#endif
