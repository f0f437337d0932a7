/* Tensors that the functions of the API accept.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_API_SHAPES_H
#define SITU_TEST_API_SHAPES_H

#include "support/api/api.h"

/* A tensor for this parameter of the function that is to be called. */
situ_tensor *api_valid_tensor(api_world *w, const char *parameter);

#endif
