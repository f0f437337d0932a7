/* The room optim's own: what an optimiser is made of.
   SPDX-License-Identifier: MIT */
#ifndef SITU_OPTIM_OPTIM_H
#define SITU_OPTIM_OPTIM_H

#include "base/busy.h"
#include "base/handle.h"
#include "situ/optim.h"
#include "situ/sys/op.h"

typedef struct situ__group {
  double value[SITU_OPTIM_FIELDS];
  double initial_lr; /* set by the first scheduler */
  bool has_initial_lr;
  int64_t first, count; /* of the optimiser's items */
  int64_t active;       /* of those, how many have a gradient in this step */
} situ__group;

struct situ_optim {
  uint32_t head;
  int32_t refs; /* the program's, until situ_optim_free; a scheduler's or scaler's */
  situ_optimizer_rule rule;
  uint64_t busy; /* base/busy.h: the mark of what is not a parameter */
  double defaults[SITU_OPTIM_FIELDS];
  situ__group *groups;
  int group_count;
  situ_optimizer_tensors *items;  /* parameter, state and steps taken; gradients are looked up at each step */
  situ_optimizer_tensors *active; /* room for those that have a gradient in this step */
  char **names;
  bool *registered; /* of each parameter: a module had it since it was added */
  int64_t count;
};

typedef struct situ__field {
  const char *name;
  unsigned rules; /* bit 1 << situ_optimizer_rule: who has it */
  double otherwise[SITU_RULE_RMSPROP + 1];
  size_t option, param; /* offsets in situ_optim_options and situ_optimizer_params */
  bool flag;
} situ__field;
#define SITU__NO_PARAM SIZE_MAX /* for param: the kernels know nothing of it */
extern const situ__field situ__optim_fields[SITU_OPTIM_FIELDS];

static inline bool situ__optim_given(const char *op, const situ_optim *o) {
  return situ__valid(op, "optimiser", o, SITU__AN_OPTIMISER);
}
/* One owner fewer: what holds an optimiser keeps it working after situ_optim_free. */
void situ__optim_let_go(situ_optim *o);
/* "sgd", "adam", ...: the op in messages. */
const char *situ__optim_op(const situ_optim *o);
static inline bool situ__optim_has(const situ_optim *o, situ_optim_field f) {
  return situ__optim_fields[f].rules >> o->rule & 1;
}
/* torch's name of the k-th state; NULL: the rule has none. */
const char *situ__optim_state_name(const situ_optim *o, int k);
/* Is this parameter, in a group with these values, stepped through an f32 master? */
bool situ__optim_has_master(const situ_tensor *param, const double *value);
/* Does a group with these values use the k-th state? */
bool situ__optim_uses(const situ_optim *o, const double *value, int k);
/* A step whose gradients are multiplied by grad_scale first, in the step's own kernel. */
situ_status situ__optim_step_scaled(situ_optim *o, double grad_scale);
/* What other threads do meanwhile (busy.c): both return false after recording that one is in the way. A call that reads the
   optimiser and its parameters (end: situ__use_end), and one that changes them. */
bool situ__optim_use(const char *op, const situ_optim *o, situ__use *use);
bool situ__optim_claim(const char *op, const situ_optim *o, situ__claim *claim);
/* A change of hyperparameters alone. */
bool situ__optim_change(const char *op, const situ_optim *o, situ__claim *claim);
/* Are all values in range? False: recorded. */
bool situ__optim_valid(const situ_optim *o, const double *value);

#endif
