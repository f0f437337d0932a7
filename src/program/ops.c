/* Finds the row of an ATen overload.
   SPDX-License-Identifier: MIT */
#include <string.h>

#include "program/program.h"

const situ__op_row *situ__op_row_of(const char *target) {
  static const situ__op_family *const families[] = { &situ__elementwise_family, &situ__shape_family,
                                                     &situ__layers_family,      &situ__recurrent_family,
                                                     &situ__reduce_family,      &situ__index_family,
                                                     &situ__make_family,        &situ__size_family };
  static const char aten[] = "torch.ops.aten.";
  if (strncmp(target, aten, sizeof aten - 1) == 0) target += sizeof aten - 1;
  for (size_t f = 0; f < sizeof families / sizeof *families; f++)
    for (int i = 0; i < families[f]->count; i++)
      if (strcmp(families[f]->row[i].target, target) == 0) return &families[f]->row[i];
  return NULL;
}
