/* Rows of the nodes that branches and loops are made of.
   SPDX-License-Identifier: MIT */
#ifndef SITU_PROGRAM_FLOW_H
#define SITU_PROGRAM_FLOW_H

#include "base/fail.h"
#include "program.h"

/* Whether a branch runs: what `situ__flow_then` and `situ__flow_else` do. */
bool situ__flow_choose(situ__op_call *c, bool wanted, situ__value *out);
/* Arguments of the third: the guard of the then branch, and a result of each. */
extern const situ__op_row situ__flow_then, situ__flow_else, situ__flow_either;

/* The nodes of a branch that a condition chooses: those after `at`, which begins it, up to `otherwise`, then those of
   the other one up to `joins`, then nodes that give either result up to `end`. */
typedef struct situ__flow_region {
  int32_t otherwise, joins, end;
} situ__flow_region;
situ__flow_region situ__flow_find(const situ__program *p, int32_t at);

/* What writes down a run without values is told of the branches, both of which run. */
typedef struct situ__flow_trace {
  int32_t guard; /* of the calls that follow; 0: none */
  /* Adds a condition. Returns the guard of the branch that it chooses; 0 on error. */
  int32_t (*branch)(struct situ__flow_trace *t, situ_tensor *condition, bool wanted);
  /* Notes that `result` is the value of one branch or of the other; guard: of the first. */
  bool (*join)(struct situ__flow_trace *t, int32_t guard, situ_tensor *const value[2], situ_tensor *result);
} situ__flow_trace;
extern SITU__THREAD_LOCAL situ__flow_trace *situ__flow_tracing; /* NULL: none */

/* How often a loop runs, by its trip count or by the length of what it scans; an element of that; what iterations
   gave. */
extern const situ__op_row situ__loop_count, situ__scan_count, situ__scan_element, situ__loop_collected;
/* The nodes that begin a loop and an iteration, and their arguments. Results: the iteration's number, the condition,
   and what is carried. */
extern const situ__op_row situ__loop_begin, situ__loop_next;
enum {
  SITU__LOOP_COUNT,
  SITU__LOOP_COND,
  SITU__LOOP_CARRIED,
  SITU__LOOP_SCANNED,
  SITU__LOOP_LISTS, /* the values that collect what is scanned */
  SITU__LOOP_COUNTER,
  SITU__LOOP_GUARD,
  SITU__LOOP_RANKS, /* of the first two results */
  SITU__LOOP_ARGS
};

#endif
