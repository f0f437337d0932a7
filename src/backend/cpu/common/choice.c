/* Which algorithm of a verb the environment forces.
   SPDX-License-Identifier: MIT */
#include "choice.h"

#include "base/fail.h"
#include "base/format.h"

#include <stdlib.h>
#include <string.h>

int situ__choice_read(situ__algorithm_choice *choice) {
  const char *wanted = getenv(choice->variable), *name = NULL;
  int row = wanted && *wanted ? 0 : SITU__CHOICE_FREE;
  while (row >= 0 && (name = choice->name_of(row)) && strcmp(name, wanted) != 0) row++;
  if (row >= 0 && !name) row = SITU__CHOICE_UNKNOWN;
  situ__choice_force(choice, row);
  return row;
}

situ_status situ__choice_refuse(situ__algorithm_choice *choice, const char *op, uint32_t suiting) {
  const int row = situ__choice_of(choice);
  if (row == SITU__CHOICE_FREE) return SITU_E_UNSUPPORTED;
  char list[256] = "";
  size_t length = 0;
  for (int i = 0; choice->name_of(i); i++)
    if (suiting >> i & 1)
      length +=
          (size_t)situ__format(list + length, sizeof list - length, "%s%s", length ? ", " : "", choice->name_of(i));
  const char *value = row == SITU__CHOICE_UNKNOWN ? getenv(choice->variable) : choice->name_of(row);
  return situ__fail(SITU_E_UNSUPPORTED, op, "%s=%s forces an algorithm that %s; for these operands there are: %s",
                    choice->variable, value ? value : "",
                    row == SITU__CHOICE_UNKNOWN ? "does not exist" : "does not suit", list);
}
