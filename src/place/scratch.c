/* Modules whose tensors are in a scratch file, and back.
   SPDX-License-Identifier: MIT */
#include "situ/place/scratch.h"

#include "base/fail.h"
#include "place/place.h"

situ_status situ_nn_to_scratch(situ_nn_module *m, const char *path, const situ_scratch_options *options) {
  static const char op[] = "nn_to_scratch";
  const situ_nn_to_options to = { .device = { SITU_CPU, 0 } };
  if (path && !*path)
    return situ__fail(SITU_E_ARG, op, "path is \"\"; give the name of a new file, in a folder of a local disk");
  return path ? situ__move_module(op, m, &to, &(situ__move_file){ path, options && options->keep })
              : situ__null(op, "path");
}

situ_status situ_nn_unspill(situ_nn_module *m) {
  return situ__move_module("nn_unspill", m, &(situ_nn_to_options){ .map = NULL }, &(situ__move_file){ NULL });
}
