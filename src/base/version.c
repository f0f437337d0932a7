/* The version of the running library.
   SPDX-License-Identifier: MIT */
#include "situ/api.h"

const char *situ_version(void) { return SITU_VERSION_STRING; }
