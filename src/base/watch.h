/* What the doctor (src/place/doctor) hears of a program's calls. Nothing watches unless SITU_DOCTOR is set: then a call
   costs one load more.
   SPDX-License-Identifier: MIT */
#ifndef SITU_BASE_WATCH_H
#define SITU_BASE_WATCH_H

#include "situ/error.h"

struct situ_nn_module;
struct situ_tensor;
struct situ_tree;
struct situ_optim;

/* Called on the program's thread, before the call does anything. */
typedef struct situ__watch {
  /* An outermost call of a module, with its input or its inputs; both NULL: it has arguments beside them. */
  void (*called)(struct situ_nn_module *m, struct situ_tensor *input, const struct situ_tree *inputs);
  void (*optimiser)(struct situ_optim *o, bool alive); /* was made; is freed */
  void (*step)(struct situ_optim *o);
  void (*failed)(situ_status status, const char *message, const char *fix); /* an error is reported */
} situ__watch;

/* Set once, before the program's first call; NULL: nothing watches. */
extern __attribute__((visibility("hidden"))) const situ__watch *situ__watching;

#endif
