/* Numbers and shapes that the functions of the API accept, for this parameter of the function that is to be called.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_API_NUMBERS_H
#define SITU_TEST_API_NUMBERS_H

#include "support/api/api.h"

double api_number(const api_world *w, const char *name);
int64_t api_integer(const api_world *w, const char *name);
situ_shape api_shape(const api_world *w, const char *name);

#endif
