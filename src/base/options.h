/* Structs of options that begin with `size_t size`, so that 0 in any other field is 0.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_OPTIONS_H
#define SITU_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

/* Copies the fields of `given`, as many as the caller's header had, over `own`, which holds the defaults and has `size`
   bytes; NULL keeps them. Returns false after recording that `given` does not begin with a size that
   defaults_name ("situ_optim_adam_defaults") sets: 0, or more than this library knows. */
bool situ__options_read(const char *op, const char *defaults_name, const void *given, void *own, size_t size);

#endif
