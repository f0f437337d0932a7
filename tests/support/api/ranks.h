/* Valid arguments of functions over ranks: one rank alone, so that no call waits for another.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_API_RANKS_H
#define SITU_TEST_API_RANKS_H

#include "situ/dist.h"
#include "support/api/api.h"

/* A handle of this type; NULL: not one of ranks. */
void *api_ranks_object(api_world *w, const char *pointee, api_owner owner);
/* What such a struct must hold beside zeros. */
void api_ranks_struct(const char *name, void *at);
situ_comm *api_comm(api_world *w, api_owner owner);
situ_dist_zero *api_zero(api_world *w, api_owner owner);

/* Modules (valid.c): the one that this call trains, and one with a Linear "a" in it. */
situ_nn_module *api_trained(api_world *w);
situ_nn_module *api_container(api_world *w);

#endif
