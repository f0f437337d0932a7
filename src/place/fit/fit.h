/* Internals of situ_place_fit: parts of a model that stay whole, the calls of its forward, and a search over maps.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PLACE_FIT_INSIDE_H
#define SITU_PLACE_FIT_INSIDE_H

#include "place/preflight/check.h"
#include "situ/sys/op.h"

enum {
  SITU__FIT_UNITS = 64,   /* bits of a mask; more parts are joined */
  SITU__FIT_DEVICES = 64, /* with a limit */
  SITU__FIT_PLACES = 80   /* and others, that inputs are on */
};

/* ---- flow.c: what is placed, and what depends on it ---- */

/* A parameter or buffer, under each of its paths, in the order of a walk. */
typedef struct situ__fit_tensor {
  char *path;
  int64_t part; /* until the parts are joined: their number; then the unit */
  const situ_storage *storage;
} situ__fit_tensor;

/* A value of the profiled forward: memory that calls read and write. */
typedef struct situ__fit_value {
  int32_t unit;  /* of a parameter or buffer; -1: another value */
  int32_t place; /* of an input; -1: where the call that made it runs; -2: not known yet */
} situ__fit_value;

typedef struct situ__fit_operand {
  int64_t value;
  uint64_t bytes;
  bool part;  /* a parameter or buffer, which decides a draw */
  bool twice; /* its gradient is copied back */
} situ__fit_operand;

/* A call that has several operands, or results that others read. */
typedef struct situ__fit_call {
  int64_t first, count; /* operands */
  int64_t module;       /* that runs: index; -1: none */
  int written;          /* operand that cannot move; -1: none */
  int outs;
  int64_t out[SITU_RESULTS];
} situ__fit_call;

/* A module that makes calls: where its tensors are decides a draw. */
typedef struct situ__fit_module {
  int64_t outer; /* index; -1: none */
  int32_t tensors[SITU__FIT_UNITS];
} situ__fit_module;

typedef struct situ__flow {
  situ__fit_tensor *tensor;
  situ__fit_value *value; /* by the number of the storage in the run */
  situ__fit_operand *operand;
  situ__fit_call *call;
  situ__fit_module *module;
  situ__map by_path; /* hash of a path -> 1 + index of a tensor or module */
  int64_t tensors, tensor_capacity, values, value_capacity, operands, operand_capacity, calls, call_capacity, modules,
      module_capacity;
  int units;
  uint64_t bytes[SITU__FIT_UNITS]; /* of parameters and buffers */
  int64_t begins[SITU__FIT_UNITS]; /* the first call that reads the unit; units are in this order */
  situ_device place[SITU__FIT_PLACES];
  uint64_t inputs[SITU__FIT_PLACES]; /* bytes of inputs there */
  int devices, places;               /* with a limit; and others */
  bool failed;                       /* out of memory */
} situ__flow;

/* Finds the parts of a module. Returns false after recording an error. Free the flow in any case. */
bool situ__flow_parts(situ__flow *f, situ_nn_module *m, const situ_place_fit_options *options);
/* Notes a call of the profiled run. */
void situ__flow_note(situ__flow *f, const situ_call *c, bool differentiated);
/* The same of work outside of a call: a sum of two tensors without a gradient, say, takes a shorter path. */
void situ__flow_note_work(situ__flow *f, const situ_work *work);
/* Behind the profiled run: joins parts into units, in the order of their first use. */
void situ__flow_join(situ__flow *f);
void situ__flow_free(situ__flow *f);

/* ---- search.c ---- */

/* A dry run has shown: a device that has these units, or more of them, needs so much memory. */
typedef struct situ__fit_need {
  uint64_t units;           /* bits */
  int device;               /* where it was seen */
  uint64_t there, anywhere; /* bytes: of other devices without inputs */
} situ__fit_need;

typedef struct situ__search {
  const situ__flow *flow;
  uint64_t limit[SITU__FIT_DEVICES];
  situ__fit_need *need;
  uint8_t (*refused)[SITU__FIT_UNITS]; /* maps that cannot run */
  int64_t needs, need_capacity, refusals, refused_capacity;
  uint8_t at[SITU__FIT_UNITS], best[SITU__FIT_UNITS]; /* device of each unit */
  uint8_t *where;                                     /* place of each value */
  uint64_t least;                                     /* bytes that the best copies */
  double scale;  /* a run has at least so much memory for each byte of parameters: 1, or more as a guess */
  double ratio;  /* of the last run, over all devices */
  int64_t steps; /* left */
} situ__search;

/* Finds the map that copies fewest bytes, and less than the bound, of those that no known need rules out. Returns false
   if there is none. */
bool situ__search_run(situ__search *s, uint64_t bound);
/* Notes what a run with s->best needs on each device. Returns false when memory runs out. */
bool situ__search_learn(situ__search *s, const situ_place_report *report);
/* Rules out s->best alone. */
bool situ__search_refuse(situ__search *s);

#endif
