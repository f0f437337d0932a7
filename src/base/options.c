/* Reading structs of options of another size.
   SPDX-License-Identifier: MIT */
#include "base/options.h"

#include <string.h>

#include "base/fail.h"

bool situ__options_read(const char *op, const char *defaults_name, const void *given, void *own, size_t size) {
  size_t has;
  if (!given) return true;
  memcpy(&has, given, sizeof has);
  if (has > size)
    return situ__fail(SITU_E_ARG, op, "options.size is %zu, and this library knows %zu bytes: begin with %s()", has,
                      size, defaults_name),
           false;
  if (has < sizeof has || has % sizeof has != 0) /* no struct has such a size: it could end within a pointer */
    return situ__fail(SITU_E_ARG, op, "options.size is %zu: begin with %s()", has, defaults_name), false;
  memcpy(own, given, has);
  memcpy(own, &size, sizeof size);
  return true;
}
