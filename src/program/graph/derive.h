/* What a program computes of parameters alone is computed once, and again when one of them has changed: values of nodes
   that depend on nothing else, and the weights that a node has prepacked. A run uses them only while ops compute
   values and nothing else (situ_is_plain), so gradients flow to the parameters as ever.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_DERIVE_H
#define SITU_PROGRAM_DERIVE_H

#include "program.h"

/* Finds lasting nodes, values to keep, and their sources, once the nodes are complete. Returns false when memory runs
   out, with nothing recorded. */
bool situ__program_find_lasting(situ__program *p);

/* What a module keeps. Threads may run the module at once. */
typedef struct situ__derived situ__derived;
situ__derived *situ__derived_new(void); /* NULL when memory runs out, with nothing recorded */
void situ__derived_free(situ__derived *d);

/* One run of a program. */
typedef struct situ__deriving {
  const situ__program *program;
  situ__derived *derived; /* NULL: nothing is kept in this run */
  bool hit;               /* values and prepacked weights are there: lasting nodes need not run */
  situ_tensor **tensor;   /* owned: of each of p->kept, then SITU__PREPACKED_MOST of each node that prepacks */
  struct situ__part_state *source;
  int32_t noted; /* of p->kept, which is in the order of the nodes */
} situ__deriving;

/* Begins a run whose parts are set in `value`: gives it what is kept. Runs without keeping anything if memory runs
   out. */
void situ__deriving_begin(situ__deriving *r, const situ__program *p, situ__derived *d, situ__value *value);
/* Notes results of a lasting node that ran. */
void situ__deriving_note(situ__deriving *r, const situ__program_node *n, const situ__value *value);
/* Ends it; `good`: all nodes ran, so what they computed is kept, unless a source has changed meanwhile. */
void situ__deriving_end(situ__deriving *r, situ_nn_module *root, bool good);

/* The prepacked weights of a node in this run; NULL: none. */
static inline situ_tensor **situ__prepacked_of(const situ__deriving *r, const situ__program_node *n) {
  return r->derived && n->prepacked ? r->tensor + r->program->kepts + (n->prepacked - 1) * SITU__PREPACKED_MOST : NULL;
}

#endif
