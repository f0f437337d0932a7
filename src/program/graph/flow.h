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

/* What a turn of a loop takes. */
typedef struct situ__flow_turn {
  situ_tensor *cond;                  /* NULL: none */
  situ_tensor *const *carried, **own; /* own: what the body sees of it */
  situ_tensor *const *scanned;        /* what an iteration gives */
  int count, scans;                   /* of `carried` and `own`; of `scanned` or, at the beginning, of the lists */
  int32_t lists;                      /* gets the number of the first list */
} situ__flow_turn;

/* What writes down a run without values is told of the branches, both of which run, and of loops, whose bodies run
   once. All return false or 0 on error. */
typedef struct situ__flow_trace {
  int32_t guard; /* of the calls that follow; 0: none */
  /* The node of a program that runs, or that failed; NULL: none. */
  const situ__program *program;
  const situ__program_node *node;
  /* Adds a condition. Returns the guard of the branch that it chooses. */
  int32_t (*branch)(struct situ__flow_trace *t, situ_tensor *condition, bool wanted);
  /* Notes that `result` is the value of one branch or of the other; guard: of the first. */
  bool (*join)(struct situ__flow_trace *t, int32_t guard, situ_tensor *const value[2], situ_tensor *result);
  /* The loop that begins next scans these along their first dimension. */
  bool (*scan)(struct situ__flow_trace *t, situ_tensor *const *scanned, int count, int64_t most);
  /* Begins a loop. Returns the guard of its body. NULL: loops run as often as they say. */
  int32_t (*loop)(struct situ__flow_trace *t, situ__flow_turn *turn);
  /* Notes the next scanned tensor's element. */
  bool (*element)(struct situ__flow_trace *t, situ_tensor *element);
  bool (*next)(struct situ__flow_trace *t, const situ__flow_turn *turn);
  bool (*collected)(struct situ__flow_trace *t, int32_t list, situ_tensor *result);
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
/* The node that ends the iterations of the loop that node `at` begins. */
int32_t situ__flow_end(const situ__program *p, int32_t at);

/* ---- loops whose body runs once, for all iterations, in a program that is traced or written (once.c) ---- */

bool situ__flow_is_once(const situ__op_call *c);
bool situ__scan_count_once(situ__op_call *c, situ_tensor *const *input, int count, situ__value *out);
situ_tensor *situ__scan_element_once(situ__op_call *c);
situ_tensor *situ__loop_begin_once(situ__op_call *c);
situ_tensor *situ__loop_next_once(situ__op_call *c);
/* Also where it is not known what a condition on values makes of a run without them. */
situ_tensor *situ__loop_collected_once(situ__op_call *c);
/* A number that the body sees: its iteration (k is 0), or the condition. */
situ_tensor *situ__loop_number(const situ__op_call *c, int k, situ_dtype dtype, const void *value);

#endif
