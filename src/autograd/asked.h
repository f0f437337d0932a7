/* Floor 3: what autograd_grad asks for, and which calls lead there. The rest of the graph is neither run nor freed.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_ASKED_H
#define SITU_AUTOGRAD_ASKED_H

#include "autograd/pass.h"
#include "base/map.h"

typedef struct situ__asked {
  int count;
  situ_tensor *const *inputs;
  situ_tensor **found; /* owned; NULL: the result does not depend on it */
  situ__map targets;   /* leaves among the inputs, and calls that made one of them */
  situ__map leads;     /* of each call that t depends on: does it depend on a target? */
  bool reached;        /* t depends on one */
} situ__asked;

/* Finds the calls between t and the inputs. False: out of memory, recorded. */
bool situ__asked_find(situ__asked *a, const char *op, const situ_tensor *t);
void situ__asked_free(situ__asked *a);
/* Does the gradient of this operand lead to an input? */
bool situ__asked_leads(const situ__asked *a, const situ__operand *o);
/* A call's result has its whole gradient: kept where it is asked for. */
void situ__asked_found(const situ__asked *a, const situ__node *n, int result, situ_tensor *grad);
/* The same of the leaves, at the end of the pass. */
void situ__asked_leaves(const situ__asked *a, const situ__pass *p);

#endif
