/* The inputs of autograd_grad, and the nodes that lead to them. The rest of the graph is neither run nor
   freed.
   SPDX-License-Identifier: MIT */
#ifndef SITU_AUTOGRAD_ASKED_H
#define SITU_AUTOGRAD_ASKED_H

#include "autograd/pass.h"
#include "base/map.h"

typedef struct situ__asked {
  int count;
  situ_tensor *const *inputs;
  situ_tensor **found; /* owned; NULL: the result does not depend on it */
  situ__map targets;   /* a leaf among the inputs, or a node that made one: number of the last such input, from 1 */
  int *before;         /* of each input: number of the one before it of the same target, from 1; 0: none */
  situ__map leads;     /* for each node that t depends on: does it depend on a target? */
  uint64_t earliest;   /* nodes with a lower number lead to no target; 0 if a leaf is one */
  bool reached;        /* t depends on a target */
} situ__asked;

/* Finds the nodes between t and the inputs. Returns false after recording SITU_E_NOMEM. */
bool situ__asked_find(situ__asked *a, const char *op, const situ_tensor *t);
/* The same from a node that was recorded since, by a node's backward. */
bool situ__asked_extend(situ__asked *a, const char *op, const situ__node *n);
void situ__asked_free(situ__asked *a);
/* Returns true if the gradient of this operand leads to an input. */
bool situ__asked_leads(const situ__asked *a, const situ__operand *o);
/* Stores the complete gradient of a node's result if it was asked for. */
void situ__asked_found(const situ__asked *a, const situ__node *n, int result, situ_tensor *grad);
/* The same for leaves, at the end of the pass. */
void situ__asked_leaves(const situ__asked *a, const situ__pass *p);

#endif
