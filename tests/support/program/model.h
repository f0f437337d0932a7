/* What autograd must make of a program: which values have a history, by the rules of torch. Nothing here asks situ.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_MODEL_H
#define SITU_TEST_PROGRAM_MODEL_H

#include "support/program/program.h"

/* All views of one base, and the base: they have a history or have none together. detach begins a new one on the same memory. */
typedef struct program_family {
  bool history, leaf, gradient; /* gradient: computed from one, where gradients are recorded */
  bool leaf_view;               /* the leaf is a view: its base is a constant, and so is what a no_grad scope views */
  int memory, rebased, marked;  /* marked: how many writes put a gradient into the memory */
} program_family;

typedef struct program_value {
  int family, rebased, marked; /* the family's counts when the value was made */
  bool no_grad_view, one_of, spread, no_grad_part;
} program_value;

/* Of one call, before it runs. */
typedef struct program_step {
  bool recorded; /* its result depends on what requires a gradient, and it is not in a no_grad scope */
  bool constant[PROGRAM_OPERANDS]; /* the operand is a constant as far as gradients go */
  bool must_refuse;
  bool risky;     /* allowed, but it, or a backward after it, is refused as torch does */
  bool forbidden; /* what torch would make of it is not a derivative: not drawn */
} program_step;

typedef struct program_model {
  int values, families, memories, losses;
  program_value value[PROGRAM_VALUES];
  program_family family[PROGRAM_VALUES];
  bool saved[PROGRAM_VALUES]; /* memory that a backward needs as it is */
  bool freed;                 /* a backward has not retained the graph */
  int fresh;                  /* the value that was made by the last call, and not used since; -1: none */
} program_model;

void program_model_begin(program_model *m, const program *p);
/* What becomes of the call. */
program_step program_model_look(const program_model *m, const program_call *c);
/* And then runs it. */
void program_model_run(program_model *m, const program_call *c);
bool program_requires_grad(const program_model *m, int value);

#endif
