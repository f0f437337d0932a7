/* Internals of the comparison of two devices: what is seen of each call of a module.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_COMPARE_INSIDE_H
#define SITU_PLACE_COMPARE_INSIDE_H

#include "base/map.h"
#include "situ/autograd.h"
#include "situ/place/compare.h"

/* How far B's values are from A's, over one or more tensors. */
typedef struct situ__distance {
  double absolute, scale; /* largest difference; largest value */
  double tolerance;       /* by dtype */
} situ__distance;

struct situ__comparing;
/* A tensor that goes into a call of a module, or comes out of it. */
typedef struct situ__seen {
  struct situ__comparing *run;
  struct situ__call_event *event;
  situ_tensor *value, *grad; /* A's, on the host; NULL: none */
  bool again;                /* B has had this gradient */
} situ__seen;

/* The begin or the end of a call; or a result of a part of a program, whose begin and end it is. */
typedef struct situ__call_event {
  char *path;
  int64_t caller;             /* index of the begin of the call that it is in; -1: none */
  int64_t begin, end;         /* indices of both events of this call */
  bool part;                  /* of a program */
  situ__distance value, grad; /* of all tensors */
  situ__distance own; /* at the begin: gradients of parameters, of which `parameter` has the largest difference */
  const char *parameter;
  int64_t count;
  situ__seen seen[];
} situ__call_event;

typedef struct situ__owned {
  char *path; /* of a parameter */
  situ_tensor *grad;
  int64_t event; /* the begin of the first call of its module, or of one around it */
} situ__owned;

typedef enum situ__compare_pass {
  SITU__PASS_A,
  SITU__PASS_B,
  SITU__PASS_VALUES_GIVEN,
  SITU__PASS_GRADIENTS_GIVEN
} situ__compare_pass;

typedef struct situ__comparing {
  const situ_place_compare_options *options;
  situ_nn_module *module;
  const situ_tree *inputs;
  situ_generator random;
  situ__compare_pass pass;
  situ__call_event **event;
  int64_t count, capacity, next;
  int64_t current; /* begin of the innermost call that is running; -1: none */
  int64_t strayed; /* the first event of A that B has not had at its place; -1: none */
  situ__owned *owned;
  int64_t owned_count, owned_capacity, next_owned;
  situ__map first; /* module of A's copy: its first begin, plus 1 as a pointer into `event`'s indices */
} situ__comparing;

/* ---- measure.c ---- */
/* A copy in host memory that the caller owns. NULL after recording an error. */
situ_tensor *situ__on_host(situ_tensor *t);
/* Adds the difference of two host tensors; b NULL, or of another shape: an infinite one. Returns false after recording
   an error. */
bool situ__distance_add(situ__distance *apart, situ_tensor *a, situ_tensor *b);
double situ__distance_relative(const situ__distance *apart);
bool situ__distance_differs(const situ__comparing *c, const situ__distance *apart);

/* ---- watch.c ---- */
/* Runs a copy of the module on a device, and sees or compares what its calls take and give. Returns false after
   recording an error. */
bool situ__compare_run(situ__comparing *c, situ_device device);
void situ__comparing_free(situ__comparing *c);

#endif
