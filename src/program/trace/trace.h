/* situ_export: a program made of the calls of a module.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_TRACE_H
#define SITU_PROGRAM_TRACE_H

#include "base/map.h"
#include "base/handle.h"
#include "program/graph/build.h"
#include "program/graph/flow.h"
#include "situ/sys/dry.h"
#include "situ/sys/layers.h"
#include "situ/sys/op.h"

/* A tensor whose value in the program is known. Tensors of one storage at one place are one list. */
typedef struct situ__traced {
  situ_tensor *tensor; /* owned */
  int32_t value;
  int32_t older; /* -1: none */
} situ__traced;

/* A write to a storage of the run outside of an op's call, as a factory makes: it is done afterwards. */
typedef struct situ__filled {
  int32_t guard;      /* of the first write: where the tensor was made */
  int32_t next, last; /* the next write to the storage, -1: none; of the first write: the last one */
  bool constant;      /* of the first write: the storage is a constant's */
  bool known;         /* a work without operands; else its values are not those of each run */
  situ_work work;
  situ_view_desc out;
} situ__filled;

/* A constant of the program: a part of its module. */
typedef struct situ__constant {
  situ_tensor *tensor; /* owned: what the calls read */
  int32_t value;
  bool filled; /* by the writes of the run to its storage; else the tensor has values */
} situ__constant;

/* A loop whose body is being traced. */
typedef struct situ__traced_loop {
  struct situ__traced_loop *outer;
  situ__arg count;              /* of what it scans; or of no limit */
  int32_t guard, counter, *own; /* guard 0: it has not begun */
  int carried;                  /* of own, beside two */
  situ__arg lists;
  const int32_t *scanned;
  int element; /* of the next one */
} situ__traced_loop;

typedef struct situ__trace {
  situ_export_trace base; /* first: its callbacks get it */
  situ__flow_trace flow;
  situ__traced_loop *loop; /* the innermost */
  bool joins;              /* values of branches are read */
  bool loops, looped;      /* they are traced as such; there was one */
  const char *op;
  situ_nn_module *module;
  const situ_tree *inputs;
  struct situ__trace_sizes *sizes; /* of the inputs in this run; NULL: their own (sizes.h) */
  bool taken, whole;               /* parts and inputs are in the program; all calls too */
  bool copies;                     /* each run begins with copies of filled constants, */
  bool writes;                     /* as a call writes to one, or the caller may */
  situ__program *program;
  situ__map oldest; /* serial of a storage: place in `traced` of its first tensor, plus 1 */
  situ__map newest; /* hash of a storage and a place in it: place in `traced`, plus 1 */
  situ__traced *traced;
  int32_t traces;
  situ__map first_fill; /* serial of a storage: place in `filled` of the first write, plus 1 */
  situ__filled *filled;
  int32_t fills;
  situ__constant *constant;
  int32_t constants;
  int64_t trace_capacity, fill_capacity, constant_capacity, meta_capacity;
  situ__lacks lacks;
  const situ_call *call; /* being traced */
  bool ended;            /* the forward has: calls are copies for its results */
  int32_t pending;       /* the newest node, while it has no results; -1: none */
  int32_t last;          /* value of the call before, for `^` */
  bool failed;           /* no memory */
  situ__text problem;    /* the first error of the module's forward */
  situ_status status;
} situ__trace;

/* For situ_export_trace.add_call (call.c). */
bool situ__trace_call(situ_export_trace *trace, const char *target, const char *codes, va_list args);

/* For situ__flow_tracing (flow.c). loops: as such, not by all iterations. */
void situ__trace_flow_begin(situ__trace *t, bool loops);
/* Whether what the guard's nodes compute is there where the trace is. */
bool situ__trace_is_visible(const situ__trace *t, int32_t guard);
/* The path of the module that runs; NULL when memory runs out. */
const char *situ__trace_module(situ__trace *t);
/* Space for what the program says of the value. Returns false when memory runs out. */
bool situ__trace_add_meta(situ__trace *t, int32_t value);

/* Runs the module once, and writes its calls to t->program. Returns false after recording an error. */
bool situ__trace_run(situ__trace *t);
/* Records an error that says why the run has no program, unless there is one. Returns false. */
bool situ__trace_explain(const situ__trace *t);
void situ__trace_free(situ__trace *t);
/* The values of a constant, on the module's device; NULL after recording an error. */
situ_tensor *situ__trace_constant(const situ__trace *t, const situ__constant *k);

/* The value that a tensor has in the program; constants are added. -1 after noting that it is not known. */
int32_t situ__trace_value(situ__trace *t, situ_tensor *tensor);
/* A new value for a result. -1 when memory runs out. */
int32_t situ__trace_result(situ__trace *t, situ_tensor *tensor, const situ_view_desc *like);
/* Notes why the present call cannot be written. Returns false. */
bool situ__trace_lacks(situ__trace *t, const char *target, const char *why);
/* Gives the newest node its results: the values, -1 for one that is not read. Returns false when memory runs out. */
bool situ__trace_end_node(situ__trace *t, const int32_t *value, int32_t values);

#endif
