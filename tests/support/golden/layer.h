/* Golden cases of layers, whose inputs state.<name> are torch's state_dict.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TESTS_GOLD_LAYER_H
#define SITU_TESTS_GOLD_LAYER_H

#include <situ/nn.h>

#include "support/golden/run.h"

/* The layer of the case's arguments: of its op's name, or made by the first of the functions that takes all. */
situ_nn_module *gold_layer_new(gold_call *c, const char *functions, const char *settings);
/* The state_dict goes into the module, which the call owns; from then on its parameters are the leaves to look at. */
bool gold_layer_load(gold_call *c, situ_nn_module *m);
/* The state that the case shows as outputs behind its results. */
void gold_layer_show(gold_call *c);
void gold_layer_done(gold_call *c);

/* A row whose adapter makes such a layer. */
#define GOLD_LAYER .done = gold_layer_done, .writes = true

/* Runs data/<family>.gold with the device as the default, so that layers are made there. */
int gold_layer_main(const char *family, const gold_op *ops);

#endif
