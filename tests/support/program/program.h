/* Random programs of calls, run by situ with gradients and, as functions of their leaves, for central differences.
   A new call is one row of the table in calls.c.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_PROGRAM_H
#define SITU_TEST_PROGRAM_H

#include "support/test.h"

enum {
  PROGRAM_CALLS = 15,
  PROGRAM_LEAVES = 3,
  PROGRAM_VALUES = PROGRAM_LEAVES + PROGRAM_CALLS,
  PROGRAM_OPERANDS = 3,
  PROGRAM_NUMEL = 64
};

/* What a call does, as far as gradients are concerned. */
typedef enum program_effect {
  PROGRAM_MAKES,    /* a result with memory of its own */
  PROGRAM_VIEWS,    /* a view of operand 0 */
  PROGRAM_WRITES,   /* operand 0, in place */
  PROGRAM_DETACHES, /* a view of operand 0 without history */
  PROGRAM_BACKWARD, /* of the weighted sum of operand 0; the value is operand 0 */
  PROGRAM_GRAD,     /* autograd_grad of that sum for one leaf: the value is the gradient */
  PROGRAM_HOOK,  /* that scales the gradient of operand 0, which is a leaf or was just made; the value is operand 0 */
  PROGRAM_RETAIN /* retain_grad of operand 0, which is the value */
} program_effect;

enum {
  PROGRAM_ALIKE = 1u,    /* operands have equal shapes */
  PROGRAM_SAVES = 2u,    /* backward needs operands or results: not to be written afterwards */
  PROGRAM_ONE_OF = 4u,   /* the view is one of several */
  PROGRAM_SPREADS = 8u,  /* elements of the view may share memory */
  PROGRAM_FORGETS = 32u, /* the result takes its shape from operand 0, and nothing else */
  PROGRAM_ROUNDS = 16u,  /* the result is operand 0, rounded: its derivative is 1 */
  PROGRAM_PART = 64u     /* the result may be a view of memory that nothing else has */
};

struct program_call;

typedef struct program_kind {
  const char *name;
  int operands;
  program_effect effect;
  unsigned flags;
  /* Runs the call; parameters come from c->p and c->a and are fitted to the operands' shapes, so that any will do. NULL: refused, or it
     does not fit. */
  situ_tensor *(*run)(situ_tensor *const *in, const struct program_call *c);
  double kink[2]; /* operand 0 is not near either of these, where `kinks` */
  int kinks;
} program_kind;

typedef struct program_call {
  const program_kind *kind;
  int in[PROGRAM_OPERANDS]; /* values: leaves first, then one for each call */
  int p[4];                 /* 0..11 */
  double a;                 /* -1.5..1.5 */
  bool no_grad;             /* inside a no_grad scope */
  char *text;               /* NULL, or room for what the parameters are */
} program_call;

/* What a leaf shows: memory of its own, or part of other memory, of which it is a view. */
typedef enum program_layout {
  PROGRAM_OWN,
  PROGRAM_NARROWED,
  PROGRAM_STRIDED,
  PROGRAM_TRANSPOSED,
  PROGRAM_LAYOUTS
} program_layout;

typedef struct program {
  uint64_t seed;
  int leaves, calls;
  program_layout layout[PROGRAM_LEAVES];
  situ_shape shape[PROGRAM_LEAVES];
  program_call call[PROGRAM_CALLS];
} program;

/* The table; ended by a NULL name. */
extern const program_kind program_kinds[];

/* A program of `seed` that runs without recording. False: it draws near a kink or grows too large; take another seed. */
bool program_make(program *p, uint64_t seed);

typedef enum program_verdict { PROGRAM_RIGHT, PROGRAM_REFUSED, PROGRAM_SKIPPED, PROGRAM_WRONG } program_verdict;
/* Compares gradients with central differences, two runs with each other, refusals with what must and what may be refused. why[256]: of what is wrong;
   or, in a refused one, the error. */
program_verdict program_check(const program *p, char *why);
/* The same, then the second derivative of the last loss, compared with second differences. PROGRAM_SKIPPED: it ends otherwise, or hooks change
   its gradients. */
program_verdict program_check_twice(const program *p, char *why);
/* Leaves out calls while it stays wrong. */
void program_shrink(program *p, program_verdict (*check)(const program *p, char *why));
/* As C-like text. */
void program_print(const program *p);

#endif
