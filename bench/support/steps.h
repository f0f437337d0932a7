/* Training steps of usual networks on random data: forward, loss, backward, the optimiser's step.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BENCH_STEPS_H
#define SITU_BENCH_STEPS_H

#include "situ/situ.h"

typedef struct training training;

/* mlp, lenet, char_gpt, gpt256, resnet18, lstm, lstm_small, or adamw_16 and adamw_818k, whose steps are the
   optimiser's alone. Returns NULL where the name is another; ends the program after an error, as the rest. The caller
   frees it. */
training *training_new(const char *name);
void training_step(training *t);
void training_free(training *t);

#endif
