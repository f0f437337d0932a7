/* Mistakes that real programs make, planted on purpose: each with the issue that it comes from,
   what must find it, and words that its finding must have.
   SPDX-License-Identifier: MIT */
#ifndef SITU_TEST_MISTAKES_H
#define SITU_TEST_MISTAKES_H

#include "situ/optim.h"
#include "support/pairs.h"

/* What one mistake leaves behind: what is to be looked at, and what is to be freed. */
typedef struct planted {
  situ_nn_module *model;
  situ_optim *optims[2];
  int64_t optim_count;
  situ_nn_module *others[4]; /* modules that nobody else frees */
  situ_tensor *kept[4];      /* tensors that are held in the wrong place */
  void *block;               /* of malloc */
  situ_tree *inputs;         /* what the preflight calls the model with */
} planted;

typedef struct mistake {
  const char *name;
  const char *torch; /* an issue of pytorch/pytorch, or the row of semantics.md that tells of several */
  void (*plant)(planted *p);
  int kind;             /* situ_lint_kind; situ_place_problem, or A_COPY */
  int count;            /* the lint: findings of this kind; the preflight: mistakes; 0: one */
  const char *words[4]; /* in the finding's path, text or fix */
} mistake;

/* A word, or NULL behind the last. Without lines of source a finding can only say how far into the program a file is. */
static inline const char *mistake_word(const mistake *m, int number) {
  const char *word = number < 4 ? m->words[number] : NULL;
  return word && strstr(word, ".c") && !test_has_lines() ? "test_place_mistakes+0x" : word;
}

extern const mistake lint_mistakes[], check_mistakes[];
extern const int lint_mistake_count, check_mistake_count;
/* Nothing fails, but a copy between devices is made that nobody meant. */
enum { A_COPY = -1 };
/* How many there are is not the point. */
enum { MANY = -1 };

#endif
