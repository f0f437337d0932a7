/* LBFGS: what a step remembers for the next one, and the line search.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_LBFGS_H
#define SITU_OPTIM_LBFGS_H

#include "situ/optim.h"

/* The state between steps, with torch's names. Its tensors are flat, of all parameters one after the other, and are
   never written: a step puts others in their place, so that a failed step can leave the state as it was. */
typedef struct situ__lbfgs {
  int64_t n_iter, func_evals;
  double t, h_diag, prev_loss;
  situ_tensor *d, *prev_flat_grad; /* NULL before the first iteration */
  int64_t count, capacity;         /* of the lists */
  situ_tensor **old_dirs, **old_stps;
  double *ro;
} situ__lbfgs;

/* A copy that shares the tensors; h NULL: an empty state. NULL after recording an error. */
situ__lbfgs *situ__lbfgs_copy(const situ__lbfgs *h);
/* The dtype of the flat vectors. */
situ_dtype situ__lbfgs_dtype(const situ_tensor *param);
/* NULL is fine. */
void situ__lbfgs_free(situ__lbfgs *h);
/* Appends a pair. Returns false after recording an error. */
bool situ__lbfgs_append(situ__lbfgs *h, situ_tensor *dir, situ_tensor *stp, double ro);
/* Drops the oldest pairs until at most `most` are left. */
void situ__lbfgs_trim(situ__lbfgs *h, int64_t most);
/* Moves the state's new tensors with the optimiser's first parameter from now on. Returns false after recording an
   error. */
bool situ__lbfgs_attach(const situ_optim *o, const situ__lbfgs *h);
/* The state as torch saves it under the first parameter. */
situ_tree *situ__lbfgs_save(const situ__lbfgs *h);
/* Reads it from a flat tree, with copies of its tensors on the first parameter's device, of its dtype. Returns NULL
   after recording an error. */
situ__lbfgs *situ__lbfgs_load(const situ_optim *o, const situ_tree *flat);
/* Number of tensors, and the i-th of them. */
int64_t situ__lbfgs_tensors(const situ__lbfgs *h);
situ_tensor *situ__lbfgs_tensor(const situ__lbfgs *h, int64_t i);
/* One step; *loss (may be NULL) gets the loss before it. On error the parameters and the state are as they were. The
   caller has claimed the optimiser. */
situ_status situ__lbfgs_step(situ_optim *o, situ_optim_closure closure, void *payload, double *loss);

/* A point on the line: how far along the direction, the loss, its derivative by t, and the gradient (owned). */
typedef struct situ__probe {
  double t, loss, slope;
  situ_tensor *grad;
} situ__probe;

typedef struct situ__line {
  bool (*evaluate)(void *payload, double t, situ__probe *at); /* fills *at; false after recording an error */
  void *payload;
  situ__probe start; /* at t = 0 */
  double longest;    /* the largest element of the direction: times t, how far parameters move */
  double tolerance;  /* a bracket within which they move less is not divided further */
  int64_t most;      /* evaluations beyond the first */
  int64_t evals;     /* counts them */
} situ__line;
/* Finds a point that satisfies the strong Wolfe conditions (c1 = 1e-4, c2 = 0.9), beginning at t; the best one found if
   evaluations run out. Returns false after recording an error. */
bool situ__strong_wolfe(situ__line *line, double t, situ__probe *found);

#endif
